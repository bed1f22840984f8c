# Sums over groups of sources. A group describes which sources are summed at which targets, and a scale. It is summed by
# the same function as the whole, on sources of a simpler class, so groups may be nested. This file splits the tolerance
# among sums that are added, omits points from their own sums, merges results or puts them in their rows, and reports
# stats and progress as for one computation.
#
# groups_of() returns for grouped sources a list(adds, work, m, d, group):
# - adds: do the sums of the groups add up at all m targets? Otherwise each group has its own targets;
# - work: the share of each group in the work;
# - group(i): NULL if there is nothing to sum, or a list(sources, y, targets, own, loo, log_height):
#   - y: the targets, a matrix, or NULL for the sources;
#   - targets: the numbers of the targets among all m, if `adds` is FALSE;
#   - own, for leave-one-out sums: list(of, at), the numbers among the sources of the targets that are sources, and the
#     numbers of these targets; NULL means all;
#   - loo: do the sources omit points from their own sums at y?
#   - log_height: the logarithm of a number that multiplies the sums (NULL: 0).
groups_of <- function(sources, at, loo, control) UseMethod("groups_of")

# Makes a list of two functions(sources, at, loo, control) that return list(log_abs, negative, score, stats). The result
# of `merged` has all elements that merge_parts() needs; `alone` may omit some.
log_verb <- function(factor) same_verb(\(sources, at, loo, control) log_sum(sources, at, factor, loo, control))
same_verb <- function(sum) list(merged = sum, alone = sum)

# Scores of parts are merged with the sums as weights, so `merged` needs both.
score_verb <- function(factor, names) {
  list(
    merged = \(sources, at, loo, control) score_and_log(sources, at, factor, loo, names, control),
    alone = \(sources, at, loo, control) score_sum(sources, at, factor, loo, names, control)
  )
}

score_and_log <- function(sources, at, factor, loo, names, control) UseMethod("score_and_log")

#' @export
score_and_log.default <- function(sources, at, factor, loo, names, control) {
  part <- log_sum(sources, at, factor, loo, control)
  part$score <- score_sum(sources, at, factor, loo, names, control)$score
  part
}

#' @export
score_and_log.grouped_sources <- function(sources, at, factor, loo, names, control) {
  sum_over(sources, at, loo, control, same_verb(score_verb(factor, names)$merged))
}

#' @export
log_sum.grouped_sources <- function(sources, at, factor, loo, control) {
  sum_over(sources, at, loo, control, log_verb(factor))
}

#' @export
score_sum.grouped_sources <- function(sources, at, factor, loo, names, control) {
  sum_over(sources, at, loo, control, score_verb(factor, names))
}

sum_over <- function(sources, at, loo, control, verb) {
  groups <- groups_of(sources, at, loo, control)
  # errors of groups add up, each relative to the largest sum of its own
  if (groups$adds && control$tol_type == "global") control$tol <- control$tol / length(groups$work)
  verb <- if (groups$adds || loo) verb$merged else verb$alone
  share <- nested_share(control)
  total <- NULL
  before <- c(0, cumsum(groups$work))
  for (i in seq_along(groups$work)) {
    share$part(before[i], groups$work[i])
    group <- groups$group(i)
    part <- if (!is.null(group)) terms_of(sum_group(group, loo, control, verb))
    if (is.null(part)) next
    height <- if (is.null(part$sums)) "log_abs" else "log_scale"
    if (!is.null(group$log_height) && !is.null(part[[height]])) part[[height]] <- part[[height]] + group$log_height
    total <- if (groups$adds) merge_some(total, part, control) else put_rows(total, logged(part), group$targets, groups$m)
  }
  share$end()
  seen(total, groups$m, groups$d)
}

# Sums one group. Returns NULL if no source has weight.
sum_group <- function(group, loo, control, verb) {
  if (is_weightless(group$sources)) return(NULL)
  if (!loo || is.null(group$y) || isTRUE(group$loo)) return(verb(group$sources, group$y, loo, control))
  if (is.null(group$own)) return(verb(group$sources, group$y, FALSE, control))
  own <- group$own
  y <- group$y
  found <- if (is.null(own$of)) {
    verb(group$sources, NULL, TRUE, control)
  } else {
    left_out(group$sources, own$of, if (is.null(own$at)) y else y[own$at, , drop = FALSE], control, verb)
  }
  if (is.null(own$at)) return(found)
  others <- seq_len(nrow(y))[-own$at]
  rest <- verb(group$sources, y[others, , drop = FALSE], FALSE, control)
  put_rows(put_rows(list(), found, own$at, nrow(y)), rest, others, nrow(y))
}

# Leave-one-out sums at the sources `rows`, whose targets are `y`: the sums over the other sources of `rows`, merged
# with those over all remaining sources. Returns NULL if there are no other sources.
left_out <- function(sources, rows, y, control, verb) {
  if (length(rows) == nrow(sources$points)) return(verb(sources, NULL, TRUE, control))
  own <- some_sources(sources, rows)
  rest <- some_sources(sources, -rows)
  has_own <- nrow(own$points) > 1 && !is_weightless(own)
  if (is_weightless(rest)) return(if (has_own) verb(own, NULL, TRUE, control))
  if (!has_own) return(verb(rest, y, FALSE, control))
  # errors of the two add up
  if (control$tol_type == "global") control$tol <- control$tol / 2
  merge_some(terms_of(verb(own, NULL, TRUE, control)), terms_of(verb(rest, y, FALSE, control)), control)
}

# ---- results ----------------------------------------------------------------------------------

# Returns the result at m targets. `part` is NULL if there were no terms at any target.
seen <- function(part, m, d) {
  if (is.null(part)) list(log_abs = rep(-Inf, m), score = matrix(NaN, m, d), empty = TRUE) else part
}
terms_of <- function(part) if (!isTRUE(part$empty)) part

# Writes the results `part` of the targets `rows` into the results `total` of all m targets.
put_rows <- function(total, part, rows, m) {
  for (name in c("log_abs", "negative")) {
    value <- part[[name]]
    if (is.null(value)) next
    if (is.null(total[[name]])) total[[name]] <- rep(if (is.logical(value)) FALSE else -Inf, m)
    total[[name]][rows] <- value
  }
  if (!is.null(part$score)) {
    if (is.null(total$score)) total$score <- matrix(NaN, m, ncol(part$score), dimnames = dimnames(part$score))
    total$score[rows, ] <- part$score
  }
  if (is.null(total$stats)) {
    total$stats <- part$stats
  } else if (!is.null(part$stats)) {
    total$stats <- add_class_stats(total$stats, part$stats)
  }
  total
}

# Adds two parts of sums that are given by their logarithms. Scores are averaged with the sums as weights.
merge_parts <- function(a, b, control) {
  if (!is.null(a$sums) && !is.null(b$sums)) return(add_scaled_sums(a, b, control))
  a <- logged(a)
  b <- logged(b)
  top <- pmax(a$log_abs, b$log_abs)
  share_a <- signed_share(a, top)
  share_b <- signed_share(b, top)
  sum <- share_a + share_b
  weigh <- function(share, score) {
    score[share == 0, ] <- 0 # the score of a part without other points is NaN
    share * score
  }
  list(
    log_abs = top + log(abs(sum)), negative = if (!is.null(a$negative)) sum < 0,
    score = if (!is.null(a$score)) (weigh(share_a, a$score) + weigh(share_b, b$score)) / sum,
    stats = add_part_stats(a$stats, b$stats, control)
  )
}

# Merges two parts, either of which may be NULL for no terms.
merge_some <- function(a, b, control) if (is.null(a)) b else if (is.null(b)) a else merge_parts(a, b, control)

# Returns exp(log_abs - top) with the sign of the sum, and 0 where top is -Inf.
signed_share <- function(part, top) {
  share <- exp(part$log_abs - top)
  share[top == -Inf] <- 0
  if (!is.null(part$negative)) share[part$negative] <- -share[part$negative]
  share
}

# ---- to a tolerance ---------------------------------------------------------------------------

# May logarithms of sums with a tolerance replace log_sum()? They are accurate where a sum is not small relative to the
# largest.
goes_by_sums <- function(factor, loo, control) {
  !loo && control$tol > 0 && control$tol_type == "global" && identical(factor, PLAIN_FACTOR)
}

# log_sum() of plain kernels by sums with a tolerance. The logarithm of a sum below the tolerance, or below the range of
# a double, is noise or -Inf.
plain_log_sum <- function(sources, at, control) logged(plain_sum(sources, at, control))

# Returns list(sums, log_scale, stats), sums to be multiplied by exp(log_scale), or what plain_log_sum() returns.
plain_sum <- function(sources, at, control) UseMethod("plain_sum")

#' @export
plain_sum.default <- function(sources, at, control) {
  b <- if (is.null(sources$weights)) rep(1, nrow(sources$points)) else sources$weights
  part <- kernel_sum_of(sum_sources(sources$points, NULL, sources$L, plan = sources$plan), at, b, control)
  list(sums = part$sums, log_scale = 0, stats = part$stats)
}

#' @export
plain_sum.grouped_sources <- function(sources, at, control) {
  sum_over(sources, at, FALSE, control, same_verb(\(sources, at, loo, control) plain_sum(sources, at, control)))
}

add_scaled_sums <- function(a, b, control) {
  top <- max(a$log_scale, b$log_scale)
  scaled <- \(part) if (part$log_scale == top) part$sums else exp(part$log_scale - top) * part$sums
  list(sums = scaled(a) + scaled(b), log_scale = top, stats = add_part_stats(a$stats, b$stats, control))
}

logged <- function(part) {
  if (is.null(part$sums)) return(part)
  c(list(log_abs = log(pmax(part$sums, 0)) + part$log_scale), part["stats"])
}
