# A fit that can be gone on with after its process was stopped: what it had chosen, and where its solver was, in a file.

# Seconds between two writings; the first iteration is always written, so that a file that cannot be is known early.
CHECKPOINT_SECONDS <- 60

check_checkpoint <- function(checkpoint, arg) {
  good <- is.character(checkpoint) && length(checkpoint) == 1 && !is.na(checkpoint) && nzchar(checkpoint)
  if (!good) stop_argument(arg, "must be the name of a file: found ", describe(checkpoint))
  if (!dir.exists(dirname(checkpoint))) stop_argument(arg, "must be in a folder that exists: found ", quote_text(checkpoint))
  checkpoint
}

# What the file holds, for the same task (NULL: for any); NULL where there is none yet.
read_checkpoint <- function(checkpoint, task = NULL) {
  if (is.null(checkpoint) || !file.exists(checkpoint)) return(NULL)
  found <- tryCatch(suppressWarnings(readRDS(checkpoint)), error = \(e) NULL)
  if (!is.list(found) || !identical(found$format, CHECKPOINT_FORMAT)) {
    stop_argument("checkpoint", "must be a file of kernel_ridge(): found another file, ", quote_text(checkpoint))
  }
  if (!is.null(task) && !identical(found$task, task)) {
    stop_argument("checkpoint", "was written by a call with other rows or arguments. Use another file, or delete it.")
  }
  found
}

CHECKPOINT_FORMAT <- "flashkernel falkon 3"

# By what a task is known again: numbers that the user gave, and a few that change with the data.
checkpoint_task <- function(spec, rows, response, weights, offset) {
  given <- spec[c("kernel", "bandwidth", "lambda", "center_method", "loss", "intercept", "exact")]
  corner <- rows_take(rows, unique(c(1, rows$n)))
  c(given, list(
    n = rows$n, d = rows$d, corner = as.vector(corner), y = column_sums(response$y), squares = column_sums(response$y^2),
    weights = c(sum(weights), sum(weights^2)), offset = c(sum(offset), sum(offset^2)),
    centers = if (length(spec$centers) < 10) as.vector(spec$centers) else c(length(spec$centers), sum(spec$centers))
  ))
}

# The numbers that the first run chose, as if they had been given. A start has centres of its own.
resume_choices <- function(spec, found) {
  if (is.null(found)) return(spec)
  choices <- found$choices
  if (!is.null(spec$start)) choices$centers <- NULL
  spec[names(choices)] <- choices
  spec$state <- found$state
  spec
}

# Rows that the first run drew to hold out, of n; NULL where they are to be drawn.
resume_held <- function(checkpoint, n) {
  held <- read_checkpoint(checkpoint)$choices$held
  if (length(held) > 0 && max(held) <= n) held
}

# A function that solvers call with their state after each iteration; NULL: none is asked for. `chosen`: what the fit
# chose besides bandwidth and lambda.
checkpoint_writer <- function(spec, task, chosen = NULL) {
  if (is.null(spec$checkpoint)) return(NULL)
  choices <- c(spec[c("bandwidth", "lambda", "exact", "chosen", "held", "centers_given")], chosen)
  written <- -Inf
  function(state) {
    now <- proc.time()[["elapsed"]]
    if (now - written < CHECKPOINT_SECONDS) return(invisible())
    written <<- now
    write_checkpoint(list(format = CHECKPOINT_FORMAT, task = task, choices = choices, state = state), spec$checkpoint)
  }
}

# The same with what was watched.
watched_save <- function(spec, watch) {
  if (is.null(spec$save)) return(NULL)
  function(state) {
    # a link that is on workers is made anew
    if (is_column(state$point$f)) state$point["f"] <- list(NULL)
    spec$save(replace(state, "watch", list(watch$seen())))
  }
}

# The file is the old one or the new one, also where this is interrupted.
write_checkpoint <- function(content, file) {
  beside <- paste0(file, ".new")
  tryCatch(
    { saveRDS(content, beside, compress = FALSE); file.rename(beside, file) },
    error = \(e) stop_argument("checkpoint", "could not be written: ", shorten(conditionMessage(e), 200))
  )
}
