# What test-parity.R compares: points of all kinds, operations on them, the exact results, and the results of a naive
# sum in the same precision. An exact engine's error may be at most twice that of the naive sum.

# ---- points -----------------------------------------------------------------------------------

# Numbers with few bits, so that the reference is exact except for its exponentials.
parity_case <- function(n, m, d, kind = "plain") {
  set.seed(n + 1000 * m + 1e5 * d)
  lattice <- \(points) round(256 * points) / 256
  x <- lattice(matrix(stats::rnorm(n * d), n))
  y <- lattice(x[sample(n, m, TRUE), , drop = FALSE] + matrix(stats::rnorm(m * d), m) / 2)
  # L = s (1 on the diagonal, 1/4 below it): the wider the more dimensions, so that sums do not vanish
  L <- diag(d)
  L[cbind(seq_len(d - 1) + 1, seq_len(d - 1))] <- 1 / 4
  L <- L * 2^round(log2(sqrt(d) / 2))
  weights <- sample(0:8, n, TRUE) / 8
  if (sum(weights > 0) < 2) weights[] <- 1
  case <- list(
    x = x, y = y, d = d, L = L, H = L %*% t(L), weights = weights, b = matrix(stats::rnorm(5 * n), n),
    label = sprintf("%s, n = %d, m = %d, d = %d", kind, n, m, d)
  )
  moved <- switch(kind,
    offset = list(x = x + 2^20, y = y + 2^20),
    ties = list(x = round(x), y = round(y)),
    apart = list(x = x + 64 * (seq_len(n) %% 3)),
    far = list(y = y + 4^((seq_len(m) - 1) %% 6) - 1)
  )
  utils::modifyList(case, as.list(moved))
}

# Around the tiles of the CPU (48 x 192) and of GPUs (64, 128), and registers of 8 and 16
parity_cases <- function() {
  sized <- Map(parity_case,
    n = c(1L, 1L, 2L, 47L, 63L, 128L, 191L, 193L, 49L), m = c(1L, 48L, 129L, 1L, 192L, 65L, 127L, 49L, 193L),
    d = c(1L, 5L, 2L, 9L, 3L, 16L, 7L, 17L, 33L)
  )
  kinds <- Map(parity_case, 97L, 33L, c(2L, 9L), c("offset", "ties", "apart", "far", "far", "apart"))
  c(sized, kinds)
}

# ---- truth ------------------------------------------------------------------------------------

# Cached, because many operations need the same.
parity_memo <- new.env()
remember <- function(what, case, y, compute) {
  key <- paste(c(what, case$label, dim(y), sum(case$x), sum(y)), collapse = " ")
  if (is.null(parity_memo[[key]])) parity_memo[[key]] <- compute()
  parity_memo[[key]]
}

true_squares <- function(case, y) remember("true", case, y, \() ref_distances2(case, y))

ref_distances2 <- function(case, y) {
  P <- solve(case$H)
  rows <- vapply(seq_len(nrow(y)), \(j) ref_distance2(case$x, y[j, ], case$H, P), numeric(nrow(case$x)))
  matrix(rows, nrow(y), nrow(case$x), byrow = TRUE)
}

# rowSums() adds with more digits than a double has.
true_sums <- function(K, b) matrix(apply(b, 2, \(column) rowSums(K * rep(column, each = nrow(K)))), nrow(K))

# r |k'(r)|: the effect of the rounding of a distance, or of a sum of absolute differences, on a kernel.
ref_slopes <- list(
  gaussian = \(r) r^2 * exp(-r^2 / 2),
  laplacian = \(r) r * exp(-r),
  product_laplacian = \(a) a * exp(-a),
  powered_exponential = \(r) 1.4 * r^1.4 * exp(-r^1.4),
  matern32 = \(r) 3 * r^2 * exp(-sqrt(3) * r),
  matern52 = \(r) 5 / 3 * r^2 * (1 + sqrt(5) * r) * exp(-sqrt(5) * r),
  cauchy = \(r) 2 * r^2 / (1 + r^2)^2,
  imq = \(r) r^2 / (1 + r^2)^1.5
)

# ---- the naive sum ----------------------------------------------------------------------------

to_single <- function(x) {
  x[] <- readBin(writeBin(as.vector(x), raw(), size = 4), "numeric", length(x), 4)
  x
}

roundings <- list(double = \(x) x, single = to_single)
epsilons <- c(double = 2^-53, single = 2^-24)

# Whitened and centred; Gaussians are powers of two, so their points are larger by sqrt(log2(e) / 2).
naive_points <- function(case, at, round) {
  round(t(forwardsolve(case$L, t(at) - colMeans(case$x))) * BASE2)
}
BASE2 <- sqrt(log2(exp(1)) / 2)

# The m x n squared distances: direct or, as is usual in many dimensions, by products of matrices.
naive_squares <- function(case, y, precision, gram = case$d > 4) {
  remember(c(precision, gram), case, y, \() sum_squares(case, y, gram, roundings[[precision]]))
}

sum_squares <- function(case, y, gram, round) {
  u <- naive_points(case, case$x, round)
  v <- naive_points(case, y, round)
  sum_up <- \(term, from = 0) Reduce(\(sum, k) round(sum + round(term(k))), seq_len(case$d), from)
  if (!gram) return(sum_up(\(k) round(outer(v[, k], u[, k], "-"))^2))
  squares <- round(outer(sum_up(\(k) v[, k]^2), sum_up(\(k) u[, k]^2), "+"))
  pmax(sum_up(\(k) -2 * outer(v[, k], u[, k]), squares), 0)
}

naive_kernels <- function(case, y, kernel, precision) {
  round <- roundings[[precision]]
  if (kernel == "product_laplacian") return(round(ref_kernels[[kernel]](naive_absolute(case, y, round))))
  t <- naive_squares(case, y, precision, kernel == "gaussian" && case$d > 4)
  if (kernel == "gaussian") round(2^-t) else round(ref_kernels[[kernel]](round(sqrt(round(t / BASE2^2)))))
}

naive_absolute <- function(case, y, round) {
  u <- naive_points(case, case$x, round)
  v <- naive_points(case, y, round)
  sums <- Reduce(\(sum, k) round(sum + abs(round(outer(v[, k], u[, k], "-")))), seq_len(case$d), 0)
  round(sums / BASE2)
}

# Adds one term after the other: K is m x n, b is n x r.
naive_sums <- function(K, b, round) {
  sums <- matrix(0, nrow(K), ncol(b))
  for (i in seq_len(ncol(K))) sums <- round(sums + round(outer(K[, i], b[i, ])))
  sums
}

# ---- sums of columns --------------------------------------------------------------------------

# list(got, truth, size, slope, naive), m x r: `size` the sums of absolute terms
parity_sums <- function(case, kernel, precision, backend, columns, own = FALSE, weighted = FALSE) {
  y <- if (own) case$x else case$y
  b <- if (is.null(columns)) matrix(1, nrow(case$x)) else case$b[, columns, drop = FALSE]
  got <- kernel_sum(case$x, if (!own) y, if (!is.null(columns)) b, case$H, kernel,
    control = flash_control(engine = "exact", backend = backend, precision = precision), weights = if (weighted) case$weights
  )
  expect_ran(unclass(diagnostics(got)), backend, precision)
  if (weighted) b <- case$weights * b
  r <- if (kernel == "product_laplacian") ref_absolute(case$x, y, case$H) else sqrt(true_squares(case, y))
  round <- roundings[[precision]]
  list(
    got = as.matrix(plain(got)), truth = true_sums(ref_kernels[[kernel]](r), b),
    size = ref_kernels[[kernel]](r) %*% abs(b), slope = ref_slopes[[kernel]](r) %*% abs(b),
    naive = naive_sums(naive_kernels(case, y, kernel, precision), round(b), round)
  )
}

# ---- estimates --------------------------------------------------------------------------------

# Gaussians times weights, relative to each row's nearest source, so that no target underflows: the reference from
# squared distances q, and the naive sum from exponents t. `shift` brings naive sums to the scale of the reference.
relative_gaussians <- function(case, y, loo, precision) {
  round <- roundings[[precision]]
  q <- true_squares(case, y)
  t <- naive_squares(case, y, precision)
  absent <- matrix(case$weights == 0, nrow(q), ncol(q), byrow = TRUE)
  if (loo) diag(absent) <- TRUE
  nearest <- apply(replace(q, absent, Inf), 1, min)
  first <- apply(replace(t, absent, Inf), 1, min)
  weights <- replace(matrix(case$weights, nrow(q), ncol(q), byrow = TRUE), absent, 0)
  list(
    q = replace(q, absent, 0), t = replace(t, absent, 0), log_scale = -nearest / 2,
    E = weights * exp(pmin(nearest - q, 0) / 2), naive = weights * round(2^round(pmin(first - t, 0))),
    shift = exp(nearest / 2 - first * log(2))
  )
}

# Relative to the accuracy that the fit promises.
debiased_case <- function(case, fit) {
  utils::modifyList(case, list(x = unname(fit_points(fit)), label = paste(case$label, fit$backend, fit$precision)))
}

parity_fit <- function(case, estimator, precision, backend) {
  flash_kde(case$x, estimator, case$H, weights = case$weights, control = flash_control(backend, precision))
}

expect_ran <- function(stats, backend, precision) {
  ran <- stats[c("engine", "backend", "precision")]
  expect_identical(ran, list(engine = "exact", backend = backend, precision = precision))
}

# The error of the sum behind the estimate, relative to its nearest source: the logarithm may be so large that it has no
# digits left.
parity_density <- function(case, estimator, precision, backend, own = FALSE, loo = FALSE) {
  fit <- parity_fit(case, estimator, precision, backend)
  estimate <- log_estimate(fit, if (!own) case$y, loo, fit_control(fit))
  expect_ran(estimate$stats, backend, precision)
  y <- if (own) case$x else case$y
  if (estimator == "sdkde") { # right or wrong: parity_debiased() sees to it
    case <- debiased_case(case, fit)
    y <- from_centre(fit, y)
  }
  round <- roundings[[precision]]
  g <- relative_gaussians(case, y, loo, precision)
  kind <- ref_polynomials[[estimator]](case$d)
  f <- kind$value(g$q / 2)
  naive_f <- round(kind$value(round(g$t * log(2))))
  log_norm <- ref_log_norm(case$H, if (loo) sum(case$weights) - case$weights else sum(case$weights))
  sign <- if (startsWith(estimator, "laplace")) ifelse(estimate$negative, -1, 1) else 1
  parts <- list(
    got = sign * exp(estimate$log_abs - log_norm - g$log_scale), truth = rowSums(g$E * f), size = rowSums(g$E * abs(f)),
    slope = rowSums(g$E * g$q * (abs(f) + abs(kind$slope(g$q / 2)))) +
      2 * abs(estimate$log_abs) * rowSums(g$E * abs(f)),
    naive = g$shift * naive_sums(round(g$naive * naive_f), matrix(1, ncol(g$q)), round)
  )
  lapply(parts, as.matrix)
}

# Scores in kernel standard deviations: sums of coordinates about the mean, divided by the kernel sum. `score`: m x d,
# as the package returns it. `lost`: digits that points lack for it.
parity_score <- function(case, score, precision, estimator = "kde", y = case$y, loo = FALSE, lost = 0) {
  round <- roundings[[precision]]
  g <- relative_gaussians(case, y, loo, precision)
  kind <- ref_polynomials[[estimator]](case$d)
  f <- kind$value(g$q / 2)
  naive_t <- round(g$t * log(2))
  naive_f <- round(kind$value(naive_t))
  mass <- rowSums(g$E * f)
  u <- t(forwardsolve(case$L, t(case$x) - colMeans(case$x)))
  v <- t(forwardsolve(case$L, t(y) - colMeans(case$x)))
  W <- g$E * (f - kind$slope(g$q / 2))
  truth <- vapply(seq_len(case$d), \(k) rowSums(W * outer(v[, k], u[, k], \(v, u) u - v)), numeric(nrow(y)))
  mass_size <- rowSums(g$E * abs(f))
  truth <- matrix(truth, nrow(y)) / mass
  of_mass <- apply(abs(truth), 1, max) * mass_size
  size <- (rowSums(abs(W) * (1 + sqrt(g$q) + sqrt(rowSums(v^2)))) + of_mass) / abs(mass)
  slope <- (rowSums(abs(W) * g$q * (1 + sqrt(g$q))) + of_mass * rowSums(g$E * g$q) / mass_size) / abs(mass) + lost
  naive_u <- naive_points(case, case$x, round)
  naive_v <- naive_points(case, y, round)
  sums <- naive_sums(round(g$naive * round(naive_f - kind$slope(naive_t))), cbind(1, naive_u), round)
  naive_mass <- naive_sums(round(g$naive * naive_f), matrix(1, ncol(g$q)), round)
  naive <- (sums[, -1] - sums[, 1] * naive_v) / as.vector(naive_mass) / BASE2
  # near the zero of a signed estimate there is no size to divide by
  clear <- abs(mass) > mass_size / 20
  all <- list(got = score %*% case$L, truth = truth, size = size, slope = slope, naive = naive)
  lapply(all, \(part) as.matrix(part)[clear, , drop = FALSE])
}

parity_predicted_score <- function(case, estimator, precision, backend, own = FALSE, loo = FALSE) {
  fit <- parity_fit(case, estimator, precision, backend)
  score <- predict(fit, if (!own) case$y, type = "score", loo = loo)
  y <- if (own) case$x else case$y
  if (estimator == "sdkde") {
    case <- debiased_case(case, fit)
    y <- from_centre(fit, y)
  }
  parity_score(case, score, precision, estimator, y, loo)
}

# Points move by half a score.
parity_debiased <- function(case, precision, backend) {
  fit <- parity_fit(case, "sdkde", precision, backend)
  expect_identical(diagnostics(fit)[c("backend", "precision")], list(backend = backend, precision = precision))
  case$x <- from_centre(fit, case$x)
  moved <- 2 * (unname(fit_points(fit)) - case$x) %*% solve(case$H)
  parity_score(case, moved, precision, y = case$x, lost = 2 * apply(abs(case$x) %*% abs(solve(case$L)), 1, max))
}

# ---- the table --------------------------------------------------------------------------------

# All operations are function(case, kernel, precision, backend).
sums_of <- function(...) \(case, kernel, precision, backend) parity_sums(case, kernel, precision, backend, ...)
density_of <- function(estimator, ...) {
  \(case, kernel, precision, backend) parity_density(case, estimator, precision, backend, ...)
}
score_of <- function(estimator, ...) {
  \(case, kernel, precision, backend) parity_predicted_score(case, estimator, precision, backend, ...)
}

parity_operations <- list(
  `sums of ones` = sums_of(NULL),
  `sums of one column` = sums_of(1),
  `sums of columns, weighted` = sums_of(1:5, weighted = TRUE),
  `sums at the sources, of one column` = sums_of(1, own = TRUE),
  `sums at the sources, of columns, weighted` = sums_of(1:3, own = TRUE, weighted = TRUE),
  `kde` = density_of("kde"),
  `kde at the sources` = density_of("kde", own = TRUE),
  `kde left out` = density_of("kde", own = TRUE, loo = TRUE),
  `laplace` = density_of("laplace"),
  `laplace at the sources` = density_of("laplace", own = TRUE),
  `laplace left out` = density_of("laplace", own = TRUE, loo = TRUE),
  `laplace6` = density_of("laplace6"),
  `laplace6 left out` = density_of("laplace6", own = TRUE, loo = TRUE),
  `sdkde` = density_of("sdkde"),
  `sdkde at the sources` = density_of("sdkde", own = TRUE),
  `scores of kde` = score_of("kde"),
  `scores of kde at the sources` = score_of("kde", own = TRUE),
  `scores of kde left out` = score_of("kde", own = TRUE, loo = TRUE),
  `scores of laplace` = score_of("laplace"),
  `scores of laplace at the sources` = score_of("laplace", own = TRUE),
  `scores of laplace left out` = score_of("laplace", own = TRUE, loo = TRUE),
  `scores of laplace6` = score_of("laplace6"),
  `scores of laplace6 at the sources` = score_of("laplace6", own = TRUE),
  `scores of sdkde` = score_of("sdkde"),
  `debiased points` = \(case, kernel, precision, backend) parity_debiased(case, precision, backend)
)
parity_kernels <- function(operation) if (startsWith(operation, "sums")) names(ref_kernels) else "gaussian"

# list(error, naive), both relative to the sum of absolute terms, and the error over what is allowed: twice the naive
# error, which is the largest of all rows' (three times where tensor cores round each product in halves), and a few units of the arithmetic, of the terms (powers of two in float are
# good to 7) and of the distances. Terms in float end at 2^-125.
parity_error <- function(parts, precision, times = 2) {
  # of each row, or of each row's columns
  size <- as.vector(pmax(parts$size, c(double = 1e-280, single = 1e-25)[[precision]] * max(1, parts$size)))
  error <- abs(parts$got - parts$truth)
  naive <- max(abs(parts$naive - parts$truth) / size)
  list(error = max(error / size), naive = naive, excess = max(
    error / (times * naive * size + epsilons[[precision]] * (12 * size + 3 * as.vector(parts$slope)))
  ))
}

expect_parity <- function(parts, precision, label, times = 2) {
  found <- parity_error(parts, precision, times)
  testthat::expect(isTRUE(found$excess <= 1), sprintf(
    "%s: error %.3g, %.2f times what is allowed; naively %.3g.", label, found$error, found$excess, found$naive
  ))
}
