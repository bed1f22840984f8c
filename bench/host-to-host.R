# Time from the user's array to the user's vector, d = 16, single precision: a fit with a given bandwidth and its
# prediction, from R matrices of doubles to an R vector, for points that the device has not seen. Compared with the
# published Triton code in the same run and on the same points, from and to NumPy arrays of doubles (host_to_host.py).
#
#   Rscript bench/host-to-host.R [--triton PATH] [--backend cpu] [--quick] [--save]
#
# PATH is a checkout of github.com/Elliotepsteino/Flash-SD-KDE, as for gpu-baselines.py. Without it, or if Python
# (PYTHON, or python3) has no PyTorch, there are no times of that code. --quick: n = 4,096 only; --backend cpu: to try
# the script without a GPU. Prints medians of consecutive runs of either program. "On the device": by events.

source("bench/gpu-common.R")
source("bench/host-common.R")

backend <- option("--backend", "cuda")
title <- "From host to host, d = 16, single precision"
if (backend == "cuda") gpu_start("host-to-host.R", title) else bench_start("host-to-host.R", title)

sizes <- data.frame(n = c(4096, 32768, 131072, 1048576), m = c(512, 4096, 16384, 131072))
if ("--quick" %in% arguments) sizes <- sizes[1, ]
sizes$h <- round(0.9574 * (sizes$n / 32768)^(-1 / 20), 4) # that of gpu.R, at the rate of a KDE
estimators <- c(KDE = "kde", `SD-KDE` = "sdkde")

fit <- function(points, estimator, h) {
  flash_kde(points$x, estimator, bandwidth = h, control = flash_control(backend = backend, precision = "single"))
}

measure <- function(points, estimator, h) {
  wall <- median_seconds(points, \(points) predict(fit(points, estimator, h), points$y))
  fitted <- fit(points, estimator, h)
  data.frame(wall = wall, device = on_device(backend, fit_stages(fitted), log_density(fitted, points$y)$stats))
}

# Fitted before: 4,096 queries that are new.
measure_prediction <- function(points, estimator, h) {
  fitted <- fit(points, estimator, h)
  y <- mixture_points(4096, 4096, seed = 2)$y
  wall <- median_seconds(list(y = y), \(points) predict(fitted, points$y))
  data.frame(wall = wall, device = on_device(backend, log_density(fitted, y)$stats))
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
  program <- paste0("triton=", option("--triton"))
  folder <- write_points(points)
  on.exit(unlink(folder, recursive = TRUE))
  theirs <- other_program(program, folder, ncol(points$x), h, estimators)
  found <- theirs$rows[theirs$rows$why == "", ]
  if (nrow(found) == 0) return(tell("not measured: ", c(theirs$rows$why, theirs$why)[1]))
  tell(theirs$about)
  parts <- lapply(seq_len(nrow(found)), \(i) list(
    seconds = found$host[i], density = densities_of(program, folder, found$estimator[i])
  ))
  stats::setNames(parts, found$estimator)
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
      differences <- c(differences, relative_l2(other$density, density))
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
