# Methods for generics of other packages need no hook: S3method() lines in NAMESPACE name the package of the generic,
# and R registers the methods when that package is loaded. parsnip keeps models in tables of its own, marginaleffects
# reads an option, and methods for mgcv are no functions that it exports, so they must be loaded.
.onLoad <- function(libname, pkgname) {
  find_gpu()
  register <- list(parsnip = register_parsnip, marginaleffects = register_marginaleffects, mgcv = register_mgcv)
  for (package in names(register)) local({
    own <- register[[package]]
    if (isNamespaceLoaded(package)) own()
    setHook(packageEvent(package, "onLoad"), function(...) if (isNamespaceLoaded("flashkernel")) own())
  })
}

.onUnload <- function(libpath) {
  # otherwise device memory stays allocated until the process ends
  tryCatch(gpu_release(), error = \(e) NULL)
  # finalizers of plans are code of the library, so it stays loaded while there are fits or operators
  gc()
  if (.Call(ffi_handles) == 0) library.dynam.unload("flashkernel", libpath)
}
