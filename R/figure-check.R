# Arguments shared by plot() and autoplot().

# Limits of an axis; the grid is laid between them. Reversed ones turn the axis round.
check_limits <- function(limits, arg) {
  if (is.null(limits)) {
    return(invisible())
  }
  if (!is.numeric(limits) || length(limits) != 2 || !all(is.finite(limits)) ||
    limits[1] == limits[2]) {
    stop_argument(arg, "must be two different finite numbers: found ", describe(limits))
  }
}

# The dots of plot() may have the graphical parameters that the figure uses. Other names, such as misspelt ones and
# `type`, would be ignored, or clash with arguments of the functions that draw.
check_graphical <- function(..., d, .known = names(formals(sys.function(caller)))) {
  if (...length() == 0) return(invisible())
  caller <- sys.parent()
  names <- if (is.null(...names())) rep("", ...length()) else ...names()
  known <- c(GRAPHICAL, if (d <= 2) FRAME_GRAPHICAL, if (d == 1) LINE_GRAPHICAL)
  unknown <- setdiff(names, known)
  if (length(unknown) == 0) {
    # `panel.first` is an expression to evaluate later
    for (i in which(!names %in% c("panel.first", "panel.last"))) {
      check_graphical_value(...elt(i), names[i])
    }
    return(invisible())
  }
  if (is.na(unknown[1]) || !nzchar(unknown[1])) {
    stop_argument("...", "must be graphical parameters by name: found an unnamed argument")
  }
  meant <- nearest_choice(unknown[1], setdiff(c(.known, known), "..."))
  hint <- if (!is.null(meant)) paste0(" (did you mean `", meant, "`?)")
  stop_argument(unknown[1], "is not an argument of this function, nor a graphical parameter for it", hint)
}

GRAPHICAL <- c(
  "main", "sub", "lwd", "lty", "bg", "bty", "cex", "cex.axis", "col.axis", "family", "fg", "font", "font.axis", "lab",
  "las", "lend", "ljoin", "lmitre", "mgp", "pch", "tck", "tcl", "xaxt", "xpd", "yaxt"
)
# One frame, with labels and titles of its own.
FRAME_GRAPHICAL <- c(
  "xlab", "ylab", "xlim", "ylim", "adj", "ann", "asp", "axes", "cex.lab", "cex.main", "col.lab", "col.main", "font.lab",
  "font.main", "frame.plot", "xaxp", "xaxs", "yaxp", "yaxs"
)
# `panel.first` must stay unevaluated until the frame is there.
LINE_GRAPHICAL <- c("log", "panel.first", "panel.last")

check_graphical_value <- function(value, arg) {
  checks <- list(
    main = check_text, sub = check_text, xlab = check_text, ylab = check_text, xlim = check_limits, ylim = check_limits,
    lwd = check_width, lty = \(types, arg) for (type in types) check_line_type(type, arg)
  )
  if (arg %in% names(checks)) {
    if (!is.null(value)) checks[[arg]](value, arg)
  } else if (arg %in% names(GRAPHICAL_CHOICES)) {
    choices <- GRAPHICAL_CHOICES[[arg]]
    if (!is.atomic(value) || length(value) != 1 || is.object(value) || !value %in% choices) {
      shown <- if (is.character(choices)) paste0('"', choices, '"') else format(choices)
      stop_argument(arg, "must be one of ", paste(shown, collapse = ", "), ": found ", describe(value))
    }
  } else if (arg %in% GRAPHICAL_COLOURS) {
    check_colours(value, arg)
  } else if (arg %in% names(GRAPHICAL_LENGTHS)) {
    check_numbers(value, arg, GRAPHICAL_LENGTHS[[arg]])
  } else if (arg %in% c("cex", "cex.axis", "cex.lab", "cex.main")) {
    check_positive(value, arg)
  }
}

GRAPHICAL_CHOICES <- list(
  ann = c(TRUE, FALSE), axes = c(TRUE, FALSE), frame.plot = c(TRUE, FALSE), las = 0:3,
  bty = c("o", "l", "7", "c", "u", "]", "n", "L", "C", "U"), xaxs = c("r", "i"),
  yaxs = c("r", "i"), xaxt = c("s", "l", "t", "n"), yaxt = c("s", "l", "t", "n"),
  log = c("", "x", "y", "xy", "yx"), xpd = c(FALSE, TRUE, NA)
)
GRAPHICAL_COLOURS <- c("bg", "col.axis", "col.lab", "col.main", "fg")
GRAPHICAL_LENGTHS <- c(
  adj = 1, asp = 1, font = 1, font.axis = 1, font.lab = 1, font.main = 1, lab = 3, lmitre = 1,
  mgp = 3, tcl = 1, xaxp = 3, yaxp = 3
)

check_numbers <- function(value, arg, length) {
  if (!is.numeric(value) || is.object(value) || length(value) != length || anyNA(value)) {
    numbers <- if (length == 1) "one number" else paste(length, "numbers")
    stop_argument(arg, "must be ", numbers, ": found ", describe(value))
  }
}

check_positive <- function(value, arg) {
  if (!is.numeric(value) || is.object(value) || length(value) == 0 || !all(is.finite(value)) ||
    any(value <= 0)) {
    stop_argument(arg, "must be positive: found ", describe(value))
  }
}

check_width <- function(value, arg) {
  if (!is.numeric(value) || is.object(value) || length(value) != 1 || !isTRUE(value > 0) ||
    !is.finite(value)) {
    stop_argument(arg, "must be one positive number: found ", describe(value))
  }
}

# A title or label: a text, a number or a formula of ?plotmath.
check_text <- function(value, arg) {
  if (is.null(value) || is.language(value) && length(value) >= 1) return(invisible())
  if (!is.atomic(value) || length(value) != 1 || is.na(value)) {
    stop_argument(arg, "must be one text or expression: found ", describe(value))
  }
}

# Arguments that make sense for one or two variables only.
check_unused <- function(arguments) {
  for (arg in names(arguments)) {
    if (!is.null(arguments[[arg]])) {
      stop_argument(
        arg, "must be NULL for more than two variables: found ", describe(arguments[[arg]])
      )
    }
  }
}

# R's own graphics check no number here, and read whatever memory a large one points at.
check_line_type <- function(lty, arg) {
  valid <- length(lty) == 1 && if (is.character(lty)) {
    lty %in% LINE_TYPES || grepl("^([1-9A-Fa-f]{2}){1,4}$", lty)
  } else {
    is.numeric(lty) && isTRUE(lty %in% 0:99)
  }
  if (!valid) {
    stop_argument(
      arg, "must be a line type, such as 2 or \"dashed\" (see ?par): found ", describe(lty)
    )
  }
}

LINE_TYPES <- c("blank", "solid", "dashed", "dotted", "dotdash", "longdash", "twodash")

# `points` is TRUE, FALSE or the largest number to draw.
most_shown <- function(value, arg, default) {
  if (is.logical(value)) {
    return(if (check_flag(value, arg)) default else 0L)
  }
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
    stop_argument("band", "must be FALSE for more than one variable: kde_bands() has bands of two")
  }
  type
}
