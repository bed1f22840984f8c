# Numbers of the rows of a flash_data() that stay with their shards: a response, weights, the link of a fit and what is
# made of these. A column, of `t` numbers for each row, is an expression that workers evaluate where the rows are
# (store-column-values.R); of it come back sums, and rows that are asked for. With columns in the place of n x t
# matrices kernel_ridge() is the same for rows in memory and on workers.
#
# What is linear in the response, an offset and kernels is kept as its coefficients, m numbers for each output: so an
# expression does not grow in iterations, and whoever takes the shards of a lost worker has all that it takes to make
# the same bits again.

# `op`: of COLUMN_VALUES, or one of arithmetic; `inputs`: columns and numbers; `with`: what else it takes.
new_column <- function(data, t, op, inputs = list(), with = list()) {
  structure(class = "shard_column", list(data = data, t = t, op = op, inputs = inputs, with = with))
}

# ---- those that there are ---------------------------------------------------------------------

# The response of the shards as it is; with `classes` the columns that class_columns() makes of these.
response_column <- function(data, classes = NULL) {
  t <- if (is.null(classes)) max(1, data$response_is$t) else if (length(classes) == 2) 1 else length(classes)
  base_column(paste(c("response", classes), collapse = " "), new_column(data, t, "response", with = list(classes = classes)))
}

weights_column <- function(data) new_column(data, 1, "weights")

# Numbers of this session, a vector or a matrix, of which each shard gets its own when it first needs them.
given_column <- function(data, values) {
  key <- paste(identity_of(values), collapse = " ")
  base_column(key, new_column(data, NCOL(values), "given", with = list(values = values, key = key)))
}

base_column <- function(key, column) {
  linear_column(column$data, column$t, by = stats::setNames(1, key), inputs = stats::setNames(list(column), key))
}

# The kernels of the centres times alpha, m x t.
link_column <- function(data, centers, alpha) linear_column(data, ncol(alpha), alpha = alpha, sources = centers$sources)

# shift + sum by * inputs + K alpha.
linear_column <- function(data, t, shift = rep(0, t), by = numeric(), inputs = list(), alpha = NULL, sources = NULL) {
  new_column(data, t, "linear", inputs, list(shift = shift, by = by, alpha = alpha, sources = sources))
}

# The same where the rows are those of other data, as of a part of them.
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

# a times one and b times the other, each linear or a number; NULL where that is not linear.
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

# What a function makes of columns, where `t` numbers of a row come of those of this row alone.
column_of <- function(op, inputs, t, with = list()) {
  inputs <- inputs[lengths(inputs) > 0]
  new_column(Find(is_column, inputs)$data, t, op, inputs, with)
}

# ---- what comes back --------------------------------------------------------------------------

# `op`, an entry of COLUMN_OPERATIONS, of a list of columns by name, some of which may be NULL. `own`: as `parts` of
# over_shards().
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

# Of each of `columns`, n numbers or n x t by their keys, as a response of kernel_ridge(), what is the shard's: they go
# there once, and stay for the products that follow. Without the numbers where the worker has them already.
stored_part <- function(data, columns, shard, worker) {
  rows <- rows_of_shards(data, shard)
  Map(function(column, key) {
    if (is_stored(data, key, shard, worker)) list(key = key) else list(key = key, values = numbers_at(column, rows))
  }, columns, names(columns))
}

# Has the worker these numbers already? From now on it has. Of each data, the columns of late.
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

# The expression as it is sent: numbers of this session go to the `box`, and so do coefficients and centres, of which a
# worker that has them is told the keys.
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
  if (.Generic != "sum" || length(parts) > 1) stop("of a column of shards there is sum() alone")
  sum(column_sums(parts[[1]]))
}

#' @export
mean.shard_column <- function(x, ...) sum(x) / prod(dim(x))

# Rows that are asked for, x[rows] or x[rows, , drop = FALSE], in their order; x[, k] is a column.
#' @export
`[.shard_column` <- function(x, i, j, drop = TRUE) {
  if (missing(i)) return(column_of("pick", list(x), length(j), list(j = j)))
  as_vector <- nargs() == 2 + !missing(drop)
  taken <- gather_rows(x$data$rows, i, matrix(0, length(i), x$t), \(own, shards) {
    over_columns("column_rows", list(x = x), own = own, shards = shards)
  })
  if (as_vector) as.vector(taken) else taken
}

# All of them, n x t, in this session.
collected <- function(x) {
  if (!is_column(x)) return(x)
  check_memory(16 * prod(dim(x)), "x")
  rows_of_column(x, seq_along(x$data$rows))
}

rows_of_column <- function(x, shards) do.call(rbind, over_columns("column_rows", list(x = x), shards = shards))

# Its values as data of their own, which stay where the rows are.
column_as_data <- function(x, names, control) {
  made <- derived_data(x$data, \(shard) list(x = `colnames<-`(rows_of_column(x, shard), names)))
  made$d <- x$t
  made["names"] <- list(names)
  made$has[] <- FALSE
  over_columns("column_there", list(x = x), list(to = told_of(made)), control, own = shard_number)
  share_owners(pool_of(x$data$cluster), made, x$data)
  made
}

# `number` rows with probabilities that go by the weights, one after the other: the first of exponential waiting times.
draw_from_column <- function(weights, number) {
  before <- rows_before(weights$data)
  args <- list(seed = sample.int(.Machine$integer.max, 1), number = number)
  over_columns("column_draw", list(weights = weights), args, own = \(shard, worker) c(shard, before[shard]))$index
}

# Of the rows whose weights are not 0 those number `index`.
rows_with_weight <- function(weights, positive, index) {
  before <- rows_before(weights$data)
  as.vector(gather_rows(positive, index, matrix(0, length(index), 1), \(own, shards) {
    Map(`+`, over_columns("column_which", list(x = weights), own = own, shards = shards), before[shards])
  }))
}

# How many there are in each shard.
positive_by_shard <- function(weights) {
  unlist(over_columns("column_sums", list(x = weights > 0), shards = seq_along(weights$data$rows)))
}

# ---- classes ----------------------------------------------------------------------------------

#' @export
class_codes.shard_column <- function(link) column_of("class_codes", list(link), 1)

#' @export
class_counts.shard_column <- function(y, weights = NULL) {
  is_class <- column_of("is_class", list(y), max(2, ncol(y)))
  column_sums(if (is.null(weights)) is_class else is_class * weights)
}
