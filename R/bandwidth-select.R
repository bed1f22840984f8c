# Selectors by name, for flash_kde().

selector_names <- function() c("auto", "silverman", "scott", "nrd0", "sj", names(FACTOR_CRITERIA)[-1])

# Selectors for one column without weights, and the most similar selector for other data.
ONE_COLUMN_SELECTORS <- c(nrd0 = "silverman", sj = "plugin")

# The selector of this name, for d columns. stats::bw.SJ() and bw.nrd0() have no weights, and to leave them out
# silently would be wrong.
check_selector <- function(name, d, weights, arg) {
  all <- selector_names()
  weighted <- !is.null(weights) && any(weights != weights[1])
  choices <- if (d > 1 || weighted) setdiff(all, names(ONE_COLUMN_SELECTORS)) else all
  one_name <- is.character(name) && length(name) == 1 && !is.na(name) && validEnc(name)
  # "SJ", as stats::bw.SJ() is called
  found <- if (one_name) all[pmatch(tolower(name), all)] else NA
  if (found %in% choices) return(found)
  nearest <- if (!is.na(found)) found else if (one_name) nearest_choice(name, all)
  if (!is.null(nearest) && !nearest %in% choices) nearest <- ONE_COLUMN_SELECTORS[[nearest]]
  stop_argument(
    arg, "must be one of ", quote_choices(choices),
    if (d > 1) " for several columns" else if (weighted) " with weights",
    ": found ", describe(name), name_nearest(nearest)
  )
}

# What the selector `name` gives for checked data, list(points, weights, clean): list(bandwidth, as as_bandwidth() takes
# it, stats, of the sums it needed, and selector, the one used in the end). `arg`: what the user calls the points;
# `options`: of search_options().
select_bandwidth <- function(name, data, estimator, options, control, arg) {
  d <- ncol(data$points)
  # of the plain estimate where it has no other
  if (!estimator %in% estimators_of(name, d)) estimator <- PLAIN_ESTIMATOR
  found <- bandwidth_by(name, data, estimator, options, search_run(control, d), arg)
  if (!isTRUE(attr(found$bandwidth, "convergence") != 0)) return(c(found, list(selector = name)))
  # no optimum: of a few rows, say
  select_bandwidth("silverman", data, estimator, replace(options, "structure", "auto"), control, arg)
}

# list(bandwidth, stats), of a method that knows the estimator; `run`: of a search.
bandwidth_by <- function(name, data, estimator, options, run, arg) {
  switch(name,
    silverman = ,
    scott = {
      structure <- check_choice(options$structure, c("auto", "diagonal", "scalar", "full"), "structure")
      if (structure == "auto") structure <- "diagonal"
      list(bandwidth = rule_bandwidth(new_selector_data(data$points, data$weights), name, estimator, structure))
    },
    nrd0 = list(bandwidth = stats::bw.nrd0(as.vector(data$points))),
    sj = list(bandwidth = sj_bandwidth(as.vector(data$points), arg)),
    choose_bandwidth(data$clean(), estimator, replace(options, "criterion", name), run)
  )
}

# Bandwidths need no more than this, whatever the sums of the fit are to be.
search_run <- function(control, d) {
  asked <- if (control$asked$tol > 0) control$asked else replace(control$asked, "tol", TOLERANT_DEFAULTS$tol)
  if (identical(asked$engine, "exact")) asked$tol <- 0
  run <- run_control(search_control(asked, d))
  run$progress <- control$progress
  run
}

# See ?kde_bandwidth.
default_selector <- function() "auto"
