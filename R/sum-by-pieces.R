# Sums of a fit whose points are a big.matrix. It is read in pieces; each piece of the targets is summed over each piece
# of the sources.

#' @export
class_of_place.big.matrix <- function(points) c("sources_in_pieces", "grouped_sources")

#' @export
log_sum.sources_in_pieces <- function(sources, at, factor, loo, control) {
  if (goes_by_sums(factor, loo, control)) return(log_of_sums(sources, at, control))
  sum_over(sources, at, loo, control, log_verb(factor))
}

big_pieces <- function(x) row_pieces(x, chunk_size(NULL, ncol(x)))

#' @export
groups_of.sources_in_pieces <- function(sources, at, loo, control) {
  points <- sources$points
  pieces <- big_pieces(points)
  work <- vapply(pieces, \(piece) diff(piece) + 1, 0) / nrow(points)
  read <- \(piece) read_rows(points, piece, "object", ncol(points), colnames(points))
  group <- if (is.null(at)) {
    \(i) list(
      sources = replace(sources, "at_piece", pieces[i]), y = read(pieces[[i]]), loo = TRUE,
      targets = pieces[[i]][1]:pieces[[i]][2]
    )
  } else {
    \(i) {
      rows <- pieces[[i]][1]:pieces[[i]][2]
      weights <- sources$weights[rows]
      if (!is.null(weights) && all(weights == 0)) return(NULL)
      own <- identical(pieces[[i]], sources$at_piece)
      discrete <- discrete_rows(sources$discrete, rows)
      list(
        sources = remade(
          sources,
          points = if (own) at else read(pieces[[i]]), weights = weights, plan = NULL, factors = sources$factors[rows],
          discrete = discrete
        ),
        y = if (!own) at
      )
    }
  }
  list(adds = !is.null(at), work = work, m = targets_count(sources, at), d = ncol(points), group = group)
}

# Returns logarithms of sums with a tolerance, by one grid for all points if that is fastest. Sums that are below four
# times the tolerance are recomputed exactly.
log_of_sums <- function(sources, at, control, result = sum_kernels(sources, at, NULL, control)) {
  log_abs <- log(as.vector(result$sums))
  low <- which(!(result$sums > 4 * control$tol * max(result$sums)))
  if (length(low) > 0) {
    rows <- (if (is.null(at)) sources$points else at)[low, , drop = FALSE]
    control$tol <- 0
    again <- log_sum(sources, rows, PLAIN_FACTOR, FALSE, control)
    log_abs[low] <- again$log_abs
  }
  list(log_abs = log_abs, stats = result$stats)
}
