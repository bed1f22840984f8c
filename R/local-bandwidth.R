# Bandwidths of kernel_regression(). The search minimises a criterion over the kernel's standard deviation in each
# column, in units of the column's scale, and over the smoothing parameters (lambda) of categories. Every value of the
# criterion is exact for the rows that are used.

# The criteria are functions of row_fits(), the responses y, weights p that add up to 1, and the number of parameters of
# the search that matter. AICc counts one degree of freedom for each of them: among many columns the best bandwidths of
# a small sample are otherwise often too narrow.
REGRESSION_CRITERIA <- list(
  cv = \(fits, y, p, count) sum(p * (y - fits$left_out)^2) / ncol(y),
  aicc = function(fits, y, p, count) {
    n <- nrow(y)
    trace <- sum(fits$leverage) + count
    if (trace >= n - 2) return(WORST)
    mean(log(colSums(p * (y - fits$fitted)^2))) + (1 + trace / n) / (1 - (trace + 2) / n)
  }
)

# Returns list(L, lambda, selector, search). `data`: list(x, y, weights, discrete, L, ridge), where lambdas to be chosen
# are NA, and L is NULL if it is to be chosen. The criterion NULL means AICc where it is defined for all bandwidths. If
# there are many rows, a search on a part of them gives the start for the search on all rows that are used.
regression_bandwidth <- function(data, type, criterion, rows, seconds, run) {
  name_stage(run, "Selecting the bandwidth")
  d <- ncol(data$x)
  # in an order that depends on the values in the rows, so that the order of the rows does not matter
  seen <- if (is.null(data$weights)) seq_len(nrow(data$x)) else which(data$weights > 0)
  seen <- seen[order(row_keys(cbind(data$x, data$discrete$codes, data$y)[seen, , drop = FALSE]))]
  if (is.null(criterion)) criterion <- if (length(seen) > 2 * (d + length(data$discrete$lambda)) + 3) "aicc" else "cv"
  problem <- regression_problem(data, type, criterion, run)
  if (is.null(rows)) rows <- affordable_rows(problem, seconds)
  count <- min(rows, length(seen))
  if (problem$widths > 0) check_spread(data$x[seen[seq_len(count)], , drop = FALSE], "x", cure = GIVE_NUMBERS)
  rate <- \(count) effective_size(data$weights[seen[seq_len(count)]], count)^(-1 / (d + 4))
  on <- \(count) criterion_of(problem, seen[seq_len(count)])
  few <- if (problem$numbers == 1) count else min(count, max(SCAN_ROWS, ceiling(count / FIRST_PART)))
  found <- search_widths(on(few), rate(few), problem, if (few < count) 1e-3 else 1e-6)
  if (few < count) {
    at <- shrunk(found$at, rate(count) / rate(few), problem)
    found <- search_on(on(count), at, rate(count), problem)
  }
  n_all <- effective_size(data$weights, nrow(data$x))
  chosen <- chosen_widths(problem, shrunk(found$at, n_all^(-1 / (d + 4)) / rate(count), problem))
  c(chosen, list(selector = if (is.null(data$L)) criterion else "user", search = list(
    criterion = criterion, value = found$value, rows = count, evaluations = problem$tally$count,
    converged = found$converged
  )))
}

GIVE_NUMBERS <- " (give `bandwidth` as a number)"

# Describes the search. Its parameters are the logarithms of `widths` standard deviations, in units of robust scales of
# the columns, and then `shares` lambdas, as shares of their largest values.
regression_problem <- function(data, type, criterion, run) {
  widths <- if (is.null(data$L)) ncol(data$x) else 0
  free <- which(is.na(data$discrete$lambda))
  sizes <- lengths(lapply(data$discrete$columns[free], `[[`, "levels"))
  list(
    data = data, type = type, criterion = criterion, run = exactly(run), widths = widths, free = free,
    shares = length(free), least = pmin(LEAST_ROWS * sizes * (data$ridge > 0) / nrow(data$x), 0.5),
    numbers = widths + length(free), most = most_lambda(data$discrete$columns)[free],
    unit = column_scales(list(d = ncol(data$x), x = data$x, weights = data$weights)), tally = new.env(),
    off = c(rep(log(WIDEST / 30), widths), rep(1, length(free)))
  )
}

# Returns list(L, lambda) for parameters of the search.
chosen_widths <- function(problem, at) {
  L <- problem$data$L
  if (is.null(L)) L <- diagonal_matrix(problem$unit * exp(at[seq_len(problem$widths)]), problem$widths)
  lambda <- problem$data$discrete$lambda
  if (problem$shares > 0) lambda[problem$free] <- problem$most * at[problem$widths + seq_len(problem$shares)]
  list(L = L, lambda = lambda)
}

# Converts parameters to another number of rows: standard deviations are multiplied by `by`, and lambdas by its square,
# except lambdas of columns that do not matter.
shrunk <- function(at, by, problem) {
  shares <- problem$widths + seq_len(problem$shares)
  at[seq_len(problem$widths)] <- at[seq_len(problem$widths)] + log(by)
  at[shares] <- ifelse(at[shares] > 0.9, at[shares], at[shares] * by^2)
  at
}

# The first search uses this part of the rows, so that seven of its evaluations take as long as one with all rows.
FIRST_PART <- 2.7

# Makes the criterion for minimise(). Responses are divided by their standard deviations. Values are cached.
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
  criterion <- REGRESSION_CRITERIA[[problem$criterion]]
  known <- new.env()
  value <- function(at) {
    place <- paste(sprintf("%a", at), collapse = " ")
    if (!is.null(known[[place]])) return(known[[place]])
    problem$tally$count <- sum(problem$tally$count, 1)
    chosen <- chosen_widths(problem, at)
    if (!is.null(discrete)) discrete$lambda <- chosen$lambda
    fits <- row_fits(with_kernels(seen, x, chosen$L, discrete, data$ridge), problem$type, problem$run)
    found <- criterion(fits, y, p, sum(at < problem$off))
    known[[place]] <- if (is.finite(found)) found else WORST
  }
  list(value = value, rows = length(rows))
}

# Returns the number of rows for which the search takes about `seconds` of a nominal core (R/bandwidth-choose.R). Its
# time is linear in the rows with one column, and otherwise that of all pairs.
affordable_rows <- function(problem, seconds) {
  d <- ncol(problem$data$x)
  discrete <- problem$data$discrete
  codes <- discrete$codes
  # effects of categories are like responses
  effects <- sum(lengths(lapply(discrete$columns, `[[`, "levels"))) * (problem$data$ridge > 0)
  t <- ncol(problem$data$y) + min(effects, MOST_EFFECTS)
  count <- problem$numbers
  if (d == 0 || goes_by_line(d, problem$run)) {
    cells <- if (is.null(codes)) 1 else length(cells_of(codes)$rows)
    return(max(SCAN_ROWS, floor(3e4 * seconds / (t * count * cells))))
  }
  columns <- layout_of(problem$type, d, t)$width
  evaluations <- if (count == 1) 30 else 90 * count / FIRST_PART^2 + 20 * count
  # with categories each pair is computed twice
  pairs <- nominal_costs()$pairs * seconds / (if (is.null(codes)) 1 else 2)
  max(SCAN_ROWS, floor(sqrt(pairs / (evaluations * (1 + (d + columns) / 8)))))
}

# ---- search -----------------------------------------------------------------------------------

# Rows of other categories together have at least the weight of so many rows, about LEAST_ROWS * categories / n each. With a
# lambda of 0 the line of a category with a few rows is theirs alone, and may leave the data (bench/regression-sets.R).
LEAST_ROWS <- 2

# Returns list(low, high, off, unit) for the parameters of the search: bounds, a value at which the column has almost no
# effect, and the unit of line searches. `rate`: the rate of the bandwidth, n^(-1 / (d + 4)).
search_limits <- function(rate, problem) {
  of <- \(width, share) c(rep(width, problem$widths), rep_len(share, problem$shares))
  most <- if (problem$data$ridge > 0) LARGEST_SHARE else 1
  list(low = of(log(rate / 64), problem$least), high = of(log(WIDEST), most), off = problem$off, unit = of(1, 0.3))
}

# Below 1, where a category does not matter and has no effects.
LARGEST_SHARE <- 0.99

# Bandwidths, in scales of columns: above the first a kernel is practically constant; up to the second one common
# bandwidth for all columns is scanned.
WIDEST <- 1000
ONE_WIDTH <- 2.8

# The straight line with additive categories, lm()'s, or without categories is kept unless another fit has a smaller AICc by
# this much over the number of rows: the search compares many fits, some of which are better by chance.
LINE_MARGIN <- 3

# Returns list(at, value, converged) of the best fit, or of a straight line.
search_widths <- function(criterion, rate, problem, tol) {
  found <- search_all(criterion, rate, problem, tol)
  if (problem$criterion != "aicc" || problem$type != "local_linear" || problem$widths == 0) return(found)
  line <- search_limits(rate, problem)$off
  additive <- replace(line, problem$widths + seq_len(problem$shares), LARGEST_SHARE)
  for (at in unique(list(additive, line))) {
    value <- criterion$value(at)
    if (value <= found$value + LINE_MARGIN / criterion$rows) return(list(at = at, value = value, converged = TRUE))
  }
  found
}

# It starts at the best common factor for all bandwidths, and at the best point at which one column or all columns have almost
# no effect, and continues from the better one after sweeps along the columns.
search_all <- function(criterion, rate, problem, tol) {
  limits <- search_limits(rate, problem)
  widths <- seq_len(problem$widths)
  start <- c(rep(log(rate), problem$widths), pmax(FIRST_SHARE, problem$least))
  if (problem$widths > 0) {
    scan <- list(scan = c(1 / 4, ONE_WIDTH / rate), further = 15, tol = if (problem$numbers == 1) 1e-3 else Inf)
    first <- minimise(criterion, list(start), along(widths, limits), scan)
    start <- first$L
    if (problem$numbers == 1) {
      off <- criterion$value(limits$off)
      if (off < first$value) return(list(at = limits$off, value = off, converged = TRUE))
      return(list(at = start, value = first$value, converged = start > limits$low))
    }
  }
  additive <- replace(limits$off, problem$widths + seq_len(problem$shares), LARGEST_SHARE)
  alone <- c(list(limits$off, additive), lapply(seq_along(start), \(k) replace(start, k, limits$off[k])))
  alone <- alone[[which.min(vapply(alone, criterion$value, 0))]]
  starts <- lapply(unique(list(start, alone)), \(at) sweep_columns(criterion, at, limits, COLUMN_SCAN, off = TRUE))
  search_on(criterion, starts[[which.min(vapply(starts, criterion$value, 0))]], rate, problem, tol)
}

FIRST_SHARE <- 0.2

# Searches from one point: a scan along each column, a descent until the relative change of the value is below `tol`,
# and another scan along each column, because the descent may end early where another column has almost no effect.
# Parameters that the first scans leave at 0 or without effect stay there during the descent.
search_on <- function(criterion, at, rate, problem, tol = 1e-6) {
  limits <- search_limits(rate, problem)
  at <- sweep_columns(criterion, at, limits, COLUMN_SCAN, off = TRUE)
  inside <- which(at > limits$low & at < limits$off)
  found <- list(L = at, converged = TRUE)
  if (length(inside) > 0) {
    moves <- list(
      line = FALSE, free = \(start) length(inside), at = \(start, theta) replace(start, inside, start[inside] + theta),
      limits = \(start) lapply(limits[c("low", "high")], \(limit) (limit - start)[inside])
    )
    found <- minimise(criterion, list(at), moves, list(scale = 1, control = list(
      rel.tol = tol, x.tol = 1e-3, iter.max = 20 + 5 * length(at), eval.max = 60 * length(at), step.min = 0.2,
      step.max = 1
    )))
  }
  at <- sweep_columns(criterion, found$L, limits, replace(COLUMN_SCAN, "tol", 2e-3), off = TRUE)
  widths <- seq_len(problem$widths)
  at_limit <- any(found$L <= limits$low | found$L >= limits$off)
  list(
    at = at, value = criterion$value(at),
    converged = all(at[widths] > limits$low[widths]) && (found$converged || at_limit)
  )
}

# Makes moves of minimise() along some parameters.
along <- function(which, limits) {
  list(line = TRUE, at = function(at, theta) {
    at[which] <- at[which] + limits$unit[which] * theta
    pmin(pmax(at, limits$low), limits$high)
  })
}

# Scans around the current value: near isolated rows a criterion has many small local minima, in which a descent ends.
COLUMN_SCAN <- list(scan = c(1 / 4, 4), further = 0, tol = Inf)

# Minimises along each parameter in turn. With `off` the value at which the column has almost no effect is tried, too.
sweep_columns <- function(criterion, at, limits, schedule, off = FALSE) {
  for (k in seq_along(at)) {
    at <- minimise(criterion, list(at), along(k, limits), schedule)$L
    without <- replace(at, k, limits$off[k])
    if (off && criterion$value(without) < criterion$value(at)) at <- without
  }
  at
}
