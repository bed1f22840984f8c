# Partial dependence: the mean prediction over the rows when one variable has a given value in all of them.

# Approximate number of kernels for one figure, and the least and largest number of rows that it averages over.
PARTIAL_PAIRS <- 2e8
PARTIAL_ROWS <- c(50, 1000)

# A list with a data frame for each variable: `value` (numbers, or a factor of categories or of two numbers), `group`
# (with several responses or classes), `estimate`, and `low` and `high`, NA without standard errors. The attribute
# `data` has the variable's own values, for a rug. `variables`: from check_variables().
partial_dependences <- function(fit, variables, n_grid, se, level, run) {
  job <- list(fit = fit, scale = effect_scale(fit, "response"), run = run)
  at <- partial_rows(fit, n_grid * length(variables))
  parts <- lapply(variables, \(name) {
    own <- if (is.null(at$frame)) at$points[, match(name, column_names(fit))] else at$frame[[name]]
    values <- partial_values(fit, own, at$frame, name, n_grid)
    made <- lapply(seq_along(values), \(i) mean_at(job, points_with(fit, at, name, values[i]), at))
    partial_frame(job, axis_values(fit, at$frame, name, values), made, se, level, own)
  })
  stats::setNames(parts, variables)
}

# The values of a variable, a factor if they are few or categories.
axis_values <- function(fit, frame, name, values) {
  if (length(values) > 2 && (is.null(frame) || !is_categorical(fit, frame, name))) return(values)
  labels <- if (is.numeric(values)) distinct_labels(values) else as.character(values)
  factor(labels, levels = labels)
}

# Labels of distinct numbers, with the fewest digits, at least 3, that keep them distinct.
distinct_labels <- function(values) {
  for (digits in 3:17) {
    labels <- vapply(values, format, "", digits = digits)
    if (!anyDuplicated(labels)) break
  }
  labels
}

# Rows at equal distances among those of the fit.
partial_rows <- function(fit, n_values) {
  fit <- fit_to_show(fit)
  data <- kept_data(fit)
  most <- PARTIAL_PAIRS / (as.double(nrow(fit$coefficients)) * n_values)
  size <- min(fit$n, max(PARTIAL_ROWS[1], min(most, PARTIAL_ROWS[2])))
  rows <- if (is.null(data$weights)) seq_len(fit$n) else which(data$weights > 0)
  rows <- rows[spread_rows(length(rows), size)]
  weights <- if (is.null(data$weights)) rep(1, length(rows)) else data$weights[rows]
  list(
    points = rows_take(data$rows, rows), frame = if (!is.null(fit$terms)) split_matrices(fit, data$frame[rows, , drop = FALSE]),
    offset = if (!is.null(data$offset)) data$offset[rows, , drop = FALSE], weights = weights / sum(weights)
  )
}

# A grid over the range of a variable, or its categories; for a number with two values these values.
partial_values <- function(fit, own, frame, name, n_grid) {
  if (!is.null(frame) && is_categorical(fit, frame, name)) return(known_values_of(fit, own, name))
  if (length(unique(own)) <= 2) return(sort(unique(own)))
  seq(min(own), max(own), length.out = n_grid)
}

# `value`: one for all rows, or one for each.
points_with <- function(fit, at, name, value) {
  if (!is.null(at$frame) && !is_plain(fit, at$frame, name)) {
    return(points_of_frame(fit, replace(at$frame, name, list(rep(value, length.out = nrow(at$frame))))))
  }
  points <- at$points
  points[, match(if (is.null(at$frame)) name else term_label(name), column_names(fit))] <- value
  points
}

partial_frame <- function(job, values, made, se, level, own) {
  estimate <- bound_parts(made, "estimate", rbind)
  found <- errors_of_parts(job, made, se)
  width <- matrix(t_width(found$error, found$df, level), nrow(estimate), ncol(estimate))
  ends <- if (job$scale == "link") list(estimate - width, estimate + width) else if (job$scale == "mean") {
    list(estimate * exp(-width / estimate), estimate * exp(width / estimate))
  } else {
    # on the scale of log odds, so that intervals stay between 0 and 1
    odds <- width / pmax(estimate * (1 - estimate), .Machine$double.eps)
    list(stats::plogis(stats::qlogis(estimate) - odds), stats::plogis(stats::qlogis(estimate) + odds))
  }
  groups <- effect_groups(job)
  part <- data.frame(value = rep(values, ncol(estimate)), estimate = as.vector(estimate))
  if (!is.null(groups)) part$group <- factor(rep(groups, each = nrow(estimate)), levels = groups)
  part$low <- as.vector(ends[[1]])
  part$high <- as.vector(ends[[2]])
  structure(part, data = own)
}
