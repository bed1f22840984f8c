# Chooses the bandwidth of the numbers and the lambdas of the categories together, by the leave-one-out likelihood of
# the classical estimate. For given lambdas, the search of bandwidth-choose.R finds H; its criterion is a sum over
# cells (points with equal categories). For a given H, lambdas are found at little cost, because the likelihood needs
# only one sum for each row and each cell. The two alternate on a sample of rows. Then the factor of H, with the best
# lambdas for each factor, is chosen with all points as sources.

# Limits for the choice of lambdas: rows at which the likelihood is evaluated; sums for these rows, over cells and local
# factors; pairs for each bandwidth and second of the budget.
JUDGES <- 2000
JUDGED_SUMS <- 4e6
JUDGED_PAIRS <- 2e7

# Largest number of alternations between H and the lambdas, and the change of a lambda, relative to its limit, that ends
# them.
MOST_TURNS <- 3
SAME_LAMBDA <- 0.02

# Selectors for data with categories.
MIXED_SELECTORS <- c("auto", "lcv", "silverman", "scott", "nrd0", "sj")

# Chooses what `options` leaves open: list(main, score, lambda, chosen, adaptive). `main`, `score`: as from
# fit_bandwidths(); `chosen`: which lambdas were chosen; `adaptive`: a record of local factors, or NULL.
mixed_bandwidths <- function(data, estimator, options, control, arg) {
  columns <- data$discrete$columns
  lambda <- check_lambda(options$lambda, columns)
  free <- is.na(lambda) & most_lambda(columns) > 0
  data$discrete$lambda <- replace(lambda, is.na(lambda) & !free, 0)
  adapted <- NULL
  main <- mixed_wanted(options$bandwidth, data, "bandwidth")
  score <- if (!is.null(options$score_bandwidth)) mixed_wanted(options$score_bandwidth, data, "debias$bandwidth")
  search <- search_options("lcv", options$structure, options$rows, options$seconds)
  joint <- is.character(main) && main %in% c("auto", "lcv")
  if (search$structure != "auto" && !joint) {
    stop_argument("structure", "is available only for method \"auto\" or \"lcv\": found another `bandwidth`")
  }
  check_lambda_rows(free, data, is.character(main), arg)
  name_stage(control, "Selecting the bandwidth")
  started <- proc.time()[["elapsed"]]
  found <- if (joint) {
    check_spread(data$points, arg, data$weights, cure = " (give `bandwidth` as a number)")
    choose_jointly(data, free, search, estimator, control, arg)
  } else {
    if (is.character(main)) main <- settle_bandwidth(main, data, estimator, search, control, "bandwidth", arg)
    chosen <- choose_lambdas(data, main$L, free, search$seconds, control)
    list(main = main, lambda = chosen$lambda, stats = chosen$stats)
  }
  if (!is.null(options$adaptive)) {
    adapted <- adapt_mixed(data, found, options, free, joint, control, arg)
    found$lambda <- adapted$lambda
    found$main[c("H", "L")] <- adapted[c("H", "L")]
    found$stats <- joined_stats(found$stats, adapted$stats)
  }
  if (joint || any(free)) {
    found$main$stats <- as.list(found$stats)
    found$main$stats$seconds <- proc.time()[["elapsed"]] - started
  }
  if (is.character(score)) score <- settle_bandwidth(score, data, estimator, search, control, "debias$bandwidth", arg)
  if (is.null(score) && ESTIMATORS[[estimator]]$debiased) score <- own_score(found$main)
  list(main = found$main, score = score, lambda = found$lambda, chosen = free, adaptive = adapted$record)
}

# An automatic lambda needs leave-one-out values, so at least two rows. `with_bandwidth`: is the bandwidth chosen, too?
check_lambda_rows <- function(free, data, with_bandwidth, arg) {
  if (!any(free) || n_given(data) > 1) return(invisible())
  cure <- paste0(if (with_bandwidth) "`bandwidth` as a number and ", "categorical_kernel(smoothing = 0)")
  stop_argument(
    arg, "must have at least two rows of positive weight for automatic smoothing of categories: found one (give ",
    cure, ")"
  )
}

# want_bandwidth() for data with categories. Without numeric columns there is no bandwidth.
mixed_wanted <- function(bandwidth, data, arg) {
  d <- ncol(data$points)
  if (d == 0) {
    if (!is.null(bandwidth)) stop_argument(arg, "must be NULL without numeric columns: found ", describe(bandwidth))
    return(list(H = matrix(0, 0, 0), L = matrix(0, 0, 0), selector = "none"))
  }
  if (is.character(bandwidth) && length(bandwidth) == 1 && !is.na(bandwidth)) {
    name <- check_selector(bandwidth, d, data$weights, arg)
    if (!name %in% MIXED_SELECTORS) {
      stop_argument(
        arg, "must be numeric or one of ", quote_choices(MIXED_SELECTORS),
        " for data with categorical columns: found \"", name, "\""
      )
    }
  }
  want_bandwidth(bandwidth, data$points, data$weights, arg)
}

# ---- together -----------------------------------------------------------------------------------

# Chooses bandwidth and lambdas together: list(main, lambda, stats).
choose_jointly <- function(data, free, search, estimator, control, arg) {
  clean <- clean_mixed(data, arg)
  run <- search_run(control, clean$d)
  tally <- new_tally()
  batch <- sample_of(clean, seq_len(min(nrow(clean$x), sample_size(clean, search))))
  turn <- replace(search, "rows", Inf)
  batch$L <- rule_factor("silverman", batch$n, clean$d, PLAIN_ESTIMATOR) * diag(clean$d)
  turned <- in_turns(batch, batch$L, lambda_search(batch, free, search$seconds, run, tally), \(batch, last) {
    known <- last$bandwidth
    if (!is.null(known)) turn[c("structure", "start")] <- list(attr(known, "structure"), plain_numbers(known))
    found <- choose_bandwidth(batch, PLAIN_ESTIMATOR, turn, run)
    count_stats(tally, found$stats)
    list(bandwidth = found$bandwidth, L = as_bandwidth(plain_numbers(found$bandwidth), clean$d)$L / clean$unit)
  })
  found <- turned$found
  clean$discrete$lambda <- turned$lambda
  carry <- carried(batch, clean, bandwidth_rate(PLAIN_ESTIMATOR, clean$d))
  last <- with_lambdas(clean, carry * turned$L, lambda_search(clean, free, search$seconds, run, tally))
  clean$discrete$lambda <- last$lambda
  if (estimator != PLAIN_ESTIMATOR) last$L <- for_estimator(last$L, estimator, clean, search, run, tally)
  attr(found$bandwidth, "score") <- if (estimator == "sdkde") SCORE_RATIO
  main <- mixed_main(last$L, found$bandwidth, clean, colnames(data$points))
  list(main = main, lambda = last$lambda, stats = tally$stats)
}

# list(L, lambda, found), H and lambdas one after the other on the rows of `batch`: best_lambdas(L, lambda), and
# best_factor(batch, found), a list with L, `found` being what it gave in the turn before.
in_turns <- function(batch, L, best_lambdas, best_factor) {
  found <- NULL
  for (turn in seq_len(MOST_TURNS)) {
    lambda <- best_lambdas(L, batch$discrete$lambda)$lambda
    changed <- abs(lambda - batch$discrete$lambda) > SAME_LAMBDA * most_lambda(batch$discrete$columns)
    if (turn > 1 && !any(changed)) break
    batch$discrete$lambda <- lambda
    found <- best_factor(batch, found)
    L <- found$L
  }
  list(L = L, lambda = batch$discrete$lambda, found = found)
}

# The best factor of L, with the best lambdas for each factor, on all rows of `data`: list(L, lambda, value).
with_lambdas <- function(data, L, best_lambdas) {
  lambda <- data$discrete$lambda
  best <- list(value = Inf)
  value <- function(L) {
    found <- best_lambdas(L, lambda)
    lambda <<- found$lambda
    if (found$value < best$value) best <<- list(L = L, lambda = found$lambda, value = found$value)
    found$value
  }
  minimise(list(value = value), list(L), schedule = list(tol = 0.02))
  best
}

# The bandwidth as as_bandwidth() returns it. For rounded columns it is at least the minimum of finished().
mixed_main <- function(L, bandwidth, data, names) {
  H <- tcrossprod(data$unit * L)
  width <- ifelse(is.na(data$columns$width), 0, data$columns$width)
  diag(H) <- pmax(diagonal(H), width^2 / 4)
  attr(bandwidth, "heavy") <- FALSE
  c(as_bandwidth(H, data$d, names = names), list(selector = "lcv", search = bandwidth))
}

# Factor from the bandwidth of the classical estimate to that of another estimator, by its likelihood on a sample.
for_estimator <- function(L, estimator, data, search, run, tally) {
  cells <- nrow(unique(data$discrete$codes))
  rows <- search$rows
  if (is.null(rows)) rows <- rows_for(search$seconds, 8 * min(cells, 100), nominal_costs()$moments, least = 300)
  batch <- sample_of(data, seq_len(min(nrow(data$x), rows)))
  rule <- \(estimator) rule_factor("silverman", batch$n, data$d, estimator)
  plain <- L / carried(batch, data, bandwidth_rate(PLAIN_ESTIMATOR, data$d))
  near <- rule(estimator) / rule(PLAIN_ESTIMATOR) * plain
  count <- \(stats) count_stats(tally, stats)
  loss <- debiased_likelihood(judged(batch), left_out_sums(estimator, batch$discrete), run, count)
  found <- minimise(list(value = \(L) loss$at(L, "none")$value), list(near), schedule = list(tol = 0.02))
  carried(batch, data, bandwidth_rate(estimator, data$d)) * found$L
}

# clean_points() of the numeric columns, with the weights of the rows.
clean_mixed <- function(data, arg) {
  clean <- clean_points(data$points, data$weights, arg, data$discrete)
  clean$log_floor <- clean$log_floor - sum(log(lengths(lapply(clean$discrete$columns, `[[`, "levels"))))
  clean
}

# Number of rows for which a search for H takes its share of the budget.
sample_size <- function(data, search) {
  if (!is.null(search$rows)) return(search$rows)
  rows_for(search$seconds, MOST_TURNS * shape_passes(data$d, search$structure), nominal_costs()$moments)
}

# The numbers of a bandwidth without the record of the search.
plain_numbers <- function(bandwidth) {
  if (is.matrix(bandwidth)) matrix(as.vector(bandwidth), nrow(bandwidth)) else as.vector(bandwidth)
}

# ---- lambdas ------------------------------------------------------------------------------------

# Chooses the lambdas for a given bandwidth: list(lambda, stats).
choose_lambdas <- function(data, L, free, seconds, control) {
  if (!any(free)) return(list(lambda = data$discrete$lambda))
  if (ncol(data$points) == 0) {
    return(list(lambda = optimise_lambdas(frequency_loss(data), data$discrete, free)$lambda))
  }
  tally <- new_tally()
  judged <- new_selector_data(data$points, data$weights, data$discrete)
  # as H is what it is, any floor will do that a point alone in its cell can feel
  judged$log_floor <- rep(log_kernel_norm(L) - 50, nrow(judged$x))
  best_lambdas <- lambda_search(in_own_order(judged), free, seconds, search_run(control, judged$d), tally)
  list(lambda = best_lambdas(L, data$discrete$lambda)$lambda, stats = tally$stats)
}

# A function of L and of the lambdas from which to start, with list(lambda, value), the best ones and their loss: minus
# the mean over the first rows, in an order as good as random, of the log of the density by all other points and the
# floor.
lambda_search <- function(data, free, seconds, run, tally) {
  data <- judged(data)
  n <- nrow(data$x)
  cells <- cells_of(data$discrete$codes)
  count <- length(cells$rows) * max(1, length(unique(data$factors)))
  judges <- seq_len(min(n, max(200, floor(min(JUDGES, JUDGED_SUMS / count, JUDGED_PAIRS * seconds / n)))))
  v <- data$v[judges] / sum(data$v[judges])
  log_floor <- data$log_floor[judges]
  blocks <- cell_blocks(cells$codes, cells$of[judges], data$discrete$columns)
  function(L, lambda) {
    found <- cell_sums(data, L, cells, judges, run)
    count_stats(tally, found$stats)
    log_unit <- log_kernel_norm(L) - log(data$others[judges]) + found$top
    floor <- exp(log_floor - log_unit)
    lost <- floor == Inf
    density <- blocks$density(found$sums)
    loss <- lambda_loss(data$discrete, blocks, density, replace(v, lost, 0), replace(floor, lost, 1))
    best <- optimise_lambdas(loss, replace(data$discrete, "lambda", list(lambda)), free)
    best$value <- best$value - sum(v * ifelse(lost, log_floor, log_unit))
    best
  }
}

# From where they are; where they have not been looked for yet, from two places, whichever leads to less. A lambda that
# makes no difference becomes the largest one, with which levels tell least. `loss`: as lambda_loss() makes it, or
# without slopes, and with `undefined`, the weights of the rows at which there is no estimate, as lambda is 0.
optimise_lambdas <- function(loss, discrete, free) {
  lambda <- discrete$lambda
  if (!any(free)) return(list(lambda = lambda, value = loss(lambda, free)$value))
  most <- most_lambda(discrete$columns)[free]
  at <- \(part) replace(lambda, free, pmin(part, 1) * most)
  look <- function(part, moves) {
    found <- loss(at(part), free)
    list(value = found$value + UNDEFINED_LOSS * sum(found$undefined), E = if (!is.null(found$slope)) found$slope * most)
  }
  parts <- lambda[free] / most
  starts <- if (anyNA(parts)) list(rep(0.05, sum(free)), rep(0.5, sum(free))) else list(parts)
  best <- minimise(list(gradient = look), starts, PART_MOVES, list(scale = 1, control = list(rel.tol = 1e-8, x.tol = 1e-5)))
  part <- best$L
  for (k in seq_along(part)) {
    wide <- replace(part, k, 1)
    if (look(wide)$value <= best$value + 1e-12 * abs(best$value)) part <- wide
  }
  list(lambda = at(part), value = loss(at(part), free)$value)
}

# Moves for numbers from 0 to 1.
PART_MOVES <- list(
  line = FALSE, free = length, at = \(part, theta) pmin(part + theta, 1), slope = \(E, from, to) E,
  limits = \(part) list(-part, 1 - part)
)

# Penalty in nats for a row without an estimate.
UNDEFINED_LOSS <- -log(.Machine$double.xmin)

# A function of lambda and of which ones are free, with list(value, slope), by these: -sum v log(f + floor). f, linear
# in what cells give to cells, is a density(shares): `shares`, for the pairs of the rows of `pairs$to` and
# `pairs$from`, what the latter gives, in the first column, and in others its derivatives.
lambda_loss <- function(discrete, pairs, density, v, floor) {
  columns <- discrete$columns
  places <- Map(\(column, k) level_places(column, pairs$to[, k], pairs$from[, k]), columns, seq_along(columns))
  function(lambda, free) {
    own <- Map(\(column, lambda, at) level_values(column, lambda)[at], columns, lambda, places)
    before <- Reduce(`*`, own, 1, accumulate = TRUE)
    after <- Reduce(`*`, own, 1, right = TRUE, accumulate = TRUE)
    slopes <- lapply(which(free), \(k) {
      before[[k]] * level_slopes(columns[[k]], lambda[[k]])[places[[k]]] * after[[k + 1]]
    })
    f <- density(cbind(after[[1]], do.call(cbind, slopes)))
    all <- pmax(f[, 1], 0) + floor
    list(value = -sum(v * log(all)), slope = -colSums(v / all * f)[-1])
  }
}

# list(to, from, density), the pairs of cells that lambda_loss() needs, and of sums of cells at rows of the cells `own`
# what it takes for `density`. Columns without an order give by whether levels are equal: to each cell those that are
# alike in all of them give alike, and are one.
cell_blocks <- function(codes, own, columns) {
  ordered <- vapply(columns, \(column) column$kind == "ordered", NA)
  rows <- split(seq_along(own), own)
  cells <- as.integer(names(rows))
  alike <- lapply(cells, \(to) {
    seen <- codes
    for (k in which(!ordered)) seen[, k] <- codes[, k] == codes[to, k]
    cells_of(seen)$of
  })
  from <- lapply(alike, \(group) which(!duplicated(group)))
  places <- split(seq_along(unlist(from)), rep(seq_along(from), lengths(from)))
  back <- order(unlist(rows))
  density <- function(sums) {
    parts <- Map(\(rows, group) t(rowsum(t(sums[rows, , drop = FALSE]), group, reorder = FALSE)), rows, alike)
    \(shares) do.call(rbind, Map(\(part, at) part %*% shares[at, , drop = FALSE], parts, places))[back, , drop = FALSE]
  }
  list(
    to = codes[rep(cells, lengths(from)), , drop = FALSE], from = codes[unlist(from), , drop = FALSE], density = density
  )
}

# level_sums(), by pairs of cells or by the engines, whichever takes less time.
cell_sums <- function(data, L, cells, judges, run) {
  if (prefers_pairs(data, cells, length(judges), data$factors)) {
    return(level_sums(data, L, cells, judges, run, data$factors))
  }
  verb <- log_verb(PLAIN_FACTOR)$merged
  tally <- new_tally()
  sums <- matrix(0, length(judges), length(cells$rows))
  for (s in seq_along(cells$rows)) {
    rows <- cells$rows[[s]]
    class <- sum_sources(data$x[rows, , drop = FALSE], data$w[rows], L, factors = data$factors[rows])
    own <- rows[rows <= length(judges)]
    others <- setdiff(judges, own)
    if (length(own) > 0) {
      part <- left_out(class, match(own, rows), data$x[own, , drop = FALSE], run, verb)
      sums[own, s] <- part$log_abs
      count_stats(tally, part$stats)
    }
    if (length(others) > 0) {
      part <- log_sum(class, data$x[others, , drop = FALSE], PLAIN_FACTOR, FALSE, run)
      sums[others, s] <- part$log_abs
      count_stats(tally, part$stats)
    }
  }
  top <- pmax(apply(sums, 1, max), -.Machine$double.xmax)
  list(sums = exp(sums - top), top = top, stats = tally$stats)
}

# Without numeric columns the sums are weights of cells, and the likelihood uses all rows.
frequency_loss <- function(data) {
  cells <- cells_of(data$discrete$codes)
  count <- length(cells$rows)
  w <- if (is.null(data$weights)) rep(1, length(cells$of)) else data$weights
  totals <- rowsum(w, cells$of)[, 1]
  others <- leave_out(w)
  density <- \(shares) {
    all <- crossprod(matrix(totals * shares, count, count * ncol(shares)), rep(1, count))
    own <- shares[(seq_len(count) - 1) * count + seq_len(count), , drop = FALSE]
    (matrix(all, count)[cells$of, , drop = FALSE] - w * own[cells$of, , drop = FALSE]) / others
  }
  codes <- \(at) cells$codes[at, , drop = FALSE]
  pairs <- list(to = codes(rep(seq_len(count), each = count)), from = codes(rep(seq_len(count), count)))
  floor <- 1e-6 / prod(lengths(lapply(data$discrete$columns, `[[`, "levels")))
  lambda_loss(data$discrete, pairs, density, w / sum(w), floor)
}
