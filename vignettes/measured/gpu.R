# What vignettes/gpu.Rmd shows of a GPU. On a machine with one: Rscript vignettes/measured/run.R gpu

## ---- machine ----
gpu_info()

## ---- points ----
n <- 2^20
set.seed(1)
centres <- matrix(2 * rnorm(3 * 16), 3)
draw <- function(n) {
  from <- sample.int(3, n, replace = TRUE)
  centres[from, ] + c(0.6, 1, 1.4)[from] * rnorm(16 * n)
}
x <- draw(n)
y <- draw(n / 8)
dim(x)

## ---- first ----
seconds <- function(task) system.time(task)[["elapsed"]]
c(
  fit = seconds(fit <- flash_kde(x, bandwidth = 0.8)),
  predict = seconds(density <- predict(fit, y))
)

## ---- again ----
x[1] <- x[1] + 1e-9 # other points, for the package
c(
  fit = seconds(fit <- flash_kde(x, bandwidth = 0.8)),
  predict = seconds(density <- predict(fit, y))
)
diagnostics(fit)

## ---- right ----
some <- head(y, 1000)
true <- predict(flash_kde(x, bandwidth = 0.8, control = list(precision = "double")), some, type = "log_density")
log_density <- predict(fit, some, type = "log_density")
c(
  "relative L2 of the densities" = sqrt(sum((exp(log_density) - exp(true))^2) / sum(exp(true)^2)),
  "largest of a log density" = max(abs(log_density - true))
)

## ---- cpu ----
plain <- flash_kde(x, "kde", bandwidth = 0.8)
on_cpu <- update(plain, control = list(backend = "cpu", precision = "double"))
pairs <- nrow(x) * c(gpu = nrow(y), cpu = min(2048, nrow(y)))
time <- c(gpu = seconds(predict(plain, y)), cpu = seconds(predict(on_cpu, head(y, 2048))))
pairs / time # a second
parallel::detectCores()

## ---- outliers ----
seconds(expected <- predict(fit, type = "log_density", loo = TRUE))
order(expected)[1:5]
range(expected)

## ---- bandwidth ----
three <- x[, 1:3]
seconds(chosen <- flash_kde(three))
chosen

## ---- release ----
gpu_info()$cached / 2^20 # MiB
gpu_release()
