# Bad input gets one clear error of class flashkernel_error_argument that names the argument.

good <- example_points(20, 2)
fit <- flash_kde(good, estimator = "kde", bandwidth = 0.5)

test_that("an argument error has its class, the package's class and the user's call", {
  error <- tryCatch(flash_kde(good, bandwidth = -1), error = identity)
  expect_s3_class(error, c("flashkernel_error_argument", "flashkernel_error", "error", "condition"),
    exact = TRUE
  )
  expect_match(conditionMessage(error), "-1", fixed = TRUE)
  expect_identical(deparse(conditionCall(error)[[1]]), "flash_kde")
})

# Functions of points, which refuse what they are given and name `arg`.
takers <- list(
  fit = \(x, ...) flash_kde(x, bandwidth = 1, ...), sum = \(x, ...) kernel_sum(x, bandwidth = 1, tol = 0, ...),
  score = \(x, ...) kernel_sum(x, bandwidth = 1, type = "score", ...),
  silverman = \(x, ...) kde_bandwidth(x, "silverman", ...), lcv = \(x, ...) kde_bandwidth(x, "lcv", ...)
)
sums <- takers[c("sum", "score")]
refuse <- function(by, ..., arg = "x") for (f in by) expect_argument_error(f(...), arg)

test_that("points that are not finite numbers are refused and located", {
  for (value in c(Inf, -Inf, NA, NaN)) {
    bad <- replace(good, 23, value)
    refuse(takers[-1], bad)
    expect_argument_error(flash_kde(bad, bandwidth = 1, na.action = na.pass), "x")
    expect_argument_error(predict(fit, bad, na.action = na.fail), "newdata")
    refuse(sums, good, bad, arg = "y")
    if (is.na(value)) next
    expect_argument_error(predict(fit, bad), "newdata")
    expect_error(flash_kde(bad, bandwidth = 1), "row 3, column `2`", fixed = TRUE)
  }
})

test_that("points of another type are refused", {
  wrong <- list(
    NULL, "a", letters, list(1, 2), globalenv(), matrix("1", 2, 2), 1i, as.raw(1:3),
    Sys.time() - Sys.time(), data.frame(a = factor(1:2), b = I(list(1, 2))), array(0, c(2, 2, 2)), quote(x)
  )
  for (x in wrong) refuse(takers, x)
  expect_argument_error(flash_kde(table(1:3)), "x")
  expect_argument_error(kernel_sum(sum, bandwidth = 1, tol = 0), "y")
  refuse(takers[-2], sum)
  # levels are for flash_kde() alone
  levels <- list(data.frame(a = 1:2, b = c("u", "v")), data.frame(a = factor(1:2)), factor(1:3))
  for (x in levels) refuse(takers[-1], x)
  for (x in c(wrong[-1], sum, levels)) expect_argument_error(predict(fit, x), "newdata")
})

test_that("zero rows and zero columns are refused", {
  for (x in list(numeric(), matrix(0, 0, 2), matrix(0, 2, 0), faithful[0, ], faithful[, 0])) refuse(takers, x)
})

test_that("newdata has the columns of the fit, by name among others; a lacking one is named", {
  named <- flash_kde(faithful, estimator = "kde", bandwidth = 1)
  more <- cbind(extra = "text", faithful[2:1], last = 1)
  known <- predict(named, faithful)
  expect_identical(predict(named, more), known)
  expect_identical(predict(named, as.matrix(more[2:4])), known)
  p_values <- \(data) kde_pvalue(named, data[1:3, ], calibration = data)
  expect_identical(p_values(more), p_values(faithful))
  expect_error(predict(named, more[-2]), "found no `waiting`")
  expect_error(predict(named, more[c(1, 4)]), "found no `eruptions`, `waiting`")
  expect_argument_error(predict(named, cbind(more, last = 2)[c(1, 4, 5)]), "newdata")
  expect_argument_error(predict(named, faithful["waiting"]), "newdata")
  expect_argument_error(predict(named, setNames(faithful, c("a", "b"))), "newdata")
  expect_argument_error(predict(named, matrix(0, 3, 3)), "newdata")
  expect_argument_error(predict(named, c(3, 70)), "newdata")
  expect_identical(predict(named, faithful[2:1]), predict(named, faithful)) # order is by name
  for (columns in c(1, 3)) refuse(sums, good, matrix(0, 3, columns), arg = "y")
})

test_that("weights that are not finite, non-negative and of length n are refused", {
  wrong <- list(
    rep(1, 19), rep(1, 21), numeric(), -1, replace(rep(1, 20), 3, -1e-9), rep(0, 20),
    replace(rep(1, 20), 3, Inf), rep("1", 20), as.list(rep(1, 20)), rep(.Machine$double.xmax, 20)
  )
  for (weights in wrong) refuse(takers, good, weights = weights, arg = "weights")
})

test_that("a bandwidth that is not positive definite is refused", {
  wrong <- list(
    0, -1, NaN, NA_real_, Inf, numeric(), c(1, 0), c(1, -1), 1:3, TRUE, list(1), sum,
    diag(c(1, 0)), diag(c(1, -1)), matrix(1, 2, 2), matrix(c(1, 0.5, 0.4, 1), 2),
    diag(3), matrix(1, 2, 1), matrix(c(1, NA, NA, 1), 2), matrix(c(Inf, 0, 0, 1), 2),
    matrix(c(1, 2, 2, 1), 2), 1i, array(1, c(2, 2, 1))
  )
  for (bandwidth in wrong) {
    expect_argument_error(flash_kde(good, bandwidth = bandwidth), "bandwidth")
    refuse(takers["fit"], good, debias = debiasing(bandwidth = bandwidth), arg = "debias$bandwidth")
    expect_argument_error(kernel_sum(good, bandwidth = bandwidth), "bandwidth")
    expect_argument_error(kernel_sum(good, bandwidth = bandwidth, type = "score"), "bandwidth")
  }
})

test_that("asymmetry counts in units of the columns", {
  expect_argument_error(flash_kde(good, bandwidth = matrix(c(1e8, 0.5, 0, 1), 2)), "bandwidth")
  rounded <- matrix(c(1e8, 0.5, 0.5 + 1e-13, 1e-8), 2)
  expect_s3_class(flash_kde(good, "kde", bandwidth = rounded), "flash_kde")
})

test_that("bandwidths are matched to the columns by name", {
  sds <- c(eruptions = 0.3, waiting = 4)
  H <- matrix(c(0.09, 0.5, 0.5, 16), 2, dimnames = rep(list(names(faithful)), 2))
  for (bandwidth in list(sds, H)) {
    turned <- if (is.matrix(bandwidth)) bandwidth[2:1, 2:1] else bandwidth[2:1]
    misnamed <- bandwidth
    if (is.matrix(bandwidth)) rownames(misnamed)[1] <- "x" else names(misnamed)[1] <- "x"
    want <- flash_kde(faithful, bandwidth = unname(bandwidth))
    got <- flash_kde(faithful, bandwidth = turned, debias = debiasing(bandwidth = turned))
    expect_identical(got$bandwidth, want$bandwidth)
    expect_identical(got$debiased, want$debiased)
    for (type in c("sum", "score")) {
      sums <- \(bandwidth) kernel_sum(faithful, bandwidth = bandwidth, type = type)
      expect_identical(sums(turned), sums(bandwidth))
      expect_argument_error(sums(misnamed), "bandwidth")
    }
    expect_argument_error(flash_kde(faithful, bandwidth = misnamed), "bandwidth")
    refuse(takers["fit"], faithful, debias = debiasing(bandwidth = misnamed), arg = "debias$bandwidth")
    expect_argument_error(kde_bandwidth(faithful, "lcv", start = misnamed), "start")
  }
  one_sided <- unname(H)[2:1, 2:1]
  colnames(one_sided) <- rev(names(faithful)) # as cbind() makes it
  expect_identical(flash_kde(faithful, "kde", bandwidth = one_sided)$bandwidth, H)
  # no names on one side: by position
  expect_equal(diag(flash_kde(good, "kde", bandwidth = sds)$bandwidth), c(0.09, 16))
})

test_that("other packages' names for the bandwidth, and selectors where there are none, get a hint", {
  for (call in expression(flash_kde(good, h = 1), flash_kde(good, bw = 1), flash_kde(~waiting, faithful, H = 1))) {
    expect_error(eval(call), "did you mean `bandwidth`", class = "flashkernel_error_argument")
  }
  expect_argument_error(flash_kde(faithful, formula = "~waiting"), "formula")
  expect_argument_error(flash_kde(~ waiting | eruptions, faithful), "formula")
  expect_no_error(flash_kde(~ I(waiting > 70 | eruptions > 3), faithful))
  expect_argument_error(kernel_sum(good, bandwidth = "lcv", tol = 0), "bandwidth")
  expect_error(kernel_sum(good, bandwidth = "lcv", tol = 0), "kde_bandwidth")
})

test_that("misspelt arguments are told the one of the function that they are nearest to", {
  fit <- flash_kde(faithful, "kde", bandwidth = c(0.3, 4))
  given <- flash_kde(waiting ~ eruptions, faithful, bandwidth = c(4, 0.3))
  misspelt <- expression(
    bandwidth = flash_kde(good, bandwith = 1), weights = flash_kde(~waiting, faithful, wieghts = 1),
    newdata = predict(fit, new_data = good), probs = quantile(given, faithful[1, ], prbs = 0.5),
    given = kde_conditional(fit, eruptions = 2), given = kde_conditional(fit, gven = c(eruptions = 2))
  )
  for (i in seq_along(misspelt)) {
    wanted <- paste0("did you mean `", names(misspelt)[i], "`")
    expect_error(eval(misspelt[[i]]), wanted, class = "flashkernel_error_argument")
  }
  expect_error(predict(fit, good, zzz = 1), "`zzz` is not an argument of this function$")
})

test_that("messages show the beginning of a long text", {
  long <- strrep("a", 1e5)
  broken <- rawToChar(as.raw(rep(c(0xff, 0x61), 1e4)))
  texts <- expression(
    flash_kde(good, long), flash_kde(long), flash_kde(good, bandwidth = long), flash_kde(good, control = flash_control(backend = broken)),
    flash_kde(stats::setNames(data.frame(Sys.Date()), long)), flash_kde(stats::setNames(data.frame(Sys.Date()), broken)),
    flash_kde(stats::setNames(data.frame("a"), long), categorical = categorical_kernel(smoothing = 2)), flash_kde(data.frame(a = "a"), categorical = categorical_kernel(smoothing = c(b = long))),
    flash_kde(structure(list(), class = substr(long, 1, 400))), flash_kde(~a, stats::setNames(data.frame(1), long)),
    predict(flash_kde(faithful, "kde", bandwidth = 1), stats::setNames(faithful, c("a", strrep("b", 9000)))),
    do.call("flash_kde", stats::setNames(list(good, 1), c("", strrep("c", 9000)))),
    flash_kde(eval(call("~", as.name(strrep("d", 9000)), quote(a))), faithful),
    flash_kde(good, weights = long), flash_kde(good, na.action = long), flash_kde(airquality$Ozone, na.action = \(x) stop(long)),
    kernel_sum(good, bandwidth = long, tol = 0), simulate(fit, long)
  )
  for (call in texts) {
    error <- tryCatch(eval(call), error = identity)
    expect_s3_class(error, "flashkernel_error_argument")
    expect_lt(nchar(conditionMessage(error), "bytes"), 800)
  }
  # nor does the call that comes with it
  error <- tryCatch(do.call("flash_kde", list(c(1, 2), long)), error = identity)
  expect_lt(sum(nchar(deparse(conditionCall(error)))), 200)
})

test_that("numbers of digits and names of rows are checked", {
  fits <- list(fit, summary(fit), diagnostics(fit), kde_bandwidth(good, "lcv"))
  for (object in fits) for (digits in list("a", 0, 23, NA, 1.5, c(1, 2))) {
    expect_argument_error(print(object, digits = digits), "digits")
  }
  for (names in list(1:3, rep("a", 20), list(1), c(NA, 2:20), 1:20 + 0.5, sum, NA)) {
    expect_argument_error(as.data.frame(fit, row.names = names), "row.names")
  }
  expect_identical(rownames(as.data.frame(fit, row.names = letters[1:20])), letters[1:20])
  expect_identical(rownames(as.data.frame(fit, row.names = 21:40)), as.character(21:40))
})

test_that("a choice that is not quite right gets the nearest one named", {
  nearest <- expression(
    sdkde = flash_kde(good, "sd-kde"), sdkde = flash_kde(good, "SDKDE"), plugin = flash_kde(good, bandwidth = "SJ"),
    plugin = flash_kde(good, bandwidth = "Hpi"), sj = flash_kde(good[, 1], bandwidth = "hpi"),
    silverman = flash_kde(good, bandwidth = "nrd0"), plugin = flash_kde(good[, 1], bandwidth = "sj", weights = 1:20),
    silverman = flash_kde(good, bandwidth = "Silvermann"), cuda = flash_control(backend = "gpu")
  )
  for (i in seq_along(nearest)) {
    expect_error(eval(nearest[[i]]), paste0("(the nearest is \"", names(nearest)[i], "\")"), fixed = TRUE)
  }
  expect_no_match(tryCatch(flash_kde(good, "histogram"), error = conditionMessage), "nearest")
  expect_identical(flash_kde(good[, 1], "kde", bandwidth = "SJ")$selector, "sj")
})

test_that("weights by the name of a column, and missing values under na.fail, are told as such", {
  expect_error(flash_kde(~eruptions, faithful, weights = "waiting"), "write weights = waiting")
  expect_argument_error(flash_kde(~eruptions, faithful, weights = "nothing"), "weights")
  expect_error(flash_kde(~eruptions, faithful, weights = 1:3), "one value per row")
  expect_error(flash_kde(faithful, weights = "waiting"), "values of a column")
  expect_error(
    flash_kde(airquality[, 1:4], na.action = na.fail),
    "na.fail or NULL: found 44 in columns `Ozone`, `Solar.R`, the first in row 5, column `Ozone`"
  )
  expect_error(flash_kde(airquality$Ozone, na.action = na.fail), "found 37, the first at position 5")
  expect_error(
    flash_kde(~Wind, airquality, weights = Ozone, na.action = na.fail), "`weights` must not have missing values"
  )
})

test_that("unknown names are refused and the known ones listed", {
  expect_argument_error(flash_kde(good, estimator = "histogram"), "estimator")
  expect_error(flash_kde(good, estimator = "histogram"), "sdkde.*kde.*laplace")
  expect_argument_error(flash_kde(good, bandwidth = "rule"), "bandwidth")
  expect_argument_error(kde_bandwidth(good, data.frame(a = 1:12)), "method")
  for (wrong in list("tpu", NA_character_, c("cpu", "cuda"), 1, list("cpu"), character())) {
    for (setting in c("backend", "precision")) {
      control <- stats::setNames(list(wrong), setting)
      refuse(takers, good, control = control, arg = setting)
    }
  }
  for (type in list("probability", NA_character_, 1, list("score"))) expect_argument_error(predict(fit, type = type), "type")
})

test_that("thread counts that are no counts are refused", {
  for (threads in list(0, -1, 1.5, NA, Inf, "2", c(1, 2), list(1))) {
    for (f in takers) expect_argument_error(f(good, control = flash_control(threads = threads)), "threads")
  }
})

test_that("a constant column has no automatic bandwidth, and is named", {
  flat <- data.frame(height = 1:10, depth = 7)
  for (bandwidth in list(NULL, "silverman", "scott", "lcv")) {
    expect_argument_error(flash_kde(flat, bandwidth = bandwidth), "x")
    expect_error(flash_kde(flat, bandwidth = bandwidth), "`depth`", fixed = TRUE)
  }
  expect_argument_error(kde_bandwidth(flat, "silverman"), "x")
  expect_argument_error(kde_bandwidth(rep(3, 9), "nrd0"), "x")
  expect_argument_error(kde_bandwidth(rep(3, 9), "sj"), "x")
  expect_argument_error(flash_kde(matrix(1:3, 1)), "x") # a single row has no spread either
  expect_s3_class(flash_kde(flat, bandwidth = 1), "flash_kde")
})

test_that("predict() takes logical flags, and leave-one-out only without newdata", {
  expect_argument_error(predict(fit, se.fit = NA), "se.fit")
  expect_argument_error(predict(fit, loo = "yes"), "loo")
  expect_argument_error(predict(fit, good, loo = TRUE), "loo")
  expect_argument_error(predict(fit, good, speed = 2), "speed")
})

test_that("kernel_sum() takes NULL for the points themselves", {
  expect_identical(kernel_sum(good, NULL, bandwidth = 1, tol = 0), kernel_sum(good, bandwidth = 1, tol = 0))
  expect_identical(kernel_sum(good, NULL, bandwidth = 1, type = "score"), kernel_sum(good, bandwidth = 1, type = "score"))
})

test_that("kernel_sum() refuses columns that do not fit its points", {
  for (b in list(1:19, matrix(1, 21, 2), "a", matrix(NA_real_, 20, 1), list(1), matrix(0, 20, 0))) {
    expect_argument_error(kernel_sum(good, b = b, bandwidth = 1, tol = 0), "b")
  }
})

test_that("simulate(), kde_cdf(), quantile() and hdr_level() name what they cannot use", {
  line <- flash_kde(faithful$eruptions, estimator = "kde", bandwidth = 0.3)
  for (nsim in list(-1, 1.5, NA, "a", c(1, 2), Inf)) expect_argument_error(simulate(fit, nsim = nsim), "nsim")
  for (probs in list(1.5, "a", NaN)) expect_argument_error(quantile(line, probs), "probs")
  expect_argument_error(kde_cdf(line, "a"), "q")
  for (prob in list(-0.1, 1.1, NA, "a", numeric())) expect_argument_error(hdr_level(fit, prob), "prob")
  for (q in list(1, cbind(1, 1, 1))) expect_argument_error(kde_cdf(fit, q), "q") # two variables
  expect_argument_error(kde_cdf(fit), "q")
  expect_argument_error(kde_cdf(fit, cbind(1, 1), lower = 0), "lower")
  expect_argument_error(kde_cdf(fit, matrix(1, 3, 2), lower = matrix(0, 2, 2)), "lower")
  expect_argument_error(quantile(fit, 1.5), "probs")
})

test_that("points beyond the memory limit are refused before anything is computed", {
  before <- options(flashkernel.memory_limit = 100)
  on.exit(options(before))
  expect_argument_error(flash_kde(good, bandwidth = 1), "x")
  expect_error(flash_kde(good, bandwidth = 1), "memory")
  expect_argument_error(kernel_sum(good, bandwidth = 1, tol = 0), "x")
  expect_argument_error(predict(fit, good), "newdata")
  # what would be copied is measured before it is
  expect_error(kde_bandwidth(as.data.frame(good), "scott"), "^`x` is too large")
  expect_error(kernel_sum(1:20, bandwidth = 1, tol = 0), "^`x` is too large")
})

test_that("a container's memory limit counts", {
  folder <- tempfile("cgroup")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  left <- \() getNamespace("flashkernel")$cgroup_memory(folder, file.path(folder, "none"))
  expect_identical(left(), Inf)
  writeLines("3000", file.path(folder, "memory.current"))
  writeLines("max", file.path(folder, "memory.max"))
  expect_identical(left(), Inf)
  writeLines("5000", file.path(folder, "memory.max"))
  expect_identical(left(), 2000)
  writeLines(c("anon 2000", "inactive_file 700", "active_file 300"), file.path(folder, "memory.stat"))
  expect_identical(left(), 2700)
})

test_that("memory limits of control groups above the process's own count, of both versions", {
  folder <- tempfile("cgroup")
  on.exit(unlink(folder, recursive = TRUE))
  group <- function(path, ..., stat = NULL) {
    dir.create(file.path(folder, path), recursive = TRUE, showWarnings = FALSE)
    values <- c(...)
    for (name in names(values)) writeLines(values[[name]], file.path(folder, path, name))
    if (!is.null(stat)) writeLines(stat, file.path(folder, path, "memory.stat"))
  }
  own <- file.path(folder, "own")
  left <- \() getNamespace("flashkernel")$cgroup_memory(folder, own)
  group("job/step/task", memory.max = "max", memory.current = "10")
  group("job/step", memory.max = "9000", memory.current = "5000")
  group("job", memory.max = "8000", memory.current = "5000", stat = "inactive_file 500")
  writeLines("0::/job/step/task", own)
  expect_identical(left(), 3500)
  writeLines("0::/other/step", own)
  expect_identical(left(), Inf)
  group("memory/slurm/uid", memory.limit_in_bytes = "7000", memory.usage_in_bytes = "6000")
  group("memory/slurm", memory.limit_in_bytes = "9223372036854771712", memory.usage_in_bytes = "6000")
  writeLines(c("5:cpu,memory:/slurm/uid/job", "1:name=systemd:/", "0::/"), own)
  expect_identical(left(), 1000)
  stat <- c("cache 90", "total_inactive_file 50")
  group("memory/slurm/uid/job", memory.limit_in_bytes = "400", memory.usage_in_bytes = "300", stat = stat)
  expect_identical(left(), 150)
})

test_that("a limit of the address space counts, less what the process has mapped", {
  folder <- tempfile("process")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  left <- \() getNamespace("flashkernel")$address_space(folder)
  limits <- function(soft) {
    lines <- c("Max open files 1024 4096 files", paste("Max address space   ", soft, "  unlimited   bytes"))
    writeLines(c("Limit  Soft Limit  Hard Limit  Units", lines), file.path(folder, "limits"))
  }
  expect_identical(left(), Inf)
  limits("unlimited")
  expect_identical(left(), Inf)
  limits("2500000")
  expect_identical(left(), 2500000)
  writeLines(c("Name: R", "VmPeak:   2000 kB", "VmSize:   1000 kB"), file.path(folder, "status"))
  expect_identical(left(), 2500000 - 1024000)
})

test_that("a call under `ulimit -v` that needs more is refused in words", {
  skip_on_cran()
  skip_if_not(file.exists("/proc/self/limits"))
  skip_if(nzchar(Sys.getenv("FLASHKERNEL_SANITIZER")), "a sanitizer takes memory of its own")
  script <- tempfile(fileext = ".R")
  on.exit(unlink(script))
  writeLines(c(
    paste0(".libPaths(", deparse1(.libPaths()), ")"),
    "x <- matrix(0, 1e4, 10)",
    "cat(class(tryCatch(flashkernel::kernel_operator(x, bandwidth = 1)[, ], error = identity))[1])"
  ), script)
  r <- file.path(R.home("bin"), "Rscript")
  limited <- shQuote(paste("ulimit -v 1500000 &&", r, "--vanilla", script))
  out <- suppressWarnings(system2("sh", c("-c", limited), stdout = TRUE, stderr = FALSE))
  expect_match(paste(out, collapse = ""), "flashkernel_error")
})

test_that("what the machine has is the limit where the system does not tell what is free", {
  replace_in_package("number_in", \(file, pattern) Inf)
  limit <- getNamespace("flashkernel")$available_memory()
  expect_gt(limit, 1e8)
  expect_lt(limit, 1e16)
  expect_argument_error(hdr_regions(fit, n = .Machine$integer.max), "n")
})

test_that("the fast precision either runs or says in one error that it is not there", {
  result <- tryCatch(
    predict(flash_kde(good, estimator = "kde", bandwidth = 1, control = flash_control(precision = "fast"))),
    flashkernel_error = identity
  )
  if (inherits(result, "error")) {
    expect_s3_class(result, "flashkernel_error")
    expect_match(conditionMessage(result), "fast")
  } else {
    want <- exp(ref_log_kde(good, good, diag(2)))
    expect_lt(sqrt(sum((result - want)^2) / sum(want^2)), 2e-3)
  }
})

test_that("an error in a function of the user's names the argument, and has the cause as parent", {
  expect_caused <- function(expr, arg, message) {
    error <- expect_error(expr, class = "flashkernel_error_argument")
    expect_match(conditionMessage(error), paste0("^`", arg, "` .*", message))
    expect_s3_class(error$parent, "error")
    expect_match(conditionMessage(error$parent), message)
    expect_identical(error$arg, arg)
  }
  boom <- \(...) stop("boom")
  data <- flash_data(as.matrix(faithful), shard_rows = 100)
  expect_caused(flash_data(boom, shards = 2), "x", "boom")
  expect_error(flash_data(boom, shards = 2), "shard 1 cannot be read")
  expect_caused(suppressWarnings(flash_data("nope.csv", reader = utils::read.csv)), "reader", "cannot open")
  expect_caused(by(data, FUN = boom), "FUN", "boom")
  expect_caused(flash_kde(good, debias = debiasing(score = \() 1), bandwidth = 1), "score", "unused argument")
  expect_caused(flash_kde(replace(good, 1, NA), bandwidth = 1, na.action = boom), "na.action", "boom")
  expect_caused(kernel_sum(boom, good, bandwidth = 1), "x", "boom")
  expect_caused(kernel_sum(good, bandwidth = 1, out = boom), "out", "boom")
  expect_caused(kernel_ridge(boom, 1:20), "x", "boom")
  expect_caused(kernel_ridge(\(reset) stop("boom"), 1:20), "x", "boom")
  expect_caused(kde_test(good[, 1], boom), "y", "boom")
  expect_caused(kde_test(good[, 1], "exp", estimate = boom), "estimate", "boom")
  expect_caused(kde_test(good[, 1], "exp", speed = 1), "y", "unused argument")
  # an error of this package keeps its class
  lost <- \(i) stop(new_error("device", "lost", NULL))
  expect_error(flash_data(lost, shards = 1), class = "flashkernel_error_device")
})

test_that("by() takes functions of the points and the shard's number", {
  data <- flash_data(as.matrix(faithful), shard_rows = 100)
  expect_argument_error(by(data, FUN = \(x) 1), "FUN")
  expect_argument_error(by(data, FUN = \() 1), "FUN")
  expect_identical(unlist(by(data, FUN = max)), as.vector(tapply(faithful$waiting, rep(1:3, c(100, 100, 72)), max)))
  expect_length(by(data, FUN = \(x, ...) 1), 3)
})

test_that("messages name arguments as the function that was called does", {
  of_formula <- flash_kde(~ mpg + wt, mtcars, bandwidth = c(2, 0.3))
  given_wt <- flash_kde(mpg ~ wt, mtcars, bandwidth = c(2, 0.3))
  by_gear <- flash_kde(mpg ~ wt + gear, transform(mtcars, gear = factor(gear)), bandwidth = c(2, 0.3), categorical = categorical_kernel(smoothing = 0.1))
  for (wrong in list(3, c(wt = Inf), c(wt = 1e200), list(wt = "a"), list(mpg = 3))) {
    expect_argument_error(kde_conditional(given_wt, wrong), "given")
  }
  expect_argument_error(kde_conditional(by_gear, list(wt = 3)), "given")
  expect_argument_error(kde_conditional(by_gear, list(wt = 3, gear = "9")), "given")
  for (wrong in list(3, data.frame(mpg = 3), data.frame(mpg = "a", wt = 1), data.frame(mpg = Inf, wt = 1))) {
    expect_argument_error(kde_modes(of_formula, wrong), "start")
    expect_argument_error(confint(of_formula, wrong), "parm")
    expect_argument_error(kde_bands(of_formula, wrong), "newdata")
    expect_argument_error(kde_pvalue(of_formula, data.frame(mpg = 3, wt = 1), calibration = wrong), "calibration")
  }
  expect_argument_error(confint(fit, cbind(1, Inf)), "parm")
})

test_that("messages say what was meant", {
  line <- flash_kde(faithful$waiting, "kde", 4)
  days <- data.frame(day = Sys.Date() + 1:9, time = Sys.time() + 1:9)
  place <- data.frame(value = 1:2)
  place$geometry <- structure(list(c(1, 2), c(2, 3)), class = c("sfc_POINT", "sfc"))
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  said <- function(message, ...) {
    for (call in as.list(substitute(list(...)))[-1]) expect_error(eval(call), message, fixed = TRUE)
  }
  said("`eruptions`, `waiting`, each once: found `wait`", flash_kde(faithful, support = list(wait = c(0, Inf))))
  said("did you mean `band`?", plot(line, bands = TRUE))
  said("did you mean `support`?", flash_kde(faithful$waiting, from = 0), flash_kde(~waiting, faithful, from = 0))
  said("found 90 (90% is 0.9)", hdr_level(line, 90))
  said("found 95 (95% is 0.95)", plot(line, prob = 95))
  said("is of class Date (as.numeric() makes numbers of it)", kernel_sum(days["day"], bandwidth = 1))
  said("as.numeric()", kernel_sum(days$time, bandwidth = 1), flash_kde(~ I(time - time[1]), days), flash_kde(days$time - days$time[1]))
  said("did you mean `control = flash_control(threads = )`?", flash_kde(faithful, threads = 2))
  said("did you mean `support = kde_support(method = )`?", flash_kde(faithful, method = "reflect"))
  said("(the nearest is \"prob\")", predict(flash_kda(g ~ a, data.frame(a = 1:6, g = rep(1:2, 3))), type = "probability"))
  said("sf::st_coordinates()", flash_kde(place), flash_kde(~geometry, place), kernel_regression(value ~ geometry, place))
  said("sf::st_coordinates()", kernel_ridge(value ~ geometry, place), kernel_ridge(place["geometry"], 1:2))
  said("as.numeric()", kernel_ridge(day ~ as.numeric(time), days), kernel_regression(day ~ as.numeric(time), days))
})

test_that("names of rows are refused as categories, and columns of few rows or of ordered categories are not", {
  d <- data.frame(y = 1:30, id = sprintf("plot %d", 1:30))
  for (call in expression(
    flash_kde(d), flash_kde(~ y + id, d), flash_kde(y ~ id, d), flash_kde(id ~ y, d), kernel_regression(y ~ id, d),
    kernel_regression(d["id"], d$y), kernel_ridge(y ~ id, d), kernel_ridge(d["id"], d$y), kernel_ridge(y ~ factor(id), d)
  )) expect_error(eval(call), "id\\)?` has another text in each row", class = "flashkernel_error_argument")
  expect_error(kernel_ridge(id ~ y, d), "classes of several rows", class = "flashkernel_error_argument")
  expect_no_error(kernel_ridge(y ~ id, d[1:5, ]))
  expect_no_error(flash_kde(~ y + ordered(y), d))
})

test_that("the beginning of several arguments of flash_kde() is refused with their names", {
  for (call in list(
    quote(flash_kde(1:9, c = 512)), quote(flash_kde(~a, data.frame(a = 1:9), c = 512)),
    quote(flash_kde(y ~ a, data = data.frame(a = 1:9, y = 1:9), c = 512)),
    quote(flash_kde(data.frame(a = 1:9), formula = ~a, c = 512))
  )) {
    expect_error(eval(call), "`c` is not.*`categorical` or `control`", class = "flashkernel_error_argument")
  }
  expect_error(flash_kde(1:9, to = 1), "did you mean `support`?", fixed = TRUE)
  expect_identical(coef(flash_kde(1:9, est = "kde", band = 1)), coef(flash_kde(1:9, "kde", 1)))
})
