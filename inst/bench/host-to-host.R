# From the user's array to the user's vector, d = 16, single precision: a fit with a bandwidth given and its prediction,
# R matrices of doubles in, an R vector out, for points that the device has not seen; beside it the published Triton code
# in the same run and on the same points, NumPy arrays of doubles in and out (host_to_host.py).
#
#   Rscript inst/bench/host-to-host.R [--triton PATH] [--backend cpu] [--quick] [--save]
#
# PATH is a checkout of github.com/Elliotepsteino/Flash-SD-KDE, as gpu-baselines.py takes it; without it, or where Python
# (PYTHON, or python3) has no PyTorch, there are no times of that code. --quick: n = 4,096 only; --backend cpu: to try
# the script without a GPU. Medians, of runs in a row on either side. On the device: by events.

source(file.path(dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))), "gpu-common.R"))

backend <- option("--backend", "cuda")
title <- "From host to host, d = 16, single precision"
if (backend == "cuda") gpu_start("host-to-host.R", title) else bench_start("host-to-host.R", title)

sizes <- data.frame(n = c(4096, 32768, 131072, 1048576), m = c(512, 4096, 16384, 131072))
if ("--quick" %in% arguments) sizes <- sizes[1, ]
sizes$h <- round(0.9574 * (sizes$n / 32768)^(-1 / 20), 4) # that of gpu.R, at the rate of a KDE
estimators <- c(KDE = "kde", `SD-KDE` = "sdkde")

# Seconds of task(points), median of runs one after the other, each with points of its own, which are made before: as
# many as take 2 GB, 5 to 101.
median_seconds <- function(points, task) {
  runs <- max(5, min(101, floor(2e9 / as.numeric(utils::object.size(points)))))
  fresh <- lapply(seq_len(runs), \(i) lapply(points, renew))
  for (i in 1:3) task(lapply(points, renew))
  gc(FALSE)
  stats::median(vapply(fresh, \(points) wall_seconds(\() task(points)), 0))
}

fit <- function(points, estimator, h) {
  flash_kde(points$x, estimator, bandwidth = h, backend = backend, precision = "single")
}

# NA where it is the processor that computes.
on_device <- function(...) if (backend == "cuda") sum(vapply(list(...), device_seconds, 0)) else NA

measure <- function(points, estimator, h) {
  wall <- median_seconds(points, \(points) predict(fit(points, estimator, h), points$y))
  fitted <- fit(points, estimator, h)
  data.frame(wall = wall, device = on_device(fit_stages(fitted), log_density(fitted, points$y)$stats))
}

# Fitted before: 4,096 queries that are new.
measure_prediction <- function(points, estimator, h) {
  fitted <- fit(points, estimator, h)
  y <- mixture_points(4096, 4096, seed = 2)$y
  wall <- median_seconds(list(y = y), \(points) predict(fitted, points$y))
  data.frame(wall = wall, device = on_device(log_density(fitted, y)$stats))
}

# ---- the published code -------------------------------------------------------------------------

# list(seconds, density), by estimator; NULL where it cannot be had, which is told once.
told <- FALSE
tell <- function(...) {
  if (!told) cat("published code: ", ..., "\n\n", sep = "")
  told <<- TRUE
  NULL
}

published <- function(points, h) {
  if (is.null(option("--triton"))) return(tell("not given (--triton PATH)"))
  folder <- tempfile("points")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  for (side in names(points)) writeBin(as.vector(points[[side]]), file.path(folder, paste0(side, ".bin")))
  python <- Sys.getenv("PYTHON", "python3")
  script <- file.path(bench_folder, "host_to_host.py")
  # of R's own libraries Python wants none
  said <- suppressWarnings(system2(python, c(shQuote(script), shQuote(option("--triton")), shQuote(folder), ncol(points$x), h),
    stdout = TRUE, stderr = TRUE, env = "LD_LIBRARY_PATH="
  ))
  lines <- grep("^seconds ", said, value = TRUE)
  if (length(lines) < 2) return(tell("not measured: ", utils::tail(c("Python said nothing", said), 1)))
  tell(sub("^commit ", "", c(grep("^commit ", said, value = TRUE), "commit not told")[1]))
  parts <- strsplit(lines, " ")
  names(parts) <- vapply(parts, `[`, "", 2)
  lapply(parts, \(part) list(
    seconds = as.numeric(part[3]), density = readBin(file.path(folder, paste0(part[2], ".bin")), "double", nrow(points$y))
  ))
}

# ---- all sizes ----------------------------------------------------------------------------------

rows <- list()
differences <- numeric()
for (i in seq_len(nrow(sizes))) {
  size <- sizes[i, ]
  points <- mixture_points(size$n, size$m)
  theirs <- published(points, size$h)
  for (name in names(estimators)) {
    estimator <- estimators[[name]]
    other <- theirs[[estimator]]
    if (!is.null(other)) {
      density <- predict(fit(points, estimator, size$h), points$y)
      differences <- c(differences, sqrt(sum((other$density - density)^2) / sum(density^2)))
    }
    task <- sprintf("%s, n = %s, m = %s", name, format_count(size$n), format_count(size$m))
    again <- sprintf("predict() of 4,096, %s of n = %s", name, format_count(size$n))
    rows <- c(rows, list(
      cbind(task = task, published = if (is.null(other)) NA else other$seconds, measure(points, estimator, size$h)),
      cbind(task = again, published = NA, measure_prediction(points, estimator, size$h))
    ))
  }
}
table <- do.call(rbind, rows)
table <- table[order(startsWith(table$task, "predict")), ]

cat("milliseconds, medians\n")
show_table(data.frame(
  task = format(table$task), `published ms` = format_ms(table$published), `ours ms` = format_ms(table$wall),
  `ours on the device ms` = format_ms(table$device), check.names = FALSE
))
if (length(differences) > 0) {
  cat("Densities of the two differ, relative L2: ", paste(format_error(differences), collapse = ", "), "\n", sep = "")
}
