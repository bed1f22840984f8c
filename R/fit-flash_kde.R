#' Kernel density estimation
#'
#' `flash_kde()` fits a kernel density estimate to a vector, matrix, data frame or formula, in any number of dimensions. By
#' default the estimator and the bandwidth are chosen from the data.
#'
#' @details
#' Four estimators are available: see [kde_estimators]. Sums are exact by default: they have a relative error below 1e-12. With
#' `tol` they take time linear in the number of points, in up to 7 dimensions.
#'
#' These pages describe the arguments that shape an estimate:
#'
#' | topic | page |
#' |---|---|
#' | estimators, their bias and cost | [kde_estimators] |
#' | how the bandwidth is chosen | [kde_bandwidth()] |
#' | a bandwidth for each point | [adaptive_factors()] |
#' | bounded, circular and polygonal domains | [kde_support()] |
#' | steps of debiasing, densities from signed estimates | [debiasing()] |
#' | factors and character columns | [categorical_kernel()] |
#' | other kernels | [kde_kernels] |
#' | conditional densities, `y ~ x` | [flash_conditional] |
#' | data larger than memory, clusters | [large_data], [flash_data()] |
#' | tolerance, threads, GPUs | [flash_control()] |
#' | errors and progress | [flashkernel_errors] |
#'
#' These functions take a fit:
#'
#' | task | functions |
#' |---|---|
#' | densities, log densities, scores, leave-one-out values | [`predict()`][predict.flash_kde], [`fitted()`][summary.flash_kde] |
#' | figures | [`plot()`][plot.flash_kde], [`autoplot()`][autoplot.flash_kde], [geom_flash_hdr()] |
#' | distribution functions, quantiles, draws | [kde_cdf()], [`quantile()`][quantile.flash_kde], [`simulate()`][simulate.flash_kde] |
#' | highest-density regions | [hdr_level()], [hdr_regions()] |
#' | confidence bands, unusual rows, tests | [kde_bands()], [kde_pvalue()], [kde_test()] |
#' | modes, clusters, ridges, derivatives | [kde_modes()], [mean_shift()], [kde_ridges()], [kde_derivative()] |
#' | some of the variables | [kde_marginal()], [kde_conditional()] |
#' | comparison | [`logLik()`][summary.flash_kde], [compare_fits()], [cross_validate()] |
#' | inspection and conversion | [`summary()`][summary.flash_kde], [diagnostics()], [`as.data.frame()`][as_density], [as_density()] |
#'
#' @param x The points: a numeric vector, a factor, a matrix or a data frame with one row per point. A data frame may have factors,
#'   character and logical columns, dates and times (days and seconds). Or a `big.matrix` or [flash_data()]: see [large_data].
#' @param formula A one-sided formula that names the columns, such as `~ eruptions + log(waiting)`. A two-sided formula, `y ~ x`,
#'   is for a conditional density: see [flash_conditional].
#' @param data A data frame in which `formula`, `weights` and `subset` are evaluated. It may come first:
#'   `faithful |> flash_kde(~ waiting)`.
#' @param subset Which rows of `data` to use.
#' @param estimator `"auto"` (default), `"kde"`, `"sdkde"`, `"laplace"` or `"laplace6"`. See [kde_estimators].
#' @param bandwidth One number or a vector of `d` numbers: standard deviations of the kernel, as in [stats::density()]. A `d` x `d`
#'   matrix: its **variance**, as in package ks. Or the name of a method of [kde_bandwidth()], or what that function
#'   returns. `"auto"` (default) maximises the leave-one-out likelihood of the chosen estimator: see [kde_bandwidth()].
#'   Names are matched to the columns.
#' @param weights Non-negative weights, one per row. Only their ratios matter. A weight of 2 counts as the same row twice, except
#'   that an automatic bandwidth uses the effective sample size. `NULL` (default): equal weights.
#' @param adaptive Whether each point has a bandwidth of its own: `"auto"` (default), `TRUE` or `"abramson"`, `"knn"`, `FALSE`, a
#'   positive number for each row, or `"balloon"`. See [adaptive_factors()].
#' @param support Where the data can lie: `c(lower, upper)` for one column or all, a list of such ranges or of [kde_circle()] by
#'   column, a polygon, or `"auto"`: bounds of which the data give evidence. See [kde_support()].
#' @param debias What [debiasing()] returns. `NULL` (default): one step along the estimate's own score.
#' @param categorical What [categorical_kernel()] returns, for data with categories. `NULL` (default): smoothing parameters are
#'   chosen from the data.
#' @param tol Error tolerance of kernel sums, a number >= 0 and below 1. With 0 (default) each sum has a relative error below
#'   1e-12. See [flash_control()].
#' @param na.action What to do about rows with missing values, as in [stats::lm()]: `na.omit` (default), `na.exclude` or
#'   `na.fail`. Infinite values are errors.
#' @param kernel `"gaussian"` (default), `"epanechnikov"`, `"biweight"`, `"triweight"`, `"triangular"` or `"uniform"`. See
#'   [kde_kernels].
#' @param control A [flash_control()], which says where and how sums are computed. `NULL` (default): the defaults.
#' @param ... For the formula method: the arguments `estimator` to `control`. Otherwise unused; an unknown argument is an error.
#'
#' @returns An object of class `flash_kde`, a list that can be saved by [saveRDS()]. Its main elements are
#'   \item{`estimator`, `kernel`, `n`, `d`}{names of the estimator and the kernel; numbers of points and dimensions.}
#'   \item{`x`, `names`, `weights`}{the `n` x `d` training points, the names of their columns, and the weights or `NULL`.}
#'   \item{`bandwidth`, `score_bandwidth`}{`d` x `d` variance matrices: H, and for `"sdkde"` the bandwidth of the score.}
#'   \item{`selector`, `search`}{the method that chose the bandwidth (`"user"` if it was given), and the result of
#'     [kde_bandwidth()].}
#'   \item{`adaptive`}{`NULL`, or a list with elements `method`, `factors` (one for each point), `scale`, and `gain`
#'     (in nats of leave-one-out log-likelihood per row).}
#'   \item{`discrete`}{`NULL`, or for data with categories a list with elements `columns`, `lambda` (smoothing parameters) and
#'     `codes` (the categories by number).}
#'   \item{`support`, `inner`}{`NULL`, or the domain and the fit in the coordinates in which kernels are summed.}
#'   \item{`debiased`}{for `"sdkde"` the `n` x `d` debiased points.}
#'   \item{`terms`, `na.action`, `call`}{as in other R models.}
#'   Use the methods to get at the rest: [`coef()`][summary.flash_kde] returns the standard deviations of the kernel,
#'   [diagnostics()] reports what was computed.
#'
#' @references Scott, D. W. (2015) *Multivariate Density Estimation*, 2nd ed. Wiley.
#'
#'   See [kde_estimators] for the papers on debiasing.
#' @seealso `vignette("flashkernel")` is an introduction.
#' @order 1
#' @rawRd \concept{kernel density estimate}\concept{KDE}\concept{density estimation}\concept{histogram}
#' @export
#' @examples
#' fit <- flash_kde(~ eruptions + waiting, data = faithful)
#' fit
#' plot(fit)
#' predict(fit, data.frame(eruptions = c(2, 4.5), waiting = c(50, 80)))
#'
#' # one variable, with a confidence band
#' plot(flash_kde(faithful$waiting), band = TRUE)
#'
#' # bounds found by the data
#' waits <- flash_kde(rexp(200), support = "auto")
#' quantile(waits, c(0.1, 0.9))
#'
#' # numbers and a factor
#' flash_kde(iris)
#'
#' # a bandwidth that is given
#' flash_kde(faithful$eruptions, "kde", bandwidth = 0.2)
flash_kde <- function(x, ...) {
  if (!all(...names() %in% FIT_ARGUMENTS)) check_abbreviations(...names())
  # data |> flash_kde(formula = ~ a), as lm() takes it, or data |> flash_kde(~ a), also after named arguments
  call <- match.call()
  unnamed <- match("", names(call)[-(1:2)])
  if (!missing(x) && !is.na(unnamed) && inherits(...elt(unnamed), "formula")) names(call)[2 + unnamed] <- "formula"
  if ("formula" %in% names(call)) {
    call <- name_data(call)
    if (missing(x)) return(fit_named_formula(call, parent.frame(), ...))
    return(fit_named_formula(call, parent.frame(), data = x, ...))
  }
  UseMethod("flash_kde")
}

#' @rdname flash_kde
#' @order 2
#' @export
flash_kde.default <- function(x, estimator = "auto", bandwidth = "auto", adaptive = "auto", weights = NULL,
                              support = NULL, kernel = "gaussian", debias = NULL, categorical = NULL, tol = 0,
                              na.action = getOption("na.action"), control = NULL, ...) {
  if (...length() > 0) check_fit_dots(...)
  if (missing(x)) stop_argument("x", "must be given")
  options <- flat_options(list(
    estimator = estimator, bandwidth = bandwidth, adaptive = adaptive, weights = weights, support = support,
    kernel = kernel, debias = debias, categorical = categorical, na.action = na.action
  ))
  run <- start_run(settle_control(control, if (!missing(tol)) list(tol = check_tol(tol))))
  if (is.character(x)) stop_argument("x", "must be numeric: found ", describe(x), " (use factor(x) for its categories)")
  if (is.table(x)) stop_argument("x", "must not be a table (use as.data.frame(x), with its counts `Freq` as `weights`)")
  if (is.factor(x)) x <- stats::setNames(list(x), name_of(substitute(x)))
  dates <- if (is.object(x) || is.list(x)) date_kinds(x)
  if (length(dates) > 0) x <- dates_as_numbers(x, dates, "x")
  # fit_kde() looks for infinite values, too
  points <- if (is.list(x)) any_points(x, "x") else check_points(x, "x", infinite = TRUE)
  fit <- fit_kde(points, "x", generic_call(match.call()), options, run)
  fit$dates <- dates
  if (identical(fit$selector, "user")) fit else suggest_support(fit)
}

#' @rdname flash_kde
#' @order 3
#' @export
flash_kde.formula <- function(formula, data = NULL, ..., subset, weights,
                              na.action = getOption("na.action")) {
  fit_formula(match.call(), parent.frame(), formula, data, check_fit_options(...), na.action)
}

# `call`: the matched call, `frame`: where the user wrote it.
fit_formula <- function(call, frame, formula, data, options, na.action) {
  check_formula(formula, data)
  if (length(formula) == 3) return(fit_conditional(call, frame, data, options, na.action))
  run <- start_run(options$asked)
  made <- formula_data(call, data, frame)
  options[c("weights", "na.action")] <- list(made$weights, na.action)
  fit <- fit_kde(made$points, "formula", generic_call(name_options(call)), options, run, made)
  fit$dates <- made$dates
  if (identical(fit$selector, "user")) fit else suggest_support(fit)
}

# The first argument of a call whose formula is named is the data.
name_data <- function(call) {
  first <- names(call) == "x"
  if (any(first) && "data" %in% names(call)) {
    stop_argument("data", "must be given once: found also a first argument without a name")
  }
  names(call)[first] <- "data"
  call
}

fit_named_formula <- function(call, frame, formula, data = NULL, ..., subset, weights,
                              na.action = getOption("na.action")) {
  if (is_big(data)) stop_argument("formula", "is not available for a big.matrix: give the big.matrix as `x`")
  fit_formula(call, frame, formula, data, check_fit_options(...), na.action)
}

# The dots of the formula method: arguments of the default method, by name or in its order; its formals are those of the
# default method (see below). list() of options as flat_options() has them, with `asked`, the control.
check_fit_options <- function(...) {
  check_fit_dots(...)
  asked <- settle_control(control, if (!missing(tol)) list(tol = check_tol(tol)))
  options <- flat_options(list(
    estimator = estimator, bandwidth = bandwidth, adaptive = adaptive, support = support, kernel = kernel,
    debias = debias, categorical = categorical
  ))
  c(options, list(asked = asked))
}

formals(check_fit_options) <- formals(flash_kde.default)[setdiff(names(formals(flash_kde.default)), c("x", "weights", "na.action"))]

check_fit_dots <- function(...) {
  known <- c(names(formals(sys.function(sys.parent()))), "weights", "subset", "na.action") # the last three of formulas
  check_dots_empty(..., .known = known, .others = FIT_OTHERS)
}

# R matches the beginnings of names when it calls a method; its error where there are several does not say which.
check_abbreviations <- function(names) {
  known <- setdiff(FIT_ARGUMENTS, "")
  for (name in setdiff(names, c(known, "", NA))) {
    several <- known[startsWith(known, name)]
    if (length(several) < 2 && !(length(several) == 1 && name %in% names(FIT_OTHERS))) next
    meant <- if (name %in% names(FIT_OTHERS)) FIT_OTHERS[[name]] else several
    stop_argument(
      name, "is not an argument of this function (did you mean ", paste0("`", meant, "`", collapse = " or "), "?)"
    )
  }
}

# Names of the arguments of all methods; "" is an argument without a name.
FIT_ARGUMENTS <- c(names(formals(flash_kde.default)), "formula", "data", "subset", "")

# Names that other packages use for arguments of flash_kde().
FIT_OTHERS <- c(
  h = "bandwidth", H = "bandwidth", bw = "bandwidth", 
  structure = "bandwidth = kde_bandwidth(structure = )", rows = "bandwidth = kde_bandwidth(rows = )",
  seconds = "bandwidth = kde_bandwidth(seconds = )", steps = "debias = debiasing(steps = )",
  score = "debias = debiasing(score = )", score_bandwidth = "debias = debiasing(bandwidth = )",
  nonnegative = "debias = debiasing(nonnegative = )", lambda = "categorical = categorical_kernel(smoothing = )",
  discrete_kernel = "categorical = categorical_kernel(kernel = )", method = "support = kde_support(method = )",
  backend = "control = flash_control(backend = )", precision = "control = flash_control(precision = )",
  threads = "control = flash_control(threads = )", devices = "control = flash_control(devices = )",
  engine = "control = flash_control(engine = )", tol_type = "control = flash_control(tol_type = )",
  from = "support", to = "support", lower = "support",
  upper = "support", xmin = "support", xmax = "support", bounds = "support", positive = "support",
  circular = "support = kde_circle()", period = "support = kde_circle()", adjust = "bandwidth"
)

# Names the options that the call gives by position. Stored as written, an unnamed "kde" would be taken
# for the points when the call is evaluated again.
name_options <- function(call) {
  own <- names(call) %in% c("formula", "data", "subset", "weights", "na.action")
  own[1] <- TRUE
  options <- match.call(check_fit_options, call[c(TRUE, !own[-1])])
  as.call(c(as.list(call[own]), as.list(options)[-1]))
}

# The call under the generic's name, so that update() finds the function.
generic_call <- function(call) {
  call[[1]] <- quote(flash_kde)
  call
}
