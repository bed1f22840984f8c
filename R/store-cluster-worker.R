# What runs on a worker of a cluster: answers to requests. A worker keeps, in its session, the shards that it has
# read or was sent, and what the requests of a run have in common, which comes with the first of them.
#
# A request: list(token, run, setup, nodes, parts, sent, lent). `setup`: list(op, args, control, data), or NULL, of
# data that it knows already their `id` alone; `nodes`: of the tree; `parts`: by the number of a shard, what `op` wants
# for it alone; `sent`: rows of shards, by number, `lent` those of other data (store-cluster-join.R). An answer:
# list(token, ...) with one of `values`, for each node, `missing`, shards whose rows it must be sent, `lacking`, the
# same of other data, `unknown`, where it must be sent the setup again, with the shared values of these keys, `error`
# and `stopped`. `link`: of new_link(), or an empty list where there is no way back before the answer.

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

# What the master is told of an error: list(message, class, arg, parent), without calls, which may hold all data.
sent_error <- function(error) {
  told <- list(message = conditionMessage(error), class = class(error))
  if (!inherits(error, "flashkernel_error")) return(told)
  cause <- error$parent
  if (!is.null(cause)) cause <- new_condition(setdiff(class(cause), "condition"), conditionMessage(cause))
  c(told, list(arg = error$arg, parent = cause))
}

# The run and the data that a worker has.
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
    # a run may wait for another one, whose result it needs
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

# The setup of a run with shared values (store-cluster-spread.R) in its arguments, with plans of their own for what C
# prepares of them, and as `unknown` the keys of those that have to be sent once more.
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

# The control of a run on this worker: C asks its progress now and then, which takes what the master has to say for
# an order to stop, and tells it every second that this worker is alive.
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

# Workers of one host, of which this is the one after `place` others, share its GPUs.
with_own_device <- function(asked, place) {
  if (is.null(place) || place == 0 || asked$backend == "cpu" || !is.null(asked$devices)) return(asked)
  if (is.null(session$devices)) session$devices <- length(gpu_info()$index)
  if (session$devices > 1) asked$devices <- place %% session$devices
  asked
}
