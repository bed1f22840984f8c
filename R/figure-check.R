# Arguments shared by plot() and autoplot().

# Limits of an axis. The grid lies between them. Decreasing limits reverse the axis.
check_limits <- function(limits, arg) {
  if (is.null(limits)) return(invisible())
  if (!is.numeric(limits) || length(limits) != 2 || !all(is.finite(limits)) ||
    limits[1] == limits[2]) {
    stop_argument(arg, "must be two different finite numbers: found ", describe(limits))
  }
}

# A title or label: a text, a number or a formula of ?plotmath.
check_text <- function(value, arg) {
  if (is.null(value) || is.language(value) && length(value) >= 1) return(invisible())
  if (!is.atomic(value) || length(value) != 1 || is.na(value)) {
    stop_argument(arg, "must be one text or expression: found ", describe(value))
  }
}

# R's graphics do not check numeric line types, and a large one reads memory out of bounds.
check_line_types <- function(value, arg) {
  for (lty in value) {
    valid <- if (is.character(lty)) {
      lty %in% LINE_TYPES || grepl("^([1-9A-Fa-f]{2}){1,4}$", lty)
    } else {
      is.numeric(lty) && isTRUE(lty %in% 0:99)
    }
    if (!valid) stop_argument(arg, "must be a line type, such as 2 or \"dashed\" (see ?par): found ", describe(lty))
  }
}

LINE_TYPES <- c("blank", "solid", "dashed", "dotted", "dotdash", "longdash", "twodash")

# Returns a check for numbers. `length` NULL: any number of them.
numbers <- function(length = 1, positive = FALSE) {
  wanted <- paste(
    if (is.null(length)) "" else if (length == 1) "one" else length, if (positive) "positive",
    if (identical(length, 1)) "number" else "numbers"
  )
  function(value, arg) {
    as_many <- if (is.null(length)) length(value) > 0 else length(value) == length
    good <- is.numeric(value) && !is.object(value) && as_many
    if (!good || anyNA(value) || positive && !all(is.finite(value) & value > 0)) {
      stop_argument(arg, "must be ", trimws(gsub(" +", " ", wanted)), ": found ", describe(value))
    }
  }
}

one_of <- function(...) {
  choices <- c(...)
  function(value, arg) {
    if (is.atomic(value) && length(value) == 1 && !is.object(value) && value %in% choices) return(invisible())
    shown <- if (is.character(choices)) paste0('"', choices, '"') else format(choices)
    stop_argument(arg, "must be one of ", paste(shown, collapse = ", "), ": found ", describe(value))
  }
}

or_null <- function(check) \(value, arg) if (!is.null(value)) check(value, arg)

# Graphical parameters that the figures use, each with its check, or NULL for none.
GRAPHICAL <- list(
  main = check_text, sub = check_text, lwd = or_null(numbers(positive = TRUE)), lty = or_null(check_line_types),
  bg = check_colours, bty = one_of("o", "l", "7", "c", "u", "]", "n", "L", "C", "U"), cex = numbers(NULL, TRUE),
  cex.axis = numbers(NULL, TRUE), col.axis = check_colours, family = NULL, fg = check_colours, font = numbers(),
  font.axis = numbers(), lab = numbers(3), las = one_of(0:3), lend = NULL, ljoin = NULL, lmitre = numbers(),
  mgp = numbers(3), pch = NULL, tck = NULL, tcl = numbers(), xaxt = one_of("s", "l", "t", "n"),
  xpd = one_of(FALSE, TRUE, NA), yaxt = one_of("s", "l", "t", "n")
)
# Further parameters of figures with a single frame and titles of its own.
FRAME_GRAPHICAL <- list(
  xlab = check_text, ylab = check_text, xlim = check_limits, ylim = check_limits, adj = numbers(),
  ann = one_of(TRUE, FALSE), asp = numbers(), axes = one_of(TRUE, FALSE), cex.lab = numbers(NULL, TRUE),
  cex.main = numbers(NULL, TRUE), col.lab = check_colours, col.main = check_colours, font.lab = numbers(),
  font.main = numbers(), frame.plot = one_of(TRUE, FALSE), xaxp = numbers(3), xaxs = one_of("r", "i"),
  yaxp = numbers(3), yaxs = one_of("r", "i")
)
# `panel.first` must stay unevaluated until the frame is there.
LINE_GRAPHICAL <- list(log = one_of("", "x", "y", "xy", "yx"), panel.first = NULL, panel.last = NULL)

# Checks the dots of plot(): graphical parameters that the figure uses. Other names, such as misspelt ones and `type`,
# are an error, as they would be ignored or clash with arguments of the functions that draw.
check_graphical <- function(..., d, .known = names(formals(sys.function(caller)))) {
  if (...length() == 0) return(invisible())
  caller <- sys.parent()
  names <- if (is.null(...names())) rep("", ...length()) else ...names()
  checks <- c(GRAPHICAL, if (d <= 2) FRAME_GRAPHICAL, if (d == 1) LINE_GRAPHICAL)
  unknown <- setdiff(names, names(checks))
  if (length(unknown) == 0) {
    for (i in which(lengths(checks[names]) > 0)) checks[[names[i]]](...elt(i), names[i])
    return(invisible())
  }
  if (is.na(unknown[1]) || !nzchar(unknown[1])) {
    stop_argument("...", "must be graphical parameters by name: found an unnamed argument")
  }
  of_band <- "band" %in% .known && unknown[1] %in% c("ci", "conf", "interval", "level", "se")
  meant <- if (of_band) "band" else nearest_choice(unknown[1], setdiff(c(.known, names(checks)), "..."))
  hint <- if (!is.null(meant)) paste0(" (did you mean `", meant, "`?)")
  stop_argument(unknown[1], "is not an argument of this function, nor a graphical parameter for it", hint)
}

# An error for arguments that exist for one or two variables only.
check_unused <- function(arguments) {
  for (arg in names(arguments)) {
    if (!is.null(arguments[[arg]])) {
      stop_argument(arg, "must be NULL for more than two variables: found ", describe(arguments[[arg]]))
    }
  }
}

# The largest number of points to draw. `points` is TRUE, FALSE or that number.
most_shown <- function(value, arg, default) {
  if (is.logical(value)) return(if (check_flag(value, arg)) default else 0L)
  check_count(value, arg, min = 0)
}

# The labels of ggplot_figure().
figure_titles <- function(main = NULL, sub = NULL, xlab = NULL, ylab = NULL) {
  for (arg in c("main", "sub", "xlab", "ylab")) check_text(get(arg), arg)
  list(title = main, subtitle = sub, x = xlab, y = ylab)
}

# The type of a band, or NULL for none.
check_band <- function(band, d) {
  type <- if (is.character(band)) check_choice(band, c("pointwise", "simultaneous"), "band") else {
    if (check_flag(band, "band")) "pointwise"
  }
  if (!is.null(type) && d > 1) {
    stop_argument("band", "must be FALSE for more than one variable: use plot(kde_bands(fit)) for two")
  }
  type
}
