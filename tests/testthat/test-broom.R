# Fits for the hands: data frames, regions as polygons, and what other packages call a density.

# sum w_i f_i^-d K_H((y - x_i) / f_i) / sum w_i, written out, at each row of `at`.
written_density <- function(x, at, H, w = rep(1, nrow(x)), f = rep(1, nrow(x))) {
  apply(at, 1, \(y) {
    k <- vapply(seq_len(nrow(x)), \(i) {
      u <- (y - x[i, ]) / f[i]
      w[i] * f[i]^-ncol(x) * exp(-sum(u * solve(H, u)) / 2) / sqrt(det(2 * pi * H))
    }, 0)
    sum(k) / sum(w)
  })
}

# Positive where the ring, whose first two columns are places, goes counterclockwise.
written_area <- function(ring) {
  n <- nrow(ring)
  sum(ring[-n, 1] * ring[-1, 2] - ring[-1, 1] * ring[-n, 2]) / 2
}

case <- local({
  set.seed(4)
  x <- cbind(a = stats::rnorm(30), b = stats::rnorm(30, 2))
  list(x = x, H = matrix(c(0.3, 0.1, 0.1, 0.2), 2), w = stats::runif(30), f = exp(stats::rnorm(30) / 4))
})

# ---- tidiers

test_that("tidy() has the numbers of the bandwidth, or the grid", {
  skip_if_not_installed("generics")
  fit <- flash_kde(case$x, "sdkde", bandwidth = case$H, debias = debiasing(bandwidth = c(0.4, 0.5)))
  terms <- generics::tidy(fit)
  expect_identical(terms$term, c("a", "b", "a:b"))
  expect_identical(terms$type, c("sd", "sd", "cor"))
  expect_equal(terms$estimate, c(sqrt(0.3), sqrt(0.2), 0.1 / sqrt(0.06)))
  expect_equal(terms$score, c(0.4, 0.5, 0))
  expect_identical(generics::tidy(flash_kde(case$x, "kde", bandwidth = c(0.4, 0.5)))$estimate, c(0.4, 0.5))
  expect_equal(as.data.frame(generics::tidy(fit, what = "grid", n = 7)), as.data.frame(fit, grid = 7))
  expect_argument_error(generics::tidy(fit, n = 7), "n")
  expect_argument_error(generics::tidy(fit, what = "curve"), "what")
})

test_that("glance() is one row, with leave-one-out likelihoods where the fit has them", {
  skip_if_not_installed("generics")
  fit <- flash_kde(case$x, "kde", bandwidth = case$H, weights = case$w, adaptive = case$f)
  row <- generics::glance(fit)
  loo <- vapply(1:30, \(i) {
    log(written_density(case$x[-i, ], case$x[i, , drop = FALSE], case$H, case$w[-i], case$f[-i]))
  }, 0)
  expect_equal(row$logLik, sum(30 * case$w / sum(case$w) * loo), tolerance = 1e-6)
  expect_equal(row$AIC, -2 * row$logLik)
  expect_equal(row$n.effective, sum(case$w)^2 / sum(case$w^2))
  expect_identical(row[c("nobs", "d")], row[0, c("nobs", "d")][1, ] |> replace(1:2, list(30L, 2L)))
  expect_identical(generics::glance(fit, loo = FALSE)$logLik, NA_real_)
  steps <- flash_kde(case$x, debias = debiasing(steps = 2), bandwidth = 0.5)
  expect_identical(generics::glance(steps)$logLik, NA_real_)
  expect_identical(generics::glance(steps, loo = TRUE)$logLik, as.numeric(logLik(steps)))
})

test_that("augment() adds the estimate to the rows of the fit and to others", {
  skip_if_not_installed("generics")
  fit <- flash_kde(case$x, "kde", bandwidth = case$H, adaptive = FALSE)
  own <- generics::augment(fit, se.fit = TRUE, prob = c(0.5, 0.9))
  expect_equal(own$.density, written_density(case$x, case$x, case$H))
  expect_equal(own$.log_density, log(own$.density))
  without <- vapply(1:30, \(i) written_density(case$x[-i, ], case$x[i, , drop = FALSE], case$H), 0)
  expect_equal(own$.loo_log_density, log(without))
  expect_equal(own$.se.fit, predict(fit, se.fit = TRUE)$se.fit)
  levels <- hdr_level(fit, c(0.5, 0.9))
  want <- ifelse(own$.density >= levels[[1]], "50%", ifelse(own$.density >= levels[[2]], "90%", ">90%"))
  expect_identical(as.character(own$.hdr), want)
  expect_identical(levels(own$.hdr), c("50%", "90%", ">90%"))
  expect_identical(generics::augment(fit, prob = c(0.9, 0.5, 0.9))$.hdr, own$.hdr)

  new <- data.frame(id = c("p", "q", "r"), b = c(1, NA, 1e3), a = 0)
  added <- generics::augment(fit, newdata = new)
  expect_identical(added$id, new$id)
  expect_equal(added$.density[1], written_density(case$x, cbind(0, 1), case$H))
  expect_identical(is.na(added$.density), c(FALSE, TRUE, FALSE))
  expect_equal(added$.log_density, predict(fit, new[c("a", "b")], type = "log_density"))
  expect_false(".loo_log_density" %in% names(added))
  expect_argument_error(generics::augment(fit, newdata = new, loo = TRUE), "loo")
  expect_argument_error(generics::augment(fit, data = new), "data")
})

test_that("augment() has the rows that na.action leaves, and takes formulas", {
  skip_if_not_installed("generics")
  for (action in list(na.omit, na.exclude)) {
    fit <- flash_kde(~ Ozone + log(Wind), airquality, bandwidth = c(10, 0.2), na.action = action)
    rows <- generics::augment(fit, airquality)
    kept <- if (identical(action, na.omit)) !is.na(airquality$Ozone) else rep(TRUE, 153)
    expect_identical(rows$Temp, airquality$Temp[kept])
    expect_equal(rows$.density, unname(predict(fit)))
    expect_equal(generics::augment(fit, newdata = airquality[1, ])$.density, predict(fit, airquality[1, ]))
    expect_identical(nrow(generics::augment(fit)), 116L)
  }
})

test_that("signed estimates keep their sign", {
  skip_if_not_installed("generics")
  fit <- flash_kde(faithful, "laplace", bandwidth = c(0.3, 4))
  at <- data.frame(eruptions = 1, waiting = 60)
  expect_warning(row <- generics::augment(fit, newdata = at), class = "flashkernel_warning_negative")
  expect_lt(row$.density, 0)
  expect_identical(row$.density, predict(fit, at))
  expect_identical(row$.log_density, NaN)
})

# ---- grids and regions

test_that("as.data.frame(grid = ) is the estimate on an even grid", {
  fit <- flash_kde(case$x, "kde", bandwidth = case$H, weights = case$w, adaptive = case$f)
  frame <- as.data.frame(fit, grid = 6)
  expect_identical(dim(frame), c(36L, 4L))
  expect_equal(frame$density, written_density(case$x, as.matrix(frame[1:2]), case$H, case$w, case$f))
  expect_equal(frame$log_density, log(frame$density))
  expect_equal(diff(frame$a[1:6]), rep(diff(frame$a[1:2]), 5))
  expect_identical(frame$b[1:6], rep(frame$b[1], 6))
  expect_lt(min(frame$a), min(case$x[, 1] - 2.9 * sqrt(0.3) * case$f))
  far <- flash_kde(case$x + 1e9, "kde", bandwidth = case$H, adaptive = FALSE)
  near <- flash_kde(case$x, "kde", bandwidth = case$H, adaptive = FALSE)
  expect_equal(as.data.frame(far, grid = 6)$density, as.data.frame(near, grid = 6)$density, tolerance = 1e-5)
  expect_identical(nrow(as.data.frame(flash_kde(iris[1:3], bandwidth = 0.3), grid = 4)), 64L)
  four <- flash_kde(iris[1:4], bandwidth = 0.3)
  expect_error(as.data.frame(four, grid = 4), class = "flashkernel_error_unsupported")
  expect_argument_error(as.data.frame(fit, grid = 1), "grid")
  expect_argument_error(as.data.frame(fit, grid = 3, row.names = 1:4), "row.names")
})

test_that("intervals end where the density is at the level, and hold their probability", {
  for (fit in list(flash_kde(faithful$eruptions), flash_kde(faithful$eruptions, "kde", adaptive = TRUE))) {
    regions <- hdr_regions(fit, c(0.5, 0.95))
    expect_identical(unique(regions$prob), c(0.95, 0.5))
    ends <- predict(fit, c(regions$from, regions$to))
    levels <- hdr_level(fit, c(0.95, 0.5))[match(regions$prob, c(0.95, 0.5))]
    expect_equal(ends, rep(unname(levels), 2), tolerance = 1e-6)
    mass <- tapply(kde_cdf(fit, regions$to) - kde_cdf(fit, regions$from), regions$prob, sum)
    expect_lt(max(abs(mass - c(0.5, 0.95))), 0.02)
  }
  one <- hdr_regions(flash_kde(c(0, 0.001), "kde", bandwidth = 1, adaptive = FALSE), 0.99999)
  expect_equal(c(one$from, one$to), 0.0005 + stats::qnorm(c(5e-6, 1 - 5e-6)), tolerance = 0.01)
})

test_that("polygons enclose what is above the level, holes left out", {
  # a ring of points around an empty middle, and an island in it
  angle <- seq(0, 2 * pi, length.out = 61)[-1]
  x <- cbind(u = c(4 * cos(angle), 0, 0), v = c(4 * sin(angle), 0, 0.1))
  fit <- flash_kde(x, "kde", bandwidth = 0.5, adaptive = FALSE)
  regions <- hdr_regions(fit, c(0.6, 0.97))
  rings <- split(regions, list(regions$group, regions$subgroup), drop = TRUE)
  # the larger region: an annulus with a hole, and the island
  expect_identical(max(regions$subgroup[regions$prob == 0.97]), 2L)
  expect_identical(length(unique(regions$group[regions$prob == 0.97])), 2L)
  for (ring in rings) {
    expect_identical(unlist(ring[1, 1:2]), unlist(ring[nrow(ring), 1:2]))
    expect_identical(written_area(ring) > 0, ring$subgroup[1] == 1L)
    expect_lt(max(abs(predict(fit, as.matrix(ring[1:2])) / ring$level - 1)), 0.02)
  }
  total <- sum(vapply(Filter(\(ring) ring$prob[1] == 0.97, rings), written_area, 0))
  grid <- as.data.frame(fit, grid = 400)
  cell <- diff(grid$u[1:2]) * diff(grid$v[c(1, 401)])
  expect_equal(total, cell * sum(grid$density >= hdr_level(fit, 0.97)), tolerance = 0.01)
  named <- flash_kde(stats::setNames(faithful, c("prob", "group")), bandwidth = 1)
  expect_identical(names(hdr_regions(named))[3:5], c("prob.1", "level", "group.1"))
})

test_that("regions far from the origin are those of the same data near it", {
  near <- hdr_regions(flash_kde(faithful, "kde", bandwidth = c(0.3, 4), adaptive = FALSE))
  far <- hdr_regions(flash_kde(faithful + 1e12, "kde", bandwidth = c(0.3, 4), adaptive = FALSE))
  expect_identical(unique(far$group), unique(near$group))
  for (k in 1:2) {
    expect_equal(unname(vapply(split(far[[k]] - 1e12, far$group), range, numeric(2))),
      unname(vapply(split(near[[k]], near$group), range, numeric(2))), tolerance = 0.01)
  }
})

test_that("what has no regions is refused in words", {
  three <- flash_kde(iris[1:3], bandwidth = 0.3)
  expect_error(hdr_regions(three), "marginal", class = "flashkernel_error_unsupported")
  expect_error(hdr_regions(flash_kde(faithful, "kde", adaptive = "balloon")), class = "flashkernel_error_unsupported")
  expect_argument_error(hdr_regions(flash_kde(faithful, bandwidth = 1), prob = 1), "prob")
  # between the nodes
  expect_argument_error(hdr_regions(flash_kde(faithful, bandwidth = 1), c(1e-6, 0.5)), "prob")
  expect_argument_error(hdr_regions(flash_kde(faithful$waiting, bandwidth = 1), 1e-9), "prob")
  expect_argument_error(hdr_regions(faithful), "object")
})

test_that("regions become simple features", {
  skip_if_not_installed("sf")
  regions <- hdr_regions(flash_kde(faithful, bandwidth = c(0.2, 3)), c(0.3, 0.95))
  shapes <- sf::st_as_sf(regions, crs = 4326)
  expect_identical(shapes$prob, c(0.95, 0.3))
  expect_true(all(sf::st_is_valid(sf::st_set_crs(shapes, NA))))
  expect_identical(sf::st_crs(shapes)$epsg, 4326L)
  own <- regions[regions$prob == 0.3, ]
  areas <- vapply(split(own, list(own$group, own$subgroup), drop = TRUE), written_area, 0)
  expect_equal(as.numeric(sf::st_area(sf::st_set_crs(shapes, NA)))[2], sum(areas))
  expect_argument_error(sf::st_as_sf(hdr_regions(flash_kde(faithful$waiting))), "x")
  fit <- flash_kde(stats::setNames(faithful, c("prob", "subgroup")), bandwidth = c(0.2, 3))
  expect_identical(sf::st_as_sf(hdr_regions(fit, c(0.3, 0.95)), crs = 4326), shapes)
})

# ---- conversions

test_that("as_density() is what density() returns, with our values", {
  for (estimator in c("kde", "sdkde", "laplace")) {
    fit <- flash_kde(faithful$waiting, estimator, bandwidth = 2)
    made <- as_density(fit, n = 100)
    expect_s3_class(made, "density")
    expect_identical(made$y, predict(fit, made$x))
    expect_identical(made$bw, 2)
    expect_true(all(names(stats::density(1:5)) %in% names(made)))
    expect_output(print(made), "272 obs")
    with_null_device(plot(made))
  }
  expect_argument_error(as_density(flash_kde(faithful, bandwidth = 1)), "object")
  expect_argument_error(as_density(faithful), "object")
})

test_that("objects of class density become fits of the same estimate", {
  theirs <- stats::density(faithful$waiting, bw = 3, n = 2048)
  fit <- as_flash_kde(theirs, faithful$waiting)
  expect_equal(predict(fit, c(50, 70)), colMeans(stats::dnorm(outer(faithful$waiting, c(50, 70), "-"), sd = 3)))
  expect_equal(predict(fit, theirs$x), theirs$y, tolerance = 1e-3)
  expect_argument_error(as_flash_kde(theirs), "x")
  expect_argument_error(as_flash_kde(theirs, 1:5), "x")
  expect_silent(compact <- as_flash_kde(stats::density(faithful$waiting, bw = 3, kernel = "rect"), faithful$waiting))
  near <- \(y) mean(abs(faithful$waiting - y) < 3 * sqrt(3)) / (6 * sqrt(3))
  expect_equal(predict(compact, c(50.1, 70.1)), c(near(50.1), near(70.1)))
  expect_error(
    as_flash_kde(stats::density(faithful$waiting, kernel = "cosine"), faithful$waiting),
    class = "flashkernel_error_unsupported"
  )
  w <- rank(faithful$waiting) / sum(rank(faithful$waiting))
  theirs <- suppressWarnings(stats::density(faithful$waiting, bw = 3, weights = w))
  expect_silent(fit <- as_flash_kde(theirs, faithful$waiting, weights = w))
  expect_equal(predict(fit, 60), sum(w * stats::dnorm(60, faithful$waiting, 3)))
  expect_warning(as_flash_kde(theirs, faithful$waiting), "not those of its points")
  expect_argument_error(as_flash_kde(faithful), "object")
})

test_that("objects of ks become fits and fits objects of ks, with the same values", {
  skip_if_not_installed("ks")
  loadNamespace("ks")
  theirs <- ks::kde(case$x, H = case$H, w = 30 * case$w / sum(case$w), binned = FALSE, gridsize = c(20, 20))
  fit <- as_flash_kde(theirs)
  at <- as.matrix(expand.grid(theirs$eval.points))
  # ks leaves out what is beyond 3.7 sds of a kernel
  expect_equal(as.vector(theirs$estimate), written_density(case$x, at, case$H, case$w), tolerance = 1e-3)
  expect_equal(predict(fit, unname(at)), written_density(case$x, at, case$H, case$w))
  expect_identical(fit$names, c("a", "b"))

  for (data in list(case$x[, 1], case$x, cbind(case$x, c = case$x[, 1]^2))) {
    fit <- flash_kde(data, "kde", bandwidth = 0.5, weights = case$w, adaptive = FALSE)
    made <- as_ks(fit, n = 31)
    node <- if (is.list(made$eval.points)) vapply(made$eval.points, `[`, 0, 16) else made$eval.points[16]
    there <- if (fit$d == 1) made$estimate[16] else made$estimate[matrix(16, 1, fit$d)]
    expect_equal(there, predict(fit, matrix(node, 1)))
    expect_true(all(setdiff(names(ks::kde(as.matrix(data))), "h") %in% names(made)))
    # one of the packages that ks loads warns where there is no screen
    if (fit$d < 3) suppressWarnings(with_null_device(plot(made)))
    levels <- hdr_level(fit, c(0.25, 0.5))
    expect_equal(made$cont[c("75%", "50%")], levels, ignore_attr = TRUE)
    back <- as_flash_kde(made)
    expect_equal(predict(back), predict(fit))
  }
  expect_equal(ks::contourLevels(made, cont = 50), hdr_level(fit, 0.5), tolerance = 0.3, ignore_attr = TRUE)
  expect_warning(as_flash_kde(ks::kde(exp(case$x[, 1]), positive = TRUE)), "not those of its points")
  expect_error(as_ks(flash_kde(iris[1:4], bandwidth = 0.3)), class = "flashkernel_error_unsupported")
})

test_that("fits that were saved serve, too", {
  fit <- unserialize(serialize(flash_kde(case$x, "kde", adaptive = TRUE), NULL))
  expect_s3_class(hdr_regions(fit), "flash_hdr")
  expect_s3_class(as_ks(fit, n = 11), "kde")
  expect_equal(as.data.frame(fit, grid = 3)$density, predict(fit, as.matrix(as.data.frame(fit, grid = 3)[1:2])))
})
