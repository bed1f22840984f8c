#' What was computed, where, and how fast
#'
#' @details
#' **Stages**: for every stage of the fit that ran (`bandwidth` and `score_bandwidth`: the
#' selectors; `debias`: the score at all points) the pairs of points visited, the seconds, those of them
#' in which a GPU computed, and the rate. Rules of thumb visit no pairs: `NA`. The estimators `"kde"`
#' and `"laplace"` compute nothing at the fit but an automatic bandwidth; their sums run in
#' [predict()][predict.flash_kde].
#'
#' **Effective sample size**: \eqn{(\sum w)^2 / \sum w^2}{(sum w)^2 / sum w^2}, `n` with equal
#' weights.
#'
#' **Negative mass** (`"laplace"`, `"laplace6"`): \eqn{\int \max(-p(y), 0)\,dy}{the integral of max(-p(y), 0)},
#' computed when `diagnostics()` is called, or by the fit where `nonnegative`: on a grid up to 8 kernel standard
#' deviations around the data (`d` of 1 or 2, up to 65,536 points), otherwise, or where such a grid would be coarser
#' than half a kernel standard deviation, by importance sampling from a mixture of two KDEs, with
#' `H` and with a wider kernel (up to 16,384 draws, with a standard error; reproducible, and
#' without effect on R's random numbers). The estimate's positive part then has mass 1 + this
#' value. Grids of more than 1e8 pairs go by the fast engine where that is quicker, to 1e-6 of the largest density.
#'
#' @param object A fit from [flash_kde()] or [kernel_ridge()], or sums from [kernel_sum()].
#' @param x The result of `diagnostics()`.
#' @param digits Number of significant digits.
#' @param ... Not used; anything here is an error.
#' @returns A list of class `flash_kde_diagnostics`: `estimator`, `n`, `d`; `backend`, `device`,
#'   `engine`, `precision`, `isa`, `threads`, `devices` (numbers of the GPUs, none on the CPU) and
#'   `reason` (why this back end) and `reason_engine` (why this engine, and which of its methods) of the stage `debias`, or
#'   without one, what predictions at as many points will run on (`requested` holds what was asked for); `stages`, a data
#'   frame with the columns `stage`, `pairs`, `seconds`, `kept` (the share of the pairs that was computed, as others
#'   were known not to change the last bit of any sum), `device_seconds` (`NA` on the CPU),
#'   `pairs_per_second` and `tail_rows`;
#'   `effective_size`; `tail_rows`, the number of rows whose sum had underflowed and was done again
#'   with its own scale (`NA` where nothing was summed); and for
#'   `"laplace"` `negative_mass`, a list of `value`, `method` (`"grid"` or `"sampling"`), `se`, and `square`, the
#'   integral of the square of the negative part; for a fit
#'   with `tol > 0` `tolerance`, a list of `tol`, `tol_type`, `bound` and `achieved` (what is proven of the error of a prediction
#'   at a sample of up to 4,096 of the points, and the largest against exact sums at some of these) and the `engine`
#'   of that prediction. Of points in a [flash_data()] `workers`, a data frame of what each worker did, and `plan`, how
#'   shards have met, and why.
#'
#'   Sums are plain numbers, which carry nothing: `diagnostics()` knows the last 1,000 results of a session by
#'   their values. For sums a list of class `kernel_sum_diagnostics`: `kernel`, `n`, `m`, `d`; `backend` to `reason_engine`
#'   as above, `workers` and `plan`, and `method`, how the engine forms distances; `pairs`, `kept`, `seconds`, `device_seconds`,
#'   `pairs_per_second`; `tol` and `tol_type` as asked for; `tol_bound`, what the error of the fast engine is
#'   proven to be at most, at every target, and `tol_achieved`, the largest on a sample of them, both relative as
#'   `tol_type` says (`NA` of an exact one). Of sums in chunks both are the sums of the chunks' errors, or to a pointwise
#'   tolerance the largest.
#'   For a fit from [kernel_ridge()] a list of class `ridge_diagnostics`: `n`, `d`, `m` (centres), `outputs`, `backend` to
#'   `devices` as above, `iterations`, `converged`, `seconds` by stages, and `workers`, for a fit on a cluster what each
#'   worker did (requests, rows, seconds, bytes sent and received), else `NULL`.
#' @export
#' @examples
#' diagnostics(flash_kde(faithful))
#' diagnostics(flash_kde(faithful, "laplace"))$negative_mass
diagnostics <- function(object, ...) UseMethod("diagnostics")

#' @export
diagnostics.default <- function(object, ...) {
  check_dots_empty(...)
  record <- if (inherits(object, "kernel_sum_diagnostics")) object else find_record(object)
  if (is.null(record)) {
    stop_argument(
      "object", "must be a fit from flash_kde(), or sums as kernel_sum() returned them in this session: found ",
      describe(object)
    )
  }
  record
}

#' @rdname diagnostics
#' @export
diagnostics.flash_kde <- function(object, ...) {
  check_dots_empty(...)
  record <- fit_record(object)
  if (is_signed(object) && !is_elsewhere(object$x)) {
    record$negative_mass <- if (is_clipped(object)) object$nonnegative else negative_mass(object)
  }
  if (isTRUE(object$tol > 0)) record$tolerance <- tolerance_record(object)
  record
}

#' @rdname diagnostics
#' @export
print.flash_kde_diagnostics <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  digits <- check_digits(digits)
  print_where(x)
  print_workers(x$workers)
  if (nrow(x$stages) > 0) print(shown_stages(x$stages), digits = digits, row.names = FALSE)
  size <- format(x$effective_size, digits = digits, scientific = FALSE, big.mark = ",")
  cat("Effective sample size: ", size, " of ", whole(x$n), "\n", sep = "")
  if (!is.null(x$tolerance)) print_tolerance(x$tolerance$achieved, x$tolerance$bound, x$tolerance)
  mass <- x$negative_mass
  if (!is.null(mass)) {
    error <- if (!is.na(mass$se)) paste0(", standard error ", format(mass$se, digits = 2))
    value <- format(mass$value, digits = digits)
    cat("Negative mass: ", value, " (by ", mass$method, error, ")\n", sep = "")
  }
  invisible(x)
}

#' @export
print.kernel_sum_diagnostics <- function(x, ...) {
  seconds <- format(x$seconds, digits = 2)
  kept <- if (isTRUE(x$kept < 1)) paste0(", of which ", format(x$kept, digits = 2), " kept,")
  cat("Computed: ", kernel_label(x$kernel, x$parameters), ", ", whole(x$n), " x ", whole(x$m), " pairs in ", x$d,
    ngettext(x$d, " dimension", " dimensions"), kept, " in ", seconds, " s", device_share(x), " on ",
    where_label(x), "\n", sep = "")
  print_why(x)
  print_workers(x$workers)
  if (!is.na(x$tol_achieved)) print_tolerance(x$tol_achieved, x$tol_bound, x)
  invisible(x)
}

print_tolerance <- function(achieved, bound, asked) {
  type <- if (asked$tol > 0) asked$tol_type else "pointwise"
  cat("Error (", type, "): at most ", format(bound, digits = 2), ", ", format(achieved, digits = 2),
    " on a sample; ", if (asked$tol > 0) paste("allowed", asked$tol) else "as exact as doubles", "\n", sep = "")
}

# What a prediction to the tolerance of the fit achieves, at some of its points.
tolerance_record <- function(object) {
  control <- start_run(fit_asked(object))
  points <- if (is.null(object$discrete)) shown_points(object) else own_places(object)
  rows <- spread_rows(nrow(points), 4096)
  stats <- log_estimate(object, points[rows, , drop = FALSE], FALSE, control)$stats
  of_fast <- \(error) if (stats$engine == "exact") 0 else error
  list(
    tol = object$tol, tol_type = object$tol_type, bound = of_fast(stats$tol_bound),
    achieved = of_fast(stats$tol_achieved), engine = stats$engine
  )
}

# The part that is known when the fit ends, from what the fit keeps of it: `stages`, the stats of each, and `resolved`,
# what a sum would run on. Fits of earlier versions keep the record itself.
fit_record <- function(object) {
  if (is.null(object$computed)) return(object$diagnostics)
  stages <- object$computed$stages
  field <- function(name, missing) {
    vapply(stages, \(stage) if (is.null(stage[[name]])) missing else stage[[name]], missing, USE.NAMES = FALSE)
  }
  pairs <- field("pairs", NA_real_)
  seconds <- field("seconds", NA_real_)
  tail_rows <- field("tail_rows", NA_real_)
  on_device <- field("backend", "") == "cuda"
  # not of a search for a bandwidth or for widths, whose sums are others than the estimate's
  estimate <- if (is.null(stages$debias)) object$computed$resolved else stages$debias
  structure(
    class = "flash_kde_diagnostics",
    list(
      estimator = object$estimator, n = object$n, d = object$d,
      requested = list(
        backend = object$backend, precision = object$precision, threads = object$threads,
        devices = object$devices, engine = object$engine
      ),
      backend = estimate$backend, device = estimate$device, engine = estimate$engine,
      precision = estimate$precision, isa = estimate$isa, threads = estimate$threads, devices = estimate$devices,
      reason = estimate$reason, reason_engine = estimate$reason_engine,
      stages = list2DF(list(
        stage = as.character(names(stages)), pairs = pairs, seconds = seconds,
        kept = ifelse(is.na(pairs), NA_real_, vapply(stages, kept_share, 0, USE.NAMES = FALSE)),
        device_seconds = ifelse(on_device, field("device_seconds", NA_real_), NA_real_),
        # a stage faster than the clock has no rate
        pairs_per_second = ifelse(seconds > 0, pairs / seconds, NA_real_),
        tail_rows = tail_rows
      )),
      workers = estimate$workers, plan = estimate$plan, effective_size = fit_size(object),
      tail_rows = if (all(is.na(tail_rows))) NA_real_ else sum(tail_rows, na.rm = TRUE)
    )
  )
}

# Seconds of a device are of interest where there were any, and the share of the pairs where some were left out.
shown_stages <- function(stages) {
  if (all(is.na(stages$device_seconds))) stages$device_seconds <- NULL
  if (all(is.na(stages$kept) | stages$kept == 1)) stages$kept <- NULL
  stages
}

# One line: what was computed where; the next ones say why there, on a GPU, and why by this engine.
print_where <- function(record) {
  stages <- record$stages
  done <- if (nrow(stages) > 0) {
    seconds <- format(sum(stages$seconds, na.rm = TRUE), digits = 2)
    paste0(paste(stages$stage, collapse = ", "), " in ", seconds, " s", device_share(stages), "; ")
  }
  when <- if (all(is.na(stages$pairs))) "no sums yet, predict() will run them on " else "sums on "
  cat("Computed: ", done, when, where_label(record), "\n", sep = "")
  print_why(record)
}

# Fits of earlier versions do not know why by this engine.
print_why <- function(record) {
  if (record$backend == "cuda") cat("Back end: ", record$backend, ", ", record$reason, "\n", sep = "")
  why <- record$reason_engine
  if (!is.null(why) && nzchar(why)) cat("Engine: ", record$engine, ", ", why, "\n", sep = "")
  if (!is.null(record$plan)) cat("Shards: ", record$plan, "\n", sep = "")
}

# Of a cluster, where there was one.
print_workers <- function(workers) {
  if (is.null(workers)) return(invisible())
  lost <- sum(workers$lost)
  cat("Workers: ", nrow(workers), " on ", length(unique(workers$host)), ngettext(length(unique(workers$host)), " host", " hosts"),
    if (!is.null(workers$below)) paste0(" with ", sum(workers$below), " of their own"), ", ", format_bytes(sum(workers$bytes)), " sent and received", if (lost > 0) paste0(", ", lost, " lost"), "\n", sep = "")
}
