# Flash-SD-KDE's figure of the oracle error in 16 dimensions: MISE and MIAE against n, on its three mixtures of
# eight normals, columns standardised by the sample, its rule of thumb for h.
#
#   Rscript bench/paper/oracle-16d.R [--size small|full] [--backend cuda] [--draw]
#
# points: where integrals are taken. truth: as the paper does, 10,000 draws from the truth f (small: 4,000), the
# mean of |estimate - f| / f. both: half of as many from f, half from the mean of the KDE, of known density, so
# that no weight is above 2 / f: mass of the estimate that lies where f has none counts there. exact: MISE of KDE
# and Laplace by formula, on the same mixtures. `below`: share of draws from the truth at which an estimate is
# negative; "laplace, cut at 0" is what the paper's code takes there, against its text. A sample is one of each
# mixture; standard errors are over these, points drawn anew each time.

source("bench/paper/common.R")
source("bench/paper/oracle.R")

sizes <- if (full) c(3e3, 1e4, 3e4, 1e5, 5e5, 1e6) else c(1e3, 3e3, 1e4, 3e4)
targets <- if (full) 10000 else 4000
samples_at <- \(n) if (!full) 4 else if (n <= 1e5) 8 else 2
mixtures <- lapply(0:2, paper_16d)

one_mixture <- function(mixture, n, seed) {
  set.seed(seed)
  x <- draw_mixture(n, mixture)
  shift <- colMeans(x)
  scale <- apply(x, 2, stats::sd)
  x <- sweep(sweep(x, 2, shift), 2, scale, "/")
  mixture <- standardised(mixture, shift, scale)
  score <- mixture_score(x, mixture)
  h <- paper_silverman(x)
  both <- drawn_points(mixture, targets, h, seed + 1e6)
  alone <- drawn_points(mixture, targets, 0, seed + 2e6)
  values <- lapply(ESTIMATORS, \(estimate) estimate(x, rbind(both$at, alone$at), h, score))
  values[["laplace, cut at 0"]] <- pmax(values$laplace, 0)
  found <- lapply(names(values), \(name) {
    value <- values[[name]]
    first <- seq_along(both$truth)
    of <- rbind(losses(value[first], both$truth, both$weight), losses(value[-first], alone$truth, alone$weight))
    exact <- if (name %in% c("kde", "laplace")) exact_mise(mixture, h, n, name) else NA
    data.frame(estimator = name, points = c("both", "truth"), n = n, h = h, of, below = mean(value[-first] < 0),
               exact = exact, square = overlap(mixture, 0)[1])
  })
  do.call(rbind, found)
}

# A sample: the mean over the three mixtures.
one_sample <- function(n, seed) {
  of <- lapply(seq_along(mixtures), \(k) one_mixture(mixtures[[k]], n, 1000 * seed + 10 * match(n, sizes) + k))
  numbers <- setdiff(names(of[[1]]), c("estimator", "points"))
  of[[1]][numbers] <- Reduce(`+`, lapply(of, `[`, numbers)) / length(of)
  cbind(of[[1]], seed = seed)
}

measure <- function() {
  rows <- NULL
  for (n in sizes) {
    rows <- rbind(rows, do.call(rbind, lapply(seq_len(samples_at(n)), \(seed) one_sample(n, seed))))
    means <- means_over_samples(rows, c("estimator", "points", "n"), c("h", "exact", "square"))
    keep("oracle-16d", means)
  }
  means
}

rows <- paper_rows("oracle-16d", "Oracle error in 16 dimensions", measure)

cat("points as the paper draws them\n")
as_drawn <- rows[rows$points == "truth", ]
show_printed(as_drawn, 16, of = 1)
cat("the same, cut at 0 as in the paper's code\n")
cut <- as_drawn[as_drawn$estimator == "laplace, cut at 0", ]
show_printed(transform(cut, estimator = "laplace"), 16, of = 1)
cat("points from both densities; exact: MISE by formula; square: the integral of f^2\n")
columns <- c("n", "estimator", "h", "mise", "mise_se", "exact", "square", "miae", "miae_se", "negative", "below")
show_table(rows[rows$points == "both", columns])

shown <- setdiff(names(ESTIMATORS), "laplace, two passes")
dashes <- stats::setNames(ifelse(grepl("sqrt", shown), 2, 1), shown)
paper_plot("oracle-16d", \() {
  graphics::par(mfrow = c(1, 3), mar = c(3.6, 4.6, 2, 0.6), oma = c(2.6, 0, 0, 0))
  panel <- function(points, loss, main) {
    of <- rows[rows$points == points, ]
    printed <- printed_rows(16)
    range <- range(of[of$estimator %in% shown, loss], if (points == "truth") printed$value[printed$loss == loss])
    curves(of, shown, "n", loss, paste0(loss, "_se"), ylab = toupper(loss), main = main, ylim = range,
           lty = dashes)
    if (points == "truth") printed_points(16, loss, shown)
  }
  panel("truth", "mise", "points drawn from the truth")
  panel("truth", "miae", "points drawn from the truth")
  panel("both", "miae", "points drawn from both")
  legend_below(shown, dashes, crosses = "printed")
})
