# Computations over the shards of a flash_data(). Requests go to the workers that have the shards, and to others if
# those are busy or lost. Values are merged in the order of the tree (store-cluster-tree.R).

# Applies the operation `op` of WORKER_OPERATIONS to the shards, and merges the values.
# - args: sent to all workers
# - parts: NULL, or a function(shard, worker), numbers, of what is sent for that shard only
# - shards: NULL for all; otherwise the values of these shards are returned in a list, without merging
# - pairs: number of pairs of points to be summed, which decides how many requests are made
# - lend: list of other data whose shards workers may ask for (store-cluster-join.R)
over_shards <- function(data, op, args = list(), control = run_control(settle_control(NULL)), parts = NULL, shards = NULL,
                        pairs = 0, lend = list()) {
  pool <- pool_of(data$cluster)
  hold_pool(pool)
  started <- seconds_now()
  setup <- list(op = op, args = args, control = shared_control(control), data = told_of(data), pairs = pairs)
  nodes <- if (is.null(shards)) list(c(1, length(data$rows))) else lapply(shards, \(shard) c(shard, shard))
  run <- new_run(pool, data, setup, parts, nodes)
  run$lend <- lend
  finish_run(run, control)
  pool$account <- if (is.null(pool$account)) run$account else Map(`+`, pool$account, run$account)
  values <- lapply(nodes, node_value, run, args, control)
  if (!is.null(shards)) return(values)
  result <- values[[1]]
  if (is.list(result) && !is.null(result$stats)) {
    # elapsed seconds, not the sum over workers
    result$stats$seconds <- seconds_now() - started
    if (!is.null(data$cluster)) result$stats$workers <- run_account(pool, run$account)
  }
  result
}

seconds_now <- function() proc.time()[["elapsed"]]

# A run is the environment of one computation. `nodes`: nodes of the tree whose values are wanted.
# - by shard: waiting (not yet sent), worker (its number), within (index of its node), failed (workers that failed with
#   it)
# - values, last: at the first shard of each node that is finished, its value and its last shard (else 0)
# - by worker: queue, list of unanswered requests list(token, nodes, shards); since, time of the last message; told, has
#   it the setup of the run?; lacking, shards that it has asked for
new_run <- function(pool, data, setup, parts, nodes, range = c(1, length(data$rows))) {
  count <- length(data$rows)
  size <- pool$transport$size
  run <- list2env(list(
    pool = pool, data = data, id = paste(Sys.getpid(), new_number()), setup = setup, parts = parts, nodes = nodes,
    waiting = logical(count), worker = owners_of(pool, data), within = rep(1L, count), failed = vector("list", count),
    values = vector("list", count), last = numeric(count),
    lacking = vector("list", size), relayed = list(), queue = vector("list", size), since = rep(seconds_now(), size),
    told = logical(size),
    # requests take this part of a second, or everything at once; as do those to masters of others
    range = range, at_once = setup$pairs < MOST_PAIRS_AT_ONCE * sum(pool$alive) || !is.null(pool$below),
    account = lapply(c(requests = 0, rows = 0, seconds = 0, bytes = 0), rep, size)
  ), parent = emptyenv())
  for (k in seq_along(nodes)) run$within[nodes[[k]][1]:nodes[[k]][2]] <- k
  run$waiting[unlist(lapply(nodes, node_shards))] <- TRUE
  run$wanted <- sum(run$waiting)
  share_shards(run)
  run
}

# A number that is unique in the session, for runs, requests and data.
new_number <- function() session$number <- sum(session$number, 1)

# The settings for workers: those of this session, without its cluster.
shared_control <- function(control) {
  control$asked$tol <- control$tol
  control$asked$precision <- control$precision
  replace(control$asked, "cluster", list(NULL))
}

# Assigns shards without a worker: consecutive ones to each worker, within the `range` of shards for these workers.
share_shards <- function(run) {
  alive <- some_living(run$pool)
  free <- which(is.na(run$worker))
  # by number, so that corresponding shards of several data go to the same worker
  size <- run$range[2] - run$range[1] + 1
  run$worker[free] <- alive[ceiling(((free - run$range[1]) %% size + 1) * length(alive) / size)]
}

# The part of a range of shards for worker i of `size`.
range_of <- function(i, size, range) {
  count <- range[2] - range[1] + 1
  range[1] + c(floor((i - 1) * count / size), max(1, floor(i * count / size)) - 1)
}

owners_of <- function(pool, data) {
  owners <- pool$owners[[data$id]]
  if (is.null(owners)) rep(NA_integer_, length(data$rows)) else owners
}

# Records that each shard of `made` is on the worker that has the shard of `of`.
share_owners <- function(pool, made, of) assign(made$id, owners_of(pool, of), envir = pool$owners)

set_owner <- function(pool, data, shards, worker) {
  assign(data$id, replace(owners_of(pool, data), shards, worker), envir = pool$owners)
}

# The value of a node, merged from the values of its parts, which are converted back by resume() if needed.
node_value <- function(node, run, args, control) {
  operation <- WORKER_OPERATIONS[[run$setup$op]]
  merge <- \(a, b) operation$merge(a, b, control)
  is_there <- \(node) run$last[node[1]] == node[2]
  value <- \(first) run$values[[first]]
  if (is.null(operation$finish) || is_there(node)) return(fold_tree(node, value, merge, is_there))
  args$scratch <- new.env(parent = emptyenv())
  operation$finish(fold_tree(node, \(first) operation$resume(value(first), args, control), merge, is_there))
}

# ---- the loop -----------------------------------------------------------------------------------

finish_run <- function(run, control) {
  limit <- control$asked$worker_timeout
  if (is.null(limit)) limit <- SECONDS_OF_SILENCE
  repeat {
    # each worker may have one request in its queue while it computes another
    with_room <- which(run$pool$alive & lengths(run$queue) < run$pool$transport$depth)
    if (any(run$waiting)) for (i in with_room) give_work(run, i)
    busy <- which(lengths(run$queue) > 0)
    if (length(busy) == 0) {
      if (!any(run$waiting)) break
      # a worker was lost while it was given work, or in another run that made shards for this one
      leave_to_living(run)
      next
    }
    silent <- seconds_now() - run$since[busy]
    late <- busy[silent > limit]
    for (i in late) drop_worker(run, i, paste("it has been silent for", round(limit), "seconds"))
    if (length(late) > 0) next
    one <- run$pool$transport$wait(busy, min(SECONDS_OF_A_WAIT, limit - max(silent)))
    if (!is.na(one)) take_message(run, one)
    if (!is.null(control$progress)) control$progress(share_done(run))
  }
}

share_done <- function(run) 1 - (sum(run$waiting) + length(sent_shards(run$queue))) / run$wanted

sent_shards <- function(queues) unlist(lapply(unlist(queues, recursive = FALSE), `[[`, "shards"))

# Sends worker i nodes of its own shards, or takes over shards of the worker that has most left.
give_work <- function(run, i) {
  own <- which(run$waiting & run$worker == i)
  ahead <- length(run$queue[[i]]) > 0
  if (length(own) == 0 && !ahead && !run$at_once) own <- shards_of_others(run, i)
  if (length(own) == 0) return(invisible())
  if (run$at_once) return(send_nodes(run, i, tree_cover(own, run$within, length(run$waiting)), FALSE))
  # near the end no requests are queued, so that all workers finish together
  if (ahead && sum(run$waiting) <= 2 * length(living(run$pool))) return(invisible())
  send_nodes(run, i, list(largest_node(own, run$within, length(run$waiting), next_size(run))), ahead)
}

# Number of shards of the next request, which decreases so that workers of different speed finish together.
next_size <- function(run) max(1, sum(run$waiting) / (4 * length(living(run$pool))))

# Shards that worker i may take over from the worker with most left: not those it failed with, and none that were made
# by a computation.
shards_of_others <- function(run, i) {
  if (!is.null(run$data$recipe$make) || !is.null(run$data$recipe$passed)) return(integer())
  free <- run$waiting & !vapply(run$failed, \(workers) i %in% workers, NA)
  others <- tabulate(run$worker[free], run$pool$transport$size)
  utils::tail(which(free & run$worker == which.max(others)), floor(next_size(run)))
}

# Sends worker i a request. `ahead`: it still computes another one. Then only a request that fits into the buffer of the
# connection is sent, as both ends might otherwise wait for each other.
send_nodes <- function(run, i, nodes, ahead) {
  shards <- unlist(lapply(nodes, node_shards))
  unsent <- if (run$data$recipe$kind == "sent") shards[!owners_of(run$pool, run$data)[shards] %in% i]
  # making or fetching shards uses the workers, so they must be idle
  makes <- length(unsent) > 0 && !is.null(run$data$recipe$make)
  if ((makes || must_fetch(run, i)) && any(lengths(run$queue) > 0)) return(invisible())
  if (ahead && (length(unsent) > 0 || length(run$lacking[[i]]) > 0 || !run$told[i])) return(invisible())
  request <- list(
    token = new_number(), run = run$id, nodes = nodes, lent = lend_rows(run, i),
    sent = lapply(stats::setNames(nm = unsent), \(shard) shard_rows(run$data, shard)),
    parts = if (!is.null(run$parts)) lapply(stats::setNames(nm = shards), run$parts, i)
  )
  if (ahead && utils::object.size(request) > MOST_BYTES_AHEAD) {
    # undo the records of stored_part(), as the numbers were not sent
    suppressWarnings(rm(list = run$data$id, envir = run$pool$stored))
    return(invisible())
  }
  if (!run$told[i]) request$setup <- worker_setup(run, i)
  run$worker[shards] <- i
  bytes <- tryCatch(run$pool$transport$send(i, request), error = identity)
  if (inherits(bytes, "error")) return(drop_worker(run, i, conditionMessage(bytes)))
  if (!ahead) run$since[i] <- seconds_now()
  run$queue[[i]] <- c(run$queue[[i]], list(list(token = request$token, nodes = nodes, shards = shards)))
  run$waiting[shards] <- FALSE
  run$told[i] <- run$pool$transport$keeps
  if (run$pool$transport$keeps && run$data$recipe$kind != "none") set_owner(run$pool, run$data, shards, i)
  add_to_account(run, i, requests = 1, bytes = if (is.numeric(bytes)) bytes else 0)
}

# The setup of a run for worker i: its threads and GPU, unless the user gave these, and only what it does not have yet.
worker_setup <- function(run, i) {
  pool <- run$pool
  setup <- run$setup
  about <- pool$about[[i]]
  if (is.null(pool$below)) {
    if (is.null(setup$control$threads)) setup$control$threads <- about$threads
  } else {
    range <- range_of(i, pool$transport$size, run$range)
    setup[c("below", "rows", "range")] <- list(pool$below, run$data$rows, range)
  }
  setup$place <- about$place
  setup$forget <- Filter(\(id) is_news(pool, i, "forgotten", id), session$forgotten)
  # data are sent once (paths and readers may be large), and later by id
  told <- setup$data
  if (pool$transport$keeps && !is_news(pool, i, "data", paste(told$id, !is.null(told$d)))) setup$data <- told["id"]
  for (name in names(Filter(\(value) inherits(value, "shared_value"), setup$args))) {
    if (!is_news(pool, i, "shared", setup$args[[name]]$key, MOST_SHARED)) setup$args[[name]]["value"] <- list(NULL)
  }
  setup
}

# ---- answers ------------------------------------------------------------------------------------

take_message <- function(run, i) {
  answer <- tryCatch(run$pool$transport$receive(i), error = identity)
  if (inherits(answer, "error")) return(drop_worker(run, i, conditionMessage(answer)))
  run$since[i] <- seconds_now()
  known <- which(vapply(run$queue[[i]], \(request) identical(request$token, answer$token), NA))
  if (length(known) == 0) return(invisible()) # a heartbeat, or an answer of an earlier run
  request <- run$queue[[i]][[known]]
  run$queue[[i]][[known]] <- NULL
  take_answer(run, i, request, answer)
}

take_answer <- function(run, i, request, answer) {
  if (!is.null(answer$values)) return(take_values(run, i, request, answer))
  shards <- request$shards
  run$waiting[shards] <- TRUE
  if (!is.null(answer$unknown)) {
    run$told[i] <- FALSE
    shared <- setdiff(run$pool$knows[[i]]$shared, answer$unknown)
    run$pool$knows[[i]][c("data", "shared")] <- list(NULL, shared)
    return(set_owner(run$pool, run$data, shards, NA))
  }
  take_news(run, i, answer$below)
  if (!is.null(answer$lacking)) return(add_lacking(run, i, answer$lacking))
  if (!is.null(answer$missing)) return(set_owner(run$pool, run$data, answer$missing, NA))
  if (isTRUE(answer$stopped)) return(drop_worker(run, i, "it was interrupted"))
  take_error(run, i, shards, answer$error)
}

take_values <- function(run, i, request, answer) {
  first <- vapply(request$nodes, `[`, 0, 1)
  run$values[first] <- answer$values
  run$last[first] <- vapply(request$nodes, `[`, 0, 2)
  add_to_account(run, i, seconds = answer$seconds, rows = sum(run$data$rows[request$shards]), bytes = answer$bytes)
  take_news(run, i, answer$below)
}

# Errors of a worker's machine are retried on another worker. Other errors are raised here.
take_error <- function(run, i, shards, error) {
  if ("flashkernel_error_cluster" %in% error$class) return(drop_worker(run, i, error$message)) # of a master
  others <- setdiff(living(run$pool), c(i, unlist(run$failed[shards])))
  if (any(MACHINE_ERRORS %in% error$class) && length(others) > 0) {
    run$failed[shards] <- lapply(run$failed[shards], c, i)
    run$worker[shards] <- others[1]
    return(invisible())
  }
  class <- if (length(error$class) > 0) error$class else c("simpleError", "error", "condition")
  label <- run$pool$transport$label(i)
  message <- paste0(error$message, if (!is.null(label)) paste0(" (on ", label, ")"))
  stop(structure(class = class, c(list(message = message, call = user_call()), error[c("arg", "parent")])))
}

MACHINE_ERRORS <- paste0("flashkernel_error_", c("device", "alloc", "no_device"))

# Marks worker i as lost, and gives its shards to the others.
drop_worker <- function(run, i, why) {
  lose_worker(run$pool, i, why)
  run$waiting[sent_shards(run$queue[i])] <- TRUE
  run$queue[i] <- run$lacking[i] <- list(NULL)
  leave_to_living(run)
}

# Divides the shards of lost workers among the others.
leave_to_living <- function(run) {
  alive <- some_living(run$pool)
  open <- which(run$waiting & !run$worker %in% alive)
  run$worker[open] <- alive[ceiling(seq_along(open) * length(alive) / length(open))]
}

# ---- accounts -----------------------------------------------------------------------------------

add_to_account <- function(run, i, ...) {
  for (name in ...names()) run$account[[name]][i] <- run$account[[name]][i] + list(...)[[name]]
}

# A data frame with a row for each worker, for diagnostics(). data.frame() would take longer than a request.
run_account <- function(pool, account) {
  account <- c(pool$who, account, list(lost = !pool$alive), if (!is.null(pool$below)) list(below = pool$workers_below))
  structure(account, class = "data.frame", row.names = seq_along(pool$alive))
}

# Returns a function that returns the account of all runs since now, such as those of a fit of kernel_ridge(); it
# returns NULL without a cluster.
watch_workers <- function(cluster) {
  if (is.null(cluster)) return(\() NULL)
  pool <- pool_of(cluster)
  before <- pool$account
  function() {
    if (is.null(pool$account)) return(NULL)
    run_account(pool, if (is.null(before)) pool$account else Map(`-`, pool$account, before))
  }
}
