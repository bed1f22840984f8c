# The laws of test-contract.R: statements that hold for fits of every kind. A law is a function of a case
# (helper-law-cases.R) that returns pairs of numbers that must agree. can() says which laws a density is exempt from;
# law_exceptions lists other exemptions with their reasons.

# `of`: the classes that the law applies to. `needs`: verbs, names of REFUSALS; a density that lacks one of them is
# exempt.
new_law <- function(says, of, pairs, needs = character()) list(says = says, of = of, pairs = pairs, needs = needs)

ANY_FIT <- c("flash_kde", "flash_conditional", "flash_kda", "kernel_regression", "kernel_ridge")
ANY_DENSITY <- c("flash_kde", "flash_conditional")

laws <- list(
  integral = new_law("the density integrates to one over its support and its categories", "flash_kde", \(case) {
    if (length(case$numbers) > 2) return(list())
    list(pair(sum(law_masses(case)$mass), 1, law_digits(case$fit)))
  }, "cdf"),
  integral_given = new_law("p(y | x) integrates to one over y at each x", "flash_conditional", \(case) {
    lapply(1:2, \(j) {
      rule <- law_nodes(case, case$fit$response)
      pair(sum(rule$weight * predict(case$fit, beside(rule$at, case, j))), 1, 1e-8)
    })
  }),
  logarithm = new_law("the log density is the logarithm of the density", ANY_DENSITY, \(case) {
    found <- predictions_of(case)
    list(pair(found$log_density, suppressWarnings(log(found$density)), 1e-11))
  }),
  score = new_law("the score is the slope of the log density", "flash_kde", \(case) {
    if (case$fit$d == 0) return(list())
    score <- as.matrix(predict(case$fit, case$new, type = "score"))
    lapply(seq_along(case$numbers), \(k) {
      slope <- slope_along(case$numbers[k], case$new, \(at) log(abs(predict(case$fit, at))))
      inside <- is.finite(slope)
      pair(score[inside, k], slope[inside], 1e-6)
    })
  }, "draws"),
  left_out = new_law("a point that is left out has the density of a fit without its row", ANY_DENSITY, \(case) {
    list(pair(predict(case$fit, loo = TRUE)[LEFT_OUT], without_each(case), 1e-9))
  }),
  left_out_errors = new_law("so it has the standard error", "flash_kde", \(case) {
    found <- predict(case$fit, se.fit = TRUE, loo = TRUE)$se.fit[LEFT_OUT]
    list(pair(found, without_each(case, se.fit = TRUE)[2, ], 1e-8))
  }),
  left_out_scores = new_law("so it has the score", "flash_kde", \(case) {
    if (case$fit$d == 0) return(list())
    found <- predict(case$fit, type = "score", loo = TRUE)[LEFT_OUT, ]
    list(pair(if (is.matrix(found)) t(found) else found, without_each(case, type = "score"), 1e-8))
  }),
  likelihood = new_law("logLik() is the sum of leave-one-out log densities, each weighted", ANY_DENSITY, \(case) {
    loo <- suppressWarnings(predict(case$fit, type = "log_density", loo = TRUE))
    want <- if (anyNA(loo)) -Inf else sum(case$weights / mean(case$weights) * loo)
    list(pair(as.numeric(suppressWarnings(logLik(case$fit))), want, 1e-11), pair(as.numeric(nobs(case$fit)), 20, 0))
  }),
  quantiles = new_law("the distribution function inverts the quantiles", "flash_kde", \(case) {
    probs <- c(1e-4, 0.01, 0.3, 0.5, 0.77, 0.9999)
    q <- as.matrix(quantile(case$fit, probs))
    tolerance <- if ("clipped" %in% traits_of(unclass(case$fit))) 1e-7 else 1e-10
    lapply(seq_along(case$numbers), \(k) {
      upper <- replace(matrix(Inf, nrow(q), ncol(q)), cbind(seq_len(nrow(q)), k), q[, k])
      pair(kde_cdf(case$fit, if (ncol(q) > 1) upper else upper[, 1]), probs, tolerance)
    })
  }, c("quantiles", "cdf")),
  quantiles_given = new_law("the distribution function of y at x inverts its quantiles", "flash_conditional", \(case) {
    if (is_level_response(case$fit)) return(list())
    probs <- c(0.01, 0.3, 0.99)
    q <- quantile(case$fit, case$new, probs)
    lapply(seq_len(nrow(q)), \(j) pair(kde_cdf(case$fit, q[j, ], case$new[j, ]), probs, 1e-10))
  }),
  distribution = new_law("the distribution function is the integral of the density", "flash_kde", \(case) {
    if (length(case$numbers) > 2) return(list())
    lower <- rep(0.21, length(case$numbers))
    upper <- seq(0.62, 0.78, length.out = length(case$numbers))
    rule <- law_nodes(case, case$variables, stats::setNames(Map(c, lower, upper), case$numbers), 20)
    box <- \(...) kde_cdf(case$fit, ...)
    area <- if (length(case$numbers) == 1) diff(box(c(lower, upper))) else box(t(upper), lower = t(lower))
    list(pair(area, sum(rule$weight * predict(case$fit, rule$at)), max(law_digits(case$fit), 1e-8)))
  }, c("rectangles", "cdf")),
  distribution_given = new_law("the distribution function at x integrates p(y | x)", "flash_conditional", \(case) {
    if (is_level_response(case$fit)) return(list())
    rule <- rule_between(0.2, 1.4, 60)
    lapply(1:2, \(j) {
      p <- predict(case$fit, beside(data.frame(y = rule$at), case, j))
      pair(diff(as.vector(kde_cdf(case$fit, c(0.2, 1.4), case$new[j, ]))), sum(rule$weight * p), 1e-9)
    })
  }),
  marginals = new_law("a marginal is the integral of the joint density over the other variables", "flash_kde", \(case) {
    if (length(case$variables) < 2) return(list())
    lapply(case$variables, \(kept) {
      others <- setdiff(case$variables, kept)
      if (sum(others %in% case$numbers) > 1) others <- others[1]
      kept <- setdiff(case$variables, others)
      rule <- law_nodes(case, others)
      want <- vapply(1:2, \(j) {
        sum(rule$weight * predict(case$fit, beside(rule$at, case, j)))
      }, 0)
      pair(predict(kde_marginal(case$fit, kept), case$new[1:2, kept, drop = FALSE]), want, law_digits(case$fit))
    })
  }, "marginal"),
  conditionals = new_law("a conditional density times the marginal is the joint density", "flash_kde", \(case) {
    if (length(case$variables) < 2) return(list())
    at <- case$new[1, ]
    several <- if (length(case$variables) > 2) list(case$variables[-1], case$variables[-2])
    lapply(c(case$variables, several), \(given) {
      there <- predict(kde_conditional(case$fit, as.list(at[given])), at[setdiff(case$variables, given)])
      pair(there * predict(kde_marginal(case$fit, given), at[given]), predict(case$fit, at), 1e-11)
    })
  }, c("conditional", "marginal")),
  joint = new_law("p(y | x) times the density of x is the joint density", "flash_conditional", \(case) {
    fit <- case$fit
    times <- predict(fit, case$new) * predict(kde_marginal(fit, fit$given), case$new[fit$given])
    list(pair(times, predict(fit$joint, case$new), 1e-10))
  }),
  conditionals_given = new_law("kde_conditional() at x is p(y | x) as a fit", "flash_conditional", \(case) {
    if (!can(case$fit$joint, "conditional")) return(list())
    there <- kde_conditional(case$fit, case$new[1, case$fit$given, drop = FALSE])
    at_y <- case$new[case$fit$response]
    list(pair(predict(there, at_y), predict(case$fit, beside(at_y, case, 1)), 1e-10))
  }),
  draws = new_law("draws follow the density, its positive part where it has a sign", "flash_kde", \(case) {
    if (length(case$numbers) > 2) return(list())
    found <- law_masses(case)
    draws <- as.data.frame(simulate(case$fit, 3000, seed = 1))
    list(pair(box_pvalue(found$at, pmax(found$mass, 0), draws) > 0.001, TRUE, 0))
  }, c("draws", "cdf")),
  draws_given = new_law("draws of y at x follow p(y | x)", "flash_conditional", \(case) {
    at <- case$new[1, case$fit$given, drop = FALSE]
    rule <- law_nodes(case, case$fit$response)
    mass <- rule$weight * predict(case$fit, beside(rule$at, case, 1))
    draws <- unlist(simulate(case$fit, 3000, seed = 1, newdata = at))
    list(pair(box_pvalue(rule$at, mass, stats::setNames(data.frame(draws), case$fit$response)) > 0.001, TRUE, 0))
  }),
  levels = new_law("a highest-density level holds its probability", "flash_kde", \(case) {
    if (length(case$numbers) > 2) return(list())
    inside <- \(draws, level) mean(suppressWarnings(predict(case$fit, draws)) >= level)
    level <- hdr_level(case$fit, 0.8, n_samples = 10000)
    share <- inside(simulate(case$fit, 4000, seed = 5), level)
    # five standard errors of either sample; equal densities of categories are on either side of a level
    list(pair(abs(share - 0.8) < 5 * sqrt(0.16 * (1 / 4000 + 1 / 10000)) || case$fit$d == 0, TRUE, 0))
  }, c("levels", "draws")),
  derivatives = new_law("derivatives are slopes: of the density, and of the gradient", "flash_kde", \(case) {
    at <- if (is_kind(case$fit, "mixed")) case$new else case$new[case$fit$names]
    gradient <- \(at) kde_derivative(case$fit, at)
    slopes <- \(f) vapply(case$fit$names, slope_along, f(at), at, f)
    c(
      list(pair(gradient(at), slopes(\(at) predict(case$fit, at)), 1e-8)),
      if (can(case$fit, "second_derivatives")) {
        list(pair(kde_derivative(case$fit, at, order = 2), slopes(gradient), 1e-8))
      }
    )
  }, "derivatives"),
  saved = new_law("a fit that was saved and read predicts the same bits", ANY_FIT, \(case) {
    file <- tempfile(fileext = ".rds")
    on.exit(unlink(file))
    saveRDS(case$fit, file)
    pair_lists(law_predictions(readRDS(file), case$new), predictions_of(case), 0)
  }),
  updated = new_law("update() without changes, or with another control, makes the same fit", ANY_FIT, \(case) {
    here <- list2env(list(d = case$rows, w = case$weights, fit = case$fit))
    calls <- expression(stats::update(fit), stats::update(fit, control = flash_control(threads = 1)))
    if (!as.character(case$call[[1]]) %in% FITTERS) calls <- calls[1] # what is made of a fit has its control
    unlist(lapply(calls, \(call) {
      set.seed(1)
      pair_lists(law_predictions(eval(call, here), case$new), predictions_of(case), 0)
    }), FALSE)
  }),
  repetitions = new_law("weights are repetitions: a row of weight 2 is the row twice", ANY_FIT, \(case) {
    rows <- case$rows[rep(seq_len(nrow(case$rows)), case$weights), ]
    pair_lists(predictions_of(case), law_predictions(case$make(rows), case$new), 1e-10)
  }),
  weightless = new_law("a row of weight 0 is no row", ANY_FIT, \(case) {
    weights <- replace(case$weights, c(3, 11), 0)
    fits <- list(case$make(case$rows, weights), case$make(case$rows[-c(3, 11), ], weights[-c(3, 11)]))
    pair_lists(law_predictions(fits[[1]], case$new), law_predictions(fits[[2]], case$new), 1e-10)
  }),
  equal_weights = new_law("weights of one are no weights, bit for bit", ANY_FIT, \(case) {
    fits <- list(case$make(case$rows, rep(1, nrow(case$rows))), case$make(case$rows))
    pair_lists(law_predictions(fits[[1]], case$new), law_predictions(fits[[2]], case$new), 0)
  }),
  unit_of_weights = new_law("the unit of the weights does not matter, to standard errors either", ANY_FIT, \(case) {
    scaled <- case$make(case$rows, 1024 * case$weights)
    c(
      pair_lists(law_predictions(scaled, case$new), predictions_of(case), 1e-11),
      if (inherits(case$fit, "flash_kde")) {
        errors <- lapply(list(scaled, case$fit), \(fit) predict(fit, case$new, se.fit = TRUE)$se.fit)
        list(pair(errors[[1]], errors[[2]], 1e-9))
      }
    )
  }),
  order = new_law("the order of the rows does not matter", ANY_FIT, \(case) {
    order <- with_fixed_seed(sample(nrow(case$rows)), 9)
    turned <- case$make(case$rows[order, ], case$weights[order])
    training <- lapply(law_predictions(case$fit), \(values) values[order, , drop = FALSE])
    c(
      pair_lists(law_predictions(turned, case$new), predictions_of(case), 1e-10),
      pair_lists(law_predictions(turned), training, 1e-10)
    )
  }),
  interfaces = new_law("formula, data frame, matrix and subset make the same fit", ANY_FIT, \(case) {
    more <- rbind(case$rows[c(5, 9), ], case$rows)
    keep <- seq_len(nrow(more)) > 2
    fits <- c(
      lapply(other_interfaces(case$call), law_fit, case$rows, case$weights),
      lapply(subset_interfaces(case$call), law_fit, more, c(7, 8, case$weights), frame = list(keep = keep))
    )
    unlist(lapply(fits, \(fit) {
      pair_lists(law_predictions(fit, case$new), predictions_of(case), 0)
    }), FALSE)
  }),
  one_row = new_law("a row has the same prediction alone as among others", ANY_FIT, \(case) {
    together <- predictions_of(case)
    alone <- lapply(seq_len(nrow(case$new)), \(j) law_predictions(case$fit, case$new[j, ]))
    lapply(names(together), \(type) {
      want <- do.call(rbind, lapply(alone, `[[`, type))
      pair(together[[type]], as.vector(want), 1e-12)
    })
  }),
  missing = new_law("a row with NA predicts NA, in the data as if it were not there", ANY_FIT, \(case) {
    holes <- case$rows
    holes[6, c("a", "b", "g")] <- NA
    padded <- law_fit(case$call, holes, case$weights, na.action = stats::na.exclude)
    without <- case$make(case$rows[-6, ], case$weights[-6])
    as_holes <- \(values, row) lapply(values, \(value) replace(value, slice.index(value, 1) == row, NA))
    wider <- lapply(law_predictions(without), \(values) values[append(1:19, 1, 5), , drop = FALSE])
    new <- case$new
    new[2, c("a", "b", "g")] <- NA
    c(
      pair_lists(law_predictions(padded), as_holes(wider, 6), 0),
      pair_lists(law_predictions(padded, new), as_holes(law_predictions(without, case$new), 2), 0)
    )
  }),
  shown = new_law("fitted() and as.data.frame() have what predict() has", "flash_kde", \(case) {
    found <- predict(case$fit)
    frame <- as.data.frame(case$fit)
    logs <- suppressWarnings(predict(case$fit, type = "log_density"))
    list(pair(fitted(case$fit), found, 0), pair(frame$density, found, 0), pair(frame$log_density, logs, 0))
  }),
  figures = new_law("a figure shows the density", "flash_kde", \(case) {
    if (length(case$numbers) > 2 || length(case$variables) > length(case$numbers)) return(list())
    drawn <- with_null_device(plot(case$fit, n = 20))
    if (length(case$numbers) == 1) return(list(pair(drawn$y, predict(case$fit, drawn$x), 1e-12)))
    at <- as.matrix(expand.grid(drawn$x, drawn$y))
    list(pair(as.vector(drawn$z), predict(case$fit, unname(at)), 1e-12))
  }),
  threads = new_law("any number of threads makes the same bits", ANY_FIT, \(case) {
    rows <- law_rows(400)
    by <- \(threads) {
      old <- options(flashkernel.threads = threads)
      on.exit(options(old))
      fit <- case$make(rows, rep_len(case$weights, 400))
      c(law_predictions(fit, rows[1:20, ]), law_predictions(fit))
    }
    pair_lists(by(1L), by(3L), 0)
  })
)

# The points `at` for some variables, with the other variables of the new row j.
beside <- function(at, case, j) {
  others <- setdiff(names(case$new), names(at))
  cbind(at, case$new[rep(j, nrow(at)), others], row.names = NULL)
}

# The slope of f along one column of points, by differences with an error of fourth order.
slope_along <- function(name, at, f) {
  moved <- \(step) {
    at[[name]] <- at[[name]] + step
    f(at)
  }
  (8 * (moved(1e-4) - moved(-1e-4)) - (moved(2e-4) - moved(-2e-4))) / 12e-4
}

LEFT_OUT <- c(1, 4, 20)

# Predictions for each of the rows LEFT_OUT, by fits without that row.
without_each <- function(case, ...) {
  if (is.null(case$kept$fits)) {
    case$kept$fits <- lapply(LEFT_OUT, \(i) case$make(case$rows[-i, ], case$weights[-i]))
  }
  mapply(\(i, fit) unlist(predict(fit, case$rows[i, ], ...)), LEFT_OUT, case$kept$fits)
}

# ---- exceptions -------------------------------------------------------------------------------

# Exemptions of kinds of fits: the reason, and regular expressions of kinds and laws.
law_exceptions <- list(
  list("points elsewhere are for predict(), logLik() and simulate() alone", "big.matrix|flash_data",
    "quantiles|distribution|marginals|conditionals|levels|derivatives|figures|shown|saved|updated|missing|interfaces"
  ),
  list("bandwidths that are chosen for other rows are others", "default", "left_out|equal_weights"),
  list("factors that are chosen for other rows are others", "adaptive|balloon", "left_out"),
  list("what is left out has the scale of all rows", "nonnegative|boundary|local", "left_out"),
  list("SD-KDEs leave out nothing but densities", "default|sdkde", "left_out_"),
  list("points debiased in more columns are not left out", "(conditional|marginal) sdkde", "left_out|likelihood"),
  list("centers are drawn by their numbers", "centers", "order"),
  list("its weights are those at what is given", "^given", "likelihood"),
  list("conditional densities with a sign have no quantiles", "conditional laplace", "quantiles|draws"),
  list("the parabola of a local likelihood has a row's share of the weights", "^local", "repetitions"),
  list("the penalty is for the number of rows, whatever they weigh", "ridge", "repetitions|weightless|unit_of_weights")
)

# The result for a law: `broken`, a line for each case that violates it, and the number of cases that satisfy it.
law_verdicts <- function(name, cases) {
  law <- laws[[name]]
  found <- lapply(cases, \(case) {
    fit <- case$fit
    if (!inherits(fit, law$of) || is_exempt(case, name)) return(NULL)
    if (inherits(fit, "flash_kde") && !all(vapply(law$needs, \(verb) can(fit, verb), NA))) return(NULL)
    tryCatch(disagreement(law$pairs(case)), error = \(e) paste("error:", conditionMessage(e)))
  })
  said <- unlist(found)
  broken <- said[said != "holds"]
  list(broken = paste0(names(broken), ": ", broken, recycle0 = TRUE), held = sum(said == "holds"))
}

is_exempt <- function(case, law_name) {
  any(vapply(law_exceptions, \(known) grepl(known[[2]], case$name) && grepl(known[[3]], law_name), NA))
}

# "holds", a description of the first pair that disagrees, or NULL if there are no pairs.
disagreement <- function(pairs) {
  for (pair in pairs) {
    if (!agrees(as.vector(pair$got), as.vector(pair$want), pair$tolerance)) {
      digits <- \(x) paste(format(utils::head(as.vector(x), 4), digits = 12), collapse = " ")
      return(paste0("found ", digits(pair$got), ", not ", digits(pair$want)))
    }
  }
  if (length(pairs) > 0) "holds"
}

# Relative for numbers above 1, absolute below; NaN and infinite numbers must be at the same positions.
agrees <- function(got, want, tolerance) {
  if (tolerance == 0 || length(got) != length(want)) return(identical(got, want))
  same <- is.infinite(want) & got %in% want
  if (!identical(is.na(got), is.na(want)) || any(got[same] != want[same])) return(FALSE)
  used <- !same & !is.na(want)
  !any(used) || isTRUE(scaled_error(got[used], want[used]) <= tolerance)
}
