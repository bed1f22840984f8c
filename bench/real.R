# Exact sums on the CPU that may skip pairs that are too far apart to matter: seconds with and without skipping, on real
# data and on points far from the origin, and whether results change.
#
#   Rscript bench/real.R [--only NAMES] [--factors 0.333,1,3] [--n 1e6] [--threads 2] [--rows 1000]
#                             [--peers] [--quick]
#
# Leave-one-out densities at all points, and the fit of an SD-KDE, at the default bandwidth times each factor. share:
# the share of pairs that a sum at all points computed. error: the largest error of `rows` densities compared with all
# pairs in R; changed: of all rows compared with all pairs in this package. --peers: also scikit-learn's KernelDensity
# with its tree (rtol = 1e-8) and ks, on as many points as finish in a minute. --quick: data sets of up to 20,000 rows,
# simulated sets of 20,000, 50 rows. Writes results/real.csv.

source("bench/common.R")
bench_start("real.R", "Exact sums that leave out what cannot matter")

quick <- "--quick" %in% arguments
factors <- as.numeric(option_values("--factors", if (quick) "1" else c("0.333", "1", "3")))
n <- as.numeric(option("--n", if (quick) "20000" else "1e6"))
threads <- as.integer(option("--threads", "2"))
n_rows <- as.integer(option("--rows", if (quick) "50" else "1000"))

# ---- points -----------------------------------------------------------------------------------

drawn <- function(d, draw) \() matrix(draw(n * d), n)
generators <- list(
  uniform2 = drawn(2, stats::runif), uniform3 = drawn(3, stats::runif), normal2 = drawn(2, stats::rnorm),
  normal3 = drawn(3, stats::rnorm), t2 = drawn(3, \(k) stats::rt(k, 2)), cauchy = drawn(2, stats::rcauchy),
  pareto = drawn(2, \(k) stats::runif(k)^(-1 / 1.5)),
  clusters = \() 200 * matrix(stats::rnorm(150), 50)[sample.int(50, n, TRUE), ] + matrix(stats::rnorm(3 * n), n),
  brownian = \() apply(matrix(stats::rnorm(3 * n), n), 2, cumsum)
)
names <- c("california_housing", "diamonds", "higgs_subset", "satellite", "shuttle", paste0("uci_", UCI_SETS))
sets <- lapply(stats::setNames(nm = names), \(name) \() {
  x <- read_numbers(name)
  if (!is.null(x)) scale(x)
})
all <- c(sets, generators)
only <- option_values("--only", names(all))

# ---- runs -------------------------------------------------------------------------------------

# "near" or "pairs"; NULL: the exact engine decides.
with_near <- function(wish, task) {
  session <- asNamespace("flashkernel")$session
  session$method <- wish
  on.exit(session$method <- NULL)
  task()
}

# At some rows, by all pairs in R.
brute_force <- function(x, L, rows) {
  u <- t(forwardsolve(L, t(x)))
  vapply(rows, \(i) {
    q <- -colSums((t(u[-i, , drop = FALSE]) - u[i, ])^2) / 2
    max(q) + log(sum(exp(q - max(q))))
  }, 0) - sum(log(diag(L))) - ncol(x) / 2 * log(2 * pi) - log(nrow(x) - 1)
}

run_case <- function(name, x, h, factor) {
  H <- factor^2 * h
  fit <- \(estimator) flash_kde(x, estimator, bandwidth = H, control = flash_control(backend = "cpu", threads = threads, precision = "double"))
  loo <- \() predict(fit("kde"), loo = TRUE, type = "log_density")
  seconds <- c(medians(list(
    loo = \() with_near(NULL, loo), loo_all = \() with_near("pairs", loo),
    sdkde = \() with_near(NULL, \() fit("sdkde")), sdkde_all = \() with_near("pairs", \() fit("sdkde"))
  ), runs = if (nrow(x) > 1e5) 1 else 3, warm = FALSE))
  changed <- max(abs(expm1(with_near(NULL, loo) - with_near("pairs", loo))), na.rm = TRUE)
  # the share, of sums with the own point
  stats <- kernel_sum(
    x, bandwidth = H, b = rep(1, nrow(x)), tol = 0,
    control = flash_control(backend = "cpu", threads = threads, precision = "double")
  )
  rows <- unique(round(seq(1, nrow(x), length.out = n_rows)))
  L <- t(chol(as.matrix(H)))
  error <- max(abs(expm1(loo()[rows] - brute_force(x, L, rows))))
  data.frame(
    set = name, n = nrow(x), d = ncol(x), factor = factor, t(round(seconds, 3)), share = round(diagnostics(stats)$kept, 4),
    times = round(seconds[["loo_all"]] / seconds[["loo"]], 2), error = signif(error, 2), changed = signif(changed, 2)
  )
}

# Seconds of others at the default bandwidth; NA: they take more than a minute, or are not here.
peers <- function(x, h) {
  u <- forwardsolve(t(chol(as.matrix(h))), t(x)) # whitened, a point after another
  file <- tempfile()
  on.exit(unlink(file))
  writeBin(as.vector(u), file)
  script <- "bench/bench_sklearn.py"
  said <- suppressWarnings(system2("timeout", c("60", Sys.getenv("PYTHON", "python3"), script, file, file, nrow(x), nrow(x),
    ncol(x), 1, 1, 1e-8), stdout = TRUE, stderr = FALSE, env = "LD_LIBRARY_PATH=")) # R's own might bring another Python's library
  sklearn <- if (length(said) == 1) as.numeric(strsplit(said, " ")[[1]][2]) else NA
  by_ks <- NA
  if (requireNamespace("ks", quietly = TRUE) && ncol(x) <= 6) {
    setTimeLimit(elapsed = 60, transient = TRUE)
    by_ks <- tryCatch(elapsed(\() ks::kde(x, H = as.matrix(h), eval.points = x, binned = FALSE)), error = \(e) NA)
    setTimeLimit()
  }
  data.frame(sklearn = sklearn, ks = by_ks)
}

set.seed(1)
results <- NULL
for (name in only) {
  x <- all[[name]]()
  if (is.null(x) || (quick && nrow(x) > 20000)) next
  h <- flash_kde(x, "kde", control = flash_control(backend = "cpu", threads = threads))$bandwidth
  for (factor in factors) {
    row <- run_case(name, x, h, factor)
    row <- cbind(row, if (factor == 1 && "--peers" %in% arguments) peers(x, h) else data.frame(sklearn = NA, ks = NA))
    results <- rbind(results, row)
    cat(paste(names(row), format(row), sep = " ", collapse = ", "), "\n")
    utils::write.csv(results, "bench/results/real.csv", row.names = FALSE)
  }
}
show_table(results)
