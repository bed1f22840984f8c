# Predicts time and memory of a fit: iterations from a small fit, seconds from small pieces of work (ridge-probe.R).

# Returns a list of class ridge_plan. Does not change the state of R's generator. `problem`: from fit_ridge().
plan_fit <- function(problem, spec, run) {
  name_stage(run, "Planning")
  run$progress <- NULL
  rows <- problem$rows
  exact <- spec$exact && spec$family$squared
  used <- if (is.null(problem$weights)) rows$n else sum(problem$weights > 0)
  centers <- if (is.null(spec$start)) spec$centers else spec$start$centers
  m <- if (exact) used else if (spec$exact) rows$n else center_count(centers, rows$n)
  if (!exact) {
    run <- run_of_fit(rows, m, run)
    run$precision <- products_by(rows, m, spec, run)$precision # also of smaller fits
  }
  backend <- resolve_control(run, rows$n, m, rows$d, spec$kernel)$backend
  task <- list(problem = problem, spec = spec, run = run, rows = rows, t = ncol(problem$y), m = m, backend = backend)
  found <- with_fixed_seed(if (exact) plan_exact(task) else plan_by_centers(task))
  about <- list(n = rows$n, d = rows$d, m = m, t = task$t, exact = exact, family = spec$family, backend = backend)
  structure(class = "ridge_plan", c(about, found))
}

center_count <- function(centers, n) {
  if (length(dim(centers)) == 2) return(nrow(centers))
  if (length(centers) > 1) length(centers) else min(n, centers)
}

# ---- with centres -----------------------------------------------------------------------------

plan_by_centers <- function(task) {
  spec <- task$spec
  m <- task$m
  logistic <- !spec$family$squared
  if (!logistic && exceeds_matrix(m, task$rows$d, task$run)) return(plan_center_blocks(task))
  small <- probe_iterations(task)
  factors <- probe_factors(task, m)
  seconds <- c(
    reading = small$passes * sum(task$rows$seconds),
    preconditioner = extrapolate(factors, "T", m) + small$factors * extrapolate(factors, "A", m),
    products = probe_products(task, small$calls), solves = small$solves * extrapolate(factors, "solves", m, 1),
    rows = if (logistic) small$iterations * probe_loss(task) else 0
  )
  waste <- 8 * task$t * (sum(small$calls) * 10 * m + if (logistic) small$iterations * 15 * task$rows$n else 0)
  list(
    iterations = small$iterations, seconds = seconds,
    memory = plan_memory(task, 8 * m * (m + 1), factors$backend, waste)
  )
}

# Iterations are those of a small fit by factors. An iteration takes as long as a product with all rows and as the
# blocks, one of which is timed.
plan_center_blocks <- function(task) {
  n <- task$rows$n
  m <- task$m
  spec <- task$spec
  centers <- ridge_centers(rows_take(task$rows, spread_rows(n, m)), spec$L, spec$kernel)
  own <- system_at_centers(list(
    centers = centers, L = spec$L, kernel = spec$kernel, run = task$run, lambda = spec$lambda, n = n
  ))
  block <- spread_rows(m, block_rows(own, own$run))
  v <- matrix(1, m, task$t)
  iterations <- probe_iterations(task)$iterations
  blocks <- ceiling(m / length(block))
  seconds <- c(
    blocks = (iterations + 1) * own$passes * blocks * timed(\() step_in_block(own, block, v, v, own$run)),
    products = probe_products(task, c(normal = iterations * (1 + m / n), moments = 1))
  )
  bytes <- 8 * length(block) * (length(block) + 1)
  list(
    iterations = iterations, seconds = seconds,
    memory = plan_memory(task, bytes, task$backend, 8 * m * task$t * (2 * MOST_KEPT + 20)),
    way = paste0("centres in ", blocks, " blocks, as one matrix would take ", format_bytes(8 * m * (m + 1)))
  )
}

# ---- exact ------------------------------------------------------------------------------------

plan_exact <- function(task) {
  spec <- task$spec
  system <- exact_system(task$rows, task$problem$weights, spec$L, spec$kernel, spec$lambda, task$run)
  way <- exact_way(system)
  task$spec <- settle_way(spec, way)
  c(way$plan(task, system, way), list(way = way$name))
}

plan_factorised <- function(task, system, way) {
  n <- task$m
  factors <- probe_factors(task, n)
  seconds <- c(
    factor = extrapolate(factors, "T", n), products = probe_products(task, c(multiply = 1)),
    solves = extrapolate(factors, "solves", n, 1) / 2
  )
  list(iterations = 1, seconds = seconds, memory = plan_memory(task, 8 * n * (n + 1), factors$backend, 0))
}

plan_gradients <- function(task, system, way) {
  n <- system$n
  run <- run_to_tolerance(task$run, exact_tolerance(task$run, task$spec$tolerance))
  by_midpoints <- may_take_midpoints(system, run)
  r <- if (by_midpoints) midpoint_rank(n) else nystrom_rank(n)
  factors <- probe_factors(task, r)
  all <- probe_exact_iterations(task, \(...) way$solve(..., turns = Inf), 8)
  turns <- iterations_in_factor(system, task$spec$tolerance)
  iterations <- min(all, turns)
  # the residual is recomputed every REFRESH iterations and at the end
  products <- iterations + iterations %/% REFRESH + 1
  seconds <- c(
    preconditioner = 2 * extrapolate(factors, "T", r) + probe_information(task, system, r, run),
    products = products * probe_exact_product(system, task$t, run),
    solves = (iterations + 1) * (extrapolate(factors, "solves", r, 1) + probe_inverse(task, system, r, run))
  )
  # iterations_in_factor() are as many as take as long as that
  if (all > turns) seconds["factor of all rows"] <- sum(seconds[-1])
  # the factors, and temporary r x r matrices in R
  matrices <- max(8 * r^2 * (2 + if (by_midpoints) 5 + system$rows$d else 3), if (all > turns) 4 * n * (n + 1))
  list(
    iterations = iterations + if (all > turns) REFINEMENTS else 0, seconds = seconds,
    memory = plan_memory(task, matrices, "cpu", 8 * (12 * n * task$t * iterations + 8 * r^2))
  )
}

# A pass takes as long as its blocks, one of which is timed. Passes with the factor of all rows take little time.
plan_blocks <- function(task, system, way) {
  n <- system$n
  run <- block_run(system)
  b <- block_rows(system, run)
  own <- ridge_centers(rows_take(system$rows, spread_rows(n, b)), system$L, system$kernel)
  v <- matrix(1, own$m, task$t)
  all <- probe_exact_iterations(task, \(...) way$solve(..., apart = Inf), 1)
  apart <- passes_apart(replace(system, "run", list(run)))
  passes <- min(all, apart)
  each <- passes * n / b
  seconds <- c(
    factors = each * timed(\() solve_block(own, system$noise[seq_len(own$m)], v, run)),
    products = each * timed(\() block_product(system, own, v, run))
  )
  # passes_apart() are as many as take as long as the factor
  if (all > apart) seconds["factor of all rows"] <- sum(seconds)
  bytes <- if (all > apart) 4 * n * (n + 1) else 8 * b * (b + 1)
  vectors <- 8 * n * task$t * (2 * MOST_KEPT + 12)
  list(
    iterations = passes + if (all > apart) REFINEMENTS else 0, seconds = seconds,
    memory = plan_memory(task, bytes, task$backend, vectors)
  )
}

# Passes with the factor of all rows that reach about 1e-7 (bench/blocks.R).
REFINEMENTS <- 8

# ---- memory -----------------------------------------------------------------------------------

# list(host, device): bytes by purpose. `factors`: bytes of the factors, which are `on` "cpu" or "cuda". `waste`: bytes
# of all temporary R objects, which R may free late.
plan_memory <- function(task, factors, on, waste) {
  rows <- task$rows
  n <- rows$n
  m <- task$m
  t <- task$t
  cpu <- task$backend == "cpu"
  exact <- task$spec$exact && task$spec$family$squared
  kept <- task$run$host_memory
  packed <- if (cpu) min(8 * n * rows$d, if (is.null(kept)) 2^30 else kept) else 0
  host <- c(
    `response and weights` = if (is_column(task$problem$y)) 0 else 8 * n * t * (if (task$spec$family$squared) 4 else 10),
    `kernels of rows and centres` = if (exact) 0 else kernel_bytes(rows, m, task$spec, task$run),
    `keys of rows` = if (is.null(rows$keys) || task$spec$exact) 0 else 5 * 8 * n, factors = if (on == "cpu") factors else 0,
    `packed rows and centres` = 8 * m * rows$d + packed,
    `vectors of the solver` = 8 * m * t * (10 + if (cpu && m < n) 64 else 0),
    `uncollected R objects` = min(waste, waste_room())
  )
  device <- if (!cpu) {
    k <- 16 * ceiling(rows$d / 16)
    c(
      rows = n * (4 * k + 16 + 8 * t), factors = if (on == "cuda") factors else 0,
      `kernels of rows and centres` = if (exact) 0 else kernel_bytes(rows, m, task$spec, task$run, "cuda")
    )
  }
  list(host = host, device = device)
}

# Bytes that R allocates before its next garbage collection.
waste_room <- function() {
  vectors <- gc()["Vcells", ]
  max(0, 8 * (vectors[["gc trigger"]] - vectors[["used"]]))
}

# ---- shown ------------------------------------------------------------------------------------

#' @export
#' @noRd
print.ridge_plan <- function(x, ...) {
  steps <- if (x$family$squared) ngettext(x$iterations, "iteration", "iterations") else "Newton steps"
  cat("Plan of a kernel ridge regression: ", whole(x$n), " rows, ",
    whole(x$d), ngettext(x$d, " column, ", " columns, "),
    if (x$exact) "exact" else paste0(whole(x$m), " centres"), if (x$t > 1) paste0(", ", x$t, " responses"), ", about ",
    x$iterations, " ", steps, if (!is.null(x$way)) c(" (", x$way, ")"), "\n", sep = "")
  cat("Time:   about ", plan_seconds(sum(x$seconds)), " on ", if (x$backend == "cuda") "the GPU" else "the CPU",
    " (", plan_parts(x$seconds[x$seconds >= 0.01 * sum(x$seconds)], plan_seconds), ")\n", sep = "")
  show <- \(bytes) paste0(format_bytes(sum(bytes)), " (", plan_parts(bytes, format_bytes), ")")
  cat("Memory: ", show(x$memory$host), " in addition to the rows\n", sep = "")
  if (length(x$memory$device) > 0) cat("GPU:    ", show(x$memory$device), "\n", sep = "")
  invisible(x)
}

plan_seconds <- function(seconds) if (seconds < 10) paste(format(signif(seconds, 2)), "s") else time_label(seconds)

plan_parts <- function(x, label) {
  x <- x[x > 0]
  paste(names(x), vapply(x, label, ""), collapse = ", ")
}
