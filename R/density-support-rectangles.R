# Probabilities of rectangles on a domain: what of each is inside, in the working coordinates, which rise with the
# user's.

#' @export
rectangle_probability.bent <- function(object, lower, upper, control) {
  below <- \(q) probability_below(object, q, control)
  pmax(below(upper[, 1]) - below(lower[, 1]), 0)
}

#' @export
rectangle_probability.supported <- function(object, lower, upper, control) {
  domain <- object$support
  within <- function(limits) {
    for (k in seq_len(object$d)) {
      limits[, k] <- pmin(pmax(limits[, k], domain$lower[k]), domain$upper[k])
      if (is_transformed(domain)[k]) limits[, k] <- into_column(limits[, k], domain, k)
    }
    limits
  }
  result <- rectangle_probability(object$inner, within(lower), within(upper), control)
  share <- exp(log_share(object))
  if (!is.null(attr(result, "error"))) attr(result, "error") <- share * attr(result, "error")
  share * result
}
