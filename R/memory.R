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

# Bytes that a call may use.
memory_limit <- function() getOption("flashkernel.memory_limit", available_memory())

# Linux says what is free; elsewhere what the machine has is a limit, and below it R's own allocation error has to do.
available_memory <- function() {
  min(1024 * number_in("/proc/meminfo", "^MemAvailable:"), cgroup_memory(), .Call(ffi_machine_memory))
}

# What the control group (a container's limit, of version 2) leaves. Cached files count as used there,
# but the kernel gives those it has not used lately back at once.
cgroup_memory <- function(folder = "/sys/fs/cgroup") {
  limit <- number_in(file.path(folder, "memory.max"))
  used <- number_in(file.path(folder, "memory.current"))
  if (is.infinite(limit) || is.infinite(used)) return(Inf)
  cached <- number_in(file.path(folder, "memory.stat"), "^inactive_file ")
  max(limit - used + if (is.finite(cached)) cached else 0, 0)
}

# The number in the first line of a file that matches; Inf where there is none, as in "max".
number_in <- function(file, pattern = "^[0-9]") {
  lines <- if (file.exists(file)) tryCatch(readLines(file, warn = FALSE), error = \(e) character())
  line <- grep(pattern, lines, value = TRUE)
  if (length(line) == 0) Inf else as.double(gsub("[^0-9]", "", line[1]))
}

format_bytes <- function(bytes) format(structure(bytes, class = "object_size"), units = "auto", standard = "SI")
