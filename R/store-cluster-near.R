# How shards are to meet shards, to a tolerance: each shard of targets with those shards of sources alone that are near
# it, by their boxes; by grids of all points, which workers add up (store-cluster-grid.R); or with all of them. What
# moves fewer bytes and takes less time is decided by the data alone, as among so many workers, for these decide about
# bits.

# list(near, grid, text, workers): `near` and `grid` of joined_data(), one or none of them; `text`: what diagnostics()
# says; `workers`: what these have done for it.
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

# What of that is reckoned, for NOMINAL_WORKERS.
way_text <- function(what, way, none) {
  if (is.null(way)) return(none)
  paste0(what, ": ", format_bytes(way$bytes), " and ", format(way$seconds, digits = 2), " s for ", NOMINAL_WORKERS, " workers")
}

plan_whole <- function(data) {
  count <- length(data_blocks(data))
  blocks <- paste(whole(count), ngettext(count, "block", "blocks"))
  list(text = paste0("all meet, ", format_bytes(8 * data$n * data$d), " at each worker, in ", blocks))
}

is_whole <- function(plan) is.null(plan$near) && is.null(plan$grid)

# What f() is by the plan, and by all shards where targets are beyond its grid.
by_plan <- function(plan, f) {
  found <- tryCatch(f(plan), flashkernel_error_unsupported = function(error) {
    if (is.null(plan$grid)) stop(error)
    plan <<- list(text = "all meet, as no grid reaches them")
    f(plan)
  })
  found$stats$plan <- plan$text
  found$stats$workers <- add_accounts(plan$workers, found$stats$workers)
  found
}

# ---- near ----------------------------------------------------------------------------------------

# list(shards, bytes, seconds), the shards of sources for each of `targets`, such that all others together do not
# matter to half of the tolerance at any place; NULL where these are most of them. Rigorous: of a shard its mass and
# its box are known, and of the sums of |b| at all targets the largest is `least` or more, for each column.
near_shards <- function(sources, targets, b, control, least) {
  data <- sources$points
  kernel <- sources$kernel
  if (is.character(kernel)) kernel <- check_kernel(kernel)
  if (is.null(data$box) || is.null(targets$box) || !is_radial(kernel)) return(NULL)
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

# Sums of |b w| over each shard, a column for each of b, or no less than these.
masses <- function(data, b) {
  weighed <- data$has[["weights"]]
  if (is.null(b)) return(cbind(if (weighed) data$shard_weights else data$rows))
  shard <- factor(rep(seq_along(data$rows), data$rows), seq_along(data$rows))
  b <- abs(as.matrix(b))
  if (!weighed) return(rowsum(b, shard))
  most <- apply(b, 2, \(column) tapply(column, shard, max, default = 0))
  matrix(most, ncol = ncol(b)) * data$shard_weights
}

# Lower and upper corners in rows of 2 d, in units in which the kernel is that of the distance; of a full factor
# distances are no less than in these.
whiten_box <- function(box, L) {
  scale <- if (is_diagonal(L)) diagonal(L) else rep(max(svd(L, 0, 0)$d), nrow(L))
  box / rep(rep(scale, 2), each = nrow(box))
}

# The least distances of all points of the boxes `a` to those of `b`.
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

# Of exact sums at some targets the largest.
least_largest_sum <- function(sources, targets, b, control) {
  some <- targets[spread_rows(targets$n, 64), , drop = FALSE]
  control$tol <- 0
  found <- sums_of_shards(sources, some, if (!is.null(b)) abs(b), control)
  apply(as.matrix(found$sums), 2, max) * (1 - 1e-10)
}

# Each worker takes a run of the targets, and has a run of the sources.
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

# Of one thread, whatever this session has.
nominal_seconds <- function(control, n, m, d, kernel) {
  control$threads <- 1L
  control$backend <- "cpu"
  guessed_seconds(control, n, m, d, kernel)
}
