# Densities from signed estimates: p+ = max(p, 0) / (1 + m), where m is the integral of the negative part
# (density-negative-mass.R). The fit stores m; its sums are those of the signed estimate.

# Checks `nonnegative` among the options of fit_kde(). It selects "laplace" if no estimator is named.
check_nonnegative <- function(options) {
  if (!options$nonnegative) return(options)
  if (is_auto(options$estimator)) options$estimator <- estimators_that("signed")[1]
  if (!ESTIMATORS[[check_estimator(options$estimator)]]$signed) {
    stop_argument(
      "debias$nonnegative", "is available only for estimator = ",
      paste0('"', estimators_that("signed"), '"', collapse = " or "), ": \"",
      check_estimator(options$estimator), "\" has no negative values"
    )
  }
  options
}

# The fit as a non-negative density.
clipped <- function(object) {
  object$nonnegative <- negative_mass(object)
  object$kind <- as_kind("clipped", oldClass(object$kind))
  object
}

is_clipped <- function(object) is_kind(object, "clipped")

# The signed estimate that was clipped.
signed_part <- function(object) {
  object["nonnegative"] <- list(NULL)
  object["kind"] <- list(as_kind(setdiff(class(object$kind), "clipped")))
  object
}

# The logarithm of what the positive part is divided by.
log_clip <- function(object) if (is_clipped(object)) log1p(object$nonnegative$value) else 0

# `log_raw` are the logarithms of the signed estimate. With another polynomial than the fit's own it is not clipped.
#' @export
log_estimate.clipped <- function(object, at, loo, control, factor = fit_polynomial(object)) {
  estimate <- log_estimate(signed_part(object), at, loo, control, factor)
  if (identical(factor, PLAIN_FACTOR)) return(estimate)
  estimate$log_raw <- estimate$log_abs
  estimate$log_abs <- replace(estimate$log_abs, which(estimate$negative), -Inf) - log_clip(object)
  estimate$negative <- NULL
  estimate
}

#' @export
score_estimate.clipped <- function(object, at, loo, control) {
  score <- score_estimate(signed_part(object), at, loo, control)
  score[log_estimate(object, at, loo, control)$log_abs == -Inf, ] <- NaN
  score
}

#' @export
error_estimate.clipped <- function(object, at, loo, control, estimate) {
  raw <- replace(estimate, "log_abs", list(estimate$log_raw))
  error_estimate(signed_part(object), at, loo, control, raw) - log_clip(object)
}

print_clipped <- function(object, digits) {
  if (!is_clipped(object)) return(invisible())
  mass <- object$nonnegative
  cat(
    "Clipped at 0 and divided by 1 + ", format(mass$value, digits = digits),
    ", where the second term is the integral of the negative part (by ", mass$method,
    if (!is.na(mass$se)) paste0(", standard error ", format(mass$se, digits = 2)), ")\n", sep = ""
  )
}

# ---- in one dimension ---------------------------------------------------------------------------

# list(from, to): where the estimate is negative, relative to fit_centre().
negative_intervals <- function(object, control) {
  grid <- whitened_grid(object)
  if (is.null(grid)) {
    stop(new_error("unsupported", paste0(
      "the zeros of the estimate cannot be found between points 30,000 bandwidths apart: use simulate(), ",
      "or fit without `nonnegative`"
    ), user_call()))
  }
  signed <- signed_part(object)
  is_negative <- function(q) {
    as.logical(log_estimate(signed, from_origin(object, matrix(q)), FALSE, control)$negative)
  }
  nodes <- from_centre(object, drop(unwhiten(matrix(grid$axes[[1]]), grid$L)))
  negative <- is_negative(nodes)
  changes <- which(diff(negative) != 0)
  zeros <- halve(nodes[changes], nodes[changes + 1], is_negative, negative[changes])
  list(
    from = c(if (negative[1]) -Inf, zeros[!negative[changes]]),
    to = c(zeros[negative[changes]], if (negative[length(negative)]) Inf)
  )
}

# Bisection: where is(x) changes from `below` between each of `low` and `high`.
halve <- function(low, high, is, below) {
  for (i in seq_len(45)) {
    middle <- low / 2 + high / 2
    left <- is(middle) == below
    low[left] <- middle[left]
    high[!left] <- middle[!left]
  }
  low / 2 + high / 2
}

# The function(q) of the signed estimate's `tail`, the lower one for `sign` 1, the upper one for -1, as that of what is
# clipped: it stays what it is where an interval begins until that ends, and what the interval had taken off is added.
clipped_tail <- function(tail, intervals, sign) {
  at <- function(z) {
    value <- as.double(z > 0)
    value[is.finite(z)] <- tail(sign * z[is.finite(z)])
    value
  }
  begins <- sort(sign * (if (sign > 0) intervals$from else intervals$to))
  ends <- sort(sign * (if (sign > 0) intervals$to else intervals$from))
  taken <- c(0, cumsum(at(begins) - at(ends)))
  function(q) {
    z <- sign * q
    begun <- findInterval(z, begins)
    inside <- begun > 0 & z < c(-Inf, ends)[begun + 1]
    from <- replace(z, inside, begins[begun[inside]])
    (at(from) + taken[begun + !inside]) / (1 + taken[length(taken)])
  }
}
