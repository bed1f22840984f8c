# Bandwidths of kernel_regression() by cross-validation: standard deviations of each column, in units of the
# column's, that make a criterion least. Every value of it is exact, of the rows that are looked at.

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

# list(L, selector, search) of checked data. Many rows are searched by a part of them first; from where that ends, all
# that are looked at go on.
regression_bandwidth <- function(x, y, weights, type, criterion, rows, seconds, run) {
  name_stage(run, "Selecting the bandwidth")
  d <- ncol(x)
  seen <- which(if (is.null(weights)) rep(TRUE, nrow(x)) else weights > 0)
  # by the numbers in the rows, so that their order does not matter
  seen <- seen[order(row_keys(cbind(x, y)[seen, , drop = FALSE]))]
  if (is.null(rows)) rows <- affordable_rows(d, ncol(y), type, seconds, run)
  seen <- seen[seq_len(min(rows, length(seen)))]
  rows_of <- \(count) {
    used <- seen[seq_len(count)]
    list(x = x[used, , drop = FALSE], y = y[used, , drop = FALSE], weights = weights[used])
  }
  check_spread(rows_of(length(seen))$x, "x", cure = " (give `bandwidth` as a number)")
  unit <- weighted_sds(x, weights)
  tally <- new.env()
  tally$count <- 0
  value_on <- \(count) criterion_of(rows_of(count), unit, type, criterion, tally, exactly(run))
  rate <- \(count) effective_size(weights[seen[seq_len(count)]], count)^(-1 / (d + 4))
  few <- if (d > 1) max(SCAN_ROWS, ceiling(length(seen) / FIRST_PART)) else length(seen)
  if (few >= length(seen)) {
    found <- search_widths(value_on(length(seen)), rate(length(seen)), d)
  } else {
    first <- search_widths(value_on(few), rate(few), d)
    carry <- log(rate(length(seen)) / rate(few))
    limits <- search_limits(rate(length(seen)))
    starts <- lapply(first$ends, \(end) pmin(pmax(end + carry, limits[1]), limits[2]))
    value <- value_on(length(seen))
    starts <- starts[which.min(vapply(starts, value, 0))]
    starts <- lapply(starts, \(start) scan_columns(value, start, limits, sweeps = 1))
    found <- descend_widths(value, starts, limits)
  }
  sds <- unit * found$widths * effective_size(weights, nrow(x))^(-1 / (d + 4)) / rate(length(seen))
  list(
    L = diagonal_matrix(sds, d), selector = criterion,
    search = list(
      criterion = criterion, value = found$value, rows = length(seen), evaluations = tally$count,
      converged = found$converged
    )
  )
}

# Of the rows that are looked at, the part that is searched first: seven evaluations of it take as long as one of all.
FIRST_PART <- 2.7

# Of the logs of the widths. Responses count alike, whatever their units.
criterion_of <- function(part, unit, type, criterion, tally, run) {
  spread <- weighted_sds(part$y, part$weights)
  y <- part$y / rep(ifelse(spread > 0, spread, 1), each = nrow(part$y))
  p <- if (is.null(part$weights)) rep(1 / nrow(y), nrow(y)) else part$weights / sum(part$weights)
  function(logs) {
    tally$count <- tally$count + 1
    data <- local_data(part$x, y, part$weights, diagonal_matrix(unit * exp(logs), length(unit)))
    value <- REGRESSION_CRITERIA[[criterion]](row_fits(data, type, run), y, p)
    if (is.finite(value)) value else WORST
  }
}

# So many that the search takes about `seconds` of a nominal core (R/bandwidth-choose.R): in time linear in the rows,
# or in that of all pairs.
affordable_rows <- function(d, t, type, seconds, run) {
  if (goes_by_line(d, run)) return(max(SCAN_ROWS, floor(3e4 * seconds / t)))
  columns <- regression_layout(d, t, REGRESSION_TYPES[[type]]$order)$width
  evaluations <- if (d == 1) 30 else 90 * d / FIRST_PART^2 + 20 * d
  max(SCAN_ROWS, floor(sqrt(4e8 * seconds / (evaluations * (1 + (d + columns) / 8)))))
}

# ---- search -----------------------------------------------------------------------------------

search_limits <- function(rate) c(log(rate) - 3 * log(2), log(WIDEST))

# list(widths, value, converged, ends): from the lowest valleys of a scan of one factor for all columns, `rate` the
# size that it has by the rule of thumb, and from there with each column alone so wide that it hardly counts; then by
# scans of each column, and descents, which end at the logs `ends`.
search_widths <- function(value, rate, d) {
  thetas <- log(rate) + log(2) * seq(-3, 5, by = 0.5)
  values <- vapply(thetas, \(theta) value(rep(theta, d)), 0)
  valleys <- which(values <= c(Inf, values[-length(values)]) & values <= c(values[-1], Inf))
  valleys <- utils::head(valleys[order(values[valleys])], 2)
  if (d == 1) return(narrow_scan(value, thetas, values, valleys))
  limits <- search_limits(rate)
  lowest <- rep(thetas[valleys[1]], d)
  alone <- lapply(seq_len(d), \(k) replace(lowest, k, log(WIDEST / 30)))
  starts <- c(lapply(valleys, \(i) rep(thetas[i], d)), alone)
  starts <- starts[utils::head(order(vapply(starts, value, 0)), 2)]
  descend_widths(value, lapply(starts, \(start) scan_columns(value, start, limits)), limits)
}

# From each of `starts`, logs of widths, then on from the lowest end.
descend_widths <- function(value, starts, limits) {
  runs <- lapply(starts, \(start) stats::nlminb(
    start, value, scale = 1, lower = limits[1], upper = limits[2],
    control = list(
      rel.tol = 1e-6, x.tol = 1e-3, iter.max = 30 + 5 * length(start), eval.max = 60 * length(start), step.min = 0.2,
      step.max = 1
    )
  ))
  runs <- runs[order(vapply(runs, `[[`, 0, "objective"))]
  last <- polish_columns(value, runs[[1]]$par, runs[[1]]$objective)
  stuck <- any(last$logs <= limits[1]) || grepl("limit", runs[[1]]$message)
  list(
    widths = exp(last$logs), value = last$value, converged = !stuck,
    ends = c(list(last$logs), lapply(runs[-1], `[[`, "par"))
  )
}

# Column after column, the best of widths about the one so far, and of one so wide that it hardly counts: beside
# rows that are nearly alone a criterion has many small valleys, in which a descent ends.
scan_columns <- function(value, start, limits, sweeps = 2) {
  at <- list(logs = start, value = value(start))
  for (k in rep(seq_along(start), sweeps)) {
    tried <- c(at$logs[k] + log(2) * c(-2, -1.5, -1, -0.5, 0.5, 1, 1.5, 2), log(WIDEST / 30))
    for (width in pmin(pmax(tried, limits[1]), limits[2])) {
      logs <- replace(at$logs, k, width)
      found <- value(logs)
      if (found < at$value) at <- list(logs = logs, value = found)
    }
  }
  at$logs
}

# Each column once more, near by: a descent may end early where another column hardly counts.
polish_columns <- function(value, logs, lowest) {
  for (k in seq_along(logs)) {
    near <- logs[k] + log(1.4) * c(-1, 1)
    found <- stats::optimise(\(width) value(replace(logs, k, width)), near, tol = 2e-3)
    if (found$objective < lowest) {
      logs[k] <- found$minimum
      lowest <- found$objective
    }
  }
  list(logs = logs, value = lowest)
}

# Columns' standard deviations beyond which kernels are as good as constant.
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
  list(widths = exp(best$minimum), value = best$objective, converged = best$minimum > thetas[1])
}
