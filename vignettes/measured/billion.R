# What vignettes/billion.Rmd shows of a billion points that a function makes, on a CPU (ten minutes, most of them for
# the random numbers): Rscript vignettes/measured/run.R billion

## ---- as-in-billion.Rmd ----
galaxy <- function(n) {
  radius <- 6 * rbeta(n, 1.5, 3)
  angle <- 2 * log(radius + 0.1) + pi * (runif(n) < 0.5) + rnorm(n, sd = 0.35)
  cbind(x = radius * cos(angle), y = radius * sin(angle), z = rnorm(n, sd = 0.2))
}

## ---- chunks ----
axis <- seq(-4.5, 4.5, by = 0.05)
plane <- as.matrix(expand.grid(x = axis, y = axis, z = 0))
inside <- rowSums(plane^2) < 4.5^2
n <- 1e9
chunks <- function() {
  set.seed(1)
  left <- n / 1e6
  function() if ((left <<- left - 1) >= 0) galaxy(1e6)
}

## ---- stream ----
system.time({
  sums <- kernel_sum(
    chunks(), plane[inside, ], bandwidth = 0.15, kernel = "gaussian", tol = 1e-6,
    control = flash_control(threads = 2)
  )
})
diagnostics(sums)

## ---- memory ----
grep("VmHWM", readLines("/proc/self/status"), value = TRUE) # the most memory that this R has had

## ---- density ----
density <- matrix(NA, length(axis), length(axis))
density[inside] <- signif(sums / (n * (2 * pi * 0.15^2)^(3 / 2)), 3)
range(density, na.rm = TRUE)
saveRDS(density, "billion.rds", compress = "xz")
