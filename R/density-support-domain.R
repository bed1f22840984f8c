# What a domain (density-support.R) does to points: which are inside, coordinates in which kernels are summed ("working"
# ones: transformed columns differ from those of the user), and the masses of kernels inside.

# The domain of the columns `dims`.
domain_columns <- function(domain, dims) {
  of_columns <- c("kind", "lower", "upper", "names")
  replace(domain, of_columns, lapply(domain[of_columns], `[`, dims))
}

has_images <- function(domain) any(domain$kind %in% c("reflect", "circular"))
has_masses <- function(domain) any(domain$kind == "mass")
has_local <- function(domain) any(domain$kind == "local")

# Is the estimate bent from a sum of kernels (density-support-integral.R)?
is_bent <- function(domain) has_local(domain) || any(domain$kind == "boundary")

# Which columns have coordinates of their own.
is_transformed <- function(domain) domain$kind %in% c("transform", "local")

# Is the estimate one of flash_kde() without support in other coordinates?
only_transforms <- function(domain) !has_images(domain) && !has_masses(domain) && !is_bent(domain)

# A fit with `support` and `inner` as a density of its kind.
supported <- function(object) {
  domain <- object$support
  own <- if (is_bent(domain)) "bent" else if (only_transforms(domain)) "mapped" else "imaged"
  object$kind <- as_kind(if (!is.null(domain$polygon)) "polygon", own, "supported")
  object
}

inside_domain <- function(domain, points) {
  inside <- rep(TRUE, nrow(points))
  for (k in which(!domain$kind %in% c("free", "circular"))) {
    inside <- inside & points[, k] >= domain$lower[k] & points[, k] <= domain$upper[k]
  }
  if (is.null(domain$polygon)) inside else inside & in_rings(points, domain$polygon)
}

# ---- coordinates ------------------------------------------------------------------------------

to_working <- function(domain, points) map_columns(domain, points, into_column)
from_working <- function(domain, points) map_columns(domain, points, out_of_column)

map_columns <- function(domain, points, map) {
  for (k in which(is_transformed(domain) | domain$kind == "circular")) points[, k] <- map(points[, k], domain, k)
  points
}

into_column <- function(x, domain, k) {
  a <- domain$lower[k]
  b <- domain$upper[k]
  if (domain$kind[k] == "circular") return(turned(x, a, b - a))
  if (b == Inf) return(log(x - a))
  if (a == -Inf) return(-log(b - x))
  # by the nearer bound, from which the distance has all its digits
  ifelse(x - a < b - x, stats::qnorm((x - a) / (b - a)), stats::qnorm((b - x) / (b - a), lower.tail = FALSE))
}

out_of_column <- function(z, domain, k) {
  a <- domain$lower[k]
  b <- domain$upper[k]
  if (domain$kind[k] == "circular") return(turned(z, a, b - a))
  if (b == Inf) return(a + exp(z))
  if (a == -Inf) return(b - exp(-z))
  ifelse(z < 0, a + (b - a) * stats::pnorm(z), b - (b - a) * stats::pnorm(z, lower.tail = FALSE))
}

# A turn later or earlier, from `start` on.
turned <- function(x, start, period) {
  at <- (x - start) %% period
  start + ifelse(at < period, at, 0)
}

# The log of the working coordinates' derivative, at working points; and of both derivatives of it with the user's
# coordinate what scores need: list(log, slope, score), m x d but for the first.
log_jacobian <- function(domain, work) {
  log <- numeric(nrow(work))
  for (k in which(is_transformed(domain))) log <- log + column_jacobian(work[, k], domain, k)
  log
}

column_jacobian <- function(z, domain, k) {
  if (domain$upper[k] == Inf) return(-z)
  if (domain$lower[k] == -Inf) return(z)
  -stats::dnorm(z, log = TRUE) - log(domain$upper[k] - domain$lower[k])
}

# The score of log p_z(z(x)) + log z'(x), where s is the score of p_z: z' (s + d log z' / dz).
score_from_working <- function(domain, score, work) {
  for (k in which(is_transformed(domain))) {
    z <- work[, k]
    score[, k] <- exp(column_jacobian(z, domain, k)) * (score[, k] + column_bend(z, domain, k)$c)
  }
  score
}

# list(c, slope): the derivative of column_jacobian() with z, and its own.
column_bend <- function(z, domain, k) {
  if (domain$upper[k] == Inf) return(list(c = -1, slope = 0))
  if (domain$lower[k] == -Inf) return(list(c = 1, slope = 0))
  list(c = z, slope = 1)
}

# ---- folds and masses -------------------------------------------------------------------------

# Maps points beyond a reflected or circular bound to their copies inside.
folded <- function(domain, points) {
  for (k in which(domain$kind == "reflect")) {
    a <- domain$lower[k]
    b <- domain$upper[k]
    points[, k] <- if (b == Inf) {
      a + abs(points[, k] - a)
    } else if (a == -Inf) {
      b - abs(b - points[, k])
    } else {
      at <- (points[, k] - a) %% (2 * (b - a))
      a + pmin(at, 2 * (b - a) - at)
    }
  }
  points
}

# The probability inside the domain of the kernel of variance f^2 L L' at each working point.
kernel_masses <- function(domain, points, L, factors, control) {
  bounded <- which(domain$kind == "mass")
  sds <- factor_sds(L)
  aslant <- !is_diagonal(L) && any(abs(stats::cov2cor(tcrossprod(L)) - diag(nrow(L)))[bounded, ] > 1e-12)
  if (aslant || !is.null(domain$polygon)) {
    return(polygon_mass(points, domain_rings(domain, points, L, factors), L, factors, control))
  }
  mass <- 1
  for (k in bounded) {
    below <- \(bound) stats::pnorm((bound - points[, k]) / (sds[k] * if (is.null(factors)) 1 else factors))
    mass <- mass * (below(domain$upper[k]) - below(domain$lower[k]))
  }
  mass
}

# The rings of a domain in two columns. Missing bounds are replaced by sides beyond the cutoff radius of all kernels.
domain_rings <- function(domain, points, L, factors = NULL) {
  if (!is.null(domain$polygon)) return(domain$polygon)
  if (nrow(L) > 2) {
    stop_argument("bandwidth", "must be diagonal for method = \"mass\" in more than two columns: found a full matrix")
  }
  reach <- 2 * MASS_REACH * factor_sds(L) * max(factors, 1)
  low <- pmax(ifelse(domain$kind == "mass", domain$lower, -Inf), apply(points, 2, min) - reach)
  high <- pmin(ifelse(domain$kind == "mass", domain$upper, Inf), apply(points, 2, max) + reach)
  corners <- rbind(low, c(high[1], low[2]), high, c(low[1], high[2]))
  as_rings(unname(corners))
}
