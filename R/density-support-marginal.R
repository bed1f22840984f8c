# Marginals and conditionals of a fit on a domain: those of its kernels in working coordinates without copies and
# masses, which are then computed anew for the remaining columns. This is exact, because a kernel with all its copies,
# or divided by its mass, integrates to 1 in a column.

#' @export
marginal_of.bent <- function(object, vars, run) object # of one column

#' @export
marginal_of.supported <- function(object, vars, run) {
  dims <- check_vars(vars, object, "vars")
  domain <- object$support
  check_apart(object, dims)
  x <- object$x[, dims, drop = FALSE]
  on_domain(marginal_of(plain_kernels(object), dims), domain_columns(domain, dims), x, run)
}

#' @export
conditional_where.supported <- function(object, at, run) {
  dims <- at$dims
  values <- at$values
  domain <- object$support
  given <- domain_columns(domain, dims)
  check_inside(given, values, "given")
  values <- to_working(given, values)
  kernels <- plain_kernels(object)
  L <- fit_factor(kernels)
  if (has_masses(domain)) kernels$weights <- kernel_weights(kernels) / fit_masses(kernels, domain, run)
  others <- setdiff(seq_len(object$d), dims)
  seen <- replace(domain, "kind", list(replace(domain$kind, c(others, which(domain$kind == "mass")), "free")))
  imaged <- with_images_of(kernels, seen, run)
  part <- if (all(abs(kernels$bandwidth[others, dims]) == 0)) {
    side <- marginal_of(kernels, dims)
    log_w <- given_log_weights(marginal_of(imaged, dims), values)[, 1]
    if (!is.null(imaged$row)) log_w <- log_sums_by(log_w, imaged$row)
    weigh_points(move_with(kernels, side, dims, values), log_w, "given")
  } else {
    conditional_of(imaged, dims, values) # a given value moves copies in another direction than their points
  }
  left <- domain_columns(domain, others)
  if (has_masses(left)) part$weights <- part$weights * fit_masses(part, left, run)
  on_domain(part, left, from_working(left, part$x), run)
}

check_apart <- function(object, dims) {
  if (length(dims) == object$d) return(invisible())
  domain <- object$support
  check_can(object, "marginal")
  within <- setdiff(which(domain$kind == "mass"), dims)
  if (all(object$bandwidth[within, dims] == 0)) return(invisible())
  why <- "kernels that correlate a column of method = \"mass\" with others have no marginals in closed form"
  stop(new_error("unsupported", why, user_call()))
}

# ---- fits of kernels --------------------------------------------------------------------------

# The fit of the working points alone, with the weights, names and missing rows of the user's.
plain_kernels <- function(object) {
  inner <- object$inner
  if (inner$n > object$n) inner <- inner_rows(inner, seq_len(object$n))
  own <- c("weights", "names", "terms", "variables", "na.action")
  inner[own] <- object[own]
  inner[c("row", "copied")] <- list(NULL)
  inner
}

kernel_weights <- function(fit) if (is.null(fit$weights)) rep(1, fit$n) else fit$weights

fit_masses <- function(fit, domain, run) {
  kernel_masses(domain, from_origin(fit, fit_points(fit)), fit_factor(fit), fit$adaptive$factors, run)
}

# The fit of the user's points `x` on a domain, with the kernels of `part`, a fit of working points.
on_domain <- function(part, domain, x, run) {
  if (all(domain$kind == "free")) return(part)
  object <- unclass(part)
  object$x <- x
  if (!is.null(part$debiased)) object$debiased <- from_working(domain, folded(domain, part$debiased))
  object["centred"] <- list(NULL)
  object$support <- domain
  object$inner <- if (only_transforms(domain)) part else with_images_of(part, domain, run)
  object$inner["na.action"] <- list(NULL)
  structure(supported(object), class = "flash_kde")
}

# Adds the copies and the masses of a domain to a fit of working points.
with_images_of <- function(part, domain, run) {
  if (only_transforms(domain)) return(part)
  points <- from_origin(part, fit_points(part))
  sources <- domain_sources(domain, points, part$weights, fit_factor(part), part$adaptive$factors, run)
  part$x <- sources$points
  if (is_debiased(part)) part$debiased <- sources$points
  part[c("weights", "row", "copied", "centred")] <- list(sources$weights, sources$row, sources$copied, NULL)
  if (!is.null(part$adaptive)) part$adaptive$factors <- sources$factors
  part$n <- nrow(part$x)
  part$plan <- new_plan()
  part
}

# For each number in `of`, 1 and up, the logarithm of the sum of the exponentials.
log_sums_by <- function(log_terms, of) {
  by_size <- order(of, -log_terms)
  top <- log_terms[by_size][!duplicated(of[by_size])]
  top[top == -Inf] <- 0 # points of weight 0
  top + log(rowsum(exp(log_terms - top[of]), of)[, 1])
}
