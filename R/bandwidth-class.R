# The class of bandwidths that a search returns: a number, a vector or a matrix with a record of the search.

# `found`: the result of choose_bandwidth().
new_bandwidth <- function(numbers, selector, found) {
  record <- found[c(
    "structure", "criterion", "evaluations", "convergence", "se", "rows", "batches", "path", "trace", "columns",
    "copies", "heavy", "score"
  )]
  # `[<-` keeps attributes, so `chosen` shows whether the numbers were changed
  attributes(numbers) <- c(
    attributes(numbers), list(selector = selector), record,
    list(chosen = as.vector(numbers), class = "flashkernel_bandwidth")
  )
  numbers
}

# The selector that chose these numbers, or "user" if they were changed since.
selector_of <- function(bandwidth) {
  name <- attr(bandwidth, "selector")
  if (is.null(name) || !identical(as.vector(bandwidth), attr(bandwidth, "chosen"))) return("user")
  name
}

plain_bandwidth <- function(x) {
  if (!inherits(x, "flashkernel_bandwidth")) return(x)
  attributes(x) <- attributes(x)[names(attributes(x)) %in% c("names", "dim", "dimnames")]
  x
}

#' @export
#' @noRd
print.flashkernel_bandwidth <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  digits <- check_digits(digits)
  print(plain_bandwidth(x), digits = digits)
  if (selector_of(x) == "user") return(invisible(x))
  about <- attributes(x)
  cat(
    "by \"", about$selector, "\"", if (!is.null(about$path)) paste0(", ", about$structure), ": criterion ",
    format(about$criterion, digits = digits), ", ", about$evaluations, " evaluations",
    if (isTRUE(is.finite(about$se))) paste0(", standard error ", format(100 * about$se, digits = 2), "%"),
    if (about$convergence != 0) ", no optimum in the range searched", "\n", sep = ""
  )
  for (note in bandwidth_notes(x)) cat(strwrap(note, exdent = 2), sep = "\n")
  invisible(x)
}

# Sentences about properties of the data that affect the bandwidth, for print().
bandwidth_notes <- function(bandwidth) {
  if (is.null(bandwidth)) return(NULL)
  about <- attributes(bandwidth)
  columns <- about$columns
  rounded <- columns[columns$raised, ]
  spikes <- columns[columns$spike, ]
  few <- columns[columns$few, ]
  c(
    if (nrow(rounded) > 0) {
      widths <- paste0(rounded$column, " to ", format_each(rounded$width))
      listed("Rounded: ", widths, ". The bandwidth is at least half of that.")
    },
    if (nrow(spikes) > 0) {
      share <- format_each(100 * spikes$share, 2)
      values <- paste0(share, "% of ", spikes$column, " are ", format_each(spikes$value))
      listed("Repeated values: ", values, ". A density describes such data poorly.")
    },
    if (nrow(few) > 0) {
      counts <- paste0(few$column, " has ", few$distinct)
      listed("Few distinct values: ", counts, ". A density describes such data poorly.")
    },
    if (about$copies > 0) paste0("Copies: ", whole(about$copies), ngettext(about$copies,
      " row repeats another, and was merged with it.", " rows repeat others, and were merged with them.")),
    if (isTRUE(about$heavy)) "Heavy tails: no single bandwidth suits the centre and the tails. Try adaptive = TRUE."
  )
}

# One sentence that lists at most three of `parts`.
listed <- function(title, parts, end) {
  paste0(title, paste(utils::head(parts, 3), collapse = ", "), if (length(parts) > 3) " and others", end)
}

format_each <- function(values, digits = 4) vapply(values, \(value) format(value, digits = digits), "")

#' @rdname kde_bandwidth
#' @order 2
#' @method plot flashkernel_bandwidth
#' @export
plot.flashkernel_bandwidth <- function(x, ...) {
  if (selector_of(x) == "user") {
    stop_argument("x", "must be the unmodified result of kde_bandwidth(): found other numbers")
  }
  path <- attr(x, "path")
  if (nrow(path) > 1 && !has_layout()) {
    # side by side where there is room
    wide <- graphics::par("din")[1] > 6
    old <- graphics::par(mfrow = if (wide) c(1, 2) else c(2, 1), mar = c(4, 4, 2, 1), mgp = c(2.4, 0.8, 0))
    on.exit(graphics::par(old))
  }
  plot_trace(x, ...)
  if (nrow(path) > 1) {
    gain <- path$score - path$score[1]
    graphics::dotchart(
      rev(gain), rev(path$structure), pch = ifelse(rev(path$structure) == attr(x, "structure"), 19, 1),
      xlab = "", main = "Structures"
    )
    draw_axis_titles(paste0("Penalised log-likelihood over \"", path$structure[1], "\""), "")
  }
  invisible(x)
}

# The criterion on few rows is drawn thin. Its level is not comparable, and its factor is rescaled to the number of rows
# of the other.
plot_trace <- function(x, xlab = "Factor of the bandwidth", ylab = "Criterion above its best", main = NULL, ...) {
  trace <- attr(x, "trace")
  last <- trace$rows == max(trace$rows)
  above <- trace$value - stats::ave(trace$value, trace$rows, FUN = min)
  se <- attr(x, "se")
  title <- if (is.null(main)) paste0("By \"", attr(x, "selector"), "\"") else main
  graphics::plot.default(
    range(trace$factor), range(above), type = "n", log = "x", xlab = "", ylab = "", main = title, ...
  )
  draw_axis_titles(xlab, ylab)
  if (isTRUE(is.finite(se))) {
    frame <- graphics::par("usr")[3:4]
    graphics::rect(exp(-se), frame[1], exp(se), frame[2], col = "grey92", border = NA)
    graphics::box()
  }
  for (rows in sort(unique(trace$rows))) {
    at <- which(trace$rows == rows)
    at <- at[order(trace$factor[at])]
    own <- last[at[1]]
    colour <- if (own) LINE_COLOUR else "grey50"
    graphics::lines(trace$factor[at], above[at], type = "o", pch = 20, col = colour, lwd = 1 + own)
  }
  graphics::abline(v = 1, lty = 3)
}

# Arithmetic returns plain numbers, because the result is no longer what the selector chose.

#' @export
#' @noRd
Ops.flashkernel_bandwidth <- function(e1, e2) {
  operate <- get(.Generic, mode = "function")
  if (missing(e2)) return(operate(plain_bandwidth(e1)))
  operate(plain_bandwidth(e1), plain_bandwidth(e2))
}

#' @export
#' @noRd
Math.flashkernel_bandwidth <- function(x, ...) get(.Generic, mode = "function")(plain_bandwidth(x), ...)
