# The table of refusals (R/density-refusals.R) against what the verbs do.

# By verb, methods of contract_methods().
verb_methods <- c(
  marginal = "marginal", conditional = "conditional", derivatives = "kde_derivative",
  second_derivatives = "kde_derivative 2", modes = "modes", rectangles = "cdf of rectangles", quantiles = "quantile",
  draws = "simulate", levels = "hdr_level", regions = "hdr_regions", bands = "kde_bands", ks = "as_ks"
)

# Verbs that call others: refused by these, too.
verb_parts <- list(second_derivatives = "derivatives", modes = "derivatives")

test_that("verbs of densities are refused where can() says so, and nowhere else", {
  here <- list2env(list(d = contract_rows(), w = NULL))
  kinds <- contract_kinds()
  methods <- contract_methods()
  wrong <- character()
  for (name in names(kinds)) {
    package <- kinds[[name]]$package
    if (!is.null(package) && !requireNamespace(package, quietly = TRUE)) next
    fit <- tryCatch(eval(kinds[[name]]$call, here), flashkernel_error = \(e) NULL)
    if (!inherits(fit, "flash_kde") || is_elsewhere(fit$x)) next
    for (verb in names(verb_methods)) {
      found <- outcome_of(\() methods[[verb_methods[[verb]]]]$call(fit, contract_newdata()))
      # refused for another reason, such as too few columns
      if (inherits(found$value, "flashkernel_error_argument")) next
      able <- all(vapply(c(verb, verb_parts[[verb]]), \(part) can(fit, part), NA))
      if ((found$outcome == "value") != able) wrong <- c(wrong, paste0(name, ", ", verb, ": can() is ", able))
    }
  }
  expect_identical(wrong, character())
})

test_that("every trait and every verb of the table is known, and each refusal says what to do", {
  for (verb in names(REFUSALS)) {
    cures <- REFUSALS[[verb]][[2]]
    expect_identical(setdiff(names(cures), names(TRAITS)), character(), info = verb)
    expect_true(all(nzchar(cures)), info = verb)
  }
  # beside the rule for balloon estimates
  expect_lte(sum(lengths(lapply(REFUSALS, `[[`, 2))) - length(NEED_A_DENSITY), 19)
})

# ---- what to do instead -----------------------------------------------------------------------

# By the text of a refusal: the same call with other arguments, whose fit has the verb, or a function of the refused fit
# that must succeed.
changed <- function(...) {
  values <- as.list(substitute(list(...)))[-1]
  \(call, here) {
    call <- match.call(flash_kde.default, call)
    call[names(values)] <- values
    eval(call, here)
  }
}
transformed <- changed(support = kde_support(c(0, 1), "transform"))
instead <- list(
  "fit estimator = \"laplace\"" = changed(estimator = "laplace"),
  "fit estimator = \"laplace\" or \"kde\"" = changed(estimator = "laplace"),
  "fit estimator = \"kde\" or \"sdkde\"" = changed(estimator = "kde"),
  "fit kernel = \"gaussian\"" = changed(kernel = "gaussian"),
  "use method = \"reflect\" or \"transform\" of kde_support()" = changed(support = kde_support(c(0, 1), "reflect")),
  "use method = \"transform\" of kde_support()" = transformed,
  "fit debiasing(nonnegative = FALSE)" = changed(debias = debiasing()),
  "use adaptive = FALSE or \"abramson\"" = changed(adaptive = "abramson"),
  "fit the columns that you want without `support`" = \(call, here) flash_kde(here$d[c("a", "b")], "kde", 0.1)
)
functions_instead <- list(
  "kde_marginal() and kde_conditional() make fits of the numbers alone" = \(fit) kde_marginal(fit, "a"),
  "predict(se.fit = TRUE) returns standard errors" = \(fit) predict(fit, se.fit = TRUE),
  "then predict(se.fit = TRUE)" = \(fit) predict(fit, se.fit = TRUE),
  "predict() returns the probabilities of categories" = \(fit) predict(fit, law_newdata()),
  "predict() returns the estimate at rows that you give" = \(fit) predict(fit, law_newdata()),
  "kde_derivative() returns the gradient of their density" = \(fit) kde_derivative(fit, law_newdata()),
  "simulate() draws from the estimate" = \(fit) stats::simulate(fit, 5, seed = 1),
  "hdr_level() returns the levels of regions" = \(fit) hdr_level(fit, 0.5, n_samples = 20),
  "use score = \"log\"" = \(fit) cross_validate(fit, folds = 2, score = "log"),
  "use kde_marginal(debias = TRUE), which debiases the marginal points" = \(fit) {
    kde_bands(kde_marginal(flash_kde(law_rows()[c("a", "b")], "sdkde", 0.1), "a", debias = TRUE))
  }
)

# Does following the `cure` of a refusal of the verb lead to a value? NA if an argument of the call does not allow it. `call`
# and `fit`: the refused one.
cure_works <- function(cure, verb, call, fit, here) {
  methods <- contract_methods()
  of_verb <- \(fit) methods[[c(verb_methods, cdf = "cdf")[[verb]]]]$call(fit, law_newdata())
  found <- outcome_of(\() {
    for (part in strsplit(cure, ", (?=then)", perl = TRUE)[[1]]) {
      ask <- functions_instead[[part]]
      if (is.null(ask)) fit <- instead[[part]](call, here)
    }
    # the last part says how
    (if (is.null(ask)) of_verb else ask)(fit)
  })
  if (inherits(found$value, "flashkernel_error_argument")) NA else found$outcome == "value"
}

test_that("what refusals of the table say to do instead can be done", {
  here <- list2env(list(d = law_rows(), w = NULL))
  kinds <- c(law_kinds(), contract_kinds())
  kinds <- Filter(\(kind) identical(kind$call[[1]], quote(flash_kde)) && is.null(kind$package), kinds)
  kinds$rebuilt <- list(call = quote(kde_marginal(flash_kde(d[c("a", "b")], "sdkde", 0.1), "a")))
  kinds$balloon_of_two <- list(call = quote(flash_kde(d[c("a", "b")], "kde", 0.2, adaptive = "balloon")))
  works <- list()
  for (kind in kinds) {
    fit <- tryCatch(eval(kind$call, here), flashkernel_error = \(e) NULL)
    if (!inherits(fit, "flash_kde") || is_elsewhere(fit$x)) next
    for (verb in names(REFUSALS)) {
      trait <- trait_against(fit, verb)
      pair <- paste(trait, verb)
      if (is.null(trait) || isTRUE(works[[pair]])) next
      works[[pair]] <- cure_works(REFUSALS[[verb]][[2]][[trait]], verb, kind$call, fit, here)
    }
  }
  pairs <- unlist(lapply(names(REFUSALS), \(verb) paste(names(REFUSALS[[verb]][[2]]), rep(verb, length(REFUSALS[[verb]][[2]])))))
  expect_setequal(names(works)[vapply(works, isTRUE, NA)], pairs)
})
