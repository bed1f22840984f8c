# Scores of fits to a flash_data(): each shard is judged on its worker, and moments of the scores come back.

# Moments of the scores of each of the `fits`, followed by moments of the differences of each pair of pairs_of(), in the
# form of merge_scores(). Scores are at the shards of `targets`, or leave-one-out at the training points with `loo`.
# `negative` and `infinite`: number of points where each fit is negative, and where its score is -Inf.
judge_data <- function(fits, targets, loo, score, control) {
  squares <- rep(list(NULL), length(fits))
  if (PROPER_SCORES[[score]]$of_square) squares <- lapply(fits, square_of_data, loo, control)
  if (loo) fits <- lapply(fits, \(fit) if (is_debiased(fit)) with_left_out(fit, control) else fit)
  args <- list(fits = unname(lapply(fits, travelling_fit)), squares = unname(squares), loo = loo, score = score)
  lend <- unlist(unname(lapply(fits, lent_of)), recursive = FALSE)
  pairs <- sum(vapply(fits, `[[`, 0, "n")) * targets$n
  over_shards(targets, "judge", args, control, shard_number, pairs = pairs, lend = lend)
}

judge_shard <- function(shard, args, part, control) {
  rule <- PROPER_SCORES[[args$score]]
  fits <- lapply(args$fits, fit_at_shard, part, args$scratch)
  weights <- if (is.null(shard$weights)) rep(1, nrow(shard$points)) else shard$weights
  judged <- Map(function(fit, square) {
    estimate <- log_estimate(fit, if (!args$loo) shard$points, args$loo, control)
    log_square <- if (args$loo) log_square_without(fit, square, shard, part, control) else square$log
    estimate$score <- rule$at(estimate$log_abs, estimate$negative, log_square)
    estimate
  }, fits, args$squares)
  scores <- do.call(cbind, lapply(judged, `[[`, "score"))
  pairs <- pairs_of(length(fits))
  differences <- score_differences(scores[, pairs[, 1]], scores[, pairs[, 2]])
  used <- weights > 0
  found <- score_moments(cbind(scores, differences)[used, , drop = FALSE], weights[used])
  found$negative <- vapply(judged, \(one) sum(one$negative & used), 0)
  found$infinite <- colSums(scores[used, , drop = FALSE] == -Inf)
  found$stats <- Reduce(add_stats, lapply(judged, `[[`, "stats"))
  found
}

# Pairs of 1:k as rows, the smaller number first.
pairs_of <- function(k) {
  pairs <- which(upper.tri(diag(k)), arr.ind = TRUE)
  matrix(as.integer(pairs), ncol = 2)
}

# ---- moments --------------------------------------------------------------------------------------

# Columns of values with weights w: weighted means, and sums of w^2, w^2 v and w^2 v^2, where v is relative to the mean.
score_moments <- function(values, w) {
  mean <- colSums(w * values) / sum(w)
  away <- values - rep(mean, each = nrow(values))
  list(
    n = length(w), weight = sum(w), mean = mean, square = sum(w^2), first = colSums(w^2 * away),
    second = colSums(w^2 * away^2)
  )
}

merge_scores <- function(a, b) {
  counts <- c("n", "negative", "infinite")
  all <- Map(`+`, a[counts], b[counts])
  all$stats <- add_stats(a$stats, b$stats)
  none <- c(a$n, b$n) == 0
  if (any(none)) return(replace(if (none[1]) b else a, names(all), all))
  all$weight <- a$weight + b$weight
  all$mean <- (a$weight * a$mean + b$weight * b$mean) / all$weight
  parts <- lapply(list(a, b), function(part) {
    shift <- part$mean - all$mean
    list(
      square = part$square, first = part$first + shift * part$square,
      second = part$second + 2 * shift * part$first + shift^2 * part$square
    )
  })
  c(all, Map(`+`, parts[[1]], parts[[2]]))
}

# weighted_mean() of each column, from its moments.
mean_and_se <- function(moments) {
  se <- sqrt(moments$second * moments$n / (moments$n - 1)) / moments$weight
  list(mean = moments$mean, se = replace(se, !is.finite(moments$mean), NA_real_))
}

# ---- integrals of squares -----------------------------------------------------------------------

# log_square_integral() for a flash_data(). Returns list(sum, unit, log, heavy): the sum over all pairs in units of
# `unit`^2, the largest weight, and the logarithm of the integral. `heavy`, with `loo`: a matrix with a row for each of
# the few points without which the sum is recomputed, with columns `shard`, `row` in the shard, and `log_sum`.
square_of_data <- function(fit, loo, control) {
  check_can(fit, "square")
  if (is.null(estimator_of(fit)$square)) check_in_memory(fit) # its polynomial is summed pair by pair
  data <- fit_points(fit)
  unit <- if (data$has[["weights"]]) data$largest_weight else 1
  found <- overlap_of_data(fit, unit, control)
  heavy <- NULL
  if (loo) {
    heavy <- found$most[found$sum - found$most[, "share"] < found$sum / 8, , drop = FALSE]
    log_sum <- vapply(seq_len(nrow(heavy)), \(k) log_overlap_without(fit, heavy[k, ], unit, control), 0)
    heavy <- cbind(heavy[, c("shard", "row"), drop = FALSE], log_sum = log_sum)
  }
  log <- log(found$sum) + 2 * log(unit) + square_unit(fit) - 2 * log(total_weight(fit))
  list(sum = found$sum, unit = unit, log = log, heavy = heavy)
}

overlap_of_data <- function(fit, unit, control) {
  points <- fit_points(fit)
  args <- list(fit = travelling_fit(fit), unit = unit)
  over_shards(points, "overlap", args, control, shard_number, pairs = points$n^2, lend = lent_of(fit))
}

# The logarithm of the sum over all pairs without the point `at`, c(shard, row), whose weight is set to 0.
log_overlap_without <- function(fit, at, unit, control) {
  rest <- picked_data(fit_points(fit), without_row(at[["shard"]], at[["row"]]), control)
  on.exit(session$forgotten <- c(session$forgotten, rest$id))
  fit[[if (is_debiased(fit)) "debiased" else "x"]] <- rest
  log(max(overlap_of_data(fit, rest$largest_weight, control)$sum, 0)) + 2 * log(rest$largest_weight / unit)
}

# A picker for picked_data() that sets the weight of one row to 0.
without_row <- function(of, row) {
  force(of)
  force(row)
  function(shard, number) {
    weights <- if (is.null(shard$weights)) rep(1, nrow(shard$points)) else shard$weights
    list(x = shard$points, weights = if (number == of) replace(weights, row, 0) else weights)
  }
}

square_unit <- function(fit) log_kernel_norm(sqrt(2) * fit_factor(fit))

# list(sum, most, stats): `most` are the two points with the largest shares of the sum over all pairs. No more than two
# points can have most of the sum each.
overlap_of_shard <- function(shard, args, part, control) {
  fit <- fit_at_shard(args$fit, part, args$scratch)
  sums <- overlaps_at(fit, shard, args$unit, control)
  share <- share_of_overlap(fit, sums)
  row <- utils::head(order(-share), 2)
  list(sum = sum(sums$w * sums$each), most = cbind(shard = part, row = row, share = share[row]), stats = sums$stats)
}

merge_overlaps <- function(a, b) {
  most <- rbind(a$most, b$most)
  most <- most[utils::head(order(-most[, "share"]), 2), , drop = FALSE]
  list(sum = a$sum + b$sum, most = most, stats = add_stats(a$stats, b$stats))
}

# The share of each point of a shard in the sum over all pairs.
share_of_overlap <- function(fit, sums) 2 * sums$w * sums$each - sums$w^2 * estimator_of(fit)$overlap(fit$d)[1]

# list(w, each, stats): the weights in units of `unit`, and the sum over all points at each point.
overlaps_at <- function(fit, shard, unit, control) {
  sources <- sum_sources(fit_points(fit), NULL, sqrt(2) * fit_factor(fit))
  found <- log_sum(sources, shard$points, estimator_of(fit)$overlap(fit$d), FALSE, control)
  found$log_abs <- found$log_abs - log(unit)
  w <- if (is.null(shard$weights)) rep(1, nrow(shard$points)) else shard$weights
  list(w = w / unit, each = signed_density(found), stats = found$stats)
}

# Logarithms of the integral of the square of the leave-one-out estimates, for the points of a shard.
log_square_without <- function(fit, square, shard, part, control) {
  if (is.null(square)) return(NULL)
  log_rest <- log(pmax(square$sum - share_of_overlap(fit, overlaps_at(fit, shard, square$unit, control)), 0))
  here <- square$heavy[, "shard"] == part
  log_rest[square$heavy[here, "row"]] <- square$heavy[here, "log_sum"]
  log_rest + 2 * log(square$unit) + square_unit(fit) - 2 * log(loo_weight(fit))
}

# ---- log likelihood -----------------------------------------------------------------------------

# logLik() of a fit to a flash_data(), with a warning where the estimate is negative.
log_lik_of_data <- function(object, control) {
  found <- judge_data(list(object), object$x, TRUE, "log", control)
  if (found$negative > 0) warn_negative_points(found$negative, found$n)
  structure(found$n * found$mean, df = 0L, nobs = found$n, class = "logLik")
}

add_operations(
  judge = list(
    one = \(shard, args, part, control) judge_shard(shard, args, part, control),
    merge = \(a, b, control) merge_scores(a, b)
  ),
  overlap = list(
    one = \(shard, args, part, control) overlap_of_shard(shard, args, part, control),
    merge = \(a, b, control) merge_overlaps(a, b)
  ),
  fold = list(
    one = \(shard, args, part, control) made_shard(args$pick(shard, part), args, part, NULL),
    merge = \(a, b, control) merge_made(a, b)
  )
)
