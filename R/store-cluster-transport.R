# How requests get to the workers of a cluster and their answers back, for each kind of cluster that R has. A
# transport is a list of its `size`, of `keeps`, do workers know the last request when the next one comes?, of
# `depth`, how many requests a worker may have that it has not answered, of `label`, a function of a worker's number,
# and of functions that raise an error where a worker is lost:
#   meet(i, f)        what f() is on worker i, where this package may be missing
#   open(i)           makes it ready for requests
#   send(i, request)  does not wait; bytes, where these are known
#   wait(busy, s)     the number of one of the workers `busy` that has something to say, NA after s seconds
#   receive(i)        what it says: an answer, or a beat, by which it says that it is alive (store-cluster-worker.R)
#   leave(i)          tells it that there are no more requests
#   close(i, s)       waits s seconds for its end; FALSE where it does not come
# Between close() and open() a cluster is as the user made it.

open_transport <- function(cluster) {
  if (is.null(cluster)) return(local_transport())
  if (identical(cluster, "future")) return(future_transport())
  if (all(vapply(cluster, has_socket, NA))) socket_transport(cluster) else node_transport(cluster)
}

# ---- a call for each request ------------------------------------------------------------------

# Of workers that are called with functions: `call(i, f, args)` does not wait, `result(i)` is the last call's value.
call_transport <- function(size, label, call, result, wait, keeps = TRUE) {
  list(
    size = size, keeps = keeps, depth = 1, label = label,
    meet = function(i, f) {
      call(i, f, list())
      result(i)
    },
    open = \(i) NULL, send = \(i, request) call(i, answer_request, list(request, list())),
    wait = wait, receive = result, leave = \(i) NULL, close = \(i, seconds) TRUE
  )
}

# The same shards without a cluster, in this process.
local_transport <- function() {
  value <- NULL
  call_transport(1, \(i) "this process", \(i, f, args) value <<- do.call(f, args), \(i) value, \(busy, seconds) busy[1])
}

# By the generics of parallel and snow, as for MPI.
node_transport <- function(cluster) {
  package <- call_package(cluster)
  come <- list()
  has_come <- function(i) {
    node <- cluster[[i]]
    asNamespace("Rmpi")$mpi.iprobe(node$rank, node$RECVTAG, node$comm) # of the package that has made the cluster
  }
  call_transport(
    length(cluster), \(i) paste0("worker ", i, " of ", length(cluster)),
    call = \(i, f, args) package$sendData(cluster[[i]], call_message(f, args)),
    result = function(i) {
      name <- as.character(i)
      message <- if (is.null(come[[name]])) package$recvData(cluster[[i]]) else come[[name]]
      come[[name]] <<- NULL
      if (!isTRUE(message$success)) stop(message$value)
      message$value
    },
    # a blocking probe of MPI cannot be interrupted, and burns a core
    wait = function(busy, seconds) {
      if (inherits(cluster[[1]], "MPInode")) return(poll(busy, seconds, has_come))
      one <- package$recvOneData(cluster[busy])
      come[[as.character(busy[one$node])]] <<- one$value
      busy[one$node]
    }
  )
}

# The package whose functions know the nodes.
call_package <- function(cluster) asNamespace(if (inherits(cluster[[1]], "MPInode")) "snow" else "parallel")

# Wherever future::plan() sends them. Nothing is known to stay with a worker: what it has not kept is sent with
# each request.
future_transport <- function() {
  size <- future::nbrOfWorkers()
  if (!is.finite(size)) size <- MOST_FUTURES
  futures <- vector("list", size)
  call_transport(
    size, \(i) paste("future", i), call = \(i, f, args) futures[[i]] <<- future::futureCall(f, args, seed = NULL),
    result = function(i) {
      done <- futures[[i]]
      futures[i] <<- list(NULL)
      future::value(done)
    },
    wait = \(busy, seconds) poll(busy, seconds, \(i) future::resolved(futures[[i]])), keeps = FALSE
  )
}

# The first of the workers `busy` that is ready, NA after so many seconds.
poll <- function(busy, seconds, is_ready) {
  end <- seconds_now() + seconds
  pause <- 1e-5
  repeat {
    for (i in busy) if (is_ready(i)) return(i)
    if (seconds_now() > end) return(NA)
    Sys.sleep(pause)
    pause <- min(2 * pause, 0.01)
  }
}

# ---- sockets ----------------------------------------------------------------------------------

# Clusters of sockets, PSOCK and forked ones. While it is open a worker is in serve_requests(), and messages are
# written at once: in many small pieces, as parallel writes them, each answer waits 40 ms for the next
# acknowledgement.
socket_transport <- function(cluster) {
  connection <- \(i) cluster[[i]]$con
  list(
    size = length(cluster), keeps = TRUE, depth = 2,
    label = \(i) paste0("worker ", i, " of ", length(cluster), " (", node_host(cluster[[i]]), ")"),
    meet = function(i, f) {
      write_message(call_message(f, list()), connection(i))
      if (!socketSelect(list(connection(i)), FALSE, SECONDS_TO_MEET)) stop("it does not answer")
      unserialize(connection(i))$value
    },
    open = \(i) write_message(call_message(serve_requests, list()), connection(i)),
    send = \(i, request) write_message(request, connection(i)),
    wait = function(busy, seconds) {
      ready <- socketSelect(lapply(busy, connection), FALSE, seconds)
      if (any(ready)) busy[which(ready)[1]] else NA
    },
    receive = function(i) {
      message <- suspendInterrupts(unserialize(connection(i)))
      if (identical(message$type, "VALUE")) stop("it has left: ", message$value)
      message
    },
    leave = \(i) write_message(END_OF_REQUESTS, connection(i)),
    close = function(i, seconds) {
      end <- seconds_now() + seconds
      while (socketSelect(list(connection(i)), FALSE, max(0, end - seconds_now()))) {
        if (identical(unserialize(connection(i))$type, "VALUE")) return(TRUE)
      }
      FALSE
    }
  )
}

node_host <- function(node) if (is.null(node$host)) "a child of this process" else node$host

END_OF_REQUESTS <- list(end = TRUE)

# What the loop of a worker of parallel or snow does: it calls a function.
call_message <- function(f, args) list(type = "EXEC", data = list(fun = f, args = args, return = TRUE, tag = NULL))

# A large one goes in pieces, the numbers of a matrix in one: it would take as long again to copy it first.
write_message <- function(message, connection) {
  size <- if (is.null(message$bytes)) as.double(utils::object.size(message)) else message$bytes
  at_once <- size <= MOST_BYTES_AT_ONCE && length(bytes <- serialize(message, NULL, xdr = FALSE)) < MOST_BYTES_OF_WRITEBIN
  withCallingHandlers(
    suspendInterrupts(if (at_once) writeBin(bytes, connection) else serialize(message, connection, xdr = FALSE)),
    warning = \(condition) stop(conditionMessage(condition))
  )
  invisible(if (at_once) length(bytes) else size)
}

# Runs on a worker until it is told to end. What the loop of parallel or snow then sends of the value takes it 40
# ms of waiting for acknowledgements; after an interrupt, which is an end too, these loops send nothing.
serve_requests <- function() {
  loop <- master_loop()
  link <- new_link(loop$master)
  link$say(list(beat = TRUE)) # what follows the call waits for its acknowledgement, which this carries
  while (!is.null(request <- link$hear())) link$say(answer_request(request, link))
  link$end()
  if (!loop$takes_interrupts) return(NULL)
  link$say(list(type = "VALUE"))
  stop_worker()
}

# The worker's end of the connection to its master: hear() waits for the next request, NULL at the end of all, and
# is_wanted() takes in what has come while one is answered. The next request of the same run waits; one of another run,
# or the end, mean that nobody waits for the answer any more. `at_end`: functions for end() to call.
new_link <- function(connection) {
  heard <- list()
  at_end <- list()
  run <- NULL
  take <- \() heard <<- c(heard, list(suspendInterrupts(unserialize(connection))))
  ends <- \(message) identical(message, END_OF_REQUESTS)
  list(
    hear = function() {
      if (length(heard) == 0) take()
      if (ends(heard[[length(heard)]])) return(NULL)
      request <- heard[[1]]
      heard <<- heard[-1]
      run <<- request$run
      request
    },
    is_wanted = function() {
      while (socketSelect(list(connection), FALSE, 0)) {
        take()
        if (ends(heard[[length(heard)]])) break
      }
      any(vapply(heard, \(message) !identical(message$run, run), NA))
    },
    say = \(answer) write_message(answer, connection),
    at_end = \(action) at_end <<- c(at_end, list(action)),
    end = \() for (action in at_end) action()
  )
}

# The connection of the loop that has called the function, and whether the loop goes on after an interrupt. A fork of a
# worker has the frames of that worker's loop below its own.
master_loop <- function() {
  for (i in rev(seq_len(sys.nframe()))) {
    frame <- sys.frame(i)
    if (!exists("master", frame, inherits = FALSE) || !has_socket(frame$master)) next
    loop <- body(sys.function(i))
    # of parallel, the function that catches them is called by the loop
    if ("workCommand" %in% all.names(loop)) loop <- body(get("workCommand", asNamespace("parallel")))
    return(list(master = frame$master$con, takes_interrupts = takes_interrupts(loop)))
  }
  stop("this worker has no connection to its master")
}

# Is all of it in a tryCatch() of interrupts?
takes_interrupts <- function(loop) any(grepl("tryCatch\\(.*interrupt = function", paste(deparse(loop), collapse = " ")))
