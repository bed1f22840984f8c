# The rates at which errors fall with n: theory says n^(-4/(d+4)) for the MISE of a KDE and n^(-8/(d+8)) for that
# of an SD-KDE and of the Laplace-corrected estimate, half of these exponents for the MIAE, each at its best
# bandwidth.
#
#   Rscript bench/paper/rates.R [--size small|full] [--backend cuda] [--draw]
#
# One dimension: the mixture of Flash-SD-KDE's figure, the first of the SD-KDE code, and two of Marron and Wand
# (1992). 16 dimensions: Flash-SD-KDE's first mixture. KDE and Laplace have the constant bandwidth whose exact MISE
# is least; the others, whose MISE has no formula, the best of the mean over samples of seven, about Laplace's.
# `exact`: MISE by formula, which also goes on to n that nobody has, by its slope to where the theory begins to
# hold. Integrals are by a grid in one dimension, in 16 by points from the truth and from the mean of a KDE, as in
# oracle-16d.R. The exponents that are fitted, over all n and by the last two, go to rates-slopes-SIZE.csv.

source("bench/paper/common.R")
source("bench/paper/oracle.R")

sets <- list(
  "paper, d = 1" = PAPER_1D, "SD-KDE 1, d = 1" = SDKDE_1D[[1]], "normal, d = 1" = MARRON_WAND$gaussian,
  "claw, d = 1" = MARRON_WAND$claw, "paper, d = 16" = paper_16d(0)
)
if (!full) sets <- sets[c("paper, d = 1", "normal, d = 1", "paper, d = 16")]
sizes_of <- \(d) if (d == 1) 400 * 4^(0:(if (full) 5 else 3)) else 1000 * 4^(0:(if (full) 5 else 2))
samples_at <- \(n, d) if (d > 1) 3 else if (n > 3e4) 8 else 20
targets <- if (full) 20000 else 4000
factors <- c(0.6, 0.7, 0.85, 1, 1.2, 1.45, 1.7)
estimators <- ESTIMATORS[setdiff(names(ESTIMATORS), "laplace, two passes")]

# ---- measured -------------------------------------------------------------------------------------------

# Errors of one sample, of each estimator at each of its bandwidths `h`, a list; the same points for all.
one_sample <- function(mixture, n, h, seed) {
  set.seed(seed)
  x <- draw_mixture(n, mixture)
  score <- mixture_score(x, mixture)
  line <- mixture$d == 1
  at <- if (line) line_grid(mixture, min(unlist(h))) else drawn_points(mixture, targets, h$laplace, seed + 1e6)
  rows <- Map(\(name, h) {
    found <- lapply(h, \(h) losses(estimators[[name]](x, at$at, h, score), at$truth, at$weight))
    edge <- h %in% range(h) & length(h) > 1
    data.frame(estimator = name, n = n, h = h, at_edge = edge, do.call(rbind, found), seed = seed)
  }, names(h), h)
  do.call(rbind, unname(rows))
}

one_size <- function(mixture, n) {
  exact <- lapply(c(kde = "kde", laplace = "laplace"), \(name) exact_best(mixture, n, name))
  h <- lapply(estimators, \(estimate) exact$laplace[["h"]] * factors)
  h[names(exact)] <- lapply(exact, `[[`, "h")
  seeds <- 1000 * seq_len(samples_at(n, mixture$d)) + round(log2(n))
  samples <- lapply(seeds, \(seed) one_sample(mixture, n, h, seed))
  means <- means_over_samples(do.call(rbind, samples), c("estimator", "n", "h"), "at_edge")
  of_each <- split(means, factor(means$estimator, names(estimators)))
  best <- do.call(rbind, lapply(of_each, \(of) of[which.min(of$mise), ]))
  best$exact <- NA_real_
  best$exact[match(names(exact), best$estimator)] <- vapply(exact, `[[`, 0, "mise")
  best
}

measure <- function() {
  rows <- lapply(names(sets), \(set) {
    cat(set, "\n")
    mixture <- sets[[set]]
    data.frame(set = set, d = mixture$d, do.call(rbind, lapply(sizes_of(mixture$d), \(n) one_size(mixture, n))))
  })
  do.call(rbind, rows)
}

rows <- paper_rows("rates", "Rates at the best bandwidth", measure)

# ---- exponents --------------------------------------------------------------------------------------------

theory <- \(name, d, loss) -(if (name == "kde") 4 / (d + 4) else 8 / (d + 8)) / (if (loss == "miae") 2 else 1)

slope_of <- function(of, loss) {
  line <- fitted_power(of$n, of[[loss]])
  last <- utils::tail(order(of$n), 2)
  step <- log(of$n[last[2]] / of$n[last[1]])
  by_exact <- loss == "mise" && !anyNA(of$exact)
  data.frame(
    of[1, c("set", "d", "estimator")], loss = loss, theory = theory(of$estimator[1], of$d[1], loss),
    fitted = line[["power"]], se = line[["se"]], last_two = diff(log(of[[loss]][last])) / step,
    last_se = sqrt(sum((of[[paste0(loss, "_se")]] / of[[loss]])[last]^2)) / step,
    last_exact = if (by_exact) diff(log(of$exact[last])) / step else NA
  )
}
curve_key <- paste(rows$set, rows$estimator)
slopes <- do.call(rbind, lapply(split(rows, factor(curve_key, unique(curve_key))), \(of) {
  rbind(slope_of(of, "mise"), slope_of(of, "miae"))
}))
slopes <- data.frame(slopes, rows[1, c("date", "machine", "version")], row.names = NULL)
utils::write.csv(slopes, paper_file("rates-slopes", "csv"), row.names = FALSE)
shown <- slopes[setdiff(names(slopes), c("date", "machine", "version"))]
numbers <- vapply(shown, is.double, NA)
shown[numbers] <- round(shown[numbers], 3)
show_table(shown)
cat("best at an end of the seven bandwidths:", sum(rows$at_edge > 0), "of", nrow(rows), "\n\n")

# How the exact exponents come near the theory's: local slopes far beyond any sample.
far <- 10^c(3, 4, 6, 8, 10, 12, 16, 20, 24)
local_slope <- \(mixture, n, name) {
  log(exact_best(mixture, 1.1 * n, name)[["mise"]] / exact_best(mixture, n, name)[["mise"]]) / log(1.1)
}
far_slopes <- vapply(c(kde = "kde", laplace = "laplace"), \(name) {
  vapply(far, \(n) local_slope(paper_16d(0), n, name), 0)
}, far)
cat("exact exponent of the MISE at n, in 16 dimensions\n")
show_table(data.frame(n = far, round(far_slopes, 3)))

# ---- figure -------------------------------------------------------------------------------------------------

names_shown <- names(estimators)
panel <- function(set, loss) {
  of <- rows[rows$set == set, ]
  curves(of, names_shown, "n", loss, paste0(loss, "_se"), ylab = toupper(loss), main = set)
  n <- range(of$n)
  for (name in c("kde", "laplace")) {
    line <- of[of$estimator == name, ]
    last <- which.max(line$n)
    power <- theory(name, of$d[1], loss)
    y <- line[[loss]][last] * (n / line$n[last])^power
    graphics::lines(n, y, lty = 3, lwd = 1.5, col = colours_of(names_shown)[[name]])
  }
}
exponents_panel <- function() {
  plot(NULL, xlim = range(far), ylim = c(-0.35, 0), log = "x", axes = FALSE, xlab = "n", ylab = "",
       main = "paper, d = 16, exact")
  graphics::title(ylab = "exponent of the MISE at n", line = 3.3)
  at <- far[far >= 1e4][c(TRUE, FALSE)]
  graphics::axis(1, at, parse(text = paste0("10^", round(log10(at)))), col = NA, col.ticks = "grey60")
  graphics::axis(2, col = NA, col.ticks = "grey60")
  graphics::box(col = "grey60")
  for (name in colnames(far_slopes)) {
    colour <- colours_of(names_shown)[[name]]
    graphics::lines(far, far_slopes[, name], type = "o", pch = 19, cex = 0.9, lwd = 1.6, col = colour)
    graphics::abline(h = theory(name, 16, "mise"), lty = 3, lwd = 1.5, col = colour)
  }
}

# Dotted: the theory's exponent.
paper_plot("rates", \() {
  graphics::par(mfrow = c(2, 2), mar = c(3.6, 4.6, 2, 0.6), oma = c(2.6, 0, 0, 0), cex = 0.8)
  panel("paper, d = 1", "mise")
  panel("paper, d = 1", "miae")
  panel("paper, d = 16", "mise")
  exponents_panel()
  legend_below(names_shown)
}, height = 1150)
