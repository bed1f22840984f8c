# The posterior of a fit as a Bayesian model: coefficients alpha ~ N(0, tau^2 K_mm^-1), noise of variance sigma^2 / w_i,
# and n lambda = sigma^2 / tau^2, so that the fit is the posterior mean. The posterior variance is sigma^2 times
#   (K_mn W K_nm + n lambda K_mm)^-1 = R R',
# R and the inverse of the factor of K_mm are computed when first needed, and cached in the state of the fit. Sums over
# rows use blocks of columns of K_nm R: no n x m matrix is in memory. For logistic loss the Hessian replaces the matrix
# (Laplace's approximation), with the second derivatives of the losses as W, and sigma is 1. With more than two classes
# the second derivatives couple the columns of the link: all coefficients have one R, with m rows for each class. If
# that would be too large, each class has its own R, as if the coefficients of the others were known.

# list(prior_root, parts, columns, joint): with T'T = K_mm + jitter, `prior_root` is T^-1. `parts` has one element for
# all outputs or one for each: list(root, edf, log_det, weights), where root is R, edf is tr(H) and log_det is that of
# I + N^-1 K (in a joint posterior of all classes: in the first part). For an exact fit T'T = K + N, there is no R, and
# `parts` have the `leverage` of the rows. Without a factorisation edf is an estimate (ridge-exact-posterior.R).
posterior_of <- function(fit, run) {
  if (!fit$family$has_likelihood) {
    stop_argument(
      "object", "must have a family with a likelihood for standard errors and degrees of freedom: found ",
      fit$family$family
    )
  }
  if (is.null(fit$state$posterior)) {
    is_exact <- fit$exact && fit$family$squared
    fit$state$posterior <- if (is_exact) exact_posterior(fit, run) else center_posterior(fit, run_in_double(run))
  }
  fit$state$posterior
}

center_posterior <- function(fit, run) {
  data <- kept_data(fit)
  columns <- fit_columns(fit)
  m <- columns$m
  check_memory(8 * 5 * m^2, "object")
  name_stage(run, "Standard errors")
  P <- preconditioner_of(columns, run, max(fit$jitter, 1e-13))
  prior_root <- apply_factors(P, diag(m), "T^-1")
  needs_kernels <- is_joint(fit) || !has_all_rows(fit)
  rows <- if (needs_kernels) rows_with_kernels(data$rows, columns, fit, run)
  if (is_joint(fit)) {
    return(list(prior_root = prior_root, parts = joint_parts(fit, rows, columns, P, run), columns = columns, joint = TRUE))
  }
  parts <- lapply(row_curvatures(fit, run), \(weights) {
    B <- if (has_all_rows(fit)) {
      list(P = precondition(P, weights, 1 / fit$n, fit$lambda), factor = "A")
    } else {
      inner <- information(rows, columns, P, weights, run) / fit$n
      list(P = new_preconditioner(inner, run, 1e-15, diagonal = fit$lambda), factor = "T")
    }
    inverse <- apply_factors(B$P, diag(m), paste0(B$factor, "^-1"))
    list(
      root = apply_factors(P, inverse, "T^-1") / sqrt(fit$n), edf = m - fit$lambda * sum(inverse^2),
      log_det = log_det(B$P, B$factor) - m * log(fit$lambda), weights = weights
    )
  })
  list(prior_root = prior_root, parts = parts, columns = columns, joint = FALSE)
}

# Are the centres the rows? Then T W T' is the matrix of information(), in the time of a factorisation.
has_all_rows <- function(fit) length(fit$center_index) == fit$n && all(fit$center_index == seq_len(fit$n))

# Largest number of coefficients of all classes with a joint posterior, which factorises a matrix of this order.
MOST_JOINT <- 4000

is_joint <- function(fit) {
  t <- ncol(fit$coefficients)
  fit$family$of_classes && t > 1 && t * nrow(fit$coefficients) <= MOST_JOINT
}

# The joint posterior: W is D = diag(p) - p p' of each row, with a block K_mn D_kl K_nm for each pair of classes.
joint_parts <- function(fit, rows, columns, P, run) {
  m <- columns$m
  p <- link_probabilities(link_of_rows(fit, run))
  scale <- if (is.null(fit$data$weights)) 1 else fit$data$weights
  t <- ncol(p)
  check_memory(8 * 4 * (m * t)^2, "object")
  of <- \(k) (k - 1) * m + seq_len(m)
  inner <- matrix(0, m * t, m * t)
  for (k in seq_len(t)) for (l in seq_len(k)) {
    W <- scale * p[, k] * ((k == l) - p[, l])
    block <- information(rows, columns, P, W, run) / fit$n
    inner[of(k), of(l)] <- block
    inner[of(l), of(k)] <- t(block)
  }
  B <- new_preconditioner(inner, run, 1e-15, diagonal = fit$lambda)
  inverse <- apply_factors(B, diag(m * t), "T^-1")
  lapply(seq_len(t), \(k) {
    own <- inverse[of(k), , drop = FALSE]
    list(
      root = apply_factors(P, own, "T^-1") / sqrt(fit$n), edf = m - fit$lambda * sum(own^2),
      log_det = if (k == 1) log_det(B) - m * t * log(fit$lambda) else 0
    )
  })
}

# For a joint posterior, the sum of f(U) over blocks of columns of R, where U is the list of K_nm R_k, one for each
# class.
sum_joint <- function(rows, posterior, run, f) {
  roots <- lapply(posterior$parts, `[[`, "root")
  t <- length(roots)
  sums <- 0
  for (block in blocks_of(ncol(roots[[1]]), max(1, 128 %/% t))) {
    v <- do.call(cbind, lapply(roots, \(root) root[, block, drop = FALSE]))
    u <- rows_multiply(rows, posterior$columns, v, run)$sums
    sums <- sums + f(lapply(seq_len(t), \(k) u[, (k - 1) * length(block) + seq_along(block), drop = FALSE]))
  }
  sums
}

# D U for each row and class: p_k (U_k - sum_l p_l U_l).
bent_links <- function(U, p) {
  classes <- seq_len(ncol(p))
  mean <- Reduce(`+`, lapply(classes, \(k) p[, k] * U[[k]]))
  lapply(classes, \(k) p[, k] * (U[[k]] - mean))
}

# Weights W of the rows in the information matrix: list(W), or one W for each column of the link.
row_curvatures <- function(fit, run) {
  weights <- fit$data$weights
  if (fit$family$squared) return(list(weights))
  if (!fit$family$of_classes) {
    bent <- row_loss("curvature", fit$family$loss, link_of_rows(fit, run), fit$data$y, run)
    return(list(if (is.null(weights)) bent else weights * bent))
  }
  p <- link_probabilities(link_of_rows(fit, run))
  if (ncol(fit$coefficients) == 1) p <- p[, 2, drop = FALSE]
  scale <- if (is.null(weights)) 1 else weights
  lapply(seq_len(ncol(p)), \(k) scale * p[, k] * (1 - p[, k]))
}

exact_posterior <- function(fit, run) {
  system <- exact_system_of(fit, run)
  exact_way(system)$posterior(fit, system, run)
}

posterior_by_factor <- function(fit, system, run) {
  system$run <- run_in_double(run)
  check_memory(8 * 3 * system$n^2, "object")
  name_stage(run, "Standard errors")
  P <- exact_factor(system)
  root <- apply_factors(P, diag(system$n), "T^-1")
  of_system <- list(own = rowSums(root^2), x = root %*% colSums(root), log_det = log_det(P) - sum(log(system$noise)))
  replace(direct_posterior(fit, system, of_system), "prior_root", list(root))
}

# From the diagonal of A^-1, A^-1 1 and log det(I + N^-1 K).
direct_posterior <- function(fit, system, found) {
  leverage <- replace(numeric(fit$n), system$index, 1 - system$noise * found$own)
  fit$state$ones <- replace(numeric(fit$n), system$index, system$noise * found$x)
  part <- list(edf = sum(leverage), log_det = found$log_det, weights = fit$data$weights, leverage = leverage)
  list(prior_root = NULL, parts = list(part), columns = system$centers)
}

posterior_by_solves <- function(fit, system, run) {
  found <- estimated_traces(fit, run)
  if (is.null(fit$state$ones)) fit$state$ones <- replace(numeric(fit$n), system$index, found$ones)
  part <- c(found[c("edf", "edf_error")], list(weights = fit$data$weights))
  list(prior_root = NULL, parts = list(part), columns = system$centers)
}

# The posterior with `prior_root`: of an exact fit by states it is computed when first needed.
factorised_posterior <- function(fit, run) {
  posterior <- posterior_of(fit, run)
  if (!is.null(posterior$prior_root)) return(posterior)
  if (is.null(fit$state$factorised)) {
    system <- exact_system_of(fit, run)
    if (!is_factorised(system)) stop_unfactorised(fit)
    fit$state$factorised <- posterior_by_factor(fit, system, run)
  }
  fit$state$factorised
}

# |k_i R|^2 for each row i, in blocks of columns of R.
squared_norms <- function(rows, columns, root, run) {
  sums <- numeric(rows$n)
  for (block in blocks_of(ncol(root), 128)) {
    sums <- sums + rowSums(rows_multiply(rows, columns, root[, block, drop = FALSE], run)$sums^2)
  }
  sums
}

# k(x, x) for each row.
kernel_diagonal <- function(rows, L, kernel, run) {
  if (is_stationary(kernel)) return(rep(1, rows$n))
  of <- \(points) diag(kernels_between(NULL, points, L, kernel, run))
  rows_fold(rows, \(done, points, first) {
    c(done, unlist(lapply(blocks_of(nrow(points), 128), \(block) of(points[block, , drop = FALSE]))))
  }, NULL)
}

# ---- standard errors --------------------------------------------------------------------------

# Standard errors of the link at rows, n x t: sigma sqrt(k'R R'k + (k(x, x) - k'K_mm^-1 k) / (n lambda)). The second
# term is the variance that the centres do not explain; far from all centres it is the prior variance. With `p`,
# probabilities of more than two classes at the rows: standard errors of these by the delta method, n x K.
link_errors <- function(fit, rows, run, p = NULL, sigma = fit_noise(fit, run)$sigma) {
  posterior <- posterior_of(fit, run)
  asked <- run
  run <- run_in_double(run)
  rows <- rows_under(rows, fit$L, fit$kernel)
  name_stage(run, "Standard errors")
  prior <- kernel_diagonal(rows, fit$L, fit$kernel, run)
  known <- if (is.null(posterior$prior_root)) {
    exact_way(exact_system_of(fit, asked))$norms(fit, rows, prior, asked)
  } else {
    squared_norms(rows, posterior$columns, posterior$prior_root, run)
  }
  unseen <- pmax(prior - known, 0) / (fit$n * fit$lambda)
  if (!is.null(p) && posterior$joint) return(joint_errors(rows, posterior, p, unseen, run))
  seen <- \(part) if (is.null(part$root)) 0 else squared_norms(rows, posterior$columns, part$root, run)
  variance <- vapply(posterior$parts, \(part) unseen + seen(part), numeric(rows$n))
  errors <- matrix(sqrt(variance), rows$n, length(sigma)) * rep(sigma, each = rows$n)
  colnames(errors) <- fit$outputs
  if (is.null(p)) return(errors)
  slopes <- \(k) p[, k] * (rep(seq_len(ncol(p)) == k, each = rows$n) - p)
  of_classes <- vapply(seq_len(ncol(p)), \(k) sqrt(rowSums((slopes(k) * errors)^2)), numeric(rows$n))
  matrix(of_classes, rows$n, dimnames = dimnames(p))
}

# n x K: standard errors of probabilities p for a joint posterior, by the delta method.
joint_errors <- function(rows, posterior, p, unseen, run) {
  seen <- sum_joint(rows, posterior, run, \(U) {
    do.call(cbind, lapply(bent_links(U, p), \(u) rowSums(u^2)))
  })
  # the variance that the centres do not explain is independent between classes
  errors <- sqrt(seen + unseen * p^2 * (1 - 2 * p + rowSums(p^2)))
  dimnames(errors) <- dimnames(p)
  errors
}

# q x t: standard errors of linear functions of the coefficients, given by the columns of the m x q matrix `functional`.
functional_errors <- function(fit, functional, run) {
  no_root <- is.null(factorised_posterior(fit, run)$parts[[1]]$root) && is.null(fit$state$roots)
  norms <- if (no_root && has_all_rows(fit)) exact_norms(fit, functional, run_in_double(run)) else {
    norm <- \(root) sqrt(colSums(crossprod(root, functional)^2))
    vapply(coefficient_roots(fit, run), norm, numeric(ncol(functional)))
  }
  sigma <- fit_noise(fit, run)$sigma
  matrix(norms, ncol(functional), length(sigma)) * rep(sigma, each = ncol(functional))
}

# The norms of R'c for the columns c of `functional`, without the m x m numbers of R.
exact_norms <- function(fit, functional, run) {
  P <- preconditioner_of(fit_columns(fit), run, max(fit$jitter, 1e-13))
  on.exit(free_preconditioner(P))
  precondition(P, fit$data$weights, 1 / fit$n, fit$lambda)
  sqrt(colSums(apply_factors(P, functional, c("T^-T", "A^-T"))^2) / fit$n)
}

# The factor R for each column of the link, or one for all. An exact fit is treated as a fit with all rows as centres.
coefficient_roots <- function(fit, run) {
  posterior <- factorised_posterior(fit, run)
  if (!is.null(posterior$parts[[1]]$root)) return(lapply(posterior$parts, `[[`, "root"))
  if (is.null(fit$state$roots)) {
    fit$state$roots <- lapply(center_posterior(fit, run_in_double(run))$parts, `[[`, "root")
  }
  fit$state$roots
}

stop_unfactorised <- function(fit) {
  stop_argument(
    "object", "is an exact fit of too many rows, ", whole(fit$n), ", to factorise their matrix. Use a fit with ",
    "`centers`."
  )
}

# The degrees of freedom of sigma, infinite where it is known. They are not quite 0, where t has no distribution.
noise_df <- function(fit, run) max(fit_noise(fit, run)$df, 1e-9)

# Half an interval of this level: 0 without noise, even if hardly any degrees of freedom are left.
t_width <- function(error, df, level) ifelse(error > 0, error * stats::qt((1 + level) / 2, df), 0)

# ---- of predict() -----------------------------------------------------------------------------

INTERVALS <- c("none", "confidence", "prediction")
RIDGE_INTERVALS <- c(INTERVALS, "conformal")

# The result of predict() with standard errors or intervals. `at`: list(rows, offset, restore) of new_rows(); `link`:
# the link at its rows; `how`: list(type, se.fit, interval, level).
predict_with_errors <- function(fit, at, link, how, run) {
  check_uncertain(fit, how)
  level <- check_level(how$level)
  rows <- at$rows
  restore <- at$restore
  if (how$interval == "conformal") {
    ends <- conformal_ends(fit, rows, at$offset, level, run)
    shown <- restore(if (is.null(fit$family$levels)) bind_intervals(link, ends) else {
      cbind(sort_levels(link), lwr = as.vector(ends[[1]]), upr = as.vector(ends[[2]]))
    })
    if (!how$se.fit) return(shown)
    return(replace(predict_with_errors(fit, at, link, replace(how, "interval", "none"), run), "fit", list(shown)))
  }
  noise <- fit_noise(fit, run)
  by_odds <- how$type %in% c("prob", "second", "mean")
  of_link <- if (how$type == "mean") fit$family$linkinv else stats::plogis
  classes <- if (by_odds && ncol(link) > 1) class_probabilities(fit, link)
  errors <- link_errors(fit, rows, run, classes)
  if (!is.null(classes)) {
    value <- classes
    se <- errors
    # intervals are transformed from the log odds of each class against all others
    link <- stats::qlogis(classes)
    errors <- ifelse(classes > 0 & classes < 1, errors / (classes * (1 - classes)), 0)
  } else {
    if (how$type == "prob") {
      # one column for each of the two classes
      link <- matrix(c(-link, link), ncol = 2, dimnames = list(NULL, fit$classes))
      errors <- cbind(errors, errors)
    }
    value <- if (by_odds) of_link(link) else link
    slope <- if (how$type == "mean") value else value * stats::plogis(-link)
    se <- if (by_odds) slope * errors else errors
  }
  plain <- \(x) restore(if (ncol(x) == 1) as.vector(x) else x)
  shown <- if (how$interval == "none") plain(value) else {
    spread <- if (how$interval == "prediction") sqrt(errors^2 + rep(noise$sigma^2, each = nrow(errors))) else errors
    width <- t_width(spread, noise_df(fit, run), level)
    ends <- list(link - width, link + width)
    restore(bind_intervals(value, if (by_odds) lapply(ends, of_link) else ends))
  }
  if (!how$se.fit) return(shown)
  list(fit = shown, se.fit = plain(se), df = noise$df, residual.scale = noise$sigma)
}

# Binds the value and the two ends: n x 3, or n x 3 x t.
bind_intervals <- function(value, ends) {
  parts <- c("fit", "lwr", "upr")
  if (ncol(value) == 1) {
    return(matrix(c(value, ends[[1]], ends[[2]]), nrow(value), 3, dimnames = list(NULL, parts)))
  }
  made <- array(c(value, ends[[1]], ends[[2]]), c(dim(value), 3), list(NULL, colnames(value), parts))
  aperm(made, c(1, 3, 2))
}

check_uncertain <- function(fit, how) {
  arg <- if (how$se.fit) "se.fit" else "interval"
  classes <- fit$classes
  if (how$type == "class" || (how$type == "response" && !is.null(classes))) {
    stop_argument(arg, "is not available for classes: use type = \"link\"", if (!fit$family$squared) " or \"prob\"")
  }
  if (how$interval == "prediction" && !fit$family$squared) {
    stop_argument("interval", "\"prediction\" needs squared loss")
  }
  if (how$interval == "conformal" && (!(fit$family$squared || length(fit$family$levels) > 1) || !is.null(classes))) {
    stop_argument("interval", "must not be \"conformal\" unless the loss is squared or of several quantiles of a number")
  }
}

#' @rdname predict.kernel_ridge
#' @export
confint.kernel_ridge <- function(object, parm, level = 0.95, ...) {
  if (!missing(parm) && identical(parm, "linear")) {
    check_dots_empty(...)
    level <- check_level(level)
    return(linear_intervals(object, level, limit_names(level)))
  }
  interval_limits(object, if (!missing(parm)) parm, level, type = "link", ...)
}
