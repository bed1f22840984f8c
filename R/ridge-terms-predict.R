# The effect of each term of a formula with k(): f_j(x) minus its mean over the centres, with posterior standard errors.

# A list of terms, a linear one for each label, without the constant.
single_terms <- function(kernel) {
  unlist(lapply(kernel$terms, \(term) {
    if (!is_linear_term(term)) return(list(term))
    term$kernel <- kernel_spec("linear")
    lapply(unique(term$labels), \(label) {
      own <- which(term$labels == label)
      parts <- lapply(term[c("columns", "center", "spread")], `[`, own)
      utils::modifyList(term, c(list(label = label), parts))
    })
  }), recursive = FALSE)
}

# predict(type = "terms"): a matrix with a column for each term, and the attribute `constant`, as predict.lm() returns.
predict_terms <- function(fit, at, how, run) {
  if (ncol(fit$coefficients) > 1) stop_argument("type", "\"terms\" needs a fit to one response")
  if (how$interval != "none") stop_argument("interval", "must be \"none\" for terms. Use `se.fit = TRUE`.")
  points <- rows_take(at$rows, seq_len(at$rows$n))
  terms <- single_terms(fit$kernel)
  found <- lapply(terms, \(term) term_effect(fit, term, points, how$se.fit, run))
  named <- \(part) {
    made <- matrix(unlist(lapply(found, `[[`, part)), at$rows$n)
    colnames(made) <- vapply(terms, `[[`, "", "label")
    at$restore(made)
  }
  first <- fit$centers[1, , drop = FALSE]
  of_first <- vapply(terms, \(term) term_effect(fit, term, first, FALSE, run)$estimate, 0)
  values <- structure(named("estimate"), constant = as.vector(link_at(fit, ridge_rows(first), run)) - sum(of_first))
  if (!how$se.fit) return(values)
  noise <- fit_noise(fit, run)
  list(fit = values, se.fit = named("se"), df = noise$df, residual.scale = noise$sigma)
}

# The variables of each term of one or two, by its label. A numeric variable is before a categorical one.
term_inputs <- function(fit) {
  frame <- split_matrices(fit, kept_data(fit)$frame)
  labels <- vapply(single_terms(fit$kernel), `[[`, "", "label")
  inputs <- lapply(stats::setNames(nm = labels), \(label) {
    used <- split_names(fit, intersect(all.vars(str2lang(label)), fit$variables))
    used[order(vapply(used, \(name) is_categorical(fit, frame, name), NA))]
  })
  inputs[lengths(inputs) %in% 1:2]
}

# A list with a data frame for each of the `inputs` (of term_inputs()): as partial_dependences(), of effects minus
# their means over the centres. Of two variables the second is at its categories, or at three of its quantiles.
term_curves <- function(fit, inputs, n_grid, se, level, run) {
  frame <- split_matrices(fit, kept_data(fit)$frame)
  terms <- single_terms(fit$kernel)
  names(terms) <- vapply(terms, `[[`, "", "label")
  lapply(stats::setNames(nm = names(inputs)), \(label) {
    of <- inputs[[label]]
    values <- lapply(of, \(name) partial_values(fit, frame[[name]], frame, name, n_grid))
    axes <- Map(\(name, values) axis_values(fit, frame, name, values), of, values)
    if (length(of) == 2 && is.numeric(axes[[2]])) {
      values[[2]] <- unique(stats::quantile(frame[[of[2]]], c(0.1, 0.5, 0.9), names = FALSE))
      axes[[2]] <- distinct_labels(values[[2]])
    }
    cells <- expand.grid(lapply(values, seq_along))
    at <- frame[rep(1, nrow(cells)), , drop = FALSE]
    for (k in seq_along(of)) at[[of[k]]] <- values[[k]][cells[[k]]]
    found <- term_effect(fit, terms[[label]], points_of_frame(fit, at), se, run)
    width <- if (se) t_width(found$se, noise_df(fit, run), level) else NA_real_
    part <- data.frame(value = axes[[1]][cells[[1]]], estimate = found$estimate)
    part$group <- if (length(of) == 1) factor("") else {
      labels <- paste(of[2], "=", axes[[2]])
      factor(labels[cells[[2]]], labels)
    }
    part[c("low", "high")] <- list(found$estimate - width, found$estimate + width)
    structure(part, data = frame[[of[1]]], variable = of[1])
  })
}

# list(estimate, se) at points.
term_effect <- function(fit, term, points, se, run) {
  L <- term_factor(term, fit$L)
  run <- run_in_double(run)
  x <- term_points(term, points)
  centers <- term_points(term, fit$centers)
  between <- \(at, of) term$scale * kernels_between(at, of, L, term$kernel, run)
  own <- between(NULL, centers)
  parts <- lapply(pieces_of(nrow(x), 1000), \(piece) {
    at <- x[piece[1]:piece[2], , drop = FALSE]
    k <- between(at, centers)
    covariance <- k - rep(colMeans(own), each = nrow(k))
    if (!se) return(list(estimate = covariance %*% fit$coefficients))
    prior <- term$scale * point_kernels(term$kernel, L, run)$diagonal(at) - 2 * rowMeans(k) + mean(own)
    list(estimate = covariance %*% fit$coefficients, se = posterior_errors(fit, prior, covariance, run))
  })
  list(estimate = unlist(lapply(parts, `[[`, "estimate")), se = unlist(lapply(parts, `[[`, "se")))
}

# Posterior standard errors of linear functionals of f with these prior variances and, in rows, covariances with f at
# the centres, both in units of the kernel.
posterior_errors <- function(fit, prior, covariance, run) {
  posterior <- factorised_posterior(fit, run)
  variance <- pmax(prior - rowSums((covariance %*% posterior$prior_root)^2), 0) / (fit$n * fit$lambda)
  root <- posterior$parts[[1]]$root
  if (!is.null(root)) variance <- variance + rowSums((covariance %*% root)^2)
  fit_noise(fit, run)$sigma * sqrt(variance)
}

# "linear z; k(x1, x2) 0.8; k(x3) 0.2", with the shares of the kernels in the prior variance, or NULL.
terms_label <- function(kernel, digits) {
  if (!has_terms(list(kernel = kernel))) return(NULL)
  paste(vapply(kernel$terms, \(term) {
    if (is_linear_term(term)) return(paste("linear", paste(unique(term$labels), collapse = ", ")))
    paste(term$label, format(term$scale, digits = min(digits, 3)))
  }, ""), collapse = "; ")
}

# A matrix like the coefficients of summary.lm(), with a row for each column of a linear term, or NULL.
linear_table <- function(fit) {
  term <- Find(is_linear_term, fit$kernel$terms)
  if (is.null(term) || ncol(fit$coefficients) > 1) return(NULL)
  run <- start_run(fit$control, "Standard errors")
  slopes <- term$scale * t(term_points(term, fit$centers)) / term$spread^2
  estimate <- as.vector(slopes %*% fit$coefficients)
  se <- posterior_errors(fit, term$scale / term$spread^2, slopes, run)
  t <- estimate / se
  made <- cbind(estimate, se, t, 2 * stats::pt(-abs(t), noise_df(fit, run)))
  dimnames(made) <- list(fit$names[term$columns], c("Estimate", "Std. Error", "t value", "Pr(>|t|)"))
  made
}

# Intervals of the coefficients of linear_table(), with these names of the columns.
linear_intervals <- function(fit, level, names) {
  kept_data(fit)
  table <- linear_table(fit)
  if (is.null(table)) {
    stop_argument("parm", "must be rows: found \"linear\", but the fit has no linear terms beside k(), or several responses")
  }
  width <- t_width(table[, 2], noise_df(fit, start_run(fit$control, "Standard errors")), level)
  matrix(c(table[, 1] - width, table[, 1] + width), ncol = 2, dimnames = list(rownames(table), names))
}
