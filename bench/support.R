# Estimates on bounded domains: mean integrated squared error (times 1,000) and seconds of a fit, over samples of
# densities with different behaviour at the bound, compared with ks and, if it is installed, kde1d.
#
#   Rscript bench/support.R [n] [samples] [pattern of estimates]

source("bench/common.R")
options(flashkernel.threads = 2)
n <- if (length(arguments) > 0) as.numeric(arguments[1]) else 300
samples <- if (length(arguments) > 1) as.numeric(arguments[2]) else 30
pattern <- if (length(arguments) > 2) arguments[3] else "."

densities <- list(
  exponential = list(draw = rexp, f = dexp, support = c(0, Inf), end = 12),
  `gamma 2` = list(draw = \(n) rgamma(n, 2), f = \(x) dgamma(x, 2), support = c(0, Inf), end = 15),
  `half normal` = list(draw = \(n) abs(rnorm(n)), f = \(x) 2 * dnorm(x), support = c(0, Inf), end = 6),
  `truncated normal` = list(
    draw = \(n) qnorm(runif(n, pnorm(-0.5), 1)), f = \(x) dnorm(x) / pnorm(0.5), support = c(-0.5, Inf), end = 6
  ),
  uniform = list(draw = runif, f = dunif, support = c(0, 1), end = 1),
  `beta 1/2 1/2` = list(draw = \(n) rbeta(n, 0.5, 0.5), f = \(x) dbeta(x, 0.5, 0.5), support = c(0, 1), end = 1),
  `beta 2 5` = list(draw = \(n) rbeta(n, 2, 5), f = \(x) dbeta(x, 2, 5), support = c(0, 1), end = 1),
  `beta 1 3` = list(draw = \(n) rbeta(n, 1, 3), f = \(x) dbeta(x, 1, 3), support = c(0, 1), end = 1)
)

# Functions of the sample and the density's entry that return the estimate, a function.
of_fit <- function(...) \(x, entry) {
  fit <- flash_kde(x, support = entry$support, ...)
  \(y) predict(fit, y)
}
of_method <- function(method, ...) \(x, entry) {
  of_fit(...)(x, replace(entry, "support", list(kde_support(entry$support, method))))
}
of_ks <- function(...) \(x, entry) {
  fit <- ks::kde(x, ..., gridsize = 2048)
  \(y) approx(fit$eval.points, fit$estimate, y, yleft = 0, yright = 0)$y
}
estimates <- list(
  auto = of_fit(), transform = of_method("transform"),
  `transform kde` = of_method("transform", "kde", adaptive = FALSE),
  local = of_method("local"), reflect = of_method("reflect"), `reflect sdkde` = of_method("reflect", "sdkde"),
  boundary = of_method("boundary"), mass = of_method("mass", "kde", adaptive = FALSE),
  unbounded = \(x, entry) of_fit()(x, replace(entry, "support", list(NULL)))
)
if (requireNamespace("ks", quietly = TRUE)) {
  finite <- \(entry) replace(entry$support, 2, if (entry$support[2] == Inf) 2 * entry$end else entry$support[2])
  estimates$`ks boundary` <- \(x, entry) {
    ends <- finite(entry)
    fit <- ks::kde.boundary(x, xmin = ends[1], xmax = ends[2], boundary.kernel = "beta", gridsize = 2048)
    \(y) approx(fit$eval.points, fit$estimate, y, rule = 2)$y
  }
  estimates$`ks transform` <- \(x, entry) {
    if (entry$support[2] < Inf) return(of_ks(unit.interval = TRUE)(x, entry))
    shifted <- of_ks(positive = TRUE)(x - entry$support[1], entry)
    \(y) shifted(y - entry$support[1])
  }
}
if (requireNamespace("kde1d", quietly = TRUE)) {
  estimates$kde1d <- \(x, entry) {
    ends <- replace(entry$support, entry$support == Inf, NaN)
    fit <- kde1d::kde1d(x, xmin = ends[1], xmax = ends[2])
    \(y) kde1d::dkde1d(y, fit)
  }
}

estimates <- estimates[grepl(pattern, names(estimates))]

# By Gauss' rule in pieces that are short at the bounds, where beta densities have no limit; within 1e-4 of these,
# the squared error of a pole is not integrable, and is left out for all.
integration <- function(entry) {
  rule <- flashkernel:::gauss_rule(10)
  a <- entry$support[1]
  size <- entry$end - a
  near <- size * 10^seq(-4, -1, length.out = 30)
  edges <- a + c(near, seq(0.1, 0.9, length.out = 60)[-1] * size, rev(size - near))
  from <- edges[-length(edges)]
  width <- diff(edges)
  list(at = as.vector(outer(width, rule$node) + from), weight = as.vector(outer(width, rule$weight)))
}

names <- list(names(estimates), names(densities))
errors <- seconds <- matrix(NA, length(estimates), length(densities), dimnames = names)
for (name in names(densities)) {
  entry <- densities[[name]]
  rule <- integration(entry)
  truth <- entry$f(rule$at)
  found <- replicate(length(estimates), list(numeric()))
  time <- numeric(length(estimates))
  for (s in seq_len(samples)) {
    set.seed(s)
    x <- entry$draw(n)
    for (i in seq_along(estimates)) {
      time[i] <- time[i] + system.time(
        error <- tryCatch(sum(rule$weight * (estimates[[i]](x, entry)(rule$at) - truth)^2), error = \(e) NA)
      )[["elapsed"]]
      found[[i]][s] <- error
    }
  }
  errors[, name] <- 1000 * vapply(found, mean, 0)
  seconds[, name] <- time / samples
}
cat("ISE x 1,000, n =", n, ", mean of", samples, "samples\n")
print(signif(errors, 3))
cat("Seconds of a fit and its estimate\n")
print(round(cbind(seconds = rowMeans(seconds)), 2))
