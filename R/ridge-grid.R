# Rounding of centres for tensor cores, which read a coordinate as two FP16 terms and so move a point by up to a
# millionth of a bandwidth. A single sum is not affected. But coefficients of thousands of smooth kernels are large and
# cancel, and a preconditioner of other centres than those of the products is one of another matrix: conjugate gradients
# then stall or diverge. Centres of such products are therefore rounded before the fit, also for the preconditioner and
# for predictions. Rows may move: each is one row of the matrix, the same in both sweeps of a product.

# Grid step in whitened coordinates times sqrt(log2(e)), the units of src/cuda/tensor/tensor.cuh. All grids of that file
# contain its multiples. With precision "fast" rows of many columns are rounded to one FP16 term.
HALVES_STEP <- c(single = 2^-17, fast = 2^-9)

# Rounds points to the grid. A point moves by up to half of `step`, in bandwidths, in each coordinate.
on_halves <- function(points, L, run, step = HALVES_STEP[["single"]]) {
  # the scale of the device includes a correction for the bits that tensor cores truncate
  step <- step / (sqrt(log2(exp(1)) * (1 + ceiling(ncol(points) / 16) * 2 * 0.45 * 2^-24)))
  middle <- colMeans(points)
  if (any(L[lower.tri(L)] != 0)) {
    u <- forwardsolve(L, t(points) - middle)
    moved <- t(L %*% round_columns(u, rep(0, ncol(u)), rep(step, ncol(u)), run) + middle)
  } else {
    moved <- round_columns(points, middle, step * diagonal(L), run)
  }
  dimnames(moved) <- dimnames(points)
  moved
}

# Columns rounded to `middle` plus multiples of `step`, with a number for each.
round_columns <- function(x, middle, step, run) .Call(ffi_round_columns, x, middle, step, run)

# ---- precision --------------------------------------------------------------------------------

# Responses without noise need a small lambda, which makes coefficients so large that rounding errors of kernels in
# single precision exceed the signal (bike: errors of 0.03 or 300, depending on the split). So `precision` "auto" is
# double on GPUs, too, up to this number of pairs, where it costs some milliseconds for each product. For more pairs the
# fit estimates the loss of accuracy, and is repeated in double precision if that is too large.
FIT_PAIRS_IN_DOUBLE <- 5e9

# The run of the products of a fit. They are many: a fit is worth starting a GPU for if a nominal core takes as long for all
# pairs once.
run_of_fit <- function(rows, m, run) {
  pairs <- as.double(rows$n) * m
  run <- run_of_many(run, inherits(rows, "rows_dense") && pairs * nominal_pair(rows$d) >= nominal_costs()$gpu_start)
  if (run$precision == "auto" && pairs <= FIT_PAIRS_IN_DOUBLE) replace(run, "precision", "double") else run
}

# Largest error due to single precision that is accepted: relative to the standard deviation of the response, or of the
# link for logistic loss.
IMPRECISE <- 0.02
ROWS_TO_LOOK_AT <- 200

# The error of predictions due to single precision, at some rows; 0 if it was not used.
lost_in_single <- function(system, coefficients, y, spec) {
  rows <- system$rows
  by <- products_by(rows, system$centers$m, spec, system$run)
  if (by$backend != "cuda" || by$precision == "double" || !inherits(rows, "rows_dense")) return(0)
  some <- rows_take(rows, spread_rows(rows$n, ROWS_TO_LOOK_AT))
  link <- \(precision) {
    run <- replace(system$run, c("backend", "precision", "tol"), list("cuda", precision, 0))
    kernel_sum_of(system$centers$sources, some, coefficients, run, as_matrix = TRUE)$sums
  }
  lost <- sqrt(colMeans((link(by$precision) - link("double"))^2))
  if (spec$family$link != "identity") return(max(lost))
  centred <- combine_columns(y, NULL, -colMeans(y), system$run)
  max(lost / pmax(sqrt(weighted_squares(centred, NULL, system$run) / nrow(y)), .Machine$double.xmin))
}

warn_imprecise <- function(lost, spec) {
  warning(
    "single precision is not enough for coefficients of this size: predictions have an error of ",
    format(lost, digits = 2), if (spec$family$link == "identity") " standard deviations of the response",
    ". Use `control = flash_control(precision = \"double\")` or a larger `lambda`.", call. = FALSE
  )
}

# How the products of a fit will be computed: a resolved control.
products_by <- function(rows, m, spec, run) {
  if (inherits(rows, "rows_sparse")) return(list(backend = "cpu", precision = "double"))
  resolve_control(run, rows$n, m, rows$d, spec$kernel)
}

uses_halves <- function(by, kernel) by$backend == "cuda" && by$precision != "double" && is_stationary(kernel)
