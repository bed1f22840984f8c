# Sums to a tolerance over the shards of a flash_data(): workers put each shard onto a grid, and the grids are added in
# the order of the tree (src/fast/stream.h). The size of a grid depends on the volume of the points in bandwidths, not
# on their number.

# Sums at targets in memory, as sums_of_shards() returns them; NULL if a grid is not used.
grid_sums_of_shards <- function(sources, at, b, control) {
  with_grid(sources, at, b, control, function(stream, spec) {
    stream_take(stream, grids_of_shards(sources, b, spec, control))
    stream_evaluate(stream, at, if (is.matrix(b)) b[0, , drop = FALSE], control)
  })
}

# f(stream, spec) with an empty stream; NULL if a grid is impossible or not the fastest way.
with_grid <- function(sources, at, b, control, f) {
  possible <- control$tol > 0 && control$tol_type == "global" &&
    can_do(control, "stream", sources$points$d, sources$kernel)
  if (!possible) return(NULL)
  spec <- grid_spec(sources, at, n_sums(b), control)
  stream <- open_spec(spec, control)
  if (is.null(stream)) return(NULL)
  on.exit(stream_close(stream))
  if_supported(f(stream, spec))
}

if_supported <- function(value) tryCatch(value, flashkernel_error_unsupported = \(error) NULL)

# The sum of the grids of all shards, packed.
grids_of_shards <- function(sources, b, spec, control) {
  over_shards(sources$points, "grid", list(spec = spec), control, b_of_shards(sources$points, b))
}

# Arguments of stream_open() with which master and workers open equal streams: samples of sources and targets, which
# determine the window, the targets that are checked, and sizes.
grid_spec <- function(sources, at, columns, control) {
  data <- sources$points
  m <- if (is.null(at)) data$n else nrow(at)
  size <- c(data$n, m, length(data$rows), 1, control$tol / length(data$rows), memory_limit() / 2)
  c(grid_samples(data, at, m), list(size = size, columns = columns, L = sources$L))
}

# Samples for grid_spec(), cached for the latest data, as iterations ask for the same.
grid_samples <- function(data, at, m) {
  key <- paste(c(data$id, if (is_remote(at)) at$id else if (!is.null(at)) identity_of(at)), collapse = " ")
  found <- session$grid_samples[[key]]
  if (!is.null(found)) return(found)
  targets <- if (is.null(at)) data else at
  some <- \(table) table[spread_rows(nrow(table), 8192), , drop = FALSE]
  x <- some(data)
  found <- list(x = x, y = if (is.null(at)) x else some(targets), checked = targets[stream_rows(data$n, m), , drop = FALSE])
  session$grid_samples <- with_latest(session$grid_samples, key, found, MOST_SAMPLES)
  found
}

open_spec <- function(spec, control) stream_open(spec$x, spec$y, spec$checked, spec$size, spec$columns, spec$L, control)

# ---- for targets in shards ------------------------------------------------------------------------

# list(spec, bytes, seconds): the grid and its estimated cost (store-cluster-near.R), or NULL.
plan_grid <- function(sources, at, b, control) {
  data <- sources$points
  with_grid(sources, at, b, control, function(stream, spec) {
    stream_add(stream, spec$x, matrix(1, nrow(spec$x), spec$columns), control)
    # each worker sends the grid of its own points and gets the whole grid
    bytes <- NOMINAL_WORKERS * length(stream_pack(stream)) * (1 + share_of_room(data))
    m <- if (is.null(at)) data$n else at$n
    sums <- nominal_seconds(control, data$n, m, data$d, sources$kernel)
    list(spec = spec, bytes = bytes, seconds = (bytes / NOMINAL_LINK + sums) / NOMINAL_WORKERS)
  })
}

# Average volume of the boxes of runs of shards, one run for each worker, relative to the box of all points.
share_of_room <- function(data) {
  if (is.null(data$box)) return(1)
  d <- data$d
  corner <- \(box, first, which) apply(box[, first + seq_len(d), drop = FALSE], 2, which)
  room_of <- \(box) prod(pmax(0, corner(box, d, max) - corner(box, 0, min)))
  count <- length(data$rows)
  runs <- split(seq_len(count), ceiling(seq_len(count) * NOMINAL_WORKERS / count))
  rooms <- vapply(runs, \(run) room_of(data$box[run, , drop = FALSE]), 0)
  all <- room_of(data$box)
  if (all > 0) mean(rooms) / all else 1
}

# ---- on a worker --------------------------------------------------------------------------------

# The stream of a run, opened once: empty, or with packed grids.
stream_of_run <- function(spec, scratch, control, grids = NULL) {
  if (!is.null(scratch$stream)) return(scratch$stream)
  # the master has decided for a grid: with so many chunks it is always the fastest way
  spec$size[3] <- 1e12
  stream <- open_spec(spec, control)
  if (is.null(stream)) stop("this worker cannot open the grid of its master")
  if (!is.null(grids)) stream_take(stream, grids)
  scratch$stream <- stream
}

grid_of_shard <- function(shard, args, part, control) {
  b <- if (!is.null(part) || !is.null(shard$weights)) weighted(part, shard)
  stream <- stream_clone(stream_of_run(args$spec, args$scratch, control))
  stream_add(stream, shard$points, b, control)
  stream
}

# Sums at targets from the grid of joined data.
sums_of_grid <- function(data, at, b, control) {
  stream <- stream_of_run(data$grid$spec, data$scratch, control, data$grid$grids)
  stream_evaluate(stream, at, if (is.matrix(b)) b[0, , drop = FALSE], control, data$grid$first[data$own])
}

# Adds the grids of two nodes.
merge_grids <- function(a, b, control) {
  stream_take(a, b)
  stream_close(b)
  a
}

# The operation: a grid for each node, packed when it leaves the worker.
add_operations(grid = list(
  one = grid_of_shard, merge = merge_grids,
  finish = function(stream) {
    on.exit(stream_close(stream))
    stream_pack(stream)
  },
  resume = function(packed, args, control) {
    stream <- stream_clone(stream_of_run(args$spec, args$scratch, control))
    stream_take(stream, packed)
  }
))
