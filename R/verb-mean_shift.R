# Clusters of points by the mode at the end of their path uphill.

#' @rdname kde_modes
#' @export
mean_shift <- function(object, newdata = NULL, control = NULL) {
  check_smooth(object, "modes")
  field <- shape_field(object, control, "Shifting points")
  starts <- thinned_starts(field, object$x, object$weights, 1)$rows
  known <- top_points(field, climb(field, to_field(field, object$x[starts, , drop = FALSE]))$u)
  known <- only_modes(known)
  own <- settle_ends(field, known, to_field(field, object$x))
  weights <- if (is.null(object$weights)) rep(1, object$n) else object$weights
  count <- tabulate(own$home, nrow(own$known$u))
  weight <- drop(rowsum(c(weights, numeric(length(count))), c(own$home, seq_along(count))))[seq_along(count)]
  rank <- order(-weight, -own$known$log_abs)
  rank <- rank[count[rank] > 0]
  known <- lapply(own$known, keep_rows, rank)
  table <- mode_table(field, known, points = count[rank], share = unname(weight[rank]) / sum(weights))
  clusters <- list(
    cluster = stats::napredict(object$na.action, match(own$home, rank)), modes = table,
    homes = home_radii(field, known), fit = object
  )
  class(clusters) <- "flash_clusters"
  if (is.null(newdata)) return(clusters)
  clusters$newdata <- new_points(object, newdata)
  clusters$cluster <- stats::predict(clusters, clusters$newdata, control = control)
  clusters
}

# Drops stationary points that are no modes; keeps all if none is a mode, as for points on a line.
only_modes <- function(known) {
  tops <- which(known$curvature[, 1] < 0)
  if (length(tops) == 0) return(known)
  some_tops(known, tops)
}

# list(home, known): the number of the mode of each row. Ends that are at none of the known modes become modes.
settle_ends <- function(field, known, u) {
  known$of <- NULL
  found <- climb(field, u, home_radii(field, known))
  lost <- which(found$home == 0)
  if (length(lost) == 0) return(list(home = found$home, known = known))
  new <- top_points(field, found$u[lost, , drop = FALSE])
  # the end may be the top of a known mode that was reached from outside its radius
  again <- nearest_home(field, new$u, list(u = known$u, radius = 0.05 * sqrt(known$width2)))
  fresh <- which(again == 0)
  again[fresh] <- nrow(known$u) + seq_along(fresh)
  found$home[lost] <- again[new$of]
  new$of <- NULL
  join <- \(old, new) if (is.matrix(old)) rbind(old, keep_rows(new, fresh)) else c(old, new[fresh])
  joined <- Map(join, known, new)
  list(home = found$home, known = joined)
}

# list(u, radius): `radius` is half of the largest radius tried around each mode such that, there and at all smaller
# radii tried, the density falls outwards in all directions tried. From inside, the gradient leads to the mode.
home_radii <- function(field, known) {
  d <- ncol(known$u)
  radii <- 0.1 * 2^(0:4)
  half <- rbind(diag(d), if (d > 1 && d <= 10) both_diagonals(d))
  ways <- rbind(half, -half)
  falls <- vapply(radii, function(radius) {
    reach <- radius * sqrt(known$width2)
    rows <- rep(seq_len(nrow(known$u)), each = nrow(ways))
    outwards <- ways[rep(seq_len(nrow(ways)), nrow(known$u)), , drop = FALSE]
    here <- slopes_at(field, known$u[rows, , drop = FALSE] + reach[rows] * outwards)
    colSums(matrix(rowSums(here$score * outwards) >= 0, nrow(ways))) == 0
  }, logical(nrow(known$u)))
  good <- apply(matrix(falls, nrow(known$u)), 1, \(fell) sum(cumprod(fell)))
  list(u = known$u, radius = c(0.02, radii / 2)[good + 1] * sqrt(known$width2))
}

both_diagonals <- function(d) {
  pairs <- utils::combn(d, 2)
  axes <- diag(d) / sqrt(2)
  rbind(
    axes[pairs[1, ], , drop = FALSE] + axes[pairs[2, ], , drop = FALSE],
    axes[pairs[1, ], , drop = FALSE] - axes[pairs[2, ], , drop = FALSE]
  )
}

# ---- methods ----------------------------------------------------------------------------------

#' @rdname kde_modes
#' @export
predict.flash_clusters <- function(object, newdata, control = NULL, ...) {
  check_dots_empty(...)
  if (missing(newdata) || is.null(newdata)) return(object$cluster)
  fit <- object$fit
  field <- shape_field(fit, control, "Shifting points")
  kept <- newdata_rows(new_points(fit, newdata), stats::na.pass)
  found <- climb(field, to_field(field, kept$points), object$homes)
  lost <- which(found$home == 0)
  if (length(lost) > 0) {
    ends <- polish(field, found$u[lost, , drop = FALSE])
    width2 <- slopes_at(field, object$homes$u)$width2
    found$home[lost] <- nearest_home(field, ends, list(u = object$homes$u, radius = 0.05 * sqrt(width2)))
  }
  as.integer(kept$restore(replace(found$home, found$home == 0, NA), NA))
}

#' @rdname kde_modes
#' @export
print.flash_clusters <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  count <- nrow(x$modes)
  cat("Clusters by the mode above each point: ", count, ngettext(count, " cluster", " clusters"), " of ",
    format(x$fit$n, big.mark = ","), " points\n\n", sep = "")
  # columns of the points, density, points and share
  shown <- utils::head(x$modes[seq_len(x$fit$d + 3)], 10)
  print(shown, digits = check_digits(digits))
  if (count > 10) cat("... and", count - 10, "more\n")
  invisible(x)
}

#' @rdname kde_modes
#' @importFrom stats predict
#' @export
plot.flash_clusters <- function(x, dims = NULL, ...) {
  fit <- x$fit
  if (is.null(dims)) dims <- seq_len(min(fit$d, 6))
  if (!is.numeric(dims) || length(dims) == 0 || !all(dims %in% seq_len(fit$d))) {
    stop_argument("dims", "must be numbers of columns, from 1 to ", fit$d, ": found ", describe(dims))
  }
  points <- if (is.null(x$newdata)) fit$x else x$newdata
  cluster <- x$cluster
  if (is.null(x$newdata) && length(cluster) > nrow(points)) cluster <- cluster[-fit$na.action]
  rows <- sort(with_fixed_seed(sample.int(nrow(points), min(nrow(points), 10000))))
  shown <- points[rows, dims, drop = FALSE]
  colnames(shown) <- variable_names(fit)[dims]
  count <- nrow(x$modes)
  look <- list(
    pch = 16, cex = 0.8, col = cluster_colours(cluster[rows]),
    main = paste(count, if (count == 1) "cluster" else "clusters", "by the modes above")
  )
  look <- utils::modifyList(look, list(...))
  if (length(dims) > 2) {
    do.call(graphics::pairs, c(list(shown, gap = 0.4), look))
  } else if (length(dims) == 2) {
    do.call(graphics::plot, c(list(shown), look))
    graphics::points(x$modes[, dims], pch = 3, cex = 1.4, lwd = 2)
  } else {
    Density <- predict(fit, points[rows, , drop = FALSE])
    do.call(graphics::plot, c(list(cbind(shown, Density)), look))
  }
  invisible(x)
}

# The first eight clusters have a colour each, the others are grey.
cluster_colours <- function(cluster) {
  own <- grDevices::hcl.colors(8, "Dark 3")[c(1, 6, 3, 8, 5, 2, 7, 4)]
  grDevices::adjustcolor(ifelse(is.na(cluster) | cluster > 8, "grey60", own[pmin(cluster, 8)]), 0.7)
}
