# Sums of real data, and of points far from the origin, on one GPU: pairs per second compared with a normal sample of
# the same n, m and d, and the error against double precision. Columns are standardised; targets are a held-out tenth of
# the rows.
#
#   Rscript bench/gpu-real.R [--only NAMES] [--estimator kde] [--factors 1] [--precision single,fast]
#     [--lists auto,never] [--save]
#
# lists: lists of near blocks, if they pay (auto) or never. plane, space: a million uniform points; plane5, space5: five
# Gaussians. ms: of the device; wall: from R's matrices to R's vector, a new fit each time. factors: multiples of the
# bandwidth, which is Silverman's; those of the simulated sets are set below. normal: the rate relative to that of a
# normal sample. tails: recomputed rows. Errors on 1,000 targets: relative L2 of densities (a single density may
# dominate it), and the largest of log densities.

source("bench/gpu-common.R")
gpu_start("gpu-real.R", "Sums of real data on one GPU")

estimator <- option("--estimator", "kde")
factors <- as.numeric(option_values("--factors", "1"))
precisions <- option_values("--precision", c("single", "fast"))
lists <- option_values("--lists", c("auto", "never"))

# ---- points -----------------------------------------------------------------------------------

named <- c(california = "california_housing", diamonds = "diamonds", higgs = "higgs_subset", satellite = "satellite", shuttle = "shuttle")

# list(x, y, h): h NULL: Silverman's.
real_set <- function(name) {
  x <- read_numbers(if (name %in% names(named)) named[[name]] else paste0("uci_", name))
  if (is.null(x)) return(NULL)
  x <- scale(x)[sample.int(nrow(x)), ]
  test <- seq_len(nrow(x) %/% 10)
  list(x = x[-test, ], y = x[test, ])
}

drawn <- function(n, m, d, draw) {
  all <- matrix(draw((n + m) * d), n + m)
  list(x = all[seq_len(n), ], y = all[-seq_len(n), ])
}
brownian <- function(n) {
  path <- apply(matrix(stats::rnorm(8 * n), n), 2, cumsum)
  scale(path)[sample.int(n), ]
}
five_gaussians <- function(n, d) {
  at <- matrix(stats::runif(5 * d), 5)
  at[sample.int(5, n, replace = TRUE), ] + matrix(stats::rnorm(n * d, sd = 0.1), n)
}
million <- function(points, h) list(x = points[1:1000000, ], y = points[1000001:1100000, ], h = h)
generators <- list(
  plane = \() million(matrix(stats::runif(2.2e6), ncol = 2), 0.004),
  space = \() million(matrix(stats::runif(3.3e6), ncol = 3), 0.015),
  plane5 = \() million(five_gaussians(1.1e6, 2), 0.006),
  space5 = \() million(five_gaussians(1.1e6, 3), 0.025),
  mixture = \() c(mixture_points(50021, 7777, 11), h = 0.5),
  t3 = \() c(drawn(50000, 5000, 16, \(k) stats::rt(k, 3)), h = 1.2),
  cauchy = \() c(drawn(50000, 5000, 4, stats::rcauchy), h = 0.5),
  pareto = \() c(drawn(50000, 5000, 6, \(k) stats::runif(k)^(-1 / 2)), h = 0.3),
  clusters = \() {
    at <- 2000 * matrix(stats::rnorm(8 * 5), 8)
    points <- at[sample.int(8, 55000, replace = TRUE), ] + stats::rnorm(55000 * 5)
    list(x = points[1:50000, ], y = points[50001:55000, ], h = 0.4)
  },
  brownian = \() { p <- brownian(55000); list(x = p[1:50000, ], y = p[50001:55000, ], h = 0.02) }
)
wanted <- option_values("--only", c(names(generators), names(named), UCI_SETS))

# ---- one case ---------------------------------------------------------------------------------

seconds_of <- function(data, h, precision, runs = 5) {
  last <- NULL
  once <- function() {
    fit <- flash_kde(data$x, estimator, bandwidth = h, adaptive = FALSE, control = flash_control(backend = "cuda", precision = precision))
    last <<- log_density(fit, data$y)
    device_seconds(fit_stages(fit)) + device_seconds(last$stats)
  }
  once()
  seconds <- NULL
  wall <- replicate(runs, elapsed(\() seconds <<- c(seconds, once())))
  list(seconds = stats::median(seconds), wall = stats::median(wall), estimate = last)
}

signed <- function(estimate) exp(estimate$log_abs) * if (is.null(estimate$negative)) 1 else ifelse(estimate$negative, -1, 1)

measure <- function(name, factor, precision, lists) {
  set.seed(1)
  Sys.setenv(FLASHKERNEL_CUDA_LISTS = lists)
  data <- if (name %in% names(generators)) generators[[name]]() else real_set(name)
  if (is.null(data)) return(NULL)
  n <- nrow(data$x)
  m <- nrow(data$y)
  d <- ncol(data$x)
  h <- factor * if (is.null(data$h)) as.numeric(kde_bandwidth(data$x, "silverman", estimator)) else data$h
  found <- seconds_of(data, h, precision)
  plain <- list(x = matrix(stats::rnorm(n * d), n), y = matrix(stats::rnorm(m * d), m))
  beside <- seconds_of(plain, if (d == 1) 0.2 else (4 / (d + 2) / n)^(1 / (d + 4)), precision)
  rows <- sort(sample.int(m, min(m, 1000)))
  exact <- log_density(
    flash_kde(data$x, estimator, bandwidth = h, adaptive = FALSE, control = flash_control(backend = "cuda", precision = "double")), data$y[rows, , drop = FALSE]
  )
  difference <- signed(found$estimate)[rows] - signed(exact)
  logs <- abs(found$estimate$log_abs[rows] - exact$log_abs)
  pairs <- as.numeric(n) * m + if (estimator == "sdkde") n^2 else 0
  data.frame(
    set = name, n = n, m = m, d = d, factor = factor, precision = precision, lists = lists, ms = format_ms(found$seconds),
    wall = format_ms(found$wall),
    pairs = formatC(pairs / found$seconds, digits = 2, format = "e"), normal = round(beside$seconds / found$seconds, 2),
    error = format_error(sqrt(sum(difference^2) / sum(signed(exact)^2))), log = format_error(max(logs[is.finite(logs)])),
    method = found$estimate$stats$method, tails = found$estimate$stats$tail_rows
  )
}

cases <- expand.grid(
  lists = lists, precision = precisions, factor = factors, name = wanted, stringsAsFactors = FALSE
)
rows <- Map(\(name, factor, precision, lists) {
  row <- tryCatch(measure(name, factor, precision, lists), error = \(e) { cat(name, ":", conditionMessage(e), "\n"); NULL })
  if (!is.null(row)) print(row, row.names = FALSE)
  row
}, cases$name, cases$factor, cases$precision, cases$lists)
cat("\n")
show_table(do.call(rbind, unname(rows)))
