# One table: engine x back end x precision x kernel x operation, over points of all kinds and sizes at the edges of
# tiles, each row against the formulas in plain R. An exact engine may be at most twice as wrong as the naive sum in the
# same precision, the fast one as wrong as it was asked to be.

skip_without <- function(backend) if (backend == "cuda") skip_if_no_gpu()

# ---- the exact engines ------------------------------------------------------------------------

cases <- parity_cases()

# The operations share the cases out: two thirds of them for the Gaussian, a third for each other kernel.
cases_of <- function(operation, kernel) {
  turn <- match(operation, names(parity_operations)) + match(kernel, names(ref_kernels))
  mine <- seq_along(cases) %% 3 == turn %% 3
  found <- cases[if (kernel == "gaussian") !mine else mine]
  if (grepl("left out", operation)) Filter(\(case) nrow(case$x) > 1, found) else found
}

exact_rows <- expand.grid(
  operation = names(parity_operations), precision = c("double", "single"), backend = c("cpu", "cuda"),
  stringsAsFactors = FALSE
)

for (row in split(exact_rows, seq_len(nrow(exact_rows)))) with(row, {
  test_that(paste0("exact, ", backend, ", ", precision, ": ", operation), {
    skip_without(backend)
    for (kernel in parity_kernels(operation)) for (case in cases_of(operation, kernel)) {
      parts <- parity_operations[[operation]](case, kernel, precision, backend)
      times <- if (backend == "cuda" && precision == "single") 3 else 2
      expect_parity(parts, precision, paste(kernel, case$label, sep = ", "), times)
    }
  })
})

rm(list = ls(parity_memo), envir = parity_memo)

# ---- the fast engines -------------------------------------------------------------------------

fast_tasks <- c(
  "sums", "kde density", "kde log_density", "kde score", "kde loo log_density", "kde loo score", "laplace density",
  "laplace score", "laplace loo density", "laplace loo score", "sdkde density", "sdkde log_density", "sdkde score",
  "debiased"
)

# Two clusters, and targets beside them, among them and far away; log sums, scores and own terms as the task has it
fast_case <- function(row, kernel, task, own, ...) {
  d <- row$d
  set.seed(d)
  n <- 200
  x <- matrix(stats::rnorm(n * d), n) + 4 * (seq_len(n) %% 2)
  y <- rbind(x[1:30, , drop = FALSE] + 0.1, x[31:40, , drop = FALSE] * 3, matrix(stats::runif(10 * d, -4, 8), 10))
  b <- if (task == "sums") cbind(stats::rnorm(n), 1, 10^stats::runif(n, -8, 0))
  weights <- if (task != "sums") stats::rexp(n)
  # grids of many nodes are slow
  case <- given_case(x, if (!own) y, b, if (d < 4) 0.8 else 3, task, row$tol, row$type, weights = weights, engine = "fast", ...)
  case$kernel <- kernel
  case
}

tolerances <- list(
  double = data.frame(
    d = c(1, 2, 2, 3, 4), tol = c(1e-9, 1e-3, 1e-9, 1e-6, 1e-3),
    type = c("global", "global", "pointwise", "global", "pointwise")
  ),
  single = data.frame(d = c(1, 2, 3), tol = 1e-4, type = c("pointwise", "global", "pointwise"))
)
methods <- list(cpu = c("grid", "direct"), cuda = "grid")

for (backend in names(methods)) for (method in methods[[backend]]) for (precision in names(tolerances)) {
  for (task in fast_tasks) test_that(paste0("fast by ", method, ", ", backend, ", ", precision, ": ", task), {
    skip_without(backend)
    for (row in split(tolerances[[precision]], seq_len(nrow(tolerances[[precision]])))) {
      # kernels that hardly decay need nodes everywhere
      kernels <- if (task == "sums" && row$d < 3) c("gaussian", "cauchy", "imq") else "gaussian"
      for (kernel in kernels) for (own in if (task == "sums") c(FALSE, TRUE) else grepl("loo|debiased", task)) {
        found <- run_case(fast_case(row, kernel, task, own, precision = precision, method = method, backend = backend))
        expect_tolerance(found)
        ran <- c(found$backend, found$engine, found$method)
        expect_identical(ran, c(backend, "fast", method), label = label_of(found))
      }
    }
  })
}
