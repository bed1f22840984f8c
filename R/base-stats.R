# Statistics of sums, as diagnostics() reports them: combining those of several computations, and texts.

joined_stats <- function(a, b) if (is.null(a)) b else if (is.null(b)) a else add_stats(a, b)

# Combines the statistics of two sums at different targets. Only a sum on a GPU has device_seconds.
add_stats <- function(a, b) {
  for (name in c("pairs", "skipped", "seconds", "tail_rows", "device_seconds")) {
    b[[name]] <- sum(a[[name]], b[[name]], na.rm = name == "device_seconds")
  }
  for (name in STATS_OF_ERRORS) b[[name]] <- max(a[[name]], b[[name]])
  b$workers <- add_accounts(a$workers, b$workers)
  b
}

STATS_OF_ERRORS <- c("tol_achieved", "tol_bound")

# Combines the statistics of two sums that are added, at the same targets; `a` may be NULL. With a global tolerance the
# errors add up: each is relative to the largest sum of its part, and the largest total is no smaller.
add_part_stats <- function(a, b, control) {
  if (is.null(a)) return(b)
  all <- add_class_stats(a, b)
  if (control$tol_type == "global") for (name in STATS_OF_ERRORS) all[[name]] <- a[[name]] + b[[name]]
  all
}

# add_stats(), where the engine is "fast" if one of them is.
add_class_stats <- function(a, b) {
  all <- add_stats(a, b)
  if (a$engine == "fast") all$engine <- "fast"
  all
}

# Share of the pairs that were computed; the others are negligible. 1 for statistics of earlier versions.
kept_share <- function(stats) if (isTRUE(stats$skipped > 0)) 1 - stats$skipped / stats$pairs else 1

# Adds the accounts of two computations by the same workers.
add_accounts <- function(a, b) {
  if (is.null(a) || is.null(b)) return(if (is.null(a)) b else a)
  if (nrow(a) != nrow(b)) return(b)
  sums <- unclass(b)
  for (name in c("requests", "rows", "seconds", "bytes")) sums[[name]] <- a[[name]] + b[[name]]
  structure(sums, class = "data.frame")
}

device_share <- function(stages) {
  seconds <- stages$device_seconds
  if (all(is.na(seconds))) return(NULL)
  paste0(" (", format(sum(seconds, na.rm = TRUE), digits = 2), " s on the device)")
}

where_label <- function(record) {
  on_device <- record$backend == "cuda"
  devices <- c(ngettext(length(record$devices), ", device ", ", devices "), paste(record$devices, collapse = ", "))
  paste0(
    record$backend, " (", record$device, if (on_device) paste(devices, collapse = ""), "), ", record$engine, ", ",
    record$precision, " precision", if (!on_device) paste0(", ", record$isa, ", ", threads_label(record$threads))
  )
}

threads_label <- function(threads) paste0(threads, ngettext(threads, " thread", " threads"))

# Names of the two ends of an interval, as "2.5 %".
limit_names <- function(level) {
  paste(format(100 * c(1 - level, 1 + level) / 2, trim = TRUE, scientific = FALSE, digits = 3), "%")
}
