# Columns: numbers of the rows of a flash_data() that stay with their shards, such as a response, weights or the linear
# predictor of a fit. A column has `t` numbers for each row. It is an expression, which workers evaluate where the rows
# are (store-column-values.R); only sums and selected rows come back. With columns instead of n x t matrices the code
# of kernel_ridge() is the same for rows in memory and on workers.
#
# Linear expressions are stored as coefficients (an offset, the response, m numbers of kernels for each output). So
# expressions do not grow in iterations, and a worker that takes over shards can compute the same bits.

# `op`: the name in COLUMN_VALUES, or of an arithmetic operator; `inputs`: columns and numbers; `with`: other arguments.
new_column <- function(data, t, op, inputs = list(), with = list()) {
  structure(class = "shard_column", list(data = data, t = t, op = op, inputs = inputs, with = with))
}

# ---- basic columns ----------------------------------------------------------------------------

# The response of the shards; with `classes`, its columns of -1 and 1 (class_columns()).
response_column <- function(data, classes = NULL) {
  t <- if (is.null(classes)) max(1, data$response_is$t) else if (length(classes) == 2) 1 else length(classes)
  base_column(paste(c("response", classes), collapse = " "), new_column(data, t, "response", with = list(classes = classes)))
}

weights_column <- function(data) new_column(data, 1, "weights")

# A vector or matrix of this session. Each shard is sent its rows when it first needs them.
given_column <- function(data, values) {
  key <- paste(identity_of(values), collapse = " ")
  base_column(key, new_column(data, NCOL(values), "given", with = list(values = values, key = key)))
}

base_column <- function(key, column) {
  linear_column(column$data, column$t, by = stats::setNames(1, key), inputs = stats::setNames(list(column), key))
}

# Kernels of the centres times alpha, m x t.
link_column <- function(data, centers, alpha) linear_column(data, ncol(alpha), alpha = alpha, sources = centers$sources)

# shift + sum by * inputs + K alpha.
linear_column <- function(data, t, shift = rep(0, t), by = numeric(), inputs = list(), alpha = NULL, sources = NULL) {
  new_column(data, t, "linear", inputs, list(shift = shift, by = by, alpha = alpha, sources = sources))
}

# Returns the expression of a column for the rows of other data, such as a subset.
column_at <- function(column, data) {
  if (!is_column(column)) return(column)
  column$inputs <- lapply(column$inputs, column_at, data)
  replace(column, "data", list(data))
}

# ---- arithmetic -------------------------------------------------------------------------------

#' @export
dim.shard_column <- function(x) c(.subset2(x, "data")$n, .subset2(x, "t"))

#' @export
Ops.shard_column <- function(e1, e2) {
  one <- if (is_column(e1)) e1 else e2
  linear <- switch(.Generic,
    `+` = combine_linear(e1, 1, e2, 1), `-` = combine_linear(e1, 1, e2, -1),
    `*` = if (is_column(e1)) scale_linear(e1, e2) else scale_linear(e2, e1), `/` = scale_linear(e1, 1 / e2)
  )
  if (!is.null(linear)) return(linear)
  new_column(one$data, max(column_count(e1), column_count(e2)), .Generic, list(e1, e2))
}

column_count <- function(x) if (is_column(x)) x$t else 1

is_linear <- function(x) is_column(x) && x$op == "linear"

# a * one + b * other, each linear or a number; NULL if the result is not linear.
combine_linear <- function(one, a, other, b) {
  if (is_number(one)) return(if (is_linear(other)) combine_linear(other, b, one, a))
  if (!is_linear(one) || !(is_linear(other) || is_number(other))) return(NULL)
  x <- one$with
  if (!is_linear(other)) other <- linear_column(one$data, one$t, rep(other, one$t))
  y <- other$with
  if (one$t != other$t || !is.null(x$alpha) && !is.null(y$alpha) && !identical(x$sources, y$sources)) return(NULL)
  inputs <- c(one$inputs, other$inputs)
  inputs <- inputs[!duplicated(names(inputs))]
  by <- vapply(names(inputs), \(name) a * sum(x$by[name], na.rm = TRUE) + b * sum(y$by[name], na.rm = TRUE), 0)
  alpha <- list(if (!is.null(x$alpha)) a * x$alpha, if (!is.null(y$alpha)) b * y$alpha)
  linear_column(
    one$data, one$t, a * x$shift + b * y$shift, by[by != 0], inputs[by != 0], Reduce(`+`, alpha[lengths(alpha) > 0]),
    if (is.null(x$sources)) y$sources else x$sources
  )
}

scale_linear <- function(one, by) if (is_number(by) && length(by) == 1) combine_linear(one, by, 0, 1)

# A function of columns that acts on each row separately and returns `t` numbers.
column_of <- function(op, inputs, t, with = list()) {
  inputs <- inputs[lengths(inputs) > 0]
  new_column(Find(is_column, inputs)$data, t, op, inputs, with)
}

# ---- what comes back --------------------------------------------------------------------------

# Applies the operation `op` to a named list of columns, some of which may be NULL. `own`: see `parts` of over_shards().
over_columns <- function(op, columns, args = list(), control = run_control(settle_control(NULL)), own = NULL,
                         shards = NULL, pairs = 0, data = Find(is_column, columns)$data) {
  columns <- columns[lengths(columns) > 0]
  box <- list2env(list(args = args, given = list()))
  args <- list(columns = lapply(columns, packed_column, box))
  parts <- if (!is.null(own) || length(box$given) > 0) {
    function(shard, worker) {
      list(given = stored_part(data, box$given, shard, worker), own = if (!is.null(own)) own(shard, worker))
    }
  }
  over_shards(data, op, c(args, box$args), control, parts, shards, pairs)
}

# The rows of a shard of each of `columns` (n numbers or n x t, by key), which are sent once and cached for later
# products. The numbers are omitted if the worker has them.
stored_part <- function(data, columns, shard, worker) {
  rows <- rows_of_shards(data, shard)
  Map(function(column, key) {
    if (is_stored(data, key, shard, worker)) list(key = key) else list(key = key, values = numbers_at(column, rows))
  }, columns, names(columns))
}

# TRUE if the worker has these numbers. Records that it has them from now on, for the latest columns of each data.
is_stored <- function(data, key, shard, worker) {
  pool <- pool_of(data$cluster)
  if (!pool$transport$keeps || !is.null(pool$below)) return(FALSE)
  known <- pool$stored[[data$id]]
  holders <- known[[key]]
  if (is.null(holders)) holders <- rep(NA_integer_, length(data$rows))
  has <- holders[shard] %in% worker
  if (!has || names(known)[1] != key) {
    assign(data$id, with_latest(known, key, replace(holders, shard, worker), MOST_STORED), envir = pool$stored)
  }
  has
}

# The expression for workers. Numbers of this session, coefficients and centres are moved to `box`; shared values are
# sent only to workers that do not have them.
packed_column <- function(column, box) {
  if (!is_column(column)) return(column)
  with <- column$with
  if (column$op == "given") {
    box$given[[with$key]] <- with$values
    with <- with["key"]
  }
  if (!is.null(with$alpha)) {
    sources <- shared_value(with$sources)
    alpha <- known_by(paste("link", identity_of(with$alpha)[2]), list(points = with$alpha))
    box$args[c(sources$key, alpha$key)] <- list(sources, alpha)
    with <- c(with[c("shift", "by")], list(sources = sources$key, alpha = alpha$key))
  }
  list(op = column$op, t = column$t, inputs = lapply(column$inputs, packed_column, box), with = with)
}

column_sums <- function(x) if (is_column(x)) over_columns("column_sums", list(x = x)) else colSums(x)

#' @export
Summary.shard_column <- function(..., na.rm = FALSE) {
  parts <- list(...)
  if (.Generic != "sum" || length(parts) > 1) stop("only sum() works on a column of shards")
  sum(column_sums(parts[[1]]))
}

#' @export
mean.shard_column <- function(x, ...) sum(x) / prod(dim(x))

# x[rows] or x[rows, , drop = FALSE] fetches rows, in their order; x[, k] is a column.
#' @export
`[.shard_column` <- function(x, i, j, drop = TRUE) {
  if (missing(i)) return(column_of("pick", list(x), length(j), list(j = j)))
  as_vector <- nargs() == 2 + !missing(drop)
  taken <- gather_rows(x$data$rows, i, matrix(0, length(i), x$t), \(own, shards) {
    over_columns("column_rows", list(x = x), own = own, shards = shards)
  })
  if (as_vector) as.vector(taken) else taken
}

# Fetches all numbers, n x t.
collected <- function(x) {
  if (!is_column(x)) return(x)
  check_memory(16 * prod(dim(x)), "x")
  rows_of_column(x, seq_along(x$data$rows))
}

rows_of_column <- function(x, shards) do.call(rbind, over_columns("column_rows", list(x = x), shards = shards))

# Makes a flash_data() of a column, whose values stay where the rows are.
column_as_data <- function(x, names, control) {
  made <- derived_data(x$data, \(shard) list(x = `colnames<-`(rows_of_column(x, shard), names)))
  made$d <- x$t
  made["names"] <- list(names)
  made$has[] <- FALSE
  over_columns("column_there", list(x = x), list(to = told_of(made)), control, own = shard_number)
  share_owners(pool_of(x$data$cluster), made, x$data)
  made
}

# The numbers of `number` rows without replacement, with probabilities proportional to a column of weights (NULL: equal):
# those with the smallest waiting times.
draw_from_data <- function(data, weights, number) {
  before <- rows_before(data)
  if (is.null(weights)) weights <- linear_column(data, 1, shift = 1)
  args <- list(draw = draw_number(), number = number)
  over_columns("column_draw", list(weights = weights), args, own = \(shard, worker) c(shard, before[shard]))$index
}

# A number for each draw, from R's generator.
draw_number <- function() sample.int(.Machine$integer.max, 1)

# ---- classes ----------------------------------------------------------------------------------

#' @export
class_codes.shard_column <- function(link) column_of("class_codes", list(link), 1)

#' @export
class_counts.shard_column <- function(y, weights = NULL) {
  is_class <- column_of("is_class", list(y), max(2, ncol(y)))
  column_sums(if (is.null(weights)) is_class else is_class * weights)
}
