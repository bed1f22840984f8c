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

test_that("there are at most ten reasons for refusals, each with words and with what to do", {
  expect_lte(length(REFUSALS), 10)
  for (entry in REFUSALS) {
    expect_identical(setdiff(entry$verbs, names(VERBS)), character(), info = entry$fits)
    expect_match(entry$fits, "which|whose|where", info = entry$fits)
    expect_true(nzchar(entry$instead), info = entry$fits)
  }
  expect_setequal(setdiff(names(verb_methods), names(VERBS)), character())
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
instead <- list(
  "fit estimator = \"kde\" or \"sdkde\"" = changed(estimator = "kde"),
  "fit kernel = \"biweight\" or \"gaussian\"" = changed(kernel = "biweight"),
  "fit debiasing(nonnegative = FALSE)" = changed(debias = debiasing()),
  "use adaptive = FALSE or \"abramson\"" = changed(adaptive = "abramson"),
  "fit the columns that you want without `support`" = \(call, here) flash_kde(here$d[c("a", "b")], "kde", 0.1)
)
functions_instead <- list(
  "kde_marginal() and kde_conditional() make fits of the numbers alone" = \(fit) kde_marginal(fit, "a"),
  "predict() returns the probabilities of categories" = \(fit) predict(fit, law_newdata()),
  "use score = \"log\"" = \(fit) cross_validate(fit, folds = 2, score = "log")
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
  kinds$balloon_of_two <- list(call = quote(flash_kde(d[c("a", "b")], "kde", 0.2, adaptive = "balloon")))
  kinds$uniform <- list(call = quote(flash_kde(d["a"], "kde", 0.2, kernel = "uniform")))
  works <- list()
  for (kind in kinds) {
    fit <- tryCatch(eval(kind$call, here), flashkernel_error = \(e) NULL)
    if (!inherits(fit, "flash_kde") || is_elsewhere(fit$x)) next
    for (verb in names(VERBS)) {
      entry <- refusal_of(fit, verb)
      pair <- paste(entry$trait, verb)
      if (is.null(entry) || isTRUE(works[[pair]])) next
      works[[pair]] <- cure_works(entry$instead, verb, kind$call, fit, here)
    }
  }
  pairs <- unlist(lapply(REFUSALS, \(entry) paste(entry$trait, entry$verbs)))
  expect_setequal(names(works)[vapply(works, isTRUE, NA)], pairs)
})
