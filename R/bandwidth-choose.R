# The choice of a bandwidth: which rows are looked at, which structure, which factor.
#
# A shape of H is found by the leave-one-out likelihood of the plain estimate, whose gradient is known, in every
# structure, and the structure by what the likelihood gains over what its parameters let it gain by chance. Then the
# factor of all columns is found by the criterion of the estimator. First on few rows, from a scan, then on more from
# there; on all rows where that fits the budget, else as a mean over several samples.

# What finds the factor of d columns once the shape is known, c(criterion, estimator); NULL: the criterion of the
# shape has.
FACTOR_CRITERIA <- list(
  auto = \(d) list(
    kde = if (censors(d)) c("csl", "kde"), sdkde = c("half", "sdkde"),
    laplace = c("lscv", "laplace"), laplace6 = c("lcv", "laplace6")
  ),
  lcv = \(d) list(
    kde = NULL, sdkde = c("lcv", "sdkde"), laplace = c("lcv", "laplace"), laplace6 = c("lcv", "laplace6")
  ),
  lscv = \(d) list(kde = NULL, laplace = c("lscv", "laplace")),
  scv = \(d) list(kde = NULL),
  plugin = \(d) list(kde = NULL)
)

# Where tails are heavy the likelihood oversmooths the middle. A likelihood that is censored towards the tails does
# not, and costs the rows in the tails their density. In several dimensions this is for SD-KDEs and for local factors,
# which regain most of it (bench/several.R); a classical estimate of one bandwidth would lose up to half a nat a row.
censors <- function(d) d == 1

# Ratio of the factor by the likelihood to the factor by the censored likelihood from which tails count as heavy.
HEAVY_FROM <- 1.5

# Standard deviation of the log of the bandwidth around the plug-in bandwidth of up to so many rows (bench/skewed.R).
PRIOR_SD <- 0.35
PRIOR_ROWS <- 1000

# What a gain of the likelihood by chance is, in parameters over rows, measured on real and simulated data; a gain
# below `TIE` is none.
PENALTY <- 3
TIE <- 0.002

# list(bandwidth, stats), of clean_points(). `options`: a list of criterion, structure, rows, seconds and start.
choose_bandwidth <- function(data, estimator, options, run) {
  name_stage(run, "Selecting the bandwidth")
  run <- run_of_search(run, nrow(data$x), data$d)
  factor <- FACTOR_CRITERIA[[options$criterion]](data$d)[[estimator]]
  search <- list(
    criterion = options$criterion, estimator = estimator, factor = factor,
    shape = if (is.null(factor) && options$criterion != "auto") options$criterion else "lcv",
    rate = bandwidth_rate(estimator, data$d), run = run, tally = new_tally()
  )
  plan <- plan_rows(data, search, options)
  data$correlation <- correlation_of(data, plan$rows, options$structure)
  search$structures <- wanted_structures(sample_of(data, seq_len(plan$rows)), options$structure)
  given <- data
  if (searches_distances(search, options) && is_wide(data)) data <- in_few_columns(data)
  batches <- batches_of(data, plan)
  first <- search_batch(batches[[1]], search, scaled_start(options$start, data))
  found <- c(list(first), lapply(batches[-1], \(batch) search_again(batch, first, search)))
  last <- replace(first, "L", list(mean_factor(lapply(found, `[[`, "L")) * carried(batches[[1]], data, search$rate)))
  if (plan$all_rows && plan$rows < nrow(data$x)) {
    last <- replace_all(last, minimise(search_criterion(data, search), list(last$L)))
  }
  last$se <- factor_error(found, batches, data, plan, search)
  last$L <- whole_factor(last$L)
  last[c("rows", "batches")] <- list(if (plan$all_rows) nrow(data$x) else plan$rows * plan$batches, plan$batches)
  list(bandwidth = finished(last, given, search), stats = search$tally$stats)
}

# Is it only a multiple of 1 that is searched, by criteria that know the points by their distances alone?
searches_distances <- function(search, options) {
  by_distance <- search$shape == "lcv" && search$estimator %in% c(PLAIN_ESTIMATOR, "sdkde")
  by_distance && identical(search$structures, "scaled") && is.null(options$start)
}

# ---- rows -------------------------------------------------------------------------------------

# Where the sums of a search over n rows run, of samples as well. A search is worth starting a GPU if a nominal core
# takes as long for all pairs once as the start takes: several cores take as long for the whole search. What has started
# before does not count, so that the rows that a search takes are the same.
run_of_search <- function(run, n, d) run_of_many(run, n^2 * nominal_pair(d) >= nominal_costs()$gpu_start)

goes_to_gpu <- function(run, n, d) run_of_search(run, n, d)$backend == "cuda"

# list(rows, batches, all_rows): the shape is found on `batches` samples of so many rows, the factor on all rows or on
# them. By what a nominal core takes for all pairs, or a nominal GPU, never by a clock: the choice is the same on
# every machine that has a GPU, and on every one that has none.
plan_rows <- function(data, search, options) {
  n <- nrow(data$x)
  passes <- shape_passes(data$d, options$structure)
  each <- pair_seconds(n, data$d, if (needs_moments(search$shape)) on_cpu(search$run) else search$run)
  rows <- if (is.null(options$rows)) rows_for(options$seconds, passes, each) else options$rows
  if (rows >= n) return(list(rows = n, batches = 1, all_rows = TRUE))
  values <- 6 * pass_seconds(n, data$d, search_measure(search), search$run)
  all_rows <- is.null(options$rows) && values <= options$seconds
  list(rows = rows, batches = if (all_rows) 1 else min(4, floor(n / rows)), all_rows = all_rows)
}

# Seconds for a pair of n points of a nominal core (bench/NOTES.md), or, where these go to a GPU, by its engine's
# guess, without what it takes to begin. Where a tolerance counts, a GPU's exact sums are in double.
pair_seconds <- function(n, d, run, precision = if (run$tol > 0) "double" else run$precision) {
  if (!goes_to_gpu(run, n, d)) return(nominal_pair(d))
  exact <- replace(run, c("engine", "tol", "precision", "backend"), list("exact", 0, precision, "cuda"))
  (guessed_seconds(exact, 2 * n, n, d) - guessed_seconds(exact, n, n, d)) / n^2
}

nominal_pair <- function(d) {
  nominal <- nominal_costs()
  (1 + d / nominal$coordinates) / nominal$pairs
}

# Seconds for a value of the criterion: the sums of pairs, or where there are fast ones, those in time linear in the
# points. Leave-one-out sums of an SD-KDE are to no tolerance, and in double on GPUs in more than SINGLE_LOO dimensions
# (FK_LOO_WIDE in src/cuda/tensor/sums_loo.cuh; bench/gpu-loo.R).
SINGLE_LOO <- 16
pass_seconds <- function(n, d, measure, run) {
  if (needs_moments(measure[1])) return(3 * n^2 * pair_seconds(n, d, on_cpu(run)))
  debiased <- measure[2] == "sdkde"
  linear <- if (d <= (if (debiased) 1 else 3) && run$tol > 0) n * nominal_costs()$linear[d] else Inf
  if (!debiased) return(min(n^2 * pair_seconds(n, d, run), linear))
  precision <- if (d > SINGLE_LOO) "double" else run$precision
  min((if (goes_to_gpu(run, n, d)) 4 else 3) * n^2 * pair_seconds(n, d, run, precision), 3 * linear)
}

# Their pilots have moments of the pairs, by one pass on the CPU.
needs_moments <- function(criterion) criterion %in% c("scv", "plugin")

on_cpu <- function(run) replace(run, "backend", "cpu")

# About so many values of the criterion a search takes; gradients count as two.
shape_passes <- function(d, structure) {
  most <- if (d > MOST_FULL) "diagonal" else "full"
  moves <- BANDWIDTH_STRUCTURES[[if (structure == "auto") most else structure]]$moves
  20 + switch(if (d == 1) "scalar" else moves, scalar = 0, diagonal = 30, full = 30 + 10 * min(d, MOST_FULL))
}

# ---- structures -------------------------------------------------------------------------------

# Squares of d are searched in up to so many columns.
MOST_FULL <- 16

# The structures that the search compares. They have at most a tenth as many parameters as there are rows.
wanted_structures <- function(data, structure) {
  if (structure != "auto") return(structure)
  d <- data$d
  if (d == 1) return("scaled")
  c(
    "scaled", if (can_sphere(data)) "sphered", if (d <= data$n / 10) "diagonal",
    if (d <= MOST_FULL && free_parameters("full", d) <= data$n / 10) "full"
  )
}

# Correlations are known by more rows than a search has time for: by all, or so many.
CORRELATION_ROWS <- 20000

# list(matrix, n): for covariance_root() of every sample, known from n rows. NULL where no structure wants it, or all
# rows are too few for can_sphere(): of many columns it takes long.
correlation_of <- function(data, rows, structure) {
  rows <- min(nrow(data$x), max(rows, CORRELATION_ROWS))
  wanted <- data$d > 1 && structure %in% c("auto", "sphered", "full")
  if (!wanted || free_parameters("full", data$d) > rows / 2) return(NULL)
  some <- sample_of(data, seq_len(rows))
  list(matrix = weighted_correlation(some$x, some$weights), n = some$n)
}

# A covariance matrix of few rows knows each of them too well to be judged by it.
can_sphere <- function(data) {
  known <- if (is.null(data$correlation)) data$n else data$correlation$n
  if (free_parameters("full", data$d) > known / 2) return(FALSE)
  tryCatch(is.matrix(covariance_root(data)), flashkernel_error_argument = \(e) FALSE)
}

# The shape of the first sample: a list with, for each structure, what minimise() found.
search_shapes <- function(batch, structures, start, search) {
  criterion <- \(rows) search_criterion(rows, search, c("lcv", PLAIN_ESTIMATOR))
  of_all <- criterion(batch)
  on <- \(rows) if (nrow(rows$x) < nrow(batch$x)) criterion(rows) else of_all
  rate <- bandwidth_rate(PLAIN_ESTIMATOR, batch$d)
  simple <- intersect(c("scaled", "scalar", "sphered"), structures)
  if (length(simple) == 0) simple <- c("scaled", if ("full" %in% structures && can_sphere(batch)) "sphered")
  found <- list()
  for (name in c(simple, intersect(c("diagonal", "full"), structures))) {
    structure <- BANDWIDTH_STRUCTURES[[name]]
    before <- utils::head(found[intersect(STARTING_POINTS[[name]], names(found))], 2)
    starts <- function(rows) {
      if (length(before) > 0) return(lapply(before, \(one) one$L / carried(rows, batch, rate)))
      list(reference_factor(rows) * if (is.null(start)) structure$base(rows) else start)
    }
    found[[name]] <- minimise_on(on, batch, starts, structure$moves, list(scan = c(0.05, 3)), \(L) rate)
  }
  found
}

# The structures from whose optimum another one's search starts: the first two there are.
STARTING_POINTS <- list(diagonal = c("scaled", "scalar"), full = c("diagonal", "sphered", "scaled", "scalar"))

# In units of the columns' spread, a little less than what Silverman's rule says.
reference_factor <- function(data) rule_factor("silverman", data$n, data$d, PLAIN_ESTIMATOR)

# The structure whose likelihood is largest less what its parameters gain by chance; among equals the simplest, as
# they are in order.
pick_structure <- function(found, batch) {
  free <- vapply(names(found), \(name) free_parameters(BANDWIDTH_STRUCTURES[[name]]$moves, batch$d), 0)
  scores <- -vapply(found, `[[`, 0, "value") - PENALTY * free / batch$n
  list(name = names(found)[scores >= max(scores) - TIE][1], scores = scores, free = free)
}

# ---- samples ----------------------------------------------------------------------------------

# Shape, structure and factor of the first sample.
search_batch <- function(batch, search, start) {
  found <- search_shapes(batch, search$structures, start, search)
  wanted <- found[intersect(search$structures, names(found))]
  picked <- pick_structure(wanted, batch)
  shape <- wanted[[picked$name]]
  shape$structure <- picked$name
  shape$path <- as_table(list(
    structure = names(wanted), parameters = unname(picked$free), loglik = -unname(vapply(wanted, `[[`, 0, "value")),
    score = unname(picked$scores)
  ))
  shape$valleys <- max(unlist(lapply(found, `[[`, "valleys")))
  own_factor(own_shape(shape, batch, search), batch, search)
}

# By a criterion of its own, a shape is only where it starts.
own_shape <- function(shape, batch, search) {
  if (search$shape == "lcv") return(shape)
  criterion <- search_criterion(batch, search, c(search$shape, PLAIN_ESTIMATOR))
  found <- minimise(criterion, list(shape$L), schedule = list(scan = c(0.15, 4)))
  moves <- BANDWIDTH_STRUCTURES[[shape$structure]]$moves
  replace_all(shape, if (moves == "scalar") found else minimise(criterion, list(found$L), moves))
}

# Tolerance of the log of an SD-KDE's factor, whose values take longest. The log has a standard error near 0.1 for 500
# rows, which shrinks slowly (factor_error()).
DEBIASED_TOL <- 0.01

# A scan on few rows, then near there; where the shape came by this criterion, the factor is known.
own_factor <- function(shape, batch, search) {
  if (is.null(search$factor)) {
    found <- shape
    if (is.null(found$trace)) {
      found$trace <- minimise(search_criterion(batch, search), list(shape$L), schedule = list(tol = Inf))$trace
    }
  } else {
    near <- rule_factor("silverman", batch$n, batch$d, search$factor[2]) / reference_factor(batch) * shape$L
    # where the likelihood of the plain estimate has one valley, so has that of another
    schedule <- list(scan = c(0.2, 4), step = 0.25, valleys = shape$valleys)
    if (ESTIMATORS[[search$factor[2]]]$debiased) schedule$tol <- DEBIASED_TOL
    starts <- \(rows) list(near / carried(rows, batch, search$rate))
    found <- minimise_on(\(rows) search_criterion(rows, search), batch, starts, "scalar", schedule, \(L) search$rate)
  }
  shape$shape <- shape$L
  shape$heavy <- has_heavy_tails(shape, batch, search)
  replace_all(shape, found)
}

replace_all <- function(list, by) replace(list, names(by), by)

# Does the likelihood of the plain estimate ask for a much larger factor than the censored one does?
has_heavy_tails <- function(shape, batch, search) {
  if (search$criterion != "auto" || ESTIMATORS[[search$estimator]]$signed) return(FALSE)
  criterion <- new_criterion("csl", batch, PLAIN_ESTIMATOR, search$run, search$tally)
  criterion$gradient(shape$L / HEAVY_FROM, "scalar")$E > 0
}

# Another sample, from where the first ended.
search_again <- function(batch, first, search) {
  moves <- BANDWIDTH_STRUCTURES[[first$structure]]$moves
  found <- minimise(search_criterion(batch, search, c(search$shape, PLAIN_ESTIMATOR)), list(first$shape), moves)
  if (is.null(search$factor)) return(found)
  ratio <- first$L[1] / first$shape[1]
  minimise(search_criterion(batch, search), list(ratio * found$L))
}

# c(criterion, estimator) of the factor, of the shape where it has none of its own.
search_measure <- function(search) if (is.null(search$factor)) c(search$shape, PLAIN_ESTIMATOR) else search$factor

search_criterion <- function(data, search, measure = search_measure(search)) {
  criterion <- new_criterion(measure[1], data, measure[2], search$run, search$tally)
  draws <- censors(data$d) && measure[1] %in% c("csl", "half")
  if (draws) drawn_to_plugin(criterion, data, measure[2], search) else criterion
}

# The criterion of one column with a normal prior of the log of the bandwidth at that multiple of Silverman's rule
# which the plug-in bandwidth of the classical estimate is of its own rule. The criterion of few rows has a wide
# optimum, which is often far too small; that of many rows hardly notices the prior.
drawn_to_plugin <- function(criterion, data, estimator, search) {
  some <- sample_of(data, seq_len(min(nrow(data$x), PRIOR_ROWS)))
  some["weights"] <- list(some$row_weights)
  some$n <- effective_size(some$weights, nrow(some$x))
  some$scale <- column_scales(some)
  rule <- \(data, estimator) rule_factor("silverman", data$n, data$d, estimator)
  plugin <- new_criterion("plugin", some, PLAIN_ESTIMATOR, search$run, search$tally)
  found <- minimise(plugin, list(matrix(rule(some, PLAIN_ESTIMATOR))))$L[1]
  middle <- found / rule(some, PLAIN_ESTIMATOR) * rule(data, estimator)
  prior <- \(L, powers = 1) (log(L[1] / middle) - log(powers) / 2)^2 / (2 * PRIOR_SD^2 * criterion$rows)
  replace_all(criterion, list(
    value = \(L) criterion$value(L) + prior(L), values = \(L, powers) criterion$values(L, powers) + prior(L, powers)
  ))
}

# The mean of the logs of diagonals, and of what is below them in units of these.
mean_factor <- function(factors) {
  if (length(factors) == 1) return(factors[[1]])
  d <- nrow(factors[[1]])
  diagonals <- vapply(factors, diagonal, numeric(d))
  top <- exp(rowMeans(log(matrix(diagonals, d))))
  rest <- lapply(factors, \(L) L / rep(diagonal(L), each = d))
  (Reduce(`+`, rest) / length(factors)) * rep(top, each = d)
}

# The standard error of the log of the factor: from the samples, or from fifths of the one sample, whose spread shrinks
# as that of a cross-validated bandwidth does, by the power d / (2 (d + 4)) of the rows. Where the factor is that of
# another estimator's likelihood, fifths have that of the plain one, whose values near by take one pass together.
factor_error <- function(found, batches, data, plan, search) {
  if (length(found) > 1) {
    logs <- vapply(found, \(one) mean(log(diagonal(one$L))), 0)
    return(stats::sd(logs) / sqrt(length(logs)))
  }
  batch <- batches[[1]]
  size <- floor(min(nrow(batch$x), 2000) / 5)
  if (size < 40 || batch$n < 100) return(NA_real_)
  measure <- search_measure(search)
  plain <- measure[1] %in% c("lcv", "csl", "half")
  L <- if (plain) found[[1]]$shape else found[[1]]$L
  rate <- if (plain) bandwidth_rate(PLAIN_ESTIMATOR, data$d) else search$rate
  if (plain) measure <- c("lcv", PLAIN_ESTIMATOR)
  logs <- vapply(1:5, \(part) {
    rows <- sample_of(batch, (part - 1) * size + seq_len(size))
    near <- L / carried(rows, batch, rate)
    # a parabola is as accurate as five fifths allow
    minimise(search_criterion(rows, search, measure), list(near), schedule = list(tol = Inf))$vertex
  }, 0)
  n <- if (plan$all_rows) nrow(data$x) else nrow(batch$x)
  stats::sd(logs) * (size / n)^(data$d / (2 * (data$d + 4)))
}

# ---- result -----------------------------------------------------------------------------------

# Variances of rounded columns, raised for the rounding. A lattice of width w adds the variance w^2 / 12, and from a
# standard deviation of w / 2 on the lattice points are not modes.
raised_variances <- function(variances, columns) {
  width <- ifelse(is.na(columns$width), 0, columns$width)
  pmax(variances + width^2 / 12, width^2 / 4)
}

# In the units of the points.
finished <- function(last, data, search) {
  H <- tcrossprod(data$unit * last$L)
  raised <- raised_variances(diagonal(H), data$columns)
  last$columns <- as_table(c(data$columns, list(raised = raised > 1.02 * diagonal(H))))
  if (any(raised > diagonal(H))) diag(H) <- raised
  last$copies <- data$copies
  last$convergence <- as.integer(!last$converged)
  last$evaluations <- search$tally$evaluations
  last <- in_own_units(last, sum(log(data$unit)), search_measure(search)[1])
  last$score <- if (identical(search$factor[2], "sdkde")) SCORE_RATIO
  new_bandwidth(as_structured(H, last$structure, colnames(data$x)), search$criterion, last)
}

# Values of criteria as of the points as they came, whose density is that of the points in units of the columns'
# spread over exp(log_unit); but the censored likelihood, whose bump is in such units.
in_own_units <- function(last, log_unit, name) {
  last$path$loglik <- last$path$loglik - log_unit
  last$path$score <- last$path$score - log_unit
  own <- switch(name, csl = , half = identity, lcv = \(value) value + log_unit, \(value) value * exp(-log_unit))
  trace <- last$trace
  last$trace <- as_table(list(rows = trace[, "rows"], factor = trace[, "factor"], value = own(trace[, "value"])))
  last$criterion <- if (name %in% c("lcv", "csl", "half")) -own(last$value) else own(last$value)
  last
}

# In the form in which flash_kde() takes it.
as_structured <- function(H, structure, names) {
  d <- nrow(H)
  if (d > 1 && structure %in% c("sphered", "full")) {
    dimnames(H) <- if (!is.null(names)) list(names, names)
    return(H)
  }
  sds <- sqrt(diagonal(H))
  if (structure == "scalar") max(sds) else stats::setNames(sds, if (d > 1) names)
}

# A bandwidth from which to start, as the shape at factor 1.
scaled_start <- function(start, data) {
  if (is.null(start)) return(NULL)
  as_bandwidth(start, data$d, "start", colnames(data$x))$L / data$unit / reference_factor(data)
}
