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
