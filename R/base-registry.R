# Operations of workers, by name. Each part of the package registers its own when it is loaded, so that store-*.R need
# not refer to the parts above it.

# Operations on a shard; store-cluster-operations.R describes an entry.
WORKER_OPERATIONS <- new.env(parent = emptyenv())

add_operations <- function(...) invisible(list2env(list(...), WORKER_OPERATIONS))

# Values of columns at the rows of a shard; store-column-values.R describes an entry.
COLUMN_VALUES <- new.env(parent = emptyenv())

add_column_values <- function(...) invisible(list2env(list(...), COLUMN_VALUES))
