# Raises an error if `bytes` exceed the memory limit, before the system swaps or kills R. `cure`: advice for the
# message.
check_memory <- function(bytes, arg, cure = "") {
  limit <- getOption("flashkernel.memory_limit")
  if (is.null(limit)) {
    if (bytes < 1e8) return(invisible(bytes))
    limit <- available_memory()
  }
  if (bytes <= limit) return(invisible(bytes))
  needed <- paste0("this call needs about ", format_bytes(bytes), " of memory, ", format_bytes(limit), " are available")
  stop_argument(arg, "is too large: ", needed, cure)
}

# Bytes that a call may use: the option, else the available memory.
memory_limit <- function() getOption("flashkernel.memory_limit", available_memory())

# Available bytes: the minimum over the machine, its control groups and the process. Only Linux reports free memory;
# elsewhere the limit is the machine's memory.
available_memory <- function() {
  min(1024 * number_in("/proc/meminfo", "^MemAvailable:"), cgroup_memory(), address_space(), .Call(ffi_machine_memory))
}

# Bytes that the control group of this process and its parents leave (containers, batch jobs). `root`: mount point of
# the groups; `own`: the file that lists the groups of the process.
cgroup_memory <- function(root = "/sys/fs/cgroup", own = "/proc/self/cgroup") {
  groups <- strsplit(lines_of(own), ":", fixed = TRUE)
  controllers <- lapply(groups, \(group) if (group[2] == "") "" else strsplit(group[2], ",")[[1]])
  path_of <- \(controller) unlist(lapply(groups[vapply(controllers, \(of) controller %in% of, NA)], `[`, 3))
  left <- \(folder, controller, ...) min(vapply(memory_folders(folder, path_of(controller)), group_memory, 0, ...))
  version2 <- \(folder) left(folder, "", "memory.max", "memory.current", "^inactive_file ")
  version1 <- left(
    file.path(root, "memory"), "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "^total_inactive_file "
  )
  min(version2(root), version2(file.path(root, "unified")), version1)
}

# Folders of a group and its parents. A container may see its own group as `root`.
memory_folders <- function(root, path) {
  parts <- unlist(strsplit(as.character(path), "/"))
  Reduce(file.path, parts[!parts %in% c("", "..")], root, accumulate = TRUE)
}

# Bytes that one group leaves. Cached files count as used, but the kernel can free those that were not used lately.
group_memory <- function(folder, limit, used, cached) {
  limit <- number_in(file.path(folder, limit))
  used <- number_in(file.path(folder, used))
  if (is.infinite(limit) || is.infinite(used)) return(Inf)
  cached <- number_in(file.path(folder, "memory.stat"), cached)
  max(limit - used + if (is.finite(cached)) cached else 0, 0)
}

# Bytes that `ulimit -v` leaves: the limit of the address space less the mapped size. `process`: folder in /proc.
address_space <- function(process = "/proc/self") {
  limit <- number_in(file.path(process, "limits"), "^Max address space +[0-9]")
  if (is.infinite(limit)) return(Inf)
  mapped <- 1024 * number_in(file.path(process, "status"), "^VmSize:")
  if (is.finite(mapped)) max(limit - mapped, 0) else limit
}

# The first number of the first matching line of a file; Inf if there is none (as for "max").
number_in <- function(file, pattern = "^[0-9]") {
  line <- grep(pattern, lines_of(file), value = TRUE)
  if (length(line) == 0) Inf else as.double(sub("^[^0-9]*([0-9]+).*$", "\\1", line[1]))
}

lines_of <- function(file) {
  if (file.exists(file)) tryCatch(readLines(file, warn = FALSE), error = \(e) character()) else character()
}

format_bytes <- function(bytes) format(structure(bytes, class = "object_size"), units = "auto", standard = "SI")
