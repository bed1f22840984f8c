# Reads the reference cases, and has error measures and small tools that several files share.

reference_cases <- c(
  "d1", "d1-tails", "d100", "d16", "d16-tails", "d17", "d2-full", "d3-weighted",
  "d33-weighted", "d4-ties", "d5-diagonal", "d7-offset", "n1"
)

read_case <- function(name) {
  path <- function(what) {
    testthat::test_path("fixtures", "reference", name, paste0(what, ".csv.gz"))
  }
  points <- function(what) {
    unname(as.matrix(utils::read.csv(path(what), header = FALSE, colClasses = "numeric")))
  }
  expected <- utils::read.csv(path("expected"), colClasses = "character")
  sign <- ifelse(startsWith(expected$laplace, "-"), -1, 1) # the value itself may underflow
  expected[] <- lapply(expected, as.numeric)
  list(
    name = name, x = points("x"), y = points("y"), H = points("bandwidth"),
    weights = if (file.exists(path("weights"))) points("weights")[, 1],
    log_kde = expected$log_kde, log_sdkde = expected$log_sdkde,
    log_abs_laplace = expected$log_abs_laplace, laplace_sign = sign,
    score = unname(as.matrix(expected[startsWith(names(expected), "score")])),
    debiased = points("debiased")
  )
}

# Relative error; absolute if the true value is below 1.
scaled_error <- function(got, want) {
  stopifnot(identical(length(got), length(want)))
  max(abs(got - want) / pmax(1, abs(want)))
}

# One expectation for a bound; NaN and NA fail it.
expect_within <- function(got, want, bound, label = "value") {
  error <- scaled_error(as.vector(got), as.vector(want))
  testthat::expect(
    isTRUE(error <= bound),
    sprintf("%s: error %.3g is above the bound %.3g.", label, error, bound)
  )
  invisible(error)
}

# An error of the right class whose message begins with the argument and a verb: "`x` must ..."
expect_argument_error <- function(object, arg) {
  testthat::expect_error(object,
    class = "flashkernel_error_argument",
    regexp = paste0("^`", gsub("$", "[$]", arg, fixed = TRUE), "` (must|is|does|needs|could not) "),
  )
}

# Sample with correlated columns and three bumps, the same in every run
example_points <- function(n, d, seed = 1) {
  set.seed(seed)
  centre <- matrix(stats::rnorm(3 * d, sd = 1.5), 3, d)
  x <- centre[sample(3, n, TRUE), , drop = FALSE] + matrix(stats::rnorm(n * d), n, d)
  if (d > 1) x[, 2] <- x[, 2] + x[, 1] / 2
  x
}

example_bandwidth <- function(d, h = 0.7) {
  H <- diag(seq(1, 1.5, length.out = d), d) * h^2
  if (d > 1) H[1, 2] <- H[2, 1] <- 0.3 * h^2
  H
}

with_null_device <- function(code) {
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  force(code)
}

# Runs a function in a fresh R process with this copy of the package attached. The function sees only its arguments and
# what it defines.
in_child <- function(f, args = list(), env = character(), timeout = 120) {
  testthat::skip_if_not_installed("callr")
  callr::r(child_task, child_arguments(f, args),
    env = c(callr::rcmd_safe_env(), env), timeout = timeout
  )
}

child_task <- function(library_path, f, args) {
  library(flashkernel, lib.loc = library_path)
  do.call(f, args)
}

child_arguments <- function(f, args = list()) {
  environment(f) <- globalenv()
  list(library_path = installed_library(), f = f, args = args)
}

installed_library <- function() {
  path <- getNamespaceInfo("flashkernel", "path")
  if (!file.exists(file.path(path, "Meta", "package.rds"))) {
    testthat::skip("the package is loaded from its sources, not installed")
  }
  dirname(path)
}

# A data set of the benchmarks, if the repository has it (bench/data/fetch.R). The tarball has none.
bench_data <- function(file) {
  path <- file.path("..", "..", "bench", "data", file)
  if (!file.exists(path)) testthat::skip(paste0("bench/data/", file, " is missing: run bench/data/fetch.R"))
  path
}
