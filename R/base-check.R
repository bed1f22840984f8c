# Checks of arguments. Each returns its argument in the form that the rest of the package uses, or raises a
# flashkernel_error_argument that names it. They run before anything is computed.

# ---- points -----------------------------------------------------------------------------------

# Returns a double matrix with a row for each point, without row names. `d`, `names`: required columns, those of `like`;
# TRUE allows with `infinite` values that are not finite, with `single` a single_points() as result, with `none` no rows.
check_points <- function(x, arg, d = NULL, names = NULL, like = "the training points", infinite = FALSE,
                         single = FALSE, none = FALSE) {
  points <- if (single && is_float32(x)) as_single(x) else as_points(x, arg, d)
  size <- dim(points)
  if (size[1] == 0 && !none) stop_argument(arg, "must have at least one row: found none")
  if (size[2] == 0) stop_argument(arg, "must have at least one column: found none")
  if (!is.null(d) && (size[2] != d || !is.null(dimnames(points)))) points <- match_columns(points, arg, d, names, like)
  if (!infinite) check_finite(points, arg)
  points
}

# FALSE for integer64 of package bit64, whose doubles hold the bits of integers.
is_number <- function(x) is.numeric(x) && !(is.object(x) && inherits(x, "integer64"))

as_points <- function(x, arg, d = NULL) {
  # fast path of plain_matrix()
  if (is.double(x) && identical(names(attributes(x)), "dim") && length(dim(x)) == 2) return(x)
  if (is_float32(x)) x <- as_single(x)
  if (inherits(x, "single_points")) return(widen(x, arg))
  if (is.data.frame(x)) {
    check_numeric_columns(x, arg)
    check_memory(8 * prod(dim(x)), arg)
    x <- as.matrix(x)
    # as.matrix() of a data frame without columns is a logical matrix
    if (length(x) == 0) storage.mode(x) <- "double"
  }
  if (!is_number(x)) {
    what <- "a matrix, a data frame of numeric columns or a vector"
    stop_argument(arg, "must be numeric (", what, "): found ", describe(x), number_hint(x))
  }
  if (length(dim(x)) > 2) stop_argument(arg, "must be a matrix: found an array of ", length(dim(x)), " dimensions")
  if (is.null(dim(x)) || length(dim(x)) == 1) {
    if (!is.null(d) && d > 1) {
      found <- paste("a vector of length", length(x), "(one point is a matrix of one row)")
      stop_argument(arg, "must be a matrix or data frame of ", d, " columns: found ", found)
    }
    check_memory(8 * length(x), arg)
    return(matrix(as.double(x), ncol = 1))
  }
  plain_matrix(x, arg)
}

# Drops row names, classes and other attributes. Returns a plain double matrix without copying it.
plain_matrix <- function(x, arg) {
  columns <- colnames(x)
  is_plain <- is.double(x) && is.null(rownames(x)) && !is.object(x) &&
    all(names(attributes(x)) %in% c("dim", "dimnames"))
  if (is_plain) return(x)
  check_memory(8 * length(x), arg)
  matrix(as.double(x), nrow(x), ncol(x), dimnames = if (!is.null(columns)) list(NULL, columns))
}

check_numeric_columns <- function(x, arg) {
  bad <- which(!vapply(x, is_number, NA))
  if (length(bad) == 0) return(invisible())
  wrong <- x[[bad[1]]]
  found <- paste(quote_names(column_label(names(x), bad[1])), "is of class", shorten(class(wrong)[1]))
  stop_argument(arg, "must have numeric columns only: column ", found, number_hint(wrong))
}

# Advice on how to convert a class to numbers.
number_hint <- function(x) {
  if (inherits(x, "sfc")) return(" (sf::st_coordinates() has the coordinates of points)")
  if (inherits(x, c("Date", "POSIXt", "difftime"))) " (as.numeric() makes numbers of it)"
}

first_given <- function(...) Find(Negate(is.null), list(...))

column_label <- function(names, i) if (has_names(names)) names[i] else as.character(i)

has_names <- function(names) !is.null(names) && !anyNA(names) && all(nzchar(names)) && !anyDuplicated(names)

# Selects the columns `names` of a matrix or data frame `x`, which may have others, such as the response. Returns `x` if
# either has no names.
own_columns <- function(x, arg, names) {
  found <- if (is.matrix(x) || is.data.frame(x)) colnames(x)
  if (is.null(found) || !has_names(names) || identical(found, names)) return(x)
  if (has_names(found)) check_columns_of(found, arg, names)
  if (!all(names %in% found)) return(x)
  # `[` of a data.table would not select columns
  if (is.data.frame(x)) as.data.frame(x)[names] else x[, names, drop = FALSE]
}

check_columns_of <- function(found, arg, names, like = "the training points") {
  check_none_lacking(found, arg, names, paste0("the columns of ", like, ", ", quote_names(names)))
}

check_none_lacking <- function(found, arg, names, what) {
  lacking <- setdiff(names, found)
  if (length(lacking) > 0) stop_argument(arg, "must have ", what, ": found no ", quote_names(lacking))
}

# Columns are matched by name where both sides have names, by position otherwise.
match_columns <- function(points, arg, d, names, like = "the training points") {
  if (is.null(dimnames(points)) && ncol(points) == d) return(points)
  found <- colnames(points)
  by_name <- has_names(names) && has_names(found)
  if (by_name) check_columns_of(found, arg, names, like)
  surplus <- if (by_name) setdiff(found, names)
  if (length(surplus) > 0) {
    others <- paste0(like, ", ", quote_names(names))
    stop_argument(arg, "must have no other columns than ", others, ": found also ", quote_names(surplus))
  }
  if (ncol(points) != d) {
    stop_argument(arg, "must have ", d, ngettext(d, " column", " columns"), ", as ", like, ": found ", ncol(points))
  }
  if (by_name && !identical(names, found)) points[, names, drop = FALSE] else points
}

# Responses, a matrix: squares of errors must neither overflow nor underflow. A column may be all 0.
check_squares <- function(y, arg) {
  size <- vapply(seq_len(ncol(y)), \(k) max(abs(range(0, y[, k], na.rm = TRUE))), 0)
  outside <- which(size > 0 & (size < LEAST_UNIT | size > 1 / LEAST_UNIT))
  if (length(outside) == 0) return(invisible(y))
  found <- paste(format(size[outside[1]], digits = 3), "as the largest (rescale the response)")
  range <- paste(LEAST_UNIT, "to", 1 / LEAST_UNIT)
  stop_argument(arg, "must have largest absolute values from ", range, ": found ", found)
}

# `missing`: TRUE allows NA and NaN, which na.action handles.
check_finite <- function(x, arg, missing = FALSE) {
  # in C on all threads, without a logical vector as long as x
  if (all_finite(x)) return(invisible(x))
  if (inherits(x, "single_points")) x <- widen(x, arg)
  bad <- if (missing) is.infinite(x) else !is.finite(x)
  if (!any(bad)) return(invisible(x))
  at <- which(bad)[1]
  place <- if (is.null(dim(x)) || is_unnamed_column(x)) {
    paste(" at position", at)
  } else {
    column <- column_label(colnames(x), (at - 1) %/% nrow(x) + 1)
    paste0(" in row ", (at - 1) %% nrow(x) + 1, ", column ", quote_names(column))
  }
  stop_argument(arg, "must be finite: found ", format(x[at]), place)
}

# TRUE if `x` is doubles or floats and all are finite; FALSE for other types.
all_finite <- function(x) send_points(x, NULL)

# all_finite() for points that are to be summed over. If they are finite and a GPU is to sum them, they are copied to
# it in the same pass, and the result is a handle for new_plan() and sum_sources(). `control`: NULL, or a run_control().
send_points <- function(x, control) {
  if (is.null(control)) .Call(ffi_all_finite, x) else .Call(ffi_send_points, x, control)
}

is_unnamed_column <- function(x) ncol(x) == 1 && is.null(colnames(x))

# Automatic bandwidths need columns that vary. Rows of weight 0 are ignored. `where`, `cure`: which rows these are and
# what the user can do, for the message.
check_spread <- function(x, arg = "x", weights = NULL, where = "", cure = "") {
  if (!is.null(weights)) x <- x[weights > 0, , drop = FALSE]
  refuse <- \(...) stop_argument(arg, "must ", ..., where, cure)
  if (nrow(x) < 2) refuse("have at least two rows for an automatic bandwidth: found one")
  constant <- which(vapply(seq_len(ncol(x)), \(k) is_constant(x, k), NA))
  if (length(constant) == 0) return(invisible(x))
  if (is_unnamed_column(x)) refuse("vary for an automatic bandwidth: found only ", format(x[1]))
  column <- quote_names(column_label(colnames(x), constant[1]))
  refuse("vary in every column for an automatic bandwidth: column ", column, " is constant")
}

# Looks at 1,000 rows first, to avoid a copy of the column.
is_constant <- function(x, k) {
  same <- \(rows) all(x[rows, k] == x[1, k])
  same(seq_len(min(nrow(x), 1000))) && same(seq_len(nrow(x)))
}

# ---- weights ----------------------------------------------------------------------------------

# Returns NULL or a double vector of length n. `missing`: TRUE allows NA, which na.action handles.
check_weights <- function(weights, n, arg = "weights", missing = FALSE) {
  if (is.null(weights)) return(NULL)
  # c(NA, NA) is logical
  if (is.logical(weights) && all(is.na(weights))) weights <- as.double(weights)
  if (!is_number(weights)) {
    hint <- if (is.character(weights) && length(weights) == 1) " (give the values of a column, not its name)"
    stop_argument(arg, "must be numeric: found ", describe(weights), hint)
  }
  if (length(weights) != n) stop_argument(arg, "must have one value per row, ", n, ": found ", length(weights))
  weights <- as.double(weights)
  if (missing && all(is.na(weights))) stop_argument(arg, "must have a value that is not missing")
  check_finite(weights, arg, missing)
  if (any(weights < 0, na.rm = TRUE)) {
    at <- which(weights < 0)[1]
    stop_argument(arg, "must not be negative: found ", format(weights[at]), " at position ", at)
  }
  if (!any(weights > 0, na.rm = TRUE)) stop_argument(arg, "must not all be zero")
  if (!is.finite(sum(weights, na.rm = TRUE))) stop_argument(arg, "must have a finite sum")
  weights
}

# ---- scalars ----------------------------------------------------------------------------------

check_is <- function(good, value, arg, what) {
  if (!good) stop_argument(arg, "must be ", what, ": found ", describe(value))
}

# Returns one number as a double. `is_good`: predicate; `what`: the requirement, for the message.
check_number <- function(value, arg, what, is_good) {
  check_is(is_number(value) && length(value) == 1 && !is.na(value) && is_good(value), value, arg, what)
  as.double(value)
}

# Like match.arg(): partial names are allowed, and the vector of all choices means the first.
check_choice <- function(value, choices, arg) {
  one_name <- is.character(value) && length(value) == 1 && !is.na(value)
  if (one_name && is.null(attributes(value)) && any(value == choices)) return(value)
  if (identical(value, choices)) return(choices[1])
  found <- if (one_name) pmatch(value, choices) else NA
  if (is.na(found)) {
    nearest <- if (one_name && validEnc(value)) nearest_choice(value, choices)
    stop_argument(arg, "must be one of ", quote_choices(choices), ": found ", describe(value), name_nearest(nearest))
  }
  choices[found]
}

# Names of choices in other software, only letters and digits. kernel_table() has those of kernels.
OTHER_NAMES <- c(
  gpu = "cuda", nvidia = "cuda", float = "single", float32 = "single", float64 = "double",
  hpi = "sj", hpi1 = "sj", sjste = "sj", sjdpi = "sj", ste = "sj", dpi = "sj", ucv = "lscv", bcv = "lscv",
  hlscv = "lscv", hscv = "scv", hucv = "lscv", hbcv = "lscv", hns = "silverman", normal = "silverman", nrd = "scott",
  mlcv = "lcv", cvml = "lcv", ml = "lcv",
  quartic = "biweight", tophat = "uniform", box = "uniform", boxcar = "uniform", parabolic = "epanechnikov"
)

# The choice that `value` means by another name or a misspelling; NULL if none.
nearest_choice <- function(value, choices) {
  plain <- \(name) gsub("[^a-z0-9]", "", tolower(name))
  written <- plain(shorten(value))
  other <- c(OTHER_NAMES, kernel_synonyms())[written]
  if (other %in% choices) return(unname(other))
  if (length(choices) == 0) return(NULL)
  longer <- choices[startsWith(plain(choices), written) | startsWith(written, plain(choices))]
  if (nchar(written) > 3 && length(longer) == 1) return(longer)
  distance <- utils::adist(written, plain(choices))
  if (nzchar(written) && min(distance) <= nchar(written) / 3) choices[which.min(distance)]
}

quote_choices <- function(choices) paste0('"', choices, '"', collapse = ", ")

name_nearest <- function(nearest) if (!is.null(nearest)) paste0(" (the nearest is \"", nearest, "\")")

check_flag <- function(value, arg) {
  if (!is.logical(value) || length(value) != 1 || is.na(value)) {
    stop_argument(arg, "must be TRUE or FALSE: found ", describe(value))
  }
  as.logical(value)
}

check_count <- function(value, arg, min = 1, max = .Machine$integer.max) {
  # the message omits the limits of an integer
  limits <- c(
    if (min > -.Machine$integer.max) paste("at least", min),
    if (max < .Machine$integer.max || is.numeric(value) && isTRUE(value > max)) paste("at most", max)
  )
  what <- paste0("one whole number", if (length(limits) > 0) paste(" of", paste(limits, collapse = " and ")))
  as.integer(check_number(value, arg, what, \(x) x == round(x) && x >= min && x <= max))
}

# One or more probabilities. `open`: TRUE excludes 0 and 1; `bytes`: memory that the caller needs for each.
check_prob <- function(value, arg, open = FALSE, bytes = 8) {
  refuse <- \(...) stop_argument(arg, "must be probabilities ", if (open) "strictly ", "between 0 and 1: found ", ...)
  if (!is_number(value) || length(value) == 0) refuse(describe(value))
  check_memory(as.double(length(value)) * (8 * 3 + bytes), arg)
  outside <- is.na(value) | (if (open) value <= 0 | value >= 1 else value < 0 | value > 1)
  if (any(outside)) {
    first <- value[outside][1]
    hint <- if (isTRUE(first > 1 && first < 100)) paste0(" (", format(first), "% is ", format(first / 100), ")")
    refuse(format(first), hint)
  }
  as.double(value)
}

# Significant digits of printed numbers. NULL: three fewer than R's option `digits`.
check_digits <- function(digits) {
  if (is.null(digits)) return(max(3L, getOption("digits") - 3L))
  check_count(digits, "digits", max = 22)
}

check_fit <- function(object, arg = "object") {
  conditional <- if (inherits(object, "flash_conditional")) " (use kde_conditional() for the density at given values)"
  check_is(inherits(object, "flash_kde"), object, arg, paste0("a fit from flash_kde()", conditional))
  invisible(object)
}

# Refuses arguments in dots, where a misspelt argument would be ignored. The error suggests an argument of similar
# spelling from `.known`, or the one that `.others` lists for a name in another package.
check_dots_empty <- function(..., .known = names(formals(sys.function(caller))), .others = character()) {
  if (...length() == 0) return(invisible())
  caller <- sys.parent()
  names <- ...names()
  name <- if (is.null(names)) "" else names[nzchar(names) & !is.na(names)][1]
  if (is.na(name) || !nzchar(name)) {
    count <- ...length()
    stop_argument("...", "must be empty: found ", count, ngettext(count, " unnamed argument", " unnamed arguments"))
  }
  meant <- if (name %in% names(.others)) .others[[name]] else nearest_choice(name, setdiff(.known, "..."))
  stop_argument(name, "is not an argument of this function", if (!is.null(meant)) paste0(" (did you mean `", meant, "`?)"))
}

check_level <- function(level) check_number(level, "level", "one number between 0 and 1", \(x) x > 0 && x < 1)

check_grid_size <- function(n, d) if (is.null(n)) c(1024L, 151L, 101L)[min(d, 3)] else check_count(n, "n", min = 10)

# Colours. grDevices::col2rgb() alone would accept lists and logical values.
check_colours <- function(value, arg) {
  if (is.null(value)) return(invisible())
  good <- (is.character(value) || is.numeric(value)) && !is.object(value) && length(value) > 0 && !anyNA(value) &&
    tryCatch(is.matrix(grDevices::col2rgb(value)), error = \(e) FALSE, warning = \(w) FALSE)
  check_is(good, value, arg, "colours, such as \"red\" or \"#0072B2\"")
}
