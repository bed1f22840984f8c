# flash_data(): points in shards, what is known of them, rows and draws of them, and data made of other data.

#' Points on the workers of a cluster
#'
#' Points in shards, which stay where they are: on the workers of a cluster, or in files that these read. Sums over them
#' go to the workers and come back as sums; the points do not. `vignette("cluster")` shows how.
#'
#' @details A flash_data() replaces `x` in [flash_kde()], [kernel_sum()] and [kernel_ridge()]. `dim()`, `summary()`,
#'   some rows (`data[rows, ]`, `sample(data, size)`) and the bandwidth selectors, which use a sample, take it as well.
#'   Fits to it have [predict()][predict.flash_kde] (with `loo`, too), [logLik()][logLik.flash_kde], [cross_validate()]
#'   and [compare_fits()]. `by()` calls a function for every shard, on the worker that has it.
#'
#' **Results have the same bits for any number of workers**, and without a cluster: they depend on the shards alone,
#' whose sums are added in the order of a binary tree. With other shards they differ by rounding, and their last bits
#' differ between processors of other vector instructions.
#'
#' **Sums of shards at shards** (debiasing, leave-one-out values, sums at the points themselves or at other data) leave
#' the targets where they are. The sources come there in blocks of up to 256 MB: workers read them from files, by a
#' function, or in a `big.matrix` in a file. Rows of matrices are sent to each worker once, and what workers have made,
#' as debiased points, goes through this session. A quarter of a worker's memory keeps blocks for the next sum. To a
#' global tolerance a shard meets only those near enough to matter, by the boxes around them, or each worker puts its
#' points on a grid and grids are added: whichever should take eight workers less time, so that the bits are the same
#' for any number. `plan` of [diagnostics()] reports which, and how many bytes both move.
#'
#' **Lost workers.** A worker that dies, or says nothing for `worker_timeout` seconds (see [flash_control()]), is lost,
#' with a warning of class `flashkernel_warning_worker`. Its shards are read, or sent, again elsewhere, and the result
#' has the same bits. The same happens to the shards of a worker whose memory or GPU fails, while it stays. A matrix
#' stays in this session for that; all workers must see the files.
#'
#' **Nothing is secret, and nothing listens**: requests go through the connections that the cluster has. Files are read
#' by the `reader` that you give, and no code in them is run by this package.
#'
#' @param x A matrix, data frame or vector, which is sent to the workers in shards; the names of files, one for each
#'   shard; a function that makes a shard of its number; or a `big.matrix`. Of one in a file that the workers see, too,
#'   they read their rows themselves. For `print()`, the data.
#' @param cluster A cluster of [parallel::makeCluster()] (sockets, forks, MPI), or `"future"`, for the plan of package
#'   future. `NULL`: this session.
#' @param reader For files: a function of a file's name, such as [utils::read.csv()], `data.table::fread` or
#'   [readRDS()]. It, like a function `x`, runs on several workers for the same shard, and must give the same each time
#'   (random numbers need a seed that the shard's number gives). It returns a matrix or a data frame, or a list of such
#'   an `x`, and `weights` and `response` where there are some.
#' @param shards For a function: how many shards.
#' @param shard_rows For a matrix or `big.matrix`: rows in a shard. `NULL`: such that there are up to 64.
#' @param columns,response,weights Names of columns: the points' (`NULL`: all others), what [kernel_ridge()] is to fit
#'   (numbers, or a factor, text or logical values), and one of weights.
#' @param control A [flash_control()].
#' @returns An object of class `flash_data`, with `n`, `d`, `names` and `rows`, the number of rows in each shard. It
#'   ends with its cluster. Of `by()` a list of what `FUN` returned, in the order of the shards.
#' @seealso `cluster` of [flash_control()], which spreads computations of points in memory.
#' @export
#' @examples
#' # in this session, as a cluster would have it
#' data <- flash_data(as.matrix(faithful), shard_rows = 100)
#' data
#' summary(data)
#' kernel_sum(data, as.matrix(faithful)[1:3, ], bandwidth = c(0.3, 4))
#' # predictions that stay where their points are, and a file of each shard
#' values <- predict(flash_kde(data, "kde", bandwidth = c(0.3, 4)), type = "log_density", collect = FALSE)
#' by(values, FUN = function(x, shard) mean(x), simplify = TRUE)
#' folder <- tempdir()
#' invisible(by(values, FUN = function(x, shard) saveRDS(x, file.path(folder, paste0("values-", shard, ".rds")))))
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

# Those of all rows; on a worker those of the shard at which it sums.
fetch_weights <- function(data) {
  if (is_joined(data)) return(shard_of(data, data$own)$weights)
  check_memory(16 * data$n, "x")
  join_brought(over_shards(data, "weights", shards = seq_along(data$rows)))
}

check_named_columns <- function(names, arg) {
  good <- is.null(names) || is.character(names) && !anyNA(names) && length(names) > 0
  check_is(good, names, arg, "NULL or names of columns")
}

# list(kind, rows, ...), `rows` NA where they are not known yet. What the master needs to send shards, and what
# workers need to read them.
shard_recipe <- function(x, reader, shards, shard_rows) {
  if (is.character(x)) return(file_recipe(x, reader))
  if (!is.null(reader)) stop_argument("reader", "is for the names of files: found ", describe(x), " as `x`")
  if (is.function(x)) {
    if (is.null(shards)) stop_argument("shards", "must be given where `x` is a function")
    return(list(kind = "function", f = x, rows = rep(NA_real_, check_count(shards, "shards"))))
  }
  if (!is.null(shards)) stop_argument("shards", "is for a function: found ", describe(x), " as `x`")
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
  # a relative path is relative to where the user is
  list(kind = "files", paths = normalizePath(paths, mustWork = FALSE), reader = reader, rows = rep(NA_real_, length(paths)))
}

# All shards are read, or sent, once.
describe_data <- function(data, run) {
  found <- over_shards(data, "describe", control = run)
  data[names(found)] <- found
  data$n <- sum(found$rows)
  if (data$has["weights"] && !(data$total_weight > 0)) stop_argument("weights", "must not all be zero")
  data
}

# What a worker is told of it.
told_of <- function(data) {
  recipe <- data$recipe
  if (recipe$kind == "sent") recipe <- list(kind = "sent")
  if (recipe$kind == "backed") recipe$x <- NULL
  list(
    id = data$id, d = data$d, names = data$names, columns = data$columns, response = data$response,
    weights = data$weights, recipe = recipe
  )
}

# Data whose shards `make()` makes of their numbers, of those of other data; they are nowhere yet.
derived_data <- function(of, make) {
  made <- named_data(of)
  made$recipe <- list(kind = "sent", make = make)
  made$has["response"] <- FALSE
  made[c("columns", "response", "weights")] <- list(NULL)
  made
}

# The same, made by the operation `op` of the workers, each shard where that of the others is; one that is lost is made
# again. list(data, stats). `about`: what is other than with `of`.
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
    shards <- found$made # no worker would have it again
    made$recipe$make <- \(shard) shards[[shard]]
  }
  list(data = made, stats = found$stats)
}

# On a worker: a shard that was made, which stays there where that is wanted.
made_shard <- function(made, args, shard, stats) {
  keep <- !is.null(args$to)
  if (keep) keep_shard(known_data(worker_state(), args$to), shard, made)
  list(made = if (!keep) list(made), box = box_of(made$x), stats = stats)
}

merge_made <- function(a, b, control) {
  list(made = c(a$made, b$made), box = rbind(a$box, b$box), stats = if (!is.null(a$stats)) add_stats(a$stats, b$stats))
}

# The data with a name of their own, and a handle: when nobody has it any more, workers are told to forget them.
named_data <- function(data) {
  id <- paste("data", Sys.getpid(), new_number())
  handle <- new.env(parent = emptyenv())
  handle$id <- id
  reg.finalizer(handle, \(gone) session$forgotten <- c(session$forgotten, gone$id))
  replace(data, c("id", "handle"), list(id, handle))
}

# The rows of a shard that is to be sent.
shard_rows <- function(data, shard) {
  recipe <- data$recipe
  if (!is.null(recipe$make)) return(recipe$make(shard))
  if (!is.null(recipe$passed)) return(recipe$passed(shard))
  recipe$x[recipe$first[shard]:recipe$last[shard], , drop = FALSE]
}

#' @rdname flash_data
#' @param data,object A flash_data().
#' @param INDICES `NULL`: the rows are in groups already, the shards.
#' @param FUN A function of `x`, the shard's points, a matrix, and `shard`, its number; and if it has arguments of these
#'   names, of the shard's `weights` and `response`. Without a cluster it runs in this session.
#' @param ... Not used; anything here is an error.
#' @param simplify `TRUE`: numbers come as a vector or an array, as of [sapply()].
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

# ---- what it is -------------------------------------------------------------------------------

#' @export
dim.flash_data <- function(x) c(x$n, x$d)

# sample() draws of these.
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
  if (length(also) > 0) cat("And ", paste(also, collapse = " and "), "\n", sep = "")
  invisible(x)
}

#' @export
`[.flash_data` <- function(x, i, j, drop = FALSE) {
  index <- if (missing(i)) stop_argument("i", "must say which rows") else pick(i, x$n, "i")
  rows <- data_rows(x, index)
  if (!missing(j)) rows <- rows[, j, drop = drop]
  rows
}

# The rows `index`, in this order, as a matrix.
data_rows <- function(data, index) {
  d <- data$d
  check_memory(16 * length(index) * d, "i")
  taken <- matrix(0, length(index), d, dimnames = if (!is.null(data$names)) list(NULL, data$names))
  gather_rows(data$rows, index, taken, \(own, shards) over_shards(data, "take", parts = own, shards = shards))
}

# The rows `index` of shards of so many `rows`, put into `taken`: `ask(own, shards)` lists those of each shard, whose
# places there are own(shard, worker).
gather_rows <- function(rows, index, taken, ask) {
  before <- c(0, cumsum(rows))
  shard <- findInterval(index - 0.5, before)
  shards <- sort(unique(shard))
  places <- split(index - before[shard], shard)
  parts <- ask(\(shard, worker) places[[as.character(shard)]], shards)
  for (k in seq_along(shards)) taken[shard == shards[k], ] <- parts[[k]]
  taken
}

# How many rows there are before each shard, and in all.
rows_before <- function(data) c(0, cumsum(data$rows))

# The numbers of the rows of some shards.
rows_of_shards <- function(data, shards) {
  before <- rows_before(data)
  unlist(lapply(shards, \(shard) before[shard] + seq_len(data$rows[shard])))
}

# Rows for those who choose by a sample: evenly spread, the same ones each time. Where they have weights, as many of each
# shard as its weight says, drawn there; they come back without weights.
data_sample <- function(data, most = 20000) {
  if (!data$has[["weights"]]) {
    return(data_rows(data, spread_rows(data$n, most)))
  }
  share <- min(most, data$positive) * data$shard_weights / data$total_weight
  counts <- pmin(diff(c(0, round(cumsum(share)))), data$shard_positive)
  draw_shards(data, counts, seq_along(counts), replace = FALSE)
}

# `n` rows by their weights, in any order.
draw_data <- function(data, n) {
  if (!data$has[["weights"]]) return(data_rows(data, sample.int(data$n, n, replace = TRUE)))
  counts <- stats::rmultinom(1, n, data$shard_weights)[, 1]
  seeds <- sample.int(.Machine$integer.max, length(counts))
  draw_shards(data, counts, seeds, replace = TRUE)[sample.int(n), , drop = FALSE]
}

# So many rows of each shard, one shard after the other.
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

# As leave_out() has them of weights and of their squares, by the totals of all shards.
remote_loo_weight <- function(data) without_each(fetch_weights(data), data$total_weight, data$rest_weight)
remote_loo_square <- function(data) without_each(fetch_weights(data)^2, data$square_weight, data$rest_square)

# `rest`: of all but the largest.
without_each <- function(weights, total, rest) ifelse(weights > total / 2, rest, total - weights)
