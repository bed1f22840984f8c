# Kernel ridge and Gaussian-process regression by fast products, F3M's second use of them.
#
#   Rscript bench/paper/solvers.R [--size small|full] [--backend auto|cpu|cuda] [--only ridge|process]
#
# ridge: F3M's problem: uniform points in the unit cube, d = 3, y a sum of 1,000 kernels with normal coefficients, plus
# noise of a tenth of its spread; l = 1 / sqrt(2 EV). Methods: conjugate gradients with products of kernel_operator(),
# to a tolerance and exact, and kernel_ridge(exact = TRUE), which preconditions. process: prices of houses in California
# by longitude, latitude and income (bench/data has them), 9 in 10 rows for training: means at the other rows, and
# standard deviations at 20 of them, with the bandwidth and the noise that kernel_ridge() chooses. "Cholesky": in R, of
# some of the rows.
#
# Columns: total seconds, seconds of a product, iterations to a residual of 1e-4; r2 of held-out rows, without noise in
# ridge; nlpd: the mean negative log density of held-out rows.

source("bench/paper/common.R")
source("bench/paper/cg.R")

on_gpu <- backend == "cuda" || (backend == "auto" && gpu_info()$status == "available")
where <- if (on_gpu) "cuda" else "cpu"

row <- function(problem, way, n, ev, seconds, each = NA, iterations = NA, r2 = NA, nlpd = NA) {
  data.frame(problem, way, n, ev, seconds, each, iterations, r2, nlpd)
}
r2_of <- function(guess, truth) 1 - mean((guess - truth)^2) / stats::var(truth)

# (K + ridge I) a = b. list(a, operator, iterations, each, seconds)
solve_fast <- function(x, b, h, ridge, tol, engine = "auto") {
  seconds <- elapsed(\() {
    op <<- kernel_operator(
      x, bandwidth = h, tol = tol,
      control = flash_control(engine = engine, backend = where, precision = "double")
    )
    solved <<- conjugate_gradients(\(v) op %*% v + ridge * v, b)
  })
  list(a = solved$x, operator = op, iterations = solved$iterations, each = seconds / solved$iterations,
       seconds = seconds)
}
op <- solved <- NULL

# ---- ridge --------------------------------------------------------------------------------------------

ridge_problem <- function(n, ev) {
  set.seed(1)
  h <- 1 / sqrt(2 * ev)
  x <- matrix(stats::runif(3 * (n + 2000)), ncol = 3)
  signal <- as.vector(kernel_sum(
    x[1:1000, ], x, stats::rnorm(1000), h,
    control = flash_control(engine = "exact", backend = where, precision = "double")
  ))
  signal <- signal / stats::sd(signal)
  train <- seq_len(n)
  list(h = h, x = x[train, ], y = signal[train] + 0.1 * stats::rnorm(n), new = x[-train, ], truth = signal[-train])
}

ridge_rows <- function(n, ev) {
  p <- ridge_problem(n, ev)
  ridge <- 0.01 # the noise's variance
  predicted <- \(a) as.vector(kernel_sum(
    p$x, p$new, as.vector(a), p$h,
    control = flash_control(engine = "exact", backend = where, precision = "double")
  ))
  fast <- solve_fast(p$x, p$y, p$h, ridge, 1e-8)
  rows <- row("ridge", "CG, fast products", n, ev, fast$seconds, fast$each, fast$iterations,
              r2_of(predicted(fast$a), p$truth))
  if (n <= (if (on_gpu) 1e5 else 1e4)) {
    exact <- solve_fast(p$x, p$y, p$h, ridge, 0, "exact")
    rows <- rbind(rows, row("ridge", "CG, exact products", n, ev, exact$seconds, exact$each, exact$iterations,
                            r2_of(predicted(exact$a), p$truth)))
  }
  if (n > 1e5) return(rows) # minutes
  seconds <- elapsed(\() fit <<- kernel_ridge(
    p$x, p$y, bandwidth = p$h, lambda = ridge / n, solver = list(exact = TRUE, tolerance = 1e-4, intercept = FALSE),
    control = flash_control(backend = where)
  ))
  rbind(rows, row("ridge", "kernel_ridge(exact = TRUE)", n, ev, seconds, NA, fit$iterations, r2_of(predict(fit, p$new),
    p$truth)))
}
fit <- NULL

# ---- a Gaussian process -------------------------------------------------------------------------------

california <- function() {
  data <- read_data("california_housing")
  if (is.null(data)) return(NULL)
  x <- scale(as.matrix(data[c("longitude", "latitude", "median_income")]))
  y <- log(data$median_house_value)
  set.seed(1)
  train <- sort(sample.int(nrow(x), round(0.9 * nrow(x))))
  y <- (y - mean(y[train])) / stats::sd(y[train])
  list(x = unname(x[train, ]), y = y[train], new = unname(x[-train, ]), truth = y[-train])
}

# Means at all new rows, and standard deviations at the first of them: signal and noise of variances `signal` and
# `noise`.
process_row <- function(way, p, h, signal, noise, solve_for, n = nrow(p$x)) {
  some <- seq_len(20)
  scaled <- sweep(p$x, 2, h, "/")
  cross <- kernel_operator(
    scaled, sweep(p$new, 2, h, "/"), bandwidth = 1, tol = 0,
    control = flash_control(backend = where, precision = "double")
  )
  seconds <- elapsed(\() {
    means <<- as.vector(cross %*% (signal * solve_for(p$y)$a))
    k <- signal * t(cross[some, ])
    about <<- solve_for(k)
    variances <<- signal + noise - colSums(k * about$a)
  })
  z <- (p$truth[some] - means[some]) / sqrt(variances)
  nlpd <- mean(z^2 / 2 + log(2 * pi * variances) / 2)
  row("process", way, n, NA, seconds, about$each, about$iterations, r2_of(means, p$truth), nlpd)
}
means <- about <- variances <- NULL

process_rows <- function() {
  p <- california()
  if (is.null(p)) return(NULL)
  set.seed(1)
  chosen <- kernel_ridge(p$x, p$y, control = flash_control(backend = where))
  h <- rep_len(chosen$bandwidth, 3)
  # the likelihood's scale of the signal, at that ratio to the noise, on some of the rows
  ratio <- chosen$lambda * nrow(p$x)
  some <- sample.int(nrow(p$x), 1000)
  K <- exp(-as.matrix(stats::dist(sweep(p$x[some, ], 2, h, "/")))^2 / 2) + diag(ratio, 1000)
  signal <- mean(p$y[some] * solve(K, p$y[some]))
  noise <- signal * ratio
  by_products <- \(tol, engine) \(b) solve_fast(sweep(p$x, 2, h, "/"), b / signal, 1, ratio, tol, engine)
  rows <- process_row("CG, fast products", p, h, signal, noise, by_products(1e-8, "auto"))
  if (on_gpu) rows <- rbind(rows, process_row("CG, exact products", p, h, signal, noise, by_products(0, "exact")))
  held <- 1000
  few <- sort(sample.int(nrow(p$x), held))
  part <- list(x = p$x[few, ], y = p$y[few], new = p$new, truth = p$truth)
  cholesky <- \(b) {
    K <- signal * exp(-as.matrix(stats::dist(sweep(part$x, 2, h, "/")))^2 / 2) + diag(noise, held)
    list(a = chol2inv(chol(K)) %*% as.matrix(b), each = NA, iterations = NA)
  }
  rbind(rows, process_row("Cholesky, some rows", part, h, signal, noise, cholesky, held))
}

# ---- all ----------------------------------------------------------------------------------------------

measure <- function() {
  grid <- expand.grid(n = 10^(if (full) 4:6 else 4:5), ev = c(0.1, 1, 10))
  grid <- grid[grid$n == 1e4 | grid$ev == 1, ]
  parts <- option_values("--only", c("ridge", "process"))
  rbind(
    if ("ridge" %in% parts) do.call(rbind, Map(ridge_rows, grid$n, grid$ev)),
    if ("process" %in% parts) process_rows()
  )
}

rows <- paper_rows("solvers", "Kernel ridge and Gaussian-process regression by fast products", measure)

if (any(rows$problem == "ridge")) paper_plot("solvers", height = 650, draw = \() {
  graphics::par(mfrow = c(1, 3), mar = c(3.6, 4.6, 2, 0.8), oma = c(2.2, 0, 0, 0))
  ways <- c("CG, fast products", "CG, exact products", "kernel_ridge(exact = TRUE)")
  dashed <- c(1, 2, 1) # its iterations are those of fast products
  names(dashed) <- ways
  ridge <- rows[rows$problem == "ridge", ]
  curves(ridge[ridge$ev == 1, ], ways, "n", "seconds", by = "way", xlab = "points", ylab = "seconds",
         main = "Ridge, EV 1", lty = dashed)
  for (what in c("seconds", "iterations")) {
    shown <- ridge[ridge$n == max(ridge$n[ridge$ev == 10]), ]
    curves(shown, ways, "ev", what, by = "way", xlab = "effective variance", ylab = what, lty = dashed,
           main = paste("n =", format_count(shown$n[1])))
  }
  legend_below(ways, lty = dashed)
})

show_table(data.frame(
  problem = rows$problem, way = rows$way, n = format_count(rows$n), EV = rows$ev, seconds = signif(rows$seconds, 3),
  `ms an iteration` = signif(1e3 * rows$each, 3), iterations = rows$iterations, R2 = round(rows$r2, 4),
  nlpd = round(rows$nlpd, 3),
  check.names = FALSE
))
