# The losses of classes: the logistic one of two classes, y of -1 and 1 and one column of link, and the softmax of more,
# with a column for each. No margin is too large for any of these, in either direction.
#
# A loss is a list of functions of the link f, n x t, and the response y, n x t columns of -1 and 1:
#   value(f, y)          the loss of each row
#   slope(f, y)          its derivative by f, n x t
#   curvature(f)         for each row a number in place of the second derivative, which preconditioners go by
#   product(system, f)   a function of m x t coefficients: K' W D K alpha, with D the second derivatives
class_loss <- function(t) if (t == 1) logit_loss else softmax_loss

# ---- two classes ------------------------------------------------------------------------------

logit_loss <- list(
  value = \(f, y) {
    margin <- as.vector(y * f)
    log1p(exp(-abs(margin))) - pmin(margin, 0)
  },
  # exp() may be infinite
  slope = \(f, y) -y / (1 + exp(y * f)),
  curvature = \(f) {
    small <- exp(-abs(as.vector(f)))
    small / (1 + small)^2
  },
  product = \(system, f) {
    weights <- logit_loss$curvature(f)
    if (!is.null(system$weights)) weights <- weights * system$weights
    weighted_product(system, weights)
  }
)

# ---- more -------------------------------------------------------------------------------------

# D = diag(p) - p p' couples the columns: products take two sweeps. Boehning's bound (I - 1 1' / K) / 2 in its place
# takes one, but is so far off that a hundred steps do not suffice (shuttle).
softmax_loss <- list(
  value = \(f, y) {
    top <- row_max(f)
    top + log(rowSums(exp(f - top))) - f[cbind(seq_len(nrow(f)), class_codes(y))]
  },
  slope = \(f, y) softmax(f) - (y > 0),
  # the mean of the diagonal: its sum and its largest need twice the iterations at small penalties (shuttle)
  curvature = \(f) (1 - rowSums(softmax(f)^2)) / ncol(f),
  product = \(system, f) {
    p <- softmax(f)
    \(alpha) {
      u <- rows_multiply(system$rows, system$centers, alpha, system$run)$sums
      rows_normal(system$rows, system$centers, NULL, p * (u - rowSums(p * u)), system$weights, system$run)$product
    }
  }
)

softmax <- function(f) {
  odds <- exp(f - row_max(f))
  odds / rowSums(odds)
}

row_max <- function(f) f[cbind(seq_len(nrow(f)), max.col(f, ties.method = "first"))]

# ---- probabilities ----------------------------------------------------------------------------

# n x K, of a link of one column for two classes, or of K.
link_probabilities <- function(link) {
  if (ncol(link) > 1) return(softmax(link))
  cbind(stats::plogis(-link[, 1]), stats::plogis(link[, 1]))
}

# The same of a fit, with the names of the classes.
class_probabilities <- function(fit, link) {
  p <- link_probabilities(link)
  dimnames(p) <- list(NULL, fit$classes)
  p
}

# The link whose mean probabilities are the (weighted) shares of the classes: the intercept. Offsets make that an
# equation, which is solved by iterative scaling: it never goes astray, and a constant offset takes one step.
null_link <- function(y, weights, offset) {
  shares <- class_shares(y, weights)
  as_link <- \(x) if (length(x) == 2) x[2] - x[1] else x - mean(x)
  link <- as_link(log(shares))
  if (is.null(offset)) return(link)
  for (step in 1:50) {
    p <- weighted_means(link_probabilities(offset + rep(link, each = nrow(offset))), weights)
    change <- as_link(log(shares / pmax(p, .Machine$double.xmin)))
    link <- link + change
    if (max(abs(change)) < 1e-10) break
  }
  link
}

class_shares <- function(y, weights) {
  code <- class_codes(y)
  total <- if (is.null(weights)) tabulate(code, max(2, ncol(y))) else as.vector(rowsum(weights, code))
  if (any(total == 0)) stop_argument("weights", "must not be 0 for all rows of a class")
  total / sum(total)
}

# Of held-out rows: the mean negative log-likelihood.
log_loss <- function(link, y, classes) mean(class_loss(ncol(y))$value(link, y))
