# The block-width study on several n: naive.R's measurements (the simple CUDA kernel with blocks of 2 to 1,024
# threads, one dimension, n sources and n queries), as speedup and efficiency for each n, beside this package.
#
#   Rscript bench/paper/block-width.R [--size small|full]      on a machine with a GPU and nvcc
#
# small: up to n = 64,000. Speedup is over blocks of two threads; efficiency: over width / 2, what all threads as
# fast as those two would give. width 0 is this package, of which the seconds are the device's.

source("bench/paper/common.R")

measure <- function() {
  if (gpu_info()$status != "available") stop("no GPU: ", gpu_info()$status,
                                             "; results/naive.csv has what one measured", call. = FALSE)
  file <- tempfile(fileext = ".csv")
  given <- c(shQuote(file.path(bench_folder, "naive.R")), "--csv", file, if (!full) "--quick")
  system2(file.path(R.home("bin"), "Rscript"), given, stdout = FALSE)
  if (!file.exists(file)) stop("naive.R did not end well")
  rows <- utils::read.csv(file)
  two <- rows[rows$width == 2, ]
  rows$speedup <- two$seconds[match(rows$n, two$n)] / rows$seconds
  rows$efficiency <- ifelse(rows$width > 0, rows$speedup / (rows$width / 2), NA)
  rows
}

rows <- paper_rows("block-width", "Block widths of the simple kernel, one dimension", measure)

paper_plot("block-width", height = 750, draw = \() {
  graphics::par(mfrow = c(1, 3), mar = c(3.6, 4.6, 2, 0.8), oma = c(4, 0, 0, 0))
  all <- sort(unique(rows$n))
  some <- all[unique(round(seq(1, length(all), length.out = min(7, length(all)))))]
  rows$points <- paste("n =", format_count(rows$n))
  shown <- paste("n =", format_count(some))
  naive <- rows[rows$width > 0, ]
  curves(naive, shown, "width", "speedup", by = "points", xlab = "threads per block",
         ylab = "speedup over 2 threads", main = "Speedup")
  widths <- sort(unique(naive$width))
  graphics::lines(widths, widths / 2, lty = 3)
  curves(naive, shown, "width", "efficiency", by = "points", xlab = "threads per block",
         ylab = "speedup / (width / 2)", main = "Efficiency")
  best <- stats::aggregate(seconds ~ n, naive, min)
  best$program <- "simple kernel, best width"
  own <- data.frame(rows[rows$width == 0, c("n", "seconds")], program = "flashkernel")
  both <- rbind(best, own)
  both$ms <- 1e3 * both$seconds
  two <- c("flashkernel", "simple kernel, best width")
  curves(both, two, "n", "ms", by = "program", xlab = "points = queries", ylab = "milliseconds",
         main = "Time on the device")
  graphics::legend("topleft", two, col = colours_of(two), pch = 19, lty = 1, bty = "n", cex = 0.8)
  legend_below(shown, ncol = 4)
})

wide <- stats::reshape(rows[rows$width > 0, c("n", "width", "efficiency")], idvar = "n", timevar = "width",
                       direction = "wide")
names(wide) <- sub("efficiency.", "", names(wide), fixed = TRUE)
wide$n <- format_count(wide$n)
cat("efficiency by threads per block\n")
show_table(data.frame(lapply(wide, \(x) if (is.numeric(x)) sprintf("%.2f", x) else x), check.names = FALSE))
