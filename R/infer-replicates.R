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

# Bootstrap replicates of corrected_fits(). `at`: list(own, near), in the user's coordinates and those of the sums. `known`:
# list(estimate, height), the density and the height of the kernel. What is no sum over the points is made again of each sample.
resampled <- function(made, of, at, replicates, control, known) {
  w <- of$weights
  name_stage(control, "Resampling")
  object <- made$fits[[1]]
  again <- is_debiased(object) || is_kind(object, "bent")
  in_blocks(replicates, length(w), nrow(at$own), control, at_most = if (again) 1 else 256, \(columns) {
    b <- vapply(seq_len(columns), \(i) w * drawn_counts(w), w)
    if (!again) return(influence_sums(of, at$near, b, control) / rep(colSums(b), each = nrow(at$near)) - known$estimate / known$height)
    fits <- lapply(made$fits, rebuilt, \(part) replace(part, "weights", list(b[, 1])), control)
    (combined_density(list(fits = fits, shares = made$shares), at$own, control) - known$estimate) / known$height
  })
}

# Bootstrap replicates with a refit of each sample like `given`, with its own bandwidths and factors. Returns
# differences of the densities from their mean.
refitted <- function(given, at, asked, run) {
  w <- if (is.null(given$weights)) rep(1, given$n) else given$weights
  name_stage(run, "Refitting")
  draws <- in_blocks(asked$replicates, length(w), nrow(at), run, at_most = 1, \(columns) {
    fit <- unclass(refit(given, rep(seq_along(w), drawn_counts(w)), run))
    combined_density(if (asked$corrected) corrected_fits(fit, run) else list(fits = list(fit), shares = 1), at, run)
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
