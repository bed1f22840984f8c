# Peak memory and time for many points, d = 2, each size in a process of its own. The peak is what
# the process used most at any time (VmHWM) minus what R and the package use before the data exist.
# "inputs" are the training points and the queries as R holds them: 8 bytes a number.

script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))
source(file.path(dirname(script), "common.R"))

high_water <- function() { # MiB
  lines <- readLines("/proc/self/status")
  as.numeric(sub("^VmHWM:\\s*([0-9]+) kB$", "\\1", grep("^VmHWM", lines, value = TRUE))) / 1024
}

arguments <- commandArgs(TRUE)
if ("--child" %in% arguments) {
  n <- as.numeric(arguments[2])
  m <- as.numeric(arguments[3])
  estimator <- arguments[4]
  invisible(predict(flash_kde(cbind(stats::rnorm(50), 0:49), "kde", bandwidth = 1)))
  before <- high_water()
  x <- matrix(stats::rnorm(2 * n), n, 2)
  y <- matrix(stats::rnorm(2 * m), m, 2)
  data <- high_water()
  seconds <- elapsed(\() {
    fit <- flash_kde(x, estimator, bandwidth = common_bandwidth(n, 2), precision = "double")
    predict(fit, y, type = "log_density")
  })
  cat("result", before, data, high_water(), seconds, "\n")
  quit()
}

bench_start("memory.R", "Peak memory and time, d = 2, double precision")
cases <- data.frame(
  estimator = c("kde", "kde", "kde", "kde", "sdkde", "sdkde"),
  n = c(1e6, 3e6, 1e7, 1e5, 1e5, 3e5),
  m = c(1e3, 1e3, 1e3, 1e6, 1e5, 1e4)
)
rows <- lapply(seq_len(nrow(cases)), function(i) {
  case <- cases[i, ]
  line <- system2(file.path(R.home("bin"), "Rscript"),
                  c(shQuote(script), "--child", format(case$n, scientific = FALSE),
                    format(case$m, scientific = FALSE), case$estimator), stdout = TRUE)
  line <- grep("^result", line, value = TRUE)
  if (length(line) == 0) stop("the process for case ", i, " did not end well")
  value <- as.numeric(strsplit(trimws(sub("^result", "", line)), " +")[[1]])
  inputs <- 8 * 2 * (case$n + case$m) / 2^20
  peak <- value[3] - value[1]
  data.frame(case, `inputs, MiB` = sprintf("%.1f", inputs), `peak, MiB` = sprintf("%.1f", peak),
             `peak / inputs` = sprintf("%.2f", peak / inputs), seconds = sprintf("%.2f", value[4]),
             check.names = FALSE)
})
table <- do.call(rbind, rows)
table$n <- format(table$n, big.mark = ",", scientific = FALSE)
table$m <- format(table$m, big.mark = ",", scientific = FALSE)
show_table(table)
