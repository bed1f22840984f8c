# Controls: where and how computations run, from what the user asks for to the list that C takes.

#' How computations run
#'
#' The argument `control` of all functions that compute sums: where and how these are computed, how exact they are, and
#' how much memory they may take. A list of these settings will do in place of a `flash_control()`.
#'
#' @details What a control does not set (`NULL`) is left to the function that takes it: its own defaults (`tol` is 0 in
#'   [flash_kde()] and 1e-6 in [kernel_sum()]), or, for methods of a fit, what the fit was made with. An argument `tol`
#'   of that function takes precedence. A fit keeps its control. Settings that mean nothing to a function have no effect
#'   there: logarithms and scores of [kernel_sum()] are exact whatever `engine` and `tol` are, and the searches of
#'   [kde_bandwidth()] use a pointwise tolerance.
#'
#' @param backend Where sums are computed: `"auto"`, `"cpu"` or `"cuda"` (an NVIDIA GPU; see [gpu_info()]). `"auto"`
#'   chooses by the expected time, which includes the transfer of the points and the start of CUDA, so small jobs stay
#'   on the CPU; without a usable GPU all do. Name `backend` and `precision` where results must be the same on every
#'   machine. `"cpu"` and `"cuda"` are an error where they are not available.
#' @param precision `"double"` (relative error of log densities near 1e-12), `"single"` (densities to a relative error
#'   of 1e-5 in the L2 norm, of up to 3e-5 where points lie more than some 30 bandwidths from their centre or in
#'   hundreds of dimensions; log densities to an absolute error of 1e-4, on a GPU of 2e-4 at points that few others are
#'   near to, and in far tails to a relative one of 1e-5), `"fast"` (densities to 2e-3 in the L2 norm, by the tensor
#'   cores of a GPU; the same as `"single"` on the CPU) or `"auto"`: `"double"` on the CPU, `"single"` on the GPU.
#' @param threads Number of CPU threads. `NULL`: `getOption("flashkernel.threads")`, else the environment variable
#'   `FLASHKERNEL_THREADS`, else as many as the machine, `OMP_NUM_THREADS` and `OMP_THREAD_LIMIT` allow. Small work
#'   takes fewer. Results have the same bits for any number. Threads sleep between computations and take small pieces of
#'   work, so that other programs on the machine slow a computation by the time that they use, and no more.
#' @param devices GPUs to use: their numbers, counted from 0 as `nvidia-smi` does, or `"all"`. `NULL`:
#'   `getOption("flashkernel.devices")`, else the first. Without effect on the CPU.
#' @param engine `"auto"`, `"exact"` or `"fast"`, as for [kernel_sum()]. `"auto"` takes the one that should finish
#'   first, also without a tolerance: then the fast one has to prove an error of at most 1e-12 at every point, and sums
#'   directly where it does not. `"exact"` sums every pair that can reach a sum's last bit, whatever `tol` is. `"fast"`
#'   needs `tol > 0`, and is an error of class `flashkernel_error_unsupported` in more than 7 dimensions. Sums that are
#'   always exact stay so.
#' @param tol,tol_type Error tolerance of sums, a number >= 0. With 0, the default, each sum is within 1e-12 of itself
#'   (of the plain estimate, for the Laplace-corrected one), scores of the plain estimate and the debiasing within 2e-12
#'   of a bandwidth. With `tol > 0`, in up to 7 dimensions, `"auto"` engines take linear time where that is faster, and
#'   a density is within `tol` times the largest one of all targets (`tol_type = "global"`) or within `tol` times itself
#'   (`"pointwise"`; for the Laplace-corrected estimate times the plain one), so that log densities in the tails hold,
#'   too. That is proven for every point ([kernel_sum()] says how). With a global tolerance, log densities and scores
#'   are computed directly where the density might be off by more than a hundredth of itself. [diagnostics()] reports
#'   the bound, and the error on a sample of rows.
#' @param memory_limit Bytes of memory that a call may need; more is an error, before anything is computed. `NULL`:
#'   `getOption("flashkernel.memory_limit")`, else what the machine has available.
#' @param chunk_bytes Bytes of the points of a `big.matrix` that are in memory at a time. `NULL`:
#'   `getOption("flashkernel.chunk_bytes")`, else 128 MB.
#' @param device_memory Bytes of a GPU's memory that points may occupy between calls. `NULL`: half of what the GPU has.
#' @param host_memory Bytes of the machine's memory that what the CPU prepares of points (as its engines read them,
#'   trees and grids) may occupy between calls. `NULL`: 1 GiB.
#' @param gpu_memory_limit Bytes of each GPU that this process may occupy at most, beside what the driver and NVIDIA's
#'   libraries take for themselves (about 1 GB): points, what is cached of them, and the factors of a fit with centres,
#'   which go through the GPUs in tiles where they are larger. `NULL`: what is free there, less a tenth. `memory_peak`
#'   of [gpu_info()] reports how much it has been. (The `max_gpu_mem` of Falkon's options.)
#' @param cluster A cluster whose workers compute: of [parallel::makeCluster()], of sockets, forks or MPI; `"future"`,
#'   for the plan of package future; or `list(masters, make)`, see below. Sums of more than 2e7 pairs of points in
#'   memory go there, a part of the targets to each worker, to which the points go once; those of a [flash_data()]
#'   always do, to the cluster that has it. They have the same bits for any number of workers, and differ by rounding
#'   from those without a cluster. Each worker uses its share of the cores and GPUs of its host, unless `threads` and
#'   `devices` say otherwise. A fit keeps its `cluster`, and its methods use it as long as it has not ended.
#' @param worker_timeout Seconds after which a worker that says nothing counts as lost: while it computes it says so
#'   every second, but not while a reader of yours runs. `NULL`: 300.
#' @section Clusters of clusters: From some dozens of workers on, the one connection that takes what all of them send is
#'   the limit. `cluster = list(masters, make)` makes each worker of the cluster `masters` the master of another one,
#'   which `make`, a function of its number, makes there: with package parallel, `\(i) makeCluster(racks[[i]])`, or a
#'   list of these two for one more level. A master adds up what its workers have found, and sends one result, with the
#'   bits of any other cluster. The `cluster` of the control that is returned is that for [flash_data()] and other
#'   controls. The others of its master replace a lost worker below, with a warning, and the other masters a lost master
#'   with its cluster. `diagnostics()$workers` has a row for each master, `below` how many workers it has, and what
#'   these did together. Masters that are forks of one session have its port, and need `\(i) makeCluster(4, port = 11000
#'   + i)`. The clusters below stop with theirs, by [parallel::stopCluster()]. `vignette("cluster")` has an example.
#' @returns A list of class `flash_control` with these parts, `NULL` where nothing was said.
#' @export
#' @examples
#' in_short <- flash_control(precision = "single", threads = 2)
#' in_short
#' fit <- flash_kde(faithful, bandwidth = c(0.3, 4), control = in_short)
#' # one part of it otherwise
#' predict(fit, faithful[1:3, ], control = list(threads = 1))
flash_control <- function(backend = NULL, precision = NULL, threads = NULL, devices = NULL, engine = NULL, tol = NULL,
                          tol_type = NULL, memory_limit = NULL, chunk_bytes = NULL, device_memory = NULL,
                          host_memory = NULL, gpu_memory_limit = NULL, cluster = NULL, worker_timeout = NULL) {
  control <- mget(names(CONTROL_DEFAULTS))
  for (name in said_in(control)) control[[name]] <- check_setting(name, control[[name]])
  structure(control, class = "flash_control")
}

#' @rdname flash_control
#' @param x A control.
#' @param ... Not used.
#' @export
print.flash_control <- function(x, ...) {
  said <- said_in(x)
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

said_in <- function(control) names(control)[!vapply(control, is.null, NA)]

# ---- from what was asked for to what C takes --------------------------------------------------

# What counts where nothing is said.
CONTROL_DEFAULTS <- list(
  backend = "auto", precision = "auto", threads = NULL, devices = NULL, engine = "auto", tol = 0,
  tol_type = "global", memory_limit = NULL, chunk_bytes = NULL, device_memory = NULL,
  host_memory = NULL, gpu_memory_limit = NULL, cluster = NULL, worker_timeout = NULL
)

# The same of functions that go by a tolerance unless they are told not to.
TOLERANT_DEFAULTS <- replace(CONTROL_DEFAULTS, "tol", 1e-6)

CONTROL_CHOICES <- list(
  backend = c("auto", "cpu", "cuda"), precision = c("auto", "double", "single", "fast"),
  engine = c("auto", "exact", "fast"), tol_type = c("global", "pointwise")
)

# What to compute by, all parts of it: those `given` beside a control, else those of `control`, else `defaults`. They
# are for run_control() to check.
settle_control <- function(control, given = NULL, defaults = CONTROL_DEFAULTS) {
  settings <- c(if (!is.null(control)) unclass(as_control(control)), given)
  said <- lengths(settings) > 0 & names(settings) %in% names(defaults)
  defaults[names(settings)[said]] <- settings[said]
  defaults
}

# The same, with every pair summed.
exactly <- function(asked) replace(asked, c("engine", "tol"), list("exact", 0))

# A flash_control(), or a list of its settings.
as_control <- function(control) {
  if (inherits(control, "flash_control")) return(control)
  good <- is.list(control) && !is.object(control) && (length(control) == 0 || has_names(names(control)))
  check_is(good, control, "control", "NULL, from flash_control() or a list of its settings")
  unknown <- setdiff(names(control), names(CONTROL_DEFAULTS))
  if (length(unknown) > 0) stop_argument("control", "must have settings of flash_control(): found ", quote_names(unknown))
  do.call(flash_control, control, quote = TRUE)
}

# The list that goes to C, of all that was `asked`. C reads it by name, and leaves `asked` alone.
run_control <- function(asked) {
  # most calls ask as the last one did, and checks would take longer than all else
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
  asked$method <- session$method # of tests alone
  of_c <- list(threads = check_threads(asked$threads), devices = check_devices(asked$devices))
  c(replace(asked, names(of_c), of_c), list(asked = asked))
}

check_asked <- function(asked) {
  for (name in names(CONTROL_CHOICES)) asked[[name]] <- check_setting(name, asked[[name]])
  asked$tol <- check_tol(asked$tol, asked$engine)
  # what single precision does not keep
  if (asked$precision == "auto" && asked$tol > 0 && asked$tol < 1e-5) asked$precision <- "double"
  asked
}

# The same for the function that calls this, whose work `stage` names: when it ends, in whatever way, the progress bar
# goes, and the options are what they were.
start_run <- function(asked, stage = "Computing", frame = parent.frame()) {
  if (!is.null(asked$memory_limit) || !is.null(asked$chunk_bytes)) hold_limits(asked, frame)
  run <- run_control(asked)
  if (!is.null(run$progress)) {
    name_stage(run, stage)
    at_end(\() close_progress(run), frame)
  }
  run
}

# Checks of memory go by options, also where they know of no control: those that it sets hold until `frame` ends.
hold_limits <- function(asked, frame = parent.frame()) {
  limits <- list(flashkernel.memory_limit = asked$memory_limit, flashkernel.chunk_bytes = asked$chunk_bytes)
  before <- options(limits[lengths(limits) > 0])
  if (length(before) > 0) at_end(\() options(before), frame)
}

at_end <- function(action, frame) do.call(on.exit, list(as.call(list(action)), add = TRUE), envir = frame)

# ---- checks -----------------------------------------------------------------------------------

# One part, as a control keeps it.
check_setting <- function(name, value) {
  switch(name,
    threads = if (check_threads(value) > 0) value, # as it was given
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

# CUDA devices for C: none lets it take the first, -1 stands for all. Whether they are there is for C to
# find out, and only where one is used.
check_devices <- function(devices) {
  if (is.null(devices)) devices <- getOption("flashkernel.devices")
  if (is.null(devices)) return(integer())
  if (identical(devices, "all")) return(-1L)
  refuse <- \(...) stop_argument("devices", "must ", ...)
  good <- is_number(devices) && length(devices) > 0 && all(is.finite(devices)) &&
    all(devices >= 0 & devices == round(devices) & devices <= .Machine$integer.max)
  if (!good) refuse("be \"all\" or device numbers, whole and counted from 0: found ", describe(devices))
  if (length(devices) > 16) refuse("be at most 16 numbers: found ", length(devices))
  if (anyDuplicated(devices)) refuse("name every device once: found ", devices[anyDuplicated(devices)], " twice")
  as.integer(devices)
}
