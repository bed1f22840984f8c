# Answers requests on a worker. A worker caches in its session the shards that it has read or was sent, and the setup
# of a run, which comes with its first request.
#
# A request is list(token, run, setup, nodes, parts, sent, lent):
# - setup: list(op, args, control, data), or NULL; of data that the worker has, only the id
# - nodes: nodes of the tree; parts: by number of a shard, arguments for that shard only
# - sent: rows of shards, by number; lent: rows of other data (store-cluster-join.R)
#
# An answer is list(token, ...) with one of
# - values: for each node
# - missing: shards whose rows must be sent; lacking: shards of other data that must be sent
# - unknown: the setup must be sent again, with the shared values of these keys
# - error: see sent_error(); stopped: TRUE after an interrupt
#
# `link`: from new_link(), or an empty list if nothing can be sent before the answer.

answer_request <- function(request, link) {
  started <- seconds_now()
  answer <- tryCatch(
    perform(request, link),
    interrupt = \(condition) list(stopped = TRUE),
    lacking_shards = \(condition) list(lacking = condition$lacking),
    error = \(condition) list(error = sent_error(condition))
  )
  bytes <- as.double(utils::object.size(answer$values))
  c(list(token = request$token, seconds = seconds_now() - started, bytes = bytes), answer)
}

# An error for the master: list(message, class, arg, parent), without calls, which may contain all data.
sent_error <- function(error) {
  told <- list(message = conditionMessage(error), class = class(error))
  if (!inherits(error, "flashkernel_error")) return(told)
  cause <- error$parent
  if (!is.null(cause)) cause <- new_condition(setdiff(class(cause), "condition"), conditionMessage(cause))
  c(told, list(arg = error$arg, parent = cause))
}

# The state of this worker: runs, data and caches.
worker_state <- function() {
  if (is.null(session$worker)) session$worker <- list2env(list(data = new.env()), parent = emptyenv())
  session$worker
}

perform <- function(request, link) {
  state <- worker_state()
  if (!is.null(request$setup)) {
    forget_data(state, request$setup$forget)
    setup <- take_shared(state, request$setup)
    if (length(setup$unknown) > 0) return(list(unknown = setup$unknown))
    # several, as a run may need the result of another one
    state$runs <- with_latest(state$runs, request$run, setup, MOST_RUNS)
  }
  run <- state$runs[[request$run]]
  known <- if (!is.null(run)) known_data(state, run$data)
  if (is.null(known)) return(list(unknown = character()))
  take_lent(state, request$lent)
  if (!is.null(run$below)) return(perform_below(run, known, request, link))
  for (name in names(request$sent)) keep_shard(known, as.integer(name), request$sent[[name]])
  absent <- shards_to_send(known, request$nodes)
  if (length(absent) > 0) return(list(missing = absent))
  operation <- WORKER_OPERATIONS[[run$op]]
  control <- worker_control(with_own_device(run$control, run$place), link)
  one <- function(shard) {
    if (!is.null(link$is_wanted) && link$is_wanted()) stop_worker()
    run$args$scratch$sums <- 0 # at this shard, of blocks (store-cluster-join.R)
    operation$one(load_shard(known, shard), run$args, request$parts[[as.character(shard)]], control)
  }
  values <- lapply(request$nodes, fold_tree, one, \(a, b) operation$merge(a, b, control))
  run$args$scratch$done <- NULL
  list(values = if (is.null(operation$finish)) values else lapply(values, operation$finish))
}

# Replaces the shared values (store-cluster-spread.R) in the arguments of a setup by their values, each with a plan of
# its own for what C prepares. The element `unknown` has the keys of values that must be sent again.
take_shared <- function(state, setup) {
  unknown <- character()
  if (!is.null(setup$below)) setup$given <- setup$args
  for (name in names(setup$args)) {
    given <- setup$args[[name]]
    if (!inherits(given, "shared_value")) next
    if (!is.null(given$value)) {
      value <- replace(given$value, "plan", list(new_plan()))
      state$shared <- with_latest(state$shared, given$key, value, MOST_SHARED)
    }
    value <- state$shared[[given$key]]
    if (is.null(value)) unknown <- c(unknown, given$key)
    setup$args[[name]] <- value
    # to be passed on
    if (!is.null(setup$below)) setup$given[[name]]["value"] <- list(replace(value, "plan", list(NULL)))
  }
  setup$args$scratch <- new.env(parent = emptyenv())
  c(setup, list(unknown = unknown))
}

stop_worker <- function() signalCondition(new_condition("interrupt"))

# The control of a run on this worker. C calls its progress function now and then, which stops the computation if the
# master has asked for that, and sends a heartbeat every second.
worker_control <- function(control, link) {
  control <- run_control(control)
  if (is.null(link$is_wanted)) return(control)
  last <- seconds_now()
  control$progress <- function(fraction) {
    if (link$is_wanted()) stop("stopped by the master")
    now <- seconds_now()
    if (now - last >= SECONDS_OF_A_BEAT) {
      last <<- now
      link$say(list(beat = TRUE))
    }
  }
  control
}

# Workers of one host share its GPUs. `place`: number of other workers of the host before this one.
with_own_device <- function(asked, place) {
  if (is.null(place) || place == 0 || asked$backend == "cpu" || !is.null(asked$devices)) return(asked)
  if (is.null(session$devices)) session$devices <- length(gpu_info()$index)
  if (session$devices > 1) asked$devices <- place %% session$devices
  asked
}
