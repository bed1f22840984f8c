# Rows of kernel_ridge() that need not fit into memory: a big.matrix, or a function that returns chunks. One chunk is in
# memory at a time, and n numbers for each output.
#
# The function is called without arguments, like chunk functions of kernel_sum(): it returns one chunk after the other,
# and NULL after the last. There are several passes: the call after NULL returns the first chunk again. A function with
# an argument `reset`, like the data functions of biglm, is called with reset = TRUE before every pass, and its value is
# ignored. Then an interrupt or error in a pass does no harm. A chunk is a matrix (or data frame, or vector for one
# dimension) or list(x =, y =, weights =), with the same elements in all chunks.
#
# A product is the sum of the products of the chunks, in their order. It depends on the chunks up to rounding.

# Reads all chunks once: the number of rows, the response and weights in the chunks, and the seconds of the pass. `arg`:
# the name of the argument for messages.
chunk_rows <- function(x, brings_y = FALSE, arg = "x") {
  rows <- structure(list(x = x, n = NA_real_, d = NULL, names = NULL, arg = arg), class = "rows_chunks")
  if (is_big(x)) rows[c("d", "names")] <- list(ncol(check_big(x, arg)), colnames(x))
  if (is_big(x) && ncol(x) == 0) stop_argument(arg, "must have at least one column: found none")
  first <- NULL
  count <- 0
  brought <- list(y = list(), weights = list())
  started <- probe_clock()
  rows$n <- each_chunk(rows, function(points, piece, chunk) {
    if (brings_y && is.null(chunk$y)) stop_argument("y", "must be given, or be part of the chunks of `x`")
    if (is.null(first)) first <<- list(ncol(points), colnames(points))
    for (part in names(brought)) {
      given <- chunk[[part]]
      check_brought(given, part, nrow(points), length(brought[[part]]) == count)
      if (!is.null(given)) brought[[part]][[count + 1]] <<- given
    }
    count <<- count + 1
  })
  rows$seconds <- probe_clock() - started
  rows[c("d", "names")] <- first
  rows$chunks <- count
  for (part in names(brought)) rows[[part]] <- join_brought(brought[[part]])
  rows
}

# Checks y or weights (`part`) of a chunk of `n` rows: one value for each row, in all chunks or in none. `before`: did
# all chunks so far have them?
check_brought <- function(given, part, n, before) {
  if (!is.null(given) && NROW(given) != n) {
    stop_argument(part, "must have one row per row of `x`, ", whole(n), ": found ", whole(NROW(given)))
  }
  if (!is.null(given) && !before) stop_argument(part, "must be part of every chunk of `x`, or of none")
}

# One pass: calls f(points, c(first, last), chunk) for each chunk. Returns the number of rows; it is an error if that
# differs from the first pass.
each_chunk <- function(rows, f) {
  next_chunk <- open_chunks(rows)
  before <- 0
  while (!is.null(chunk <- next_chunk())) {
    piece <- before + c(1, nrow(chunk$points))
    before <- piece[2]
    if (!is.na(rows$n) && before > rows$n) break
    in_place_of(chunk, f(chunk$points, piece, chunk))
  }
  if (!is.na(rows$n) && before != rows$n) {
    stop_argument(
      rows$arg, "must return the same rows in every pass, ", whole(rows$n), ": found ",
      if (before > rows$n) "more" else whole(before)
    )
  }
  before
}

open_chunks <- function(rows) {
  x <- rows$x
  if (is_big(x)) return(table_chunks(x, rows$d, rows$names, chunk_size(NULL, rows$d)))
  if ("reset" %in% names(formals(x))) {
    in_function_of_user(rows$arg, x(reset = TRUE), "failed at its reset")
    x <- \() rows$x(reset = FALSE)
  }
  none <- if (!is.na(rows$n)) "must begin again with its first chunk in the call after it gave NULL: found NULL again"
  called_chunks(x, rows$d, rows$names, c("y", "weights"), "the first chunk", none, rows$arg)
}

# ---- products ---------------------------------------------------------------------------------

# The errors of the chunks add up; each is relative to the largest sum of its chunk.
#' @export
rows_normal.rows_chunks <- function(rows, centers, v, w, weights, run, with_sums = FALSE) {
  run$tol <- run$tol / rows$chunks
  product <- 0
  sums <- if (with_sums) matrix(0, rows$n, NCOL(v))
  stats <- NULL
  rows_share(rows, run, function(points, of) {
    sources <- sum_sources(points, NULL, rows$L, rows$kernel)
    part <- normal_product_of(
      centers$sources, sources, v, if (!is.null(w)) w[of, , drop = FALSE], if (!is.null(weights)) weights[of], run,
      with_sums
    )
    product <<- product + part$product
    if (with_sums) sums[of, ] <<- part$sums
    stats <<- add_part_stats(stats, part$stats, run)
  })
  list(product = product, sums = sums, stats = stats)
}

#' @export
rows_share.rows_chunks <- function(rows, run, f) {
  share <- nested_share(run)
  each_chunk(rows, function(points, piece, chunk) {
    share$part((piece[1] - 1) / rows$n, nrow(points) / rows$n)
    f(points, piece[1]:piece[2])
  })
  share$end()
}

# ---- rows -------------------------------------------------------------------------------------

# For the rows of a chunk function: one pass.
#' @export
rows_take.rows_chunks <- function(rows, index) {
  check_memory(8 * length(index) * rows$d, "centers")
  sorted <- sort(index)
  if (is_big(rows$x)) {
    taken <- as_points(rows$x[sorted, , drop = FALSE], "x")
  } else {
    taken <- matrix(0, length(index), rows$d)
    each_chunk(rows, function(points, piece, chunk) {
      of <- findInterval(piece - c(1, 0), sorted)
      if (of[1] == of[2]) return()
      of <- (of[1] + 1):of[2]
      taken[of, ] <<- as_points(points[sorted[of] - piece[1] + 1, , drop = FALSE], "x")
    })
    if (!is.null(rows$names)) colnames(taken) <- rows$names
  }
  if (is.unsorted(index)) taken[rank(index, ties.method = "first"), , drop = FALSE] else taken
}

#' @export
rows_fold.rows_chunks <- function(rows, f, init) {
  each_chunk(rows, function(points, piece, chunk) init <<- f(init, as_points(points, "x"), piece[1]))
  init
}
