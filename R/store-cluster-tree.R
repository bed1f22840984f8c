# The order in which values of shards are merged: a binary tree over the numbers of the shards. Bits do not depend on
# which worker has which shard, and workers can merge the nodes that they have.
#
# A node is c(first, last), the numbers of its shards: 2^k shards that begin after a multiple of 2^k. Its value merges
# those of the left and the right half. The last nodes may be shorter.

# Merges the values f(first shard) of the parts of a node for which is_whole(node), by default single shards.
fold_tree <- function(node, f, merge, is_whole = \(node) node[1] == node[2]) {
  if (is_whole(node)) return(f(node[1]))
  middle <- node[1] + half_of(node)
  left <- fold_tree(c(node[1], middle - 1), f, merge, is_whole)
  merge(left, fold_tree(c(middle, node[2]), f, merge, is_whole))
}

# Number of shards in the left half: the largest power of two below the size of the node.
half_of <- function(node) 2^(ceiling(log2(node[2] - node[1] + 1)) - 1)

node_shards <- function(node) node[1]:node[2]

# Divides `shards`, in increasing order, into the largest nodes possible. A node stays within one wanted node: `within`
# is the index of the wanted node, for each of `count` shards.
tree_cover <- function(shards, within, count) {
  nodes <- list()
  while (length(shards) > 0) {
    node <- largest_node(shards, within, count)
    nodes <- c(nodes, list(node))
    shards <- shards[-seq_len(node[2] - node[1] + 1)]
  }
  nodes
}

# The largest node that begins with the first of `shards`, with at most `most` shards.
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
