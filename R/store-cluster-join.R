# Sums whose targets are shards, too. The targets stay on their workers, and the sources come there in blocks:
# consecutive shards that are bound together, whose size depends on the data alone. Blocks make sums large enough for
# any engine, which caches a block between shards of targets. Rows that a worker can read do not pass the master.
#
# On a worker such data are `joined`: a flash_data() with `blocks`, the shards of each block, and `own`, the number of
# the shard of targets, for sums at the points themselves. Methods for sources_in_blocks loop over the blocks. Sums of
# coefficients to a tolerance may use `near`, for each shard of targets the shards of sources near it
# (store-cluster-near.R), or `grid`, list(spec, grids, first), the grid of all points (store-cluster-grid.R).

# The part of the data that workers need to sum over it. `plan`: from plan_join().
joined_data <- function(data, plan = NULL) {
  sizes <- c("n", "rows", "box", "has", "total_weight", "square_weight", "rest_weight", "rest_square", "positive")
  structure(class = "flash_data", c(
    told_of(data), unclass(data)[sizes], list(blocks = data_blocks(data), near = plan$near, grid = plan$grid)
  ))
}

is_joined <- function(data) is_remote(data) && !is.null(data$blocks)

joined_sources <- function(sources, plan = NULL) {
  sources$points <- joined_data(sources$points, plan)
  sources["plan"] <- list(NULL)
  class(sources) <- "sources_in_blocks"
  sources
}

# Divides shards into consecutive blocks of at most NUMBERS_OF_BLOCK numbers (one shard may have more).
data_blocks <- function(data, shards = seq_along(data$rows)) {
  most <- NUMBERS_OF_BLOCK / data$d
  rows <- Inf
  begins <- vapply(data$rows[shards], function(more) {
    is_full <- rows + more > most
    rows <<- if (is_full) more else rows + more
    is_full
  }, NA)
  unname(split(shards, cumsum(begins)))
}

# Sums of the sources at the shards `at` (NULL: at their own). `what`: see verb_of(); `plan`: from plan_join().
join_targets <- function(what, sources, at, control, plan, ...) {
  data <- sources$points
  targets <- if (is.null(at)) data else at
  by_plan(plan, function(plan) {
    args <- list(what = what, sources = joined_sources(sources, plan), ...)
    over_shards(targets, "sums_at", args, control, shard_number, pairs = data$n * targets$n, lend = list(data))
  })
}

shard_number <- function(shard, worker) shard

# Joined data for the sums at one shard of targets. A request may be repeated when a worker lacks blocks. Therefore
# `scratch` caches finished sums until the answer is sent, by shard, number of the sum at that shard, and block.
at_shard <- function(data, shard, scratch) {
  data[c("own", "scratch")] <- list(shard, scratch)
  if (!is.null(data$near)) data$blocks <- data_blocks(data, data$near[[shard]])
  data
}

# ---- sums of blocks -----------------------------------------------------------------------------

#' @export
log_sum.sources_in_blocks <- function(sources, at, factor, loo, control) {
  data <- sources$points
  if (is.null(data$grid) && is.null(data$near)) return(sum_of_blocks(sources, at, loo, control, log_verb(factor)$merged))
  found <- sums_of_blocks(sources, at, NULL, control)
  list(log_abs = log(pmax(as.vector(found$sums), 0)), stats = found$stats)
}

# A block with all points needs no merging.
#' @export
score_sum.sources_in_blocks <- function(sources, at, factor, loo, names, control) {
  n <- sources$points$n
  verb <- score_verb(factor, NULL)
  found <- sum_of_blocks(sources, at, loo, control, function(part, y, loo, control) {
    (if (nrow(part$points) == n) verb$alone else verb$merged)(part, y, loo, control)
  })
  colnames(found$score) <- names
  found
}

# Applies `verb` to the sources of each block, and merges logarithms or scores.
sum_of_blocks <- function(sources, at, loo, control, verb) {
  data <- sources$points
  own <- if (loo) data$own
  if (is.null(at)) at <- shard_of(data, data$own)$points
  mode <- if (is.null(sources$shard_weights)) "own" else sources$shard_weights
  fold_blocks(data, control, merge_some, function(block, shards, control) {
    of <- sources_of_shard(block, sources$L, sources$kernel, mode)
    if (is_weightless(of)) return(NULL)
    if (is.null(own) || !own %in% shards) return(verb(of, at, FALSE, control))
    left_out(of, sum(data$rows[shards[shards < own]]) + seq_len(data$rows[own]), at, control, verb)
  })
}

#' @export
kernel_sum_of.sources_in_blocks <- function(sources, at, b, control, as_matrix = FALSE) {
  sums_as(sums_of_blocks(sources, at, b, control), as_matrix)
}

# Sums with coefficients `b` of all sources; NULL: weights.
sums_of_blocks <- function(sources, at, b, control) {
  data <- sources$points
  if (!is.null(data$grid)) return(sums_of_grid(data, at, b, control))
  if (!is.null(data$near)) control$tol <- control$tol / 2 # the other half is for the far shards
  fold_blocks(data, control, merge_sums, function(block, shards, control) {
    own <- numbers_at(b, rows_of_shards(data, shards))
    of <- sources_of_shard(block, sources$L, sources$kernel, "none")
    kernel_sum_of(of, at, weighted(own, block), control, as_matrix = TRUE)
  })
}

# Coefficients of a shard times its weights; `b` NULL means 1.
weighted <- function(b, shard) {
  if (is.null(b)) b <- if (is.null(shard$weights)) rep(1, nrow(shard$points)) else return(shard$weights)
  if (is.null(shard$weights)) b else b * shard$weights
}

fold_blocks <- function(data, control, merge, f) {
  scratch <- data$scratch
  scratch$sums <- scratch$sums + 1
  count <- length(data$blocks)
  # errors of blocks add up, each relative to the largest sum of its block
  if (control$tol_type == "global") control$tol <- control$tol / count
  fold_tree(c(1, count), function(k) {
    name <- paste(data$own, scratch$sums, k)
    if (is.null(scratch$done[[name]])) scratch$done[[name]] <- list(f(load_block(data, k), data$blocks[[k]], control))
    scratch$done[[name]][[1]]
  }, \(a, b) merge(a, b, control))
}

# ---- blocks on a worker -------------------------------------------------------------------------

# A block is an environment of `points` and `weights`, like a shard. Workers cache blocks; with `near`, where blocks
# differ between shards of targets, they cache shards.
load_block <- function(data, k) {
  shards <- data$blocks[[k]]
  near <- !is.null(data$near)
  known <- known_data(worker_state(), data)
  block <- if (!near) kept_block(data, shards)
  if (!is.null(block)) return(block)
  ask_for(known, data, shards)
  parts <- lapply(shards, \(shard) shard_of(data, shard))
  known$lent <- list()
  block <- bind_shards(data, parts)
  if (!near) keep_block(data, shards, block)
  if (near) for (i in seq_along(shards)) {
    if (is.null(known$shards[[as.character(shards[i])]])) keep_block(data, shards[i], parts[[i]])
  }
  block
}

# The block if it is here, else NULL.
kept_block <- function(data, shards) {
  state <- worker_state()
  own <- if (length(shards) == 1) known_data(state, data)$shards[[as.character(shards)]]
  if (!is.null(own)) return(own)
  block <- state$blocks[[block_key(data, shards)]]
  if (!is.null(block)) keep_block(data, shards, block)
  block
}

block_key <- function(data, shards) paste(c(data$id, shards), collapse = " ")

# Caches a block. The least recently used blocks are evicted beyond a quarter of the memory.
keep_block <- function(data, shards, block) {
  state <- worker_state()
  key <- block_key(data, shards)
  if (identical(names(state$blocks)[1], key)) return(invisible())
  block$id <- data$id
  blocks <- with_latest(state$blocks, key, block, Inf)
  bytes <- cumsum(vapply(blocks, \(block) 8 * as.double(length(block$points)), 0))
  state$blocks <- blocks[bytes == bytes[1] | bytes < memory_limit() / 4]
}

# Signals a condition with the shards that are neither here nor readable; the answer asks the master for them.
ask_for <- function(known, data, shards) {
  if (can_read(data$recipe)) return(invisible())
  kept <- paste(data$id, shards) %in% names(worker_state()$blocks)
  lacking <- setdiff(as.character(shards)[!kept], c(names(known$shards), names(known$lent)))
  if (length(lacking) == 0) return(invisible())
  lacking <- list(id = data$id, shards = as.integer(lacking), block = shards, told = told_of(data))
  signalCondition(new_condition("lacking_shards", lacking = lacking))
}

bind_shards <- function(data, parts) {
  points <- if (length(parts) == 1) parts[[1]]$points else do.call(rbind, lapply(parts, `[[`, "points"))
  block <- list2env(list(id = data$id, points = points), parent = emptyenv())
  if (data$has[["weights"]]) block$weights <- unlist(lapply(parts, `[[`, "weights"))
  block
}

# A shard from this worker's cache, from rows that were lent, or read anew.
shard_of <- function(data, shard) {
  here <- kept_block(data, shard)
  if (is.null(here)) here <- known_data(worker_state(), data)$lent[[as.character(shard)]]
  if (!is.null(here)) return(here)
  same_shard(checked_shard(data, shard, read_shard(data$recipe, shard)), data, shard)
}

# Checks that a shard that is read again is the one that was described.
same_shard <- function(found, data, shard) {
  if (is.null(data$box)) return(found)
  same <- identical(as.vector(box_of(found$points)), as.vector(data$box[shard, ]))
  if (same && nrow(found$points) == data$rows[shard]) return(found)
  hint <- if (data$recipe$kind == "function") " (seed random numbers from the number of the shard)"
  place <- shard_place(data$recipe, shard)
  stop_argument("x", "must give the same points for a shard each time: found others in ", place, hint)
}

can_read <- function(recipe) recipe$kind != "sent"

take_lent <- function(state, lent) {
  for (one in lent) assign("lent", list(), envir = known_data(state, one$data))
  for (one in lent) {
    known <- known_data(state, one$data)
    for (name in names(one$rows)) known$lent[[name]] <- checked_shard(one$data, as.integer(name), one$rows[[name]])
  }
}

# ---- what workers ask for -----------------------------------------------------------------------

# Records list(id, shards, block, told), the shards of a block that worker i lacks. Workers that keep nothing between
# requests are sent all that they have asked for each time.
add_lacking <- function(run, i, lacking) {
  before <- if (!run$pool$transport$keeps) run$lacking[[i]]
  run$lacking[[i]] <- c(before, list(lacking))
}

# Must the master fetch rows from other workers for worker i?
must_fetch <- function(run, i) any(vapply(run$lacking[[i]], \(one) is_unfetched(run, lent_data(run, one), one), NA))

is_unfetched <- function(run, data, one) {
  !is.null(data$recipe$make) && !all(as.character(one$shards) %in% names(run$relayed[[one$id]]))
}

lent_data <- function(run, one) {
  if (is.function(run$lend)) run$lend(one) else Find(\(data) data$id == one$id, run$lend)
}

# On a worker that is a master (store-cluster-nested.R): data with the rows that it was lent. It asks for all shards of
# a block at once.
lent_below <- function(one) {
  known <- known_data(worker_state(), one$told)
  ask_for(known, one$told, one$block)
  rows <- function(shard) {
    here <- known$lent[[as.character(shard)]]
    list(x = here$points, weights = here$weights, response = here$response)
  }
  replace(one$told, "recipe", list(list(kind = "sent", passed = rows)))
}

# Rows for the next request to worker i. Rows that only workers have are fetched, a whole block for all that wait for
# it.
lend_rows <- function(run, i) {
  lent <- lapply(run$lacking[[i]], function(one) {
    data <- lent_data(run, one)
    if (is_unfetched(run, data, one)) run$relayed[[one$id]] <- fetch_shards(data, asked_of(run, one$id))
    rows <- if (is.null(data$recipe$make)) {
      lapply(stats::setNames(nm = one$shards), \(shard) shard_rows(data, shard))
    } else {
      run$relayed[[one$id]][as.character(one$shards)]
    }
    list(data = told_of(data), rows = rows)
  })
  if (run$pool$transport$keeps) run$lacking[i] <- list(NULL)
  lent
}

# Shards of all blocks that workers wait for.
asked_of <- function(run, id) {
  asked <- Filter(\(one) one$id == id, unlist(run$lacking, recursive = FALSE))
  sort(unique(unlist(lapply(asked, `[[`, "block"))))
}

fetch_shards <- function(data, shards) {
  check_memory(16 * sum(data$rows[shards]) * data$d, "x")
  stats::setNames(over_shards(data, "whole", shards = shards), shards)
}
