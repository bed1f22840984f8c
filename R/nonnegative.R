# Signed estimates made densities: p+ = max(p, 0) / (1 + negative mass), where the negative mass is what the part below 0
# has (negative-mass.R). The fit keeps that, and its sums stay those of the signed estimate.

# `options` of fit_kde(), with this checked.
check_nonnegative <- function(options) {
  options$nonnegative <- check_flag(options$nonnegative, "nonnegative")
  if (!options$nonnegative) return(options)
  if (length(options$estimator) > 1) options$estimator <- estimators_that("signed")[1]
  if (!ESTIMATORS[[check_estimator(options$estimator)]]$signed) {
    stop_argument(
      "nonnegative", "is for estimator = ", paste0('"', estimators_that("signed"), '"', collapse = " or "), ": \"",
      check_estimator(options$estimator), "\" has no negative values"
    )
  }
  options
}

# `object`, a fit, as a density.
clipped <- function(object) {
  object$nonnegative <- negative_mass(object)
  object
}

is_clipped <- function(object) !is.null(object$nonnegative)

# log of what the positive part is divided by.
log_clip <- function(object) if (is_clipped(object)) log1p(object$nonnegative$value) else 0

# An estimate, list(log_abs, negative), as that of a fit which is clipped; `log_raw` are the logarithms that it had.
clip_estimate <- function(object, estimate) {
  if (!is_clipped(object)) return(estimate)
  estimate$log_raw <- estimate$log_abs
  estimate$log_abs <- replace(estimate$log_abs, which(estimate$negative), -Inf) - log_clip(object)
  estimate$negative <- NULL
  estimate
}

print_clipped <- function(object, digits) {
  if (!is_clipped(object)) return(invisible())
  mass <- object$nonnegative
  cat("Clipped at 0 and divided by 1 + ", format(mass$value, digits = digits), ", the negative mass (by ", mass$method,
    if (!is.na(mass$se)) paste0(", standard error ", format(mass$se, digits = 2)), ")\n", sep = "")
}
