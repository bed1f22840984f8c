#' Kernel discriminant analysis
#'
#' `flash_kda()` classifies by Bayes' rule: it fits a density to the rows of each class, and a new point gets the class
#' of the largest posterior probability. The method is that of `ks::kda()`, and of `MASS::lda()` and `MASS::qda()`
#' without the assumption of normal distributions.
#'
#' @details
#' The probability of class c at y is \eqn{\pi_c p_c(y) / \sum_k \pi_k p_k(y)}{pi_c p_c(y) / sum_k pi_k p_k(y)}, where
#' \eqn{\pi}{pi} are the prior probabilities and \eqn{p_c}{p_c} is the density estimate from the rows of class c. Log
#' densities are exact at any distance from the data, and so are the probabilities.
#'
#' Each class has a bandwidth of its own, and may use any estimator of [flash_kde()]. If the Laplace-corrected estimate
#' of a class is not positive at a point, its density there is 0. If the density is 0 in all classes, for this reason or
#' because a kernel with bounded support does not reach the point, the classical estimates with Gaussian kernels
#' replace them.
#'
#' With `shared = TRUE` all classes have one bandwidth: the bandwidth for all rows after subtracting the mean of their
#' class, with standard deviations multiplied by \eqn{(n / \bar n)^r}{(n / g)^r}. Here \eqn{\bar n}{g} is the geometric
#' mean of the numbers of rows of the classes, and the estimator's bandwidth shrinks with the power -r of n.
#'
#' The cost is that of the densities: a prediction at m points takes \eqn{O(nmd)}{O(n m d)} time, or with a tolerance
#' and in few dimensions \eqn{O(n + m)}{O(n + m)}.
#'
#' @param x The variables: a numeric matrix, a data frame of numbers and dates, or a vector.
#' @param class The class of each row: a factor, or a vector that [factor()] converts.
#' @param formula A formula with the class on the left, such as `Species ~ Petal.Length + Petal.Width`.
#' @param data A data frame in which `formula`, `weights` and `subset` are evaluated.
#' @param subset Which rows of `data` to use.
#' @param prior Prior probabilities of the classes, in the order of the levels or by name. `NULL` (default): the
#'   (weighted) shares of the classes among the rows.
#' @param shared Whether all classes have the same bandwidth. Default `FALSE`.
#' @param weights Non-negative weights of the rows. `NULL` (default): equal weights.
#' @param na.action What to do about rows with missing values in the variables, the class or the weights, as for
#'   [flash_kde()].
#' @param ... Arguments of [flash_kde()] such as `estimator`, `bandwidth`, `adaptive`, `tol` and `control`, the same for
#'   all classes. `debiasing(score = )` is not allowed. Numbers for `adaptive` are one for each row.
#' @returns An object of class `flash_kda`, a list that can be saved by [saveRDS()]. Its main elements are
#'   \item{`classes`, `prior`}{names of the classes and their prior probabilities.}
#'   \item{`fits`, `rows`}{lists by class: a [flash_kde()], and the numbers of its rows.}
#'   \item{`shared`, `n`, `d`, `call`}{whether the bandwidth is shared, numbers of rows and columns, and the call.}
#'
#'   Methods: [`predict()`][predict.flash_kda], [cross_validate()], [`plot()`][plot.flash_kda],
#'   [`autoplot()`][plot.flash_kda], `print()`, [`summary()`][predict.flash_kda], `nobs()`, `formula()` and `update()`.
#' @references Hand, D. J. (1982) *Kernel Discriminant Analysis*. Research Studies Press.
#' @seealso [kernel_ridge()] classifies without densities, in many columns.
#' @rawRd \concept{classification}\concept{discriminant analysis}\concept{probabilities of classes}
#' @export
#' @examples
#' fit <- flash_kda(Species ~ Petal.Length + Petal.Width, data = iris)
#' fit
#' plot(fit)
#' predict(fit, data.frame(Petal.Length = c(1.5, 5), Petal.Width = c(0.3, 1.6)), type = "prob")
#' cross_validate(fit)
flash_kda <- function(x, ...) {
  # data |> flash_kda(formula = class ~ a), as lm() takes it
  if (any(...names() == "formula", na.rm = TRUE)) {
    return(eval(formula_call(match.call(), flash_kda.formula), parent.frame()))
  }
  UseMethod("flash_kda")
}

#' @rdname flash_kda
#' @export
flash_kda.default <- function(x, class, prior = NULL, shared = FALSE, ..., weights = NULL,
                              na.action = getOption("na.action")) {
  if (missing(x)) stop_argument("x", "must be given")
  if (missing(class)) stop_argument("class", "must be given")
  spec <- list(options = check_kda_options(...), prior = prior, shared = check_flag(shared, "shared"))
  run <- start_run(spec$options$asked, "Fitting")
  dates <- date_kinds(x)
  x <- dates_as_numbers(x, dates, "x")
  if (is_mixed(x) || has_levels(x)) stop_argument("x", "must be numeric. Use flash_kde(class ~ x) or kernel_ridge().")
  points <- check_points(x, "x", infinite = TRUE)
  fit <- fit_kda(points, class, weights, na.action, spec, run, kda_call(match.call()))
  fit$dates <- dates
  fit
}

#' @rdname flash_kda
#' @export
flash_kda.data.frame <- function(x, class, ...) {
  # data |> flash_kda(class ~ a)
  if (!missing(class) && inherits(class, "formula")) {
    return(eval(formula_call(match.call(), flash_kda.formula), parent.frame()))
  }
  fit <- flash_kda.default(x, class, ...)
  fit$call <- kda_call(match.call())
  fit
}

#' @rdname flash_kda
#' @export
flash_kda.formula <- function(formula, data = NULL, ..., subset, weights, na.action = getOption("na.action")) {
  call <- match.call()
  made <- regression_frame(call, data, parent.frame())
  fit <- flash_kda.default(made$points, made$y, ..., weights = made$weights, na.action = na.action)
  with_formula(fit, made, kda_call(call))
}

kda_call <- function(call) {
  call[[1]] <- quote(flash_kda)
  call
}

# ---- arguments --------------------------------------------------------------------------------

check_kda_options <- function(...) {
  options <- check_fit_options(...)
  if (!is.null(options$score)) {
    stop_argument("debias$score", "must be NULL in flash_kda(): the score of each class is that of its own density")
  }
  options
}

# Returns list(codes, classes): the class numbers of the rows, NA if missing, and the names of the classes.
class_codes_of <- function(class, n) {
  if (!is.factor(class) && (!is.atomic(class) || is.null(class) || !is.null(dim(class)))) {
    stop_argument("class", "must be a factor or a vector: found ", describe(class))
  }
  if (length(class) != n) {
    stop_argument("class", "must have one value per row of `x`, ", whole(n), ": found ", whole(length(class)))
  }
  class <- if (is.factor(class)) class else factor(class)
  list(codes = as.integer(class), classes = levels(class))
}

check_prior <- function(prior, classes, shares) {
  if (is.null(prior)) return(stats::setNames(shares, classes))
  good <- is_number(prior) && length(prior) == length(classes) && all(is.finite(prior)) && all(prior >= 0)
  if (!good || sum(prior) == 0) {
    stop_argument("prior", "must be ", length(classes), " numbers >= 0, one for each class: found ", describe(prior))
  }
  if (has_names(names(prior))) {
    lacking <- setdiff(classes, names(prior))
    if (length(lacking) > 0) stop_argument("prior", "must name each class: found no ", quote_names(lacking))
    prior <- prior[classes]
  }
  stats::setNames(as.double(prior) / sum(prior), classes)
}

# ---- fit --------------------------------------------------------------------------------------

fit_kda <- function(points, class, weights, na.action, spec, run, call) {
  d <- ncol(points)
  group <- class_codes_of(class, nrow(points))
  weights <- check_weights(weights, nrow(points), missing = TRUE)
  # rows with missing values are handled for points and class together
  both <- cbind(points, group$codes)
  dimnames(both) <- list(NULL, c(point_names(list(names = colnames(points), d = d)), "class"))
  data <- handle_missing(both, weights, na.action, "x")
  x <- data$points[, seq_len(d), drop = FALSE]
  dimnames(x) <- if (!is.null(colnames(points))) list(NULL, colnames(points))
  codes <- as.integer(data$points[, d + 1])
  weights <- if (!is.null(weights)) common_scale(check_weights(data$weights, nrow(x)))
  factors <- spec$options$adaptive
  if (is.numeric(factors) && length(factors) == nrow(points) && length(data$omitted) > 0) {
    spec$options$adaptive <- factors[-data$omitted]
  }
  check_classes(codes, weights, group$classes)
  check_class_rows(codes, weights, group$classes, spec, is_number(class))
  shares <- vapply(seq_along(group$classes), \(k) {
    if (is.null(weights)) mean(codes == k) else sum(weights[codes == k]) / sum(weights)
  }, 0)
  prior <- check_prior(spec$prior, group$classes, shares)
  found <- class_fits(x, codes, group$classes, weights, spec, run, call)
  structure(class = "flash_kda", list(
    call = call, classes = group$classes, prior = prior, fits = found$fits, rows = found$rows,
    shared = spec$shared, n = nrow(x), d = d, names = colnames(points), weights = weights, spec = spec,
    na.action = data$omitted
  ))
}

check_classes <- function(codes, weights, classes) {
  used <- if (is.null(weights)) rep(TRUE, length(codes)) else weights > 0
  rows <- tabulate(codes[used], length(classes))
  if (length(classes) < 2) stop_argument("class", "must have at least two classes: found ", length(classes))
  lacking <- classes[rows == 0]
  if (length(lacking) > 0) {
    stop_argument("class", "must have rows of every class: found none of ", quote_names(lacking), " (use droplevels())")
  }
}

# `of_numbers`: was the class numeric? Many different numbers are probably a response that was given by mistake.
check_class_rows <- function(codes, weights, classes, spec, of_numbers) {
  if (!is_chosen(spec$options$bandwidth) || spec$shared) return(invisible())
  rows <- tabulate(if (is.null(weights)) codes else codes[weights > 0], length(classes))
  if (all(rows > 1)) return(invisible())
  cure <- if (of_numbers && length(classes) > 10) {
    paste0("the response has ", length(classes), " numeric values: fit it by kernel_regression() or kernel_ridge()")
  } else {
    "give `bandwidth` as a number"
  }
  stop_argument(
    "class", "must have at least two rows of each class for an automatic bandwidth: found one of class ",
    classes[rows < 2][1], " (", cure, ")"
  )
}

# Returns list(fits, rows), each a list by class.
class_fits <- function(x, codes, classes, weights, spec, run, call) {
  options <- spec$options
  if (spec$shared) options <- with_shared_bandwidth(x, codes, weights, options, run)
  rows <- stats::setNames(lapply(seq_along(classes), \(k) which(codes == k)), classes)
  fits <- lapply(classes, \(name) {
    own <- rows[[name]]
    options[c("weights", "na.action")] <- list(weights[own], stats::na.fail)
    if (is.numeric(options$adaptive)) options$adaptive <- options$adaptive[own]
    fit <- in_place(paste("class", name), fit_kde(x[own, , drop = FALSE], "x", call, options, run))
    check_can(fit, "draws")
    fit
  })
  list(fits = stats::setNames(fits, classes), rows = rows)
}

# Returns the options with the shared bandwidth, which is chosen for all rows minus the means of their classes.
with_shared_bandwidth <- function(x, codes, weights, options, run) {
  if (is_number(options$bandwidth)) return(options)
  w <- if (is.null(weights)) rep(1, nrow(x)) else weights
  means <- rowsum(w * x, codes) / as.vector(rowsum(w, codes))
  apart <- x - means[match(codes, as.integer(rownames(means))), , drop = FALSE]
  dimnames(apart) <- dimnames(x)
  pooled <- replace(options, c("weights", "na.action", "adaptive"), list(weights, stats::na.fail, FALSE))
  fit <- fit_kde(apart, "x", quote(flash_kda()), pooled, run)
  sizes <- vapply(split(w, codes), \(own) effective_size(own, length(own)), 0)
  widen <- (effective_size(weights, nrow(x)) / exp(mean(log(sizes))))^(2 * bandwidth_rate(fit$estimator, ncol(x)))
  options$bandwidth <- widen * fit$bandwidth
  if (!is.null(fit$score_bandwidth)) options$score_bandwidth <- widen * fit$score_bandwidth
  options
}
