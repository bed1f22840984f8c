# Flash-SD-KDE's figure of the oracle error in one dimension: MISE and MIAE against n of four estimators, here with
# the score known and with score bandwidth h / sqrt(2), too, standard errors over samples, and the negative mass.
#
#   Rscript bench/paper/oracle-1d.R [--size small|full] [--backend cuda] [--draw]
#
# The paper's mixture of three normals, its rule of thumb for h, and its grid: 2,048 points of [-6, 6]. It has
# three samples; small has 100 up to n = 4,096, full 200, up to 262,144. exact: of the best constant h, from the
# formula of Marron and Wand (1992), for n to compare. What the paper prints stands in printed-oracle.csv.

source("bench/paper/common.R")
source("bench/paper/oracle.R")

sizes <- 2^(7:12)
if (full) sizes <- 2^(7:18)
samples <- if (full) 200 else 100
at <- seq(-6, 6, length.out = 2048)
truth <- exp(log_density_mixture(matrix(at), PAPER_1D))
weight <- rep(at[2] - at[1], length(at))

# Fewer samples where n is large: errors there vary less, too.
samples_at <- \(n) if (n <= 4096) samples else max(20, round(samples * 4096 / n))

measure <- function() {
  rows <- list()
  for (seed in seq_len(samples)) {
    set.seed(seed)
    all <- draw_mixture(max(sizes), PAPER_1D)
    for (n in sizes[vapply(sizes, samples_at, 0) >= seed]) {
      x <- all[seq_len(n), ]
      h <- paper_silverman(x)
      score <- mixture_score(x, PAPER_1D)
      for (name in names(ESTIMATORS)) {
        found <- losses(ESTIMATORS[[name]](x, at, h, score), truth, weight)
        rows[[length(rows) + 1]] <- data.frame(estimator = name, n = n, seed = seed, h = h, t(found))
      }
    }
  }
  found <- means_over_samples(do.call(rbind, rows), c("estimator", "n"))
  found$exact_best <- mapply(\(name, n) {
    if (name %in% c("kde", "laplace")) exact_best(PAPER_1D, n, name)[["mise"]] else NA
  }, found$estimator, found$n)
  found
}

rows <- paper_rows("oracle-1d", "Oracle error in one dimension", measure)

# Beside the paper: its curve is a mean of three samples of its own.
show_printed(rows, 1)

shown <- setdiff(names(ESTIMATORS), "laplace, two passes")
paper_plot("oracle-1d", \() {
  graphics::par(mfrow = c(1, 3), mar = c(3.6, 4.6, 2, 0.6), oma = c(2.6, 0, 0, 0))
  for (loss in c("mise", "miae")) {
    curves(rows, shown, "n", loss, paste0(loss, "_se"), ylab = toupper(loss))
    printed_points(1, loss, shown)
  }
  of_laplace <- rows[rows$estimator == "laplace", ]
  curves(of_laplace, shown, "n", "negative", "negative_se", ylab = "negative mass, laplace")
  legend_below(shown, crosses = "printed")
})
