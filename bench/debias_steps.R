# The gain of several steps of an SD-KDE (R/density-debias-steps.R): integrated squared error on normal mixtures (Marron
# and Wand 1992), at the best bandwidth for each number of steps, and at the bandwidth that "auto" chooses for one step
# times some factors. Prints means over samples, times 1e4.
#
#   Rscript bench/debias_steps.R [samples]
source("bench/common.R")

mixtures <- list(
  gaussian = list(p = 1, mean = 0, sd = 1),
  bimodal = list(p = c(1, 1) / 2, mean = c(-1, 1), sd = c(2, 2) / 3),
  skewed = list(p = c(1, 1, 3) / 5, mean = c(0, 1 / 2, 13 / 12), sd = c(1, 2 / 3, 5 / 9)),
  claw = list(p = c(5, 1, 1, 1, 1, 1) / 10, mean = c(0, 0:4 / 2 - 1), sd = c(1, rep(0.1, 5))),
  kurtotic = list(p = c(2, 1) / 3, mean = c(0, 0), sd = c(1, 0.1))
)

density_of <- \(f, at) rowSums(mapply(\(p, mean, sd) p * dnorm(at, mean, sd), f$p, f$mean, f$sd))

draw <- function(f, n) {
  k <- sample(length(f$p), n, TRUE, f$p)
  rnorm(n, f$mean[k], f$sd[k])
}

at <- seq(-5, 5, length.out = 1001)
sds <- exp(seq(log(0.04), log(1.2), length.out = 24))
factors <- c(1, 1.1, 1.2, 1.3, 1.4)
samples <- as.integer(c(arguments, "10")[1])
set.seed(1)

for (n in c(300, 3000)) for (name in names(mixtures)) {
  f <- mixtures[[name]]
  error <- function(x, h, steps) {
    fit <- flash_kde(x, "sdkde", bandwidth = h, debias = debiasing(bandwidth = h / sqrt(2), steps = steps))
    sum((predict(fit, at) - density_of(f, at))^2) * (at[2] - at[1])
  }
  best <- chosen <- 0
  for (i in seq_len(samples)) {
    x <- draw(f, n)
    auto <- sqrt(flash_kde(x, "sdkde")$bandwidth[1])
    best <- best + outer(sds, 1:4, Vectorize(\(h, steps) error(x, h, steps))) / samples
    chosen <- chosen + outer(factors, 1:4, Vectorize(\(factor, steps) error(x, factor * auto, steps))) / samples
  }
  at_best <- apply(best, 2, which.min)
  cat(sprintf("%-8s n = %d: best %s at sds %s\n", name, n, toString(round(1e4 * apply(best, 2, min), 2)),
    toString(round(sds[at_best], 2))))
  cat(sprintf("  %.1f x auto: %s\n", factors, apply(round(1e4 * chosen, 2), 1, toString)), sep = "")
}
