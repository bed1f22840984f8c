# Sums to a tolerance over the shards of a flash_data(): every shard goes onto a grid of its own where it is, and grids
# are added up in the order of the tree (src/fast/stream.h). So a worker sends a grid, as large as the room that the
# points take up in bandwidths, however many they are.

# As sums_of_shards() at targets in memory, or NULL.
grid_sums_of_shards <- function(sources, at, b, control) {
  with_grid(sources, at, b, control, function(stream, spec) {
    stream_take(stream, grids_of_shards(sources, b, spec, control))
    stream_evaluate(stream, at, if (is.matrix(b)) b[0, , drop = FALSE], control)
  })
}

# f(stream, spec) of an empty stream; NULL where a grid is not possible, or not the fastest.
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

# The grids of all shards as one, packed.
grids_of_shards <- function(sources, b, spec, control) {
  over_shards(sources$points, "grid", list(spec = spec), control, b_of_shards(sources$points, b))
}

# What it takes to open streams that are alike: samples of both sides, by which a window is chosen, the targets that are
# checked, and sizes, of stream_open().
grid_spec <- function(sources, at, columns, control) {
  data <- sources$points
  m <- if (is.null(at)) data$n else nrow(at)
  size <- c(data$n, m, length(data$rows), 1, control$tol / length(data$rows), memory_limit() / 2)
  c(grid_samples(data, at, m), list(size = size, columns = columns, L = sources$L))
}

# Those of the last data that were asked are kept: a product after the other goes by the same.
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

# list(spec, bytes, seconds), what it would move and take (store-cluster-near.R), or NULL.
plan_grid <- function(sources, at, b, control) {
  data <- sources$points
  with_grid(sources, at, b, control, function(stream, spec) {
    stream_add(stream, spec$x, matrix(1, nrow(spec$x), spec$columns), control)
    # each sends a grid of the room of its own points, and gets all of it
    bytes <- NOMINAL_WORKERS * length(stream_pack(stream)) * (1 + share_of_room(data))
    m <- if (is.null(at)) data$n else at$n
    sums <- nominal_seconds(control, data$n, m, data$d, sources$kernel)
    list(spec = spec, bytes = bytes, seconds = (bytes / NOMINAL_LINK + sums) / NOMINAL_WORKERS)
  })
}

# Of the box of all points, what runs of shards as a worker would have them take, on average.
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

# A stream of the spec, without sources, or with those of grids that were packed; opened once in a run.
stream_of_run <- function(spec, scratch, control, grids = NULL) {
  if (!is.null(scratch$stream)) return(scratch$stream)
  # the master has decided: beside so many chunks a grid is always faster
  spec$size[3] <- 1e12
  stream <- open_spec(spec, control)
  if (is.null(stream)) stop("this worker cannot have the grid of its master")
  if (!is.null(grids)) stream_take(stream, grids)
  scratch$stream <- stream
}

grid_of_shard <- function(shard, args, part, control) {
  b <- if (!is.null(part) || !is.null(shard$weights)) weighted(part, shard)
  stream <- stream_clone(stream_of_run(args$spec, args$scratch, control))
  stream_add(stream, shard$points, b, control)
  stream
}

# At targets, by the grid of joined data.
sums_of_grid <- function(data, at, b, control) {
  stream <- stream_of_run(data$grid$spec, data$scratch, control, data$grid$grids)
  stream_evaluate(stream, at, if (is.matrix(b)) b[0, , drop = FALSE], control, data$grid$first[data$own])
}

# Of two nodes, on a worker as they are, on the master packed.
merge_grids <- function(a, b, control) {
  stream_take(a, b)
  stream_close(b)
  a
}

# A grid of each node, packed where it leaves the worker.
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
