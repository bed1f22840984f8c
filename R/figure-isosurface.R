# Surfaces of equal density of three variables.

# `device`: "isosurface" for that of R's graphics, "rgl" or "plotly". Returns the surfaces, or a widget of plotly.
plot_isosurface <- function(fit, prob, n_grid, device, look) {
  if (fit$d != 3) {
    stop_argument("type", "must be \"density\" for other than three variables: found \"", device, "\" for ", fit$d)
  }
  if (device != "isosurface" && !requireNamespace(device, quietly = TRUE)) {
    why <- paste0("this needs the package ", device, ": type = \"isosurface\" draws without it")
    stop(new_error("unsupported", why, user_call()))
  }
  surfaces <- isosurfaces(fit, prob, n_grid)
  if (sum(lengths(surfaces$triangles)) == 0) {
    stop_argument("prob", "must be larger: its regions lie between the nodes of the grid (see `n_grid`)")
  }
  colours <- region_colours(length(prob), look$col)
  if (is.null(look$main)) look$main <- paste("Density of", paste(names(surfaces$axes), collapse = ", "))
  if (is.null(look$sub)) look$sub <- fit_subtitle(fit)
  if (device == "plotly") return(plotly_surfaces(surfaces, colours, look))
  if (device == "rgl") rgl_surfaces(surfaces, colours, look) else draw_surfaces(surfaces, colours, look)
  invisible(surfaces)
}

# list(axes, levels, triangles): the outermost first; of each a matrix of three rows for a triangle, a row for each
# corner.
isosurfaces <- function(fit, prob, size) {
  marginal <- figure_marginal(fit)
  axes <- lapply(1:3, \(axis) marginal_nodes(marginal, axis, grid_range(marginal, axis), size))
  names(axes) <- variable_names(fit)
  check_memory(BYTES_PER_NODE * prod(lengths(axes)), "n_grid")
  density <- array(marginal_density(marginal, unname(as.matrix(expand.grid(axes)))), lengths(axes))
  levels <- sort(hdr_level(fit, prob))
  # closed where a region leaves the grid
  padded <- array(below_all(density), lengths(axes) + 2)
  inner <- lapply(lengths(axes), \(n) seq_len(n) + 1)
  padded[inner[[1]], inner[[2]], inner[[3]]] <- density
  triangles <- lapply(levels, \(level) level_triangles(lapply(axes, pad_axis), padded, level))
  list(axes = axes, levels = levels, triangles = triangles)
}

# ---- triangles --------------------------------------------------------------------------------

# Marching tetrahedra: the six of a cube around its diagonal, by their corners, numbered x + 2 y + 4 z from 0.
# Unlike cubes they leave no choice, and so no holes.
TETRAHEDRA <- rbind(c(0, 1, 3, 7), c(0, 1, 5, 7), c(0, 2, 3, 7), c(0, 2, 6, 7), c(0, 4, 5, 7), c(0, 4, 6, 7))

# The border of the set where the density is at least `level`, linear in each tetrahedron. `axes`: nodes of the
# array.
level_triangles <- function(axes, density, level) {
  size <- dim(density)
  inside <- density >= level
  stride <- c(1, size[1], size[1] * size[2])
  base <- as.matrix(expand.grid(lapply(size, \(n) seq_len(n - 1) - 1))) %*% stride + 1
  corner <- as.matrix(expand.grid(0:1, 0:1, 0:1)) %*% stride
  within <- rowSums(matrix(inside[outer(as.vector(base), as.vector(corner), "+")], length(base)))
  base <- base[within > 0 & within < 8]
  edges <- lapply(seq_len(nrow(TETRAHEDRA)), \(k) {
    at <- outer(base, corner[TETRAHEDRA[k, ] + 1], "+")
    tetrahedron_edges(at, matrix(inside[at], length(base)))
  })
  edge_points(axes, density, level, do.call(rbind, edges))
}

# The edges on which the corners of triangles lie, a row each: two nodes. `at`: nodes of tetrahedra, a row each.
tetrahedron_edges <- function(at, inside) {
  count <- rowSums(inside)
  # one corner is on the other side than three
  alone <- which(count == 1 | count == 3)
  odd <- max.col(inside[alone, , drop = FALSE] == (count[alone] == 1), "first")
  one <- at[cbind(alone, odd)]
  others <- matrix(t(at[alone, , drop = FALSE])[t(col(at[alone, , drop = FALSE]) != odd)], 3)
  single <- cbind(rep(one, each = 3), as.vector(others))
  # two are on each side: a four-sided figure, as two triangles
  even <- which(count == 2)
  pick <- \(side) matrix(t(at[even, , drop = FALSE])[t(inside[even, , drop = FALSE] == side)], 2)
  a <- pick(TRUE)
  b <- pick(FALSE)
  from <- rbind(a[1, ], a[1, ], a[2, ], a[1, ], a[2, ], a[2, ])
  to <- rbind(b[1, ], b[2, ], b[2, ], b[1, ], b[2, ], b[1, ])
  rbind(single, cbind(as.vector(from), as.vector(to)))
}

edge_points <- function(axes, density, level, edges) {
  share <- (level - density[edges[, 1]]) / (density[edges[, 2]] - density[edges[, 1]])
  index <- \(nodes) arrayInd(nodes, dim(density))
  from <- index(edges[, 1])
  to <- index(edges[, 2])
  points <- vapply(1:3, \(k) {
    axis <- axes[[k]]
    axis[from[, k]] + share * (axis[to[, k]] - axis[from[, k]])
  }, numeric(nrow(edges)))
  matrix(points, ncol = 3, dimnames = list(NULL, names(axes)))
}

# ---- devices ----------------------------------------------------------------------------------

surface_opacity <- function(n) seq(0.25, 0.75, length.out = n + 1)[-1] / max(1, n / 3)

# The furthest triangles first, the lighter the more they face the light.
draw_surfaces <- function(surfaces, colours, look, theta = 35, phi = 20) {
  points <- do.call(rbind, surfaces$triangles)
  limits <- apply(points, 2, range)
  names <- names(surfaces$axes)
  old <- graphics::par(mar = c(1, 1.5, 3, 1))
  on.exit(graphics::par(old))
  view <- graphics::persp(
    limits[, 1], limits[, 2], matrix(limits[1, 3], 2, 2), zlim = limits[, 3], theta = theta, phi = phi, r = 4,
    col = NA, border = NA, ticktype = "detailed", xlab = names[1], ylab = names[2], zlab = names[3],
    cex.axis = 0.7, nticks = 4
  )
  surface <- rep(seq_along(colours), vapply(surfaces$triangles, nrow, 0L))[c(TRUE, FALSE, FALSE)]
  unit <- sweep(sweep(points, 2, limits[1, ]), 2, limits[2, ] - limits[1, ], "/")
  seen <- cbind(points, 1) %*% view
  depth <- colMeans(matrix(seen[, 3] / seen[, 4], 3))
  ink <- shaded(colours[surface], facing(unit), surface_opacity(length(colours))[surface])
  order <- order(depth)
  rows <- as.vector(rbind(outer(1:3, 3 * (order - 1), "+"), NA))
  graphics::polygon(seen[rows, 1] / seen[rows, 4], seen[rows, 2] / seen[rows, 4], col = ink[order], border = NA)
  draw_titles(look$main, look$sub)
  shown <- rbind(seen, cbind(box_edges(limits), 1) %*% view)
  draw_region_key(rev(names(surfaces$levels)), rev(colours), shown[, 1:2] / shown[, 4])
}

# Points along the edges of a box; `limits`: a column for each variable.
box_edges <- function(limits) {
  unit <- as.matrix(expand.grid(rep(list(seq(0, 1, 0.05)), 3)))
  edges <- unit[rowSums(unit == 0 | unit == 1) >= 2, ]
  sweep(sweep(edges, 2, limits[2, ] - limits[1, ], "*"), 2, limits[1, ], "+")
}

# How much each triangle faces the light, 0 to 1.
facing <- function(points, light = c(-0.4, -0.6, 0.7)) {
  corner <- \(k) points[seq(k, nrow(points), by = 3), , drop = FALSE]
  a <- corner(2) - corner(1)
  b <- corner(3) - corner(1)
  normal <- cbind(
    a[, 2] * b[, 3] - a[, 3] * b[, 2], a[, 3] * b[, 1] - a[, 1] * b[, 3], a[, 1] * b[, 2] - a[, 2] * b[, 1]
  )
  cosine <- abs(normal %*% light) / sqrt(rowSums(normal^2) * sum(light^2))
  as.vector(ifelse(is.nan(cosine), 0, cosine))
}

shaded <- function(colours, light, opacity) {
  rgb <- grDevices::col2rgb(colours) / 255 * rep(0.55 + 0.45 * light, each = 3)
  grDevices::rgb(rgb[1, ], rgb[2, ], rgb[3, ], opacity)
}

rgl_surfaces <- function(surfaces, colours, look) {
  opacity <- surface_opacity(length(colours))
  names <- names(surfaces$axes)
  rgl::open3d()
  for (i in seq_along(colours)) rgl::triangles3d(surfaces$triangles[[i]], color = colours[i], alpha = opacity[i])
  rgl::decorate3d(
    xlab = names[1], ylab = names[2], zlab = names[3], main = look$main, sub = look$sub, aspect = TRUE
  )
}

plotly_surfaces <- function(surfaces, colours, look) {
  opacity <- surface_opacity(length(colours))
  names <- names(surfaces$axes)
  figure <- plotly::plot_ly()
  for (i in seq_along(colours)) {
    points <- surfaces$triangles[[i]]
    first <- seq(0, nrow(points) - 1, by = 3)
    figure <- plotly::add_trace(
      figure, type = "mesh3d", x = points[, 1], y = points[, 2], z = points[, 3], i = first, j = first + 1,
      k = first + 2, facecolor = rep(colours[i], length(first)), opacity = opacity[i],
      name = names(surfaces$levels)[i], showlegend = TRUE, hoverinfo = "name"
    )
  }
  axis <- \(name) list(title = list(text = name))
  plotly::layout(
    figure, title = list(text = look$main), scene = list(
      xaxis = axis(names[1]), yaxis = axis(names[2]), zaxis = axis(names[3]), aspectmode = "cube"
    )
  )
}
