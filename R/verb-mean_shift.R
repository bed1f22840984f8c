# Clusters of points by the mode at the end of their path uphill.

#' @rdname kde_modes
#' @export
mean_shift <- function(object, newdata = NULL, control = NULL) {
  check_smooth(object, "modes")
  weights <- kernel_weights(object)
  cells <- lapply(density_cells(object, own_places(object)), \(cell) {
    field <- shape_field(cell$fit, control, "Shifting points")
    starts <- thinned_starts(field, cell$fit$x, cell$fit$weights, 1)$rows
    known <- top_points(field, climb(field, to_field(field, cell$fit$x[starts, , drop = FALSE]))$u)
    own <- settle_ends(field, only_modes(known), to_field(field, object$x[cell$rows, , drop = FALSE]))
    count <- tabulate(own$home, nrow(own$known$u))
    weight <- weight_by(weights[cell$rows], own$home, length(count))
    c(cell, own, list(field = field, count = count, weight = weight, log_abs = own$known$log_abs + log(cell$share)))
  })
  all <- \(part) unlist(lapply(cells, `[[`, part))
  rank <- order(-all("weight"), -all("log_abs"))
  rank <- rank[all("count")[rank] > 0]
  cells <- numbered(cells, match(seq_along(all("count")), rank))
  tables <- lapply(cells, \(cell) {
    table <- mode_table(cell$field, cell$known, points = cell$count, share = cell$weight / sum(weights))
    in_cell(object, cell, table)
  })
  cluster <- integer(object$n)
  for (cell in cells) cluster[cell$rows] <- cell$home
  clusters <- list(
    cluster = stats::napredict(object$na.action, cluster),
    modes = `rownames<-`(do.call(rbind, tables)[order(all("number")[all("number") > 0]), ], NULL),
    cells = lapply(cells, \(cell) c(cell[c("fit", "codes", "number")], list(homes = home_radii(cell$field, cell$known)))),
    fit = object
  )
  class(clusters) <- "flash_clusters"
  if (is.null(newdata)) return(clusters)
  clusters$newdata <- new_points(object, newdata)
  clusters$cluster <- stats::predict(clusters, newdata, control = control)
  clusters
}

# The modes of each cell that have a number, the highest first, and the points by these numbers. `number`: of the modes of all
# cells, NA for those without points.
numbered <- function(cells, number) {
  of <- split(number, rep(seq_along(cells), vapply(cells, \(cell) length(cell$count), 0L)))
  Map(\(cell, number) {
    cell$home <- number[cell$home]
    kept <- order(number, na.last = NA)
    cell$number <- number[kept]
    cell[c("count", "weight")] <- lapply(cell[c("count", "weight")], `[`, kept)
    cell$known <- lapply(cell$known, keep_rows, kept)
    cell
  }, cells, unname(of))
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
  kept <- newdata_rows(new_points(fit, newdata), stats::na.pass)
  cluster <- rep(NA_integer_, nrow(kept$points))
  known <- lapply(object$cells, `[[`, "codes")
  for (cell in density_cells(fit, kept$points)) {
    own <- object$cells[match(list(cell$codes), known)][[1]]
    if (is.null(own)) next # no points of the fit have these categories
    field <- shape_field(own$fit, control, "Shifting points")
    found <- climb(field, to_field(field, kept$points[cell$rows, seq_len(fit$d), drop = FALSE]), own$homes)
    lost <- which(found$home == 0)
    if (length(lost) > 0) {
      ends <- polish(field, found$u[lost, , drop = FALSE])
      width2 <- slopes_at(field, own$homes$u)$width2
      found$home[lost] <- nearest_home(field, ends, list(u = own$homes$u, radius = 0.05 * sqrt(width2)))
    }
    cluster[cell$rows] <- own$number[replace(found$home, found$home == 0, NA)]
  }
  as.integer(kept$restore(cluster, NA))
}

#' @rdname kde_modes
#' @export
print.flash_clusters <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  count <- nrow(x$modes)
  cat("Clusters by the mode above each point: ", count, ngettext(count, " cluster", " clusters"), " of ",
    format(x$fit$n, big.mark = ","), " points\n\n", sep = "")
  # columns of the points, density, points and share
  shown <- utils::head(x$modes[seq_len(length(all_names(x$fit)) + 3)], 10)
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
  points <- if (is.null(x$newdata)) own_places(fit) else x$newdata
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
    graphics::points(x$modes[point_names(fit)[dims]], pch = 3, cex = 1.4, lwd = 2)
  } else {
    Density <- predict(fit, points_frame(fit, points[rows, , drop = FALSE]))
    do.call(graphics::plot, c(list(cbind(shown, Density)), look))
  }
  invisible(x)
}

# The first eight clusters have a colour each, the others are grey.
cluster_colours <- function(cluster) {
  own <- grDevices::hcl.colors(8, "Dark 3")[c(1, 6, 3, 8, 5, 2, 7, 4)]
  grDevices::adjustcolor(ifelse(is.na(cluster) | cluster > 8, "grey60", own[pmin(cluster, 8)]), 0.7)
}
