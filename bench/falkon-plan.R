# Compares what kernel_ridge(solver = list(plan = TRUE)) predicts with what the fit takes, each case in a process of its
# own: seconds, and peak memory beyond the rows (VmHWM, reset before). Seconds are processor time of one thread, in the
# plan as well, so other work on the machine matters little; with `--backend cuda` they are elapsed time. Numbers choose
# cases.

source("bench/common.R")

cases <- list(
  `2,000 x 5, 100 centres` = list(n = 2000, d = 5, centers = 100),
  `50,000 x 4, 1,000 centres` = list(n = 5e4, d = 4, centers = 1000, iterations = 20),
  `100,000 x 10, 2,000 centres` = list(n = 1e5, d = 10, centers = 2000, iterations = 10),
  `20,000 x 30, 4,000 centres` = list(n = 2e4, d = 30, centers = 4000, iterations = 10),
  `50,000 x 4, 1,000 centres, matern32, 10 responses` =
    list(n = 5e4, d = 4, t = 10, centers = 1000, iterations = 10, kernel = "matern32"),
  `400,000 x 2, 300 centres, until it converges` = list(n = 4e5, d = 2, centers = 300),
  `1,000,000 x 3, 300 centres` = list(n = 1e6, d = 3, centers = 300, iterations = 10),
  `100,000 x 90, 1,000 centres` = list(n = 1e5, d = 90, centers = 1000, iterations = 10),
  `200,000 x 6, 500 centres, in chunks` = list(n = 2e5, d = 6, centers = 500, iterations = 10, chunks = TRUE),
  `50,000 x 4, 1,000 centres, logistic` = list(n = 5e4, d = 4, centers = 1000, family = "binomial", lambda = 1e-6),
  `20,000 x 4, 500 centres, 4 classes` =
    list(n = 2e4, d = 4, classes = 4, centers = 500, family = "multinomial", lambda = 1e-5),
  `3,500 x 8, exact` = list(n = 3500, d = 8, exact = TRUE),
  `8,000 x 8, exact, laplacian` = list(n = 8000, d = 8, exact = TRUE, kernel = "laplacian"),
  `200,000 x 2, exact` = list(n = 2e5, d = 2, exact = TRUE, bandwidth = 0.5)
)

backend <- option("--backend", "cpu")
used_seconds <- function() if (backend == "cpu") sum(proc.time()[c("user.self", "sys.self")]) else proc.time()[["elapsed"]]

chunks_of <- function(x, size = 2e4) {
  force(x)
  first <- 1
  function() {
    if (first > nrow(x)) {
      first <<- 1
      return(NULL)
    }
    rows <- first:min(first + size - 1, nrow(x))
    first <<- first + size
    x[rows, , drop = FALSE]
  }
}

fit_case <- function(case, plan) {
  x <- normal_points(case$n, case$d)
  t <- if (is.null(case$t)) 1 else case$t
  y <- sin(2 * x[, 1] + outer(rep(1, case$n), seq_len(t))) + x[, 2]^2 / 4 + 0.3 * stats::rnorm(case$n * t)
  if (!is.null(case$family)) {
    classes <- max(2, case$classes)
    y <- factor(ceiling(classes * rank(y[, 1]) / case$n))
  }
  if (!is.null(case$chunks)) x <- chunks_of(x)
  options <- case[setdiff(names(case), c("n", "d", "t", "classes", "chunks"))]
  threads <- if (backend == "cpu") 1
  defaults <- list(bandwidth = sqrt(case$d), lambda = 1e-7, control = flash_control(backend = backend, threads = threads))
  options <- c(options, defaults[setdiff(names(defaults), names(options))])
  invisible(kernel_ridge(iris[1:100, 1:2], iris[1:100, 3], bandwidth = 1, lambda = 1e-3))
  invisible(gc())
  cat("5", file = "/proc/self/clear_refs")
  before <- c(used_seconds(), peak_mib())
  of_solver <- names(options) %in% c("iterations", "exact")
  solver <- c(options[of_solver], plan = plan)
  fit <- suppressWarnings(do.call(kernel_ridge, c(list(quote(x), quote(y)), options[!of_solver], solver = list(solver))))
  list(fit = fit, took = c(used_seconds(), peak_mib()) - before)
}

if ("--child" %in% arguments) {
  case <- cases[[as.integer(arguments[2])]]
  if (arguments[3] == "plan") {
    utils::assignInNamespace("probe_clock", used_seconds, "flashkernel")
    found <- fit_case(case, TRUE)
    plan <- found$fit
    cat("result", sum(plan$seconds), sum(plan$memory$host) / 2^20, plan$iterations, found$took[1], "\n")
    print(plan)
    print(plan$seconds)
  } else {
    found <- fit_case(case, FALSE)
    cat("result", found$took, found$fit$iterations, "\n")
    print(found$fit$seconds)
  }
  quit()
}

bench_start(
  "falkon-plan.R", "kernel_ridge(solver = list(plan = TRUE)): said and taken", if (backend == "cpu") "falkon-plan.R" else "falkon-plan-cuda.R"
)
chosen <- as.integer(grep("^[0-9]+$", arguments, value = TRUE))
table <- lapply(if (length(chosen) > 0) chosen else seq_along(cases), function(i) {
  child <- function(what) {
    lines <- system2(file.path(R.home("bin"), "Rscript"), c(shQuote(this_script), "--child", i, what, "--backend", backend), stdout = TRUE)
    if ("--verbose" %in% arguments) writeLines(lines)
    as.numeric(strsplit(sub("^result ", "", grep("^result", lines, value = TRUE)), " +")[[1]])
  }
  said <- child("plan")
  taken <- child("fit")
  data.frame(
    case = names(cases)[i], said = said[1], taken = taken[1], ratio = said[1] / taken[1], `MiB said` = said[2],
    `MiB taken` = taken[2], ratio = said[2] / taken[2], steps = paste(said[3], "/", taken[3]), planning = said[4],
    check.names = FALSE
  )
})
table <- do.call(rbind, table)
numbers <- vapply(table, is.numeric, NA)
table[numbers] <- lapply(table[numbers], function(x) formatC(x, digits = 3, format = "g"))
show_table(table)
