# A layer of ggplot2 for one variable.

#' @rdname geom_flash_hdr
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

# Evaluates the densities of all groups at the nodes of all groups. Columns that are constant in a group are kept.
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
