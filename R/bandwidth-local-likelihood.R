# By the others, less `penalty` times what the estimate gains by the row itself.
penalised_on <- function(domain, data, L, penalty, run) {
  left_out <- log_density_on(domain, data, L, NULL, run)
  left_out - penalty * (log_density_on(domain, data, L, NULL, run, loo = FALSE) - left_out)
}

# Bandwidths as multiples of the spread, from which the search goes on downwards while it finds better ones.
LOCAL_FACTORS <- 4 * 0.82^(0:13)

# Weight of the penalty, as KIND_PENALTY for methods. Without it the leave-one-out likelihood alone is often largest
# where the bandwidth is much too small.
LOCAL_PENALTY <- 0.5

# list(L, value, structure, converged) on the rows of `batch`: the mean of the log bandwidths, each with its
# likelihood as weight, which errs less than the largest likelihood does.
search_local <- function(domain, batch, base, run) {
  effective <- 1 / sum(batch$v^2)
  value <- \(factor) effective * sum(batch$v * penalised_on(domain, batch, factor * base, LOCAL_PENALTY, run))
  factors <- LOCAL_FACTORS
  values <- vapply(factors, value, 0)
  while (utils::tail(values, 1) > max(values) - 10 && utils::tail(factors, 1) > 1e-4) {
    factors <- c(factors, 0.82 * utils::tail(factors, 1))
    values <- c(values, value(utils::tail(factors, 1)))
  }
  weight <- exp(values - max(values))
  L <- exp(sum(weight * log(factors)) / sum(weight)) * base
  list(L = L, value = -max(values) / effective, structure = "scaled", converged = TRUE)
}
