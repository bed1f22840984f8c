# Calls every entry point of the C code once or twice with small inputs, so that valgrind takes a few minutes. Sizes are
# chosen around tile edges, with weights, ties, far queries and d above 16.
library(flashkernel)

set.seed(1)
sizes <- list(c(1, 1), c(3, 1), c(17, 2), c(130, 3), c(65, 5), c(40, 16), c(33, 33), c(20, 70))
for (size in sizes) {
  n <- size[1]
  d <- size[2]
  x <- matrix(stats::rnorm(n * d), n, d)
  y <- rbind(x[seq_len(min(n, 3)), , drop = FALSE], 60 + matrix(stats::rnorm(5 * d), 5, d))
  h <- 0.5 + seq_len(d) / d
  weights <- stats::runif(n) + 0.1
  for (precision in c("double", "single")) {
    for (estimator in c("kde", "sdkde", "laplace")) {
      for (w in list(NULL, weights)) {
        fit <- flash_kde(x, estimator, bandwidth = h, weights = w, control = flash_control(precision = precision, threads = 2))
        predict(fit, y)
        suppressWarnings(predict(fit, y, type = "log_density"))
        predict(fit, y, type = "score")
        if (n > 1) suppressWarnings(predict(fit, type = "log_density", loo = TRUE))
        if (d == 1) kde_cdf(fit, c(-1, 0, 1))
      }
    }
    kernel_sum(x, y, b = cbind(rep(1, n), x), bandwidth = h, control = flash_control(precision = precision), tol = 0)
    kernel_sum(x, y = y, bandwidth = h, control = flash_control(precision = precision), type = "score")
  }
}
# a grid for chunks of sources and targets, completed and interrupted
session <- asNamespace("flashkernel")$session
session$method <- "grid"
for (d in c(1, 2, 3, 5)) {
  x <- matrix(stats::runif(600 * d), 600)
  for (last in c(3, 1)) {
    chunk <- 0
    next_chunk <- function() {
      chunk <<- chunk + 1
      if (chunk > 3) return(NULL)
      if (chunk > last) stop("broken off")
      list(x = x[200 * (chunk - 1) + 1:200, , drop = FALSE], b = cbind(1, sin(1:200)))
    }
    try(kernel_sum(
      next_chunk, x, bandwidth = 0.5, tol = 1e-5,
      control = flash_control(engine = "fast", threads = 2)
    ), silent = TRUE)
  }
}
session$method <- NULL
# kernel regression: every loss, kind of rows, choice of centres, and method of fits
x <- matrix(stats::rnorm(390), 130)
y <- sin(x[, 1]) + x[, 2]
label <- factor(c("a", "b", "c")[1 + (y > 0) + (y > 1)])
regress <- function(..., rows = x, response = y, lambda = 1e-3) {
  control <- flash_control(threads = 2)
  suppressWarnings(kernel_ridge(rows, response, ..., bandwidth = 1.5, lambda = lambda, solver = list(iterations = 3), control = control))
}
for (kernel in names(flashkernel:::kernel_table())) {
  try(regress(kernel = kernel, centers = 49), silent = TRUE)
}
for (method in c("uniform", "rpcholesky", "leverage", "kmeans++")) regress(centers = 50, center_method = method)
fits <- list(
  regress(centers = 100), regress(centers = c(1:48, 1), weights = rep(0:1, 65)), regress(response = cbind(y, y^2), centers = 33),
  regress(response = label, centers = 40), regress(response = label == "a", centers = 40),
  regress(exact = TRUE), regress(centers = 20, validation = 0.2)
)
for (fit in fits) {
  predict(fit, x[1:5, ])
  try(predict(fit, x[1:5, ], se.fit = TRUE), silent = TRUE)
  try(predict(fit, x[1:5, ], type = "gradient"), silent = TRUE)
  try(logLik(fit), silent = TRUE)
}
chunk <- 0
regress(centers = 30, rows = function(reset) {
  chunk <<- if (reset) 0 else chunk + 1
  if (chunk %in% 1:2) x[65 * (chunk - 1) + 1:65, ]
})
if (requireNamespace("Matrix", quietly = TRUE)) regress(rows = Matrix::Matrix(x * (x > 0), sparse = TRUE), centers = 30)
# without a factor, in blocks of unequal sizes, and interrupted
try(regress(rows = x[rep(1, 100), ], response = y[1:100], kernel = "sigmoid", exact = TRUE, lambda = 1e-300), silent = TRUE)
try(regress(centers = 300, rows = x[rep(1:130, 3), ] + 1e-9, response = rep(y, 3)), silent = TRUE)
tune_ridge(x, y, rows = 60, centers = 30)
# other estimators: conditional densities, categories, local fits, classes, shapes, supports, compact kernels
frame <- data.frame(y, x1 = x[, 1], x2 = x[, 2], label)
joint <- flash_kde(y ~ x1 + x2, frame, bandwidth = 0.5, estimator = "kde", control = flash_control(threads = 2))
predict(joint, frame[1:5, ])
kde_cdf(joint, frame$y[1:5], frame[1:5, ])
quantile(joint, frame[1:5, ], 0.5)
stats::simulate(joint, 2, seed = 1, newdata = frame[1:5, ])
mixed <- flash_kde(~ x1 + label, frame, control = flash_control(threads = 2))
predict(mixed, frame[1:5, ])
predict(flash_kde(y ~ label, frame), frame[1:5, ])
for (formula in c(y ~ x1, y ~ x1 + x2, y ~ x1 + label)) {
  fit <- kernel_regression(formula, frame)
  predict(fit, frame[1:5, ])
}
predict(flash_kda(label ~ x1 + x2, frame), frame[1:5, ])
for (estimator in c("kde", "laplace", "sdkde")) {
  plane <- flash_kde(x[, 1:2], estimator, bandwidth = 0.5, control = flash_control(threads = 2))
  kde_cdf(plane, x[1:5, 1:2], lower = x[1:5, 1:2] - 1)
  kde_modes(plane)
  kde_derivative(plane, x[1:5, 1:2], order = 2)
  hdr_level(plane, 0.5)
  if (estimator != "laplace") stats::simulate(plane, 5, seed = 1)
  predict(kde_marginal(plane, 1), x[1:5, 1])
}
predict(flash_kde(x[, 1:2], "sdkde", bandwidth = 0.5), type = "log_density", loo = TRUE)
for (kernel in c("epanechnikov", "triangular", "uniform")) {
  for (d in 1:3) predict(flash_kde(x[, 1:d], "kde", bandwidth = 0.7, kernel = kernel), x[1:5, 1:d])
}
square <- cbind(c(-5, 5, 5, -5), c(-5, -5, 5, 5))
predict(flash_kde(x[, 1:2], "kde", bandwidth = 0.5, support = kde_support(square)), x[1:5, 1:2])
predict(flash_kde(x[, 1:2], "kde", bandwidth = 0.5, adaptive = "balloon"), x[1:5, 1:2])
for (method in c("lcv", "lscv", "scv", "plugin")) kde_bandwidth(x[, 1:2], method)
# errors must not leak memory
try(flash_kde(matrix(NA_real_, 3, 2), bandwidth = 1), silent = TRUE)
try(flash_kde(x, bandwidth = -1), silent = TRUE)
invisible(flashkernel:::backend_info())
# threads end before their code is unloaded
for (round in 1:2) {
  x <- matrix(sin(1:18000), ncol = 3)
  flashkernel::kernel_sum(x, bandwidth = 0.5, control = flashkernel::flash_control(threads = 2))
  rm(list = setdiff(ls(), "round"))
  unloadNamespace("flashkernel")
  stopifnot(!"flashkernel" %in% names(getLoadedDLLs()))
}
gc()
cat("exercise: done\n")
