# Derivatives of a fit in its columns. The derivative of a kernel in x is
#   -g(r) H^-1 (x - c) with g(r) = -k'(r) / r, for kernels of the distance r,
#   g(s) H^-1 c with g = k'(s), for kernels of the product s = x'y.
# The slope g is another kernel, or a function of the kernel itself. Sums of slopes with the coefficients alpha and
# alpha c give all derivatives, without the kernel matrix in memory. For the kernel exp(-sum(abs(u))), u = L^-1 (x - c),
# it is -L^-T sign(u) k, with sign(0) = 0.

# The slope of each kernel, as a function of its parameters. If the slope is `times` a kernel: `kernel`, and `scale`, a
# factor of L. If it is not a kernel: `of`, a function of the kernel's values and of `run`. If it is constant: `times` alone.
# `form`: that of struct fk_slope (src/core/gradients.h), c(times, exponent, power).
SLOPES <- list(
  gaussian = \(p) list(kernel = kernel_spec("gaussian"), scale = 1, times = 1),
  laplacian = \(p) slope_of_power(1),
  powered_exponential = \(p) slope_of_power(p[["power"]]),
  matern32 = \(p) list(kernel = kernel_spec("laplacian"), scale = sqrt(1 / 3), times = 3),
  matern52 = \(p) list(kernel = kernel_spec("matern32"), scale = sqrt(3 / 5), times = 5 / 3),
  cauchy = \(p) slope_of_values(2, 2),
  imq = \(p) slope_of_values(1, 3),
  linear = \(p) list(times = p[["gamma"]]),
  polynomial = \(p) {
    if (p[["degree"]] == 1) return(list(times = p[["gamma"]]))
    lower <- kernel_spec("polynomial", gamma = p[["gamma"]], coef0 = p[["coef0"]], degree = p[["degree"]] - 1)
    list(kernel = lower, scale = 1, times = p[["degree"]] * p[["gamma"]])
  },
  sigmoid = \(p) list(of = \(k, run) p[["gamma"]] * (1 - k^2))
)

# The slope of exp(-r^power), and one that is `times` a power of the kernel.
slope_of_power <- function(power) list(of = \(k, run) stretched_slope(k, power, run), form = c(0, 0, power))
slope_of_values <- function(times, exponent) list(of = \(k, run) times * k^exponent, form = c(times, exponent, 0))

# power r^(power - 2) k for k = exp(-r^power), and 0 at a centre (up to rounding), where the mean of the derivative over
# directions is 0.
stretched_slope <- function(k, power, run) {
  if (power == 2) 2 * k else .Call(ffi_stretched_slopes, k, as.double(power), run)
}

# The quantities that derivatives need: the centres, the slope of the kernel, H^-1 and L^-1. For kernels of the distance,
# centres are relative to their mean, to avoid cancellation.
slope_of <- function(fit) UseMethod("slope_of", fit$kernel)
#' @export
slope_of.default <- function(fit) {
  if (inherits(fit$centers, "sparseMatrix")) {
    stop_argument("object", "must be a fit to dense rows, because derivatives need them: found sparse rows")
  }
  metric <- metric_of(fit$kernel)
  slope <- if (metric != "absolute") SLOPES[[fit$kernel$name]](as.list(fit$kernel$parameters))
  shift <- if (metric == "squares") colMeans(fit$centers) else rep(0, fit$d)
  c(slope, list(
    metric = metric, shift = shift, centers = fit$centers, shifted = shift_columns(fit$centers, shift), L = fit$L,
    own = fit$kernel, inverse = chol2inv(t(fit$L)), lower = solve(fit$L)
  ))
}

shift_columns <- function(x, by) {
  if (!is_column(x)) return(x - rep(by, each = nrow(x)))
  x$with$shift <- x$with$shift - by
  x
}

# ---- sums of slopes ---------------------------------------------------------------------------

# G b, where G has the slopes of `points` (rows) and `to` (columns). The slope is symmetric in its two points.
slope_sums <- function(slope, points, to, b, run) {
  if (!is.null(slope$kernel)) {
    sources <- sum_sources(to, NULL, slope$L * slope$scale, slope$kernel)
    return(slope$times * kernel_sum_of(sources, points, b, run, as_matrix = TRUE)$sums)
  }
  if (is.null(slope$of)) return(slope$times * matrix(colSums(b), nrow(points), ncol(b), byrow = TRUE))
  # with the smaller set as columns of the block
  sources <- sum_sources(to, NULL, slope$L, slope$own, new_plan())
  rows <- max(1, floor(SLOPE_BLOCK / nrow(to)))
  parts <- lapply(pieces_of(nrow(points), rows), \(piece) {
    matrix_product(slope$of(kernel_matrix_of(sources, points[piece[1]:piece[2], , drop = FALSE], run), run), b, run)
  })
  do.call(rbind, parts)
}

# Number of kernels in memory at a time for slopes that no engine sums.
SLOPE_BLOCK <- 2e6

# ---- gradients --------------------------------------------------------------------------------

# n x d, or n x d x t, with the names of columns and outputs.
gradients <- function(fit, rows, run) {
  slope <- slope_of(fit)
  t <- ncol(fit$coefficients)
  parts <- rows_fold(rows, \(done, points, first) c(done, list(gradients_at(slope, fit, points, run))), list())
  all <- bind_rows(parts)
  dimnames(all) <- list(NULL, column_names(fit), if (is.null(fit$outputs)) NULL else fit$outputs)
  if (t == 1) array(all, dim(all)[1:2], dimnames(all)[1:2]) else all
}

bind_rows <- function(parts) {
  if (length(parts) == 1) return(parts[[1]])
  flat <- do.call(rbind, lapply(parts, \(part) matrix(part, dim(part)[1])))
  array(flat, c(nrow(flat), dim(parts[[1]])[-1]))
}

# Gradients at dense points, n x d x t.
gradients_at <- function(slope, fit, points, run) UseMethod("gradients_at")
#' @export
gradients_at.default <- function(slope, fit, points, run) {
  t <- ncol(fit$coefficients)
  d <- fit$d
  if (slope$metric == "absolute") {
    sums <- sign_sums_of(sum_sources(slope$centers, NULL, slope$L, slope$own), points, fit$coefficients, run)
    return(array(apply(sums, 3, \(of_output) matrix_product(of_output, slope$lower, run)), dim(sums)))
  }
  # H^-1 in the columns that are summed
  to <- matrix_product(slope$shifted, slope$inverse, run)
  times <- lapply(seq_len(t), \(output) fit$coefficients[, output] * to)
  sums <- slope_sums(slope, points, slope$centers, do.call(cbind, c(list(fit$coefficients), times)), run)
  x <- if (slope$metric == "squares") matrix_product(shift_columns(points, slope$shift), slope$inverse, run)
  inner <- lapply(seq_len(t), \(output) {
    of_centers <- sums[, t + (output - 1) * d + seq_len(d)]
    if (is.null(x)) of_centers else of_centers - x * sums[, output]
  })
  array(unlist(inner), c(nrow(points), d, t))
}

# x1, x2, ... where columns have no names.
column_names <- function(fit) if (is.null(fit$names)) paste0("x", seq_len(fit$d)) else fit$names
