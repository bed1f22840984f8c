# What the package says by itself, once per session.

# Where a job takes more than 5 s exactly, and by a tolerance less than 1 s by the engines' own guesses. `own`: are the
# points their own targets?
suggest_tolerance <- function(control, n, m, d, kernel = "gaussian", own = FALSE) {
  # no guess of a job that is small on any machine
  if (as.double(n) * m * (d + 11) < 1e10 || isTRUE(session$tolerance_suggested)) return(invisible())
  if (isTRUE(control$tol > 0) || identical(control$engine, "exact")) return(invisible())
  exact <- guess_seconds(control, n, m, d, kernel, "exact", 0) / if (own) 2 else 1
  # guesses without the points take it that few of them are neighbours in more than three dimensions
  fast <- guess_seconds(control, n, m, d, kernel, "fast", 1e-6) * 2.5^max(0, d - 3)
  if (!isTRUE(exact > 5 && fast < 1)) return(invisible())
  session$tolerance_suggested <- TRUE
  message(structure(
    class = c("flashkernel_message_tolerance", "flashkernel_message", "message", "condition"),
    list(message = paste0(
      "flashkernel: exact sums of ", whole(n), " x ", whole(m), " pairs will take about ", time_label(exact),
      ". With an argument `tol = 1e-6`, of flash_kde(), predict() and kernel_matvec(), it may be less than a second. ",
      "(Said once per session.)\n"
    ), call = NULL)
  ))
}

# In words, rounded up.
time_label <- function(seconds) {
  if (seconds < 120) return(paste(ceiling(seconds), "s"))
  if (seconds < 6000) return(paste(ceiling(seconds / 60), "min"))
  paste(whole(ceiling(seconds / 3600)), "h")
}
