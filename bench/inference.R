# Simulates the coverage of bands, the level of tests, and the distribution of p-values under the null: 2,000 runs a
# cell, so that a share near 0.95 has a standard error of 0.005. All of it takes some hours of one core.
#
#   Rscript bench/inference.R [--save] [--quick] [--only bands|regression|pvalues|tests] [--kinds]
#     [--cells 'FAMILY:N:FIT;...'] [--runs N] [--cores N] [--from N] [--append FILE] [--joined FILE]
#
# --kinds: bands of densities on a support, with categories and of other kernels alone, without the default grid; slow cells
# have half the runs. --cells: these cells alone, with the coverage at each place, too; 'NAME:N:regression' is a cell of
# regressions. --quick: 100 runs. --cores: number of processes that share the runs; each run has its own seed, so the results
# do not depend on it. Cells are written as they are done, the most informative ones first. --from: runs have the seeds after
# this one, and --append adds a line for each cell to a file, so that jobs of some runs each can be joined: --joined prints
# their table, and with --append keeps a line for each cell (results/coverage.csv).

source("bench/common.R")
bench_start("inference.R", "Inference: coverage of bands, p-values of rows, level and power of tests")
runs <- as.integer(option("--runs", if ("--quick" %in% arguments) 100 else 2000))
from <- as.integer(option("--from", 0))
only <- option_values("--only", c("bands", "regression", "pvalues", "tests"))
cores <- as.integer(option("--cores", 1))
chosen <- option("--cells", "")
joins <- !is.null(option("--joined"))
if (nzchar(chosen) || joins) only <- character()
of_kinds <- "--kinds" %in% arguments || nzchar(chosen)
options(flashkernel.threads = 1)

# one() so many times: a vector, or a matrix with a column for each.
simulated <- function(runs, one) {
  found <- parallel::mclapply(from + seq_len(runs), \(i) {
    set.seed(i)
    one()
  }, mc.cores = cores, mc.set.seed = FALSE)
  failed <- Filter(\(value) inherits(value, "try-error"), found)
  if (length(failed) > 0) stop(failed[[1]])
  simplify2array(found)
}

# ---- densities --------------------------------------------------------------------------------

mixture <- function(n) ifelse(stats::runif(n) < 0.6, stats::rnorm(n, -1.2, 0.5), stats::rnorm(n, 1, 0.7))
families <- list(
  normal = list(draw = stats::rnorm, density = stats::dnorm, at = seq(-2.5, 2.5, by = 0.25)),
  t5 = list(draw = \(n) stats::rt(n, 5), density = \(y) stats::dt(y, 5), at = seq(-4, 4, by = 0.4)),
  bimodal = list(
    draw = mixture, density = \(y) 0.6 * stats::dnorm(y, -1.2, 0.5) + 0.4 * stats::dnorm(y, 1, 0.7),
    at = seq(-2.4, 2.6, by = 0.25)
  ),
  "normal, d = 2" = list(
    draw = \(n) matrix(stats::rnorm(2 * n), n), density = \(y) stats::dnorm(y[, 1]) * stats::dnorm(y[, 2]),
    at = as.matrix(expand.grid(seq(-2, 2, by = 0.5), seq(-2, 2, by = 0.5)))
  )
)
fits <- list(
  kde = list("kde", adaptive = FALSE), sdkde = list("sdkde", adaptive = FALSE),
  laplace = list("laplace", adaptive = FALSE), adaptive = list("kde", adaptive = TRUE)
)

# Densities on a support, around a circle, on a polygon and with categories, and kernels without second derivatives.
von_mises <- function(n) { # by rejection
  angle <- stats::runif(12 * n, 0, 2 * pi)
  angle[stats::runif(12 * n) < exp(2 * (cos(angle - 1) - 1))][seq_len(n)]
}
triangle <- rbind(c(0, 0), c(1, 0), c(0, 1))
classes <- function(n) {
  g <- sample(c("u", "v"), n, TRUE, c(0.4, 0.6))
  data.frame(a = stats::rnorm(n, ifelse(g == "u", -0.7, 0.7)), g = factor(g))
}
families <- c(families, list(
  "exponential" = list(draw = stats::rexp, density = stats::dexp, at = seq(0, 3, by = 0.25)),
  "gamma(3)" = list(draw = \(n) stats::rgamma(n, 3), density = \(y) stats::dgamma(y, 3), at = seq(0.5, 7, by = 0.5)),
  "beta(2, 3)" = list(
    draw = \(n) stats::rbeta(n, 2, 3), density = \(y) stats::dbeta(y, 2, 3), at = seq(0.05, 0.95, by = 0.05)
  ),
  "von Mises" = list(
    draw = von_mises, density = \(y) exp(2 * cos(y - 1)) / (2 * pi * besselI(2, 0)), at = seq(0, 2 * pi, by = 0.4)
  ),
  "triangle" = list( # the density of the first two of three shares
    draw = \(n) {
      e <- matrix(stats::rgamma(3 * n, rep(c(2, 1, 1), each = n)), n)
      e[, 1:2] / rowSums(e)
    },
    density = \(y) 6 * y[, 1] * (rowSums(y) <= 1),
    at = as.matrix(expand.grid(seq(0.1, 0.7, by = 0.15), seq(0.1, 0.7, by = 0.15)))
  ),
  "classes" = list(
    draw = classes,
    density = \(y) ifelse(y$g == "u", 0.4 * stats::dnorm(y$a, -0.7), 0.6 * stats::dnorm(y$a, 0.7)),
    at = expand.grid(a = seq(-2, 2, by = 0.5), g = factor(c("u", "v")))
  ),
  "y given x" = list(
    draw = \(n) within(data.frame(x = stats::rnorm(n)), y <- sin(x) + stats::rnorm(n, sd = 0.5)),
    density = \(at) stats::dnorm(at$y, sin(at$x), 0.5),
    at = within(expand.grid(x = c(-1, 0, 1), y = seq(-1, 1, by = 0.25)), y <- y + sin(x))
  )
))
families$triangle$at <- families$triangle$at[rowSums(families$triangle$at) <= 0.9, ]
# densities with a slope at a bound, at and near it
families <- c(families, list(
  "gamma(2)" = list(
    draw = \(n) stats::rgamma(n, 2), density = \(y) stats::dgamma(y, 2), at = c(0, 0.1, 0.2, 0.3, 0.5, 1, 2, 4)
  ),
  "beta(1, 2)" = list(
    draw = \(n) stats::rbeta(n, 1, 2), density = \(y) stats::dbeta(y, 1, 2),
    at = c(0, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 1)
  ),
  "exponential, d = 2" = list(
    draw = \(n) matrix(stats::rexp(2 * n), n), density = \(y) exp(-rowSums(y)),
    at = as.matrix(expand.grid(c(0, 0.1, 0.3, 1), c(0, 0.3, 1)))
  ),
  "triangle, sides" = replace(families$triangle, "at", list(rbind(
    c(0, 0), c(0, 0.3), c(0.01, 0.5), c(0.3, 0), c(0.7, 0), c(1, 0), c(0, 1), c(0.5, 0.5), c(0.2, 0.75), c(0.9, 0.05)
  )))
))
inside <- \(method, estimator = "kde", ..., range = c(0, Inf)) list(estimator, support = kde_support(range, method), ...)
fits <- c(fits, list(
  default = list(), boundary = inside("boundary"), mass = inside("mass"),
  "share, mass" = inside("mass", range = c(0, 1)), local = inside("local"), reflect = inside("reflect"),
  "reflect, adaptive" = inside("reflect", adaptive = TRUE), "reflect, sdkde" = inside("reflect", "sdkde"),
  transform = inside("transform"), "transform, adaptive" = inside("transform", adaptive = TRUE),
  "transform, sdkde" = inside("transform", "sdkde"), share = list("kde", support = c(0, 1)), circle = list("kde", support = kde_circle()),
  polygon = list("kde", support = triangle), mixed = list("kde"), biweight = list("kde", kernel = "biweight"),
  epanechnikov = list("kde", kernel = "epanechnikov"),
  "2 steps" = list("sdkde", debias = debiasing(steps = 2))
))

# ---- bands ------------------------------------------------------------------------------------

band_cell <- function(family, n, fit, runs) {
  of <- families[[family]]
  truth <- of$density(of$at)
  covered <- function(b) b$lower <= truth & b$upper >= truth
  one <- function() {
    drawn <- of$draw(n)
    given <- fit == "given"
    object <- if (given) flash_kde(y ~ x, drawn) else do.call(flash_kde, c(list(drawn), fits[[fit]]))
    pointwise <- kde_bands(object, of$at)
    plain <- kde_bands(object, of$at, correct = FALSE)
    all <- kde_bands(object, of$at, type = "simultaneous", replicates = 200)
    on_grid <- function() {
      grid <- kde_bands(object, type = "simultaneous", replicates = 200)
      there <- grid[seq_len(NCOL(of$at))]
      true_there <- of$density(if (is.data.frame(of$at)) there else drop(as.matrix(there)))
      all(grid$lower <= true_there & grid$upper >= true_there)
    }
    c(
      uncorrected = mean(covered(plain)), simultaneous = all(covered(all)),
      grid = if (of_kinds || given) NA else on_grid(),
      length = mean(pointwise$upper - pointwise$lower), covered(pointwise)
    )
  }
  found <- rowMeans(simulated(runs, one))
  append_line(family, n, fit, runs, found)
  band_row(family, n, fit, runs, found)
}

# A line of --append: means over the runs.
append_line <- function(family, n, fit, runs, found) {
  line <- paste(c(family, n, fit, from, runs, sprintf("%.12g", found)), collapse = ";")
  if (!is.null(option("--append"))) cat(line, "\n", sep = "", file = option("--append"), append = TRUE)
}

band_row <- function(family, n, fit, runs, found) {
  places <- found[-(1:4)]
  data.frame(
    density = family, n = n, fit = fit, runs = runs, pointwise = mean(places), worst_place = min(places),
    uncorrected = found[[1]], simultaneous = found[[2]], grid = found[[3]], length = found[[4]],
    by_place = I(list(places))
  )
}

print_band <- function(row) {
  cat(sprintf("%-18s %5d %-11s %5d %9.3f %6.3f %11.3f %12.3f %5.3f %8.4f\n", row$density, row$n, row$fit, row$runs,
    row$pointwise, row$worst_place, row$uncorrected, row$simultaneous, row$grid, row$length))
  if (joins || nzchar(chosen)) cat("  by place:", sprintf("%.3f", row$by_place[[1]]), "\n")
}

print_regression <- function(name, n, runs, found) {
  cat(sprintf("%-15s %5d %5d", name, n, runs), sprintf("%9.3f", found), "\n")
}

# Means of the runs of all jobs of --append, each job once.
print_joined <- function(file) {
  parts <- strsplit(readLines(file), ";", fixed = TRUE)
  cell <- vapply(parts, \(p) paste(p[1:3], collapse = ";"), "")
  for (one in unique(cell)) {
    own <- unique(parts[cell == one])
    own <- own[!duplicated(vapply(own, `[`, "", 4))]
    runs <- as.integer(vapply(own, `[`, "", 5))
    found <- drop(vapply(own, \(p) utils::type.convert(p[-(1:5)], as.is = TRUE), numeric(length(own[[1]]) - 5)) %*% runs) / sum(runs)
    of <- own[[1]][1:3]
    append_line(of[1], of[2], of[3], sum(runs), found)
    if (of[3] == "regression") print_regression(of[1], as.integer(of[2]), sum(runs), found) else {
      print_band(band_row(of[1], as.integer(of[2]), of[3], sum(runs), found))
    }
  }
}

if ("bands" %in% only) {
  cat("Bands, level 0.95, bandwidth by default: share of runs that hold the density. Pointwise: on average over\n",
    "places, at the worst one, and without the correction; simultaneous at all places, and on the default grid\n",
    "over the range of the data (200 replicates)\n\n",
    sep = "")
  heads <- c("density", "n", "fit", "runs", "pointwise", "worst", "uncorrected", "simultaneous", "grid", "length")
  cat(do.call(sprintf, c("%-18s %5s %-11s %5s %9s %6s %11s %12s %5s %8s\n", as.list(heads))))
  cells <- rbind(
    expand.grid(fit = names(fits)[1:4], n = 200, family = c("normal", "t5"), stringsAsFactors = FALSE),
    expand.grid(fit = names(fits)[1:4], n = 1000, family = "normal", stringsAsFactors = FALSE),
    expand.grid(fit = c("kde", "sdkde"), n = c(200, 1000), family = "bimodal", stringsAsFactors = FALSE),
    expand.grid(fit = c("kde", "sdkde"), n = 500, family = "normal, d = 2", stringsAsFactors = FALSE)
  )
  of_kind <- \(family, ...) expand.grid(fit = c(...), n = 500, family = family, stringsAsFactors = FALSE)
  kinds <- rbind(
    of_kind("exponential", "boundary", "reflect", "mass"), of_kind("gamma(2)", "boundary", "reflect", "mass"),
    of_kind("beta(1, 2)", "share, mass"), of_kind("exponential, d = 2", "reflect"),
    of_kind("triangle, sides", "polygon"),
    of_kind("gamma(3)", "boundary", "local", "reflect", "transform"),
    of_kind("beta(2, 3)", "share"), of_kind("von Mises", "circle"), of_kind("triangle", "polygon"),
    of_kind("classes", "mixed"), of_kind("y given x", "given"), of_kind("normal", "biweight", "epanechnikov", "2 steps")
  )
  cells <- if (of_kinds) kinds else rbind(cells, kinds)
  for (i in seq_len(nrow(cells))) {
    some <- if (of_kinds && cells$fit[i] %in% c("share", "polygon", "local", "circle")) runs %/% 2 else runs
    print_band(band_cell(cells$family[i], cells$n[i], cells$fit[i], some))
  }
  cat("\n")
}

# ---- regressions ------------------------------------------------------------------------------

# name = list(x, mean, sd): draws of the variables, the mean of the response and the deviation of its noise.
unit <- \(n) data.frame(a = stats::runif(n))
regressions <- list(
  line = list(x = unit, mean = \(x) 2 * x$a, sd = \(x) 0.5),
  wave = list(x = unit, mean = \(x) sin(2 * pi * x$a), sd = \(x) 0.3),
  bump = list(x = unit, mean = \(x) x$a + 2 * exp(-200 * (x$a - 0.5)^2), sd = \(x) 0.3),
  "wave, sd grows" = list(x = unit, mean = \(x) sin(2 * pi * x$a), sd = \(x) 0.1 + 0.5 * x$a),
  "two columns" = list(
    x = \(n) cbind(unit(n), b = stats::rnorm(n)), mean = \(x) sin(2 * pi * x$a) + x$b, sd = \(x) 0.3
  ),
  "column, factor" = list(
    x = \(n) cbind(unit(n), b = factor(sample(letters[1:3], n, TRUE))),
    mean = \(x) sin(3 * x$a) + as.integer(x$b), sd = \(x) 0.3
  ),
  doppler = list(x = unit, mean = \(x) sqrt(x$a * (1 - x$a)) * sin(2.6 * pi / (x$a + 0.35)), sd = \(x) 0.15),
  step = list(x = unit, mean = \(x) stats::plogis(40 * (x$a - 0.4)), sd = \(x) 0.2),
  hinge = list(x = unit, mean = \(x) 5 * pmax(x$a - 0.6, 0), sd = \(x) 0.3),
  "fading wave" = list(x = unit, mean = \(x) cos(4 * pi * x$a) * exp(-x$a), sd = \(x) 0.2),
  # the rule of standard errors was not chosen on these
  parabola = list(x = unit, mean = \(x) 4 * (x$a - 0.5)^2, sd = \(x) 0.2),
  growth = list(x = unit, mean = \(x) exp(3 * x$a) / 5, sd = \(x) 0.4),
  runge = list(x = unit, mean = \(x) 1 / (1 + 25 * (2 * x$a - 1)^2), sd = \(x) 0.15),
  kinks = list(x = unit, mean = \(x) abs(sin(3 * pi * x$a)), sd = \(x) 0.2),
  root = list(x = unit, mean = \(x) sqrt(x$a), sd = \(x) 0.1),
  product = list(x = \(n) cbind(unit(n), b = stats::rnorm(n)), mean = \(x) sin(2 * pi * x$a) * x$b, sd = \(x) 0.3),
  bowl = list(
    x = \(n) cbind(unit(n), b = stats::runif(n)), mean = \(x) 4 * (x$a - 0.5)^2 + cos(3 * x$b), sd = \(x) 0.2
  ),
  phases = list(
    x = \(n) cbind(unit(n), b = factor(sample(letters[1:3], n, TRUE))),
    mean = \(x) sin(2 * pi * x$a + as.integer(x$b)), sd = \(x) 0.3
  )
)

# Coverage of pointwise intervals inside and at the ends of the first column, and how often the extrapolation warning is
# given for one new row, and for one ten times as far from the middle.
regression_cell <- function(name, n) {
  of <- regressions[[name]]
  warned <- \(fit, row) {
    tryCatch({ stats::predict(fit, row); 0 }, flashkernel_warning_extrapolated = \(w) 1)
  }
  one <- function() {
    x <- of$x(n)
    fit <- kernel_regression(y ~ ., cbind(x, y = of$mean(x) + of$sd(x) * stats::rnorm(n)))
    at <- of$x(22)
    new <- at[1:20, , drop = FALSE]
    at$a <- c(stats::runif(20, 0.1, 0.9), 0, 1)
    b <- suppressWarnings(stats::predict(fit, at, interval = "confidence"))
    covered <- b[, "lwr"] <= of$mean(at) & b[, "upr"] >= of$mean(at)
    far <- new
    far$a <- 0.5 + 10 * sign(far$a - 0.5)
    rows <- \(data) mean(vapply(seq_len(nrow(data)), \(i) warned(fit, data[i, , drop = FALSE]), 0))
    c(
      mean(covered[1:20]), mean(covered[21:22]), mean(b[1:20, "upr"] - b[1:20, "lwr"]), rows(new),
      rows(far[1:5, , drop = FALSE])
    )
  }
  found <- rowMeans(simulated(runs, one))
  append_line(name, n, "regression", runs, found)
  print_regression(name, n, runs, found)
}

if ("regression" %in% only) {
  cat("Intervals of the mean of kernel_regression(), level 0.95, bandwidth by default: shares of runs that hold the\n",
    "mean, inside and at the ends; length; and how often a new row, and a row far away, are called extrapolated\n\n",
    sep = "")
  cat("regression          n  runs    inside      ends    length  new rows       far\n")
  for (n in c(100, 400)) for (name in names(regressions)) regression_cell(name, n)
  cat("\n")
}

# ---- chosen cells, and joined jobs -------------------------------------------------------------

if (nzchar(chosen)) for (cell in strsplit(strsplit(chosen, ";")[[1]], ":")) {
  n <- as.integer(cell[2])
  if (cell[3] == "regression") regression_cell(cell[1], n) else print_band(band_cell(cell[1], n, cell[3], runs))
}
if (joins) print_joined(option("--joined"))

# ---- p-values ---------------------------------------------------------------------------------

if ("pvalues" %in% only) {
  cat("p-values of a new row, n = 100, SD-KDE by silverman: share at most 0.01, 0.05, 0.1, 0.5\n\n")
  for (d in c(1, 2, 5)) for (family in c("normal", "t3")) {
    draw <- \(n) matrix(if (family == "normal") stats::rnorm(n * d) else stats::rt(n * d, 3), n)
    one <- function() {
      x <- draw(201)
      fit <- flash_kde(x[1:100, , drop = FALSE], "sdkde", bandwidth = "silverman")
      at <- x[201, , drop = FALSE]
      c(
        rank = kde_pvalue(fit, at),
        calibrated = kde_pvalue(fit, at, calibration = x[101:200, , drop = FALSE]),
        integral = kde_pvalue(fit, at, type = "integral", n_samples = 1000)
      )
    }
    p <- simulated(runs, one)
    for (type in rownames(p)) {
      shares <- vapply(c(0.01, 0.05, 0.1, 0.5), \(level) mean(p[type, ] <= level), 0)
      shares <- paste(sprintf("%.3f", shares), collapse = "  ")
      cat(sprintf("d = %d %-7s %-11s %5d  %s\n", d, family, type, runs, shares))
    }
  }
  cat("\n")
}

# ---- tests ------------------------------------------------------------------------------------

rejects <- function(label, runs, p_of) {
  p <- simulated(runs, p_of)
  cat(sprintf("%-62s %5d  %.3f  %.3f\n", label, runs, mean(p <= 0.05), mean(p <= 0.1)))
}

if ("tests" %in% only) {
  cat("Tests: share of p-values at most 0.05 and 0.1, 199 replicates\n\n")
  truth_of <- \(shift) if (shift == 0) "null" else "means 0.5 apart"
  normal <- \(n, d, shift = 0) matrix(stats::rnorm(n * d), n) + shift
  for (d in c(1, 2, 5)) for (shift in c(0, 0.5)) for (method in c("permutation", "asymptotic")) {
    p_of <- \() kde_test(normal(50, d), normal(60, d, shift), method = method, replicates = 199)$p.value
    rejects(paste0("kde_test, ", method, ", d = ", d, ", n = 50 + 60, ", truth_of(shift)), runs, p_of)
  }
  for (d in c(1, 2)) for (shift in c(0, 0.5)) for (variance in c("sums", "leading")) {
    least <- \() min(kde_test(normal(50, d), normal(60, d, shift), method = "local", variance = variance)$p.adjusted)
    label <- paste0("kde_test, local, ", variance, ", d = ", d, ", n = 50 + 60, anywhere, ", truth_of(shift))
    rejects(label, runs, least)
  }
  weighted <- \(x, y, ...) kde_test(x, y, ..., replicates = 199)$p.value
  rejects("kde_test, permutation, n = 50 + 200, weights of x alone, null", runs,
    \() weighted(stats::rnorm(50), stats::rnorm(200), weights_x = stats::rexp(50)))
  rejects("kde_test, permutation, n = 60 + 60, importance weights, null", runs, \() {
    x <- stats::rnorm(60, 0.7)
    weighted(x, stats::rnorm(60), weights_x = exp(-0.7 * x))
  })
  if (requireNamespace("ks", quietly = TRUE)) for (d in c(1, 2)) for (shift in c(0, 0.5)) {
    peer <- \() ks::kde.test(drop(normal(50, d)), drop(normal(60, d, shift)))$pvalue
    label <- paste0("ks::kde.test, d = ", d, ", n = 50 + 60, ", truth_of(shift))
    rejects(label, min(runs, if (d == 1) 500 else 100), peer)
  }
  for (d in c(1, 2)) {
    rejects(paste0("kde_test, normal estimated, d = ", d, ", n = 50, null"), runs %/% 2,
      \() kde_test(normal(50, d) * 3 + 1, "norm", replicates = 199)$p.value)
    rejects(paste0("kde_test, normal estimated, d = ", d, ", n = 50, t with 3 df"), runs %/% 4,
      \() kde_test(matrix(stats::rt(50 * d, 3), 50), "norm", replicates = 199)$p.value)
  }
  rejects("kde_test, normal estimated, d = 1, n = 50, weights, null", runs %/% 2,
    \() kde_test(stats::rnorm(50), "norm", weights_x = stats::rexp(50), replicates = 199)$p.value)
  rejects("kde_test, exponential estimated, n = 50, null", runs %/% 4,
    \() kde_test(stats::rexp(50, 2), "exp", estimate = \(x) list(rate = 1 / mean(x)), replicates = 199)$p.value)
  rejects("kde_test, exponential estimated, n = 50, gamma with shape 2", runs %/% 8,
    \() kde_test(stats::rgamma(50, 2), "exp", estimate = \(x) list(rate = 1 / mean(x)), replicates = 199)$p.value)
}
