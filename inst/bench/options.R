# What follows the name of a script on the command line. Sourced by common.R, and by itself where the package may be
# missing or another build of it is to be loaded.

arguments <- commandArgs(TRUE)

# The value after `--name`; option_values(): several, with commas between.
option <- function(name, default = NULL) {
  value <- arguments[match(name, arguments) + 1]
  if (is.na(value) || startsWith(value, "--")) default else value
}

option_values <- function(name, default = NULL) {
  value <- option(name)
  if (is.null(value)) default else strsplit(value, ",", fixed = TRUE)[[1]]
}
