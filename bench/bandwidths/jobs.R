# Runs jobs in separate processes, each for at most `limit` seconds.

# Calls done(job, value) for each row of `jobs` as work(job) ends; value is an error where it failed, died or took
# longer. No job is begun after `stop_at` seconds. Returns how many were not.
run_jobs <- function(jobs, work, done, cores, limit, stop_at) {
  running <- list()
  begun <- 0
  more <- \() begun < nrow(jobs) && clock() < stop_at
  began <- proc.time()[["elapsed"]]
  clock <- \() proc.time()[["elapsed"]] - began
  finish <- function(k, value) {
    one <- running[[k]]
    running[[k]] <<- NULL
    suppressWarnings(parallel::mccollect(one$process))
    done(one$job, value)
  }
  while (length(running) > 0 || more()) {
    while (length(running) < cores && more()) {
      begun <- begun + 1
      job <- as.list(jobs[begun, ])
      process <- parallel::mcparallel(tryCatch(work(job), error = identity), mc.set.seed = FALSE)
      running[[as.character(process$pid)]] <- list(process = process, job = job, since = clock())
    }
    answers <- parallel::mccollect(lapply(running, `[[`, "process"), wait = FALSE, timeout = 0.2)
    for (pid in intersect(names(answers), names(running))) {
      finish(pid, if (is.null(answers[[pid]])) simpleError("died") else answers[[pid]])
    }
    for (pid in names(running)) if (clock() - running[[pid]]$since > limit) {
      tools::pskill(as.integer(pid), tools::SIGKILL)
      finish(pid, simpleError(paste("over", limit, "s")))
    }
  }
  nrow(jobs) - begun
}
