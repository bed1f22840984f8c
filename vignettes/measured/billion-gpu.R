# What vignettes/billion.Rmd shows of a billion points in memory, on a GPU (two minutes, and 60 GB of memory):
#   Rscript vignettes/measured/run.R billion-gpu

## ---- as-in-billion.Rmd ----
galaxy <- function(n) {
  radius <- 6 * rbeta(n, 1.5, 3)
  angle <- 2 * log(radius + 0.1) + pi * (runif(n) < 0.5) + rnorm(n, sd = 0.35)
  cbind(x = radius * cos(angle), y = radius * sin(angle), z = rnorm(n, sd = 0.2))
}

## ---- gpu-points ----
n <- 1e9
set.seed(1)
some <- galaxy(1e6)
x <- matrix(0, n, 3)
for (i in seq_len(n / 1e6)) x[(i - 1) * 1e6 + 1:1e6, ] <- some + i * 1e-4 # random numbers would take minutes

## ---- gpu-sums ----
invisible(kernel_sum(some, bandwidth = 0.15, tol = 1e-5, control = flash_control(precision = "single"))) # CUDA starts
system.time(sums <- kernel_sum(x, bandwidth = 0.15, tol = 1e-5, control = flash_control(precision = "single")))
diagnostics(sums)

## ---- gpu-error ----
rows <- seq(1, n, length.out = 200)
exact <- kernel_sum(x, x[rows, ], bandwidth = 0.15, control = flash_control(engine = "exact", precision = "double"))
max(abs(sums[rows] - exact)) / max(sums)

## ---- gpu-times ----
times <- lapply(10^(4:log10(n)), function(m) {
  part <- if (m < n) x[seq_len(m), ] else x
  seconds <- system.time({
    sums <- kernel_sum(
      part, bandwidth = 0.15, tol = 1e-5,
      control = flash_control(precision = "single", backend = "cuda")
    )
  })
  data.frame(n = m, seconds = seconds[["elapsed"]], device = diagnostics(sums)$device_seconds)
})
times <- do.call(rbind, times)
times
