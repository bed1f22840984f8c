# Rows of kernel_ridge() in a flash_data(). The rows, the response, the weights and everything computed for each row
# stay on the workers (store-columns.R). A product sends m numbers for each output to each worker and receives as many.

data_rows_of <- function(x) {
  rows <- list(data = x, n = x$n, d = x$d, names = x$names)
  if (x$has[["response"]]) rows$y <- response_column(x)
  if (x$has[["weights"]]) rows$weights <- weights_column(x)
  structure(rows, class = "rows_data")
}

#' @export
rows_multiply.rows_data <- function(rows, centers, v, run) {
  kernel_sum_of(centers$sources, rows$data, v, run, as_matrix = TRUE)
}

# K v as a column: an expression that is evaluated when it is needed.
#' @export
rows_link.rows_data <- function(rows, centers, v, run) link_column(rows$data, centers, v)

#' @export
rows_normal.rows_data <- function(rows, centers, v, w, weights, run, with_sums = FALSE) {
  found <- normal_product_of(centers$sources, sum_sources(rows$data, NULL, rows$L, rows$kernel), v, w, weights, run)
  if (with_sums) found$sums <- rows_link(rows, centers, v, run)
  found
}

#' @export
rows_column.rows_data <- function(rows, x) if (is.null(x) || is_column(x)) x else given_column(rows$data, x)

#' @export
rows_constant.rows_data <- function(rows, x) linear_column(rows$data, length(x), shift = x)

#' @export
rows_take.rows_data <- function(rows, index) data_rows(rows$data, index)

#' @export
rows_fold.rows_data <- function(rows, f, init) {
  data <- rows$data
  before <- rows_before(data)
  for (shard in seq_along(data$rows)) init <- f(init, rows_of_shard(data, shard), before[shard] + 1)
  init
}

# ---- the response -----------------------------------------------------------------------------

# check_response() for the response of the shards.
check_response_column <- function(y, binary) {
  kind <- y$data$response_is
  if (is.null(kind$levels) && !binary) return(list(y = y, classes = NULL, outputs = kind$names, binary = FALSE))
  coded <- is.null(kind$levels) || kind$coded
  classes <- if (is.null(kind$levels)) two_values(y) else kind$levels
  if (length(classes) < 2) stop_argument("y", "must have rows of at least two classes: found ", length(classes))
  columns <- response_column(y$data, classes)
  check_no_lacking(class_counts(columns), classes, "y")
  list(y = columns, classes = classes, outputs = if (length(classes) > 2) classes, binary = coded)
}

two_values <- function(y) {
  if (y$t != 1) stop_two_classes("y", y$t, " columns")
  values <- over_columns("column_distinct", list(x = y))
  if (length(values) > 2) stop_two_classes("y", "more")
  as.character(values)
}

# response_like() for a flash_data() with a response.
response_column_like <- function(y, classes, t, arg) {
  kind <- y$data$response_is
  if (is.null(classes)) {
    if (!isTRUE(kind$t == t)) stop_argument(arg, "must have ", t, " columns of numbers, like `y`")
    return(y)
  }
  found <- kind$levels
  if (is.null(found)) found <- as.character(over_columns("column_distinct", list(x = y)))
  other <- setdiff(found, classes)
  if (length(other) > 0) stop_argument(arg, "must have the classes of the fit: found ", quote_names(other))
  response_column(y$data, classes)
}

# ---- rows that are held out -------------------------------------------------------------------

# Holds out the same share of each shard; both parts stay with the shard. `split`: list(part, seed).
#' @export
split_rows.rows_data <- function(rows, response, spec) {
  if (!is.null(spec$checkpoint)) {
    stop_argument("validation", "must be data of its own if rows on workers have a `checkpoint`: found a fraction")
  }
  data <- rows$data
  split <- list(part = spec$validation, seed = sample.int(.Machine$integer.max, 1))
  number <- round(split$part * data$rows)
  if (any(number == 0 | number == data$rows)) {
    stop_argument("validation", "must leave rows of every shard for fit and validation: found ", format(split$part))
  }
  if (are_several(spec$centers)) {
    stop_argument("centers", "must be a number or points for a flash_data() with `validation`: found indices of rows")
  }
  parts <- lapply(c(kept = FALSE, held = TRUE), \(held) part_of_data(data, split, held))
  # indices are needed for vectors in this session
  index <- if (!is_column(response$y) || !is.null(spec$weights) || !is.null(spec$offset)) held_rows(data, split)
  c(parts, list(index = index, taken = NULL, centers = spec$centers, of = function(x, held) {
    if (is_column(x)) return(column_at(x, parts[[if (held) "held" else "kept"]]))
    numbers_at(x, if (held) index else -index)
  }))
}

# The indices of the held-out rows.
held_rows <- function(data, split) {
  before <- rows_before(data)
  unlist(lapply(seq_along(data$rows), \(shard) before[shard] + held_of_shard(split, shard, data$rows[shard])))
}

# The rows of each shard that are held out, or the others, as a new flash_data() on the same workers.
part_of_data <- function(data, split, held) {
  part <- derived_data(data, \(shard) part_of_shard(whole_shard(data, shard), split, shard, held))
  part$has <- data$has
  args <- list(split = split, held = held, to = told_of(part))
  over_shards(data, "part_there", args, parts = shard_number, pairs = data$n)
  share_owners(pool_of(data$cluster), part, data)
  describe_data(part, run_control(settle_control(NULL)))
}

part_of_shard <- function(rows, split, shard, held) {
  index <- held_of_shard(split, shard, nrow(rows$x))
  if (!held) index <- -index
  response <- rows$response
  list(x = rows$x[index, , drop = FALSE], weights = rows$weights[index], response = numbers_at(response, index))
}

# Weights with 0 for held-out rows.
weights_without <- function(rows, weights, split) {
  column_of("held_at_0", list(if (is.null(weights)) linear_column(rows$data, 1, shift = 1) else weights), 1, split)
}

# Collects the problem into this session, for exact fits.
problem_in_session <- function(problem, spec) {
  if (!inherits(problem$rows, "rows_data")) return(problem)
  problem$rows <- ridge_rows(rows_take(problem$rows, seq_len(problem$rows$n)), spec$L, spec$kernel)
  for (name in c("y", "weights", "offset")) problem[name] <- list(collected(problem[[name]]))
  if (!is.null(problem$weights)) problem$weights <- as.vector(problem$weights)
  problem
}

# The run for products of rows that were fetched: the workers that have these compute them. Factors are made here.
run_where_rows_are <- function(rows, run) {
  if (!inherits(rows, "rows_data") || is.null(rows$data$cluster)) return(run)
  spread <- checked_run(replace(run$asked, "cluster", list(rows$data$cluster)))
  spread$progress <- run$progress
  spread
}

add_operations(
  # Makes a part of the rows a shard of other data, `args$to`.
  part_there = list(
    one = function(shard, args, part, control) {
      rows <- list(x = shard$points, weights = shard$weights, response = shard$response)
      keep_shard(known_data(worker_state(), args$to), part, part_of_shard(rows, args$split, part, args$held))
      NULL
    },
    merge = \(a, b, control) NULL
  )
)
