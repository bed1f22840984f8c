# install_gpu(), and where the GPU engine is: a shared object that C opens when a GPU is first used (src/core/plugin.h).

GPU_FILE <- paste0("flashkernel-gpu", .Platform$dynlib.ext)

# The folder of the package's libraries, and that of install_gpu().
gpu_folders <- function() {
  own <- file.path(getNamespaceInfo("flashkernel", "path"), "libs", .Platform$r_arch)
  c(sub("/$", "", own), tools::R_user_dir("flashkernel", "data"))
}

# The file of the engine, "" where there is none. A file that FLASHKERNEL_GPU names need not exist: gpu_info() says so.
gpu_file <- function() {
  named <- Sys.getenv("FLASHKERNEL_GPU")
  if (nzchar(named)) return(path.expand(named))
  places <- file.path(gpu_folders(), GPU_FILE)
  c(places[file.exists(places)], "")[1]
}

# Tells C where the engine is. Opens nothing. Returns whether an engine is open, which then stays.
find_gpu <- function() .Call(ffi_gpu_use, gpu_file())

#' @rdname gpu_info
#' @param file A file of the engine, which needs no network. `NULL`: download `url`.
#' @param url `NULL`: the release of this version.
#' @param sha256 The checksum. `NULL`: read it from `url` or `file` with `.sha256` appended.
#' @param ask Ask before a download?
#' @export
install_gpu <- function(file = NULL, url = NULL, sha256 = NULL, ask = interactive()) {
  for (arg in c("file", "url", "sha256")) {
    value <- get(arg)
    check_is(is.null(value) || is.character(value) && length(value) == 1 && !is.na(value), value, arg, "NULL or one string")
  }
  ask <- check_flag(ask, "ask")
  if (is.null(file)) {
    file <- tempfile(fileext = .Platform$dynlib.ext)
    on.exit(unlink(paste0(file, c("", ".sha256"))))
    if (!download_gpu(if (is.null(url)) release_of_gpu() else url, file, sha256, ask)) return(invisible())
  } else if (!utils::file_test("-f", file)) {
    stop_argument("file", "must be the path of a file: found ", encodeString(file, quote = "\""))
  }
  check_sha256(file, sha256)
  place_gpu(file)
}

# The address of the release file. Until DESCRIPTION names a repository, there is no release.
release_of_gpu <- function() {
  about <- utils::packageDescription("flashkernel")
  home <- grep("^https://github[.]com/", strsplit(paste(about$URL), "[, \n]+")[[1]], value = TRUE)
  if (length(home) == 0) no_release("this version has no release with a GPU engine")
  machine <- paste0(tolower(Sys.info()[["sysname"]]), "-", R.version$arch, .Platform$dynlib.ext)
  paste0(sub("/$", "", home[1]), "/releases/download/v", about$Version, "/flashkernel-gpu-", machine)
}

no_release <- function(why) {
  stop_argument("file", "is needed: ", why, "; build the engine by tools/gpu-plugin of the sources, and name the file")
}

# Says what will be downloaded, asks, and downloads it with its checksum. FALSE: the user does not want it.
download_gpu <- function(url, file, sha256, ask) {
  fetch <- function(from, to) {
    status <- tryCatch(suppressWarnings(utils::download.file(from, to, mode = "wb", quiet = TRUE)), error = identity)
    if (!identical(status, 0L)) no_release(paste(from, "cannot be downloaded"))
  }
  sizes <- tryCatch(suppressWarnings(curlGetHeaders(url, timeout = 20)), error = \(e) character())
  size <- as.numeric(sub("^content-length: *([0-9]+).*", "\\1", grep("^content-length:", sizes, TRUE, value = TRUE), TRUE))
  message(
    "The GPU engine of flashkernel", if (length(size) > 0) paste0(", ", format_bytes(size[length(size)])), ": ", url, "\n",
    "It is under the license of flashkernel (MIT), and contains the CUDA runtime, which is under NVIDIA's license:\n",
    "https://docs.nvidia.com/cuda/eula/"
  )
  if (ask && !isTRUE(utils::askYesNo("Should it be downloaded and installed?", FALSE))) return(FALSE)
  if (is.null(sha256)) fetch(paste0(url, ".sha256"), paste0(file, ".sha256"))
  fetch(url, file)
  TRUE
}

# sha256: the digits, or NULL for those in the file beside it, where there is one.
check_sha256 <- function(file, sha256) {
  beside <- paste0(file, ".sha256")
  if (is.null(sha256)) {
    if (!file.exists(beside)) return(invisible())
    sha256 <- sub("[[:space:]].*", "", readLines(beside, 1, warn = FALSE))
  }
  found <- .Call(ffi_sha256, path.expand(file))
  if (!identical(found, tolower(sha256))) {
    stop_argument("sha256", "must be the checksum of the file: found ", found, " in place of ", encodeString(sha256))
  }
}

# Copies the file to the user's folder if this package can use it. An earlier file stays until then, and processes that
# have opened it keep it.
place_gpu <- function(file) {
  folder <- gpu_folders()[2]
  dir.create(folder, FALSE, TRUE)
  part <- tempfile("gpu-", folder, .Platform$dynlib.ext)
  on.exit(unlink(part))
  if (!file.copy(file, part)) stop_argument("file", "cannot be copied to ", folder, ": make room there")
  .Call(ffi_gpu_try, part)
  to <- file.path(folder, GPU_FILE)
  if (!file.rename(part, to)) stop_argument("file", "cannot replace ", to, ", which another process has opened")
  message("Installed ", to)
  if (gpu_file() != to) message(gpu_file(), " is used before it.")
  if (find_gpu()) message("An engine is already open: the new one serves from the next start of R on.")
  invisible(to)
}
