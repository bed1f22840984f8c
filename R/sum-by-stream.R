# Sums of Gaussian kernels by one grid, which C keeps between calls (src/fast/stream.h): all chunks of sources go
# onto it, and then it gives the sums of one piece of targets after the other. `job`, `source` and `sink` are
# those of sum_kernels().

# By the arguments; C decides by the points.
may_stream <- function(job, control) {
  in_parts <- job$once || job$chunks * length(job$pieces) > 1
  in_parts && can_do(control, "stream", job$d, job$kernel)
}

# list(stats, n), and the sink has all sums. NULL where they have to be had in another way: the sink may have those
# of the first pieces.
sum_by_stream <- function(job, source, sink, control) {
  chunk <- source$peek()
  bytes <- check_sum_memory(chunk, job$d, job$pieces[1], if (sink$returns) job$m else 0)
  n <- 0
  share <- \(rows) show_share(control, n + sink$rows(), rows, job$n + job$m)
  share(0)
  stream <- open_stream(job, chunk, memory_limit() - bytes, control)
  if (is.null(stream)) return(NULL)
  on.exit(stream_close(stream))
  # FALSE where the points are not for a grid
  try_grid <- function(expression) {
    tryCatch(expression, flashkernel_error_unsupported = function(error) {
      if (job$once && n > 0) stop_unread(error)
      FALSE
    })
  }
  read_targets <- \(piece) read_rows(job$targets, piece, "y", job$d, job$names)
  # the grid must reach these targets; FALSE where it cannot
  announce <- \(targets) !isFALSE(try_grid(stream_expect(stream, targets, control)))

  # targets in memory cost nothing to announce, others are read for it where the grid would be far larger
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

# NULL where a stream is not possible, or not the fastest. A function's number of sources is guessed. `bytes`: the
# most that the grid may take.
open_stream <- function(job, chunk, bytes, control) {
  x <- if (is_big(job$x)) sample_rows(job$x, "x", job) else sample_rows(chunk$points, "x", job)
  y <- if (job$own) x else sample_rows(job$targets, "y", job)
  if (nrow(x) == 0 || nrow(y) == 0) return(NULL) # reading them all will say why
  n <- if (job$once) max(nrow(chunk$points), job$m) else job$n
  chunks <- if (job$once) ceiling(n / nrow(chunk$points)) else job$chunks
  checked <- pick_rows(job$targets, stream_rows(n, job$m), "y", job)
  size <- c(n, job$m, chunks, length(job$pieces), control$tol / tol_share(job), bytes)
  stream_open(x, y, checked, size, n_sums(chunk$columns), job$L, control)
}

# What sampled rows are good for takes a few percent of the time of the sums. Those of a big.matrix come in runs,
# spread evenly: each may be a page of a file. Rows that are not finite are left to who reads them all.
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

# A handle, or NULL where other engines are to sum. `size`: n, m, parts of the sources and of the targets, their
# tolerance, and the most bytes that the grid may take; `checked`: the targets of the numbers stream_rows().
stream_open <- function(x, y, checked, size, columns, L, control) {
  .Call(ffi_stream_open, x, y, checked, size, columns, L, control)
}
stream_rows <- function(n, m) .Call(ffi_stream_rows, n, m)
stream_expect <- function(stream, y, control) .Call(ffi_stream_expect, stream, y, control)
stream_add <- function(stream, x, b, control) .Call(ffi_stream_add, stream, x, b, control)
# `first`: the number of the first of y among all targets, where they do not come in order.
stream_evaluate <- function(stream, y, like, control, first = NULL) {
  .Call(ffi_stream_evaluate, stream, y, like, first, control)
}
stream_close <- function(stream) .Call(ffi_stream_close, stream)

# Another of the same window without sources; a raw vector of what sources have left in one; and that, or what they have
# left in another stream, added.
stream_clone <- function(stream) .Call(ffi_stream_clone, stream)
stream_pack <- function(stream) .Call(ffi_stream_pack, stream)
stream_take <- function(stream, other) .Call(ffi_stream_take, stream, other)
