# Which bandwidth selector should be the default of each estimator? (?bandwidth_default quotes this.)
#
#   Rscript inst/bench/default-bandwidth.R [scale] [outdir]
#
# scale multiplies the number of replicates (1: under 5 minutes on 2 cores; 0.1: a check of the
# script). Writes default-bandwidth.csv (every cell) and default-bandwidth.md (the summary) to outdir,
# by default inst/bench/results. Losses:
#   kl    mean log f - mean log fhat over 1,000 fresh points (nats; for real data - mean log fhat)
#   ise   integral of (fhat - f)^2 over integral of f^2: a grid for d = 1, otherwise importance
#         sampling with 2,000 points from half f, half f widened by 1.5, shared by all selectors
# A Laplace-corrected density below 1/1000 of the plain one counts as that (log of nothing).

library(flashkernel)
# One thread for each of two processes: most problems here are too small to share.
options(flashkernel.progress = FALSE, flashkernel.threads = 1)
cores <- if (.Platform$OS.type == "unix") 2L else 1L
each <- function(X, FUN) parallel::mclapply(X, FUN, mc.cores = cores, mc.preschedule = FALSE)
arguments <- commandArgs(trailingOnly = TRUE)
scale <- if (length(arguments) > 0) as.numeric(arguments[1]) else 1
outdir <- if (length(arguments) > 1) arguments[2] else "inst/bench/results"
started <- Sys.time()

# ---- densities ----------------------------------------------------------------------------------

# A mixture of normals with diagonal variances, one row of `mean` and `sd` per component, in the
# columns of an orthogonal or general `map` (x = z map).
normal_mixture <- function(p, mean, sd, map = diag(ncol(mean))) {
  d <- ncol(mean)
  log_jacobian <- -log(abs(det(map)))
  list(
    d = d,
    draw = function(n, wide = 1) {
      k <- sample.int(length(p), n, replace = TRUE, prob = p)
      (mean[k, , drop = FALSE] + wide * sd[k, , drop = FALSE] * rnorm(n * d)) %*% map
    },
    log_density = function(x, wide = 1) {
      z <- x %*% solve(map)
      parts <- vapply(seq_along(p), function(k) {
        q <- sweep(sweep(z, 2, mean[k, ]), 2, wide * sd[k, ], "/")
        log(p[k]) - rowSums(q^2) / 2 - sum(log(wide * sd[k, ])) - d / 2 * log(2 * pi)
      }, numeric(nrow(x)))
      parts <- matrix(parts, nrow(x))
      top <- apply(parts, 1, max)
      top + log(rowSums(exp(parts - top))) + log_jacobian
    }
  )
}

# Independent columns of one univariate density.
product_density <- function(d, draw1, log1) {
  list(
    d = d,
    draw = function(n, wide = 1) wide * matrix(draw1(n * d), n, d),
    log_density = function(x, wide = 1) {
      rowSums(matrix(log1(x / wide), nrow(x))) - d * log(wide)
    }
  )
}

one_normal <- function(d) normal_mixture(1, matrix(0, 1, d), matrix(1, 1, d))
one_skewed <- function(d) product_density(d, \(n) rgamma(n, 3), \(x) dgamma(x, 3, log = TRUE))
one_heavy <- function(d) product_density(d, \(n) rt(n, 4), \(x) dt(x, 4, log = TRUE))

densities <- function(d) {
  if (d == 1) {
    column <- function(...) matrix(c(...), ncol = 1)
    return(list(
      normal = one_normal(1),
      skewed = one_skewed(1),
      heavy = one_heavy(1),
      bimodal = normal_mixture(c(.5, .5), column(-1, 1), column(2 / 3, 2 / 3)),
      unequal = normal_mixture(c(.4, .6), column(-2, 2), column(.5, 1)),
      claw = normal_mixture(c(.5, rep(.1, 5)), column(0, (0:4) / 2 - 1), column(1, rep(.1, 5)))
    ))
  }
  # correlation 0.7 between neighbours, and columns in units from 1 to 10
  root <- chol(0.7^abs(outer(1:d, 1:d, "-")))
  list(
    normal = one_normal(d),
    skewed = one_skewed(d),
    heavy = one_heavy(d),
    correlated = normal_mixture(
      1, matrix(0, 1, d), matrix(1, 1, d), root %*% diag(10^seq(0, 1, length.out = d))
    ),
    unequal = normal_mixture(
      c(.5, .5), rbind(rep(-1.5, d), rep(1.5, d)), rbind(rep(.5, d), rep(1, d))
    ),
    clusters = normal_mixture(
      rep(.25, 4), 3 * rbind(cos(1:d), sin(2 * (1:d)), -cos(3 * (1:d)), -sin(1:d)),
      rbind(rep(1, d), rep(.5, d), rep(1, d), rep(.7, d))
    )
  )
}

# ---- selectors ------------------------------------------------------------------------------------

robust_sds <- function(x) apply(x, 2, \(column) min(sd(column), IQR(column) / 1.34))

# The choices of the papers' code: see ?bw_silverman.
bw_paper <- function(x, estimator) {
  n <- nrow(x)
  d <- ncol(x)
  if (estimator == "sdkde" && d == 1) return(0.4 * robust_sds(x) * n^(-1 / 9))
  0.9 * mean(robust_sds(x)) * n^(-1 / (d + 4))
}

selectors <- function(estimator, d, n) {
  # the debiased rate for the plain estimate, too: with the constant of the SD-KDE
  debiased <- if (estimator == "kde") "sdkde" else estimator
  few <- n * d <= 8000
  c(
    list(
      "silverman, kde rate" = \(x) bw_silverman(x, "kde"),
      "silverman, debiased rate" = \(x) bw_silverman(x, debiased),
      "scott, kde rate" = \(x) bw_scott(x, "kde"),
      "scott, debiased rate" = \(x) bw_scott(x, debiased),
      "paper" = \(x) bw_paper(x, estimator),
      "lcv scaled" = \(x) bw_lcv(x, estimator, "scaled")
    ),
    if (d == 1) list("nrd0" = bw_nrd0, "sj" = bw_sj),
    if (d > 1) list("lcv sphered" = \(x) bw_lcv(x, estimator, "sphered")),
    if (estimator == "kde") list("lscv scaled" = \(x) bw_lscv(x, structure = "scaled")),
    if (few && d > 1) list("lcv diagonal" = \(x) bw_lcv(x, estimator, "diagonal"))
  )
}

# ---- losses ---------------------------------------------------------------------------------------

fitted_values <- function(x, estimator, bandwidth, at) {
  fit <- flash_kde(x, estimator = estimator, bandwidth = bandwidth)
  log_density <- if (estimator == "laplace") {
    plain <- flash_kde(x, estimator = "kde", bandwidth = bandwidth)
    floor <- predict(plain, at, type = "log_density") + log(1e-3)
    corrected <- suppressWarnings(predict(fit, at, type = "log_density"))
    pmax(corrected, floor, na.rm = TRUE)
  } else {
    predict(fit, at, type = "log_density")
  }
  list(log_density = log_density, density = predict(fit, at, type = "density"))
}

evaluate <- function(truth, n, estimator, selectors, seed) {
  set.seed(seed)
  x <- truth$draw(n)
  test <- truth$draw(1000)
  if (truth$d == 1) {
    z <- matrix(seq(min(test) - 2, max(test) + 2, length.out = 2000))
    weight <- rep(z[2] - z[1], nrow(z))
  } else {
    z <- rbind(truth$draw(1000), truth$draw(1000, 1.5))
    parts <- cbind(truth$log_density(z), truth$log_density(z, 1.5)) + log(.5)
    weight <- 1 / rowSums(exp(parts)) / nrow(z)
  }
  f <- exp(truth$log_density(z))
  entropy <- mean(truth$log_density(test))
  rows <- lapply(names(selectors), function(name) {
    seconds <- system.time(h <- suppressWarnings(selectors[[name]](x)))[["elapsed"]]
    at <- fitted_values(x, estimator, h, rbind(test, z))
    inside <- seq_len(nrow(test))
    data.frame(
      selector = name, kl = entropy - mean(at$log_density[inside]),
      ise = sum(weight * (at$density[-inside] - f)^2) / sum(weight * f^2),
      seconds = seconds, negative = mean(at$density[inside] <= 0)
    )
  })
  do.call(rbind, rows)
}

# ---- simulation -----------------------------------------------------------------------------------

design <- expand.grid(d = c(1, 2, 4, 8, 16), n = c(200, 500, 2000))
design$replicates <- pmax(1, round(scale * c("200" = 4, "500" = 2, "2000" = 1)[as.character(design$n)]))
cells <- do.call(rbind, lapply(seq_len(nrow(design)), function(i) {
  expand.grid(
    row = i, estimator = c("kde", "sdkde", "laplace"), density = names(densities(design$d[i])),
    stringsAsFactors = FALSE
  )
}))
# the long ones first
cells <- cells[order(-design$n[cells$row] * design$d[cells$row]), ]
simulated <- each(seq_len(nrow(cells)), function(k) {
  case <- design[cells$row[k], ]
  estimator <- cells$estimator[k]
  truth <- densities(case$d)[[cells$density[k]]]
  runs <- lapply(seq_len(case$replicates), function(r) {
    evaluate(
      truth, case$n, estimator, selectors(estimator, case$d, case$n), 1000 * cells$row[k] + r
    )
  })
  mean_over <- aggregate(cbind(kl, ise, seconds, negative) ~ selector, do.call(rbind, runs), mean)
  cbind(
    estimator, density = cells$density[k], d = case$d, n = case$n, replicates = case$replicates,
    mean_over
  )
})
simulated <- do.call(rbind, simulated)
message(sprintf("simulation: %.0f s", difftime(Sys.time(), started, units = "secs")))

# ---- real data --------------------------------------------------------------------------------------

# Uniform noise of one rounding step, so that held-out likelihood measures a density and not the
# rounding: without it the smallest bandwidth wins.
dejitter <- function(x) {
  apply(x, 2, function(column) {
    gaps <- diff(sort(unique(column)))
    if (!anyDuplicated(column)) return(column)
    column + min(gaps[gaps > 1e-9 * diff(range(column))]) * runif(length(column), -.5, .5)
  })
}

# Sets of the UCI repository are read from the folder that FLASHKERNEL_DATA names, as name.csv.gz.
read_uci <- function(name) {
  file <- file.path(Sys.getenv("FLASHKERNEL_DATA"), paste0(name, ".csv.gz"))
  if (!file.exists(file)) {
    message("left out: no ", paste0(name, ".csv.gz"))
    return(NULL)
  }
  as.matrix(utils::read.csv(file, header = FALSE))
}

real <- list(
  "faithful eruptions" = as.matrix(faithful[1]),
  "faithful" = as.matrix(faithful),
  "quakes lat, long" = as.matrix(quakes[1:2]),
  "quakes 1-4" = as.matrix(quakes[1:4]),
  "iris" = as.matrix(iris[1:4]),
  "uci_kin40k" = read_uci("uci_kin40k"),
  "uci_concrete" = read_uci("uci_concrete"),
  "uci_airfoil" = read_uci("uci_airfoil")
)
real <- Filter(Negate(is.null), real)

held_out <- each(names(real), function(name) {
  lapply(seq_len(max(1, round(3 * scale))), function(r) {
    set.seed(r)
    x <- dejitter(real[[name]])
    rows <- sample(nrow(x), min(nrow(x), 2500))
    test <- rows[seq_len(round(length(rows) / 5))]
    train <- setdiff(rows, test)
    lapply(c("kde", "sdkde", "laplace"), function(estimator) {
      candidates <- selectors(estimator, ncol(x), length(train))
      do.call(rbind, lapply(names(candidates), function(selector) {
        seconds <- system.time(
          h <- tryCatch(suppressWarnings(candidates[[selector]](x[train, , drop = FALSE])),
            error = \(e) NULL
          )
        )[["elapsed"]]
        if (is.null(h)) return(NULL)
        at <- fitted_values(x[train, , drop = FALSE], estimator, h, x[test, , drop = FALSE])
        data.frame(
          estimator, density = name, d = ncol(x), n = length(train), replicates = r, selector,
          kl = -mean(at$log_density), ise = NA, seconds, negative = mean(at$density <= 0)
        )
      }))
    })
  })
})
held_out <- do.call(rbind, unlist(unlist(held_out, FALSE), FALSE))
held_out <- aggregate(
  cbind(kl, seconds, negative) ~ selector + estimator + density + d + n, held_out, mean
)
held_out <- transform(held_out, replicates = max(1, round(3 * scale)), ise = NA)
message(sprintf("real data: %.0f s", difftime(Sys.time(), started, units = "secs")))

# ---- large n: the rule, or likelihood on a subsample ------------------------------------------------

large <- expand.grid(
  estimator = c("kde", "sdkde", "laplace"), density = c("skewed", "heavy", "unequal"),
  d = c(1, 2, 8), n = if (scale >= 1) 10000 else 4000, stringsAsFactors = FALSE
)
large <- do.call(rbind, each(seq_len(nrow(large)), function(k) {
  case <- large[k, ]
  candidates <- list(
    "silverman" = \(x) bw_silverman(x, case$estimator),
    "lcv, 1000 rows" = \(x) bw_lcv(x, case$estimator, "scaled", rows = 1000),
    "lcv, 2000 rows" = \(x) bw_lcv(x, case$estimator, "scaled", rows = 2000),
    "lcv, all rows" = \(x) bw_lcv(x, case$estimator, "scaled", rows = Inf)
  )
  found <- evaluate(densities(case$d)[[case$density]], case$n, case$estimator, candidates, k)
  cbind(case, replicates = 1, found, row.names = NULL)
}))

# ---- tables -----------------------------------------------------------------------------------------

columns <- c(
  "part", "estimator", "density", "d", "n", "replicates", "selector", "kl", "ise", "seconds", "negative"
)
all <- rbind(
  cbind(part = "simulated", simulated)[columns], cbind(part = "real", held_out)[columns],
  cbind(part = "large", large)[columns]
)
dir.create(outdir, showWarnings = FALSE, recursive = TRUE)
rounded <- transform(all, kl = signif(kl, 5), ise = signif(ise, 5), seconds = round(seconds, 4))
utils::write.csv(rounded, file.path(outdir, "default-bandwidth.csv"), row.names = FALSE)

# Excess over the best selector of the same cell, averaged over cells.
excess <- function(table, loss) {
  cell <- interaction(table$estimator, table$density, table$d, table$n, drop = TRUE)
  best <- ave(table[[loss]], cell, FUN = min)
  if (loss == "ise") table[[loss]] / best else table[[loss]] - best
}

summarise <- function(table) {
  table$excess_kl <- excess(table, "kl")
  table$ratio_ise <- if (anyNA(table$ise)) NA_real_ else excess(table, "ise")
  groups <- split(table, table[c("selector", "estimator")], drop = TRUE)
  rows <- lapply(groups, function(group) {
    data.frame(
      estimator = group$estimator[1], selector = group$selector[1], cells = nrow(group),
      loss = mean(group$kl), excess_kl = mean(group$excess_kl), worst_kl = max(group$excess_kl),
      ratio_ise = exp(mean(log(group$ratio_ise))), worst_ise = max(group$ratio_ise),
      seconds = mean(group$seconds), negative = mean(group$negative)
    )
  })
  rows <- do.call(rbind, rows)
  rows[order(match(rows$estimator, c("kde", "sdkde", "laplace")), rows$excess_kl), ]
}

markdown <- function(table) {
  table <- lapply(table, \(column) if (is.numeric(column)) signif(column, 3) else column)
  table <- as.data.frame(table, check.names = FALSE)
  c(
    paste0("| ", paste(names(table), collapse = " | "), " |"),
    paste0("|", strrep("---|", ncol(table))),
    apply(table, 1, \(row) paste0("| ", paste(trimws(row), collapse = " | "), " |"))
  )
}

info <- backend_info()
writeLines(c(
  "# Bandwidth selectors compared", "",
  paste0(
    "Written by inst/bench/default-bandwidth.R, scale ", scale, ", flashkernel ",
    utils::packageVersion("flashkernel"), ", ", format(Sys.Date()), ", ", info$isa, ", ",
    cores, " processes, ", round(difftime(Sys.time(), started, units = "secs")), " s."
  ), "",
  "kl: loss in nats per point; excess_kl, ratio_ise: against the best selector of each cell (one",
  "density, d, n), mean and worst over cells (geometric mean for ISE); negative: share of test points",
  "with a density <= 0. Only selectors that ran in a cell compete in it.", "",
  "## Simulated, all d and n", "", markdown(summarise(simulated)), "",
  unlist(lapply(c(1, 2, 4, 8, 16), \(d) {
    c(paste0("## Simulated, d = ", d), "", markdown(summarise(simulated[simulated$d == d, ])), "")
  })),
  "## Real data (held out: a fifth)", "", markdown(summarise(held_out)[-(7:8)]), "",
  "## Many points, one replicate", "", markdown(summarise(large)), ""
), file.path(outdir, "default-bandwidth.md"))
message(sprintf("done: %.0f s", difftime(Sys.time(), started, units = "secs")))
