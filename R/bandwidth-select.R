# Selectors by name, for flash_kde().

selector_names <- function() c("silverman", "scott", "nrd0", "sj", "lcv", "lscv")

# Of one dimension, and what comes nearest to them where there are several or weights.
ONE_COLUMN_SELECTORS <- c(nrd0 = "silverman", sj = "lscv")

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

# What the selector `name` gives for checked data: list(bandwidth, as as_bandwidth() takes it, stats,
# of the sums it needed, and selector, the one used in the end). `arg`: what the user calls the points.
select_bandwidth <- function(name, x, weights, estimator, control, arg) {
  found <- switch(name,
    silverman = ,
    scott = list(
      bandwidth = rule_bandwidth(new_selector_data(x, weights), name, estimator, "diagonal")
    ),
    nrd0 = list(bandwidth = stats::bw.nrd0(as.vector(x))),
    sj = list(bandwidth = sj_bandwidth(as.vector(x), "ste", arg)),
    search_by_name(name, x, weights, estimator, control)
  )
  # few rows may show nothing of a column that hardly varies, or have no optimum
  if (is.null(found)) return(select_bandwidth("silverman", x, weights, estimator, control, arg))
  c(found, list(selector = name))
}

# A search by name costs a moment whatever n is; bw_lcv() itself takes all rows. NULL: without success.
search_by_name <- function(name, x, weights, estimator, control) {
  data <- new_selector_data(x, weights, search_rows(ncol(x)))
  if (any(data$sds == 0)) return(NULL)
  found <- if (name == "lcv") {
    lcv_bandwidth(data, estimator, "scaled", NULL, control)
  } else {
    lscv_bandwidth(data, "scaled", NULL, control)
  }
  if (attr(found$bandwidth, "convergence") == 0) found
}

# Rows that a search by name looks at: measured in ?bandwidth_default; fewer in many dimensions, at the
# same cost.
search_rows <- function(d) max(500, floor(2000 * sqrt(16 / max(16, d))))

# See ?bandwidth_default.
default_selector <- function() "lcv"
