# The C units by themselves, through their one entry; src/tests says what each takes.

unit <- c_unit

test_that("a unit that is not there, and arguments that are missing, are errors", {
  expect_error(unit("nothing"), "no such test")
  expect_error(unit("exp2"), "`x` must be|too few arguments")
  expect_error(.Call(get("ffi_test", asNamespace("flashkernel")), "exp2", NULL), "too few arguments")
  expect_error(unit("exp2", -1, "z80", FALSE), "no such instruction set")
})

# ---- exponentials -----------------------------------------------------------------------------

# Worst error in units of the last place of the result, beside the 2^lowest that is taken off all of them.
exp2_error <- function(t, isa, single) {
  digits <- if (single) 24 else 53
  want <- 2^t
  got <- unit("exp2", t, isa, single) + 2^(if (single) -125 else -1021)
  max(abs(got - want) / 2^(floor(t) + 1 - digits))
}

for (isa in flashkernel:::backend_info()$isa_available) {
  test_that(paste("powers of two are right to a few units in the last place:", isa), {
    # numbers that a float holds, too
    dense <- -seq(0, 20, by = 2^-12)
    wide <- -seq(0, 1015, by = 2^-6)
    halves <- -(0:1000) - 0.5 # where the remainder is largest, of either sign
    for (t in list(dense, wide, halves, halves + 2^-12, halves - 2^-12)) {
      expect_lte(exp2_error(t, isa, FALSE), 4, label = isa)
      # the polynomial's 4.4e-7, and rounding
      expect_lte(exp2_error(t[t >= -120], isa, TRUE), 4.4e-7 * 2^24 + 1, label = paste(isa, "single"))
    }
    set.seed(1)
    expect_lte(exp2_error(-stats::runif(1e5) * 1000, isa, FALSE), 4, label = isa)
  })

  test_that(paste("powers of two end in exact zeros, and whole ones have no error:", isa), {
    for (single in c(FALSE, TRUE)) {
      lowest <- if (single) -125 else -1021
      whole <- 0:(lowest + if (single) 26 else 55)
      expect_identical(unit("exp2", whole + 0, isa, single), 2^whole, label = isa)
      below <- c(lowest, lowest - c(0.5, 1, 1e3), -1e30, -Inf)
      expect_identical(unit("exp2", below, isa, single), numeric(6), label = isa)
      # never negative, and never back, on the way there
      near <- unit("exp2", lowest + seq(0, 4, by = 2^-8), isa, single)
      expect_gte(min(near), 0)
      expect_false(is.unsorted(near))
    }
  })
}

# ---- windows and mixtures ---------------------------------------------------------------------

read_window <- function(i) {
  parts <- unit("window", i)
  width <- parts[[1]][1]
  list(
    width = width, spacing = parts[[1]][2], errors = parts[[1]][3:6], filters = parts[2:3],
    polynomial = matrix(parts[[4]], ncol = 19)[seq_len(width), , drop = FALSE]
  )
}

# The window and its derivative at its nodes, for points at `fraction` past node 0: one column each. By Horner's scheme, as
# C has them: how a BLAS rounds is more than the errors of some windows.
window_at <- function(window, fraction) {
  t <- rep(1 - 2 * fraction, each = window$width)
  horner <- \(p) matrix(Reduce(\(sum, k) sum * t + p[, k], rev(seq_len(ncol(p))), 0), window$width)
  slopes <- window$polynomial[, -1] * rep(1:18, each = window$width)
  list(value = horner(window$polynomial), slope = -2 / window$spacing * horner(slopes))
}

# Two windows and a filter between them, for points `apart` nodes and their fractions from each other.
through_grid <- function(window, filter, source, target, apart) {
  sums <- 0
  for (l in seq_len(window$width)) for (j in seq_len(window$width)) {
    between <- abs(apart + j - l)
    tap <- ifelse(between < length(filter), filter[pmin(between + 1, length(filter))], 0)
    sums <- sums + source[l, ] * tap * target[j, ]
  }
  sums
}

test_that("every window of the table, with its filters, is the kernel to the errors that the table tells", {
  set.seed(2)
  for (i in seq_len(unit("window")) - 1L) {
    window <- read_window(i)
    if (!has_fine_windows() && window$errors[1] < 1e-10) next
    from <- stats::runif(300)
    to <- stats::runif(300)
    at <- window_at(window, to)
    source <- window_at(window, from)$value
    # within eight bandwidths, and twice as far as filters reach
    apart <- c(sample(round(-8 / window$spacing):round(8 / window$spacing), 200, TRUE), sample(-600:600, 100))
    t <- (apart + to - from) * window$spacing
    k <- exp(-t^2 / 2)
    sums <- \(filter, target) through_grid(window, window$filters[[filter]], source, target, apart)
    errors <- c(
      max(abs(sums(1, at$value) - k)), max(abs(sums(1, at$slope) + t * k)),
      max(abs(sums(2, at$value) - t^2 / 2 * k)), max(abs(sums(2, at$slope) - (t - t^3 / 2) * k))
    )
    told <- paste("window", i, "of width", window$width, "and spacing", window$spacing)
    expect_true(all(errors <= window$errors), label = paste(c(told, signif(errors / window$errors, 3)), collapse = " "))
    # and not far below: the table would be wrong about what is cheap
    expect_gt(errors[1], window$errors[1] / 100, label = told)
    # the window sums to one, wherever the point lies
    expect_lte(max(abs(colSums(source) - 1)), 2 * sqrt(window$errors[1]), label = told)
  }
})

test_that("sums of Gaussians are the kernel to their tolerance, at every distance", {
  powers <- c(cauchy = 1, imq = 0.5)
  for (kernel in names(powers)) for (largest in c(1, 100, 1e6, 1e12)) for (tol in 10^-c(2, 3, 6, 9, 12)) {
    parts <- unit("mixture", kernel, largest, tol)
    s <- c(0, expm1(seq(0, log1p(largest), length.out = 3000)), largest * stats::runif(100))
    sum <- as.vector(exp(-outer(s, parts[[1]])) %*% parts[[2]])
    error <- max(abs(sum * (1 + s)^powers[[kernel]] - 1))
    told <- paste(kernel, largest, tol)
    expect_lte(parts[[3]], tol, label = told)
    expect_lte(error, 1.01 * parts[[3]] + 1e-15 * length(parts[[1]]), label = told)
    expect_false(is.unsorted(-parts[[1]])) # the narrowest first
    expect_true(all(parts[[2]] > 0))
  }
  expect_error(unit("mixture", "gaussian", 100, 1e-3))
  expect_error(unit("mixture", "cauchy", 1e300, 1e-15), class = "flashkernel_error_unsupported")
})

# ---- order ------------------------------------------------------------------------------------

test_that("a sort is stable and complete, below and above the size of its radix passes", {
  set.seed(3)
  for (n in c(1, 2, 15, 16, 17, 4095, 4096, 4097, 100000)) for (threads in c(1L, 2L, 5L)) {
    for (keys in list(floor(stats::runif(n) * 2^32), floor(stats::runif(n) * 7), rep(2^32 - 1, n), n:1 + 0)) {
      expect_identical(unit("sort", keys, threads), order(keys), label = paste(n, "keys,", threads, "threads"))
    }
  }
})

test_that("the curve is a permutation in which neighbours are near, for any number of threads", {
  set.seed(4)
  n <- 20000
  for (d in 1:7) for (stretch in c(1, 1000)) {
    x <- matrix(stats::runif(n * d), n)
    x[, 1] <- x[, 1] * stretch
    along <- unit("curve", x, 1L)
    expect_identical(sort(along), seq_len(n))
    expect_identical(unit("curve", x, 3L), along)
    step <- \(order) mean(sqrt(rowSums(diff(x[order, , drop = FALSE])^2)))
    # a cube that holds one point, a few times over
    expect_lt(step(along), 4 * sqrt(d) * (stretch / n)^(1 / d) + 1e-3, label = paste("d =", d, "stretch =", stretch))
    expect_lt(step(along), step(seq_len(n)) / 1.5)
  }
  expect_identical(unit("curve", matrix(c(3, 1, 2)), 1L), c(2L, 3L, 1L))
  expect_null(unit("curve", matrix(1, 5, 2), 1L)) # nothing to follow
})

# ---- scans ------------------------------------------------------------------------------------

test_that("scans find what R finds, at any length and for any number of threads", {
  set.seed(5)
  piece <- 2^16
  for (n in c(1, 2, 3, 7, 8, 9, piece - 1, piece, piece + 1, 2 * piece + 3)) for (sign in c(-1, 1)) {
    x <- sign * exp(stats::rnorm(n, sd = 100))
    x[n] <- -x[n] # the odd one out is the last
    x[(n + 1) %/% 2] <- 0
    sizes <- abs(x[x != 0])
    want <- c(
      1, max(abs(x)), range(x), if (length(sizes)) range(sizes) else c(Inf, 0),
      if (length(sizes)) max(abs(x)) else 1
    )
    for (threads in c(1L, 2L, 7L)) expect_identical(unit("scan", x, threads), want, label = paste("n =", n))
    for (bad in c(NaN, NA, Inf, -Inf)) for (at in unique(c(1, n))) {
      expect_identical(unit("scan", replace(x, at, bad), 2L)[1], 0, label = paste(bad, "at", at, "of", n))
    }
  }
  expect_identical(unit("scan", numeric(), 1L), c(1, 0, Inf, -Inf, Inf, 0, 1))
  expect_identical(unit("scan", c(0, -5e-324), 1L), c(1, 5e-324, -5e-324, 0, 5e-324, 5e-324, .Machine$double.xmin))
})

test_that("rows whose sums underflowed are found, and those that are no numbers", {
  mass <- c(1, 0, -1e-300, NaN, 1e-310, -2, Inf, 1e-300)
  expect_identical(unit("rows_below", mass, 1e-305), c(2L, 4L, 5L))
  expect_identical(unit("rows_below", mass, 1e-300), c(2L, 4L, 5L))
  expect_identical(unit("rows_below", mass, 1.5), c(1:5, 8L))
  expect_identical(unit("rows_below", mass[c(1, 6)], 1e-300), integer())
  expect_identical(unit("rows_below", numeric(), 1), integer())
})

# ---- whitening --------------------------------------------------------------------------------

test_that("whitened points are those of forwardsolve(), all or picked, diagonal or full, any dimension", {
  for (d in c(1:9, 16, 33)) for (n in c(1L, 5L, 24L, 193L)) for (full in c(FALSE, TRUE)) {
    x <- matrix(example_points(n, d), n) + 100
    L <- t(chol(example_bandwidth(d)))
    if (!full) L <- diag(diag(L), d)
    picked <- rev(seq(1L, n, by = 2L))
    for (rows in list(NULL, picked)) {
      parts <- unit("whiten", x, L, rows)
      at <- if (is.null(rows)) seq_len(n) else rows
      u <- matrix(parts[[1]], ncol = d)
      want <- t(forwardsolve(L, t(x[at, , drop = FALSE]) - parts[[2]]))
      expect_within(u[seq_along(at), ], want, 1e-13, paste("d =", d, "n =", n))
      expect_identical(u[-seq_along(at), ], 0 * u[-seq_along(at), ]) # nothing beside them
      expect_within(parts[[2]], colMeans(x), 1e-14)
    }
  }
})

test_that("the centre is the mean of near points, and the least number where some are far", {
  near <- unit("whiten", matrix(c(3, 4, 8)), matrix(1), NULL)
  expect_identical(near[[2]], 5)
  far <- unit("whiten", matrix(c(-3, 4, 1e9)), matrix(1), NULL)
  expect_identical(far[[2]], -3)
  expect_identical(far[[1]][1:3], c(0, 7, 1e9 + 3))
})

test_that("two bandwidths have axes in which one is 1 and the other diagonal", {
  for (d in c(1:6, 20)) {
    H <- example_bandwidth(d)
    set.seed(d)
    S <- crossprod(matrix(stats::rnorm(d * (d + 3)), d + 3))
    parts <- unit("common_axes", t(chol(H)), t(chol(S)))
    if (d == 1) {
      expect_null(parts[[1]]) # one is a multiple of the other
      expect_equal(parts[[2]], as.vector(H / S))
      next
    }
    A <- matrix(parts[[1]], d)
    expect_within(A %*% H %*% t(A), diag(d), 1e-12, paste("d =", d))
    expect_within(A %*% S %*% t(A) %*% diag(parts[[2]]), diag(d), 1e-11, paste("d =", d))
    multiple <- unit("common_axes", t(chol(4 * S)), t(chol(S)))
    expect_null(multiple[[1]])
    expect_equal(multiple[[2]], rep(4, d))
  }
})

# ---- the pool ---------------------------------------------------------------------------------

test_that("the pool does every index once, in pieces that do not depend on the threads", {
  for (n in c(0, 1, 2, 3, 63, 64, 65, 1000, 100001)) for (step in c(1, 2, 7, 64, 1000, 1e6)) {
    if (n / step > 5000) next
    for (threads in c(1L, 2L, 3L, 8L, 17L)) {
      parts <- unit("pool", threads, n, step)
      told <- paste("n =", n, "step =", step, "threads =", threads)
      # one expectation for three: each takes longer than the pool
      right <- identical(parts[[1]], rep(1, n)) && identical(parts[[2]], (seq_len(n) - 1) %/% step * step) &&
        all(parts[[3]] >= 0 & parts[[3]] < threads)
      expect(right, paste("wrong for", told))
    }
  }
})
