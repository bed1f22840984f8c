# Tables of the measured rows: set, d, n, split, selector, seconds, density, spread, floored, error, failure.

markdown <- function(table) {
  if (is.null(table)) return(cat("none\n\n"))
  text <- vapply(table, \(column) {
    trimws(if (is.numeric(column)) format_short(column) else column)
  }, character(nrow(table)))
  text <- rbind(names(table), strrep("-", 3), matrix(text, nrow(table)))
  cat(paste0("| ", apply(text, 1, paste, collapse = " | "), " |\n"), "\n", sep = "")
}

format_short <- function(x) ifelse(is.na(x), "", formatC(x, digits = 3, format = "g"))

# The losses of a cell, a row for each split and a column for each selector, without gaps: of selectors that never
# failed, those with so many splits that most numbers are left. An unfinished run has more splits of some than of
# others.
cell_splits <- function(rows, loss) {
  failed <- rows$selector[!is.na(rows$failure) | !is.finite(rows[[loss]])]
  rows <- rows[!rows$selector %in% failed, ]
  wide <- tapply(rows[[loss]], rows[c("split", "selector")], mean)
  counts <- colSums(!is.na(wide))
  without_gaps <- \(least) {
    kept <- wide[, counts >= least, drop = FALSE]
    kept[rowSums(is.na(kept)) == 0, , drop = FALSE]
  }
  choices <- lapply(sort(unique(counts), decreasing = TRUE), without_gaps)
  if (length(choices) == 0) wide else choices[[which.max(lengths(choices))]]
}

paired_se <- function(difference) stats::sd(difference) / sqrt(length(difference))

# Rows of each set and n.
cells_of <- function(rows) {
  split(rows, paste0(rows$set, "; ", format(rows$n, big.mark = ",", trim = TRUE, scientific = FALSE)))
}

# A line for each cell: the mean of the first of `columns`, and of the others with the paired standard error of their
# difference.
table_of_sets <- function(rows, loss, columns) {
  cells <- cells_of(rows)
  lines <- lapply(names(cells), \(name) {
    splits <- cell_splits(cells[[name]], loss)
    here <- intersect(columns, colnames(splits))
    text <- stats::setNames(rep("", length(columns)), columns)
    for (column in here) {
      text[column] <- sprintf("%.3f", mean(splits[, column]))
      se <- paired_se(splits[, column] - splits[, here[1]])
      if (column != here[1] && is.finite(se)) text[column] <- paste0(text[column], sprintf(" (%.3f)", se))
    }
    failed <- setdiff(intersect(columns, cells[[name]]$selector[!is.na(cells[[name]]$failure)]), here)
    text[failed] <- "failed"
    if (ncol(splits) == 0) return(NULL)
    data.frame(`set, n` = name, splits = nrow(splits), as.list(text), check.names = FALSE)
  })
  markdown(do.call(rbind, lines))
}

# Each of `own` beside the best of `peers` of each cell, and beside every selector.
table_of_wins <- function(rows, loss, own, peers) {
  lines <- lapply(own, \(name) {
    found <- lapply(cells_of(rows), \(cell) {
      splits <- cell_splits(cell, loss)
      here <- intersect(peers, colnames(splits))
      if (!name %in% colnames(splits) || length(here) == 0) return(NULL)
      best <- here[which.max(colMeans(splits[, here, drop = FALSE]))]
      difference <- splits[, name] - splits[, best]
      c(mean(difference), paired_se(difference), mean(splits[, name]) - max(colMeans(splits)))
    })
    found <- do.call(rbind, found)
    if (is.null(found)) return(NULL)
    worst <- which.min(found[, 1])
    data.frame(
      selector = name, cells = nrow(found), better = sum(found[, 1] > 0),
      `within 1 se` = sum(found[, 1] <= 0 & found[, 1] >= -found[, 2], na.rm = TRUE),
      worse = sum(found[, 1] < -found[, 2], na.rm = TRUE), median = stats::median(found[, 1]),
      worst = found[worst, 1], `worst cell` = rownames(found)[worst],
      `to the best of all` = stats::median(found[, 3]), check.names = FALSE
    )
  })
  markdown(do.call(rbind, lines))
}

# Over cells: the geometric mean and the largest of the error over that of the cell's best selector, by means over
# splits.
table_of_errors <- function(rows) {
  found <- lapply(cells_of(rows[is.finite(rows$error), ]), \(cell) {
    means <- colMeans(cell_splits(cell, "error"))
    data.frame(cell = paste0(cell$set[1], "; ", cell$n[1]), selector = names(means), ratio = means / min(means))
  })
  found <- do.call(rbind, found)
  lines <- lapply(split(found, found$selector), \(one) {
    data.frame(
      selector = one$selector[1], cells = nrow(one), ratio = exp(mean(log(one$ratio))),
      median = stats::median(one$ratio), `over 1.5` = sum(one$ratio > 1.5), worst = max(one$ratio),
      `worst cell` = one$cell[which.max(one$ratio)], check.names = FALSE
    )
  })
  lines <- do.call(rbind, lines)
  markdown(lines[order(lines$ratio), ])
}

table_of_seconds <- function(rows) {
  rows <- rows[!is.na(rows$seconds), ]
  wide <- tapply(rows$seconds, list(rows$selector, paste0("d = ", rows$d, "; ", rows$n)), stats::median)
  order <- unique(rows[order(rows$d, rows$n), c("d", "n")])
  wide <- wide[, paste0("d = ", order$d, "; ", order$n), drop = FALSE]
  markdown(data.frame(selector = rownames(wide), wide, check.names = FALSE))
}

table_of_failures <- function(rows) {
  rows <- rows[!is.na(rows$failure), ]
  if (nrow(rows) == 0) return(invisible())
  counts <- stats::aggregate(split ~ selector + set + n + failure, rows, length)
  cat("## Failed\n\n")
  markdown(data.frame(
    counts[c("selector", "set", "n")], times = counts$split,
    failure = gsub("|", "/", substr(counts$failure, 1, 80), fixed = TRUE)
  ))
}
