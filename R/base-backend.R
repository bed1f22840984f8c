#' What the package computes with
#'
#' Reports how the package was built and what it would use on the CPU. It does not touch a GPU:
#' [gpu_info()] does.
#'
#' @returns A list: `isa`, the instruction set in use (`"avx512"`, `"avx2"` or `"portable"`);
#'   `isa_available`, all that this machine can run; `threads_default`, the number of threads when
#'   none is asked for; `cuda_built`, whether the package was built with CUDA; `cuda_toolkit` and
#'   `cuda_architectures`, the version of the CUDA toolkit and the GPU architectures it was built with and for
#'   (empty without CUDA); `version`, of the package. The environment variable `FLASHKERNEL_ISA` (read when
#'   the package loads) can choose a smaller instruction set.
#' @export
#' @examples
#' str(backend_info())
backend_info <- function() .Call(ffi_backend_info)

# Multiply-add lanes a second of all threads, measured on registers alone: what the processor could do at
# best, for bench/dimensions.R.
fma_peak <- function(seconds = 0.2, threads = 0L) {
  rate <- \(single) .Call(ffi_fma_rate, as.double(seconds), single, as.integer(threads))
  c(double = rate(FALSE), single = rate(TRUE))
}
