# Eigenvectors of kernel operators and linear systems with them, by products alone.

#' @rdname kernel_operator
#' @param op,a A symmetric operator: without `y`, and with equal weights on both sides. For `solve()` positive definite.
#' @param k Number of eigenvalues.
#' @param center If `TRUE`, the matrix is centred: its rows and columns have mean 0, as in kernel PCA.
#' @export
kernel_eigen <- function(op, k = 6, center = FALSE, tol = 1e-5) {
  check_is(is(op, "kernel_operator"), op, "op", "from kernel_operator()")
  check_symmetric(op, "op")
  n <- nrow(op)
  k <- check_count(k, "k", max = n)
  center <- check_flag(center, "center")
  tol <- check_number(tol, "tol", "one positive number", \(x) x > 0)
  centred <- if (center) \(v) v - rep(colMeans(v), each = n) else identity
  # k + 8 columns converge in fewer products; more than 4 times as many are replaced by their best combinations
  width <- min(n, k + 8)
  start <- with_fixed_seed(matrix(stats::rnorm(as.double(n) * width), n))
  found <- krylov(\(v) centred(multiply(op, centred(v))), start, k, 4 * width, tol, start_run(op@terms[[1]]$asked))
  warn_residual(max(found$residuals), tol, "the largest eigenvalue. Make")
  structure(found[c("values", "vectors")], class = "eigen")
}

check_symmetric <- function(op, arg) {
  is_symmetric <- \(term) is.null(term$at) && identical(term$left, term$right)
  if (nrow(op) != ncol(op) || !all(vapply(op@terms, is_symmetric, NA))) {
    stop_argument(arg, "must be symmetric: make it without `y`, and use weights s on both sides, as in s * t(s * op)")
  }
}

warn_residual <- function(residual, tol, of) {
  if (residual <= tol) return(invisible())
  found <- paste0("a residual of ", format(residual, digits = 2), " of ", of)
  warn_user("converged", "`tol` was not reached: ", found, " the operator with a smaller `tol`.")
}

# The k largest eigenvalues and their eigenvectors by Rayleigh and Ritz, in the space of products with `start` (block
# Lanczos). The space grows by the residuals of the best vectors, as many as `start` has columns, and is replaced by
# those vectors when it would have more than `most` columns. `residuals`: relative to the largest eigenvalue.
krylov <- function(product, start, k, most, tol, run, rounds = 200) {
  V <- orthonormal(start, NULL, run)
  AV <- product(V)
  for (round in seq_len(rounds)) {
    inner <- matrix_crossprod(V, AV, run)
    ritz <- eigen((inner + t(inner)) / 2, symmetric = TRUE)
    best <- ritz$vectors[, seq_len(min(ncol(start), ncol(V))), drop = FALSE]
    values <- ritz$values[seq_len(ncol(best))]
    vectors <- matrix_product(V, best, run)
    images <- matrix_product(AV, best, run)
    residual <- images - vectors * rep(values, each = nrow(V))
    size <- sqrt(colSums(residual^2)) / max(abs(ritz$values))
    open <- size > tol
    if (!any(open[seq_len(k)]) || round == rounds) break
    if (ncol(V) + sum(open) > most) {
      V <- vectors
      AV <- images
    }
    new <- orthonormal(residual[, open, drop = FALSE], V, run)
    if (ncol(new) == 0) break
    V <- cbind(V, new)
    AV <- cbind(AV, product(new))
  }
  list(values = values[seq_len(k)], vectors = vectors[, seq_len(k), drop = FALSE], residuals = size[seq_len(k)])
}

# An orthonormal basis of the part of the columns of `w` that is orthogonal to the columns of V (NULL: none).
orthonormal <- function(w, V, run) {
  # once more, as the first projection leaves rounding errors
  for (i in 1:2) {
    if (!is.null(V)) w <- w - matrix_product(V, matrix_crossprod(V, w, run), run)
    w <- w / rep(pmax(sqrt(colSums(w^2)), 1e-300), each = nrow(w))
    of <- eigen(matrix_crossprod(w, w, run), symmetric = TRUE)
    kept <- which(of$values > 1e-14)
    if (length(kept) == 0) return(w[, 0, drop = FALSE])
    w <- matrix_product(w, of$vectors[, kept, drop = FALSE] / rep(sqrt(of$values[kept]), each = ncol(w)), run)
  }
  w
}

#' @rdname kernel_operator
#' @param b Vector or matrix of the right sides.
#' @export
solve.kernel_operator <- function(a, b, tol = 1e-6, ...) {
  check_dots_empty(...)
  if (missing(b)) stop_argument("b", "must be given: solve(as.matrix(a)) is the inverse matrix")
  check_symmetric(a, "a")
  tol <- check_number(tol, "tol", "one positive number", \(x) x > 0)
  right <- as.matrix(check_coefficients(b, nrow(a), "b", "row of `a`"))
  run <- start_run(a@terms[[1]]$asked, "Solving")
  found <- conjugate_gradients(
    \(v) multiply(a, v), right, run, max_iter = 1000, tol = tol, precondition = inverse_near(a, run), verify = TRUE
  )
  warn_residual(found$residual, tol, "`b`. Add a larger number to the diagonal, diag(a) <- diag(a) + s, or make")
  if (is.null(dim(b))) as.vector(found$x) else found$x
}

# Returns the product with the inverse of L L' + D, by Woodbury's formula, where L L' is the operator's partial Cholesky
# factorisation by pivots and D the diagonal of the rest, at its mean, with the shift.
inverse_near <- function(op, run) {
  if (any(diag(op) <= 0)) stop_argument("a", "must be positive definite: its diagonal has numbers <= 0")
  shift <- rep_len(op@shift, nrow(op))
  op@shift <- 0
  L <- partial_cholesky(op, min(nrow(op), max(20, min(200, floor(2e7 / nrow(op))))), 0.1 * min(shift))
  rest <- max(mean(diag(op) - rowSums(L^2)), 0)
  d <- pmax(shift + rest, 1e-12 * max(diag(op)))
  scaled <- L / sqrt(d)
  small <- chol(diag(ncol(L)) + matrix_crossprod(scaled, scaled, run))
  function(v) {
    v <- v / d
    v - matrix_product(L, backsolve(small, backsolve(small, matrix_crossprod(L, v, run), transpose = TRUE)), run) / d
  }
}

# The partial Cholesky factor of a positive semidefinite operator. Each pivot is the largest element of the diagonal of
# the rest; the last one is above `least`.
partial_cholesky <- function(op, rank, least) {
  rows <- seq_len(nrow(op))
  rest <- diag(op)
  least <- max(least, 1e-10 * max(rest))
  L <- matrix(0, nrow(op), rank)
  for (j in seq_len(rank)) {
    pivot <- which.max(rest)
    if (!(rest[pivot] > least)) return(L[, seq_len(max(j - 1, 1)), drop = FALSE])
    before <- seq_len(j - 1)
    column <- matrix_part(op, rows, pivot) - L[, before, drop = FALSE] %*% L[pivot, before]
    L[, j] <- column / sqrt(rest[pivot])
    rest <- rest - L[, j]^2
    rest[pivot] <- 0
  }
  L
}
