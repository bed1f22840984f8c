# Records of computations, for diagnostics() of sums, which are plain vectors and matrices. The records are stored here
# and found by the numbers. An attribute would be inherited by 2 * sums, and would make equal sums differ.

session <- new.env(parent = emptyenv())

# A named list of the `most` latest values, with this one first.
with_latest <- function(known, key, value, most) {
  utils::head(c(stats::setNames(list(value), key), known[names(known) != key]), most)
}

# Number of results that have a record.
MOST_RECORDS <- 1000

keep_record <- function(sums, record) {
  entry <- list(identity = identity_of(sums), record = record)
  session$records <- c(list(entry), utils::head(session$records, MOST_RECORDS - 1))
  sums
}

# c(address, hash) of the numbers; NULL if they are not doubles.
identity_of <- function(sums) .Call(ffi_identity, sums)

# The record of `sums`, or NULL. If equal numbers were computed more than once, the one with the same address, else the
# latest.
find_record <- function(sums) {
  identity <- identity_of(sums)
  if (is.null(identity)) return(NULL)
  same <- Filter(\(entry) entry$identity[2] == identity[2], session$records)
  here <- Filter(\(entry) entry$identity[1] == identity[1], same)
  c(here, same)[1][[1]]$record
}
