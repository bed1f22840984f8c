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
  if (any(is_transformed(domain))) text <- paste0(text, ". Bandwidths are those of ", working_labels(domain))
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

# ---- marginals --------------------------------------------------------------------------------

# figure_marginal() on a support: the integral of the inner estimate over the domain of the other columns. What images in these
# columns add is what leaves the domain there, and so without them each kernel has its mass 1. `map`: what
# log_marginal() needs beside.
marginal_on_support <- function(object, dims, n_panels, to_tol) {
  inner <- object$inner
  domain <- domain_columns(object$support, dims)
  if (length(dims) < object$d) {
    others <- inner$copied[, -dims, drop = FALSE]
    if (!is.null(others)) inner <- inner_rows(inner, which(rowSums(others) == 0))
    if (has_masses(object$support)) inner$weights <- marginal_weights(object, inner, domain, dims)
  }
  out <- figure_marginal(inner, dims, n_panels, to_tol)
  out$data <- object$x[used_rows(object), dims, drop = FALSE]
  own <- seq_len(object$n)[used_rows(object)]
  out$map <- list(
    domain = domain, log_share = log(total_weight(inner)) - log(total_weight(object)),
    exact = if (is_bent(domain)) object,
    centres = unname(shown_points(inner)[own, dims, drop = FALSE]), weights = inner$weights[own],
    factors = inner$adaptive$factors[own]
  )
  out
}

inner_rows <- function(inner, rows) {
  inner$weights <- inner$weights[rows]
  inner$row <- inner$row[rows]
  take_points(inner, rows)
}

# Masses of kernels in these columns alone.
marginal_weights <- function(object, inner, domain, dims) {
  row <- if (is.null(inner$row)) seq_len(object$n) else inner$row
  weights <- if (is.null(object$weights)) rep(1, object$n) else object$weights
  H <- inner$bandwidth[dims, dims, drop = FALSE]
  centres <- shown_points(inner)[seq_len(object$n), dims, drop = FALSE]
  factors <- inner$adaptive$factors[seq_len(object$n)]
  masses <- kernel_masses(domain, centres, lower_factor(H, "bandwidth"), factors, fit_control(object))
  (weights / masses)[row]
}

# log_marginal() on a domain.
log_marginal_inside <- function(marginal, at, factor) {
  map <- marginal$map
  inside <- inside_domain(map$domain, at)
  found <- list(log_abs = rep(-Inf, nrow(at)), negative = if (marginal$signed) logical(nrow(at)))
  if (!any(inside)) return(found)
  work <- to_working(map$domain, at[inside, , drop = FALSE])
  part <- if (!is.null(map$exact)) {
    log_at_working(map$exact, work, marginal$control, factor)
  } else {
    sums <- log_sum(marginal$sources, work, factor, FALSE, marginal$control)
    jacobian <- log_jacobian(map$domain, work)
    log_abs <- sums$log_abs + marginal$log_norm + map$log_share + jacobian
    replace(sums, "log_abs", list(ifelse(is.infinite(jacobian), -Inf, log_abs)))
  }
  found$log_abs[inside] <- part$log_abs
  if (!is.null(part$negative)) found$negative[inside] <- part$negative
  found
}

draw_marginal_inside <- function(marginal, n) {
  map <- marginal$map
  if (!is.null(map$exact)) return(draw_estimate(map$exact, n))
  from_working(map$domain, draw_in_domain(map$domain, map$centres, map$weights, marginal$lower, n, map$factors))
}

# ---- grids ------------------------------------------------------------------------------------

# What a figure shows of one column: what grid_range() shows of the working one, within the domain.
grid_range_inside <- function(marginal, axis) {
  domain <- domain_columns(marginal$map$domain, axis)
  polygon <- marginal$map$domain$polygon
  if (!is.null(polygon)) return(range(ring_sides(polygon)[, axis]))
  if (domain$kind == "circular") return(c(domain$lower, domain$upper))
  centres <- marginal$map$centres[, axis]
  # three sds of a logarithm would be far away
  margin <- if (is_transformed(domain)) 1 else GRID_MARGIN
  reach <- margin * marginal$sds[axis] * if (is.null(marginal$map$factors)) 1 else marginal$map$factors
  work <- c(min(centres - reach), max(centres + reach))
  shown <- if (is_transformed(domain)) out_of_column(work, domain, 1) else work
  pmin(pmax(range(shown, marginal$data[, axis]), domain$lower), domain$upper)
}

# Even nodes, and where the column is transformed those that are even there.
nodes_inside <- function(marginal, axis, lim, size, step) {
  domain <- domain_columns(marginal$map$domain, axis)
  marginal$map <- NULL
  if (!is_transformed(domain)) return(marginal_nodes(marginal, axis, lim, size, step))
  work <- into_column(pmin(pmax(lim, domain$lower), domain$upper), domain, 1)
  reach <- range(marginal$x[, axis]) + c(-1, 1) * GRID_MARGIN * marginal$sds[axis] * max(marginal$factors, 1)
  nodes <- marginal_nodes(marginal, axis, pmin(pmax(work, reach[1]), reach[2]), size, step)
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
