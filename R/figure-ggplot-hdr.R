# Layers of ggplot2 for two variables.

#' Densities and highest-density regions in ggplot2
#'
#' Layers that fit a [flash_kde()] to the values of each group in each panel. `stat_flash_density()` has the density of
#' one variable, as `ggplot2::stat_density()` has that of [stats::density()]. `geom_flash_hdr()` fills the smallest
#' regions of two that hold the given probabilities, as `ggdensity::geom_hdr()` does, or draws their borders.
#' `stat_flash_density_2d()` has the density of two on a grid.
#'
#' @details **One variable.** Aesthetics: `x`, or `y` for a density along that axis; `weight`, of the values; `group`,
#'   `fill`, `colour`, `alpha`, `linetype` and `linewidth`. Computed: `density`; `scaled` and `ndensity`, of which the
#'   largest in a group is 1; `count`, the density times the number of values; `wdensity`, times their weight; `n`. All
#'   groups of a panel have their densities at the same places, those that plots of each would have (three bandwidths
#'   beyond the data), so that they can be stacked: `position = "stack"` or `"fill"`.
#'
#' **Two variables.** Aesthetics: `x` and `y`; `weight`, of the points; `group`, `fill`, `colour`, `alpha`, `linetype`
#' and `linewidth`. By default `alpha` shows the probability, or for lines the `linetype`, so that `fill` and `colour`
#' are free for groups. Each filled band reaches from the border of one region to the border of the next region within
#' it, so transparent bands do not add up. `aes(fill = after_stat(probability), alpha = NULL)` gives each a colour of
#' its own. Computed: `probability`, an ordered factor of `"95%"` and the like, the largest first; `prob`, the same as
#' a number; `level`, the density at the outer border. `stat_flash_density_2d()`: `density`, `ndensity`, of which the
#' largest in a group is 1, and `count`, the density times the number of points.
#'
#' Where scales are transformed, the estimate is that of the transformed values, as in all statistics of ggplot2. A
#' group to which nothing can be fitted, as one point, is left out with a warning.
#' @param mapping,data,position,na.rm,show.legend,inherit.aes As for all layers: see `ggplot2::layer()`.
#' @param geom What draws: `"area"`, `"line"` and the like; `"raster"` and `"tile"` draw a grid.
#' @param lines `TRUE` draws the borders of the regions, `FALSE` fills them.
#' @param prob Probabilities of the regions, above 0 and below 1.
#' @param n Nodes of the grid per axis. Where it would be too coarse for the bandwidth, it is uneven, as in
#'   [plot.flash_kde()].
#' @param trim Whether each density ends where the data of its group do, not three bandwidths beyond.
#' @param orientation `NA`, or `"x"` or `"y"`, the axis of the variable, where that is not clear.
#' @param ... Arguments of [flash_kde()] for the fit of each group: `estimator`, `bandwidth`, `adaptive`, `kernel`,
#'   `support` (what `ggplot2::stat_density()` calls `bounds`), `control` and others. Also fixed aesthetics and other
#'   parameters of the layer, as `fill = "red"` or `linewidth = 1`.
#' @returns A layer, to add to a plot of ggplot2.
#' @seealso [hdr_regions()], the regions as data; [autoplot.flash_kde()] for a figure of one fit.
#' @examplesIf requireNamespace("ggplot2", quietly = TRUE)
#' library(ggplot2)
#' ggplot(iris, aes(Sepal.Length, fill = Species)) +
#'   stat_flash_density(alpha = 0.5)
#'
#' ggplot(faithful, aes(eruptions, waiting)) +
#'   geom_flash_hdr(fill = "darkblue") +
#'   geom_point(size = 0.5)
#'
#' ggplot(iris, aes(Petal.Length, Petal.Width, fill = Species)) +
#'   geom_flash_hdr(prob = c(0.5, 0.9), estimator = "kde")
#' @export
geom_flash_hdr <- function(mapping = NULL, data = NULL, position = "identity", ..., lines = FALSE,
                           prob = c(0.25, 0.5, 0.75, 0.95), n = 151, na.rm = FALSE, show.legend = NA,
                           inherit.aes = TRUE) {
  need_ggplot2()
  lines <- check_flag(lines, "lines")
  prob <- sort(unique(check_prob(prob, "prob", open = TRUE)), decreasing = TRUE)
  after_stat <- ggplot2::after_stat # aes() looks for it here
  at_probability <- if (lines) {
    ggplot2::aes(linetype = after_stat(.data$probability), weight = NULL)
  } else {
    ggplot2::aes(alpha = after_stat(.data$probability), weight = NULL)
  }
  stat <- new_stat("StatFlashHdr", hdr_bands, c("x", "y"), at_probability)
  params <- layer_params(..., prob = prob, n = check_count(n, "n", min = 10), lines = lines, na.rm = na.rm)
  geom <- if (lines) "path" else "polygon"
  ggplot2::layer(geom, stat, data, mapping, position, params, inherit.aes, show.legend = show.legend)
}

#' @rdname geom_flash_hdr
#' @export
stat_flash_density_2d <- function(mapping = NULL, data = NULL, geom = "raster", position = "identity", ...,
                                  n = 101, na.rm = FALSE, show.legend = NA, inherit.aes = TRUE) {
  need_ggplot2()
  after_stat <- ggplot2::after_stat # aes() looks for it here
  at_density <- ggplot2::aes(fill = after_stat(.data$density), weight = NULL)
  stat <- new_stat(
    "StatFlashDensity2d", density_grid, c("x", "y"), at_density,
    compute_layer = grid_layer, extra_params = c("na.rm", "options")
  )
  params <- layer_params(..., n = check_count(n, "n", min = 2), na.rm = na.rm)
  ggplot2::layer(geom, stat, data, mapping, position, params, inherit.aes, show.legend = show.legend)
}

# ---- what all layers share --------------------------------------------------------------------

need_ggplot2 <- function() {
  if (requireNamespace("ggplot2", quietly = TRUE)) return(invisible())
  why <- "this layer needs the package ggplot2: install.packages(\"ggplot2\")"
  stop(new_error("unsupported", why, user_call()))
}

# ggplot2 is not imported: its objects are made when a layer is.
new_stat <- function(name, compute_group, required, default_aes, ...) {
  ggplot2::ggproto(
    name, ggplot2::Stat, compute_group = compute_group, required_aes = required, default_aes = default_aes,
    dropped_aes = "weight", non_missing_aes = "weight", ...
  )
}

# The parameters of a layer; those of `...` that are arguments of flash_kde() become its `options`.
layer_params <- function(...) {
  given <- list(...)
  for_fit <- names(given) %in% setdiff(names(formals(flash_kde.default)), c("x", "weights", "na.action", "..."))
  options <- given[for_fit]
  if (!is.null(options$estimator)) check_estimator(options$estimator)
  c(given[!for_fit], list(options = options[lengths(options) > 0]))
}

# NULL, with a warning, where there can be none.
fit_group <- function(points, weights, options) {
  tryCatch(
    do.call(flash_kde, c(list(points, weights = weights), options)),
    flashkernel_error = \(e) {
      warning("a group of ", nrow(points), " points was left out: ", conditionMessage(e), call. = FALSE)
      NULL
    }
  )
}

# ---- statistics -------------------------------------------------------------------------------

# Regions of one group, as rings. In a band, those of the next region within it are holes.
hdr_bands <- function(data, scales, prob, n, options, lines = FALSE) {
  fit <- fit_group(cbind(x = data$x, y = data$y), data$weight, options)
  if (is.null(fit)) return(data.frame())
  grid <- hdr_grid(shown_part(fit, to_tol = TRUE), prob, n)
  sets <- lapply(grid$levels, \(level) upper_set(grid, level))
  names <- percent_label(prob)
  bands <- lapply(seq_along(prob), \(i) {
    rings <- c(sets[[i]], if (!lines && i < length(prob)) sets[[i + 1]])
    if (length(rings) == 0) return(NULL) # between the nodes
    ring <- rep(seq_along(rings), vapply(rings, \(ring) length(ring$x), 0L))
    data.frame(
      x = unlist(lapply(rings, `[[`, "x")), y = unlist(lapply(rings, `[[`, "y")),
      probability = factor(names[i], names, ordered = TRUE), prob = prob[i], level = grid$levels[[i]],
      group = factor(paste(data$group[1], i, if (lines) ring else 0, sep = "-")), subgroup = ring
    )
  })
  do.call(rbind, bands)
}

# All groups whose panels have one scale have nodes in common: a raster has pixels of one size. The fits that tell where
# those are go on to density_grid().
grid_layer <- function(self, data, params, layout) {
  finite <- Reduce(`&`, lapply(data[intersect(c("x", "y", "weight"), names(data))], is.finite))
  groups <- split(data[finite, ], interaction(data$PANEL, data$group, drop = TRUE)[finite], drop = TRUE)
  if (all(c("x", "y") %in% names(data)) && length(groups) > 0) {
    fits <- lapply(groups, \(group) fit_group(cbind(x = group$x, y = group$y), group$weight, params$options))
    params$plans <- Map(list, fit = fits, axes = shared_axes(fits, groups, params$n, layout$layout))
  }
  ggplot2::ggproto_parent(ggplot2::Stat, self)$compute_layer(data, params, layout)
}

# Of each fit (NULL: none) the nodes along both axes.
shared_axes <- function(fits, groups, n, panels) {
  there <- which(lengths(fits) > 0)
  own <- lapply(fits[there], grid_axes, size = 2)
  panel <- match(vapply(groups[there], \(group) group$PANEL[1], groups[[1]]$PANEL[1]), panels$PANEL)
  axes <- lapply(1:2, \(k) {
    ends <- vapply(own, `[[`, numeric(2), k)
    scale <- panels[[c("SCALE_X", "SCALE_Y")[k]]][panel]
    lapply(scale, \(s) seq(min(ends[, scale == s]), max(ends[, scale == s]), length.out = n))
  })
  replace(vector("list", length(fits)), there, Map(list, axes[[1]], axes[[2]]))
}

density_grid <- function(data, scales, n, plans) {
  plan <- plans[[paste(data$PANEL[1], data$group[1], sep = ".")]]
  if (is.null(plan$fit)) return(data.frame())
  grid <- estimate_on_grid(plan$fit, n, plan$axes)
  density <- signed_density(grid$estimate)
  data.frame(
    x = grid$at[, 1], y = grid$at[, 2], density = density, ndensity = density / max(density),
    count = plan$fit$n * density
  )
}
