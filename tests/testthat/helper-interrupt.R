wait_for <- function(done, seconds) {
  end <- Sys.time() + seconds
  while (!done() && Sys.time() < end) Sys.sleep(0.02)
  done()
}

# For a session in a child: evaluates the expressions of `work` in the frame `where`, one after the other, each after
# creating a file started<i>. Returns how and when each ended, and what `measure()` finds after it.
do_rounds <- function(work, where, folder, measure) {
  lapply(seq_along(work), \(i) {
    outcome <- tryCatch(
      {
        file.create(file.path(folder, paste0("started", i)))
        eval(work[[i]], where)
        "finished"
      },
      interrupt = function(condition) "interrupted",
      error = function(condition) conditionMessage(condition)
    )
    stopped <- as.numeric(Sys.time())
    c(list(outcome = outcome, stopped = stopped), measure())
  })
}

# Runs session(folder, do_rounds) in a child and interrupts each of its `rounds` of long work 0.3 seconds after it
# began. Returns the session's result, a list with the `rounds` of do_rounds(), plus `latency`, the seconds from signal
# to stop.
interrupt_child <- function(session, rounds) {
  folder <- tempfile("interrupt")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  # With a fixed threshold the C library returns every freed matrix to the system, so that the count of resident bytes
  # falls; by default it keeps some.
  child <- callr::r_bg(
    child_task, child_arguments(session, list(folder, `environment<-`(do_rounds, globalenv()))),
    env = c(callr::rcmd_safe_env(), MALLOC_MMAP_THRESHOLD_ = "65536")
  )
  on.exit(child$kill(), add = TRUE)

  sent <- numeric()
  for (i in seq_len(rounds)) {
    started <- file.path(folder, paste0("started", i))
    ready <- wait_for(\() file.exists(started) || !child$is_alive(), 60)
    testthat::expect_true(ready && child$is_alive())
    Sys.sleep(0.3) # well inside the computation
    sent[i] <- as.numeric(Sys.time())
    child$interrupt()
  }
  child$wait(30000)
  testthat::expect_false(child$is_alive())
  got <- child$get_result()

  testthat::expect_identical(vapply(got$rounds, `[[`, "", "outcome"), rep("interrupted", rounds))
  got$latency <- vapply(got$rounds, `[[`, 0, "stopped") - sent
  # The target is 0.5 s. It is printed, not tested, because a busy machine may take longer.
  testthat::expect_true(all(got$latency > 0))
  cat("seconds from signal to stop:", paste(round(got$latency, 3), collapse = ", "), "\n")
  got
}

# Interrupts sums on the cluster that `make()` makes in a child, and checks that its workers can still be used.
interrupt_cluster <- function(make, rounds) {
  testthat::skip_if_not_installed("callr")
  testthat::skip_on_os("windows")
  make <- `environment<-`(make, globalenv())
  session <- eval(bquote(function(folder, do_rounds) {
    workers <- .(make)()
    on.exit(parallel::stopCluster(workers))
    set.seed(1)
    data <- flashkernel::flash_data(matrix(stats::rnorm(4e5), ncol = 2), workers)
    y <- matrix(stats::rnorm(4e5), ncol = 2)
    work <- expression(flashkernel::kernel_sum(data, y, bandwidth = 3, tol = 0, control = list(engine = "exact", backend = "cpu")))
    some <- \(data) flashkernel::kernel_sum(data, y[1:3, ], bandwidth = 3, tol = 0)
    after <- \() list(free = identical(parallel::clusterCall(workers, \(x) x, 7), list(7, 7)), right = some(data))
    list(
      rounds = do_rounds(work[rep(1, .(rounds))], environment(), folder, after),
      right = some(flashkernel::flash_data(data$recipe$x))
    )
  }))
  got <- interrupt_child(session, rounds)
  for (round in got$rounds) {
    testthat::expect_true(round$free)
    testthat::expect_identical(round$right, got$right)
  }
}
