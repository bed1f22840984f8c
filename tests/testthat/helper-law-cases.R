# Cases for the laws of helper-laws.R: a fit of each kind, the function that fits the same model to other rows, its
# predictions and its integrals.

# ---- kinds ------------------------------------------------------------------------------------

law_rows <- function(n = 20) {
  with_fixed_seed({
    a <- stats::runif(n, 0.03, 0.97)
    data.frame(
      a = a, b = pmin(pmax(0.3 + 0.5 * a + stats::rnorm(n, sd = 0.2), 0.04), 0.95),
      factor = replace(rep_len(c(0.7, 1, 1.4), n), 4, 2),
      g = factor(sample(rep_len(c("u", "v", "w"), n))), o = factor(sample(rep_len(1:3, n)), ordered = TRUE),
      y = 1 + sin(4 * a) / 2 + stats::rnorm(n, sd = 0.3), two = factor(rep_len(c("n", "p"), n)),
      three = factor(rep_len(c("r", "s", "t"), n))
    )
  }, 4)
}

law_newdata <- function() {
  data.frame(
    a = c(0.34, 0.61, 0.12, 0.85), b = c(0.42, 0.7, 0.31, 0.9), factor = 1, g = factor(c("v", "u", "w", "u")),
    o = factor(c(2, 1, 3, 2), levels = 1:3, ordered = TRUE), y = c(1.2, 0.8, 1.5, 0.4),
    two = factor(c("n", "p", "n", "p")), three = factor(c("r", "s", "t", "r"))
  )
}

law_kinds <- function() {
  of <- \(call) list(call = substitute(call))
  H <- matrix(c(0.04, 0.015, 0.015, 0.03), 2)
  more <- list(
    "factors" = of(flash_kde(d[c("a", "b")], "kde", 0.2, adaptive = d$factor, weights = w)),
    "sdkde, factors" = of(flash_kde(d["a"], "sdkde", 0.1, adaptive = d$factor, weights = w)),
    "sdkde, own score" = of(
      flash_kde(d["a"], "sdkde", 0.1, debias = debiasing(bandwidth = 0.2), weights = w)
    ),
    "correlated" = eval(bquote(of(flash_kde(d[c("a", "b")], "kde", .(H), weights = w)))),
    "laplace, 2 columns" = of(flash_kde(d[c("a", "b")], "laplace", 0.2, weights = w)),
    "laplace6" = of(flash_kde(d["a"], "laplace6", 0.15, weights = w)),
    "epanechnikov, 2 columns" = of(flash_kde(d[c("a", "b")], "kde", 0.2, kernel = "epanechnikov", weights = w)),
    "triweight adaptive" = of(flash_kde(d["a"], "kde", 0.1, kernel = "triweight", adaptive = d$factor, weights = w)),
    "mixed laplace" = of(
      flash_kde(d[c("a", "g")], "laplace", 0.1, categorical = categorical_kernel(smoothing = 0.2), weights = w)
    ),
    "mixed factors" = of(flash_kde(
      d[c("a", "o")], "kde", 0.1, categorical = categorical_kernel(smoothing = 0.2), adaptive = d$factor, weights = w
    )),
    "reflect laplace" = of(
      flash_kde(d["a"], "laplace", 0.1, support = kde_support(c(0, 1), "reflect"), weights = w)
    ),
    "transform laplace" = of(
      flash_kde(d["a"], "laplace", 0.2, support = kde_support(c(0, 1), "transform"), weights = w)
    ),
    "reflect factors" = of(flash_kde(
      d["a"], "kde", 0.1, support = kde_support(c(0, Inf), "reflect"), adaptive = d$factor, weights = w
    )),
    "mass sdkde" = of(flash_kde(d["a"], "sdkde", 0.1, support = kde_support(c(0, 1), "mass"), weights = w)),
    "circular sdkde" = of(flash_kde(d["a"], "sdkde", 0.1, support = kde_circle(1), weights = w)),
    "transform sdkde" = of(
      flash_kde(d["a"], "sdkde", 0.2, support = kde_support(c(0, 1), "transform"), weights = w)
    ),
    "reflect and mass" = of(flash_kde(
      d[c("a", "b")], "kde", 0.1, adaptive = d$factor, weights = w,
      support = list(a = kde_support(c(0, Inf), "reflect"), b = kde_support(c(0, 1), "mass"))
    )),
    "circle and transform" = of(flash_kde(
      d[c("a", "b")], "kde", 0.15, support = list(a = kde_circle(1), b = kde_support(c(0, 1), "transform")), weights = w
    )),
    "reflect and mass sdkde" = of(flash_kde(
      d[c("a", "b")], "sdkde", 0.1, weights = w,
      support = list(a = kde_support(c(0, Inf), "reflect"), b = kde_support(c(0, 1), "mass"))
    )),
    "circle correlated" = eval(bquote(of(
      flash_kde(d[c("a", "b")], "kde", .(H), support = list(a = kde_circle(1)), weights = w)
    ))),
    "bounds of 3 columns" = of(flash_kde(
      d[c("a", "b", "factor")], "kde", 0.2, adaptive = d$factor, weights = w, support = list(
        a = kde_support(c(0, Inf), "reflect"), b = kde_support(c(0, 1), "transform"), factor = kde_circle(2.5)
      )
    )),
    "marginal sdkde" = of(kde_marginal(flash_kde(d[c("a", "b")], "sdkde", 0.2, weights = w), "b")),
    "marginal mixed" = of(kde_marginal(flash_kde(
      d[c("a", "b", "g")], "kde", 0.2, categorical = categorical_kernel(smoothing = 0.2), weights = w
    ), c("b", "g"))),
    "conditional factors" = of(
      flash_kde(y ~ a, d, bandwidth = c(0.3, 0.2), adaptive = d$factor, weights = w)
    ),
    "regression, constant" = of(kernel_regression(y ~ a, d, type = "constant", bandwidth = 0.2, weights = w))
  )
  kinds <- c(contract_kinds(), more)
  Filter(\(kind) is.null(kind$package) || requireNamespace(kind$package, quietly = TRUE), kinds)
}

# A fit of the kind to other rows, with more arguments of the fitting call.
law_fit <- function(call, rows, weights = NULL, ..., frame = list()) {
  set.seed(1) # of which kernel_ridge() draws
  eval(with_arguments(call, ...), list2env(c(list(d = rows, w = weights), frame), parent = environment(law_fit)))
}

FITTERS <- c("flash_kde", "flash_kda", "kernel_regression", "kernel_ridge", "tune_ridge")

# The call with other arguments in its innermost fitting function.
with_arguments <- function(call, ...) {
  change_fitter(call, \(fitter) as.call(utils::modifyList(as.list(fitter), list(...))))
}

change_fitter <- function(call, change) {
  if (!is.call(call)) return(call)
  if (is.name(call[[1]]) && as.character(call[[1]]) %in% FITTERS) return(change(call))
  as.call(lapply(as.list(call), change_fitter, change))
}

law_case <- function(name, kind) {
  rows <- law_rows()
  weights <- rep_len(c(1, 2, 1, 3, 1), nrow(rows))
  case <- list(
    name = name, call = kind$call, rows = rows, weights = weights, new = law_newdata(),
    make = \(...) law_fit(kind$call, ...), kept = new.env()
  )
  case$fit <- case$make(rows, weights)
  if (inherits(case$fit, "flash_kde")) {
    case$variables <- if (is_elsewhere(case$fit$x)) case$fit$names else {
      intersect(names(rows), names(as.data.frame(case$fit)))
    }
    case$numbers <- Filter(\(variable) is.numeric(rows[[variable]]), case$variables)
  }
  case
}

# ---- predictions and integrals ----------------------------------------------------------------

# All predictions for some rows, a list of matrices with a row for each; NULL: for the training rows.
law_predictions <- function(fit, new = NULL) {
  types <- if (inherits(fit, "flash_kde")) {
    c("density", "log_density", if (fit$d > 0) "score")
  } else if (inherits(fit, "flash_conditional")) {
    c("density", "log_density", if (is_level_response(fit)) "probability" else c("mean", "variance", "cdf"))
  } else if (inherits(fit, "flash_kda")) {
    c("prob", "log_density")
  } else {
    if (is.null(fit$classes)) "response" else "prob"
  }
  suppressWarnings(lapply(stats::setNames(nm = types), \(type) {
    as.matrix(if (is.null(new)) predict(fit, type = type) else predict(fit, new, type = type))
  }))
}

# The predictions of the fit of a case for its new rows, with which many laws compare.
predictions_of <- function(case) {
  if (is.null(case$kept$predictions)) case$kept$predictions <- law_predictions(case$fit, case$new)
  case$kept$predictions
}

is_level_response <- function(fit) !all(fit$response %in% colnames(fit$joint$x))

# Nodes and weights of Gauss's rule with five nodes in each of `pieces` intervals.
rule_between <- function(from, to, pieces) {
  nodes <- c(-0.906179845938664, -0.538469310105683, 0, 0.538469310105683, 0.906179845938664)
  shares <- c(0.236926885056189, 0.478628670499366, 0.568888888888889, 0.478628670499366, 0.236926885056189) / 2
  width <- (to - from) / pieces
  middles <- from + (seq_len(pieces) - 0.5) * width
  list(at = as.vector(outer(middles, nodes * width / 2, "+")), weight = width * rep(shares, each = pieces))
}

# Where a numeric column of the case has its probability mass: in its support, or within eight standard deviations of
# the rows.
law_range <- function(case, name) {
  support <- case$fit$support
  if (is.null(support)) return(if (name == "y") c(-4, 6) else c(-2, 3))
  if (!is.null(support$polygon)) return(c(0, 1))
  k <- match(name, case$fit$names)
  pmin(pmax(c(support$lower[k], support$upper[k]), -1.5), 2.5)
}

# Points and weights of an integral over the variables `over`, numbers and categories; `ranges`: of the numbers, by
# name.
law_nodes <- function(case, over, ranges = list(), pieces = NULL) {
  # densities on a support have narrow peaks beside the bounds
  two <- if (is_kind(case$fit, "supported")) 60 else 40
  if (is.null(pieces)) pieces <- if (sum(over %in% case$numbers) > 1) two else 120
  rules <- lapply(stats::setNames(nm = over), \(name) {
    one <- case$rows[[name]]
    if (is.factor(one)) {
      return(list(at = factor(levels(one), levels(one), ordered = is.ordered(one)), weight = rep(1, nlevels(one))))
    }
    range <- if (is.null(ranges[[name]])) law_range(case, name) else ranges[[name]]
    rule_between(range[1], range[2], pieces)
  })
  list(
    at = expand.grid(lapply(rules, `[[`, "at")),
    weight = Reduce(`*`, expand.grid(lapply(rules, `[[`, "weight")))
  )
}

# Points all over the support and the density there, for a case whose density is integrated more than once.
law_masses <- function(case) {
  if (is.null(case$kept$masses)) {
    rule <- law_nodes(case, case$variables)
    case$kept$masses <- list(at = rule$at, mass = rule$weight * predict(case$fit, rule$at))
  }
  case$kept$masses
}

# The accuracy of an integration rule: lower for kernels with kinks and clipped densities.
law_digits <- function(fit) {
  rough <- c(if (!has_gaussian(fit)) "compact", intersect(traits_of(unclass(fit)), "clipped"))
  if (length(rough) > 0) 2e-4 else 1e-7
}

pair <- function(got, want, tolerance) list(got = unname(got), want = unname(want), tolerance = tolerance)

# Pairs of two lists of numbers.
pair_lists <- function(got, want, tolerance) Map(pair, got, want, tolerance)

# ---- draws and interfaces ---------------------------------------------------------------------

# The p-value of a chi-squared test of draws against the probability mass at points: in boxes between quantiles of the
# points, by category. Boxes with a small expected count are joined.
box_pvalue <- function(at, mass, draws) {
  box_of <- \(rows) {
    do.call(paste, lapply(names(at), \(name) {
      if (is.factor(at[[name]])) return(as.character(rows[[name]]))
      findInterval(rows[[name]], if (length(at) == 1) (0:24) / 12 else (0:4) / 4)
    }))
  }
  expected <- tapply(mass / sum(mass), box_of(at), sum)
  found <- table(factor(box_of(draws), names(expected)))
  if (sum(found) != nrow(draws)) return(0)
  rare <- expected < 5 / nrow(draws)
  lumped <- \(x) if (any(rare)) c(x[!rare], sum(x[rare])) else x
  expected <- lumped(expected)
  found <- lumped(found)
  if (any(found[expected < 1e-9] > 0)) return(0)
  used <- expected >= 1e-9
  suppressWarnings(stats::chisq.test(as.vector(found[used]), p = expected[used], rescale.p = TRUE)$p.value)
}

# Calls that make the same fit by a formula, a matrix, or x and y.
other_interfaces <- function(call) {
  fitter <- fitter_of(call)
  columns <- columns_of(fitter)
  if (is.null(columns)) return(if (fitter[[1]] != "flash_kde") list(change_fitter(call, by_x_and_y)))
  frame <- eval(fitter[[2]], list(d = law_rows()))
  as_matrix <- \(fitter) replace(fitter, 2, list(call("as.matrix", fitter[[2]])))
  c(change_fitter(call, by_formula), if (all(vapply(frame, is.numeric, NA))) change_fitter(call, as_matrix))
}

# Calls that make the same fit of the rows `keep` of more rows.
subset_interfaces <- function(call) {
  list(change_fitter(call, \(fitter) {
    fitter <- if (is.null(columns_of(fitter))) fitter else by_formula(fitter)
    if (is.call(fitter$adaptive)) fitter$adaptive <- quote(d$factor[keep])
    fitter$subset <- quote(keep)
    fitter
  }))
}

fitter_of <- function(call) {
  found <- NULL
  change_fitter(call, \(fitter) found <<- fitter)
  found
}

# The names of the columns that a call takes by d[...], or NULL.
columns_of <- function(fitter) {
  if (is.call(fitter[[2]]) && identical(fitter[[2]][[1]], quote(`[`))) eval(fitter[[2]][[3]])
}

by_formula <- function(fitter) {
  formula <- call("~", stats::reformulate(columns_of(fitter))[[2]])
  fitter <- as.list(match.call(flash_kde, fitter))
  unnamed <- which(names(fitter) == "")[-1]
  names(fitter)[unnamed] <- c("estimator", "bandwidth")[seq_along(unnamed)]
  as.call(c(fitter[1], list(formula, data = quote(d)), fitter[-(1:2)]))
}

by_x_and_y <- function(fitter) {
  formula <- fitter[[2]]
  x <- bquote(d[.(all.vars(formula[[3]]))])
  as.call(c(as.list(fitter)[1], list(x, call("$", quote(d), formula[[2]])), as.list(fitter)[-(1:3)]))
}
