# Plans of sums to a tolerance whose sources and targets are both in shards. Three ways: each shard of targets uses
# only the shards of sources that are near it; grids of all points are added (store-cluster-grid.R); or each shard of
# targets uses all shards. The choice must depend on the data alone, as it changes bits: costs are estimated for
# NOMINAL_WORKERS.

# list(near, grid, text, workers): `near` and `grid` as in joined_data(), at most one of them; `text`: for
# diagnostics(); `workers`: the account of the workers for making the plan.
plan_join <- function(sources, at, b, control) {
  data <- sources$points
  whole <- plan_whole(data)
  if (!(control$tol > 0) || control$tol_type != "global") return(whole)
  targets <- if (is.null(at)) data else at
  watch <- watch_workers(data$cluster)
  least <- least_largest_sum(sources, targets, b, control)
  near <- if (all(least > 0)) near_shards(sources, targets, b, control, least)
  grid <- plan_grid(sources, at, b, control)
  by_near <- way_text("shards near each other exchanged", near, "most shards are within reach of each other")
  by_grid <- way_text("grids added", grid, "no grid")
  if (!is.null(grid) && (is.null(near) || grid$seconds <= near$seconds)) {
    packed <- if_supported(grids_of_shards(sources, b, grid$spec, control)) # else they turn out not to be possible
    grid <- list(spec = grid$spec, grids = packed, first = 1 + rows_before(targets))
    if (!is.null(packed)) return(list(grid = grid, text = paste0(by_grid, "; ", by_near), workers = watch()))
  }
  if (is.null(near)) return(c(whole, list(workers = watch())))
  list(near = near$shards, text = paste0(by_near, "; ", by_grid), workers = watch())
}

# A plan's estimated cost in words; `none` if there is no such plan.
way_text <- function(what, way, none) {
  if (is.null(way)) return(none)
  paste0(what, ": ", format_bytes(way$bytes), " and ", format(way$seconds, digits = 2), " s for ", NOMINAL_WORKERS, " workers")
}

plan_whole <- function(data) {
  count <- length(data_blocks(data))
  blocks <- paste(whole(count), ngettext(count, "block", "blocks"))
  list(text = paste0("all shards sent to each worker, ", format_bytes(8 * data$n * data$d), " in ", blocks))
}

is_whole <- function(plan) is.null(plan$near) && is.null(plan$grid)

# f(plan). If targets lie outside the grid of the plan, f() with all shards.
by_plan <- function(plan, f) {
  found <- tryCatch(f(plan), flashkernel_error_unsupported = function(error) {
    if (is.null(plan$grid)) stop(error)
    plan <<- list(text = "all shards sent to each worker, as targets lie outside the grid")
    f(plan)
  })
  found$stats$plan <- plan$text
  found$stats$workers <- add_accounts(plan$workers, found$stats$workers)
  found
}

# ---- near ----------------------------------------------------------------------------------------

# list(shards, bytes, seconds): for each shard of `targets` the shards of sources near it, so that all others together
# add at most half of the tolerance; NULL if that leaves more than half of the pairs. The bound is rigorous. It uses
# the box and the sum of |b| of each shard, and `least`, lower bounds of the largest sum of |b| at the targets, for
# each column.
near_shards <- function(sources, targets, b, control, least) {
  data <- sources$points
  kernel <- sources$kernel
  if (is.character(kernel)) kernel <- check_kernel(kernel)
  if (is.null(data$box) || is.null(targets$box) || !is_stationary(kernel)) return(NULL)
  mass <- apply(masses(data, b) / rep(least, each = length(data$rows)), 1, max)
  distance <- box_distances(whiten_box(targets$box, sources$L), whiten_box(data$box, sources$L))
  reach <- kernel_by_distance(kernel, distance, control)
  shards <- lapply(seq_along(targets$rows), function(target) {
    share <- mass * reach[target, ]
    from_least <- order(share)
    far <- from_least[cumsum(share[from_least]) <= control$tol / 2]
    sort(setdiff(seq_along(mass), utils::head(far, length(mass) - 1)))
  })
  pairs <- sum(vapply(shards, \(own) sum(data$rows[own]), 0) * targets$rows)
  if (pairs > data$n * targets$n / 2) return(NULL)
  c(list(shards = shards), cost_of_near(sources, targets, shards, NCOL(b), control))
}

# Upper bounds of the sums of |b w| over each shard, with a column for each column of b.
masses <- function(data, b) {
  weighed <- data$has[["weights"]]
  if (is.null(b)) return(cbind(if (weighed) data$shard_weights else data$rows))
  shard <- factor(rep(seq_along(data$rows), data$rows), seq_along(data$rows))
  b <- abs(as.matrix(b))
  if (!weighed) return(rowsum(b, shard))
  most <- apply(b, 2, \(column) tapply(column, shard, max, default = 0))
  matrix(most, ncol = ncol(b)) * data$shard_weights
}

# Boxes are rows of 2 d numbers, lower and upper corners. Scales them so that the kernel depends on their distance; if
# L is not diagonal, these distances are lower bounds.
whiten_box <- function(box, L) {
  scale <- if (is_diagonal(L)) diagonal(L) else rep(max(svd(L, 0, 0)$d), nrow(L))
  box / rep(rep(scale, 2), each = nrow(box))
}

# Least distances between the boxes `a` (rows) and `b` (columns).
box_distances <- function(a, b) {
  d <- ncol(a) / 2
  gap <- \(k) pmax(outer(a[, k], b[, d + k], `-`), outer(-a[, d + k], -b[, k], `-`), 0)
  sqrt(Reduce(`+`, lapply(seq_len(d), \(k) gap(k)^2)))
}

kernel_by_distance <- function(kernel, distance, control) {
  known <- sort(unique(as.vector(distance)))
  known <- known[is.finite(known)]
  values <- kernel_matrix_of(sum_sources(matrix(0), NULL, matrix(1), kernel), matrix(known), control)
  found <- values[match(distance, known)]
  matrix(replace(found, is.na(found), 0), nrow(distance)) # of a shard without rows
}

# A lower bound of the largest sum of |b|, for each column: the largest exact sum at 64 targets.
least_largest_sum <- function(sources, targets, b, control) {
  some <- targets[spread_rows(targets$n, 64), , drop = FALSE]
  control$tol <- 0
  found <- sums_of_shards(sources, some, if (!is.null(b)) abs(b), control)
  apply(as.matrix(found$sums), 2, max) * (1 - 1e-10)
}

# Estimated bytes and seconds, if each worker has consecutive shards of the targets and of the sources.
cost_of_near <- function(sources, targets, shards, columns, control) {
  data <- sources$points
  place <- \(count) ceiling(seq_len(count) * NOMINAL_WORKERS / count)
  has <- place(length(data$rows))
  moved <- vapply(split(shards, place(length(shards))), \(own) sum(data$rows[unique(unlist(own))]), 0)
  kept <- vapply(split(data$rows, has), sum, 0)
  bytes <- 8 * (data$d + columns) * sum(pmax(0, moved - kept[names(moved)]), na.rm = TRUE)
  sums <- vapply(seq_along(shards), \(target) {
    nominal_seconds(control, sum(data$rows[shards[[target]]]), targets$rows[target], data$d, sources$kernel)
  }, 0)
  list(bytes = bytes, seconds = (bytes / NOMINAL_LINK + sum(sums)) / NOMINAL_WORKERS)
}

# Estimated seconds of a sum on one CPU thread, which do not depend on this machine's settings.
nominal_seconds <- function(control, n, m, d, kernel) {
  control$threads <- 1L
  control$backend <- "cpu"
  guessed_seconds(control, n, m, d, kernel)
}
