# The ends of the support of an estimate of one variable.
estimate_ends <- function(object) {
  kernel <- fit_kernel(object)
  if (!is_compact(kernel)) return(c(-Inf, Inf))
  used <- used_rows(object)
  centres <- fit_points(object)[used, 1]
  factors <- object$adaptive$factors
  reach <- kernel$reach * sqrt(object$bandwidth[1, 1]) * if (is.null(factors)) 1 else factors[used]
  from_origin(object, c(min(centres - reach), max(centres + reach)))
}

# overlap_sums() for kernels with bounded support, in units of the height of the Gaussian kernel of 2H.
compact_overlap_sums <- function(object, w, control) {
  kernel <- fit_kernel(object)
  unit <- (sqrt(4 * pi) / kernel$reach)^object$d
  each <- overlap_kernel_sums(fit_points(object), w, fit_factor(object), kernel, control)
  list(each = unit * each, own = rep(unit * (kernel$reach * roughness(kernel))^object$d, object$n))
}

# given_log_weights() for kernels with bounded support.
cube_log_weights <- function(side, values) {
  sources <- fit_sources(side)
  frame <- cube_frame(sources)
  x <- frame$columns(sources$points)
  y <- frame$columns(from_centre(side, values))
  factors <- if (is.null(sources$factors)) 1 else sources$factors
  log_w <- if (is.null(sources$weights)) numeric(ncol(x)) else log(sources$weights)
  for (k in seq_len(side$d)) {
    s <- 1 - abs(outer(x[k, ], y[k, ], "-")) / (frame$reach[k] * factors)
    log_w <- log_w - log(factors) + log(abs(polynomial_at(sources$kernel$value, pmax(s, 0))) * (s >= 0))
  }
  log_w
}

# debiased_loo() for kernels with bounded support: at point i the log of the sum over the other points j, debiased
# without i.
compact_debiased_loo <- function(object, control, pairs = 2e5) {
  sources <- fit_sources(object)
  stage <- if (!isTRUE(object$given_score)) score_stage(object, control)
  used <- which(used_rows(object))
  at <- targets(object, NULL)
  blocks <- split(seq_len(object$n), ceiling(seq_len(object$n) * length(used) / pairs))
  sums <- numeric(object$n)
  for (i in seq_along(blocks)) {
    share_stage(control, 0.5 + (i - 1) / length(blocks) / 2, 0.5 / length(blocks))
    sums[blocks[[i]]] <- sums_without(sources, stage, at, blocks[[i]], used)
  }
  list(log_abs = log(sums) + object$d * sources$kernel$log_unit, stats = stage$stats)
}

# What determines the debiased points without one of the points: list(u, log_v, log_mass, toward, turn, factors,
# dominated, stats). The score at x_j is that of a kernel-weighted mean a_j, `toward` = a_j - x_j, and the point moves
# by toward %*% turn.
score_stage <- function(object, control) {
  control[c("tol", "engine", "precision")] <- list(0, "exact", "double")
  L <- score_factor(object)
  factors <- if (is.null(object$adaptive$factors)) rep(1, object$n) else object$adaptive$factors
  points <- from_centre(object, object$x)
  sources <- sum_sources(points, object$weights, L, factors = factors)
  share_stage(control, 0, 0.5)
  found <- scores_by_classes(sources, control, masses = TRUE)
  of_scores <- score_sources(sources)
  dominated <- dominated_points(of_scores, factors, found$log_mass, control)
  # by triangles: columns may have any units, in which solve() of the product calls it singular
  turn <- backsolve(L, forwardsolve(L, object$bandwidth), upper.tri = FALSE, transpose = TRUE) / 2
  list(
    u = whiten(points, L), log_v = log(of_scores$weights), log_mass = found$log_mass,
    toward = factors^2 * (found$score %*% tcrossprod(L)), turn = turn,
    factors = factors, dominated = dominated, stats = joined_stats(found$stats, dominated$stats)
  )
}

# The sums over the terms `used`, at the points `rows` of `at`.
sums_without <- function(sources, stage, at, rows, used) {
  d <- ncol(at)
  each <- \(x) rep(x[used], each = length(rows))
  points <- if (is.null(stage)) sources$points else at
  away <- lapply(seq_len(d), \(k) outer(at[rows, k], points[used, k], "-"))
  if (!is.null(stage)) {
    q <- Reduce(`+`, lapply(seq_len(d), \(k) outer(stage$u[rows, k], stage$u[used, k], "-")^2))
    share <- exp(stage$log_v[rows] - q / (2 * each(stage$factors)^2) - each(stage$log_mass))
    share[outer(rows, used, "==")] <- 0 # no term
    # a_j - x_j without point i
    toward <- lapply(seq_len(d), \(k) (each(stage$toward[, k]) - share * away[[k]]) / (1 - share))
    found <- dominated_by(stage$dominated, rows, used)
    for (k in seq_len(d)) toward[[k]][cbind(found$by, found$rows)] <- found$toward[, k]
    moved <- \(k) Reduce(`+`, Map(`*`, toward, stage$turn[, k]))
    away <- Map(\(away, k) away - moved(k), away, seq_len(d))
  }
  inverse <- inverse_root(sources$L)
  factors <- if (is.null(sources$factors)) rep(1, nrow(at)) else sources$factors
  weights <- if (is.null(sources$weights)) rep(1, nrow(at)) else sources$weights
  term <- outer(rows, used, "!=") * each(weights * factors^-d)
  for (k in seq_len(d)) {
    z <- Reduce(`+`, Map(`*`, away, inverse[k, ]))
    s <- 1 - abs(z) / (sources$kernel$reach * each(factors))
    value <- polynomial_at(sources$kernel$value, s)
    value[!(s >= 0)] <- 0
    term <- term * value
  }
  rowSums(term)
}

# derivative_at() of order 2 for kernels with bounded support, from the first and second derivatives of their polynomials in
# each coordinate. Points at an edge, where a second derivative jumps, have the value inside.
compact_hessian <- function(object, at, log, loo, control) {
  sources <- fit_sources(object)
  d <- object$d
  points <- targets(object, if (is.null(at)) object$x else at)
  inverse <- inverse_root(sources$L)
  factors <- if (is.null(sources$factors)) rep(1, object$n) else sources$factors
  weights <- kernel_weights(object) * factors^-d
  of <- Reduce(\(a, i) c(a, list(slope_polynomial(a[[i]]))), 1:2, list(sources$kernel$value))
  hessian <- matrix(0, nrow(points), d^2)
  for (rows in blocks_of(nrow(points), max(1, floor(PAIRS_IN_BLOCK / object$n)))) {
    away <- lapply(seq_len(d), \(k) outer(points[rows, k], sources$points[, k], \(y, x) x - y))
    width <- rep(sources$kernel$reach * factors, each = length(rows))
    z <- lapply(seq_len(d), \(k) Reduce(`+`, Map(`*`, away, inverse[k, ])) / width)
    # the value and the derivatives of each coordinate
    each <- lapply(z, \(z) Map(\(of, sign) ifelse(abs(z) > 1, 0, sign * polynomial_at(of, 1 - abs(z))), of, list(1, -sign(z), 1)))
    term <- \(order) Reduce(`*`, Map(\(each, order) each[[order + 1]], each, order), rep(weights, each = length(rows)))
    own <- if (loo) outer(rows, seq_len(object$n), "!=") else 1
    mass <- rowSums(own * term(numeric(d)))
    for (i in seq_len(d)) for (j in seq_len(d)) {
      order <- tabulate(c(i, j), d)
      hessian[rows, (j - 1) * d + i] <- rowSums(own * term(order) / width^2) / mass
    }
  }
  hessian <- matrix(unwhiten_hessians(hessian, inverse), nrow(points))
  if (log) return(hessian - outer_rows(score_estimate(object, at, loo, control)))
  times_density(hessian, exp(log_estimate(object, at, loo, control)$log_abs))
}
