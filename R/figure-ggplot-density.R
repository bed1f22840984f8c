# A layer of ggplot2 for one variable.

#' Densities in ggplot2
#'
#' Fits a [flash_kde()] to the values of each group in each panel, as `ggplot2::stat_density()` does with
#' [stats::density()].
#'
#' @details
#' Aesthetics: `x`, or `y` for a density along that axis; `weight`, of the values; `group`, `fill`, `colour`,
#' `alpha`, `linetype` and `linewidth`. Computed: `density`; `scaled` and `ndensity`, of which the largest in a
#' group is 1; `count`, the density times the number of values; `wdensity`, times their weight; `n`.
#'
#' All groups of a panel have their densities at the same places, those that plots of each would have (three
#' bandwidths beyond the data), so that they can be stacked: `position = "stack"` or `"fill"`. Where scales are
#' transformed, the estimate is that of the transformed values, as in all statistics of ggplot2. A group to which
#' nothing can be fitted, as one value, is left out with a warning.
#' @inheritParams geom_flash_hdr
#' @param geom What draws: `"area"`, `"line"` and the like.
#' @param trim Whether each density ends where the data of its group do, not three bandwidths beyond.
#' @param n Nodes of the grid. Where it would be too coarse for the bandwidth, it is uneven, as in
#'   [plot.flash_kde()].
#' @param ... Arguments of [flash_kde()] for the fit of each group: `estimator`, `bandwidth`, `adaptive`, `kernel`,
#'   `support` (what `ggplot2::stat_density()` calls `bounds`) and `control`. Also fixed aesthetics and other parameters
#'   of the layer, as `fill = "red"`.
#' @param orientation `NA`, or `"x"` or `"y"`, the axis of the variable, where that is not clear.
#' @returns A layer, to add to a plot of ggplot2.
#' @seealso [geom_flash_hdr()] for two variables.
#' @examplesIf requireNamespace("ggplot2", quietly = TRUE)
#' library(ggplot2)
#' ggplot(iris, aes(Sepal.Length, fill = Species)) +
#'   stat_flash_density(alpha = 0.5)
#'
#' ggplot(chickwts, aes(weight, colour = feed)) +
#'   stat_flash_density(geom = "line", estimator = "kde")
#' @export
stat_flash_density <- function(mapping = NULL, data = NULL, geom = "area", position = "identity", ..., n = 512,
                               trim = FALSE, orientation = NA, na.rm = FALSE, show.legend = NA, inherit.aes = TRUE) {
  need_ggplot2()
  after_stat <- ggplot2::after_stat # aes() looks for it here
  at_density <- ggplot2::aes(x = after_stat(.data$density), y = after_stat(.data$density), fill = NA, weight = NULL)
  stat <- new_stat(
    "StatFlashDensity", density_of_group, "x|y", at_density,
    compute_panel = density_panel, setup_params = setup_orientation, extra_params = c("na.rm", "orientation")
  )
  params <- layer_params(
    ..., n = check_count(n, "n", min = 10), trim = check_flag(trim, "trim"), orientation = orientation, na.rm = na.rm
  )
  ggplot2::layer(geom, stat, data, mapping, position, params, inherit.aes, show.legend = show.legend)
}

setup_orientation <- function(data, params) {
  flipped <- ggplot2::has_flipped_aes(data, params, main_is_orthogonal = FALSE, main_is_continuous = TRUE)
  params$flipped_aes <- flipped
  if (is.null(data[[if (flipped) "y" else "x"]])) stop_argument("mapping", "must have the aesthetic x or y")
  params
}

# All groups at the nodes of all. What is the same in a whole group stays with it.
density_panel <- function(self, data, scales, n, trim, options, flipped_aes = FALSE) {
  data <- ggplot2::flip_data(data, flipped_aes)
  groups <- split(data, data$group)
  fits <- lapply(groups, \(group) fit_group(cbind(x = group$x), group$weight, options))
  groups <- groups[lengths(fits) > 0]
  fits <- fits[lengths(fits) > 0]
  if (length(fits) == 0) return(data.frame())
  parts <- lapply(fits, shown_part, to_tol = TRUE)
  nodes <- lapply(parts, \(part) {
    shown_nodes(part$fit, 1, if (trim) range(part$fit$x) else shown_range(part$fit, 1), n, step = 1 / 8)
  })
  at <- sort(unique(unlist(nodes)))
  curves <- lapply(seq_along(fits), \(i) {
    shown <- if (trim) at[at >= min(nodes[[i]]) & at <= max(nodes[[i]])] else at
    curve <- self$compute_group(groups[[i]], scales, parts[[i]], shown)
    same <- vapply(groups[[i]], \(column) length(unique(column)) == 1, NA)
    kept <- setdiff(names(groups[[i]])[same], c(names(curve), "weight"))
    cbind(curve, groups[[i]][rep(1, nrow(curve)), kept, drop = FALSE], row.names = NULL)
  })
  curves <- do.call(rbind, curves)
  curves$flipped_aes <- flipped_aes
  ggplot2::flip_data(curves, flipped_aes)
}

density_of_group <- function(data, scales, part, at) {
  density <- signed_density(log_shown(part, cbind(at)))
  n <- nrow(data)
  weight <- if (is.null(data$weight)) n else sum(data$weight)
  data.frame(
    x = at, density = density, scaled = density / max(density), ndensity = density / max(density),
    count = n * density, wdensity = weight * density, n = n
  )
}
