# Fits thousands of small, hostile, random densities and checks that
# * each method returns a value without NaN or raises an error of the package's own class,
# * values agree with literal formulas (fuzz-literal.R) where there is one,
# * points of weight 0 change nothing, and a second call returns the same bits,
# * leave-one-out values agree with fits without the point.
#   Rscript bench/fuzz-fits.R [--seed 1] [--cases 5000] [--only 17,19] [--seconds S] [--limit 30]

source("bench/fuzz-common.R")

# ---- data -------------------------------------------------------------------------------------

# Five places: two of the points, two places near points and one far from them.
random_places <- function(x, h) {
  at <- x[sample(nrow(x), 5, TRUE), , drop = FALSE]
  steps <- rbind(matrix(0, 2, ncol(x)), matrix(stats::rnorm(2 * ncol(x)), 2), stats::rnorm(ncol(x), sd = 30))
  at + rep(h, each = 5) * steps
}

# ---- checks that all fits of a class have -------------------------------------------------------

# Checks of any fit of class flash_kde: all of `always` and a random part of `some`. `signed`: whether the density may
# be negative, so that its logarithm is NaN. `unit`: the scales of the columns.
common_checks <- function(signed, unit = 1) {
  always <- list(
    density = quote(predict(f, new)),
    log_density = quote(predict(f, new, type = "log_density")),
    "score" = quote({
      s <- as.matrix(predict(f, new, type = "score"))
      s[!is.finite(predict(f, new, type = "log_density")), ] <- 0
      s
    }),
    "se.fit" = quote(predict(f, new, se.fit = TRUE)),
    loo = quote(predict(f, loo = TRUE)),
    logLik = quote(logLik(f)),
    "the same again" = quote(identical(predict(f, new), predict(f, new)) || problem("predict() differs from itself"))
  )
  if (signed) names(always)[names(always) %in% c("log_density", "logLik")] <- c("NaN log_density", "NaN logLik")
  some <- list(
    AIC = quote(AIC(f)),
    simulate = quote(simulate(f, 5, seed = 1)),
    quantile = quote(quantile(f, c(0, 0.01, 0.5, 1))),
    cdf = quote(kde_cdf(f, new)),
    rectangle = quote(kde_cdf(f, rep(1, f$d), lower = rep(-1, f$d))),
    marginal = quote(predict(kde_marginal(f, 1))),
    conditional = quote(predict(kde_conditional(f, new[1, -1, drop = FALSE]))),
    hdr_level = quote(hdr_level(f, n_samples = 50)),
    hdr_regions = quote(hdr_regions(f, 0.5, n = 8)),
    modes = quote(kde_modes(f)),
    mean_shift = quote(mean_shift(f)),
    ridges = quote(kde_ridges(f)),
    kde_derivative = quote(kde_derivative(f, new)),
    "kde_derivative 2" = quote(kde_derivative(f, new, order = 2)),
    kde_bands = quote(kde_bands(f, new)),
    "kde_bands bootstrap" = quote(kde_bands(f, new, method = "bootstrap", replicates = 20)),
    kde_pvalue = quote(kde_pvalue(f, new)),
    "kde_pvalue integral" = quote(kde_pvalue(f, new, type = "integral", n_samples = 30)),
    cross_validate = quote(cross_validate(f, folds = 2)),
    diagnostics = quote(diagnostics(f)),
    print = quote(print(f)),
    summary = quote(print(summary(f))),
    tidy = quote(generics::tidy(f)),
    glance = quote(generics::glance(f)),
    augment = quote(generics::augment(f)),
    as.data.frame = quote(as.data.frame(f, grid = 4)),
    fitted = quote(fitted(f)),
    adaptive_factors = quote(adaptive_factors(f)),
    readRDS = quote(identical(predict(unserialize(serialize(f, NULL)), new), predict(f, new)) || problem("differs")),
    plot = quote(plot(f, n = 8))
  )
  if (signed) {
    logs <- c("AIC", "cross_validate", "glance", "summary", "augment", "as.data.frame")
    names(some)[names(some) %in% logs] <- paste("NaN", names(some)[names(some) %in% logs])
  }
  checks <- c(always, some[sort(sample(length(some), 6))])
  # where densities overflow, Inf - Inf and 0 * Inf are right
  if (sum(abs(log10(unit))) > 70) {
    products <- grepl("se.fit|augment|conditional|bands|derivative|pvalue", names(checks))
    names(checks)[products] <- paste("NaN", names(checks)[products])
  }
  checks
}

# Checks that `fit` without the points of weight 0 has the same log densities as f.
without_zeros <- function(fit) {
  bquote({
    keep <- w > 0
    x <- x[keep, , drop = FALSE]
    w <- w[keep]
    g <- .(fit)
    values <- lapply(list(f, g), predict, new, type = "log_density")
    compare_logs(values[[1]], values[[2]], what = "with weights of 0, log density")
  })
}

# Checks the leave-one-out value of the first point of positive weight against `fit` without that point.
left_out <- function(fit) {
  bquote({
    i <- which(w > 0)[1]
    value <- predict(f, type = "log_density", loo = TRUE)[i]
    at <- x[i, , drop = FALSE]
    x <- x[-i, , drop = FALSE]
    w <- w[-i]
    want <- predict(.(fit), at, type = "log_density")
    compare_logs(value, want, bound = 1e-9, what = "leave-one-out log density")
  })
}

# ---- kinds of cases -----------------------------------------------------------------------------

# Unbounded numeric columns and Gaussian kernels.
plain_case <- function() {
  n <- random_size()
  d <- sample(4, 1)
  unit <- if (chance(0.3)) decades(d, -100, 100) else rep(1, d)
  x <- random_columns(n, d) * rep(unit, each = n)
  w <- random_weights(n)
  h <- decades(1, -2, 1) * unit
  H <- if (chance(0.3) && d > 1) outer(h, h) * (0.4 + 0.6 * diag(d)) else diag(h^2, d)
  estimator <- pick("kde", "kde", "sdkde", "laplace", "laplace6")
  steps <- if (estimator == "sdkde" && chance(0.2)) 2 else 1
  fit <- bquote(flash_kde(x, .(estimator), H, weights = w, control = flash_control(threads = 1)))
  if (steps > 1) fit$steps <- steps
  case <- list(data = list(x = x, w = w, H = H, new = random_places(x, h)), fit = fit, by_row = c("x", "w"))
  checks <- common_checks(startsWith(estimator, "laplace"), unit)
  if (estimator != "sdkde") {
    checks$literal <- bquote({
      want <- literal_log_sum(x, new, H, if (is.null(w)) rep(1, nrow(x)) else w, literal_factors[[.(estimator)]](.(d)))
      got <- suppressWarnings(predict(f, new, type = "log_density"))
      ok <- want$condition < 1e6 & want$sign > 0
      if (!any(ok)) return(TRUE)
      compare_logs(got[ok], want$log[ok], want$condition[ok])
    })
  } else if (steps == 1) {
    checks$literal <- quote({
      ws <- if (is.null(w)) rep(1, nrow(x)) else w
      want <- literal_log_sum(literal_debiased(x, H, H, ws), new, H, ws)
      compare_logs(predict(f, new, type = "log_density"), want$log, bound = 1e-9)
    })
  }
  checks <- c(checks, laws_of(fit, w, n, startsWith(estimator, "laplace")))
  case$checks <- checks
  case
}

laws_of <- function(fit, w, n, signed) {
  checks <- list()
  if (any(w == 0)) checks[["weights of 0"]] <- without_zeros(fit)
  if (n > 2 && !signed && (is.null(w) || sum(w > 0) > 2)) checks[["left out"]] <- left_out(fit)
  if (signed && length(checks)) names(checks) <- paste("NaN", names(checks))
  checks
}

adaptive_case <- function() {
  n <- random_size()
  d <- sample(3, 1)
  x <- random_columns(n, d)
  w <- random_weights(n)
  h <- decades(1, -1, 1)
  adaptive <- pick(TRUE, "abramson", "knn", "balloon", quote(factors), "auto")
  estimator <- pick("kde", "kde", "sdkde", "laplace")
  bandwidth <- if (identical(adaptive, "auto")) NULL else h
  fit <- bquote(flash_kde(x, .(estimator), kde_bandwidth(method = .(bandwidth), seconds = 0.05), weights = w, adaptive = .(adaptive)))
  data <- list(x = x, w = w, new = random_places(x, rep(h, d)))
  by_row <- c("x", "w")
  checks <- common_checks(estimator == "laplace")
  if (is.name(adaptive)) {
    data$factors <- decades(n, -0.5, 0.5)
    by_row <- c("x", "w", "factors")
    if (estimator == "kde") checks$literal <- bquote({
      ws <- if (is.null(w)) rep(1, nrow(x)) else w
      logs <- vapply(seq_len(nrow(x)), \(i) {
        literal_log_sum(x[i, , drop = FALSE], new, diag((.(h) * factors[i])^2, .(d)))$log + log(ws[i] / max(ws))
      }, numeric(nrow(new))) |> matrix(nrow(new))
      top <- apply(logs, 1, max)
      compare_logs(predict(f, new, type = "log_density"), top + log(rowSums(exp(logs - top))) - log(sum(ws / max(ws))))
    })
  }
  list(data = data, fit = fit, by_row = by_row, checks = checks)
}

compact_case <- function() {
  n <- random_size()
  d <- sample(3, 1)
  unit <- if (chance(0.2)) decades(1, -90, 90) else 1
  x <- random_columns(n, d) * unit
  w <- random_weights(n)
  h <- decades(1, -1.5, 1) * unit
  kernel <- pick("epanechnikov", "biweight", "triweight", "triangular", "uniform")
  estimator <- pick("kde", "kde", "sdkde")
  bandwidth <- if (chance(0.1)) NULL else h
  fit <- bquote(flash_kde(x, .(estimator), kde_bandwidth(method = .(bandwidth), seconds = 0.05), weights = w, kernel = .(kernel)))
  checks <- common_checks(FALSE, rep(unit, d))
  if (estimator == "kde" && !is.null(bandwidth)) {
    reach <- sqrt(c(epanechnikov = 5, biweight = 7, triweight = 9, triangular = 6, uniform = 3)[[kernel]])
    heights <- c(epanechnikov = 3 / 4, biweight = 15 / 16, triweight = 35 / 32, triangular = 1, uniform = 1 / 2)
    height <- heights[[kernel]]
    power <- c(epanechnikov = 1, biweight = 2, triweight = 3, triangular = NA, uniform = 0)[[kernel]]
    checks$literal <- bquote({
      ws <- if (is.null(w)) rep(1, nrow(x)) else w
      reach <- .(reach * h)
      want <- apply(new, 1, \(y) {
        u <- abs(x - rep(y, each = nrow(x))) / reach
        k <- .(height) * (if (is.na(.(power))) pmax(1 - u, 0) else ifelse(u < 1, pmax(1 - u^2, 0)^.(power), 0))
        sum(ws / sum(ws) * apply(k, 1, prod))
      })
      # at the very edge of a kernel rounding decides
      edge <- apply(new, 1, \(y) any(abs(abs(x - rep(y, each = nrow(x))) / reach - 1) < 1e-3))
      got <- predict(f, new, type = "log_density")[!edge]
      if (length(got) == 0) TRUE else compare_logs(got, log(want[!edge]) - .(d) * log(reach))
    })
  }
  if (!is.null(bandwidth)) checks <- c(checks, laws_of(fit, w, n, FALSE))
  list(data = list(x = x, w = w, new = random_places(x, rep(h, d))), fit = fit, by_row = c("x", "w"), checks = checks)
}

# Numeric and categorical columns.
mixed_case <- function() {
  n <- random_size()
  d <- sample(0:3, 1)
  x <- as.data.frame(random_columns(n, max(d, 1)))[seq_len(d)]
  kinds <- sample(c("factor", "ordered", "text", "logical"), sample(2, 1))
  for (kind in kinds) {
    x[[kind]] <- switch(kind,
      factor = factor(sample(c("u", "v", "w"), n, TRUE), c("u", "v", "w")),
      ordered = factor(sample(4, n, TRUE), 1:4, ordered = TRUE),
      text = sample(c("u", "v"), n, TRUE),
      logical = sample(c(TRUE, FALSE), n, TRUE)
    )
  }
  w <- random_weights(n)
  h <- decades(1, -1, 1)
  new <- x[sample(n, 5, TRUE), , drop = FALSE]
  for (k in seq_len(d)) new[[k]] <- new[[k]] + h * stats::rnorm(5, sd = sample(c(0, 1, 20), 1))
  kernel <- pick("aitchisonaitken", "liracine")
  lambda <- if (chance(0.15)) NULL else stats::runif(1, 0.01, 0.5)
  estimator <- if (d > 0) pick("kde", "kde", "sdkde", "laplace") else "kde"
  adaptive <- if (d > 0 && estimator == "kde" && chance(0.2)) TRUE else FALSE
  bandwidth <- if (d == 0 || chance(0.1)) NULL else h
  fit <- bquote(flash_kde(
    x, .(estimator), kde_bandwidth(method = .(bandwidth), seconds = 0.05), weights = w,
    categorical = categorical_kernel(smoothing = .(lambda), kernel = .(if (kernel != "aitchisonaitken") kernel)),
    adaptive = .(adaptive)
  ))
  checks <- common_checks(estimator == "laplace")
  only <- identical(kinds, "factor") || identical(sort(kinds), c("factor", "logical"))
  if (only && estimator == "kde" && !adaptive && !is.null(bandwidth) && !is.null(lambda)) {
    checks$literal <- bquote({
      ws <- if (is.null(w)) rep(1, nrow(x)) else w
      numbers <- seq_len(.(d))
      codes <- \(data, k) as.integer(factor(data[[k]], if (is.factor(x[[k]])) levels(x[[k]]) else sort(unique(x[[k]]))))
      logs <- vapply(seq_len(nrow(x)), \(i) {
        literal_log_sum(as.matrix(x[i, numbers]), as.matrix(new[numbers]), diag(.(h)^2, .(d)))$log +
          log(ws[i] / max(ws)) + rowSums(vapply(setdiff(seq_along(x), numbers), \(k) {
            r <- if (is.factor(x[[k]])) nlevels(x[[k]]) else length(unique(x[[k]]))
            log(literal_levels(codes(new, k), codes(x, k)[i], r, .(lambda), .(kernel))[, 1])
          }, numeric(nrow(new))))
      }, numeric(nrow(new))) |> matrix(nrow(new))
      top <- apply(logs, 1, max)
      compare_logs(predict(f, new, type = "log_density"), top + log(rowSums(exp(logs - top))) - log(sum(ws / max(ws))))
    })
    # a logical column without one of its values has one category
    if (any(vapply(x, \(column) is.logical(column) && length(unique(column)) < 2, NA))) checks$literal <- NULL
  }
  if (!is.null(lambda) && d > 0 && !is.null(bandwidth) && !adaptive && !any(c("text", "logical") %in% kinds)) {
    checks <- c(checks, laws_of(fit, w, n, estimator == "laplace"))
  }
  list(data = list(x = x, w = w, new = new), fit = fit, by_row = c("x", "w"), checks = checks)
}

# Columns within bounds or on a circle.
support_case <- function() {
  d <- sample(c(1, 1, 1, 2, 3), 1)
  # copies of points multiply with the columns
  n <- if (d == 1) random_size() else sample(10, 1)
  unit <- if (chance(0.2)) decades(1, -60, 60) else 1
  range <- pick(c(0, 1), c(0, Inf), c(-Inf, 1))
  inside <- matrix(if (chance(0.5)) stats::runif(n * d) else stats::rbeta(n * d, 0.3, 2), n, d)
  if (chance(0.2)) inside <- round(inside, 1)
  if (chance(0.2)) inside <- inside[rep(1, n), , drop = FALSE]
  if (range[1] == -Inf) inside <- 1 - inside
  x <- inside * unit
  range <- range * unit
  w <- random_weights(n)
  h <- decades(1, -2, -0.3)
  method <- pick("transform", "reflect", "reflect", "boundary", "local", "mass", "circular", "auto")
  estimator <- pick("kde", "kde", "kde", "sdkde", "laplace")
  # in the coordinates of a transformation, where those of the others are in units of the data
  width <- if (method %in% c("transform", "local")) 10 * h else h * unit
  bandwidth <- if (method == "auto" || chance(0.1)) NULL else width
  support <- if (method == "circular") bquote(kde_circle(.(unit))) else bquote(kde_support(.(range), .(method)))
  # one column alone has it
  if (d > 1 && chance(0.3)) support <- as.call(c(quote(list), support, rep(list(NULL), d - 1)))
  fit <- bquote(flash_kde(x, .(estimator), kde_bandwidth(method = .(bandwidth), seconds = 0.05), weights = w, support = .(support)))
  new <- x[sample(n, 5, TRUE), , drop = FALSE]
  new[2:3, ] <- stats::runif(2 * d) * unit
  if (chance(0.3)) new[4, ] <- range[is.finite(range)][1] # the bound itself
  if (chance(0.3)) new[5, ] <- 3 * unit # outside
  signed <- estimator == "laplace"
  checks <- common_checks(signed, rep(unit, d))
  if (method %in% c("reflect", "transform", "mass", "circular") && estimator == "kde" && d == 1 && !is.null(bandwidth)) {
    checks$literal <- bquote({
      ws <- if (is.null(w)) rep(1, nrow(x)) else w
      at <- new[new > .(max(range[1], -unit)) & new < .(min(range[2], unit)), 1]
      if (length(at) == 0) return(TRUE)
      want <- literal_inside(x[, 1], at, .(width), .(if (method == "circular") c(0, unit) else range), .(method), ws)
      compare_values(predict(f, at), want, what = "density", scale = max(want))
    })
  }
  # without a point, estimates of these two keep the integral of all points
  if (!is.null(bandwidth) && n < 12 && !method %in% c("boundary", "local")) {
    checks <- c(checks, laws_of(fit, w, n, signed))
  }
  list(data = list(x = x, w = w, new = new), fit = fit, by_row = c("x", "w"), checks = checks)
}

polygon_case <- function() {
  n <- random_size()
  corners <- pick(
    cbind(c(0, 1, 1, 0), c(0, 0, 1, 1)), cbind(c(0, 1, 0), c(0, 0, 1)), cbind(c(0, 2, 2, 1, 1, 0), c(0, 0, 1, 1, 2, 2))
  )
  x <- matrix(stats::runif(2 * n, 0.01, 0.49), n)
  if (chance(0.2)) x <- x[rep(1, n), , drop = FALSE]
  w <- random_weights(n)
  h <- decades(1, -2, 0)
  bandwidth <- if (chance(0.1)) NULL else h
  estimator <- pick("kde", "kde", "sdkde")
  fit <- bquote(flash_kde(x, .(estimator), kde_bandwidth(method = .(bandwidth), seconds = 0.05), weights = w, support = .(corners)))
  new <- rbind(x[sample(n, 2, TRUE), , drop = FALSE], matrix(stats::runif(4, 0, 0.5), 2), c(5, 5))
  list(data = list(x = x, w = w, new = new), fit = fit, by_row = c("x", "w"), checks = common_checks(FALSE))
}

conditional_case <- function() {
  n <- random_size()
  columns <- random_columns(n, 3)
  x <- data.frame(
    y = columns[, 1], a = columns[, 2], b = columns[, 3],
    g = factor(sample(c("u", "v", "w"), n, TRUE), c("u", "v", "w")), k = sample(c(TRUE, FALSE), n, TRUE)
  )
  w <- random_weights(n)
  h <- decades(1, -1, 1)
  formula <- pick(y ~ a, y ~ a + b, cbind(y, b) ~ a, y ~ g, y ~ a + g, g ~ a, g ~ a + k, y ~ k, k ~ a + b)
  levels <- any(c("g", "k") %in% all.vars(formula))
  estimator <- if (levels) "kde" else pick("kde", "kde", "sdkde", "laplace")
  bandwidth <- if (chance(0.1)) NULL else h
  fit <- bquote(flash_kde(
    .(formula), data = x, estimator = .(estimator),
    bandwidth = kde_bandwidth(method = .(bandwidth), seconds = 0.05), weights = w
  ))
  # not searched: with a lambda of 0 the truth may have NaN
  if (levels) fit$categorical <- call("categorical_kernel", stats::runif(1, 0.01, 0.4))
  new <- x[sample(n, 4, TRUE), , drop = FALSE]
  for (name in c("y", "a", "b")) new[[name]] <- new[[name]] + h * stats::rnorm(4, sd = pick(0, 1, 30))
  types <- c("density", "log_density", "cdf", "mean", "variance", "probability", "class")
  checks <- lapply(stats::setNames(nm = types), \(type) bquote(predict(f, new, type = .(type))))
  checks <- c(checks, list(
    loo = quote(predict(f, loo = TRUE)),
    logLik = quote(logLik(f)),
    fitted = quote(fitted(f)),
    residuals = quote(residuals(f)),
    quantile = quote(quantile(f, new, c(0.1, 0.5))),
    simulate = quote(simulate(f, 2, seed = 1, newdata = new)),
    conditional = quote(predict(kde_conditional(f, new[1, all.vars(formula(f)[[3]]), drop = FALSE]))),
    marginal = quote(predict(kde_marginal(f, 1))),
    tidy = quote(generics::tidy(f)),
    glance = quote(generics::glance(f)),
    augment = quote(generics::augment(f)),
    summary = quote(print(summary(f))),
    plot = quote(plot(f)),
    cross_validate = quote(cross_validate(f, folds = 2)),
    "the same again" = quote(identical(predict(f, new), predict(f, new)) || problem("predict() differs from itself"))
  ))
  if (estimator == "laplace") {
    logs <- c("log_density", "logLik", "glance", "augment", "summary", "cross_validate", "plot")
    names(checks)[names(checks) %in% logs] <- paste("NaN", names(checks)[names(checks) %in% logs])
  }
  if (identical(all.vars(formula), c("y", "a")) && estimator == "kde" && !is.null(fit$bandwidth)) {
    checks$literal <- bquote({
      ws <- if (is.null(w)) rep(1, nrow(x)) else w
      H <- diag(.(h)^2, 2)
      joint <- literal_log_sum(as.matrix(x[c("y", "a")]), as.matrix(new[c("y", "a")]), H, ws)$log
      own <- literal_log_sum(as.matrix(x["a"]), as.matrix(new["a"]), H[1, 1, drop = FALSE], ws)$log
      got <- predict(f, new, type = "log_density")
      compare_logs(got, joint - own, pmax(1, abs(joint) + abs(own)), what = "conditional log density")
    })
  }
  keep <- c("density", "log_density", "mean", "loo", "logLik", "quantile", "literal", "the same again")
  others <- setdiff(names(checks), keep)
  list(data = list(x = x, w = w, new = new), fit = fit, by_row = c("x", "w"), checks = checks[c(
    intersect(names(checks), keep), sample(others, 6)
  )])
}

# The bandwidth is chosen from the data, and the estimator, too.
default_case <- function() {
  n <- random_size()
  d <- sample(4, 1)
  unit <- if (chance(0.3)) decades(1, -100, 100) else 1
  x <- random_columns(n, d) * unit
  w <- random_weights(n)
  bandwidth <- pick(NULL, "silverman", "scott", "lcv", "lscv", "plugin", "scv", "auto", "nrd0", "sj")
  fit <- bquote(flash_kde(x, bandwidth = kde_bandwidth(method = .(bandwidth), seconds = 0.05), weights = w))
  list(
    data = list(x = x, w = w, new = random_places(x, rep(unit, d))), fit = fit, by_row = c("x", "w"),
    checks = common_checks(FALSE, rep(unit, d))
  )
}

kinds <- list(
  plain = plain_case, plain = plain_case, plain = plain_case, adaptive = adaptive_case, compact = compact_case,
  mixed = mixed_case, mixed = mixed_case, support = support_case, support = support_case, polygon = polygon_case,
  conditional = conditional_case, conditional = conditional_case, default = default_case
)
grDevices::pdf(NULL)
fuzz("Random density fits", kinds, 5000)
