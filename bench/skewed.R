# Mean integrated squared error, over the integral of f^2 and times 1,000, of default fits of one column: Marron and
# Wand's fifteen densities and ten skewed or heavy-tailed ones, beside bw.SJ, ks::kde(), a transformation by logarithms
# (where all values are positive) and, if it is installed, kde1d without bounds.
#
#   Rscript bench/skewed.R [--n 100,1000,10000] [--samples 40] [--densities REGEX] [--seed 0] [--save]
#
#   auto       flash_kde(x, support = "auto"), where all values are positive
#   to best    the default's error over that of the better of bw.SJ and ks::kde()
#   se         the standard error of the mean of the paired difference to bw.SJ, over the error of bw.SJ
#
# The constants of the default (PRIOR_SD, bump_width(), CENSORED_GAIN) were chosen on seeds 1 to 60, with Marron and
# Wand's densities, gamma, exponential and lognormal ones. Weibull, Gumbel, t2 and other seeds (--seed 1000) were held
# aside.

source("bench/common.R")
for (part in c("mixtures", "densities")) source(file.path(bench_folder, "bandwidths", paste0(part, ".R")))
options(flashkernel.progress = FALSE, flashkernel.threads = 1)
numbers <- \(text) as.numeric(strsplit(text, ",", fixed = TRUE)[[1]])
samples <- as.numeric(option("--samples", "40"))
seed <- as.numeric(option("--seed", "0"))

of_mixture <- function(name) {
  mixture <- MARRON_WAND[[name]]
  list(
    draw = \(n) draw_mixture(n, mixture)[, 1], f = \(x) exp(log_density_mixture(matrix(x), mixture)),
    grid = seq(-5.5, 5.5, length.out = 8801)
  )
}

# `f`, `q`: density and quantile function. The grid is fine near the middle and, of positive values, near 0.
of_quantiles <- function(draw, f, q, positive = TRUE) {
  spread <- q(0.75) - q(0.25)
  steps <- sinh(seq(-asinh(60), asinh(60), length.out = 8001))
  grid <- q(0.5) + spread * steps
  near <- outer(c(-1, 1), 10^seq(-5, -1, length.out = 300))
  if (positive) grid <- spread * sort(c(steps[steps > -1.5], near))
  list(draw = draw, f = f, grid = grid, positive = positive)
}

skewed <- list(
  "gamma 3" = of_quantiles(\(n) rgamma(n, 3), \(x) dgamma(x, 3), \(p) qgamma(p, 3)),
  "gamma 1.5" = of_quantiles(\(n) rgamma(n, 1.5), \(x) dgamma(x, 1.5), \(p) qgamma(p, 1.5)),
  exponential = of_quantiles(rexp, dexp, qexp),
  lognormal = of_quantiles(rlnorm, dlnorm, qlnorm),
  "lognormal .5" = of_quantiles(\(n) rlnorm(n, 0, 0.5), \(x) dlnorm(x, 0, 0.5), \(p) qlnorm(p, 0, 0.5)),
  "weibull 2" = of_quantiles(\(n) rweibull(n, 2), \(x) dweibull(x, 2), \(p) qweibull(p, 2)),
  gumbel = of_quantiles(\(n) -log(rexp(n)), \(x) exp(-x - exp(-x)), \(p) -log(-log(p)), FALSE),
  t3 = of_quantiles(\(n) rt(n, 3), \(x) dt(x, 3), \(p) qt(p, 3), FALSE),
  t2 = of_quantiles(\(n) rt(n, 2), \(x) dt(x, 2), \(p) qt(p, 2), FALSE),
  cauchy = of_quantiles(rcauchy, dcauchy, qcauchy, FALSE)
)
densities <- c(sapply(names(MARRON_WAND), of_mixture, simplify = FALSE), skewed)
densities <- densities[grepl(option("--densities", "."), names(densities))]

at <- \(fit, y) suppressWarnings(predict(fit, y, tol = 1e-7))
plain <- \(x, h, y) at(flash_kde(x, "kde", bandwidth = h), y)
spread_of <- \(x) tryCatch(bw.SJ(x), error = \(e) bw.nrd0(x))
estimates <- list(
  default = \(x, y) at(flash_kde(x), y), auto = \(x, y) at(flash_kde(x, support = "auto"), y),
  bw.SJ = \(x, y) plain(x, spread_of(x), y),
  `ks::kde` = if (requireNamespace("ks", quietly = TRUE)) \(x, y) plain(x, ks::hpi(x), y),
  logarithms = \(x, y) {
    if (min(x) <= 0) return(NA)
    ifelse(y > 0, plain(log(x), spread_of(log(x)), log(pmax(y, 1e-300))) / pmax(y, 1e-300), 0)
  },
  kde1d = if (requireNamespace("kde1d", quietly = TRUE)) \(x, y) kde1d::dkde1d(y, kde1d::kde1d(x))
)
estimates <- Filter(Negate(is.null), estimates)

errors_of <- function(density, n) {
  width <- diff(density$grid)
  weight <- (c(width, 0) + c(0, width)) / 2
  truth <- density$f(density$grid)
  vapply(seq_len(samples), \(s) {
    set.seed(seed + s)
    x <- density$draw(n)
    wanted <- !names(estimates) %in% c("auto", "logarithms") | isTRUE(density$positive)
    vapply(seq_along(estimates), \(i) {
      if (wanted[i]) sum(weight * (estimates[[i]](x, density$grid) - truth)^2) / sum(weight * truth^2) else NA
    }, 0)
  }, numeric(length(estimates)))
}

bench_start("skewed.R", "Default fits of one column: integrated squared error over the integral of f^2, times 1,000")
for (n in numbers(option("--n", "100,1000,10000"))) {
  rows <- lapply(densities, \(density) {
    errors <- suppressMessages(errors_of(density, n))
    rownames(errors) <- names(estimates)
    means <- rowMeans(errors)
    best <- min(means[intersect(names(means), c("bw.SJ", "ks::kde"))])
    se <- sd(errors["default", ] - errors["bw.SJ", ]) / sqrt(samples) / means[["bw.SJ"]]
    c(1000 * means, `to best` = means[["default"]] / best, se = se)
  })
  table <- do.call(rbind, rows)
  cat("n =", n, " samples:", samples, "\n")
  print(round(table, 3))
  ratio <- table[, "to best"]
  cat(sprintf(
    "default to best: geometric mean %.3f, largest %.3f, above 1 for %d\n\n", exp(mean(log(ratio))), max(ratio),
    sum(ratio > 1)
  ))
}
