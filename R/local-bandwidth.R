# Bandwidths of kernel_regression() by cross-validation: standard deviations of each column, in units of the
# column's scale, and lambdas of levels, that make a criterion least. Every value of it is exact, of the rows that are looked
# at.

# Of list(fitted, left_out, leverage) of row_fits(), responses y and weights that add up to 1.
REGRESSION_CRITERIA <- list(
  cv = \(fits, y, p) mean(colSums(p * (y - fits$left_out)^2)),
  aicc = function(fits, y, p) {
    n <- nrow(y)
    trace <- sum(fits$leverage)
    if (trace >= n - 2) return(WORST)
    mean(log(colSums(p * (y - fits$fitted)^2))) + (1 + trace / n) / (1 - (trace + 2) / n)
  }
)

# list(L, lambda, selector, search) of `data`: a list of x, y, weights, discrete, whose lambdas to choose are NA, and L,
# NULL if it is to be chosen. Many rows are searched by a part of them first; from where that ends, all that are
# looked at go on.
regression_bandwidth <- function(data, type, criterion, rows, seconds, run) {
  name_stage(run, "Selecting the bandwidth")
  d <- ncol(data$x)
  problem <- regression_problem(data, type, criterion, run)
  # by the numbers in the rows, so that their order does not matter
  seen <- which(if (is.null(data$weights)) rep(TRUE, nrow(data$x)) else data$weights > 0)
  seen <- seen[order(row_keys(cbind(data$x, data$discrete$codes, data$y)[seen, , drop = FALSE]))]
  if (is.null(rows)) rows <- affordable_rows(problem, seconds)
  count <- min(rows, length(seen))
  if (problem$widths > 0) check_spread(data$x[seen[seq_len(count)], , drop = FALSE], "x", cure = GIVE_NUMBERS)
  rate <- \(count) effective_size(data$weights[seen[seq_len(count)]], count)^(-1 / (d + 4))
  value_on <- \(count) criterion_of(problem, seen[seq_len(count)])
  few <- if (problem$widths + problem$shares > 1) max(SCAN_ROWS, ceiling(count / FIRST_PART)) else count
  found <- search_widths(value_on(min(few, count)), rate(min(few, count)), problem, if (few < count) 1e-3 else 1e-6)
  if (few < count) found <- search_on(value_on(count), found$ends, rate(count) / rate(few), rate(count), problem)
  n_all <- effective_size(data$weights, nrow(data$x))
  chosen <- chosen_widths(problem, shrunk(found$at, n_all^(-1 / (d + 4)) / rate(count), problem))
  c(chosen, list(selector = if (is.null(data$L)) criterion else "user", search = list(
    criterion = criterion, value = found$value, rows = count, evaluations = problem$tally$count,
    converged = found$converged
  )))
}

GIVE_NUMBERS <- " (give `bandwidth` as a number)"

# What is searched: the logs of `widths` widths, in units of the columns' scales, which tails do not widen, then `shares` lambdas, as
# parts of the largest.
regression_problem <- function(data, type, criterion, run) {
  unit <- column_scales(list(d = ncol(data$x), x = data$x, weights = data$weights))
  list(
    data = data, type = type, criterion = criterion, run = exactly(run), unit = unit,
    widths = if (is.null(data$L)) ncol(data$x) else 0, shares = sum(is.na(data$discrete$lambda)), tally = new.env()
  )
}

# list(L, lambda) at a place of the search.
chosen_widths <- function(problem, at) {
  L <- problem$data$L
  widths <- seq_len(problem$widths)
  if (is.null(L)) L <- diagonal_matrix(problem$unit * exp(at[widths]), length(problem$unit))
  lambda <- problem$data$discrete$lambda
  free <- which(is.na(lambda))
  lambda[free] <- (most_lambda(problem$data$discrete$columns)[free] * at[problem$widths + seq_len(problem$shares)])
  list(L = L, lambda = lambda)
}

# At more rows, with widths `by` times as wide: lambdas shrink by the square, but where a column does not matter.
shrunk <- function(at, by, problem) {
  shares <- problem$widths + seq_len(problem$shares)
  at[seq_len(problem$widths)] <- at[seq_len(problem$widths)] + log(by)
  at[shares] <- ifelse(at[shares] > 0.9, at[shares], at[shares] * by^2)
  at
}

# Of the part of the rows that is searched first seven evaluations take as long as one of all.
FIRST_PART <- 2.7

# Responses count alike, whatever their units.
criterion_of <- function(problem, rows) {
  data <- problem$data
  x <- data$x[rows, , drop = FALSE]
  y <- data$y[rows, , drop = FALSE]
  weights <- data$weights[rows]
  spread <- weighted_sds(y, weights)
  y <- y / rep(ifelse(spread > 0, spread, 1), each = nrow(y))
  p <- if (is.null(weights)) rep(1 / nrow(y), nrow(y)) else weights / sum(weights)
  discrete <- discrete_rows(data$discrete, rows)
  seen <- local_rows(x, y, weights)
  function(at) {
    problem$tally$count <- sum(problem$tally$count, 1)
    chosen <- chosen_widths(problem, at)
    discrete$lambda <- chosen$lambda
    fits <- row_fits(with_kernels(seen, x, chosen$L, discrete), problem$type, problem$run)
    value <- REGRESSION_CRITERIA[[problem$criterion]](fits, y, p)
    if (is.finite(value)) value else WORST
  }
}

# So many that the search takes about `seconds` of a nominal core (R/bandwidth-choose.R): in time linear in the rows,
# or in that of all pairs.
affordable_rows <- function(problem, seconds) {
  d <- ncol(problem$data$x)
  t <- ncol(problem$data$y)
  count <- problem$widths + problem$shares
  codes <- problem$data$discrete$codes
  if (d == 0 || goes_by_line(d, problem$run)) {
    cells <- if (is.null(codes)) 1 else length(cells_of(codes)$rows)
    return(max(SCAN_ROWS, floor(3e4 * seconds / (t * count * cells))))
  }
  columns <- regression_layout(d, t, REGRESSION_TYPES[[problem$type]]$order)$width
  evaluations <- if (count == 1) 30 else 90 * count / FIRST_PART^2 + 20 * count
  # rows with levels do not meet both ways
  pairs <- 4e8 * seconds / (if (is.null(codes)) 1 else 2)
  max(SCAN_ROWS, floor(sqrt(pairs / (evaluations * (1 + (d + columns) / 8)))))
}

# ---- search -----------------------------------------------------------------------------------

# list(low, high, off): what each number of the search is at least and at most, and where its column hardly counts.
# `rate`: the size that widths have by the rule of thumb.
search_limits <- function(rate, problem) {
  of <- \(width, share) c(rep(width, problem$widths), rep(share, problem$shares))
  list(low = of(log(rate) - 3 * log(2), 0), high = of(log(WIDEST), 1), off = of(log(WIDEST / 30), 1))
}

# list(at, value, converged, ends): from the lowest valleys of a scan of one factor for all widths, and from there with
# each column alone so wide that it hardly counts; then by scans of each column, and descents to `ends`, until the
# value changes by less than the part `tol`.
search_widths <- function(value, rate, problem, tol) {
  thetas <- if (problem$widths > 0) log(rate) + log(2) * seq(-3, 5, by = 0.5) else 0
  along <- \(theta) c(rep(theta, problem$widths), rep(FIRST_SHARE, problem$shares))
  values <- vapply(thetas, \(theta) value(along(theta)), 0)
  valleys <- which(values <= c(Inf, values[-length(values)]) & values <= c(values[-1], Inf))
  valleys <- utils::head(valleys[order(values[valleys])], 2)
  if (problem$widths == 1 && problem$shares == 0) return(narrow_scan(value, thetas, values, valleys))
  limits <- search_limits(rate, problem)
  lowest <- along(thetas[valleys[1]])
  alone <- lapply(seq_along(lowest), \(k) replace(lowest, k, limits$off[k]))
  starts <- c(lapply(valleys, \(i) along(thetas[i])), alone)
  starts <- starts[utils::head(order(vapply(starts, value, 0)), 2)]
  descend_widths(value, lapply(starts, \(start) scan_columns(value, start, limits, problem)), limits, problem, tol)
}

FIRST_SHARE <- 0.2

# From the best of the `ends` of a search of fewer rows, widths `by` times as wide.
search_on <- function(value, ends, by, rate, problem) {
  limits <- search_limits(rate, problem)
  starts <- lapply(ends, \(end) within_limits(shrunk(end, by, problem), limits))
  start <- starts[[which.min(vapply(starts, value, 0))]]
  descend_widths(value, list(scan_columns(value, start, limits, problem, sweeps = 1)), limits, problem)
}

within_limits <- function(at, limits) pmin(pmax(at, limits$low), limits$high)

# From each of `starts`, then on from the lowest end. What a start has at a limit stays until the end.
descend_widths <- function(value, starts, limits, problem, tol = 1e-6) {
  runs <- lapply(unique(starts), \(start) {
    inside <- which(start > limits$low & start < limits$high)
    if (length(inside) == 0) return(list(par = start, objective = value(start), message = ""))
    found <- stats::nlminb(
      start[inside], \(at) value(replace(start, inside, at)), scale = 1,
      lower = limits$low[inside], upper = limits$high[inside], control = list(
        rel.tol = tol, x.tol = 1e-3, iter.max = 20 + 5 * length(start), eval.max = 60 * length(start),
        step.min = 0.2, step.max = 1
      )
    )
    replace(found, "par", list(replace(start, inside, found$par)))
  })
  runs <- runs[order(vapply(runs, `[[`, 0, "objective"))]
  last <- polish_columns(value, runs[[1]]$par, runs[[1]]$objective, limits, problem)
  widths <- seq_len(problem$widths)
  stuck <- any(last$at[widths] <= limits$low[widths]) || grepl("limit", runs[[1]]$message)
  list(
    at = last$at, value = last$value, converged = !stuck, ends = c(list(last$at), lapply(runs[-1], `[[`, "par"))
  )
}

# Column after column, the best of widths about the one so far, and of one so wide that it hardly counts: beside
# rows that are nearly alone a criterion has many small valleys, in which a descent ends.
scan_columns <- function(value, start, limits, problem, sweeps = 2) {
  best <- list(at = start, value = value(start))
  for (k in rep(seq_along(start), sweeps)) {
    about <- best$at[k] + log(2) * c(-2, -1.5, -1, -0.5, 0.5, 1, 1.5, 2)
    tried <- if (k <= problem$widths) c(about, limits$off[k]) else setdiff(c(0, 0.02, 0.1, 0.3, 0.6, 1), best$at[k])
    for (number in tried) {
      at <- within_limits(replace(best$at, k, number), limits)
      found <- value(at)
      if (found < best$value) best <- list(at = at, value = found)
    }
  }
  best$at
}

# Each column once more, near by: a descent may end early where another column hardly counts.
polish_columns <- function(value, at, lowest, limits, problem) {
  for (k in seq_along(at)) {
    step <- if (k <= problem$widths) log(1.4) else 0.1
    near <- pmin(pmax(at[k] + c(-step, step), limits$low[k]), limits$high[k])
    found <- stats::optimise(\(number) value(replace(at, k, number)), near, tol = 2e-3)
    if (found$objective < lowest) {
      at[k] <- found$minimum
      lowest <- found$objective
    }
  }
  list(at = at, value = lowest)
}

# Columns' scales beyond which kernels are as good as constant.
WIDEST <- 1000

# One column: between the neighbours of each valley.
narrow_scan <- function(value, thetas, values, valleys) {
  last <- length(thetas)
  runs <- lapply(valleys, \(i) {
    ends <- thetas[c(max(1, i - 1), min(last, i + 1))]
    if (i == last) ends[2] <- log(WIDEST)
    found <- stats::optimise(value, ends, tol = 1e-3)
    if (found$objective < values[i]) found else list(minimum = thetas[i], objective = values[i])
  })
  best <- runs[[which.min(vapply(runs, `[[`, 0, "objective"))]]
  list(at = best$minimum, value = best$objective, converged = best$minimum > thetas[1])
}
