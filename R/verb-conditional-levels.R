# Conditional densities with categorical columns (factors, texts, logical values) on either side. Rows of x are
# numbers followed by category numbers, as in density-mixed-frame.R. Categories of x give weights to the points: for
# rows of x with the same categories, p(y | x) is a conditional density of numbers alone, with these weights.

# Names of the categorical columns of x and of y.
given_levels <- function(object) intersect(names(object$joint$discrete$columns), object$given)
response_levels <- function(object) intersect(names(object$joint$discrete$columns), object$response)

# The columns of x in the rows of joint points.
given_columns <- function(object) {
  joint <- object$joint
  which(c(joint$names, names(joint$discrete$columns)) %in% object$given)
}

check_numeric_response <- function(object, what) {
  if (length(response_levels(object)) == 0) return(invisible(object))
  stop(new_error("unsupported", paste0(
    what, " need a numeric response: use predict() for the probabilities of the categories of ",
    quote_names(response_levels(object))
  ), user_call()))
}

# Calls `task(object, x, rows)` for each group of rows of x with the same categories. `object` is then the conditional
# density given these categories, and x the numbers. Skips categories that give all points weight 0 (where lambda is 0).
each_given_level <- function(object, x, task) {
  if (nrow(x) == 0) return()
  levels <- given_levels(object)
  if (length(levels) == 0) return(task(object, x, seq_len(nrow(x))))
  numbers <- seq_along(given_dims(object))
  codes <- x[, length(numbers) + seq_along(levels), drop = FALSE]
  cells <- cells_of(codes)
  for (i in seq_along(cells$rows)) {
    there <- at_levels(object, stats::setNames(cells$codes[i, ], levels))
    rows <- cells$rows[[i]]
    if (!is.null(there)) task(there, x[rows, numbers, drop = FALSE], rows)
  }
}

# The conditional density given these categories, by name; NULL if no point has positive weight.
at_levels <- function(object, codes) {
  joint <- object$joint
  if (!any(shares_of_given(joint$discrete, codes) > 0)) return(NULL)
  object$joint <- conditional_where(joint, list(dims = integer(), values = matrix(0, 1, 0), codes = codes), NULL)
  object$given <- setdiff(object$given, names(codes))
  object
}

# ---- categorical y ------------------------------------------------------------------------------

check_one_level <- function(object, type) {
  column <- response_levels(object)
  if (length(column) != 1 || length(object$response) != 1) {
    stop_argument("type", "must not be \"", type, "\" unless the left side is one categorical column")
  }
  column
}

# P(y | x), a column for each category of the only y, whose number stands before those of x in the rows of the points.
level_probabilities <- function(object, x, run) {
  column <- check_one_level(object, "probability")
  levels <- object$joint$discrete$columns[[column]]$levels
  check_memory(8 * 3 * as.double(nrow(x)) * (length(levels) + ncol(x)), "newdata")
  d <- object$joint$d
  numbers <- x[, seq_len(d), drop = FALSE]
  others <- x[, d + seq_len(ncol(x) - d), drop = FALSE]
  found <- vapply(seq_along(levels), \(code) {
    signed_density(log_conditional(object, cbind(numbers, rep(code, nrow(x)), others), run))
  }, numeric(nrow(x)))
  matrix(found, nrow(x), length(levels), dimnames = list(NULL, levels))
}

# The most probable category, with the type that the column has in the data.
likeliest_level <- function(object, probabilities) {
  codes <- max.col(replace(probabilities, is.na(probabilities), -1), ties.method = "first")
  as_levels(object, replace(codes, is.na(probabilities[, 1]), NA), response_levels(object))
}

as_levels <- function(object, codes, column) {
  decode(matrix(codes, ncol = 1, dimnames = list(NULL, column)), object$joint$discrete, column)[[1]]
}
