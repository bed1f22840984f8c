#' Average marginal effects
#'
#' How much the prediction changes with each variable, on average over the rows. For a number it is the mean derivative.
#' For a factor it is the mean difference of each category from the first.
#'
#' @details Derivatives in the columns are exact ([predict.kernel_ridge()] with `type = "gradient"` returns them row by
#' row), but slopes of normal scores are means within half a standard deviation. If a formula makes columns from a
#' variable, as `log(x)` or `x:z`, all of them change with it. Offsets have no effect. For logistic fits, effects are on
#' probabilities with `type = "response"`, and on log odds with `"link"`. Means over the rows of the fit use its weights.
#'
#' **Standard errors** are those of a linear function of the coefficients, whose covariance is that of the Gaussian
#' process with the centres of the fit (for probabilities by the delta method). The rows are treated as fixed. There are
#' no standard errors for probabilities of more than two classes. Where sigma is estimated, p-values are of the t
#' distribution. Penalised estimates are biased toward 0, which weakens the evidence of a small p-value.
#'
#' @param object A fit from [kernel_ridge()].
#' @param newdata Rows to average over, as for [predict.kernel_ridge()]; rows with missing values are omitted. `NULL`
#'   (default): the rows of the fit.
#' @param variables Names of some of the variables (of columns, for a fit without formula). `NULL` (default): all.
#' @param type `"response"` (default) or `"link"`.
#' @param se.fit Logical: compute standard errors? Default `TRUE`.
#' @param level Probability of the confidence intervals. Default 0.95.
#' @param control A [flash_control()]. Settings that are not given are those of the fit.
#' @param ... Not used; anything here is an error.
#' @returns A data frame of class `marginal_effects`: `term` (the variable), `contrast` (`"dY/dX"`, or the two
#'   categories), `group` (the response or the class, if there are several), `estimate`, `std.error`, `statistic`,
#'   `p.value`, `conf.low` and `conf.high`.
#' @seealso `plot(fit, "partial")` shows the shape of each effect.
#' @rawRd \concept{variable importance}\concept{average effect}\concept{partial effect}\concept{does a variable matter}
#' @export
#' @examples
#' fit <- kernel_ridge(mpg ~ wt + hp + factor(cyl), data = mtcars)
#' marginal_effects(fit)
#' marginal_effects(fit, variables = "cyl", newdata = subset(mtcars, hp > 100))
marginal_effects <- function(object, newdata = NULL, variables = NULL, type = c("response", "link"),
                             se.fit = TRUE, level = 0.95, control = NULL, ...) {
  check_dots_empty(...)
  if (!inherits(object, "kernel_ridge")) stop_argument("object", "must be a fit from kernel_ridge(): found ", describe(object))
  type <- check_choice(type, c("response", "link"), "type")
  se.fit <- check_flag(se.fit, "se.fit")
  level <- check_level(level)
  run <- start_run(settle_control(control, NULL, object$control), "Averaging effects")
  at <- effect_rows(object, newdata)
  job <- list(fit = object, slope = slope_of(object), scale = effect_scale(object, type), run = run)
  variables <- check_variables(object, variables)
  parts <- if (is.null(object$terms)) column_effects(job, at, variables) else frame_effects(job, at, variables)
  effect_table(job, parts, se.fit, level, at$rows$n)
}

check_variables <- function(fit, variables) {
  known <- if (is.null(fit$terms)) column_names(fit) else {
    # those of an offset alone are kept constant
    split_names(fit, intersect(fit$variables, all.vars(str2expression(attr(fit$terms, "term.labels")))))
  }
  if (is.null(variables)) return(known)
  if (!is.character(variables)) stop_argument("variables", "must be names of variables: found ", describe(variables))
  other <- setdiff(variables, known)
  if (length(other) > 0) {
    stop_argument("variables", "must be variables of the fit, ", quote_names(known), ": found ", quote_names(other))
  }
  variables
}

# Effects are of the link itself, of a mean that one column of the link determines, or of the probabilities of several
# classes.
effect_scale <- function(fit, type) {
  if (type == "link" || fit$family$link == "identity") return("link")
  if (ncol(fit$coefficients) > 1) "softmax" else if (has_probabilities(fit)) "logistic" else "mean"
}

# list(rows, frame, offset, weights): `frame` has the variables of the same rows, for a fit by terms.
effect_rows <- function(fit, newdata) {
  if (is.null(newdata)) {
    data <- kept_data(fit)
    at <- list(rows = data$rows, frame = data$frame, offset = collected(data$offset))
    at$weights <- as_plain(collected(data$weights))
  } else {
    new <- new_rows(fit, newdata, na.action = stats::na.omit)
    if (!is.null(new$index) && length(new$index) == 0) {
      stop_argument("newdata", "must have at least one row without missing values: found none")
    }
    frame <- if (!is.null(fit$terms)) as.data.frame(newdata)[new$index, , drop = FALSE]
    at <- list(rows = new$rows, frame = frame, offset = new$offset)
  }
  at["frame"] <- list(split_matrices(fit, at$frame))
  weights <- if (is.null(at$weights)) rep(1, at$rows$n) else at$weights
  at$weights <- weights / sum(weights)
  at
}

# ---- of one change ----------------------------------------------------------------------------

# list(estimate, functional) of the mean change along each column, or along the directions `D`, a row for each point.
# functional, m x q: what multiplies the coefficients; NULL where the mean is no smooth function of one column of these.
effect_along <- function(job, points, offset, weights, D = NULL) {
  if (job$scale == "link") return(list(functional = slope_functional(job$slope, points, weights, D, job$run)))
  gradient <- gradients_at(job$slope, job$fit, points, job$run)
  change <- lapply(seq_len(dim(gradient)[3]), \(o) {
    by_column <- matrix(gradient[, , o], nrow(points))
    if (is.null(D)) by_column else matrix(rowSums(by_column * D))
  })
  if (job$scale == "softmax") {
    p <- probabilities_at(job, points, offset)
    shared <- Reduce(`+`, lapply(seq_along(change), \(o) p[, o] * change[[o]]))
    means <- lapply(seq_along(change), \(o) colSums(weights * p[, o] * (change[[o]] - shared)))
    return(list(estimate = do.call(cbind, means)))
  }
  curve <- curve_at(job, points, offset)
  first <- weights * curve$first
  second <- weights * curve$second
  list(
    estimate = matrix(colSums(first * change[[1]])),
    functional = slope_functional(job$slope, points, first, D, job$run) +
      kernel_functional(job, points, second * change[[1]])
  )
}

# list(estimate, functional) of the mean prediction at points whose offsets and weights `at` has: a row with a number
# for each output, and, m x 1, what multiplies the coefficients in it, up to first order.
mean_at <- function(job, points, at) {
  fit <- job$fit
  if (job$scale == "link") {
    functional <- kernel_functional(job, points, at$weights)
    offset <- if (is.null(at$offset)) 0 else colSums(at$weights * at$offset)
    return(list(estimate = crossprod(functional, fit$coefficients) + fit$intercept + offset, functional = functional))
  }
  if (job$scale == "softmax") return(list(estimate = t(colSums(at$weights * probabilities_at(job, points, at$offset)))))
  curve <- curve_at(job, points, at$offset)
  list(
    estimate = matrix(sum(at$weights * curve$value)),
    functional = kernel_functional(job, points, at$weights * curve$first)
  )
}

probabilities_at <- function(job, points, offset) class_probabilities(job$fit, link_with(job, points, offset))

curve_at <- function(job, points, offset) mean_curve(job$fit$family)(link_with(job, points, offset))

link_with <- function(job, points, offset) {
  link <- link_at(job$fit, ridge_rows(points), job$run)
  if (is.null(offset)) link else link + offset
}

# sum_i b_i k(x_i, c_j), for each column of b.
kernel_functional <- function(job, points, b) {
  sources <- sum_sources(points, NULL, job$fit$L, job$fit$kernel)
  kernel_sum_of(sources, job$fit$centers, as.matrix(b), job$run, as_matrix = TRUE)$sums
}

# sum_i s_i times the derivative of k(x_i, c_j) in x_i along each column, or along D.
slope_functional <- function(slope, points, s, D, run) UseMethod("slope_functional")
#' @export
slope_functional.default <- function(slope, points, s, D, run) {
  if (slope$metric == "absolute") {
    b <- if (is.null(D)) as.matrix(s) else s * D %*% t(slope$lower)
    sums <- sign_sums_of(sum_sources(points, NULL, slope$L, slope$own), slope$centers, b, run)
    if (is.null(D)) return(-matrix(sums, nrow(sums)) %*% slope$lower)
    return(-matrix(rowSums(vapply(seq_len(ncol(D)), \(k) sums[, k, k], numeric(nrow(sums))))))
  }
  v <- if (is.null(D)) NULL else D %*% slope$inverse
  if (slope$metric == "products") {
    if (is.null(D)) {
      return(as.vector(slope_sums(slope, slope$centers, points, matrix(s), run)) * slope$centers %*% slope$inverse)
    }
    return(matrix(rowSums(slope$centers * slope_sums(slope, slope$centers, points, s * v, run))))
  }
  x <- shift_columns(points, slope$shift)
  if (is.null(D)) {
    sums <- slope_sums(slope, slope$centers, points, s * cbind(1, x), run)
    return((sums[, 1] * slope$shifted - sums[, -1, drop = FALSE]) %*% slope$inverse)
  }
  sums <- slope_sums(slope, slope$centers, points, s * cbind(rowSums(x * v), v), run)
  matrix(rowSums(slope$shifted * sums[, -1, drop = FALSE]) - sums[, 1])
}

# ---- of all variables -------------------------------------------------------------------------

# Each is a list of term, contrast, estimate and functional.
column_effects <- function(job, at, variables) {
  all <- rows_fold(at$rows, \(total, points, first) {
    rows <- seq(first, length.out = nrow(points))
    part <- effect_along(job, points, at$offset[rows, , drop = FALSE], at$weights[rows])
    if (is.null(total)) part else Map(`+`, total, part)
  }, NULL)
  lapply(match(variables, column_names(job$fit)), \(k) {
    list(
      term = column_names(job$fit)[k], contrast = "dY/dX", estimate = all$estimate[k, , drop = FALSE],
      functional = all$functional[, k, drop = FALSE]
    )
  })
}

frame_effects <- function(job, at, variables) {
  fit <- job$fit
  points <- rows_take(at$rows, seq_len(at$rows$n))
  plain <- variables[vapply(variables, \(name) is_plain(fit, at$frame, name), NA)]
  if (length(plain) > 0) {
    labels <- vapply(plain, term_label, "")
    columns <- column_effects(job, at, labels)
    columns <- lapply(seq_along(plain), \(i) replace(columns[[i]], "term", plain[i]))
    names(columns) <- plain
  }
  parts <- lapply(variables, \(name) {
    if (name %in% plain) return(columns[name])
    if (is_categorical(fit, at$frame, name)) return(level_effects(job, at, name))
    D <- design_slope(fit, at$frame, name)
    list(c(list(term = name, contrast = "dY/dX"), effect_along(job, points, at$offset, at$weights, D)))
  })
  do.call(c, parts)
}

term_label <- function(name) deparse1(as.name(name), backtick = TRUE)

# Is the variable a column of its own, and nothing else?
is_plain <- function(fit, frame, name) {
  label <- term_label(name)
  factors <- attr(fit$terms, "factors")
  used <- Filter(\(variable) name %in% all.vars(str2lang(variable)), rownames(factors))
  is.numeric(frame[[name]]) && identical(used, label) && sum(factors[label, ] > 0) == 1 && label %in% colnames(factors) &&
    label %in% fit$names
}

is_categorical <- function(fit, frame, name) {
  # dates are numbers
  if (is.factor(frame[[name]]) || typeof(frame[[name]]) %in% c("character", "logical")) return(TRUE)
  classes <- attr(fit$terms, "dataClasses")
  of_classes <- names(classes)[classes %in% c("factor", "ordered", "character", "logical")]
  of_classes <- intersect(of_classes, rownames(attr(fit$terms, "factors")))
  any(vapply(of_classes, \(variable) name %in% all.vars(str2lang(variable)), NA))
}

# The different values of a variable that is no number to a fit.
known_values_of <- function(fit, values, name) {
  if (!is.factor(values)) return(sort(unique(values)))
  known <- fit$xlevels[[term_label(name)]]
  factor(if (is.null(known)) levels(values) else known, levels = levels(values))
}

level_effects <- function(job, at, name) {
  levels <- known_values_of(job$fit, at$frame[[name]], name)
  mean_with <- \(level) {
    frame <- replace(at$frame, name, list(rep(level, nrow(at$frame))))
    mean_at(job, points_of_frame(job$fit, frame), at)
  }
  first <- mean_with(levels[1])
  lapply(levels[-1], \(level) {
    c(list(term = name, contrast = paste(level, "-", levels[1])), Map(`-`, mean_with(level), first))
  })
}

points_of_frame <- function(fit, frame) model_newdata(fit, join_matrices(fit, frame))$points

# How the columns change with a variable, row by row: differences, which are exact up to rounding where a column is
# linear in the variable.
design_slope <- function(fit, frame, name) {
  values <- frame[[name]]
  step <- 1e-4 * stats::sd(as.double(values))
  if (!is.finite(step) || step == 0) step <- 1e-4 * max(1, abs(as.double(values)))
  up <- values + step
  down <- values - step
  design <- \(values) points_of_frame(fit, replace(frame, name, list(values)))
  slope <- (design(up) - design(down)) / (as.double(up) - as.double(down))
  if (!all(is.finite(slope))) {
    stop_argument("newdata", "must have values where the formula is finite, for ", quote_names(name))
  }
  slope
}

# ---- the table --------------------------------------------------------------------------------

bound_parts <- function(parts, name, bind) do.call(bind, lapply(parts, `[[`, name))

# list(error, df): standard errors, a row for each part and a column for each output, and the degrees of freedom of their
# noise; NA where errors are not asked for, or not known.
errors_of_parts <- function(job, parts, wanted) {
  functional <- bound_parts(parts, "functional", cbind)
  known <- !is.null(functional) && job$fit$family$has_likelihood
  if (!wanted || !known) return(list(error = NA_real_, df = NA_real_))
  list(error = functional_errors(job$fit, functional, job$run), df = noise_df(job$fit, job$run))
}

effect_table <- function(job, parts, se.fit, level, n) {
  fit <- job$fit
  groups <- effect_groups(job)
  estimate <- bound_parts(parts, "estimate", rbind)
  if (job$scale == "link") estimate <- crossprod(bound_parts(parts, "functional", cbind), fit$coefficients)
  found <- errors_of_parts(job, parts, se.fit)
  t <- ncol(estimate)
  of <- rep(seq_along(parts), each = t)
  table <- data.frame(
    term = vapply(parts, `[[`, "", "term")[of], contrast = vapply(parts, `[[`, "", "contrast")[of],
    estimate = as.vector(t(estimate)), std.error = rep_len(as.vector(t(found$error)), length(of))
  )
  if (!is.null(groups)) table <- cbind(table[1:2], group = rep(groups, length(parts)), table[3:4])
  width <- t_width(table$std.error, found$df, level)
  # NA rather than 0 / 0 where neither an effect nor its error differs from 0
  table$statistic <- replace(table$estimate / table$std.error, table$estimate == 0 & table$std.error == 0, NA)
  table$p.value <- 2 * stats::pt(-abs(table$statistic), found$df)
  table$conf.low <- table$estimate - width
  table$conf.high <- table$estimate + width
  structure(table, class = c("marginal_effects", "data.frame"), n = n, scale = job$scale, level = level, df = found$df)
}

# Names of the columns of an estimate, NULL where there is one.
effect_groups <- function(job) {
  if (job$scale == "softmax") return(job$fit$classes)
  if (ncol(job$fit$coefficients) > 1) output_names(job$fit)
}

output_names <- function(fit) if (is.null(fit$outputs)) paste0("y", seq_len(ncol(fit$coefficients))) else fit$outputs

#' @export
#' @noRd
print.marginal_effects <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  if (!all(c("term", "contrast", "estimate", "std.error") %in% names(x))) return(NextMethod())
  digits <- check_digits(digits)
  of <- c(link = "", mean = " on the mean", logistic = " on the probability", softmax = " on the probabilities")[[attr(x, "scale")]]
  cat("Average marginal effects", of, ", ", whole(attr(x, "n")), " rows\n\n", sep = "")
  print_effects(x, digits)
  invisible(x)
}

print_effects <- function(x, digits) {
  shown <- cbind(x$estimate, x$std.error, x$statistic, x$p.value)
  names <- c("Estimate", "Std. Error", "t value", "Pr(>|t|)")
  colnames(shown) <- if (isTRUE(is.finite(attr(x, "df")))) names else gsub("\\bt\\b", "z", names)
  moved <- x$contrast != "dY/dX"
  groups <- if (!is.null(x$group)) paste0(" [", x$group, "]")
  rownames(shown) <- paste0(x$term, ifelse(moved, paste0(": ", x$contrast), ""), groups)
  if (all(is.na(x$std.error))) return(print(shown[, 1, drop = FALSE], digits = digits))
  stats::printCoefmat(shown, digits = digits, signif.legend = TRUE)
}
