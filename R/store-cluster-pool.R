# The master's record of the workers of a cluster. A pool is an environment, one for each cluster in a session, with
# - cluster, transport: the cluster, and how to reach its workers (store-cluster-transport.R)
# - about: for each worker, the result of introduce(); who: the part of it that run_account() reports
# - alive: logical, by worker; open: does a worker wait for requests?
# - owners: for each flash_data(), the worker that has each shard
# - stored, knows: columns and keys that workers have been sent
# - held: number of current computations that use the pool

pool_of <- function(cluster) {
  for (pool in session$pools) if (identical(pool$cluster, cluster)) return(pool)
  pool <- list2env(list(
    cluster = cluster, transport = open_transport(cluster), about = NULL, owners = new.env(), stored = new.env(), held = 0,
    below = attr(cluster, "below") # store-cluster-nested.R
  ), parent = emptyenv())
  pool$alive <- rep(TRUE, pool$transport$size)
  pool$open <- logical(pool$transport$size)
  pool$knows <- rep(list(list()), pool$transport$size)
  pool$workers_below <- integer(pool$transport$size)
  session$pools <- c(list(pool), utils::head(session$pools, MOST_POOLS - 1))
  pool
}

# Makes the workers wait for requests until `frame` ends. NULL: until release_pool().
hold_pool <- function(pool, frame = parent.frame()) {
  pool$held <- pool$held + 1
  if (!is.null(frame)) at_end(\() release_pool(pool), frame)
  if (pool$held > 1) return(invisible(pool))
  if (is.null(pool$about)) meet_workers(pool)
  for (i in living(pool)) {
    tryCatch({
      pool$transport$open(i)
      pool$open[i] <- TRUE
    }, error = \(e) lose_worker(pool, i, conditionMessage(e)))
  }
  invisible(pool)
}

living <- function(pool) which(pool$alive)

# TRUE if worker i has not been sent the `key` of kind `what`. Records it as sent, among the latest `most`.
is_news <- function(pool, i, what, key, most = Inf) {
  known <- pool$knows[[i]][[what]]
  if (key %in% known) return(FALSE)
  pool$knows[[i]][[what]] <- utils::head(c(key, known), most)
  TRUE
}

# Ends a computation. Workers that do not finish their last request within SECONDS_TO_LEAVE are lost.
release_pool <- function(pool) {
  pool$held <- pool$held - 1
  if (pool$held > 0) return(invisible())
  leaving <- which(pool$alive & pool$open)
  for (i in leaving) try(pool$transport$leave(i), silent = TRUE)
  for (i in leaving) {
    left <- tryCatch(pool$transport$close(i, SECONDS_TO_LEAVE), error = \(e) FALSE)
    pool$open[i] <- FALSE
    if (!left) lose_worker(pool, i, "it did not finish its last request")
  }
  invisible()
}

# Marks a worker as lost, with a warning: the others take over its work. some_living() raises the error if none is left.
lose_worker <- function(pool, i, why) {
  if (!pool$alive[i]) return(invisible())
  pool$alive[i] <- FALSE
  for (id in names(pool$owners)) pool$owners[[id]][pool$owners[[id]] %in% i] <- NA
  rest <- if (any(pool$alive)) "the other workers take over its work" else "no worker is left"
  warn_user("worker", pool$transport$label(i), " is lost (", why, "): ", rest)
}

# Numbers of the workers that are alive; an error if there are none.
some_living <- function(pool) {
  if (any(pool$alive)) return(living(pool))
  lost <- ngettext(length(pool$alive), "its only worker was", paste("all", length(pool$alive), "workers were"))
  stop(new_error("cluster", paste0("`cluster` has no worker left: ", lost, " lost (make a new cluster)"), user_call()))
}

# ---- who they are -------------------------------------------------------------------------------

# Asks each worker who it is, and refuses other versions of the package. Workers of one host share its cores and GPUs;
# if the number of cores is unknown, each uses one thread.
meet_workers <- function(pool) {
  transport <- pool$transport
  about <- vector("list", transport$size)
  for (i in living(pool)) {
    found <- tryCatch(transport$meet(i, introduce), error = \(e) lose_worker(pool, i, conditionMessage(e)))
    if (is.list(found)) about[[i]] <- found
  }
  own <- introduce()$version
  for (i in living(pool)) {
    version <- about[[i]]$version
    if (identical(version, own)) next
    found <- paste(if (is.na(version)) "none" else version, "on", transport$label(i))
    stop_argument("cluster", "must have flashkernel ", own, " on all workers, as here: found ", found)
  }
  of <- \(name, none) vapply(about, \(one) if (is.null(one[[name]])) none else one[[name]], none)
  hosts <- of("host", "")
  if (!is.null(pool$cluster)) for (i in living(pool)) {
    same <- which(hosts == hosts[i])
    about[[i]]$threads <- max(1L, as.integer(about[[i]]$cores %/% length(same)), na.rm = TRUE)
    about[[i]]$place <- match(i, same) - 1L
  }
  pool$about <- about
  pool$who <- list(worker = seq_along(about), host = hosts, pid = of("pid", 0L), threads = of("threads", NA_integer_))
  invisible()
}

# A worker's description of itself. The function is sent to workers, so it must not need this package.
introduce <- function() {
  version <- tryCatch(as.character(utils::packageVersion("flashkernel")), error = \(e) NA_character_)
  list(
    version = version, r = R.version.string, host = Sys.info()[["nodename"]], pid = Sys.getpid(),
    cores = parallel::detectCores()
  )
}
environment(introduce) <- baseenv()
