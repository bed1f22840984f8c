# Tensor cores read a point as two halves, which moves it by up to a millionth of a bandwidth. For a sum that is
# nothing; but coefficients of thousands of smooth kernels are large and cancel, and a preconditioner of centres that
# are elsewhere than the products have them fits another matrix: conjugate gradients then stall or diverge. So centres
# of such products are put where halves can hold them, to begin with, for the preconditioner and for predictions, too.
# Rows may move: each is one row of the matrix, the same in both sweeps of a product.

# In units of whitened coordinates times sqrt(log2(e)), as src/cuda/tensor/tensor.cuh has them, all of whose grids hold
# multiples of this.
HALVES_STEP <- 2^-17

# A point is moved by up to 2^-18 of a bandwidth in each coordinate.
on_halves <- function(points, L) {
  # what the device's scale has beside sqrt(log2(e)) for the bits that tensor cores cut
  scale <- sqrt(log2(exp(1)) * (1 + ceiling(ncol(points) / 16) * 2 * 0.45 * 2^-24))
  settle <- \(u) round(u * scale / HALVES_STEP) * HALVES_STEP / scale
  middle <- colMeans(points)
  if (any(L[lower.tri(L)] != 0)) {
    moved <- t(L %*% settle(forwardsolve(L, t(points) - middle)) + middle)
    dimnames(moved) <- dimnames(points)
    return(moved)
  }
  # R's own BLAS takes seconds for what is a factor a column
  for (k in seq_along(middle)) points[, k] <- L[k, k] * settle((points[, k] - middle[k]) / L[k, k]) + middle[k]
  points
}

# ---- precision --------------------------------------------------------------------------------

# Responses without noise want a small lambda, and then coefficients so large that what single precision lacks of the
# kernels is more than what is to be fitted (bike: errors of 0.03 and of 300, by the split). So `precision` "auto" is
# double on GPUs, too, where that costs some milliseconds a product; beyond, the fit looks at what is lost.
FIT_PAIRS_IN_DOUBLE <- 5e9

run_of_fit <- function(rows, m, run) {
  few <- as.double(rows$n) * m <= FIT_PAIRS_IN_DOUBLE
  if (run$precision == "auto" && few) replace(run, "precision", "double") else run
}

# What a fit in single precision misses at some rows for that alone, beside the spread of the response, or as a link.
IMPRECISE <- 0.02
ROWS_TO_LOOK_AT <- 200

warn_imprecise <- function(system, coefficients, y, spec) {
  rows <- system$rows
  by <- products_by(rows, system$centers$m, spec, system$run)
  if (by$backend != "cuda" || by$precision == "double" || !inherits(rows, "rows_dense")) return(invisible())
  some <- rows_take(rows, spread_rows(rows$n, ROWS_TO_LOOK_AT))
  link <- \(precision) {
    run <- replace(system$run, c("backend", "precision", "tol"), list("cuda", precision, 0))
    kernel_sum_of(system$centers$sources, some, coefficients, run, as_matrix = TRUE)$sums
  }
  lost <- sqrt(colMeans((link(by$precision) - link("double"))^2))
  lost <- max(if (spec$loss == "squared") lost / pmax(apply(y, 2, stats::sd), .Machine$double.xmin) else lost)
  if (isTRUE(lost <= IMPRECISE)) return(invisible())
  warning(
    "single precision is not enough for coefficients of this size: predictions have an error of ",
    format(lost, digits = 2), if (spec$loss == "squared") " standard deviations of the response",
    ". Use `control = flash_control(precision = \"double\")` or a larger `lambda`.", call. = FALSE
  )
}

# By what the products of a fit will be computed.
products_by <- function(rows, m, spec, run) {
  if (inherits(rows, "rows_sparse")) return(list(backend = "cpu", precision = "double"))
  resolve_control(run, rows$n, m, rows$d, spec$kernel)
}

uses_halves <- function(by, kernel) by$backend == "cuda" && by$precision != "double" && is_radial(kernel)
