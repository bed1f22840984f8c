# The workers of a cluster, as the master knows them. A pool is an environment of `cluster`, `transport`, `about`,
# what each worker told of itself, `who` they are for run_account(), `alive`, which of them are, `owners`, for each
# flash_data() who holds which shard, `knows`, what each worker has been told, and `held`, how many computations that
# are under way have it open. There is one for a cluster in a session.

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

# Makes the workers ready for requests until `frame` ends (NULL: until they are released).
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

# Is the key `what` news to worker i? From now on it is not, while it is one of the last `most`.
is_news <- function(pool, i, what, key, most = Inf) {
  known <- pool$knows[[i]][[what]]
  if (key %in% known) return(FALSE)
  pool$knows[[i]][[what]] <- utils::head(c(key, known), most)
  TRUE
}

# Workers of an interrupted computation still have it to end, or to be told to.
release_pool <- function(pool) {
  pool$held <- pool$held - 1
  if (pool$held > 0) return(invisible())
  leaving <- which(pool$alive & pool$open)
  for (i in leaving) try(pool$transport$leave(i), silent = TRUE)
  for (i in leaving) {
    left <- tryCatch(pool$transport$close(i, SECONDS_TO_LEAVE), error = \(e) FALSE)
    pool$open[i] <- FALSE
    if (!left) lose_worker(pool, i, "it did not end what it was doing")
  }
  invisible()
}

# A message, since the work goes on; without workers there is an error.
lose_worker <- function(pool, i, why) {
  if (!pool$alive[i]) return(invisible())
  pool$alive[i] <- FALSE
  for (id in names(pool$owners)) pool$owners[[id]][pool$owners[[id]] %in% i] <- NA
  rest <- if (any(pool$alive)) "what it had goes to the others" else "there is no other"
  warn_user("worker", pool$transport$label(i), " is lost (", why, "): ", rest)
}

# Those that are alive, of whom there has to be one.
some_living <- function(pool) {
  if (any(pool$alive)) return(living(pool))
  lost <- ngettext(length(pool$alive), "its only one", paste("all", length(pool$alive)))
  stop(new_error("cluster", paste0("`cluster` has no worker left: ", lost, " were lost"), user_call()))
}

# ---- who they are -------------------------------------------------------------------------------

# Refuses workers of another version. Those of one host share its cores and GPUs; where it does not tell how many cores
# there are, each takes one.
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

# What a worker tells of itself. It goes there as it is, without this package, which may be missing.
introduce <- function() {
  version <- tryCatch(as.character(utils::packageVersion("flashkernel")), error = \(e) NA_character_)
  list(
    version = version, r = R.version.string, host = Sys.info()[["nodename"]], pid = Sys.getpid(),
    cores = parallel::detectCores()
  )
}
environment(introduce) <- baseenv()
