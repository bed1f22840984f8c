# Variables that are levels, in kernel regressions: what a row counts at a target is its kernel times one for each of
# these columns, of how its level differs from the target's (sum-category-kernels.R). Targets of the same combination of
# levels, a cell, see all rows with weights of their own, and so each cell's are ordinary local fits.

# `discrete`, of a fit: list(columns, lambda, codes, names), as density-mixed-frame.R has them. At its own level a row's
# kernel is 1, as np has it in regressions. A lambda of 0 stands for a tiny one, so that where a cell has no other rows,
# those of the nearest cells count.
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

# `use(data, at, own)` for each cell of the targets, with the weights that rows have there, of which those of the cell's
# own rows are as they were; all at once without levels.
# The matrices and vectors of its list are put together. `own`: the numbers of the targets among the rows, if `at` is
# NULL, as these are.
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

# As local_moments(), without numbers: of all rows alike.
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
