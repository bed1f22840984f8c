# Kernels with bounded support. Each is a polynomial in s = 1 - |u|, where u is the distance divided by the cutoff
# radius (`reach` in code). Its square, slope and integral are polynomials, too, and src/cpu/line/windows.c sums
# polynomials over sorted points. In several dimensions kernels are products (sum-compact-cubes.R).

# The kernel proportional to (1 - u^2)^p = (s (2 - s))^p, the density of 2 B - 1 for B ~ Beta(p + 1, p + 1).
power_kernel <- function(p) {
  k <- 0:p
  value <- c(numeric(p), choose(p, k) * 2^(p - k) * (-1)^k)
  list(
    value = value / (2^(2 * p + 1) * beta(p + 1, p + 1)), reach = sqrt(2 * p + 3),
    draw = \(n) 2 * stats::rbeta(n, p + 1, p + 1) - 1
  )
}

# The table of kernels by their name in flash_kde(), list(value, reach, draw): coefficients of s^0, s^1, ... of the
# density of u; the cutoff radius in standard deviations; a function that draws n values of u.
COMPACT_KERNELS <- list(
  epanechnikov = power_kernel(1), biweight = power_kernel(2), triweight = power_kernel(3),
  triangular = list(value = c(0, 1), reach = sqrt(6), draw = \(n) stats::runif(n) - stats::runif(n)),
  uniform = power_kernel(0)
)

# Makes the argument `kernel` of sum_sources(). All sums are in units of the height of the Gaussian kernel;
# exp(log_unit) converts the density of u to these units.
compact_kernel <- function(name) {
  entry <- COMPACT_KERNELS[[name]]
  structure(class = "compact_kernel", c(entry, list(name = name, log_unit = log(sqrt(2 * pi) / entry$reach))))
}

is_compact <- function(kernel) inherits(kernel, "compact_kernel")

# Returns the kernel of a fit. Fits of earlier versions have no element `kernel`.
fit_kernel <- function(object) {
  kernel <- object$kernel
  if (is.null(kernel) || kernel == "gaussian") "gaussian" else compact_kernel(kernel)
}

has_gaussian <- function(object) is.null(object$kernel) || object$kernel == "gaussian"

# ---- polynomials ------------------------------------------------------------------------------

multiply_polynomials <- function(a, b) {
  product <- outer(a, b)
  as.vector(tapply(product, row(product) + col(product), sum))
}

polynomial_at <- function(a, s) Reduce(\(sum, coefficient) sum * s + coefficient, rev(a), 0)

slope_polynomial <- function(a) if (length(a) == 1) 0 else a[-1] * seq_along(a[-1])

# The integral from 0.
integral_polynomial <- function(a) c(0, a / seq_along(a))

# Returns the square of a kernel, for sums. "gaussian" is returned unchanged: its square is the kernel of H / 2, which
# the caller uses.
squared_kernel <- function(kernel) {
  if (!is_compact(kernel)) return(kernel)
  kernel$value <- multiply_polynomials(kernel$value, kernel$value)
  kernel$log_unit <- 2 * kernel$log_unit
  kernel
}

# Returns the integral of the square of the kernel with standard deviation 1.
roughness <- function(kernel) {
  square <- integral_polynomial(multiply_polynomials(kernel$value, kernel$value))
  2 * sum(square) / kernel$reach
}

# ---- what a fit may ask for ---------------------------------------------------------------------

# Returns the checked name of a kernel; NULL means the default.
kernel_name <- function(kernel) {
  if (is.null(kernel)) return("gaussian")
  name <- check_choice(kernel, c("gaussian", names(COMPACT_KERNELS), "rectangular"), "kernel")
  if (name == "rectangular") "uniform" else name
}

# Checks the kernel in the `options` of fit_kde() for `d` columns, and returns the options. For kernels with bounded
# support the default estimator is "kde", and a searched bandwidth is diagonal by default.
check_fit_kernel <- function(options, d, control) {
  kernel <- options$kernel <- kernel_name(options$kernel)
  if (kernel == "gaussian") return(options)
  refuse <- function(...) stop(new_error("unsupported", paste0("kernel = \"", kernel, "\" ", ...), user_call()))
  if (is_auto(options$estimator)) options$estimator <- PLAIN_ESTIMATOR
  estimator <- check_estimator(options$estimator)
  if (ESTIMATORS[[estimator]]$signed) {
    refuse(
      "has no second derivative at its edge, which estimator = \"", estimator,
      "\" needs: use \"kde\" or \"sdkde\""
    )
  }
  if (options$steps > 1) {
    refuse("allows one step of debiasing, because more steps need a Gaussian kernel. Use debiasing(steps = 1)")
  }
  check_window_control(control)
  searched <- is.null(options$bandwidth) ||
    is.character(options$bandwidth) && all(options$bandwidth %in% names(FACTOR_CRITERIA))
  if (d > 1 && searched && identical(options$structure, "auto")) options$structure <- "diagonal"
  options
}

# Refuses settings for GPUs and tolerances: these sums take linear time on the CPU without a tolerance.
check_window_control <- function(control) {
  asked <- if (control$backend == "cuda") {
    "backend = \"cuda\""
  } else if (control$engine == "fast") {
    "engine = \"fast\""
  }
  if (!is.null(asked)) {
    stop(new_error("unsupported", paste0(
      asked, " is available only for the Gaussian kernel: leave it out, because sums of other kernels are exact and ",
      "run on the CPU"
    ), user_call()))
  }
}

print_kernel <- function(object) {
  if (has_gaussian(object)) return(invisible())
  reach <- format(compact_kernel(object$kernel)$reach, digits = 3)
  cat("Kernel: ", object$kernel, ", 0 beyond ", reach, " standard deviations\n", sep = "")
}
