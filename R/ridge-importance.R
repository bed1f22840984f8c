# What a fit depends on. Each variable has the mean square of the change of the fitted function with it: the derivative
# times the standard deviation of the variable, or, for categories, half of the squared difference after a switch to a
# category drawn from their distribution. For a linear function both are the square of the coefficient times the
# variance.

# Categories that a variable is switched to, at most: the most frequent ones.
SWITCHED_LEVELS <- 30

# list(importance, directions): a data frame of `term` and its share of the sum, in decreasing order, and one of the
# directions with a row for each column in each. At rows evenly spread, with the weights of the fit.
fit_importance <- function(fit, run) {
  at <- partial_rows(fit, 2 * fit$d + 1)
  at$units <- output_units(fit)
  slopes <- gradients_at(slope_of(fit), fit, at$points, run)
  # a row for each point and output
  at$slopes <- matrix(aperm(slopes, c(1, 3, 2)), ncol = fit$d)
  at$scales <- as.vector(outer(sqrt(at$weights), at$units, `/`))
  names <- check_variables(fit, NULL)
  squares <- vapply(names, \(name) changed_square(fit, at, name, run), 0)
  shares <- if (sum(squares) > 0) squares / sum(squares) else squares
  order <- order(-shares)
  list(
    importance = data.frame(term = names[order], importance = unname(shares)[order]),
    directions = fit_directions(fit, at)
  )
}

# What the changes of each output are divided by: the standard deviations of several responses. Log odds of classes have
# one unit.
output_units <- function(fit) {
  t <- ncol(fit$coefficients)
  if (t == 1 || !is.null(fit$classes)) return(rep(1, t))
  shown <- fit_to_show(fit)
  sds <- weighted_sds(shown$data$y, shown$data$weights)
  ifelse(sds > 0, sds, 1)
}

changed_square <- function(fit, at, name, run) {
  own <- if (is.null(at$frame)) at$points[, match(name, column_names(fit))] else at$frame[[name]]
  if ((!is.null(at$frame) && is_categorical(fit, at$frame, name)) || length(unique(own)) <= 2) {
    return(switched_square(fit, at, name, own, run))
  }
  change <- if (is.null(at$frame) || is_plain(fit, at$frame, name)) {
    at$slopes[, match(if (is.null(at$frame)) name else term_label(name), column_names(fit))]
  } else {
    D <- design_slope(fit, at$frame, name)
    rowSums(at$slopes * D[rep(seq_len(nrow(D)), length(at$units)), , drop = FALSE])
  }
  sum((at$scales * change)^2) * weighted_sds(matrix(as.double(own)), at$weights)^2
}

switched_square <- function(fit, at, name, own, run) {
  values <- unique(own)
  parts <- as.vector(rowsum(at$weights, match(own, values)))
  most <- utils::head(order(-parts), SWITCHED_LEVELS)
  before <- link_at(fit, ridge_rows(at$points), run)
  squares <- vapply(most, \(k) {
    after <- link_at(fit, ridge_rows(points_with(fit, at, name, values[k])), run)
    sum((at$scales * as.vector(after - before))^2)
  }, 0)
  sum(parts[most] * squares) / (2 * sum(parts[most]))
}

# The eigenvectors of the mean outer product of the gradients in standardised columns, those first in which the function
# changes most: `direction`, its `share` of the trace, `term` (the column) and `loading`, positive for the largest.
fit_directions <- function(fit, at) {
  spreads <- weighted_sds(at$points, at$weights)
  of <- eigen(base::crossprod(at$scales * at$slopes * rep(spreads, each = nrow(at$slopes))), symmetric = TRUE)
  total <- sum(pmax(of$values, 0))
  shown <- which(of$values > 1e-3 * total)
  signs <- vapply(shown, \(k) sign(of$vectors[which.max(abs(of$vectors[, k])), k]), 0)
  data.frame(
    direction = rep(seq_along(shown), each = fit$d), share = rep(of$values[shown] / total, each = fit$d),
    term = rep(column_names(fit), length(shown)), loading = as.vector(of$vectors[, shown] * rep(signs, each = fit$d))
  )
}
