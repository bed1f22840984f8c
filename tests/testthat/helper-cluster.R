# Points for tests of clusters, the same in every run.
cluster_points <- function(n) {
  matrix(stats::qnorm((seq_len(2 * n) * 0.754877666) %% 1), ncol = 2, dimnames = list(NULL, c("a", "b")))
}

# Checks that f() has the same bits on each of some clusters, of any number of workers.
alike <- function(f, clusters) {
  found <- lapply(clusters, f)
  for (one in found[-1]) expect_identical(one, found[[1]])
  found[[1]]
}

pids_of <- function(cluster) unlist(parallel::clusterCall(cluster, Sys.getpid))

# Can the cluster still be used for other work?
expect_free <- function(cluster) {
  expect_identical(parallel::clusterCall(cluster, \(x) x, 7), rep(list(7), length(cluster)))
}

expect_lost <- function(work) testthat::expect_warning(work, class = "flashkernel_warning_worker")

# A GPU returns other bits than a CPU, and "auto" chooses between them by what the process has done before.
sum_on_cpus <- function(frame = parent.frame()) {
  for (name in c("CONTROL_DEFAULTS", "TOLERANT_DEFAULTS")) {
    replace_in_package(name, replace(get(name, asNamespace("flashkernel")), "backend", "cpu"), frame)
  }
}
