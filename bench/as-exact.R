# Sums without a tolerance on the CPU, where the fast engine may replace the exact one: the time of both, and how far
# their results differ.
#
#   Rscript bench/as-exact.R [--only NAMES] [--n 1e6] [--threads 2] [--quick]
#
# Measures densities at all points, leave-one-out densities, Laplace-corrected densities, and the debiasing of an
# SD-KDE, with `engine = "auto"` and with "exact": elapsed seconds and processor seconds of all threads. error: of log
# densities; of Laplace-corrected densities relative to the plain ones; of debiased points in bandwidths. --quick:
# 50,000 points. Writes results/as-exact.csv.

source("bench/common.R")
bench_start("as-exact.R", "Sums in double by the fast engine")

quick <- "--quick" %in% arguments
n <- as.numeric(option("--n", if (quick) "50000" else "1e6"))
threads <- as.integer(option("--threads", "2"))

read_columns <- function(file, columns) {
  data <- read_data(file)
  if (is.null(data)) return(NULL)
  as.matrix(data[stats::complete.cases(data[columns]), columns])
}
mixture <- function(d) {
  matrix(stats::rnorm(5 * d, sd = 4), 5)[sample.int(5, n, TRUE), , drop = FALSE] + matrix(stats::rnorm(n * d), n)
}
# points, and the bandwidth that kde_bandwidth() has for such of a million (NULL: asked for)
cases <- list(
  uniform1 = list(\() matrix(stats::runif(n)), 0.01), uniform2 = list(\() matrix(stats::runif(2 * n), n), 0.0175),
  uniform3 = list(\() matrix(stats::runif(3 * n), n), 0.04), mixture1 = list(\() mixture(1), 0.1),
  mixture2 = list(\() mixture(2), 0.14), mixture3 = list(\() mixture(3), 0.25),
  california = list(\() read_columns("california_housing", c("longitude", "latitude")), NULL),
  diamonds2 = list(\() read_columns("diamonds", c("carat", "price")), NULL),
  diamonds3 = list(\() read_columns("diamonds", c("carat", "depth", "price")), NULL)
)
only <- option_values("--only", names(cases))

seconds_of <- function(task) {
  time <- system.time(value <- task())
  list(value = value, wall = time[["elapsed"]], processor = time[["user.self"]] + time[["sys.self"]])
}

run_case <- function(name) {
  set.seed(1)
  x <- cases[[name]][[1]]()
  h <- cases[[name]][[2]]
  if (is.null(h)) h <- flash_kde(x, "kde", adaptive = FALSE)$bandwidth
  fit <- \(estimator, engine) {
    flash_kde(x, estimator, h, adaptive = FALSE, control = flash_control(engine = engine, backend = "cpu", threads = threads))
  }
  tasks <- list(
    density = \(engine) predict(fit("kde", engine), type = "log_density"),
    loo = \(engine) predict(fit("kde", engine), type = "log_density", loo = TRUE),
    laplace = \(engine) predict(fit("laplace", engine)),
    debias = \(engine) fit("sdkde", engine)$debiased
  )
  do.call(rbind, lapply(names(tasks), \(task) {
    auto <- seconds_of(\() tasks[[task]]("auto"))
    exact <- seconds_of(\() tasks[[task]]("exact"))
    plain <- fit("kde", "auto")
    scale <- switch(task, laplace = predict(plain), debias = sqrt(min(diag(as.matrix(plain$bandwidth)))), 1)
    data.frame(
      set = name, n = nrow(x), d = ncol(x), task = task, auto = auto$wall, auto_processor = auto$processor,
      exact = exact$wall, exact_processor = exact$processor, times = round(exact$processor / auto$processor, 2),
      error = signif(max(abs(auto$value - exact$value) / scale, na.rm = TRUE), 2)
    )
  }))
}

results <- NULL
for (name in only) {
  results <- rbind(results, run_case(name))
  show_table(results[results$set == name, ])
  utils::write.csv(results, "bench/results/as-exact.csv", row.names = FALSE)
}
