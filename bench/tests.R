# Level, power and time of tests with many bandwidths: two samples, independence, and Stein tests of fit, beside the
# tests of energy, ks and kernlab and the tests of stats.
#
#   Rscript bench/tests.R [--save] [--quick] [--only level|power|time] [--runs N] [--cores N] [--rows N] [--backend cuda]
#
# --runs: of a level (2,000; a share near 0.05 has a standard error of 0.005); a quarter of them for larger samples and a power. --quick: 200
# runs. --rows: the most rows of the times. --backend: where the times are taken.

source("bench/common.R")
bench_start("tests.R", "Tests: many bandwidths, independence, Stein discrepancies")
runs <- as.integer(option("--runs", if ("--quick" %in% arguments) 200 else 2000))
only <- option_values("--only", c("level", "power", "time"))
cores <- as.integer(option("--cores", 1))
options(flashkernel.threads = 1)

rejects <- function(label, n, p_of) {
  p <- unlist(parallel::mclapply(seq_len(n), \(i) {
    set.seed(i)
    p_of()
  }, mc.cores = cores, mc.set.seed = FALSE))
  cat(sprintf("%-74s %5d  %.3f  %.3f\n", label, n, mean(p <= 0.05), mean(p <= 0.1)))
}
normal <- \(n, d = 1) matrix(stats::rnorm(n * d), n)
p_of <- \(...) kde_test(..., replicates = 199)$p.value

# ---- level ------------------------------------------------------------------------------------

if ("level" %in% only) {
  cat("Share of p-values at most 0.05 and 0.1 where the null is true, 199 replicates\n\n")
  rejects("two samples, 10 bandwidths, normal, n = 30 + 30", runs, \() p_of(normal(30), normal(30), "aggregated"))
  rejects("independence, 9 bandwidths, normal, n = 60", runs, \() p_of(normal(60), normal(60), method = "independence"))
  rejects("Stein, 10 bandwidths, normal, n = 60", runs, \() p_of(normal(60), \(x) -x, method = "stein"))
  rejects("Stein, 10 bandwidths, t with 5 df, n = 60", runs,
    \() p_of(stats::rt(60, 5), \(x) -6 * x / (5 + x^2), method = "stein"))
  few <- runs %/% 4
  rejects("two samples, bins of 3 rows, d = 2, n = 100 + 500", few, \() p_of(normal(100, 2), normal(500, 2)))
  rejects("two samples, 10 bandwidths, bins of 2 rows, n = 200 + 210", few,
    \() p_of(normal(200), normal(210), "aggregated"))
  rejects("two samples, weights, bins of 3 rows, n = 300 + 300", few,
    \() p_of(normal(300), normal(300), 0.3, weights_x = stats::rexp(300), weights_y = stats::rexp(300)))
  rejects("independence, one bandwidth, strata, n = 300", few,
    \() p_of(normal(300), stats::rexp(300), "silverman", "independence"))
  rejects("Stein, 10 bandwidths, normal, d = 3, n = 60", few, \() p_of(normal(60, 3), \(x) -x, method = "stein"))
  for (n in c(200, 1000)) {
    rejects(paste0("Stein, 10 bandwidths, normal, n = ", n), few, \() p_of(normal(n), \(x) -x, method = "stein"))
  }
  rejects("Stein, 10 bandwidths, normal, bins of 3 rows, n = 600", few, \() p_of(normal(600), \(x) -x, method = "stein"))
  fit <- flash_kde(faithful, "kde")
  rejects("Stein, 10 bandwidths, draws of flash_kde(faithful), n = 100", few, \() p_of(stats::simulate(fit, 100), fit))
  cat("\n")
}

# ---- power ------------------------------------------------------------------------------------

# Draws from the density 1 + sin(2 pi k x) of the unit interval.
waves <- function(n, k) {
  x <- stats::runif(4 * n)
  x[stats::runif(4 * n) * 2 <= 1 + sin(2 * pi * k * x)][seq_len(n)]
}
energy_p <- \(x, y) energy::eqdist.etest(rbind(as.matrix(x), as.matrix(y)), c(NROW(x), NROW(y)), R = 199)$p.value

if ("power" %in% only) {
  cat("Share of p-values at most 0.05 and 0.1 where the null is wrong, 199 replicates\n\n")
  pairs <- list(
    "normal, means 0.5 apart, n = 60 + 60" = \() list(normal(60), normal(60) + 0.5),
    "normal, means 0.3 apart, d = 5, n = 60 + 60" = \() list(normal(60, 5), normal(60, 5) + 0.3),
    "normal and t with 3 df of variance 1, n = 250 + 250" = \() list(normal(250), stats::rt(250, 3) / sqrt(3)),
    "uniform and one wave, n = 60 + 60" = \() list(stats::runif(60), waves(60, 1)),
    "uniform and 3 waves, n = 100 + 100" = \() list(stats::runif(100), waves(100, 3)),
    "uniform and 6 waves, n = 200 + 200" = \() list(stats::runif(200), waves(200, 6))
  )
  two_samples <- list(
    "10 bandwidths" = \(x, y) p_of(x, y, "aggregated"), silverman = \(x, y) p_of(x, y),
    "energy::eqdist.etest" = energy_p,
    ks.test = \(x, y) if (NCOL(x) == 1) stats::ks.test(drop(x), drop(y))$p.value else NA
  )
  for (name in names(pairs)) for (test in names(two_samples)) rejects(paste0(name, ", ", test), runs %/% 4, \() {
    do.call(two_samples[[test]], pairs[[name]]())
  })
  cat("\n")
  joint <- list(
    "correlation 0.4, n = 60" = \(x, e) list(x[1:60], 0.4 * x[1:60] + sqrt(0.84) * e[1:60]),
    "y = x^2 + noise, n = 60" = \(x, e) list(x[1:60], x[1:60]^2 + 2 * e[1:60]),
    "circle with noise, n = 100" = \(x, e) list(cos(6 * x) + 0.3 * e, sin(6 * x) + 0.3 * rev(e)),
    "y = sin(4 x) + noise, n = 100" = \(x, e) list(x, sin(4 * x) + 0.7 * e),
    "the same, n = 400, in strata" = \(x, e) list(x <- stats::rnorm(400), sin(4 * x) + 1.5 * stats::rnorm(400))
  )
  dependence <- list(
    "9 bandwidths" = \(x, y) p_of(x, y, method = "independence"),
    silverman = \(x, y) p_of(x, y, "silverman", "independence"),
    "energy::dcov.test" = \(x, y) energy::dcov.test(x, y, R = 199)$p.value,
    cor.test = \(x, y) stats::cor.test(x, y)$p.value
  )
  for (name in names(joint)) for (test in names(dependence)) rejects(paste0(name, ", ", test), runs %/% 4, \() {
    do.call(dependence[[test]], joint[[name]](stats::rnorm(100), stats::rnorm(100)))
  })
  cat("\n")
  others <- list(
    "t with 3 df, n = 100" = \() stats::rt(100, 3), "mean 0.3, n = 100" = \() stats::rnorm(100, 0.3),
    "standard deviation 1.3, n = 100" = \() stats::rnorm(100, sd = 1.3),
    "two modes, n = 100" = \() stats::rnorm(100, sample(c(-0.9, 0.9), 100, TRUE), sqrt(0.19))
  )
  fits <- list(
    "Stein, 10 bandwidths" = \(x) p_of(x, \(x) -x, method = "stein"),
    "bootstrap, silverman" = \(x) p_of(x, "norm", mean = 0, sd = 1), ks.test = \(x) stats::ks.test(x, "pnorm")$p.value
  )
  for (name in names(others)) for (test in names(fits)) rejects(paste0("standard normal: ", name, ", ", test), runs %/% 4,
    \() fits[[test]](others[[name]]()))
  cat("\n")
}

# ---- time -------------------------------------------------------------------------------------

if ("time" %in% only) {
  options(flashkernel.threads = NULL)
  control <- flash_control(backend = option("--backend", "cpu"))
  seconds <- \(value) system.time(value)[["elapsed"]]
  cat("Seconds of 999 replicates, in all rows n; `sum`: one kernel sum of one column, bandwidth of the two samples\n\n")
  cat(sprintf("%9s %2s %8s %11s %14s %8s %13s %8s\n", "n", "d", "sum", "two samples", "10 bandwidths", "Stein",
    "independence", "9 pairs"))
  for (d in c(2, 3, 6)) for (n in 10^seq(4, log10(as.numeric(option("--rows", 1e5))))) {
    set.seed(1)
    x <- normal(n, d)
    first <- seq_len(n / 2)
    two <- \(...) seconds(kde_test(x[first, ], x[-first, ], ..., control = control))
    with <- \(...) seconds(kde_test(x[, 1:(d / 2)], x[, -(1:(d / 2))], ..., method = "independence", control = control))
    H <- kde_test(x[first, ], x[-first, ], replicates = 1, control = control)$bandwidth
    cat(sprintf("%9.0f %2d %8.2f %11.2f %14.2f %8.2f %13.2f %8.2f\n", n, d,
      seconds(kernel_sum(x, bandwidth = H, tol = 0, control = control)), two(), two("aggregated"),
      seconds(kde_test(x, \(x) -x, method = "stein", bandwidth = 0.4, control = control)), with("silverman"), with()))
  }
}
