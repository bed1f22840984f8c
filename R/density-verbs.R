# The verbs of densities. A density is what flash_kde() fits, and its `kind` says what it is; each verb has a method for
# each kind that needs one of its own:
#
# - none ("default"): one sum of kernels over points, in the coordinates of these (density-evaluate.R);
# - "mixed": the same of numbers and categories (density-mixed-*.R);
# - "supported": a density on a bounded or circular range, which holds the density of the working points as `inner`. It is
#   one of "mapped" (transformed columns alone), "imaged" (reflected copies, or kernels divided by their mass inside; on a
#   "polygon" before that, density-polygon.R) and "bent" (a boundary kernel or local likelihood) (density-support-*.R);
# - "clipped": a signed estimate whose negative part is cut off, before the kind of that estimate (density-nonnegative.R).
#
# The kind is a field and not the class of the fit, as `$` of what has a class looks for methods each time.
as_kind <- function(...) if (length(c(...)) > 0) structure(list(), class = c(...))
is_kind <- function(object, kind) inherits(object$kind, kind)

# `at`: a checked matrix of points, or NULL for the points of the fit, and only then may `loo` (leave each point out) be
# TRUE. `control`: of start_run() or run_control(). Methods are not called for no rows of `at`.
has_none <- \(at) !is.null(at) && nrow(at) == 0

# list(log_abs, negative, stats): log|density| and whether it is negative (NULL where it cannot be). `factor`: the
# polynomial that multiplies the kernel.
log_estimate <- function(object, at, loo, control, factor = fit_polynomial(object)) {
  if (has_none(at)) list(log_abs = numeric()) else UseMethod("log_estimate", object$kind)
}

# The gradient of log|density|, m x d.
score_estimate <- function(object, at, loo, control) {
  if (!has_none(at)) UseMethod("score_estimate", object$kind) else
    matrix(0, 0, object$d, dimnames = list(NULL, point_names(object)))
}

# The logarithm of the standard error. `estimate`: of log_estimate() at the same points.
error_estimate <- function(object, at, loo, control, estimate) {
  if (has_none(at)) numeric() else UseMethod("error_estimate", object$kind)
}

# n draws from the density without its polynomial, a row each, with standard deviations `inflate` times those of H.
draw_estimate <- function(object, n, inflate = 1) UseMethod("draw_estimate", object$kind)

# The probability below each finite q, of one column.
probability_below <- function(object, q, control) UseMethod("probability_below", object$kind)

# The quantiles of probabilities strictly between 0 and 1, of one column; and those of 0 and 1.
inner_quantiles <- function(object, probs) UseMethod("inner_quantiles", object$kind)
outer_quantiles <- function(object) UseMethod("outer_quantiles", object$kind)

# The quantiles and the mean of the variable number `axis`, one of several.
quantiles_along <- function(object, axis, probs, run) UseMethod("quantiles_along", object$kind)
mean_along <- function(object, axis, run) UseMethod("mean_along", object$kind)

# Probabilities of rectangles, the rows of two checked matrices; an attribute "error" where they are sampled.
rectangle_probability <- function(object, lower, upper, control) UseMethod("rectangle_probability", object$kind)

# First or second derivatives of the density, or with `log` of its logarithm, m x d^order.
derivative_at <- function(object, at, order, log, loo, control) UseMethod("derivative_at", object$kind)

# The density of the variables `vars`, numbers of columns or their names, the others integrated out.
marginal_of <- function(object, vars, run) UseMethod("marginal_of", object$kind)

# The density of the other variables where those of `at`, of check_given(), have the values there.
conditional_where <- function(object, at, run) UseMethod("conditional_where", object$kind)

# list(value, method, se, square): the integral of the negative part of a signed estimate, and of its square.
negative_mass <- function(object) UseMethod("negative_mass", object$kind)

# A function of row numbers, as negative subscripts: list(sources, centre, stats) of the fit without these; the places
# of all points among these sources; and the logarithm of what the sum there is multiplied by. For SD-KDEs whose points
# move in another way without each of them (density-refits.R); NULL where a formula has the leave-one-out values.
leave_out_refits <- function(object, control) UseMethod("leave_out_refits", object$kind)

# ---- what figures and regions of highest density ask ------------------------------------------

# The limits of the variable number `axis`, `margin` bandwidths beyond the data.
shown_range <- function(object, axis, margin = GRID_MARGIN) UseMethod("shown_range", object$kind)

# About `size` increasing places within `lim`, where a line or a contour is seen to be smooth. `step`: in bandwidths.
shown_nodes <- function(object, axis, lim, size, step = 1 / 2) UseMethod("shown_nodes", object$kind)

# The density, signed, where no more is seen than that values of `least` and above are right to a percent.
seen_density <- function(object, at, least, control) UseMethod("seen_density", object$kind)

# Nearly the same density of fewer kernels.
merged_points <- function(object) UseMethod("merged_points", object$kind)

# The logarithms of the levels of the regions of highest density; `n_samples` and `seed` where they are found by draws.
# `panels`: that share the work.
log_levels <- function(object, prob, control, n_samples, seed, panels = 1) UseMethod("log_levels", object$kind)
