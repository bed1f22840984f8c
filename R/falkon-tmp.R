# Until the real ones are merged.
fit_exact <- function(problem, spec, run) {
  spec$centers <- seq_len(problem$rows$n)
  fit_by_centers(problem, spec, run)
}
