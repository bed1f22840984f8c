# Peak memory and time for many points, each size in a process of its own. The peak is the most that the process used
# during fit and prediction (VmHWM, reset before) minus what R and the package use before the data exist. So it includes
# the inputs and the results. "inputs" are the training points and the queries as R stores them: 8 bytes a number.
# "matvec" is kernel_sum() of points at themselves, to 1e-5 in single precision, with coefficients, which are inputs,
# too.

source("bench/common.R")

if ("--child" %in% arguments) {
  n <- as.numeric(arguments[2])
  m <- as.numeric(arguments[3])
  d <- as.numeric(arguments[4])
  estimator <- arguments[5]
  type <- arguments[6]
  invisible(predict(flash_kde(cbind(stats::rnorm(50), 0:49), "kde", bandwidth = 1)))
  before <- peak_mib()
  x <- stats::rnorm(d * n)
  y <- stats::rnorm(d * m)
  dim(x) <- c(n, d)
  dim(y) <- c(m, d)
  invisible(gc())
  forget_peak()
  if (estimator == "matvec") b <- stats::rnorm(n)
  seconds <- elapsed(\() {
    if (estimator == "matvec") return(kernel_sum(
      x, b = b, bandwidth = 1, tol = 1e-5,
      control = flash_control(backend = "cpu")
    ))
    fit <- flash_kde(x, estimator, bandwidth = common_bandwidth(n, d), control = flash_control(precision = "double"))
    predict(fit, y, type = type)
  })
  cat("result", before, peak_mib(), seconds, "\n")
  quit()
}

bench_start("memory.R", "Peak memory and time, double precision (matvec: single)")
cases <- read.table(header = TRUE, text = "
  estimator        type        n       m   d
        kde log_density  1000000    1000   2
        kde log_density 10000000    1000   2
        kde     density   100000 1000000   2
    laplace log_density    50000 1000000   2
        kde       score    50000 1000000   2
      sdkde log_density   500000   10000   2
      sdkde log_density   200000   10000  16
      sdkde log_density    20000    1000 500
     matvec        sums  1000000       0   3
     matvec        sums 10000000       0   3
     matvec        sums 50000000       0   3
")
rows <- lapply(seq_len(nrow(cases)), function(i) {
  case <- cases[i, ]
  numbers <- format(c(case$n, case$m, case$d), scientific = FALSE, trim = TRUE)
  line <- system2(
    file.path(R.home("bin"), "Rscript"),
    c(shQuote(this_script), "--child", numbers, case$estimator, case$type), stdout = TRUE
  )
  line <- grep("^result", line, value = TRUE)
  if (length(line) == 0) stop("the process for case ", i, " did not end well")
  value <- as.numeric(strsplit(trimws(sub("^result", "", line)), " +")[[1]])
  coefficients <- if (case$estimator == "matvec") case$n else 0
  inputs <- 8 * (case$d * (case$n + case$m) + coefficients) / 2^20
  peak <- value[2] - value[1]
  data.frame(case, `inputs, MiB` = sprintf("%.1f", inputs), `peak, MiB` = sprintf("%.1f", peak),
             `peak / inputs` = sprintf("%.2f", peak / inputs), seconds = sprintf("%.2f", value[3]),
             check.names = FALSE)
})
table <- do.call(rbind, rows)
table$n <- format(table$n, big.mark = ",", scientific = FALSE)
table$m <- format(table$m, big.mark = ",", scientific = FALSE)
show_table(table)
