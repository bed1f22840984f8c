# The table of estimators. A new estimator needs an entry here, and the sums that it uses in sum-doors.R. Fields:
# - title, short: the name, and a short name for the line under a plot's title;
# - debiased: are its kernels at debiased points? signed: may it be negative?
# - in_pieces: may its points be a big.matrix, read a piece at a time?
# - adaptive: does it allow local bandwidth factors?
# - loo_scores: are leave-one-out scores and standard errors available?
# - factor, square: functions of d. factor: the polynomial in q / 2 that multiplies the kernel, as c(constant, linear,
#   quadratic). square: its square in terms of q' = 2 q, the squared distance with H / 2, for standard errors; NULL if
#   its degree is above 2;
# - below: c1 and c2 of the distribution function of the kernel in one dimension, Phi(z) + z (c1 + c2 z^2) phi(z);
# - overlap: a function of d. The integral of the product of two kernels is the kernel of 2H times this polynomial in
#   q / 2, with q for 2H;
# - gain: the bandwidth shrinks like n^(-1 / (d + gain)); reference: n h^(d + gain) at the minimum of the AMISE for
#   normal data, a function of d (see ?kde_bandwidth).
ESTIMATORS <- list(
  sdkde = list(
    title = "Score-debiased kernel density estimate (SD-KDE)", short = "SD-KDE",
    debiased = TRUE, signed = FALSE, in_pieces = FALSE, adaptive = TRUE, loo_scores = FALSE,
    factor = \(d) PLAIN_FACTOR, square = \(d) PLAIN_FACTOR, overlap = \(d) PLAIN_FACTOR,
    below = c(0, 0),
    gain = 8, reference = \(d) {
      32 * (1 + (d / 3) * (2 / 3)^(d / 2) + d * (d + 2) * 2^(-d / 2) / 64) / (25 * (d + 2))
    }
  ),
  kde = list(
    title = "Kernel density estimate", short = "KDE",
    debiased = FALSE, signed = FALSE, in_pieces = TRUE, adaptive = TRUE, loo_scores = TRUE,
    factor = \(d) PLAIN_FACTOR, square = \(d) PLAIN_FACTOR, overlap = \(d) PLAIN_FACTOR,
    below = c(0, 0),
    gain = 4, reference = \(d) 4 / (d + 2)
  ),
  laplace = list(
    title = "Laplace-corrected kernel density estimate (signed)", short = "Laplace-corrected KDE",
    debiased = FALSE, signed = TRUE, in_pieces = TRUE, adaptive = FALSE, loo_scores = TRUE,
    factor = \(d) c(1 + d / 2, -1, 0), square = \(d) c((1 + d / 2)^2, -(1 + d / 2), 1 / 4),
    overlap = \(d) c((d + 2) * (d + 8) / 16, -(d + 6) / 4, 1 / 4), below = c(1 / 2, 0),
    gain = 8, reference = \(d) 8 * (d + 8) / ((d + 4) * (d + 6))
  ),
  # Let A = H : D^2 / 2. Smoothing is the operator exp(A), and the kernels of "laplace" and "laplace6" are (1 - A) K and
  # (1 - A + A^2 / 2) K. Since (-A)^j K / j! = L_j^(d/2 - 1)(q / 2) K, they are K times the Laguerre polynomials
  # L_1^(d/2) and L_2^(d/2).
  laplace6 = list(
    title = "Laplace-corrected kernel density estimate of order 6 (signed)", short = "Laplace-corrected KDE, order 6",
    debiased = FALSE, signed = TRUE, in_pieces = TRUE, adaptive = FALSE, loo_scores = TRUE,
    factor = \(d) c((d + 2) * (d + 4) / 8, -(d + 4) / 2, 1 / 2), square = NULL,
    overlap = \(d) laguerre_polynomial(c(1, -1, 1 / 2, -1 / 8, 1 / 64), d), below = c(7, -1) / 8,
    gain = 12, reference = \(d) laplace_reference(d, 3)
  )
)

# The polynomial p in q / 2 with sum c_j A^j K = p K.
laguerre_polynomial <- function(c, d) {
  p <- numeric(length(c))
  for (j in seq_along(c) - 1) {
    i <- 0:j
    p[i + 1] <- p[i + 1] + c[j + 1] * (-1)^(i + j) * factorial(j) / factorial(i) * choose(j + d / 2 - 1, j - i)
  }
  p
}

# `reference` of the kernels (1 - A + ... +- A^(r - 1) / (r - 1)!) K of order 2 r. Their squared bias is the integral of
# (A^r p / r!)^2. Both parts of the AMISE are sums of A^j K_2H at 0, which is (-1)^j j! L_j^(d/2 - 1)(0) / 2^j times
# K_2H(0).
laplace_reference <- function(d, r) {
  at_zero <- \(j) gamma(j + d / 2) / gamma(d / 2) / 2^j
  j <- seq_len(r) - 1
  roughness <- sum(outer(j, j, \(i, j) at_zero(i + j) / (factorial(i) * factorial(j))))
  d * roughness / (4 * r * at_zero(2 * r) / factorial(r)^2)
}

# The polynomial of a kernel without correction.
PLAIN_FACTOR <- c(1, 0, 0)

# The estimator without correction.
PLAIN_ESTIMATOR <- "kde"

# Returns the entry of the estimator of a fit or its summary.
estimator_of <- function(object) ESTIMATORS[[object$estimator]]

is_debiased <- function(object) estimator_of(object)$debiased

is_signed <- function(object) estimator_of(object)$signed

# "auto" means "sdkde" unless the caller has decided otherwise.
check_estimator <- function(estimator) {
  if (identical(estimator, "auto")) return("sdkde")
  if (is.character(estimator) && length(estimator) == 1 && estimator %in% names(ESTIMATORS)) return(estimator)
  check_choice(estimator, names(ESTIMATORS), "estimator")
}

is_auto <- function(value) identical(value, "auto")

# Returns the names of the estimators whose field `able` is TRUE.
estimators_that <- function(able) names(Filter(\(entry) entry[[able]], ESTIMATORS))
