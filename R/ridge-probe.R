# Timed pieces of a fit, on a sample of the rows with fewer centres. `task`: from plan_fit(), with the `problem`, `spec`
# and `run` of the fit, its `rows`, the number `m` of centres, the number `t` of responses, and the `backend`.

# Pairs of rows and centres of a timed product, and centres of timed factorisations: some tenths of a second on two
# cores, some hundredths on a GPU. Factors of this size exceed the caches of a CPU, and keep a GPU busy.
PROBE_PAIRS <- c(cpu = 4e7, cuda = 2e10)
PROBE_CENTERS <- c(cpu = 2500, cuda = 16000)

# Pairs of a product of the small fit, which has many products. With fewer pairs Newton's method takes up to a third
# fewer iterations than the whole fit.
FIT_PAIRS <- c(cpu = 1e7, cuda = 4e9)
EXACT_PAIRS <- c(cpu = 4e6, cuda = 4e9)
FIT_CENTERS <- c(cpu = 800, cuda = 4000)

probe_clock <- function() proc.time()[["elapsed"]]

# Seconds of a task; a short task is repeated, because the first run includes preparations.
timed <- function(task) {
  of <- function(count) {
    started <- probe_clock()
    for (i in seq_len(count)) task()
    probe_clock() - started
  }
  first <- of(1)
  if (first > 0.1) return(first)
  count <- 1
  while ((seconds <- of(count)) < 0.02) count <- 4 * count
  seconds / count
}

# The problem restricted to the rows `index`.
problem_at <- function(problem, spec, index) {
  some <- c(some_of_data(problem, index, spec$L, spec$kernel), list(validation = NULL))
  replace(problem, names(some), some)
}

# ---- iterations -------------------------------------------------------------------------------

# Rows that count products by kind, as fractions of a product with all `most` centres. They count solves in the same
# unit, and passes over the rows.
#' @export
rows_normal.rows_counted <- function(rows, centers, v, w, weights, run, with_sums = FALSE) {
  count_product(rows, centers, if (is.null(v)) "moments" else "normal")
  NextMethod()
}

#' @export
rows_multiply.rows_counted <- function(rows, centers, v, run) {
  count_product(rows, centers, "multiply")
  NextMethod()
}

count_product <- function(rows, centers, what) {
  part <- centers$m / rows$most
  counts <- rows$counts
  counts[[what]] <- counts[[what]] + part
  counts$solves <- counts$solves + part^2
  counts$passes <- counts$passes + 1
}

# list(iterations, factors, calls, solves, passes) of a fit to some of the rows. `factors`: the number of times A was
# computed; `calls`: the number of products of each kind.
probe_iterations <- function(task) {
  spec <- task$spec
  n <- task$rows$n
  few <- min(task$m, FIT_CENTERS[[task$backend]])
  count <- min(n, max(2 * few, ceiling(FIT_PAIRS[[task$backend]] / few)))
  problem <- problem_at(task$problem, spec, sort(sample.int(n, count)))
  counts <- list2env(list(moments = 0, normal = 0, multiply = 0, solves = 0, passes = 0))
  problem$rows[c("counts", "most")] <- list(counts, few)
  class(problem$rows) <- c("rows_counted", class(problem$rows))
  index <- spread_rows(count, few)
  chosen <- list(points = rows_take(problem$rows, index), index = index)
  spec[c("start", "state")] <- NULL
  system <- system_of(problem, chosen, spec, task$run)
  solved <- suppressWarnings(fit_family(system, problem, spec))
  calls <- unlist(mget(c("moments", "normal", "multiply"), counts))
  list(
    iterations = solved$iterations, factors = max(1, solved$factors), calls = calls, solves = counts$solves,
    passes = counts$passes
  )
}

# Iterations of an exact fit, extrapolated in n from fits to some of the rows and to a quarter of these, with the same
# noise. `times`: as many rows as others have.
probe_exact_iterations <- function(task, solve, times) {
  spec <- task$spec
  spec[c("start", "state")] <- NULL
  n <- task$rows$n
  most <- floor(sqrt(EXACT_PAIRS[[task$backend]])) * times
  counts <- unique(pmin(n, c(most %/% 4, most)))
  found <- vapply(counts, \(count) {
    problem <- problem_at(task$problem, spec, sort(sample.int(n, count)))
    part <- exact_system(problem$rows, problem$weights, spec$L, spec$kernel, spec$lambda * n / count, task$run)
    y <- centred_response(problem, task$run)$y[part$index, , drop = FALSE]
    suppressWarnings(solve(part, y, spec, \(...) FALSE))$iterations
  }, 0)
  if (length(found) == 1) return(found)
  power <- max(0, log(found[2] / found[1]) / log(counts[2] / counts[1]))
  min(spec$iterations, round(found[2] * (n / counts[2])^power))
}

# ---- seconds ----------------------------------------------------------------------------------

# list(sizes, T, A, solves, backend): seconds of both factorisations and of four solves, for two numbers of centres up
# to m.
probe_factors <- function(task, m) {
  spec <- task$spec
  some <- min(m, PROBE_CENTERS[[task$backend]])
  backend <- NULL
  one <- function(size) {
    points <- rows_take(task$rows, spread_rows(task$rows$n, size))
    centers <- ridge_centers(points, spec$L, spec$kernel)
    make <- \() preconditioner_of(centers, task$run, MOST_JITTER)
    P <- make()
    on.exit(free_preconditioner(P))
    backend <<- P$backend
    v <- matrix(1, P$m, task$t)
    c(
      sizes = P$m, T = timed(\() free_preconditioner(make())),
      A = timed(\() precondition(P, NULL, 1 / P$m, spec$lambda)),
      solves = timed(\() apply_factors(P, v, c("A^-1", "T^-1", "T^-T", "A^-T")))
    )
  }
  done <- vapply(unique(c(max(1, some %/% 2), some)), one, c(sizes = 0, T = 0, A = 0, solves = 0))
  c(asplit(done, 1), list(backend = backend))
}

# Seconds of `what` for m centres: a m^p + b m^(p + 1) through two sizes, with a and b not negative.
extrapolate <- function(probe, what, m, p = 2) {
  size <- probe$sizes
  seconds <- probe[[what]]
  at <- length(size)
  if (m <= size[at] || at == 1) return(seconds[[at]] * (m / size[[at]])^p)
  per <- seconds / size^p
  b <- min(max(0, diff(per) / diff(size)), per[at] / size[at])
  (per[[at]] - b * size[[at]]) * m^p + b * m^(p + 1)
}

# Seconds of `calls`, the number of products of each kind, with all rows, whose kernels a fit by centres may keep.
probe_products <- function(task, calls) {
  m <- task$m
  n <- task$rows$n
  some <- rows_take(task$rows, spread_rows(n, max(64, ceiling(PROBE_PAIRS[[task$backend]] / m))))
  rows <- ridge_rows(some, task$spec$L, task$spec$kernel)
  centers <- ridge_centers(rows_take(task$rows, spread_rows(n, m)), task$spec$L, task$spec$kernel)
  v <- matrix(1 / centers$m, centers$m, task$t)
  w <- matrix(1, rows$n, task$t)
  run <- task$run
  keeps <- !(task$spec$exact && task$spec$family$squared) && !is.null(kernel_place(task$rows, m, task$spec, run))
  plain <- rows
  here <- environment()
  keeping <- if (keeps) timed(\() rows <<- rows_with_kernels(plain, centers, task$spec, run, here)) else 0
  tasks <- list(
    normal = \() rows_normal(rows, centers, v, NULL, NULL, run),
    moments = \() rows_normal(rows, centers, NULL, w, NULL, run), multiply = \() rows_multiply(rows, centers, v, run)
  )
  calls <- calls[calls > 0]
  (keeping + sum(calls * vapply(tasks[names(calls)], timed, 0))) * (n / rows$n) * (m / centers$m)
}

# Seconds of the computations with the link of all rows in a Newton step, other than products.
probe_loss <- function(task) {
  y <- task$problem$y
  loss <- replace(task$spec$family$loss, is.na(task$spec$family$loss), 1)
  index <- seq_len(min(nrow(y), 1e5))
  y <- y[index, , drop = FALSE]
  f <- 0.1 * y
  seconds <- timed(\() {
    for (i in 1:2) mean_loss(loss, f, y, task$run, NULL, y, 0.5)
    row_loss("slope", loss, f, y, task$run)
    row_loss("curvature", loss, f, y, task$run)
  })
  seconds * nrow(task$problem$y) / length(index)
}

# ---- of exact fits ----------------------------------------------------------------------------

# Seconds of (K + N) v by the fast engine.
probe_exact_product <- function(system, t, run) {
  v <- matrix(1 / system$n, system$n, t)
  timed(\() exact_product(system, v, run))
}

# Seconds of the products with K_nr and K_rn of the preconditioner, with all rows. They may use the fast engine.
probe_inverse <- function(task, system, r, run) {
  rows <- system$rows
  few <- ridge_centers(rows_take(rows, spread_rows(rows$n, r)), system$L, system$kernel)
  of <- \(size) matrix(1 / size, size, task$t)
  timed(\() transposed_product(rows, few, of(rows$n), run)) + timed(\() rows_multiply(rows, few, of(few$m), run))
}

# Seconds of T^-T K_rn N^-1 K_nr T^-1: the sums, and two solves for r columns.
probe_information <- function(task, system, r, run) {
  columns <- min(r, 128)
  few <- ridge_centers(rows_take(system$rows, spread_rows(system$n, r)), system$L, system$kernel)
  P <- preconditioner_of(few, run, MOST_JITTER)
  v <- matrix(1, P$m, columns)
  solves <- 2 * timed(\() apply_factors(P, v, "T^-T")) * r / columns
  free_preconditioner(P)
  if (may_take_midpoints(system, run)) {
    # sums over all rows at the midpoints
    product <- probe_exact_product(system, 1, run)
    return(solves + product * (system$n + r * (r + 1) / 2) / (2 * system$n))
  }
  part <- replace(task, c("m", "rows", "t"), list(r, system$rows, columns))
  part$run <- run_in_double(run)
  solves + probe_products(part, c(normal = r / columns))
}
