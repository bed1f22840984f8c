# The options of a fit: what the user gives flash_kde(), as one flat list.

# `given`: the arguments of flash_kde() by name. Returns a list of estimator ("auto" where none is named), bandwidth (NULL
# where it is to be chosen), structure, rows and seconds of its search, score_bandwidth, steps, score, nonnegative,
# adaptive, lambda, discrete_kernel, support, kernel, and of weights and na.action where these were given.
flat_options <- function(given) {
  # an argument that cannot be evaluated is an error of the user's call
  given <- tryCatch(given, error = \(e) stop(replace(e, "call", list(user_call()))))
  debias <- given$debias
  debias <- if (is.null(debias)) NO_DEBIASING else check_spec(debias, "kde_debiasing", "debias", "debiasing()")
  categorical <- given$categorical
  if (!is.null(categorical)) check_spec(categorical, "categorical_kernel", "categorical", "categorical_kernel()")
  bandwidth <- given$bandwidth
  search <- NO_SEARCH
  if (inherits(bandwidth, "kde_bandwidth_spec")) {
    search <- bandwidth
    bandwidth <- search$method
  }
  options <- list(
    estimator = given$estimator, bandwidth = if (!identical(bandwidth, "auto")) bandwidth,
    score_bandwidth = debias$bandwidth, structure = search$structure, rows = search$rows, seconds = search$seconds,
    adaptive = given$adaptive, steps = debias$steps, score = debias$score, nonnegative = debias$nonnegative,
    lambda = categorical$smoothing, discrete_kernel = categorical$kernel, support = given$support, kernel = given$kernel
  )
  if (is.null(options$estimator)) options$estimator <- "auto"
  c(options, given[names(given) %in% c("weights", "na.action")])
}

NO_DEBIASING <- list(steps = 1L, score = NULL, bandwidth = NULL, nonnegative = FALSE)
NO_SEARCH <- list(structure = "auto", rows = NULL, seconds = 5)

check_spec <- function(value, class, arg, by) {
  if (inherits(value, class)) return(value)
  stop_argument(arg, "must be NULL or from ", by, ": found ", describe(value))
}
