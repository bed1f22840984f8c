# Views of points, as C has them: rows of a larger matrix, in doubles or in floats. src/tests sums over them.

# To the nearest float, as doubles.
to_floats <- function(x) {
  x[] <- readBin(writeBin(as.vector(x), raw(), size = 4), "double", length(x), size = 4)
  x
}

# The points as all of a matrix, and as rows of one whose other rows are no numbers.
whole_view <- function(x) list(of = x, first = 1L, n = nrow(x), single = FALSE)
inner_view <- function(x, single = FALSE, before = 3, after = 2) {
  rows <- \(n) matrix(NaN, n, ncol(x))
  list(of = rbind(rows(before), x, rows(after)), first = before + 1L, n = nrow(x), single = single)
}

view_control <- function(engine = "exact", backend = "cpu", precision = "double", tol = 0, tol_type = "global") {
  list(
    backend = backend, precision = precision, threads = 2L, devices = integer(), progress = NULL, engine = engine,
    tol = tol, tol_type = tol_type, device_memory = NULL, method = asNamespace("flashkernel")$session$method
  )
}

# Checks that `sum(view_of_x, view_of_y)` is the same for all views of the sources, of the targets and of both, in
# either type. `y`: NULL where the sources are the targets.
expect_same_of_views <- function(x, y, sum, where) {
  x <- to_floats(x)
  if (!is.null(y)) y <- to_floats(y)
  view_y <- \(view, ...) if (!is.null(y)) view(y, ...)
  want <- sum(whole_view(x), view_y(whole_view))
  testthat::expect_false(is.null(want), label = where)
  for (single in c(FALSE, TRUE)) {
    told <- paste0(where, ", rows of ", if (single) "floats" else "doubles")
    expect_identical(sum(inner_view(x, single), view_y(whole_view)), want, label = told)
    if (is.null(y)) next
    expect_identical(sum(whole_view(x), view_y(inner_view, single)), want, label = paste(told, "as targets"))
    expect_identical(
      sum(inner_view(x, single), view_y(inner_view, single, 0, 70)), want, label = paste(told, "both")
    )
  }
}

sums_of_views <- function(L, kernel, b, control, what = "sums") {
  \(x, y) c_unit("sums", x, y, L, kernel, b, control, what)$sums
}

