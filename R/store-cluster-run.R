# Computations over all shards of a flash_data(), wherever they are: requests go to the workers that have the
# shards, to others where a worker is idle or lost, and the values are merged in the order of the tree
# (store-cluster-tree.R).

# What the entry `op` of WORKER_OPERATIONS makes of the shards, merged. `args` go to all workers; `parts`: a
# function of the numbers of a shard and of its worker, for what goes there alone, or NULL. `shards`: which, NULL
# for all; with some, values are not merged but returned in a list. `pairs`: of points, for which kernels are to be
# summed. `lend`: a list of other data whose shards workers may ask for (store-cluster-join.R).
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
    # not those of all workers
    result$stats$seconds <- seconds_now() - started
    if (!is.null(data$cluster)) result$stats$workers <- run_account(pool, run$account)
  }
  result
}

seconds_now <- function() proc.time()[["elapsed"]]

# A run is an environment. `nodes`: of the tree, whose values are wanted. For each shard, is it `waiting`, whose is it
# (`worker`), in which of the nodes it is (`within`), and which workers `failed`; for the first shard of each node that
# is there its value, and its `last` shard, else 0. For each worker a queue of requests, list(token, nodes, shards),
# that it has not answered, since when it has been silent, and whether it was told of the run.
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

# For runs, requests and data, none twice in a session.
new_number <- function() session$number <- sum(session$number, 1)

# What a worker computes by: as here, but for threads and GPUs, which are its own.
shared_control <- function(control) {
  control$asked$tol <- control$tol
  control$asked$precision <- control$precision
  replace(control$asked, "cluster", list(NULL))
}

# What nobody has goes in runs of neighbours: those of the `range` that is for these workers, others as if it began
# anew.
share_shards <- function(run) {
  alive <- some_living(run$pool)
  free <- which(is.na(run$worker))
  # by number, so that shards of the same place in several data are together
  size <- run$range[2] - run$range[1] + 1
  run$worker[free] <- alive[ceiling(((free - run$range[1]) %% size + 1) * length(alive) / size)]
}

# Of a range of shards that of one of so many workers.
range_of <- function(i, size, range) {
  count <- range[2] - range[1] + 1
  range[1] + c(floor((i - 1) * count / size), max(1, floor(i * count / size)) - 1)
}

owners_of <- function(pool, data) {
  owners <- pool$owners[[data$id]]
  if (is.null(owners)) rep(NA_integer_, length(data$rows)) else owners
}

# Shards of `made` are where those of other data are.
share_owners <- function(pool, made, of) assign(made$id, owners_of(pool, of), envir = pool$owners)

set_owner <- function(pool, data, shards, worker) {
  assign(data$id, replace(owners_of(pool, data), shards, worker), envir = pool$owners)
}

# The value of a node, merged of those that are there; what was made to be sent is made again what it was.
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
    # a worker computes, and may have one more request to go on with
    with_room <- which(run$pool$alive & lengths(run$queue) < run$pool$transport$depth)
    if (any(run$waiting)) for (i in with_room) give_work(run, i)
    busy <- which(lengths(run$queue) > 0)
    if (length(busy) == 0) {
      if (!any(run$waiting)) break
      # who was found lost as it was to get work, or by another run, which made shards for this one
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

# Nodes of its own shards, or else one of the last of who has most.
give_work <- function(run, i) {
  own <- which(run$waiting & run$worker == i)
  ahead <- length(run$queue[[i]]) > 0
  if (length(own) == 0 && !ahead && !run$at_once) own <- shards_of_others(run, i)
  if (length(own) == 0) return(invisible())
  if (run$at_once) return(send_nodes(run, i, tree_cover(own, run$within, length(run$waiting)), FALSE))
  # near the end none ahead, so that all end together
  if (ahead && sum(run$waiting) <= 2 * length(living(run$pool))) return(invisible())
  send_nodes(run, i, list(largest_node(own, run$within, length(run$waiting), next_size(run))), ahead)
}

# Nodes of ever fewer shards, so that workers of different speed end together.
next_size <- function(run) max(1, sum(run$waiting) / (4 * length(living(run$pool))))

# Those that worker i can have, and has not failed with; what was made by a computation stays where it is.
shards_of_others <- function(run, i) {
  if (!is.null(run$data$recipe$make) || !is.null(run$data$recipe$passed)) return(integer())
  free <- run$waiting & !vapply(run$failed, \(workers) i %in% workers, NA)
  others <- tabulate(run$worker[free], run$pool$transport$size)
  utils::tail(which(free & run$worker == which.max(others)), floor(next_size(run)))
}

# `ahead`: while the worker has another request to answer. What it says may be waiting in the connection then, so that
# only what the connection can take goes there.
send_nodes <- function(run, i, nodes, ahead) {
  shards <- unlist(lapply(nodes, node_shards))
  unsent <- if (run$data$recipe$kind == "sent") shards[!owners_of(run$pool, run$data)[shards] %in% i]
  # making them again takes the workers, and so does fetching what they have made
  makes <- length(unsent) > 0 && !is.null(run$data$recipe$make)
  if ((makes || must_fetch(run, i)) && any(lengths(run$queue) > 0)) return(invisible())
  if (ahead && (length(unsent) > 0 || length(run$lacking[[i]]) > 0 || !run$told[i])) return(invisible())
  request <- list(
    token = new_number(), run = run$id, nodes = nodes, lent = lend_rows(run, i),
    sent = lapply(stats::setNames(nm = unsent), \(shard) shard_rows(run$data, shard)),
    parts = if (!is.null(run$parts)) lapply(stats::setNames(nm = shards), run$parts, i)
  )
  if (ahead && utils::object.size(request) > MOST_BYTES_AHEAD) {
    # numbers for it (stored_part()) have not gone there
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

# Threads and a GPU of its own, unless the user said which, and what it does not have yet.
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
  # data once, as paths may be many, and readers come with their environments: then by name alone
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
  if (length(known) == 0) return(invisible()) # a beat, or of an earlier run
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

# What is wrong with the machine of a worker is tried on another; anything else is the user's to know.
take_error <- function(run, i, shards, error) {
  if ("flashkernel_error_cluster" %in% error$class) return(drop_worker(run, i, error$message)) # of a master
  others <- setdiff(living(run$pool), c(i, unlist(run$failed[shards])))
  if (any(MACHINE_ERRORS %in% error$class) && length(others) > 0) {
    run$failed[shards] <- lapply(run$failed[shards], c, i)
    run$worker[shards] <- others[1]
    return(invisible())
  }
  class <- if (length(error$class) > 0) error$class else c("simpleError", "error", "condition")
  message <- paste0(error$message, " (on ", run$pool$transport$label(i), ")")
  stop(structure(class = class, c(list(message = message, call = user_call()), error[c("arg", "parent")])))
}

MACHINE_ERRORS <- paste0("flashkernel_error_", c("device", "alloc", "no_device"))

# Its shards go to the others.
drop_worker <- function(run, i, why) {
  lose_worker(run$pool, i, why)
  run$waiting[sent_shards(run$queue[i])] <- TRUE
  run$queue[i] <- run$lacking[i] <- list(NULL)
  leave_to_living(run)
}

# What waits for workers that are lost.
leave_to_living <- function(run) {
  alive <- some_living(run$pool)
  open <- which(run$waiting & !run$worker %in% alive)
  run$worker[open] <- alive[ceiling(seq_along(open) * length(alive) / length(open))]
}

# ---- accounts -----------------------------------------------------------------------------------

add_to_account <- function(run, i, ...) {
  for (name in ...names()) run$account[[name]][i] <- run$account[[name]][i] + list(...)[[name]]
}

# What each worker did, for diagnostics(): a data frame with a row for each. data.frame() takes longer than a request.
run_account <- function(pool, account) {
  account <- c(pool$who, account, list(lost = !pool$alive), if (!is.null(pool$below)) list(below = pool$workers_below))
  structure(account, class = "data.frame", row.names = seq_along(pool$alive))
}

# A function that returns the account of all runs from now on, as those of a fit of kernel_ridge(); NULL where there is
# no cluster.
watch_workers <- function(cluster) {
  if (is.null(cluster)) return(\() NULL)
  pool <- pool_of(cluster)
  before <- pool$account
  function() {
    if (is.null(pool$account)) return(NULL)
    run_account(pool, if (is.null(before)) pool$account else Map(`-`, pool$account, before))
  }
}
