# Columns (store-columns.R) on a worker: their values at the rows of a shard, and operations on these.

# Functions of the values of the inputs, of `with`, and of `at`, list(shard, args, run), by the name of the operation.
# Arithmetic operators have no entry.
add_column_values(
  response = \(inputs, with, at) response_of_shard(at$shard, with$classes),
  weights = \(inputs, with, at) at$shard$weights,
  given = \(inputs, with, at) at$shard$stored[[with$key]],
  linear = \(inputs, with, at) linear_of_shard(inputs, with, at),
  class_codes = \(inputs, with, at) class_codes(inputs[[1]]),
  is_class = \(inputs, with, at) 1 * outer(class_codes(inputs[[1]]), seq_len(with$t), `==`),
  by_class = \(inputs, with, at) with$numbers[class_codes(inputs[[1]])],
  pick = \(inputs, with, at) as.matrix(inputs[[1]])[, with$j, drop = FALSE],
  held_at_0 = function(inputs, with, at) {
    n <- nrow(at$shard$points)
    weights <- if (length(inputs) == 0) rep(1, n) else inputs[[1]]
    replace(weights, held_of_shard(with, at$shard$number, n), 0)
  }
)

column_value <- function(node, at) {
  if (!is.list(node)) return(node)
  inputs <- lapply(node$inputs, column_value, at)
  own <- COLUMN_VALUES[[node$op]]
  if (!is.null(own)) return(own(inputs, c(node$with, list(t = node$t)), at))
  # recycle a single column over the columns of the other input
  narrow <- lengths(inputs) > 1 & vapply(inputs, NCOL, 0) == 1
  inputs[narrow] <- lapply(inputs[narrow], as.vector)
  do.call(node$op, unname(inputs))
}

response_of_shard <- function(shard, classes) {
  if (is.null(classes)) return(shard$response)
  if (!identical(shard$coded$classes, classes)) {
    code <- match(as.character(shard$response), classes)
    shard$coded <- list(classes = classes, columns = class_columns(code, classes))
  }
  shard$coded$columns
}

linear_of_shard <- function(inputs, with, at) {
  value <- matrix(with$shift, nrow(at$shard$points), with$t, byrow = TRUE)
  for (name in names(with$by)) value <- value + with$by[[name]] * inputs[[name]]
  if (is.null(with$alpha)) value else value + kernels_of_shard(with, at)
}

# Kernels of the centres times alpha at a shard. The latest values are cached, as several products need the same.
kernels_of_shard <- function(with, at) {
  shard <- at$shard
  key <- paste(with$sources, with$alpha)
  value <- shard$links[[key]]
  if (is.null(value)) {
    alpha <- at$args[[with$alpha]]$points
    value <- kernel_sum_of(at$args[[with$sources]], shard$points, alpha, at$run, as_matrix = TRUE)$sums
  }
  shard$links <- with_latest(shard$links, key, value, MOST_LINKS)
  value
}

# Stores the numbers of a part with the shard.
stored_values <- function(shard, part) {
  values <- if (is.null(part$values)) shard$stored[[part$key]] else part$values
  if (is.null(values)) stop("this worker has not been sent these numbers")
  shard$stored <- with_latest(shard$stored, part$key, values, MOST_STORED)
}

# Held-out rows of a shard, the same on every worker.
held_of_shard <- function(split, shard, n) {
  with_fixed_seed(sort(sample.int(n, round(split$part * n))), shard_seed(split$seed, shard))
}

shard_seed <- function(seed, shard) (seed + 7919 * shard) %% .Machine$integer.max

# ---- operations -------------------------------------------------------------------------------

# Makes `one` of an operation from f(columns, own, at): the values of args$columns by name, and the part of the shard.
of_columns <- function(f) {
  function(shard, args, part, control) {
    for (given in part$given) stored_values(shard, given)
    at <- list(shard = shard, args = args, run = control)
    f(lapply(args$columns, column_value, at), part$own, at)
  }
}

add_operations(
  column_rows = list(one = of_columns(\(columns, rows, at) {
    x <- as.matrix(columns$x)
    if (is.null(rows)) x else x[rows, , drop = FALSE]
  })),
  # stores the values as a shard of other data, `args$to`
  column_there = list(
    one = of_columns(\(columns, own, at) {
      to <- at$args$to
      keep_shard(known_data(worker_state(), to), own, list(x = `colnames<-`(as.matrix(columns$x), to$names)))
      NULL
    }),
    merge = \(a, b, control) NULL
  ),
  column_sums = list(
    one = of_columns(\(columns, own, at) colSums(as.matrix(columns$x))), merge = \(a, b, control) a + b
  ),
  # at most MOST_DISTINCT different values
  column_distinct = list(
    one = of_columns(\(columns, own, at) utils::head(sort(unique(as.vector(columns$x))), MOST_DISTINCT)),
    merge = \(a, b, control) utils::head(sort(unique(c(a, b))), MOST_DISTINCT)
  ),
  column_draw = list(
    one = of_columns(\(columns, own, at) {
      w <- as.vector(columns$weights)
      waiting <- waiting_times(told_apart(row_keys(at$shard$points)), at$args$draw, w)
      first_of(list(index = own[2] + which(w > 0), waiting = waiting[w > 0], number = at$args$number))
    }),
    merge = function(a, b, control) {
      first_of(list(index = c(a$index, b$index), waiting = c(a$waiting, b$waiting), number = a$number))
    }
  ),

  # products of the kernels of the shard's rows at the centres, for kernel_ridge()
  normal = list(
    one = of_columns(\(columns, own, at) {
      args <- at$args
      sources <- sources_of_shard(at$shard, args$L, args$kernel, "none")
      shift <- if (!is.null(columns$shift)) as.matrix(columns$shift)
      normal_product_of(args$centers, sources, args$v, shift, as_plain(columns$weights), at$run)[c("product", "stats")]
    }),
    merge = merge_sums
  )
)

as_plain <- function(x) if (!is.null(x)) as.vector(x)

first_of <- function(drawn) {
  first <- smallest(drawn$waiting, min(drawn$number, length(drawn$waiting)))
  list(index = drawn$index[first], waiting = drawn$waiting[first], number = drawn$number)
}
