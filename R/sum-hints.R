# Returns the estimated seconds of exact sums if a tolerance would make them short, else NA. `own`: are the points their
# own targets? `share`: the share of the pairs that the sums compute.
seconds_to_save <- function(control, n, m, d, kernel, own, share = 1) {
  .Call(ffi_hint, control, as.double(n), as.double(m), as.double(d), kernel, own, share)
}

# Estimates this share from a sample of the points; it is 1 for points that are not in memory.
pairs_share <- function(sources, at, control) {
  if (is_big(sources$points) || is.function(sources$points)) return(1)
  .Call(ffi_pairs_share, sources, at, control)
}

# Suggests a tolerance, once per session, if the engines estimate that exact sums take long and sums with a tolerance do
# not. `sources` are sampled for the share of pairs that matter, only if all pairs would take long.
suggest_tolerance <- function(control, n, m, d, sources, kernel = sources$kernel, own = FALSE) {
  if (isTRUE(session$tolerance_suggested)) return(invisible())
  if (is.na(seconds_to_save(control, n, m, d, kernel, own))) return(invisible())
  exact <- seconds_to_save(control, n, m, d, kernel, own, pairs_share(sources, NULL, control))
  if (is.na(exact)) return(invisible())
  session$tolerance_suggested <- TRUE
  message(structure(
    class = c("flashkernel_message_tolerance", "flashkernel_message", "message", "condition"),
    list(message = paste0(
      "flashkernel: Exact sums of ", whole(n), " x ", whole(m), " pairs will take about ", time_label(exact),
      ". With `tol = 1e-6` in flash_kde(), predict() or kernel_sum() they may take less than a second. ",
      "(This message appears once per session.)\n"
    ), call = NULL)
  ))
}
