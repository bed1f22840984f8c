# What a fit depends on. Each variable has half of the mean squared change of the fitted function after its values were
# replaced by those of other rows. For a linear function this is the square of the coefficient times the variance.

# Number of other rows from which each row takes the value of a variable.
SWITCHES <- 8

# list(importance, directions): a data frame of `term` and its share of the sum, in decreasing order, and one of the
# directions with a row for each column in each. At rows evenly spread, with the weights of the fit.
fit_importance <- function(fit, run) {
  at <- partial_rows(fit, SWITCHES * fit$d)
  # changes have a row for each point and output
  at$scales <- as.vector(outer(sqrt(at$weights), output_units(fit), `/`))
  at$link <- link_at(fit, ridge_rows(at$points), run)
  names <- check_variables(fit, NULL)
  squares <- vapply(names, \(name) switched_square(fit, at, name, run), 0)
  shares <- if (sum(squares) > 0) squares / sum(squares) else squares
  order <- order(-shares)
  list(
    importance = data.frame(term = names[order], importance = unname(shares)[order]),
    directions = fit_directions(fit, at, run)
  )
}

# What changes of each output are divided by: standard deviations of several responses. Log odds have one unit.
output_units <- function(fit) {
  t <- ncol(fit$coefficients)
  if (t == 1 || !is.null(fit$classes)) return(rep(1, t))
  shown <- fit_to_show(fit)
  sds <- weighted_sds(shown$data$y, shown$data$weights)
  ifelse(sds > 0, sds, 1)
}

# The rows in the order of the variable take the values that lie a part of all rows further on in this order.
switched_square <- function(fit, at, name, run) {
  own <- if (is.null(at$frame)) at$points[, match(name, column_names(fit))] else at$frame[[name]]
  order <- order(own)
  ends <- cumsum(at$weights[order])
  middles <- ends - at$weights[order] / 2
  squares <- vapply((seq_len(SWITCHES) - 0.5) / SWITCHES, \(part) {
    from <- 1 + findInterval((middles + part) %% 1, ends, left.open = TRUE)
    other <- replace(own, order, own[order[pmin(from, length(own))]])
    change <- link_at(fit, ridge_rows(points_with(fit, at, name, other)), run) - at$link
    sum((at$scales * as.vector(change))^2)
  }, 0)
  mean(squares) / 2
}

# The eigenvectors of the mean outer product of the gradients in standardised columns, or in the normal scores that the
# kernel has of them: `direction`, its `share` of the trace, `term` (the column), and `loading`, of which the largest is
# positive.
fit_directions <- function(fit, at, run) {
  maps <- c(Find(\(term) !is.null(term$scores), fit$kernel$terms)$scores, vector("list", fit$d))[seq_len(fit$d)]
  units <- normal_score_slopes(maps, at$points)
  # outside of the map, where it is constant, gradients are 0
  units <- ifelse(units > 0, 1 / units, 0)
  without <- lengths(maps) == 0
  units[, without] <- rep(weighted_sds(at$points, at$weights)[without], each = nrow(units))
  slopes <- aperm(gradients_at(slope_of(fit), fit, at$points, run) * as.vector(units), c(1, 3, 2))
  of <- eigen(base::crossprod(at$scales * matrix(slopes, ncol = fit$d)), symmetric = TRUE)
  total <- sum(pmax(of$values, 0))
  shown <- which(of$values > 1e-3 * total)
  signs <- vapply(shown, \(k) sign(of$vectors[which.max(abs(of$vectors[, k])), k]), 0)
  data.frame(
    direction = rep(seq_along(shown), each = fit$d), share = rep(of$values[shown] / total, each = fit$d),
    term = rep(column_names(fit), length(shown)), loading = as.vector(of$vectors[, shown] * rep(signs, each = fit$d))
  )
}
