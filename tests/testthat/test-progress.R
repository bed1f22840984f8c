# What is shown while work goes on, and what is said before.

internal <- function(name) get(name, getNamespace("flashkernel"))

test_that("progress is shown where somebody watches, and elsewhere where it is asked for", {
  style <- internal("progress_style")
  before <- options(flashkernel.progress = NULL)
  on.exit(options(before))
  expect_identical(list(style(TRUE), style(FALSE)), list(TRUE, FALSE))
  options(flashkernel.progress = TRUE)
  expect_identical(list(style(TRUE), style(FALSE)), list(TRUE, "lines"))
  options(flashkernel.progress = FALSE)
  expect_identical(list(style(TRUE), style(FALSE)), list(FALSE, FALSE))
})

# Progress of a stage of `seconds`, at the share of `done(share of time)`; returns what it wrote
run_stage <- function(seconds, done = identity, end = 1) {
  progress <- internal("progress_closure")("lines")
  state <- environment(progress)
  lines <- character()
  now <- 100
  state$clock <- \() now
  state$write <- \(...) lines <<- c(lines, paste0(...))
  state$label <- "Summing"
  for (time in seq(0, end, length.out = 400)) {
    now <- 100 + seconds * time
    progress(done(time))
  }
  internal("end_stage")(state)
  lines
}

test_that("a log gets a line now and then, the time left, and the end", {
  lines <- run_stage(100)
  expect_gt(length(lines), 5)
  expect_lt(length(lines), 15)
  expect_match(lines[1], "^[0-9]+% after 3 s, about [0-9]+ s left$")
  expect_match(lines[length(lines)], "^done after (100|101) s$")
  expect_length(run_stage(1.5), 0)
  expect_match(utils::tail(run_stage(100, end = 0.5), 1), "^stopped after 50 s$")
})

test_that("the time left never grows, and is right where the work goes on as it began", {
  countdown <- \(seconds, done) {
    left <- internal("new_countdown")()
    vapply(seq(0.1, seconds, by = 0.1), \(time) left(time, done(time / seconds)), 0)
  }
  shapes <- list(identity, sqrt, \(t) t^2, \(t) round(10 * t) / 10, \(t) pmin(1, 3 * t^3))
  for (shape in shapes) {
    left <- countdown(60, shape)
    shown <- left[!is.na(left)]
    expect_gt(length(shown), 300)
    expect_lte(max(diff(shown)), 0)
    expect_true(all(shown >= 0))
  }
  even <- countdown(60, identity)
  expect_equal(even[100:600], 60 - seq(10, 60, by = 0.1), tolerance = 1e-6)
})

test_that("lines go to standard error where the option asks for them, and only there", {
  skip_if_not_installed("callr")
  work <- function() {
    options(flashkernel.progress = TRUE)
    progress <- flashkernel:::progress_closure()
    environment(progress)$clock <- local({
      now <- 0
      \() now <<- now + 1
    })
    for (fraction in (0:50) / 50) progress(fraction)
  }
  errors <- tempfile()
  callr::r(work, stderr = errors, libpath = .libPaths())
  expect_match(readLines(errors)[1], "^flashkernel: Computing, [0-9]+% after")
  expect_match(utils::tail(readLines(errors), 1), "done after")
})

test_that("a job that a tolerance would make short says so once, and computes nothing for it", {
  session <- internal("session")
  suggest <- internal("suggest_tolerance")
  before <- session$tolerance_suggested
  on.exit(session$tolerance_suggested <- before)
  control <- control_list("cpu", "single", 1)
  session$tolerance_suggested <- NULL
  sources_of <- \(width) internal("sum_sources")(width * example_points(40000, 2), NULL, diag(2))
  wide <- sources_of(1)
  # none: few pairs; many dimensions; a kernel without a fast engine; a tolerance; exact sums asked for; doubles, which
  # the fast engine sums without a tolerance; sources of which few are near each other
  expect_silent(suggest(control, 1e4, 1e4, 2, wide))
  expect_silent(suggest(control, 1e6, 1e6, 16, wide))
  expect_silent(suggest(control, 1e6, 1e6, 2, wide, "laplacian"))
  expect_silent(suggest(replace(control, "tol", 1e-3), 1e6, 1e6, 2, wide))
  expect_silent(suggest(replace(control, "engine", "exact"), 1e6, 1e6, 2, wide))
  expect_silent(suggest(replace(control, "precision", "double"), 1e6, 1e6, 2, wide))
  expect_silent(suggest(control, 1e6, 1e6, 2, sources_of(1e4)))
  expect_message(suggest(control, 1e6, 1e6, 2, wide), "tol = 1e-6", class = "flashkernel_message_tolerance")
  expect_silent(suggest(control, 1e6, 1e6, 2, wide))
})

test_that("one bar covers a search of many sums and never goes back", {
  internal <- getNamespace("flashkernel")
  control <- list(progress = internal$progress_closure(TRUE))
  state <- environment(control$progress)
  state$show <- \(...) NULL # no bar in here
  internal$name_stage(control, "Searching")
  furthest <- numeric()
  for (i in 0:3) for (sum in 1:2) { # two sums a step, each from 0 to 1
    internal$share_stage(control, i / 4, 1 / 4)
    for (fraction in c(0, 0.5, 1)) control$progress(fraction)
    furthest <- c(furthest, state$furthest)
    expect_false(is.null(state$started)) # the end of a sum is not the end of the stage
  }
  expect_equal(furthest, rep(1:4 / 4, each = 2))
  internal$close_progress(control)
  expect_null(state$started)
  for (fraction in c(0, 0.5, 1)) control$progress(fraction) # a stage of one sum ends with it
  expect_null(state$started)
})

test_that("work is silent where nobody watches, and tells its progress in order", {
  x <- example_points(40, 2)
  expect_silent(predict(flash_kde(x, bandwidth = 0.5)))
  seen <- numeric()
  control <- list(
    backend = "cpu", precision = "double", threads = 1L, devices = integer(),
    progress = function(fraction) seen <<- c(seen, fraction)
  )
  log_sum <- get("ffi_log_sum", asNamespace("flashkernel"))
  y <- x[rep(1:40, 250), ]
  sources <- sum_sources(y + 1, NULL, diag(2))
  with_progress <- .Call(log_sum, sources, y, c(1, 0, 0), FALSE, control)$log_abs
  without <- .Call(
    log_sum, sources, y, c(1, 0, 0), FALSE, replace(control, "progress", list(NULL))
  )
  expect_identical(with_progress, without$log_abs)
  expect_gte(length(seen), 1)
  expect_false(is.unsorted(seen))
  expect_true(all(seen >= 0 & seen <= 1))
})
