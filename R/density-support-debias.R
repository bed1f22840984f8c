# Debiases working points; copies move with their points. A point that would leave bounds of method "mass" stays where
# it was, because the probability of its kernel inside would be tiny.
debias_inside <- function(domain, imaged, bandwidths, factors, control, arg) {
  debias <- debias_points(imaged, bandwidths, factors, control, arg)
  if (!has_masses(domain)) return(debias)
  of_masses <- replace(domain, "kind", list(ifelse(domain$kind == "mass", "mass", "free")))
  left <- which(!inside_domain(of_masses, debias$debiased))
  debias$debiased[left, ] <- imaged$points[left, ]
  if (!is.null(debias$centred)) {
    debias$centred$points[left, ] <- shift_points(imaged$points, debias$centred$centre, -1)[left, ]
  }
  debias
}

# The fit on the domain, around the fit `inner` of working points.
fit_around <- function(inner, domain, data, call, formula) {
  n <- nrow(data$points)
  object <- unclass(inner)
  debiased <- if (!is.null(inner$debiased)) folded(domain, inner$debiased[seq_len(n), , drop = FALSE])
  own <- list(
    call = call, n = n, x = data$points, names = colnames(data$points), weights = data$weights,
    debiased = if (!is.null(debiased)) from_working(domain, debiased), centred = NULL,
    terms = formula$terms, variables = formula$variables, na.action = data$omitted,
    plan = NULL, row = NULL, copied = NULL
  )
  object[names(own)] <- own
  if (!is.null(inner$adaptive)) object$adaptive$factors <- inner$adaptive$factors[seq_len(n)]
  object$support <- domain
  object$inner <- inner
  if (is_bent(domain)) object$support$log_total <- log(bent_of(object, fit_control(inner))$total)
  structure(supported(object), class = "flash_kde")
}
