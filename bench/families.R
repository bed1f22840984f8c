# Out-of-sample mean deviance of Poisson, Gamma and logistic fits of kernel_ridge(), glm(), mgcv::gam() and LightGBM, and
# mean pinball loss of quantiles (levels 0.1, 0.5, 0.9) of kernel_ridge(), LightGBM and fastkqr, with seconds for each fit.
#
#   Rscript bench/families.R [--save] [--rows 4000] [--splits 3] [--only PATTERN] [--peers-cache FOLDER]
#
# A fifth of the rows are tested. kernel_ridge(), glm() and gam() have default settings; LightGBM stops early on a fifth
# of the training rows. fastkqr::cv.kqr(), with columns and response of unit variance, takes the best of 11 penalties and
# three bandwidths (its own estimate of sigma times 1/4, 1 and 4) by five folds for each level. 400 training rows take it
# a minute, and its time is cubic in the rows, so that more than 1,000 leave it out: results/families.txt has --rows 500
# --splits 2 --only quantile. gam() has a smooth of every column with at least 15 values. Data are of bench/data and of
# packages MASS and AER. PYTHON is an interpreter with LightGBM. FOLDER keeps the predictions of peers. A mark * is at the
# least mean loss, and +- at the standard error of the paired difference of kernel_ridge() from each other method.

source("bench/common.R")
most_rows <- as.numeric(option("--rows", 4000))
splits <- as.numeric(option("--splits", 3))
only <- option("--only", "")
cache <- option("--peers-cache")
levels_asked <- c(0.1, 0.5, 0.9)

# ---- data -----------------------------------------------------------------------------------------

package_data <- function(name, package) get(utils::data(list = name, package = package, envir = environment()))
stored <- function(name, header = TRUE, sep = ",") {
  utils::read.csv(data_file(name), header = header, sep = sep, stringsAsFactors = TRUE)
}
# The columns without missing values and the response, last, named y.
with_response <- function(data, y, drop = character()) {
  made <- data[setdiff(names(data), c(y, drop))]
  made$y <- data[[y]]
  made[] <- lapply(made, \(x) if (is.character(x)) factor(x) else if (is.integer(x)) as.double(x) else x)
  stats::na.omit(made)
}
last_named <- function(data) with_response(data, names(data)[ncol(data)])
abalone <- \() last_named(stored("abalone", FALSE))
numbers <- \(name) last_named(stored(name, FALSE))
sets <- list(
  poisson = list(
    NMES1988 = \() with_response(package_data("NMES1988", "AER")[c(1, 7:19)], "visits"),
    RecreationDemand = \() with_response(package_data("RecreationDemand", "AER"), "trips"),
    PhDPublications = \() with_response(package_data("PhDPublications", "AER"), "articles"),
    quine = \() with_response(package_data("quine", "MASS"), "Days"), abalone = abalone
  ),
  Gamma = list(
    slid = \() with_response(stored("slid"), "wages"),
    cps1988 = \() with_response(stored("cps1988"), "wage", "rownames"),
    hitters = \() with_response(stored("hitters"), "Salary", "rownames"),
    california = \() with_response(stored("california_housing"), "median_house_value")
  ),
  binomial = list(
    Pima = \() with_response(rbind(package_data("Pima.tr", "MASS"), package_data("Pima.te", "MASS")), "type"),
    Affairs = \() with_response(transform(package_data("Affairs", "AER"), any = factor(affairs > 0)), "any", "affairs"),
    PSID1976 = \() with_response(
      package_data("PSID1976", "AER")[c("participation", "youngkids", "oldkids", "age", "education", "fincome", "city", "experience")],
      "participation"
    ),
    saheart = \() { data <- last_named(stored("keel_saheart", FALSE)); transform(data, y = factor(y)) }
  ),
  quantile = list(
    concrete = \() numbers("uci_concrete"), airfoil = \() numbers("uci_airfoil"), housing = \() numbers("uci_housing"),
    energy = \() numbers("uci_energy"), abalone = abalone, slid = \() with_response(stored("slid"), "wages", "rownames"),
    no2 = \() with_response(stored("no2"), "target"), hitters = \() with_response(stored("hitters"), "Salary", "rownames"),
    autompg = \() numbers("uci_autompg"), stock = \() numbers("uci_stock"), wage = \() with_response(stored("wage"), "wage", c("rownames", "logwage", "region")),
    wine = \() numbers("uci_wine"), yacht = \() numbers("uci_yacht"), machine = \() numbers("uci_machine"),
    space_ga = \() with_response(stored("space_ga"), "target"), houseprices = \() with_response(stored("houseprices"), "price"),
    college = \() with_response(stored("college"), "Outstate", "rownames"),
    car_prices = \() with_response(stored("car_prices"), "Price"),
    power = \() last_named(stored("power", FALSE, "")), kin8nm = \() last_named(stored("kin8nm", FALSE, ""))
  )
)

# ---- methods: functions of (train, test, family) to guesses ------------------------------------------------

family_of <- function(name) {
  switch(name, poisson = stats::poisson(), Gamma = stats::Gamma("log"), binomial = stats::binomial())
}
by_kernels <- function(train, test, name) {
  family <- if (name == "quantile") ridge_family("quantile", levels = levels_asked) else family_of(name)
  fit <- kernel_ridge(y ~ ., train, family = family)
  if (name == "binomial") predict(fit, test, type = "prob")[, 2] else predict(fit, test)
}
by_glm <- function(train, test, name) {
  if (name != "quantile") suppressWarnings(stats::predict(stats::glm(y ~ ., family_of(name), train), test, type = "response"))
}
by_gam <- function(train, test, name) {
  if (name == "quantile") return(NULL)
  columns <- setdiff(names(train), "y")
  smooth <- vapply(train[columns], \(x) is.numeric(x) && length(unique(x)) >= 15, NA)
  k <- max(3, min(10, nrow(train) %/% (3 * length(columns))))
  terms <- ifelse(smooth, paste0("s(", columns, ", k = ", k, ")"), columns)
  fit <- mgcv::bam(stats::as.formula(paste("y ~", paste(terms, collapse = " + "))), family_of(name), train, discrete = TRUE)
  as.vector(stats::predict(fit, test, type = "response"))
}
by_lightgbm <- function(train, test, name) {
  place <- tempfile()
  dir.create(place)
  on.exit(unlink(place, recursive = TRUE))
  coded <- \(data) as.data.frame(lapply(data, \(x) if (is.factor(x)) as.integer(x) - (nlevels(x) == 2) else as.double(x)))
  utils::write.csv(coded(train), file.path(place, "train.csv"), row.names = FALSE)
  utils::write.csv(coded(test), file.path(place, "test.csv"), row.names = FALSE)
  objective <- c(poisson = "poisson", Gamma = "gamma", binomial = "binary", quantile = "quantile")[[name]]
  writeLines(paste(c(objective, if (name == "quantile") levels_asked), collapse = " "), file.path(place, "task.txt"))
  if (system2(Sys.getenv("PYTHON", "python3"), c("bench/families_lightgbm.py", place), stdout = FALSE, stderr = FALSE) != 0) return(NULL)
  drop(as.matrix(utils::read.csv(file.path(place, "guess.csv"), header = FALSE)))
}
# The columns of numbers and of indicators of levels, in units of the standard deviations of the training rows.
by_fastkqr <- function(train, test, name) {
  if (name != "quantile" || nrow(train) > 1000 || !requireNamespace("fastkqr", quietly = TRUE)) return(NULL)
  x <- stats::model.matrix(y ~ ., rbind(train, test))[, -1, drop = FALSE]
  known <- seq_len(nrow(train))
  spread <- apply(x[known, , drop = FALSE], 2, stats::sd)
  x <- scale(x, colMeans(x[known, , drop = FALSE]), spread)[, spread > 0, drop = FALSE]
  unit <- stats::sd(train$y)
  y <- (train$y - mean(train$y)) / unit
  set.seed(1)
  sigmas <- fastkqr:::sigest(x[known, , drop = FALSE]) * c(1 / 4, 1, 4)
  folds <- sample(rep_len(1:5, nrow(train)))
  guesses <- vapply(levels_asked, \(level) {
    path <- 10^seq(0, -5, by = -0.5)
    found <- lapply(sigmas, \(sigma) fastkqr::cv.kqr(x[known, ], y, level, path, sigma, foldid = folds))
    best <- which.min(vapply(found, `[[`, 0, "cvm.min"))
    path <- path[path >= found[[best]]$lambda.min]
    fit <- fastkqr::kqr(x[known, ], y, path, level, sigma = sigmas[best])
    stats::predict(fit, x[known, ], x[-known, ])[, length(path)]
  }, numeric(nrow(test)))
  guesses * unit + mean(train$y)
}
methods <- list(kernel_ridge = by_kernels, glm = by_glm, gam = by_gam, LightGBM = by_lightgbm, fastkqr = by_fastkqr)

# list(guess, seconds) of a method; of peers also from the cache.
guess_of <- function(method, train, test, name, key) {
  compute <- function() {
    seconds <- system.time(guess <- try(methods[[method]](train, test, name), silent = TRUE))[["elapsed"]]
    list(guess = if (!inherits(guess, "try-error")) guess, seconds = seconds)
  }
  if (method == "kernel_ridge" || is.null(cache)) return(compute())
  file <- file.path(cache, paste0(paste(c(method, name, key), collapse = "-"), ".rds"))
  if (!file.exists(file)) {
    dir.create(cache, showWarnings = FALSE, recursive = TRUE)
    saveRDS(compute(), file)
  }
  readRDS(file)
}

# The loss of each test row: the unit deviance, or the mean pinball loss of the levels.
losses_of <- function(name, y, guess) {
  if (name == "quantile") {
    r <- y - guess
    return(rowMeans(r * (rep(levels_asked, each = length(y)) - (r < 0))))
  }
  if (is.factor(y)) y <- as.double(y == levels(y)[2])
  family_of(name)$dev.resids(y, pmax(guess, 1e-10), rep(1, length(y)))
}

# ---- the table --------------------------------------------------------------------------------------

bench_set <- function(name, set, data) {
  set.seed(1)
  data <- droplevels(data[sample.int(nrow(data), min(nrow(data), most_rows)), ])
  fold <- sample(rep_len(1:5, nrow(data)))
  found <- lapply(stats::setNames(nm = names(methods)), \(method) {
    parts <- lapply(seq_len(splits), \(k) {
      test <- data[fold == k, ]
      part <- guess_of(method, data[fold != k, ], test, name, c(set, nrow(data), k))
      list(losses = if (is.null(part$guess)) NA else losses_of(name, test$y, part$guess), seconds = part$seconds)
    })
    list(losses = unlist(lapply(parts, `[[`, "losses")), seconds = mean(vapply(parts, `[[`, 0, "seconds")))
  })
  means <- vapply(found, \(x) mean(x$losses), 0)
  cat(sprintf("%-9s %-14s %5d %3d", name, set, nrow(data), ncol(data) - 1))
  for (method in names(found)[!is.na(means)]) {
    mark <- if (means[[method]] == min(means, na.rm = TRUE)) "*" else " "
    cat(sprintf("  %s %.4g%s %.1f s", method, means[[method]], mark, found[[method]]$seconds))
    if (method != "kernel_ridge") {
      paired <- found$kernel_ridge$losses - found[[method]]$losses
      cat(sprintf(" (%+.2g +- %.1g)", mean(paired), stats::sd(paired) / sqrt(length(paired))))
    }
  }
  cat("\n")
  means
}

bench_start("families.R", "Losses at held-out rows: mean deviance, of quantiles mean pinball loss")
cat("family, set, rows, columns; for each method loss, seconds of a fit, and the loss of kernel_ridge() minus its loss\n\n")
for (name in names(sets)) {
  means <- lapply(names(sets[[name]]), \(set) {
    if (!grepl(only, paste(name, set))) return(NULL)
    data <- try(sets[[name]][[set]](), silent = TRUE)
    if (!inherits(data, "try-error")) return(bench_set(name, set, data))
    cat(name, set, "is not available\n")
  })
  means <- do.call(rbind, means)
  for (method in names(methods)[-1]) {
    met <- means[, "kernel_ridge"] <= means[, method]
    count <- \(x) sum(x, na.rm = TRUE)
    if (any(!is.na(met))) cat(sprintf("%s: at or below %s on %d of %d sets\n", name, method, count(met), count(!is.na(met))))
  }
}
