# Verbs of densities with copies, categories or corrected kernels, beside literal formulas and numerical integrals.

rows <- with_fixed_seed({
  a <- runif(40, 0.03, 0.97)
  data.frame(
    a = a, b = pmin(pmax(0.3 + 0.5 * a + rnorm(40, sd = 0.2), 0.04), 0.95),
    g = factor(sample(c("u", "v", "w"), 40, TRUE)), o = factor(sample(1:3, 40, TRUE), ordered = TRUE)
  )
}, 3)
weights <- rep_len(c(1, 2, 3), 40)
places <- data.frame(
  a = c(0.01, 0.2, 0.5, 0.99), b = c(0.02, 0.4, 0.6, 0.9), g = factor(c("u", "v", "w", "u")),
  o = factor(c(1, 2, 3, 1), ordered = TRUE)
)
inside <- \(method) kde_support(c(0, 1), method)
on_a_line <- \(method, ...) flash_kde(rows["a"], "kde", if (method %in% c("transform", "local")) 0.3 else 0.1,
  support = if (method == "circle") kde_circle(1) else inside(method), ...)
square_of <- \(fit, loo = FALSE) log_square_integral(unclass(fit), loo, fit_control(fit))

test_that("standard errors of bent estimates are those of their derivatives with the weights", {
  for (method in c("boundary", "local")) {
    fit <- on_a_line(method, weights = weights)
    y <- to_working(fit$support, as.matrix(places["a"]))[, 1]
    # the estimate before it is divided by the weights and its integral; the weight of one more point stays as it is
    logs <- \(j, step) {
      sources <- sum_sources(fit$inner$x, replace(weights, j, weights[j] + step), fit_factor(fit$inner))
      sums <- replace(local_means(sources, y, FALSE, fit_control(fit)), "log_weight", log_mean_weight(weights))
      if (method == "local") return(local_estimate(sums))
      sums$log_sum + log_boundary_factor(fit$support, y, sources$L[1], -sums$m)
    }
    slopes <- vapply(seq_len(40), \(j) (logs(j, 1e-5) - logs(j, -1e-5)) / 2e-5, numeric(4))
    found <- predict(fit, places["a"], se.fit = TRUE)
    literal <- sqrt(slopes^2 %*% weights^2 - (slopes %*% weights)^2 * sum(weights^2) / sum(weights)^2)
    expect_equal(found$se.fit / found$fit, drop(literal), tolerance = 1e-6, label = method)
  }
})

test_that("standard errors of laplace6 are sums of its squared kernels", {
  fit <- flash_kde(rows[c("a", "b")], "laplace6", 0.2, weights = weights)
  q <- sapply(seq_len(4), \(i) rowSums((as.matrix(rows[c("a", "b")]) - rep(unlist(places[i, 1:2]), each = 40))^2) / 0.04)
  k <- exp(-q / 2) / (2 * pi * 0.04) * (3 - 3 * (q / 2) + (q / 2)^2 / 2)
  p <- colSums(weights * k) / sum(weights)
  se <- sqrt(colSums(weights^2 * k^2) - p^2 * sum(weights^2)) / sum(weights)
  found <- predict(fit, places[1:2], se.fit = TRUE)
  expect_equal(found$fit, p)
  expect_equal(found$se.fit, se)
})

test_that("modes on a support are the highest places of a fine grid", {
  x <- with_fixed_seed(c(rbeta(60, 2, 8), rbeta(40, 9, 3)), 2)
  for (method in c("transform", "reflect", "mass", "boundary", "local", "circle")) {
    wide <- method %in% c("transform", "local")
    support <- if (method == "circle") kde_circle(1) else inside(method)
    fit <- flash_kde(x, "kde", if (wide) 0.25 else 0.06, support = support)
    grid <- seq(5e-4, 1 - 5e-4, length.out = 20001)
    p <- predict(fit, grid)
    tops <- which(diff(sign(diff(p))) < 0) + 1
    modes <- kde_modes(fit)
    modes <- modes[order(modes$x), ]
    expect_equal(modes$x, grid[tops], tolerance = 1e-4, label = method)
    expect_equal(modes$density, p[tops], tolerance = 1e-6, label = method)
    clusters <- mean_shift(fit)
    expect_setequal(clusters$cluster, seq_along(tops))
    # the mode of the cluster is uphill from each point
    at <- clusters$modes$x[clusters$cluster]
    expect_true(all(predict(fit, at) >= predict(fit, x) - 1e-12), label = method)
  }
  # a maximum at the bound, and one on either side of the seam of a circle
  for (method in c("reflect", "boundary")) {
    fit <- flash_kde(c(0:5 / 100, 0.5), "kde", 0.2, support = kde_support(c(0, Inf), method))
    p <- predict(fit, seq(0, 1, length.out = 1001))
    expect_identical(which.max(p), 1L)
    expect_equal(kde_modes(fit)$density[1], p[1])
    expect_equal(kde_modes(fit)$x[1], 0)
    expect_true(all(mean_shift(fit)$cluster == 1))
  }
  seam <- flash_kde(c(-3:3 / 100, 0.5) %% 1, "kde", 0.05, support = kde_circle(1))
  expect_equal(nrow(kde_modes(seam)), 2)
})

test_that("bands have the standard errors of the estimate, and corrected ones those of the corrected kernel", {
  fits <- list(
    laplace6 = flash_kde(rows["a"], "laplace6", 0.1), mixed = flash_kde(rows[c("a", "g", "o")], "kde", 0.1),
    levels = flash_kde(rows[c("g", "o")]), clipped = flash_kde(rows["a"], "laplace", 0.1,
      debias = debiasing(nonnegative = TRUE)),
    factors = flash_kde(rows["a"], "kde", 0.1, support = inside("reflect"), adaptive = rep_len(c(0.7, 1, 1.4), 40)),
    plane = flash_kde(rows[c("a", "b")], "kde", 0.1, support = list(a = inside("reflect"), b = kde_circle(1))),
    laplace = flash_kde(rows["a"], "laplace", 0.1, support = inside("reflect")), mass = on_a_line("mass"),
    transform = on_a_line("transform"), reflect = on_a_line("reflect"), circle = on_a_line("circle")
  )
  for (name in names(fits)) {
    found <- kde_bands(fits[[name]], places, correct = FALSE)
    want <- predict(fits[[name]], places, se.fit = TRUE)
    expect_equal(found$estimate, pmax(want$fit, 0), label = name)
    expect_equal(found$se, want$se.fit, tolerance = 1e-5, label = name)
    expect_true(all(found$lower <= found$estimate & found$estimate <= found$upper), label = name)
  }
  for (name in c("transform", "circle")) {
    corrected <- kde_bands(fits[[name]], places)
    support <- if (name == "circle") kde_circle(1) else inside(name)
    laplace <- flash_kde(rows["a"], "laplace", fits[[name]]$inner$bandwidth, support = support)
    want <- predict(laplace, places, se.fit = TRUE)
    expect_equal(corrected$estimate, pmax(want$fit, 0), label = name)
    expect_equal(corrected$se, want$se.fit, tolerance = 1e-5, label = name)
  }
  # the estimate has no value on the bound of a transformed column, and outside the density is 0
  at <- kde_bands(fits$transform, c(0, -1))
  expect_identical(unlist(at[1, c("estimate", "upper", "se")], use.names = FALSE), rep(NA_real_, 3))
  expect_identical(unlist(at[2, c("estimate", "upper", "se")], use.names = FALSE), c(0, 0, 0))
})

test_that("a bootstrap of reflected and mixed estimates has nearly the asymptotic standard errors", {
  for (fit in list(on_a_line("reflect"), flash_kde(rows[c("a", "g")], "kde", 0.15))) {
    set.seed(1)
    ratio <- kde_bands(fit, places, method = "bootstrap", replicates = 500)$se / kde_bands(fit, places)$se
    expect_within(ratio, rep(1, 4), 0.15)
  }
})

test_that("integrals of squares are numerical integrals, also without a point", {
  grid <- seq(-2, 3, length.out = 4001)
  cells <- expand.grid(g = factor(c("u", "v", "w")), o = factor(1:3, ordered = TRUE))
  smoothing <- categorical_kernel(smoothing = 0.3)
  for (columns in list("a", c("a", "g"), c("a", "g", "o"))) for (estimator in c("kde", "laplace", "laplace6")) {
    at <- data.frame(a = grid)
    if (length(columns) > 1) at <- merge(at, unique(cells[columns[-1]]))
    integral <- \(fit) log(sum(predict(fit, at)^2) * diff(grid[1:2]))
    fit_of <- \(rows, w) {
      flash_kde(rows[columns], estimator, 0.15, weights = w, categorical = if (length(columns) > 1) smoothing)
    }
    found <- square_of(fit_of(rows, weights), TRUE)
    expect_equal(found$log, integral(fit_of(rows, weights)), label = paste(estimator, length(columns)))
    expect_equal(found$log_loo[7], integral(fit_of(rows[-7, ], weights[-7])), label = paste(estimator, length(columns)))
  }
})

test_that("probabilities of rectangles are integrals: of laplace6, on a polygon, and of correlated corrected kernels", {
  rule <- gauss_rule(50)
  between <- \(low, high) list(at = low + (high - low) * rule$node, weight = (high - low) * rule$weight)
  integral <- \(fit, low, high) {
    x <- Map(between, low, high)
    at <- expand.grid(lapply(x, `[[`, "at"))
    sum(Reduce(`*`, expand.grid(lapply(x, `[[`, "weight"))) * predict(fit, stats::setNames(at, fit$names)))
  }
  for (H in list(matrix(c(0.04, 0.02, 0.02, 0.03), 2), diag(c(0.04, 0.02)))) {
    fit <- flash_kde(rows[c("a", "b")], "laplace6", H, weights = weights)
    box <- kde_cdf(fit, cbind(0.8, 0.7), lower = cbind(0.1, -0.2))
    expect_equal(box, integral(fit, c(0.1, -0.2), c(0.8, 0.7)), tolerance = 1e-8)
  }
  square <- flash_kde(rows[c("a", "b")], "kde", 0.1, support = cbind(c(0, 1, 1, 0), c(0, 0, 1, 1)))
  box <- kde_cdf(square, rbind(c(0.8, 0.7), c(0.3, Inf), c(0.5, 0.2)), lower = rbind(c(0.1, 0.2), -Inf, c(0.6, 0)))
  expect_equal(box, c(integral(square, c(0.1, 0.2), c(0.8, 0.7)), integral(square, c(0, 0), c(0.3, 1)), 0))
  triangle <- flash_kde(rows[rows$b < rows$a, c("a", "b")], "kde", 0.1, support = cbind(c(0, 1, 1), c(0, 0, 1)))
  q <- quantile(triangle, c(0, 0.1, 0.5, 0.9, 1))
  expect_equal(kde_cdf(triangle, cbind(q[, "a"], Inf)), c(0, 0.1, 0.5, 0.9, 1))
  expect_equal(kde_cdf(triangle, cbind(Inf, q[, "b"])), c(0, 0.1, 0.5, 0.9, 1))
  three <- cbind(rows[c("a", "b")], c = rev(rows$a))
  H <- 0.04 * (0.6 + 0.4 * diag(3))
  for (estimator in c("laplace", "laplace6")) {
    fit <- flash_kde(three, estimator, H)
    found <- kde_cdf(fit, cbind(0.7, 0.8, 0.9), lower = cbind(0.1, 0.1, 0.2))
    rule <- gauss_rule(24)
    expect_within(found, integral(fit, c(0.1, 0.1, 0.2), c(0.7, 0.8, 0.9)), 2e-6)
  }
})
