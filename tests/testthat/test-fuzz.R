# Hundreds of random bad calls of every exported function, and some of every method: each returns or
# raises an R error. Run in a child process, so that a crash is a failed test. The seed is fixed.

# `log`: a file that holds the call in progress, for when the process dies.
fuzz_session <- function(calls_per_export, calls_per_method, log) {
  set.seed(20261121)
  options <- options(flashkernel.threads = 1L) # the work is tiny
  on.exit(options(options))
  good_x <- matrix(stats::rnorm(24), 12, 2, dimnames = list(NULL, c("a", "b")))
  fits <- lapply(c("kde", "sdkde", "laplace"), \(estimator) {
    flash_kde(good_x, estimator = estimator, bandwidth = 0.5)
  })
  line <- flash_kde(good_x[, 1], estimator = "kde", bandwidth = 0.5)
  regression <- kernel_ridge(good_x, good_x[, 1] + 1:12, bandwidth = 1, lambda = 1e-3, centers = 5)
  cube <- flash_kde(cbind(good_x, c = 1:12), estimator = "laplace", bandwidth = 0.5)
  broken <- function(...) utils::modifyList(fits[[2]], list(...))
  set_class <- methods::setClass("fuzz_s4", representation(v = "numeric"))
  looped <- new.env()
  looped$self <- looped
  nested <- Reduce(\(inner, i) list(inner), 1:500, accumulate = FALSE)

  hostile <- list(
    # nothing, almost nothing
    NULL, NA, NA_real_, NA_integer_, NA_character_, NaN, Inf, -Inf, logical(), numeric(),
    character(), list(), "", raw(), matrix(0, 0, 2), matrix(0, 2, 0), matrix(0, 0, 0),
    data.frame(), data.frame(a = numeric(), b = numeric()), matrix(NA_real_, 3, 2),
    # numbers of the wrong kind or size
    0, -1, 1.5, TRUE, FALSE, 1e308, -1e308, 5e-324, 1e-320, 4096, 1e5, .Machine$integer.max,
    2^53, 1i, as.raw(1), c(1, NA), c(1, Inf), c(1, -1), 1:3, 1:1000, rep(0, 12), rep(1e308, 12),
    rep(1e-308, 12), stats::setNames(1:2, c("a", "b")), structure(1, class = "integer64"),
    # matrices of the wrong form
    diag(2), diag(3), -diag(2), matrix(1, 2, 2), matrix(c(1, 2, 3, 4), 2), diag(c(1e-300, 1e300)),
    matrix(1e200, 12, 2), matrix(-1e308, 12, 2), matrix("1", 12, 2), matrix(list(), 0, 2),
    matrix(list(1, "a", NULL, sum), 2), matrix(TRUE, 12, 2), matrix(1i, 12, 2),
    array(1, c(2, 2, 2)), array(1, 3), matrix(1, 1, 2), matrix(1, 3, 50), matrix(NaN, 12, 2),
    cbind(b = 1:12, c = 0), table(1:3, 1:3), good_x[, c(1, 1)],
    # text
    "a", "cuda", "cpu", "fast", "single", "double", "sdkde", "laplace", "silverman", "lcv",
    "full", "nrd0", c("kde", "kde"), strrep("a", 1e5), "\u00e9\u4e2d", "a\\`%s%d%n", letters,
    # other types; no function that, as sum(), yields chunks without end
    list(1, 1:2, 1:3), list(a = 1, b = "x"), nested, factor(1:12), Sys.time(),
    as.Date("2026-01-01"), as.POSIXlt("2026-01-01"), data.frame(a = 1:12, b = letters[1:12]),
    data.frame(a = 1:12, b = I(as.list(1:12))), data.frame(a = 1:12, b = I(matrix(1, 12, 3))),
    data.frame(a = factor(1:12)), data.frame(a = NA_real_, b = 1:12), faithful,
    structure(list(1:3, 1:2), class = "data.frame", row.names = 1:3),
    max, function(x) stop("no"), function(...) NULL, globalenv(), looped, quote(x), quote(f(x)),
    expression(a, b), ~a, ~ a + b, y ~ x, ~., ~0, as.name("x"), pairlist(1, 2), set_class(v = 1),
    methods::getGeneric("show"), numeric_version("1.0"), stats::lm(dist ~ speed, cars),
    structure(list(), class = "flash_kde"), structure(1:4, class = "nonsense"),
    # fits that something has broken
    broken(x = "a"), broken(x = good_x[1:3, ]), broken(x = 1L), broken(debiased = good_x[1:2, ]),
    broken(debiased = "a"), broken(bandwidth = diag(3)), broken(bandwidth = NULL),
    broken(bandwidth = -diag(2)), broken(bandwidth = diag(NA_real_, 2)), broken(weights = 1),
    broken(weights = letters), broken(weights = rep(NaN, 12)), broken(n = 1e6), broken(n = "a"),
    broken(d = 7L), broken(d = 1L), broken(d = 3), broken(d = -1L), broken(d = NULL),
    broken(estimator = "none"), broken(estimator = NULL),
    broken(threads = "a"), broken(backend = NULL), broken(precision = 1), broken(names = 1:9),
    unclass(fits[[1]]), c(fits, line)
  )
  good <- list(
    x = good_x, y = good_x[1:5, ], at = good_x[1:5, ], newdata = good_x[1:5, ], b = rep(1, 12),
    weights = rep(1, 12), bandwidth = 0.5, score_bandwidth = 0.4, q = 0.1, prob = 0.5, probs = 0.5,
    estimator = "kde", nsim = 3, threads = 1, n_samples = 50, kernel = "gaussian", replicates = 20, lambda = 1e-3, centers = 5
  )
  named <- getNamespace("flashkernel")
  exports <- sort(getNamespaceExports("flashkernel"))
  exports <- exports[vapply(exports, \(name) is.function(get(name, named)), NA)]
  generics <- c(
    "predict", "simulate", "quantile", "logLik", "nobs", "print", "summary", "as.data.frame",
    "update", "plot"
  )

  argument_names <- function(name) {
    fitting <- name %in% c("flash_kde", "kernel_ridge", "tune_ridge")
    ours <- if (fitting) sample(c("default", "formula"), 1) else c("flash_kde", "kernel_ridge")
    methods <- lapply(ours, \(class) utils::getS3method(name, class, TRUE, envir = named))
    found <- lapply(c(get(name), methods), \(f) if (is.function(f)) names(formals(args(f))))
    setdiff(unique(unlist(found)), "...")
  }
  good_value <- function(argument, name) {
    is_object <- argument == "object" || (argument == "x" && name %in% generics)
    if (argument == "y" && name %in% c("kernel_ridge", "tune_ridge")) return(good_x[, 1] + 1:12)
    if (!is_object) return(good[[argument]])
    planar <- if (name %in% c("hdr_level", "plot")) 0.05 else 0.6 # two dimensions cost most there
    if (stats::runif(1) < planar) sample(fits, 1)[[1]] else sample(list(line, cube, regression), 1)[[1]]
  }
  random_arguments <- function(names, name) {
    # Mostly one bad argument among sound ones: that one gets furthest.
    n <- length(names)
    bad <- seq_len(n) %in% sample.int(n, min(1 + stats::rgeom(1, 0.6), n))
    left_out <- !bad & stats::runif(n) < 0.5 & !names %in% c("x", "object", "bandwidth")
    # The object of a method is mostly sound, or nothing behind it would be reached.
    if (name %in% generics && stats::runif(1) < 0.5) bad[1] <- FALSE
    arguments <- list()
    for (i in which(!left_out)) {
      value <- if (bad[i]) sample(hostile, 1)[[1]] else good_value(names[i], name)
      # as many as were asked for, which may be days of work
      many <- c(replicates = 1000, grid = 200)[names[i]]
      too_many <- !is.na(many) && is.numeric(value) && length(value) == 1 && isTRUE(value > many)
      if (too_many) value <- -1
      if (bad[i] || !is.null(value)) arguments[names[i]] <- list(value)
    }
    if (stats::runif(1) < 0.1) arguments["nonsense"] <- sample(hostile, 1)
    if (stats::runif(1) < 0.1) names(arguments) <- NULL
    arguments
  }
  outcome <- function(f, arguments) {
    setTimeLimit(elapsed = 600, transient = TRUE) # of a call that never ends
    on.exit(setTimeLimit())
    tryCatch(
      {
        suppressMessages(suppressWarnings(do.call(f, arguments, quote = TRUE)))
        "returned"
      },
      error = function(e) {
        text <- tryCatch(conditionMessage(e), error = function(e) NA)
        if (!is.character(text) || length(text) != 1 || is.na(text)) return("error without message")
        if (grepl("time limit|internal error", text)) return(paste("error:", text))
        if (!inherits(e, "error")) "condition that is no error" else "error"
      },
      interrupt = function(e) "interrupt",
      condition = function(e) paste("loose condition", class(e)[1])
    )
  }

  grDevices::pdf(NULL)
  sink(nullfile())
  on.exit({
    sink()
    grDevices::dev.off()
  }, add = TRUE)
  before <- lapply(fits, stats::predict)
  calls <- c(
    stats::setNames(rep(calls_per_export, length(exports)), exports),
    stats::setNames(rep(calls_per_method, length(generics)), generics)
  )
  # each is thousands of the others' work; or they are generics of R, whose own methods hostile objects reach
  slow <- c(
    crossprod = 0.1, diag = 0.1, show = 0.1, tcrossprod = 0.1, falkon = 0.1, kernel_ridge = 0.2, ridge_svm_rbf = 0.02, tune_ridge = 0.01,
    marginal_effects = 0.2, kde_test = 0.04, kde_bands = 0.1, kernel_regression = 0.2,
    flash_kda = 0.2, compare_fits = 0.1, cross_validate = 0.1, kde_modes = 0.2, mean_shift = 0.2, kde_ridges = 0.1, hdr_regions = 0.2,
    geom_flash_hdr = 0.04, geom_flash_hdr_lines = 0.04, stat_flash_density = 0.1, stat_flash_density_2d = 0.1, stat_flash_hdr = 0.1,
    as_ks = 0.2, colMeans = 0.1, colSums = 0.1, rowMeans = 0.1, rowSums = 0.1
  )
  slow <- slow[names(slow) %in% names(calls)] # crossprod() is R's own, of which we have methods, since R 4.4
  calls[names(slow)] <- pmax(10, ceiling(slow * calls[names(slow)])) # of fewer, none may be an error
  report <- list()
  seconds <- calls * 0
  tally <- calls * 0
  for (name in names(calls)) {
    f <- get(name)
    started <- proc.time()[["elapsed"]]
    for (i in seq_len(calls[[name]])) {
      names <- argument_names(name)
      arguments <- if (length(names)) random_arguments(names, name) else sample(hostile, 1)
      cat(name, i, file = log)
      result <- outcome(f, arguments)
      tally[[name]] <- tally[[name]] + (result == "error")
      if (!result %in% c("returned", "error")) {
        text <- utils::capture.output(utils::str(arguments, 1, give.attr = FALSE))
        text <- paste(c(paste0(name, " ", i, ": ", result), text), collapse = "\n")
        report[[length(report) + 1]] <- substr(text, 1, 1500)
      }
    }
    seconds[[name]] <- proc.time()[["elapsed"]] - started
  }
  list(
    report = unlist(report), calls = calls, errors = tally, seconds = seconds,
    unharmed = identical(lapply(fits, stats::predict), before)
  )
}

test_that("hundreds of random bad calls of every exported function raise errors and nothing else", {
  log <- tempfile("fuzz")
  on.exit(unlink(log))
  # R CMD check runs what the test suite has just run
  calls <- if (nzchar(Sys.getenv("_R_CHECK_PACKAGE_NAME_"))) 100 else 250
  arguments <- list(calls, calls / 5, log)
  # R CMD check --as-cran ends R where any code takes a vector for a condition, which methods of stats do with
  # bad arguments: here it is to judge this package alone.
  ours <- c(`_R_CHECK_LENGTH_1_LOGIC2_` = "package:_R_CHECK_PACKAGE_NAME_,abort,verbose")
  result <- if (requireNamespace("callr", quietly = TRUE)) {
    tryCatch(
      in_child(fuzz_session, arguments, env = ours, timeout = 300),
      error = function(e) {
        call <- readLines(log, warn = FALSE)
        stop("the process died or hung in call ", call, ": ", conditionMessage(e))
      }
    )
  } else {
    do.call(fuzz_session, arguments)
  }
  expect(length(result$report) == 0, paste(result$report, collapse = "\n"))
  expect_true(result$unharmed)
  exports <- getNamespaceExports("flashkernel")
  exports <- Filter(\(name) is.function(getExportedValue("flashkernel", name)), exports)
  expect_identical(exports[result$calls[exports] < 10], character())
  expect_identical(setdiff(names(result$errors)[result$errors == 0], c("print", "show", "nobs")), character())
})
