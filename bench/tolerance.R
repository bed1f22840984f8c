# Does the tolerance hold for every input, and does it cost more than exact sums?
#
#   Rscript bench/tolerance.R [cases] [first seed] [backend] [--workers K] [--points N] [--method grid|direct]
#                                  [--rows FILE | --read FILE,FILE] [--save]
#   Rscript bench/tolerance.R --time [backend] [--only PATTERN] [--save]
#
# 5,000 hostile cases (tests/testthat/helper-tolerance.R), each against sums of all pairs
# in plain R: worst error and worst proven bound, both as shares of the tolerance, by family. With K workers as many
# processes share the cases, on the CPU; results do not depend on their number, nor on what else runs.
# --save: also the table as results/tolerance-BACKEND.csv; --rows: every case to FILE, as CSV, and --read: cases from such
# files, as a GPU's processor is kept busy by several processes. `tolerance_case(seed)` makes any of the cases again
# (with --points, `points`; with --method, `method`).
# --time: "auto" with a tolerance beside the exact engine, which it is never to be slower than by more than a tenth
# (and 2 ms).

source("bench/common.R")
options(width = 160, flashkernel.progress = FALSE)

given <- arguments[!startsWith(arguments, "--") & !c(FALSE, utils::head(arguments, -1) %in% c("--workers", "--points", "--method", "--rows", "--read", "--only"))]
is_backend <- given %in% c("cpu", "cuda", "auto")
backend <- if (any(is_backend)) given[is_backend][1] else "cpu"
numbers <- as.integer(given[!is_backend])

harness <- local({
  made <- new.env(parent = asNamespace("flashkernel"))
  sys.source("tests/testthat/helper-tolerance.R", made)
  made
})

save_rows <- function(rows, name) {
  if (!"--save" %in% arguments) return(invisible())
  utils::write.csv(rows, file.path(bench_folder, "results", name), row.names = FALSE)
}

# ---- the cases --------------------------------------------------------------------------------

run_seed <- function(seed, points, targets, method) {
  harness$run_case(harness$tolerance_case(seed, points, targets, backend, method))
}

# A process of its own for each case, so that one that crashes is known by its seed. Forks know no CUDA.
run_all <- function(seeds, workers, ...) {
  if (workers == 1) {
    rows <- lapply(seeds, run_seed, ...)
  } else {
    rows <- parallel::mclapply(seeds, run_seed, ..., mc.cores = workers, mc.preschedule = FALSE)
  }
  crashed <- which(!vapply(rows, is.data.frame, NA))
  if (length(crashed) > 0) cat("no result of the seeds ", paste(seeds[crashed], collapse = ", "), "\n\n", sep = "")
  do.call(rbind, rows[setdiff(seq_along(rows), crashed)])
}

most <- function(values) if (all(is.na(values))) NA else max(values, na.rm = TRUE)

summary_of <- function(rows, by) {
  do.call(rbind, lapply(split(rows, rows[by], drop = TRUE), \(part) data.frame(
    part[1, by, drop = FALSE],
    cases = nrow(part), over = sum(part$over), unproven = sum(part$unproven), `of exact` = sum(part$over & part$engine %in% "exact"),
    `error/tol` = signif(most(part$ratio), 3), `bound/tol` = signif(most(part$bound), 3),
    grid = sum(grepl("grid", part$method)), direct = sum(part$method %in% "direct"),
    other = sum(part$engine %in% "fast" & !grepl("grid|direct", part$method)), exact = sum(part$engine %in% "exact"),
    refused = sum(is.na(part$ratio)), `not finite` = sum(is.infinite(part$ratio)),
    digits = sum(part$same_mantissas %in% FALSE), seconds = round(sum(part$seconds, na.rm = TRUE), 1),
    check.names = FALSE
  )))
}

attack <- function(cases = 5000, first = 1, workers = 1, points = 800, targets = 100, method = NULL) {
  bench_start("tolerance.R", "The tolerance under attack", paste0("tolerance-", backend, ".R"))
  cat("Seeds ", first, " to ", first + cases - 1, " on ", backend,
      ". over: cases whose contract is broken (`of exact`: by the exact engine that\n", "\"auto\" or the fast engine gave way to); unproven: an error above the engine's bound, or that above tol; error/tol, bound/tol: the worst (Inf: NaN, or 0 where there is none); not finite: how\n",
      "many such; digits: sums of b 2^600 that are not those of b times 2^600; refused: typed errors.\n\n", sep = "")
  files <- option_values("--read")
  rows <- if (is.null(files)) {
    run_all(seq(first, length.out = cases), workers, points, targets, method)
  } else {
    do.call(rbind, lapply(files, utils::read.csv))
  }
  table <- summary_of(rows, c("family", "tol_type"))
  show_table(table)
  show_table(summary_of(rows, "task"))
  show_table(summary_of(rows, "d"))
  show_table(summary_of(rows, "precision"))
  show_table(summary_of(transform(rows, all = "all"), "all"))
  worst <- rows[rows$over, ]
  worst <- utils::head(worst[order(-worst$ratio), ], 40)
  if (nrow(worst) > 0) {
    cat("The worst:\n")
    columns <- c(
      "seed", "family", "d", "n", "m", "task", "kernel", "tol", "tol_type", "asked", "engine", "method", "ratio", "achieved",
      "bound"
    )
    show_table(format(worst[columns], digits = 3))
    troubles <- table(worst$trouble[nzchar(worst$trouble)])
    if (length(troubles) > 0) print(troubles)
  }
  save_rows(table, paste0("tolerance-", backend, ".csv"))
  file <- option("--rows")
  if (!is.null(file)) utils::write.csv(rows, file, row.names = FALSE)
  cat(sum(rows$over), " of ", nrow(rows), " cases over their tolerance; ", cases - nrow(rows), " without a result\n", sep = "")
}

# ---- the time ---------------------------------------------------------------------------------

time_cases <- function() {
  normal <- \(n, d, sd = 1) matrix(stats::rnorm(n * d, sd = sd), n)
  uniform <- \(n, d, width) matrix(stats::runif(n * d), n) * width
  list(
    `targets 8 h away` = \() list(x = normal(2e5, 1, 0.5), y = 8 + uniform(2e4, 1, 1), types = "pointwise", tol = 1e-3),
    `the same, finer` = \() list(x = normal(2e5, 1, 0.5), y = 8 + uniform(2e4, 1, 1), types = "pointwise"),
    `targets 4 h away` = \() list(x = normal(2e5, 1, 0.5), y = 4 + uniform(2e4, 1, 1), h = 0.3),
    `targets all around` = \() list(x = normal(2e4, 1), y = uniform(2e3, 1, 60) - 30, tol = 1e-5),
    `t, 2-d` = \() list(x = matrix(stats::rt(6e4, 2), ncol = 2)),
    `half plane` = \() {
      x <- uniform(3e4, 2, 20)
      list(x = x, b = as.numeric(x[, 1] < 10))
    },
    `both signs, wide` = \() list(x = uniform(3e4, 2, 4), b = stats::rnorm(3e4)),
    `one heavy source` = \() list(x = uniform(3e4, 1, 1000), b = replace(rep(1, 3e4), 1, 1e12)),
    `forty decades` = \() list(x = normal(3e4, 2, 5), b = 10^stats::runif(3e4, -20, 20)),
    `lattice` = \() list(x = cbind(2 * seq_len(3e4)), tol = 1e-3),
    `clusters, 3-d` = \() list(x = 15 * matrix(sample(0:3, 9e4, TRUE), ncol = 3) + normal(3e4, 3), types = "pointwise"),
    `a tenth wide, 3-d` = \() list(x = normal(3e4, 3) * ifelse(stats::runif(3e4) < 0.1, 15, 1), h = 0.2, tol = c(1e-3, 1e-6)),
    `many ties` = \() list(x = round(normal(3e4, 2, 5))),
    `equal points` = \() list(x = matrix(0.37, 5e4, 2), y = normal(5e3, 2, 3)),
    `an outlier` = \() list(x = rbind(1e12, normal(3e4, 1))),
    `uniform, 1-d` = \() list(x = uniform(2e6, 1, 1000), types = "global"),
    `uniform, 2-d` = \() list(x = uniform(1e5, 2, 20)),
    `uniform, 3-d` = \() list(x = uniform(3e4, 3, 10)),
    `normal, 4-d` = \() list(x = normal(3e4, 4)),
    `normal, 5-d` = \() list(x = normal(2e4, 5), h = 0.5),
    `normal, 6-d` = \() list(x = normal(8000, 6), h = 8000^(-1 / 10), types = "global"),
    `normal, 7-d` = \() list(x = normal(8000, 7), h = 8000^(-1 / 11), types = "global"),
    `few targets` = \() list(x = normal(1e6, 2, 3), y = normal(10, 2)),
    `few points` = \() list(x = normal(500, 2))
  )
}

# With more pairs, the exact engine computes a part of the targets, and its time is scaled to all: each pair once where
# the targets are the points (0.55).
MOST_PAIRS <- 1e9

time_one <- function(name, made, tol, type) {
  h <- if (is.null(made$h)) 1 else made$h
  sums <- \(y, engine) kernel_sum(
    made$x, y, made$b, h, tol = tol,
    control = flash_control(tol_type = type, engine = engine, backend = backend)
  )
  n <- as.double(nrow(made$x))
  m <- if (is.null(made$y)) n else as.double(nrow(made$y))
  some <- made$y
  scale <- 1
  if (n * m > MOST_PAIRS) {
    of <- if (is.null(made$y)) made$x else made$y
    rows <- round(seq(1, m, length.out = max(64, MOST_PAIRS / 4 / n)))
    some <- of[rows, , drop = FALSE]
    scale <- m / length(rows) * if (is.null(made$y)) 0.55 else 1
  }
  auto <- NULL
  tasks <- list(auto = \() auto <<- sums(made$y, "auto"), exact = \() sums(some, "exact"))
  seconds <- medians(tasks, runs = 3, warm = FALSE) * c(1, scale)
  chosen <- diagnostics(auto)
  data.frame(
    points = name, d = ncol(made$x), n, m, tol, type,
    chosen = if (chosen$engine == "exact") "exact" else chosen$method, auto = round(seconds[["auto"]], 3),
    exact = round(seconds[["exact"]], 3), ratio = signif(seconds[["auto"]] / seconds[["exact"]], 2),
    slower = seconds[["auto"]] > 1.1 * seconds[["exact"]] + 0.002
  )
}

time_all <- function() {
  bench_start("tolerance.R", "The time of \"auto\" with a tolerance beside the exact engine", paste0("tolerance-time-", backend, ".R"))
  cat("Seconds, medians of 3, the two in turns; slower: by more than a tenth and 2 ms. Of more than 1e9 pairs the exact\n",
      "engine does a part, scaled to all.\n\n", sep = "")
  rows <- NULL
  cases <- time_cases()
  cases <- cases[grepl(option("--only", "."), names(cases))]
  for (name in names(cases)) {
    set.seed(1)
    made <- cases[[name]]()
    types <- if (is.null(made$types)) c("global", "pointwise") else made$types
    for (type in types) for (tol in if (is.null(made$tol)) 1e-6 else made$tol) {
      row <- time_one(name, made, tol, type)
      cat(sprintf(
        "%-20s d %d  n %7.0f  m %7.0f  tol %-5g %-9s %-10s auto %8.3f  exact %8.3f  ratio %6.2f%s\n", row$points, row$d, row$n,
        row$m, row$tol, row$type, row$chosen, row$auto, row$exact, row$ratio, if (row$slower) "  slower" else ""
      ))
      rows <- rbind(rows, row)
    }
  }
  save_rows(rows, paste0("tolerance-time-", backend, ".csv"))
  cat(sum(rows$slower), " of ", nrow(rows), " slower than exact sums\n", sep = "")
}

if ("--time" %in% arguments) {
  time_all()
} else {
  attack(
    cases = if (length(numbers) > 0) numbers[1] else 5000, first = if (length(numbers) > 1) numbers[2] else 1,
    workers = if (backend == "cpu") as.integer(option("--workers", 1)) else 1,
    points = as.integer(option("--points", 800)), method = option("--method")
  )
}
