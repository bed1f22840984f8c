# The tables of test-contract.R: kinds of fits, variants of their data, and methods. The law of every cell: the method
# returns a value without NaN that has the right rows and columns, or it raises an error of the package's own class in
# the package's own words. These lines print which method works with which kind of fit:
#   library(flashkernel); for (part in c("kernels", "outcomes", "contract")) source(paste0("tests/testthat/helper-", part, ".R"))
#   print_contract(contract_table())

# ---- data -------------------------------------------------------------------------------------

# Numeric columns `a` and `b` in (0, 1), factors `g` and `o` (ordered), a response `y`, and two columns of classes.
contract_rows <- function() {
  data.frame(
    a = c(0.31, 0.52, 0.18, 0.77, 0.45, 0.64, 0.23, 0.58, 0.71, 0.39),
    b = c(0.42, 0.31, 0.75, 0.56, 0.22, 0.81, 0.47, 0.63, 0.35, 0.52),
    g = factor(c("u", "v", "u", "w", "v", "u", "w", "v", "u", "v")),
    o = factor(c(1, 2, 3, 1, 2, 3, 1, 2, 2, 1), ordered = TRUE),
    y = c(1.2, 0.7, 1.9, 0.3, 1.1, 0.6, 1.6, 0.9, 0.2, 1.4),
    two = factor(c("n", "p", "n", "p", "p", "p", "n", "n", "p", "n")),
    three = factor(c("r", "s", "t", "r", "s", "t", "r", "s", "t", "s"))
  )
}

contract_newdata <- function() contract_rows()[c(2, 5, 8), ]

# Each variant takes the rows and the name of a numeric column, and returns a list of `rows` and perhaps `weights` and
# `newdata`.
contract_variants <- list(
  "as is" = \(rows, column) list(rows = rows),
  "weights of 0" = \(rows, column) list(rows = rows, weights = c(1, 0, 2, 1, 3, 0, 1, 2, 0.5, 1)),
  "constant column" = \(rows, column) list(rows = replace(rows, column, 0.5)),
  "one row" = \(rows, column) list(rows = rows[1, ]),
  "two equal rows" = \(rows, column) list(rows = rows[c(1, 1), ]),
  "one weight" = \(rows, column) list(rows = rows, weights = c(0, 0, 1, 0, 0, 0, 0, 0, 0, 0)),
  "no rows of newdata" = \(rows, column) list(rows = rows, newdata = contract_newdata()[0, ])
)

# ---- kinds ------------------------------------------------------------------------------------

# Each kind has a call that makes the fit from rows d with weights w, and the name of the column that the variant
# "constant column" makes constant.
contract_kinds <- function() {
  line <- \(...) contract_call(quote(flash_kde(d["a"], weights = w)), ...)
  plane <- \(...) contract_call(quote(flash_kde(d[c("a", "b")], weights = w)), ..., column = "b")
  inside <- \(method) line("kde", 0.1, support = call("kde_support", quote(c(0, 1)), method))
  of <- \(call, column = "a", package = NULL) list(call = substitute(call), column = column, package = package)
  list(
    "kde" = line("kde", 0.1),
    "default" = line(),
    "kde, 2 columns" = plane("kde", 0.2),
    "sdkde" = plane("sdkde", 0.2),
    "sdkde, 2 steps" = line("sdkde", 0.1, debias = quote(debiasing(steps = 2))),
    "laplace" = line("laplace", 0.1),
    "laplace, nonnegative" = line("laplace", 0.1, debias = quote(debiasing(nonnegative = TRUE))),
    "adaptive" = plane("kde", 0.2, adaptive = TRUE),
    "balloon" = line("kde", 0.1, adaptive = "balloon"),
    "biweight" = line("kde", 0.1, kernel = "biweight"),
    "biweight sdkde" = line("sdkde", 0.05, kernel = "biweight"),
    "mixed" = of(flash_kde(d[c("a", "b", "g", "o")], "kde", 0.2, categorical = categorical_kernel(smoothing = 0.2), weights = w), "b"),
    "mixed sdkde" = of(flash_kde(d[c("a", "g")], "sdkde", 0.2, categorical = categorical_kernel(smoothing = 0.2), weights = w)),
    "mixed adaptive" = of(flash_kde(d[c("a", "b", "g")], "kde", 0.2, categorical = categorical_kernel(smoothing = 0.2), adaptive = TRUE, weights = w), "b"),
    "levels" = of(flash_kde(d[c("g", "o")], categorical = categorical_kernel(smoothing = 0.1), weights = w)),
    "transform" = inside("transform"),
    "reflect" = inside("reflect"),
    "reflect sdkde" = line("sdkde", 0.1, support = quote(kde_support(c(0, 1), "reflect"))),
    "boundary" = inside("boundary"),
    "local" = inside("local"),
    "mass" = inside("mass"),
    "circular" = plane("kde", 0.1, support = quote(list(a = kde_circle(1)))),
    "polygon" = plane("kde", 0.1, support = quote(cbind(c(0, 1, 1, 0), c(0, 0, 1, 1)))),
    "conditional" = of(flash_kde(y ~ a + g, d, bandwidth = c(0.3, 0.2), categorical = categorical_kernel(smoothing = 0.2), weights = w)),
    "conditional sdkde" = of(flash_kde(y ~ a, d, estimator = "sdkde", bandwidth = 0.3, weights = w)),
    "conditional laplace" = of(flash_kde(y ~ a, d, estimator = "laplace", bandwidth = 0.3, weights = w)),
    "conditional levels" = of(flash_kde(g ~ a, d, bandwidth = 0.2, categorical = categorical_kernel(smoothing = 0.2), weights = w)),
    "marginal" = of(kde_marginal(flash_kde(d[c("a", "b")], "kde", 0.1, weights = w), "a")),
    "given" = of(kde_conditional(flash_kde(d[c("a", "b")], "kde", 0.1, weights = w), c(b = 0.4))),
    "big.matrix" = of(
      flash_kde(big_matrix(d[c("a", "b")]), bandwidth = 0.1, weights = w), "b", "bigmemory"
    ),
    "flash_data" = of({
      data <- flash_data(cbind(as.matrix(d[c("a", "b")]), w = w), weights = if (!is.null(w)) "w")
      flash_kde(data, "kde", 0.1)
    }, "b"),
    "kda" = of(flash_kda(two ~ a + b, d, bandwidth = 0.2, weights = w), "b"),
    "kda, support" = of(flash_kda(three ~ a, d, estimator = "kde", bandwidth = 0.2, support = c(0, 1), weights = w)),
    "regression" = of(kernel_regression(y ~ a + b, d, bandwidth = 0.3, weights = w), "b"),
    "regression, levels" = of(
      kernel_regression(y ~ a + g, d, type = "constant", bandwidth = 0.3, categorical = categorical_kernel(0.2), weights = w)
    ),
    "kernel_ridge" = of(kernel_ridge(y ~ a + b, d, bandwidth = 0.3, lambda = 1e-3, weights = w), "b"),
    "kernel_ridge, centers" = of(kernel_ridge(y ~ a + b, d, bandwidth = 0.3, lambda = 1e-3, centers = 2, weights = w), "b"),
    "kernel_ridge, logistic" = of(kernel_ridge(two ~ a + b, d, bandwidth = 0.3, lambda = 1e-2, weights = w), "b"),
    "kernel_ridge, 3 classes" = of(kernel_ridge(three ~ a + b, d, bandwidth = 0.3, lambda = 1e-2, weights = w), "b"),
    "tune_ridge" = of(tune_ridge(y ~ a + b, d, bandwidth = 0.3, lambda = 1e-3, weights = w), "b")
  )
}

contract_call <- function(call, ..., column = "a") {
  list(call = as.call(append(as.list(call), list(...), 2)), column = column, package = NULL)
}

# ---- methods ----------------------------------------------------------------------------------

# `call`: a function of the fit and of new rows. `rows`: what the value must have a row for: "newdata", "training" rows,
# "one", or nothing ("") if any number will do. `names`: columns that the value must have; "classes" stands for the
# classes of the response. `slow`: whether the method is called for few variants only.
contract_method <- function(call, rows = "", names = NULL, slow = FALSE) {
  list(call = call, rows = rows, names = names, slow = slow)
}

contract_methods <- function() {
  types <- c(
    "density", "log_density", "score", "cdf", "mean", "variance", "probability", "class", "prob", "decision",
    "response", "link", "gradient"
  )
  predictions <- lapply(stats::setNames(nm = types), \(type) {
    names <- switch(type, prob = , probability = "classes", score = , gradient = "a")
    contract_method(\(f, new) stats::predict(f, new, type = type), "newdata", names)
  })
  names(predictions) <- paste("predict", types)
  of_fit <- \(generic, rows = "", ..., names = NULL) contract_method(\(f, new) generic(f, ...), rows, names)
  newdata <- \(call) contract_method(call, "newdata")
  slow <- \(call) contract_method(call, slow = TRUE)
  c(predictions, list(
    "predict" = of_fit(stats::predict, "training"),
    "predict newdata" = newdata(\(f, new) stats::predict(f, new)),
    "predict se.fit" = newdata(\(f, new) stats::predict(f, new, se.fit = TRUE)),
    "predict prob se.fit" = contract_method(\(f, new) {
      stats::predict(f, new, type = "prob", se.fit = TRUE)
    }, "newdata", "classes"),
    "predict interval" = newdata(\(f, new) stats::predict(f, new, interval = "prediction")),
    "predict se.fit loo" = of_fit(stats::predict, "training", se.fit = TRUE, loo = TRUE),
    "predict score loo" = of_fit(stats::predict, "training", type = "score", loo = TRUE),
    "predict loo" = of_fit(stats::predict, "training", loo = TRUE),
    "fitted" = of_fit(stats::fitted, "training"),
    "residuals" = of_fit(stats::residuals, "training"),
    "rstandard" = of_fit(stats::rstandard, "training"),
    "hatvalues" = of_fit(stats::hatvalues, "training"),
    "weights" = of_fit(stats::weights),
    "sigma" = of_fit(stats::sigma),
    "deviance" = of_fit(stats::deviance),
    "df.residual" = of_fit(stats::df.residual),
    "vcov" = of_fit(stats::vcov),
    "logLik" = of_fit(stats::logLik),
    "AIC" = of_fit(stats::AIC),
    "coef" = of_fit(stats::coef),
    "nobs" = of_fit(stats::nobs),
    "formula" = of_fit(stats::formula),
    "model.frame" = of_fit(stats::model.frame, "training"),
    "variable.names" = of_fit(stats::variable.names),
    "family" = of_fit(stats::family),
    "simulate" = contract_method(\(f, new) stats::simulate(f, 5, seed = 1)),
    "simulate newdata" = contract_method(\(f, new) stats::simulate(f, 2, seed = 1, newdata = new)),
    "quantile" = contract_method(\(f, new) {
      if (inherits(f, "flash_conditional")) return(stats::quantile(f, new, c(0.2, 0.5)))
      stats::quantile(f, c(0, 0.5, 1))
    }),
    "cdf" = contract_method(\(f, new) {
      if (inherits(f, "flash_conditional")) return(kde_cdf(f, c(0.5, 1), new))
      kde_cdf(f, if (isTRUE(f$d > 1)) as.matrix(new[c("a", "b")]) else new$a)
    }),
    "cdf of rectangles" = contract_method(\(f, new) kde_cdf(f, t(rep(0.6, f$d)), lower = t(rep(0.2, f$d)))),
    "marginal" = contract_method(\(f, new) kde_marginal(f, 1)),
    "conditional" = contract_method(\(f, new) {
      if (!inherits(f, "flash_conditional")) return(kde_conditional(f, c(a = 0.4)))
      kde_conditional(f, contract_newdata()[1, all.vars(stats::formula(f)[[3]]), drop = FALSE])
    }),
    "hdr_level" = slow(\(f, new) hdr_level(f, n_samples = 20)),
    "hdr_regions" = slow(\(f, new) hdr_regions(f, 0.5, n = 10)),
    "modes" = of_fit(kde_modes),
    "mean_shift" = of_fit(mean_shift),
    "ridges" = of_fit(kde_ridges),
    "kde_derivative" = newdata(\(f, new) kde_derivative(f, new)),
    "kde_derivative 2" = contract_method(\(f, new) kde_derivative(f, order = 2)),
    "kde_bands" = newdata(\(f, new) kde_bands(f, new)),
    "kde_bands bootstrap" = slow(\(f, new) kde_bands(f, new, method = "bootstrap", replicates = 20)),
    "confint" = of_fit(stats::confint, "training"),
    "kde_pvalue" = newdata(\(f, new) kde_pvalue(f, new)),
    "kde_pvalue integral" = newdata(\(f, new) kde_pvalue(f, new, type = "integral", n_samples = 50)),
    "marginal_effects" = of_fit(marginal_effects),
    "adaptive_factors" = of_fit(adaptive_factors, "training"),
    "as_density" = contract_method(\(f, new) as_density(f, n = 16)),
    "as_ks" = slow(\(f, new) as_ks(f, n = 5)),
    "print" = of_fit(print),
    "summary" = contract_method(\(f, new) print(summary(f))),
    "diagnostics" = contract_method(\(f, new) print(diagnostics(f))),
    "tidy" = of_fit(generics::tidy, names = c("term", "estimate")),
    "glance" = of_fit(generics::glance, "one", names = "nobs"),
    "augment" = of_fit(generics::augment, "training"),
    "augment newdata" = newdata(\(f, new) generics::augment(f, newdata = new)),
    "as.data.frame" = contract_method(\(f, new) as.data.frame(f), "training"),
    "as.data.frame grid" = contract_method(\(f, new) as.data.frame(f, grid = 4), names = c("density", "log_density")),
    "compare" = slow(\(f, new) print(compare_fits(f, f))),
    "cross_validate" = contract_method(\(f, new) print(cross_validate(f, folds = 2))),
    "plot" = slow(\(f, new) graphics::plot(f)),
    "lines" = slow(\(f, new) {
      graphics::plot.new()
      graphics::lines(f)
    }),
    "contour" = slow(\(f, new) graphics::contour(f)),
    "autoplot" = slow(\(f, new) ggplot2::autoplot(f))
  ))
}

# Cells whose correct value contains NaN: the reason, and regular expressions of kinds, variants and methods.
contract_nan <- list(
  list("the logarithm of a negative estimate", "laplace$", ".", "log_density|augment|as.data.frame"),
  list("the score of a density that is 0", "nonnegative|biweight", "^one|two", "score"),
  list("0 / 0, R^2 and standardized residuals of a constant response, as lm() has it", "^kernel_ridge|tune|regression",
    "two equal", "rstandard|print|summary|glance"
  ),
  list("the same of one row, as lm() has it", "^kernel_ridge(, centers)?$|tune", "^one", "rstandard|print|summary|glance")
)

# ---- cells ------------------------------------------------------------------------------------

# A data frame of all cells. `outcome` is "value", "refused" (an error of the package's own), "none" (R's generic has no
# method for the class), or "failed", with a `note`. A method that the variant "as is" refuses is not called for the
# others. `slow`: the variants for which slow methods are called.
contract_table <- function(kinds = contract_kinds(), methods = contract_methods(), slow = "as is") {
  cells <- lapply(names(kinds), \(kind) {
    if (!is.null(kinds[[kind]]$package) && !requireNamespace(kinds[[kind]]$package, quietly = TRUE)) return(NULL)
    of <- \(variant, methods) {
      run_contract(kind, kinds[[kind]], variant, Filter(\(method) !method$slow || variant %in% slow, methods))
    }
    plain <- of("as is", methods)
    refused <- Filter(\(cell) cell[["outcome"]] %in% c("refused", "none"), plain)
    methods <- methods[setdiff(names(methods), vapply(refused, `[[`, "", "method"))]
    c(plain, unlist(lapply(names(contract_variants)[-1], of, methods), FALSE))
  })
  as.data.frame(do.call(rbind, unlist(cells, FALSE)))
}

# The cells of one kind and one variant, as a list.
run_contract <- function(name, kind, variant, methods) {
  made <- contract_variants[[variant]](contract_rows(), kind$column)
  cell <- \(method, outcome, note = "") {
    c(kind = name, variant = variant, method = method, outcome = outcome, note = note)
  }
  here <- list2env(list(d = made$rows, w = made$weights))
  fit <- run_cell(\() eval(kind$call, here))
  if (fit$outcome != "value") return(list(cell("fit", fit$outcome, fit$note)))
  here$f <- fit$value
  new <- if (is.null(made$newdata)) contract_newdata() else made$newdata
  if (!is.null(made$newdata)) methods <- Filter(\(method) method$rows == "newdata", methods)
  # kde_conditional() leaves points without weight out
  training <- if (name == "given") fit$value$n else nrow(made$rows)
  expected <- c(newdata = nrow(new), training = training, one = 1)
  response <- if (is.call(kind$call[[2]])) as.character(kind$call[[2]][[2]])[1]
  has <- vapply(unique(sub(" .*", "", names(methods))), has_contract_method, NA, fit$value)
  lapply(names(methods), \(method) {
    about <- methods[[method]]
    if (!has[[sub(" .*", "", method)]]) return(cell(method, "none"))
    call <- \() about$call(fit$value, new)
    names <- if (identical(about$names, "classes")) levels(made$rows[[response]]) else about$names
    found <- run_cell(call, expected[about$rows], names)
    if (found$nan && !is_true_nan(name, variant, method)) return(cell(method, "failed", "NaN"))
    cell(method, found$outcome, found$note)
  })
}

# Whether the generic belongs to this package or has a method for the fit.
has_contract_method <- function(generic, fit) {
  if (any(c(generic, paste0("kde_", generic), paste0(generic, "_fits")) %in% getNamespaceExports("flashkernel"))) return(TRUE)
  if (generic == "AIC") generic <- "logLik"
  place <- switch(generic, tidy = , glance = , augment = "generics", autoplot = "ggplot2", "stats")
  any(vapply(class(fit), \(class) !is.null(utils::getS3method(generic, class, TRUE, asNamespace(place))), NA))
}

is_true_nan <- function(kind, variant, method) {
  cell <- c(kind, variant, method)
  any(vapply(contract_nan, \(known) all(mapply(grepl, known[-1], cell)), NA))
}

# outcome_of() the call. The outcome is "failed", too, if the value has another number of rows than `rows` (NULL and NA
# allow any) or lacks a column of `names`.
run_cell <- function(call, rows = NULL, names = NULL) {
  found <- outcome_of(call)
  if (found$outcome != "value") return(found)
  value <- found$value
  if (is.list(value) && !is.data.frame(value) && !is.null(value$fit)) value <- value$fit
  lacking <- setdiff(names, colnames(value))
  note <- if (length(rows) == 1 && !is.na(rows) && NROW(value) != rows) {
    paste("has", NROW(value), "rows, not", rows)
  } else if (length(lacking) > 0) {
    paste("lacks the columns", paste(lacking, collapse = ", "))
  }
  if (is.null(note)) found else utils::modifyList(found, list(outcome = "failed", note = note))
}

# ---- what goes with what ----------------------------------------------------------------------

# Prints the table of methods by kinds: the numbers of variants that have a value, are refused (r) and fail (F), as in
# "4/1r/1F", and below it the totals and the failed cells.
print_contract <- function(table) {
  counts <- tapply(table$outcome, list(table$method, table$kind), \(outcome) {
    if (all(outcome == "none")) return("")
    n <- \(of) sum(outcome == of)
    some <- \(of, letter) if (n(of) > 0) paste0("/", n(of), letter)
    paste0(n("value"), some("refused", "r"), some("failed", "F"))
  })
  counts[is.na(counts)] <- ""
  kinds <- colnames(counts)
  cat(paste0(seq_along(kinds), " ", kinds, collapse = ", "), "\n\n")
  colnames(counts) <- seq_along(kinds)
  print(noquote(counts))
  print(table(table$outcome))
  failed <- table[table$outcome == "failed", ]
  if (nrow(failed) > 0) print(failed[c("kind", "variant", "method", "note")], right = FALSE, row.names = FALSE)
  invisible(table)
}
