# Layers of ggplot2 for two variables.

#' Densities and highest-density regions in ggplot2
#'
#' Layers that fit a [flash_kde()] to each group in each panel of a ggplot. `stat_flash_density()` draws the density of
#' one variable, like `ggplot2::stat_density()`. `geom_flash_hdr()` fills or outlines the highest-density regions of two
#' variables, like `ggdensity::geom_hdr()`. `stat_flash_density_2d()` computes the density of two variables on a grid.
#'
#' @details **One variable.** Aesthetics: `x`, or `y` for a density along that axis; `weight`, of the rows; `group`,
#' `fill`, `colour`, `alpha`, `linetype` and `linewidth`. Computed variables: `density`; `scaled` and `ndensity`, with
#' maximum 1 in each group; `count`, the density times the number of rows; `wdensity`, times their weight; `n`. All
#' groups of a panel have their densities at the same points (from three bandwidths below the data to three above), so
#' they can be stacked: `position = "stack"` or `"fill"`.
#'
#' **Two variables.** Aesthetics: `x` and `y`; `weight`, of the points; `group`, `fill`, `colour`, `alpha`, `linetype`
#' and `linewidth`. By default `alpha`, or for lines `linetype`, shows the probability, so `fill` and `colour` are
#' free for groups. Each filled band ends at the border of the next inner region, so transparent bands do not add up.
#' `aes(fill = after_stat(probability), alpha = NULL)` gives each band a colour. Computed variables: `probability`, an
#' ordered factor such as `"95%"`, the largest first; `prob`, the number; `level`, the density at the outer border.
#' For `stat_flash_density_2d()`: `density`, `ndensity`, with maximum 1 in each group, and `count`, the density times
#' the number of points.
#'
#' With transformed scales the estimate is for the transformed values, as in all statistics of ggplot2. A group that
#' cannot be fitted, such as a single point, is dropped with a warning.
#' @param mapping,data,position,na.rm,show.legend,inherit.aes As for all layers, see `ggplot2::layer()`.
#' @param geom Geom to draw with: `"area"`, `"line"` and similar ones; `"raster"` or `"tile"` for a grid.
#' @param lines `TRUE` draws the borders of the regions, `FALSE` (default) fills them.
#' @param prob Probabilities of the regions, above 0 and below 1.
#' @param n Number of nodes of the grid per axis. If this is too coarse for the bandwidth, the grid is uneven, as in
#'   [plot.flash_kde()].
#' @param trim Whether each density ends at the range of its group instead of three bandwidths beyond.
#' @param orientation `"x"` or `"y"`, the axis of the variable. `NA` (default): from the aesthetics.
#' @param ... Arguments of [flash_kde()] for the fit of each group: `estimator`, `bandwidth`, `adaptive`, `kernel`,
#'   `support` (called `bounds` in `ggplot2::stat_density()`), `control` and others. Also fixed aesthetics and other
#'   parameters of the layer, such as `fill = "red"` or `linewidth = 1`.
#' @returns A layer, to add to a ggplot.
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
#' @rawRd \concept{ggplot2 layer}\concept{density contours in ggplot2}
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

# ggplot2 is a suggested package, so its objects are created when a layer is.
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

# The fit, or NULL with a warning if fitting fails.
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

# The regions of one group as rings. In a band, the rings of the next inner region are holes.
hdr_bands <- function(data, scales, prob, n, options, lines = FALSE) {
  fit <- fit_group(cbind(x = data$x, y = data$y), data$weight, options)
  if (is.null(fit)) return(data.frame())
  grid <- hdr_grid(shown_part(fit, to_tol = TRUE), prob, n)
  sets <- lapply(grid$levels, \(level) upper_set(grid, level))
  names <- percent_label(prob)
  bands <- lapply(seq_along(prob), \(i) {
    rings <- c(sets[[i]], if (!lines && i < length(prob)) sets[[i + 1]])
    if (length(rings) == 0) return(NULL) # the region lies between the nodes
    ring <- rep(seq_along(rings), vapply(rings, \(ring) length(ring$x), 0L))
    data.frame(
      x = unlist(lapply(rings, `[[`, "x")), y = unlist(lapply(rings, `[[`, "y")),
      probability = factor(names[i], names, ordered = TRUE), prob = prob[i], level = grid$levels[[i]],
      group = factor(paste(data$group[1], i, if (lines) ring else 0, sep = "-")), subgroup = ring
    )
  })
  do.call(rbind, bands)
}

# All groups in panels with a common scale have nodes in common, because a raster has pixels of one size. The fits that
# determine the nodes are passed to density_grid().
grid_layer <- function(self, data, params, layout) {
  finite <- Reduce(`&`, lapply(data[intersect(c("x", "y", "weight"), names(data))], is.finite))
  groups <- split(data[finite, ], interaction(data$PANEL, data$group, drop = TRUE)[finite], drop = TRUE)
  if (all(c("x", "y") %in% names(data)) && length(groups) > 0) {
    fits <- lapply(groups, \(group) fit_group(cbind(x = group$x, y = group$y), group$weight, params$options))
    params$plans <- Map(list, fit = fits, axes = shared_axes(fits, groups, params$n, layout$layout))
  }
  ggplot2::ggproto_parent(ggplot2::Stat, self)$compute_layer(data, params, layout)
}

# The nodes along both axes for each fit (NULL: no fit).
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
