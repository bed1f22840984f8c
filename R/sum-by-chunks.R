# Kernel sums whose sources, coefficients, targets or results may be larger than memory. Each chunk of sources is summed
# at each piece of the targets. sum_kernels() uses this file unless a stream (sum-by-stream.R) is possible and faster.
# Points in memory are one chunk and one piece.

# Makes the description of a job. `width`: number of columns of the coefficients.
sum_job <- function(sources, at, width, chunk_rows) {
  x <- sources$points
  once <- is.function(x)
  targets <- if (is.null(at)) x else at
  columns_of <- if (once) at else x
  d <- ncol(columns_of)
  size <- chunk_size(chunk_rows, d + width)
  list(
    x = x, targets = targets, own = is.null(at), once = once, n = if (once) NA_real_ else as.double(nrow(x)),
    m = as.double(nrow(targets)), d = d, names = colnames(columns_of), L = sources$L, kernel = sources$kernel,
    size = size, pieces = row_pieces(targets, size), chunks = if (once) NA_real_ else length(row_pieces(x, size))
  )
}

# Sums every chunk of sources at every piece of targets that the sink does not have yet. Returns list(stats, n). One
# pass over the sources serves one piece of targets, or all pieces if the sources can be read only once.
sum_by_chunks <- function(job, source, sink, control) {
  pieces <- job$pieces[seq_along(job$pieces) > sink$pieces()]
  # if the points in memory are their own targets, every pair is computed once
  symmetric <- job$own && length(job$pieces) == 1
  passes <- if (job$once) list(pieces) else lapply(pieces, list)
  # the errors of chunks add up, each relative to the largest sum of the chunk
  control$tol <- control$tol / tol_share(job)
  stats <- list()
  done <- 0
  for (pass in passes) {
    sums <- parts <- vector("list", length(pass))
    source$rewind()
    count <- 0
    while (!is.null(chunk <- source$peek())) {
      count <- count + nrow(chunk$points)
      if (done == 0) check_sum_memory(chunk, if (symmetric) 0 else job$d, pass, if (sink$returns) job$m else 0)
      sources <- sum_sources(chunk$points, NULL, job$L, job$kernel, if (length(pass) > 1) new_plan())
      for (i in seq_along(pass)) {
        at <- if (!symmetric) read_rows(job$targets, pass[[i]], "y", job$d, job$names)
        pairs <- nrow(chunk$points) * (diff(pass[[i]]) + 1)
        show_share(control, done, pairs, job$n * job$m)
        done <- done + pairs
        part <- kernel_sum_of(sources, at, chunk$columns, control)
        sums[[i]] <- if (is.null(sums[[i]])) part$sums else sums[[i]] + part$sums
        parts[[i]] <- add_part_stats(parts[[i]], part$stats, control)
      }
      source$drop()
    }
    stats <- c(stats, parts)
    Map(sink$take, pass, sums)
  }
  list(stats = Reduce(add_stats, stats), n = count)
}

# Makes an object that collects the sums of pieces of targets in their order, or writes them to `out`.
sum_sink <- function(out, is_vector) {
  results <- list()
  pieces <- 0
  rows <- 0
  list(
    returns = is.null(out),
    take = function(piece, sums) {
      if (is_vector && !is.null(dim(sums))) sums <- as.vector(sums)
      if (is.null(out)) results[[pieces + 1]] <<- sums else write_rows(out, piece, sums)
      pieces <<- pieces + 1
      rows <<- piece[2]
    },
    pieces = \() pieces,
    rows = \() rows,
    join = function() {
      all <- results
      results <<- NULL
      join_pieces(all, is_vector)
    }
  )
}

join_pieces <- function(sums, is_vector) {
  if (length(sums) < 2) return(if (length(sums) == 1) sums[[1]])
  do.call(if (is_vector) c else rbind, sums)
}

# Returns the number of chunks among which the tolerance is divided.
tol_share <- function(job) if (job$once) CHUNKS_OF_A_FUNCTION else job$chunks

# The number of chunks of a function is not known. Its sums keep the tolerance for up to this many chunks of any kind,
# and for any number of chunks that are alike.
CHUNKS_OF_A_FUNCTION <- 64

chunk_size <- function(chunk_rows, numbers_per_row) {
  if (is.null(chunk_rows)) return(max(1, floor(chunk_bytes() / (8 * numbers_per_row))))
  check_count(chunk_rows, "chunk_rows")
}

# Checks the memory for a chunk, its coefficients, the engine's copies of both, `d` numbers for each target, and the
# sums of the pass, or of all `m` targets if these are returned.
check_sum_memory <- function(chunk, d, pass, m) {
  rows <- vapply(pass, \(piece) diff(piece) + 1, 0)
  sums <- max(m, sum(rows)) * n_sums(chunk$columns)
  check_memory(8 * (2 * length(chunk$points) + 2 * length(chunk$columns) + max(rows) * d + sums), "x")
}

# Sets the share of the next call in the progress. If `total` is NA, each call has its own progress bar.
show_share <- function(control, done, part, total) {
  if (is.na(total)) {
    name_stage(control, "Summing kernels of a chunk")
  } else {
    share_stage(control, done / total, part / total)
  }
}
