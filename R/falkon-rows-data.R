# Rows of falkon() that are a flash_data(): they stay on the workers. A normal product is local, m numbers for each output go
# to a worker and come back. Numbers of the rows, as a response and weights, go to the shards once and stay there.

data_rows_of <- function(x) {
  rows <- list(data = x, n = x$n, d = x$d, names = x$names)
  if (x$has[["response"]]) rows$y <- fetch_column(x, "response")
  if (x$has[["weights"]]) rows$weights <- fetch_column(x, "weights")
  structure(rows, class = "rows_data")
}

rows_under.rows_data <- function(rows, L, kernel) {
  rows[c("L", "kernel")] <- list(L, kernel)
  rows
}

rows_multiply.rows_data <- function(rows, centers, v, run) {
  args <- list(centers = shared_value(centers$sources), v = v)
  over_shards(rows$data, "multiply", args, run, pairs = as.double(rows$n) * centers$m)
}

rows_normal.rows_data <- function(rows, centers, v, w, weights, run, with_sums = FALSE) {
  data <- rows$data
  run$tol <- run$tol / length(data$rows)
  args <- list(
    centers = shared_value(centers$sources), L = rows$L, kernel = rows$kernel, v = v, with_sums = with_sums
  )
  parts <- stored_parts(data, list(w = w, weights = weights))
  over_shards(data, "normal", args, run, parts, pairs = as.double(rows$n) * centers$m)
}

rows_take.rows_data <- function(rows, index) data_rows(rows$data, index)

rows_fold.rows_data <- function(rows, f, init) {
  data <- rows$data
  before <- c(0, cumsum(data$rows))
  for (shard in seq_along(data$rows)) init <- f(init, rows_of_shard(data, shard), before[shard] + 1)
  init
}

# ---- numbers of the rows ----------------------------------------------------------------------

# A function of (shard, worker), for over_shards(): of each of `columns`, n numbers or n x t, or NULL, what is the shard's, with
# a key; without the numbers where the worker has them from an earlier product.
stored_parts <- function(data, columns) {
  columns <- columns[lengths(columns) > 0]
  if (length(columns) == 0) return(NULL)
  before <- c(0, cumsum(data$rows))
  keys <- lapply(columns, \(column) paste(identity_of(column), collapse = " "))
  function(shard, worker) {
    rows <- before[shard] + seq_len(data$rows[shard])
    Map(function(column, key) {
      if (is_stored(data, key, shard, worker)) return(list(key = key))
      list(key = key, values = if (is.null(dim(column))) column[rows] else column[rows, , drop = FALSE])
    }, columns, keys)
  }
}

# Has the worker these numbers already? From now on it has. Of each data, the columns of late.
is_stored <- function(data, key, shard, worker) {
  pool <- pool_of(data$cluster)
  if (!pool$transport$keeps) return(FALSE)
  known <- pool$stored[[data$id]]
  holders <- known[[key]]
  if (is.null(holders)) holders <- rep(NA_integer_, length(data$rows))
  has <- holders[shard] %in% worker
  if (!has || names(known)[1] != key) {
    known <- utils::head(c(stats::setNames(list(replace(holders, shard, worker)), key), known[names(known) != key]), MOST_STORED)
    assign(data$id, known, envir = pool$stored)
  }
  has
}

MOST_STORED <- 4

# On the worker: the numbers of the part, from now on the shard's.
stored_values <- function(shard, part) {
  if (is.null(part)) return(NULL)
  known <- shard$stored[names(shard$stored) != part$key]
  values <- if (is.null(part$values)) shard$stored[[part$key]] else part$values
  if (is.null(values)) stop("numbers that this worker has not been sent")
  shard$stored <- utils::head(c(stats::setNames(list(values), part$key), known), MOST_STORED)
  values
}
