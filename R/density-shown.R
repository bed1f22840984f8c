# The estimate of some of the variables, for plots and for highest-density levels.

# Evaluations one panel costs, by dimension: the drawn grid and the tiles of hdr_by_tiles().
PANEL_NODES <- c(3e3, 4e4)

# More kernel pairs than this for one figure (about a second on one core with AVX-512), and
# points close to each other are merged first.
MAX_FIGURE_PAIRS <- 2e9

# Figures of more pairs than this are evaluated by the fast engine where that is quicker, to a
# FIGURE_TOL of the largest density: a thousandth of what is still to be seen. Below, every sum is
# exact.
EXACT_FIGURE_PAIRS <- 1e8
FIGURE_TOL <- 1e-6

# `n_panels`: figures that share the budget of pairs, and the work for their levels.
# `to_tol`: whether a large figure may go by the fast engine.
figure_marginal <- function(object, dims = seq_len(object$d), n_panels = 1, to_tol = FALSE) {
  if (!is.null(object$inner)) return(marginal_on_support(object, dims, n_panels, to_tol))
  if (length(dims) < object$d) object <- marginal_of(object, dims)
  h <- object$bandwidth
  lower <- lower_factor(h, "bandwidth")
  k <- object$d
  # Points without weight are no part of the estimate: neither need they be finite after
  # debiasing, nor may they claim room on a grid.
  used <- used_rows(object)
  out <- list(
    x = unname(shown_points(object)[used, , drop = FALSE]),
    data = object$x[used, , drop = FALSE],
    weights = object$weights[used],
    factors = (if (is_balloon(object)) object$adaptive$at_points else object$adaptive$factors)[used],
    balloon = is_balloon(object),
    lower = lower, kernel = fit_kernel(object),
    sds = bandwidth_sds(h),
    clipped = is_clipped(object), log_clip = log_clip(object),
    signed = is_signed(object), factor = estimator_of(object)$factor(k),
    log_norm = log_kernel_norm(lower) - log(total_weight(object)),
    control = fit_control(object), n_panels = n_panels
  )
  if (to_tol && k <= 2 && nrow(out$x) * PANEL_NODES[k] * n_panels > EXACT_FIGURE_PAIRS) {
    out$control <- figure_control(object)
  }
  may_merge <- k <= 2 && !out$balloon && !is_compact(out$kernel)
  if (may_merge && nrow(out$x) * PANEL_NODES[k] * n_panels > MAX_FIGURE_PAIRS) {
    out <- merge_points(out)
  }
  out$sources <- sum_sources(
    out$x, out$weights, lower, out$kernel, plan = new_plan(), factors = if (!out$balloon) out$factors,
    target_factors = balloon_widths(object)
  )
  out
}

# The fit's own tolerance counts where it is wider.
figure_control <- function(object) {
  asked <- fit_asked(object)
  asked$tol <- max(asked$tol, FIGURE_TOL)
  run_control(asked)
}

# Density of a figure_marginal() at the rows of `at`, signed unless the fit is clipped and this is all of it.
marginal_density <- function(marginal, at) {
  density <- signed_density(log_marginal(marginal, at))
  if (marginal$clipped) pmax(density, 0) / exp(marginal$log_clip) else density
}

# The density for a figure, in which values of `least` and above need be right to one percent: without the logarithms
# of tails, which take most of the time.
shown_density <- function(marginal, at, least) {
  sources <- marginal$sources
  control <- marginal$control
  plain <- !marginal$signed && !marginal$balloon && is.null(marginal$map) && !is_compact(marginal$kernel)
  if (!plain || control$tol_type != "global") return(marginal_density(marginal, at))
  on.exit(close_progress(control))
  sums <- plain_log_sum(sources, at, control)
  density <- exp(sums$log_abs + marginal$log_norm)
  if (control$tol * max(density) > 0.01 * least) return(marginal_density(marginal, at))
  density
}

# The density as list(log_abs, negative); with PLAIN_FACTOR the density of the classical estimate.
log_marginal <- function(marginal, at, factor = marginal$factor) {
  on.exit(close_progress(marginal$control))
  if (!is.null(marginal$map)) return(log_marginal_inside(marginal, at, factor))
  sums <- log_sum(marginal$sources, at, factor, FALSE, marginal$control)
  sums$log_abs <- sums$log_abs + marginal$log_norm
  sums
}

# Replaces the points of every cell, a third of a bandwidth wide (in coordinates where H is the
# identity), by their weighted mean. Lone points and ties stay exact; in the bulk the kernel loses
# the variance within a cell, under 1% of its own, where the estimate is smooth at that scale: the
# density changes by less than 1e-3 of its maximum, which no plot shows.
merge_points <- function(marginal, width = 1 / 3) {
  w <- marginal$weights
  if (is.null(w)) w <- rep(1, nrow(marginal$x))
  u <- whiten(marginal$x, marginal$lower)
  if (is.null(marginal$factors)) {
    group <- cell_group(floor(u / width))
  } else {
    # those of one width, in cells as wide for them
    group <- cell_group(cbind(cell_group(floor(u / (width * marginal$factors))), marginal$factors))
    marginal$factors <- marginal$factors[!duplicated(group)]
  }
  sums <- rowsum(cbind(w, w * marginal$x), group, reorder = FALSE)
  marginal$x <- unname(sums[, -1, drop = FALSE] / sums[, 1])
  marginal$weights <- unname(sums[, 1])
  marginal
}

# One number per distinct row of a matrix of whole numbers with one or two columns. Columns are
# coded first: a far outlier gives cell numbers whose products a double could not hold.
cell_group <- function(cell) {
  code <- match(cell[, 1], unique(cell[, 1]))
  if (ncol(cell) == 2) {
    values <- unique(cell[, 2])
    code <- (code - 1) * length(values) + match(cell[, 2], values)
  }
  code
}

# Row indices of at most `most` points, evenly spread over the rows so that R's random numbers stay
# out of it; points without weight are not part of the estimate and not shown.
thinned_rows <- function(fit, most) {
  rows <- which(used_rows(fit))
  if (length(rows) <= most) rows else rows[round(seq(1, length(rows), length.out = most))]
}

# Names for the axes. A vector has no column name; then `x` or `data$x`, as the user wrote it, says
# most.
variable_names <- function(fit) {
  written <- fit$call$x
  if (fit$d == 1 && is.null(fit$names) && (is.name(written) || is_element(written))) {
    return(deparse(written)[1])
  }
  point_names(fit)
}

is_element <- function(written) {
  is.call(written) && is.name(written[[1]]) && as.character(written[[1]]) %in% c("$", "[[", "[")
}
