# Images: copies of points that are reflected at the bounds of a column, or lie a period away. How many there are, how
# many may be, and the points with them.

# Images further from the domain than so many kernel sds are left out: they have less than 1e-31 of a kernel's
# height. Between two bounds, and on a circle, there is no place further from a point than the range, and what is
# exp(-37) of its kernel there counts for nothing.
IMAGE_REACH <- 12

# list(points, row, copied): working points with their images, those themselves first; which point each row comes
# from, and of which columns it is the image (n x d). `sds`: of the kernels; `factors`: NULL, or by which those of
# points differ.
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

# list(of, at): the images of a column that are in reach of its bounds, and the points they are of. `h`: kernel sds.
column_images <- function(x, domain, k, h) {
  series <- image_series(x, domain, k, h)
  list(
    of = unlist(lapply(series, \(one) rep.int(seq_along(x), one$count))),
    at = unlist(lapply(series, \(one) rep.int(one$from, one$count) + one$step * (sequence(one$count) - 1)))
  )
}

# A list of series of images, each list(from, step, count): of every point `count` images, from `from` on in steps of
# `step`.
image_series <- function(x, domain, k, h) {
  a <- domain$lower[k]
  b <- domain$upper[k]
  width <- b - a
  reflects <- domain$kind[k] == "reflect"
  period <- if (reflects) 2 * width else width
  reach <- rep_len(pmin(IMAGE_REACH * h, sqrt(width^2 + 75 * h^2)), length(x))
  # `beyond`: how far the first of them is beyond the bound; of a column with one bound there is no other
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

# For each point its number of images, itself included. There may be more than could ever be made, or Inf.
image_counts <- function(domain, points, sds, factors = NULL) {
  count <- rep(1, nrow(points))
  for (k in which(domain$kind %in% c("reflect", "circular"))) {
    series <- image_series(points[, k], domain, k, sds[k] * if (is.null(factors)) 1 else factors)
    count <- count * (1 + Reduce(`+`, lapply(series, `[[`, "count"), 0))
  }
  count
}

# ---- how many there may be ----------------------------------------------------------------------

# Bytes of so many points with their images and what is computed of them.
image_bytes <- function(count, d) 8 * 4 * as.double(count) * d

# Refuses, before one is made, more images than memory holds.
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

# Where a bandwidth is chosen, points and images are at most so many, or so many for each point.
MOST_IMAGES <- 2e6
MOST_IMAGES_EACH <- 128

# Kernel sds that make the density uniform, in ranges of a column. A kernel that is divided by its mass inside varies by
# 1 - exp(-1 / 200), 0.5%, over the range where its sd is 10 ranges.
WIDEST_KERNELS <- c(reflect = 1, circular = 0.5, mass = 10)

# A function of a factor L of H that returns L with its columns with images no wider than it makes sense to have them,
# and than leaves room for images. Kernels whose sd is the range of a reflected column, or half the period of a
# circular one, are the uniform density but for 2 exp(-pi^2 / 2), 1.4% of it, and the estimate still less, where points
# are spread over the range: wider ones are no other. `x`: working points, standing for `n` of them; `factors`: NULL, or
# of their kernels, the narrowest of which then is no wider.
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
