# The seconds of exact sums where a tolerance would make them short, else NA. `own`: are the points their own targets?
# `share`: of the pairs, that these sums compute.
seconds_to_save <- function(control, n, m, d, kernel, own, share = 1) {
  .Call(ffi_hint, control, as.double(n), as.double(m), as.double(d), kernel, own, share)
}

# The same share, by a sample of points in memory.
pairs_share <- function(sources, at, control) {
  if (is_big(sources$points) || is.function(sources$points)) return(1)
  .Call(ffi_pairs_share, sources, at, control)
}

# Where a job would take long exactly, and by a tolerance be short, by the engines' own guesses. `own`: are the points
# their own targets? `sources`: of which a sample tells how many pairs are near enough to matter, asked for where all
# would take long.
suggest_tolerance <- function(control, n, m, d, sources, kernel = sources$kernel, own = FALSE) {
  if (isTRUE(session$tolerance_suggested)) return(invisible())
  if (is.na(seconds_to_save(control, n, m, d, kernel, own))) return(invisible())
  exact <- seconds_to_save(control, n, m, d, kernel, own, pairs_share(sources, NULL, control))
  if (is.na(exact)) return(invisible())
  session$tolerance_suggested <- TRUE
  message(structure(
    class = c("flashkernel_message_tolerance", "flashkernel_message", "message", "condition"),
    list(message = paste0(
      "flashkernel: exact sums of ", whole(n), " x ", whole(m), " pairs will take about ", time_label(exact),
      ". With `tol = 1e-6` in flash_kde(), predict() or kernel_sum() they may take less than a second. ",
      "(This message appears once per session.)\n"
    ), call = NULL)
  ))
}
