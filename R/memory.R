# Refuses, in words, what the machine cannot hold, before the system starts to swap or kills R.
check_memory <- function(bytes, arg) {
  limit <- getOption("flashkernel.memory_limit")
  if (is.null(limit)) {
    if (bytes < 1e8) return(invisible(bytes))
    limit <- available_memory()
  }
  if (bytes > limit) {
    stop_argument(
      arg, "is too large: this call needs about ", format_bytes(bytes), " of memory, ",
      format_bytes(limit), " are available"
    )
  }
  invisible(bytes)
}

available_memory <- function() {
  # Linux only; elsewhere R's own allocation error has to do.
  if (!file.exists("/proc/meminfo")) return(Inf)
  line <- grep("^MemAvailable:", readLines("/proc/meminfo", n = 10), value = TRUE)
  if (length(line) == 0) return(Inf)
  as.double(gsub("[^0-9]", "", line)) * 1024
}

format_bytes <- function(bytes) format(structure(bytes, class = "object_size"), units = "auto")
