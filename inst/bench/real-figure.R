# Draws inst/bench/results/real.png: pairs of points a second of density estimates on real data and on points that
# reach far, by whom. All pairs of the definition count, computed or not. Measures nothing: it reads what real.R (CPU:
# leave-one-out at all points, two cores, double, at the default bandwidth) and gpu-real.R (one H200: densities of a tenth of the
# rows, time of the device, single precision) have written to results/. Who took more than a minute is left out.
#
#   Rscript inst/bench/real-figure.R        from the root of the source tree

results <- file.path("inst", "bench", "results")
cpu <- utils::read.csv(file.path(results, "real.csv"))
cpu <- cpu[cpu$factor == 1 & cpu$n >= 2000, ] # smaller ones take a millisecond or two
pairs <- as.numeric(cpu$n)^2

# pairs a second of each set and its dimension: points that were drawn have others there
lines <- readLines(file.path(results, "gpu-real-kde.txt"))
fields <- strsplit(trimws(grep(" single ", lines, value = TRUE)), " +")
on_gpu <- stats::setNames(vapply(fields, \(f) as.numeric(f[10]), 0), vapply(fields, \(f) paste(f[1], f[4]), ""))
short <- sub("^uci_", "", cpu$set)
named <- c(california_housing = "california", higgs_subset = "higgs")
short <- ifelse(short %in% names(named), named[short], short)

rates <- data.frame(
  "ks, exact" = pairs / cpu$ks, "scikit-learn, tree, rtol 1e-8" = pairs / cpu$sklearn,
  "2 cores, all pairs" = pairs / cpu$loo_all, "2 cores, those that matter" = pairs / cpu$loo,
  "H200, single" = unname(on_gpu[paste(short, cpu$d)]), check.names = FALSE
)
looks <- data.frame(pch = c(4, 3, 1, 19, 17), col = c("#8d99a6", "#8d99a6", "#2a6f97", "#2a6f97", "#c1121f"))
there <- colSums(!is.na(rates)) > 0
rates <- rates[there]
looks <- looks[there, ]
by <- order(cpu$n)

grDevices::png(file.path(results, "real.png"), 1300, 900, res = 150)
graphics::par(mar = c(3.6, 12, 3.6, 1), mgp = c(2.3, 0.6, 0), las = 1, cex = 0.85)
range <- 10^c(floor(log10(min(rates, na.rm = TRUE))), ceiling(log10(max(rates, na.rm = TRUE))))
plot(NULL, xlim = range, ylim = c(1, nrow(cpu)), log = "x", xaxt = "n", yaxt = "n", ylab = "", xlab = "pairs of points a second")
powers <- seq(log10(range[1]), log10(range[2]))
graphics::abline(h = seq_len(nrow(cpu)), v = 10^powers, col = "grey92")
graphics::axis(1, 10^powers, parse(text = paste0("10^", powers)))
labels <- paste0(short, "  ", formatC(cpu$n, big.mark = ",", format = "d"), " x ", cpu$d)
graphics::axis(2, seq_len(nrow(cpu)), labels[by], tick = FALSE)
for (i in seq_along(rates)) graphics::points(rates[by, i], seq_len(nrow(cpu)), pch = looks$pch[i], col = looks$col[i], cex = 1.2, lwd = 1.8)
graphics::legend("top", names(rates), pch = looks$pch, col = looks$col, inset = c(0, -0.13), ncol = 3, bty = "n", xpd = NA, pt.lwd = 1.8)
invisible(grDevices::dev.off())
