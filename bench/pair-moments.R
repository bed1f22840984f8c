# Pairs per second of the pass over all pairs that bandwidth criteria use: the value alone, with the diagonal and with
# the full gradient, and for least squares (two kernels a pair, one exponential). Then milliseconds of the values for
# many bandwidths in one pass, compared with one bandwidth. One thread, double precision.
#
#   Rscript bench/pair-moments.R [--scales]        --scales: only the many bandwidths

source("bench/common.R")
bench_start("pair-moments.R", "Moments of pairs: 10^8 pairs per second")

in_rows <- \(rows) as.data.frame(do.call(rbind, rows), check.names = FALSE)

n <- 6000
run <- flashkernel:::start_run(
  flashkernel:::settle_control(flash_control(backend = "cpu", threads = 1))
)
if (!"--scales" %in% arguments) show_table(in_rows(lapply(c(1, 2, 4, 8, 16), function(d) {
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
})))

# "20 by powers": small multiples of each other; "20 apart": none a small multiple of another.
POWERS <- list(
  `1` = 1, `6 near` = c(1, 2, 3, 4, 6, 8), `13 by squares` = 2^(0:12), `20 by powers` = c(2^(0:10), 3 * 2^(0:8)),
  `20 apart` = 1.37^(0:19)
)
show_table(in_rows(lapply(c(2, 6), function(d) {
  in_rows(lapply(c(2000, 20000), function(n) {
    set.seed(d)
    x <- matrix(stats::rnorm(n * d), n)
    one <- list(
      `engine, 1` = \() flashkernel:::log_sum(
        flashkernel:::sum_sources(x, NULL, diag(0.4, d)), NULL, flashkernel:::PLAIN_FACTOR, TRUE, run
      ),
      `moments, 1` = \() flashkernel:::pair_moments(x, diag(0.4, d), run = run)
    )
    many <- lapply(POWERS, \(powers) \() flashkernel:::pair_scales(x, diag(1.2, d), powers, run = run))
    calls <- if (n < 1e4) 40 else 1
    time <- \(task) system.time(for (i in seq_len(calls)) task())[["user.self"]]
    seconds <- apply(replicate(5, vapply(c(one, many), time, 0)), 1, min) / calls
    c(d = d, n = n, round(1e3 * seconds, 1), `20 over 1` = round(seconds[["20 by powers"]] / seconds[["1"]], 1))
  }))
})))
