# Formulas with k(): y ~ z + k(x1, x2) + k(x3) fits f(x) = b + z beta + f_1(x1, x2) + f_2(x3). The functions f_j have
# independent Gaussian process priors, so f has one kernel, the sum of theirs (sum-terms.R), and one coefficient for
# each centre. The linear terms are one term with a linear kernel, whose prior variance is so large that beta is not
# penalised.

has_terms <- function(of) !is.null(of$kernel$terms[[1]]$label)

# list(formula, given, terms): the formula with the arguments of k() as plain terms and without variables of terms that
# were subtracted, the formula of the user with `.` expanded, and for each k() the labels of its plain terms, named by
# its label. The element "linear" has those of the linear terms. NULL if the formula has none of these.
formula_with_terms <- function(formula, data) {
  if (!inherits(formula, "formula")) return(NULL)
  right <- formula[[length(formula)]]
  if (!calls_k(right) && !"-" %in% all.names(right)) return(NULL)
  data <- if (is.data.frame(data)) data
  terms <- in_function_of_user("formula", stats::terms(formula, data = data, simplify = TRUE), "could not be evaluated")
  if (!calls_k(right)) return(list(formula = stats::formula(terms)))
  labels <- attr(terms, "term.labels")
  calls <- lapply(labels, str2lang)
  is_kernel <- vapply(calls, \(call) is.call(call) && identical(call[[1]], quote(k)), NA)
  inner <- lapply(calls[is_kernel], \(call) {
    sum <- Reduce(\(a, b) base::call("+", a, b), as.list(call)[-1])
    if (is.null(names(call))) tryCatch(attr(stats::terms(eval(base::call("~", sum))), "term.labels"), error = \(e) NULL)
  })
  within <- c(calls[!is_kernel], lapply(unlist(inner), str2lang))
  if (any(vapply(within, calls_k, NA)) || any(lengths(inner) == 0)) {
    stop_argument("formula", "must have k(), with variables, as a term of its own, as in y ~ z + k(a, b) + k(c)")
  }
  offsets <- vapply(as.list(attr(terms, "variables"))[1 + attr(terms, "offset")], deparse1, "")
  plain <- stats::reformulate(c(labels[!is_kernel], unlist(inner), offsets), formula[[2]], env = environment(formula))
  list(
    formula = plain, given = stats::formula(terms),
    terms = c(list(linear = labels[!is_kernel]), stats::setNames(inner, labels[is_kernel]))
  )
}

# list(frame, terms): what response_frame() makes of the `call` of a method for formulas, and the terms in k(), or NULL.
terms_frame <- function(formula, data, call, envir, na.action) {
  written <- formula_with_terms(formula, data)
  if (!is.null(written)) call <- replace(call, "formula", list(written$formula))
  frame <- response_frame(call, data, envir, na.action)
  if (!is.null(written)) frame$formula <- written$given
  list(frame = frame, terms = written$terms)
}

# Is k() called? A variable may have this name, too.
calls_k <- function(of) sum(all.names(of) == "k") > sum(all.names(of, functions = FALSE) == "k")

# The kernel of a formula with k(). `base`: the argument `kernel`, for all terms in k(); `terms`: of
# formula_with_terms(); `frame`: of response_frame().
kernel_of_terms <- function(base, terms, frame) {
  base <- check_kernel(if (is.null(base)) "gaussian" else base)
  x <- frame$points
  labels <- attr(frame$terms, "term.labels")[frame$assign]
  made <- Map(\(label, inner) {
    # a:b and b:a are the same term
    columns <- which(ordered_label(labels) %in% ordered_label(inner))
    list(label = label, columns = columns, kernel = base, scale = 1)
  }, names(terms), terms)
  linear <- made$linear$columns
  made$linear$kernel <- kernel_spec("linear", coef0 = 1)
  made$linear$center <- unname(colMeans(x[, linear, drop = FALSE]))
  made$linear$spread <- fill_spread(vapply(linear, \(k) spread_of(x[, k]), 0))
  made$linear$labels <- labels[linear]
  made <- unname(made[lengths(lapply(made, `[[`, "columns")) > 0])
  sum_kernel(base, made)
}

ordered_label <- function(labels) {
  vapply(strsplit(labels, ":", fixed = TRUE), \(parts) paste(sort(parts), collapse = ":"), "")
}

is_linear_term <- function(term) !is.null(term$spread)

# The settings of a fit with k(), whose metric is not learnt. What such a fit does not have is refused.
check_additive <- function(spec) {
  refuse <- function(arg, ...) stop_argument(arg, ..., " for a formula with k()")
  if (!spec$family$squared) refuse("family", "must be \"gaussian\"")
  if (!spec$metric %in% c("auto", "none")) refuse("metric", "must be \"none\"")
  if (is.matrix(spec$bandwidth)) refuse("bandwidth", "must be one number or one for each column")
  if (!is.null(spec$asked$cluster)) refuse("control", "must not have a cluster")
  replace(spec, "metric", "none")
}

# The prior variance of linear terms relative to that of the noise, or of the kernels if it is larger. The estimates are
# shrunk by about this number times the number of rows, and rounding errors grow in proportion to it.
VAGUE <- 1e5

with_vague_terms <- function(kernel, noise) {
  kernel$terms <- lapply(kernel$terms, \(term) {
    if (is_linear_term(term)) replace(term, "scale", list(VAGUE * max(1, noise))) else term
  })
  kernel
}

# ---- derivatives ------------------------------------------------------------------------------

# A list of the slopes of the terms.
#' @export
slope_of.kernel_of_terms <- function(fit) {
  parts <- lapply(fit$kernel$terms, \(term) {
    part <- list(
      centers = term_points(term, fit$centers), coefficients = term$scale * fit$coefficients, d = length(term$columns),
      L = term_factor(term, fit$L), kernel = term$kernel
    )
    list(term = term, fit = part, slope = slope_of(part))
  })
  structure(list(parts = parts), class = "slope_of_terms")
}

#' @export
gradients_at.slope_of_terms <- function(slope, fit, points, run) {
  made <- array(0, c(nrow(points), fit$d, ncol(fit$coefficients)))
  for (part in slope$parts) {
    columns <- part$term$columns
    own <- gradients_at(part$slope, part$fit, term_points(part$term, points), run)
    made[, columns, ] <- made[, columns, , drop = FALSE] + own * as.vector(term_slopes(part$term, points))
  }
  made
}

# The derivatives of the points of a term in its columns.
term_slopes <- function(term, points) {
  if (is.null(term$scores)) 1 else normal_score_slopes(term$scores, points[, term$columns, drop = FALSE])
}

#' @export
slope_functional.slope_of_terms <- function(slope, points, s, D, run) {
  made <- 0
  for (part in slope$parts) {
    columns <- part$term$columns
    at <- term_points(part$term, points)
    along <- \(D) part$term$scale * slope_functional(part$slope, at, s, D, run)
    slopes <- term_slopes(part$term, points)
    if (!is.null(D)) {
      made <- made + along(D[, columns, drop = FALSE] * slopes)
      next
    }
    found <- if (is.null(part$term$scores)) along(NULL) else {
      one_column <- \(k) along(replace(0 * slopes, cbind(seq_len(nrow(slopes)), k), slopes[, k]))
      do.call(cbind, lapply(seq_along(columns), one_column))
    }
    all <- matrix(0, nrow(found), ncol(points))
    all[, columns] <- found
    made <- made + all
  }
  made
}
