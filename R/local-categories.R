# Categorical variables in kernel regressions. The weight of a row at a target is its kernel times a kernel for each
# categorical column, of the categories of both (sum-category-kernels.R). All targets of one combination of categories,
# a cell, have the same weights of rows, so the fits of each cell are ordinary local fits.

# Returns list(tables, cells). `discrete`, of a fit: list(columns, lambda, codes, names), see density-mixed-frame.R. The
# kernels are 1 for equal categories, as in np's regressions. A lambda of 0 is replaced by a tiny one, so that a cell
# without other rows takes the fit of the nearest cells.
regression_levels <- function(discrete) {
  if (is.null(discrete)) return(NULL)
  lambda <- pmax(discrete$lambda, LEAST_LAMBDA * most_lambda(discrete$columns))
  tables <- Map(\(column, lambda) {
    table <- relative_table(column, lambda)
    table / table[1]
  }, discrete$columns, lambda)
  list(tables = tables, cells = cells_of(discrete$codes))
}

LEAST_LAMBDA <- 1e-12

# Effects of categories: with a ridge, rows of another category are moved by the difference of the effects of both
# before they are smoothed, so that a straight line with additive categories, as of lm(), is one of the fits. Returns
# NULL without effects, else list(marks, effects, by, leverage, residual): `marks`, n x q, 1 in the column of the row's
# category; `effects`, q x t, of a linear regression of y on numbers and marks, with the ridge on the marks; `by`,
# q x n, their derivatives by y; and leverages and residuals of that regression. A column at its largest lambda does not
# matter and has no effects.
category_effects <- function(data, x, discrete, ridge) {
  if (is.null(discrete) || ridge == 0) return(NULL)
  sizes <- lengths(lapply(discrete$columns, `[[`, "levels"))
  matters <- discrete$lambda < (1 - 1e-9) * most_lambda(discrete$columns)
  sizes[!matters] <- 0L
  sizes[cumsum(sizes) > min(MOST_EFFECTS, nrow(x) / 5)] <- 0L
  if (sum(sizes) == 0) return(NULL)
  marks <- level_marks(discrete$codes, sizes)
  q <- ncol(marks)
  design <- cbind(marks, 1, without_scale(x))
  penalty <- c(rep(ridge * sum(data$w) / sum(data$w > 0), q), 0, rep(1e-8 * sum(data$w), ncol(x)))
  solved <- solve(crossprod(design, data$w * design) + diag(penalty), t(design))
  by <- solved * rep(data$w, each = ncol(design))
  coefficients <- by %*% data$y
  list(
    marks = marks, sizes = sizes, effects = coefficients[seq_len(q), , drop = FALSE],
    by = by[seq_len(q), , drop = FALSE], leverage = colSums(t(design) * by),
    residual = data$y - design %*% coefficients
  )
}

# The most categories that have effects; each is smoothed like one more response.
MOST_EFFECTS <- 50

without_scale <- function(x) {
  x <- x - rep(colMeans(x), each = nrow(x))
  x / rep(pmax(sqrt(colMeans(x^2)), 1e-300), each = nrow(x))
}

# Indicators of the categories, `sizes` of each column, 0 for columns that are left out.
level_marks <- function(codes, sizes) {
  of <- rep(seq_along(sizes), sizes)
  1 * (codes[, of, drop = FALSE] == rep(sequence(sizes), each = nrow(codes)))
}

# Replaces fits and slopes of responses and marks by those of responses with effects. Adds `lacking`, m x q: the marks
# of the targets, `here`, minus their local fits.
add_effects <- function(found, guide, here) {
  if (is.null(guide)) return(found)
  t <- seq_len(ncol(guide$effects))
  m <- nrow(found$fit)
  found$lacking <- here - found$fit[, -t, drop = FALSE]
  found$fit <- found$fit[, t, drop = FALSE] + found$lacking %*% guide$effects
  if (length(found$slope) > 0) {
    slope <- matrix(found$slope, ncol = length(t) + ncol(here))
    found$slope <- matrix(slope[, t, drop = FALSE] - slope[, -t, drop = FALSE] %*% guide$effects, m)
  }
  found
}

# The variance of fits by the effects, m x t. `variance`: of the rows' noise, n x t.
effect_variance <- function(lacking, guide, variance) {
  if (is.null(guide)) return(0)
  by_response <- vapply(seq_len(ncol(variance)), \(r) {
    covariance <- tcrossprod(guide$by * rep(sqrt(variance[, r]), each = nrow(guide$by)))
    rowSums((lacking %*% covariance) * lacking)
  }, numeric(nrow(lacking)))
  matrix(by_response, nrow(lacking))
}

# Calls `use(data, at, own)` for each cell of the targets, with the weights that the rows have there, and merges the
# matrices and vectors in its results by rows. The weights are scaled such that those of the cell's own rows do not
# change. Without categories there is one call. `own`: the numbers of the targets among the rows if `at` is NULL, in
# which case the targets are the rows.
by_cells <- function(data, at, use) {
  n <- nrow(data$z)
  if (is.null(data$levels)) return(use(data, at, if (is.null(at)) seq_len(n)))
  d <- ncol(data$z)
  known <- data$levels$cells
  cells <- if (is.null(at)) known else cells_of(at[, d + seq_along(data$levels$tables), drop = FALSE])
  places <- if (is.null(at)) data$z else at[, seq_len(d), drop = FALSE]
  total <- list()
  for (i in seq_along(cells$rows)) {
    rows <- cells$rows[[i]]
    share <- cell_weights(data$levels$tables, cells$codes[i, ], known$codes)
    seen <- replace(data, c("w", "levels"), list(data$w * (share / max(share))[known$of], NULL))
    if (!is.null(data$guide)) {
      seen$here <- level_marks(cells$codes[rep(i, length(rows)), , drop = FALSE], data$guide$sizes)
    }
    part <- use(seen, places[rows, , drop = FALSE], if (is.null(at)) rows)
    for (name in names(Filter(length, part))) total[[name]] <- put_part(total[[name]], part[[name]], rows, nrow(places))
  }
  total
}

put_part <- function(total, part, rows, m) {
  if (!is.matrix(part)) return(replace(if (is.null(total)) numeric(m) else total, rows, part))
  if (is.null(total)) total <- matrix(0, m, ncol(part))
  total[rows, ] <- part
  total
}

# local_moments() without numeric columns: all rows have the same kernel.
mass_moments <- function(data, m, own) {
  about <- \(w) c(log(sum(w)), if (sum(w) > 0) colSums(w * data$y) / sum(w) else numeric(ncol(data$y)))
  all <- matrix(about(data$w), m, 1 + ncol(data$y), byrow = TRUE)
  if (is.null(own)) return(list(all = all))
  w <- data$w[own]
  left <- sum(data$w) - w
  sums <- rep(colSums(data$w * data$y), each = m) - w * data$y[own, , drop = FALSE]
  others <- cbind(log(pmax(left, 0)), sums / left)
  for (i in which(!(left > LEAST_SHARE * w))) others[i, ] <- about(replace(data$w, own[i], 0))
  list(all = all, others = others)
}
