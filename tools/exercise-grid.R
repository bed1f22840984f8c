# Small sums on a GPU's grid, for tools that slow them down a thousandfold, with which the test suite would take hours:
#   compute-sanitizer --tool racecheck Rscript tools/exercise-grid.R [1 2 3]     dimensions; default: 1 to 7
library(flashkernel)

uniform <- function(n, d, from = 0, to = 4) matrix(stats::runif(n * d, from, to), n)

exercise <- function(d) {
  set.seed(d)
  n <- if (d < 5) 3000 else 600
  x <- uniform(n, d)
  y <- rbind(uniform(200, d), uniform(5, d, 50, 51))
  b <- cbind(stats::rnorm(n), stats::runif(n), -1)
  sums <- \(..., precision = "auto", tol_type = "global") {
    control <- flash_control(engine = "fast", backend = "cuda", precision = precision, tol_type = tol_type)
    kernel_sum(..., control = control)
  }
  for (precision in c("single", "double")) {
    for (tol in c(1e-3, if (precision == "double" && d < 5) 1e-8)) {
      sums(x, b = b[, 1], bandwidth = 1, tol = tol, precision = precision)
      sums(x, y, b, diag(0.8, d) + 0.1, tol = tol, precision = precision)
      if (d < 4) sums(x, y, b[, 2], 1, tol = tol, tol_type = "pointwise", precision = precision)
    }
  }
  for (estimator in if (d < 5) c("kde", "sdkde", "laplace")) {
    fit <- flash_kde(x, estimator, bandwidth = 1, tol = 1e-4, control = flash_control(backend = "cuda"))
    suppressWarnings(predict(fit, y, type = "log_density"))
    suppressWarnings(predict(fit, y[1:50, , drop = FALSE], type = "score"))
  }
  # a device with too little memory for the points
  Sys.setenv(FLASHKERNEL_CUDA_MEMORY = "3e6")
  on.exit(Sys.unsetenv("FLASHKERNEL_CUDA_MEMORY"))
  tryCatch(sums(x, y, b[, 1], 1, tol = 1e-3), flashkernel_error = \(e) cat("refused: ", conditionMessage(e), "\n", sep = ""))
}

dimensions <- as.numeric(commandArgs(TRUE))
for (d in if (length(dimensions) > 0) dimensions else 1:7) exercise(d)
# two clouds far apart
x <- rbind(uniform(1000, 3, 0, 1), uniform(1000, 3, 1e4, 1e4 + 1))
invisible(kernel_sum(
  x, b = stats::rnorm(2000), bandwidth = 0.3, tol = 1e-4,
  control = flash_control(engine = "fast", backend = "cuda")
))
gpu_release()
cat("exercise: done\n")
