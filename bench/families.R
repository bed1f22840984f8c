# Out-of-sample mean deviance of Poisson, Gamma and logistic fits of kernel_ridge(), glm(), mgcv::gam() and LightGBM, and
# mean pinball loss of quantiles (levels 0.1, 0.5, 0.9) of kernel_ridge() and LightGBM, with seconds for each fit.
#
#   Rscript bench/families.R [--data /work/data-pred] [--python python3] [--rows 4000] [--splits 3] [--only PATTERN]
#
# A fifth of the rows are tested. All have default settings; LightGBM stops early on a fifth of the training rows. Data
# are of packages datasets, MASS and AER, and of the folder --data (shared/PREDICTION.md). gam() has a smooth of every column
# with at least 15 values. A mark * is at the least mean loss, and +- at the standard error of the paired difference
# of kernel_ridge() from the best other method.

suppressMessages(library(flashkernel))
given <- commandArgs(TRUE)
option <- function(name, default) {
  at <- match(paste0("--", name), given)
  if (is.na(at)) default else given[at + 1]
}
folder <- option("data", "/work/data-pred")
python <- option("python", file.path(folder, "venv/bin/python"))
most_rows <- as.numeric(option("rows", 4000))
splits <- as.numeric(option("splits", 3))
only <- option("only", "")
levels_asked <- c(0.1, 0.5, 0.9)

# ---- data -----------------------------------------------------------------------------------------

package_data <- function(name, package) get(utils::data(list = name, package = package, envir = environment()))
stored <- function(name, header = TRUE, sep = ",") {
  utils::read.csv(file.path(folder, paste0(name, ".csv.gz")), header = header, sep = sep, stringsAsFactors = TRUE)
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
    wine = \() numbers("uci_wine")
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
  if (system2(python, c("bench/families_lightgbm.py", place), stdout = FALSE, stderr = FALSE) != 0) return(NULL)
  drop(as.matrix(utils::read.csv(file.path(place, "guess.csv"), header = FALSE)))
}
methods <- list(kernel_ridge = by_kernels, glm = by_glm, gam = by_gam, LightGBM = by_lightgbm)

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
  found <- lapply(methods, \(method) {
    seconds <- 0
    losses <- lapply(seq_len(splits), \(k) {
      train <- data[fold != k, ]
      test <- data[fold == k, ]
      seconds <<- seconds + system.time(guess <- try(method(train, test, name), silent = TRUE))[["elapsed"]] / splits
      if (is.null(guess) || inherits(guess, "try-error")) NA else losses_of(name, test$y, guess)
    })
    list(losses = unlist(losses), seconds = seconds)
  })
  means <- vapply(found, \(x) mean(x$losses), 0)
  best <- names(which.min(means[-1]))
  paired <- found[[1]]$losses - found[[best]]$losses
  line <- sprintf("%-9s %-17s %6d %3d", name, set, nrow(data), ncol(data) - 1)
  for (method in names(found)) {
    mark <- if (identical(means[[method]], min(means, na.rm = TRUE))) "*" else " "
    line <- paste0(line, sprintf(" %11.4f%s %6.1fs", means[[method]], mark, found[[method]]$seconds))
  }
  cat(line, sprintf(" %+.4f +- %.4f\n", mean(paired), stats::sd(paired) / sqrt(length(paired))))
}

cat(sprintf("%-9s %-17s %6s %3s", "family", "set", "rows", "d"), sprintf("%19s", names(methods)), "  kernel_ridge - best other\n")
for (name in names(sets)) for (set in names(sets[[name]])) {
  if (!grepl(only, paste(name, set))) next
  data <- try(sets[[name]][[set]](), silent = TRUE)
  if (inherits(data, "try-error")) cat(name, set, "is not available\n") else bench_set(name, set, data)
}
