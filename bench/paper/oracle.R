# Estimates of known densities: the mixtures, the estimators, and their errors by simulation and, for the two estimators
# whose mean is linear in the density, exactly. Sourced by oracle-1d.R, oracle-16d.R and rates.R.

for (part in c("mixtures", "densities")) {
  source(file.path(bench_folder, "bandwidths", paste0(part, ".R")), local = TRUE)
}

# The mixtures of the one-dimensional figure of Flash-SD-KDE, and of the list in the code of SD-KDE.
PAPER_1D <- line_mixture(c(0.3, 0.4, 0.3), c(-2, 0, 2), c(0.4, 0.7, 0.3))
SDKDE_1D <- list(
  "SD-KDE 1" = line_mixture(c(0.4, 0.6), c(-2, 2), c(0.5, 1)),
  "SD-KDE 2" = line_mixture(c(0.3, 0.7), c(-2, 4), c(0.4, 1.5)),
  "SD-KDE 3" = line_mixture(c(0.5, 0.5), c(0, 1.5), c(0.4, 1.5))
)

# Flash-SD-KDE's in 16 dimensions: eight normals of sd 1 about means 2 N(0, I), those that NumPy draws for the
# paper's seeds 0, 1 and 2.
paper_16d <- function(seed) {
  table <- utils::read.csv(file.path(bench_folder, "paper", "mixtures-16d.csv"))
  mean <- unname(as.matrix(table[table$seed == seed, -(1:2)]))
  normal_mixture(rep(1, nrow(mean)), mean, rep(list(diag(ncol(mean))), nrow(mean)))
}

# The mixture of (x - shift) / scale.
standardised <- function(mixture, shift, scale) {
  mixture$mean <- sweep(sweep(mixture$mean, 2, shift), 2, scale, "/")
  mixture$root <- lapply(mixture$root, \(R) chol(crossprod(R) / outer(scale, scale)))
  mixture
}

# Each component wider by the variance H: what the mean of a KDE is.
widened <- function(mixture, H) {
  mixture$root <- lapply(mixture$root, \(R) chol(crossprod(R) + H))
  mixture
}

# The gradient of the log density at rows x.
mixture_score <- function(x, mixture) {
  x <- as.matrix(x)
  log_density <- log_density_mixture(x, mixture)
  score <- matrix(0, nrow(x), mixture$d)
  for (k in seq_along(mixture$p)) {
    R <- mixture$root[[k]]
    z <- sweep(x, 2, mixture$mean[k, ])
    share <- exp(log(mixture$p[k]) + log_normal(z, R) - log_density)
    score <- score - share * t(backsolve(R, backsolve(R, t(z), transpose = TRUE)))
  }
  score
}

# The papers' rule of thumb: one sd for all columns.
paper_silverman <- function(x) {
  x <- as.matrix(x)
  sd <- apply(x, 2, \(column) sqrt(mean((column - mean(column))^2)))
  iqr <- apply(x, 2, stats::IQR)
  0.9 * mean(pmin(sd, iqr / 1.34)) * nrow(x)^(-1 / (ncol(x) + 4))
}

# ---- estimators: densities at rows `at` -----------------------------------------------------------------

by_package <- function(x, at, h, estimator, ...) {
  fit <- flash_kde(x, estimator, bandwidth = h, adaptive = FALSE, control = flash_control(backend = backend), ...)
  suppressWarnings(stats::predict(fit, at))
}

# The correction from the plain sum and those of moments, by a pass that knows nothing of it:
# sum k q = sum k |y - x|^2 / h^2, opened up. In double: its terms cancel.
laplace_two_passes <- function(x, at, h) {
  x <- as.matrix(x)
  at <- as.matrix(at)
  centre <- colMeans(x)
  x <- sweep(x, 2, centre)
  at <- sweep(at, 2, centre)
  d <- ncol(x)
  plain <- kernel_sum(x, at, bandwidth = h, control = flash_control(backend = backend, precision = "double"), tol = 0)
  moments <- kernel_sum(
    x, at, cbind(x, rowSums(x^2)), h, tol = 0,
    control = flash_control(backend = backend, precision = "double")
  )
  mixed <- rowSums(at * moments[, seq_len(d), drop = FALSE])
  square <- (rowSums(at^2) * plain - 2 * mixed + moments[, d + 1]) / h^2
  ((1 + d / 2) * plain - square / 2) / (nrow(x) * (2 * pi)^(d / 2) * h^d)
}

# `score`: the true one at the points x.
ESTIMATORS <- list(
  "kde" = \(x, at, h, score) by_package(x, at, h, "kde"),
  "sdkde" = \(x, at, h, score) by_package(x, at, h, "sdkde"),
  "sdkde, score h/sqrt 2" = \(x, at, h, score) by_package(x, at, h, "sdkde", score_bandwidth = h / sqrt(2)),
  "sdkde, true score" = \(x, at, h, score) by_package(x, at, h, "sdkde", score = score),
  "laplace" = \(x, at, h, score) by_package(x, at, h, "laplace"),
  "laplace, two passes" = \(x, at, h, score) laplace_two_passes(x, at, h)
)

# ---- errors ---------------------------------------------------------------------------------------------

# Integrals by points with weights: of the squared and the absolute error, and of the negative part.
losses <- function(estimate, truth, weight) {
  off <- estimate - truth
  c(mise = sum(weight * off^2), miae = sum(weight * abs(off)), negative = sum(weight * pmax(-estimate, 0)))
}

# One dimension: a grid as fine as a tenth of the narrowest component or kernel.
line_grid <- function(mixture, h = Inf) {
  sd <- vapply(mixture$root, as.numeric, 0)
  wide <- min(h, 1)
  range <- c(min(mixture$mean - 6 * sd), max(mixture$mean + 6 * sd)) + c(-6, 6) * wide
  at <- seq(range[1], range[2], length.out = max(2048, ceiling(diff(range) / (min(sd, h) / 10))))
  list(at = at, weight = rep(at[2] - at[1], length(at)), truth = exp(log_density_mixture(matrix(at), mixture)))
}

# More: points drawn in equal parts from the truth and from the mean of a KDE of it, whose mass lies further out.
# `seed`: not that of the sample. wide: the variance of the kernel.
drawn_points <- function(mixture, m, h, seed) with_seed(seed, \() {
  wide <- widened(mixture, diag(h^2, mixture$d))
  at <- rbind(draw_mixture(m %/% 2, mixture), draw_mixture(m - m %/% 2, wide))
  truth <- exp(log_density_mixture(at, mixture))
  list(at = at, weight = 2 / (truth + exp(log_density_mixture(at, wide))) / m, truth = truth)
})

# The exact mean integrated squared error of "kde" or "laplace" for n points. With P_t, the convolution with the
# normal of variance t I, and G(t) the integral of f P_t f, the mean is P_t f and P_t f - t dP_t/dt f.
exact_mise <- function(mixture, h, n, estimator) {
  t <- h^2
  d <- mixture$d
  at_0 <- overlap(mixture, 0)
  at_t <- overlap(mixture, t)
  at_2t <- overlap(mixture, 2 * t)
  if (estimator == "kde") {
    cross <- at_t[1]
    square <- at_2t[1]
    kernel <- 1
  } else {
    cross <- at_t[1] - t * at_t[2]
    square <- at_2t[1] - 2 * t * at_2t[2] + t^2 * at_2t[3]
    kernel <- (1 + d / 4)^2 + d / 8
  }
  kernel_square <- kernel * (4 * pi * t)^(-d / 2)
  unname(square - 2 * cross + at_0[1] + (kernel_square - square) / n)
}

# G and its first two derivatives at t.
overlap <- function(mixture, t) {
  total <- c(0, 0, 0)
  for (k in seq_along(mixture$p)) for (l in seq_len(k)) {
    axes <- eigen(crossprod(mixture$root[[k]]) + crossprod(mixture$root[[l]]), symmetric = TRUE)
    v <- axes$values + t
    z2 <- drop((mixture$mean[k, ] - mixture$mean[l, ]) %*% axes$vectors)^2
    value <- exp(-sum(log(2 * pi * v) + z2 / v) / 2)
    slope <- sum(z2 / v^2 - 1 / v) / 2
    bend <- sum(1 / (2 * v^2) - z2 / v^3)
    share <- mixture$p[k] * mixture$p[l] * (if (k == l) 1 else 2)
    total <- total + share * value * c(1, slope, slope^2 + bend)
  }
  total
}

# The bandwidth at which that is least, and its value: about the best of a grid, since there may be several minima.
exact_best <- function(mixture, n, estimator) {
  log_mise <- \(log_h) log(exact_mise(mixture, exp(log_h), n, estimator))
  grid <- seq(log(1e-3), log(3), length.out = 41)
  middle <- min(max(which.min(vapply(grid, log_mise, 0)), 2), 40)
  best <- stats::optimize(log_mise, grid[middle + c(-1, 1)], tol = 1e-7)
  c(h = exp(best$minimum), mise = exp(best$objective))
}

# ---- means over samples -----------------------------------------------------------------------------------

# Rows of one sample each to means of their numbers, with standard errors (NAME_se), by the columns `by`. The
# bandwidth and what else is named in `plain` has none.
means_over_samples <- function(samples, by, plain = "h") {
  key <- do.call(paste, c(samples[by], sep = "\r"))
  numbers <- setdiff(names(samples), c(by, "seed"))
  found <- lapply(split(samples, factor(key, unique(key))), \(of) {
    means <- colMeans(of[numbers])
    se <- vapply(of[setdiff(numbers, plain)], stats::sd, 0) / sqrt(nrow(of))
    names(se) <- paste0(names(se), "_se")
    data.frame(of[1, by, drop = FALSE], samples = nrow(of), t(means), t(se))
  })
  do.call(rbind, unname(found))
}

# ---- beside the paper -------------------------------------------------------------------------------------

PRINTED_NAMES <- c(
  "kde" = "kde", "sdkde" = "sdkde", "laplace" = "laplace fused", "laplace, two passes" = "laplace two passes"
)

printed_rows <- function(d) {
  printed <- utils::read.csv(file.path(bench_folder, "paper", "printed-oracle.csv"))
  printed <- printed[printed$d == d, ]
  printed$estimator <- names(PRINTED_NAMES)[match(printed$estimator, PRINTED_NAMES)]
  printed
}

# What is printed over what was measured, and how many standard errors of a mean of `of` samples lie between.
show_printed <- function(rows, d, of = 3) {
  printed <- printed_rows(d)
  key <- \(of) paste(of$estimator, as.double(of$n)) # 1e5 and 100000L are not written alike
  at <- match(key(printed), key(rows))
  printed <- printed[!is.na(at), ]
  ours <- rows[at[!is.na(at)], ]
  pick <- \(what) ifelse(printed$loss == "mise", ours[[paste0("mise", what)]], ours[[paste0("miae", what)]])
  se <- pick("_se") * sqrt(1 + ours$samples / of)
  table <- data.frame(
    printed[c("loss", "n", "estimator")], printed = printed$value, here = signif(pick(""), 4),
    ratio = round(printed$value / pick(""), 3), `standard errors` = round((printed$value - pick("")) / se, 1),
    check.names = FALSE
  )
  show_table(table[table$estimator != "laplace, two passes", ])
  invisible(table)
}

# Crosses in the colours that curves() gives `names`.
printed_points <- function(d, loss, names) {
  printed <- printed_rows(d)
  printed <- printed[printed$loss == loss & printed$estimator %in% names, ]
  colour <- colours_of(names)[printed$estimator]
  graphics::points(printed$n, printed$value, pch = 4, cex = 1.4, lwd = 2.2, col = colour)
}
