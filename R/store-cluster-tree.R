# The order in which the parts of shards are merged: a binary tree over their numbers, whoever has them. So a
# worker merges what it has of it, and the bits do not depend on who has what.
#
# A node is c(first, last) of its shards. Of 2^k of them that begin after a multiple of 2^k, the left half is
# merged with the right one; the last nodes may be short.

# f of the first shard of each node that `is_whole`, merged: of single shards, or of what is there already.
fold_tree <- function(node, f, merge, is_whole = \(node) node[1] == node[2]) {
  if (is_whole(node)) return(f(node[1]))
  middle <- node[1] + half_of(node)
  left <- fold_tree(c(node[1], middle - 1), f, merge, is_whole)
  merge(left, fold_tree(c(middle, node[2]), f, merge, is_whole))
}

# Shards of the left half: the largest power of two that leaves some for the right one.
half_of <- function(node) 2^(ceiling(log2(node[2] - node[1] + 1)) - 1)

node_shards <- function(node) node[1]:node[2]

# The largest nodes of which `shards`, in their order, are made up, none of them in two of the nodes that are wanted:
# `within` says for each of `count` shards in which one it is.
tree_cover <- function(shards, within, count) {
  nodes <- list()
  while (length(shards) > 0) {
    node <- largest_node(shards, within, count)
    nodes <- c(nodes, list(node))
    shards <- shards[-seq_len(node[2] - node[1] + 1)]
  }
  nodes
}

# The one that begins with the first of them, of at most so many shards.
largest_node <- function(shards, within, count, most = Inf) {
  first <- last <- shards[1]
  size <- 2
  while (size <= most && (first - 1) %% size == 0 && last < count) {
    end <- min(first + size - 1, count)
    all_there <- shards[end - first + 1] %in% end && within[end] == within[first]
    if (!all_there) break
    last <- end
    size <- 2 * size
  }
  as.double(c(first, last))
}
