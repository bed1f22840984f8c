# Replicates of an estimate for its bands, relative to the kernel's height: differences from the estimate, m x
# replicates, of influence_of() at the rows of `at`.

# Multipliers of what each point adds, counts with mean 1 less their mean: a process with the covariance of the
# estimate and with its skewness, which normal ones lack. `mean`: of psi.
multiplied <- function(of, at, replicates, control, mean) {
  w <- of$weights
  name_stage(control, "Simulating")
  in_blocks(replicates, length(w), nrow(at), control, \(columns) {
    b <- w * matrix(stats::rpois(length(w) * columns, 1) - 1, length(w))
    (influence_sums(of, at, b, control) - outer(mean, colSums(b))) / sum(w)
  })
}

# Rows drawn again. `estimate`: the estimate, relative to the kernel's height.
resampled <- function(object, of, at, replicates, control, estimate) {
  w <- of$weights
  name_stage(control, "Resampling")
  if (is_debiased(object)) return(resampled_debiased(object, of, at, replicates, control, estimate))
  in_blocks(replicates, length(w), nrow(at), control, \(columns) {
    b <- vapply(seq_len(columns), \(i) w * drawn_counts(w), w)
    influence_sums(of, at, b, control) / rep(colSums(b), each = nrow(at)) - estimate
  })
}

# Each sample is debiased anew.
resampled_debiased <- function(object, of, at, replicates, control, estimate) {
  w <- of$weights
  points <- from_centre(object, object$x)
  L <- score_factor(object)
  in_blocks(replicates, length(w), nrow(at), control, at_most = 1, \(columns) {
    b <- w * drawn_counts(w)
    debias <- debias_sum(sum_sources(points, b, L, factors = of$factors), of$L, control)
    debiased <- keep_lost(debias$debiased, points, b)
    gaussian_sums(debiased, of$L, of$factors, 1, at, matrix(b), control) / sum(b) - estimate
  })
}

# Each sample is fitted as `given` was, with bandwidths and factors of its own: differences of the density from their
# mean.
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

# How often each row is drawn, of those that have weight, as many as there are. Not without any of them.
drawn_counts <- function(weights) {
  n <- length(weights)
  used <- which(weights > 0)
  tabulate(used[sample.int(length(used), replace = TRUE)], n)
}

# Columns of `some(columns)`, as many at a time as memory is spent on, n numbers each.
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

# The quantile of the largest deviation, in standard errors, that as many draws of a process and one more exceed with
# probability 1 - level. Where there is less than about one point, a standard error means little: as much is added
# to it as wilson_interval() has there, or somewhat less.
largest_quantile <- function(draws, errors, level) {
  ratio <- abs(draws) / sqrt(errors$se^2 + errors$unit^2 / 4)
  largest <- sort(apply(ratio, 2, max))
  largest[min(ceiling(level * (length(largest) + 1)), length(largest))]
}
