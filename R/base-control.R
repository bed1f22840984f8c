# Controls: where and how computations run, from the user's arguments to the list that C takes.

#' How computations run
#'
#' Makes the argument `control` of all functions that compute sums: where they run, how exact they are, and how much
#' memory they may take. A list of these settings can be given instead of a `flash_control()`.
#'
#' @details A setting that is `NULL` takes the default of the function that is called (`tol` is 0 in [flash_kde()] and
#'   1e-6 in [kernel_sum()]). In methods of a fit it takes the value with which the fit was made. An argument `tol` of
#'   a function takes precedence over `control`. A fit stores its control. Some settings have no effect in some
#'   functions: logarithms and scores of [kernel_sum()] are exact whatever `engine` and `tol` are, and the searches of
#'   [kde_bandwidth()] use a pointwise tolerance.
#'
#' @seealso [tolerance], [gpus], [clusters], [large_data]; [diagnostics()] reports what was computed where.
#' @rawRd \concept{number of threads}\concept{cores}\concept{memory limit}
#' @param backend Where sums are computed: `"auto"` (default), `"cpu"` or `"cuda"` (an NVIDIA GPU; see [gpu_info()]).
#'   `"auto"` takes the one that should finish first, including transfers and, at first use, the start of CUDA; without
#'   a usable GPU it takes the CPU. Name `backend` and `precision` if results must always be the same. A backend that is
#'   named but not available is an error.
#' @param precision Floating-point precision: `"double"`, `"single"`, `"fast"` or `"auto"` (default: `"double"` on the
#'   CPU, `"single"` on a GPU). See [tolerance].
#' @param threads Number of CPU threads. The default is `getOption("flashkernel.threads")`, else the environment
#'   variable `FLASHKERNEL_THREADS`, else as many as the machine, `OMP_NUM_THREADS` and `OMP_THREAD_LIMIT` allow. Small
#'   computations use fewer. The number does not change a bit of the result.
#' @param devices GPUs to use: their numbers, counted from 0 as in `nvidia-smi`, or `"all"`. The default is
#'   `getOption("flashkernel.devices")`, else the first. No effect on the CPU.
#' @param engine Algorithm of sums: `"auto"` (default), `"exact"` or `"fast"`. `"auto"` takes the one that
#'   should finish first. `"fast"` needs `tol > 0` and at most 7 dimensions. See [tolerance].
#' @param tol,tol_type Error tolerance of sums, a number from 0 to below 1, and `"global"` (default) or `"pointwise"`.
#'   See [tolerance].
#' @param memory_limit Bytes of memory that a call may need. A call that needs more is an error before anything is
#'   computed. The default is `getOption("flashkernel.memory_limit")`, else the memory that is available on the machine.
#' @param chunk_bytes Bytes of a `big.matrix` that are in memory at a time. The default is
#'   `getOption("flashkernel.chunk_bytes")`, else 128 MB.
#' @param device_memory Bytes of a GPU's memory for points that are cached between calls. Default: half of its memory.
#' @param host_memory Bytes of the machine's memory for what the CPU engines cache between calls: packed points, trees
#'   and grids. Default: 1 GiB.
#' @param gpu_memory_limit Bytes of each GPU that this process may use, beside about 1 GB of the driver and NVIDIA's
#'   libraries. Default: the free memory less a tenth. `memory_peak` of [gpu_info()] reports the use.
#' @param cluster A cluster whose workers compute: one of [parallel::makeCluster()] (sockets, forks or MPI), `"future"`
#'   for the plan of package future, or `list(masters, make)`. Sums of a [flash_data()] always run on the cluster of the data. See
#'   [clusters].
#' @param worker_timeout Seconds without a message after which a worker counts as lost. A worker that computes sends a
#'   message every second, but not while your own `reader` runs. Default: 300.
#' @returns A list of class `flash_control` with these elements, `NULL` where nothing was given.
#' @export
#' @examples
#' settings <- flash_control(precision = "single", threads = 2)
#' settings
#' fit <- flash_kde(faithful, bandwidth = c(0.3, 4), control = settings)
#' # change one setting for a call
#' predict(fit, faithful[1:3, ], control = list(threads = 1))
flash_control <- function(backend = NULL, precision = NULL, threads = NULL, devices = NULL, engine = NULL, tol = NULL,
                          tol_type = NULL, memory_limit = NULL, chunk_bytes = NULL, device_memory = NULL,
                          host_memory = NULL, gpu_memory_limit = NULL, cluster = NULL, worker_timeout = NULL) {
  control <- mget(names(CONTROL_DEFAULTS))
  for (name in names(control)) if (!is.null(control[[name]])) control[[name]] <- check_setting(name, control[[name]])
  class(control) <- "flash_control"
  control
}

#' @rdname flash_control
#' @param x A control.
#' @param ... Not used.
#' @export
print.flash_control <- function(x, ...) {
  said <- names(x)[!vapply(x, is.null, NA)]
  values <- vapply(said, \(name) setting_label(name, x[[name]]), "")
  cat("Control of computations:", if (length(said) == 0) " all by default", "\n", sep = "")
  cat(sprintf("  %-15s %s\n", paste0(said, ":"), values), sep = "")
  invisible(x)
}

setting_label <- function(name, value) {
  if (name == "cluster") return(if (is.character(value)) "the plan of future" else paste(length(value), "workers"))
  if (grepl("memory|bytes", name)) return(format_bytes(value))
  paste(if (is.character(value)) quote_text(value) else format(value), collapse = ", ")
}

# ---- from the user's settings to the list for C --------------------------------------------------

# Values of settings that the user leaves at NULL.
CONTROL_DEFAULTS <- list(
  backend = "auto", precision = "auto", threads = NULL, devices = NULL, engine = "auto", tol = 0,
  tol_type = "global", memory_limit = NULL, chunk_bytes = NULL, device_memory = NULL,
  host_memory = NULL, gpu_memory_limit = NULL, cluster = NULL, worker_timeout = NULL
)

# Defaults of functions that use a tolerance unless the user gives tol = 0.
TOLERANT_DEFAULTS <- replace(CONTROL_DEFAULTS, "tol", 1e-6)

CONTROL_CHOICES <- list(
  backend = c("auto", "cpu", "cuda"), precision = c("auto", "double", "single", "fast"),
  engine = c("auto", "exact", "fast"), tol_type = c("global", "pointwise")
)

# A list of all settings: from `given` (arguments of the caller), else from `control`, else from `defaults`.
# run_control() checks their values.
settle_control <- function(control, given = NULL, defaults = CONTROL_DEFAULTS) {
  if (is.null(control) && all(lengths(given) == 0)) return(defaults)
  settings <- c(if (!is.null(control)) unclass(as_control(control)), given)
  said <- lengths(settings) > 0
  if (!any(said)) return(defaults)
  said <- said & names(settings) %in% names(defaults)
  defaults[names(settings)[said]] <- settings[said]
  defaults
}

# The settings with every pair summed.
exactly <- function(asked) replace(asked, c("engine", "tol"), list("exact", 0))

# A flash_control(), or a list of its settings.
as_control <- function(control) {
  if (inherits(control, "flash_control")) return(control)
  good <- is.list(control) && !is.object(control) && (length(control) == 0 || has_names(names(control)))
  check_is(good, control, "control", "NULL, from flash_control() or a list of its settings")
  unknown <- setdiff(names(control), names(CONTROL_DEFAULTS))
  if (length(unknown) > 0) stop_argument("control", "must be settings of flash_control(): found ", quote_names(unknown))
  do.call(flash_control, control, quote = TRUE)
}

# The list for C, made of the settings `asked`. C reads its elements by name and ignores the element `asked`.
run_control <- function(asked) {
  # most calls have the settings of the call before, and their checks take longer than a small sum
  said <- list(asked, getOption("flashkernel.threads"), getOption("flashkernel.devices"), session$method)
  if (!identical(said, session$said)) {
    session$run <- checked_run(asked)
    session$said <- said
  }
  run <- session$run
  wanted <- getOption("flashkernel.progress")
  if (isFALSE(wanted) || isFALSE(session$watched) && !isTRUE(wanted)) return(run)
  progress <- progress_closure()
  if (!is.null(progress)) run$progress <- progress
  run
}

checked_run <- function(asked) {
  asked <- check_asked(asked)
  asked$method <- session$method # set by tests only
  of_c <- list(threads = check_threads(asked$threads), devices = check_devices(asked$devices))
  c(replace(asked, names(of_c), of_c), list(asked = asked))
}

check_asked <- function(asked) {
  for (name in names(CONTROL_CHOICES)) asked[[name]] <- check_setting(name, asked[[name]])
  asked$tol <- check_tol(asked$tol, asked$engine)
  # single precision cannot meet such a tolerance
  if (asked$precision == "auto" && asked$tol > 0 && asked$tol < 1e-5) asked$precision <- "double"
  asked
}

# run_control() for the function that calls this. `stage` is the label of its progress bar. When `frame` ends, also by
# an error, the bar is closed and the options are restored.
start_run <- function(asked, stage = "Computing", frame = parent.frame()) {
  if (!is.null(asked$memory_limit) || !is.null(asked$chunk_bytes)) hold_limits(asked, frame)
  run <- run_control(asked)
  if (!is.null(run$progress)) {
    name_stage(run, stage)
    at_end(\() close_progress(run), frame)
  }
  run
}

# Sets the options that checks of memory read, as some of them get no control. They are restored when `frame` ends.
hold_limits <- function(asked, frame = parent.frame()) {
  limits <- list(flashkernel.memory_limit = asked$memory_limit, flashkernel.chunk_bytes = asked$chunk_bytes)
  before <- options(limits[lengths(limits) > 0])
  if (length(before) > 0) at_end(\() options(before), frame)
}

at_end <- function(action, frame) do.call(on.exit, list(as.call(list(action)), add = TRUE), envir = frame)

# ---- checks -----------------------------------------------------------------------------------

# One setting, checked, as a control stores it.
check_setting <- function(name, value) {
  switch(name,
    threads = if (check_threads(value) > 0) value, # unconverted
    devices = if (length(check_devices(value)) > 0) value,
    tol = check_tol(value),
    memory_limit = , gpu_memory_limit = check_bytes(value, name),
    chunk_bytes = check_bytes(value, name, min = 8),
    device_memory = , host_memory = check_bytes(value, name, min = 0),
    cluster = check_cluster(value),
    worker_timeout = check_seconds(value, name),
    check_choice(value, CONTROL_CHOICES[[name]], name)
  )
}

check_tol <- function(tol, engine = "auto") {
  tol <- check_number(tol, "tol", "one number from 0 to below 1", \(x) x >= 0 && x < 1)
  if (engine == "fast" && tol == 0) stop_argument("tol", "must be positive for the fast engine: found 0")
  tol
}

check_seconds <- function(seconds, arg) check_number(seconds, arg, "one positive number of seconds", \(x) x > 0)

check_bytes <- function(bytes, arg, min = 1) {
  check_number(bytes, arg, "one number of bytes", \(x) is.finite(x) && x >= min)
}

# 0 lets C decide: OMP_THREAD_LIMIT, the number of cores, one in a forked child.
check_threads <- function(threads) {
  if (is.null(threads)) threads <- getOption("flashkernel.threads")
  if (is.null(threads)) return(0L)
  check_count(threads, "threads", max = 4096)
}

# CUDA devices as integers for C. None means the first, -1 all. C finds out whether they exist when it uses one.
check_devices <- function(devices) {
  if (is.null(devices)) devices <- getOption("flashkernel.devices")
  if (is.null(devices)) return(integer())
  if (identical(devices, "all")) return(-1L)
  refuse <- \(...) stop_argument("devices", "must ", ...)
  good <- is_number(devices) && length(devices) > 0 && all(is.finite(devices)) &&
    all(devices >= 0 & devices == round(devices) & devices <= .Machine$integer.max)
  if (!good) refuse("be \"all\" or device numbers, whole and counted from 0: found ", describe(devices))
  if (length(devices) > 16) refuse("be at most 16 numbers: found ", length(devices))
  if (anyDuplicated(devices)) refuse("have each device once: found ", devices[anyDuplicated(devices)], " twice")
  as.integer(devices)
}
