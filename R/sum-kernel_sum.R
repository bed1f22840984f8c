#' Sums of kernels
#'
#' `kernel_sum()` computes the sum of kernels over all source points, at every target point. This is the product of the
#' `m` x `n` kernel matrix and a vector or matrix `b`, and the kernel matrix is never stored. Points and results may be
#' larger than memory. For Gaussian kernels it also returns the logarithms of the sums, or their gradients.
#'
#' @section Kernels:
#' The result is \eqn{V_{jr} = \sum_i w_i k_{ji} b_{ir}}{V_jr = sum_i w_i k_ji b_ir}. Let \eqn{H = LL'}{H = L L'} be the
#' bandwidth matrix. Most kernels are functions of the scaled distance \eqn{r_{ji} = |u_{ji}|}{r_ji = |u_ji|}, where
#' \eqn{u_{ji} = L^{-1}(y_j - x_i)}{u_ji = L^-1 (y_j - x_i)}. They are not normalised: their value at distance 0 is 1.
#' The other kernels are functions of x'y, the inner product of the scaled points \eqn{L^{-1} x}{L^-1 x} and
#' \eqn{L^{-1} y}{L^-1 y}, which are the points themselves with `bandwidth = 1`. The table also has the names of the
#' kernels in other software.
#'
#' `r kernel_formulas()`
#'
#' Some kernels have parameters, with these defaults: `r kernel_parameters()`. [kernel_spec()] sets other values.
#'
#' @section Logarithms and scores:
#' With `type = "log"` the result is \eqn{\log \sum_i w_i k_{ji}}{log sum_i w_i k_ji}, which is correct even where the
#' sum underflows. With `type = "score"` it is the gradient of this logarithm with respect to \eqn{y_j}{y_j}, the
#' score of a kernel density estimate. Both need the Gaussian kernel and `b = NULL`. They sum every pair exactly,
#' whatever `tol` and the engine are.
#'
#' @section Points larger than memory:
#' `x`, `y` and `b` may be `big.matrix` objects of the package bigmemory. `chunk_rows` of their rows are in memory at
#' a time. `x` may also be a function without arguments. Each call returns the next chunk of sources, of any number of
#' rows: a matrix, a data frame, a vector for one dimension, or `list(x =, b =)` with the chunk's coefficients. After the
#' last chunk it returns `NULL`. The arguments `b` and `weights` follow the order of the rows in all chunks together. A
#' function is read only once, so `y` must be given.
#'
#' Gaussian sums on the CPU with `tol_type = "global"` use one grid for all chunks if that should be fastest, in time
#' linear in `n + m`. If the grid cannot keep the tolerance for the chunks of a function, which cannot be read again,
#' this is an error of class `flashkernel_error_unsupported`.
#'
#' Otherwise each chunk is summed at one block of targets after the other, and a function at all targets at once. The
#' fast engine sums each of k chunks to a tolerance of `tol / k`, and each chunk of a function to `tol / 64`: `tol` then
#' holds for up to 64 chunks.
#'
#' Points in single precision, `float32` matrices of the package float, take half the memory here. Other functions
#' copy them to double precision.
#'
#' @param x The `n` source points: a numeric matrix, a data frame of numeric columns, a `float32` matrix of the package
#'   float, a vector for one dimension, a `big.matrix`, or a function that returns chunks.
#' @param y The `m` target points, with the columns of `x`, of any of these types except a function. `NULL` (default):
#'   the targets are the source points.
#' @param b Coefficients: a vector of length `n`, or an `n` x `r` matrix or `big.matrix`. `NULL` (default): ones, or the
#'   coefficients in the chunks of `x`.
#' @param bandwidth The length scale, in units of the points: one number for all columns, one for each column, or a
#'   `d` x `d` **matrix of squares** \eqn{H}. For the Gaussian kernel these are standard deviations or the variance
#'   matrix. Names, if given, are matched to the columns.
#' @param kernel `"gaussian"` (default), another name in the table of [kernel_sum()], or the result of [kernel_spec()].
#' @param type `"sum"` (default), `"log"` for the logarithms of the sums, or `"score"` for the gradients of these.
#' @param tol Error tolerance of the sums, a number >= 0. With 0 only rounding remains. See
#'   [tolerance]. This argument overrides the `tol` of `control`.
#' @param weights Non-negative weights of the source points. `NULL` (default): equal weights of 1.
#' @param out Where to write the sums. `NULL` (default): they are returned. An `m` x `r` `big.matrix` of type double or
#'   float: they are written to it. A function of `rows` (numbers of some targets) and `values` (their sums, a vector
#'   or matrix like `b`): it is called for one range of targets after the other.
#' @param chunk_rows Rows of a `big.matrix` in memory at a time. `NULL` (default): as many as take 128 MB, or the bytes
#'   of the option `flashkernel.chunk_bytes`.
#' @param control A [flash_control()], or a list of some of its settings, such as `engine`, `precision` and `tol_type`.
#'   `NULL` (default): the defaults.
#' @returns A vector of length `m` if `b` is a vector or `NULL`. Otherwise an `m` x `r` matrix with the column names of
#'   `b`. With `type = "score"` an `m` x `d` matrix with the columns of `x`, in inverse units of these. [diagnostics()]
#'   of the result reports what was computed where and how fast. With `out`, this report is returned invisibly.
#' @references Rasmussen, C. E. and Williams, C. K. I. (2006) *Gaussian Processes for Machine
#'   Learning*. MIT Press. Chapter 4 describes the kernels.
#' @seealso [tolerance] for engines and error bounds; [kernel_operator()] for many products with the same matrix.
#' @rawRd \concept{kernel matrix times vector}\concept{matrix-free}
#' @export
#' @examples
#' # the sum of Gaussian kernels at every point: how many other points are near?
#' near <- kernel_sum(faithful, bandwidth = c(0.3, 5))
#' plot(faithful, cex = near / max(near))
#' diagnostics(near)
#'
#' x <- as.matrix(iris[, 1:4])
#' sums <- kernel_sum(x, b = iris$Petal.Length, bandwidth = 0.5, kernel = "matern32")
#' head(sums)
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

# Checks the user's sources, targets and coefficients and returns list(sources, at, b).
check_sums <- function(x, y, b, bandwidth, weights, kernel = "gaussian") {
  once <- is.function(x)
  if (!once) x <- check_table(x, "x")
  if (once && is.null(y)) stop_argument("y", "must be given if `x` is a function")
  if (!is.null(y)) y <- if (once) check_table(y, "y") else check_table(y, "y", ncol(x), colnames(x))
  columns_of <- if (once) y else x
  n <- if (once) NA_real_ else nrow(x)
  weights <- check_weights(weights, if (once) length(weights) else n)
  if (!is.null(b)) b <- check_coefficients(b, n)
  L <- as_bandwidth(bandwidth, ncol(columns_of), names = colnames(columns_of))$L
  list(sources = sum_sources(x, weights, L, kernel), at = y, b = b)
}

# Returns coefficients as an n x r double matrix, a big.matrix, or a vector, which is not copied if it has no
# attributes. `n` is NA if it is not known.
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
