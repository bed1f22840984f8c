# Predicates of where points are: in memory, in a big.matrix or in the shards of a flash_data().

is_remote <- function(x) inherits(x, "flash_data")

is_elsewhere <- function(x) is_big(x) || is_remote(x)

has_remote_weights <- function(object) is_remote(object$x) && object$x$has[["weights"]]

is_big <- function(x) is.object(x) && inherits(x, "big.matrix")

whole <- function(number) format(number, scientific = FALSE, big.mark = ",", trim = TRUE)

# Adds `where` to the message of an argument error in `expression`, as row numbers in it count within that part.
in_place <- function(where, expression) {
  tryCatch(expression, flashkernel_error_argument = function(error) {
    error$message <- paste0(error$message, " (of ", where, ")")
    stop(error)
  })
}

join_brought <- function(parts) {
  if (length(parts) == 0) return(NULL)
  do.call(if (is.null(dim(parts[[1]]))) c else rbind, parts)
}

is_column <- function(x) inherits(x, "shard_column")
