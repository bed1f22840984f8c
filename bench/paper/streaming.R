# Streaming compared with stored matrices: memory and time of an SD-KDE that never stores an n x n matrix, and of one
# that stores the kernel matrices, as in the ablation of the Flash-SD-KDE paper (n = 65,536, m = 8,192, d = 16: 16 GB
# against 16 MB there).
#
#   Rscript bench/paper/streaming.R [--size small|full] [--backend auto|cpu|cuda]
#
# Peaks on the CPU are of the process beyond the points (VmHWM, each case in a process of its own; 0: no more than
# before). Peaks on the device are beyond points and result (PyTorch's allocator), but for this package all memory it
# uses there (gpu_info()). Stored matrices: in R on the CPU, in PyTorch on a GPU.

source("bench/paper/common.R")
source("bench/paper/peers.R")

d <- 16
h <- \(n) 0.9574 * (n / 32768)^(-1 / 20)

# The whole matrix of kernels, as one writes it in R.
kernel_matrix <- function(y, x, h) {
  squares <- outer(rowSums(y^2), rowSums(x^2), "+") - 2 * tcrossprod(y, x)
  exp(-squares / (2 * h^2))
}
materialised <- function(points, h) {
  x <- points$x
  K <- kernel_matrix(x, x, h)
  x <- (x + K %*% x / rowSums(K)) / 2
  rm(K)
  rowMeans(kernel_matrix(points$y, x, h)) / (sqrt(2 * pi) * h)^ncol(x)
}

# In a process of its own: peak over the points, and seconds.
if ("--child" %in% arguments) {
  n <- as.numeric(option("--n"))
  points <- mixture_points(n, n / 8, d)
  task <- list(
    streamed = \(p) density_of(p, "sdkde", h(n), where, usual), materialised = \(p) materialised(p, h(n))
  )[[option("--way")]]
  for (i in 1:3) invisible(task(mixture_points(512, 64, d))) # what R compiles at first use
  invisible(gc())
  forget_peak()
  before <- peak_mib()
  on_device <- \() if (on_gpu) gpu_info()$memory_peak[1] / 2^20 else NA
  seconds <- elapsed(\() task(points))
  cat("result", peak_mib() - before, on_device(), seconds, "\n")
  quit()
}

in_process <- function(way, n) {
  given <- c("--child", "--way", way, "--n", format(n, scientific = FALSE), "--backend", where)
  said <- system2(file.path(R.home("bin"), "Rscript"), c(shQuote(this_script), given), stdout = TRUE)
  line <- grep("^result", said, value = TRUE)
  if (length(line) == 0) stop("the process of ", way, ", n = ", n, ", did not end well")
  suppressWarnings(as.numeric(strsplit(line, " ")[[1]][2:4])) # NA where there is no device
}

row <- function(program, way, n, memory, seconds) {
  data.frame(program, way, n, m = n / 8, points_mib = 8 * d * 1.125 * n / 2^20, peak_mib = memory, seconds)
}

by_r <- function(n, way) {
  found <- in_process(way, n)
  memory <- if (on_gpu && way == "streamed") found[2] else found[1]
  row(if (way == "streamed") "flashkernel" else "R, matrices", way, n, memory, found[3])
}

by_torch <- function(sizes) {
  cases <- lapply(sizes, \(n) make_case(n, d, n / 8, h(n), "kde"))
  on.exit(forget_cases(cases))
  folders <- vapply(cases, `[[`, "", "folder")
  found <- other_program("materialised", folders, d, h(sizes), "sdkde", device = where, timeout = 30)
  if (is.null(found$about)) return(left_out("PyTorch", found$why))
  here <- found$rows[found$rows$why == "", ]
  n <- sizes[match(here$folder, folders)]
  if (nrow(here) < length(sizes)) left_out("PyTorch, larger n", c(found$rows$why[found$rows$why != ""], found$why)[1])
  if (nrow(here) > 0) row("PyTorch, matrices", "materialised", n, here$peak, if (on_gpu) here$device else here$host)
}

measure <- function() {
  streamed <- 2^(if (full) c(13, 15, 16, 17) else 10:14)
  held <- 2^(if (full) c(13, 15, 16) else 10:13)
  rows <- do.call(rbind, lapply(streamed, by_r, "streamed"))
  rbind(rows, if (on_gpu) by_torch(held) else do.call(rbind, lapply(held, by_r, "materialised")))
}

rows <- paper_rows("streaming", "SD-KDE streamed and with matrices, d = 16", measure)

paper_plot("streaming", height = 650, draw = \() {
  graphics::par(mfrow = c(1, 2), mar = c(3.6, 4.6, 2, 0.8), oma = c(2, 0, 0, 0))
  names <- unique(rows$program)
  # what is under a megabyte is not to be told from none
  rows$shown <- pmax(rows$peak_mib, 1)
  curves(rows, names, "n", "shown", by = "program", xlab = "points", ylab = "MiB over the points",
         main = "Peak memory", ylim = range(rows$shown, rows$points_mib))
  graphics::lines(sort(unique(rows$n)), sort(unique(rows$points_mib)), lty = 3)
  graphics::text(max(rows$n), max(rows$points_mib) / 3, "points", pos = 2, cex = 0.8)
  rows$ms <- 1e3 * rows$seconds
  curves(rows, names, "n", "ms", by = "program", xlab = "points", ylab = "milliseconds", main = "Time")
  legend_below(names)
})

show_table(data.frame(
  program = rows$program, n = format_count(rows$n), `points MiB` = sprintf("%.1f", rows$points_mib),
  `peak MiB` = sprintf("%.1f", rows$peak_mib), ms = format_ms(rows$seconds), check.names = FALSE
))
