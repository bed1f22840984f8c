# Workers of MPI, and of snow by sockets: checks that the bits are those of this process, and times a call.
#
#   mpirun -np 1 Rscript bench/cluster-mpi.R
source("bench/common.R")

set.seed(1)
x <- matrix(rnorm(2e5), ncol = 4)
y <- matrix(rnorm(2e3), ncol = 4)
product <- function(data) kernel_sum(data, y, bandwidth = 0.5, tol = 0, control = flash_control(engine = "exact"))
expected <- product(flash_data(x))
timed <- function(label, cluster) {
  data <- flash_data(x, cluster)
  first <- product(data)
  seconds <- vapply(1:5, \(i) system.time(product(data))[["elapsed"]], 0)
  small <- vapply(1:20, \(i) system.time(data[1, ])[["elapsed"]], 0)
  cat(sprintf(
    "%-24s product %.3f s, one row %.1f ms, same bits: %s\n", label, stats::median(seconds), 1e3 * stats::median(small),
    identical(first, expected)
  ))
}

sockets <- snow::makeSOCKcluster(c("localhost", "localhost"))
timed("snow, 2 sockets", sockets)
snow::stopCluster(sockets)
processes <- snow::makeMPIcluster(2)
timed("snow, 2 MPI processes", processes)
snow::stopCluster(processes)
Rmpi::mpi.quit()
