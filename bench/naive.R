# The block-width study: the simple CUDA kernel (naive.cu: one dimension, n sources, n queries, a thread per
# query) with blocks of 2 to 1,024 threads, and beside it this package on the same points.
#
#   Rscript bench/naive.R [--quick] [--save] [--csv FILE]     on a machine with a GPU and nvcc
#   Rscript bench/naive.R --plot [FILE]                       anywhere: FILE (default results/naive.csv)
#                                                                  to a .png beside it
# --quick: up to n = 64,000. Speedup is over blocks of two threads; efficiency is the speedup over what it would
# be, were all threads as fast as those two: speedup / (width / 2).

source("bench/gpu-common.R")
widths <- 2^(1:10)

# One row per n, one column per width; NA where it was not run.
by_width <- function(times) {
  table <- tapply(times$seconds, list(times$n, factor(times$width, widths)), c)
  matrix(as.numeric(table), nrow(table), dimnames = dimnames(table))
}

# ---- plot: needs no GPU -----------------------

draw <- function(times) {
  seconds <- by_width(times[times$width > 0, ])
  n <- as.numeric(rownames(seconds))
  ours <- times$seconds[match(n, ifelse(times$width == 0, times$n, NA))]
  old <- graphics::par(mfrow = c(1, 2), mar = c(4.2, 4.2, 2, 1), las = 1)
  on.exit(graphics::par(old))
  colours <- grDevices::hcl.colors(length(widths) + 1, "Viridis")[seq_along(widths)]
  graphics::matplot(n, cbind(seconds, ours), log = "xy", type = "b", lty = 1, pch = c(rep(1, length(widths)), 19),
                    col = c(colours, "red"), xlab = "points = queries", ylab = "seconds", main = "Time")
  graphics::legend("topleft", c(paste("width", widths), "flashkernel"), col = c(colours, "red"), lty = 1, bty = "n",
                   cex = 0.75)
  sizes <- grDevices::hcl.colors(length(n) + 1, "Plasma")[seq_along(n)]
  graphics::matplot(widths, t(seconds[, "2"] / seconds), log = "xy", type = "b", lty = 1, pch = 1, col = sizes,
                    ylim = c(1, max(widths) / 2), xlab = "threads per block", ylab = "speedup over 2 threads",
                    main = "Speedup")
  graphics::lines(widths, widths / 2, lty = 3)
  graphics::legend("topleft", c(paste("n =", format(n, big.mark = ",", trim = TRUE)), "width / 2"),
                   col = c(sizes, "black"), lty = c(rep(1, length(n)), 3), bty = "n", cex = 0.75)
}

if ("--plot" %in% arguments) {
  file <- option("--plot", "bench/results/naive.csv")
  times <- utils::read.csv(file)
  base <- sub("[.]csv$", "", file)
  grDevices::png(paste0(base, ".png"), 1400, 700, res = 130)
  draw(times)
  invisible(grDevices::dev.off())
  cat("drawn:", paste0(base, ".png"), "\n")
  quit()
}

# ---- measure ----------------------------------------------------------------------------------------

gpu_start("naive.R", "Block widths of the simple kernel, one dimension")

sizes <- 4000 * 2^(0:(if ("--quick" %in% arguments) 4 else 8))
bandwidths <- common_bandwidth(sizes, 1)
x <- normal_points(max(sizes), 1, 1)
y <- normal_points(max(sizes), 1, 2)

build <- function(folder) {
  nvcc <- c(Sys.which("nvcc"), "/usr/local/cuda/bin/nvcc")
  nvcc <- nvcc[nzchar(nvcc) & file.exists(nvcc)]
  if (length(nvcc) == 0) stop("nvcc is not in the PATH nor in /usr/local/cuda/bin")
  program <- file.path(folder, "naive")
  # NVCC_ARCH: for a compiler that sees no GPU
  flags <- c("-O3", paste0("-arch=", Sys.getenv("NVCC_ARCH", "native")), "-o", shQuote(program))
  status <- system2(nvcc[1], c(flags, shQuote("bench/naive.cu")))
  if (status != 0) stop("nvcc failed on naive.cu")
  program
}

run_naive <- function(limit = 20) {
  folder <- tempfile()
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  files <- file.path(folder, c("x", "y"))
  writeBin(as.vector(x), files[1], size = 4)
  writeBin(as.vector(y), files[2], size = 4)
  cases <- rbind(format(sizes, scientific = FALSE, trim = TRUE), format(bandwidths, digits = 17))
  lines <- system2(build(folder), c(shQuote(files), limit, as.vector(cases)), stdout = TRUE)
  if (!is.null(attr(lines, "status"))) stop("naive did not end well")
  utils::read.csv(text = lines)
}

# Through the same engine that every other sum uses. Kernels too far away to count may be skipped there.
run_ours <- function(n, h) {
  fit <- flash_kde(x[seq_len(n), , drop = FALSE], "kde", bandwidth = h, control = flash_control(backend = "cuda", precision = "single"))
  at <- y[seq_len(n), , drop = FALSE]
  once <- function() {
    done <- NULL
    wall <- elapsed(\() done <<- log_density(fit, at)$stats)
    c(device_seconds(done), wall)
  }
  once()
  apply(replicate(5, once()), 1, stats::median)
}

times <- run_naive()
ours <- mapply(run_ours, sizes, bandwidths)
csv <- option("--csv", if ("--save" %in% arguments) "bench/results/naive.csv")
if (!is.null(csv)) {
  # width 0: flashkernel
  all <- rbind(times, data.frame(n = sizes, width = 0, seconds = ours[1, ], error = NA))
  utils::write.csv(all, csv, row.names = FALSE, quote = FALSE)
}

show_by_width <- function(title, values, format) {
  cat(title, "\n")
  shown <- ifelse(is.na(values), "-", sprintf(format, values))
  show_table(data.frame(n = format_count(as.numeric(rownames(values))), shown, check.names = FALSE))
}
seconds <- by_width(times)
speedup <- seconds[, "2"] / seconds
show_by_width("milliseconds by threads per block", 1e3 * seconds, "%.3f")
show_by_width("speedup over two threads per block", speedup, "%.1f")
show_by_width("efficiency: speedup / (width / 2)", sweep(speedup, 2, widths / 2, "/"), "%.2f")

best <- apply(seconds, 1, min, na.rm = TRUE)
errors <- tapply(times$error, times$n, max)
cat("beside this package (backend = \"cuda\", precision = \"single\"), milliseconds\n")
show_table(data.frame(
  n = format_count(sizes), `best width` = widths[apply(seconds, 1, which.min)], `naive at best` = format_ms(best),
  `naive pairs per second` = format_rate(sizes^2 / best), `naive's error` = format_error(errors),
  `flashkernel, device` = format_ms(ours[1, ]), `flashkernel, wall` = format_ms(ours[2, ]),
  `naive / device` = sprintf("%.1f", best / ours[1, ]), check.names = FALSE
))
