# A second term of a short range: the kernel of a choice with a small part of its bandwidth. Where rows are copies of each
# other but for their response, or come in groups, close rows agree more than a smooth function lets them. Geostatistics
# calls such a covariance nested. The penalty is compared once more, too.

# The range relative to that of the choice, its share of the kernel at its centre, and penalties relative to the choice's.
SHORT_RANGE <- 0.05
SHORT_SHARES <- c(0, 0.03, 0.3)
SHORT_NOISES <- c(0.2, 1)

# With fewer rows leave-one-out errors mislead, as the metric was learnt from the same rows: on energy (615 rows) what has
# the least has 1.03 times the error of the choice at other rows.
SHORT_ROWS <- 1000

# A term must be better by so many standard errors.
SHORT_ERRORS <- 2

# The choice with a term of short range, another noise, or both, if one of these is better, else the choice.
add_short_range <- function(choice, sample, spec, run) {
  if (nrow(sample$y) < SHORT_ROWS) return(choice)
  noises <- choice$noise * if (is.null(spec$lambda)) SHORT_NOISES else 1
  squares <- short_range_squares(choice, noises, sample, run)
  k <- which.min(colMeans(squares))
  gain <- squares[, length(noises)] - squares[, k]
  if (!isTRUE(mean(gain) > SHORT_ERRORS * stats::sd(gain) / sqrt(length(gain)))) return(choice)
  share <- rep(SHORT_SHARES, each = length(noises))[k]
  choice$noise <- rep(noises, length(SHORT_SHARES))[k]
  if (share == 0) return(choice)
  columns <- seq_len(ncol(sample$points))
  L <- rows_factor(sample$rows, choice$bandwidth)
  # points of folds are in units of the metric
  unit <- diagonal_matrix(rep(1, length(columns)), length(columns))
  choice$folds <- if (!is.null(choice$folds)) lapply(choice$folds, \(fold) {
    fold$coefficients <- NULL
    replace(fold, "kernel", list(with_short_range(fold$kernel, share, columns, unit)))
  })
  replace(choice, "kernel", list(with_short_range(choice$kernel, share, columns, L)))
}

# Squared residuals with a column for each noise, of one share after the other: of each row left out, or at the rows from
# which no metric was learnt, if there are some. No share and the last noise are the choice.
short_range_squares <- function(choice, noises, sample, run) {
  n <- nrow(sample$y)
  kept <- seq_len(min(n, SAMPLE_ROWS))
  rows <- \(of) sample$points[of, , drop = FALSE]
  L <- rows_factor(sample$rows, choice$bandwidth)
  both <- \(to) {
    short <- kernels_between(to, rows(kept), SHORT_RANGE * L, own_kernel(choice$kernel), run)
    list(kernels_between(to, rows(kept), L, choice$kernel, run), short)
  }
  among <- both(NULL)
  between <- if (length(kept) < n) both(rows(-kept))
  mixed <- \(pair, share) if (share == 0) pair[[1]] else (1 - share) * pair[[1]] + share * pair[[2]]
  do.call(cbind, lapply(SHORT_SHARES, \(share) {
    path <- ridge_path(mixed(among, share), sample$y[kept, , drop = FALSE], noises, run, is.null(between))
    if (is.null(between)) return(squares_left_out(path))
    squares_of(mixed(between, share), sample$y[-kept, , drop = FALSE], path$coefficients, run)
  }))
}

# The kernel of the columns, without that of their normal scores.
own_kernel <- function(kernel) if (inherits(kernel, "kernel_of_terms")) kernel$terms[[1]]$kernel else kernel

# `L`: of the kernel of the columns.
with_short_range <- function(kernel, share, columns, L) {
  terms <- if (inherits(kernel, "kernel_of_terms")) kernel$terms else list(list(columns = columns, kernel = kernel, scale = 1))
  terms <- lapply(terms, \(term) replace(term, "scale", (1 - share) * term$scale))
  short <- list(columns = columns, kernel = own_kernel(kernel), scale = share, L = SHORT_RANGE * L)
  sum_kernel(own_kernel(kernel), c(terms, list(short)))
}
