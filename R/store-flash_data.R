# flash_data(): construction, rows, samples and draws, and data made of other data.

#' Data on the workers of a cluster
#'
#' Divides points into shards that stay on the workers of a cluster, or in files that the workers read. Density
#' estimates, kernel sums and kernel ridge regression then compute on the workers, and only sums come back.
#' `vignette("cluster")` is an introduction.
#'
#' @section What works:
#' A `flash_data()` replaces the argument `x` of [flash_kde()], [kernel_sum()],
#' [kernel_operator()], [kernel_ridge()] and [tune_ridge()]. Bandwidth selectors use a sample of the rows. `dim()`,
#' `summary()`, `data[rows, ]` and `sample(data, size)` work, too. Density estimates have
#' [predict()][predict.flash_kde] (also with `loo = TRUE`), [logLik()][logLik.flash_kde], [cross_validate()] and
#' [compare_fits()]. `by()` calls a function for each shard, on the worker that has it.
#'
#' @section Reproducibility:
#' With a named `backend`, results have the same bits for any number of workers, and without a cluster. They depend
#' only on the shards, whose sums are added in the order of a binary tree. Results from other shards differ by
#'   rounding. See also [tolerance].
#'
#' @section Sums at the rows of the data:
#' Debiasing, leave-one-out values, and sums at the data themselves or at other
#' data need the sources of one shard at the rows of another. The targets stay on their workers, and the sources are
#' moved in blocks of up to 256 MB. Rows that workers have computed, such as debiased points, pass through this session.
#'
#' With a global tolerance there are two faster ways. A shard meets only the shards that are near enough to
#' matter, judged by their bounding boxes; or each worker puts its points onto a grid, and the grids are added. The
#' data alone decide which is used: the one that should be faster with eight workers. The element `plan` of
#' [diagnostics()] reports the choice, and the bytes that both ways move.
#'
#' @section Lost workers:
#' A worker that dies, or sends no message for `worker_timeout` seconds (see [flash_control()]),
#' is lost, with a warning of class `flashkernel_warning_worker`. Its shards are read or sent again elsewhere, and the
#' result has the same bits. A worker whose memory or GPU fails stays in use, but other workers take over the failed
#' shards. Therefore this session keeps a matrix that was sent, and all workers must see the files.
#'
#' @section Security:
#' Requests use the connections of the cluster; the package opens none of its own and encrypts
#' nothing. Files are read by your `reader`. The package runs no code from them.
#'
#' @param x The points, in one of these forms: the names of files, one for each shard (with `reader`); a function of the
#'   number of a shard (with `shards`); a matrix, data frame or vector, whose shards are sent to the workers; or a
#'   `big.matrix`, which workers read themselves if it is in a file that they see. For `print()`, the data.
#' @param cluster A cluster of [parallel::makeCluster()] (sockets, forks or MPI), or `"future"` for the plan of package
#'   future. Default: this session.
#' @param reader A function of a file name, such as [utils::read.csv()], `data.table::fread` or [readRDS()]. It returns
#'   a matrix, a data frame, or a list with elements `x`, `weights` and `response`. It may run more than once for a
#'   shard, on several workers, and must return the same each time: seed random numbers from the shard. A function `x`
#'   must do so, too.
#' @param shards Number of shards, if `x` is a function.
#' @param shard_rows Rows of a shard, if `x` is a matrix, data frame or `big.matrix`. The default makes up to 64 shards.
#' @param columns,response,weights Names of columns: the points (default: all other columns), the response of
#'   [kernel_ridge()] (numbers, or a factor, text or logical column), and the weights.
#' @param control A [flash_control()].
#' @returns `flash_data()` returns an object of class `flash_data` with elements `n`, `d`, `names` and `rows`, the
#'   number of rows of each shard. It cannot be used after its cluster has stopped. `by()` returns a list of the
#'   results of `FUN`, in the order of the shards.
#' @seealso The argument `cluster` of [flash_control()] for points in memory; [large_data] for other large data.
#' @rawRd \concept{distributed data}\concept{shards}\concept{files}
#' @export
#' @examples
#' # without a cluster, the shards are in this session
#' data <- flash_data(as.matrix(faithful), shard_rows = 100)
#' data
#' summary(data)
#' fit <- flash_kde(data, "kde", bandwidth = c(0.3, 4))
#' predict(fit, faithful[1:3, ])
#' # predictions at all rows stay with their shards
#' values <- predict(fit, type = "log_density", collect = FALSE)
#' by(values, FUN = function(x, shard) mean(x), simplify = TRUE)
#' \donttest{
#' workers <- parallel::makeCluster(2)
#' there <- flash_data(as.matrix(faithful), workers, shard_rows = 100)
#' kernel_sum(there, as.matrix(faithful)[1:3, ], bandwidth = c(0.3, 4))
#' parallel::stopCluster(workers)
#' }
flash_data <- function(x, cluster = NULL, reader = NULL, shards = NULL, shard_rows = NULL, columns = NULL,
                       response = NULL, weights = NULL, control = NULL) {
  if (missing(x)) stop_argument("x", "must be given")
  cluster <- check_cluster(cluster)
  for (arg in c("columns", "response", "weights")) check_named_columns(get(arg), arg)
  if (length(weights) > 1) stop_argument("weights", "must be the name of one column: found ", length(weights))
  run <- start_run(settle_control(control), "Reading shards")
  recipe <- shard_recipe(x, reader, shards, shard_rows)
  data <- structure(class = "flash_data", list(
    id = NULL, handle = NULL, cluster = cluster, recipe = recipe,
    columns = columns, response = response, weights = weights, rows = recipe$rows, d = NULL, names = NULL
  ))
  describe_data(named_data(data), run)
}

# Weights of all rows. On a worker: of the shard of targets at which it sums.
fetch_weights <- function(data) {
  if (is_joined(data)) return(shard_of(data, data$own)$weights)
  check_memory(16 * data$n, "x")
  join_brought(over_shards(data, "weights", shards = seq_along(data$rows)))
}

check_named_columns <- function(names, arg) {
  good <- is.null(names) || is.character(names) && !anyNA(names) && length(names) > 0
  check_is(good, names, arg, "NULL or names of columns")
}

# How shards are made: list(kind, rows, ...), with all that the master needs to send them, or workers to read them.
# `rows`: by shard, NA while unknown.
shard_recipe <- function(x, reader, shards, shard_rows) {
  if (is.character(x)) return(file_recipe(x, reader))
  if (!is.null(reader)) stop_argument("reader", "must be NULL unless `x` names files: found ", describe(x), " as `x`")
  if (is.function(x)) {
    if (is.null(shards)) stop_argument("shards", "must be given if `x` is a function")
    return(list(kind = "function", f = x, rows = rep(NA_real_, check_count(shards, "shards"))))
  }
  if (!is.null(shards)) stop_argument("shards", "must be NULL unless `x` is a function: found ", describe(x), " as `x`")
  if (is_big(x)) check_big(x, "x") else if (!is.data.frame(x)) x <- as_points(x, "x")
  n <- nrow(x)
  if (n == 0) stop_argument("x", "must have at least one row: found none")
  size <- if (is.null(shard_rows)) max(min(n, 4096), ceiling(n / 64)) else check_count(shard_rows, "shard_rows")
  pieces <- pieces_of(n, size)
  first <- vapply(pieces, `[`, 0, 1)
  last <- vapply(pieces, `[`, 0, 2)
  recipe <- list(kind = "sent", rows = last - first + 1, first = first, last = last, x = x)
  if (!is_big(x) || !bigmemory::is.filebacked(x)) return(recipe)
  replace(recipe, c("kind", "descriptor"), list("backed", bigmemory::describe(x)))
}

file_recipe <- function(paths, reader) {
  check_is(length(paths) > 0 && !anyNA(paths), paths, "x", "the names of files")
  check_is(is.function(reader), reader, "reader", "a function that reads a file, such as utils::read.csv")
  # workers may have another working directory
  list(kind = "files", paths = normalizePath(paths, mustWork = FALSE), reader = reader, rows = rep(NA_real_, length(paths)))
}

# Reads or sends all shards once, and adds their description to the data.
describe_data <- function(data, run) {
  found <- over_shards(data, "describe", control = run)
  data[names(found)] <- found
  data$n <- sum(found$rows)
  if (data$has["weights"] && !(data$total_weight > 0)) stop_argument("weights", "must not all be zero")
  data
}

# The part of the data that workers are sent.
told_of <- function(data) {
  recipe <- data$recipe
  if (recipe$kind == "sent") recipe <- list(kind = "sent")
  if (recipe$kind == "backed") recipe$x <- NULL
  list(
    id = data$id, d = data$d, names = data$names, columns = data$columns, response = data$response,
    weights = data$weights, recipe = recipe
  )
}

# Data with the shards of the data `of`, whose rows are make(number of a shard). No worker has them yet.
derived_data <- function(of, make) {
  made <- named_data(of)
  made$recipe <- list(kind = "sent", make = make)
  made$has["response"] <- FALSE
  made[c("columns", "response", "weights")] <- list(NULL)
  made
}

# list(data, stats): derived data whose shards the operation `op` makes on the workers that have the shards of `of`.
# Lost shards are made again. `about`: elements that differ from those of `of`.
made_data <- function(of, op, args, control, pairs, lend = list(), about = list()) {
  again <- \(shard) over_shards(of, op, args, control, shard_number, shard, pairs, lend)[[1]]$made[[1]]
  made <- replace(derived_data(of, again), names(about), about)
  pool <- pool_of(of$cluster)
  keeps <- pool$transport$keeps
  found <- over_shards(of, op, c(args, if (keeps) list(to = told_of(made))), control, shard_number, pairs = pairs, lend = lend)
  made["box"] <- list(found$box)
  if (keeps) {
    share_owners(pool, made, of)
  } else {
    shards <- found$made # workers keep nothing between requests
    made$recipe$make <- \(shard) shards[[shard]]
  }
  list(data = made, stats = found$stats)
}

# On a worker: keeps a shard that was made if `args$to` names its data, else returns it.
made_shard <- function(made, args, shard, stats) {
  keep <- !is.null(args$to)
  if (keep) keep_shard(known_data(worker_state(), args$to), shard, made)
  list(made = if (!keep) list(made), box = box_of(made$x), stats = stats)
}

merge_made <- function(a, b, control) {
  list(made = c(a$made, b$made), box = rbind(a$box, b$box), stats = if (!is.null(a$stats)) add_stats(a$stats, b$stats))
}

# Gives the data an id of their own and a handle. When the handle is garbage, workers are told to forget the data.
named_data <- function(data) {
  id <- paste("data", Sys.getpid(), new_number())
  handle <- new.env(parent = emptyenv())
  handle$id <- id
  reg.finalizer(handle, \(gone) session$forgotten <- c(session$forgotten, gone$id))
  replace(data, c("id", "handle"), list(id, handle))
}

# Rows of a shard, to be sent to a worker.
shard_rows <- function(data, shard) {
  recipe <- data$recipe
  if (!is.null(recipe$make)) return(recipe$make(shard))
  if (!is.null(recipe$passed)) return(recipe$passed(shard))
  recipe$x[recipe$first[shard]:recipe$last[shard], , drop = FALSE]
}

#' @rdname flash_data
#' @param data,object A flash_data().
#' @param INDICES Must be `NULL`: the groups are the shards.
#' @param FUN A function of `x`, the points of a shard as a matrix, and `shard`, its number. If it has arguments
#'   `weights` or `response`, it gets those of the shard. Without a cluster it runs in this session.
#' @param ... Not used; anything here is an error.
#' @param simplify If `TRUE`, the results are combined into a vector or an array, as in [sapply()].
#' @export
by.flash_data <- function(data, INDICES = NULL, FUN, ..., simplify = FALSE, control = NULL) {
  check_dots_empty(...)
  if (!is.null(INDICES)) stop_argument("INDICES", "must be NULL: the groups are the shards")
  if (!is.function(FUN)) stop_argument("FUN", "must be a function of x and shard: found ", describe(FUN))
  takes <- names(formals(FUN)) # NULL of a primitive function
  if (!is.primitive(FUN) && length(takes) < 2 && !"..." %in% takes) {
    found <- if (length(takes) == 0) "one without arguments" else paste("one of", quote_names(takes), "alone")
    stop_argument("FUN", "must be a function of x and shard: found ", found, " (write function(x, shard))")
  }
  run <- start_run(settle_control(control), "Applying a function")
  values <- over_shards(data, "apply", list(f = FUN), run, shard_number, seq_along(data$rows), pairs = Inf)
  if (check_flag(simplify, "simplify")) simplify2array(values) else values
}

# ---- rows and size -------------------------------------------------------------------------------

#' @export
dim.flash_data <- function(x) c(x$n, x$d)

# The number of rows, which sample() needs.
#' @export
length.flash_data <- function(x) .subset2(x, "n")

#' @export
dimnames.flash_data <- function(x) if (!is.null(x$names)) list(NULL, x$names)

#' @rdname flash_data
#' @export
print.flash_data <- function(x, ...) {
  x <- unclass(x)
  where <- if (is.null(x$cluster)) "in this session" else paste("on", pool_of(x$cluster)$transport$size, "workers")
  shards <- length(x$rows)
  cat("Points in ", whole(shards), ngettext(shards, " shard ", " shards "), where, ": ", whole(x$n), " rows, ", x$d,
    ngettext(x$d, " column", " columns"), "\n", sep = "")
  if (!is.null(x$names)) cat("Columns: ", quote_names(x$names, 10), "\n", sep = "")
  also <- names(which(x$has))
  if (length(also) > 0) cat("Also: ", paste(also, collapse = " and "), "\n", sep = "")
  invisible(x)
}

#' @export
`[.flash_data` <- function(x, i, j, drop = FALSE) {
  index <- if (missing(i)) stop_argument("i", "must be the numbers of rows") else pick(i, x$n, "i")
  rows <- data_rows(x, index)
  if (!missing(j)) rows <- rows[, j, drop = drop]
  rows
}

# A matrix of the rows `index`, in their order.
data_rows <- function(data, index) {
  d <- data$d
  check_memory(16 * length(index) * d, "i")
  taken <- matrix(0, length(index), d, dimnames = if (!is.null(data$names)) list(NULL, data$names))
  gather_rows(data$rows, index, taken, \(own, shards) over_shards(data, "take", parts = own, shards = shards))
}

# Fills `taken` with the rows `index` of shards that have `rows` rows. `ask(own, shards)` returns a list of the rows of
# each of `shards`; own(shard, worker) are their numbers within the shard.
gather_rows <- function(rows, index, taken, ask) {
  before <- c(0, cumsum(rows))
  shard <- findInterval(index - 0.5, before)
  shards <- sort(unique(shard))
  places <- split(index - before[shard], shard)
  parts <- ask(\(shard, worker) places[[as.character(shard)]], shards)
  for (k in seq_along(shards)) taken[shard == shards[k], ] <- parts[[k]]
  taken
}

# Cumulative numbers of rows: before each shard, and in all.
rows_before <- function(data) c(0, cumsum(data$rows))

# Row numbers in the data of the rows of some shards.
rows_of_shards <- function(data, shards) {
  before <- rows_before(data)
  unlist(lapply(shards, \(shard) before[shard] + seq_len(data$rows[shard])))
}

# A sample of rows for selectors, the same each time. Without weights: evenly spread rows. With weights: rows drawn
# within each shard, in proportion to its weight; the sample has no weights.
data_sample <- function(data, most = 20000) {
  if (!data$has[["weights"]]) return(data_rows(data, spread_rows(data$n, most)))
  share <- min(most, data$positive) * data$shard_weights / data$total_weight
  counts <- pmin(diff(c(0, round(cumsum(share)))), data$shard_positive)
  draw_shards(data, counts, seq_along(counts), replace = FALSE)
}

# `n` rows drawn with probabilities proportional to their weights, in random order.
draw_data <- function(data, n) {
  if (!data$has[["weights"]]) return(data_rows(data, sample.int(data$n, n, replace = TRUE)))
  counts <- stats::rmultinom(1, n, data$shard_weights)[, 1]
  seeds <- sample.int(.Machine$integer.max, length(counts))
  draw_shards(data, counts, seeds, replace = TRUE)[sample.int(n), , drop = FALSE]
}

# counts[k] rows of each shard k, in the order of the shards.
draw_shards <- function(data, counts, seeds, replace) {
  part <- \(shard, worker) list(count = counts[shard], seed = seeds[shard])
  check_memory(16 * sum(counts) * data$d, "x")
  do.call(rbind, over_shards(data, "draw", list(replace = replace), parts = part, shards = which(counts > 0)))
}

#' @rdname flash_data
#' @export
summary.flash_data <- function(object, ...) {
  found <- over_shards(object, "summary")
  sd <- sqrt(found$squares / max(1, found$weight - 1))
  table <- rbind(min = found$least, mean = found$mean, sd = if (found$n > 1) sd else NA, max = found$most)
  colnames(table) <- if (is.null(object$names)) paste0("x", seq_len(object$d)) else object$names
  table
}

# leave_out() of the weights, and of their squares, from the totals of all shards.
remote_loo_weight <- function(data) without_each(fetch_weights(data), data$total_weight, data$rest_weight)
remote_loo_square <- function(data) without_each(fetch_weights(data)^2, data$square_weight, data$rest_square)

# `rest`: the sum of all but the largest weight.
without_each <- function(weights, total, rest) ifelse(weights > total / 2, rest, total - weights)
