# Methods for generics of other packages need no hook: their S3method() lines in NAMESPACE name the generic's package, and
# R registers them when it is loaded. The models of parsnip are lists of its own, which it must have been loaded for.
.onLoad <- function(libname, pkgname) {
  if (isNamespaceLoaded("parsnip")) register_parsnip()
  setHook(packageEvent("parsnip", "onLoad"), function(...) if (isNamespaceLoaded("flashkernel")) register_parsnip())
}

.onUnload <- function(libpath) {
  # device memory outlives the library otherwise, for as long as the process does
  tryCatch(gpu_release(), error = \(e) NULL)
  # finalizers of plans are code of the library: it stays as long as there are fits or operators
  gc()
  if (.Call(ffi_handles) == 0) library.dynam.unload("flashkernel", libpath)
}
