# Computations over all shards of a flash_data(), wherever they are: requests go to the workers that have the
# shards, to others where a worker is idle or lost, and the values are merged in the order of the tree
# (cluster-tree.R).

# What the entry `op` of WORKER_OPERATIONS makes of the shards, merged. `args` go to all workers; `parts`: a
# function of the numbers of a shard and of its worker, for what goes there alone, or NULL. `shards`: which, NULL
# for all; with some, values are not merged but returned in a list. `pairs`: of points, for which kernels are to be
# summed. `lend`: a list of other data whose shards workers may ask for (cluster-join.R).
over_shards <- function(data, op, args = list(), control = run_control(settle_control(NULL)), parts = NULL, shards = NULL,
                        pairs = 0, lend = list()) {
  pool <- pool_of(data$cluster)
  hold_pool(pool)
  started <- proc.time()[["elapsed"]]
  run <- new_run(pool, data, op, args, control, parts, shards, pairs)
  run$lend <- lend
  values <- finish_run(run, control)
  pool$account <- run_account(run)
  operation <- WORKER_OPERATIONS[[op]]
  if (!is.null(shards)) return(values)
  result <- merge_values(operation, values, args, control)
  if (is.list(result) && !is.null(result$stats)) {
    # not those of all workers
    result$stats$seconds <- proc.time()[["elapsed"]] - started
    if (!is.null(data$cluster)) result$stats$workers <- pool$account
  }
  result
}

# Of nodes; what was made to be sent is made again what it was.
merge_values <- function(operation, values, args, control) {
  merge <- \(a, b) operation$merge(a, b, control)
  if (is.null(operation$finish) || length(values) == 1) return(merge_nodes(values, merge))
  args$scratch <- new.env(parent = emptyenv())
  operation$finish(fold_tree(c(1, length(values)), \(i) operation$resume(values[[i]], args, control), merge))
}

# A run is an environment: `nodes`, and for each its value, its worker, its `status` ("waiting", "sent" or "done")
# and which workers `failed`; for each worker the token (or "") and the nodes of its request, since when it has
# been silent, and whether it was told of the run.
new_run <- function(pool, data, op, args, control, parts, shards, pairs) {
  pool$runs <- pool$runs + 1
  count <- length(data$rows)
  size <- pool$transport$size
  level <- if (is.null(shards)) run_level(count, length(living(pool))) else 0
  nodes <- if (is.null(shards)) tree_nodes(count, level) else lapply(shards, \(s) c(s, s))
  run <- list2env(list(
    pool = pool, data = data, id = paste(Sys.getpid(), pool$runs), op = op, parts = parts, nodes = nodes,
    values = vector("list", length(nodes)), worker = rep(NA_integer_, length(nodes)),
    status = rep("waiting", length(nodes)),
    token = character(size), sent = vector("list", size), since = rep(Sys.time(), size), told = logical(size),
    failed = vector("list", length(nodes)), lacking = vector("list", size), relayed = list(),
    setup = list(op = op, args = args, control = shared_control(control), data = told_of(data)),
    # requests take this part of a second, or everything at once
    is_short = pairs < MOST_PAIRS_AT_ONCE * length(living(pool)),
    account = data.frame(requests = numeric(size), rows = 0, seconds = 0, bytes = 0)
  ), parent = emptyenv())
  share_nodes(run)
  run
}

# What a worker computes by: as here, but for threads and GPUs, which are its own.
shared_control <- function(control) {
  control$asked$tol <- control$tol
  control$asked$precision <- control$precision
  replace(control$asked, "cluster", list(NULL))
}

MOST_PAIRS_AT_ONCE <- 5e7

# Nodes of several shards each, but enough of them that workers of different speed end together.
run_level <- function(count, workers) max(0, floor(log2(count / (8 * workers))))

# Whoever has the first shard of a node takes it; what nobody has goes in runs of neighbours.
share_nodes <- function(run) {
  first <- vapply(run$nodes, `[`, 0, 1)
  owners <- owners_of(run$pool, run$data)
  run$worker <- owners[first]
  alive <- living(run$pool)
  if (length(alive) == 0) stop_no_worker(run$pool)
  # by number, so that shards of the same place in several data are together
  place <- alive[ceiling(first * length(alive) / length(run$data$rows))]
  run$worker <- ifelse(is.na(run$worker), place, run$worker)
}

owners_of <- function(pool, data) {
  owners <- pool$owners[[data$id]]
  if (is.null(owners)) rep(NA_integer_, length(data$rows)) else owners
}

set_owner <- function(pool, data, shards, worker) {
  assign(data$id, replace(owners_of(pool, data), shards, worker), envir = pool$owners)
}

# ---- the loop -----------------------------------------------------------------------------------

finish_run <- function(run, control) {
  limit <- worker_timeout(control)
  repeat {
    for (i in idle_workers(run)) give_work(run, i)
    busy <- which(nzchar(run$token))
    if (length(busy) == 0) {
      if (all(run$status == "done")) break
      # who was found lost as it was to get work, or by another run, which made shards for this one
      leave_to_living(run)
      next
    }
    silent <- as.double(Sys.time() - run$since[busy], units = "secs")
    late <- busy[silent > limit]
    for (i in late) drop_worker(run, i, paste("it has been silent for", round(limit), "seconds"))
    if (length(late) > 0) next
    one <- run$pool$transport$wait(busy, min(1, limit - max(silent)))
    if (is.na(one)) next
    answer <- tryCatch(run$pool$transport$receive(one), error = \(e) {
      drop_worker(run, one, conditionMessage(e))
      NULL
    })
    if (!is.null(answer)) take_answer(run, one, answer, control)
  }
  run$values
}

idle_workers <- function(run) setdiff(living(run$pool), which(nzchar(run$token)))

# What is left of its own nodes, or else the last of who has most.
give_work <- function(run, i) {
  waiting <- run$status == "waiting"
  own <- which(waiting & run$worker == i)
  if (length(own) == 0 && !run$is_short) {
    others <- tabulate(run$worker[waiting], run$pool$transport$size)
    if (any(others > 0)) own <- utils::tail(which(waiting & run$worker == which.max(others)), 1)
    own <- own[may_move(run, own)]
  }
  if (length(own) > 0) send_nodes(run, i, if (run$is_short) own else own[1])
}

# Can another worker have the shards of these nodes? What was made by a computation stays where it is.
may_move <- function(run, nodes) rep(is.null(run$data$recipe$make), length(nodes))

send_nodes <- function(run, i, nodes) {
  shards <- unlist(lapply(run$nodes[nodes], \(node) node[1]:node[2]))
  unsent <- if (run$data$recipe$kind == "sent") shards[!owners_of(run$pool, run$data)[shards] %in% i]
  # making them again takes the workers, and so does fetching what they have made
  makes <- length(unsent) > 0 && !is.null(run$data$recipe$make)
  if ((makes || must_fetch(run, i)) && any(nzchar(run$token))) return(invisible())
  lent <- lend_rows(run, i)
  rows <- lapply(stats::setNames(nm = unsent), \(shard) shard_rows(run$data, shard))
  run$pool$tokens <- sum(run$pool$tokens, 1)
  token <- paste(run$id, run$pool$tokens)
  request <- list(
    token = token, run = run$id, nodes = run$nodes[nodes], sent = rows, lent = lent,
    parts = if (!is.null(run$parts)) lapply(stats::setNames(nm = shards), run$parts, i),
    setup = if (!run$told[i]) worker_setup(run, i)
  )
  run$worker[nodes] <- i
  sent <- tryCatch({
    bytes <- run$pool$transport$send(i, request)
    TRUE
  }, error = \(e) {
    drop_worker(run, i, conditionMessage(e))
    FALSE
  })
  if (!sent) return(invisible())
  run$token[i] <- token
  run$sent[[i]] <- nodes
  run$status[nodes] <- "sent"
  run$since[i] <- Sys.time()
  run$told[i] <- run$pool$transport$keeps
  if (run$pool$transport$keeps && run$data$recipe$kind != "none") set_owner(run$pool, run$data, shards, i)
  run$account$requests[i] <- run$account$requests[i] + 1
  if (is.numeric(bytes)) run$account$bytes[i] <- run$account$bytes[i] + bytes
}

# Threads and a GPU of its own, unless the user said which.
worker_setup <- function(run, i) {
  setup <- run$setup
  about <- run$pool$about[[i]]
  if (is.null(setup$control$threads)) setup$control$threads <- about$threads
  setup$place <- about$place
  setup$forget <- setdiff(session$forgotten, run$pool$forgotten[[i]])
  run$pool$forgotten[[i]] <- c(run$pool$forgotten[[i]], setup$forget)
  shared <- vapply(setup$args, inherits, NA, "shared_value")
  for (name in names(setup$args)[shared]) {
    key <- setup$args[[name]]$key
    if (key %in% run$pool$shared[[i]]) setup$args[[name]]["value"] <- list(NULL)
    else run$pool$shared[[i]] <- utils::head(c(key, run$pool$shared[[i]]), MOST_SHARED)
  }
  setup
}

# ---- answers ------------------------------------------------------------------------------------

take_answer <- function(run, i, answer, control) {
  run$since[i] <- Sys.time()
  if (!identical(answer$token, run$token[i])) return(invisible()) # a beat, or of an earlier run
  nodes <- run$sent[[i]]
  run$token[i] <- ""
  run$sent[i] <- list(NULL)
  run$status[nodes] <- "waiting"
  if (!is.null(answer$unknown)) {
    run$told[i] <- FALSE
    set_owner(run$pool, run$data, unlist(lapply(run$nodes[nodes], \(node) node[1]:node[2])), NA)
    run$pool$shared[[i]] <- setdiff(run$pool$shared[[i]], answer$unknown)
    return(invisible())
  }
  if (!is.null(answer$lacking)) return(add_lacking(run, i, answer$lacking))
  if (!is.null(answer$missing)) return(set_owner(run$pool, run$data, answer$missing, NA))
  if (isTRUE(answer$stopped)) return(drop_worker(run, i, "it was interrupted"))
  if (!is.null(answer$error)) return(take_error(run, i, nodes, answer$error))
  run$values[nodes] <- answer$values
  run$status[nodes] <- "done"
  run$account$seconds[i] <- run$account$seconds[i] + answer$seconds
  shards <- unlist(lapply(run$nodes[nodes], \(node) node[1]:node[2]))
  run$account$rows[i] <- run$account$rows[i] + sum(run$data$rows[shards])
  run$account$bytes[i] <- run$account$bytes[i] + as.double(utils::object.size(answer$values))
  if (!is.null(control$progress)) control$progress(mean(run$status == "done"))
}

# What is wrong with the machine of a worker is tried on another; anything else is the user's to know.
take_error <- function(run, i, nodes, error) {
  others <- setdiff(living(run$pool), c(i, unlist(run$failed[nodes])))
  if (any(MACHINE_ERRORS %in% error$class) && length(others) > 0) {
    for (k in nodes) run$failed[[k]] <- c(run$failed[[k]], i)
    run$worker[nodes] <- others[1]
    return(invisible())
  }
  class <- if (length(error$class) > 0) error$class else c("simpleError", "error", "condition")
  message <- paste0(error$message, " (on ", run$pool$transport$label(i), ")")
  stop(structure(class = class, list(message = message, call = user_call())))
}

MACHINE_ERRORS <- paste0("flashkernel_error_", c("device", "alloc", "no_device"))

# Its nodes go to the others.
drop_worker <- function(run, i, why) {
  lose_worker(run$pool, i, why)
  run$token[i] <- ""
  run$status[run$sent[[i]]] <- "waiting"
  run$sent[i] <- run$lacking[i] <- list(NULL)
  leave_to_living(run)
}

# What waits for workers that are lost.
leave_to_living <- function(run) {
  alive <- living(run$pool)
  if (length(alive) == 0) stop_no_worker(run$pool)
  open <- which(run$status == "waiting" & !run$worker %in% alive)
  run$worker[open] <- alive[ceiling(seq_along(open) * length(alive) / length(open))]
}

# ---- accounts -----------------------------------------------------------------------------------

# What each worker did, for diagnostics(): a data frame with a row for each.
run_account <- function(run) {
  about <- run$pool$about
  of <- \(name, none) vapply(about, \(one) if (is.null(one[[name]])) none else one[[name]], none)
  cbind(
    data.frame(worker = seq_along(about), host = of("host", ""), pid = of("pid", 0L), threads = of("threads", NA_integer_)),
    run$account, lost = !run$pool$alive
  )
}

# Of two computations by the same workers.
add_accounts <- function(a, b) {
  if (is.null(a) || is.null(b)) return(if (is.null(a)) b else a)
  if (nrow(a) != nrow(b)) return(b)
  for (name in c("requests", "rows", "seconds", "bytes")) b[[name]] <- a[[name]] + b[[name]]
  b
}

# Seconds of silence after which a worker counts as lost.
worker_timeout <- function(control) {
  seconds <- control$asked$worker_timeout
  if (is.null(seconds)) SECONDS_OF_SILENCE else seconds
}

SECONDS_OF_SILENCE <- 300
