# Methods for generics of other packages need no hook: S3method() lines in NAMESPACE name the package of the generic,
# and R registers the methods when that package is loaded. parsnip keeps models in tables of its own, and
# marginaleffects reads an option, so they must be loaded.
.onLoad <- function(libname, pkgname) {
  if (isNamespaceLoaded("parsnip")) register_parsnip()
  setHook(packageEvent("parsnip", "onLoad"), function(...) if (isNamespaceLoaded("flashkernel")) register_parsnip())
  if (isNamespaceLoaded("marginaleffects")) register_marginaleffects()
  setHook(packageEvent("marginaleffects", "onLoad"), function(...) {
    if (isNamespaceLoaded("flashkernel")) register_marginaleffects()
  })
}

.onUnload <- function(libpath) {
  # otherwise device memory stays allocated until the process ends
  tryCatch(gpu_release(), error = \(e) NULL)
  # finalizers of plans are code of the library, so it stays loaded while there are fits or operators
  gc()
  if (.Call(ffi_handles) == 0) library.dynam.unload("flashkernel", libpath)
}
