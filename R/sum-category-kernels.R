# Kernels of categories. l(a, b) is the kernel of a point of category b at category a. It sums to 1 over all categories
# a, also those without points, so that the estimate is a density for any smoothing parameter lambda. With lambda = 0
# the kernel is 1 at a = b and 0 elsewhere.

# The table of kernels: title; kinds of columns; `most`, the largest lambda for c categories; `relative`, l up to a
# factor, as a function of the steps between two categories (0 or 1 in unordered columns).
LEVEL_KERNELS <- list(
  aitchisonaitken = list(
    title = "Aitchison-Aitken", kinds = "unordered", most = \(c) (c - 1) / c,
    relative = \(steps, lambda, c) ifelse(steps == 0, 1 - lambda, lambda / (c - 1))
  ),
  liracine = list(
    title = "Li-Racine", kinds = c("unordered", "ordered"), most = \(c) 1,
    relative = \(steps, lambda, c) lambda^steps
  ),
  wangvanryzin = list(
    title = "Wang-van Ryzin", kinds = "ordered", most = \(c) 1,
    relative = \(steps, lambda, c) ifelse(steps == 0, 1, lambda^steps / 2)
  )
)

# The defaults of np.
DEFAULT_LEVEL_KERNELS <- c(unordered = "aitchisonaitken", ordered = "liracine")

# Returns the matrix of l(a, b) for a column, list(kind, levels, kernel).
level_table <- function(column, lambda) {
  relative <- relative_table(column, lambda)
  relative / rep(colSums(relative), each = nrow(relative))
}

# Returns the matrix before its columns are divided by their sums.
relative_table <- function(column, lambda) {
  count <- length(column$levels)
  steps <- abs(outer(seq_len(count), seq_len(count), "-"))
  if (column$kind == "unordered") steps <- pmin(steps, 1)
  LEVEL_KERNELS[[column$kernel]]$relative(steps, lambda, count)
}

# Returns the distinct values of the matrix: for an unordered column c(l(a, a), l(a, b)), because it may have thousands
# of categories, else the matrix.
level_values <- function(column, lambda) {
  if (column$kind == "ordered") return(level_table(column, lambda))
  count <- length(column$levels)
  relative <- LEVEL_KERNELS[[column$kernel]]$relative(c(0, 1), lambda, count)
  if (count == 1) c(1, 0) else relative / (relative[1] + (count - 1) * relative[2])
}

# Returns the positions of l(a, b) in the result of level_values().
level_places <- function(column, a, b) {
  if (column$kind == "ordered") a + (b - 1) * length(column$levels) else 2 - (a == b)
}

# Returns the derivative of level_values() with respect to lambda, by a complex step: kernels are analytic, and the step
# of 1e-20 i causes no cancellation.
level_slopes <- function(column, lambda) Im(level_values(column, complex(real = lambda, imaginary = 1e-20))) / 1e-20

# Returns the largest lambda of each column, which is 0 for a column with one category.
most_lambda <- function(columns) {
  vapply(columns, \(column) {
    count <- length(column$levels)
    if (count > 1) LEVEL_KERNELS[[column$kernel]]$most(count) else 0
  }, 0)
}

# Returns the kernel matrix of each column. `discrete`, of a fit or of the data of a search: list(columns, lambda,
# codes), the columns as described by mixed_columns(), their smoothing parameters, and a matrix with the category
# numbers of the points.
level_tables <- function(discrete) Map(level_table, discrete$columns, discrete$lambda)

# Returns the product over columns of the kernels l(to, from) for each row of `from`, or l(from, to) with `back`.
cell_weights <- function(tables, to, from, back = FALSE) {
  give <- \(table, k) if (back) table[from[, k], to[k]] else table[to[k], from[, k]]
  Reduce(`*`, Map(give, tables, seq_along(tables)))
}

# Returns the combinations of categories that occur, as list(codes, of, rows): a row for each combination, the number of
# the combination of each row of the argument, and the rows of each combination.
cells_of <- function(codes) {
  group <- rep(1, nrow(codes))
  for (k in seq_len(ncol(codes))) {
    group <- group * (max(codes[, k], 0) + 1) + codes[, k]
    group <- match(group, unique(group))
  }
  first <- !duplicated(group)
  list(codes = codes[first, , drop = FALSE], of = group, rows = unname(split(seq_along(group), group)))
}

# ---- arguments ----------------------------------------------------------------------------------

# Returns the columns with their kernels. `wanted`: NULL for the defaults, names of kernels by column, or names of
# kernels that each apply to all columns of their kinds.
choose_level_kernels <- function(columns, wanted) {
  for (name in names(columns)) columns[[name]]$kernel <- DEFAULT_LEVEL_KERNELS[[columns[[name]]$kind]]
  if (is.null(wanted)) return(columns)
  arg <- "categorical$kernel"
  if (!is.character(wanted) || length(wanted) == 0) {
    choices <- quote_choices(names(LEVEL_KERNELS))
    stop_argument(arg, "must be NULL or some of ", choices, ": found ", describe(wanted))
  }
  by_column <- has_names(names(wanted))
  if (by_column) check_column_names(names(wanted), columns, arg)
  for (i in seq_along(wanted)) {
    choice <- check_choice(unname(wanted[i]), names(LEVEL_KERNELS), arg)
    kinds <- LEVEL_KERNELS[[choice]]$kinds
    among <- if (by_column) names(wanted)[i] else names(columns)
    able <- Filter(\(name) columns[[name]]$kind %in% kinds, among)
    if (length(able) == 0) {
      stop_argument(
        arg, "must suit the columns: \"", choice, "\" is for ", kinds, " categories: found it for ", quote_names(among)
      )
    }
    for (name in able) columns[[name]]$kernel <- choice
  }
  columns
}

# Returns a smoothing parameter for each column, NA if it is to be chosen.
check_lambda <- function(lambda, columns) {
  wanted <- replace(most_lambda(columns), TRUE, NA)
  if (is.null(lambda)) return(wanted)
  if (!is_number(lambda) || length(lambda) == 0 || length(lambda) > 1 && !has_names(names(lambda))) {
    stop_argument(
      "categorical$smoothing", "must be NULL, one number, or numbers with the names of the columns ",
      quote_names(names(columns)), ": found ", describe(lambda)
    )
  }
  named <- has_names(names(lambda))
  if (named) check_column_names(names(lambda), columns, "categorical$smoothing")
  wanted[if (named) names(lambda) else TRUE] <- as.double(lambda)
  most <- most_lambda(columns)
  for (name in if (named) names(lambda) else names(columns)) {
    if (!isTRUE(wanted[[name]] >= 0 && wanted[[name]] <= most[[name]] * (1 + 1e-12))) {
      stop_argument(
        "categorical$smoothing", "must be from 0 to ", format(most[[name]], digits = 4), " for ", quote_names(name),
        " (", LEVEL_KERNELS[[columns[[name]]$kernel]]$title, ", ", length(columns[[name]]$levels), " categories): ",
        "found ", format(wanted[[name]])
      )
    }
  }
  pmin(wanted, most)
}

check_column_names <- function(names, columns, arg) {
  unknown <- setdiff(names, names(columns))
  if (length(unknown) > 0) {
    stop_argument(
      arg, "must have names of columns with categories, ", quote_names(names(columns)), ": found ", quote_names(unknown)
    )
  }
}

# Returns the categories of some rows, or NULL if there are no categories.
discrete_rows <- function(discrete, rows) {
  if (!is.null(discrete)) discrete$codes <- discrete$codes[rows, , drop = FALSE]
  discrete
}
