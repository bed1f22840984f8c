# Bounds of columns for which the data give evidence, for support = "auto" and for the hint of a fit without support.
#
# Above a bound b, the density is about a power of x - b. So of the k smallest distances y_i from b, y_i / y_(k + 1)
# have about the density a u^(a - 1): a = 1 where the density jumps, less where it has no limit, more where it vanishes.
# Without a bound, the tail is about exponential. The evidence is the logarithm of the ratio of both likelihoods.

# Bounds that columns often have, and periods.
USUAL_BOUNDS <- list(lower = 0, upper = c(0, 1, 100))
USUAL_CIRCLES <- list(c(0, 2 * pi), c(-pi, pi), c(0, 24), c(0, 360), c(-180, 180))

# Least evidence in nats. Of 100 to 5,000 normal points 2% or less have such evidence of another bound.
LEAST_EVIDENCE <- list(usual = 3, other = 6)

# A kde_support for each column with a bound, by name, or NULL. `jumps`: only usual bounds where the density does not
# vanish.
found_support <- function(points, names, jumps = FALSE) {
  found <- lapply(stats::setNames(seq_along(names), names), \(k) column_support(points[, k], jumps))
  found <- Filter(Negate(is.null), found)
  if (length(found) > 0) found
}

column_support <- function(x, jumps) {
  x <- x[is.finite(x)]
  if (length(x) < 50) return(NULL)
  low <- lowest_values(x)
  high <- lowest_values(-x)
  for (circle in USUAL_CIRCLES) if (is_circle(x, low, high, circle)) return(new_support("circular", circle))
  lower <- lower_bound(low, min(x), USUAL_BOUNDS$lower, jumps)
  range <- c(lower, -lower_bound(high, -max(x), -USUAL_BOUNDS$upper, jumps))
  if (any(is.finite(range))) new_support("auto", range)
}

# The k + 1 lowest values, equal ones spread over the width of their rounding, after a spike of equal lowest ones. NULL
# where there are too few or they are hardly different.
lowest_values <- function(x) {
  if (length(x) < 50) return(NULL)
  k <- round(2 * sqrt(length(x)))
  low <- sort(sort(x, partial = k + 1)[seq_len(k + 1)])
  runs <- rle(low)
  if (sum(x == low[1]) > max(2, 10 * runs$lengths[2], na.rm = TRUE)) return(lowest_values(x[x > low[1]]))
  if (length(runs$values) < 4) return(NULL)
  low + min(diff(runs$values)) * (sequence(runs$lengths) - 0.5) / rep(runs$lengths, runs$lengths) -
    min(diff(runs$values)) / 2
}

# The bound below the least value, of lowest_values(), or -Inf.
lower_bound <- function(low, least, usual, jumps) {
  if (is.null(low)) return(-Inf)
  usual <- max(usual[usual <= least], -Inf)
  if (has_bound(low, usual, LEAST_EVIDENCE$usual, jumps)) return(usual)
  other <- if (jumps) -Inf else roundest(least - 3 * (low[length(low)] - least) / length(low), least)
  if (has_bound(low, other, LEAST_EVIDENCE$other, TRUE)) other else -Inf
}

# `low`: of lowest_values(); the last is the threshold. `jumps`: must the power be clearly below 2?
has_bound <- function(low, bound, least, jumps) {
  y <- abs(low - bound) # a rounded value may have been spread beyond the bound, or lie on it
  y <- pmax(y, min(y[y > 0], Inf) / 2)
  k <- length(y) - 1
  power <- k / sum(log(y[k + 1] / y[seq_len(k)]))
  evidence <- k * (log(power * (1 - mean(y[seq_len(k)]) / y[k + 1])) + 1 / power)
  isTRUE(evidence > least) && (!jumps || power * (1 + 1 / sqrt(k)) < 1.8)
}

# Are there bounds a usual period apart, with as many points near one as near the other, up to chance?
is_circle <- function(x, low, high, circle) {
  if (is.null(low) || is.null(high) || min(x) < circle[1] || max(x) > circle[2]) return(FALSE)
  least <- LEAST_EVIDENCE$usual
  bounded <- has_bound(low, circle[1], least, TRUE) && has_bound(high, -circle[2], least, TRUE)
  near <- c(sum(x < circle[1] + diff(circle) / 20), sum(x > circle[2] - diff(circle) / 20))
  bounded && abs(diff(near)) <= 3 * sqrt(sum(near))
}

# The number between a and b with the fewest digits.
roundest <- function(a, b) {
  for (unit in 10^(ceiling(log10(max(abs(a), abs(b)))):floor(log10(b - a)))) {
    number <- floor(b / unit) * unit
    if (number >= a) return(number)
  }
  b
}

# The sentence on bounds that a fit without support crosses, or NULL.
bounds_note <- function(fit) {
  if (!is.null(fit$support) || !is.null(fit$discrete) || fit$selector == "user" || !is.matrix(fit$x)) return(NULL)
  found <- found_support(fit$x, point_names(fit), jumps = TRUE)
  if (is.null(found)) return(NULL)
  ranges <- vapply(found, \(one) describe_range(one$method, one$range), "")
  of <- split(names(found), factor(ranges, unique(ranges)))
  paste0(
    "The data of ", paste(vapply(of, quote_names, ""), "end at the bounds of", names(of), collapse = ", those of "),
    ", beyond which this estimate is positive. Use support = \"auto\" to fit inside the bounds."
  )
}

# Reports bounds once per session.
suggest_support <- function(fit) {
  if (isTRUE(session$support_suggested)) return(fit)
  note <- bounds_note(fit)
  if (is.null(note)) return(fit)
  session$support_suggested <- TRUE
  message(structure(
    class = c("flashkernel_message_support", "flashkernel_message", "message", "condition"),
    list(message = paste0("flashkernel: ", note, " (This message appears once per session.)\n"), call = NULL)
  ))
  fit
}
