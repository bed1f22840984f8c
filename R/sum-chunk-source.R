# Reads tables that may be larger than memory: the sources, coefficients and targets of kernel_sum().
#
# A table is a matrix of doubles or floats from check_points(), which is one piece, or a big.matrix, whose rows are
# checked when they are read. Sources may also come from a function that returns chunks.

# Returns the bytes of points in memory at a time.
chunk_bytes <- function() {
  check_bytes(getOption("flashkernel.chunk_bytes", 2^27), "options(flashkernel.chunk_bytes)", min = 8)
}

check_table <- function(x, arg, d = NULL, names = NULL) {
  if (is_remote(x)) return(x)
  if (is_big(x)) check_big(x, arg) else check_points(x, arg, d, names, single = TRUE)
}

check_big <- function(x, arg) {
  if (!requireNamespace("bigmemory", quietly = TRUE)) {
    stop_argument(arg, "is a big.matrix: install the package bigmemory to use it")
  }
  # the address is nil after readRDS()
  if (bigmemory::is.nil(x@address)) {
    stop_argument(arg, "must be attached by bigmemory::attach.big.matrix(): found a big.matrix of another session")
  }
  if (nrow(x) == 0) stop_argument(arg, "must have at least one row: found none")
  x
}

# Returns the pieces of a table as list(c(first, last), ...).
row_pieces <- function(table, size) {
  n <- nrow(table)
  if (is_big(table)) pieces_of(n, size) else list(c(1, n))
}

pieces_of <- function(n, size) {
  first <- seq(1, n, by = size)
  Map(c, first, pmin(first + size - 1, n))
}

# Returns the rows first to last of a table as a matrix. All rows of a matrix are returned without a copy.
read_rows <- function(table, piece, arg, d = NULL, names = NULL) {
  all <- piece[1] == 1 && piece[2] == NROW(table)
  if (all && !is_big(table)) return(table)
  if (is.null(dim(table))) return(table[piece[1]:piece[2]])
  rows <- table[piece[1]:piece[2], , drop = FALSE]
  if (!is_big(table)) return(rows)
  where <- paste("rows", whole(piece[1]), "to", whole(piece[2]))
  in_place(where, check_points(rows, arg, d, names))
}

# ---- sources ----------------------------------------------------------------------------------

# Makes a function that returns the next chunk of sources, list(points, columns, is_vector), and NULL after the last.
# `columns`: the coefficients times the weights; `is_vector`: were they given as a vector? `b`: a checked table, or NULL
# for ones or for the coefficients in the chunks. `job`: of sum_job().
source_chunks <- function(sources, b, job) {
  x <- sources$points
  weights <- sources$weights
  next_points <- if (job$once) called_chunks(x, job$d, job$names) else table_chunks(x, job$d, job$names, job$size)
  before <- 0
  width <- NULL
  function() {
    chunk <- next_points()
    if (is.null(chunk)) {
      check_used(before, b, weights)
      return(NULL)
    }
    piece <- before + c(1, nrow(chunk$points))
    before <<- piece[2]
    columns <- in_place_of(chunk, chunk_columns(chunk, b, piece, width))
    width <<- n_sums(columns)
    if (!is.null(weights)) {
      check_covered("weights", length(weights), piece)
      share <- weights[piece[1]:piece[2]]
      columns <- if (is.null(columns)) share else columns * share
    }
    list(points = chunk$points, columns = columns, is_vector = is.null(dim(chunk$b)))
  }
}

# Makes an object that reads chunks in their order, by the function that `open()` returns. peek() returns the current
# chunk, drop() goes to the next one, and rewind() starts again, unless the chunks can be read only `once`.
chunk_source <- function(open, once) {
  next_chunk <- open()
  ahead <- NULL
  at_start <- TRUE
  list(
    peek = function() {
      if (is.null(ahead)) ahead <<- next_chunk()
      ahead
    },
    drop = function() {
      ahead <<- NULL
      at_start <<- FALSE
    },
    rewind = function() {
      if (once || at_start) return(invisible())
      next_chunk <<- open()
      ahead <<- NULL
      at_start <<- TRUE
    }
  )
}

table_chunks <- function(x, d, names, size) {
  pieces <- row_pieces(x, size)
  number <- 0
  function() {
    number <<- number + 1
    if (number <= length(pieces)) list(points = read_rows(x, pieces[[number]], "x", d, names))
  }
}

# Makes a function that returns the next chunk of the user's function `x`, see ?kernel_sum. `brings`: names of elements
# that chunks may have besides the points; `d` and `names`: the columns that they must have, or NULL for those of the
# first chunk; `like`: where these come from, for messages; `none`: the problem if there is no chunk; `arg`: the name of
# the user's argument.
called_chunks <- function(x, d, names, brings = "b", like = "`y`", none = NULL, arg = "x") {
  number <- 0
  function() {
    number <<- number + 1
    chunk <- in_function_of_user(arg, x(), paste("failed at chunk", number))
    if (is.null(chunk) && number == 1) {
      stop_argument(arg, if (is.null(none)) "must return at least one chunk: found none" else none)
    }
    if (is.null(chunk)) return(NULL)
    if (is.data.frame(chunk) || !is.list(chunk)) chunk <- list(x = chunk)
    where <- paste("chunk", number)
    in_place(where, {
      if (is.null(chunk$x) || !all(names(chunk) %in% c("x", brings))) {
        stop_argument(arg, "must return matrices or lists of ", paste0("`", c("x", brings), "`", collapse = " and "),
          ": found ", describe_list(chunk))
      }
      points <- check_points(chunk$x, arg, d, names, like = like, single = TRUE)
      if (is.null(d)) {
        d <<- ncol(points)
        names <<- colnames(points)
      }
      c(list(points = points, where = where), chunk[setdiff(names(chunk), "x")])
    })
  }
}

describe_list <- function(list) {
  if (is.null(names(list))) "a list without names" else paste("a list of", quote_names(names(list)))
}

in_place_of <- function(chunk, expression) {
  if (is.null(chunk$where)) expression else in_place(chunk$where, expression)
}

# Returns the coefficients of a chunk, or NULL for ones. `piece`: its rows among all sources; `width`: the number of
# columns in earlier chunks.
chunk_columns <- function(chunk, b, piece, width) {
  n <- nrow(chunk$points)
  if (!is.null(chunk$b) && !is.null(b)) stop_argument("b", "must be NULL if the chunks of `x` have coefficients")
  if (is.null(b)) {
    columns <- if (!is.null(chunk$b)) check_coefficients(chunk$b, n)
  } else {
    check_covered("b", NROW(b), piece)
    columns <- read_rows(b, piece, "b")
  }
  if (!is.null(width) && n_sums(columns) != width) {
    stop_argument("b", "must have ", width, ngettext(width, " column", " columns"),
      " in every chunk: found ", n_sums(columns))
  }
  columns
}

# Returns the number of sums for coefficients `b`: one for each column, and 1 for NULL (whose NCOL() is 0 since R 4.4).
n_sums <- function(b) if (is.null(b)) 1L else NCOL(b)

check_covered <- function(arg, length, piece) {
  if (length < piece[2]) {
    stop_argument(arg, "must have one row per row of `x`, at least ", whole(piece[2]), ": found ", whole(length))
  }
}

# Checks that `b` and `weights` have no more rows than the `n` sources.
check_used <- function(n, b, weights) {
  given <- c(b = if (!is.null(b)) NROW(b), weights = if (!is.null(weights)) length(weights))
  surplus <- which(given != n)
  if (length(surplus) > 0) {
    stop_argument(
      names(given)[surplus[1]], "must have one row per row of `x`, ", whole(n), ": found ",
      whole(given[[surplus[1]]])
    )
  }
}

# ---- results ----------------------------------------------------------------------------------

check_out <- function(out) {
  if (is.null(out) || is.function(out)) return(out)
  if (!is_big(out)) {
    stop_argument("out", "must be NULL, a big.matrix or a function(rows, values): found ", describe(out))
  }
  check_big(out, "out")
  type <- bigmemory::typeof(out)
  if (!type %in% c("double", "float")) {
    stop_argument("out", "must be a big.matrix of type double or float: found ", type)
  }
  if (bigmemory::is.readonly(out)) stop_argument("out", "must be writable: found a read-only big.matrix")
  out
}

check_out_size <- function(out, m, width) {
  if (is_big(out) && !identical(as.double(dim(out)), as.double(c(m, width)))) {
    stop_argument(
      "out", "must have the dimensions of the sums, ", whole(m), " x ", width, ": found ", whole(nrow(out)),
      " x ", ncol(out)
    )
  }
}

# Writes the sums of the rows of a piece to `out`, a big.matrix or a function.
write_rows <- function(out, piece, sums) {
  rows <- piece[1]:piece[2]
  if (is.function(out)) {
    in_function_of_user("out", out(rows, sums), paste("failed at rows", whole(piece[1]), "to", whole(piece[2])))
  } else {
    # no warning about the conversion to floats, which the user requested
    before <- options(bigmemory.typecast.warning = FALSE)
    on.exit(options(before))
    out[rows, ] <- sums
  }
}

# Returns some rows of a vector, a matrix or NULL.
numbers_at <- function(x, rows) if (is.null(dim(x))) x[rows] else x[rows, , drop = FALSE]
