# What attacks the promise of `tol`: hostile points, coefficients, bandwidths and tolerances, each case from one
# seed, and the errors of the package there against sums of all pairs in plain R. test-tolerance.R,
# test-gpu-tolerance.R and bench/tolerance.R run it.
#
#   case <- tolerance_case(17)            # every 17 is the same case
#   str(case[tolerance_columns])          # what it is
#   run_case(case)                        # a row: worst error / tolerance, what was chosen, seconds
#
# The contract, with A_j = sum_i |w_i b_i| k(y_j, x_i):
#   global     |error_j| <= tol max_j A_j over the targets asked for
#   pointwise  |error_j| <= tol A_j
# Log densities: |expm1(error)| by the same share of the row's own, and never more than a percent, as rows that a
# global tolerance does not tell from zero are summed directly. Laplace sums: A without the factor. Gradients: A with
# 1 + r in each term. Leave-one-out: A without the own term. No NaN, no 0 and no -Inf where the exact result has none.

# ---- sums of all pairs ------------------------------------------------------------------------

# log k and, where coordinates are summed, what multiplies them, from the squared distance
log_kernels <- list(
  gaussian = \(q) -q / 2,
  cauchy = \(q) -log1p(q),
  imq = \(q) -log1p(q) / 2
)

# Differences y_j - x_i in bandwidths: one m x n matrix for each dimension. Coordinates are subtracted before they are
# scaled: near points far from the origin keep their digits.
pair_differences <- function(x, y, L) {
  inverse <- backsolve(L, diag(ncol(L)), upper.tri = FALSE)
  plain <- lapply(seq_len(ncol(x)), \(k) outer(y[, k], x[, k], "-"))
  lapply(seq_len(ncol(x)), \(k) {
    used <- which(inverse[k, ] != 0)
    Reduce(`+`, lapply(used, \(l) inverse[k, l] * plain[[l]]))
  })
}

# Sums of every target, each with a scale of its own (`own`: the source to leave out of each): value = (sum of positive
# - sum of negative terms) e^shift, and in the same units `size`, the plain A; `slope` m x d, sum |b| k (x - y) in
# bandwidths; `slope_size`, sum |b| k (1 + r); `laplace`, sum |b| k (1 + d/2 - q/2), and its slope. `near`: r of the
# largest term.
brute_sums <- function(x, y, L, log_b, sign_b, kernel = "gaussian", own = NULL, slopes = FALSE) {
  m <- nrow(y)
  rows <- split(seq_len(m), (seq_len(m) - 1) %/% max(1, 1e6 %/% nrow(x)))
  parts <- lapply(rows, \(at) {
    brute_rows(x, y[at, , drop = FALSE], L, log_b, sign_b, log_kernels[[kernel]], own[at], slopes)
  })
  bind <- function(name) {
    part <- lapply(parts, `[[`, name)
    if (is.matrix(part[[1]])) do.call(rbind, part) else unlist(part, use.names = FALSE)
  }
  sapply(names(parts[[1]]), bind, simplify = FALSE)
}

brute_rows <- function(x, y, L, log_b, sign_b, log_kernel, own, slopes) {
  d <- ncol(x)
  difference <- pair_differences(x, y, L)
  q <- Reduce(`+`, lapply(difference, \(z) z^2))
  log_terms <- log_kernel(q) + rep(log_b, each = nrow(y))
  if (!is.null(own)) log_terms[cbind(seq_along(own), own)] <- -Inf
  first <- max.col(log_terms, "first")
  shift <- log_terms[cbind(seq_len(nrow(y)), first)]
  empty <- shift == -Inf
  shift[empty] <- 0
  k <- exp(log_terms - shift)
  sums <- list(
    shift = shift, size = rowSums(k), near = sqrt(q[cbind(seq_len(nrow(y)), first)]),
    value = if (all(sign_b >= 0)) rowSums(k) else rowSums(k * rep(sign_b, each = nrow(y))),
    laplace = rowSums(k * (1 + d / 2 - q / 2))
  )
  sums$near[empty] <- 0
  if (!slopes) return(sums)
  by_column <- \(weights) vapply(difference, \(z) -rowSums(k * weights * z), numeric(nrow(y)))
  r <- sqrt(q)
  c(sums, list(
    slope = matrix(by_column(1), nrow(y)), slope_size = rowSums(k * (1 + r)),
    laplace_slope = matrix(by_column(2 + d / 2 - q / 2), nrow(y)),
    laplace_slope_size = rowSums(k * (1 + r) * (1 + d / 2 + q / 2))
  ))
}

log_size <- function(sums) sums$shift + log(sums$size)

log_sum_exp <- function(a) max(a) + log(sum(exp(a - max(a))))

# ---- errors -----------------------------------------------------------------------------------

# v 2^e, also where 2^e is out of range
times_power <- function(v, e) {
  e <- pmax(pmin(round(e), 5000), -5000)
  while (any(e != 0)) {
    step <- pmax(pmin(e, 900), -900)
    v <- v * 2^step
    e <- e - step
  }
  v
}

# Largest error / tolerance of values, `want` e^`shift` in truth and relative to e^`log_scale` (one number, or one of
# each row). `rounding`: what is allowed beside, relative to `size` e^`shift`; `least`: in absolute terms.
value_excess <- function(got, want, size, shift, log_scale, tol, rounding, least) {
  if (length(got) == 0) return(0)
  if (any(is.nan(got)) || anyNA(got)) return(Inf)
  if (all(log_scale == -Inf)) return(if (all(got == 0)) 0 else Inf)
  log_scale <- rep_len(log_scale, length(got))
  power <- ifelse(is.finite(log_scale), round(log_scale / log(2)), 0)
  scaled <- exp(shift - power * log(2))
  one <- exp(log_scale - power * log(2))
  excess <- abs(times_power(got, -power) - want * scaled) - rounding * size * scaled - times_power(least, -power)
  # two infinite numbers: the truth is far below what a double can hold
  excess[is.nan(excess)] <- 0
  excess <- pmax(0, excess) / (tol * one)
  excess[one == 0] <- ifelse(got[one == 0] == 0, 0, Inf)
  max(excess)
}

# Doubles end at 2^-1074, and kernels below 2^-1022 may be dropped, but not where large coefficients bring the sum back.
underflow <- function(n, log_b) n * (2^-1022 * min(1000, exp(max(log_b))) + 2^-1074)

# What arithmetic may cost beside the tolerance, relative to A_j: 2e-12 as documented of double precision, and the
# rounding of whitened coordinates and of exponents. Of the exact engine in single precision what is documented.
rounding_of <- function(case, sums, chosen) {
  eps <- .Machine$double.eps
  r <- sums$near
  allowed <- 2e-12 + eps * (4 * r^2 + 8 * r * case$extent(looked_at(case)) + abs(log_size(sums)))
  single <- identical(chosen$engine, "exact") && identical(chosen$precision, "single")
  if (single) allowed <- allowed + pmax(1e-4, 1e-5 * abs(sums$shift))
  allowed
}

looked_at <- function(case) case$y[case$rows, , drop = FALSE]

# Whitened distance from the middle of the sources, by magnitudes
extent_from <- function(x, L) {
  inverse <- abs(backsolve(L, diag(ncol(L)), upper.tri = FALSE))
  centre <- apply(x, 2, stats::median)
  \(at) apply(abs(sweep(at, 2, centre)) %*% t(inverse), 1, max)
}

# ---- points -----------------------------------------------------------------------------------

# Everything in units of the bandwidth: sources u, targets v (NULL: the sources), coefficients b (NULL: to be chosen),
# `exact`: coordinates are not to be scaled by what would round them.

spread_points <- function(n, d, width) matrix(stats::rnorm(n * d, sd = width), n)
away <- function(n, d, from, to) {
  direction <- matrix(stats::rnorm(n * d), n)
  if (stats::runif(1) < 0.5) direction <- matrix(rep(c(1, rep(0.2, d - 1)), each = n), n)
  stats::runif(n, from, to) * direction / sqrt(rowSums(direction^2))
}
pick <- function(...) {
  values <- c(...)
  values[sample.int(length(values), 1)]
}

# Node spacings of src/grid/window_table.c
NODE_SPACINGS <- c(0.1, 0.125, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7)

lattice_of <- function(n, d, step) {
  side <- max(2, ceiling(n^(1 / d)))
  u <- as.matrix(expand.grid(rep(list(seq_len(side) - 1), d)))
  u <- unname(u[sort(sample.int(nrow(u), min(n, nrow(u)))), , drop = FALSE])
  # a lattice in the first dimension alone, at times
  if (d > 1 && stats::runif(1) < 0.3) u <- cbind((seq_len(n) - 1), matrix(0, n, d - 1))
  u * step
}

near_lattice <- function(u, m, step) {
  v <- u[sample.int(nrow(u), m, TRUE), , drop = FALSE]
  offset <- pick(0, 1 / 2, 1 / 4, 1)
  v <- v + offset * step
  switch(pick("on", "above", "below"),
    on = v, above = v * (1 + .Machine$double.eps), below = v * (1 - .Machine$double.eps / 2)
  )
}

lattice_signs <- function(n) {
  switch(pick("ones", "alternating", "halves", "normal"),
    ones = rep(1, n), alternating = rep_len(c(1, -1), n), halves = ifelse(seq_len(n) > n / 2, 1, -1),
    normal = stats::rnorm(n)
  )
}

tolerance_families <- list(
  far_all = \(n, m, d) {
    u <- spread_points(n, d, pick(0.3, 1, 3))
    edge <- sqrt(max(rowSums(u^2)))
    from <- edge + pick(3, 4, 6, 8, 12, 20, 35)
    list(u = u, v = away(m, d, from, from + pick(0.5, 2, 25)))
  },
  far_some = \(n, m, d) {
    u <- spread_points(n, d, pick(0.3, 1, 3))
    v <- rbind(away(m, d, 0, 4), away(m, d, 4, 60))
    list(u = u, v = v[sample.int(2 * m, m), , drop = FALSE])
  },
  half_plane = \(n, m, d) {
    u <- matrix(stats::runif(n * d, -1, 1) * pick(2, 5, 12), n)
    v <- u[sample.int(n, m, TRUE), , drop = FALSE]
    v[, 1] <- abs(v[, 1]) + pick(0, 0.5, 2, 4, 7)
    list(u = u, v = v, b = as.numeric(u[, 1] < 0))
  },
  heavy = \(n, m, d) {
    u <- matrix(stats::runif(n * d), n) * pick(2, 8, 20)
    u[1, ] <- 0
    list(u = u, v = away(m, d, pick(2, 3, 5), pick(7, 12, 20)), b = replace(rep(1, n), 1, 10^pick(6, 9, 12, 15)))
  },
  decades = \(n, m, d) {
    u <- spread_points(n, d, pick(1, 3, 8))
    b <- 10^stats::runif(n, -20, 20) * pick(1, sample(c(-1, 1), n, TRUE))
    if (stats::runif(1) < 0.5) b <- b[order(abs(b))][rank(u[, 1])]
    list(u = u, v = near_sources(u, m), b = b)
  },
  all_decades = \(n, m, d) {
    u <- spread_points(n, d, pick(1, 4, 12))
    b <- 10^stats::runif(n, -320, 304)
    if (stats::runif(1) < 0.7) b <- sort(b)[rank(u[, 1])]
    list(u = u, v = near_sources(u, m), b = b)
  },
  tiny = \(n, m, d) {
    b <- exp(pick(-120, -120, -300, 300) + stats::rnorm(n))
    list(u = spread_points(n, d, pick(0.5, 2, 6)), b = b)
  },
  out_of_range = \(n, m, d) {
    b <- pick(1e39, 1e-42, 1e-310, 1e300) * stats::runif(n, 0.5, 1)
    list(u = spread_points(n, d, pick(0.5, 2, 6)), b = if (stats::runif(1) < 0.5) b else b * sample(c(-1, 1), n, TRUE))
  },
  pairs = \(n, m, d) {
    n <- 2 * ceiling(n / 2)
    u <- spread_points(n / 2, d, pick(1, 4))
    list(u = rbind(u, u + 1e-8), v = near_sources(u, m), b = rep(c(1, -1), each = n / 2))
  },
  lattice = \(n, m, d) {
    step <- pick(0.1, 0.25, 0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6)
    u <- lattice_of(n, d, step)
    list(u = u, v = near_lattice(u, m, step), b = lattice_signs(nrow(u)), exact = TRUE)
  },
  nodes = \(n, m, d) {
    step <- pick(NODE_SPACINGS) * pick(1:8)
    u <- lattice_of(n, d, step)
    list(u = u, v = near_lattice(u, m, step), b = lattice_signs(nrow(u)), exact = TRUE)
  },
  clusters = \(n, m, d) {
    gap <- stats::runif(1, 5, 30)
    at <- lattice_of(6, d, gap)
    u <- at[sample.int(nrow(at), n, TRUE, prob = 10^-seq(0, by = pick(0, 1), length.out = nrow(at))), , drop = FALSE]
    u <- u + spread_points(n, d, pick(0.01, 0.3, 1))
    v <- at[sample.int(nrow(at), m, TRUE), , drop = FALSE] + pick(0, gap / 2) + spread_points(m, d, 0.5)
    list(u = u, v = v)
  },
  shells = \(n, m, d) {
    radii <- pick(list(c(1, 2, 3, 4)), list(c(4, 5, 6)), list(c(5, 10, 20)), list(60), list(8))[[1]]
    u <- away(n, d, 1, 1) * sample(radii, n, TRUE)
    b <- exp(pmin(600, rowSums(u^2) / pick(2, 3, 1e9)))
    list(u = u, v = spread_points(m, d, pick(1e-9, 0.1, 1)), b = b / max(b))
  },
  equal = \(n, m, d) {
    u <- matrix(pick(0, 0.37, 1e6), n, d)
    v <- u[rep(1, m), , drop = FALSE] + away(m, d, 0, pick(1e-9, 1, 10, 40))
    list(u = u, v = v)
  },
  ties = \(n, m, d) {
    u <- matrix(stats::rpois(n * d, 3), n) * pick(0.3, 1, 2.5)
    list(u = u, v = near_sources(u, m), exact = TRUE)
  },
  outlier = \(n, m, d) {
    u <- spread_points(n, d, pick(0.5, 3))
    u[1, ] <- pick(1e4, 1e8, 1e12)
    v <- near_sources(u, m)
    if (stats::runif(1) < 0.5) v[m, ] <- u[1, ] + 1
    list(u = u, v = v)
  },
  one_source = \(n, m, d) list(u = spread_points(1, d, 1), v = away(m, d, 0, pick(1, 6, 60))),
  one_target = \(n, m, d) list(u = spread_points(n, d, pick(0.5, 3)), v = away(1, d, 0, pick(1, 8, 60))),
  empty_columns = \(n, m, d) {
    u <- matrix(stats::runif(n * d), n) * pick(2, 10)
    b <- cbind(stats::rnorm(n), 0, as.numeric(u[, 1] < 0.1), 10^pick(-30, 30))
    list(u = u, v = near_sources(u, m), b = b[, sample.int(4, pick(2, 4)), drop = FALSE])
  },
  t2 = \(n, m, d) {
    u <- matrix(stats::rt((n + m) * d, 2), n + m) * pick(1, 3)
    list(u = u[seq_len(n), , drop = FALSE], v = u[-seq_len(n), , drop = FALSE])
  },
  wide_targets = \(n, m, d) {
    list(u = spread_points(n, d, 1), v = matrix(stats::runif(m * d, -30, 30), m))
  },
  uniform = \(n, m, d) list(u = matrix(stats::runif(n * d), n) * pick(0.5, 4, 12, 40)),
  normal = \(n, m, d) list(u = spread_points(n, d, pick(0.05, 0.5, 2, 6)))
)

near_sources <- function(u, m) {
  v <- u[sample.int(nrow(u), m, TRUE), , drop = FALSE]
  v + spread_points(m, ncol(u), pick(1e-9, 0.3, 2, 6))
}

# ---- cases ------------------------------------------------------------------------------------

tolerance_columns <- c(
  "seed", "family", "d", "n", "m", "task", "kernel", "tol", "tol_type", "precision", "engine", "method",
  "bandwidth_kind", "columns", "exponent", "backend"
)

TASKS <- c(
  rep("sums", 8), "kde density", "kde log_density", "kde score", "kde loo density", "kde loo log_density",
  "laplace density", "laplace log_density", "laplace score", "laplace loo density", "sdkde density",
  "sdkde log_density", "sdkde score", "debiased"
)

# The case of a seed: families take turns, and what else there is to choose goes by sequences that fill each family
# evenly. `points`, `targets`: at most so many. `method`: of set_method(), of all cases.
tolerance_case <- function(seed, points = 800, targets = 100, backend = "cpu", method = NULL) {
  families <- names(tolerance_families)
  turn <- (seed - 1) %/% length(families)
  at <- (seed - 1) %% length(families)
  irrational <- sqrt(c(2, 3, 5, 7, 11, 13, 17, 19, 23, 29)) %% 1
  factor <- 0
  choose <- function(...) {
    values <- c(...)
    factor <<- factor + 1
    values[1 + floor(length(values) * ((turn * irrational[factor] + at * 0.618034 + factor * 0.137) %% 1))]
  }
  case <- list(
    seed = seed, family = families[at + 1], d = choose(1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 5, 6, 7), task = choose(TASKS),
    tol_type = choose("global", "pointwise"), tol = choose(1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10, rep(NA, 7)),
    precision = choose("auto", "auto", "double", "single"), method = choose("", "grid", "grid", "grid", "direct"),
    bandwidth_kind = choose("scalar", "diagonal", "full"), kernel = choose(rep("gaussian", 5), "cauchy", "imq"),
    engine = choose("auto", "fast", "fast", "fast"), exponent = choose(0, 0, 600, -600), backend = backend
  )
  set.seed(seed)
  # any: a window's error may be just below
  if (is.na(case$tol)) case$tol <- signif(10^-stats::runif(1, 2, 10), 3)
  if (case$task != "sums") case$kernel <- "gaussian"
  # lattices have many nodes on their points in few dimensions
  if (case$family %in% c("lattice", "nodes")) case$d <- c(1, 2, 3, 1, 1, 2, 3)[case$d]
  if (case$precision == "single") case$tol <- max(case$tol, 1e-5)
  if (!is.null(method)) {
    case$method <- method
    case$engine <- "fast"
  }
  # No grids that would take seconds: of mixtures, and in many dimensions, where every point has blocks of its own.
  if (case$method == "grid" && case$d > 5) case$method <- ""
  by_grid <- case$method == "grid"
  if (by_grid && case$kernel != "gaussian") case$d <- min(case$d, 2)
  if (by_grid) case$tol <- max(case$tol, c(0, 0, 0, 1e-6, 1e-3)[case$d])
  if (by_grid && case$d > 3) points <- min(points, c(300, 80)[case$d - 3])
  if (by_grid && case$d > 3) targets <- min(targets, c(50, 20)[case$d - 3])
  add_points(case, round(stats::runif(1, points / 5, points)), round(stats::runif(1, targets / 5, targets)))
}

add_points <- function(case, n, m) {
  d <- case$d
  made <- tolerance_families[[case$family]](n, m, d)
  own <- is.null(made$v) && (case$task != "sums" || stats::runif(1) < 0.5)
  own <- own || grepl("loo|debiased", case$task)
  v <- if (own) made$u else if (is.null(made$v)) near_sources(made$u, m) else made$v
  set <- bandwidth_of(if (isTRUE(made$exact)) "exact" else case$bandwidth_kind, d)
  shift <- if (isTRUE(made$exact)) rep(0, d) else stats::rnorm(d)
  place <- \(u) sweep(u %*% t(set$L), 2, shift, "+")
  case$x <- place(made$u)
  case$y <- place(v)
  case$own <- own
  if (nrow(case$x) < 2) case$task <- sub(" loo", "", case$task)
  case$bandwidth <- set$bandwidth
  case$L <- set$L
  case$rows <- seq_len(nrow(case$y))
  b <- made$b
  if (is.null(b)) b <- any_coefficients(nrow(case$x))
  case <- if (case$task == "sums") add_columns(case, b) else add_weights(case, b)
  case$extent <- extent_from(case$x, case$L)
  case$n <- nrow(case$x)
  case$m <- nrow(case$y)
  case$columns <- max(1, NCOL(case$b))
  case
}

any_coefficients <- function(n) {
  switch(pick("none", "normal", "exponential", "wide"),
    none = NULL, normal = stats::rnorm(n), exponential = stats::rexp(n), wide = stats::rt(n, 1)
  )
}

add_columns <- function(case, b) {
  n <- nrow(case$x)
  if (is.null(b) && stats::runif(1) < 0.5) b <- rep(1, n)
  if (!is.matrix(b) && !is.null(b) && stats::runif(1) < 0.25) b <- cbind(b, stats::rnorm(n), 1)
  case$b <- b
  if (is.null(b) || stats::runif(1) < 0.2) case$weights <- stats::runif(n)
  sizes <- abs(if (is.null(b)) 1 else b[b != 0])
  in_range <- length(sizes) > 0 && min(sizes) > 2^-300 && max(sizes) < 2^300
  if (!in_range) case$exponent <- 0
  case
}

# Weights of a fit are not negative.
add_weights <- function(case, b) {
  case$exponent <- 0
  if (is.null(b)) return(case)
  case$weights <- abs(if (is.matrix(b)) b[, 1] else b)
  if (sum(case$weights > 0) < 2 || !is.finite(sum(case$weights))) case$weights <- NULL
  case
}

bandwidth_of <- function(kind, d) {
  switch(kind,
    exact = {
      h <- pick(1, 1, 0.5, 4)
      list(bandwidth = h, L = diag(h, d))
    },
    scalar = {
      h <- 10^stats::runif(1, -2, 2)
      list(bandwidth = h, L = diag(h, d))
    },
    diagonal = {
      h <- 10^stats::runif(d, -1, 1)
      list(bandwidth = h, L = diag(h, d))
    },
    full = {
      L <- diag(stats::runif(d, 0.5, 2), d)
      L[lower.tri(L)] <- stats::runif(d * (d - 1) / 2, -0.5, 0.5)
      # the factor that the package finds
      H <- L %*% t(L)
      list(bandwidth = H, L = t(chol(H)))
    }
  )
}

# A case of given points, all in the same units, of which the sums at `rows` of the targets are looked at: for a global
# tolerance, where the largest is among them.
given_case <- function(x, y = NULL, b = NULL, h = 1, task = "sums", tol = 1e-6, tol_type = "global", rows = NULL,
                       weights = NULL, precision = "auto", engine = "auto", method = "", backend = "cpu") {
  x <- as.matrix(x)
  y_given <- if (is.null(y)) x else as.matrix(y)
  if (is.null(rows)) rows <- seq_len(nrow(y_given))
  L <- diag(h, ncol(x))
  list(
    seed = NA, family = "given", d = ncol(x), n = nrow(x), m = nrow(y_given), task = task, kernel = "gaussian",
    tol = tol, tol_type = tol_type, precision = precision, engine = engine, method = method, bandwidth_kind = "scalar",
    columns = max(1, NCOL(b)), exponent = 0, backend = backend, x = x, y = y_given, own = is.null(y),
    bandwidth = h, L = L, rows = rows, b = b, weights = weights, extent = extent_from(x, L)
  )
}

# Windows for errors below 1e-10 want a type wider than double to be computed in, which arm64 Macs have not.
has_fine_windows <- function() isTRUE(.Machine$longdouble.digits > .Machine$double.digits)
need_fine_windows <- function() testthat::skip_if_not(has_fine_windows(), "long double is double")

# ---- running one ------------------------------------------------------------------------------

# One row: the case, `ratio` (worst error / tolerance, infinite for NaN), `bound` (tol_bound / tol) and `achieved`
# (tol_achieved / tol), NA where there are none, what was chosen, `seconds`, `same_mantissas` (of sums of b 2^exponent;
# NA: not tried) and `trouble` (an error's message). `over`: the contract is broken; `unproven`: an error is above
# tol_bound, or that above tol. An error that says that it is not supported is no breach.
run_case <- function(case, backend = case$backend) {
  case$backend <- backend
  before <- set_method(case$method)
  old <- options(flashkernel.threads = 1L, flashkernel.progress = FALSE)
  on.exit({
    options(old)
    set_method(before)
  })
  run <- if (case$task == "sums") run_sums else if (case$task == "debiased") run_debiased else run_prediction
  trouble <- ""
  refused <- FALSE
  got <- tryCatch(suppressWarnings(run(case)), error = function(e) {
    trouble <<- conditionMessage(e)
    refused <<- inherits(e, "flashkernel_error_unsupported")
    NULL
  })
  told <- \(name) if (is.null(got$chosen[[name]])) NA else got$chosen[[name]]
  row <- data.frame(
    c(case[setdiff(tolerance_columns, c("engine", "method", "precision"))]),
    asked = paste(case$engine, if (nzchar(case$method)) case$method else "any", case$precision),
    engine = told("engine"), method = told("method"), precision = told("precision"),
    ratio = if (refused) NA else if (is.null(got) || is.na(got$ratio)) Inf else got$ratio,
    bound = told("tol_bound") / case$tol, achieved = told("tol_achieved") / case$tol,
    seconds = if (is.null(got)) NA else got$seconds,
    same_mantissas = if (is.null(got$same_mantissas)) NA else got$same_mantissas,
    trouble = trouble
  )
  row$over <- isTRUE(row$ratio > 1) || isFALSE(row$same_mantissas)
  # the error of sums and densities is relative to what the bound is: it is to be below the bound, too
  seen <- max(if (grepl("sums| density", row$task)) row$ratio, row$achieved, 0, na.rm = TRUE)
  # but for the rounding of doubles in coordinates that have lost digits, of points so many bandwidths apart
  far <- max(abs(apply(case$x, 2, range))) / min(sqrt(abs(diag(as.matrix(case$L %*% t(case$L))))))
  row$unproven <- isTRUE(row$bound > 1) || isTRUE(seen > row$bound + (2e-12 + 4e-16 * far^2) / case$tol)
  row
}

timed <- function(task) {
  start <- Sys.time()
  value <- force(task())
  list(value = value, seconds = as.numeric(difftime(Sys.time(), start, units = "secs")))
}

# ---- sums of columns --------------------------------------------------------------------------

run_sums <- function(case) {
  sums <- function(b) {
    kernel_sum(case$x, if (!case$own) case$y, b, case$bandwidth, case$kernel,
      weights = case$weights, tol = case$tol, control = flash_control(
        backend = case$backend, precision = case$precision, tol_type = case$tol_type, engine = case$engine
      )
    )
  }
  done <- timed(\() sums(case$b))
  chosen <- unclass(diagnostics(done$value))
  got <- as.matrix(plain_sums(done$value))
  b <- if (is.null(case$b)) matrix(1, case$n) else as.matrix(case$b)
  log_w <- if (is.null(case$weights)) 0 else log(case$weights)
  ratio_of <- \(c) sums_excess(case, got[case$rows, c], log_w + log(abs(b[, c])), sign(b[, c]), chosen)
  ratios <- vapply(seq_len(ncol(b)), ratio_of, 0)
  list(
    ratio = max(ratios), chosen = chosen, seconds = done$seconds,
    same_mantissas = if (case$exponent != 0) same_mantissas(b, got, \(b) plain_sums(sums(b)), case$exponent, case)
  )
}

plain_sums <- function(sums) {
  attr(sums, "diagnostics") <- NULL
  sums
}

sums_excess <- function(case, got, log_b, sign_b, chosen) {
  truth <- brute_sums(case$x, looked_at(case), case$L, log_b, sign_b, case$kernel)
  log_A <- log_size(truth)
  value_excess(got, truth$value, truth$size, truth$shift,
    if (case$tol_type == "global") max(log_A) else log_A, case$tol,
    rounding_of(case, truth, chosen), underflow(case$n, log_b)
  )
}

# b 2^e gives the sums 2^e, bit for bit, where neither is near the ends of the range.
same_mantissas <- function(b, got, sums, exponent, case) {
  as_given <- if (is.null(case$b)) NULL else b * 2^exponent
  if (is.null(as_given)) return(NULL)
  other <- as.matrix(sums(if (is.matrix(case$b)) as_given else as_given[, 1]))
  middle <- abs(got) > 2^-350 & abs(got) < 2^350
  identical(other[middle], (got * 2^exponent)[middle])
}

# ---- predictions ------------------------------------------------------------------------------

fit_of <- function(case, estimator) {
  flash_kde(
    case$x, estimator, case$bandwidth, weights = case$weights,
    control = flash_control(backend = case$backend, precision = case$precision, tol_type = case$tol_type),
    tol = case$tol
  )
}

log_weights <- function(case) if (is.null(case$weights)) rep(0, case$n) else log(case$weights)

run_prediction <- function(case) {
  parts <- strsplit(case$task, " ")[[1]]
  estimator <- parts[1]
  type <- parts[length(parts)]
  loo <- "loo" %in% parts
  fit <- fit_of(case, estimator)
  # the centres as they are: debiased points have a case of their own
  if (estimator == "sdkde") case$x <- unname(fit$debiased)
  case$extent <- extent_from(case$x, case$L)
  at <- if (!case$own || estimator == "sdkde") case$y
  if (loo) at <- NULL
  control <- replace(fit_control(fit), "engine", case$engine)
  on.exit(close_progress(control))
  done <- timed(\() predict_with(fit, at, type, loo, control))
  got <- if (case$engine == "auto") predict(fit, at, type = type, loo = loo) else done$value$got
  report <- list(ratio = Inf, chosen = done$value$stats, seconds = done$seconds)
  if (!all(is.finite(case$x))) return(report)
  got <- if (is.matrix(got)) got[case$rows, , drop = FALSE] else got[case$rows]
  truth <- brute_sums(case$x, looked_at(case), case$L, log_weights(case), rep(1, case$n), own = if (loo) case$rows,
    slopes = type == "score"
  )
  excess <- switch(type, density = density_excess, log_density = log_excess, score = score_excess)
  report$ratio <- excess(case, got, truth, estimator, loo, report$chosen)
  report
}

# predict() tells not what it ran: what it does beneath.
predict_with <- function(fit, at, type, loo, control) {
  if (type == "score") {
    done <- score_sum(fit_sources(fit), targets(fit, at), fit_polynomial(fit), loo, point_names(fit), control)
    return(list(got = done$score, stats = done$stats))
  }
  estimate <- log_estimate(fit, at, loo, control)
  list(got = if (type == "density") signed_density(estimate) else signed_log(estimate), stats = estimate$stats)
}

# Errors of log densities beside log sums; for leave-one-out values, of each row.
log_norms <- function(case, loo) {
  w <- log_weights(case)
  total <- if (loo) vapply(case$rows, \(i) log_sum_exp(w[-i]), 0) else log_sum_exp(w)
  -case$d * log(2 * pi) / 2 - sum(log(diag(case$L))) - total
}

density_excess <- function(case, got, truth, estimator, loo, chosen) {
  shift <- truth$shift + log_norms(case, loo)
  log_plain <- shift + log(truth$size)
  rounding <- rounding_of(case, truth, chosen)
  if (estimator == "laplace") rounding <- rounding * (1 + case$d / 2 + truth$near^2 / 2)
  value_excess(got, if (estimator == "laplace") truth$laplace else truth$size, truth$size, shift,
    if (case$tol_type == "global") max(log_plain) else log_plain, case$tol,
    rounding, if (chosen_single(chosen)) 2^-1000 else 2^-1021
  )
}

chosen_single <- function(chosen) identical(chosen$engine, "exact") && identical(chosen$precision, "single")

# The share of its own sum that a row may be off.
row_share <- function(case) if (case$tol_type == "global") 0.011 + 2 * case$tol else case$tol

log_excess <- function(case, got, truth, estimator, loo, chosen) {
  log_plain <- log_size(truth) + log_norms(case, loo)
  rounding <- rounding_of(case, truth, chosen) + 4 * .Machine$double.eps * abs(log_plain)
  share <- row_share(case)
  if (estimator != "laplace") {
    empty <- log_plain == -Inf
    # first the rounding: a log density of -1e24 has no digits after its point
    error <- expm1(pmax(0, abs(got - log_plain) - rounding))
    error[empty] <- ifelse(got[empty] == -Inf, 0, Inf)
    error[is.nan(error)] <- Inf
    return(max(error) / share)
  }
  want <- truth$laplace / truth$size
  rounding <- rounding * (1 + case$d / 2 + truth$near^2 / 2)
  # NaN says that the estimate is negative
  given <- exp(got - log_plain)
  error <- ifelse(is.nan(got), pmax(0, want), abs(given - want))
  error[is.infinite(got) & got < 0] <- abs(want[is.infinite(got) & got < 0])
  max(pmax(0, error - rounding)) / share
}

# In bandwidths: d sums and their mass are off by a share of their sizes, and the quotient by twice that.
score_excess <- function(case, got, truth, estimator, loo, chosen) {
  laplace <- estimator == "laplace"
  mass <- if (laplace) truth$laplace else truth$size
  slope <- (if (laplace) truth$laplace_slope else truth$slope) / mass
  slope_size <- if (laplace) truth$laplace_slope_size else truth$slope_size
  scored <- truth$size > 0
  share <- score_share(case, truth, scored)
  rounding <- rounding_of(case, truth, chosen)
  error <- row_length(got %*% case$L - slope)
  size <- (slope_size + row_length(slope) * truth$size) / abs(mass)
  # where the Laplace-corrected estimate is near its zero there is nothing to divide by
  clear <- scored & (!laplace | abs(truth$laplace) > 20 * share * truth$size)
  error[is.nan(error)] <- Inf
  excess <- (pmax(0, error - 4 * rounding * size) / (2 * share * size))[clear]
  if (length(excess) == 0) 0 else max(excess)
}

row_length <- function(v) sqrt(rowSums(v^2))

# For each row, the relative error that a slope may have. No more than a percent where the tolerance is that of
# the largest.
score_share <- function(case, truth, among) {
  if (case$tol_type == "pointwise") return(case$tol)
  log_part <- log(truth$slope_size) + truth$shift
  pmax(case$tol, pmin(exp(log(case$tol) + max(log_part[among]) - log_part), row_share(case)))
}

# ---- debiased points --------------------------------------------------------------------------

run_debiased <- function(case) {
  fit <- fit_of(case, "sdkde")
  control <- replace(fit_control(fit), "engine", case$engine)
  on.exit(close_progress(control))
  sources <- sum_sources(fit$x, fit$weights, score_factor(fit))
  done <- timed(\() debias_sum(sources, fit_factor(fit), control))
  chosen <- done$value$stats
  debiased <- if (case$engine == "auto") fit$debiased else done$value$debiased
  at <- case$rows
  x <- case$x[at, , drop = FALSE]
  used <- if (is.null(case$weights)) rep(TRUE, length(at)) else case$weights[at] > 0
  truth <- brute_sums(case$x, x, case$L, log_weights(case), rep(1, case$n), slopes = TRUE)
  # half a step of the score: back to a score, and what the coordinates cannot hold of it
  inverse <- backsolve(case$L, diag(case$d), upper.tri = FALSE)
  score <- 2 * (unname(debiased)[at, , drop = FALSE] - x) %*% t(inverse)
  lost <- apply(4 * .Machine$double.eps * abs(x) %*% t(abs(inverse)), 1, max)
  slope <- truth$slope / truth$size
  size <- truth$slope_size / truth$size + row_length(slope)
  error <- row_length(score - slope)
  error[is.nan(error)] <- Inf
  rounding <- 4 * rounding_of(replace(case, "y", list(case$x)), truth, chosen) * size + 4 * sqrt(case$d) * lost
  excess <- pmax(0, error - rounding) / (2 * score_share(case, truth, used) * size)
  list(ratio = max(excess[used]), chosen = chosen, seconds = done$seconds)
}

# ---- expectations -----------------------------------------------------------------------------

label_of <- function(row) {
  paste0(
    "tolerance_case(", row$seed, "), ", row$family, ", ", row$task, ", d = ", row$d, ", ", row$tol_type, " ",
    row$tol, ", ", row$asked, if (nzchar(row$trouble)) paste0(" (", row$trouble, ")")
  )
}

expect_tolerance <- function(row) {
  within <- is.na(row$ratio) || row$ratio <= 1
  testthat::expect(within, sprintf("%s: error %.3g tol.", label_of(row), row$ratio))
  testthat::expect(!isFALSE(row$same_mantissas), paste0(label_of(row), ": b 2^exponent gives other digits."))
  # exact sums have nothing to prove; until the engine tells what it proves there is no bound
  if (is.na(row$bound)) return(invisible())
  told <- sprintf("error %.3g, on its sample %.3g, bound %.3g tol.", row$ratio, row$achieved, row$bound)
  testthat::expect(!row$unproven, paste0(label_of(row), ": ", told))
}

# Cases for the grid of the GPU, with enough points for it. Sums of all pairs in R set the
# limit where the targets are the points.
gpu_tolerance_case <- function(seed) {
  case <- tolerance_case(seed, 800, 100, "cuda", "grid")
  if (case$own || case$d > 3) case else tolerance_case(seed, 20000, 100, "cuda", "grid")
}
