# A fit: from checked rows, response and options to an object of class kernel_ridge.

# `rows`: from ridge_rows(); `response`: from check_response(); `spec`: from ridge_spec(). Draws depend on the rows and the
# seed.
fit_ridge <- function(rows, response, spec, run) {
  with_fixed_seed(fit_drawn(with_row_keys(rows, response, run), response, spec, run), spec$seed)
}

fit_drawn <- function(rows, response, spec, run) {
  if (takes_residuals(rows, spec)) return(fit_residual_quantiles(rows, response, spec, run))
  if (length(spec$lambda) > 1) stop_argument("lambda", "must be one number for such rows and settings: found two")
  weights <- loss_weights(response, spec, rows)
  offset <- check_offset(spec$offset, rows$n, ncol(response$y))
  task <- if (!is.null(spec$checkpoint)) checkpoint_task(spec, rows, response, weights, offset)
  spec <- resume_choices(spec, read_checkpoint(spec$checkpoint, task))
  spec <- settle_defaults(rows, response, weights, spec, run)
  rows <- rows_under(rows, spec$L, spec$kernel)
  problem <- list(
    rows = rows, y = response$y, classes = response$classes, weights = weights, offset = offset,
    intercept = spec$intercept, validation = check_validation(spec$validation, rows, response, spec),
    family = spec$family, task = task
  )
  if (spec$plan) return(plan_fit(problem, spec, run))
  if (spec$exact) {
    run <- run_where_rows_are(problem$rows, run)
    problem <- problem_in_session(problem, spec)
  }
  solved <- if (spec$exact) fit_exact(problem, spec, run) else fit_by_centers(problem, spec, run)
  if (!is.null(spec$checkpoint)) unlink(spec$checkpoint)
  new_ridge(problem, response, spec, solved)
}

# Weights of the rows in the loss: the user's weights times the weights of their classes, or NULL.
loss_weights <- function(response, spec, rows) {
  weights <- if (is_column(spec$weights)) spec$weights else check_weights(spec$weights, rows$n)
  if (is.null(spec$class_weights)) return(weights)
  by_class <- check_class_weights(spec$class_weights, response$classes, response$y)
  own <- if (is_column(response$y)) {
    column_of("by_class", list(response$y), 1, list(numbers = by_class))
  } else {
    by_class[class_codes(response$y)]
  }
  if (is.null(weights)) return(own)
  if (is_column(weights) || is_column(own)) rows_column(rows, weights) * rows_column(rows, own) else weights * own
}

# Class weights in the order of the classes. "balanced": weights that give all classes the same total.
check_class_weights <- function(class_weights, classes, y) {
  arg <- "class_weights"
  if (is.null(classes)) stop_argument(arg, "needs classes: `y` must be a factor")
  if (identical(class_weights, "balanced")) return(nrow(y) / (length(classes) * class_counts(y)))
  good <- is_number(class_weights) && length(class_weights) == length(classes) && all(is.finite(class_weights)) &&
    all(class_weights > 0)
  if (!good) {
    stop_argument(
      arg, "must be \"balanced\", or a positive number for each class, ", length(classes), ": found ",
      describe(class_weights)
    )
  }
  found <- names(class_weights)
  if (!is.null(found) && !setequal(found, classes)) {
    stop_argument(arg, "must have the names of the classes, ", quote_names(classes), ": found ", quote_names(found))
  }
  as.double(if (is.null(found)) class_weights else class_weights[classes])
}

# ---- with centres -----------------------------------------------------------------------------

fit_by_centers <- function(problem, spec, run) {
  rows <- problem$rows
  clock <- stage_clock()
  name_stage(run, "Choosing centres")
  chosen <- pick_centers(rows, spec, problem$weights, run)
  clock("centers")
  problem <- problem_where_computed(problem, chosen$points, run)
  hold_rows(problem$rows)
  name_stage(run, "Preconditioner")
  system <- system_of(problem, chosen, spec, run)
  clock("preconditioner")
  spec$clock <- clock
  index <- chosen$index
  merged <- sum(chosen$merged, spec$merged)
  spec$save <- checkpoint_writer(
    spec, problem$task, list(centers = if (is.null(index)) chosen$points else index, merged = merged)
  )
  name_stage(run, "Fitting")
  solved <- fit_family(system, problem, spec)
  if (is.null(solved$jitter)) solved$jitter <- system$preconditioner$jitter
  lost <- lost_in_single(system, solved$coefficients, problem$y, spec)
  if (!isTRUE(lost <= IMPRECISE)) {
    # a checkpoint of single precision does not help
    spec["state"] <- list(NULL)
    if (run$precision == "auto") return(fit_by_centers(problem, spec, replace(run, "precision", "double")))
    warn_imprecise(lost, spec)
  }
  if (is_column(solved$fitted)) solved["fitted"] <- list(if (!inherits(rows, "rows_data")) collected(solved$fitted))
  c(solved, list(
    centers = system$centers$points, center_index = index, merged = merged,
    columns = system$centers, seconds = clock("iterations")
  ))
}

# Moves y, weights and offset of the problem to where its rows are, for products with the points `centers`. Rows in
# memory are sent to the workers of the cluster of `run`, if there is enough to compute.
problem_where_computed <- function(problem, centers, run) {
  rows <- problem$rows
  under <- rows$sources
  if (inherits(rows, "rows_dense") && goes_to_cluster(under, centers, run)) {
    rows <- ridge_rows(flash_data(rows$points, run$cluster, shard_rows = rows_of_piece(rows$n)), under$L, under$kernel)
  }
  problem$rows <- rows
  for (name in c("y", "weights", "offset")) problem[name] <- list(rows_column(rows, problem[[name]]))
  problem
}

# Keeps the workers that have the rows ready until `frame` ends.
hold_rows <- function(rows, frame = parent.frame()) {
  if (inherits(rows, "rows_data")) hold_pool(pool_of(rows$data$cluster), frame)
}

# The system that a solver works with: rows and centres (ridge-rows.R), the preconditioner with the factor T, lambda, n,
# the weights of the rows (NULL: ones), and the indices of the centres among the rows (NULL: none). A solver that
# continues from a checkpoint uses the jitter of the checkpoint, because its coordinates depend on T.
system_of <- function(problem, chosen, spec, run, frame = parent.frame()) {
  rows <- problem$rows
  points <- chosen$points
  run <- run_of_fit(rows, nrow(points), run)
  by <- products_by(rows, nrow(points), spec, run)
  halves <- uses_halves(by, spec$kernel) && is.matrix(points)
  if (halves) points <- on_halves(points, spec$L, run, HALVES_STEP[[by$precision]])
  centers <- ridge_centers(points, spec$L, spec$kernel)
  # relative to the diagonal, for each centre: below the rounding error of the products
  jitter <- spec$state$jitter
  if (is.null(jitter)) jitter <- if (by$precision == "double") 1e-13 else 1e-10
  in_blocks <- spec$family$squared && exceeds_matrix(centers$m, rows$d, run)
  list(
    rows = if (in_blocks) rows else rows_with_kernels(rows, centers, spec, run, frame), centers = centers, lambda = spec$lambda,
    weights = problem$weights, n = rows$n, run = run, center_index = chosen$index, L = spec$L, kernel = spec$kernel,
    preconditioner = if (!in_blocks) preconditioner_of(centers, replace(run, "precision", by$precision), jitter)
  )
}

# The preconditioner with the factor T of the kernel matrix of the centres. `run`: how products are computed. With
# products in single precision, A is computed from FP16 products where that is faster (src/core/tiled.h).
preconditioner_of <- function(centers, run, jitter, diagonal = 0, rough = FALSE) {
  K <- centers$sources
  if (is.null(K)) K <- kernels_between(NULL, centers$points, centers$L, centers$kernel, run)
  new_preconditioner(K, run, jitter, diagonal, rough)
}

# Returns a function that records the end of a named stage, and returns the seconds of all stages so far.
stage_clock <- function() {
  seconds <- numeric()
  last <- unclass(Sys.time())
  function(stage) {
    now <- unclass(Sys.time())
    seconds[stage] <<- sum(seconds[stage], now - last, na.rm = TRUE)
    last <<- now
    seconds
  }
}

pick_centers <- function(rows, spec, weights, run) {
  start <- spec$start
  if (!is.null(start)) return(list(points = start$centers, index = start_index(rows, start), merged = 0))
  choose_centers(rows, spec$centers, spec$center_method, weights, spec$L, spec$kernel, run, spec$lambda)
}

# The indices of the centres of a warm start among the rows, or NULL if these are other rows.
start_index <- function(rows, start) {
  index <- start$center_index
  if (is.null(index) || max(index) > rows$n) return(NULL)
  # centres may have been moved by a millionth of a bandwidth (ridge-grid.R)
  if (isTRUE(all.equal(rows_take(rows, index), start$centers, tolerance = 1e-4))) index
}

# Coefficients and intercept for the loss of the family.
fit_family <- function(system, problem, spec) {
  if (spec$family$squared) fit_squared(system, problem, spec) else fit_newton(system, problem, spec)
}

# ---- squared loss -----------------------------------------------------------------------------

fit_squared <- function(system, problem, spec) {
  centred <- centred_response(problem, system$run)
  watch <- watch_iterations(system, problem, centred$intercept, seen = spec$state$watch)
  # one sweep over all rows
  moments <- rows_normal(system$rows, system$centers, NULL, centred$y, system$weights, system$run)$product / system$n
  system$unit <- weighted_squares(centred$y, system$weights, system$run) / system$n
  solve <- if (is.null(system$preconditioner)) solve_by_centers else solve_normal
  solved <- solve(system, moments, spec, watch$each, watched_save(spec, watch))
  warn_unfinished(solved)
  c(watched_result(watch, centred$intercept, solved, solved$coefficients), list(jitter = solved$jitter))
}

# list(y, intercept): the response minus offset and intercept.
centred_response <- function(problem, run) {
  y <- problem$y
  if (!is.null(problem$offset)) y <- y - problem$offset
  intercept <- if (problem$intercept) weighted_means(y, problem$weights) else rep(0, ncol(y))
  y <- if (is_column(y)) shift_columns(y, intercept) else combine_columns(y, NULL, -intercept, run)
  list(y = y, intercept = intercept)
}

# colSums(weights * y^2)
weighted_squares <- function(y, weights, run) {
  weighted <- if (is.null(weights)) y else y * weights
  if (is_column(y)) column_sums(y * weighted) else column_products(y, weighted, run)
}

# The coefficients of the last iterate, or of the iterate of least validation error.
watched_result <- function(watch, intercept, solved, coefficients) {
  seen <- watch$seen()
  found <- is.null(seen$best)
  list(
    coefficients = if (found) coefficients else seen$best, intercept = intercept, trace = trace_frame(seen$trace),
    iterations = solved$iterations, converged = solved$converged,
    best_iteration = if (found) solved$iterations else seen$best_iteration
  )
}

# Conjugate gradients from the start of the fit, for moments K' W y / n. If they stall far from the solution, the errors
# of the products are too large for the preconditioner. It is recomputed with a larger jitter, and the iterations
# continue from the best iterate.
solve_normal <- function(system, moments, spec, each, save = NULL) {
  alpha <- spec$start$coefficients
  state <- spec$state
  multiply <- \(alpha) rows_normal(system$rows, system$centers, alpha, NULL, system$weights, system$run)$product
  repeat {
    P <- system$preconditioner
    precondition(P, weights_at_centers(system), 1 / system$centers$m, system$lambda)
    if (!is.null(spec$clock)) spec$clock("preconditioner")
    solved <- conjugate_gradients(
      normal_operator(system, system$lambda, multiply), apply_factors(P, moments, c("T^-T", "A^-T")), system$run,
      if (!is.null(alpha)) apply_factors(P, alpha, c("T", "A")), spec$iterations, spec$tolerance,
      each = \(iteration, x, residual) each(iteration, coefficients_of(system, x), residual),
      save = if (!is.null(save)) \(state) save(replace(state, "jitter", P$jitter)), state = state, unit = system$unit
    )
    alpha <- coefficients_of(system, solved$x)
    jitter <- STALLED_JITTER * P$jitter
    if (!solved$stalled || solved$residual < STALLED_RESIDUAL || jitter > MOST_JITTER) break
    free_preconditioner(P)
    by <- products_by(system$rows, system$centers$m, spec, system$run)
    by_products <- replace(system$run, "precision", by$precision)
    system$preconditioner <- preconditioner_of(system$centers, by_products, jitter)
    state <- list(iteration = solved$iterations)
  }
  c(list(coefficients = alpha, jitter = P$jitter), solved[c("iterations", "converged", "stalled", "residual")])
}

# A larger relative residual is not explained by rounding.
STALLED_RESIDUAL <- 1e-3
STALLED_JITTER <- 100

warn_unfinished <- function(solved) {
  if (solved$stalled && solved$residual > STALLED_RESIDUAL) {
    warning(
      "conjugate gradients stalled after ", solved$iterations, " iterations at ", format(solved$residual, digits = 2),
      " times the first residual: `lambda` or `bandwidth` is too small for the precision of the sums. ",
      "Use a larger one.", call. = FALSE
    )
  }
}

weighted_means <- function(y, weights) {
  if (is_column(y)) return(if (is.null(weights)) column_sums(y) / nrow(y) else column_sums(y * weights) / sum(weights))
  if (is.null(weights)) colMeans(y) else colSums(y * weights) / sum(weights)
}

# ---- what happens in each iteration -----------------------------------------------------------

# Functions that a solver calls. each(iteration, x, residual) after every step: records the trace and, with a validation
# set, the error of coefficients(x). seen() returns the trace and the coefficients of least validation error (`best`,
# NULL without a validation set), from which another watch continues.
watch_iterations <- function(system, problem, intercept, coefficients = identity, seen = NULL) {
  if (is.null(seen)) seen <- list(trace = list(), least = Inf)
  # the time of earlier iterations is added; the time of validation is not counted
  started <- proc.time()[["elapsed"]] - if (length(seen$trace) > 0) seen$trace[[length(seen$trace)]][3] else 0
  aside <- 0
  look <- function(x) {
    if (is.null(problem$validation)) return(NA_real_)
    alpha <- coefficients(x)
    error <- validation_error(problem, system$centers, alpha, intercept, system$run)
    if (error < seen$least) {
      seen[c("least", "best", "best_iteration")] <<- list(error, alpha, length(seen$trace) + 1L)
    }
    error
  }
  each <- function(iteration, x, residual) {
    now <- proc.time()[["elapsed"]]
    seconds <- now - started - aside
    error <- look(x)
    aside <<- aside + proc.time()[["elapsed"]] - now
    seen$trace[[length(seen$trace) + 1]] <<- c(iteration, residual, seconds, error)
    FALSE
  }
  list(each = each, seen = \() seen)
}

trace_frame <- function(rows) {
  columns <- if (length(rows) > 0) do.call(rbind, rows) else matrix(0, 0, 4)
  # data.frame() would take a tenth of the time of a small fit
  structure(list(
    iteration = as.integer(columns[, 1]), residual = columns[, 2], seconds = columns[, 3], validation = columns[, 4]
  ), class = "data.frame", row.names = .set_row_names(nrow(columns)))
}

# ---- validation -------------------------------------------------------------------------------

# Checks a validation set list(x, y, offset); returns list(rows, y, offset), or NULL if there is none.
check_validation <- function(validation, rows, response, spec) {
  if (is.null(validation)) return(NULL)
  if (is_remote(validation)) validation <- list(x = validation)
  if (is.list(validation) && is_remote(validation$x) && is.null(validation$y) && validation$x$has[["response"]]) {
    validation$y <- response_column(validation$x)
  }
  if (!is.list(validation) || is.null(validation$x) || is.null(validation$y)) {
    stop_argument("validation", "must be a fraction of the rows, or list(x = , y = ): found ",
      if (is.list(validation) && is_remote(validation$x)) "a flash_data() without a response" else describe(validation))
  }
  held <- rows_under(rows_of_fit(validation$x, "validation$x", rows$d, rows$names), spec$L, spec$kernel)
  y <- response_like(validation$y, held$n, response, "validation$y")
  if (ncol(y) != ncol(response$y)) stop_argument("validation$y", "must have ", ncol(response$y), " columns: found ", ncol(y))
  offset <- check_offset(validation$offset, held$n, ncol(y), "validation$offset")
  list(rows = held, y = rows_column(held, y), offset = rows_column(held, offset))
}

# The validation error of the loss.
validation_error <- function(problem, centers, alpha, intercept, run) {
  held <- problem$validation
  held_error(problem$family, link_of_held(held, centers, alpha, intercept, run), held$y, problem$classes)
}

link_of_held <- function(held, centers, alpha, intercept, run) {
  link <- shift_columns(rows_link(held$rows, centers, alpha, run), -intercept)
  if (is.null(held$offset)) link else link + held$offset
}

# Root mean square of the residuals, or the share of wrong classes.
squared_error <- function(link, y, classes) {
  if (is.null(classes)) sqrt(mean((link - y)^2)) else mean(class_codes(link) != class_codes(y))
}

# ---- the object -------------------------------------------------------------------------------

new_ridge <- function(problem, response, spec, solved) {
  rows <- problem$rows
  rows$keys <- NULL
  # with the parameters that were found
  if (!is.null(solved$loss)) spec$family$loss <- solved$loss
  dimnames(solved$coefficients) <- list(NULL, response$outputs)
  fit <- list(
    call = spec$call, kernel = spec$kernel, metric = spec$metric, bandwidth = spec$bandwidth, L = spec$L, lambda = spec$lambda,
    family = spec$family, class_weights = spec$class_weights, centers = solved$centers, center_index = solved$center_index,
    center_method = spec$center_method, merged = solved$merged, coefficients = solved$coefficients,
    intercept = solved$intercept, has_intercept = problem$intercept, has_offset = !is.null(problem$offset),
    classes = response$classes, binary = response$binary, n = rows$n, d = rows$d, names = rows$names,
    outputs = response$outputs,
    seconds = solved$seconds, trace = solved$trace, converged = solved$converged, iterations = solved$iterations,
    best_iteration = solved$best_iteration, jitter = solved$jitter, exact = spec$exact, control = spec$asked,
    held = spec$held, chosen = spec$chosen, centers_given = spec$centers_given, settings = spec[c("iterations", "tolerance", "seed")],
    data = if (spec$keep) c(list(rows = rows), lapply(problem[c("y", "weights", "offset")], \(x) rows_column(rows, x))),
    state = new.env(parent = emptyenv())
  )
  if (spec$keep) {
    fit$state$columns <- solved$columns
    if (is.matrix(solved$fitted)) colnames(solved$fitted) <- response$outputs
    fit$state$fitted <- solved$fitted
  }
  structure(fit, class = "kernel_ridge")
}
