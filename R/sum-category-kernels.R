# Kernels of levels. l(a, b) is what a point of level b gives to level a; over the levels a it sums to 1, those
# without points among them, so that the estimate is a density whatever lambda is. With lambda = 0 all stays at b.

# For each: what kinds of columns it is for, the largest lambda for c levels, and l but for its sum, by the steps
# between two levels (0 or 1 where they have no order).
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

# As np has them.
DEFAULT_LEVEL_KERNELS <- c(unordered = "aitchisonaitken", ordered = "liracine")

# The matrix of l(a, b) of a column: list(kind, levels, kernel).
level_table <- function(column, lambda) {
  relative <- relative_table(column, lambda)
  relative / rep(colSums(relative), each = nrow(relative))
}

# But for its sums.
relative_table <- function(column, lambda) {
  count <- length(column$levels)
  steps <- abs(outer(seq_len(count), seq_len(count), "-"))
  if (column$kind == "unordered") steps <- pmin(steps, 1)
  LEVEL_KERNELS[[column$kernel]]$relative(steps, lambda, count)
}

# All that stands in it: of a column without an order c(l(a, a), l(a, b)), as there may be thousands of levels.
level_values <- function(column, lambda) {
  if (column$kind == "ordered") return(level_table(column, lambda))
  count <- length(column$levels)
  relative <- LEVEL_KERNELS[[column$kernel]]$relative(c(0, 1), lambda, count)
  if (count == 1) c(1, 0) else relative / (relative[1] + (count - 1) * relative[2])
}

# Where in it l(a, b) stands.
level_places <- function(column, a, b) {
  if (column$kind == "ordered") a + (b - 1) * length(column$levels) else 2 - (a == b)
}

# Its derivative by lambda, to the digits of doubles: kernels are analytic, and a step of 1e-20 i cancels nothing.
level_slopes <- function(column, lambda) Im(level_values(column, complex(real = lambda, imaginary = 1e-20))) / 1e-20

# Of a column with one level it is 0.
most_lambda <- function(columns) {
  vapply(columns, \(column) {
    count <- length(column$levels)
    if (count > 1) LEVEL_KERNELS[[column$kernel]]$most(count) else 0
  }, 0)
}

# `discrete`: list(columns, lambda, codes), of a fit or of the data of a search: what mixed_columns() tells of each
# column, its lambda, and a matrix of the points' levels, by number.
level_tables <- function(discrete) Map(level_table, discrete$columns, discrete$lambda)

# Of the combination of levels `to` and each row of `from`: the product of what their columns give. `back`: what
# `to` gives to them.
cell_weights <- function(tables, to, from, back = FALSE) {
  give <- \(table, k) if (back) table[from[, k], to[k]] else table[to[k], from[, k]]
  Reduce(`*`, Map(give, tables, seq_along(tables)))
}

# The combinations of levels that occur: list(codes, a row for each; of, which one every row of `codes` has; rows).
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

# The columns with their kernels. NULL: the usual ones; names without columns: each for the columns of its kinds.
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

# A number for each column, NA where it is to be chosen.
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
        "categorical$smoothing", "must be from 0 to ", format(most[[name]], digits = 4), " for ", quote_names(name), " (",
        LEVEL_KERNELS[[columns[[name]]$kernel]]$title, ", ", length(columns[[name]]$levels), " categories): found ",
        format(wanted[[name]])
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

# Those of some of the rows; NULL where there are none.
discrete_rows <- function(discrete, rows) {
  if (!is.null(discrete)) discrete$codes <- discrete$codes[rows, , drop = FALSE]
  discrete
}
