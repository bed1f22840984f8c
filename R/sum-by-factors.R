# Sums of kernels of several widths: those of each class of points whose kernels are equally wide, merged. So every
# engine and every tolerance serves them.

log_sum_by_classes <- function(sources, at, factor, loo, control) {
  several <- any(sources$factors != sources$factors[1]) && !is_compact(sources$kernel)
  by_grid <- several && !loo && identical(factor, PLAIN_FACTOR) && control$tol > 0 && control$tol_type == "global"
  if (by_grid) return(log_of_class_sums(sources, at, control))
  sum_classes(sources, at, loo, control, log_of_class(factor))
}

score_sum_by_classes <- function(sources, at, estimator, loo, names, control) {
  sum_classes(sources, at, loo, control, score_of_class(estimator, names))
}

# What is summed for a class, of points or of targets: functions of (class, y, loo, control).
log_of_class <- function(factor) {
  \(class, y, loo, control) log_sum(class, y, factor, loo, control)
}

# The log of the sum, too: by it scores of several classes are merged.
score_of_class <- function(estimator, names) {
  \(class, y, loo, control) {
    part <- log_sum(class, y, estimator$factor(ncol(class$points)), loo, control)
    part$score <- score_sum(class, y, estimator, loo, names, control)$score
    part
  }
}

# list(factors, rows): the different factors, increasing, and whose they are.
width_classes <- function(factors) {
  values <- sort(unique(factors))
  list(factors = values, rows = unname(split(seq_along(factors), match(factors, values))))
}

# As log_of_sums(), with the sums of all classes as one: what is far from the points of one class alone needs no
# logarithm. It is summed again where the tolerance is more than a hundredth of the sum.
log_of_class_sums <- function(sources, at, control) {
  found <- sum_classes(sources, at, FALSE, control, log_of_plain_sums)
  low <- which(!(found$log_abs > max(found$log_abs) + log(100 * control$tol)))
  if (length(low) > 0) {
    rows <- (if (is.null(at)) sources$points else at)[low, , drop = FALSE]
    again <- sum_classes(sources, rows, FALSE, control, log_of_class(PLAIN_FACTOR))
    found$log_abs[low] <- again$log_abs
  }
  found
}

# Of what a global tolerance, or a double, does not tell from 0, the logarithm is no more than noise, or -Inf.
log_of_plain_sums <- function(sources, at, loo, control) {
  b <- if (is.null(sources$weights)) rep(1, nrow(sources$points)) else sources$weights
  part <- kernel_sum_of(sum_sources(sources$points, NULL, sources$L, plan = sources$plan), at, b, control)
  list(log_abs = log(pmax(part$sums, 0)), stats = part$stats)
}

# `sum_class(class, y, loo, control)` for the sources of each class at all targets, merged.
sum_classes <- function(sources, at, loo, control, sum_class) {
  points <- sources$points
  classes <- width_classes(sources$factors)
  count <- length(classes$factors)
  # errors of classes add up, each relative to the largest sum of its own
  if (control$tol_type == "global") control$tol <- control$tol / count
  total <- NULL
  done <- 0
  for (i in seq_len(count)) {
    rows <- classes$rows[[i]]
    share_stage(control, done, length(rows) / nrow(points))
    done <- done + length(rows) / nrow(points)
    if (!is.null(sources$weights) && all(sources$weights[rows] == 0)) next
    own <- if (count == 1) points else points[rows, , drop = FALSE]
    class <- sum_sources(own, sources$weights[rows], classes$factors[i] * sources$L, sources$kernel)
    if (count == 1) class$plan <- sources$plan
    part <- if (!is.null(at) || count == 1) {
      sum_class(class, at, loo, control)
    } else if (loo) {
      left_out_of_class(class, points, rows, control, sum_class)
    } else {
      sum_class(class, points, FALSE, control)
    }
    part$log_abs <- part$log_abs - sources$height * kernel_columns(sources$L) * log(classes$factors[i])
    total <- if (is.null(total)) part else merge_parts(total, part, control)
  }
  total
}

# At all points: those of the class, its `rows`, are left out each of its own sum.
left_out_of_class <- function(class, points, rows, control, sum_class) {
  own <- sum_class(class, NULL, TRUE, control)
  others <- sum_class(class, points[-rows, , drop = FALSE], FALSE, control)
  place <- \(a, b) replace(replace(rep(a[0][NA], nrow(points)), rows, a), seq_len(nrow(points))[-rows], b)
  list(
    log_abs = place(own$log_abs, others$log_abs),
    negative = if (!is.null(own$negative)) place(own$negative, others$negative),
    score = if (!is.null(own$score)) rbind(own$score, others$score)[order(c(rows, seq_len(nrow(points))[-rows])), ],
    stats = add_stats(own$stats, others$stats)
  )
}
