# The portfolio of kernel_ridge(): kernels and metrics, of which no single one serves all data. Each entry is followed
# through exact fits to a sample: a fit, the mean outer product of its gradients, the next metric, the next fit. The
# leave-one-out error compares the fits of all entries. bench/predict.R compares the result with other methods.

# `metric`: "none", "diagonal" (columns that matter more or less) or "full" (directions). `width`: the unit of the metric
# in median distances. `power`: of the mean outer product of the gradients; a power below 1 keeps more of directions that
# matter less.
entry <- function(kernel, metric, width, power = 1) list(kernel = kernel, metric = metric, width = width, power = power)
portfolio <- function() {
  stretched <- kernel_spec("powered_exponential", power = 1.4)
  absolute <- kernel_spec("product_laplacian")
  gaussian <- kernel_spec("gaussian")
  list(
    entry(stretched, "diagonal", 3), entry(absolute, "diagonal", 0.3), entry(absolute, "diagonal", 1),
    entry(stretched, "full", 3), entry(stretched, "full", 3, 0.5), entry(gaussian, "full", 0.7, 0.5),
    entry(gaussian, "full", 2), entry(kernel_spec("laplacian"), "diagonal", 1)
  )
}

# For a kernel that the user gives. A sum of absolute differences has no directions.
has_directions <- function(kernel) metric_of(kernel) != "absolute"
portfolio_of <- function(kernel) {
  widths <- if (has_directions(kernel)) c(1, 3) else c(0.3, 1)
  types <- c("diagonal", if (has_directions(kernel)) "full")
  unlist(lapply(widths, \(width) lapply(types, \(type) entry(kernel, type, width))), recursive = FALSE)
}

# Entries that differ from those that are asked for in the metric only are merged.
portfolio_entries <- function(kernel, metric) {
  entries <- if (is.null(kernel)) portfolio() else portfolio_of(kernel)
  if (metric != "auto") entries <- unique(lapply(entries, \(entry) replace(entry, "metric", metric)))
  Filter(\(entry) entry$metric != "full" || has_directions(entry$kernel), entries)
}

# Rows of the sample: all entries are followed on the first FIRST_ROWS of them, and the best FINALISTS on all, or of
# normal scores the best half of so many.
FIRST_ROWS <- 500
SAMPLE_ROWS <- 2000
FIRST_ROUNDS <- 4
SECOND_ROUNDS <- 2
FINALISTS <- 4

# Penalties of K + s I, whose diagonal is 1, tried in the first round with few rows; later rounds, and the first round with
# more rows, try the neighbours of the best one, and further rounds with more rows that alone: judging tries neighbours
# again.
FIRST_NOISES <- 10^c(-4, -3, -2, -1, 0)
LATER_NOISES <- c(0.2, 1, 5)
LEAST_PORTFOLIO_NOISE <- 1e-6

# The trails of the entries, each a list of candidates: the candidates of the best `finalists`. A candidate is a
# list(entry, kernel, metric, round, noise, error, left, coefficients): `left` has the squared leave-one-out residual of each
# row, or of fits to all rows the squared residuals at rows that are `held` out, a list(x, y), if there are some; `error` is
# its mean. `x`: standardised points of the sample; `y`: n x t.
search_portfolio <- function(x, y, entries, finalists, noise, run, held = NULL) {
  few <- seq_len(min(nrow(x), FIRST_ROWS))
  trails <- lapply(seq_along(entries), \(i) {
    share_stage(run, 0.4 * (i - 1) / length(entries), 0.4 / length(entries))
    follow(entries[[i]], x[few, , drop = FALSE], y[few, , drop = FALSE], noise, FIRST_ROUNDS, run)
  })
  trails <- Filter(length, trails)
  errors <- vapply(trails, \(trail) best_candidate(trail)$error, 0)
  trails <- trails[order(errors)[seq_len(min(finalists, length(errors)))]]
  if (length(few) == nrow(x)) return(trails)
  lapply(seq_along(trails), \(i) {
    share_stage(run, 0.4 + 0.4 * (i - 1) / length(trails), 0.4 / length(trails))
    continue_trail(trails[[i]], x, y, noise, run, held)
  })
}

# The trail of one entry as search_portfolio() follows it: on few rows, and then on all if the sample `has_more`.
follow_entry <- function(entry, x, y, noise, has_more, run) {
  few <- seq_len(min(nrow(x), FIRST_ROWS))
  trail <- follow(entry, x[few, , drop = FALSE], y[few, , drop = FALSE], noise, FIRST_ROUNDS, run)
  if (has_more && length(trail) > 0) continue_trail(trail, x, y, noise, run) else trail
}

# With all rows, from the best metric that fewer rows have found.
continue_trail <- function(trail, x, y, noise, run, held = NULL) {
  start <- best_candidate(trail)
  follow(start$entry, x, y, noise, SECOND_ROUNDS, run, start, held)
}

best_candidate <- function(candidates) candidates[[which.min(vapply(candidates, `[[`, 0, "error"))]]

# The fits along one entry, each with its best penalty. `start`: the candidate of a smaller sample from whose metric and
# round to continue, or NULL.
follow <- function(entry, x, y, noise, rounds, run, start = NULL, held = NULL) {
  root <- if (is.null(start)) first_root(entry, ncol(x)) else start$metric$root
  first <- if (is.null(start)) 0 else start$round
  last <- if (entry$metric == "none") first else first + rounds
  found <- list()
  for (round in first:last) {
    metric <- if (!is.null(root)) scaled_metric(root, entry$metric, x, entry$kernel, entry$width, run)
    if (is.null(metric)) break
    z <- metric_points(x, metric$root, metric$unit, run)
    at <- held_points(held, metric$root, metric$unit, run)
    fit <- fit_best(z, y, entry$kernel, noises_around(noise, found, start), run, at, held$y, is.null(start))
    if (is.null(fit)) break
    from <- list(entry = entry, kernel = entry$kernel, metric = metric, round = round)
    found[[length(found) + 1]] <- c(from, fit)
    if (round < last) root <- learnt_root(fit$coefficients, z, metric, entry, run)
  }
  found
}

first_root <- function(entry, d) if (entry$metric == "full") diagonal_matrix(rep(1, d), d) else rep(1, d)

noises_around <- function(given, found, start) {
  if (!is.null(given)) return(given)
  if (length(found) == 0 && is.null(start)) return(FIRST_NOISES)
  last <- if (length(found) > 0) found[[length(found)]]$noise else start$noise
  if (length(found) > 0 && !is.null(start)) last else pmax(last * LATER_NOISES, LEAST_PORTFOLIO_NOISE)
}

held_points <- function(held, root, unit, run) if (!is.null(held)) metric_points(held$x, root, unit, run)

# The fit of least error among `noises`: list(noise, error, left, coefficients), or NULL if no matrix K + s I has a Cholesky
# factorisation. Errors are those of leaving each row out, or those at the points `at`, if there are some, whose responses
# are y_at. A single noise has none of these, half of the work, unless `always`: judge_trail() finds others.
fit_best <- function(z, y, kernel, noises, run, at = NULL, y_at = NULL, always = TRUE) {
  sources <- metric_sources(z, kernel)
  compares <- always || length(noises) > 1
  path <- ridge_path(sources, y, noises, run, with_own = compares && is.null(at))
  coefficients <- \(k) matrix(path$coefficients[, , k], nrow(y))
  if (!compares && is.null(at)) return(if (is.finite(path$log_det)) list(noise = noises, coefficients = coefficients(1)))
  left <- if (is.null(at)) {
    squares_left_out(path)
  } else {
    squares_at(sources, at, y_at, path$coefficients, run)
  }
  errors <- colMeans(left)
  k <- which.min(errors)
  if (length(k) == 0 || !is.finite(errors[k])) return(NULL)
  list(noise = noises[k], error = errors[k], left = left[, k], coefficients = coefficients(k))
}

# Squared leave-one-out residuals of ridge_path(), the mean of all responses, with a column for each noise.
squares_left_out <- function(path) {
  left <- aperm(path$coefficients, c(1, 3, 2)) / as.vector(path$own)
  matrix(rowMeans(left^2, dims = 2), nrow(left))
}

# Squared residuals at the points `at`, the mean of all responses, with a column for each of the fits, whose coefficients
# are an array (row, response, fit).
squares_at <- function(sources, at, y, coefficients, run) {
  squares_of(kernel_matrix_of(sources, at, run), y, coefficients, run)
}

# The same of the kernels K between these points and the rows of the fits.
squares_of <- function(K, y, coefficients, run) {
  found <- matrix_product(K, matrix(coefficients, dim(coefficients)[1]), run)
  squares <- array((found - as.vector(y))^2, c(nrow(K), dim(coefficients)[-1]))
  matrix(rowMeans(aperm(squares, c(1, 3, 2)), dims = 2), nrow(K))
}

# ---- from a sample to defaults ------------------------------------------------------------------

# A metric is learnt for a kernel of x - y whose bandwidth is not given.
learns_metric <- function(spec) {
  spec$metric != "none" && is.null(spec$bandwidth) && (is.null(spec$kernel) || is_stationary(spec$kernel))
}

# From dense rows whose response varies.
LEAST_PORTFOLIO <- 20
has_portfolio <- function(sample) {
  is.matrix(sample$points) && nrow(sample$y) >= LEAST_PORTFOLIO && sample$scale > 0
}

# The choices, the best one first, each a list(kernel, bandwidth, noise, folds), or NULL if no fit is possible. The second
# one is the best without normal scores or a learnt metric, unless that is the first. `folds`: of judge_trail().
choose_from_portfolio <- function(sample, spec, run, adds_scores) {
  judged <- judge_portfolio(sample, spec, run)
  if (length(judged) == 0) return(NULL)
  best <- pick_simplest(judged)
  both <- if (adds_scores) add_scores(best, sample, spec, run)
  if (!is.null(both) && is_near(both, best)) return(list(both, best))
  others <- if (best$metric$type != "none") Filter(\(one) one$metric$type == "none", judged)
  c(list(best), if (length(others) > 0) list(best_candidate(others)))
}

# The candidates of all trails, judged, with their bandwidth in units of the points.
judge_portfolio <- function(sample, spec, run, finalists = FINALISTS) {
  spread <- fill_spread(vapply(seq_len(ncol(sample$points)), \(k) spread_of(sample$points[, k]), 0))
  x <- scale_columns(sample$points - rep(colMeans(sample$points), each = nrow(sample$points)), 1 / spread)
  noise <- if (!is.null(spec$lambda)) spec$lambda / sample$per_row
  folds <- judging_folds(nrow(x))
  train <- seq_len(min(nrow(x), SAMPLE_ROWS))
  few <- \(rows) x[rows, , drop = FALSE]
  y <- sample$y
  known <- y[train, , drop = FALSE]
  held <- if (length(train) < nrow(x)) list(x = few(-train), y = y[-train, , drop = FALSE])
  trails <- search_portfolio(few(train), known, portfolio_entries(spec$kernel, spec$metric), finalists, noise, run, held)
  fixed <- if (spec$metric == "auto") unlearnt_choices(sample, spec, run)
  recipes <- lapply(fixed, \(found) {
    root <- spread / rep_len(found$bandwidth, length(spread))
    \(x, y, held = NULL) Filter(length, list(fixed_candidate(found, root, x, y, noise, run, held)))
  })
  trails <- c(lapply(recipes, \(recipe) recipe(few(train), known, held)), trails)
  recipes <- c(recipes, lapply(trails[seq_along(trails) > length(fixed)], \(trail) {
    \(x, y) follow_entry(trail[[1]]$entry, x, y, noise, length(train) > FIRST_ROWS, run)
  }))
  judged <- lapply(seq_along(trails), \(i) {
    share_stage(run, 0.8 + 0.2 * (i - 1) / length(trails), 0.2 / length(trails))
    judge_trail(trails[[i]], recipes[[i]], x, y, folds, run)
  })
  judged <- Filter(length, judged)
  least <- min(Inf, vapply(judged, `[[`, 0, "error"))
  lapply(judged, \(one) {
    if (is.null(noise) && one$error <= MAY_WIN * least) one <- judge_noises(one, y, run)
    c(one, list(bandwidth = metric_bandwidth(one$metric, spread)))
  })
}

# Choices without a learnt metric: one factor of the spreads, and bandwidths for each column that maximise the marginal
# likelihood of some rows, which are better than learnt metrics where few columns matter and the response is smooth. The
# bandwidths of the Gaussian kernel are the start for kernels of rougher functions, so that LATER_STEPS are enough there.
unlearnt_choices <- function(sample, spec, run) {
  few <- first_of_sample(sample, LIKELIHOOD_ROWS)
  kernels <- if (is.null(spec$kernel)) lapply(LIKELIHOOD_KERNELS, kernel_spec) else list(spec$kernel)
  spec$kernel <- kernels[[1]]
  start <- choose_on_sample(few, spec, run)
  if (is.null(start)) return(NULL)
  start$kernel <- spec$kernel
  if (ncol(few$points) > nrow(few$y) / ROWS_BY_COLUMN) return(list(start))
  Reduce(\(last, kernel) {
    steps <- if (identical(last, start)) FINE_STEPS else LATER_STEPS
    choose_by_column(few, replace(last, "kernel", list(kernel)), spec, run, "likelihood", steps)
  }, kernels, start, accumulate = TRUE)
}

LIKELIHOOD_KERNELS <- c("gaussian", "matern52", "matern32")
LATER_STEPS <- 20
LIKELIHOOD_ROWS <- 300

# The fit with the bandwidths that were `found` on a part of the sample, as a candidate.
fixed_candidate <- function(found, root, x, y, noise, run, held) {
  metric <- list(root = root, unit = 1, type = "none")
  z <- metric_points(x, root, 1, run)
  few <- seq_len(min(nrow(x), FIRST_ROWS))
  noises <- if (is.null(noise)) found$noise * c(0.01, 0.1, 1, 10) else noise
  if (length(few) < nrow(x)) noises <- fit_best(z[few, , drop = FALSE], y[few, , drop = FALSE], found$kernel, noises, run)$noise
  if (is.null(noises)) return(NULL)
  fit <- fit_best(z, y, found$kernel, noises, run, held_points(held, root, 1, run), held$y, FALSE)
  if (is.null(fit)) return(NULL)
  c(list(kernel = found$kernel, metric = metric, round = 0), fit)
}
