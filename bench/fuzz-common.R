# Helpers of fuzz-fits.R and fuzz-models.R. Cases run in a forked process, which is killed when a case takes too long.
# Each kind of failure is printed once, as a script that shows it. Arguments:
#   --seed 1     the seed; a case depends on the seed and on its number alone
#   --cases N    the number of cases
#   --only 17,19 run only the cases of these numbers
#   --seconds S  stop after S seconds
#   --limit 30   the longest time of a case, in seconds
# The exit status is 1 if any case failed.

source("bench/common.R")
source("bench/fuzz-literal.R")
source("tests/testthat/helper-outcomes.R")
options(flashkernel.threads = 1L, flashkernel.progress = FALSE)

# ---- random data --------------------------------------------------------------------------------

pick <- function(...) sample(list(...), 1)[[1]]
chance <- function(p) stats::runif(1) < p
decades <- function(n, from, to) 10^stats::runif(n, from, to)

random_size <- function() pick(1, 2, 3, sample(4:10, 1), sample(4:10, 1), sample(10:60, 1))

# A matrix whose columns are of scale 1, about.
random_columns <- function(n, d) {
  x <- matrix(stats::rnorm(n * d), n, d)
  switch(pick("normal", "normal", "ties", "heavy", "clusters", "equal", "constant"),
    normal = x,
    ties = round(x),
    heavy = x / sqrt(stats::rchisq(n, 1)),
    clusters = x / 100 + sample(c(0, 10, 1000), n, TRUE),
    equal = x[rep(1, n), , drop = FALSE],
    constant = replace(x, cbind(seq_len(n), sample(d, 1)), stats::rnorm(1))
  )
}

random_weights <- function(n) {
  w <- switch(pick("none", "none", "some", "zeros", "ratios", "one", "heavy", "scale"),
    none = NULL,
    some = stats::runif(n),
    zeros = stats::rbinom(n, 2, 0.5),
    ratios = decades(n, -30, 0),
    one = as.numeric(seq_len(n) == sample(n, 1)),
    heavy = c(1, rep(decades(1, -20, -6), n - 1)),
    scale = stats::runif(n) * decades(1, -200, 100)
  )
  if (!is.null(w) && all(w == 0)) w[1] <- 1
  w
}

# ---- one case -----------------------------------------------------------------------------------

# `case` is a list with elements `data` (a list of objects), `fit` (a call that uses them), `checks` (named calls that
# also use the fit, as f) and `by_row` (names of the data that have a row for each point). A check fails if it raises a
# foreign error or warning, or returns a problem() or NaN. NaN is allowed if the check's name begins with "NaN ".
# Returns a list of failures, each with elements `check`, `note` and `case`.
run_case <- function(case) {
  here <- list2env(case$data, parent = globalenv())
  mark("fit")
  fit <- outcome_of(\() eval(case$fit, here))
  if (fit$outcome == "failed") return(list(list(check = "fit", note = fit$note, case = case)))
  if (fit$outcome == "refused") return(structure(list(), refused = fit$note))
  here$f <- fit$value
  failures <- lapply(names(case$checks), \(name) {
    mark(name)
    # a check may change its copies of the data
    found <- outcome_of(\() eval(case$checks[[name]], new.env(parent = here)))
    note <- if (found$outcome == "failed") {
      found$note
    } else if (found$nan && !startsWith(name, "NaN ")) {
      "NaN"
    } else if (is.character(found$value) && inherits(found$value, "fuzz_problem")) {
      paste0(found$value)
    }
    if (!is.null(note)) list(check = name, note = note, case = case)
  })
  failures <- Filter(length, failures)
  attr(failures, "checks") <- length(case$checks)
  failures
}

# Writes the name of the check that runs, for the report of a process that hangs or dies.
mark <- function(name) {
  file <- getOption("fuzz.mark")
  if (!is.null(file)) cat(name, file = file)
}

# Removes rows from the case of a failure as long as the failure stays, for up to `seconds`.
shrink <- function(failure, seconds = 5) {
  end <- proc.time()[["elapsed"]] + seconds
  case <- failure$case
  case$checks <- case$checks[failure$check]
  still <- \(case) any(vapply(run_case(case), \(other) same_failure(other, failure), NA))
  rows <- \(x) if (is.null(dim(x))) length(x) else nrow(x)
  keep_rows <- function(data, keep) {
    for (name in intersect(case$by_row, names(data))) {
      x <- data[[name]]
      if (!is.null(x)) data[name] <- list(if (is.null(dim(x))) x[keep] else x[keep, , drop = FALSE])
    }
    data
  }
  size <- rows(case$data[[case$by_row[1]]])
  block <- size %/% 2
  while (block >= 1) {
    at <- 1
    while (at <= size && size > 1 && proc.time()[["elapsed"]] < end) {
      smaller <- case
      smaller$data <- keep_rows(case$data, -(at:min(size, at + block - 1)))
      left <- rows(smaller$data[[case$by_row[1]]])
      if (left > 0 && isTRUE(tryCatch(still(smaller), error = \(e) FALSE))) {
        case <- smaller
        size <- left
      } else {
        at <- at + block
      }
    }
    block <- block %/% 2
  }
  failure$case <- case
  failure
}

same_failure <- function(a, b) a$check == b$check && without_numbers(a$note) == without_numbers(b$note)

without_numbers <- function(note) gsub("-?[0-9]+([.][0-9]+)?(e[+-]?[0-9]+)?|-?Inf", "#", note)

# Returns a script that shows the failure.
snippet <- function(failure) {
  case <- failure$case
  text <- \(x) paste(deparse(x, width.cutoff = 110, control = c("keepNA", "keepInteger", "digits17", "showAttributes")),
    collapse = "\n  ")
  data <- vapply(names(case$data), \(name) paste0(name, " <- ", text(case$data[[name]])), "")
  check <- if (!is.null(case$checks[[failure$check]])) text(case$checks[[failure$check]])
  source <- if (any(grepl("compare_|literal_", check))) {
    'source("bench/fuzz-literal.R")'
  }
  paste(c(source, data, paste0("f <- ", text(case$fit)), check), collapse = "\n  ")
}

# ---- many cases ---------------------------------------------------------------------------------

# Runs the cases and ends R. `kinds` are named functions that make a random case; cases take them in turns.
fuzz <- function(title, kinds, cases) {
  make <- function(number) {
    kind <- (number - 1) %% length(kinds) + 1
    c(kinds[[kind]](), kind = names(kinds)[kind])
  }
  seed <- as.integer(option("--seed", 1))
  cases <- as.integer(option("--cases", cases))
  numbers <- as.integer(option_values("--only", seq_len(cases)))
  seconds <- as.numeric(option("--seconds", Inf))
  limit <- as.numeric(option("--limit", 30))
  cat(title, ": seed ", seed, ", up to ", length(numbers), " cases\n", sep = "")
  start <- proc.time()[["elapsed"]]
  folder <- tempfile("fuzz")
  dir.create(folder)
  causes <- list()
  refusals <- character()
  totals <- c(cases = 0, failed = 0, checks = 0, refused = 0)
  report <- function(number, failures) {
    for (failure in failures) {
      check <- if (grepl("^(error|warning)", failure$note)) "" else paste0(", ", failure$check)
      # the same failure of many cases is shown once
      cause <- paste0(failure$case$kind, check, ": ", without_numbers(failure$note))
      new <- is.null(causes[[cause]])
      causes[[cause]] <<- unique(c(causes[[cause]], number))
      if (new) {
        cat("\ncase ", number, ", ", failure$case$kind, ", ", failure$check, ": ", failure$note, "\n  ", sep = "")
        cat(snippet(failure), "\n", sep = "")
      }
    }
  }
  while (length(numbers) > 0 && proc.time()[["elapsed"]] - start < seconds) {
    batch <- utils::head(numbers, 50)
    done <- run_batch(batch, make, seed, limit, folder)
    for (number in names(done)) {
      found <- done[[number]]
      totals <- totals + c(1, length(found$failures) > 0, found$checks, length(found$refused))
      if (length(found$refused)) refusals <- c(refusals, paste0(found$kind, ": ", without_numbers(found$refused)))
      report(number, found$failures)
    }
    numbers <- setdiff(numbers, as.integer(names(done)))
  }
  taken <- proc.time()[["elapsed"]] - start
  cat("\nrefused by the fit, most often:\n")
  counts <- utils::head(sort(table(refusals), decreasing = TRUE), 12)
  cat(sprintf("  %5d  %s\n", as.vector(counts), substr(names(counts), 1, 160)), sep = "")
  cat(if (length(causes) > 0) "causes of failures:\n", sep = "")
  for (cause in sort(names(causes))) {
    of <- causes[[cause]]
    numbers <- paste(utils::head(of, 5), collapse = ",")
    cat(sprintf("  %5d  %s  (cases %s)\n", length(of), substr(cause, 1, 160), numbers))
  }
  cat(sprintf(
    "%d cases, %d failed, %d refused by the fit; %d checks; %.0f s, seed %d\n", totals[["cases"]], totals[["failed"]],
    totals[["refused"]], totals[["checks"]], taken, seed
  ))
  quit(status = as.integer(totals[["failed"]] > 0))
}

# Runs cases in a forked process and returns a list of results, named by the numbers of the cases that ended. A case
# that takes longer than `limit` or that kills the process is a failure. Cases after it are left to the next call.
run_batch <- function(batch, make, seed, limit, folder) {
  results <- \(number) file.path(folder, sprintf("%d.rds", as.integer(number))) # none for no number
  case_of <- function(number) {
    set.seed(seed * 1000003 %% 2147483 + number, "Mersenne-Twister", "Inversion", "Rejection")
    make(number)
  }
  marked <- file.path(folder, "mark")
  child <- parallel::mcparallel({
    options(fuzz.mark = marked)
    for (number in batch) {
      case <- case_of(number)
      failures <- run_case(case)
      checks <- attr(failures, "checks")
      found <- list(
        failures = c(lapply(utils::head(failures, 3), shrink), utils::tail(failures, -3)),
        checks = if (is.null(checks)) 0 else checks,
        refused = attr(failures, "refused"), kind = case$kind
      )
      part <- paste0(results(number), ".part")
      saveRDS(found, part)
      file.rename(part, results(number))
    }
  }, silent = TRUE)
  last <- proc.time()[["elapsed"]]
  done <- 0
  repeat {
    ended <- !is.null(suppressWarnings(parallel::mccollect(child, wait = FALSE, timeout = 0.2)))
    now <- sum(file.exists(results(batch)))
    if (now > done) last <- proc.time()[["elapsed"]]
    done <- now
    if (ended || done == length(batch)) break
    # shrink() takes up to 5 seconds of each failure
    if (proc.time()[["elapsed"]] - last > limit) {
      tools::pskill(child$pid, tools::SIGKILL)
      break
    }
  }
  if (!ended) suppressWarnings(parallel::mccollect(child))
  finished <- batch[file.exists(results(batch))]
  found <- stats::setNames(lapply(results(finished), readRDS), finished)
  unlink(results(finished))
  if (length(finished) < length(batch)) {
    number <- setdiff(batch, finished)[1]
    note <- if (ended) "the process ended" else paste("no end within", limit, "seconds")
    check <- if (file.exists(marked)) readLines(marked, warn = FALSE) else "process"
    failure <- list(check = check, note = note, case = case_of(number))
    found[[as.character(number)]] <- list(failures = list(failure), checks = 0)
  }
  found
}
