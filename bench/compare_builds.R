# Compares the speed of builds of the package: the same work with each build in turns, so that changes of the machine's
# clock affect all of them.
#
#   Rscript bench/compare_builds.R LIBRARY LIBRARY [...] [--only PATTERN] [--rounds N]
#
# Each LIBRARY holds a build (R CMD INSTALL --library). Each build has one R process, all pinned to the same core if
# `taskset` is installed. `ratio`: the median over the rounds of a build's seconds over those of the first build.

# A worker loads its own build; the process that compares loads the first one, of which it needs nothing.
libraries <- commandArgs(TRUE)[if ("--worker" %in% commandArgs(TRUE)) 2 else 1]
.libPaths(c(libraries, .libPaths()))
source("bench/common.R")

# ---- a worker: reads the name of a work, does it, and writes its seconds --------------------------

make_works <- function() {
  works <- list()
  add <- \(name, work) works[[name]] <<- work
  matvec <- flashkernel::kernel_sum
  fit <- flashkernel::flash_kde
  alone <- \(...) flashkernel::flash_control(backend = "cpu", threads = 1, ...)
  by <- function(method, work) {
    force(work)
    \() {
      session <- asNamespace("flashkernel")$session
      session$method <- method
      on.exit(session$method <- NULL)
      work()
    }
  }
  set.seed(1)
  for (d in c(1, 2, 3, 4, 8, 16)) local({
    x <- matrix(stats::rnorm(6000 * d), 6000)
    y <- matrix(stats::rnorm(1000 * d), 1000)
    few <- x[1:1500, , drop = FALSE]
    for (precision in c("double", "single")) local({
      of <- precision
      add(paste("sum", d, of), \() matvec(x, y, bandwidth = 1, tol = 0, control = alone(engine = "exact", precision = of)))
      add(paste("sdkde", d, of), \() fit(few, "sdkde", bandwidth = 1, control = alone(precision = of)))
      laplace <- fit(x, "laplace", bandwidth = 1, control = alone(precision = of))
      add(paste("laplace", d, of), \() stats::predict(laplace, y))
    })
    add(paste("matern", d), \() matvec(x, y, bandwidth = 1, kernel = "matern32", tol = 0, control = alone(engine = "exact")))
  })
  for (d in 1:4) for (tol in c(1e-3, 1e-5, 1e-8)) local({
    bound <- tol
    n <- c(2e5, 1e5, 5e4, 5e3)[d]
    x <- matrix(stats::runif(n * d) * c(60, 30, 12, 4)[d], n)
    add(paste("grid", d, tol), by("grid", \() matvec(x, bandwidth = 1, tol = bound, control = alone(engine = "fast"))))
    add(paste("gradient", d, tol), by("grid", \() fit(x, "sdkde", bandwidth = 1, tol = bound, control = alone())))
  })
  for (d in c(2, 3, 5)) for (tol in c(1e-3, 1e-6)) local({
    bound <- tol
    x <- matrix(stats::runif(2e4 * d) * c(0, 300, 60, 0, 12)[d], 2e4)
    add(paste("direct", d, tol), by("direct", \() matvec(x, bandwidth = 1, tol = bound, control = alone(engine = "fast"))))
  })
  works
}

work_on <- function() {
  works <- make_works()
  input <- file("stdin", "r")
  writeLines(paste(names(works), collapse = "|"))
  while (length(name <- readLines(input, 1)) > 0) {
    start <- Sys.time()
    works[[name]]()
    writeLines(format(as.numeric(Sys.time() - start, units = "secs"), digits = 15))
  }
}

# ---- the comparison ---------------------------------------------------------------------------

start_worker <- function(library) {
  names <- c(tempfile(), tempfile())
  for (name in names) system2("mkfifo", name)
  pin <- if (nzchar(Sys.which("taskset"))) "taskset -c 0 " else ""
  system(sprintf("%s'%s' '%s' --worker '%s' < '%s' > '%s' &", pin, file.path(R.home("bin"), "Rscript"), this_script, library, names[1], names[2]))
  list(to = fifo(names[1], "w", blocking = TRUE), from = fifo(names[2], "r", blocking = TRUE))
}

ask <- function(worker, name) {
  writeLines(name, worker$to)
  flush(worker$to)
  as.numeric(readLines(worker$from, 1))
}

compare <- function(libraries, only, rounds) {
  workers <- lapply(libraries, start_worker)
  works <- lapply(workers, \(worker) strsplit(readLines(worker$from, 1), "|", fixed = TRUE)[[1]])[[1]]
  ratios <- list()
  for (name in grep(only, works, value = TRUE)) {
    seconds <- matrix(0, rounds, length(workers))
    for (round in seq_len(rounds)) {
      for (i in (seq_along(workers) + round) %% length(workers) + 1) seconds[round, i] <- ask(workers[[i]], name)
    }
    seconds <- seconds[-(1:2), , drop = FALSE]
    ratio <- apply(seconds[, -1, drop = FALSE] / seconds[, 1], 2, stats::median)
    cat(sprintf("%-18s %8.2f ms ", name, 1000 * min(seconds[, 1])), sprintf("%6.3f", ratio), "\n")
    kind <- sub(" .*", "", name)
    ratios[[kind]] <- rbind(ratios[[kind]], ratio)
  }
  cat("\nin the mean\n")
  for (kind in names(ratios)) cat(sprintf("%-18s", kind), sprintf("%6.3f", exp(colMeans(log(ratios[[kind]])))), "\n")
  for (worker in workers) close(worker$to)
}

if ("--worker" %in% arguments) {
  work_on()
} else {
  given <- arguments[!startsWith(arguments, "--") & !c(FALSE, utils::head(arguments, -1) %in% c("--only", "--rounds"))]
  if (length(given) < 2) stop("give two libraries or more, with a build in each", call. = FALSE)
  cat("ratio: the median over the rounds of seconds over those of ", given[1], "\n\n", sep = "")
  compare(given, option("--only", "."), as.integer(option("--rounds", 25)))
}
