# Consecutive products of kernel_operator(), as in an iterative solver: the first, which prepares, and the later ones.
#
#   Rscript bench/operator.R [--backend cpu|cuda] [--quick] [--save]
#
# Measures a hundred products for 10^6 uniform points in three dimensions to 1e-6 and for 10^4 points in ten dimensions
# exactly, and single small ones. "create" is kernel_operator() itself. Both back ends if there is a GPU; two threads on
# the CPU. "device": median of the later products by events; "beside": the rest of their median time. --quick: 10^5
# points. Then kernel_eigen(): four leading eigenvectors for as many points in four clusters of two dimensions, to 1e-6, and
# the share of points whose cluster kmeans() finds from normalised eigenvectors (spectral clustering).

source("bench/gpu-common.R")
bench_start("operator.R", "Products of kernel_operator()")

if (!exists("kernel_operator")) {
  cat("this build of flashkernel has no kernel_operator()\n")
  quit()
}

has_gpu <- gpu_info()$status == "available"
backends <- option("--backend", if (has_gpu) c("cpu", "cuda") else "cpu")
if (!has_gpu) cat("no GPU: ", gpu_info()$status, "\n\n", sep = "")

large <- if ("--quick" %in% arguments) 1e5 else 1e6
cases <- data.frame(
  n = c(large, 1e4, 1e4, 1000), d = c(3, 10, 3, 3), tol = c(1e-6, 0, 1e-6, 0), h = c(0.05, 1, 0.1, 0.3), products = 100
)

# Vectors are made outside the time taken; each product has another.
measure <- function(case, backend) {
  set.seed(1)
  x <- matrix(stats::runif(case$n * case$d), case$n)
  v <- stats::rnorm(case$n)
  op <- NULL
  create <- elapsed(\() {
    op <<- kernel_operator(
      x, bandwidth = case$h, kernel = "gaussian", tol = case$tol,
      control = flash_control(backend = backend, threads = 2)
    )
  })
  product <- NULL
  device <- seconds <- numeric(case$products)
  engine <- ""
  for (i in seq_len(case$products)) {
    v <- renew(v)
    seconds[i] <- elapsed(\() product <<- op %*% v)
    record <- diagnostics(op)
    device[i] <- if (backend == "cuda") record$device_seconds else NA
    engine <- paste(record$engine, record$method)
  }
  later <- stats::median(seconds[-1])
  data.frame(
    case, backend = backend, engine = engine, create = create, first = seconds[1], later = later,
    device = stats::median(device[-1]), all = create + sum(seconds)
  )
}

jobs <- expand.grid(case = seq_len(nrow(cases)), backend = backends, stringsAsFactors = FALSE)
table <- do.call(rbind, Map(\(case, backend) measure(cases[case, ], backend), jobs$case, jobs$backend))

cat("milliseconds, but \"all\" in seconds\n")
show_table(data.frame(
  backend = table$backend, `n = m` = format_count(table$n), d = table$d,
  tol = ifelse(table$tol > 0, format(table$tol, scientific = TRUE), "exact"), engine = table$engine,
  create = format_ms(table$create), first = format_ms(table$first), later = format_ms(table$later),
  device = format_ms(table$device), beside = format_ms(table$later - table$device),
  products = table$products, all = sprintf("%.2f", table$all), check.names = FALSE
))

# ---- eigenvectors ---------------------------------------------------------------------------------

eigen_seconds <- function(backend) {
  set.seed(1)
  group <- rep_len(1:4, large)
  x <- cbind(c(0, 4, 0, 4)[group], c(0, 0, 4, 4)[group]) + matrix(stats::rnorm(2 * large, sd = 0.5), large)
  op <- kernel_operator(x, bandwidth = 1, tol = 1e-6, control = flash_control(backend = backend, threads = 2))
  vectors <- NULL
  seconds <- elapsed(\() vectors <<- kernel_eigen(op, 4)$vectors)
  found <- stats::kmeans(vectors / sqrt(rowSums(vectors^2)), 4, nstart = 10)$cluster
  right <- sum(apply(table(found, group), 1, max)) / large
  data.frame(points = large, backend = backend, seconds = seconds, `right clusters` = right, check.names = FALSE)
}

cat("\nkernel_eigen(), k = 4, seconds\n")
show_table(do.call(rbind, lapply(backends, eigen_seconds)))
