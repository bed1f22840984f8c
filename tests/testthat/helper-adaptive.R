# Helpers for fits with several bandwidths.

# `fit`: a function of `backend` and `precision`. Compares densities and scores at y, and leave-one-out values; returns
# the fits in double precision, of the CPU and of the GPU.
expect_gpu_has_fit <- function(fit, y, where) {
  here <- fit(control = flash_control(backend = "cpu"))
  limits <- c(double = 1e-10, single = 1e-4, fast = 1e-2)
  for (precision in names(limits)) {
    there <- fit(control = flash_control(backend = "cuda", precision = precision))
    for (type in c("density", "score")) {
      wanted <- predict(here, y, type = type)
      off <- sqrt(sum((predict(there, y, type = type) - wanted)^2) / sum(wanted^2))
      expect_lt(off, limits[[precision]], label = paste(where, precision, type))
    }
  }
  there <- fit(control = flash_control(backend = "cuda", precision = "double"))
  expect_equal(predict(there, loo = TRUE), predict(here, loo = TRUE), tolerance = 1e-10)
  invisible(list(here = here, there = there))
}
