# The table of refusals (R/density-refusals.R) against what the verbs do.

verb_calls <- list(
  standard_errors = \(f, new) stats::predict(f, new, se.fit = TRUE),
  standard_errors_loo = \(f, new) stats::predict(f, se.fit = TRUE, loo = TRUE),
  score_loo = \(f, new) stats::predict(f, type = "score", loo = TRUE),
  marginal = \(f, new) kde_marginal(f, 1),
  conditional = \(f, new) kde_conditional(f, c(a = 0.4)),
  derivatives = \(f, new) kde_derivative(f, new),
  second_derivatives = \(f, new) kde_derivative(f, new, order = 2),
  modes = \(f, new) kde_modes(f),
  rectangles = \(f, new) kde_cdf(f, rep(0.6, f$d), lower = rep(0.2, f$d)),
  quantiles = \(f, new) stats::quantile(f),
  draws = \(f, new) stats::simulate(f, 3, seed = 1),
  levels = \(f, new) hdr_level(f, n_samples = 20),
  regions = \(f, new) hdr_regions(f, 0.5, n_grid = 8),
  grid = \(f, new) as.data.frame(f, grid = 4),
  bands = \(f, new) kde_bands(f, new),
  ks = \(f, new) as_ks(f, n = 5)
)

# Verbs that call others: refused by these, too.
verb_parts <- list(second_derivatives = "derivatives", standard_errors_loo = "standard_errors", modes = "derivatives")

test_that("verbs of densities are refused where can() says so, and nowhere else", {
  here <- list2env(list(d = contract_rows(), w = NULL))
  kinds <- contract_kinds()
  wrong <- character()
  for (name in names(kinds)) {
    package <- kinds[[name]]$package
    if (!is.null(package) && !requireNamespace(package, quietly = TRUE)) next
    fit <- tryCatch(eval(kinds[[name]]$call, here), flashkernel_error = \(e) NULL)
    if (!inherits(fit, "flash_kde") || is_elsewhere(fit$x)) next
    for (verb in names(verb_calls)) {
      outcome <- tryCatch(
        suppressMessages(suppressWarnings({
          verb_calls[[verb]](fit, contract_newdata())
          TRUE
        })),
        flashkernel_error_unsupported = \(e) FALSE,
        flashkernel_error_argument = \(e) NA # for another reason, such as too few columns
      )
      able <- all(vapply(c(verb, verb_parts[[verb]]), \(part) can(fit, part), NA))
      if (!is.na(outcome) && outcome != able) wrong <- c(wrong, paste0(name, ", ", verb, ": can() is ", able))
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
  expect_lte(sum(lengths(lapply(REFUSALS, `[[`, 2))), 65)
})
