#' What the package computes with
#'
#' Reports how the package was built and what it would use. It does not touch a GPU.
#'
#' @returns A list: `isa`, the instruction set in use (`"avx512"`, `"avx2"` or `"portable"`);
#'   `isa_available`, all that this machine can run; `threads_default`, the number of threads when
#'   none is asked for; `openmp` and `cuda_built`, whether the package was built with them;
#'   `version`, of the package. The environment variable `FLASHKERNEL_ISA` (read when the package
#'   loads) can choose a smaller instruction set.
#' @export
#' @examples
#' str(backend_info())
backend_info <- function() .Call(ffi_backend_info)
