#' Choose bandwidths, penalty and number of centres of a kernel ridge regression
#'
#' Compares several ways to choose the parameters of [kernel_ridge()] by their errors at held-out rows, and fits with the
#' best: the default of [kernel_ridge()], the default without a learnt metric, and bandwidths that optimise a criterion.
#'
#' @details
#' **Ways to choose.** Each way chooses again without the rows at which it is judged: up to five folds, until they
#' have 500 rows or no way is ahead of the default. The best way replaces the default if it is better by more than two standard
#' errors. With a given `kernel` or `bandwidth` the criterion alone chooses.
#'
#' **Terms.** For a formula with `k()` the criterion is the restricted likelihood of `rows` rows.
#'
#' **Criteria.** All are of a Gaussian process (kernel ridge regression) on the sample, whose noise variance is
#' \eqn{n \lambda}{n lambda} times the signal variance:
#' - `"likelihood"`: the marginal likelihood. With fewer `inducing` rows than `rows` it is the lower bound of Titsias
#'   (2009). The likelihood of fewer rows mostly gives better bandwidths.
#' - `"loo"`: the leave-one-out squared error, in closed form.
#' - `"gcv"`: generalised cross-validation, which replaces each leverage by the mean leverage.
#' - `"holdout"`: the squared error at a third of the sample of a fit to the rest. Then `lambda` is chosen, in steps
#'   around that value, by the error at held-out rows of fits with the centres of the final fit.
#'
#' Bandwidths and noise are searched by L-BFGS, first on a quarter of the sample. A factor `y` is fitted as -1 and 1;
#' for logistic loss `lambda` is then chosen by the log loss.
#'
#' **Several values** of `lambda` or `centers` are compared by the error at held-out rows (a fifth, up to 5,000). Of several
#' numbers of centres the result is the smallest whose error is within 1 percent of the least. Several kernels are
#' compared by the criterion.
#'
#' @inheritParams kernel_ridge
#' @param criterion The criterion: see Details. Default `"likelihood"`.
#' @param structure `"diagonal"`: one bandwidth for each column. `"scalar"`: one factor of the columns' spread, the only
#'   choice for sparse rows. Default `"diagonal"` for dense rows.
#' @param kernel One kernel as for [kernel_ridge()], or several to compare: a vector of names, or a list. `NULL`
#'   (default): the ways are compared, and the criterion compares `"gaussian"` and `"matern52"`.
#' @param bandwidth Numbers that are kept, while the rest is chosen. `NULL` (default): searched.
#' @param lambda One number that is kept, or several to compare. `NULL` (default): searched.
#' @param centers As for [kernel_ridge()], or several numbers of centres to compare.
#' @param rows Number of rows of the sample. Default 1,000.
#' @param inducing Number of inducing rows of the bound. If it is at least `rows` (default), the criterion is the
#'   likelihood itself.
#' @param seconds Time limit of the search, after which the best values so far are used, or the default if not all ways
#'   are judged. Default `Inf`. With a limit that ends the search early, the result depends on the machine.
#' @param subset,na.action For formulas, as for [stats::lm()].
#' @param ... For the default method, further arguments of [kernel_ridge()], such as `family`, `weights` and `solver`. For
#'   other methods, the arguments of the default method. With `solver = ridge_solver(plan = TRUE)` nothing is searched
#'   or fitted: the result is an estimate of memory and time.
#' @returns A fit of [kernel_ridge()], of class `tune_ridge`, too, with one more element, `search`. It is a list with
#' - `ways`, a data frame of the ways that were compared, or `NULL`;
#' - `path`, a data frame with a row for each evaluation of the criterion on the sample, and its best `value`. The
#'   criterion is minus the log-likelihood per observation, or the logarithm of a root mean square error. `NULL` if
#'   another way was chosen;
#' - `held_out`, a data frame of the values that were compared on held-out rows, or `NULL`;
#' - `relevance`, the spread of the columns over their bandwidth, and `seconds`.
#'
#' `kernel_ridge(tuned, ...)` fits again with the values found and other arguments. `update(tuned, ...)` tunes again, and
#' [cross_validate()] tunes again for each fold.
#' @references Titsias, M. (2009) Variational learning of inducing variables in sparse Gaussian processes. *AISTATS* 5.
#' @seealso [kernel_ridge()]
#' @rawRd \concept{hyperparameters}\concept{tuning}\concept{choice of lambda}
#' @export
#' @order 1
#' @examples
#' set.seed(1)
#' x <- matrix(runif(900), 300, 3)
#' y <- sin(6 * x[, 1]) + x[, 2]^2 + rnorm(300, sd = 0.1)
#' tuned <- tune_ridge(x, y, kernel = "gaussian")
#' tuned
#' plot(tuned)
#' predict(tuned, x[1:3, ])
#'
#' # other centres, with the numbers that were found
#' kernel_ridge(tuned, centers = 100)
tune_ridge <- function(x, ...) UseMethod("tune_ridge")

#' @rdname tune_ridge
#' @order 2
#' @export
tune_ridge.default <- function(x, y, criterion = c("likelihood", "gcv", "loo", "holdout"),
                               structure = c("diagonal", "scalar"), kernel = NULL, bandwidth = NULL, lambda = NULL,
                               centers = NULL, rows = 1000, inducing = 2000, seconds = Inf, ..., control = NULL) {
  if (missing(x)) stop_argument("x", "must be given")
  asked <- list(
    criterion = criterion, structure = if (!missing(structure)) structure, kernel = kernel, lambda = lambda,
    centers = centers, rows = rows, inducing = inducing, seconds = seconds
  )
  asked <- checked_options(asked, TUNE_CHECKS)
  options <- list(...)
  check_ridge_options(options)
  x <- check_rows(x)
  all <- ridge_rows(x, brings_y = missing(y))
  if (missing(y)) y <- all$y
  if (is.null(y)) stop_argument("y", "must be given")
  hold_rows(all)
  spec <- spec_of_options(options, asked, bandwidth, all)
  spec$asked <- settle_control(control)
  run <- start_run(spec$asked, "Choosing bandwidths")
  given <- c(list(x = x, y = y), options, list(control = control))
  if (spec$plan) return(with_fixed_seed(plan_tuning(given, all, y, spec, asked, run)))
  found <- tune_rows(all, y, spec, asked, run)
  close_progress(run)
  found$options <- options
  found$arguments <- c(with_size(given, found$exact, found$centers), found[c("kernel", "bandwidth", "lambda")])
  found$settings <- list(asked = asked, spec = spec)
  new_tuned(found, match.call())
}

# The fit with what the search has `found`, which is its element `search`.
new_tuned <- function(found, call) {
  fit <- call_with(kernel_ridge.default, found$arguments)
  asked <- found$settings$asked
  fit$chosen <- c(
    if (length(asked$kernel) != 1 && !has_terms(fit)) "kernel", if (is.null(found$settings$spec$bandwidth)) "bandwidth",
    if (length(asked$lambda) != 1) "lambda"
  )
  fit$search <- found
  fit$call <- tuning_call(call)
  structure(fit, class = c("tune_ridge", class(fit)))
}

tuning_call <- function(call) {
  call[[1]] <- quote(tune_ridge)
  call
}

#' @rdname tune_ridge
#' @order 3
#' @export
tune_ridge.data.frame <- function(x, y, ...) {
  # data |> tune_ridge(y ~ a)
  if (!missing(y) && inherits(y, "formula")) return(eval(formula_call(match.call(), tune_ridge.formula), parent.frame()))
  fit_frame(tune_ridge.default, frame_columns(x, "x"), list(y = if (!missing(y)) y, ...), match.call())
}

#' @rdname tune_ridge
#' @order 4
#' @export
tune_ridge.formula <- function(formula, data = NULL, ..., subset, weights, offset, na.action = getOption("na.action")) {
  call <- match.call()
  made <- terms_frame(formula, data, call, parent.frame(), na.action)
  arguments <- list(...)
  if (!is.null(made$terms)) {
    kernels <- searched_kernels(list(kernel = TUNE_CHECKS$kernel(arguments$kernel, "kernel")))
    arguments$kernel <- lapply(kernels, kernel_of_terms, made$terms, made$frame)
  }
  fit_frame(tune_ridge.default, made$frame, arguments, call)
}

#' @export
with_frame.tune_ridge <- function(fit, frame, call) {
  fit <- NextMethod()
  fit$search$frame <- frame[setdiff(names(frame), c("points", "y", "weights", "offset"))]
  fit$call <- tuning_call(call)
  fit
}

#' @rdname tune_ridge
#' @order 5
#' @export
kernel_ridge.tune_ridge <- function(x, ...) {
  others <- list(...)
  check_ridge_options(others)
  arguments <- x$search$arguments
  # centres are drawn again as for a fit without a search
  if (!is.null(others$centers)) arguments["solver"] <- list(x$search$options$solver)
  fit <- call_with(kernel_ridge.default, replace(arguments, names(others), others))
  call <- ridge_call(match.call())
  if (!is.null(x$search$frame)) return(with_frame(fit, x$search$frame, call))
  if (inherits(fit, "kernel_ridge")) fit$call <- call
  fit
}

# ---- arguments --------------------------------------------------------------------------------

# The check of each argument of a search, as far as it does not need the rows. Several penalties and numbers of centres
# are candidates; centres of other kinds are left to kernel_ridge().
TUNE_CHECKS <- list(
  criterion = \(value, arg) check_choice(value, c("likelihood", "gcv", "loo", "holdout"), arg),
  structure = optional(\(value, arg) check_choice(value, c("diagonal", "scalar"), arg)),
  kernel = optional(function(value, arg) {
    if (inherits(value, "flashkernel_kernel")) value <- list(value)
    if (length(value) == 0) stop_argument(arg, "must be at least one: found none")
    lapply(as.list(value), check_kernel)
  }),
  lambda = optional(function(value, arg) {
    good <- is_number(value) && length(value) > 0 && all(is.finite(value)) && all(value > 0)
    if (!good) stop_argument(arg, "must be positive numbers: found ", describe(value))
    sort(unique(as.double(value)))
  }),
  centers = \(value, arg) if (are_several(value)) sort(unique(vapply(value, check_count, 0, arg))) else value,
  rows = check_count, inducing = check_count, seconds = check_seconds
)

# Further arguments of kernel_ridge(), each by name.
check_ridge_options <- function(options) {
  if (length(options) == 0) return(invisible())
  if (!has_names(names(options))) stop_argument("...", "must be named arguments of kernel_ridge(), each given once")
  other <- setdiff(names(options), c(ridge_arguments(), "control"))
  if (length(other) > 0) do.call(check_ridge_dots, options[other[1]])
}

# Returns the settings that kernel_ridge() would make of `options`, with its defaults for all others.
spec_of_options <- function(options, asked, bandwidth, rows) {
  defaults <- lapply(formals(kernel_ridge.default)[ridge_arguments()], eval)
  defaults[names(options)] <- options
  defaults["kernel"] <- list(if (!is.null(asked$kernel)) asked$kernel[[1]])
  defaults["bandwidth"] <- list(check_kept_bandwidth(bandwidth, rows))
  defaults["lambda"] <- list(if (length(asked$lambda) == 1) asked$lambda)
  spec <- ridge_spec(defaults)
  if (!is.null(spec$start)) stop_argument("start", "must be NULL: tune_ridge() has no warm start")
  if (has_terms(spec)) {
    if (asked$criterion != "likelihood") stop_argument("criterion", "must be \"likelihood\" for a formula with k()")
    if (identical(asked$structure, "scalar")) stop_argument("structure", "must be \"diagonal\" for a formula with k()")
  }
  if (is.null(spec$weights)) spec$weights <- rows$weights
  spec
}

check_kept_bandwidth <- function(bandwidth, rows) {
  if (is.null(bandwidth)) return(NULL)
  if (!is.null(dim(bandwidth))) {
    stop_argument("bandwidth", "must be one number or one for each column: found ", describe(bandwidth))
  }
  rows_factor(rows, bandwidth)
  as.vector(bandwidth)
}

# ---- the way of a search ----------------------------------------------------------------------

# What a way chooses from: rows, response, weights, the sample that is searched, and what is asked for.
tuning_task <- function(rows, response, weights, spec, asked) {
  check_memory(8 * SAMPLE_MATRICES * as.double(min(asked$rows, rows$n))^2, "rows")
  sample <- draw_sample(rows, response, weights, spec$offset, asked$rows)
  if (sample$scale == 0) stop_argument("y", "must vary: found one value in all rows of a sample")
  sample$inducing <- asked$inducing
  shape <- settle_structure(asked$structure, sample$points)
  if (shape == "diagonal" && !is.null(spec$bandwidth)) spec$bandwidth <- rep_len(spec$bandwidth, rows$d)
  list(
    rows = rows, response = response, weights = weights, spec = spec, asked = asked, sample = sample, structure = shape,
    locates = locates(rows, spec, asked)
  )
}

# What new_tuned() takes, without arguments and settings.
tune_rows <- function(rows, y, spec, asked, run) {
  spec$family <- default_family(spec$family, y)
  if (has_terms(spec)) spec <- check_additive(spec)
  response <- check_response(y, rows$n, family = spec$family)
  weights <- loss_weights(response, spec, rows)
  with_fixed_seed(tune_drawn(with_row_keys(rows, response, run), response, weights, spec, asked, run), spec$seed)
}

tune_drawn <- function(rows, response, weights, spec, asked, run) {
  started <- proc.time()[["elapsed"]]
  size <- size_by_default(rows, spec, asked, ncol(response$y), run)
  task <- tuning_task(rows, response, weights, replace(spec, names(size), size), asked)
  ways <- ways_of(rows, spec, asked)
  judged <- if (length(ways) > 1) judge_ways(ways, task, run)
  way <- if (is.null(judged)) ways else judged$way[judged$chosen]
  until <- unclass(Sys.time()) + max(0, asked$seconds - (proc.time()[["elapsed"]] - started))
  found <- choose_by_way(way, task, until, run)
  spec[c("kernel", "bandwidth", "lambda")] <- found[c("kernel", "bandwidth", "lambda")]
  held <- if (compares(asked)) {
    compared <- compared_values(rows$n, size, spec$lambda, asked)
    hold_out_path(rows, response, weights, spec, compared$counts, compared$lambdas, run)
  }
  list(
    kernel = spec$kernel, bandwidth = spec$bandwidth, lambda = if (is.null(held)) spec$lambda else held$best$lambda,
    centers = if (are_several(asked$centers)) held$best$centers else size$centers, exact = isTRUE(size$exact),
    criterion = asked$criterion, value = found$value, path = found$path, ways = judged, held_out = held$table,
    rows = nrow(task$sample$y), relevance = relevance_of(task$sample, spec),
    seconds = proc.time()[["elapsed"]] - started
  )
}

# Number of matrices with the size of the sample that are in memory at a time.
SAMPLE_MATRICES <- 9

settle_structure <- function(structure, points) {
  sparse <- inherits(points, "sparseMatrix")
  if (sparse && identical(structure, "diagonal")) stop_argument("structure", "must be \"scalar\" for sparse rows")
  if (sparse) "scalar" else if (is.null(structure)) "diagonal" else structure
}

# The noise that the search has found is that of squared loss.
best_noise <- function(found, sample, spec, run) {
  if (spec$family$squared) return(found$noise)
  few <- first_of_sample(sample, rows_of_fold(ncol(sample$y)))
  L <- rows_factor(sample$rows, found$bandwidth)
  family_noise(thirds_of(kernels_between(NULL, few$points, L, spec$kernel, run)), few, run)
}

# Are penalties or numbers of centres compared at rows held out?
compares <- function(asked) {
  length(asked$lambda) > 1 || are_several(asked$centers) || asked$criterion == "holdout" && is.null(asked$lambda)
}

# list(counts, lambdas) of what is compared, of n rows, where one penalty was found. `size`: of size_by_default().
compared_values <- function(n, size, lambda, asked) {
  most <- max(1, n - n %/% 5)
  counts <- if (!is.null(asked$centers)) asked$centers else min(if (size$exact) n else size$centers, most)
  list(
    counts = if (are_several(counts)) as.list(counts) else list(counts),
    lambdas = if (!is.null(asked$lambda)) asked$lambda else if (asked$criterion == "holdout") lambda * 10^(-2:2) else lambda
  )
}

# Spread over bandwidth of each column, the largest 1; NULL for sparse rows and for terms, which may share columns.
relevance_of <- function(sample, spec) {
  if (inherits(sample$points, "sparseMatrix") || has_terms(spec)) return(NULL)
  bandwidth <- spec$bandwidth
  scale <- if (is.matrix(bandwidth)) sqrt(diag(solve(bandwidth))) else 1 / bandwidth
  relevance <- apply(sample$points, 2, stats::sd) * scale
  top <- max(relevance)
  stats::setNames(if (top > 0) relevance / top else relevance, sample$names)
}
