# Until the real ones are merged.
CENTER_METHODS <- c("uniform", "rpcholesky", "leverage", "kmeans++")
choose_centers <- function(rows, number, method, weights, L, kernel, run) {
  if (is.matrix(number)) return(list(points = number, index = NULL, merged = 0))
  index <- if (length(number) > 1) number else sample.int(rows$n, min(number, rows$n))
  list(points = rows_take(rows, index), index = index, merged = 0)
}
