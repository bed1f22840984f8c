# This package and other programs on the same points, timed alike. Shared by runtime.R, laplace-fused.R and precision.R;
# sourced after common.R.

source("bench/host-common.R")

on_gpu <- backend == "cuda" || (backend == "auto" && gpu_info()$status == "available")
where <- if (on_gpu) "cuda" else "cpu"
# what R users get by default there
usual <- if (on_gpu) "single" else "double"

ESTIMATORS <- c("kde", "sdkde", "laplace")

# Who is asked by host_to_host.py, by the names in tables. Where a path is needed and not given it is NULL.
triton <- function(variant = "") if (!is.null(option("--triton"))) paste0("triton", variant, "=", option("--triton"))
OTHERS <- list(
  "PyTorch" = "eager", "torch.compile" = "compiled", "KeOps" = "keops", "scikit-learn" = "sklearn",
  "published Triton" = triton()
)

# One case: n, m, d and h, the points, a folder of them for the others, and what the density is, by estimator.
make_case <- function(n, d, m, h, estimators) {
  points <- mixture_points(n, m, d)
  # all centre by themselves what they do not centre here, but those in single precision without it
  centre <- colMeans(points$x)
  points <- lapply(points, \(p) sweep(p, 2, centre))
  truth <- lapply(stats::setNames(nm = estimators), \(e) density_of(points, e, h, where, "double"))
  list(n = n, d = d, m = m, h = h, points = points, folder = write_points(points), truth = truth)
}

fit_case <- function(points, estimator, h, backend, precision) {
  flash_kde(points$x, estimator, bandwidth = h, control = flash_control(backend = backend, precision = precision))
}

density_of <- function(points, estimator, h, backend, precision) {
  predict(fit_case(points, estimator, h, backend, precision), points$y)
}

# Seconds in the engine: of the device by events, or of the processor's engine; median of five, with new points
# each.
engine_seconds <- function(case, estimator, backend, precision) {
  part <- if (backend == "cuda") "device_seconds" else "seconds"
  once <- function() {
    points <- lapply(case$points, renew)
    fit <- fit_case(points, estimator, case$h, backend, precision)
    sum(fit_stages(fit)[[part]], log_density(fit, points$y)$stats[[part]])
  }
  stats::median(replicate(5, once()))
}

# A row of the table. `error`: relative L2 of the densities against double precision.
row_of <- function(case, program, estimator, host, device, error, queries = case$m, why = "") {
  data.frame(program, estimator, d = case$d, n = case$n, m = case$m, h = case$h, host, device, error, queries, why)
}

ours <- function(case, estimator, backend = where, precision = usual, program = "flashkernel") {
  task <- \(points) predict(fit_case(points, estimator, case$h, backend, precision), points$y)
  error <- if (precision == "double") NA else relative_l2(task(case$points), case$truth[[estimator]])
  row_of(case, program, estimator, median_seconds(case$points, task, budget = 0.5),
         engine_seconds(case, estimator, backend, precision), error)
}

# All cases by another program of `others`, for so many seconds (ten times as many in a small run), or --seconds; one
# that computes some queries only is taken to need as much for each of the rest.
theirs <- function(name, cases, estimators, others = OTHERS, seconds = 20) {
  program <- others[[name]]
  seconds <- as.numeric(option("--seconds", if (full) seconds else 10 * seconds))
  if (name == "scikit-learn") cases <- Filter(\(case) case$n <= 16384, cases)
  if (is.null(program)) return(left_out(name, "no path given"))
  folders <- vapply(cases, `[[`, "", "folder")
  found <- other_program(
    program, folders, vapply(cases, `[[`, 0, "d"), vapply(cases, `[[`, 0, "h"), estimators,
    device = if (on_gpu) "cuda" else "cpu", limit = 2, timeout = seconds,
    budget = if (full) 0.1 else 0.5
  )
  if (is.null(found$about)) return(left_out(name, found$why))
  cat(name, ": ", found$about, "\n", sep = "")
  rows <- found$rows
  if (nrow(rows) == 0) return(left_out(name, found$why))
  do.call(rbind, lapply(seq_len(nrow(rows)), \(i) {
    row <- rows[i, ]
    case <- cases[[match(row$folder, folders)]]
    if (row$why != "") return(row_of(case, name, row$estimator, NA, NA, NA, NA, row$why))
    some <- seq_len(row$queries)
    error <- relative_l2(densities_of(program, row$folder, row$estimator)[some], case$truth[[row$estimator]][some])
    row_of(case, name, row$estimator, row$host * case$m / row$queries, row$device, error, row$queries)
  }))
}

# Exact sums of ks, at some of the queries; it has up to six dimensions.
by_ks <- function(case, pairs = 2e6) {
  if (!requireNamespace("ks", quietly = TRUE) || case$d > 6) return(NULL)
  at <- case$points$y[seq_len(max(16, min(case$m, pairs / case$n))), , drop = FALSE]
  x <- case$points$x
  estimate <- \() if (case$d == 1) {
    ks::kde(as.vector(x), h = case$h, eval.points = as.vector(at), binned = FALSE)$estimate
  } else {
    ks::kde(x, H = case$h^2 * diag(case$d), eval.points = at, binned = FALSE)$estimate
  }
  error <- relative_l2(estimate(), case$truth$kde[seq_len(nrow(at))])
  seconds <- stats::median(replicate(3, elapsed(estimate)))
  row_of(case, "ks", "kde", seconds * case$m / nrow(at), NA, error, nrow(at))
}

forget_cases <- function(cases) unlink(vapply(cases, `[[`, "", "folder"), recursive = TRUE)
