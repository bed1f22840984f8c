# Draws man/figures/README-gpu.png: pairs of points per second of a density estimate, by program. It measures nothing,
# but reads the reports that kde_vs_peers.R and gpu.R saved with --save.
#
#   Rscript bench/gpu-figure.R

source("bench/common.R")
printed <- function(name) readLines(saved_report(name))

# "program  queries  seconds  pairs per second  ..." of the first table in so many dimensions
peer <- function(lines, dimensions, program) {
  lines <- lines[-seq_len(grep(paste0("^d = ", dimensions, ","), lines))]
  line <- grep(paste0("^ *", program), lines, value = TRUE)[1]
  as.numeric(regmatches(line, regexpr("[0-9.]+e[+][0-9]+", line)))
}

# Milliseconds of the million-point KDE: device and published are columns 1 and 8 after the precision.
gpu <- function(lines, precision, column) {
  line <- grep(paste0("^ *kde, n = 1,048,576 +", precision), lines, value = TRUE)[1]
  as.numeric(strsplit(trimws(sub(paste0(".*", precision), "", line)), " +")[[1]][column])
}

peers <- printed("kde_vs_peers.txt")
device <- printed("gpu.txt")
pairs <- 1048576 * 131072
rates <- c(
  "ks, exact (d = 3)" = peer(peers, 3, "ks"),
  "scikit-learn" = peer(peers, 16, "scikit-learn"),
  "flashkernel, 2 cores, double" = peer(peers, 16, "flashkernel  "),
  "published Triton code, H200" = 1e3 * pairs / gpu(device, "single", 8),
  "flashkernel, H200, single" = 1e3 * pairs / gpu(device, "single", 1),
  "flashkernel, H200, fast" = 1e3 * pairs / gpu(device, "fast", 1)
)
stopifnot(is.finite(rates))

grDevices::png(file.path("man", "figures", "README-gpu.png"), 1200, 560, res = 160)
graphics::par(mar = c(3.6, 12.5, 0.6, 3), mgp = c(2.3, 0.7, 0), las = 1, cex = 0.85)
ours <- startsWith(names(rates), "flashkernel")
at <- graphics::barplot(rates,
  horiz = TRUE, log = "x", xlim = c(1e6, 2e13), xaxt = "n", border = NA,
  col = ifelse(ours, "#2a6f97", "#b0b7bf"), xlab = "pairs of points a second, d = 16"
)
powers <- seq(6, 13)
graphics::axis(1, 10^powers, parse(text = paste0("10^", powers)))
graphics::text(rates, at, format(rates, digits = 2, scientific = TRUE), pos = 4, xpd = NA, cex = 0.9)
invisible(grDevices::dev.off())
