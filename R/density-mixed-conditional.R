# Marginals and conditionals of fits with levels. What is given of numbers and of levels weighs the points, each by
# its kernel; what is not given is left, with its own kernels: numbers and levels, numbers alone, or levels alone.

# The marginal leaves categorical columns out, because their kernels sum to 1.
#' @export
marginal_of.mixed <- function(object, vars, run) {
  columns <- names(object$discrete$columns)
  unknown <- if (is.character(vars)) setdiff(vars, object$discrete$names)
  if (length(unknown) > 0) {
    stop_argument(
      "vars", "must name columns of the fit, ", quote_names(object$discrete$names), ": found ", quote_names(unknown)
    )
  }
  numbers <- vars[!vars %in% columns]
  alone <- length(numbers) == 0 && length(vars) > 0
  part <- if (alone) without_numbers(object) else numbers_of(object, numbers)
  with_levels(part, object, setdiff(columns, vars), if (is.character(vars)) vars else part$names)
}

# The fit of some of the numbers alone.
numbers_of <- function(object, vars) marginal_of.default(object, vars)

# A list of numbers and levels by the names of their columns.
#' @export
given_values.mixed <- function(object, given) {
  given <- as.list(given)
  discrete <- object$discrete
  if (length(given) == 0 || !has_names(names(given)) || any(lengths(given) != 1)) {
    stop_argument("given", "must be values named by columns, as list(a = 1): found ", describe(given))
  }
  lacking <- setdiff(names(given), discrete$names)
  if (length(lacking) > 0) {
    stop_argument(
      "given", "must name columns of the fit, ", quote_names(discrete$names), ": found ", quote_names(lacking)
    )
  }
  if (length(given) == length(discrete$names)) {
    stop_argument("given", "must leave at least one variable: found all ", length(given))
  }
  numbers <- given[setdiff(names(given), names(discrete$columns))]
  good <- vapply(numbers, is_number, NA)
  if (!all(good)) {
    stop_argument(
      "given", "must be a number for ", quote_names(names(numbers)[!good][1]), ": found ",
      describe(numbers[!good][[1]]), " (c() turns numbers beside texts into texts: use list())"
    )
  }
  values <- as.double(unlist(numbers))
  check_finite(values, "given")
  names <- intersect(names(given), names(discrete$columns))
  codes <- unlist(Map(level_codes, given[names], discrete$columns[names], names, "given"))
  check_finite(codes, "given")
  list(dims = match(names(numbers), object$names), values = matrix(values, 1), codes = codes)
}

#' @export
conditional_where.mixed <- function(object, at, run) {
  kernels <- mixed_conditional_kernels(object, at, "given")
  weigh_points(kernels$fit, kernels$log_w, "given")
}

# conditional_kernels() for mixed densities.
mixed_conditional_kernels <- function(object, at, arg) {
  log_w <- log(shares_of_given(object$discrete, at$codes))
  if (!any(log_w > -Inf)) {
    stop_argument(
      arg, "must have categories of some point, because points of other categories have no weight without smoothing"
    )
  }
  if (length(at$dims) > 0) {
    side <- numbers_of(object, at$dims)
    log_w <- log_w + given_log_weights(side, at$values)[, 1]
    moved <- if (length(at$dims) < object$d) move_with(object, side, at$dims, at$values) else without_numbers(object)
  } else {
    moved <- if (object$d > 0) numbers_of(object, seq_len(object$d)) else without_numbers(object)
    if (!is.null(object$weights)) log_w <- log_w + log(object$weights)
    # points moved by the scores of all levels
    if (is_debiased(object)) moved["debiased_in"] <- list(object$d)
  }
  list(fit = with_levels(moved, object, names(at$codes)), log_w = log_w)
}

# What each point gives to the levels of these numbers, a vector by the names of columns.
shares_of_given <- function(discrete, codes) {
  if (length(codes) == 0) return(1)
  tables <- level_tables(discrete)[names(codes)]
  cell_weights(tables, codes, discrete$codes[, names(codes), drop = FALSE])
}

# A fit of the categories alone, with the kernels of the classical estimate.
without_numbers <- function(object) {
  none <- matrix(0, 0, 0)
  part <- unclass(object)
  part["x"] <- list(object$x[, integer(), drop = FALSE])
  part["bandwidth"] <- list(none)
  part["factor"] <- list(list(H = none, L = none))
  empty <- c(
    "debiased", "centred", "score_bandwidth", "names", "terms", "variables", "adaptive", "search", "settings", "steps"
  )
  part[empty] <- list(NULL)
  part$estimator <- PLAIN_ESTIMATOR
  part$d <- 0L
  part$plan <- new_plan()
  part
}

# `part`, a marginal or conditional of `object`, with its columns of levels but for `away`; `order`: names of columns,
# others among them, the numeric ones as those of `part`.
with_levels <- function(part, object, away, order = object$discrete$names) {
  discrete <- object$discrete
  left <- setdiff(names(discrete$columns), away)
  if (length(left) == 0) return(structure(replace(part, "kind", list(NULL)), class = "flash_kde"))
  names <- intersect(order, c(part$names, left))
  part$discrete <- list(
    columns = discrete$columns[left], codes = discrete$codes[, left, drop = FALSE], names = names,
    lambda = discrete$lambda[left], chosen = discrete$chosen[left]
  )
  terms <- terms_of_columns(object$terms, names)
  part["terms"] <- list(terms)
  part["variables"] <- list(if (!is.null(terms)) intersect(object$variables, all.vars(terms)))
  as_mixed(part)
}
