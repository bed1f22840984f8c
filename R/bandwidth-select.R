# Selectors by name, for flash_kde().

selector_names <- function() c("auto", "silverman", "scott", "nrd0", "sj", names(FACTOR_CRITERIA)[-1])

# Of one dimension, and what comes nearest to them where there are several or weights.
ONE_COLUMN_SELECTORS <- c(nrd0 = "silverman", sj = "plugin")

# The selector of this name, for d columns. stats::bw.SJ() and bw.nrd0() have no weights, and to leave them out
# silently would be wrong.
check_selector <- function(name, d, weights, arg) {
  all <- selector_names()
  weighted <- !is.null(weights) && any(weights != weights[1])
  choices <- if (d > 1 || weighted) setdiff(all, names(ONE_COLUMN_SELECTORS)) else all
  one_name <- length(name) == 1 && !is.na(name) && validEnc(name)
  # "SJ", as stats::bw.SJ() is called
  found <- if (one_name) all[pmatch(tolower(name), all)] else NA
  if (found %in% choices) return(found)
  nearest <- if (!is.na(found)) found else if (one_name) nearest_choice(name, all)
  if (!is.null(nearest) && !nearest %in% choices) nearest <- ONE_COLUMN_SELECTORS[[nearest]]
  stop_argument(
    arg, "must be one of ", quote_choices(choices),
    if (d > 1) " where there are several columns" else if (weighted) " where there are weights",
    ": found ", describe(name), name_nearest(nearest)
  )
}

# What the selector `name` gives for checked data, list(points, weights, clean): list(bandwidth, as as_bandwidth() takes
# it, stats, of the sums it needed, and selector, the one used in the end). `arg`: what the user calls the points;
# `options`: of search_options().
select_bandwidth <- function(name, data, estimator, options, control, arg) {
  found <- switch(name,
    silverman = ,
    scott = list(
      bandwidth = rule_bandwidth(new_selector_data(data$points, data$weights), name, estimator, "diagonal")
    ),
    nrd0 = list(bandwidth = stats::bw.nrd0(as.vector(data$points))),
    sj = list(bandwidth = sj_bandwidth(as.vector(data$points), "ste", arg)),
    search_by_name(name, data, estimator, options, control)
  )
  # no optimum: of a few rows, say
  if (is.null(found)) return(select_bandwidth("silverman", data, estimator, options, control, arg))
  c(found, list(selector = name))
}

# As the function of this name does it, of the plain estimate where it has no other. NULL: without success.
search_by_name <- function(name, data, estimator, options, control) {
  d <- ncol(data$points)
  if (!estimator %in% names(FACTOR_CRITERIA[[name]](d))) estimator <- PLAIN_ESTIMATOR
  found <- choose_bandwidth(data$clean(), estimator, replace(options, "criterion", name), search_run(control, d))
  if (attr(found$bandwidth, "convergence") == 0) found
}

# Bandwidths need no more than this, whatever the sums of the fit are to be.
search_run <- function(control, d) {
  asked <- if (control$asked$tol > 0) control$asked else replace(control$asked, "tol", TOLERANT_DEFAULTS$tol)
  if (identical(asked$engine, "exact")) asked$tol <- 0
  run <- run_control(search_control(asked, d))
  run$progress <- control$progress
  run
}

# See ?bandwidth_default.
default_selector <- function() "auto"
