# Sums of Gaussian kernels by one grid that stays in memory between calls (src/fast/stream.h). All chunks of sources are
# spread onto the grid, which then returns the sums of one piece of targets after the other. `job`, `source` and `sink`
# are those of sum_kernels().

# Do the arguments allow a stream? C decides from the points whether it is possible and fastest.
may_stream <- function(job, control) {
  in_parts <- job$once || job$chunks * length(job$pieces) > 1
  in_parts && can_do(control, "stream", job$d, job$kernel)
}

# Passes all sums to the sink and returns list(stats, n). Returns NULL if another method must be used; the sink may
# already have the sums of the first pieces.
sum_by_stream <- function(job, source, sink, control) {
  chunk <- source$peek()
  bytes <- check_sum_memory(chunk, job$d, job$pieces[1], if (sink$returns) job$m else 0)
  n <- 0
  share <- \(rows) show_share(control, n + sink$rows(), rows, job$n + job$m)
  share(0)
  stream <- open_stream(job, chunk, memory_limit() - bytes, control)
  if (is.null(stream)) return(NULL)
  on.exit(stream_close(stream))
  # FALSE if the grid cannot keep the tolerance for these points
  try_grid <- function(expression) {
    tryCatch(expression, flashkernel_error_unsupported = function(error) {
      if (job$once && n > 0) stop_unread(error)
      FALSE
    })
  }
  read_targets <- \(piece) read_rows(job$targets, piece, "y", job$d, job$names)
  # extends the grid to these targets; FALSE if this is not possible
  announce <- \(targets) !isFALSE(try_grid(stream_expect(stream, targets, control)))

  # Targets in memory are announced at no cost. Others are read for this only in more than 3 dimensions, where a grid
  # that covers too much would be far larger.
  with_own <- job$own && job$d > 3
  if (!job$own && (!is_big(job$targets) || job$d > 3)) {
    for (piece in job$pieces) {
      if (!announce(read_targets(piece))) return(NULL)
    }
  }
  like <- if (is.matrix(chunk$columns)) chunk$columns[0, , drop = FALSE]
  while (!is.null(chunk <- source$peek())) {
    share(nrow(chunk$points))
    if (with_own && !announce(chunk$points)) return(NULL)
    if (isFALSE(try_grid(stream_add(stream, chunk$points, chunk$columns, control)))) return(NULL)
    n <- n + nrow(chunk$points)
    source$drop()
  }
  for (piece in job$pieces) {
    share(diff(piece) + 1)
    part <- try_grid(stream_evaluate(stream, read_targets(piece), like, control))
    if (isFALSE(part)) return(NULL)
    sink$take(piece, part$sums)
  }
  list(stats = part$stats, n = n)
}

# Opens a stream. Returns NULL if it is not possible or not fastest. The number of sources of a function is guessed.
# `bytes`: the largest size of the grid.
open_stream <- function(job, chunk, bytes, control) {
  x <- if (is_big(job$x)) sample_rows(job$x, "x", job) else sample_rows(chunk$points, "x", job)
  y <- if (job$own) x else sample_rows(job$targets, "y", job)
  if (nrow(x) == 0 || nrow(y) == 0) return(NULL) # reading all rows raises the error
  n <- if (job$once) max(nrow(chunk$points), job$m) else job$n
  chunks <- if (job$once) ceiling(n / nrow(chunk$points)) else job$chunks
  checked <- pick_rows(job$targets, stream_rows(n, job$m), "y", job)
  size <- c(n, job$m, chunks, length(job$pieces), control$tol / tol_share(job), bytes)
  stream_open(x, y, checked, size, n_sums(chunk$columns), job$L, control)
}

# Returns a sample of rows, whose size limits its cost to a few percent of the sums. Rows of a big.matrix are read in
# evenly spread runs, because each may be in another page of a file. Rows that are not finite are omitted here, and are
# an error when all rows are read.
sample_rows <- function(table, arg, job) {
  n <- nrow(table)
  size <- min(n, max(2^13, min(n / 8, 2^16)))
  run <- if (is_big(table)) min(n, 128) else 1
  first <- floor(seq(1, n - run + 1, length.out = ceiling(size / run)))
  rows <- unique(as.vector(outer(seq_len(run) - 1, first, "+")))
  points <- pick_rows(table, rows, arg, job)
  finite <- is.finite(rowSums(points))
  if (all(finite)) points else points[finite, , drop = FALSE]
}

pick_rows <- function(table, rows, arg, job) {
  points <- as_points(table[rows, , drop = FALSE], arg)
  match_columns(points, arg, job$d, job$names)
}

stop_unread <- function(error) {
  error$message <- paste0(
    conditionMessage(error), ". The chunks of a function cannot be read again for another engine: use ",
    "control = flash_control(engine = \"exact\")"
  )
  stop(error)
}

# ---- streams themselves -------------------------------------------------------------------------

# Returns a handle, or NULL if other engines are to sum. `size`: n, m, the numbers of chunks of sources and of pieces of
# targets, the tolerance, and the largest bytes of the grid; `checked`: the targets with the numbers stream_rows().
stream_open <- function(x, y, checked, size, columns, L, control) {
  .Call(ffi_stream_open, x, y, checked, size, columns, L, control)
}
stream_rows <- function(n, m) .Call(ffi_stream_rows, n, m)
stream_expect <- function(stream, y, control) .Call(ffi_stream_expect, stream, y, control)
stream_add <- function(stream, x, b, control) .Call(ffi_stream_add, stream, x, b, control)
# `first`: the number of the first row of `y` among all targets, if pieces are not evaluated in order.
stream_evaluate <- function(stream, y, like, control, first = NULL) {
  .Call(ffi_stream_evaluate, stream, y, like, first, control)
}
stream_close <- function(stream) .Call(ffi_stream_close, stream)

# stream_clone() returns an empty stream with the same window function. stream_pack() returns the contents of the grid
# as a raw vector. stream_take() adds such contents, or those of another stream, to the grid.
stream_clone <- function(stream) .Call(ffi_stream_clone, stream)
stream_pack <- function(stream) .Call(ffi_stream_pack, stream)
stream_take <- function(stream, other) .Call(ffi_stream_take, stream, other)
