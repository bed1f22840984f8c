# Rows of kernel_ridge() in memory, in a big.matrix and from a function: products as of the matrix of kernels, in plain R.

rows_case <- function(n = 211, m = 17, d = 3, r = 2) {
  case <- normal_case(m, n, d, r)
  c(case, list(L = diag(0.8, d), H = diag(0.64, d), run = run_control(settle_control(NULL, list(backend = "cpu")))))
}

test_that("products with rows in memory are those of the matrix of kernels", {
  for (size in list(c(211, 17), c(1, 1), c(1, 5), c(6, 1))) {
    case <- rows_case(size[1], size[2])
    for (name in c("gaussian", "matern32")) {
      kernel <- check_kernel(name)
      rows <- ridge_rows(case$y, case$L, kernel)
      centers <- ridge_centers(case$x, case$L, kernel)
      K <- ref_kernel_matrix(case$x, case$y, case$H, name)
      expect_lt(max(abs(rows_multiply(rows, centers, case$v, case$run)$sums - K %*% case$v)), 1e-13)
      for (v in list(NULL, case$v)) for (w in list(NULL, case$w)) for (weights in list(NULL, case$weights)) {
        if (is.null(v) && is.null(w)) next
        got <- rows_normal(rows, centers, v, w, weights, case$run, with_sums = !is.null(v))
        expect_lt(max(normal_error(got$product, K, v, w, weights), 0, na.rm = TRUE), 1e-14)
        if (!is.null(v)) expect_lt(max(abs(got$sums - K %*% v)), 1e-13)
      }
    }
  }
})

test_that("rows are taken in the order that is asked for, and folded over once each", {
  case <- rows_case(100)
  colnames(case$y) <- c("a", "b", "c")
  rows <- ridge_rows(case$y)
  expect_identical(rows[c("n", "d", "names")], list(n = 100L, d = 3L, names = c("a", "b", "c")))
  expect_identical(rows_take(rows, c(7, 3, 3)), case$y[c(7, 3, 3), ])
  before <- options(flashkernel.chunk_bytes = 8 * 3 * 7)
  on.exit(options(before))
  pieces <- rows_fold(rows, \(done, points, first) c(done, list(list(points, first))), list())
  expect_identical(do.call(rbind, lapply(pieces, `[[`, 1)), case$y)
  expect_identical(vapply(pieces, `[[`, 0, 2), seq(1, 100, by = 7))
})

# A function that yields `x`, and parts of `...`, in chunks of `sizes` rows, again and again
yields <- function(x, ..., sizes, list = TRUE) {
  last <- cumsum(sizes)
  chunk <- 0
  function() {
    chunk <<- chunk + 1
    if (chunk > length(sizes)) {
      chunk <<- 0
      return(NULL)
    }
    rows <- seq_len(sizes[chunk]) + last[chunk] - sizes[chunk]
    take <- \(part) if (is.null(dim(part))) part[rows] else part[rows, , drop = FALSE]
    if (list) lapply(base::list(x = x, ...), take) else take(x)
  }
}

# one set of rows in memory, in a big.matrix and from functions
everywhere <- function(x) {
  c(
    list(memory = x, fun = yields(x, sizes = c(50, 1, 100, 60)), vector = yields(x, sizes = 211, list = FALSE)),
    if (requireNamespace("bigmemory", quietly = TRUE)) list(big = big_matrix(x))
  )
}

test_that("a big.matrix and functions have the numbers of the rows in memory", {
  before <- options(flashkernel.chunk_bytes = 8 * 3 * 40)
  on.exit(options(before))
  case <- rows_case()
  kernel <- check_kernel("matern52")
  centers <- ridge_centers(case$x, case$L, kernel)
  of <- lapply(everywhere(case$y), ridge_rows, case$L, kernel)
  for (rows in of) {
    expect_equal(rows[c("n", "d")], list(n = 211, d = 3))
    expect_identical(rows_factor(rows, 0.8), diag(0.8, 3))
    sums <- rows_multiply(rows, centers, case$v, case$run)
    want <- rows_multiply(of$memory, centers, case$v, case$run)
    expect_identical(sums$sums, want$sums)
    expect_equal(sums$stats$pairs, want$stats$pairs)
    for (v in list(NULL, case$v)) for (w in list(NULL, case$w)) for (weights in list(NULL, case$weights)) {
      if (is.null(v) && is.null(w)) next
      want <- rows_normal(of$memory, centers, v, w, weights, case$run)$product
      got <- rows_normal(rows, centers, v, w, weights, case$run, with_sums = !is.null(v))
      expect_lt(max(abs(got$product - want)) / max(abs(want)), 1e-12)
      if (!is.null(v)) expect_lt(max(abs(got$sums - sums$sums)) / max(abs(sums$sums)), 1e-12)
    }
    for (index in list(1:211, c(211, 1, 50, 51, 52, 51), 200)) {
      expect_identical(rows_take(rows, index), case$y[index, , drop = FALSE])
    }
    folded <- rows_fold(rows, \(all, points, first) {
      expect_identical(first, nrow(all) + 1)
      rbind(all, points)
    }, case$y[0, ])
    expect_identical(folded, case$y)
  }
})

test_that("functions bring along y and weights, of any kind", {
  case <- rows_case()
  sizes <- c(100, 100, 11)
  label <- factor(rep(c("b", "a", "c"), length.out = 211))
  two <- cbind(u = case$w[, 1], v = case$w[, 2])
  for (y in list(case$w[, 1], two, label, as.character(label))) {
    rows <- ridge_rows(yields(case$y, y = y, weights = abs(case$weights), sizes = sizes))
    expect_equal(rows$y, y)
    expect_identical(rows$weights, abs(case$weights))
  }
  named <- `colnames<-`(case$y, c("a", "b", "c"))
  rows <- ridge_rows(yields(named, sizes = sizes))
  expect_null(rows$y)
  expect_identical(rows$names, colnames(named))
  expect_identical(rows_take(rows, 101:102), named[101:102, ])
})

test_that("a function with an argument `reset` is begun anew, wherever it was left", {
  case <- rows_case(100)
  nth <- 3
  read <- function(reset = FALSE) {
    if (reset) {
      nth <<- 0
      return(invisible())
    }
    nth <<- nth + 1
    if (nth <= 4) case$y[25 * nth - 24:0, ]
  }
  rows <- ridge_rows(read)
  expect_equal(rows$n, 100)
  nth <- 2
  expect_identical(rows_take(rows, 1:100), case$y)
})

test_that("rows that cannot be read again, or are others then, are told", {
  case <- rows_case(100)
  refused <- \(code, text) expect_error(code, text, class = "flashkernel_error_argument")
  once <- ridge_rows(chunks_of(case$y, sizes = c(60, 40)))
  refused(rows_take(once, 1), "begin again")
  for (found in c(90, 110)) {
    pass <- list(case$y, NULL, rbind(case$y, case$y)[1:found, ], NULL)
    nth <- 0
    rows <- ridge_rows(\() pass[[nth <<- nth + 1]])
    refused(rows_take(rows, 1), "100: found (90|more)")
  }
  refused(ridge_rows(\() NULL), "at least one chunk")
  refused(ridge_rows(\() list(y = 1)), "`x`")
  refused(tune_ridge(\() case$y), "`y` must.*chunk 1") # at once: more would come
  refused(ridge_rows(\() list(x = case$y, y = 1:99)), "`y`.*found 99.*chunk 1")
  refused(ridge_rows(yields(replace(case$y, 170, NA), sizes = c(60, 40))), "row 10.*chunk 2")
  count <- 0
  refused(ridge_rows(\() {
    count <<- count + 1
    if (count < 3) list(x = case$y, y = if (count == 2) case$w)
  }), "every chunk")
  skip_if_not_installed("bigmemory")
  refused(ridge_rows(big_matrix(replace(case$y, 170, NA))), "row 70")
})

test_that("products with kept kernels are those without them, for any number of threads and columns", {
  set.seed(11)
  x <- matrix(rnorm(1299), 433)
  term <- \(columns, name) list(columns = columns, kernel = check_kernel(name), scale = 0.5)
  L <- diag(0.8, 3)
  weights <- runif(433)
  answers <- \(rows, run, centers, v, w) list(
    rows_multiply(rows, centers, v, run)$sums,
    rows_normal(rows, centers, v, w, weights, run, with_sums = TRUE)[c("product", "sums")],
    rows_normal(rows, centers, NULL, w, NULL, run)$product,
    # of classes, for which w gives the link
    if (ncol(v) > 1) rows_hessian(rows, list(centers = centers, family = FAMILIES$multinomial, loss = FAMILIES$multinomial$loss,
      weights = weights, run = run), link_probabilities(w), v)[c("product", "sums")]
  )
  one <- check_kernel("matern52")
  for (kernel in list(one, sum_kernel(one, list(term(1:3, "matern52"), term(2, "gaussian"))))) {
    plain <- ridge_rows(x, L, kernel)
    centers <- ridge_centers(x[1:45, ], L, kernel)
    replace_in_package("KERNEL_BLOCK", 8 * 45 * 200) # three blocks
    kept <- rows_with_kernels(plain, centers, list(kernel = kernel, L = L), cpu_run())
    expect_s3_class(kept, "rows_kept")
    for (columns in c(1, 2, 7)) {
      v <- matrix(rnorm(45 * columns), 45)
      w <- matrix(rnorm(433 * columns), 433)
      expect_equal(answers(kept, cpu_run(), centers, v, w), answers(plain, cpu_run(), centers, v, w), tolerance = 1e-12)
      expect_identical(answers(kept, cpu_run(threads = 1), centers, v, w), answers(kept, cpu_run(threads = 2), centers, v, w))
    }
    # other centres have no kept kernels
    other <- ridge_centers(x[46:65, ], L, kernel)
    expect_identical(answers(kept, cpu_run(), other, v[1:20, ], w), answers(plain, cpu_run(), other, v[1:20, ], w))
  }
})

test_that("kernels are not kept to a tolerance, nor beyond their bytes or the memory", {
  x <- matrix(seq(0, 1, length.out = 300), 100)
  spec <- list(kernel = check_kernel("gaussian"), L = diag(3))
  rows <- ridge_rows(x, spec$L, spec$kernel)
  expect_identical(kernel_bytes(rows, 10, spec, cpu_run()), 8000)
  expect_identical(kernel_bytes(rows, 10, spec, replace(cpu_run(), "tol", 1e-6)), 0)
  expect_identical(kernel_bytes(rows, KERNEL_BYTES / 100, spec, cpu_run()), 0)
  before <- options(flashkernel.memory_limit = 1e4)
  on.exit(options(before))
  expect_identical(rows_with_kernels(rows, ridge_centers(x[1:10, ], spec$L, spec$kernel), spec, cpu_run()), rows)
})

test_that("equal keys are found among many, by any number of threads", {
  keys <- row_keys(matrix(as.double(1:20000)))
  for (threads in c(1, 3)) {
    run <- cpu_run(threads = threads)
    expect_identical(row_keys(matrix(as.double(1:20000)), run), keys)
    expect_identical(told_apart(keys, NULL, run), keys)
    twice <- replace(keys, c(7, 19000), keys[19999])
    expect_identical(anyDuplicated(told_apart(twice, NULL, run)), 0L)
  }
  expect_identical(anyDuplicated(told_apart(numeric(500))), 0L)
})
