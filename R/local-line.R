# Moments of one column (local-moments.R), computed from boxes of sorted rows, exactly and in linear time, without an
# engine (src/cpu/line/line.h).

# This method is not used if the fast engine or a GPU is requested.
goes_by_line <- function(d, run) d == 1 && run$backend != "cuda" && run$engine != "fast"

# local_moments() for one column.
line_moments <- function(data, at, order, run, own) {
  by_size <- data$by_size
  line <- list(
    x = data$z[by_size], low = low_parts(data$z)[by_size], weights = data$w[by_size],
    y = data$y[by_size, , drop = FALSE], order = as.integer(order)
  )
  places <- if (is.null(at)) by_size else order(at, method = "radix")
  # for targets that are rows but are given in `at`: their numbers among the sorted rows
  mine <- if (!is.null(at) && !is.null(own)) replace(integer(length(by_size)), by_size, seq_along(by_size))[own[places]]
  aimed <- if (!is.null(at)) structure(at[places], low = low_parts(at)[places])
  found <- line_sums(line, aimed, mine, !is.null(own), run)
  in_place_of <- \(moments) if (!is.null(moments)) {
    moments[places, ] <- moments
    moments
  }
  list(all = in_place_of(found$all), others = in_place_of(found$others))
}
