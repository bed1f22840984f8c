# Precision against speed, the paper's Pareto figure: error of the densities and pairs of points per second, in all
# precisions of this package, with and without tensor cores, and of other programs; and streamed sums with and without
# tensor cores against n (the papers' ablation).
#
#   Rscript bench/paper/precision.R [--size small|full] [--backend auto|cpu|cuda] [--triton PATH]
#
# d = 16, m = n / 8. pairs: those of the definition, n m, and n^2 more for an SD-KDE; seconds: of the engine (this
# package), of the device, or on the CPU from host to host. Errors are relative L2 at 64 queries against sums in R in
# double precision over points that the double engine debiased. "plain FP32": without tensor cores
# (FLASHKERNEL_CUDA_METHOD=difference).

source("bench/paper/common.R")
source("bench/paper/peers.R")

# How this package can be asked to compute.
ways <- function() {
  ways <- data.frame(program = paste("flashkernel,", c("double", "single", "fast")), precision = c("double",
    "single", "fast"), method = "")
  if (!on_gpu) return(ways[1:2, ])
  plain <- data.frame(program = "flashkernel, plain FP32", precision = "single", method = "difference")
  rbind(ways, plain)
}

with_method <- function(method, task) {
  Sys.setenv(FLASHKERNEL_CUDA_METHOD = method)
  on.exit(Sys.unsetenv("FLASHKERNEL_CUDA_METHOD"))
  task()
}

# By the definition, of densities that the engine debiased in double.
in_r <- function(case, estimator, queries) {
  fit <- fit_case(case$points, estimator, case$h, where, "double")
  x <- if (estimator == "sdkde") fit$debiased else case$points$x
  d <- ncol(x)
  apply(case$points$y[queries, ], 1, \(at) {
    q <- colSums((t(x) - at)^2) / case$h^2
    sum(exp(-q / 2) * if (estimator == "laplace") 1 + d / 2 - q / 2 else 1) / (nrow(x) * (sqrt(2 * pi) * case$h)^d)
  })
}

measure_case <- function(case) {
  queries <- seq_len(64)
  do.call(rbind, lapply(ESTIMATORS, \(estimator) {
    truth <- in_r(case, estimator, queries)
    mine <- ways()
    do.call(rbind, lapply(seq_len(nrow(mine)), \(i) with_method(mine$method[i], \() {
      density <- density_of(case$points, estimator, case$h, where, mine$precision[i])
      seconds <- engine_seconds(case, estimator, where, mine$precision[i])
      row_of(case, mine$program[i], estimator, NA, seconds, relative_l2(density[queries], truth))
    })))
  }))
}

measure <- function() {
  sizes <- if (full) 2^c(11, 13, 15, 16) else 2^(11:14)
  others <- OTHERS[c("PyTorch", "published Triton")]
  if (on_gpu) others <- c(others, list("PyTorch, TF32" = "eager-tf32", "published Triton, FP32" = triton("-fp32")))
  cases <- lapply(sizes, \(n) make_case(n, 16, n / 8, 0.9574 * (n / 32768)^(-1 / 20), ESTIMATORS))
  rows <- do.call(rbind, lapply(cases, measure_case))
  for (name in names(others)) {
    variant <- !name %in% c("PyTorch", "published Triton") # of SD-KDE alone, for half a minute in all
    estimators <- if (variant) "sdkde" else ESTIMATORS
    rows <- rbind(rows, theirs(name, cases, estimators, others, seconds = if (variant) 6 else 9))
    keep("precision", rated(rows))
  }
  forget_cases(cases)
  rated(rows)
}

rated <- function(rows) {
  seconds <- ifelse(is.na(rows$device), rows$host, rows$device)
  rows$pairs_per_second <- (rows$n * rows$m + ifelse(rows$estimator == "sdkde", rows$n^2, 0)) / seconds
  rows
}

rows <- paper_rows("precision", "Precision against speed, d = 16", measure)

PROGRAMS <- c("flashkernel, double", "flashkernel, single", "flashkernel, fast", "flashkernel, plain FP32", "PyTorch",
              "PyTorch, TF32", "published Triton", "published Triton, FP32")
present <- PROGRAMS[PROGRAMS %in% rows$program[is.finite(rows$pairs_per_second)]]
marks <- stats::setNames(ifelse(PROGRAMS == "flashkernel, fast", 0, 19), PROGRAMS) # may lie over "single"
TITLES <- c(sdkde = "SD-KDE", kde = "KDE", laplace = "Laplace-corrected")

paper_plot("precision", height = 700, draw = \() {
  graphics::par(mfrow = c(1, 3), mar = c(3.6, 4.6, 2, 0.8), oma = c(4, 0, 0, 0))
  for (estimator in names(TITLES)) {
    shown <- rows[rows$estimator == estimator & is.finite(rows$pairs_per_second), ]
    # the most points that most programs have got to
    programs <- table(shown$n)
    shown <- shown[shown$n == max(as.numeric(names(programs)[programs == max(programs)])), ]
    shown$error <- pmax(shown$error, 1e-16)
    curves(shown, PROGRAMS, "pairs_per_second", "error", by = "program", xlab = "pairs of points a second",
           ylab = "relative L2 error",
           main = paste0(TITLES[[estimator]], ", n = ", format_count(shown$n[1])), pch = marks)
  }
  legend_below(present, among = PROGRAMS, pch = marks[present], lty = 0, ncol = 4)
})

if (any(rows$program == "flashkernel, plain FP32")) paper_plot("tensor-cores", height = 650, draw = \() {
  graphics::par(mfrow = c(1, 2), mar = c(3.6, 4.6, 2, 0.8), oma = c(3, 0, 0, 0))
  of <- rows[rows$estimator == "sdkde", ]
  of$ms <- 1e3 * ifelse(is.na(of$device), of$host, of$device)
  four <- c("flashkernel, single", "flashkernel, plain FP32", "published Triton", "published Triton, FP32")
  curves(of, four, "n", "ms", by = "program", xlab = "points", ylab = "milliseconds on the device",
         main = "SD-KDE, d = 16")
  gain <- \(fast, plain) {
    with <- of[of$program == fast, ]
    without <- of[of$program == plain, ]
    with$gain <- without$ms[match(with$n, without$n)] / with$ms
    with
  }
  both <- rbind(gain(four[1], four[2]), gain(four[3], four[4]))
  curves(both, four, "n", "gain", by = "program", xlab = "points", ylab = "times faster by tensor cores",
         main = "Gain",
         log = "x", ylim = c(0, max(both$gain, na.rm = TRUE)))
  legend_below(four[four %in% of$program], among = four, ncol = 2)
})

show_table(data.frame(
  program = rows$program, estimator = rows$estimator, n = format_count(rows$n),
  ms = format_ms(ifelse(is.na(rows$device), rows$host, rows$device)),
  `pairs per second` = format_rate(rows$pairs_per_second),
  error = format_error(rows$error), why = rows$why, check.names = FALSE
))
