# Are there fewer images than there may be for bandwidths like those that suit such data? Else the widest that are
# possible would be far too narrow.
has_room_for_images <- function(domain, data) {
  if (!has_images(domain)) return(TRUE)
  L <- diagonal_matrix(reference_factor(data) * column_scales(data) / 2, data$d)
  identical(image_limits(domain, data$x, data$n)(L), L)
}

# Seconds of a nominal core for a sum at m working points of the points x, by products or by images: list(product,
# images).
domain_seconds <- function(domain, x, m, L, factors, run) {
  n <- nrow(x)
  d <- ncol(x)
  sds <- factor_sds(L)
  imaged <- domain$kind %in% c("reflect", "circular")
  product <- as.double(m) * n * (2e-8 + 1e-8 * sum(!imaged) + 5e-8 * sum(imaged))
  count <- sum(image_counts(domain, x, sds, factors))
  linear <- if (d <= 3 && run$tol > 0) (count + m) * nominal_costs()$linear[d] else Inf
  list(product = product, images = min(m * count * pair_seconds(count, d, run), linear) + 3e-7 * d * (count - n))
}
