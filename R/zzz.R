# Nothing is set up at load time. The method for ggplot2::autoplot() needs no hook: its S3method()
# line in NAMESPACE names the generic's package, and R registers it when ggplot2 is loaded.
.onUnload <- function(libpath) {
  # device memory outlives the library otherwise, for as long as the process does
  tryCatch(gpu_release(), error = \(e) NULL)
  # finalizers of plans are code of the library: it stays as long as there are fits or operators
  gc()
  if (.Call(ffi_handles) == 0) library.dynam.unload("flashkernel", libpath)
}
