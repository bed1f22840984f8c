# What messages and prints advise: each case is a part of the text, a call that shows it, and calls that follow the
# advice. tools/check-messages.R checks that every text that advises has a case here.

# Evaluates `bad`, which must raise an error of this package, a warning or a message, or return what it printed
# (printed()). The text must contain the fixed parts of `text`. Then evaluates `...`, which must succeed. `text`: as
# tools/messages.txt has it, with <...> for computed parts.
advice <- function(text, bad, ...) {
  raised <- tryCatch(bad, flashkernel_error = identity, warning = identity, message = identity)
  said <- if (inherits(raised, "condition")) conditionMessage(raised) else raised
  parts <- unlist(strsplit(text, "<...>", fixed = TRUE))
  for (part in parts[nzchar(parts)]) testthat::expect_match(said, part, fixed = TRUE)
  after <- tryCatch(list(...), flashkernel_error = identity)
  testthat::expect_false(inherits(after, "condition"), label = if (inherits(after, "condition")) conditionMessage(after) else "advice")
}

# What print() shows of `x`, without line breaks.
printed <- function(x) gsub("[[:space:]]+", " ", paste(utils::capture.output(print(x)), collapse = " "))

# Nothing here can raise the message: `why` says which test follows the advice, or what it would need.
advice_elsewhere <- function(text, why) NULL

rows <- function() with_fixed_seed({
  a <- stats::runif(30, 0.05, 0.95)
  data.frame(
    a = a, b = stats::runif(30, 0.1, 0.9), y = sin(5 * a) + stats::rnorm(30, sd = 0.1),
    g = factor(rep_len(c("u", "v", "w"), 30)), two = factor(rep_len(c("n", "p"), 30))
  )
}, 1)

test_that("advice on bandwidths and arguments works", {
  d <- rows()
  reflected <- flash_kde(d$a, "kde", 0.1, support = c(0, 1))
  advice(
    "must be a fit without `support`, or with method = \"transform\"", adaptive_factors(reflected),
    adaptive_factors(flash_kde(d$a, "kde", 0.1, support = kde_support(c(0, 1), "transform")))
  )
  advice(
    "is available only for points without categorical columns (use flash_kda() for one fit of each category)",
    flash_kde(d[c("a", "g")], support = list(a = c(0, 1))), flash_kda(g ~ a, d, support = c(0, 1))
  )
  advice("(did you mean `<...>`?)", predict(reflected, 0.5, interval = "confidence"), kde_bands(reflected, 0.5))
  advice("Use `parm`.", confint(reflected, newdata = 0.5), confint(reflected, parm = 0.5))
  advice("Use flash_kde(class ~ x) or kernel_ridge().", flash_kda(two ~ g, d), flash_kde(two ~ g, d), kernel_ridge(two ~ g, d))
  advice("(did you mean `<...>`?)", flash_kde(d$a, positive = TRUE), flash_kde(d$a, support = c(0, Inf)))
  advice("(did you mean `band`?)", plot(reflected, ci = TRUE), with_null_device(plot(reflected, band = TRUE)))
  advice(
    "must be values ~ a variable of two groups: found <...> groups (`subset` selects two)", kde_test(a ~ g, d),
    kde_test(a ~ g, d, subset = g != "u")
  )
  advice("must be numeric: found <...> (use factor(x) for its categories)", flash_kde(c("u", "v", "u")), flash_kde(factor(c("u", "v", "u"))))
  counts <- table(d[c("g", "two")])
  advice(
    "must not be a table (use as.data.frame(x), with its counts `Freq` as `weights`)", flash_kde(counts),
    flash_kde(~ g + two, as.data.frame(counts), weights = Freq)
  )
  modes <- kde_modes(flash_kde(100 * 1:30, "kde", bandwidth = 1))
  advice("... and <...> more rows: see as.data.frame()", printed(modes), as.data.frame(modes))
  twice <- rbind(cbind(d, is = TRUE, n = 2), cbind(d, is = FALSE, n = 3))
  advice(
    "(of two counts, give each row twice, with TRUE and with FALSE as response, and both counts as `weights`)",
    kernel_ridge(cbind(a, b) ~ y, d, family = "binomial"), kernel_ridge(is ~ y, twice, weights = n, family = "binomial")
  )
  sums <- kernel_ridge(y ~ a + k(b), d)
  advice("must be numbers: found a fit of kernel_ridge(). Use <...>(fitted(x)).", median(sums), median(fitted(sums)))
  for (f in list(mean, stats::quantile, range, log)) expect_error(f(sums), "(fitted(x))", fixed = TRUE, class = "flashkernel_error")
  advice(
    "must be \"none\" for terms. Use `se.fit = TRUE`.", predict(sums, type = "terms", interval = "confidence"),
    predict(sums, type = "terms", se.fit = TRUE)
  )
  advice("(rescale it)", flash_kde(d$a * 1e-170), flash_kde(d$a))
  one <- \(...) flash_kde(data.frame(a = 1:2, g = factor(c("u", "v"))), "kde", 0.1, weights = c(1, 0), ...)
  advice("smoothing of categories: found one (give ", one(), one(categorical = categorical_kernel(smoothing = 0)))
  advice("(give `bandwidth` as a number)", flash_kde(1), flash_kde(1, "kde", 0.1))
  selected <- kde_bandwidth(method = "silverman")
  advice("(give `<...>` as a number)", flash_kde(1, "kde", selected), flash_kde(1, "kde", 0.1))
  advice(
    "(give `bandwidth` as numbers)", flash_kde(y ~ a, transform(d, a = 1)),
    flash_kde(y ~ a, transform(d, a = 1), bandwidth = c(0.1, 0.1))
  )
  advice(
    "(kde_bandwidth() returns the bandwidth of a method)", kernel_sum(d$a, bandwidth = "auto"),
    kernel_sum(d$a, bandwidth = kde_bandwidth(d$a))
  )
  day <- as.Date("2026-01-01") + 1:30
  advice("(as.numeric() makes numbers of it)", kernel_sum(day, bandwidth = 1), kernel_sum(as.numeric(day), bandwidth = 1))
  advice("(write weights = <...>)", flash_kde(~a, d, weights = "b"), flash_kde(~a, d, weights = b))
  advice("(write a product as I(a * b))", flash_kde(~ a:b, d), flash_kde(~ I(a * b), d))
  gaps <- replace(d$a, 3, NA)
  advice(
    "(na.action = na.omit leaves such rows out)", flash_kde(gaps, na.action = na.fail),
    flash_kde(gaps, "kde", 0.1, na.action = na.omit)
  )
  advice(
    "as the largest (rescale the response)", kernel_regression(d["a"], d$y * 1e200, bandwidth = 0.1),
    kernel_regression(d["a"], d$y, bandwidth = 0.1)
  )
  advice(
    "(give the values of a column, not its name)", flash_kde(d$a, "kde", 0.1, weights = "b"),
    flash_kde(d$a, "kde", 0.1, weights = d$b)
  )
})

test_that("advice on debiasing and leave-one-out values works", {
  d <- rows()
  plane <- d[c("a", "b")]
  advice(
    "leave out `adaptive`, or `debias`", flash_kde(d$a, "sdkde", 0.1, adaptive = TRUE, debias = debiasing(steps = 2)),
    flash_kde(d$a, "sdkde", 0.1, debias = debiasing(steps = 2)), flash_kde(d$a, "sdkde", 0.1, adaptive = TRUE)
  )
  debiased <- flash_kde(plane, "sdkde", 0.1)
  advice(
    ": compute them for the original fit<...>, or use kde_marginal(debias = TRUE)",
    predict(kde_marginal(debiased, "a"), loo = TRUE),
    predict(debiased, loo = TRUE), predict(kde_marginal(debiased, "a", debias = TRUE), loo = TRUE)
  )
  apart <- \(...) flash_kde(c(0, 0.1, 1e6), "laplace", 0.1, debias = debiasing(...))
  advice(
    "points 30,000 bandwidths apart: use simulate(), or fit without `nonnegative`", kde_cdf(apart(nonnegative = TRUE), 1),
    simulate(apart(nonnegative = TRUE), 5, seed = 1), kde_cdf(apart(), 1)
  )
  steps <- flash_kde(d$a, "sdkde", 0.1, debias = debiasing(steps = 2))
  replace_in_package("MOST_REFIT_PAIRS", 100)
  advice("use cross_validate(), which leaves out `folds` of rows", predict(steps, loo = TRUE), cross_validate(steps, folds = 2))
  advice(
    ": fit estimator = \"kde\", or use cross_validate()",
    predict(flash_kde(y ~ a, d, estimator = "sdkde", bandwidth = 0.2), loo = TRUE),
    predict(flash_kde(y ~ a, d, estimator = "kde", bandwidth = 0.2), loo = TRUE),
    cross_validate(flash_kde(y ~ a, d, estimator = "sdkde", bandwidth = 0.2), folds = 2)
  )
})

test_that("advice on supports works", {
  d <- rows()
  plane <- d[c("a", "b")]
  advice(
    "has a point on a bound (use method = \"reflect\")",
    flash_kde(c(0, d$a), "kde", 0.1, support = kde_support(c(0, 1), "transform")),
    flash_kde(c(0, d$a), "kde", 0.1, support = kde_support(c(0, 1), "reflect"))
  )
  advice(
    "is available only with method = \"transform\" on a support: use it, or \"abramson\"",
    flash_kde(d$a, "kde", 0.1, adaptive = "knn", support = c(0, 1)),
    flash_kde(d$a, "kde", 0.1, adaptive = "knn", support = kde_support(c(0, 1), "transform")),
    flash_kde(d$a, "kde", 0.1, adaptive = "abramson", support = c(0, 1))
  )
  advice(
    "with one bandwidth: use \"reflect\" or \"transform\"",
    flash_kde(d$a, "sdkde", 0.1, support = kde_support(c(0, 1), "boundary")),
    flash_kde(d$a, "sdkde", 0.1, support = kde_support(c(0, 1), "reflect")),
    flash_kde(d$a, "sdkde", 0.1, support = kde_support(c(0, 1), "transform"))
  )
  advice(
    "method = \"mass\" is not available for \"<...>\": use estimator = \"kde\" or \"sdkde\"",
    flash_kde(d$a, "laplace", 0.1, support = kde_support(c(0, 1), "mass")),
    flash_kde(d$a, "sdkde", 0.1, support = kde_support(c(0, 1), "mass"))
  )
  full <- matrix(c(0.02, 0.01, 0.01, 0.02), 2)
  advice(
    "(give standard deviations, or use method = \"transform\")", flash_kde(plane, "kde", full, support = list(a = c(0, 1))),
    flash_kde(plane, "kde", c(0.1, 0.1), support = list(a = c(0, 1))),
    flash_kde(plane, "kde", full, support = list(a = kde_support(c(0, 1), "transform")))
  )
  images <- abs(with_fixed_seed(matrix(stats::rnorm(60 * 300), 60), 2))
  reflecting <- \(h, method = "reflect") flash_kde(images, "kde", h, support = kde_support(c(0, Inf), method))
  advice(
    "(give a smaller `bandwidth` as a number<...>, or use \"kde\" and method = \"mass\" of kde_support()",
    reflecting(1), reflecting(1e-4), reflecting(1, "mass")
  )
  many <- as.data.frame(matrix(seq(0.1, 0.9, length.out = 60), 2))
  mass <- \(k) stats::setNames(rep(list(kde_support(c(0, 1), "mass")), k), names(many)[seq_len(k)])
  advice("(bound fewer columns)", flash_kde(many, "kde", 1e11, support = mass(30)), flash_kde(many, "kde", 1, support = mass(2)))
})

test_that("advice on conditional densities works", {
  d <- rows()
  mixed <- flash_kde(d[c("a", "b", "g")], "kde", 0.2, categorical = categorical_kernel(smoothing = 0.2))
  advice(
    "(c() turns numbers beside texts into texts: use list())", kde_conditional(mixed, c(a = 0.5, g = "u")),
    kde_conditional(mixed, list(a = 0.5, g = "u"))
  )
  advice("(for the density of y alone, use ~ y)", flash_kde(y ~ 1, d), flash_kde(~y, d))
  advice(
    "use kde_conditional(), or flash_kda() for one fit of each category",
    flash_kde(y ~ a, d, support = c(0, 1)),
    kde_conditional(flash_kde(~ y + a, d, estimator = "kde", bandwidth = 0.2, support = list(a = c(0, 1))), c(a = 0.5))
  )
  advice(
    "is not available for y ~ x: fit all columns with it, and use kde_conditional()",
    flash_kde(y ~ a, d, kernel = "biweight"),
    kde_conditional(flash_kde(~ y + a, d, bandwidth = c(0.2, 0.2), kernel = "biweight"), c(a = 0.5))
  )
  signed <- flash_kde(y ~ a, d, estimator = "laplace", bandwidth = 0.2)
  advice("use kde_cdf() for the distribution function", quantile(signed, d[1:2, ], 0.5), kde_cdf(signed, 0.5, d[1:2, ]))
  advice(
    "fit estimator = \"kde\" or \"sdkde\"", simulate(signed, 2, newdata = d[1:2, ]),
    simulate(flash_kde(y ~ a, d, estimator = "kde", bandwidth = 0.2), 2, newdata = d[1:2, ]),
    simulate(flash_kde(y ~ a, d, estimator = "sdkde", bandwidth = 0.2), 2, newdata = d[1:2, ])
  )
  of_classes <- flash_kde(g ~ a, d, bandwidth = 0.2, categorical = categorical_kernel(smoothing = 0.2))
  advice(
    "need a numeric response: use predict() for the probabilities of the categories of <...>",
    quantile(of_classes, d[1:2, ], 0.5), predict(of_classes, d[1:2, ])
  )
  advice(
    "give a diagonal bandwidth, or fit the columns that you want alone",
    kde_marginal(flash_kde(d[c("a", "b")], "kde", matrix(c(0.02, 0.01, 0.01, 0.02), 2), kernel = "biweight"), "a"),
    kde_marginal(flash_kde(d[c("a", "b")], "kde", c(0.1, 0.1), kernel = "biweight"), "a"),
    flash_kde(d["a"], "kde", 0.1, kernel = "biweight")
  )
})

test_that("advice on kernels, control and rectangles works", {
  d <- rows()
  given <- flash_kde(y ~ a, d, bandwidth = c(0.2, 0.2))
  advice("(use kde_conditional() for the density at given values)", kde_modes(given), kde_modes(kde_conditional(given, c(a = 0.4))))
  plane <- d[c("a", "b")]
  full <- matrix(c(0.02, 0.01, 0.01, 0.02), 2)
  advice(
    "needs: use \"kde\" or \"sdkde\"", flash_kde(d$a, "laplace", 0.1, kernel = "biweight"),
    flash_kde(d$a, "kde", 0.1, kernel = "biweight"), flash_kde(d$a, "sdkde", 0.1, kernel = "biweight")
  )
  advice(
    "Use debiasing(steps = 1)", flash_kde(d$a, "sdkde", 0.1, kernel = "biweight", debias = debiasing(steps = 2)),
    flash_kde(d$a, "sdkde", 0.1, kernel = "biweight", debias = debiasing(steps = 1))
  )
  advice(
    "is available only for the Gaussian kernel: leave it out",
    flash_kde(d$a, "kde", 0.1, kernel = "biweight", control = flash_control(engine = "fast", tol = 1e-3)),
    flash_kde(d$a, "kde", 0.1, kernel = "biweight")
  )
  op <- kernel_operator(as.matrix(plane), bandwidth = 0.1)
  advice("has computed no product yet: multiply first", diagnostics(op), {
    op %*% d$y
    diagnostics(op)
  })
})

test_that("advice of prints works", {
  tails <- with_fixed_seed(stats::rcauchy(300), 11)
  normal <- with_fixed_seed(stats::rnorm(60), 2)
  fit <- \(x, ...) flash_kde(x, "kde", ...)
  waits <- with_fixed_seed(stats::rexp(300), 1)
  advice(
    "Adaptive by Abramson's rule: the bandwidth is multiplied by local factors from <...>. Use adaptive = FALSE to fit",
    printed(suppressMessages(flash_kde(tails^3))), fit(waits, support = c(0, Inf), adaptive = FALSE)
  )
  advice(
    "end at the bounds of <...>, beyond which this estimate is positive. Use support = \"auto\" to fit inside the bounds.",
    printed(suppressMessages(flash_kde(waits))), fit(waits, support = "auto")
  )
  advice(
    "which may be chance: use adaptive = FALSE to fit without them", printed(fit(normal, adaptive = TRUE)),
    fit(normal, adaptive = FALSE)
  )
  advice("Try adaptive = TRUE.", printed(fit(tails, adaptive = FALSE)), fit(tails, adaptive = TRUE))
  d <- rows()
  signed <- \(score) compare_fits(signed = flash_kde(c(d$a, 9), "laplace", 0.05), fit(c(d$a, 9), 0.05), score = score)
  advice("use score = \"quadratic\" for such estimates", printed(signed("log")), signed("quadratic"))
  wide <- kernel_ridge(with_fixed_seed(matrix(stats::runif(31 * 30), 30), 1), d$y, bandwidth = 2, lambda = 1e-3)
  advice("more: see marginal_effects()", printed(summary(wide)), marginal_effects(wide))
})

test_that("advice on operators and engines works", {
  d <- rows()
  op <- kernel_operator(as.matrix(d[c("a", "b")]), bandwidth = 0.1)
  D <- diag(30)
  shifted <- function(s) {
    diag(op) <- diag(op) + s
    op
  }
  advice(
    "`op + D` adds an operator or a diagonal matrix, diag(op) <- diag(op) + s adds s to its diagonal", op + 1, op + D,
    shifted(1)
  )
  advice("kernel_eigen(op, k = 6) finds the leading", eigen(op), kernel_eigen(op, k = 6))
  advice("use weights s on both sides, as in s * t(s * op)", kernel_eigen(d$a * op), kernel_eigen(d$a * t(d$a * op)))
  advice("sum(rowSums(op)) is the sum of its elements", sum(op), sum(rowSums(op)))
  advice("as.matrix(op) is an ordinary matrix", exp(op), exp(as.matrix(op)))
  many <- matrix(d$a, 3)
  fast <- \(engine) kernel_sum(many, bandwidth = 1, tol = 1e-3, control = flash_control(engine = engine))
  advice("use engine = \"auto\" or \"exact\"", fast("fast"), fast("auto"), fast("exact"))
  growing <- function() {
    b <- c(1e-200, 1)
    function() {
      on.exit(b <<- b[-1])
      if (length(b) > 0) list(x = with_fixed_seed(matrix(stats::rnorm(600)), 1), b = rep(b[1], 600))
    }
  }
  summed <- \(engine) kernel_sum(
    growing(), as.matrix(1:40 / 40), bandwidth = 0.3, tol = 1e-3, control = flash_control(engine = engine)
  )
  advice("use control = flash_control(engine = \"exact\")", summed("fast"), summed("exact"))
  replace_in_package("seconds_to_save", \(...) 1000)
  suggested <- function() {
    before <- session$tolerance_suggested
    on.exit(session$tolerance_suggested <- before)
    session$tolerance_suggested <- NULL
    kernel_sum(d$a, bandwidth = 0.1)
  }
  advice("With `tol = 1e-6` in flash_kde(), predict() or kernel_sum()", suggested(), suppressMessages({
    kernel_sum(d$a, bandwidth = 0.1, tol = 1e-6)
    fit <- flash_kde(d$a, "kde", 0.1, tol = 1e-6)
    predict(fit, 0.5, tol = 1e-6)
  }))
})

test_that("advice without a GPU engine works", {
  skip_if(flashkernel:::backend_info()$gpu_engine)
  on <- \(backend) kernel_sum(1:3, bandwidth = 1, control = flash_control(backend = backend))
  advice("use backend = \"auto\" or \"cpu\"", on("cuda"), on("auto"), on("cpu"))
})
test_that("advice on a file that is no GPU engine works", {
  advice("see ?install_gpu", .Call(flashkernel:::ffi_gpu_try, tempfile()), utils::help("install_gpu"))
})
advice_elsewhere("call install_gpu() again", "test-gpu-install.R, which has such files")
advice_elsewhere("use backend = \"cpu\", or workers of parallel::makeCluster()", "test-gpu-engine.R, which forks")
advice_elsewhere("fit the model again", "needs a device that fails")
advice_elsewhere("because the device failed: fit again", "needs a device that fails")
advice_elsewhere("(seed random numbers from the number of the shard)", "test-cluster-join.R, whose worker dies")
advice_elsewhere("install.packages(\"ggplot2\")", "needs a library without ggplot2")
advice_elsewhere("needs the package future, which is not installed", "needs a library without future")

test_that("advice on spatial points works", {
  skip_if_not_installed("sf")
  place <- sf::st_as_sf(data.frame(x = 1:5, y = (1:5)^2), coords = 1:2)
  advice(
    "(sf::st_coordinates() has the coordinates of points)", flash_kde(place),
    flash_kde(sf::st_coordinates(place), "kde", 1)
  )
})

test_that("advice on figures and tables of densities works", {
  skip_if_not_installed("ggplot2")
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  d <- rows()
  line <- flash_kde(d["a"], "kde", 0.1)
  plane <- flash_kde(d[c("a", "b")], "kde", 0.2)
  space <- flash_kde(d[c("a", "b", "y")], "kde", 0.2)
  advice(
    "call kde_bands() without `newdata`", plot(kde_bands(plane, d[1:3, c("a", "b")])), plot(kde_bands(plane, n = 5))
  )
  advice("(see ?par)", plot(kde_bands(line), lty = "stripes"), plot(kde_bands(line), lty = "dashed"))
  advice("use plot(kde_bands(fit)) for two", plot(plane, band = TRUE), plot(kde_bands(plane, n = 5)))
  two <- flash_kde(cbind(y, b) ~ a, d, bandwidth = 0.2)
  advice(
    "(plot(kde_conditional(fit, given)) draws several at one x)", plot(two),
    plot(kde_conditional(two, list(a = 0.5)), n = 10)
  )
  advice("(use kde_marginal() first)", lines(space), {
    plot(line)
    lines(kde_marginal(space, "a"))
  })
  advice("for contour() (use kde_marginal() first)", contour(space), contour(kde_marginal(space, c("a", "b")), n = 10))
  advice(
    "for one variable: use `col` for the colour of the line", ggplot2::autoplot(line, palette = "YlOrRd"),
    ggplot2::autoplot(line, col = "blue")
  )
  advice(
    ": fit those alone, or use pairs() with colours", plot(space, groups = d$g), plot(line, groups = d$g),
    pairs(as.matrix(d[c("a", "b", "y")]), col = as.integer(d$g))
  )
  kda <- \(columns) flash_kda(d[columns], d$two, estimator = "kde", bandwidth = 0.2)
  advice("are available for one or two variables, not <...>: fit two of them", plot(kda(c("a", "b", "y"))), plot(kda(c("a", "b")), n = 10))
  local <- \(...) kde_test(d[1:15, c("a", "b")], d[16:30, c("a", "b")], method = "local", ...)
  advice("call kde_test() without `newdata`", plot(local(newdata = d[1:3, c("a", "b")])), plot(local(n = 5)))
  advice(
    "use up to three of them, as in kde_marginal(fit, 1:2)",
    as.data.frame(flash_kde(cbind(d$a, d$b, d$y, d$a^2), "kde", 0.2), grid = 5),
    as.data.frame(kde_marginal(flash_kde(cbind(d$a, d$b, d$y, d$a^2), "kde", 0.2), 1:2), grid = 5)
  )
  advice(
    "are available for one or two variables, not <...>: use kde_marginal() first", hdr_regions(space, 0.5),
    hdr_regions(kde_marginal(space, c("a", "b")), 0.5, n = 10)
  )
  advice(
    "lies between the nodes of the grid (use a larger `n`)", hdr_regions(plane, 1e-9, n = 10),
    hdr_regions(plane, 0.3, n = 40)
  )
  advice("(give other rows as `newdata =`)", generics::augment(line, d[1:3, ]), generics::augment(line, newdata = d[1:3, ]))
})

test_that("advice on big.matrix objects works", {
  skip_if_not_installed("bigmemory")
  x <- as.matrix(rows()[c("a", "b")])
  big <- bigmemory::as.big.matrix(x)
  advice(
    "apply kde_bandwidth() to a sample of its rows", flash_kde(big), flash_kde(big, bandwidth = kde_bandwidth(x[1:20, ]))
  )
  advice("give the big.matrix as `x`", flash_kde(formula = ~ a + b, data = big), flash_kde(big, bandwidth = 0.1))
  advice_elsewhere("install the package bigmemory to use it", "needs a library without bigmemory")
})

test_that("advice on classes and regressions works", {
  d <- rows()
  names_of_rows <- cbind(d, id = sprintf("plot %d", 1:30))
  advice("has another text in each row (leave it out)", kernel_regression(y ~ a + id, names_of_rows), kernel_regression(y ~ a, d))
  kda <- \(...) flash_kda(two ~ a, d, estimator = "kde", ...)
  keep <- \(fit) update(fit, data = d, bandwidth = "keep")
  advice("must be chosen again for each class: fit with shared = TRUE to keep it", keep(kda()), keep(kda(shared = TRUE)))
  tuned <- tune_ridge(y ~ a, d, seconds = 1)
  advice("is chosen again for a formula with k() and by tune_ridge(): leave \"keep\" out", keep(tuned), update(tuned))
  gone <- factor(d$two, levels = c("n", "p", "q"))
  advice(
    "(use droplevels())", flash_kda(d["a"], gone),
    flash_kda(d["a"], droplevels(gone), estimator = "kde", bandwidth = 0.1)
  )
  many <- c(d$y[1:29], 7)
  advice("fit it by kernel_regression() or kernel_ridge()", flash_kda(d["a"], many), kernel_regression(d["a"], many), kernel_ridge(d["a"], many))
  advice(
    "(for classes use flash_kda() or kernel_ridge())", kernel_regression(d["a"], d$two),
    flash_kda(d["a"], d$two, estimator = "kde", bandwidth = 0.1), kernel_ridge(d["a"], d$two)
  )
  advice(
    "must have rows of every class: found none of <...>. Use droplevels().", kernel_ridge(d["a"], gone),
    kernel_ridge(d["a"], droplevels(gone))
  )
  local <- \(...) predict(kernel_regression(mpg ~ wt, mtcars, bandwidth = 1, ...), data.frame(wt = 10))
  advice("`type = \"constant\"` in kernel_regression() does not extrapolate.", local(), local(type = "constant"))
})

test_that("advice on kernel ridge regression works", {
  d <- rows()
  x <- as.matrix(d[c("a", "b")])
  fit <- \(...) kernel_ridge(x, d$y, bandwidth = 0.3, lambda = 1e-3, ...)
  overflowing <- kernel_spec("polynomial", gamma = 1e100, degree = 64)
  advice("Give a bandwidth.", kernel_ridge(x, d$y, overflowing), kernel_ridge(x, d$y, overflowing, bandwidth = 1e50))
  advice(
    "is <...> in all rows. Leave it out of the model.", kernel_ridge(y ~ a + k, transform(d, k = factor("k"))),
    kernel_ridge(y ~ a, transform(d, k = factor("k")))
  )
  advice(
    "Give a flash_data() with a response as `x`, without a formula.",
    kernel_ridge(y ~ a, flash_data(cbind(a = d$a, y = d$y), response = "y")),
    kernel_ridge(flash_data(cbind(a = d$a, y = d$y), response = "y"), bandwidth = 0.3, lambda = 1e-3)
  )
  indefinite <- kernel_spec("polynomial", coef0 = -100, degree = 3)
  advice(
    "Use another `kernel`, such as \"polynomial\" or \"gaussian\".",
    fit(kernel = indefinite), fit(kernel = "polynomial"), fit(kernel = "gaussian")
  )
  advice(
    "Give list(x = , y = ) as `validation`, or a number of centres.", fit(centers = 1:30, validation = 0.5),
    fit(centers = 1:10, validation = list(x = x, y = d$y)), fit(centers = 5, validation = 0.5)
  )
  classes <- \(...) kernel_ridge(x, d$two, bandwidth = 0.3, lambda = 1e-2, ...)
  advice("use type = \"link\"", predict(classes(), x, se.fit = TRUE, type = "class"), predict(classes(), x, se.fit = TRUE, type = "link"))
  advice(
    "found TRUE. Use marginal_effects() for their means.", predict(fit(), x, type = "gradient", se.fit = TRUE),
    marginal_effects(fit())
  )
  forgetful <- fit(solver = list(keep = FALSE))
  advice(
    "does not keep its rows. Fit with `solver = list(keep = TRUE)`.",
    predict(forgetful, x, se.fit = TRUE), predict(fit(solver = list(keep = TRUE)), x, se.fit = TRUE)
  )
  advice(
    "use ridge_family(\"negbin\", theta = )", fit(family = "negbin"),
    kernel_ridge(x, seq_len(nrow(x)), bandwidth = 0.3, lambda = 1, family = ridge_family("negbin", theta = 2))
  )
  advice_elsewhere("Use install.packages(\"Matrix\").", "needs a library without Matrix, which comes with R")
  advice_elsewhere("Use install.packages(\"parsnip\").", "needs a library without parsnip")
  advice(
    "for the <...> kernel. Give one.", tune_ridge(x, d$y, kernel = overflowing),
    tune_ridge(x, d$y, kernel = overflowing, bandwidth = 1e50)
  )
  advice(
    "has no Cholesky factorisation. Use another `kernel`.", tune_ridge(x, d$y, kernel = indefinite, rows = 20),
    tune_ridge(x, d$y, kernel = "gaussian", rows = 20)
  )
  chunks <- function() {
    given <- FALSE
    function() {
      given <<- !given
      if (given) list(x = x, y = d$y)
    }
  }
  advice(
    "Use `validation` of kernel_ridge() to measure the error at held-out rows.",
    cross_validate(kernel_ridge(chunks(), bandwidth = 0.3, lambda = 1e-3, centers = 5), folds = 2),
    kernel_ridge(chunks(), bandwidth = 0.3, lambda = 1e-3, centers = 5, validation = list(x = x, y = d$y))
  )
  in_chunks <- kernel_ridge(chunks(), bandwidth = 0.3, lambda = 1e-3, centers = 5)
  advice(
    "for fits to rows in chunks or on workers. Use \"prediction\".", predict(in_chunks, x, interval = "conformal"),
    predict(in_chunks, x, interval = "prediction")
  )
})

test_that("advice on large or ill-conditioned fits works", {
  d <- rows()
  x <- as.matrix(d[c("a", "b")])
  exact <- function(y, ..., lambda = 1e-3) { # a GPU has no such limits
    kernel_ridge(x, y, bandwidth = 0.3, lambda = lambda, solver = list(exact = TRUE, ...), control = flash_control("cpu"))
  }
  centers <- \(y) kernel_ridge(x, y, bandwidth = 0.3, lambda = 1e-2, centers = 10)
  for (limit in c("EXACT_FACTORISED", "EXACT_LOGISTIC", "MOST_SOLVES", "MOST_BLOCK")) replace_in_package(limit, 10)
  advice("rows for this family: found <...>. Give `centers` instead.", exact(d$two), centers(d$two))
  advice(
    "solves a linear system for each: found <...>. Use a fit with `centers`.", predict(exact(d$y), x, se.fit = TRUE),
    predict(centers(d$y), x, se.fit = TRUE)
  )
  advice("to factorise their matrix. Use a fit with `centers`.", vcov(exact(d$y)), vcov(centers(d$y)))
  advice(
    "increase `iterations` of ridge_solver(), or use a larger `lambda`", exact(d$y, iterations = 1, lambda = 1e-6),
    exact(d$y, iterations = 200, lambda = 1e-6), exact(d$y, iterations = 5, tolerance = 0.1, lambda = 1)
  )
  single <- \(lambda, precision = "single") {
    kernel_ridge(x, d$y, bandwidth = 30, lambda = lambda, centers = 25, control = flash_control(precision = precision))
  }
  advice("is too small for the precision of the sums. Use a larger one.", single(1e-14), single(1e-3))
})

test_that("advice on clusters and checkpoints works", {
  skip_on_cran()
  d <- rows()
  workers <- parallel::makeCluster(1)
  pid <- pids_of(workers)
  data <- flash_data(d["a"], workers)
  advice(
    "must be a function of x and shard: found <...> (write function(x, shard))", by(data, NULL, function(x) 1),
    by(data, NULL, function(x, shard) 1)
  )
  tools::pskill(pid, 9)
  advice("lost (make a new cluster)", suppressWarnings(kernel_sum(data, bandwidth = 0.1)), {
    workers <- parallel::makeCluster(1)
    kernel_sum(flash_data(d["a"], workers), bandwidth = 0.1)
  })
  parallel::stopCluster(workers)
  advice("must not have been stopped (make a new one)", flash_data(d["a"], workers), flash_data(d["a"]))
  advice_elsewhere(
    "is from a call with other rows or arguments. Use another file, or delete it.",
    "test-ridge-checkpoint.R, where a fit is interrupted"
  )
})

test_that("advice on single precision works on a GPU", {
  skip_if_no_gpu()
  x <- with_fixed_seed(matrix(stats::runif(4000), ncol = 2), 1)
  y <- sin(9 * x[, 1]) + x[, 2]
  fit <- \(lambda, precision) {
    control <- flash_control(backend = "cuda", precision = precision)
    kernel_ridge(x, y, bandwidth = 0.5, lambda = lambda, centers = 500, solver = list(iterations = 3), control = control)
  }
  advice(
    "Use `control = flash_control(precision = \"double\")` or a larger `lambda`.", fit(1e-12, "fast"),
    fit(1e-12, "double"), fit(1e-3, "fast")
  )
})
