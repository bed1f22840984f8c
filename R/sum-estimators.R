# What the estimators are, each told once. A new one is an entry here, and whatever sums it needs in sum-doors.R:
# - title, short: what it is called, and for the line under a plot's title;
# - debiased: do its kernels stand at debiased points? signed: may it be negative?
# - in_pieces: may its points be a big.matrix, read a piece at a time?
# - adaptive: may its kernels have bandwidths of their own?
# - loo_scores: can scores and standard errors leave a point out, as densities can?
# - factor, square: functions of d, the polynomial in q / 2 that multiplies the kernel, as c(constant, linear,
#   quadratic), and its square in terms of q' = 2 q, the squared distance with H / 2, NULL where that is of a higher
#   degree, for standard errors;
# - below: c1 and c2 of the distribution function of the kernel in one dimension, Phi(z) + z (c1 + c2 z^2) phi(z);
# - overlap: a function of d, the polynomial in q / 2, q of 2H, that multiplies the kernel of 2H where two kernels are
#   multiplied and integrated; NULL where that is of a higher degree;
# - gain: its bandwidth goes with n^(-1 / (d + gain)); reference: n h^(d + gain) at the minimum of the AMISE for normal
#   data, a function of d (see ?kde_bandwidth).
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
  # With A = H : D^2 / 2, the kernels are (1 - A) K and (1 - A + A^2 / 2) K, as what smoothing does is exp(A). By
  # (-A)^j K / j! = L_j^(d/2 - 1)(q / 2) K they are K times the Laguerre polynomials L_1 and L_2^(d/2).
  laplace6 = list(
    title = "Laplace-corrected kernel density estimate of order 6 (signed)", short = "Laplace-corrected KDE, order 6",
    debiased = FALSE, signed = TRUE, in_pieces = TRUE, adaptive = FALSE, loo_scores = TRUE,
    factor = \(d) c((d + 2) * (d + 4) / 8, -(d + 4) / 2, 1 / 2), square = NULL, overlap = NULL, below = c(7, -1) / 8,
    gain = 12, reference = \(d) laplace_reference(d, 3)
  )
)

# Of kernels (1 - A + ... +- A^(r - 1) / (r - 1)!) K, of order 2 r, whose squared bias is the integral of (A^r p /
# r!)^2. Both parts of the AMISE are sums of A^j K_2H at 0, which is (-1)^j j! L_j^(d/2 - 1)(0) / 2^j times the height
# there.
laplace_reference <- function(d, r) {
  at_zero <- \(j) gamma(j + d / 2) / gamma(d / 2) / 2^j
  j <- seq_len(r) - 1
  roughness <- sum(outer(j, j, \(i, j) at_zero(i + j) / (factorial(i) * factorial(j))))
  d * roughness / (4 * r * at_zero(2 * r) / factorial(r)^2)
}

# Of kernels alone.
PLAIN_FACTOR <- c(1, 0, 0)

# The one that needs no correction.
PLAIN_ESTIMATOR <- "kde"

# Of a fit or its summary.
estimator_of <- function(object) ESTIMATORS[[object$estimator]]

is_debiased <- function(object) estimator_of(object)$debiased

is_signed <- function(object) estimator_of(object)$signed

# "auto" is the score-debiased one, where nothing else speaks for another.
check_estimator <- function(estimator) {
  if (identical(estimator, "auto")) return("sdkde")
  if (is.character(estimator) && length(estimator) == 1 && estimator %in% names(ESTIMATORS)) return(estimator)
  check_choice(estimator, names(ESTIMATORS), "estimator")
}

is_auto <- function(value) identical(value, "auto")

# The names of those whose entry `able` is TRUE.
estimators_that <- function(able) names(Filter(\(entry) entry[[able]], ESTIMATORS))
