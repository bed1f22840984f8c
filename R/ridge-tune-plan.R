# What tune_ridge() will need and take: steps of its search, timed on the sample, and plans of its fits (ridge-plan.R).

# Evaluations that a step of L-BFGS takes, and of which a search mostly needs half: it ends where it gets no better.
EVALUATIONS_PER_STEP <- 1.2

# A list of class tune_ridge_plan. `given`: the arguments of kernel_ridge() so far as they are known. The search by the
# criterion is timed, not the contest with other ways.
plan_tuning <- function(given, rows, y, spec, asked, run) {
  name_stage(run, "Planning")
  run$progress <- NULL
  spec$family <- default_family(spec$family, y)
  response <- check_response(y, rows$n, family = spec$family)
  task <- tuning_task(rows, response, loss_weights(response, spec, rows), spec, asked)
  kernels <- searched_kernels(asked)
  searches <- lapply(kernels, \(kernel) plan_search(task, kernel, asked, run))
  first <- searches[[1]]
  spec <- task$spec
  given[c("kernel", "bandwidth", "lambda")] <- list(
    kernels[[1]], name_bandwidth(first$bandwidth, rows), if (is.null(spec$lambda)) first$noise * task$sample$per_row else spec$lambda
  )
  spec$lambda <- given$lambda
  compared <- compared_values(rows$n, spec, asked)
  fits <- lapply(if (is.null(compared)) list(asked$centers) else compared$counts, \(count) {
    call_with(kernel_ridge.default, replace(given, "centers", list(count)))
  })
  seconds <- \(plan) sum(plan$seconds)
  longest <- fits[[which.max(vapply(fits, seconds, 0))]]
  structure(class = "tune_ridge_plan", list(
    n = rows$n, rows = nrow(task$sample$y), kernels = vapply(kernels, `[[`, "", "name"),
    evaluations = sum(vapply(searches, `[[`, 0, "evaluations")),
    seconds = c(
      search = min(asked$seconds, sum(vapply(searches, `[[`, 0, "seconds"))),
      comparison = if (is.null(compared)) 0 else length(compared$lambdas) * sum(vapply(fits, seconds, 0)),
      fit = seconds(longest)
    ),
    memory = list(host = c(
      search = 8 * SAMPLE_MATRICES * as.double(nrow(task$sample$y))^2, fit = sum(longest$memory$host)
    ), device = longest$memory$device),
    fit = longest
  ))
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
    seconds = seconds + sum(evaluations * each)
  )
}

#' @export
#' @noRd
print.tune_ridge_plan <- function(x, ...) {
  cat("Plan of a search on ", whole(x$rows), " of ", whole(x$n), " rows, ", paste(x$kernels, collapse = ", "), ": at most ",
    whole(ceiling(x$evaluations)), " evaluations, often half as many\n", sep = "")
  cat("Time:   at most about ", plan_seconds(sum(x$seconds)), " (", plan_parts(x$seconds, plan_seconds), ")\n", sep = "")
  # one after the other
  cat("Memory: ", format_bytes(max(x$memory$host)), " (", plan_parts(x$memory$host, format_bytes),
    ") in addition to the rows\n", sep = "")
  cat("\n")
  print(x$fit)
  invisible(x)
}
