# What was computed for sums that are plain vectors and matrices. An attribute would cling to all that is made of them,
# as 2 * sums or data.frame(sums), and make any two of them differ; so it is kept here, found by the sums themselves.

session <- new.env(parent = emptyenv())

# A list of the `most` values of late by their keys, with this one first.
with_latest <- function(known, key, value, most) {
  utils::head(c(stats::setNames(list(value), key), known[names(known) != key]), most)
}

# So many of the last results have one.
MOST_RECORDS <- 1000

keep_record <- function(sums, record) {
  entry <- list(identity = identity_of(sums), record = record)
  session$records <- c(list(entry), utils::head(session$records, MOST_RECORDS - 1))
  sums
}

# The address and a key of the numbers; NULL where they are no doubles.
identity_of <- function(sums) .Call(ffi_identity, sums)

# NULL where there is none. The same numbers may have been computed twice, in different ways: then it is the address
# that tells, or else the last counts.
find_record <- function(sums) {
  identity <- identity_of(sums)
  if (is.null(identity)) return(NULL)
  same <- Filter(\(entry) entry$identity[2] == identity[2], session$records)
  here <- Filter(\(entry) entry$identity[1] == identity[1], same)
  c(here, same)[1][[1]]$record
}
