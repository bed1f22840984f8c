# Losses of families other than the gaussian: for classes logistic loss for two (y of -1 and 1, one column of link), and
# softmax loss for more (one column for each class). C computes them for all rows with all threads (src/core/losses.h).
# `loss`: the number of the loss and its parameters, from a family.

# Returns a function of m x t coefficients alpha to list(product, sums): K' W D K alpha with the second derivatives D at
# the link f, and K alpha. With more than two classes D = diag(p) - p p' couples the columns, which takes two sweeps
# unless kernels are kept. Boehning's bound (I - 1 1' / K) / 2 would take one sweep, but is so inaccurate that 100 steps
# are not enough (shuttle).
hessian_product <- function(system, f) {
  run <- system$run
  if (ncol(f) == 1) {
    weights <- row_loss("curvature", system$loss, f, system$y, run)
    if (!is.null(system$weights)) weights <- weights * system$weights
    return(\(alpha) rows_normal(system$rows, system$centers, alpha, NULL, weights, run, with_sums = TRUE))
  }
  at <- if (system$family$of_classes) link_probabilities(f) else f
  \(alpha) rows_hessian(system$rows, system, at, alpha)
}

# list(product, sums): K' W D K v and K v, with the second derivatives D at the link `at`, or of classes at probabilities.
rows_hessian <- function(rows, system, at, v) UseMethod("rows_hessian")
#' @export
rows_hessian.default <- function(rows, system, at, v) {
  u <- rows_link(rows, system$centers, v, system$run)
  bent <- row_loss("product", system$loss, at, system$y, system$run, u)
  list(product = rows_normal(rows, system$centers, NULL, bent, system$weights, system$run)$product, sums = u)
}

# ---- probabilities ----------------------------------------------------------------------------

# link_probabilities() of a fit, with the names of the classes.
class_probabilities <- function(fit, link) {
  p <- link_probabilities(link)
  dimnames(p) <- list(NULL, fit$classes)
  p
}

# The intercept: the constant link of least mean loss. The loss of a number is convex in one column of the link; the
# search begins at the mean response.
null_link <- function(family, y, weights, offset, run) {
  if (family$of_classes) return(null_class_link(y, weights, offset))
  loss <- final_loss(family)
  if (anyNA(loss)) loss[2] <- sqrt(mean(squares_around(y))) # Huber's loss before its first step
  centre <- weighted_means(if (is.null(offset)) y else y - offset, weights)
  unit <- sqrt(mean(squares_around(y)))
  if (family$link == "log") {
    centre <- log(weighted_means(y, weights)) - if (is.null(offset)) 0 else weighted_means(offset, weights)
    unit <- 1
  }
  if (!(unit > 0)) return(centre)
  slope <- function(b, k) {
    f <- shift_columns(if (is.null(offset)) 0 * y else offset, -replace(centre, k, b))
    weighted_means(row_loss("slope", loss, f, y, run), weights)[k]
  }
  vapply(seq_along(centre), \(k) {
    stats::uniroot(slope, centre[k] + c(-1, 1) * unit, k, extendInt = "upX", tol = 1e-12 * unit)$root
  }, 0)
}

squares_around <- function(y) column_sums(shift_columns(y, column_sums(y) / nrow(y))^2) / nrow(y)

# The link whose mean probabilities are the (weighted) shares of the classes. With offsets the equation is solved by
# iterative scaling, which always converges, and in one step for a constant offset.
null_class_link <- function(y, weights, offset) {
  counts <- class_counts(y, weights)
  if (any(counts == 0)) stop_argument("weights", "must be positive for at least one row of each class")
  shares <- counts / sum(counts)
  as_link <- \(x) if (length(x) == 2) x[2] - x[1] else x - mean(x)
  link <- as_link(log(shares))
  if (is.null(offset)) return(link)
  for (step in 1:50) {
    p <- weighted_means(link_probabilities(shift_columns(offset, -link)), weights)
    change <- as_link(log(shares / pmax(p, .Machine$double.xmin)))
    link <- link + change
    if (max(abs(change)) < 1e-10) break
  }
  link
}

# A part of the loss at the link f (n x t) for the response y (n x t; of classes columns of -1 and 1). "value": the loss of
# each row. "slope": its derivatives with respect to f, n x t. "curvature": for each row the mean of the diagonal of the
# second derivatives, for preconditioners (the sum or the largest would need twice the iterations at small penalties, on
# shuttle). "product": the second derivatives times u, n x t; with more than two classes f has their probabilities.
row_loss <- function(part, loss, f, y, run, u = NULL) UseMethod("row_loss", f)

#' @export
row_loss.shard_column <- function(part, loss, f, y, run, u = NULL) {
  t <- if (part %in% c("slope", "product")) ncol(f) else 1
  column_of("row_loss", list(f = f, y = y, u = u), t, list(part = part, loss = loss))
}

#' @export
row_loss.default <- function(part, loss, f, y, run, u = NULL) {
  .Call(ffi_row_loss, match(part, LOSS_PARTS) - 1L, loss, f, y, u, run)
}

# Probabilities, n x K, from a link of one column (two classes) or of K columns.
link_probabilities <- function(link) UseMethod("link_probabilities")

#' @export
link_probabilities.shard_column <- function(link) column_of("link_probabilities", list(link), max(2, ncol(link)))

#' @export
link_probabilities.default <- function(link) {
  if (ncol(link) == 1) return(cbind(stats::plogis(-link[, 1]), stats::plogis(link[, 1])))
  odds <- exp(link - link[cbind(seq_len(nrow(link)), max.col(link, ties.method = "first"))])
  odds / rowSums(odds)
}

sum_of_loss <- function(loss, f, y, run, weights = NULL, direction = NULL, length = 0) {
  .Call(ffi_row_loss_sum, loss, f, y, direction, as.double(length), weights, run)
}

# The weighted sum of the losses at f - length * direction over the number of all rows, including rows of weight 0.
mean_loss <- function(loss, f, y, run, weights = NULL, direction = NULL, length = 0) {
  total <- if (is_column(f)) {
    if (!is.null(direction)) f <- f - length * direction
    over_columns("column_loss", list(f = f, y = y, weights = weights), list(loss = loss), control = run)
  } else {
    sum_of_loss(loss, f, y, run, weights, direction, length)
  }
  total / nrow(f)
}

LOSS_PARTS <- c("value", "slope", "curvature", "product")

# ---- on workers -------------------------------------------------------------------------------

add_column_values(
  row_loss = \(inputs, with, at) row_loss(with$part, with$loss, inputs$f, inputs$y, at$run, inputs$u),
  link_probabilities = \(inputs, with, at) link_probabilities(inputs[[1]])
)

add_operations(column_loss = list(
  one = of_columns(\(columns, own, at) sum_of_loss(at$args$loss, columns$f, columns$y, at$run, as_plain(columns$weights))),
  merge = \(a, b, control) a + b
))
