# Pairs per second of the pass over all pairs that criteria of bandwidths go by: the value alone, with the diagonal and
# with the full gradient, and of least squares (two kernels a pair, one exponential). One thread, double.

source(file.path(dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))), "common.R"))
bench_start("pair-moments.R", "Moments of pairs: 10^8 pairs per second")

n <- 6000
run <- flashkernel:::start_run(
  flashkernel:::settle_control(flash_control(backend = "cpu", threads = 1))
)
rows <- lapply(c(1, 2, 4, 8, 16), function(d) {
  set.seed(d)
  x <- matrix(stats::rnorm(n * d), n)
  pass <- function(moments, wide) {
    force(moments)
    force(wide)
    \() flashkernel:::pair_moments(x, diag(0.4, d), moments = moments, ratio = is.null(wide), wide = wide, run = run)
  }
  tasks <- list(
    value = pass("none", NULL), diagonal = pass("diagonal", NULL), full = pass("full", NULL),
    `least squares` = pass("none", rep(1, n)), `its diagonal` = pass("diagonal", rep(1, n)),
    `its full` = pass("full", rep(1, n))
  )
  seconds <- apply(replicate(9, vapply(tasks, \(task) system.time(task())[["user.self"]], 0)), 1, min)
  c(d = d, round(n^2 / seconds / 1e8, 1))
})
show_table(as.data.frame(do.call(rbind, rows), check.names = FALSE))
