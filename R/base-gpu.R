# Information on GPUs and on the build: gpu_info(), gpu_release(), backend_info().

#' Computing on GPUs
#'
#' `gpu_info()` reports which NVIDIA GPUs can compute sums, or why none can. `install_gpu()` installs the GPU engine.
#' `gpu_release()` frees the memory that the package holds on GPUs.
#'
#' @details The GPU engine is a file, which needs the NVIDIA driver and nothing else. The installation of the package builds it
#'   where there is a CUDA toolkit (12.0 or newer, Linux); elsewhere `install_gpu()` adds it. The environment variable
#'   `FLASHKERNEL_GPU` can name another file. All functions then compute on a GPU where that should be faster.
#'   `flash_control(backend = "cuda")` always does, and `devices = "all"` uses all. [diagnostics()] says where a fit was
#'   computed.
#' - **Precision**: single by default, see [tolerance].
#' - **Memory**: training points are cached on the GPU between calls.
#' - **Forked processes**, as in `parallel::mclapply()`, cannot use CUDA if their parent does. There `backend = "cuda"`
#'   is an error of class `flashkernel_error_forked`, and `"auto"` computes on the CPU. Workers of
#'   `parallel::makePSOCKcluster()`, callr and mirai can use the GPU.
#'
#' @returns `gpu_info()` returns a list of class `flashkernel_gpu_info`, and never an error:
#'   \item{`status`}{`"available"`, or why no GPU can be used, and what to do.}
#'   \item{`engine`, `toolkit`, `architectures`}{the file of the GPU engine, its CUDA version, and the GPU architectures that it has
#'     code for; `NA` without it.}
#'   \item{`driver`}{the newest CUDA version that the driver supports; `NA` without a driver.}
#'   \item{`index`, `name`, `capability`, `multiprocessors`}{for each device: its number for `devices` of
#'     [flash_control()], name, compute capability and number of multiprocessors.}
#'   \item{`memory_total`, `memory_free`, `cached`, `memory_peak`}{for each device, bytes: its memory, the free part,
#'     the training points that the package caches there, and the most that the package has used since its first use or
#'     the last `gpu_release()`.}
#'   \item{`architecture_built`}{for each device: whether the engine has code for it.}
#'   \item{`cpu`}{what sums on the CPU use: `isa`, the instruction set (`"avx512"`, `"avx2"` or `"portable"`);
#'     `isa_available`, all that this machine can run; and `threads`, the default number. The environment variable
#'     `FLASHKERNEL_ISA`, read at load, can select a smaller one.}
#'
#'   `install_gpu()` returns the path of the installed file, and `gpu_release()` `NULL`, both invisibly.
#' @seealso [flash_control()] for `backend`, `precision` and `devices`; `vignette("gpu")`.
#' @aliases gpus
#' @rawRd \concept{CUDA}\concept{graphics card}
#' @export
#' @examples
#' gpu_info()
#' gpu_info()$status
gpu_info <- function() {
  find_gpu()
  built <- backend_info()
  cpu <- list(isa = built$isa, isa_available = built$isa_available, threads = built$threads_default)
  structure(c(.Call(ffi_gpu_info), list(cpu = cpu)), class = "flashkernel_gpu_info")
}

#' @rdname gpu_info
#' @export
gpu_release <- function() {
  .Call(ffi_gpu_release)
  invisible()
}

#' @rdname gpu_info
#' @param x The result of `gpu_info()`.
#' @param ... Not used.
#' @export
print.flashkernel_gpu_info <- function(x, ...) {
  cat("CUDA: ", if (x$status != "available") "not available, ", x$status, "\n", sep = "")
  if (!is.na(x$toolkit)) {
    cat("Engine with CUDA ", x$toolkit, " for architectures ", x$architectures, sep = "")
    cat(if (!is.na(x$driver)) paste0("; the driver supports CUDA ", x$driver), "\n", sep = "")
  }
  if (length(x$index) > 0) print(device_table(x), row.names = FALSE)
  if (!is.null(x$cpu)) cat("CPU: ", x$cpu$isa, ", ", threads_label(x$cpu$threads), "\n", sep = "")
  invisible(x)
}

# A data frame with a row for each device.
device_table <- function(info) {
  bytes <- \(values) vapply(values, format_bytes, "")
  table <- data.frame(
    device = info$index, name = info$name, capability = info$capability,
    processors = info$multiprocessors, memory = bytes(info$memory_total),
    free = bytes(info$memory_free), cached = bytes(info$cached)
  )
  if (!all(info$architecture_built)) table$usable <- ifelse(info$architecture_built, "yes", "no code")
  table
}

# The build and the defaults on the CPU, without opening the GPU engine: list(isa, isa_available, threads_default,
# gpu_engine (is there one?), version).
backend_info <- function() .Call(ffi_backend_info)

# Multiply-add lanes per second of all threads, measured in registers: the peak rate that bench/dimensions.R compares
# with.
fma_peak <- function(seconds = 0.2, threads = 0L) {
  rate <- \(single) .Call(ffi_fma_rate, as.double(seconds), single, as.integer(threads))
  c(double = rate(FALSE), single = rate(TRUE))
}
