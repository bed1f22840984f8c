# Tests on a GPU run if there is one. A child process checks once, because a process that has started CUDA cannot fork,
# as other test files do.

gpu_probe <- new.env()

# "available", or why tests on a GPU cannot run here. FLASHKERNEL_TEST_GPU=no turns them off.
gpu_status <- function() {
  if (is.null(gpu_probe$status)) gpu_probe$status <- ask_for_gpu()
  gpu_probe$status
}

ask_for_gpu <- function() {
  if (identical(Sys.getenv("FLASHKERNEL_TEST_GPU"), "no")) return("FLASHKERNEL_TEST_GPU=no")
  if (!flashkernel:::backend_info()$gpu_engine) return("no GPU engine is installed")
  code <- "cat(flashkernel::gpu_info()$status)"
  answer <- suppressWarnings(system2(
    file.path(R.home("bin"), "Rscript"), c("--vanilla", "-e", shQuote(code)),
    stdout = TRUE, stderr = FALSE, timeout = 120, env = paste0("R_LIBS=", library_paths())
  ))
  if (length(answer) == 0) "the process that looked for one failed" else paste(answer, collapse = " ")
}

library_paths <- function() {
  shQuote(paste(unique(c(installed_library(), .libPaths())), collapse = .Platform$path.sep))
}

has_gpu <- function() identical(gpu_status(), "available")

skip_if_no_gpu <- function() {
  if (!has_gpu()) testthat::skip(paste("no CUDA device:", sub("^no CUDA device: ", "", gpu_status())))
}

skip_if_one_gpu <- function() {
  skip_if_no_gpu()
  if (length(gpu_info()$index) < 2) testthat::skip("one CUDA device")
}

# Runs `code` with an environment variable, and restores its old value.
with_variable <- function(name, value, code) {
  set <- \(value) if (is.na(value)) Sys.unsetenv(name) else do.call(Sys.setenv, stats::setNames(list(value), name))
  before <- Sys.getenv(name, NA)
  on.exit(set(before))
  set(value)
  force(code)
}

# Repeated work must not leak device memory; other programs may use the device, too.
expect_freed <- function(work, times = 5) {
  work() # what is loaded with it stays
  gpu_release()
  before <- gpu_info()$memory_free[1]
  for (i in seq_len(times)) work()
  gpu_release()
  testthat::expect_gt(gpu_info()$memory_free[1], before - 64e6)
}

# A forked child cannot use a device of its parent.
expect_no_fork <- function(work) {
  outcomes <- parallel::mclapply(1:2, \(i) class(tryCatch(work(), error = identity))[1], mc.cores = 2)
  testthat::expect_identical(outcomes, rep(list("flashkernel_error_forked"), 2))
}

# The fit, set to predict on the GPU.
on_gpu <- function(fit, precision = "double", devices = NULL) {
  fit$backend <- "cuda"
  fit$precision <- precision
  fit["devices"] <- list(devices)
  fit
}

# ---- errors -----------------------------------------------------------------------------------

# The documented bounds for densities and for sums in the L2 norm; in double precision, more than enough for 1e-12 in
# their logarithms.
L2_BOUNDS <- c(double = 1e-10, single = 1e-5, fast = 2e-3)

# Rounding errors of single coordinates grow with the root of the dimension.
l2_bound <- function(precision, d) {
  L2_BOUNDS[[precision]] * if (precision == "single") max(1, sqrt(d / 64)) else 1
}

# |got - want| in the L2 norm, relative to `size`: the sum of absolute terms if signs cancel.
l2_error <- function(got, want, size = want) sqrt(sum((got - want)^2) / sum(size^2))

expect_l2 <- function(got, want, bound, label = "value", size = want) {
  stopifnot(identical(length(got), length(want)))
  error <- l2_error(as.vector(got), as.vector(want), as.vector(size))
  testthat::expect(isTRUE(error <= bound), sprintf("%s: L2 error %.3g is above the bound %.3g.", label, error, bound))
  invisible(error)
}

# Log densities: in "single" each of them, in "fast" only the densities have a bound.
expect_promise <- function(got, want, d, precision, label, double = 1e-10) {
  testthat::expect(all(is.finite(got)), paste0(label, ": not finite."))
  if (precision == "double") return(expect_within(got, want, double, label))
  if (precision == "single") {
    error <- max(abs(got - want) / ifelse(want > -100, 1e-4, 1e-5 * abs(want)))
    testthat::expect(isTRUE(error <= 1), sprintf("%s: %.3g times the bound.", label, error))
  }
  # densities of many dimensions may underflow; nothing is promised if all of them do
  top <- max(want)
  if (top > -700) expect_l2(exp(got - top), exp(want - top), l2_bound(precision, d), label)
}

# Scores, and debiasing steps, have no documented bound. In kernel standard deviations, they are limited by the
# precision of the weights and the coordinates.
expect_score_near <- function(got, want, H, precision, label) {
  half <- t(chol(H))
  if (precision == "double") return(expect_within(got %*% half, want %*% half, 1e-8, label))
  bound <- if (precision == "single") 1e-4 else 2e-2
  size <- pmax(1, abs(want %*% half))
  expect_l2(got %*% half, want %*% half, bound, label, size)
}
