# The integral of the negative part of a Laplace-corrected estimate, and that of its square.

# The negative mass does not depend on the coordinates.
#' @export
negative_mass.mapped <- function(object) negative_mass(object$inner)

#' @export
negative_mass.supported <- function(object) sampled_mass(object)
#' @export
negative_mass.mixed <- function(object) sampled_mass(object)

sampled_mass <- function(object) {
  mass_by_sampling(object, start_run(fit_asked(object), "Integrating the negative part"))
}

#' @export
negative_mass.default <- function(object) {
  grid <- if (object$d <= 2) whitened_grid(object)
  # large sums as those of a figure
  many <- !is.null(grid) && as.double(object$n) * prod(lengths(grid$axes)) > EXACT_FIGURE_PAIRS
  asked <- fit_asked(object)
  if (many) asked$tol <- max(asked$tol, FIGURE_TOL)
  control <- start_run(asked, "Integrating the negative part")
  if (is.null(grid)) mass_by_sampling(object, control) else mass_on_grid(object, grid, control)
}

# ---- grid -------------------------------------------------------------------------------------

# The axes of a regular grid in coordinates u = L^-1 x, where every kernel is a unit Gaussian whatever its scales and
# correlation; 8 of its sds beyond the points, at most 65,536 nodes. NULL where that would be too coarse: the integrand
# has kinks at its zeros, so half an sd is the widest step.
whitened_grid <- function(object) {
  L <- fit_factor(object)
  u <- whiten(object$x[used_rows(object), , drop = FALSE], L)
  most <- if (object$d == 1) 65536 else 256
  step <- if (object$d == 1) 1 / 64 else 1 / 8
  axes <- lapply(seq_len(object$d), function(k) {
    range <- range(u[, k]) + c(-8, 8)
    seq(range[1], range[2], length.out = min(most, ceiling(diff(range) / step)))
  })
  steps <- vapply(axes, \(axis) axis[2] - axis[1], 0)
  if (any(steps > 0.5)) return(NULL)
  list(axes = axes, cell = prod(steps) * prod(diag(L)), L = L)
}

mass_on_grid <- function(object, grid, control) {
  axes <- grid$axes
  if (object$d == 1) axes[[2]] <- 0
  # in chunks: the grid is small, but its copies in C need not be there all at once
  value <- square <- 0
  for (columns in split(axes[[2]], ceiling(seq_along(axes[[2]]) / 64))) {
    u <- as.matrix(expand.grid(axes[[1]], columns))[, seq_len(object$d), drop = FALSE]
    at <- unname(unwhiten(u, grid$L))
    below <- pmax(-signed_density(log_estimate(object, at, FALSE, control)), 0)
    value <- value + sum(below)
    square <- square + sum(below^2)
  }
  list(value = value * grid$cell, method = "grid", se = NA_real_, square = square * grid$cell)
}

# ---- sampling ---------------------------------------------------------------------------------

# Importance sampling: one half of the draws from the KDE with H, the other with a wider kernel,
# since the negative part lies around the points at a distance of sqrt(d + 2) sds and more.
mass_by_sampling <- function(object, control) {
  inflate <- sqrt(1 + 2 / object$d)
  # at most 4e9 pairs, as far as 1,024 draws allow
  half <- ceiling(min(max(2e9 / object$n, 512), 8192))
  draws <- with_fixed_seed(rbind(draw_estimate(object, half), draw_estimate(object, half, inflate)))
  corrected <- log_estimate(object, draws, FALSE, control)
  plain <- log_estimate(object, draws, FALSE, control, factor = PLAIN_FACTOR)
  wide <- inflated(object, inflate)
  wide <- log_estimate(wide, draws, FALSE, control, factor = PLAIN_FACTOR)
  top <- pmax(plain$log_abs, wide$log_abs)
  log_draw <- top + log((exp(plain$log_abs - top) + exp(wide$log_abs - top)) / 2)
  share <- ifelse(corrected$negative, exp(corrected$log_abs - log_draw), 0)
  # the two halves are strata of the same mixture; their spread within gives the error
  variances <- c(stats::var(share[seq_len(half)]), stats::var(share[-seq_len(half)]))
  list(
    value = mean(share), method = "sampling", se = sqrt(sum(variances) / half) / 2,
    square = mean(share * exp(corrected$log_abs))
  )
}

# The density with kernels `inflate` times as wide.
inflated <- function(object, inflate) UseMethod("inflated", object$kind)

#' @export
inflated.default <- function(object, inflate) {
  object$bandwidth <- object$bandwidth * inflate^2
  object
}

#' @export
inflated.supported <- function(object, inflate) {
  object$inner <- inflated(object$inner, inflate)
  NextMethod()
}
