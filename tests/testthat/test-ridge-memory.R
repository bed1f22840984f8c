# What fits take of memory, each in a process of its own: the most it ever had (VmHWM), over what it had before.

# MiB, of a fit to n x d numbers and of its plan; `...`: arguments of kernel_ridge() as text.
memory_of_fit <- function(n, d, ...) {
  skip_on_cran()
  skip_if_not(file.access("/proc/self/clear_refs", 2) == 0)
  skip_if(nzchar(Sys.getenv("FLASHKERNEL_SANITIZER")), "a sanitizer takes memory of its own")
  file <- tempfile(fileext = ".R")
  writeLines(c(
    sprintf("library(flashkernel, lib.loc = %s)", deparse(dirname(getNamespaceInfo("flashkernel", "path")))),
    "peak <- \\() as.numeric(gsub('[^0-9]', '', grep('^VmHWM', readLines('/proc/self/status'), value = TRUE))) / 1024",
    "fit <- \\(x, y, centers, ...) kernel_ridge(x, y, bandwidth = 300, lambda = 1e-3, centers = centers,",
    "  solver = ridge_solver(...), control = flash_control(backend = 'cpu'))",
    "invisible(fit(matrix(1:100, 100), 1:100, centers = 5))",
    sprintf("x <- matrix(1000 * sin(seq_len(%.0f)), %.0f); y <- x[, 1]", n * d, n),
    "invisible(gc()); cat(5, file = '/proc/self/clear_refs'); before <- peak()",
    sprintf("made <- suppressWarnings(fit(x, y, %s)); taken <- peak() - before", paste(..., sep = ", ")),
    sprintf("cat('took', taken, sum(fit(x, y, %s, plan = TRUE)$memory$host) / 2^20)", paste(..., sep = ", "))
  ), file)
  out <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", file), stdout = TRUE)
  as.list(stats::setNames(as.numeric(strsplit(out[length(out)], " ")[[1]][-1]), c("taken", "said")))
}

test_that("a large fit never has the kernels of all rows at all centres in memory", {
  # which would be 2 GB
  memory <- memory_of_fit(1e6, 2, "centers = 250", "iterations = 1")
  expect_gt(memory$taken, 8) # the response, at least
  expect_lt(memory$taken, 150)
  expect_lt(abs(memory$said - memory$taken), 0.3 * memory$taken)
})

test_that("the memory of a plan is that of the fit", {
  memory <- memory_of_fit(1e4, 4, "centers = 2500", "iterations = 1")
  expect_lt(abs(memory$said - memory$taken), 0.3 * memory$taken)
})
