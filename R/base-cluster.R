# Is a cluster one that can be used?

check_cluster <- function(cluster) {
  if (is.null(cluster)) return(NULL)
  cluster <- as_cluster(cluster)
  if (identical(cluster, "future")) {
    if (!requireNamespace("future", quietly = TRUE)) stop_argument("cluster", "is \"future\", which is not installed")
    return(cluster)
  }
  good <- inherits(cluster, "cluster") && length(cluster) > 0
  check_is(good, cluster, "cluster", "NULL, a cluster as parallel::makeCluster() makes it, or \"future\"")
  if (cluster_has_ended(cluster)) stop_argument("cluster", "has ended")
  cluster
}

# Of a fit that was read from a file, or used after stopCluster().
cluster_has_ended <- function(cluster) {
  if (is.character(cluster) || !all(vapply(cluster, has_socket, NA))) return(FALSE)
  is_open <- function(node) {
    open <- tryCatch(getConnection(as.integer(node$con)), error = \(e) NULL)
    identical(attr(open, "conn_id"), attr(node$con, "conn_id"))
  }
  !any(vapply(cluster, is_open, NA))
}

has_socket <- function(node) is.list(node) && inherits(node$con, "sockconn")

# A cluster of what the user gave for one.
as_cluster <- function(cluster) UseMethod("as_cluster")
#' @export
as_cluster.default <- function(cluster) cluster
