# GPUs, and what this build and machine use on the CPU: gpu_info(), gpu_release(), backend_info().

#' The GPUs of this machine, and what the package keeps on them
#'
#' `gpu_info()` reports whether sums can run on an NVIDIA GPU and on which, or in words why they cannot. `gpu_release()`
#' gives back what the package holds there.
#'
#' @details Nothing touches a GPU before the first computation on one or the first `gpu_info()`, which starts the CUDA
#'   driver (a moment). From then on:
#' - **Memory**: points stay on the device between calls, so that repeated predictions from a fit transfer them once.
#'   `gpu_release()`, like unloading the package, frees them, all other device memory of the package and its page-locked
#'   buffers; the next computation takes what it needs again. Debiased points that were computed there are fetched when
#'   somebody reads them, or before: fits can be saved, copied and sent elsewhere.
#' - **Forked processes** (`parallel::mclapply()` and others): CUDA does not survive a fork. In a child of a process
#'   that uses it, `backend = "cuda"` is an error of class `flashkernel_error_forked`, and `"auto"` computes on the CPU.
#'   Cluster workers (`parallel::makePSOCKcluster()`, packages callr and mirai) are processes of their own and can use
#'   the GPU.
#'
#' @returns `gpu_info()`: a list of class `flashkernel_gpu_info`, never an error:
#'   \item{`status`}{`"available"`, or why sums cannot run on a GPU: not built for it, no driver, no device, a driver
#'     too old, a forked process.}
#'   \item{`built`, `toolkit`, `architectures`}{whether the package was built with CUDA, by which version of the toolkit
#'     and for which architectures.}
#'   \item{`driver`}{the newest CUDA version that the driver supports; `NA` without one.}
#'   \item{`index`, `name`, `capability`, `multiprocessors`}{of every device: its number for `devices` of
#'     [flash_control()], name, compute capability and number of multiprocessors.}
#'   \item{`memory_total`, `memory_free`, `cached`, `memory_peak`}{of every device, in bytes; `cached`: of training
#'     points that the package keeps there; `memory_peak`: the most that it had there, since it was used first or last
#'     released.}
#'   \item{`architecture_built`}{of every device: whether this build has code for it.}
#'   \item{`cpu`}{what sums on the CPU use: `isa`, the instruction set (`"avx512"`, `"avx2"` or `"portable"`), of
#'     `isa_available`, all that this machine can run, and `threads` where none are asked for. The environment variable
#'     `FLASHKERNEL_ISA`, read when the package loads, can choose a smaller instruction set.}
#'
#'   `gpu_release()`: `NULL`, invisibly. Without a GPU there is nothing to do.
#' @seealso [flash_control()] for `backend`, `precision` and `devices`.
#' @export
#' @examples
#' gpu_info()
#' gpu_info()$status
gpu_info <- function() {
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
  if (x$built) {
    cat("Built with toolkit ", x$toolkit, " for architectures ", x$architectures, sep = "")
    cat(if (!is.na(x$driver)) paste0("; the driver supports CUDA ", x$driver), "\n", sep = "")
  }
  if (length(x$index) > 0) print(device_table(x), row.names = FALSE)
  if (!is.null(x$cpu)) cat("CPU: ", x$cpu$isa, ", ", threads_label(x$cpu$threads), "\n", sep = "")
  invisible(x)
}

# What fits a line for each device.
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

# How the package was built and what it would use on the CPU, without a look at GPUs: list(isa, isa_available,
# threads_default, cuda_built, cuda_toolkit, cuda_architectures, version).
backend_info <- function() .Call(ffi_backend_info)

# Multiply-add lanes a second of all threads, measured on registers alone: what the processor could do at
# best, for bench/dimensions.R.
fma_peak <- function(seconds = 0.2, threads = 0L) {
  rate <- \(single) .Call(ffi_fma_rate, as.double(seconds), single, as.integer(threads))
  c(double = rate(FALSE), single = rate(TRUE))
}
