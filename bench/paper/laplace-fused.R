# The Laplace-corrected estimate in one pass (fused) and in two passes, as in figure 4 of the Flash-SD-KDE paper in one
# dimension, and in 16: seconds, and a check that both give the same estimate.
#
#   Rscript bench/paper/laplace-fused.R [--size small|full] [--backend auto|cpu|cuda] [--triton PATH]
#
# Two passes: the plain sums of the kernels k, then the sums of k x and k |x|^2, from which the correction is computed
# with ordinary sums. In PyTorch, and in the published code, whose second pass is PyTorch: the density, then the sums of
# the kernels times q. The paper's claim: the fused version is faster at all n, and is another implementation, not
# another estimator.

source("bench/paper/common.R")
source("bench/paper/peers.R")

two_passes <- function(points, h) {
  x <- points$x
  y <- points$y
  d <- ncol(x)
  sums <- \(b) kernel_sum(x, y, b, bandwidth = h, control = flash_control(backend = where, precision = usual), tol = 0)
  plain <- sums(NULL)
  moments <- sums(cbind(x, rowSums(x^2)))
  q <- (rowSums(y^2) * plain - 2 * rowSums(y * moments[, seq_len(d), drop = FALSE]) + moments[, d + 1]) / h^2
  ((1 + d / 2) * plain - q / 2) / (nrow(x) * (sqrt(2 * pi) * h)^d)
}

fused <- function(points, h) density_of(points, "laplace", h, where, usual)

measure <- function() {
  sizes <- if (full) 2^c(11, 13, 15, 17) else 2^(11:14)
  others <- c(
    OTHERS[c("PyTorch", "published Triton")],
    list("PyTorch, two passes" = "two-passes", "published Triton, two passes" = triton("-two-passes"))
  )
  grid <- expand.grid(d = c(1, 16), n = sizes) # small n first, should the time not do
  h <- ifelse(grid$d == 16, 0.9574 * (grid$n / 32768)^(-1 / 20), common_bandwidth(grid$n, 1))
  cases <- Map(make_case, grid$n, grid$d, grid$n / 8, h, "laplace")
  rows <- NULL
  for (case in cases) for (way in c("fused", "two passes")) {
    task <- list(fused = fused, `two passes` = two_passes)[[way]]
    seconds <- median_seconds(case$points, \(p) task(p, case$h), budget = if (full) 0.2 else 0.5)
    error <- relative_l2(task(case$points, case$h), case$truth$laplace)
    rows <- rbind(rows, row_of(case, paste0("flashkernel, ", way), "laplace", seconds, NA, error))
  }
  for (name in names(others)) {
    rows <- rbind(rows, theirs(name, cases, "laplace", others, seconds = 7))
    keep("laplace-fused", rows)
  }
  forget_cases(cases)
  rows
}

rows <- paper_rows("laplace-fused", "The Laplace correction in one pass and in two", measure)

PROGRAMS <- c("flashkernel, fused", "flashkernel, two passes", "PyTorch", "PyTorch, two passes", "published Triton",
              "published Triton, two passes")
ratios <- function(d) {
  ours <- rows[rows$d == d, ]
  two <- ours[ours$program == "flashkernel, two passes", ]
  two$ratio <- two$host / ours$host[ours$program == "flashkernel, fused"][match(two$n,
    ours$n[ours$program == "flashkernel, fused"])]
  two
}

paper_plot("laplace-fused", height = 650, draw = \() {
  graphics::par(mfrow = c(1, 3), mar = c(3.6, 4.6, 2, 0.8), oma = c(3, 0, 0, 0))
  rows$ms <- 1e3 * rows$host
  for (d in c(1, 16)) {
    curves(rows[rows$d == d, ], PROGRAMS, "n", "ms", by = "program", xlab = "points",
           ylab = "milliseconds, host to host",
           main = paste("d =", d))
  }
  both <- rbind(ratios(1), ratios(16))
  both$dimension <- paste("d =", both$d)
  curves(both, c("d = 1", "d = 16"), "n", "ratio", by = "dimension", xlab = "points", ylab = "two passes / fused",
         main = "Speedup",
         log = "x", ylim = c(0, max(both$ratio)))
  graphics::abline(h = 1, lty = 3)
  graphics::legend("bottomright", c("d = 1", "d = 16"), col = colours_of(c("d = 1", "d = 16")), pch = 19, lty = 1,
                   bty = "n")
  legend_below(PROGRAMS[PROGRAMS %in% rows$program], among = PROGRAMS, ncol = 3)
})

show_table(data.frame(
  program = rows$program, d = rows$d, n = format_count(rows$n), ms = format_ms(rows$host),
  error = format_error(rows$error)
))
