# What tune_ridge() will need and take: steps of its search, timed on the sample, and plans of its fits (ridge-plan.R).

# Evaluations that a step of L-BFGS takes, and the part of them that a search mostly needs: it ends where it gets no better.
EVALUATIONS_PER_STEP <- 1.2
USUAL_PART <- 0.5

# Rows for which the default choice is timed, and for half of which, and the least power of the rows by which it grows.
WAY_ROWS <- 240
WAY_GROWTH <- 1.3

# A list of class tune_ridge_plan. `given`: the arguments of kernel_ridge() so far as they are known.
plan_tuning <- function(given, rows, y, spec, asked, run) {
  name_stage(run, "Planning")
  run$progress <- NULL
  spec$family <- default_family(spec$family, y)
  if (has_terms(spec)) spec <- check_additive(spec)
  response <- check_response(y, rows$n, family = spec$family)
  task <- tuning_task(rows, response, loss_weights(response, spec, rows), spec, asked)
  kernels <- searched_kernels(asked)
  searches <- lapply(kernels, \(kernel) (if (has_terms(spec)) plan_terms else plan_search)(task, kernel, asked, run))
  first <- searches[[1]]
  spec <- task$spec
  given[c("kernel", "bandwidth", "lambda")] <- list(
    kernels[[1]], name_bandwidth(first$bandwidth, rows), if (is.null(spec$lambda)) first$noise * task$sample$per_row else spec$lambda
  )
  size <- size_by_default(rows, spec, asked, ncol(response$y), run)
  compared <- if (compares(asked)) compared_values(rows$n, size, given$lambda, asked)
  counts <- if (are_several(asked$centers)) compared$counts else list(size$centers)
  fits <- lapply(counts, \(count) call_with(kernel_ridge.default, with_size(given, size$exact, count)))
  seconds <- \(plan) sum(plan$seconds)
  longest <- fits[[which.max(vapply(fits, seconds, 0))]]
  ways <- plan_ways(task, sum(vapply(searches, `[[`, 0, "seconds")), seconds(longest), run)
  structure(class = "tune_ridge_plan", list(
    n = rows$n, rows = nrow(task$sample$y), kernels = vapply(kernels, `[[`, "", "name"),
    evaluations = sum(vapply(searches, `[[`, 0, "evaluations")),
    seconds = c(
      ways = min(asked$seconds / 2, ways[["comparison"]]), search = min(asked$seconds, ways[["choice"]]),
      comparison = if (is.null(compared)) 0 else length(compared$lambdas) * sum(vapply(fits, seconds, 0)),
      fit = seconds(longest)
    ),
    memory = list(host = c(
      search = 8 * SAMPLE_MATRICES * as.double(nrow(task$sample$y))^2, fit = sum(longest$memory$host)
    ), device = longest$memory$device),
    fit = longest
  ))
}

# Usual seconds of the comparison of ways, and of the choice by the slowest of them. `search`, `fit`: seconds of both for all rows.
plan_ways <- function(task, search, fit, run) {
  ways <- ways_of(task$rows, task$spec, task$asked)
  if (length(ways) == 1) return(c(comparison = 0, choice = search))
  n <- min(task$rows$n, CONTEST_ROWS + HELD_ROWS)
  sizes <- unique(pmin(length(task$sample$index), c(WAY_ROWS / 2, WAY_ROWS)))
  took <- vapply(sizes, \(size) time_default_choice(task, size, run), 0)
  power <- if (length(sizes) == 2) min(max(WAY_GROWTH, log2(took[2] / took[1])), 2) else 0
  default <- took[length(took)] * (min(n, SAMPLE_ROWS) / max(sizes))^power
  # each of two candidates is fitted for each bandwidth, without and with the rows held out
  if (n >= CONTEST_GROWTH * SAMPLE_ROWS) default <- default + 4 * fit
  plain <- if ("plain" %in% ways) time_default_choice(task, max(sizes), run, "none")
  choices <- c(default = default, plain = plain, criterion = search)[ways]
  # it may end after any of the folds
  c(comparison = (1 + length(judged_folds(n))) / 2 * (sum(choices) + length(ways) * fit), choice = max(choices))
}

time_default_choice <- function(task, size, run, metric = task$spec$metric) {
  all <- list(rows = task$rows, y = task$response$y, weights = task$weights, offset = task$spec$offset)
  some <- some_of_data(all, sort(task$sample$index[seq_len(size)]))
  response <- replace(task$response, "y", list(some$y))
  rows <- with_row_keys(some$rows, response, run)
  started <- probe_clock()
  spec <- replace(task$spec, c("offset", "metric"), list(some$offset, metric))
  default_choice(list(rows = rows, response = response, weights = some$weights), spec, run)
  probe_clock() - started
}

# list(bandwidth, noise, evaluations, seconds): where a search begins, and all the steps that it may take.
plan_search <- function(task, kernel, asked, run) {
  started <- probe_clock()
  begun <- search_task(task$sample, kernel, task$spec, asked$criterion, task$structure, run)
  seconds <- probe_clock() - started
  parts <- search_parts(task$sample, asked$criterion)
  evaluations <- EVALUATIONS_PER_STEP * vapply(parts, `[[`, 0, "steps")
  each <- vapply(parts, \(part) {
    of_part <- part_of(begun$task, part)
    timed(\() criterion_at(of_part, begun$theta))
  }, 0)
  list(
    bandwidth = begun$task$base, noise = exp(begun$theta[length(begun$theta)]), evaluations = sum(evaluations),
    seconds = seconds + USUAL_PART * sum(evaluations * each)
  )
}

# The same for a kernel of terms, whose search is made on the rows where it begins.
plan_terms <- function(task, kernel, asked, run) {
  few <- first_of_sample(task$sample, TERM_SAMPLE)
  started <- probe_clock()
  found <- choose_terms(task$rows, task$response, task$weights, replace(task$spec, "kernel", list(kernel)), run, few)
  more <- nrow(task$sample$y) / nrow(few$y)
  list(
    bandwidth = found$bandwidth, noise = found$lambda / task$sample$per_row,
    evaluations = (1 + (more > 1)) * EVALUATIONS_PER_STEP * TERM_STEPS,
    seconds = (probe_clock() - started) * (1 + USUAL_PART * (more > 1) * more^3)
  )
}

#' @export
#' @noRd
print.tune_ridge_plan <- function(x, ...) {
  cat("Plan of a search on ", whole(x$rows), " of ", whole(x$n), " rows, ", paste(x$kernels, collapse = ", "), ": at most ",
    whole(ceiling(x$evaluations)), " evaluations, often half as many\n", sep = "")
  cat("Time:   about ", plan_seconds(sum(x$seconds)), " (", plan_parts(x$seconds, plan_seconds), ")\n", sep = "")
  # one after the other
  cat("Memory: ", format_bytes(max(x$memory$host)), " (", plan_parts(x$memory$host, format_bytes),
    ") in addition to the rows\n", sep = "")
  cat("\n")
  print(x$fit)
  invisible(x)
}
