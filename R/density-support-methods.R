# What print() and figures know of a domain.

print_support <- function(domain) {
  if (is.null(domain)) return(invisible())
  bounded <- which(domain$kind != "free")
  if (!is.null(domain$polygon)) bounded <- 1
  of <- if (is.null(domain$polygon) && length(domain$kind) > 1) {
    paste0(domain$names[bounded], ifelse(domain$kind[bounded] == "circular", " ", " in "))
  }
  range <- \(k) c(domain$lower[k], domain$upper[k])
  ranges <- vapply(bounded, \(k) describe_range(domain$kind[k], range(k), domain$polygon), "")
  text <- paste0("Support: ", paste0(of, ranges, collapse = "; "))
  if (any(is_transformed(domain))) text <- paste0(text, ". The bandwidth is that of ", working_labels(domain))
  cat(strwrap(text, exdent = 2), sep = "\n")
}

# "log(income)".
working_labels <- function(domain) {
  k <- which(is_transformed(domain))
  name <- domain$names[k]
  low <- domain$lower[k]
  high <- domain$upper[k]
  number <- \(x) vapply(x, format, "")
  above <- ifelse(low == 0, name, paste(name, "-", number(low)))
  bracketed <- ifelse(low == 0, name, paste0("(", above, ")"))
  share <- ifelse(high - low == 1, above, paste(bracketed, "/", number(high - low)))
  label <- ifelse(
    high == Inf, paste0("log(", above, ")"),
    ifelse(low == -Inf, paste0("-log(", number(high), " - ", name, ")"), paste0("qnorm(", share, ")"))
  )
  paste(label, collapse = ", ")
}

# For the line under a title: of what the sd is, where that is not the column itself.
working_note <- function(domain) {
  if (!is.null(domain) && identical(is_transformed(domain), TRUE)) paste(" of", working_labels(domain))
}

inner_rows <- function(inner, rows) {
  inner$weights <- inner$weights[rows]
  inner$row <- inner$row[rows]
  take_points(inner, rows)
}

# ---- figures ----------------------------------------------------------------------------------

# What is shown of the working column, within the domain.
#' @export
shown_range.supported <- function(object, axis, margin = GRID_MARGIN) {
  domain <- domain_columns(object$support, axis)
  if (domain$kind == "circular") return(c(domain$lower, domain$upper))
  inner <- object$inner
  own <- which(used_rows(object))
  # three sds of a logarithm would be far away
  reach <- if (is_transformed(domain)) 1 else margin
  factors <- if (is.null(inner$adaptive)) 1 else inner$adaptive$factors[own]
  reach <- reach * bandwidth_sds(inner$bandwidth)[axis] * factors
  centres <- shown_points(inner)[own, axis]
  work <- c(min(centres - reach), max(centres + reach))
  rows <- range(object$x[own, axis])
  shown <- if (is_transformed(domain)) out_of_column(work, domain, 1) else work
  # out of a transformed column the reach grows with the value: at most half of the data's range beyond them
  if (is_transformed(domain)) shown <- pmin(pmax(shown, rows[1] - diff(rows) / 2), rows[2] + diff(rows) / 2)
  pmin(pmax(range(shown, rows), domain$lower), domain$upper)
}

# Even nodes, and where the column is transformed those that are even there.
#' @export
shown_nodes.supported <- function(object, axis, lim, size, step = 1 / 2) {
  domain <- domain_columns(object$support, axis)
  inner <- object$inner
  if (!is_transformed(domain)) return(shown_nodes(inner, axis, lim, size, step))
  work <- into_column(pmin(pmax(lim, domain$lower), domain$upper), domain, 1)
  reach <- GRID_MARGIN * bandwidth_sds(inner$bandwidth)[axis] * max(inner$adaptive$factors, 1)
  reach <- range(shown_points(inner)[used_rows(inner), axis]) + c(-1, 1) * reach
  nodes <- shown_nodes(inner, axis, pmin(pmax(work, reach[1]), reach[2]), size, step)
  nodes <- sort(unique(c(seq(lim[1], lim[2], length.out = size), out_of_column(nodes, domain, 1))))
  nodes[c(TRUE, diff(nodes) > 1e-9 * diff(lim))]
}

# What a figure shows of a density of column `dim`, values `grid` of it: of one that grows without limit at a
# bound, up to half as much again as 90% of the points have.
density_limits <- function(fit, grid, dim = 1) {
  all <- range(0, grid$y)
  if (is.null(fit$support) || !is_transformed(fit$support)[dim]) return(all)
  x <- fit$x[thinned_rows(fit, 1000L), dim]
  usual <- stats::quantile(stats::approx(grid$x, grid$y, x, rule = 2)$y, 0.9, names = FALSE)
  c(all[1], min(all[2], 1.5 * usual))
}
