# SD-KDEs with several steps, or with a given score.
#
# The density u_t, p smoothed by a Gaussian of variance t H, flows: points that follow dx/dt = -(H / 2) grad log u_t(x)
# have the density u_t. What smoothing by H adds is gone where the points first flow back by t = 1, from x to y, the
# points of u_-1. By the midpoint rule
#
#   y = x + (H / 2) grad log u_-1/2((x + y) / 2) + O(h^6),
#
# and the KDE of y with variance H / 2 is an estimate of u_-1/2. So each step takes y from the last one; the first, with
# x for y, is the step of an SD-KDE. Where y is off by h^4 the score is, too, and the next y, by h^2 times that: the
# bias is of order h^4 after a step, h^6 after two, and from there on that of the midpoint rule, whose constant further
# steps reach. Steps that begin where the last one ended, of H / k each, stay at order h^4 (bench/NOTES.md).

# A bandwidth goes with n^(-1 / (d + 8)) for one step, and with n^(-1 / (d + 12)) for more: one that was chosen for one
# step is wider by the ratio, times that for so many steps, and for more (bench/debias_steps.R).
STEPS_GAIN <- c(8, 12)
STEPS_WIDEN <- c(1, 0.9, 0.95)

# More steps have no measurable effect.
MOST_STEPS <- 20

# Checks the options of debiasing. If no estimator is named, an option that only one estimator has selects it.
check_debiasing <- function(options, n) {
  options <- check_nonnegative(options)
  asked <- c(steps = options$steps > 1, score = !is.null(options$score))
  if (any(asked) && is_auto(options$estimator)) options$estimator <- "sdkde"
  if (any(asked) && !ESTIMATORS[[check_estimator(options$estimator)]]$debiased) {
    stop_argument(
      paste0("debias$", names(asked)[asked][1]), "is available only for estimator = \"sdkde\": found \"",
      check_estimator(options$estimator), "\""
    )
  }
  if (any(asked) && !isFALSE(options$adaptive) && !identical(check_adaptive(options$adaptive, n), "auto")) {
    stop(new_error("unsupported", paste0(
      "`adaptive` is available for an SD-KDE only with one step along its own score: leave out `adaptive`, or `debias`"
    ), user_call()))
  }
  if (asked[["score"]] && options$steps == 1 && !is.null(options$score_bandwidth)) {
    stop_argument(
      "debias$bandwidth", "is available only for steps along the fit's own score: found one step along `score`"
    )
  }
  options
}

# ---- a score that is given --------------------------------------------------------------------

# The given score at the points of `data` as an n x d matrix, or NULL. `n`: number of rows before rows with missing
# values were removed.
given_score <- function(score, data, n, arg) {
  if (is.null(score)) return(NULL)
  points <- data$points
  if (inherits(score, "flash_kde")) {
    if (score$d != ncol(points)) {
      stop_argument("debias$score", "must be a fit in ", ncol(points), " dimensions, as `", arg, "`: found ", score$d)
    }
    run <- start_run(fit_asked(score), "Computing scores")
    found <- score_estimate(unclass(score), points, FALSE, run)
  } else if (is.function(score)) {
    found <- in_function_of_user("score", score(points))
  } else {
    found <- if (is.data.frame(score)) as.matrix(score) else score
    if (NROW(found) == n && !is.null(data$omitted)) found <- as.matrix(found)[-data$omitted, , drop = FALSE]
  }
  right <- is_number(found) && NROW(found) == nrow(points) && NCOL(found) == ncol(points)
  if (!right) {
    stop_argument(
      "debias$score", "must be a fit, a ", nrow(points), " x ", ncol(points), " matrix, or a function that returns one: ",
      if (is.function(score)) "returned " else "found ", describe(found)
    )
  }
  found <- matrix(as.double(found), nrow(points))
  counts <- if (is.null(data$weights)) TRUE else data$weights > 0
  check_finite(found[counts, , drop = FALSE], "debias$score")
  found
}

# ---- steps ------------------------------------------------------------------------------------

# Rescales a bandwidth that was chosen for one step to `steps` steps. `main`: of fit_bandwidths().
widened <- function(main, steps, data) {
  d <- ncol(data$points)
  by_rate <- effective_size(data$weights, nrow(data$points))^(1 / (d + STEPS_GAIN[1]) - 1 / (d + STEPS_GAIN[2]))
  wider <- max(1, STEPS_WIDEN[min(steps, length(STEPS_WIDEN))] * by_rate)
  replace(main, c("H", "L"), list(wider^2 * main$H, wider * main$L))
}

# list(debiased, stats) as of debias_sum(), by `path`: a list of how many steps, and NULL or the score of the first.
debias_along <- function(sources, L, path, control) {
  share_stage(control, 0, 1 / path$steps)
  made <- if (is.null(path$score)) {
    debias_sum(sources, L, control)
  } else {
    list(debiased = moved(sources$points, path$score, L))
  }
  for (step in seq_len(path$steps - 1)) {
    share_stage(control, step / path$steps, 1 / path$steps)
    debiased <- keep_lost(made$debiased, sources$points, sources$weights)
    middle <- (sources$points + debiased) / 2
    of_debiased <- sum_sources(debiased, sources$weights, sources$L)
    found <- score_sum(of_debiased, middle, PLAIN_FACTOR, FALSE, NULL, control)
    made <- list(debiased = moved(sources$points, found$score, L), stats = joined_stats(made$stats, found$stats))
  }
  made
}

# The points, moved by H / 2 along the score, H = L L'.
moved <- function(points, score, L) points + score %*% tcrossprod(L) / 2

# ---- what follows for a fit -------------------------------------------------------------------

n_steps <- function(object) if (is.null(object$steps)) 1L else object$steps

# debiased_loo() for points that moved along a given score: the sums over all other points come from
# those outside of a block and those within.
given_score_loo <- function(object, control, block = 512) {
  sources <- fit_sources(object)
  at <- targets(object, NULL)
  blocks <- split(seq_len(object$n), ceiling(seq_len(object$n) / block))
  sums <- list(log_abs = numeric(object$n))
  done <- 0
  for (rows in blocks) {
    share_stage(control, done, length(rows) / object$n)
    done <- done + length(rows) / object$n
    own <- at[rows, , drop = FALSE]
    sums$log_abs[rows] <- log_sum_within(sources, rows, own)
    if (length(rows) == object$n || all(sources$weights[-rows] == 0) && !is.null(sources$weights)) next
    rest <- sum_sources(sources$points[-rows, , drop = FALSE], sources$weights[-rows], sources$L)
    others <- log_sum(rest, own, PLAIN_FACTOR, FALSE, control)
    sums$log_abs[rows] <- log_add(sums$log_abs[rows], others$log_abs)
    sums$stats <- joined_stats(sums$stats, others$stats)
  }
  sums
}

# log of the sums over the others of these sources, at a target for each.
log_sum_within <- function(sources, rows, at) {
  L <- sources$L
  u <- transposed(whitened_columns(sources$points[rows, , drop = FALSE], L))
  v <- transposed(whitened_columns(at, L))
  q <- Reduce(`+`, lapply(seq_len(ncol(u)), \(k) apart_in(v, u, k)^2))
  term <- -q / 2
  if (!is.null(sources$weights)) term <- term + rep(log(sources$weights[rows]), each = length(rows))
  diag(term) <- -Inf
  top <- apply(term, 1, max)
  ifelse(top == -Inf, -Inf, top + log(rowSums(exp(term - top))))
}

# Prints the number of steps and the score, if they are not the default.
print_steps <- function(object) {
  steps <- n_steps(object)
  if (steps == 1 && !isTRUE(object$given_score)) return(invisible())
  by <- if (isTRUE(object$given_score)) "the score that was given" else "its own score"
  cat("Debiased along ", by, if (steps > 1) paste0(", in ", steps, " steps"), "\n", sep = "")
}
