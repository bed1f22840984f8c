# Selectors by name, for flash_kde().

selector_names <- function() c("silverman", "scott", "nrd0", "sj", "lcv", "lscv")

# The bandwidth that the selector `name` gives for checked data, as as_bandwidth() takes it.
select_bandwidth <- function(name, x, weights, estimator, control) {
  data <- new_selector_data(x, weights)
  bandwidth <- switch(name,
    silverman = ,
    scott = rule_bandwidth(data, name, estimator, "diagonal"),
    nrd0 = bw_nrd0(x),
    sj = bw_sj(x),
    lcv = lcv_bandwidth(data, estimator, "scaled", NULL, control),
    lscv = lscv_bandwidth(data, "scaled", NULL, control)
  )
  attr(bandwidth, "selector") <- name
  bandwidth
}

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

default_selector <- function(estimator, d, n) "silverman"
