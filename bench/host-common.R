# Times from the user's array to the user's vector, of this package and of other programs on the same points
# (host_to_host.py). For host-to-host.R and bench/paper; sourced after gpu-common.R.

# Seconds of task(points), median of runs one after the other, each with points of its own, which are made before: as
# many as take 2 GB, 5 to 101, and no more (but 3) than `budget` seconds have room for.
median_seconds <- function(points, task, budget = Inf) {
  runs <- max(5, min(101, floor(2e9 / as.numeric(utils::object.size(points)))))
  for (i in 1:3) once <- elapsed(\() task(lapply(points, renew)))
  runs <- max(3, min(runs, floor(budget / once)))
  fresh <- lapply(seq_len(runs), \(i) lapply(points, renew))
  gc(FALSE)
  stats::median(vapply(fresh, \(points) elapsed(\() task(points)), 0))
}

# NA where it is the processor that computes.
on_device <- function(backend, ...) if (backend == "cuda") sum(vapply(list(...), device_seconds, 0)) else NA

# A folder with points for host_to_host.py.
write_points <- function(points) {
  folder <- tempfile("points")
  dir.create(folder)
  for (side in c("x", "y")) writeBin(as.vector(points[[side]]), file.path(folder, paste0(side, ".bin")))
  folder
}

# host_to_host.py with a program ("eager", "compiled", "keops", "sklearn" or "triton=PATH") on folders of points with d
# columns and bandwidths h. list(about, rows): a row for each folder and estimator, with seconds from host to host and
# on the device, or why not; `about` is NULL, and `why` says why, where the program is not to be had.
other_program <- function(program, folders, d, h, estimators, device = "cuda", limit = 20, timeout = 0,
                          budget = 0.5) {
  python <- Sys.getenv("PYTHON", "python3")
  cases <- paste(folders, d, format(h, digits = 15, trim = TRUE), sep = ",")
  given <- c(
    "bench/host_to_host.py", "--device", device, "--limit", limit, "--budget", budget, "--estimators",
    paste(estimators, collapse = ","), program, cases
  )
  # to a file, which processes that outlive Python do not hold open; of R's own libraries Python wants none
  log <- tempfile()
  on.exit(unlink(log))
  within <- if (timeout > 0) c("timeout", "--foreground", "-k", "5", timeout)
  status <- suppressWarnings(system2("env", shQuote(c("LD_LIBRARY_PATH=", "TORCHINDUCTOR_COMPILE_THREADS=1", within, python, given)),
                                     stdout = log, stderr = log))
  said <- readLines(log, warn = FALSE)
  about <- sub("^about ", "", grep("^about ", said, value = TRUE))
  lines <- strsplit(grep("^(seconds|none) ", said, value = TRUE), " ")
  part <- \(i) vapply(lines, `[`, "", i)
  number <- \(i) suppressWarnings(as.numeric(ifelse(part(1) == "seconds", part(i), NA)))
  list(
    about = if (length(about) > 0) about[1], why = if (status == 124) "out of time" else utils::tail(c("Python said nothing", said), 1),
    rows = data.frame(
      folder = part(2), estimator = part(3), host = number(4), device = number(5), queries = number(6), peak = number(7),
      why = vapply(lines, \(line) if (line[1] == "none") paste(line[-(1:3)], collapse = " ") else "", "")
    )
  )
}

# The densities that a program left in a folder.
densities_of <- function(program, folder, estimator) {
  file <- file.path(folder, paste0(sub("=.*", "", program), "-", estimator, ".bin"))
  readBin(file, "double", file.size(file) / 8)
}

relative_l2 <- function(got, want) sqrt(sum((got - want)^2) / sum(want^2))
