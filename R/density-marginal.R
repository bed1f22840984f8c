# Some of the variables of an estimate, the others integrated out.
#
# The result is an estimate of the same kind, from the same (for SD-KDE: debiased) points, with the corresponding block
# of H:
# - kde, sdkde: a Gaussian marginalises to a Gaussian;
# - laplace: k (1 + d/2 - q/2) equals k - (H : second derivatives of k) / 2. Second derivatives in
#   an integrated coordinate integrate to 0, the others to those of the marginal k, so the marginal
#   of the corrected kernel is the corrected kernel of the lower dimension; laplace6 in the same way.
# A clipped estimate is not a sum of kernels. Its marginals are those of the signed estimate.

#' Marginal density of some variables
#'
#' `kde_marginal()` integrates an estimate over all other variables, exactly, and returns a fit for all methods of [flash_kde()].
#'
#' @details
#' The marginal of a Gaussian kernel is a Gaussian kernel with the corresponding block of the bandwidth matrix, and the marginal
#' of a Laplace-corrected kernel is a Laplace-corrected kernel. So the marginal has the same points, weights and local
#' factors. Categorical columns that `vars` does not name are summed over. The time is \eqn{O(nd)}.
#'
#' The points of an SD-KDE were debiased **in all variables**. Its marginal is the exact integral of the estimate, but not the
#' SD-KDE of the remaining variables. Therefore [`logLik()`][logLik.flash_kde] and `predict(loo = TRUE)` are not
#' available. With `debias = TRUE` the observed points of the remaining variables are debiased again, in \eqn{O(n^2
#' d)} time.
#'
#' With a `support` the remaining columns keep their support ([kde_support()]); polygons have no marginals. With another
#' kernel than the Gaussian, the bandwidth must not correlate the remaining columns with the others.
#'
#' @param object A fit from [flash_kde()] with its points in memory, not a balloon estimate.
#' @param vars The variables: names or numbers of columns, in the order in which the result shall have them. Columns
#'   with categories are given by name.
#' @param debias For `"sdkde"`: debias the points of these variables anew?
#' @param ... Not used; anything here is an error.
#' @returns An object of class `flash_kde` of `length(vars)` dimensions, with the same number of points. One whose
#'   points were debiased in more dimensions has their number as `debiased_in`.
#' @seealso [kde_conditional()].
#' @examples
#' fit <- flash_kde(iris[1:4])
#' petals <- kde_marginal(fit, c("Petal.Length", "Petal.Width"))
#' plot(petals)
#' quantile(kde_marginal(fit, 1))
#' @rawRd \concept{marginal density}
#' @export
kde_marginal <- function(object, vars, ...) UseMethod("kde_marginal")

#' @export
kde_marginal.default <- function(object, vars, ...) check_fit(object)

#' @rdname kde_marginal
#' @export
kde_marginal.flash_kde <- function(object, vars, debias = FALSE, ...) {
  check_dots_empty(...)
  check_in_memory(object)
  debias <- check_flag(debias, "debias")
  if (debias && !is_debiased(object)) {
    stop_argument("debias", "is available only for estimator = \"sdkde\": found \"", object$estimator, "\"")
  }
  if (debias && isTRUE(object$given_score)) {
    stop_argument("debias", "must be FALSE if the score was given, because it is the score of all variables")
  }
  if (debias && !is.null(object$support)) stop_argument("debias", "must be FALSE for an estimate with a `support`")
  if (missing(vars)) stop_argument("vars", "must be given")
  check_can(object, "marginal")
  run <- start_run(fit_asked(object), "Debiasing")
  part <- marginal_of(object, vars, run)
  if (debias) part <- debiased_anew(part, run)
  as_new_fit(part, match.call(), "kde_marginal", run)
}

# Column numbers of the variables `vars`, names or numbers; an error if they are not columns of the fit.
check_vars <- function(vars, object, arg) {
  names <- point_names(object)
  good <- is.character(vars) || is_number(vars) && all(vars %in% seq_len(object$d))
  if (!good || length(vars) == 0 || anyNA(vars)) {
    stop_argument(arg, "must be names or numbers of columns, from 1 to ", object$d, ": found ", describe(vars))
  }
  lacking <- if (is.character(vars)) setdiff(vars, names)
  if (length(lacking) > 0) {
    stop_argument(arg, "must name columns of the fit, ", quote_names(names), ": found ", quote_names(lacking))
  }
  dims <- if (is.character(vars)) match(vars, names) else as.integer(vars)
  if (anyDuplicated(dims)) {
    stop_argument(arg, "must have each variable once: found ", quote_names(names[dims[duplicated(dims)]]), " twice")
  }
  dims
}

# The fit keeps the call and the record of what was computed for all variables.
#' @export
marginal_of.default <- function(object, vars, run = NULL) {
  dims <- check_vars(vars, object, "vars")
  check_can(object, "draws")
  check_marginal_kernel(object, dims)
  columns <- \(x) if (!is.null(x)) x[, dims, drop = FALSE]
  block <- \(H) if (!is.null(H)) H[dims, dims, drop = FALSE]
  part <- unclass(object)
  points <- c("x", "debiased")
  bandwidths <- c("bandwidth", "score_bandwidth")
  part[points] <- lapply(part[points], columns)
  part[bandwidths] <- lapply(part[bandwidths], block)
  centred <- part$centred
  if (!is.null(centred)) part$centred <- list(centre = centred$centre[dims], points = columns(centred$points))
  terms <- terms_of_columns(object$terms, object$names[dims])
  part["terms"] <- list(terms)
  part["variables"] <- list(if (!is.null(terms)) intersect(object$variables, all.vars(terms)))
  part["names"] <- list(object$names[dims])
  part[c("search", "settings")] <- list(NULL) # of all columns
  part[c("nonnegative", "kind")] <- list(NULL)
  if (!is.null(part$adaptive)) part$adaptive <- part$adaptive[c("method", "factors")]
  if (is_debiased(object) && length(dims) < object$d) part$debiased_in <- max(object$d, object$debiased_in)
  part$d <- length(dims)
  part$factor <- list(H = part$bandwidth, L = lower_factor(part$bandwidth, "bandwidth"))
  part$plan <- new_plan()
  part["discrete"] <- list(NULL) # kernels of levels sum to 1
  structure(part, class = "flash_kde")
}

# The terms of a formula for these columns; NULL if a column is one of several of its term, as in poly(a, 2).
terms_of_columns <- function(terms, columns) {
  at <- match(columns, attr(terms, "term.labels"))
  if (is.null(terms) || length(at) == 0 || anyNA(at)) NULL else terms[at]
}

# The SD-KDE of the observed points, with the bandwidths of the fit.
debiased_anew <- function(object, run) {
  data <- list(points = object$x, weights = object$weights, discrete = object$discrete)
  found <- debias_points(data, bandwidths_of(object), object$adaptive$factors, run, "object", list(steps = n_steps(object)))
  object[c("debiased", "centred")] <- found[c("debiased", "centred")]
  object$debiased_in <- NULL
  object$computed$stages <- list(debias = found$stats)
  object
}

# A fit that was made of another one by a call of the generic `name`.
as_new_fit <- function(object, call, name, run) {
  call[[1]] <- as.name(name)
  object$call <- call
  again <- if (is_debiased(object) && is.null(object$debiased_in)) object$computed$stages["debias"]
  object$computed <- list(
    stages = as.list(again[lengths(again) > 0]), resolved = resolve_control(run, object$n, object$n, object$d)
  )
  object
}
