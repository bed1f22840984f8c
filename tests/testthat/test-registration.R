# The names and the numbers of arguments of the .Call()s in R are those that the library registers.

# Every call .Call(symbol, ...) in the package's functions, as symbol = number of arguments
native_calls <- function(namespace) {
  found <- list()
  walk <- function(expression) {
    if (is.call(expression)) {
      if (identical(expression[[1]], quote(.Call))) {
        name <- deparse(expression[[2]])
        found[[length(found) + 1]] <<- c(name, length(expression) - 2)
      }
      for (part in as.list(expression)) if (!missing(part)) walk(part)
    } else if (is.pairlist(expression)) {
      for (part in as.list(expression)) if (!missing(part)) walk(part)
    }
  }
  for (name in ls(namespace, all.names = TRUE)) {
    value <- get(name, namespace)
    if (is.function(value)) {
      walk(body(value))
      walk(formals(value))
    }
  }
  unique(do.call(rbind, found))
}

registered_routines <- function() {
  routines <- getDLLRegisteredRoutines("flashkernel")
  list(
    call = vapply(routines$.Call, \(routine) routine$numParameters, 0L),
    other = c(names(routines$.C), names(routines$.Fortran), names(routines$.External))
  )
}

calls <- native_calls(asNamespace("flashkernel"))

test_that("every .Call() names a registered routine and passes as many arguments as it takes", {
  registered <- registered_routines()
  expect_gte(nrow(calls), 7)
  expect_match(calls[, 1], "^ffi_")
  expect_true(all(calls[, 1] %in% names(registered$call)))
  expect_identical(unname(registered$call[calls[, 1]]), as.integer(calls[, 2]))
})

test_that("every registered routine is called from R, except the one for tests", {
  registered <- names(registered_routines()$call)
  expect_setequal(setdiff(registered, "ffi_test"), calls[, 1])
  expect_match(registered, "^ffi_")
  # R's own call before it unloads the library
  expect_identical(registered_routines()$other, "R_unload_flashkernel")
})

test_that("symbols are found by registration only", {
  loaded <- getLoadedDLLs()
  expect_false(unclass(loaded[["flashkernel"]])$dynamicLookup)
})

test_that("the C entry points refuse arguments that do not fit together", {
  # R checks everything before; this is the second line, against a mistake there or a tampered fit.
  hostile_calls <- function() {
    space <- asNamespace("flashkernel")
    native <- function(name, ...) .Call(get(name, space), ...)
    single_points <- space$single_points
    of <- function(x, weights, L, kernel = "gaussian", plan = NULL) {
      list(points = x, weights = weights, L = L, kernel = kernel, plan = plan)
    }
    control <- list(
      backend = "cpu", precision = "double", threads = 1L, devices = integer(), progress = NULL
    )
    x <- matrix(0, 3, 2)
    L <- diag(2)
    plain <- c(1, 0, 0)
    known <- \(...) list(means = x, log_mass = x[, 1], ...)
    pairs <- function(...) utils::modifyList(list(x = x, L = L, factor = plain, ratio = FALSE), list(...))
    shape_job <- function(...) {
      job <- list(
        x = L, y = NULL, log_weight = c(0, 0), factors = NULL, log_scale = c(0, 0), factor = plain, lower = L,
        upper = L, weights = c(1, 1), correlation = 0, laplace = FALSE
      )
      utils::modifyList(job, list(...))
    }
    cells <- function(...) {
      job <- list(x = x, log_weight = c(0, 0, 0), ends = 3, rows = c(0, 2), diagonal = FALSE)
      utils::modifyList(job, list(...))
    }
    given_job <- \(...) utils::modifyList(
      list(x = L, at = L, log_weights = c(0, 0), centres = c(0, 1), y = matrix(0, 1, 2)), list(...)
    )
    entries <- list(start = 0:1, index = 0L, values = 1)
    ones <- list(scale = 1, norms = 1)
    fast <- c(control, list(engine = "fast", tol = 1e-3, tol_type = "global", method = "grid"))
    open <- \() native("ffi_stream_open", x, x, x, c(3, 3, 1, 1, 1e-3, 1e9), 2L, L, fast)
    stream <- open()
    closed <- open()
    preconditioner <- native("ffi_preconditioner", diag(2), NULL, NULL, FALSE, 0, control)$handle
    native("ffi_stream_close", closed)
    calls <- expression(
      native("ffi_log_sum", of(x, NULL, L), matrix(0, 3, 1), plain, FALSE, control),
      native("ffi_log_sum", of(x, NULL, L), matrix(0, 3, 5), plain, FALSE, control),
      native("ffi_log_sum", of(NULL, NULL, L), x, plain, FALSE, control),
      native("ffi_log_sum", of(single_points(x), NULL, L), x, plain, FALSE, control),
      native("ffi_log_sum", of(structure(1, class = "single_points"), NULL, L), x, plain, FALSE, control),
      native("ffi_log_sum", of(x, NULL, NULL), x, plain, FALSE, control),
      native("ffi_log_sum", of(x, NULL, diag(3)), x, plain, FALSE, control),
      native("ffi_log_sum", of(x, NULL, L), x, NULL, FALSE, control),
      native("ffi_log_sum", of(x, 1, L), x, plain, FALSE, control),
      native("ffi_log_sum", of(x, c(1L, 1L, 1L), L), x, plain, FALSE, control),
      native("ffi_log_sum", of(letters, NULL, L), x, plain, FALSE, control),
      native("ffi_log_sum", of(x, NULL, L), x, plain, FALSE, 1),
      native("ffi_log_sum", of(x, NULL, L), x, plain, FALSE, replace(control, "devices", list(NULL))),
      native("ffi_log_sum", of(x, NULL, L), x, plain, FALSE, replace(control, "devices", "all")),
      native("ffi_log_sum", of(x, NULL, L), x, plain, FALSE, replace(control, "devices", list(0:99))),
      native("ffi_log_sum", of(x, NULL, L, plan = 1), x, plain, FALSE, control),
      native("ffi_log_sum", of(x, NULL, L, plan = stream), x, plain, FALSE, control),
      native("ffi_log_sum", x, x, plain, FALSE, control),
      native("ffi_resolve", 1, 3, 3, 2, "gaussian"),
      native("ffi_guess", 1, 3, 3, 2, "gaussian"),
      native("ffi_can", 1, "sums", 2, "gaussian"),
      native("ffi_can", control, "divination", 2, "gaussian"),
      native("ffi_can", control, "sums", 2, "sinc"),
      native("ffi_hint", 1, 3, 3, 2, "gaussian", FALSE),
      native("ffi_hint", control, 3, 3, 2, "sinc", FALSE),
      native("ffi_kernel_sum", of(x, NULL, L, "gaussian"), NULL, c(1, 2), FALSE, control),
      native("ffi_kernel_sum", of(x, NULL, L, "gaussian"), NULL, matrix(0, 2, 1), FALSE, control),
      native("ffi_kernel_sum", of(x, NULL, L, "gaussian"), matrix(0, 3, 1), matrix(0, 3, 1), FALSE, control),
      native("ffi_kernel_sum", of(x, NULL, L, "sinc"), NULL, matrix(0, 3, 1), FALSE, control),
      native("ffi_kernel_sum", of(x, NULL, L, list(name = "linear")), NULL, c(1, 2, 3), FALSE, control),
      native("ffi_kernel_sum", of(x, NULL, L, list(name = "linear", parameters = 1)), NULL, c(1, 2, 3), FALSE, control),
      native("ffi_kernel_sum", of(x, NULL, L, list("linear")), NULL, c(1, 2, 3), FALSE, control),
      native("ffi_normal_product", of(x, NULL, L), NULL, NULL, NULL, NULL, FALSE, 0, control),
      native("ffi_normal_product", of(x, NULL, L), NULL, c(1, 2), NULL, NULL, FALSE, 0, control),
      native("ffi_normal_product", of(x, NULL, L), of(x[, 1, drop = FALSE], NULL, diag(1)), c(1, 2, 3), NULL, NULL, FALSE, 0, control),
      native("ffi_normal_product", of(x, NULL, L), of(x[1:2, ], NULL, L), c(1, 2, 3), c(1, 2, 3), NULL, FALSE, control),
      native("ffi_normal_product", of(x, NULL, L), NULL, matrix(0, 3, 2), matrix(0, 3, 1), NULL, FALSE, control),
      native("ffi_normal_product", of(x, NULL, L), NULL, c(1, 2, 3), NULL, c(1, 2), FALSE, control),
      native("ffi_sparse_norms", list(), 2, "gaussian", control),
      native("ffi_sparse_norms", list(start = 0:1, index = 0:3, values = 1, scale = 1), 2, "gaussian", control),
      native("ffi_sparse_norms", c(entries, list(scale = c(1, 2, 3))), 2, "gaussian", control),
      native("ffi_sparse_norms", c(entries, list(scale = 1)), 2, "sinc", control),
      native("ffi_sign_sums", of(x, NULL, L, "gaussian"), NULL, matrix(0, 3, 1), control),
      native("ffi_sign_sums", of(x, NULL, L, "product_laplacian"), NULL, matrix(0, 2, 1), control),
      native("ffi_sign_sums", of(x, NULL, L, "product_laplacian"), NULL, c(1, 2, 3), control),
      native("ffi_sign_sums", of(x, NULL, L, "product_laplacian"), matrix(0, 3, 1), matrix(0, 3, 1), control),
      native("ffi_sparse_kernels", entries, entries, 1, 1, "gaussian", control),
      native("ffi_sparse_kernels", c(entries, ones), c(entries, ones), 2, 1, "gaussian", control),
      native("ffi_sparse_kernels", c(entries, ones), c(entries, ones), NA, 1, "gaussian", control),
      native("ffi_sparse_kernels", c(entries, ones), c(entries, ones), 1, 1, "sinc", control),
      native("ffi_stream_open", x, x, x[1:2, ], c(3, 3, 1, 1, 1e-3, 1e9), 1L, L, fast),
      native("ffi_stream_open", x, NULL, x, c(3, 3, 1, 1, 1e-3, 1e9), 1L, L, fast),
      native("ffi_stream_open", x, x, x, c(3, 3, 1, 1, 1e-3), 1L, L, fast),
      native("ffi_stream_open", x, x, x, c(3, 3, 1, 1, 1e-3, 1e9), NA, L, fast),
      native("ffi_stream_open", x, x, x, c(NaN, 3, 1, 1, 1e-3, 1e9), 1L, L, fast),
      native("ffi_stream_add", NULL, x, NULL, fast),
      native("ffi_stream_add", unserialize(serialize(stream, NULL)), x, NULL, fast),
      native("ffi_stream_add", stream, matrix(0, 3, 1), NULL, fast),
      native("ffi_stream_add", stream, x, NULL, fast),
      native("ffi_stream_add", stream, x, c(1, 2, 3), fast),
      native("ffi_stream_expect", stream, matrix(0, 3, 1), fast),
      native("ffi_stream_evaluate", stream, x, NULL, NULL, fast),
      native("ffi_stream_evaluate", stream, x, matrix(0, 0, 1), NULL, fast),
      native("ffi_stream_close", x),
      native("ffi_stream_evaluate", closed, x, matrix(0, 0, 2), NULL, fast),
      native("ffi_stream_close", closed),
      native("ffi_score", of(x, NULL, L), matrix(0, 4, 1), FALSE, FALSE, NULL, control),
      native("ffi_score", of(x, NULL, NULL), NULL, FALSE, FALSE, NULL, control),
      native("ffi_debias", of(NULL, NULL, L), L, control),
      native("ffi_debias", of(x, NULL, L), NULL, control),
      native("ffi_sdkde_loo", of(x, NULL, L), NULL, NULL, NULL, control),
      native("ffi_sdkde_loo", of(x, NULL, L), L, list(factors = 1), NULL, control),
      native("ffi_sdkde_loo", of(x, NULL, L), L, known(dominant = 1), NULL, control),
      native("ffi_sdkde_loo", of(x, NULL, L), L, known(dominant = x[, 1]), NULL, control),
      native("ffi_sdkde_loo", of(x, NULL, L), L, NULL, list(points = x, first = 1, number = 1:2), control),
      native("ffi_score_means", of(NULL, NULL, L), control),
      native("ffi_dominants", list(x = x, log_v = x[, 1], at = x, least = 0), control),
      native("ffi_dominants", list(x = x, log_v = 0, at = x, least = x[, 1]), control),
      native("ffi_sdkde_loo", of(x, NULL, L), L, NULL, list(points = matrix(0, 3, 1), first = 1), control),
      native("ffi_sdkde_loo", of(x, NULL, L), L, NULL, list(points = x, weights = 1, first = 1), control),
      native("ffi_sdkde_loo", of(x, NULL, L), L, NULL, list(points = x), control),
      native("ffi_sdkde_loo", of(x, NULL, L), L, NULL, list(points = x, first = 0), control),
      native("ffi_pair_moments", x, 0L, control),
      native("ffi_pair_moments", pairs(), 4L, control),
      native("ffi_pair_moments", pairs(), NULL, control),
      native("ffi_pair_moments", pairs(factor = 1), 0L, control),
      native("ffi_pair_moments", pairs(L = diag(3)), 0L, control),
      native("ffi_pair_moments", pairs(weights = 1), 0L, control),
      native("ffi_pair_moments", pairs(floor = 1), 0L, control),
      native("ffi_pair_moments", pairs(wide = 1), 2L, control),
      native("ffi_pair_moments", pairs(wide = c(1, 1), factor = c(1, 1, 0)), 2L, control),
      native("ffi_pair_scales", x, 1, control),
      native("ffi_pair_scales", pairs(), numeric(), control),
      native("ffi_pair_scales", pairs(), rep(1, 65), control),
      native("ffi_pair_scales", pairs(), c(1, 0), control),
      native("ffi_pair_scales", pairs(), c(1, NaN), control),
      native("ffi_pair_scales", pairs(), 1L, control),
      native("ffi_pair_scales", pairs(factor = 1), 1, control),
      native("ffi_pair_scales", pairs(L = diag(3)), 1, control),
      native("ffi_level_sums", x, control),
      native("ffi_level_sums", cells(x = single_points(x)), control),
      native("ffi_level_sums", cells(ends = 2), control),
      native("ffi_level_sums", cells(ends = c(3, 3)), control),
      native("ffi_level_sums", cells(ends = numeric()), control),
      native("ffi_level_sums", cells(rows = 3), control),
      native("ffi_level_sums", cells(rows = NaN), control),
      native("ffi_level_sums", cells(log_weight = 0), control),
      native("ffi_level_sums", cells(factors = 1), control),
      native("ffi_level_sums", cells(shares = c(1, 1)), control),
      native("ffi_level_sums", cells(v = c(1, 1), log_floor = c(1, 1)), control),
      native("ffi_kernel_matrix", of(x, NULL, L), matrix(0, 3, 1), control),
      native("ffi_kernel_matrix", of(x, NULL, L), "x", control),
      native("ffi_kernel_matrix", of(x, NULL, L, "sinc"), NULL, control),
      native("ffi_ridge_path", of(x, NULL, diag(3)), x, 1, control),
      native("ffi_ridge_path", diag(3), matrix(0, 3, 0), 1, control),
      native("ffi_ridge_path", diag(3), x[, 1], 1, control),
      native("ffi_ridge_path", diag(3), x, numeric(), control),
      native("ffi_ridge_path", diag(3), x, 1L, control),
      native("ffi_ridge_path", diag(2), x, 1, control),
      native("ffi_ridge_path", x, x, 1, control),
      native("ffi_ridge_path", diag(3), x, L, control),
      native("ffi_preconditioner", of(x, NULL, diag(3)), NULL, NULL, FALSE, 0, control),
      native("ffi_preconditioner", x, NULL, NULL, FALSE, 0, control),
      native("ffi_preconditioner", matrix(1L), NULL, NULL, FALSE, 0, control),
      native("ffi_preconditioner", matrix(0, 0, 0), NULL, NULL, FALSE, 0, control),
      native("ffi_preconditioner", diag(2), 1, NULL, FALSE, 0, control),
      native("ffi_preconditioner", diag(2), NULL, 1, FALSE, 0, control),
      native("ffi_precondition", stream, NULL, 1, 1, NULL),
      native("ffi_precondition", preconditioner, 1, 1, 1, NULL),
      native("ffi_apply_factors", preconditioner, c(1, 2), 0L),
      native("ffi_apply_factors", preconditioner, matrix(0, 3, 1), 0L),
      native("ffi_apply_factors", preconditioner, matrix(1:2), 0L),
      native("ffi_apply_factors", preconditioner, matrix(0, 2, 1), 8L),
      native("ffi_apply_factors", preconditioner, matrix(0, 2, 1), NA_integer_),
      native("ffi_apply_factors", preconditioner, matrix(0, 2, 1), 0),
      native("ffi_apply_factors", preconditioner, matrix(0, 2, 1), 4L),
      native("ffi_factor", preconditioner, 4L, TRUE),
      native("ffi_factor", NULL, 0L, TRUE),
      native("ffi_free_preconditioner", stream),
      native("ffi_cdf", c(0, 1), NULL, 1, 1, FALSE, control),
      native("ffi_cdf", c(0, 1), c(1, 2, 3), 1, 1, FALSE, control),
      native("ffi_cdf", c("a", "b"), c(1, 2), 1, 1, FALSE, control),
      native("ffi_neighbour_distances", x, matrix(0, 2, 3), 1, control),
      native("ffi_neighbour_distances", x, NULL, 2, control),
      native("ffi_neighbour_distances", x, NULL, NA, control),
      native("ffi_neighbour_distances", x, x, 3, control),
      native("ffi_neighbour_distances", single_points(x), NULL, 1, control),
      native("ffi_neighbour_distances", x[, 1], NULL, 1, control),
      native("ffi_polygon_masses", x, matrix(0, 2, 1), NULL, FALSE, control),
      native("ffi_polygon_masses", matrix(0, 4, 1), matrix(0, 3, 1), NULL, FALSE, control),
      native("ffi_polygon_masses", matrix(0, 4, 1), matrix(0, 2, 1), c(1, 2), FALSE, control),
      native("ffi_polygon_masses", matrix(0, 4, 1), matrix(0, 2, 1), 1L, FALSE, control),
      native("ffi_derivatives", shape_job(y = matrix(0, 3, 1)), control),
      native("ffi_derivatives", shape_job(x = single_points(x)), control),
      native("ffi_derivatives", shape_job(log_weight = 0), control),
      native("ffi_derivatives", shape_job(factors = 1), control),
      native("ffi_derivatives", shape_job(log_scale = 0), control),
      native("ffi_derivatives", shape_job(factor = 1), control),
      native("ffi_rectangles", shape_job(lower = matrix(0, 3, 1)), control),
      native("ffi_rectangles", shape_job(upper = matrix(0, 3, 2)), control),
      native("ffi_rectangles", shape_job(weights = 1), control),
      native("ffi_rectangles", shape_job(factors = 1), control),
      native("ffi_rectangles", shape_job(correlation = 1), control),
      native("ffi_rectangles", shape_job(correlation = NaN), control),
      native("ffi_rectangles", shape_job(below = 1), control),
      native("ffi_rectangles", shape_job(below = 1, reach = 0), control),
      native("ffi_rectangles", shape_job(below = numeric(), reach = 1), control),
      native("ffi_cube_sums", shape_job(), control),
      native("ffi_cube_sums", shape_job(reach = c(1, 1)), control),
      native("ffi_cube_sums", shape_job(reach = c(1, 0), value = 1), control),
      native("ffi_cube_sums", shape_job(reach = 1, value = 1), control),
      native("ffi_cube_sums", shape_job(reach = c(1, 1), value = 1L), control),
      native("ffi_cube_sums", shape_job(reach = c(1, 1), value = numeric(40)), control),
      native("ffi_cube_sums", shape_job(reach = c(1, 1), value = 1, weights = 1), control),
      native("ffi_cube_sums", shape_job(reach = c(1, 1), value = 1, y = matrix(0, 3, 1)), control),
      native("ffi_conditional", given_job(at = matrix(0, 3, 1)), control),
      native("ffi_conditional", given_job(log_weights = 0), control),
      native("ffi_conditional", given_job(centres = 1L), control),
      native("ffi_conditional", given_job(widths = 1), control),
      native("ffi_conditional", given_job(y = matrix(0, 1, 3)), control),
      native("ffi_conditional", given_job(y = NULL), control),
      native("ffi_conditional", given_job(y = NULL, probabilities = matrix(0.5, 2, 1)), control)
    )
    vapply(calls, \(call) class(tryCatch(eval(call), error = identity))[1], "")
  }
  outcome <- in_child(hostile_calls)
  expect_identical(setdiff(outcome, c("simpleError", "flashkernel_error_internal")), character())
})

test_that("every routine is called in one place, and those that sum in the files of sums", {
  folder <- testthat::test_path("..", "..", "R")
  skip_if_not(file.exists(file.path(folder, "sum-doors.R")), "the sources are not at hand")
  files <- list.files(folder, full.names = TRUE)
  calls <- unlist(lapply(files, \(file) {
    code <- grep("^#", readLines(file), value = TRUE, invert = TRUE)
    found <- regmatches(code, gregexpr("\\bffi_[a-z_]+", code))
    stats::setNames(as.character(unlist(found)), rep(basename(file), length(unlist(found))))
  }))
  expect_identical(calls[duplicated(calls)], stats::setNames(character(), character()))
  sums <- c(
    "ffi_kernel_sum", "ffi_sign_sums", "ffi_normal_product", "ffi_log_sum", "ffi_score", "ffi_debias", "ffi_score_means", "ffi_sdkde_loo", "ffi_cdf",
    "ffi_resolve", "ffi_guess", "ffi_can", "ffi_hint"
  )
  expect_identical(unique(sub("-.*", "", names(calls)[calls %in% sums])), "sum")
})
