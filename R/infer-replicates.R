# Replicates of an estimate for its bands, relative to the height of the kernel: differences from the estimate, a matrix
# m x replicates, from influence_of() at the rows of `at`.

# Multiplier replicates: each point's contribution is multiplied by a count with mean 1, minus its mean. The process has
# the covariance of the estimate and its skewness, which normal multipliers lack. `mean`: the mean of psi.
multiplied <- function(of, at, replicates, control, mean) {
  w <- of$weights
  name_stage(control, "Simulating")
  in_blocks(replicates, length(w), nrow(at), control, \(columns) {
    b <- w * matrix(stats::rpois(length(w) * columns, 1) - 1, length(w))
    (influence_sums(of, at, b, control) - outer(mean, colSums(b))) / sum(w)
  })
}

# Bootstrap replicates. `estimate`: the estimate, relative to the height of the kernel.
resampled <- function(object, of, at, replicates, control, estimate) {
  w <- of$weights
  name_stage(control, "Resampling")
  if (is_debiased(object)) return(resampled_debiased(object, of, at, replicates, control, estimate))
  in_blocks(replicates, length(w), nrow(at), control, \(columns) {
    b <- vapply(seq_len(columns), \(i) w * drawn_counts(w), w)
    influence_sums(of, at, b, control) / rep(colSums(b), each = nrow(at)) - estimate
  })
}

# Bootstrap replicates of an SD-KDE: each sample is debiased again.
resampled_debiased <- function(object, of, at, replicates, control, estimate) {
  w <- of$weights
  points <- from_centre(object, object$x)
  L <- score_factor(object)
  in_blocks(replicates, length(w), nrow(at), control, at_most = 1, \(columns) {
    b <- w * drawn_counts(w)
    object$weights <- b
    if (is.null(of$domain)) {
      sources <- sum_sources(points, b, L, factors = of$factors, discrete = of$discrete)
      debiased <- keep_lost(debias_sum(sources, of$L, control)$debiased, points, b)
      of$parts <- list(list(points = debiased, C = object$bandwidth, size = 1))
      return(influence_sums(of, at, matrix(b), control) / sum(b) - estimate)
    }
    sources <- domain_without(object, seq_len(object$n), control)$sources
    exp(log_sum(sources, at, PLAIN_FACTOR, FALSE, control)$log_abs) / sum(b) - estimate
  })
}

# Bootstrap replicates with a refit of each sample like `given`, with its own bandwidths and factors. Returns
# differences of the densities from their mean.
refitted <- function(given, at, asked, run) {
  w <- if (is.null(given$weights)) rep(1, given$n) else given$weights
  name_stage(run, "Refitting")
  draws <- in_blocks(asked$replicates, length(w), nrow(at), run, at_most = 1, \(columns) {
    fit <- unclass(refit(given, rep(seq_along(w), drawn_counts(w)), run))
    if (asked$corrected) fit <- corrected_fit(fit, run)
    signed_density(log_estimate(fit, at, FALSE, run))
  })
  draws - rowMeans(draws)
}

# How often each row with positive weight is drawn, in a sample of as many rows. At least one weight must be positive.
drawn_counts <- function(weights) {
  n <- length(weights)
  used <- which(weights > 0)
  tabulate(used[sample.int(length(used), replace = TRUE)], n)
}

# Binds the results of `some(columns)` for blocks of columns that fit in memory, n numbers for each column.
in_blocks <- function(replicates, n, m, control, some, at_most = 256) {
  check_memory(8 * as.double(m) * replicates * 2, "replicates")
  size <- min(replicates, at_most, max(8, floor(chunk_bytes() / (8 * n))))
  found <- matrix(0, m, replicates)
  done <- 0
  while (done < replicates) {
    columns <- min(size, replicates - done)
    share_stage(control, done / replicates, columns / replicates)
    found[, done + seq_len(columns)] <- some(columns)
    done <- done + columns
  }
  close_progress(control)
  found
}

# The critical value of a simultaneous band: the quantile of the maximal deviation, in standard errors, that a further
# draw of the process exceeds with probability at most 1 - level. With less than about one point near, the standard
# error is unreliable, so unit^2 / 4 is added to its square, at most what wilson_interval() adds there.
largest_quantile <- function(draws, errors, level) {
  ratio <- abs(draws) / sqrt(errors$se^2 + errors$unit^2 / 4)
  largest <- sort(apply(ratio, 2, max))
  largest[min(ceiling(level * (length(largest) + 1)), length(largest))]
}
