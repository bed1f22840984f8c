# Points in single precision, as objects of class float32 of the package float hold them: the bits of floats in
# integers. Sums read these as they are; whoever computes with points in R has them widened (as_points()). The package
# itself is not needed.

is_float32 <- function(x) inherits(x, "float32")

# A matrix of floats, with the methods that points need on their way to C.
single_points <- function(bits) structure(list(bits = bits), class = "single_points")

as_single <- function(x) single_points(if (is.matrix(x@Data)) x@Data else matrix(x@Data, ncol = 1))

# Converts to a double matrix, column by column, as writeBin() takes at most 2^31 bytes.
widen <- function(points, arg) {
  bits <- points$bits
  check_memory(8 * length(bits), arg)
  n <- nrow(bits)
  columns <- vapply(seq_len(ncol(bits)), \(k) readBin(writeBin(bits[, k], raw()), "double", n, size = 4), numeric(n))
  matrix(columns, n, ncol(bits), dimnames = if (!is.null(colnames(bits))) list(NULL, colnames(bits)))
}

#' @export
dim.single_points <- function(x) dim(x$bits)

#' @export
length.single_points <- function(x) length(x$bits)

#' @export
dimnames.single_points <- function(x) dimnames(x$bits)

#' @export
`[.single_points` <- function(x, i, j, drop = FALSE) single_points(x$bits[i, j, drop = FALSE])
