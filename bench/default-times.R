# Seconds of flash_kde() without a bandwidth, with two threads of the CPU: medians of five runs at n = 2,000, one run
# for larger n, a million points to a tolerance of 1e-6, since debiasing them exactly takes a minute. sdkde, kde,
# laplace: that estimator with one bandwidth. First prints milliseconds of all defaults for small data.
#
#   Rscript bench/default-times.R [--quick] [--save]        --quick: n = 2,000 only
#
# Data: mixtures of three normals; 2,000 places of california_housing, if bench/data has it; a t density with 2 degrees
# of freedom.

source("bench/common.R")
bench_start("default-times.R", "Seconds of the default bandwidth")
options(flashkernel.progress = FALSE, flashkernel.threads = 2L, flashkernel.backend = "cpu")

mixture <- function(n, d) {
  set.seed(1)
  from <- sample.int(3, n, replace = TRUE)
  matrix(2 * stats::rnorm(3 * d), 3)[from, , drop = FALSE] + c(0.6, 1, 1.4)[from] * stats::rnorm(n * d)
}

FITS <- list(
  default = \(x) flash_kde(x), sdkde = \(x) flash_kde(x, "sdkde"), kde = \(x) flash_kde(x, "kde", adaptive = FALSE),
  laplace = \(x) flash_kde(x, "laplace")
)
seconds_of <- function(fit, x, runs) {
  if (runs > 1) fit(x)
  stats::median(replicate(runs, system.time(fit(x))[["elapsed"]]))
}
show_seconds <- function(name, x, fits, runs = 5) {
  seconds <- vapply(FITS[fits], seconds_of, 0, x = x, runs = runs)
  cat(name, paste0("  ", fits, " ", formatC(seconds, digits = 2, format = "fg")), "\n")
}

# milliseconds of small data with all defaults, one thread, beside those of stats::density() with "SJ"
SMALL <- list(
  flash_kde = \() flash_kde(x), kernel_regression = \() kernel_regression(mpg ~ wt, mtcars),
  kernel_ridge = \() kernel_ridge(mpg ~ wt + hp, mtcars), flash_kda = \() flash_kda(Species ~ ., iris),
  density = \() stats::density(x, bw = "SJ")
)
milliseconds <- function(fit) {
  started <- Sys.time()
  fit()
  1e3 * as.numeric(Sys.time() - started, units = "secs")
}
options(flashkernel.threads = 1L)
set.seed(1)
x <- stats::rnorm(500)
for (name in names(SMALL)) {
  for (i in 1:5) SMALL[[name]]()
  cat(name, formatC(stats::median(replicate(50, milliseconds(SMALL[[name]]))), digits = 2, format = "fg"), "ms\n")
}
options(flashkernel.threads = 2L)

for (d in c(2, 6)) show_seconds(paste("2,000 x", d), mixture(2000, d), names(FITS))
places <- read_data("california_housing")
if (!is.null(places)) {
  show_seconds("2,000 places", as.matrix(places[1:2000, c("longitude", "latitude")]), names(FITS))
}
if (!"--quick" %in% arguments) {
  x <- mixture(1e5, 3)
  cat("100,000 x 3, full  ", formatC(seconds_of(\(x) flash_kde(x, bandwidth = kde_bandwidth(structure = "full")), x, 1), digits = 2, format = "fg"), "\n")
  options(flashkernel.tol = 1e-6)
  show_seconds("1,000,000 x 2", mixture(1e6, 2), c("default", "kde"), 1)
  show_seconds("1,000,000 x 2, t2", matrix(stats::rt(2e6, 2), ncol = 2), "default", 1)
}
