# The order in which the parts of shards are merged: a binary tree over their numbers, whoever has them. So a
# worker merges what it has of it, and the bits do not depend on who has what.
#
# A node is c(first, last) of its shards. Of 2^k of them that begin after a multiple of 2^k, the left half is
# merged with the right one; the last nodes may be short.

# f of each shard of a node, merged.
fold_tree <- function(node, f, merge) {
  if (node[1] == node[2]) return(f(node[1]))
  middle <- node[1] + half_of(node)
  left <- fold_tree(c(node[1], middle - 1), f, merge)
  merge(left, fold_tree(c(middle, node[2]), f, merge))
}

# Shards of the left half: the largest power of two that leaves some for the right one.
half_of <- function(node) 2^(ceiling(log2(node[2] - node[1] + 1)) - 1)

# The nodes of 2^level shards of `count` in all.
tree_nodes <- function(count, level) pieces_of(count, 2^level)

# Values of all nodes of a level, merged.
merge_nodes <- function(values, merge) fold_tree(c(1, length(values)), \(i) values[[i]], merge)
