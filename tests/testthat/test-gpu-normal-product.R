# Normal products of kernel_operator() on the GPU, against the matrix in plain R.

test_that("a product of every kernel on the GPU is that of the matrix", {
  skip_if_no_gpu()
  bounds <- c(double = 1e-13, single = 1e-4)
  for (size in list(c(1, 7), c(7, 1), c(97, 1111), c(1025, 133))) for (d in c(1, 3, 17)) {
    case <- normal_case(size[1], size[2], d, r = 3)
    for (kernel in names(ref_kernels)) for (precision in names(bounds)) {
      K <- ref_kernel_matrix(case$x, case$y, diag(d, d), kernel)
      op <- kernel_operator(case$x, case$y, sqrt(d), kernel, tol = 0, control = flash_control("cuda", precision))
      where <- paste(c(kernel, precision, size, d), collapse = " ")
      for (again in 1:2) {
        got <- normal_product(op, case$v, case$w, case$weights)
        expect_lt(normal_error(got, K, case$v, case$w, case$weights), bounds[[precision]], label = where)
      }
      one <- normal_product(op, case$v[, 1], weights = case$weights)
      expect_lt(normal_error(one, K, case$v[, 1, drop = FALSE], NULL, case$weights), bounds[[precision]], label = where)
      right <- normal_product(op, NULL, case$w, case$weights)
      expect_lt(normal_error(right, K, NULL, case$w, case$weights), bounds[[precision]], label = where)
    }
  }
})

test_that("K v comes with the product, of one column and of more, in chunks of rows, on one device and on all", {
  skip_if_no_gpu()
  bounds <- c(double = 1e-12, single = 1e-4)
  for (size in list(c(1, 7), c(97, 1111), c(300, 70000))) for (d in c(3, 30)) for (r in c(1, 3)) {
    case <- normal_case(size[1], size[2], d, r)
    L <- diag(sqrt(d), d)
    K <- matrix(ref_kernel_matrix(case$x, case$y, diag(d, d), "gaussian"), size[2])
    want <- K %*% case$v
    for (precision in names(bounds)) for (devices in list(NULL, "all")) {
      run <- run_control(settle_control(flash_control("cuda", precision, engine = "exact", devices = devices)))
      sources <- sum_sources(case$x, NULL, L, check_kernel("gaussian"), new_plan())
      rows <- sum_sources(case$y, NULL, L, check_kernel("gaussian"), new_plan())
      # kept rows and such that come by
      for (again in 1:2) {
        got <- normal_product_of(sources, rows, case$v, case$w, case$weights, run, with_sums = TRUE)
        where <- paste(c(precision, size, d, r, again), collapse = " ")
        expect_lt(normal_error(got$product, K, case$v, case$w, case$weights), bounds[[precision]], label = where)
        expect_lt(max(abs(got$sums - want)) / max(abs(K) %*% abs(case$v)), bounds[[precision]], label = where)
      }
    }
  }
})

test_that("points at themselves, transposed and weighted operators are what they are on the CPU", {
  skip_if_no_gpu()
  case <- normal_case(300, 500, r = 2)
  for (at in list(NULL, case$y)) {
    product <- function(backend, transposed) {
      op <- kernel_operator(
        case$x, at, 1, "matern32", tol = 0, control = flash_control(backend, "double")
      )
      if (transposed) op <- t(op)
      numbers <- \(n) matrix(sin(seq_len(2 * n)^2), n)
      normal_product(op, numbers(ncol(op)), numbers(nrow(op)), case$weights[seq_len(nrow(op))])
    }
    for (transposed in c(FALSE, TRUE)) {
      want <- product("cpu", transposed)
      expect_lt(max(abs(product("cuda", transposed) - want)) / max(abs(want)), 1e-12)
    }
  }
})

test_that("to a tolerance a product on the GPU is near the exact one", {
  skip_if_no_gpu()
  case <- normal_case(10000, 20000, d = 2)
  op <- kernel_operator(case$x, case$y, 0.05, tol = 1e-6, control = flash_control("cuda", engine = "fast"))
  got <- normal_product(op, case$v, case$w, case$weights)
  expect_identical(diagnostics(op)$engine, "fast")
  exact <- kernel_operator(case$x, case$y, 0.05, tol = 0, control = flash_control("cuda", "double"))
  want <- normal_product(exact, case$v, case$w, case$weights)
  size <- crossprod(exact, abs(case$weights) * (exact %*% abs(case$v) + abs(case$w)))
  expect_lt(max(abs(got - want)) / max(size), 2e-6)
})

test_that("several devices give the product of one, the same bits", {
  skip_if_one_gpu()
  case <- normal_case(3000, 40000, d = 5, r = 2)
  product <- \(devices) normal_product(
    kernel_operator(
      case$x, case$y, 2, tol = 0,
      control = flash_control("cuda", devices = devices)
    ), case$v, case$w, case$weights
  )
  expect_identical(product(0:1), product(0))
})

# ---- by two sweeps, and by tiles ----------------------------------------------------------------

NORMAL_METHODS <- c(sweeps = "tensor cores, two sweeps", differences = "differences, two sweeps", tiles = "dense tiles")

# A product of points on the GPU and what did it.
gpu_product <- function(case, bandwidth, ..., columns = seq_len(ncol(case$v)), v = TRUE, w = TRUE, weights = TRUE,
                        kernel = "gaussian", tol = 0) {
  op <- kernel_operator_by(case$x, case$y, bandwidth, kernel, tol = tol, control = flash_control("cuda"), ...)
  product <- \() normal_product(
    op, if (v) case$v[, columns, drop = FALSE], if (w) case$w[, columns, drop = FALSE], if (weights) case$weights
  )
  got <- product()
  expect_identical(product(), got) # with what is kept by now
  list(product = got, method = diagnostics(op)$method, precision = diagnostics(op)$precision)
}

# That of the matrix K, by one of NORMAL_METHODS in the precision that is asked for, or another one (ran).
expect_product <- function(case, K, bandwidth, bound, method, where, precision = "single", ran = precision, ...,
                           columns = seq_len(ncol(case$v)), v = TRUE, w = TRUE, weights = TRUE) {
  got <- gpu_product(case, bandwidth, precision = precision, columns = columns, v = v, w = w, weights = weights, ...)
  expect_identical(c(got$method, got$precision), c(NORMAL_METHODS[[method]], ran), label = where)
  part <- \(x, is_in) if (is_in) x[, columns, drop = FALSE]
  error <- normal_error(got$product, K, part(case$v, v), part(case$w, w), if (weights) case$weights)
  expect_lt(error, bound, label = where)
}

test_that("a product of any size is that of the matrix by tensor cores, and by tiles where columns are many", {
  skip_if_no_gpu()
  bounds <- c(double = 1e-12, single = 1e-5)
  dimensions <- c(2, 20, 40, 50, 65, 80, 96, 97, 129, 200, 440)
  for (size in list(c(1, 129), c(31, 33), c(33, 31), c(127, 1), c(129, 1000))) for (d in dimensions) {
    case <- normal_case(size[1], size[2], d, r = 40)
    K <- ref_kernel_matrix(case$x, case$y, diag(2 * d, d), "gaussian")
    for (precision in names(bounds)) for (t in c(1, 3, 40)) {
      by_tiles <- precision == "double" || t == 40 || (t == 3 && d >= 200)
      where <- paste(c(size, d, precision, t), collapse = " ")
      expect <- \(...) expect_product(
        case, K, sqrt(2 * d), bounds[[precision]], if (by_tiles) "tiles" else "sweeps", where, precision,
        columns = seq_len(t), ...
      )
      expect()
      if (t == 40) next
      expect(v = FALSE)
      expect(w = FALSE, weights = FALSE)
    }
  }
})

test_that("tiles of every kernel keep their digits, also where points meet and far from the origin", {
  skip_if_no_gpu()
  for (d in c(3, 17, 30, 60)) {
    case <- normal_case(130, 300, d, r = 2)
    case$y[1:100, ] <- case$x[1:100, ]
    case$y[101:120, ] <- case$x[1:20, ] + 1e-7
    for (offset in c(0, 1e3)) for (bandwidth in c(0.3, 3)) for (kernel in names(ref_kernels)) {
      moved <- within(case, {
        x <- x + offset
        y <- y + offset
      })
      K <- ref_kernel_matrix(moved$x, moved$y, diag(bandwidth^2, d), kernel)
      for (columns in list(1, 1:2)) {
        where <- paste(d, offset, bandwidth, kernel, length(columns))
        bound <- if (offset == 0) 1e-11 else 1e-9
        expect_product(moved, K, bandwidth, bound, "tiles", where, "double", kernel = kernel, columns = columns)
      }
    }
  }
})

test_that("tiles in single precision keep its digits, of every kernel, where columns or dimensions are many", {
  skip_if_no_gpu()
  for (d in c(3, 100, 440)) for (t in c(1, 16, 144)) {
    if (t == 1 && d == 3) next
    case <- normal_case(131, 300, d, r = t)
    case$y[1:100, ] <- case$x[1:100, ]
    case$y[101:120, ] <- case$x[1:20, ] + 1e-7
    case$y[121:140, ] <- case$x[1:20, ] + 1e-3
    for (bandwidth in sqrt(d) / c(0.5, 1, 3)) for (kernel in setdiff(names(ref_kernels), "product_laplacian")) {
      if (t == 1 && kernel == "gaussian") next
      K <- ref_kernel_matrix(case$x, case$y, diag(bandwidth^2, d), kernel)
      expect_product(case, K, bandwidth, 1e-5, "tiles", paste(d, t, bandwidth, kernel), kernel = kernel)
    }
  }
})

test_that("the product Laplacian has no tiles in single precision, and is in double where dimensions are many", {
  skip_if_no_gpu()
  for (d in c(3, 100, 440)) for (t in c(1, 144)) {
    case <- normal_case(131, 300, d, r = t)
    case$y[1:100, ] <- case$x[1:100, ]
    case$y[101:120, ] <- case$x[1:20, ] + 1e-7
    by <- if (d > 256) c("tiles", "double") else c("differences", "single")
    for (bandwidth in sqrt(d) / c(0.5, 1, 3)) {
      K <- ref_kernel_matrix(case$x, case$y, diag(bandwidth^2, d), "product_laplacian")
      where <- paste(d, t, bandwidth)
      expect_product(case, K, bandwidth, 1e-5, by[1], where, "single", by[2], kernel = "product_laplacian")
    }
  }
})

test_that("columns in several runs, the last of them not full, are in the product", {
  skip_if_no_gpu()
  case <- normal_case(9001, 70, 4, r = 20)
  K <- ref_kernel_matrix(case$x, case$y, diag(4, 4), "gaussian")
  expect_product(case, K, 2, 1e-5, "tiles", "single", "single")
  expect_product(case, K, 2, 1e-12, "tiles", "double", "double")
})

test_that("kernels other than Gaussians are summed by differences where columns and dimensions are few", {
  skip_if_no_gpu()
  for (d in c(1, 3, 5, 20)) for (size in list(c(1, 33), c(1000, 129), c(70, 3000))) {
    case <- normal_case(size[1], size[2], d, r = 2)
    case$y[1, ] <- case$x[1, ]
    for (bandwidth in sqrt(d) * c(0.3, 2)) for (kernel in setdiff(names(ref_kernels), "gaussian")) {
      K <- ref_kernel_matrix(case$x, case$y, diag(bandwidth^2, d), kernel)
      where <- paste(d, size[1], size[2], bandwidth, kernel)
      expect_product(case, K, bandwidth, 1e-5, "differences", where, kernel = kernel, columns = 1)
    }
  }
})

test_that("sums in single precision are short: terms that round alike do not add up to an error", {
  skip_if_no_gpu()
  # FP32 sums of 1024 terms are off by 1.2e-5 here, those of 16 by 1.4e-7, of 64 by 6e-7
  constant <- function(dimensions, kernel = "gaussian") lapply(dimensions, \(d) {
    x <- matrix(1, 40000, d)
    v <- c(1, rep(0.43, nrow(x) - 1))
    single <- \(x, y) flashkernel::kernel_operator(
      x, y, 1, kernel, tol = 0,
      control = flashkernel::flash_control("cuda", "single")
    )
    op <- single(x, x[1:20000, , drop = FALSE] * 1)
    back <- single(x[1:300, , drop = FALSE], x)
    c(
      forth = max(abs(flashkernel:::normal_product(op, v) / (20000 * sum(v)) - 1)),
      back = max(abs(flashkernel:::normal_product(back, NULL, v) / sum(v) - 1))
    )
  })
  dimensions <- c(1, 20, 70, 130)
  for (method in c("", "mma")) {
    errors <- in_child(constant, list(dimensions), env = c(FLASHKERNEL_CUDA_METHOD = method))
    for (i in seq_along(dimensions)) expect_lt(max(errors[[i]]), 1e-6, label = paste(method, dimensions[i]))
  }
  expect_lt(max(unlist(constant(c(1, 20), "matern32"))), 2e-6, label = "differences")
})

test_that("cards before Hopper have the same products", {
  skip_if_no_gpu()
  products <- function(cases) lapply(cases, \(case) {
    op <- flashkernel::kernel_operator(
      case$x, case$y, 3, tol = 0,
      control = flashkernel::flash_control("cuda", "single")
    )
    list(got = flashkernel:::normal_product(op, case$v, case$w, case$weights), method = flashkernel::diagnostics(op)$method)
  })
  dimensions <- c(3, 30, 100)
  cases <- lapply(dimensions, \(d) normal_case(700, 2000, d, r = 2))
  for (method in c("mma", "difference")) {
    answers <- in_child(products, list(cases), env = c(FLASHKERNEL_CUDA_METHOD = method))
    for (i in seq_along(cases)) {
      d <- dimensions[i]
      case <- cases[[i]]
      K <- ref_kernel_matrix(case$x, case$y, diag(9, d), "gaussian")
      expect_identical(answers[[i]]$method, NORMAL_METHODS[[if (method == "mma" && d < 65) "sweeps" else "tiles"]])
      expect_lt(normal_error(answers[[i]]$got, K, case$v, case$w, case$weights), 1e-5, label = paste(method, d))
    }
  }
})

test_that("many rows and columns of many dimensions have the product of double precision", {
  skip_if_no_gpu()
  for (d in c(65, 90, 112, 128, 170, 300)) {
    case <- normal_case(5000, 20000, d)
    got <- gpu_product(case, sqrt(d), precision = "single", columns = 1)
    want <- gpu_product(case, sqrt(d), precision = "double", columns = 1)
    expect_identical(c(got$method, want$method), unname(NORMAL_METHODS[c("sweeps", "tiles")]))
    expect_lt(max(abs(got$product - want$product)) / max(abs(want$product)), 2e-5, label = paste(d))
  }
})

test_that("rows far beyond the columns, and points too wide for tensor cores, are in the product", {
  skip_if_no_gpu()
  case <- normal_case(200, 900, 3)
  for (spread in c(1, 4, 10, 5000)) {
    case$y <- spread * normal_case(200, 900, 3)$y
    case$y[1:50, ] <- case$x[1:50, ] + 0.1
    K <- ref_kernel_matrix(case$x, case$y, diag(1, 3), "gaussian")
    got <- gpu_product(case, 1, precision = "single")
    expect_identical(got$method, NORMAL_METHODS[[if (spread < 1000) "sweeps" else "tiles"]], label = paste(spread))
    # far from all columns kernels are below the floats' range
    near <- colSums(K) > 1e-20
    want <- crossprod(K, case$weights * (K %*% case$v + case$w))
    size <- crossprod(K, abs(case$weights) * (K %*% abs(case$v) + abs(case$w)))
    expect_lt(max((abs(got$product - want) / size)[near]), 5e-5, label = paste(spread))
  }
})

test_that("tiles are in double where points are too wide for halves", {
  skip_if_no_gpu()
  case <- normal_case(200, 900, 3, r = 40)
  for (kernel in c("gaussian", "matern32")) for (spread in c(1, 2, 5000)) {
    case$y <- spread * normal_case(200, 900, 3)$y
    case$y[1:50, ] <- case$x[1:50, ] + 0.1
    K <- ref_kernel_matrix(case$x, case$y, diag(1, 3), kernel)
    ran <- if (spread < 1000) "single" else "double"
    expect_product(case, K, 1, 2e-5, "tiles", paste(kernel, spread), ran = ran, kernel = kernel)
  }
})

test_that("any weights are within the floats' range on a scale of their own", {
  skip_if_no_gpu()
  case <- normal_case(300, 500, 4)
  K <- ref_kernel_matrix(case$x, case$y, diag(1, 4), "gaussian")
  for (scale in c(1e-250, 1e-30, 1e30, 1e250)) {
    big <- within(case, {
      v <- scale * v
      w <- scale * w
    })
    got <- gpu_product(big, 1, precision = "single")$product / scale
    expect_lt(normal_error(got, K, case$v, case$w, case$weights), 1e-5, label = paste(scale))
  }
  got <- gpu_product(within(case, v <- 0 * v), 1, precision = "single", w = FALSE)$product
  expect_identical(got, matrix(0, 300, 1))
})

test_that("points at themselves, and one set of rows for several operators, have their own products", {
  skip_if_no_gpu()
  case <- normal_case(400, 1500, 5)
  H <- diag(4, 5)
  own <- kernel_operator(case$x, bandwidth = 2, tol = 0, control = flash_control("cuda", "single"))
  K <- ref_kernel_matrix(case$x, case$x, H, "gaussian")
  for (again in 1:2) expect_lt(normal_error(normal_product(own, case$v, case$v), K, case$v, case$v), 1e-5)
  op <- kernel_operator(case$x, case$y, 2, tol = 0, control = flash_control("cuda", "single"))
  K <- ref_kernel_matrix(case$x, case$y, H, "gaussian")
  for (again in 1:3) { # what is kept of both is made anew for the other way
    expect_lt(normal_error(normal_product(op, case$v, case$w), K, case$v, case$w), 1e-5)
    expect_lt(normal_error(normal_product(t(op), case$w, case$v), t(K), case$w, case$v), 1e-5)
  }
})

# In a process of its own, with as little memory as `env` says; 1e5 rows are three shards.
products_of_many <- function(device_memory) {
  set.seed(1)
  x <- matrix(stats::rnorm(60 * 5), 60)
  y <- matrix(stats::rnorm(1e5 * 5), 1e5)
  v <- matrix(stats::rnorm(60 * 30), 60)
  w <- matrix(stats::rnorm(1e5 * 30), 1e5)
  control <- flashkernel::flash_control(device_memory = device_memory, backend = "cuda", tol = 0)
  product <- function(precision, columns) {
    op <- flashkernel::kernel_operator(x, y, 2, control = replace(control, "precision", precision))
    products <- lapply(1:2, \(i) flashkernel:::normal_product(op, v[, columns], w[, columns], w[, 3]))
    list(first = products[[1]], second = products[[2]], cached = flashkernel::gpu_info()$cached[1])
  }
  list(sweeps = product("single", 1:2), tiles = product("double", 1), wide = product("single", 1:30))
}

test_that("rows that stay, stay in part, or pass by at each product give the same bits", {
  skip_if_no_gpu()
  all <- in_child(products_of_many, list(NULL))
  some <- in_child(products_of_many, list(4e6))
  none <- in_child(products_of_many, list(0))
  little <- in_child(products_of_many, list(NULL), env = c(FLASHKERNEL_CUDA_MEMORY = "60e6"))
  for (way in names(all)) {
    products <- \(x) x[[way]][c("first", "second")]
    expect_identical(all[[way]]$second, all[[way]]$first)
    expect_identical(products(some), products(all))
    expect_identical(products(none), products(all))
    expect_equal(products(little), products(all), tolerance = 1e-4)
    expect_lte(some[[way]]$cached, 4e6)
    expect_identical(none[[way]]$cached, 0)
    # packed halves or whitened doubles, and nothing beside them
    expect_gt(all[[way]]$cached, 1e5 * if (way == "sweeps") 64 else 40)
  }
  expect_lt(all$sweeps$cached, 1e5 * 150)
})

test_that("shards of rows give the same bits on several devices", {
  skip_if_one_gpu()
  case <- normal_case(300, 200000, d = 6, r = 20)
  for (precision in c("single", "double")) for (t in c(1, 20)) {
    product <- \(devices) gpu_product(case, 2, precision = precision, devices = devices, columns = seq_len(t))$product
    expect_identical(product(0:1), product(0))
  }
})

test_that("products with kernels of several classes kept on a GPU are those computed anew, and their memory is freed", {
  skip_if_no_gpu()
  x <- matrix(sin(seq_len(1299)^2), 433)
  spec <- list(L = diag(0.8, 3), kernel = check_kernel("matern52"), family = FAMILIES$multinomial)
  rows <- ridge_rows(x, spec$L, spec$kernel)
  centers <- ridge_centers(x[1:45, ], spec$L, spec$kernel)
  run <- run_control(settle_control(flash_control("cuda", "double")))
  replace_in_package("KERNEL_BLOCK", 8 * 45 * 200) # three blocks
  kept <- rows_with_kernels(rows, centers, spec, run)
  expect_identical(typeof(kept$kernels), "externalptr")
  numbers <- \(n, columns) matrix(cos(seq_len(n * columns)^2), n)
  answers <- \(rows, columns, run) list(
    rows_multiply(rows, centers, numbers(45, columns), run)$sums,
    rows_normal(rows, centers, NULL, numbers(433, columns), abs(x[, 1]), run)$product,
    rows_hessian(rows, list(centers = centers, family = spec$family, loss = spec$family$loss, weights = abs(x[, 1]), run = run),
      link_probabilities(numbers(433, columns)), numbers(45, columns))[c("product", "sums")]
  )
  for (columns in c(3, 26, 5)) {
    expect_equal(answers(kept, columns, run), answers(rows, columns, cpu_run()), tolerance = 1e-12)
    expect_identical(answers(kept, columns, run), answers(kept, columns, run))
  }
  store_kernels(kept$kernels, 0, NULL)
  expect_error(answers(kept, 3, run), "freed")
  # two classes take one product with kernels that are computed
  expect_identical(rows_with_kernels(rows, centers, replace(spec, "family", list(FAMILIES$binomial)), run), rows)
})
