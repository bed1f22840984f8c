# Sums over groups. Groups are data: which sources, at which targets, times what. Each is summed by the same verb as
# all of them, on sources of a simpler class, so groups may be within groups. Here is what they have in common: a
# tolerance is split among sums that are added, points are left out of their own sums, results are merged or put in
# their places, and stats and the progress are those of one computation.
#
# groups_of() makes of grouped sources a list(adds, work, m, d, group):
# - adds: do the groups add up, at all of the m targets? Else each is of targets of its own;
# - work: the share of the whole that each group takes;
# - group(i): NULL where there is nothing to sum, or list(sources, y, targets, own, loo, log_height) of a group.
#   y: its targets, a matrix; NULL: its sources themselves. targets: their numbers among all m, where `adds` is FALSE.
#   own, where points are left out: list(of, at), the numbers among the sources of those targets that are sources, and
#   the numbers of these targets, each NULL for all. loo: are the sources able to leave points out of their sums at y?
#   log_height (NULL: 0): of what its sums are multiplied by.
groups_of <- function(sources, at, loo, control) UseMethod("groups_of")

# A verb of sums: a function(sources, at, loo, control) of list(log_abs, negative, score, stats), as `merged` with all
# that it takes to merge parts, and as `alone` without.
log_verb <- function(factor) same_verb(\(sources, at, loo, control) log_sum(sources, at, factor, loo, control))
same_verb <- function(sum) list(merged = sum, alone = sum)

# Scores of parts are merged by the sums.
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
    if (!is.null(group$log_height) && !is.null(part$log_abs)) part$log_abs <- part$log_abs + group$log_height
    total <- if (groups$adds) merge_some(total, part, control) else put_rows(total, part, group$targets, groups$m)
  }
  share$end()
  seen(total, groups$m, groups$d)
}

# NULL: no source has any weight there.
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

# At the sources `rows`, `y` as targets, each left out of its own sum: by those among themselves, and all others. NULL:
# there are none.
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

# What was found at m targets; NULL: no terms anywhere.
seen <- function(part, m, d) {
  if (is.null(part)) list(log_abs = rep(-Inf, m), score = matrix(NaN, m, d), empty = TRUE) else part
}
terms_of <- function(part) if (!isTRUE(part$empty)) part

# The results at the targets `rows`, in their places among those at all m.
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

# Logarithms of sums add up; scores are means, by these sums.
merge_parts <- function(a, b, control) {
  top <- pmax(a$log_abs, b$log_abs)
  share_a <- signed_share(a, top)
  share_b <- signed_share(b, top)
  sum <- share_a + share_b
  weigh <- function(share, score) {
    score[share == 0, ] <- 0 # a part without other points has none
    share * score
  }
  list(
    log_abs = top + log(abs(sum)), negative = if (!is.null(a$negative)) sum < 0,
    score = if (!is.null(a$score)) (weigh(share_a, a$score) + weigh(share_b, b$score)) / sum,
    stats = add_part_stats(a$stats, b$stats, control)
  )
}

# The same where a part may have no terms, and is NULL.
merge_some <- function(a, b, control) if (is.null(a)) b else if (is.null(b)) a else merge_parts(a, b, control)

# exp(log_abs - top) with its sign; 0 where both are.
signed_share <- function(part, top) {
  share <- exp(part$log_abs - top)
  share[top == -Inf] <- 0
  if (!is.null(part$negative)) share[part$negative] <- -share[part$negative]
  share
}

# ---- to a tolerance ---------------------------------------------------------------------------

# May sums to a tolerance stand for these? Their logarithms are right where they are not small beside the largest.
goes_by_sums <- function(factor, loo, control) {
  !loo && control$tol > 0 && control$tol_type == "global" && identical(factor, PLAIN_FACTOR)
}

# As log_sum() of plain kernels. Of what a global tolerance, or a double, does not tell from 0, the logarithm is no more
# than noise, or -Inf.
plain_log_sum <- function(sources, at, control) UseMethod("plain_log_sum")

#' @export
plain_log_sum.default <- function(sources, at, control) {
  b <- if (is.null(sources$weights)) rep(1, nrow(sources$points)) else sources$weights
  part <- kernel_sum_of(sum_sources(sources$points, NULL, sources$L, plan = sources$plan), at, b, control)
  list(log_abs = log(pmax(part$sums, 0)), stats = part$stats)
}

#' @export
plain_log_sum.grouped_sources <- function(sources, at, control) {
  sum_over(sources, at, FALSE, control, same_verb(\(sources, at, loo, control) plain_log_sum(sources, at, control)))
}
