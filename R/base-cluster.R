# Checks of the argument `cluster`.

check_cluster <- function(cluster) {
  if (is.null(cluster)) return(NULL)
  cluster <- as_cluster(cluster)
  if (identical(cluster, "future")) {
    if (requireNamespace("future", quietly = TRUE)) return(cluster)
    stop_argument("cluster", "needs the package future, which is not installed")
  }
  good <- inherits(cluster, "cluster") && length(cluster) > 0
  check_is(good, cluster, "cluster", "NULL, a cluster as parallel::makeCluster() makes it, or \"future\"")
  if (cluster_has_ended(cluster)) stop_argument("cluster", "must not have been stopped (make a new one)")
  cluster
}

# TRUE after stopCluster(), and in fits that were read from a file.
cluster_has_ended <- function(cluster) {
  if (is.character(cluster) || !all(vapply(cluster, has_socket, NA))) return(FALSE)
  is_open <- function(node) {
    open <- tryCatch(getConnection(as.integer(node$con)), error = \(e) NULL)
    identical(attr(open, "conn_id"), attr(node$con, "conn_id"))
  }
  !any(vapply(cluster, is_open, NA))
}

has_socket <- function(node) is.list(node) && inherits(node$con, "sockconn")

# Converts the user's argument to a cluster: list(masters, make) to a nested one.
as_cluster <- function(cluster) UseMethod("as_cluster")
#' @export
as_cluster.default <- function(cluster) cluster
