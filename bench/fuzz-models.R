# Fits thousands of small, hostile, random models by kernel_regression(), kernel_ridge(), tune_ridge() and flash_kda(), and
# marginals and conditionals of density fits. It checks that
# * each method returns a value without NaN or raises an error of the package's own class,
# * values agree with literal formulas (fuzz-literal.R) where there is one,
# * a second call returns the same bits.
#   Rscript bench/fuzz-models.R [--seed 1] [--cases 2000] [--only 17,19] [--seconds S] [--limit 30]

source("bench/fuzz-common.R")

# ---- data -------------------------------------------------------------------------------------

# A list of rows `x` and weights `w`. `levels`: whether there may be categorical columns. `least`: the fewest rows.
random_rows <- function(levels = TRUE, least = sample(c(1, 2, 5), 1)) {
  n <- max(least, random_size())
  d <- sample(3, 1)
  unit <- if (chance(0.2)) decades(d, -60, 60) else rep(1, d)
  x <- as.data.frame(random_columns(n, d) * rep(unit, each = n))
  names(x) <- letters[seq_len(d)]
  if (levels && chance(0.4)) x$g <- factor(sample(c("u", "v", "w"), n, TRUE), c("u", "v", "w"))
  if (levels && chance(0.2)) x$k <- sample(c(TRUE, FALSE), n, TRUE)
  list(x = x, n = n, d = d, unit = unit, w = random_weights(n))
}

new_rows <- function(rows, h) {
  new <- rows$x[sample(rows$n, 5, TRUE), , drop = FALSE]
  for (k in seq_len(rows$d)) new[[k]] <- new[[k]] + h[k] * c(0, 0, stats::rnorm(2), stats::rnorm(1, sd = 30))
  new
}

random_response <- function(rows) {
  y <- switch(pick("smooth", "smooth", "noise", "constant", "steps", "heavy"),
    smooth = sin(rows$x$a / rows$unit[1]) + 0.1 * stats::rnorm(rows$n),
    noise = stats::rnorm(rows$n),
    constant = rep(stats::rnorm(1), rows$n),
    steps = round(stats::rnorm(rows$n)),
    heavy = 1 / stats::rnorm(rows$n)
  )
  if (chance(0.2)) y <- y * decades(1, -60, 60)
  y
}

# Allows NaN in the checks of these `names` if a response does not vary among the rows of positive weight. Then the
# residual variance is 0, or unknown, and statistics that are divided by it are NaN, as in lm().
may_be_nan <- function(checks, names, y, w, n) {
  used <- if (is.null(w)) seq_len(n) else which(w > 0)
  if (all(apply(as.matrix(y)[used, , drop = FALSE], 2, \(column) length(unique(column)) > 1))) return(checks)
  names(checks)[names(checks) %in% names] <- paste("NaN", names(checks)[names(checks) %in% names])
  checks
}

again <- quote(identical(predict(f, new), predict(f, new)) || problem("predict() differs from itself"))
kept <- quote(identical(predict(unserialize(serialize(f, NULL)), new), predict(f, new)) || problem("differs when read"))

model_case <- function(rows, y, h, fit, checks) {
  data <- list(x = rows$x, y = y, w = rows$w, new = new_rows(rows, h))
  list(data = data, fit = fit, by_row = c("x", "y", "w"), checks = checks)
}

# ---- kinds of cases -----------------------------------------------------------------------------

regression_case <- function() {
  rows <- random_rows()
  y <- random_response(rows)
  several <- chance(0.15)
  if (several) y <- cbind(one = y, two = stats::rnorm(rows$n))
  h <- decades(rows$d, -1, 1) * rows$unit
  type <- pick("local_linear", "constant")
  bandwidth <- if (chance(0.15)) NULL else h
  fit <- bquote(kernel_regression(x, y, .(type), .(bandwidth), weights = w, seconds = 0.05))
  levels <- length(rows$x) > rows$d
  if (levels && chance(0.8)) fit$categorical <- bquote(categorical_kernel(.(stats::runif(1, 0.01, 0.5))))
  checks <- list(
    response = quote(predict(f, new)),
    gradient = quote(predict(f, new, type = "gradient")),
    variance = quote(predict(f, new, type = "variance")),
    se.fit = quote(predict(f, new, se.fit = TRUE)),
    confidence = quote(predict(f, new, interval = "confidence")),
    prediction = quote(predict(f, new, interval = "prediction")),
    training = quote(predict(f)),
    fitted = quote(fitted(f)),
    residuals = quote(residuals(f)),
    hatvalues = quote(hatvalues(f)),
    left_out = quote(f$left_out),
    sigma = quote(sigma(f)),
    summary = quote(print(summary(f))),
    print = quote(print(f)),
    tidy = quote(generics::tidy(f)),
    glance = quote(generics::glance(f)),
    augment = quote(generics::augment(f)),
    cross_validate = quote(cross_validate(f, folds = 2)),
    compare = quote(compare_fits(f, f)),
    plot = quote(plot(f)),
    "the same again" = again, readRDS = kept
  )
  checks <- may_be_nan(checks, c("summary", "print", "glance"), y, rows$w, rows$n)
  if (!levels && !is.null(bandwidth)) {
    checks$literal <- bquote({
      ws <- if (is.null(w)) rep(1, nrow(x)) else w
      got <- as.matrix(predict(f, new))
      want <- literal_local(as.matrix(x), as.matrix(y), as.matrix(new), .(h), ws, .(type))
      size <- max(abs(as.matrix(y)[ws > 0, ]))
      ok <- rowSums(is.na(want)) == 0
      if (!any(ok)) TRUE else compare_values(got[ok, ], want[ok, ], 1e-8, "fit of row", size)
    })
    if (rows$n > 2) checks$"left out" <- bquote({
      ws <- if (is.null(w)) rep(1, nrow(x)) else w
      i <- which(ws > 0)[1]
      points <- as.matrix(x)
      at <- points[i, , drop = FALSE]
      points <- points[-i, , drop = FALSE]
      want <- literal_local(points, as.matrix(y)[-i, , drop = FALSE], at, .(h), ws[-i], .(type))
      size <- max(abs(as.matrix(y)[ws > 0, ]))
      if (anyNA(want)) TRUE else compare_values(f$left_out[i, ], want[1, ], 1e-8, "leave-one-out fit", size)
    })
  }
  model_case(rows, y, h, fit, checks)
}

falkon_case <- function() {
  rows <- random_rows()
  # large weights would make the penalty vanish
  if (!is.null(rows$w)) rows$w <- rows$w / max(rows$w)
  loss <- pick("squared", "squared", "logistic", "multinomial", "classes", "weighted")
  y <- switch(loss,
    squared = random_response(rows),
    multinomial = factor(sample(c("r", "s", "t"), rows$n, TRUE), c("r", "s", "t")),
    factor(sample(c("n", "p"), rows$n, TRUE), c("n", "p"))
  )
  if (loss == "squared" && chance(0.15)) y <- cbind(one = y, two = stats::rnorm(rows$n))
  kernel <- pick("gaussian", "gaussian", "laplacian", "matern32", "matern52", "cauchy", "imq", "linear", "polynomial")
  of_distance <- !kernel %in% c("linear", "polynomial")
  h <- decades(1, -1, 1) * rows$unit
  # indicators of levels are columns, too, so a bandwidth for each column does not fit
  bandwidth <- if (!of_distance || chance(0.1)) NULL else if (length(rows$x) > rows$d) mean(h) else h
  lambda <- if (chance(0.1)) NULL else decades(1, -4, 0)
  centers <- if (chance(0.3)) max(1, rows$n %/% 2)
  fit <- bquote(kernel_ridge(
    x, y, .(kernel), .(bandwidth), lambda = .(lambda), centers = .(centers), weights = w,
    family = .(switch(loss, squared = , classes = "gaussian", "multinomial")),
    solver = list(class_weights = .(if (loss == "weighted") "balanced"))
  ))
  checks <- c(model_checks, list(
    class = quote(predict(f, new, type = "class")),
    prob = quote(predict(f, new, type = "prob")),
    deviance_residuals = quote(residuals(f, "deviance")),
    pearson_residuals = quote(residuals(f, "pearson"))
  ))
  if (loss %in% c("squared", "classes")) {
    of_sigma <- c(
      "se.fit", "confidence", "prediction", "sigma", "vcov", "confint", "simulate", "summary", "print",
      "tidy", "glance", "marginal_effects", "pearson_residuals"
    )
    checks <- may_be_nan(checks, of_sigma, y, rows$w, rows$n)
  }
  exact <- loss == "squared" && kernel == "gaussian" && is.null(centers) && !is.null(bandwidth) && !is.null(lambda)
  if (exact && length(rows$x) == rows$d) {
    checks$literal <- bquote({
      ws <- if (is.null(w)) rep(1, nrow(x)) else w
      got <- as.matrix(predict(f, new))
      want <- literal_ridge(as.matrix(x), as.matrix(y), as.matrix(new), .(h), .(lambda), ws)
      size <- max(abs(as.matrix(y)[ws > 0, ]))
      compare_values(got, want, 1e-6, "fit of row", size)
    })
  }
  model_case(rows, y, h, fit, checks)
}

model_checks <- list(
  response = quote(predict(f, new)),
  link = quote(predict(f, new, type = "link")),
  gradient = quote(predict(f, new, type = "gradient")),
  se.fit = quote(predict(f, new, se.fit = TRUE)),
  confidence = quote(predict(f, new, interval = "confidence")),
  prediction = quote(predict(f, new, interval = "prediction")),
  training = quote(predict(f)),
  fitted = quote(fitted(f)),
  residuals = quote(residuals(f)),
  "NaN rstandard" = quote(rstandard(f)), # of a row that the fit goes through
  hatvalues = quote(hatvalues(f)),
  sigma = quote(sigma(f)),
  vcov = quote(vcov(f)),
  logLik = quote(logLik(f)),
  deviance = quote(deviance(f)),
  df.residual = quote(df.residual(f)),
  simulate = quote(simulate(f, 2, seed = 1)),
  confint = quote(confint(f)),
  marginal_effects = quote(marginal_effects(f)),
  summary = quote(print(summary(f))),
  print = quote(print(f)),
  tidy = quote(generics::tidy(f)),
  glance = quote(generics::glance(f)),
  augment = quote(generics::augment(f)),
  diagnostics = quote(print(diagnostics(f))),
  plot = quote(plot(f, n = 5)),
  "the same again" = again, readRDS = kept
)

tune_case <- function() {
  rows <- random_rows()
  classes <- chance(0.4)
  y <- if (classes) factor(sample(c("n", "p"), rows$n, TRUE), c("n", "p")) else random_response(rows)
  fit <- bquote(tune_ridge(x, y, .(pick("likelihood", "gcv", "loo", "holdout")), .(pick("diagonal", "scalar")),
    weights = w, seconds = 0.1))
  h <- rows$unit
  checks <- model_checks[c("response", "training", "the same again")]
  checks$plot <- quote(plot(f))
  checks$print <- quote(print(f))
  checks$falkon <- quote(predict(kernel_ridge(f), new))
  model_case(rows, y, h, fit, checks)
}

kda_case <- function() {
  rows <- random_rows(levels = FALSE)
  classes <- sample(c("r", "s", "t")[seq_len(sample(3, 1))])
  y <- factor(sample(classes, rows$n, TRUE), c("r", "s", "t"))
  if (chance(0.7)) y <- droplevels(y)
  h <- decades(1, -1, 1) * rows$unit
  bandwidth <- if (chance(0.2)) NULL else h
  estimator <- pick("kde", "kde", "sdkde", "laplace")
  kernel <- if (estimator != "laplace") pick("gaussian", "gaussian", "biweight") else "gaussian"
  fit <- bquote(flash_kda(
    x, y, estimator = .(estimator), bandwidth = kde_bandwidth(method = .(bandwidth), seconds = 0.05),
    kernel = .(kernel), weights = w, shared = .(chance(0.2))
  ))
  checks <- list(
    class = quote(predict(f, new)),
    prob = quote(predict(f, new, type = "prob")),
    log_density = quote(predict(f, new, type = "log_density")),
    decision = quote(predict(f, new, type = "decision")),
    training = quote(predict(f)),
    "one" = quote({
      p <- predict(f, new, type = "prob")
      if (all(abs(rowSums(p) - 1) < 1e-12)) TRUE else problem("probabilities sum to ", format(rowSums(p)[1]))
    }),
    summary = quote(print(summary(f))),
    print = quote(print(f)),
    tidy = quote(generics::tidy(f)),
    glance = quote(generics::glance(f)),
    augment = quote(generics::augment(f)),
    augment_loo = quote(generics::augment(f, loo = TRUE)),
    cross_validate = quote(print(cross_validate(f))),
    cross_validate_2 = quote(print(cross_validate(f, folds = 2))),
    plot = quote(plot(f)),
    "the same again" = again, readRDS = kept
  )
  if (estimator == "laplace") names(checks)[names(checks) == "log_density"] <- "NaN log_density"
  if (estimator == "kde" && kernel == "gaussian" && !is.null(bandwidth) && identical(fit$shared, FALSE)) {
    checks$literal <- bquote({
      ws <- if (is.null(w)) rep(1, nrow(x)) else w
      logs <- vapply(f$classes, \(class) {
        own <- y == class
        literal_log_sum(as.matrix(x[own, , drop = FALSE]), as.matrix(new), diag(.(h)^2, .(rows$d)), ws[own])$log +
          log(sum(ws[own] / max(ws)))
      }, numeric(nrow(new))) |> matrix(nrow(new))
      want <- exp(logs - apply(logs, 1, max))
      want <- want / rowSums(want)
      got <- predict(f, new, type = "prob")
      compare_values(got, want, 1e-10, "probability", pmax(1e-300, want * pmax(1, abs(logs))))
    })
  }
  model_case(rows, y, h, fit, checks)
}

# p(a | b) = p(a, b) / p(b) of fits with and without levels and supports.
parts_case <- function() {
  rows <- random_rows(least = 2)
  while (length(rows$x) < 2) rows <- random_rows(least = 2)
  h <- decades(1, -1, 1) * rows$unit
  levels <- length(rows$x) > rows$d
  estimator <- pick("kde", "kde", "sdkde")
  fit <- bquote(flash_kde(x, .(estimator), .(h), weights = w))
  if (levels) fit$categorical <- quote(categorical_kernel(0.2))
  checks <- list(
    marginal = quote(predict(kde_marginal(f, 1), new)),
    conditional = quote(predict(kde_conditional(f, new[1, 1, drop = FALSE]), new)),
    draws = quote(simulate(kde_conditional(f, new[1, 1, drop = FALSE]), 3, seed = 1)),
    quantile = quote(quantile(kde_marginal(f, 1))),
    summary = quote(print(summary(kde_conditional(f, new[1, 1, drop = FALSE])))),
    ratio = quote({
      at <- new[rep(1, nrow(new)), 1, drop = FALSE]
      all <- cbind(at, new[-1])
      joint <- predict(f, all, type = "log_density")
      own <- predict(kde_marginal(f, 1), at, type = "log_density")
      got <- predict(kde_conditional(f, at[1, , drop = FALSE]), new, type = "log_density")
      # kde_conditional() drops points whose weight underflows, which may be nearest to a place far away
      got[joint - own < -600] <- (joint - own)[joint - own < -600]
      compare_logs(got, joint - own, pmax(1, abs(joint) + abs(own)), 1e-9, "conditional log density")
    }),
    "the same again" = again
  )
  list(data = list(x = rows$x, w = rows$w, new = new_rows(rows, h)), fit = fit, by_row = c("x", "w"), checks = checks)
}

# tune_ridge() takes longest, because it searches.
kinds <- list(
  regression = regression_case, falkon = falkon_case, kda = kda_case, parts = parts_case,
  regression = regression_case, falkon = falkon_case, kda = kda_case,
  regression = regression_case, falkon = falkon_case, tune = tune_case
)
grDevices::pdf(NULL)
fuzz("Random models", kinds, 2000)
