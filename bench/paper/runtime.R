# Runtime against n: the papers' figures of SD-KDE, KDE and the Laplace-corrected estimate in 16 dimensions and in one,
# m = n / 8, from host to host (arrays of doubles in and out) and on the device, by this package and others; and the
# share of the machine's peak rate.
#
#   Rscript bench/paper/runtime.R [--size small|full] [--backend auto|cpu|cuda] [--triton PATH] [--only NAMES]
#
# Columns: host, device: seconds (on the CPU, `device` is the engine's time for this package and missing for others);
# queries: the number measured, if fewer than m (host is for all m); error: relative L2 against double precision. flops:
# by the paper's model (section 3: a pair costs 2 d + 12 in a density, 4 d + 12 in a score; in one dimension 14 and 16).
# Its share: of what an H200 reaches in TF32 products (in one dimension in FP32), or of the multiply-adds of this
# processor. Our share: the time of the unit that would be busy longest on its own, over the time taken.

source("bench/paper/common.R")
source("bench/paper/peers.R")
source("bench/paper/flops.R")

sizes <- function() {
  many <- if (full) 2^c(11, 13, 15, 17) else 2^(11:14)
  cases <- rbind(data.frame(d = 16, n = c(many, if (full && on_gpu) 1048576)), data.frame(d = 1, n = 2^c(11, 13, 15, 16)))
  # those of gpu.R, at the rate of a KDE; in one dimension Silverman's of one component
  cases$h <- ifelse(cases$d == 16, round(0.9574 * (cases$n / 32768)^(-1 / 20), 4), common_bandwidth(cases$n, 1))
  cases$m <- cases$n / 8
  cases
}

# What the paper prints, of SD-KDEs on an RTX A6000: seconds of other programs over those of its own.
printed <- utils::read.csv("bench/paper/printed-runtime.csv")
printed <- printed[printed$table == "baseline sweep", ]
over_triton <- function(of) {
  own <- of[of$program == "published Triton", ]
  of$ms / own$ms[match(of$n, own$n)]
}

# ---- utilisation --------------------------------------------------------------------------------------

# Seconds of the busiest unit. The score pass of an SD-KDE is symmetric: each unordered pair is met once, with one
# exponential and one product for the distance, and values are added on both sides.
unit_seconds <- function(rows, peak) {
  pairs <- pairs_of(rows)
  seconds <- vapply(rows$d, \(d) {
    if (!on_gpu) return(c(pair_cost(d, "sum", usual), pair_cost(d, "symmetric score", usual)) / peak)
    density <- 1 / unit_bounds(d, "density", usual)
    score <- 1 / unit_bounds(d, "score", usual)
    c(max(density), max(score[["exponentials"]] / 2, score[["mma"]] - density[["mma"]] / 2))
  }, numeric(2))
  pairs$density * seconds[1, ] + pairs$score * seconds[2, ]
}

# Measured once.
processor_peak <- local({
  peak <- NULL
  \() {
    if (is.null(peak)) peak <<- flashkernel:::fma_peak(0.5)[[usual]]
    peak
  }
})

utilised <- function(rows) {
  peak <- if (on_gpu) NA else processor_peak()
  is_ours <- rows$program == "flashkernel"
  seconds <- ifelse(is.na(rows$device), rows$host, rows$device)
  rows$flops <- paper_flops(rows)
  rows$paper_share <- rows$flops / seconds / if (on_gpu) H200[ifelse(rows$d == 1, "fp32", "tf32")] else 2 * peak
  rows$our_share <- ifelse(is_ours, unit_seconds(rows, peak) / seconds, NA)
  rows
}

# ---- all ----------------------------------------------------------------------------------------------

measure <- function() {
  grid <- sizes()
  rows <- NULL
  add <- function(more) {
    rows <<- rbind(rows, more)
    keep("runtime", utilised(rows))
  }
  cases <- Map(make_case, grid$n, grid$d, grid$m, grid$h, list(ESTIMATORS))
  for (case in cases) for (estimator in ESTIMATORS) {
    add(ours(case, estimator))
    if (on_gpu && case$n <= 32768) add(ours(case, estimator, "cpu", "double", "flashkernel, CPU"))
  }
  for (name in option_values("--only", names(OTHERS))) add(theirs(name, cases, ESTIMATORS))
  for (case in cases) if (case$d == 1) add(by_ks(case))
  forget_cases(cases)
  utilised(rows)
}

rows <- paper_rows("runtime", "Runtime against n, m = n / 8", measure)

PROGRAMS <- c("flashkernel", "published Triton", "KeOps", "torch.compile", "PyTorch", "scikit-learn", "ks",
              "flashkernel, CPU")
TITLES <- c(sdkde = "SD-KDE", kde = "KDE", laplace = "Laplace-corrected")

# Not on_gpu: figures may be drawn elsewhere.
of_gpu <- any(is.finite(rows$device[!startsWith(rows$program, "flashkernel")]))
paper_plot("runtime", height = 1150, width = 1500, draw = \() {
  graphics::par(mfrow = c(2, 3), mar = c(3.6, 4.6, 2, 0.8), oma = c(4.2, 0, 0, 0))
  for (d in c(16, 1)) for (estimator in names(TITLES)) {
    shown <- rows[rows$d == d & rows$estimator == estimator, ]
    shown$host <- 1e3 * shown$host
    shown$device <- 1e3 * shown$device
    present <- intersect(PROGRAMS, shown$program)
    with_printed <- d == 16 && estimator == "sdkde"
    own <- printed[printed$program == "published Triton", ]
    limits <- range(shown$host, if (of_gpu) shown$device, if (with_printed) own$ms, na.rm = TRUE)
    curves(shown, PROGRAMS, "n", "host", by = "program", xlab = "points", ylim = limits,
           ylab = if (of_gpu) "milliseconds (dashed: device)" else "milliseconds",
           main = paste0(TITLES[[estimator]], ", d = ", d))
    if (with_printed) graphics::points(own$n, own$ms, pch = 4)
    colour <- colours_of(PROGRAMS)
    for (name in if (of_gpu) present) {
      its <- shown[shown$program == name, ]
      its <- its[order(its$n), ]
      graphics::lines(its$n, its$device, lty = 2, col = colour[[name]])
    }
  }
  legend_below(PROGRAMS[PROGRAMS %in% rows$program], among = PROGRAMS, crosses = "Flash-SD-KDE, RTX A6000 (paper)",
               ncol = 4)
})

paper_plot("runtime-utilisation", height = 650, draw = \() {
  graphics::par(mfrow = c(1, 2), mar = c(3.6, 4.6, 2, 0.8), oma = c(3, 0, 0, 0))
  for (d in c(16, 1)) {
    shown <- rows[rows$d == d & rows$estimator == "sdkde", ]
    ours <- shown[shown$program == "flashkernel", ]
    ours$program <- "flashkernel, by its units"
    ours$paper_share <- ours$our_share
    both <- rbind(shown, ours)
    both$percent <- 100 * both$paper_share
    names <- c("flashkernel", "flashkernel, by its units", "published Triton", "KeOps", "torch.compile", "PyTorch")
    dashed <- stats::setNames(ifelse(names == "flashkernel, by its units", 2, 1), names) # the two may be one
    most <- max(both$percent[both$program %in% names], na.rm = TRUE)
    curves(both, names, "n", "percent", by = "program", xlab = "points", ylab = "percent of the peak",
           main = paste0("SD-KDE, d = ", d), log = "x", ylim = c(0, most), lty = dashed)
  }
  shown <- names[names %in% c("flashkernel, by its units", rows$program)]
  legend_below(shown, among = names, lty = dashed[shown], ncol = 3)
})

show_table(data.frame(
  program = rows$program, estimator = rows$estimator, d = rows$d, n = format_count(rows$n),
  `host ms` = format_ms(rows$host),
  `device ms` = format_ms(rows$device), error = format_error(rows$error), `paper's share` = sprintf("%.3f",
    rows$paper_share),
  `our share` = ifelse(is.na(rows$our_share), "-", sprintf("%.2f", rows$our_share)), check.names = FALSE
))

# Times the published code takes, here on the device and printed.
here <- rows[rows$d == 16 & rows$estimator == "sdkde" & is.finite(rows$device) & rows$program != "flashkernel, CPU", ]
here$ms <- 1e3 * here$device
if (any(here$program == "published Triton")) {
  here$times <- over_triton(here)
  here$printed <- over_triton(printed)[match(paste(here$program, here$n), paste(printed$program, printed$n))]
  cat("SD-KDE, d = 16: device time over that of the published code, here and as printed for an RTX A6000\n")
  show_table(data.frame(program = here$program, n = format_count(here$n), here = signif(here$times, 3),
                        printed = signif(here$printed, 3)))
}
