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

# Rows of the sample: all entries are followed on the first FIRST_ROWS of them, and FINALISTS on all, or of normal scores
# half of so many.
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
# its mean. `sample`: a list(x, y, held) of standardised points, n x t responses, and rows held out or NULL.
search_portfolio <- function(sample, entries, finalists, noise, run) {
  share_stage(run, 0, 0.4)
  trails <- Filter(length, follow(lapply(entries, \(entry) first_rows_of(sample, entry)), FIRST_ROUNDS, noise, run))
  trails <- utils::head(trails[order_of_trails(trails)], finalists)
  if (nrow(sample$x) <= FIRST_ROWS) return(trails)
  share_stage(run, 0.4, 0.4)
  follow(lapply(trails, \(trail) c(sample, list(start = best_candidate(trail)))), SECOND_ROUNDS, noise, run)
}

# The best trail comes first, then the best one whose metric is of another type, then the others. Errors of leaving rows out
# are too small where a metric of many numbers was learnt from these rows, so that only full metrics would be left where columns
# are many: on churn (69 columns) the log loss is 0.9 times as large with a diagonal one (NOTES.md).
order_of_trails <- function(trails) {
  errors <- vapply(trails, \(trail) best_candidate(trail)$error, 0)
  types <- vapply(trails, \(trail) trail[[1]]$entry$metric, "")
  best <- order(errors)
  other <- best[types[best] != types[best[1]]]
  unique(c(utils::head(best, 1), utils::head(other, 1), best))
}

# The trails of entries, each of its own sample, as search_portfolio() follows them: on few rows, and then on all if the samples
# `have_more`.
follow_entries <- function(samples, entries, noise, have_more, run) {
  trails <- follow(Map(first_rows_of, samples, entries), FIRST_ROUNDS, noise, run)
  going <- lengths(trails) > 0 & have_more
  walks <- Map(\(sample, trail) c(sample, list(start = best_candidate(trail))), samples[going], trails[going])
  replace(trails, going, follow(walks, SECOND_ROUNDS, noise, run))
}

first_rows_of <- function(sample, entry) {
  few <- seq_len(min(nrow(sample$x), FIRST_ROWS))
  list(x = sample$x[few, , drop = FALSE], y = sample$y[few, , drop = FALSE], entry = entry)
}

best_candidate <- function(candidates) candidates[[which.min(vapply(candidates, `[[`, 0, "error"))]]

# The trails of `walks`, which are followed together: for each the fits along its entry, with their best penalties. A walk is a
# list(x, y, held, entry), or with the candidate `start` of a smaller sample from whose metric and round to continue.
follow <- function(walks, rounds, noise, run) {
  walks <- lapply(walks, \(walk) {
    start <- walk$start
    if (!is.null(start)) walk$entry <- start$entry
    first <- if (is.null(start)) 0 else start$round
    root <- if (is.null(start)) first_root(walk$entry, ncol(walk$x)) else start$metric$root
    c(walk, list(root = root, round = first, last = if (walk$entry$metric == "none") first else first + rounds, found = list()))
  })
  repeat {
    going <- vapply(walks, \(walk) !is.null(walk$root), NA)
    if (!any(going)) break
    walks[going] <- take_steps(walks[going], noise, run)
  }
  lapply(walks, `[[`, "found")
}

# A fit of each walk, and the root of its next metric: NULL if it ends.
take_steps <- function(walks, noise, run) {
  places <- lapply(walks, \(walk) {
    metric <- scaled_metric(walk$root, walk$entry$metric, walk$x, walk$entry$kernel, walk$entry$width, run)
    if (!is.null(metric)) list(metric = metric, task = task_of_walk(walk, metric, noise, run))
  })
  fits <- vector("list", length(walks))
  placed <- lengths(places) > 0
  fits[placed] <- best_fits(lapply(places[placed], `[[`, "task"), run)
  goes_on <- vapply(seq_along(walks), \(i) !is.null(fits[[i]]) && walks[[i]]$round < walks[[i]]$last, NA)
  roots <- vector("list", length(walks))
  roots[goes_on] <- learnt_roots(Map(\(walk, place, fit) {
    list(a = fit$coefficients, z = place$task$z, metric = place$metric, entry = walk$entry)
  }, walks[goes_on], places[goes_on], fits[goes_on]), run)
  Map(\(walk, place, fit, root) {
    if (!is.null(fit)) {
      from <- list(entry = walk$entry, kernel = walk$entry$kernel, metric = place$metric, round = walk$round)
      walk$found[[length(walk$found) + 1]] <- c(from, fit)
    }
    walk["root"] <- list(root)
    replace(walk, "round", walk$round + 1)
  }, walks, places, fits, roots)
}

task_of_walk <- function(walk, metric, noise, run) {
  list(
    z = metric_points(walk$x, metric$root, metric$unit, run), y = walk$y, kernel = walk$entry$kernel,
    noises = noises_around(noise, walk$found, walk$start), at = held_points(walk$held, metric$root, metric$unit, run),
    y_at = walk$held$y, always = is.null(walk$start)
  )
}

first_root <- function(entry, d) if (entry$metric == "full") diagonal_matrix(rep(1, d), d) else rep(1, d)

noises_around <- function(given, found, start) {
  if (!is.null(given)) return(given)
  if (length(found) == 0 && is.null(start)) return(FIRST_NOISES)
  last <- if (length(found) > 0) found[[length(found)]]$noise else start$noise
  if (length(found) > 0 && !is.null(start)) last else pmax(last * LATER_NOISES, LEAST_PORTFOLIO_NOISE)
}

held_points <- function(held, root, unit, run) if (!is.null(held)) metric_points(held$x, root, unit, run)

# For each task the fit of least error among its `noises`: list(noise, error, left, coefficients), or NULL if no matrix K + s I
# has a Cholesky factorisation. Errors are those of leaving each row out, or those at the points `at`, if there are some, whose
# responses are y_at. A single noise has none of these, half of the work, unless `always`: judge_trail() finds others.
best_fits <- function(tasks, run) {
  if (length(tasks) == 0) return(list())
  compares <- vapply(tasks, \(task) task$always || length(task$noises) > 1, NA)
  tasks <- lapply(tasks, \(task) c(task, list(K = metric_sources(task$z, task$kernel))))
  paths <- ridge_paths(Map(\(task, compares) {
    list(K = task$K, y = task$y, noises = task$noises, with_own = compares && is.null(task$at))
  }, tasks, compares), run)
  Map(\(task, path, compares) best_on_path(task, path, compares, run), tasks, paths, compares)
}

best_on_path <- function(task, path, compares, run) {
  coefficients <- \(k) matrix(path$coefficients[, , k], nrow(task$y))
  if (!compares && is.null(task$at)) {
    return(if (is.finite(path$log_det)) list(noise = task$noises, coefficients = coefficients(1)))
  }
  left <- if (is.null(task$at)) squares_left_out(path) else squares_at(task$K, task$at, task$y_at, path$coefficients, run)
  errors <- colMeans(left)
  k <- which.min(errors)
  if (length(k) == 0 || !is.finite(errors[k])) return(NULL)
  list(noise = task$noises[k], error = errors[k], left = left[, k], coefficients = coefficients(k))
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
  judged <- judge_portfolio(sample, spec, run, FINALISTS, has_plain = spec$metric == "auto")
  if (length(judged) == 0) return(NULL)
  best <- pick_simplest(judged)
  both <- if (adds_scores) add_scores(best, sample, spec, run)
  if (!is.null(both) && is_near(both, best)) return(list(both, best))
  others <- if (best$metric$type != "none") Filter(\(one) one$metric$type == "none", judged)
  c(list(best), if (length(others) > 0) list(best_candidate(others)))
}

# The candidates of all trails, judged, with their bandwidth in units of the points. `has_plain`: with unlearnt_choices().
judge_portfolio <- function(sample, spec, run, finalists, has_plain) {
  spread <- fill_spread(vapply(seq_len(ncol(sample$points)), \(k) spread_of(sample$points[, k]), 0))
  x <- scale_columns(sample$points - rep(colMeans(sample$points), each = nrow(sample$points)), 1 / spread)
  y <- sample$y
  noise <- if (!is.null(spec$lambda)) spec$lambda / sample$per_row
  folds <- judging_folds(nrow(x))
  train <- seq_len(min(nrow(x), SAMPLE_ROWS))
  rows <- \(of) list(x = x[of, , drop = FALSE], y = y[of, , drop = FALSE])
  given <- c(rows(train), list(held = if (length(train) < nrow(x)) rows(-train)))
  trails <- search_portfolio(given, portfolio_entries(spec$kernel, spec$metric), finalists, noise, run)
  by_column <- ncol(x) <= min(nrow(x), LIKELIHOOD_ROWS) / ROWS_BY_COLUMN
  fixed_of <- \(sample) lapply(if (has_plain) unlearnt_choices(sample, by_column, spec, run), \(found) {
    c(found, list(root = spread / rep_len(found$bandwidth, length(spread))))
  })
  fixed <- fixed_of(sample)
  entries <- lapply(trails, \(trail) trail[[1]]$entry)
  trails <- c(fixed_trails(rep(list(given), length(fixed)), fixed, noise, run), trails)
  share_stage(run, 0.8, 0.2)
  judged <- if (is.null(folds[[1]]$kept)) {
    lapply(trails, \(trail) judge_trail(trail, list(trail), x, y, folds, run))
  } else {
    samples <- lapply(folds, \(fold) rows(fold$kept))
    each_fixed <- lapply(folds, \(fold) {
      found <- if (nrow(x) < FOLD_ROWS_BY_COLUMN * ncol(x)) fixed_of(some_of_sample(sample, fold$kept))
      if (length(found) == length(fixed)) found else fixed # a fold of which no fit is possible has no choice of its own
    })
    refits <- follow_again(samples, each_fixed, entries, noise, length(train) > FIRST_ROWS, run)
    Map(\(trail, fits) judge_trail(trail, fits, x, y, folds, run), trails, refits)
  }
  judged <- Filter(length, judged)
  least <- min(Inf, vapply(judged, `[[`, 0, "error"))
  lapply(judged, \(one) {
    if (is.null(noise) && one$error <= MAY_WIN * least) one <- judge_noises(one, y, run)
    c(one, list(bandwidth = metric_bandwidth(one$metric, spread)))
  })
}

# With fewer rows for each column, bandwidths that maximise the likelihood of rows look much better there than elsewhere, so
# that each fold chooses them without the rows held out: with 12 rows errors are 0.98 times as large, with 28 the same (NOTES.md).
FOLD_ROWS_BY_COLUMN <- 20

# For each choice that is fixed and each entry its trails in all samples. `fixed`: the choices of each sample.
follow_again <- function(samples, fixed, entries, noise, have_more, run) {
  each <- \(of) rep(of, each = length(samples))
  choices <- length(fixed[[1]])
  own <- unlist(lapply(seq_len(choices), \(i) lapply(fixed, `[[`, i)), recursive = FALSE)
  of_fixed <- fixed_trails(rep(samples, choices), own, noise, run)
  trails <- c(of_fixed, follow_entries(rep(samples, length(entries)), each(entries), noise, have_more, run))
  unname(split(trails, each(seq_len(choices + length(entries)))))
}

# Choices without a learnt metric: one factor of the spreads, and, `by_column`, bandwidths that maximise the marginal
# likelihood of some rows, which are better than learnt metrics where few columns matter or the response is smooth. The
# bandwidths of one kernel are the start for the next one, so that LATER_STEPS are enough there; twice as many steps fit these
# rows better, and no others. Sums of the absolute differences of d columns are up to sqrt(d) times as large as their norms:
# such a kernel starts with bandwidths as much larger (NOTES.md).
unlearnt_choices <- function(sample, by_column, spec, run) {
  few <- first_of_sample(sample, LIKELIHOOD_ROWS)
  kernels <- if (is.null(spec$kernel)) lapply(LIKELIHOOD_KERNELS, kernel_spec) else list(spec$kernel)
  start <- choose_on_sample(few, replace(spec, "kernel", kernels[1]), run)
  if (is.null(start)) return(NULL)
  start$kernel <- kernels[[1]]
  if (!by_column) return(list(start))
  Reduce(\(last, kernel) {
    steps <- if (identical(last, start)) FIRST_STEPS else LATER_STEPS
    wider <- if (has_directions(last$kernel) && !has_directions(kernel)) sqrt(ncol(few$points)) else 1
    from <- replace(last, c("kernel", "bandwidth"), list(kernel, wider * last$bandwidth))
    choose_by_column(few, from, spec, run, "likelihood", steps)
  }, kernels, start, accumulate = TRUE)
}

LIKELIHOOD_KERNELS <- c("gaussian", "matern52", "matern32", "product_laplacian")
FIRST_STEPS <- 20
LATER_STEPS <- 10
LIKELIHOOD_ROWS <- 300

# The fits with bandwidths that were chosen on a part of a sample, `fixed`, each to its own sample, as trails of one candidate.
fixed_trails <- function(samples, fixed, noise, run) {
  tasks <- Map(\(sample, found) {
    noises <- if (is.null(noise)) found$noise * c(0.01, 0.1, 1, 10) else noise
    at <- held_points(sample$held, found$root, 1, run)
    z <- metric_points(sample$x, found$root, 1, run)
    list(z = z, y = sample$y, kernel = found$kernel, noises = noises, at = at, y_at = sample$held$y, always = FALSE)
  }, samples, fixed)
  many <- vapply(tasks, \(task) nrow(task$z) > FIRST_ROWS, NA)
  few <- seq_len(FIRST_ROWS)
  firsts <- best_fits(lapply(tasks[many], \(task) {
    task[c("at", "y_at")] <- list(NULL)
    replace(task, c("z", "y", "always"), list(task$z[few, , drop = FALSE], task$y[few, , drop = FALSE], TRUE))
  }), run)
  tasks[many] <- Map(\(task, first) replace(task, "noises", list(first$noise)), tasks[many], firsts)
  fits <- vector("list", length(tasks))
  possible <- vapply(tasks, \(task) length(task$noises) > 0, NA)
  fits[possible] <- best_fits(tasks[possible], run)
  Map(\(fit, found) {
    metric <- list(root = found$root, unit = 1, type = "none")
    if (!is.null(fit)) list(c(list(kernel = found$kernel, metric = metric, round = 0), fit))
  }, fits, fixed)
}
