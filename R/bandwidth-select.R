# Selectors by name, for flash_kde().

selector_names <- function() c("silverman", "scott", "nrd0", "sj", "lcv", "lscv")

check_selector_name <- function(name, arg) {
  # "SJ", as stats::bw.SJ() is called
  if (length(name) == 1 && validEnc(name)) name <- tolower(name)
  check_choice(name, selector_names(), arg)
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

check_selector <- function(name, d, weights, arg) {
  one_column <- name %in% c("nrd0", "sj")
  if (one_column && d > 1) {
    stop_argument(
      arg, "must be another selector where there are several columns (\"silverman\", ",
      "\"scott\", \"lcv\", \"lscv\"): found \"", name, "\""
    )
  }
  # stats::bw.SJ() and bw.nrd0() have no weights; to leave them out silently would be wrong.
  if (one_column && !is.null(weights) && any(weights != weights[1])) {
    stop_argument(
      arg, "must be another selector where there are weights (\"silverman\", \"scott\", ",
      "\"lcv\", \"lscv\"): found \"", name, "\""
    )
  }
}

# See ?bandwidth_default.
default_selector <- function() "lcv"
