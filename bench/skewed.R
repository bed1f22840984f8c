# Mean integrated squared error, over the integral of f^2 and times 1,000, of default fits of one column: Marron and
# Wand's fifteen densities and ten skewed or heavy-tailed ones, beside bw.SJ, ks::kde(), a transformation by logarithms
# (where all values are positive) and, if it is installed, kde1d without bounds.
#
#   Rscript bench/skewed.R [--n 100,1000,10000] [--samples 40] [--densities REGEX] [--aside] [--estimates REGEX]
#     [--seed 1000] [--save]
#
#   auto       flash_kde(x, support = "auto"), where all values are positive
#   to best    the default's error over that of the better of bw.SJ and ks::kde()
#   se         the standard error of the mean of the paired difference to that one, over its error
#
# The constants of the default (PRIOR_SD, bump_width(), the weights of half_censored_loss()) were chosen on seeds 201 to
# 240 with the 25 densities, CENSORED_GAIN on seeds 1 to 60. --aside: only the fourteen densities on which nothing was
# chosen.

source("bench/common.R")
for (part in c("mixtures", "densities")) source(file.path(bench_folder, "bandwidths", paste0(part, ".R")))
options(flashkernel.progress = FALSE, flashkernel.threads = 1)
numbers <- \(text) as.numeric(strsplit(text, ",", fixed = TRUE)[[1]])
samples <- as.numeric(option("--samples", "40"))
seed <- as.numeric(option("--seed", "1000"))

of_mixture <- function(mixture, most = 4.5) {
  list(
    draw = \(n) draw_mixture(n, mixture)[, 1], f = \(x) exp(log_density_mixture(matrix(x), mixture)),
    grid = seq(-most, most, length.out = 800 * most + 1)
  )
}
some_mixture <- function(seed, k, least, most) {
  set.seed(seed)
  of_mixture(line_mixture(runif(k, 0.3, 1), rnorm(k, 0, 1.5), exp(runif(k, log(least), log(most)))), 7)
}

# `f`, `q`: density and quantile function. The grid is fine near the middle and, of positive values, near 0.
of_quantiles <- function(draw, f, q, positive = TRUE) {
  spread <- q(0.75) - q(0.25)
  steps <- sinh(seq(-asinh(60), asinh(60), length.out = 4001))
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
aside <- list(
  "mixture A" = some_mixture(11, 2, 0.3, 1), "mixture B" = some_mixture(12, 3, 0.2, 1.2),
  "mixture C" = some_mixture(13, 4, 0.15, 1), "mixture D" = some_mixture(14, 6, 0.1, 1),
  "mixture E" = of_mixture(line_mixture(c(0.8, 0.2), c(0, 3), c(1, 0.3)), 6),
  "mixture F" = of_mixture(line_mixture(c(0.45, 0.45, 0.1), c(-2, 2, 0), c(0.8, 0.8, 0.2)), 7),
  laplace = of_quantiles(
    \(n) rexp(n) * sample(c(-1, 1), n, TRUE), \(x) exp(-abs(x)) / 2, \(p) sign(p - 0.5) * qexp(abs(2 * p - 1)), FALSE
  ),
  "beta 2 5" = of_quantiles(\(n) rbeta(n, 2, 5), \(x) dbeta(x, 2, 5), \(p) qbeta(p, 2, 5)),
  "beta 2 2" = of_quantiles(\(n) rbeta(n, 2, 2), \(x) dbeta(x, 2, 2), \(p) qbeta(p, 2, 2)),
  "chi^2 6" = of_quantiles(\(n) rchisq(n, 6), \(x) dchisq(x, 6), \(p) qchisq(p, 6)),
  "log-logistic" = of_quantiles(
    \(n) exp(rlogis(n, 0, 0.4)), \(x) ifelse(x > 0, dlogis(log(pmax(x, 1e-300)), 0, 0.4) / pmax(x, 1e-300), 0),
    \(p) exp(qlogis(p, 0, 0.4))
  ),
  "weibull 1.5" = of_quantiles(\(n) rweibull(n, 1.5), \(x) dweibull(x, 1.5), \(p) qweibull(p, 1.5)),
  logistic = of_quantiles(rlogis, dlogis, qlogis, FALSE),
  t5 = of_quantiles(\(n) rt(n, 5), \(x) dt(x, 5), \(p) qt(p, 5), FALSE)
)
densities <- if ("--aside" %in% arguments) aside else c(lapply(MARRON_WAND, of_mixture), skewed)
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
estimates <- estimates[grepl(option("--estimates", "."), names(estimates))]

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
    best <- names(which.min(means[intersect(names(means), c("bw.SJ", "ks::kde"))]))
    se <- sd(errors["default", ] - errors[best, ]) / sqrt(samples) / means[[best]]
    c(1000 * means, `to best` = means[["default"]] / means[[best]], se = se)
  })
  table <- do.call(rbind, rows)
  cat("n =", n, " samples:", samples, "\n")
  print(round(table, 3))
  ratio <- table[, "to best"]
  cat(sprintf(
    "default to best: geometric mean %.3f, largest %.3f, above 1 for %d, by more than two standard errors for %d\n\n",
    exp(mean(log(ratio))), max(ratio), sum(ratio > 1), sum(ratio > 1 + 2 * table[, "se"], na.rm = TRUE)
  ))
}
