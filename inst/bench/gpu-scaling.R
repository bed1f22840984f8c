# Several GPUs of one machine against one: the million-point SD-KDE, and whether the bits depend on their number.
#
#   Rscript inst/bench/gpu-scaling.R [--quick] [--save]     --quick: n = 131,072

source(file.path(dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))), "gpu-common.R"))
gpu_start("gpu-scaling.R", "Scaling with the number of GPUs")

n <- if ("--quick" %in% commandArgs(TRUE)) 131072 else 1048576
m <- n / 8
h <- 0.8053 * (n / 1048576)^(-1 / 20)
present <- length(gpu_info()$index)
counts <- c(1, 2, 4, 8)
counts <- counts[counts <= present]
cat(sprintf("n = %s, m = %s, d = 16, SD-KDE\n", format_count(n), format_count(m)))
if (present < 2) cat("one device only: nothing to compare it with\n")
cat("\n")
data <- mixture_points(n, m)

# Medians, and the values, on so many devices. The first run, which sends the points to devices that do not have
# them and learns how fast each is, does not count.
measure <- function(count, precision) {
  result <- NULL
  once <- function() {
    wall <- wall_seconds(\() {
      fit <- flash_kde(data$x, "sdkde", bandwidth = h, backend = "cuda", precision = precision,
                       devices = seq_len(count) - 1)
      result <<- list(fit = fit, at = log_density(fit, data$y))
    })
    debiasing <- device_seconds(fit_stages(result$fit))
    c(debiasing = debiasing, device = debiasing + device_seconds(result$at$stats), wall = wall)
  }
  once()
  seconds <- apply(replicate(3, once()), 1, stats::median)
  list(seconds = seconds, used = paste(result$at$stats$devices, collapse = ", "),
       values = list(result$fit$debiased, result$at$log_abs))
}

for (precision in c("single", "fast")) {
  results <- lapply(counts, measure, precision)
  seconds <- vapply(results, \(result) result$seconds, numeric(3))
  speedup <- seconds[, 1] / seconds
  same <- vapply(results, \(result) identical(result$values, results[[1]]$values), NA)
  cat(precision, "precision: milliseconds, and speedup (x) over one device\n")
  show_table(data.frame(
    devices = vapply(results, \(result) result$used, ""),
    `debiasing, device` = format_ms(seconds["debiasing", ]), x = sprintf("%.2f", speedup["debiasing", ]),
    `all, device` = format_ms(seconds["device", ]), x = sprintf("%.2f", speedup["device", ]),
    `all, wall` = format_ms(seconds["wall", ]), x = sprintf("%.2f", speedup["wall", ]),
    `same bits` = ifelse(same, "yes", "NO"), check.names = FALSE
  ))
}
