#' How a result was computed: time, engine, accuracy
#'
#' `diagnostics()` reports how a fit or a sum was computed: back end, engine, time, and the accuracy reached with a
#' tolerance. For Laplace-corrected fits it also computes the negative mass.
#'
#' @details
#' **Stages**: for each stage of the fit that ran (`bandwidth` and `score_bandwidth`: bandwidth selection; `debias`: the
#' score at all points) the table has the number of pairs visited, the seconds, the seconds of GPU time, and the pairs
#' per second. A rule of thumb visits no pairs: `NA`. Fits with `"kde"` and `"laplace"` compute only an automatic
#' bandwidth; their sums run in [predict()][predict.flash_kde].
#'
#' **Effective sample size**: \eqn{(\sum w)^2 / \sum w^2}{(sum w)^2 / sum w^2}, which is `n` for equal weights.
#'
#' **Negative mass** (`"laplace"`, `"laplace6"`): \eqn{\int \max(-p(y), 0)\,dy}{the integral of max(-p(y), 0)}. It is
#' computed when `diagnostics()` is called, or by the fit if `nonnegative`. The positive part of the estimate has mass
#' 1 + this value. For `d` of 1 or 2 it uses a grid of up to 65,536 points. If such a grid would be coarser than half a kernel standard
#' deviation, or for larger `d`, it uses importance sampling with up to 16,384 draws, and reports a standard error. The draws are
#' reproducible and do not affect R's random numbers.
#'
#' @param object A fit from [flash_kde()] or [kernel_ridge()], or sums from [kernel_sum()].
#' @param x The result of `diagnostics()`.
#' @param digits Number of significant digits.
#' @param ... Not used; anything here is an error.
#' @returns For [flash_kde()] a list of class `flash_kde_diagnostics`:
#'   * `estimator`, `n`, `d`, `effective_size`;
#'   * `backend`, `device`, `engine`, `precision`, `isa` (instruction set), `threads`, `devices` (numbers of the GPUs),
#'     `reason` (for the back end) and `reason_engine` (for the engine and its method): of the stage `debias`, otherwise
#'     what a prediction at as many points will use. `requested` has what the user asked for;
#'   * `stages`: a data frame of `stage`, `pairs`, `seconds`, `kept` (share of the pairs that was computed; the others
#'     were known not to change the last bit of any sum), `device_seconds` (`NA` on the CPU), `pairs_per_second` and
#'     `tail_rows`;
#'   * `tail_rows`: number of rows whose sum underflowed and was recomputed with a scale of its own (`NA` without sums);
#'   * `negative_mass`, for `"laplace"`: a list of `value`, `method` (`"grid"` or `"sampling"`), `se`, and `square`, the
#'     integral of the squared negative part;
#'   * `tolerance`, for a fit with `tol > 0`: a list of `tol`, `tol_type`, `engine`, `bound` (a proven bound on the
#'     error of a prediction at a sample of up to 4,096 of the points) and `achieved` (the largest difference from
#'     exact sums at some of these points);
#'   * `workers`, `plan`, for a [flash_data()]: a data frame of what each worker did, and how shards were paired, and
#'     why.
#'
#'   For sums a list of class `kernel_sum_diagnostics`: `kernel`, `n`, `m`, `d`; `backend` to `reason_engine`,
#'   `workers` and `plan` as above; `method`, how the engine forms distances; `pairs`, `kept`, `seconds`,
#'   `device_seconds`, `pairs_per_second`; `tol` and `tol_type` as requested; `tol_bound`, a proven bound on the error
#'   at every target, and `tol_achieved`, the largest error on a sample of targets, both relative to what `tol_type`
#'   says (`NA` for exact sums). For sums in chunks both are added over the chunks; with a pointwise tolerance they
#'   are the largest. Sums are plain numbers without attributes, so `diagnostics()` recognises the last 1,000 results
#'   of a session by their values.
#'
#'   For [kernel_ridge()] a list of class `ridge_diagnostics`: `n`, `d`, `m` (centres), `outputs`, `backend` to
#'   `devices` as above, `iterations`, `converged`, `seconds` by stage, and `workers`: for a fit on a cluster the
#'   requests, rows, seconds and bytes of each worker, otherwise `NULL`.
#' @rawRd \concept{error bound}\concept{timing}\concept{which device}
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
    " on a sample; ", if (asked$tol > 0) paste("allowed", asked$tol) else "exact to double precision", "\n", sep = "")
}

# The accuracy of a prediction with the tolerance of the fit, at a sample of its points.
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

# The record that is known when the fit ends. `stages`: the statistics of each stage; `resolved`: the back end and
# engine that a sum would use. Fits of earlier versions store the record itself.
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
  # tail rows of a bandwidth search are rows of other sums than the estimate's
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
        # a stage that took less than a clock tick has no rate
        pairs_per_second = ifelse(seconds > 0, pairs / seconds, NA_real_),
        tail_rows = tail_rows
      )),
      workers = estimate$workers, plan = estimate$plan, effective_size = fit_size(object),
      tail_rows = if (all(is.na(tail_rows))) NA_real_ else sum(tail_rows, na.rm = TRUE)
    )
  )
}

# Omits device seconds if no GPU was used, and the share of pairs if all were computed.
shown_stages <- function(stages) {
  if (all(is.na(stages$device_seconds))) stages$device_seconds <- NULL
  if (all(is.na(stages$kept) | stages$kept == 1)) stages$kept <- NULL
  stages
}

# One line on what was computed where; print_why() gives the reasons.
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

# Fits of earlier versions have no reason for the engine.
print_why <- function(record) {
  if (record$backend == "cuda") cat("Back end: ", record$backend, ", ", record$reason, "\n", sep = "")
  why <- record$reason_engine
  if (!is.null(why) && nzchar(why)) cat("Engine: ", record$engine, ", ", why, "\n", sep = "")
  if (!is.null(record$plan)) cat("Shards: ", record$plan, "\n", sep = "")
}

# One line on the workers of a cluster.
print_workers <- function(workers) {
  if (is.null(workers)) return(invisible())
  lost <- sum(workers$lost)
  cat("Workers: ", nrow(workers), " on ", length(unique(workers$host)), ngettext(length(unique(workers$host)), " host", " hosts"),
    if (!is.null(workers$below)) paste0(" with ", sum(workers$below), " workers of their own"), ", ", format_bytes(sum(workers$bytes)), " sent and received", if (lost > 0) paste0(", ", lost, " lost"), "\n", sep = "")
}
