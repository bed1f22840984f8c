# Criteria of a bandwidth H = L L', to be minimised, with their gradients. All are sums over pairs of points
# (R/sum-moments.R). For any F = c sum a_ij k_ij, c the kernel's height, the change of F where L becomes L(I + E), E
# lower triangular, is the product of E with the lower triangle of
#
#   c (sum a_ij k_ij u u' - I sum a_ij k_ij),   u = L^-1 (x_i - x_j):
#
# one d x d matrix, of which a diagonal L needs the diagonal, and a factor of all columns the trace.

# list(name, rows, value, values, at_once, gradient): value(L), a number; values(L, powers), those of L / sqrt(power),
# and whether these take one pass over the pairs; gradient(L, structure), list(value, E) with E of the structure
# "scalar" (the trace), "diagonal" (d numbers) or "full" (a lower triangle). `tally`: what is computed is counted there.
#
# `data`: a list of x, n x d; weights, NULL or relative to the largest; row_weights, of sum 1, by which rows judge
# (NULL: all the same); n, their effective number; d; centre and scale, medians and robust spreads of the columns.
#
# - lcv: likelihood cross-validation, of any estimator, with a floor for what is far from all others. Of the debiased
#   ones and where sums are to a tolerance, the gradient is by differences.
# - csl: the same censored towards the tails, for the plain estimate, and in one column for the debiased one.
# - lscv: least-squares cross-validation, of the plain and of the Laplace-corrected, signed estimate.
# - bcv2, scv, plugin: biased and smoothed cross-validation and the plug-in estimate of the asymptotic error, for the
#   plain estimate.
#
# Each is a list of `at`, a function of (L, moments), and where one pass over the pairs serves several bandwidths, of
# `among`, a function of (L, powers, sums), `sums` being one of powers and of the factor of pair_scales().
new_criterion <- function(name, data, estimator, run, tally = new_tally()) {
  data <- judged(data)
  count <- \(stats) count_stats(tally, stats)
  pass <- function(L, row_weights, moments, floor = NULL, wide = NULL, factor = PLAIN_FACTOR) {
    found <- if (is.null(data$discrete)) {
      moments_of(data$x, L, data$weights, row_weights, floor, moments, !is.null(floor), wide, factor, run)
    } else {
      cell_moments(data, L, row_weights, moments, floor, run)
    }
    count(found$stats)
    found
  }
  of <- if (estimator == PLAIN_ESTIMATOR) "" else estimator
  evaluate <- switch(paste0(name, of),
    lcv = likelihood(data, pass),
    lcvsdkde = ,
    lcvlaplace = ,
    lcvlaplace6 = debiased_likelihood(data, left_out_sums(estimator), run, count),
    csl = censored_likelihood(data, pass),
    halfsdkde = debiased_likelihood(data, left_out_sums(estimator), run, count, half_loss(data, run, count)),
    lscv = least_squares_error(data, pass),
    lscvlaplace = signed_least_squares(data, pass),
    bcv2 = biased_error(data, pass),
    scv = smoothed_error(data, pass, run, count),
    plugin = plugin_error(data, run, count)
  )
  resolved <- resolved_run(data$x, run)
  at_once <- is.null(data$discrete) && !is.null(evaluate$among) && prefers_scales(resolved)
  among <- \(L, powers) evaluate$among(L, powers, sums_at_once(data, L, run, count))
  by_pairs <- at_once && !prefers_engines(resolved, nrow(data$x), data$d, "none", FALSE)
  value <- if (by_pairs) \(L) among(L, 1) else \(L) evaluate$at(L, "none")$value
  values <- if (at_once) among else \(L, powers) vapply(powers, \(power) value(L / sqrt(power)), 0)
  exact <- (estimator == PLAIN_ESTIMATOR || name == "lscv") && !differs_by_tolerance(resolved, run)
  gradient <- function(L, structure) {
    tally$evaluations <- tally$evaluations + 1
    if (!exact) return(list(value = value(L), E = difference_gradient(value, L, structure)))
    found <- evaluate$at(L, if (structure == "full") "full" else "diagonal")
    shaped <- switch(structure, scalar = \(E) sum(trace_of(E)), diagonal = trace_of, lower_triangle)
    list(value = found$value, E = shaped(found$E))
  }
  counted <- function(values) {
    tally$evaluations <- tally$evaluations + length(values)
    values
  }
  list(
    name = name, rows = nrow(data$x), at_once = at_once, gradient = gradient, value = \(L) counted(value(L)),
    values = \(L, powers) counted(values(L, powers))
  )
}

# What a search has computed: evaluations, how many values and gradients, and the stats of all sums.
new_tally <- function() list2env(list(evaluations = 0, stats = NULL))

count_stats <- function(tally, stats) tally$stats <- joined_stats(tally$stats, stats)

# A function with S of pair_moments() for L / sqrt(power) of each power, in columns, or with `log_floor` their
# with_floor()'s logarithms.
sums_at_once <- function(data, L, run, count) {
  function(powers, factor = PLAIN_FACTOR, log_floor = NULL) {
    logs <- if (!is.null(log_floor)) {
      list(log_floor = log_floor, log_others = data$log_others, log_unit = log_norms(L, powers))
    }
    found <- pair_scales(data$x, L, powers, data$weights, factor, run, logs = logs)
    count(found$stats)
    found$S
  }
}

# Log norms of Gaussian kernels with the factors L / sqrt(powers).
log_norms <- function(L, powers) log_kernel_norm(L) + kernel_columns(L) * log(powers) / 2

# With the weights of all rows at hand: w of the sources, `others` their sum without the row's own, v of the rows.
judged <- function(data) {
  n <- nrow(data$x)
  data$w <- if (is.null(data$weights)) rep(1, n) else data$weights
  data$others <- if (is.null(data$weights)) rep(n - 1, n) else leave_out(data$weights)
  data$log_others <- log(data$others)
  data$v <- if (is.null(data$row_weights)) rep(1 / n, n) else data$row_weights
  data$total <- sum(data$w)
  data
}

# A change E is a d x d matrix, or its diagonal alone.
trace_of <- function(E) if (is.matrix(E)) diagonal(E) else E

lower_triangle <- function(E) {
  E[upper.tri(E)] <- 0
  E
}

# E minus s on its diagonal; NULL where there is none.
less_on_diagonal <- function(E, s) {
  if (is.null(E)) return(NULL)
  if (is.matrix(E)) E - diagonal_matrix(rep(s, nrow(E)), nrow(E)) else E - s
}

# By central differences, whose step suits sums with an error of 1e-6.
difference_gradient <- function(value, L, structure, step = 5e-3) {
  d <- nrow(L)
  slope <- function(E) (value(L + step * L %*% E) - value(L - step * L %*% E)) / (2 * step)
  if (structure == "scalar") return(slope(diagonal_matrix(rep(1, d), d)))
  at <- if (structure == "diagonal") cbind(seq_len(d), seq_len(d)) else which(lower.tri(diag(d), diag = TRUE), TRUE)
  slopes <- apply(at, 1, \(place) slope(`[<-`(matrix(0, d, d), rbind(place), 1)))
  if (structure == "diagonal") slopes else `[<-`(matrix(0, d, d), at, slopes)
}

# ---- likelihood -----------------------------------------------------------------------------------

# The log of the Cauchy density times its share, at the rows. clean_points() may have computed it.
log_floor_of <- function(data) {
  if (!is.null(data$log_floor)) return(data$log_floor)
  log_rescue_share(data$d) + cauchy_log_density(data$x, data$centre, data$scale)
}

# list(log, all, lost): log(f + g) of estimates f, the sums S times exp(log_unit), and of g, whose logarithm is
# log_floor; the sums with those of g; and where g itself is out of range.
with_floor <- function(S, log_unit, log_floor) {
  all <- S + exp(log_floor - log_unit)
  log_f <- log(all) + log_unit
  lost <- which(!(all > 0 & all < .Machine$double.xmax))
  if (length(lost) > 0) log_f[lost] <- log_floor[lost]
  list(log = log_f, all = all, lost = lost)
}

# Value and change of -sum v log(f + g), f without the row, g the floor.
log_likelihood_loss <- function(data, log_floor, v, L, moments, pass) {
  log_unit <- log_kernel_norm(L) - data$log_others
  floor <- if (moments != "none") pmin(exp(log_floor - log_unit), .Machine$double.xmax)
  found <- pass(L, v, moments, floor = floor)
  f <- with_floor(found$S, log_unit, log_floor)
  value <- -sum(v * f$log)
  if (moments == "none") return(list(value = value))
  share <- replace(found$S / f$all, f$lost, 0)
  if (moments == "diagonal") found$M <- c(found$M, numeric(more_columns(L)))
  list(value = value, E = -less_on_diagonal(found$M, sum(v * share)))
}

# The value alone for each of L / sqrt(power).
log_likelihood_losses <- function(log_floor, v, powers, sums) -colSums(v * sums(powers, log_floor = log_floor))

likelihood <- function(data, pass) {
  log_floor <- log_floor_of(data)
  list(
    at = \(L, moments) log_likelihood_loss(data, log_floor, data$v, L, moments, pass),
    among = \(L, powers, sums) log_likelihood_losses(log_floor, data$v, powers, sums)
  )
}

# `loo_sums`: of left_out_sums(); `loss(log_f, L, debiased)`: by the rows' log densities and the debiased points.
debiased_likelihood <- function(data, loo_sums, run, count, loss = \(log_f, ...) -sum(data$v * log_f)) {
  log_floor <- log_floor_of(data)
  list(at = function(L, moments) {
    sums <- loo_sums(data$x, data$weights, L, run)
    count(sums$stats)
    log_f <- log_add(sums$log_sum + log_kernel_norm(L) - data$log_others, log_floor)
    list(value = loss(log_f, L, sums$debiased))
  })
}

# The loss of an SD-KDE: minus the weighted mean of the censored likelihood and of the log of the cosine between
# estimate and density, as vectors of the space of square-integrable functions, less the log of the density's norm.
# Near the density the two are as large as each other. The likelihood is less variable, and undersmooths where the
# density begins at an edge, which the integrated squared error hardly notices: so it counts as so many rows.
COUNTED_ROWS <- 1000

half_loss <- function(data, run, count) function(log_f, L, debiased) {
  pairs <- log_sum(sum_sources(debiased, data$weights, sqrt(2) * L), NULL, PLAIN_FACTOR, FALSE, run)
  count(pairs$stats)
  log_square <- log_mean(pairs$log_abs, data$w / data$total) + log_kernel_norm(sqrt(2) * L) - log(data$total)
  share <- COUNTED_ROWS / (COUNTED_ROWS + data$n)
  log_cosine <- log_mean(log_f, data$v) - log_square / 2
  -share * sum(data$v * censored_terms(data, log_f, L, debiased)) - (1 - share) * log_cosine
}

# The log of the mean of exponentials, with weights of sum 1.
log_mean <- function(logs, weights) max(logs) + log(sum(weights * exp(logs - max(logs))))

# The width of the bump of the censored likelihood, in robust spreads of d columns.
bump_width <- function(d) 2 * sqrt(d)

# What the rows say in the censored likelihood, of leave-one-out log densities by kernels at x with the bandwidth
# factor L times those of `factors`.
censored_terms <- function(data, log_f, L, x = data$x, factors = 1) {
  spread <- bump_width(data$d) * data$scale
  centre <- rep(data$centre, each = nrow(x))
  z <- x - centre
  factors <- rep_len(factors, nrow(x))
  p <- numeric(nrow(x))
  for (factor in unique(factors)) {
    rows <- which(factors == factor)
    own <- z[rows, , drop = FALSE]
    bump <- bump_precision(spread, factor * L)
    p[rows] <- exp(bump$log_height - rowSums(own * bump$times(own)) / 2)
  }
  a <- exp(-rowSums(((data$x - centre) / rep(spread, each = nrow(x)))^2) / 2)
  a * log_f + (1 - a) * log(mass_outside(data, p))
}

# 1 - the integral of a f, f without the row, of the kernels' integrals p.
mass_outside <- function(data, p) pmax(1 - (sum(data$w * p) - data$w * p) / data$others, .Machine$double.eps)

# With a bump a(x) at the medians, bump_width() robust spreads wide: a log(f) where a is near 1, and in the tails,
# where no f of one bandwidth is good, only log(1 - the integral of a f): the right share of mass out there.
censored_likelihood <- function(data, pass) {
  log_floor <- log_floor_of(data)
  z <- data$x - rep(data$centre, each = nrow(data$x))
  spread <- bump_width(data$d) * data$scale
  a <- exp(-rowSums((z / rep(spread, each = nrow(z)))^2) / 2)
  tails <- function(L) {
    bump <- bump_precision(spread, L)
    Y <- bump$times(z)
    p <- exp(-rowSums(z * Y) / 2 + bump$log_height)
    rest <- mass_outside(data, p)
    list(bump = bump, Y = Y, p = p, rest = rest, value = sum(data$v * (1 - a) * log(rest)))
  }
  at <- function(L, moments) {
    near <- log_likelihood_loss(data, log_floor, data$v * a, L, moments, pass)
    far <- tails(L)
    near$value <- near$value - far$value
    if (moments == "none") return(near)
    b <- data$v * (1 - a) / (far$rest * data$others)
    e <- data$w * (sum(b) - b) * far$p
    near$E <- near$E + far$bump$change(far$Y, e, moments)
    near
  }
  among <- function(L, powers, sums) {
    near <- log_likelihood_losses(log_floor, data$v * a, powers, sums)
    near - vapply(powers, \(power) tails(L / sqrt(power))$value, 0)
  }
  list(at = at, among = among)
}

# A = (diag(spread^2) + L L')^-1, as what is asked of it: times(z), z A; log_height, half the log of its determinant
# times that of diag(spread^2); change(Y, e, moments), L' (Y' diag(e) Y - sum(e) A) L or its diagonal. Of a diagonal
# L, d x d matrices are not formed unless they are asked for.
bump_precision <- function(spread, L) {
  d <- length(spread)
  if (is_diagonal(L)) {
    sds <- diagonal(L)
    a <- 1 / (spread^2 + sds^2)
    more <- more_columns(L)
    log_heights <- log(spread) + log(a) / 2
    change <- function(Y, e, moments) {
      if (moments == "diagonal") {
        return(c(sds^2 * (colSums(e * Y^2) - a * sum(e)), rep(-sds[1]^2 * a[1] * sum(e), more)))
      }
      outer(sds, sds) * (crossprod(Y, e * Y) - diagonal_matrix(a * sum(e), d))
    }
    log_height <- sum(log_heights) + more * log_heights[1]
    return(list(times = \(z) z * rep(a, each = nrow(z)), log_height = log_height, change = change))
  }
  root <- chol(diagonal_matrix(spread^2, d) + tcrossprod(L))
  A <- chol2inv(root)
  change <- function(Y, e, moments) {
    if (moments == "diagonal") return(colSums(L * ((crossprod(Y, e * Y) - A * sum(e)) %*% L)))
    crossprod(L, (crossprod(Y, e * Y) - A * sum(e)) %*% L)
  }
  list(times = \(z) z %*% A, log_height = sum(log(spread)) - sum(log(diagonal(root))), change = change)
}

# ---- least squares --------------------------------------------------------------------------------

# The integral of f^2, of the kernel of 2H with every point's own term, less 2 sum v f.
least_squares_error <- function(data, pass) {
  wide <- data$w / data$total^2
  v <- data$v / data$others
  own <- sum(wide * data$w)
  at <- function(L, moments) {
    found <- pass(L, v, moments, wide = wide)
    signed_difference(L, found$S, found$M, found$S_wide, found$M_wide, v, wide, own)
  }
  among <- function(L, powers, sums) {
    all <- unique(c(powers, powers / 2))
    S <- sums(all)
    vapply(powers, \(power) {
      of <- L / sqrt(power)
      signed_difference(of, S[, match(power, all)], NULL, S[, match(power / 2, all)], NULL, v, wide, own)$value
    }, 0)
  }
  list(at = at, among = among)
}

# `own`: the sum of the points' own terms.
signed_difference <- function(L, S, M, S_wide, M_wide, v, wide, own) {
  near <- exp(log_kernel_norm(L))
  far <- exp(log_kernel_norm(sqrt(2) * L))
  s <- sum(v * S)
  s_wide <- own + sum(wide * S_wide)
  list(
    value = far * s_wide - 2 * near * s,
    E = if (!is.null(M)) far * less_on_diagonal(M_wide, s_wide) - 2 * near * less_on_diagonal(M, s)
  )
}

# The least-squares criterion of the Laplace-corrected kernel. Its square is the kernel of variance 2H times the
# polynomial `wide_factor`.
signed_least_squares <- function(data, pass) {
  d <- data$d
  wide <- data$w / data$total^2
  v <- data$v / data$others
  factor <- ESTIMATORS$laplace$factor(d)
  wide_factor <- ESTIMATORS$laplace$overlap(d)
  own <- wide_factor[1] * sum(wide * data$w)
  at <- function(L, moments) {
    near <- pass(L, v, moments, factor = factor)
    far <- pass(sqrt(2) * L, wide, moments, factor = wide_factor)
    signed_difference(L, near$S, near$M, far$S, far$M, v, wide, own)
  }
  among <- function(L, powers, sums) {
    near <- sums(powers, factor)
    far <- sums(powers / 2, wide_factor)
    vapply(seq_along(powers), \(k) {
      signed_difference(L / sqrt(powers[k]), near[, k], NULL, far[, k], NULL, v, wide, own)$value
    }, 0)
  }
  list(at = at, among = among)
}

# ---- asymptotic error -------------------------------------------------------------------------------

# The integrated variance of the estimate; its change is minus itself.
variance_term <- function(L, n) exp(log_kernel_norm(sqrt(2) * L)) / n

# The squared bias by the kernels of H themselves, without the points' own terms.
biased_error <- function(data, pass) {
  d <- data$d
  v <- data$v / data$others
  factor <- c(d * (d + 2), -4 * (d + 2), 4)
  list(at = function(L, moments) {
    found <- pass(L, v, moments, factor = factor)
    variance <- variance_term(L, data$n)
    height <- exp(log_kernel_norm(L)) / 4
    s <- sum(v * found$S)
    E <- if (moments != "none") less_on_diagonal(height * less_on_diagonal(found$M, s), variance)
    list(value = variance + height * s, E = E)
  })
}

# The squared bias by kernels of a pilot bandwidth: sum of phi_{2H + 2G} - 2 phi_{H + 2G} + phi_{2G}. 2G is the pilot
# of the plug-in estimate, which this comes to for small H.
smoothed_error <- function(data, pass, run, count) {
  pilot <- NULL
  # sum of phi_A over all pairs and its change, A = `times` H + 2G.
  term <- function(L, times, moments) {
    R <- if (times == 0) pilot$L else t(chol(times * tcrossprod(L) + tcrossprod(pilot$L)))
    found <- pass(R, data$v, moments)
    s <- sum(data$v * (found$S + data$w))
    height <- exp(log_kernel_norm(R)) / data$total
    if (moments == "none") return(list(value = height * s))
    B <- forwardsolve(R, L)
    list(value = height * s, E = times * height * crossprod(B, less_on_diagonal(found$M, s) %*% B))
  }
  list(at = function(L, moments) {
    if (is.null(pilot)) {
      pilot <<- pilot_bandwidth(data, run, count)
      pilot$value <<- term(L, 0, "none")$value
    }
    asked <- if (moments == "none") "none" else "full"
    two <- term(L, 2, asked)
    one <- term(L, 1, asked)
    variance <- variance_term(L, data$n)
    E <- if (moments != "none") less_on_diagonal(two$E - 2 * one$E, variance)
    list(value = variance + two$value - 2 * one$value + pilot$value, E = E)
  })
}

# (vec H)' psi_4 (vec H) / 4 for the squared bias, psi_4 the mean over all pairs of the fourth derivatives of the
# kernel of the pilot bandwidth. Once these are known any H costs nothing.
plugin_error <- function(data, run, count) {
  bias <- NULL
  list(at = function(L, moments) {
    if (is.null(bias)) bias <<- squared_bias(data, pilot_bandwidth(data, run, count), run, count)
    variance <- variance_term(L, data$n)
    B <- forwardsolve(bias$L, L)
    squared <- bias$at(tcrossprod(B))
    E <- 2 * crossprod(B, squared$slope %*% B)
    list(value = variance + squared$value, E = if (moments != "none") less_on_diagonal(E, variance))
  })
}

# list(L, at): at(H), list(value, slope), of H relative to L L' of the pilot; slope, of its elements.
squared_bias <- function(data, pilot, run, count) {
  d <- data$d
  found <- pair_moments(data$x, pilot$L, data$weights, data$v, moments = "order4", run = run)
  count(found$stats)
  s <- sum(data$v * (found$S + data$w))
  M <- found$M
  fourth <- matrix(found$fourth, d^2)
  height <- exp(log_kernel_norm(pilot$L)) / (4 * data$total)
  at <- function(H) {
    contracted <- matrix(fourth %*% as.vector(H), d)
    trace <- sum(diagonal(H))
    HM <- H %*% M
    squares <- sum(H * contracted) - 2 * trace * sum(H * M) - 4 * sum(H * HM) + s * (trace^2 + 2 * sum(H^2))
    slope <- less_on_diagonal(
      2 * contracted - 2 * trace * M - 4 * (HM + t(HM)) + 4 * s * H, 2 * sum(H * M) - 2 * s * trace
    )
    list(value = height * squares, slope = height * slope)
  }
  list(L = pilot$L, at = at)
}

# list(L): of the bandwidth that is best for the mean over all pairs of the squared Laplacian of the kernel, as far as a
# multiple of the spread P P' can be. From a pilot of its own, for the sixth derivatives, and the eighth of normal data.
pilot_bandwidth <- function(data, run, count) {
  P <- spread_root(data)
  d <- data$d
  eighth <- (4 * pi)^(-d / 2) * prod(d + c(0, 2, 4, 6)) / 16
  g6 <- pilot_factor(data, 3, eighth)
  # the third Laplacian is g^-6 (q^3 - 3 (d + 4) q^2 + 3 (d + 2) (d + 4) q - d (d + 2) (d + 4)) times the kernel. Of
  # q/2, f - f' is what is multiplied by q, and the trace of its moments the sum.
  by_q <- c(3 * (d + 2) * (d + 4), -6 * (d + 4), 4)
  linear <- by_q[2] + 2 * by_q[3]
  f <- c(by_q[1] + linear, linear, by_q[3])
  higher <- pair_moments(data$x, g6 * P, data$weights, data$v, moments = "diagonal", factor = f, run = run)
  plain <- pair_moments(data$x, g6 * P, data$weights, data$v, run = run)
  count(add_stats(higher$stats, plain$stats))
  s <- sum(data$v * (plain$S + data$w))
  sixth <- (sum(higher$M) - d * (d + 2) * (d + 4) * s) * (2 * pi)^(-d / 2) * g6^(-d - 6) / data$total
  list(L = pilot_factor(data, 2, sixth) * P)
}

# For the mean of m Laplacians, of which that of one more is known, in units of the spread.
pilot_factor <- function(data, m, next_mean) {
  d <- data$d
  (2 * (2 * pi)^(-d / 2) * prod(d + 2 * (seq_len(m) - 1)) / (data$n * abs(next_mean)))^(1 / (d + 2 * m + 2))
}

# P, robust spreads of the columns with the correlations of what lies within three of them, if these have a factor.
spread_root <- function(data) {
  z <- sweep(sweep(data$x, 2, data$centre), 2, data$scale, "/")
  correlation <- stats::cov.wt(pmin(pmax(z, -3), 3), data$w / data$total, cor = TRUE)$cor
  upper <- tryCatch(chol(correlation), error = \(e) diag(data$d))
  data$scale * t(upper)
}
