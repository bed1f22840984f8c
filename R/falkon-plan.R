# What a fit will need and take, found out by small pieces of it.

# Rows and centres of a probe: some tenths of a second on two cores, some hundredths on a GPU.
PROBE_PAIRS <- c(cpu = 4e7, cuda = 2e10)
PROBE_CENTERS <- c(cpu = 800, cuda = 8000)

# A list of class falkon_plan. Draws nothing from R's random numbers: rows are taken evenly spaced.
plan_fit <- function(problem, spec, run) {
  rows <- problem$rows
  t <- ncol(problem$y)
  m <- center_count(spec$centers, rows$n)
  backend <- resolve_control(run, rows$n, m, rows$d, spec$kernel)$backend
  some <- min(m, PROBE_CENTERS[[backend]])
  factor <- probe_preconditioner(rows, spec, unique(c(max(1, some %/% 2), some)), run)
  product <- probe_product(rows, spec, m, t, PROBE_PAIRS[[backend]], run)
  iterations <- spec$max_iter * (if (spec$loss == "squared") 1 else NEWTON_PRODUCTS)
  seconds <- c(
    preconditioner = extrapolate(factor, m) * (if (spec$loss == "squared") 1 else 1 + (spec$max_iter - 1) * 2 / 3),
    products = product * (iterations + 1 + iterations %/% 10)
  )
  structure(
    class = "falkon_plan",
    list(
      n = rows$n, d = rows$d, m = m, t = t, iterations = iterations, backend = backend, seconds = seconds,
      memory = plan_memory(rows, m, t, backend, factor$backend)
    )
  )
}

# Newton steps of logistic loss: a gradient and some products of conjugate gradients each.
NEWTON_PRODUCTS <- 9

center_count <- function(centers, n) {
  if (length(dim(centers)) == 2) return(nrow(centers))
  if (length(centers) > 1) length(centers) else min(n, centers)
}

evenly <- function(n, count) unique(round(seq(1, n, length.out = count)))

# Seconds of the whole preconditioner for the given numbers of centres.
probe_preconditioner <- function(rows, spec, sizes, run) {
  one <- function(size) {
    centers <- falkon_centers(rows_take(rows, evenly(rows$n, size)), spec$L, spec$kernel)
    started <- Sys.time()
    P <- new_preconditioner(centers_kernel(centers, run), run, MOST_JITTER)
    precondition(P, NULL, 1 / centers$m, spec$lambda)
    seconds <- as.double(Sys.time() - started, units = "secs")
    backend <- P$backend
    free_preconditioner(P)
    list(size = centers$m, seconds = seconds, backend = backend)
  }
  one(min(sizes)) # libraries start
  done <- lapply(sizes, one)
  list(
    sizes = vapply(done, `[[`, 0, "size"), seconds = vapply(done, `[[`, 0, "seconds"), backend = done[[1]]$backend
  )
}

# a m^2 + b m^3 through the two sizes, neither negative.
extrapolate <- function(probe, m) {
  size <- probe$sizes
  at <- length(size)
  if (m <= size[at] || at == 1) return(probe$seconds[at] * (m / size[at])^2)
  per <- probe$seconds / size^2
  b <- min(max(0, diff(per) / diff(size)), per[at] / size[at])
  (per[at] - b * size[at]) * m^2 + b * m^3
}

# Seconds of a product with all rows.
probe_product <- function(rows, spec, m, t, pairs, run) {
  count <- min(rows$n, max(64, ceiling(pairs / m)))
  some <- falkon_rows(rows_take(rows, evenly(rows$n, count)), spec$L, spec$kernel)
  centers <- falkon_centers(rows_take(rows, evenly(rows$n, m)), spec$L, spec$kernel)
  v <- matrix(1 / centers$m, centers$m, t)
  one <- \() rows_normal(some, centers, v, NULL, NULL, run)
  one()
  seconds <- vapply(1:2, \(i) {
    started <- Sys.time()
    one()
    as.double(Sys.time() - started, units = "secs")
  }, 0)
  min(seconds) * (rows$n / some$n) * (m / centers$m)
}

# Bytes by what they are for, and where.
plan_memory <- function(rows, m, t, backend, factor) {
  n <- rows$n
  host <- c(
    `response and weights` = 8 * n * (2 * t + 1), `vectors of the centres` = 8 * 10 * m * t,
    preconditioner = if (factor == "cpu") 8 * m * (m + 1) else 0,
    `centres and partial sums` = 8 * m * (2 * rows$d + 3) + if (backend == "cpu") 8 * 64 * m * t else 0
  )
  device <- if (backend == "cuda") {
    k <- 16 * ceiling(rows$d / 16)
    c(rows = n * (4 * k + 16 + 8 * t), preconditioner = if (factor == "cuda") 8 * m * (m + 1) else 0)
  }
  list(host = host, device = device)
}

#' @export
#' @noRd
print.falkon_plan <- function(x, ...) {
  cat("Plan of a kernel regression: ", whole(x$n), " rows, ", whole(x$d), ngettext(x$d, " column, ", " columns, "),
    whole(x$m), " centres", if (x$t > 1) paste0(", ", x$t, " responses"), ", ", x$iterations, " iterations\n", sep = "")
  cat("Time:   about ", time_label(sum(x$seconds)), " on ", if (x$backend == "cuda") "the GPU" else "the processors",
    " (preconditioner ", time_label(x$seconds[["preconditioner"]]), ", products ", time_label(x$seconds[["products"]]),
    ")\n", sep = "")
  show <- \(bytes) paste0(format_bytes(sum(bytes)), " (", paste0(names(bytes[bytes > 0]), " ",
    vapply(bytes[bytes > 0], format_bytes, ""), collapse = ", "), ")")
  cat("Memory: ", show(x$memory$host), " beside the rows\n", sep = "")
  if (length(x$memory$device) > 0) cat("GPU:    ", show(x$memory$device), "\n", sep = "")
  invisible(x)
}
