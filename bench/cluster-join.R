# Sums of shards over shards: seconds and bytes of an SD-KDE whose points are on workers, compared with one process; and
# of sums to a tolerance by each method that a plan chooses from, compared with the plan's estimate.
#
#   Rscript bench/cluster-join.R [--gpu | --ways]
source("bench/common.R")

options(flashkernel.progress = FALSE)
internal <- asNamespace("flashkernel")
on_gpu <- "--gpu" %in% arguments
seconds <- \(work) system.time(work)[["elapsed"]]
set.seed(1)
workers <- parallel::makeCluster(2)

# ---- SD-KDE -----------------------------------------------------------------------------------

# Second and third fits: the first has to read and to start.
debiasing <- function(n, d) {
  x <- matrix(stats::rnorm(n * d), ncol = d)
  folder <- tempfile()
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  shards <- internal$pieces_of(n, ceiling(n / 48))
  files <- file.path(folder, paste0(seq_along(shards), ".rds"))
  for (i in seq_along(files)) saveRDS(x[shards[[i]][1]:shards[[i]][2], ], files[i], compress = FALSE)
  control <- flash_control(backend = if (on_gpu) "cuda" else "cpu", threads = if (!on_gpu) 1)
  places <- list(
    "one process" = x, "files, one worker" = flash_data(files, workers[1], reader = readRDS),
    "files, two workers" = flash_data(files, workers, reader = readRDS),
    "sent, two workers" = flash_data(x, workers, shard_rows = ceiling(n / 48))
  )
  for (name in names(places)) {
    fit <- NULL
    taken <- replicate(3, seconds(fit <<- flash_kde(places[[name]], "sdkde", bandwidth = 1, control = control)))
    bytes <- sum(diagnostics(fit)$workers$bytes)
    there <- if (name != "one process") seconds(predict(fit, type = "log_density", control = control))
    cat(sprintf(
      "SD-KDE of %g x %d, %s: %s s, %.2f MB%s\n", n, d, name, paste(sprintf("%.2f", taken), collapse = ", "), bytes / 1e6,
      if (is.null(there)) "" else sprintf("; densities at the points %.2f s", there)
    ))
  }
}
if (!"--ways" %in% arguments) debiasing(if (on_gpu) 2e5 else 2e4, 16)
if (on_gpu) debiasing(1e6, 16)

# ---- to a tolerance ---------------------------------------------------------------------------

# Points in strips or cells, one a shard, at themselves, by each way.
ways <- function(name, x, bandwidth) {
  data <- flash_data(x, workers, shard_rows = nrow(x) / 64)
  control <- internal$start_run(internal$settle_control(flash_control(tol = 1e-6, backend = "cpu", threads = 1)))
  sources <- internal$sum_sources(data, NULL, diag(bandwidth, ncol(x)))
  least <- internal$least_largest_sum(sources, data, NULL, control)
  near <- internal$near_shards(sources, data, NULL, control, least)
  grid <- internal$plan_grid(sources, NULL, NULL, control)
  way <- function(label, reckoned, plan) {
    watch <- internal$watch_workers(workers)
    taken <- seconds(internal$join_targets("sums", sources, NULL, control, plan()))
    cat(sprintf(
      "%s, %s: %.2f s, %.1f MB to and from two workers; reckoned for eight %.3f s, %.1f MB\n", name, label, taken,
      sum(watch()$bytes) / 1e6, reckoned$seconds, reckoned$bytes / 1e6
    ))
  }
  if (!is.null(near)) way("near", near, \() list(near = near$shards))
  if (!is.null(grid)) {
    way("grids", grid, \() list(grid = list(
      spec = grid$spec, grids = internal$add_grids(sources, NULL, grid, control), first = 1 + c(0, cumsum(data$rows))
    )))
  }
  cat("  plan:", internal$plan_join(sources, NULL, NULL, control)$text, "\n")
}
if (!on_gpu) {
  u <- matrix(stats::runif(4e5), ncol = 2)
  strips <- u[order(u[, 1]), ]
  ways("strips, h = 0.01", strips, 0.01)
  ways("strips, h = 0.001", strips, 0.001)
  ways("mixed, h = 0.01", u, 0.01)
  u <- matrix(stats::runif(6e5), ncol = 3)
  cells <- u[order(floor(4 * u[, 1]), floor(4 * u[, 2]), u[, 3]), ]
  ways("cells, h = 0.02", cells, 0.02)
  ways("cells, h = 0.005", cells, 0.005)
}
parallel::stopCluster(workers)
