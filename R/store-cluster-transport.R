# Transports send requests to the workers of a cluster and receive their answers, one for each kind of cluster in R. A
# transport is a list of `size`, the number of workers; `keeps`, whether workers keep state between requests; `depth`,
# how many unanswered requests a worker may have; `label(i)`, the name of worker i; and functions that raise an error
# if the worker is lost:
#   meet(i, f)        the value of f() on worker i, where this package may be missing
#   open(i)           makes the worker wait for requests
#   send(i, request)  does not wait; returns the bytes if they are known
#   wait(busy, s)     the number of one of the workers `busy` that has sent something, NA after s seconds
#   receive(i)        its message: an answer, or a heartbeat (store-cluster-worker.R)
#   leave(i)          tells it that there are no more requests
#   close(i, s)       waits up to s seconds until it has left; FALSE if it has not
# Before open() and after close() the cluster is in the state in which the user made it.

open_transport <- function(cluster) {
  if (is.null(cluster)) return(local_transport())
  if (identical(cluster, "future")) return(future_transport())
  if (all(vapply(cluster, has_socket, NA))) socket_transport(cluster) else node_transport(cluster)
}

# ---- a call for each request ------------------------------------------------------------------

# A transport from functions: `call(i, f, args)` starts a call without waiting, `result(i)` returns its value.
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

# Without a cluster: requests are answered in this process.
local_transport <- function() {
  value <- NULL
  call_transport(1, \(i) NULL, \(i, f, args) value <<- do.call(f, args), \(i) value, \(busy, seconds) busy[1])
}

# Clusters without sockets, such as MPI, through the generics of parallel and snow.
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

# The package whose functions handle the nodes of the cluster.
call_package <- function(cluster) asNamespace(if (inherits(cluster[[1]], "MPInode")) "snow" else "parallel")

# Requests as futures. Workers need not keep anything between requests, so all is sent with each.
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

# Polls the workers `busy`: the number of the first that is ready, NA after `seconds`.
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

# Clusters of sockets, PSOCK and forked. An open worker runs serve_requests(). Messages are written in one piece: in
# the small pieces of package parallel, each answer would wait 40 ms for an acknowledgement.
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
      if (identical(message$type, "VALUE")) stop("it ended its loop: ", message$value)
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

# A message to the loop of a worker of parallel or snow: call a function.
call_message <- function(f, args) list(type = "EXEC", data = list(fun = f, args = args, return = TRUE, tag = NULL))

# Writes a message; returns its bytes, invisibly. Large messages are written in pieces, which avoids a copy.
write_message <- function(message, connection) {
  size <- if (is.null(message$bytes)) as.double(utils::object.size(message)) else message$bytes
  at_once <- size <= MOST_BYTES_AT_ONCE && length(bytes <- serialize(message, NULL, xdr = FALSE)) < MOST_BYTES_OF_WRITEBIN
  withCallingHandlers(
    suspendInterrupts(if (at_once) writeBin(bytes, connection) else serialize(message, connection, xdr = FALSE)),
    warning = \(condition) stop(conditionMessage(condition))
  )
  invisible(if (at_once) length(bytes) else size)
}

# Runs on a worker until its master ends it. The loop of parallel or snow would send the return value in pieces, which
# wait 40 ms. If that loop catches interrupts, this function sends the value itself and ends by an interrupt, after
# which the loop sends nothing.
serve_requests <- function() {
  loop <- master_loop()
  link <- new_link(loop$master)
  link$say(list(beat = TRUE)) # carries the acknowledgement of the call, for which the next message would wait
  while (!is.null(request <- link$hear())) link$say(answer_request(request, link))
  link$end()
  if (!loop$takes_interrupts) return(NULL)
  link$say(list(type = "VALUE"))
  stop_worker()
}

# The worker's end of the connection to its master. hear() waits for the next request, NULL at the end. is_wanted()
# reads messages that came while a request is computed: a request of the same run is queued; one of another run, or the
# end, means that the answer is not wanted any more. at_end() adds functions that end() calls.
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

# The connection of the worker's loop, found in the calling frames, and whether the loop continues after an interrupt.
# A fork of a worker also has the frames of that worker's loop, further out.
master_loop <- function() {
  for (i in rev(seq_len(sys.nframe()))) {
    frame <- sys.frame(i)
    if (!exists("master", frame, inherits = FALSE) || !has_socket(frame$master)) next
    loop <- body(sys.function(i))
    # in package parallel a function that the loop calls catches interrupts
    if ("workCommand" %in% all.names(loop)) loop <- body(get("workCommand", asNamespace("parallel")))
    return(list(master = frame$master$con, takes_interrupts = takes_interrupts(loop)))
  }
  stop("this worker has no connection to its master")
}

# Does the loop catch interrupts by tryCatch()?
takes_interrupts <- function(loop) any(grepl("tryCatch\\(.*interrupt = function", paste(deparse(loop), collapse = " ")))
