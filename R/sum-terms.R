# Kernels that are sums of kernels of some columns, sum_j s_j k_j(x_j, y_j). The sources of such a kernel have a part
# for each term, and their sums are the sums of the parts at the same coefficients.
#
# Such a kernel has class `kernel_of_terms`: the name and parameters of a kernel, by which engines are planned, and
# `terms`, a list of list(columns, kernel, scale) and what terms of a kind have. `columns`: the indices of the columns of
# the term. A term of a formula has a `label`; a linear one has `center` and `spread`, numbers for each column, which
# replace the bandwidth. A term of normal scores has its own bandwidth factor `L`, and `scores`, of score_maps().

# The points of a term, and its bandwidth factor, of those of all columns.
term_points <- function(term, points) {
  x <- points[, term$columns, drop = FALSE]
  if (!is.null(term$scores)) x <- normal_scores(term$scores, x)
  if (is.null(term$center)) x else x - rep(term$center, each = nrow(x))
}
term_factor <- function(term, L) {
  if (!is.null(term$L)) return(term$L)
  if (is.null(term$spread)) L[term$columns, term$columns, drop = FALSE] else diag(term$spread, length(term$spread))
}

sum_kernel <- function(base, terms) {
  structure(c(unclass(base), list(terms = terms)), class = c("kernel_of_terms", "flashkernel_kernel"))
}

term_scales <- function(kernel) vapply(kernel$terms, `[[`, 0, "scale")

# The kernel whose terms with their own bandwidth have `by` times that.
widen_terms <- function(kernel, by) {
  kernel$terms <- lapply(kernel$terms, \(term) if (is.null(term$L)) term else replace(term, "L", list(by * term$L)))
  kernel
}

# Each of the parts has its own plan.
sources_of_terms <- function(points, L, kernel) {
  lapply(kernel$terms, \(term) {
    sum_sources(term_points(term, points), NULL, term_factor(term, L), term$kernel, new_plan())
  })
}

# The points of each term, for targets `at`: points, sources, which have those of their own kernel, or NULL for none.
# Normal scores of all rows would take longer than the kernels of a product on a GPU.
points_of_terms <- function(at, kernel) {
  if (inherits(at, "sources_of_terms")) {
    if (identical(at$kernel$terms, kernel$terms)) return(lapply(at$parts, `[[`, "points"))
    at <- at$points
  }
  lapply(kernel$terms, \(term) if (!is.null(at)) term_points(term, at))
}

# `at` may also be sources. If scales of terms differ by orders of magnitude, sums are in double precision.
#' @export
kernel_sum_of.sources_of_terms <- function(sources, at, b, control, as_matrix = FALSE) {
  scales <- term_scales(sources$kernel)
  if (max(scales) > 100 * min(scales)) control$precision <- "double"
  parts <- Map(\(part, at, scale) kernel_sum_of(part, at, scale * b, control, as_matrix),
    sources$parts, points_of_terms(at, sources$kernel), scales)
  list(sums = Reduce(`+`, lapply(parts, `[[`, "sums")), stats = Reduce(joined_stats, lapply(parts, `[[`, "stats")))
}

#' @export
normal_product_of.sources_of_terms <- function(sources, rows, v, w, weights, control, with_sums = FALSE) {
  first <- if (!is.null(v)) kernel_sum_of(sources, rows, v, control, as_matrix = TRUE)
  total <- if (is.null(v)) w else if (is.null(w)) first$sums else first$sums + w
  if (!is.null(weights)) total <- weights * total
  of_rows <- if (is.null(rows)) list(NULL) else rows$parts
  second <- Map(\(part, of, scale) normal_product_of(part, of, NULL, scale * total, NULL, control),
    sources$parts, of_rows, term_scales(sources$kernel))
  stats <- Reduce(joined_stats, lapply(second, `[[`, "stats"), first$stats)
  list(product = Reduce(`+`, lapply(second, `[[`, "product")), stats = stats, sums = if (with_sums) first$sums)
}

#' @export
kernel_matrix_of.sources_of_terms <- function(sources, at, run) {
  at <- if (!is.null(at)) lapply(points_of_terms(at, sources$kernel), as_points, "x")
  kernel_matrix_of.default(as_factored(sources, run), at, run)
}

#' @export
as_factored.sources_of_terms <- function(K, run) {
  list(parts = K$parts, scales = term_scales(K$kernel))
}
