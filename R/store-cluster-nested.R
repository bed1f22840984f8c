# Clusters of clusters. A worker with a cluster of its own divides its requests among that cluster, merges the values
# in the order of the same tree, and sends one value for each node. So the master receives few messages, and sends
# shared data only once to each of its workers.

# `cluster`: list(masters, make), see flash_control().
#' @export
as_cluster.list <- function(cluster) {
  check_is(length(cluster) == 2, cluster, "cluster", "a cluster, or list(masters, make)")
  nested_cluster(cluster[[1]], cluster[[2]])
}

nested_cluster <- function(cluster, make) {
  check_is(is.list(check_cluster(cluster)), cluster, "cluster", "a cluster of workers")
  check_is(is.function(make), make, "make", "a function that makes a cluster")
  id <- paste("below", Sys.getpid(), new_number())
  nested <- structure(cluster, class = unique(c("nested_cluster", class(cluster))), below = id)
  made <- FALSE
  on.exit(if (!made) try(call_package(cluster)$clusterCall(cluster, stop_below, id), silent = TRUE))
  in_function_of_user(
    "make", call_package(cluster)$clusterApply(cluster, seq_along(cluster), make_below, make, id),
    "must make a cluster on each worker"
  )
  made <- TRUE
  nested
}

# On a worker: makes its cluster, and stores it under `id`.
make_below <- function(i, make, id) {
  cluster <- make(i)
  if (is.null(cluster)) stop("it returned NULL")
  session$below[[id]] <- check_cluster(cluster)
  length(cluster)
}

stop_below <- function(id) {
  cluster <- session$below[[id]]
  session$below[[id]] <- NULL
  if (is.list(cluster)) parallel::stopCluster(cluster)
}

#' @exportS3Method parallel::stopCluster
stopCluster.nested_cluster <- function(cl = NULL) {
  try(call_package(cl)$clusterCall(cl, stop_below, attr(cl, "below")), silent = TRUE)
  NextMethod()
}

#' @export
`[.nested_cluster` <- function(x, ...) structure(NextMethod(), below = attr(x, "below"))

# ---- on a worker that is a master -----------------------------------------------------------------

# perform() by the workers below. The answer has the number of those that are alive, and warnings about lost ones.
perform_below <- function(run, known, request, link) {
  pool <- pool_of(session$below[[run$below]])
  lost <- character()
  answer <- withCallingHandlers({
    hold_below(pool, link)
    session$forgotten <- union(session$forgotten, run$forget)
    answer_below(pool, run, known, request, worker_control(run$control, link))
  }, flashkernel_warning_worker = function(condition) {
    lost <<- c(lost, conditionMessage(condition))
    invokeRestart("muffleWarning")
  })
  c(answer, list(below = list(workers = length(living(pool)), lost = lost)))
}

# list(values) of the nodes, or list(missing), shards whose rows no worker below has. A master keeps no rows itself.
answer_below <- function(pool, run, known, request, control) {
  recipe <- recipe_below(known$data$recipe, request$sent)
  data <- list(id = known$data$id, cluster = pool$cluster, recipe = recipe, rows = run$rows)
  shards <- unlist(lapply(request$nodes, node_shards))
  sent <- as.integer(names(request$sent))
  if (length(sent) > 0) set_owner(pool, data, sent, NA)
  nowhere <- \() if (data$recipe$kind == "sent") shards[is.na(owners_of(pool, data)[shards])]
  if (!all(nowhere() %in% sent)) return(list(missing = nowhere()))
  pairs <- run$pairs * length(shards) / length(run$rows)
  setup <- list(op = run$op, args = run$given, control = run$control, data = known$data, pairs = pairs)
  parts <- if (!is.null(request$parts)) \(shard, worker) request$parts[[as.character(shard)]]
  tryCatch({
    below <- new_run(pool, data, setup, parts, request$nodes, run$range)
    below$lend <- lent_below
    finish_run(below, control)
    if (!is.null(run$args$to)) share_owners(pool, run$args$to, data)
    list(values = lapply(request$nodes, node_value, below, run$args, control))
  },
  missing_shard = \(condition) list(missing = nowhere()),
  lacking_shards = \(condition) list(lacking = condition$lacking)
  )
}

# Keeps the pool of the workers below open as long as this worker waits for requests.
hold_below <- function(pool, link, frame = parent.frame()) {
  if (is.null(link$at_end)) return(hold_pool(pool, frame))
  if (pool$held > 0) return(invisible(pool))
  hold_pool(pool, NULL)
  link$at_end(\() release_pool(pool))
}

# A recipe that passes rows that were sent on to a worker below. Rows of a lost worker must be sent again.
recipe_below <- function(recipe, sent) {
  if (recipe$kind != "sent") return(recipe)
  list(kind = "sent", passed = function(shard) {
    rows <- sent[[as.character(shard)]]
    if (is.null(rows)) stop(new_condition("missing_shard"))
    rows
  })
}

# ---- on its master --------------------------------------------------------------------------------

# Stores what worker i, a master, reports on its workers, and repeats their warnings.
take_news <- function(run, i, news) {
  if (is.null(news)) return(invisible())
  run$pool$workers_below[i] <- news$workers
  for (message in news$lost) warn_user("worker", run$pool$transport$label(i), ": ", message)
}
