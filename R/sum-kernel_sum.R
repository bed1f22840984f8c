#' Sums of kernels
#'
#' Sums of kernels over all source points, at every target: the product of the `m` x `n`
#' kernel matrix with `b`, which is never stored. Points and results may be larger than memory. For Gaussian
#' kernels, also the logarithms of sums, and their gradients, the scores.
#'
#' @details
#' The result is \eqn{V_{jr} = \sum_i w_i k_{ji} b_{ir}}{V_jr = sum_i w_i k_ji b_ir}. Kernels are functions of
#' \eqn{r_{ji} = |L^{-1}(y_j - x_i)|}{r_ji = |L^-1 (y_j - x_i)|}, \eqn{H = LL'}{H = L L'} the bandwidth
#' matrix: distances in units of the bandwidth, where they are 1 at distance 0, not normalised. Or they are functions of
#' x'y, the product of points in these units, \eqn{L^{-1} x}{L^-1 x} and \eqn{L^{-1} y}{L^-1 y}: with `bandwidth = 1`,
#' of the points as they are. [kernel_spec()] sets their parameters, which else are `r kernel_parameters()`.
#'
#' `r kernel_formulas()`
#'
#' **Logarithms and scores.** With `type = "log"` the result is \eqn{\log \sum_i w_i k_{ji}}{log sum_i w_i k_ji}, right
#' also where the sum underflows, and with `"score"` its gradient by \eqn{y_j}{y_j}, the score of a KDE. They are for
#' the Gaussian kernel without `b`, and sum every pair exactly, whatever `tol` and the control's `engine` are.
#'
#' **Engines**, a setting of `control`. `"exact"` sums every pair in \eqn{O(nm(d + r))} for `r` columns of `b` (half
#' where `y` is left out), to the rounding of `precision`, whatever `tol` is; it passes over blocks of points which a
#' bound proves too far away to reach the last bit of any sum. In single precision on a GPU, one of several columns may
#' be off by 5e-5 where but one or two of its terms count. `"fast"` takes time linear in `n + m` and keeps every sum
#' within `tol`, for the kernels `"gaussian"`, `"cauchy"` and `"imq"` in up to 7 dimensions; for others it is an error
#' of class `flashkernel_error_unsupported`. `"auto"` takes the one that should finish first. With `tol = 0` that is an
#' exact one, but for Gaussian sums of many points on the CPU, in double and in up to three dimensions: there the fast
#' engine serves, too, where it proves an error of at most 1e-12 of \eqn{A_j}{A_j} (see below), which is what is
#' promised of doubles.
#'
#' **What the tolerance promises** holds at every target, for any points and any `b`: with \eqn{A_j}{A_j} the sum of
#' \eqn{|b_i| k}{|b_i| k} at target \eqn{j}{j}, the error there is at most `tol` times the largest \eqn{A_j}{A_j} of the
#' targets asked for, or with `tol_type = "pointwise"` times its own. That is proven, not estimated
#' (`vignette("exact")` tells how). Where the proof would take longer than the sums of all pairs, these are made.
#' [diagnostics()] has the bound, `tol_bound`, and the largest error on a sample of targets that is summed exactly,
#' `tol_achieved`. Both leave out what rounding in double does to the coordinates themselves. The Laplacian and Matern
#' kernels, which are not smooth at distance 0, and kernels of x'y are summed exactly, the latter always in double
#' precision.
#'
#' **Points in single precision**, `float32` matrices of the package float, take half the memory: they are summed as
#' they are, with the numbers that their copy in double precision would give. Other functions of this package make that
#' copy.
#'
#' **Points larger than memory.** `x`, `y` and `b` may be `big.matrix` objects of the package bigmemory, of which
#' `chunk_rows` rows at a time are in memory. `x` may also be a function without arguments: each call returns the next
#' chunk of sources, a matrix (or data frame, or vector for one dimension) or `list(x =, b =)` with their coefficients,
#' and after the last `NULL`. Chunks may have different numbers of rows. `b` and `weights`, where they are arguments, go
#' by the order of the rows in all chunks together. A function is read once, so `y` has to be given.
#'
#' Gaussian sums with `tol_type = "global"` use one grid for all chunks on the CPU, where a sample of the points (of a
#' function the first chunk) says that this is fastest. That takes time linear in `n + m` and the memory of the grid and
#' a chunk, and `tol` is the error of all chunks together. Every row is read once, but targets in a `big.matrix` in more
#' than 3 dimensions twice. Where the grid cannot keep the tolerance, tables are summed as below; what a function has
#' yielded is lost then, which is an error of class `flashkernel_error_unsupported`.
#'
#' Otherwise every chunk is summed with each piece of the targets, or of a function with all of them, whose sums are
#' then in memory meanwhile. The fast engine takes each of k chunks to `tol / k`, and those of a function, whose number
#' is not known, to `tol / 64`: `tol` holds then for 64 chunks of any kind, and for any number that are alike. Either
#' way the result is the same for any number of threads, and that of all points in one matrix but for rounding and
#' `tol`.
#'
#' @param x The `n` source points: a numeric matrix, a data frame of numeric columns, a `float32` matrix
#'   of the package float, a vector for one dimension, a `big.matrix`, or a function that yields chunks.
#' @param y The `m` target points, with the columns of `x`: any of these but a function. `x` itself
#'   where it is left out or `NULL`.
#' @param b Coefficients: a vector of length `n`, an `n` x `r` matrix or `big.matrix`. `NULL`: ones, or
#'   those that the chunks of `x` bring along.
#' @param bandwidth The length scale in units of the points: one for all columns, one for each, or a
#'   `d` x `d` **matrix of squares** \eqn{H} (for the Gaussian kernel: one kernel sd, `d` of them or
#'   the variance matrix). Matched by name where it and the columns have names.
#' @param kernel Which kernel, by its name in the table above, or with parameters of [kernel_spec()].
#' @param type `"sum"`, the sums; `"log"`, their logarithms; or `"score"`, the gradients of these.
#' @param tol Largest error of sums, relative to the largest of all targets' sums of absolute terms
#'   \eqn{\sum_i |w_i b_{ir}| k(r_{ji})}{sum_i |w_i b_ir| k(r_ji)}, or with `tol_type = "pointwise"` in `control`, to
#'   each target's own; 0: none but rounding. A `tol` that is given counts before that of `control`.
#' @param weights Non-negative weights of the source points, or `NULL`.
#' @param out Where the sums go: `NULL`, they are returned; an `m` x `r` `big.matrix` of type double or
#'   float, they are written there; or a function of `rows`, the numbers of some targets, and `values`,
#'   their sums (a vector or a matrix as `b` is), called for one range of targets after the other.
#' @param chunk_rows Rows of a `big.matrix` in memory at a time. `NULL`: as many as take 128 MB,
#'   or the bytes of the option `flashkernel.chunk_bytes`.
#' @param control Where and how: `NULL`, a [flash_control()], or a list of its settings, such as `engine`, `precision`
#'   and `tol_type`.
#' @returns A vector of length `m` where `b` is a vector or `NULL`, else an `m` x `r` matrix with
#'   the column names of `b`; with `type = "score"` an `m` x `d` matrix with the columns of `x`, in inverse units of
#'   them. [diagnostics()] of it tells what was computed where and how fast; with `out` that
#'   record itself is returned, invisibly.
#' @references Rasmussen, C. E. and Williams, C. K. I. (2006) *Gaussian Processes for Machine
#'   Learning*. MIT Press. Chapter 4 has the kernels.
#' @seealso [kernel_operator()] for many products of the same matrix.
#' @export
#' @examples
#' x <- as.matrix(iris[, 1:4])
#' sums <- kernel_sum(x, b = iris$Petal.Length, bandwidth = 0.5, kernel = "matern32")
#' head(sums)
#' diagnostics(sums)
#'
#' # sources in chunks of 50 rows
#' first <- 1
#' next_chunk <- function() {
#'   if (first > nrow(x)) return(NULL)
#'   rows <- first:(first + 49)
#'   first <<- first + 50
#'   list(x = x[rows, ], b = iris$Petal.Length[rows])
#' }
#' chunked <- kernel_sum(next_chunk, x, bandwidth = 0.5, kernel = "matern32")
#' all.equal(chunked, sums)
kernel_sum <- function(x, y = NULL, b = NULL, bandwidth, kernel = "gaussian", type = c("sum", "log", "score"),
                       weights = NULL, tol = 1e-6, out = NULL, chunk_rows = NULL, control = NULL) {
  if (missing(x)) stop_argument("x", "must be given")
  if (missing(bandwidth)) stop_argument("bandwidth", "must be given")
  kernel <- check_kernel(kernel)
  type <- check_choice(type, c("sum", "log", "score"), "type")
  asked <- settle_control(control, if (!missing(tol)) list(tol = check_tol(tol)), TOLERANT_DEFAULTS)
  if (type != "sum") {
    for (arg in c("b", "out", "chunk_rows")) {
      if (!is.null(get(arg))) stop_argument(arg, "must be NULL for type = \"", type, "\"")
    }
    if (kernel$name != "gaussian") {
      stop_argument("kernel", "must be \"gaussian\" for type = \"", type, "\": found ", quote_text(kernel$name))
    }
    run <- start_run(exactly(asked))
    return(log_or_score(x, y, bandwidth, weights, kernel, type, run))
  }
  run <- start_run(asked)
  given <- check_sums(x, y, b, bandwidth, weights, kernel)
  result <- sum_kernels(given$sources, given$at, given$b, run, out, chunk_rows)
  record <- sum_record(result, kernel, run)
  if (!is.null(out)) return(invisible(record))
  keep_record(result$sums, record)
}

log_or_score <- function(x, y, bandwidth, weights, kernel, type, run) {
  if (is.function(x)) stop_argument("x", "must not be a function for type = \"", type, "\"")
  if (is_elsewhere(y)) stop_argument("y", "must be in memory for type = \"", type, "\": found ", describe(y))
  given <- check_sums(x, y, NULL, bandwidth, weights)
  sources <- given$sources
  at <- given$at
  if (!is_elsewhere(x)) check_memory(8 * (2 * length(sources$points) + 3 * length(at)), "x")
  if (type == "log") {
    name_stage(run, "Summing kernels")
    found <- log_sum(sources, at, PLAIN_FACTOR, FALSE, run)
  } else {
    name_stage(run, "Computing scores")
    sources["weights"] <- list(common_scale(sources$weights))
    found <- score_sum(sources, at, PLAIN_FACTOR, FALSE, colnames(sources$points), run)
  }
  size <- list(n = nrow(sources$points), m = targets_count(sources, at), d = ncol(sources$points))
  record <- sum_record(c(list(stats = found$stats), size), kernel, run)
  keep_record(if (type == "log") found$log_abs else found$score, record)
}

# Sources, targets and coefficients as the user gave them, checked: list(sources, at, b).
check_sums <- function(x, y, b, bandwidth, weights, kernel = "gaussian") {
  once <- is.function(x)
  if (!once) x <- check_table(x, "x")
  if (once && is.null(y)) stop_argument("y", "must be given where `x` is a function")
  if (!is.null(y)) {
    y <- if (once) check_table(y, "y") else check_table(y, "y", ncol(x), colnames(x))
  }
  columns_of <- if (once) y else x
  n <- if (once) NA_real_ else nrow(x)
  weights <- check_weights(weights, if (once) length(weights) else n)
  if (!is.null(b)) b <- check_coefficients(b, n)
  L <- as_bandwidth(bandwidth, ncol(columns_of), names = colnames(columns_of))$L
  list(sources = sum_sources(x, weights, L, kernel), at = y, b = b)
}

# An n x r double matrix, a big.matrix, or a vector, which is not copied where it is plain; n is NA where it is not
# known.
check_coefficients <- function(b, n, arg = "b", of = "row of `x`") {
  if (is_float32(b)) b <- if (is.matrix(b@Data)) as_points(b, arg) else as.vector(as_points(b, arg))
  is_plain <- is.double(b) && is.null(attributes(b)) && length(b) > 0
  columns <- if (is_plain) b else if (is_big(b)) check_big(b, arg) else as_points(b, arg)
  if (is.null(dim(b))) columns <- as.vector(columns)
  if (!is.na(n) && NROW(columns) != n) {
    stop_argument(arg, "must have one row per ", of, ", ", whole(n), ": found ", whole(NROW(columns)))
  }
  if (NCOL(columns) == 0) stop_argument(arg, "must have at least one column: found none")
  if (!is_big(b)) check_finite(columns, arg)
  columns
}

sum_record <- function(result, kernel, control) {
  stats <- result$stats
  on_device <- stats$backend == "cuda"
  structure(
    class = "kernel_sum_diagnostics",
    list(
      kernel = kernel$name, parameters = kernel$parameters, n = result$n, m = result$m, d = result$d,
      backend = stats$backend, device = stats$device, engine = stats$engine, method = stats$method,
      precision = stats$precision, isa = stats$isa, threads = stats$threads, devices = stats$devices,
      reason = stats$reason, reason_engine = stats$reason_engine, pairs = stats$pairs,
      kept = kept_share(stats), seconds = stats$seconds,
      device_seconds = if (on_device) stats$device_seconds else NA_real_,
      pairs_per_second = if (stats$seconds > 0) stats$pairs / stats$seconds else NA_real_,
      tol = control$tol, tol_type = control$tol_type,
      tol_bound = if (stats$engine == "exact") NA_real_ else stats$tol_bound,
      tol_achieved = if (stats$engine == "exact") NA_real_ else stats$tol_achieved, workers = stats$workers,
      plan = stats$plan
    )
  )
}
