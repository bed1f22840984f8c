# How far the error of falkon() falls on elevators (16,599 rows of 18 columns) in double and in single precision: smooth
# kernels, whose conjugate gradients need what the centres' kernels and their sums leave of small eigenvalues.
#
#   Rscript inst/bench/falkon-precision.R [--data FOLDER] [--backend cuda] [--save]
#
# FOLDER has uci_elevators.csv.gz and its test_mask of treforevans/uci_datasets (split 2); default ../shared/data.

source(file.path(dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))), "common.R"))

arguments <- commandArgs(TRUE)
option <- function(name, default) {
  at <- match(name, arguments)
  if (is.na(at)) default else arguments[at + 1]
}
folder <- option("--data", "../shared/data")
backend <- option("--backend", "cpu")
bench_start("falkon-precision.R", "Kernel regression in double and single precision, elevators")

read <- function(name) unname(as.matrix(utils::read.csv(file.path(folder, name), header = FALSE)))
data <- read("uci_elevators.csv.gz")
test <- read("uci_elevators.test_mask.csv.gz")[, 2] == 1
data <- scale(data, colMeans(data[!test, ]), apply(data[!test, ], 2, stats::sd))
x <- unname(data[!test, 1:18])
y <- data[!test, 19]
held <- list(x = unname(data[test, 1:18]), y = data[test, 19])

# one choice of numbers and centres for all
set.seed(1)
chosen <- falkon(x, y, solver = list(iterations = 1), control = flash_control(backend = "cpu"))
cat(nrow(chosen$centers), " centres, lambda ", format(chosen$lambda, digits = 2), "\n\n", sep = "")

measure <- function(precision, method) {
  Sys.setenv(FLASHKERNEL_CUDA_METHOD = method)
  on.exit(Sys.unsetenv("FLASHKERNEL_CUDA_METHOD"))
  fit <- suppressWarnings(falkon(
    x, y, bandwidth = chosen$bandwidth, lambda = chosen$lambda, centers = chosen$center_index, validation = held, solver = list(iterations = 50),
    control = flash_control(backend = backend, precision = precision)
  ))
  errors <- fit$trace$validation[c(1, 5, 10, 15, 25, 50)]
  names(errors) <- paste("after", c(1, 5, 10, 15, 25, 50))
  data.frame(
    precision = precision, by = if (method == "") "default" else method, jitter = format(fit$jitter, digits = 1),
    t(round(errors, 4)), check.names = FALSE
  )
}

ways <- data.frame(precision = c("double", "single"), method = "")
if (backend == "cuda") ways <- rbind(ways, data.frame(precision = "single", method = c("mma", "difference")))
cat("root mean square error of the rows held out, by iteration\n")
show_table(do.call(rbind, Map(measure, ways$precision, ways$method)))
