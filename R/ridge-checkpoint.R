# Checkpoint files: the choices of a fit and the state of its solver, from which a later call continues.

# Seconds between two writes. The first iteration is always written, so that an unwritable file fails early.
CHECKPOINT_SECONDS <- 60

check_checkpoint <- function(checkpoint, arg) {
  good <- is.character(checkpoint) && length(checkpoint) == 1 && !is.na(checkpoint) && nzchar(checkpoint)
  if (!good) stop_argument(arg, "must be the name of a file: found ", describe(checkpoint))
  if (!dir.exists(dirname(checkpoint))) stop_argument(arg, "must be in a folder that exists: found ", quote_text(checkpoint))
  checkpoint
}

# Returns the content of the file, or NULL if there is no file. It is an error if the file is of another `task` (NULL:
# any task is accepted).
read_checkpoint <- function(checkpoint, task = NULL) {
  if (is.null(checkpoint) || !file.exists(checkpoint)) return(NULL)
  found <- tryCatch(suppressWarnings(readRDS(checkpoint)), error = \(e) NULL)
  if (!is.list(found) || !identical(found$format, CHECKPOINT_FORMAT)) {
    stop_argument("checkpoint", "must be a file of kernel_ridge(): found another file, ", quote_text(checkpoint))
  }
  if (!is.null(task) && !identical(found$task, task)) {
    stop_argument("checkpoint", "is from a call with other rows or arguments. Use another file, or delete it.")
  }
  found
}

CHECKPOINT_FORMAT <- "flashkernel falkon 3"

# Identifies a task by the user's arguments and by a few values that depend on the data.
checkpoint_task <- function(spec, rows, response, weights, offset) {
  given <- spec[c("kernel", "metric", "bandwidth", "lambda", "center_method", "class_weights", "intercept", "exact")]
  corner <- rows_take(rows, unique(c(1, rows$n)))
  c(given, list(
    family = spec$family[c("family", "loss")], n = rows$n, d = rows$d, corner = as.vector(corner), y = column_sums(response$y), squares = column_sums(response$y^2),
    weights = c(sum(weights), sum(weights^2)), offset = c(sum(offset), sum(offset^2)),
    centers = if (length(spec$centers) < 10) as.vector(spec$centers) else c(length(spec$centers), sum(spec$centers))
  ))
}

# Puts the choices of the first run into `spec`, as if the user had given them. A warm start has its own centres.
resume_choices <- function(spec, found) {
  if (is.null(found)) return(spec)
  choices <- found$choices
  if (!is.null(spec$start)) choices$centers <- NULL
  spec[names(choices)] <- choices
  spec$state <- found$state
  spec
}

# Indices of the rows that the first run held out, of n; NULL if they have to be drawn.
resume_held <- function(checkpoint, n) {
  held <- read_checkpoint(checkpoint)$choices$held
  if (length(held) > 0 && max(held) <= n) held
}

# A function that solvers call with their state after each iteration, or NULL without a checkpoint. `chosen`: choices of
# the fit other than kernel, bandwidth and lambda.
checkpoint_writer <- function(spec, task, chosen = NULL) {
  if (is.null(spec$checkpoint)) return(NULL)
  choices <- c(spec[c("kernel", "bandwidth", "lambda", "exact", "chosen", "held", "centers_given")], chosen)
  written <- -Inf
  function(state) {
    now <- proc.time()[["elapsed"]]
    if (now - written < CHECKPOINT_SECONDS) return(invisible())
    written <<- now
    write_checkpoint(list(format = CHECKPOINT_FORMAT, task = task, choices = choices, state = state), spec$checkpoint)
  }
}

# A save function whose states also have the trace of `watch`.
watched_save <- function(spec, watch) {
  if (is.null(spec$save)) return(NULL)
  function(state) {
    # a link on workers is recomputed
    if (is_column(state$point$f)) state$point["f"] <- list(NULL)
    spec$save(replace(state, "watch", list(watch$seen())))
  }
}

# Writes atomically: after an interrupt the file is the old or the new one.
write_checkpoint <- function(content, file) {
  beside <- paste0(file, ".new")
  tryCatch(
    { saveRDS(content, beside, compress = FALSE); file.rename(beside, file) },
    error = \(e) stop_argument("checkpoint", "could not be written: ", shorten(conditionMessage(e), 200))
  )
}
