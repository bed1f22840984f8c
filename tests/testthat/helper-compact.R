# Compact kernels by their formulas.

# Functions of u in [-1, 1], the distance in units of the kernel's radius.
ref_compact <- list(
  epanechnikov = list(
    sds = sqrt(5), value = \(u) 3 / 4 * (1 - u^2), slope = \(u) -3 / 2 * u, below = \(u) (2 + 3 * u - u^3) / 4
  ),
  biweight = list(
    sds = sqrt(7), value = \(u) 15 / 16 * (1 - u^2)^2, slope = \(u) -15 / 4 * u * (1 - u^2),
    below = \(u) 1 / 2 + 15 / 16 * (u - 2 * u^3 / 3 + u^5 / 5)
  ),
  triweight = list(
    sds = 3, value = \(u) 35 / 32 * (1 - u^2)^3, slope = \(u) -105 / 16 * u * (1 - u^2)^2,
    below = \(u) 1 / 2 + 35 / 32 * (u - u^3 + 3 * u^5 / 5 - u^7 / 7)
  ),
  triangular = list(
    sds = sqrt(6), value = \(u) 1 - abs(u), slope = \(u) -sign(u), below = \(u) 1 / 2 + u - sign(u) * u^2 / 2
  ),
  uniform = list(
    sds = sqrt(3), value = \(u) rep(1 / 2, length(u)), slope = \(u) numeric(length(u)), below = \(u) (1 + u) / 2
  )
)

# The sum of w f(u) over the points within the kernel's radius of each y, term by term; `h`: one standard deviation, or
# one for each point.
ref_windows <- function(f, sds, x, w, h, y) {
  b <- rep_len(sds * h, length(x))
  vapply(y, \(at) {
    near <- abs(at - x) <= b
    sum((w * f((at - x) / b) / b)[near])
  }, 0)
}

relative_error <- function(got, want) max(abs(got / want - 1)[want != 0])
