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
