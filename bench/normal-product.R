# The normal product K'(W (K v + w)) of kernel_operator() beside its two products.
#
#   Rscript bench/normal-product.R [--sizes] [--backend cuda] [--save]
#
# 10^5 rows, 2,000 columns, ten dimensions, exactly: one and two threads, one and five columns of v. --sizes: 10^8 kernels
# for 500 to 50,000 columns, one thread, which decides .normal_bytes of src/core/costs.c (build with other values of it).
# Both ways take turns; medians. "same": crossprod(op, weights * (op %*% v + w)) to rounding.

source("bench/common.R")
bench_start("normal-product.R", "Normal products: one sweep beside two products")

backend <- if ("cuda" %in% arguments) "cuda" else "cpu"

measure <- function(rows, columns, d, r, precision, threads, runs) {
  set.seed(1)
  x <- matrix(stats::rnorm(columns * d), columns)
  y <- matrix(stats::rnorm(rows * d), rows)
  v <- matrix(stats::rnorm(columns * r), columns)
  w <- matrix(stats::rnorm(rows * r), rows)
  weights <- stats::runif(rows)
  op <- kernel_operator(
    x, y, sqrt(d), tol = 0,
    control = flash_control(backend = backend, precision = precision, threads = threads)
  )
  two <- \() crossprod(op, weights * (op %*% v + w))
  one <- \() flashkernel:::normal_product(op, v, w, weights)
  want <- two()
  error <- max(abs(one() - want)) / max(abs(want))
  how <- sub(".*; ", "", diagnostics(op)$reason_engine)
  seconds <- medians(list(two = two, one = one), runs)
  data.frame(
    rows = rows, columns = columns, d = d, r = r, precision = precision, threads = threads, two = seconds[["two"]],
    one = seconds[["one"]], ratio = seconds[["one"]] / seconds[["two"]], by = how, same = format(error, digits = 1)
  )
}

table_of <- function(cases, runs) {
  table <- do.call(rbind, Map(
    measure, cases$rows, cases$columns, cases$d, cases$r, cases$precision, cases$threads, MoreArgs = list(runs = runs)
  ))
  table[c("two", "one", "ratio")] <- lapply(table[c("two", "one", "ratio")], \(x) sprintf("%.3f", x))
  show_table(table)
}

cat("seconds on the ", backend, "\n", sep = "")
table_of(expand.grid(
  rows = 1e5, columns = 2000, d = 10, r = c(1, 5), precision = c("double", "single"), threads = 1:2,
  stringsAsFactors = FALSE
), runs = 9)

if ("--sizes" %in% arguments) {
  sizes <- expand.grid(
    columns = c(500, 1000, 2000, 5000, 10000, 20000, 50000), d = c(3, 10, 30), r = 1, precision = c("double", "single"),
    threads = 1, stringsAsFactors = FALSE
  )
  sizes$rows <- pmax(5000, round(1e8 / sizes$columns))
  table_of(sizes, runs = 5)
}
