# How the package was built and what it would use on the CPU, without a look at GPUs: list(isa, isa_available,
# threads_default, cuda_built, cuda_toolkit, cuda_architectures, version).
backend_info <- function() .Call(ffi_backend_info)

# Multiply-add lanes a second of all threads, measured on registers alone: what the processor could do at
# best, for bench/dimensions.R.
fma_peak <- function(seconds = 0.2, threads = 0L) {
  rate <- \(single) .Call(ffi_fma_rate, as.double(seconds), single, as.integer(threads))
  c(double = rate(FALSE), single = rate(TRUE))
}
