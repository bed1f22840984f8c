# Hold-out error with the real centres along lambda and the number of centres: the preconditioner's T once for each set
# of centres, and each fit from the last one's coefficients.

# A data frame (centers, lambda, error), and its best row. The error is mean squared, or log loss. Rows that are held
# out stay where they are, at weight 0.
hold_out_path <- function(rows, response, weights, spec, counts, lambdas, run) {
  spec <- settle_solver(replace(spec, "exact", FALSE))
  aside <- set_aside(rows, response, weights, min(HELD_ROWS, max(1, rows$n %/% 5)))
  held <- aside$held
  if (!length(held) %in% seq_len(rows$n - 1)) {
    stop_argument("x", "must have more rows to hold some out for validation: found ", whole(rows$n))
  }
  offset <- check_offset(spec$offset, rows$n, ncol(response$y))
  if (has_terms(spec)) spec$kernel <- with_vague_terms(spec$kernel, rows$n * max(lambdas))
  spec$L <- rows_factor(rows, spec$bandwidth)
  rows <- rows_under(rows, spec$L, spec$kernel)
  problem <- list(
    rows = rows, y = response$y, classes = response$classes, weights = aside$weights, offset = offset,
    intercept = spec$intercept
  )
  at <- list(
    rows = ridge_rows(rows_take(rows, held), spec$L, spec$kernel), y = response$y[held, , drop = FALSE],
    offset = if (!is.null(offset)) offset[held, , drop = FALSE]
  )
  lambdas <- sort(lambdas, decreasing = TRUE)
  name_stage(run, "Choosing lambda")
  table <- do.call(rbind, lapply(seq_along(counts), \(i) {
    share_stage(run, (i - 1) / length(counts), 1 / length(counts))
    data.frame(
      centers = if (is_count(counts[[i]])) counts[[i]] else NROW(counts[[i]]), lambda = lambdas,
      error = errors_along(problem, at, replace(spec, "centers", list(counts[[i]])), lambdas, run)
    )
  }))
  list(table = table, best = best_of_path(table))
}

HELD_ROWS <- 5000

# list(held, weights): numbers of rows, drawn, and the weights of all with these at 0.
set_aside <- function(rows, response, weights, number) {
  if (inherits(rows, "rows_data")) {
    split <- list(part = number / rows$n, seed = sample.int(.Machine$integer.max, 1))
    return(list(held = held_rows(rows$data, split), weights = weights_without(rows, rows_column(rows, weights), split)))
  }
  held <- spare_classes(sort(draw_places(rows, number)), response$y, response$classes, weights)
  if (is.null(weights)) weights <- rep(1, rows$n)
  list(held = held, weights = replace(weights, held, 0))
}

is_count <- function(x) is_number(x) && length(x) == 1

errors_along <- function(problem, at, spec, lambdas, run) {
  chosen <- pick_centers(problem$rows, spec, problem$weights, run)
  problem <- problem_where_computed(problem, chosen$points, run)
  hold_rows(problem$rows)
  system <- system_of(problem, chosen, spec, run)
  centers <- system$centers
  vapply(lambdas, \(lambda) {
    spec$lambda <- lambda
    solved <- fit_family(replace(system, "lambda", lambda), problem, spec)
    spec$start <<- list(coefficients = solved$coefficients)
    if (!is.null(solved$loss)) spec$family$loss <- solved$loss
    link <- link_of_held(at, centers, solved$coefficients, solved$intercept, run)
    if (spec$family$squared) mean((link - at$y)^2) else held_error(spec$family, link, at$y)
  }, 0)
}

# Row of the table with the fewest centres among those whose error is within 1 percent of the smallest error.
best_of_path <- function(table) {
  good <- table[is.finite(table$error) & table$error <= 1.01^2 * min(table$error, na.rm = TRUE), ]
  good <- good[good$centers == min(good$centers), ]
  good[which.min(good$error), ]
}
