# The progress of long work: a bar on a terminal, lines of text in a log.

# Returns NULL or a function(fraction) that C calls now and then on the main thread. A bar appears if the work takes
# more than a second. It is closed at the end of the stage, or by start_run() after an error or interrupt. A caller of
# run_control() must close it. A stage is one call of C, or several (share_stage()). `wanted`: see progress_style().
progress_closure <- function(wanted = progress_style()) {
  if (isFALSE(wanted)) return(NULL)
  label <- "Computing"
  show <- if (isTRUE(wanted)) show_bar else show_line
  clock <- \() proc.time()[["elapsed"]]
  write <- \(...) cat("flashkernel: ", label, ", ", ..., "\n", file = stderr(), sep = "")
  state <- environment()
  end_stage(state)
  function(fraction) advance_stage(state, fraction)
}

# Ends a stage and resets its state: `written`, seconds at the last line of text; `before`, the fraction done before
# this call of C; `share`, the fraction of this call; `furthest`, the largest fraction shown.
end_stage <- function(state) {
  if (!is.null(state$bar)) cli::cli_progress_done(id = state$bar, .envir = state)
  if (!is.null(state$written)) {
    how <- if (state$furthest >= 0.999) "done" else "stopped"
    state$write(how, " after ", time_label(state$clock() - state$started))
  }
  list2env(list(bar = NULL, written = NULL, left = "", started = NULL, before = 0, share = 1, furthest = 0), state)
  invisible()
}

advance_stage <- function(state, fraction) {
  now <- state$clock()
  if (is.null(state$started)) {
    state$started <- now
    state$countdown <- new_countdown()
  }
  # never decreases, although a share may take several calls
  state$furthest <- max(state$furthest, state$before + state$share * fraction)
  if (state$share == 1 && fraction >= 1) return(end_stage(state))
  if (now - state$started < 0.2) return(invisible())
  seconds <- state$countdown(now - state$started, state$furthest)
  state$left <- if (is.na(seconds)) "" else paste0(", about ", time_label(seconds), " left")
  # C takes an error here for an interrupt, and a failing bar must not stop the work
  tryCatch(state$show(state, min(state$furthest, 0.99)), error = \(e) NULL)
  invisible()
}

# Writes a line after 2 s, and then at growing intervals.
show_line <- function(state, fraction) {
  seconds <- state$clock() - state$started
  if (seconds < (if (is.null(state$written)) 2 else min(1.5 * state$written, state$written + 60))) return()
  state$write(floor(100 * fraction), "% after ", time_label(seconds), state$left)
  state$written <- seconds
}

show_bar <- function(state, fraction) {
  if (is.null(state$bar)) {
    # made early, but shown late
    old <- options(cli.progress_show_after = 0.8)
    on.exit(options(old))
    format <- "{label} {cli::pb_bar} {cli::pb_percent}{left}"
    state$bar <- cli::cli_progress_bar(state$label, total = 100, format = format, .auto_close = FALSE, .envir = state)
  }
  cli::cli_progress_update(set = 100 * fraction, id = state$bar, .envir = state)
}

# TRUE: a bar, on a terminal or in an interactive session. "lines": lines of text on stderr, only if the option
# flashkernel.progress is TRUE. FALSE: nothing.
progress_style <- function(watched = is_watched()) {
  wanted <- getOption("flashkernel.progress")
  if (isFALSE(wanted)) return(FALSE)
  if (watched) TRUE else if (isTRUE(wanted)) "lines" else FALSE
}

# Cached for the session, as the test takes as long as a small sum.
is_watched <- function() {
  if (is.null(session$watched)) session$watched <- interactive() || isatty(stderr())
  session$watched
}

# Returns a function(seconds, fraction) that estimates the seconds left, NA at first. The estimate never grows. To be
# cautious, it uses the smaller of the overall rate and the recent rate.
new_countdown <- function() {
  least <- Inf
  last <- c(0, 0)
  rate <- NA
  function(seconds, fraction) {
    if (seconds - last[1] >= 0.5) {
      now <- (fraction - last[2]) / (seconds - last[1])
      rate <<- if (is.na(rate)) now else 0.7 * rate + 0.3 * now
      last <<- c(seconds, fraction)
    }
    if (seconds < 1.5 || fraction < 0.02 || is.na(rate)) return(NA_real_)
    least <<- min(least, (1 - fraction) / min(rate, fraction / seconds))
    least
  }
}

close_progress <- function(control) if (!is.null(control$progress)) end_stage(environment(control$progress))

# Sets the label of the bar for the next calls with this control.
name_stage <- function(control, label) {
  if (!is.null(control$progress)) {
    close_progress(control)
    environment(control$progress)$label <- label
  }
  invisible(control)
}

# The next calls are the fraction `share` of the stage, after the fraction `before`.
share_stage <- function(control, before, share) {
  if (!is.null(control$progress)) list2env(list(before = before, share = share), environment(control$progress))
  invisible(control)
}

# Divides the current stage or share into parts: `part(before, share)` is share_stage() within it, `end()` restores it.
nested_share <- function(control) {
  progress <- if (!is.null(control$progress)) environment(control$progress)
  # on a worker there is no bar
  if (is.null(progress$share)) return(list(part = \(before, share) NULL, end = \() NULL))
  own <- list(before = progress$before, share = progress$share)
  list(
    part = \(before, share) share_stage(control, own$before + own$share * before, own$share * share),
    end = \() if (own$share == 1) close_progress(control) else share_stage(control, own$before, own$share)
  )
}

# Seconds as text, rounded up.
time_label <- function(seconds) {
  if (seconds < 120) return(paste(ceiling(seconds), "s"))
  if (seconds < 6000) return(paste(ceiling(seconds / 60), "min"))
  paste(whole(ceiling(seconds / 3600)), "h")
}
