# Statistics of many exchanges of rows, as forms v'Gv from one pass over all pairs of rows. Rows are exchanged in bins:
# G_ab sums the kernels of the rows in bin a and those in bin b, and each exchange is a vector v over bins. Exchanges of
# bins of equal size are a subgroup of all permutations, so the level is exact (Domingo-Enrich, Dwivedi and Mackey 2025).

# With at most as many rows, each is a bin of its own.
MOST_BINS <- 256

# list(bin, count): a bin for each row of samples of n[1] and n[2] rows, drawn at random within each sample. The first
# count[1] bins are of the first sample, count[2] of the second; they have equal sizes. Rows in further bins are never
# exchanged. The smaller sample has at least 32 bins or as many as rows.
sample_bins <- function(n) {
  size <- max(1, min(ceiling(sum(n) / MOST_BINS), min(n) %/% 32))
  count <- n %/% size
  larger <- which.max(n)
  count[larger] <- min(count[larger], MOST_BINS - count[3 - larger])
  bins_of <- function(k) {
    free <- rep(c(0, count[1])[k] + seq_len(count[k]), each = size)
    label <- c(free, rep(sum(count) + k, n[k] - length(free)))
    if (length(free) == n[k] && size == 1) label else sample(label)
  }
  bin <- c(bins_of(1), bins_of(2))
  list(bin = match(bin, sort(unique(bin))), count = count)
}

# Sums the rows of a matrix by bins: `size` rows of each, in order.
fold_rows <- function(values, size) {
  alike <- match(FALSE, size == size[1], length(size) + 1) - 1
  first <- seq_len(alike * size[1])
  sums <- colSums(array(values[first, ], c(size[1], alike, ncol(values))))
  rest <- rep(seq_along(size)[-seq_len(alike)], size[-seq_len(alike)])
  rbind(matrix(sums, alike), rowsum(values[-first, , drop = FALSE], rest))
}

# The matrix G of sum_r left_ir K_ij right_jr over the rows i of bin a and j of bin b, for the Gaussian kernel with the
# bandwidth factor L. Rows are in order of their bins, `size` of each. `left`, `right`: matrices with a row for each
# row of the points; NULL for a column of ones in both, for which only half of the pairs are summed.
bin_forms <- function(points, size, L, run, left = NULL, right = left) {
  lattice <- form_lattice(points, length(size), L)
  if (!is.null(lattice)) return(forms_on_lattice(lattice, size, run, left, right))
  n <- nrow(points)
  half <- is.null(right)
  if (half) left <- right <- matrix(1, n)
  bin <- rep(seq_along(size), size)
  ends <- cumsum(size)
  blocks <- split(seq_along(size), ceiling(ends / max(MOST_BINS, size[1])))
  forms <- matrix(0, length(size), length(size))
  share <- nested_share(run)
  for (block in blocks) {
    own <- (ends[block[1]] - size[block[1]] + 1):ends[block[length(block)]]
    at <- if (half) own[1]:n else seq_len(n)
    pairs <- \(last) 1 - (if (half) (1 - last / n)^2 else 1 - last / n)
    share$part(pairs(own[1] - 1), pairs(max(own)) - pairs(own[1] - 1))
    each <- rep(seq_len(ncol(right)), each = length(block)) # the column of `right` of each coefficient
    b <- right[own, each, drop = FALSE] * outer(bin[own], rep(block, ncol(right)), `==`)
    sources <- sum_sources(points[own, , drop = FALSE], NULL, L)
    sums <- kernel_sum_of(sources, if (length(own) < n) points[at, , drop = FALSE], b, run, as_matrix = TRUE)$sums
    if (!half) sums <- sums * left[, each, drop = FALSE]
    rows <- bin[at[1]]:length(size)
    folded <- array(fold_rows(sums, size[rows]), c(length(rows), length(block), ncol(right)))
    forms[rows, block] <- rowSums(folded, dims = 2)
  }
  share$end()
  if (half) forms[upper.tri(forms)] <- t(forms)[upper.tri(forms)]
  forms
}

# In coordinates u with K = exp(-|u - v|^2 / 4), K is the integral over t of exp(-(|u - t|^2 + |v - t|^2) / 2), divided by
# pi^(d / 2). Each point adds to LATTICE_WIDTH nodes along each axis (FK_LATTICE_SIDE of src/cpu/loops/lattice.h). At this step
# the trapezoidal rule and the nodes left out have errors of 1e-12 of the kernel's height each. Whatever they are, permutations
# are exact, as all are of the same G.
LATTICE_STEP <- 0.59
LATTICE_WIDTH <- 25
MOST_NODES <- 1e8

# list(points, from, counts, step, far): all points u; the first node and how many there are along each axis, for those points
# that are not `far` from the median. NULL unless sums at nodes, and over pairs with far points, take less time than all pairs.
form_lattice <- function(points, bins, L) {
  u <- whiten(points, L / sqrt(2))
  n <- as.double(nrow(u))
  out <- do.call(pmax, as.data.frame(abs(u - rep(apply(u, 2, stats::median), each = n))))
  plans <- lapply(stats::quantile(out, c(1, 0.995, 0.98, 0.95, 0.9)), function(most) {
    far <- out > most
    from <- apply(u[!far, , drop = FALSE], 2, min) - (LATTICE_WIDTH + 1) / 2 * LATTICE_STEP
    counts <- ceiling((apply(u[!far, , drop = FALSE], 2, max) - from) / LATTICE_STEP) + (LATTICE_WIDTH + 1) / 2
    spread <- n * LATTICE_WIDTH^ncol(u)
    cost <- min(prod(counts), spread) * bins^2 / 28 + spread + 2.5 * n * sum(far)
    if (prod(counts) > MOST_NODES) cost <- Inf
    list(points = u, from = from, counts = counts, step = LATTICE_STEP, far = far, cost = cost)
  })
  best <- plans[[which.min(vapply(plans, `[[`, 0, "cost"))]]
  if (best$cost <= n^2) best
}

# bin_forms() by sums at the nodes.
forms_on_lattice <- function(lattice, size, run, left, right) {
  u <- lattice$points
  far <- lattice$far
  if (is.null(right)) right <- matrix(1, nrow(u))
  same <- is.null(left) || identical(left, right)
  if (same) left <- right
  bin <- rep(seq_along(size), size)
  lattice$points <- u[!far, , drop = FALSE]
  ends <- as.double(cumsum(tabulate(bin[!far], length(size))))
  share <- nested_share(run)
  forms <- (LATTICE_STEP / sqrt(pi))^ncol(u) * Reduce(`+`, lapply(seq_len(ncol(right)), \(r) {
    share$part((r - 1) / ncol(right), 1 / ncol(right))
    .Call(ffi_lattice_forms, lattice, if (!same) left[!far, r], right[!far, r], ends, run)
  }))
  share$end()
  if (!any(far)) return(forms)
  # sums over the far rows i of each bin and the rows j among `rows`
  far_forms <- function(rows, left, right) {
    sums <- vapply(split(which(rows), factor(bin[rows], seq_along(size))), function(j) {
      if (length(j) == 0) return(numeric(sum(far)))
      sources <- sum_sources(u[j, , drop = FALSE], NULL, diag(sqrt(2), ncol(u)))
      sums <- kernel_sum_of(sources, u[far, , drop = FALSE], right[j, , drop = FALSE], run, as_matrix = TRUE)$sums
      rowSums(sums * left[far, , drop = FALSE])
    }, numeric(sum(far)))
    unname(rowsum(rbind(sums, 0 * forms), c(bin[far], seq_along(size))))
  }
  with_near <- far_forms(!far, left, right)
  forms + with_near + t(if (same) with_near else far_forms(!far, right, left)) + far_forms(far, left, right)
}

# v'Gv for the columns of v.
forms_of <- function(G, v) colSums(v * (G %*% v))

# ---- many bandwidths --------------------------------------------------------------------------

is_aggregated <- function(bandwidth) identical(bandwidth, "aggregated")

# The distances, in bandwidths L, of at most 500 rows. They do not depend on the order of the rows.
some_distances <- function(points, L) {
  by_value <- do.call(order, unname(as.data.frame(points)))
  rows <- by_value[unique(round(seq(1, nrow(points), length.out = min(nrow(points), 500))))]
  far <- as.vector(stats::dist(whiten(unname(points[rows, , drop = FALSE]), L)))
  far[far > 0]
}

# The result of test_bandwidth(), with the factors of all bandwidths that are tried, a list of matrices. Many kernels
# exp(-r^2 / l^2) have the lengths l that `lengths` returns for distances; l is twice the bandwidth.
test_bandwidths <- function(bandwidth, points, run, arg, weights = NULL, lengths = ten_lengths) {
  many <- is_aggregated(bandwidth)
  chosen <- test_bandwidth(if (many) "silverman" else bandwidth, points, run, arg, weights)
  by <- if (many) lengths(some_distances(points, chosen$L)) / 2 else 1
  c(chosen, list(factors = lapply(by, `*`, chosen$L)))
}

# From half the 5% quantile of the distances to twice the 95% quantile, in equal ratios (Schrab and others 2023).
ten_lengths <- function(far) {
  ends <- log(stats::quantile(far, c(0.05, 0.95), names = FALSE) * c(1 / 2, 2))
  exp(seq(ends[1], ends[2], length.out = 10))
}

# ---- p-values ---------------------------------------------------------------------------------

# The p-value of the first row of `draws` among all rows, which are exchangeable under the null; a column for each
# bandwidth. `size`: the scale of rounding errors, up to which an exchange that changes nothing gives the same value. The
# statistic of several bandwidths is the smallest of their p-values, which every exchange has, too, and, where it ties,
# their mean. The smallest p-value, `least`, is that of bandwidth number `best` of `count`, with the statistic `observed`.
permuted <- function(draws, size, how = "permutations") {
  all <- nrow(draws)
  reached <- apply(draws, 2, \(T) {
    all - findInterval(T - 1e-10 * abs(T) - 1e-14 * size, sort(T), left.open = TRUE)
  }) / all
  best <- which.min(reached[1, ])
  rank <- do.call(pmin, as.data.frame(reached)) + rowMeans(reached) / (2 * all)
  p <- if (ncol(draws) == 1) reached[[1]] else mean(rank <= rank[1] + 1e-12)
  list(
    p = p, parameter = c(replicates = all - 1), how = how, count = ncol(draws), least = reached[1, best], best = best,
    observed = draws[1, best]
  )
}

# `found`: of permuted(); `L`: the bandwidth factor of number found$best; `height`: what multiplies the statistic.
exchange_htest <- function(found, method, names, alternative, L, height = 1) {
  single <- found$count == 1
  statistic <- if (single) c(T = height * found$observed) else c("smallest p" = found$least)
  found$parameter <- c(if (!single) c(bandwidths = found$count), found$parameter)
  method <- paste0(method, ", ", if (!single) paste0("aggregated over ", found$count, " bandwidths, "), found$how)
  new_htest(statistic, found, method, names, alternative, NULL, list(H = tcrossprod(L)))
}
