# The score-debiased estimate at the size of the published GPU code: d = 16, n = 32,768 training
# points, m = 4,096 queries. n^2 pairs for the score (half of them, by symmetry), n m for the density.

source("bench/common.R")
bench_start("sdkde.R", "Score-debiased estimate, fit and prediction")

n <- 32768
m <- 4096
d <- 16
x <- normal_points(n, d, 1)
y <- normal_points(m, d, 2)
h <- common_bandwidth(n, d)

stages <- function(precision) {
  fit <- flash_kde(x, estimator = "sdkde", bandwidth = h, control = flash_control(precision = precision))
  predict(fit, y, type = "log_density")
}
seconds <- medians(list(double = \() stages("double"), single = \() stages("single")), runs = 5)
exact <- stages("double")
error <- max(abs(stages("single") - exact))
goal <- c(double = 1.5, single = 0.8)
show_table(data.frame(
  precision = names(seconds),
  seconds = sprintf("%.3f", seconds),
  goal = sprintf("%.1f", goal[names(seconds)]),
  `pairs of the definition per second` = format_rate((n^2 + n * m) / seconds),
  check.names = FALSE
))
cat(sprintf("largest difference of the log densities, single from double: %.1e\n\n", error))
print(diagnostics(flash_kde(x, estimator = "sdkde", bandwidth = h, control = flash_control(precision = "double"))))
