wait_for <- function(done, seconds) {
  end <- Sys.time() + seconds
  while (!done() && Sys.time() < end) Sys.sleep(0.02)
  done()
}

# Runs session(folder) in a child, which before each of its `rounds` of long work makes a file started<i>, and
# interrupts each half a second after that. The session's result, a list whose `rounds` have `outcome`
# and `stopped` (a time), with the seconds from signal to stop as `latency`.
interrupt_child <- function(session, rounds) {
  folder <- tempfile("interrupt")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  # With a fixed threshold the C library returns every freed matrix to the system, where the count of
  # resident bytes sees it; left alone it keeps some after the first.
  child <- callr::r_bg(
    child_task, child_arguments(session, list(folder)),
    env = c(callr::rcmd_safe_env(), MALLOC_MMAP_THRESHOLD_ = "65536")
  )
  on.exit(child$kill(), add = TRUE)

  sent <- numeric()
  for (i in seq_len(rounds)) {
    started <- file.path(folder, paste0("started", i))
    ready <- wait_for(\() file.exists(started) || !child$is_alive(), 60)
    testthat::expect_true(ready && child$is_alive())
    Sys.sleep(0.5) # well inside the computation
    sent[i] <- as.numeric(Sys.time())
    child$interrupt()
  }
  child$wait(30000)
  testthat::expect_false(child$is_alive())
  got <- child$get_result()

  testthat::expect_identical(vapply(got$rounds, `[[`, "", "outcome"), rep("interrupted", rounds))
  got$latency <- vapply(got$rounds, `[[`, 0, "stopped") - sent
  # The aim is 0.5 s; the rest is allowed to a loaded machine.
  testthat::expect(
    all(got$latency > 0 & got$latency < 2),
    paste("seconds from signal to stop:", paste(round(got$latency, 3), collapse = ", "))
  )
  got
}
