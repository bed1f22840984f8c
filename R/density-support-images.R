# Images: copies of points, reflected at the bounds of a column or shifted by periods. Computes them, counts them, and
# limits their number.

# Cutoff radius: copies further from the domain than this many kernel standard deviations are left out. They contribute
# less than 1e-31 of a kernel's height. Between two bounds, and on a circle, no point of the domain is further from a
# point than the range, so that exp(-37) of its kernel is negligible.
IMAGE_REACH <- 12

# Working points followed by their copies: list(points, row, copied). `row`: the point of each row; `copied`: in which
# columns it is a copy (n x d). `sds`: kernel standard deviations; `factors`: NULL, or local factors of the points.
with_images <- function(domain, points, sds, factors) {
  check_images(domain, points, sds, factors)
  row <- seq_len(nrow(points))
  copied <- matrix(FALSE, nrow(points), ncol(points))
  for (k in which(domain$kind %in% c("reflect", "circular"))) {
    found <- column_images(points[, k], domain, k, sds[k] * if (is.null(factors)) 1 else factors[row])
    if (length(found$of) == 0) next
    images <- points[found$of, , drop = FALSE]
    images[, k] <- found$at
    points <- rbind(points, images)
    copied <- rbind(copied, replace(copied[found$of, , drop = FALSE], cbind(seq_along(found$of), k), TRUE))
    row <- c(row, row[found$of])
  }
  list(points = points, row = row, copied = copied)
}

# The copies in one column within the cutoff radius of its bounds: list(of, at), the points and the places of their
# copies. `h`: kernel standard deviations.
column_images <- function(x, domain, k, h) {
  series <- image_series(x, domain, k, h)
  list(
    of = unlist(lapply(series, \(one) rep.int(seq_along(x), one$count))),
    at = unlist(lapply(series, \(one) rep.int(one$from, one$count) + one$step * (sequence(one$count) - 1)))
  )
}

# The copies of a column as a list of series, each list(from, step, count): `count` copies of every point, at `from`,
# from + step, and so on.
image_series <- function(x, domain, k, h) {
  a <- domain$lower[k]
  b <- domain$upper[k]
  width <- b - a
  reflects <- domain$kind[k] == "reflect"
  period <- if (reflects) 2 * width else width
  reach <- rep_len(pmin(IMAGE_REACH * h, sqrt(width^2 + 75 * h^2)), length(x))
  # `beyond`: distance of the first copy from the bound; a column with one bound has only this copy
  series <- function(from, beyond, step) {
    count <- (beyond <= reach) * (floor((reach - beyond) / abs(step)) + 1)
    list(from = from, step = if (is.finite(step)) step else 0, count = count)
  }
  c(
    if (reflects && is.finite(a)) list(series(a - (x - a), x - a, -period)),
    if (reflects && is.finite(b)) list(series(b + (b - x), b - x, period)),
    if (is.finite(period)) list(series(x + period, x + period - b, period), series(x - period, a - x + period, -period))
  )
}

# The number of copies of each point, itself included. It may be too large for memory, or Inf.
image_counts <- function(domain, points, sds, factors = NULL) {
  count <- rep(1, nrow(points))
  for (k in which(domain$kind %in% c("reflect", "circular"))) {
    series <- image_series(points[, k], domain, k, sds[k] * if (is.null(factors)) 1 else factors)
    count <- count * (1 + Reduce(`+`, lapply(series, `[[`, "count"), 0))
  }
  count
}

# ---- how many there may be ----------------------------------------------------------------------

# Bytes for `count` points and copies, and for what is computed from them.
image_bytes <- function(count, d) 8 * 4 * as.double(count) * d

# An error if the copies do not fit in memory. Makes none of them.
check_images <- function(domain, points, sds, factors = NULL) {
  count <- sum(image_counts(domain, points, sds, factors))
  if (count > .Machine$integer.max) refuse_images(domain)
  cure <- paste0(" for the reflected or periodic copies of points", image_cure(domain))
  check_memory(image_bytes(count, ncol(points)), "support", cure)
}

refuse_images <- function(domain) {
  stop_argument(
    "support", "must not need more reflected or periodic copies of points than fit in memory: found ",
    sum(domain$kind %in% c("reflect", "circular")), " columns with copies", image_cure(domain)
  )
}

image_cure <- function(domain) {
  by_mass <- if (any(domain$kind == "reflect")) ", or use \"kde\" and method = \"mass\" of kde_support()"
  paste0(" (give a smaller `bandwidth` as a number", by_mass, ")")
}

# Limits of a bandwidth search: the number of points and copies in all, and for each point.
MOST_IMAGES <- 2e6
MOST_IMAGES_EACH <- 128

# Kernel standard deviations, in ranges of a column, at which the density is nearly uniform. A kernel that is divided by
# its probability inside varies by 1 - exp(-1 / 200) = 0.5% over the range if its standard deviation is 10 ranges.
WIDEST_KERNELS <- c(reflect = 1, circular = 0.5, mass = 10)

# Returns a function that limits a factor L of H: bandwidths of reflected and circular columns are at most those at
# which the estimate is nearly uniform, and the copies fit in memory. A kernel whose standard deviation is the range of
# a reflected column, or half the period of a circular column, differs from the uniform density by 2 exp(-pi^2 / 2) =
# 1.4%. `x`: a sample of working points, which represents `n` points; `factors`: NULL or local factors, of which the
# smallest is limited.
image_limits <- function(domain, x, n, factors = NULL) {
  imaged <- which(domain$kind %in% c("reflect", "circular"))
  range <- domain$upper - domain$lower
  if (!is.null(domain$polygon)) range <- apply(do.call(rbind, domain$polygon), 2, \(corner) diff(base::range(corner)))
  widest <- range * WIDEST_KERNELS[domain$kind]
  limited <- which(is.finite(widest))
  if (length(c(imaged, limited)) == 0) return(identity)
  d <- ncol(x)
  most <- min(max(MOST_IMAGES, MOST_IMAGES_EACH * n), memory_limit() / 2 / image_bytes(1, d)) * nrow(x) / n
  function(L) {
    L[limited, ] <- L[limited, ] * pmin(1, widest[limited] / (factor_sds(L)[limited] * min(factors, 1)))
    if (length(imaged) == 0) return(L)
    sds <- factor_sds(L)
    too_many <- function(log_scale) {
      sum(image_counts(domain, x, replace(sds, imaged, exp(log_scale) * sds[imaged]), factors)) > most
    }
    if (!too_many(0)) return(L)
    low <- log(1e-6)
    high <- 0
    for (i in 1:12) if (too_many((low + high) / 2)) high <- (low + high) / 2 else low <- (low + high) / 2
    L[imaged, ] <- exp(low) * L[imaged, ]
    L
  }
}
