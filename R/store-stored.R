# Numbers of the rows of a flash_data(), as a response and weights of kernel_ridge(): they go to the shards once and stay
# there for the products that follow.

# A function of (shard, worker), for over_shards(): of each of `columns`, n numbers or n x t by their keys, what is the
# shard's; without the numbers where the worker has them from an earlier product. NULL where there are none.
stored_parts <- function(data, columns) {
  if (length(columns) == 0) return(NULL)
  function(shard, worker) {
    rows <- rows_of_shards(data, shard)
    Map(function(column, key) {
      if (is_stored(data, key, shard, worker)) return(list(key = key))
      list(key = key, values = numbers_at(column, rows))
    }, columns, names(columns))
  }
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

MOST_STORED <- 4

# On the worker: the numbers of the part, from now on the shard's.
stored_values <- function(shard, part) {
  values <- if (is.null(part$values)) shard$stored[[part$key]] else part$values
  if (is.null(values)) stop("numbers that this worker has not been sent")
  shard$stored <- with_latest(shard$stored, part$key, values, MOST_STORED)
  values
}
