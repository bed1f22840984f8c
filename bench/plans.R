# Whether kernel_ridge() takes a solver and a device that are at most twice as slow as the best available: exact fits by
# Cholesky, conjugate gradients and blocks, and fits with centres, on each device, over rows, columns and smoothness.
#
#   Rscript bench/plans.R [--backend cpu] [--seconds S] [--save]     --backend cpu: without a GPU; --seconds: a part of
#                                                                    the cases, in an even order, in so many seconds
#
# Seconds of whole fits. Iterative solvers stop at a relative residual of 1e-4. A choice is stopped after about three times
# the best one before it ("-"). smooth: a Gaussian kernel with lambda 1e-7; rough: a Laplacian with 1e-4.

source("bench/gpu-common.R")
bench_start("plans.R", "Choices of solver and device")
options(flashkernel.progress = FALSE)
ns <- asNamespace("flashkernel")
devices <- if (option("--backend", "auto") == "cpu" || !ns$backend_info()$gpu_engine) "cpu" else c("cpu", "cuda")

KINDS <- list(smooth = list(kernel = "gaussian", lambda = 1e-7), rough = list(kernel = "laplacian", lambda = 1e-4))

# ---- choices ------------------------------------------------------------------------------------

put <- function(name, value) {
  unlockBinding(name, ns)
  assign(name, value, ns)
}
own <- mget(c("is_factorised", "is_fast"), ns)
SOLVERS <- list(
  direct = list(is_factorised = \(...) TRUE), gradients = list(is_factorised = \(...) FALSE, is_fast = \(...) TRUE),
  blocks = list(is_factorised = \(...) FALSE, is_fast = \(...) FALSE), auto = own
)

# Seconds of a fit, or NA after `limit` or where the choice does not exist.
seconds_of <- function(case, solver, device, limit = Inf) {
  for (name in names(own)) put(name, c(SOLVERS[[solver]], own)[[name]])
  on.exit(for (name in names(own)) put(name, own[[name]]))
  x <- renew(case$x)
  gc(FALSE)
  fit <- function() {
    setTimeLimit(elapsed = limit, transient = TRUE)
    on.exit(setTimeLimit())
    suppressWarnings(do.call(kernel_ridge, c(list(x, case$y, control = flash_control(device)), case$options)))
  }
  tryCatch(elapsed(fit), error = \(e) NA_real_, interrupt = \(e) NA_real_)
}

# A short fit is measured three times, after one that starts everything.
least_of <- function(case, solver, device, limit = Inf) {
  first <- seconds_of(case, solver, device, limit)
  if (is.na(first) || first > 2) return(first)
  min(first, replicate(2, seconds_of(case, solver, device)), na.rm = TRUE)
}

measure <- function(case) {
  exact <- case$centers == 0
  kind <- KINDS[[case$kind]]
  x <- normal_points(case$n, case$d)
  case <- list(
    x = x, y = sin(2 * x[, 1]) + x[, 2] + 0.1 * stats::rnorm(case$n), options = c(kind, list(
      bandwidth = sqrt(case$d) / 2,
      solver = if (exact) list(exact = TRUE, tolerance = 1e-4) else list(iterations = 20)
    ), if (!exact) list(centers = case$centers))
  )
  found <- c(auto = least_of(case, "auto", "auto"))
  best <- found[[1]]
  solvers <- if (!exact) "auto" else c("direct", "blocks", "gradients")
  for (solver in solvers) for (device in rev(devices)) {
    name <- paste(c(if (exact) solver, device), collapse = " ")
    too_large <- solver == "direct" && nrow(x) > c(cpu = 1e4, cuda = 9e4)[device] # a factorisation cannot be stopped
    found[name] <- if (too_large) NA else least_of(case, solver, device, 3 * best)
    best <- min(best, found[name], na.rm = TRUE)
  }
  c(found, ratio = found[["auto"]] / best)
}

# ---- tables -------------------------------------------------------------------------------------

exact <- expand.grid(centers = 0, kind = names(KINDS), d = c(2, 10, 50), n = c(1000, 5000, 2e4, 1e5), stringsAsFactors = FALSE)
some <- expand.grid(kind = names(KINDS), centers = c(300, 3000), d = c(2, 10, 50), n = c(3000, 3e4, 3e5), stringsAsFactors = FALSE)
if (length(devices) == 1) exact <- exact[exact$n < 1e5, ]
some <- some[some$centers < some$n & some$n * some$d <= 1e7, ]

table_of <- function(cases) {
  deadline <- Sys.time() + as.numeric(option("--seconds", "Inf")) / 2
  found <- list()
  for (i in order((seq_len(nrow(cases)) * 0.618034) %% 1)) {
    if (Sys.time() > deadline) break
    found[[as.character(i)]] <- data.frame(cases[i, c("n", "d", "centers", "kind")], t(measure(cases[i, ])), check.names = FALSE)
    cat(unlist(found[[as.character(i)]]), fill = 200, file = stderr())
  }
  do.call(rbind, found[order(as.numeric(names(found)))])
}

invisible(measure(data.frame(n = 500, d = 2, centers = 0, kind = "smooth")))
for (cases in list(exact, some)) {
  table <- table_of(cases)
  ratio <- table$ratio
  seconds <- setdiff(names(table), c("n", "d", "centers", "kind", "ratio"))
  table[seconds] <- lapply(table[seconds], \(s) ifelse(is.na(s), "-", format_ms(s)))
  table$ratio <- sprintf("%.2f", ratio)
  if (table$centers[1] == 0) table$centers <- "all"
  show_table(table)
  cat(sprintf("auto / best: at most 2 in %d of %d, at most 1.2 in %d, largest %.2f (milliseconds)\n\n",
              sum(ratio <= 2), length(ratio), sum(ratio <= 1.2), max(ratio)))
}
