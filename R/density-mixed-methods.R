# Prints, draws and regions of fits with categories, where they differ from those of numeric data.

# ---- print --------------------------------------------------------------------------------------

# The numbers of dimensions and categorical columns, as text for print().
columns_in_words <- function(object) {
  count <- length(object$discrete$columns)
  numbers <- if (object$d > 0 || count == 0) paste0(object$d, ngettext(object$d, " dimension", " dimensions"))
  levels <- if (count > 0) paste0(count, ngettext(count, " categorical column", " categorical columns"))
  paste(c(numbers, levels), collapse = " and ")
}

print_lambdas <- function(discrete, digits) {
  columns <- discrete$columns
  field <- \(name) vapply(columns, `[[`, "", name)
  how <- ifelse(discrete$chosen, "by likelihood", "given")
  how[lengths(lapply(columns, `[[`, "levels")) == 1] <- "one category"
  most <- most_lambda(columns)
  table <- data.frame(
    kind = field("kind"), categories = vapply(columns, \(column) length(column$levels), 0L),
    kernel = vapply(columns, \(column) LEVEL_KERNELS[[column$kernel]]$title, ""),
    lambda = format(unname(discrete$lambda), digits = digits), limit = format(unname(most), digits = digits),
    how = how, row.names = names(columns)
  )
  cat("Categorical columns, with smoothing parameters from 0 (no smoothing) to the limit:\n")
  print(utils::head(table, 12), right = FALSE)
  if (nrow(table) > 12) cat("... and", nrow(table) - 12, "more\n")
  even <- names(columns)[discrete$lambda >= most & most > 0]
  if (length(even) > 0) cat("At the limit (most smoothing): ", paste(even, collapse = ", "), "\n", sep = "")
}

# Shares of the categories of each column, by weight.
summarise_levels <- function(object) {
  discrete <- object$discrete
  weights <- if (is.null(object$weights)) rep(1, object$n) else object$weights
  lapply(stats::setNames(nm = names(discrete$columns)), function(name) {
    levels <- discrete$columns[[name]]$levels
    share <- vapply(seq_along(levels), \(code) sum(weights[discrete$codes[, name] == code]), 0) / sum(weights)
    stats::setNames(share, levels)
  })
}

print_levels <- function(shares, digits, most = 10) {
  for (name in names(shares)) {
    cat("\nShares of ", name, ":\n", sep = "")
    print(utils::head(shares[[name]], most), digits = digits)
    if (length(shares[[name]]) > most) cat("... and", length(shares[[name]]) - most, "more\n")
  }
}

# ---- points ---------------------------------------------------------------------------------------

# Points as a data frame with the user's columns and categories. `points`: a matrix, with codes as in mixed_points().
points_frame <- function(object, points) {
  if (!is.null(object$discrete)) return(with_dates(decode(points, object$discrete), object$dates))
  frame <- as.data.frame(points)
  names(frame) <- point_names(object)
  with_dates(frame, object$dates)
}

# Draws rows by weight, then adds noise with variance H to numbers, and draws each category from its kernel.
#' @export
draw_estimate.mixed <- function(object, n, inflate = 1) {
  discrete <- object$discrete
  rows <- sample.int(object$n, n, replace = TRUE, prob = object$weights)
  noise <- tcrossprod(matrix(stats::rnorm(n * object$d), n), inflate * fit_factor(object))
  if (!is.null(object$adaptive)) noise <- object$adaptive$factors[rows] * noise
  numbers <- from_origin(object, fit_points(object)[rows, , drop = FALSE] + noise)
  tables <- level_tables(discrete)
  codes <- discrete$codes[rows, , drop = FALSE]
  for (name in colnames(codes)) {
    for (from in sort(unique(codes[, name]))) {
      at <- which(discrete$codes[rows, name] == from)
      share <- tables[[name]][, from]
      codes[at, name] <- sample.int(length(share), length(at), replace = TRUE, prob = share)
    }
  }
  cbind(numbers, codes)
}

# ---- highest density ------------------------------------------------------------------------------

#' @export
log_levels.mixed <- function(object, prob, control, n_samples, seed, panels = 1) {
  levels_by_draws(object, prob, control, n_samples, seed)
}
