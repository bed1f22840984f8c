# Sums to a tolerance over the shards of a flash_data(): every shard goes onto a grid of its own where it is, and grids are
# added up in the order of the tree (src/fast/stream.h). So a worker sends a grid, as large as the room that the points take
# up in bandwidths, however many they are.

# As sums_of_shards(); NULL where a grid is not possible, or not the fastest. `parts`: of b, for over_shards().
grid_sums_of_shards <- function(sources, at, b, parts, control) {
  data <- sources$points
  if (!(control$tol > 0) || control$tol_type != "global") return(NULL)
  if (!can_do(control, "stream", data$d, sources$kernel)) return(NULL)
  spec <- grid_spec(sources, at, n_sums(b), control)
  stream <- open_spec(spec, control)
  if (is.null(stream)) return(NULL)
  on.exit(stream_close(stream))
  grids <- over_shards(data, "grid", list(spec = spec), control, parts, pairs = data$n)
  stream_take(stream, grids)
  tryCatch(values_of_grid(stream, spec, grids, data, at, b, control), flashkernel_error_unsupported = \(error) NULL)
}

# What it takes to open streams that are alike: samples of both sides, by which a window is chosen, the targets that are
# checked, and sizes, of stream_open().
grid_spec <- function(sources, at, columns, control) {
  data <- sources$points
  targets <- if (is.null(at)) data else at
  m <- nrow(targets)
  some <- \(table) table[unique(round(seq(1, nrow(table), length.out = min(nrow(table), 8192)))), , drop = FALSE]
  x <- some(data)
  list(
    x = x, y = if (is.null(at)) x else some(targets),
    checked = targets[stream_rows(data$n, m), , drop = FALSE],
    size = c(data$n, m, length(data$rows), 1, control$tol / length(data$rows), memory_limit() / 2),
    columns = columns, L = sources$L
  )
}

open_spec <- function(spec, control) {
  stream_open(spec$x, spec$y, spec$checked, spec$size, spec$columns, spec$L, control)
}

values_of_grid <- function(stream, spec, grids, data, at, b, control) {
  like <- if (is.matrix(b)) b[0, , drop = FALSE]
  if (is.matrix(at)) return(stream_evaluate(stream, at, like, control))
  targets <- if (is.null(at)) data else at
  args <- list(spec = spec, grids = grids, like = like)
  over_shards(targets, "grid_values", args, control, pairs = targets$n)
}

# ---- on a worker --------------------------------------------------------------------------------

# A stream of the spec, without sources, or with those of grids that were packed; opened once in a run.
stream_of_run <- function(args, control) {
  if (is.null(args$scratch$stream)) {
    # the master has decided: beside so many chunks a grid is always faster
    args$spec$size[3] <- 1e12
    stream <- open_spec(args$spec, control)
    if (is.null(stream)) stop("this worker cannot have the grid of its master")
    if (!is.null(args$grids)) stream_take(stream, args$grids)
    args$scratch$stream <- stream
  }
  args$scratch$stream
}

grid_of_shard <- function(shard, args, b, control) {
  if (!is.null(shard$weights)) b <- if (is.null(b)) shard$weights else b * shard$weights
  stream <- stream_clone(stream_of_run(args, control))
  stream_add(stream, shard$points, b, control)
  stream
}

# Of two nodes, on a worker as they are, on the master packed.
merge_grids <- function(a, b) {
  stream_take(a, b)
  stream_close(b)
  a
}
