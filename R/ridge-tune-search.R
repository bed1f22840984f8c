# The search of tune_ridge() for bandwidths and noise, on a sample of rows.

# At most so many steps of L-BFGS on a part of the sample, where a step takes a 64th of the time, and on all of it.
COARSE_STEPS <- 100
FINE_STEPS <- 40
COARSE_ROWS <- 250

# Bandwidths go from a hundredth to fifty times where they start, the noise to a millionth of the signal: beyond,
# coefficients become so large that their sums cancel. A column at the upper end does not matter, or is as good as
# linear.
BANDWIDTH_RANGE <- log(c(1e-2, 50))
NOISE_RANGE <- log(c(1e-6, 1e2))

# What `search` finds for the best of the candidates `kernels`, with the paths of all. `until`: the time at which to stop,
# in seconds.
search_bandwidths <- function(kernels, search, until, run) {
  best <- NULL
  path <- list()
  for (i in seq_along(kernels)) {
    name_stage(run, paste0("Choosing bandwidths (", kernels[[i]]$name, ")"))
    found <- search(kernels[[i]])
    path[[i]] <- found$path
    if (is.null(best) || found$value < best$value) best <- found
    if (unclass(Sys.time()) > until) break
  }
  best$path <- do.call(rbind, path)
  best
}

# list(task, theta): what a search minimises, and where it begins.
search_task <- function(sample, kernel, spec, criterion, structure, run) {
  start <- choose_on_sample(sample, replace(spec, "kernel", list(kernel)), run)
  if (is.null(start)) {
    stop_argument("bandwidth", "could not be chosen from these data for the ", kernel$name, " kernel. Give one.")
  }
  task <- list(
    points = sample$points, y = sample$y, kernel = kernel, criterion = criterion, base = start$bandwidth,
    together = structure == "scalar", run = run
  )
  list(task = task, theta = c(rep(0, if (task$together) 1 else length(task$base)), log(start$noise)))
}

# list(kernel, bandwidth, noise, value, path). `sample`: of draw_sample(); `spec`: of ridge_spec(), with a bandwidth or
# lambda that is held, or NULL.
search_kernel <- function(sample, kernel, spec, criterion, structure, until, run) {
  begun <- search_task(sample, kernel, spec, criterion, structure, run)
  task <- begun$task
  theta <- begun$theta
  watch <- watch_search(kernel, sample, task$base, until, run)
  bounds <- search_bounds(theta, spec)
  for (part in search_parts(sample, criterion)) {
    theta <- pmin(pmax(theta, bounds$low), bounds$high)
    theta <- descend(part_of(task, part), theta, bounds, part$steps, watch)
  }
  found <- watch$best(length(part$rows))
  if (is.null(found)) {
    stop_argument(
      "bandwidth", "could not be chosen from these data for the ", kernel$name, " kernel, because its matrix has no ",
      "Cholesky factorisation. Use another `kernel`."
    )
  }
  list(
    kernel = kernel, bandwidth = task$base * exp(found$theta[-length(theta)]), noise = exp(found$theta[length(theta)]),
    value = found$value, path = watch$path()
  )
}

# What is given stays.
search_bounds <- function(theta, spec) {
  p <- length(theta)
  range <- if (is.null(spec$bandwidth)) BANDWIDTH_RANGE else c(0, 0)
  noise <- if (is.null(spec$lambda)) NOISE_RANGE else theta[c(p, p)]
  list(low = c(rep(range[1], p - 1), noise[1]), high = c(rep(range[2], p - 1), noise[2]))
}

# First on a quarter of the sample. The sample is in random order.
search_parts <- function(sample, criterion) {
  n <- nrow(sample$y)
  parts <- list(list(rows = seq_len(n), steps = FINE_STEPS))
  if (n >= 4 * COARSE_ROWS) parts <- c(list(list(rows = seq_len(n %/% 4), steps = COARSE_STEPS)), parts)
  lapply(parts, \(part) {
    size <- length(part$rows)
    if (criterion == "holdout") part$held <- seq_len(max(1, size %/% 3))
    if (criterion == "likelihood" && size > sample$inducing) part$inducing <- seq_len(sample$inducing)
    part
  })
}

part_of <- function(task, part) {
  task$points <- task$points[part$rows, , drop = FALSE]
  task$y <- task$y[part$rows, , drop = FALSE]
  task[c("held", "inducing")] <- part[c("held", "inducing")]
  task
}

# L-BFGS from theta; the best point that it has seen.
descend <- function(task, theta, bounds, steps, watch) {
  last <- NULL
  at <- function(theta) {
    if (!identical(theta, last$theta)) {
      found <- criterion_at(task, theta)
      # no factor: far above anything else, so that a line search turns back
      if (is.null(found)) found <- list(value = 1e10, gradient = 0 * theta)
      last <<- c(found, list(theta = theta))
      watch$each(last, nrow(task$y))
    }
    last
  }
  tryCatch(
    stats::optim(
      theta, \(theta) at(theta)$value, \(theta) at(theta)$gradient, method = "L-BFGS-B", lower = bounds$low,
      upper = bounds$high, control = list(maxit = steps, factr = 1e10)
    ),
    flashkernel_out_of_time = \(e) NULL
  )
  found <- watch$best(nrow(task$y))
  if (is.null(found)) theta else found$theta
}

# each(found, rows) keeps what was evaluated, and stops the search by a condition when the time is over; best(rows): the
# best of those with so many rows, or else of the last that there were.
watch_search <- function(kernel, sample, base, until, run) {
  trace <- list()
  each <- function(found, rows) {
    if (found$value < 1e10) trace[[length(trace) + 1]] <<- list(value = found$value, theta = found$theta, rows = rows)
    if (!is.null(run$progress)) run$progress(min(length(trace) / (COARSE_STEPS + FINE_STEPS), 0.99))
    if (until < Inf && unclass(Sys.time()) > until && length(trace) > 0) {
      stop(structure(class = c("flashkernel_out_of_time", "condition"), list(message = "", call = NULL)))
    }
  }
  best <- function(rows) {
    sizes <- vapply(trace, `[[`, 0, "rows")
    if (length(trace) == 0) return(NULL)
    among <- if (any(sizes == rows)) which(sizes == rows) else which(sizes == sizes[length(sizes)])
    trace[[among[which.min(vapply(trace[among], `[[`, 0, "value"))]]]
  }
  list(each = each, best = best, path = \() search_path(trace, kernel, sample, base))
}

# A data frame with a row for each evaluation.
search_path <- function(trace, kernel, sample, base) {
  theta <- do.call(rbind, lapply(trace, `[[`, "theta"))
  p <- ncol(theta)
  h <- exp(theta[, -p, drop = FALSE])
  h <- if (ncol(h) == length(base)) h * rep(base, each = nrow(h)) else h %*% t(base)
  colnames(h) <- paste0("bandwidth.", if (length(base) == length(sample$names)) sample$names else seq_along(base))
  data.frame(
    iteration = seq_along(trace), kernel = kernel$name, rows = vapply(trace, `[[`, 0, "rows"),
    criterion = vapply(trace, `[[`, 0, "value"), lambda = exp(theta[, p]) * sample$per_row, h, check.names = FALSE
  )
}
