# Measures the gain of adaptive bandwidths over the single bandwidth of kde_bandwidth(), by method and power, alone and
# with debiasing ("moved": points debiased with Abramson's factors of the SD-KDE).
#
#   Rscript bench/adaptive.R [splits]
#
# Prints the held-out log density (nats per observation, 4,000 rows, a millionth of a Cauchy density mixed in) and, in
# one dimension, the integrated squared error relative to the default with one bandwidth (geometric mean).

source("bench/common.R")
source("bench/bandwidths/losses.R")
splits <- if (length(arguments) > 0) as.numeric(arguments[1]) else 10

real <- function(file, columns) {
  table <- read_data(file)
  if (is.null(table)) return(NULL)
  x <- as.matrix(table[, columns])
  list(draw = \(n) x[sample(nrow(x), n), , drop = FALSE])
}
simulated <- function(draw, density = NULL) list(draw = draw, density = density)
mixture <- \(n, a, b) matrix(ifelse(stats::runif(n) < 0.5, a(n), b(n)))

sets <- list(
  "t2" = simulated(\(n) matrix(stats::rt(n, 2)), \(x) stats::dt(x, 2)),
  "normal" = simulated(\(n) matrix(stats::rnorm(n)), stats::dnorm),
  "two scales" = simulated(
    \(n) mixture(n, stats::rnorm, \(n) stats::rnorm(n, 0, 0.1)), \(x) (stats::dnorm(x) + stats::dnorm(x, 0, 0.1)) / 2
  ),
  "log gamma" = simulated(
    \(n) matrix(log(stats::rgamma(n, 1.5))), \(x) stats::dgamma(exp(x), 1.5) * exp(x)
  ),
  "t2, d = 2" = simulated(\(n) matrix(stats::rnorm(2 * n), n) / sqrt(stats::rchisq(n, 2) / 2)),
  "california 2" = real("california_housing", c("longitude", "latitude")),
  "california 4" = real("california_housing", c("longitude", "latitude", "median_income", "median_house_value")),
  "diamonds 3" = real("diamonds", c("carat", "depth", "price")),
  "higgs 6" = real("higgs_subset", 2:7)
)

estimates <- function(x) {
  one <- flash_kde(x, "kde", adaptive = FALSE)
  by <- \(...) flash_kde(x, adaptive = adaptive_factors(one, ...))
  list(
    lcv = flash_kde(x, "kde", bandwidth = kde_bandwidth(x, "lcv", "kde")), one = one, abramson = by(), "1/4" = by(alpha = 1 / 4),
    "1/2" = by(alpha = 1 / 2), knn = by("knn"), "10th" = by("knn", k = 10), sdkde = flash_kde(x, "sdkde"),
    default = flash_kde(x), moved = flash_kde(x, "sdkde", adaptive = TRUE),
    "moved 1/4" = flash_kde(x, "sdkde", adaptive = adaptive_factors(flash_kde(x, "sdkde"), alpha = 1 / 4))
  )
}

grid <- seq(-12, 12, 0.005)
for (name in names(Filter(length, sets))) for (n in c(500, 2000)) {
  set <- sets[[name]]
  found <- sapply(seq_len(splits), \(split) {
    set.seed(split)
    all <- set$draw(n + 4000)
    x <- all[seq_len(n), , drop = FALSE]
    y <- all[-seq_len(n), , drop = FALSE]
    fits <- estimates(x)
    nats <- vapply(fits, \(fit) mean(log_with_floor(predict(fit, y, type = "log_density"), x, y)), 0)
    error <- if (!is.null(set$density)) {
      vapply(fits, \(fit) log(sum((predict(fit, grid) - set$density(grid))^2)), 0)
    } else {
      nats * NA
    }
    c(nats - nats["lcv"], error - error["one"])
  })
  nats <- seq_len(nrow(found) / 2)
  mean <- rowMeans(found)
  cat(sprintf("%-12s %5d nats ", name, n), sprintf("%s %.3f ", rownames(found)[nats], mean[nats]))
  cat(sprintf("(se %.3f) error ", stats::sd(found[3, ]) / sqrt(splits)), sprintf("%.2f", exp(mean[-nats])), "\n")
}
