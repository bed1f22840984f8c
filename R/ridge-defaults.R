# Default kernel, bandwidth and penalty. A metric is learnt by ridge-portfolio.R and ridge-judge.R. Without one, bandwidth
# and penalty minimise the leave-one-out squared error of an exact fit to a sample of rows, first over one factor for all
# columns, then by some steps of gradient descent with a factor for each column.

DEFAULT_SAMPLE <- 400

# More steps would overfit the sample. On pol (26 columns) 5 steps reduce the error from 0.27 to 0.16, on parkinsons
# from 0.45 to 0.06.
DEFAULT_STEPS <- 5

# With fewer rows for each column, one factor is better: on gas (128 columns) the error is 0.18 instead of 0.20.
ROWS_BY_COLUMN <- 8

# From so many rows on the search is worth starting a GPU: 1.2 instead of 1.6 s at 3,000 rows, but 1.2 instead of 1.0 s at 1,000,
# beside 16 cores (bench/small-gpu.R). Fits of few rows stay on the CPU: on the GPU alone letter takes 8.2 instead of 7.1 s.
GPU_SEARCH_ROWS <- 1500

# list(kernel, bandwidth, lambda), given or chosen.
choose_defaults <- function(rows, response, weights, spec, run) {
  name_stage(run, "Choosing kernel and bandwidth")
  learns <- learns_metric(spec)
  if (learns) starts_gpu(run, rows$n >= GPU_SEARCH_ROWS && inherits(rows, "rows_dense"))
  number <- if (learns) rows_of_sample(rows$n) else DEFAULT_SAMPLE
  sample <- draw_sample(rows, response, weights, spec$offset, number)
  is_contest <- rows$n >= CONTEST_GROWTH * SAMPLE_ROWS
  adds_terms <- learns && rows$n <= SCORES_ROWS && spec$metric == "auto" && is.null(spec$kernel) &&
    inherits(rows, "rows_dense") && is.null(spec$asked$cluster)
  choices <- if (learns && has_portfolio(sample)) choose_from_portfolio(sample, spec, run, adds_terms)
  if (is.null(choices)) choices <- list(choose_plainly(first_of_sample(sample, DEFAULT_SAMPLE), spec, run))
  choices <- lapply(choices, \(choice) replace(choice, "lambda", squared_noise(choice, sample, spec, run) * sample$per_row))
  choice <- choices[[1]]
  if (learns && is_contest) {
    choice <- win_contest(choices, rows, replace(response, "y", list(response$family$working(response$y))), weights, spec, run)
  }
  if (adds_terms && takes_every_row(rows, spec)) {
    choice <- add_short_range(replace(choice, "noise", list(choice$lambda / sample$per_row)), sample, spec, run)
    choice$lambda <- choice$noise * sample$per_row
  }
  if (!is.null(spec$lambda)) {
    choice$lambda <- spec$lambda
  } else if (!spec$family$squared) {
    choice$lambda <- family_noise(folds_of(choice, sample, run), sample, run) * sample$per_row
    if (learns && is_contest) choice$lambda <- contest_lambda(choice, rows, response, weights, spec, run)
  }
  list(kernel = choice$kernel, bandwidth = name_bandwidth(choice$bandwidth, rows), lambda = choice$lambda)
}

# Are all rows centres?
takes_every_row <- function(rows, spec) isTRUE(spec$exact) || length(spec$centers) == 1 && spec$centers >= rows$n

# Without learning a metric, as for sparse rows, products of points and given bandwidths: list(kernel, bandwidth, noise,
# error).
choose_plainly <- function(sample, spec, run) {
  if (is.null(spec$kernel)) spec$kernel <- kernel_spec("gaussian")
  chosen <- choose_on_sample(sample, spec, run)
  if (is.null(chosen)) stop_argument("bandwidth", "could not be chosen from these data. Give a bandwidth.")
  chosen$kernel <- spec$kernel
  few <- ncol(sample$points) <= nrow(sample$y) / ROWS_BY_COLUMN
  if (is.null(spec$bandwidth) && is.matrix(sample$points) && few && sample$scale > 0) {
    chosen <- choose_by_column(sample, chosen, spec, run)
  }
  chosen
}

first_of_sample <- function(sample, rows) some_of_sample(sample, seq_len(min(nrow(sample$y), rows)))

some_of_sample <- function(sample, rows) {
  sample$points <- sample$points[rows, , drop = FALSE]
  sample$y <- sample$y[rows, , drop = FALSE]
  sample$own <- lapply(sample$own, \(x) if (!is.null(x)) x[rows, , drop = FALSE])
  sample
}

# Least noise relative to k(x, x). With less, the default number of conjugate gradient steps does not converge: on
# diamonds the error is 0.43 after 20 steps with the best noise of the sample, and 0.16 with 100 times as much noise.
LEAST_NOISE <- 1e-3

squared_noise <- function(choice, sample, spec, run) {
  if (isTRUE(spec$exact) || !is.null(choice$folds)) return(choice$noise)
  few <- first_of_sample(sample, DEFAULT_SAMPLE)
  K <- kernels_between(NULL, few$points, rows_factor(sample$rows, choice$bandwidth), choice$kernel, run)
  max(choice$noise, LEAST_NOISE * mean(diagonal(K)))
}

choose_by_column <- function(sample, chosen, spec, run, criterion = "loo", steps = DEFAULT_STEPS) {
  task <- list(
    points = sample$points, y = sample$y, kernel = chosen$kernel, criterion = criterion, base = chosen$bandwidth,
    together = FALSE, run = run
  )
  theta <- c(0 * task$base, log(chosen$noise))
  bounds <- search_bounds(theta, spec)
  watch <- watch_search(chosen$kernel, sample, task$base, Inf, run)
  theta <- descend(task, pmin(pmax(theta, bounds$low), bounds$high), bounds, steps, watch)
  replace(chosen, c("bandwidth", "noise"), list(task$base * exp(theta[-length(theta)]), exp(theta[length(theta)])))
}

name_bandwidth <- function(bandwidth, rows) {
  named <- is.null(dim(bandwidth)) && length(bandwidth) == length(rows$names)
  if (named) stats::setNames(bandwidth, rows$names) else bandwidth
}

# list(points, y, names, per_row, ...) of rows drawn at random, in a random order that does not depend on the units, so
# that the same folds judge candidates in all of them. y is centred, with unit variance over all columns. Rows are drawn
# with probabilities proportional to their weights, and have weight 1 in the sample. The noise n lambda of the Gaussian
# process is the same for all rows: `lambda` is the noise times `per_row`.
draw_sample <- function(rows, response, weights, offset, number) {
  offset <- check_offset(offset, rows$n, ncol(response$y))
  usable <- if (is.null(weights)) rows$n else sum(weights > 0)
  number <- min(number, usable)
  index <- draw_places(rows, number, weights)
  sorted <- index[order(index)]
  points <- rows_take(rows, sorted)
  if (is.matrix(points)) {
    keys <- told_apart(unitless_keys(points), as.vector(response$y[sorted, , drop = FALSE][, 1]))
    w <- if (!is.null(weights) && number == usable) as.vector(numbers_at(weights, sorted))
    index <- sorted[order(waiting_times(keys, draw_number(), w))]
  }
  points <- points[match(index, sorted), , drop = FALSE]
  own <- list(y = response$y[index, , drop = FALSE], offset = if (!is.null(offset)) offset[index, , drop = FALSE])
  y <- response$family$working(own$y)
  if (!is.null(offset)) y <- y - own$offset
  y <- y - rep(colMeans(y), each = number)
  # squares of y must not overflow
  if (any(y != 0)) y <- y / 2^floor(log2(max(abs(y))))
  scale <- sqrt(mean(y^2))
  list(
    points = points, y = if (scale > 0) y / scale else y, classes = response$classes,
    own = own, family = response$family, scale = scale,
    names = rows$names, per_row = (if (is.null(weights)) 1 else mean(weights)) / rows$n, rows = rows, index = index
  )
}

# list(bandwidth, noise, error), or NULL if no candidate bandwidth works.
choose_on_sample <- function(sample, spec, run) {
  few <- first_of_sample(sample, DEFAULT_SAMPLE)
  points <- few$points
  given <- if (!is.null(spec$lambda)) spec$lambda / sample$per_row
  bandwidths <- bandwidth_candidates(points, spec$bandwidth, spec$kernel)
  matrices <- lapply(bandwidths, \(bandwidth) {
    L <- if (is.null(spec$bandwidth) && is.matrix(points)) diagonal_matrix(bandwidth, ncol(points))
    if (is.null(L)) L <- rows_factor(sample$rows, bandwidth)
    kernels_between(NULL, points, L, spec$kernel, run)
  })
  usable <- vapply(matrices, \(K) all(is.finite(K)), NA)
  if (!any(usable)) return(NULL)
  found <- leave_one_out(matrices[usable], few$y, given, run)
  best <- which.min(vapply(found, `[[`, 0, "error"))
  if (is.finite(found[[best]]$error)) c(found[[best]], list(bandwidth = bandwidths[usable][[best]]))
}

# Multiples of the columns' spread: of standard deviations, and for heavy tails also of quartile ranges. Distances grow
# with the root of the number of columns, sums of absolute differences with the number.
bandwidth_candidates <- function(points, given, kernel) {
  if (!is.null(given)) return(list(given))
  is_absolute <- metric_of(kernel) == "absolute"
  if (inherits(points, "sparseMatrix")) {
    norm <- if (is_absolute) mean(Matrix::rowSums(abs(points))) else sqrt(mean(Matrix::rowSums(points^2)))
    return(as.list((if (norm > 0) norm else 1) * c(0.25, 0.5, 1, 2, 4)))
  }
  by_column <- \(f) vapply(seq_len(ncol(points)), \(k) f(points[, k]), 0)
  wide <- by_column(spread_of)
  narrow <- by_column(quartile_range) / 1.349
  # the quartile range is 0 if many values are equal
  narrow[narrow == 0] <- wide[narrow == 0]
  spreads <- list(fill_spread(wide))
  if (any(wide > 3 * narrow, na.rm = TRUE)) spreads <- c(spreads, list(fill_spread(narrow)))
  factors <- (if (is_absolute) ncol(points) else sqrt(ncol(points))) * c(0.2, 0.4, 0.7, 1, 1.5, 2.5, 4)
  unlist(lapply(spreads, \(spread) lapply(factors, \(factor) factor * spread)), recursive = FALSE)
}

# stats::IQR() in a tenth of its time.
quartile_range <- function(x) {
  x <- x[order(x)]
  at <- 1 + (length(x) - 1) * c(0.25, 0.75)
  low <- floor(at)
  part <- at - low
  ends <- x[low]
  between <- part > 0
  ends[between] <- ((1 - part) * ends + part * x[ceiling(at)])[between]
  ends[2] - ends[1]
}

# The standard deviation, without overflow of squares.
spread_of <- function(x) {
  found <- stats::sd(x)
  top <- max(abs(x))
  if (is.na(found) || is.finite(found) && found > 0 || top == 0) found else top * stats::sd(x / top)
}

# Constant columns get the mean spread of the others: they do not matter here.
fill_spread <- function(spread) {
  bad <- !is.finite(spread) | spread == 0
  spread[bad] <- if (all(bad)) 1 else mean(spread[!bad])
  spread
}

# For each kernel matrix list(error, noise) of the noise s of least leave-one-out error of fits with K + s I, or of the given one.
leave_one_out <- function(matrices, y, given, run) {
  noises <- lapply(matrices, \(K) {
    # the largest sum of a row is at least the largest eigenvalue; less noise leaves K singular to rounding
    tried <- max(rowSums(abs(K))) * NOISES_TRIED
    if (is.null(given)) tried else max(given, tried[1])
  })
  paths <- ridge_paths(Map(\(K, noises) list(K = K, y = y, noises = noises, with_own = TRUE), matrices, noises), run)
  Map(\(path, noises) {
    errors <- colMeans(squares_left_out(path))
    at <- which.min(errors)
    if (length(at) == 0) list(error = Inf, noise = NA) else list(error = errors[at], noise = noises[at])
  }, paths, noises)
}

# Candidate noises relative to that sum.
NOISES_TRIED <- 10^seq(-9, 0, by = 0.5)

# ---- other families ---------------------------------------------------------------------------

# Returns the n lambda of a loss other than the square: the largest whose loss at rows held out, each class against all
# others, is within LARGER standard errors of the least. A fold is a list(K, at, kept, out): the kernel matrix of the rows
# `kept`, and the kernels of the rows that are held out at these.
family_noise <- function(folds, sample, run) {
  family <- sample$family
  noises <- mean(diag(folds[[1]]$K)) * family$curvature(sample$own$y) * 10^seq(1.5, -4, by = -0.5)
  losses <- do.call(rbind, lapply(folds, losses_left_out, sample$own, family, noises, run))
  best <- which.min(colMeans(losses))
  above <- losses[, seq_len(best), drop = FALSE] - losses[, best]
  near <- colMeans(above) <= LARGER * apply(above, 2, stats::sd) / sqrt(nrow(above))
  noises[which(replace(near, best, TRUE))[1]]
}
LARGER <- 0.5

# The folds in which the penalty of a choice is compared: those that judged the choice; without them rows of the sample
# that were held out when it was made; in a smaller sample three parts.
folds_of <- function(choice, sample, run) {
  most <- rows_of_fold(ncol(sample$y))
  if (!is.null(choice$folds)) return(lapply(choice$folds, learnt_fold, most, run))
  n <- nrow(sample$y)
  L <- rows_factor(sample$rows, choice$bandwidth)
  kept <- seq_len(min(n, most))
  z <- sample$points[kept, , drop = FALSE]
  K <- kernels_between(NULL, z, L, choice$kernel, run)
  if (n <= SAMPLE_ROWS) return(thirds_of(K))
  out <- (SAMPLE_ROWS + 1):n
  at <- kernels_between(sample$points[out, , drop = FALSE], z, L, choice$kernel, run)
  list(list(K = K, at = at, kept = kept, out = out))
}

# Number of rows of a fit to a fold: for one or two outputs FAMILY_ROWS; factorisations of all outputs take as long.
FAMILY_ROWS <- 1000
rows_of_fold <- function(outputs) floor(FAMILY_ROWS * min(1, (2 / outputs)^(1 / 3)))

# Three folds of rows with the kernel matrix K. Multiples of the golden section assign them: deterministic, without a
# period. A single row is held out from itself.
thirds_of <- function(K) {
  if (nrow(K) == 1) return(list(list(K = K, at = K, kept = 1, out = 1)))
  third <- floor(3 * ((seq_len(nrow(K)) * (sqrt(5) - 1) / 2) %% 1))
  lapply(unique(third), \(part) {
    kept <- which(third != part)
    out <- which(third == part)
    list(K = K[kept, kept, drop = FALSE], at = K[out, kept, drop = FALSE], kept = kept, out = out)
  })
}

# A fold of judge_trail(), whose metric was learnt without the rows that are held out, with at most `most` rows.
learnt_fold <- function(fold, most, run) {
  kept <- seq_len(min(length(fold$kept), most))
  z <- fold$z[kept, , drop = FALSE]
  of <- metric_sources(z, fold$kernel)
  list(K = kernel_matrix_of(of, NULL, run), at = kernel_matrix_of(of, fold$at, run), kept = fold$kept[kept], out = fold$out)
}

# The loss at the rows of a fold that are held out (rows) for each of `noises` (columns), of fits to the others.
losses_left_out <- function(fold, own, family, noises, run) {
  columns <- lapply(seq_len(ncol(own$y)), \(k) {
    own <- lapply(own, \(x) if (!is.null(x)) x[, k, drop = FALSE])
    family <- family_of_column(family, own$y, k)
    list(family = family, base = constant_link(family, own, fold$kept, run))
  })
  base <- do.call(cbind, lapply(columns, `[[`, "base"))
  at <- \(rows) list(y = own$y[rows, , drop = FALSE], base = base[rows, , drop = FALSE])
  newton_losses(fold, lapply(columns, `[[`, "family"), at(fold$kept), at(fold$out), noises, run)
}

# The family with a loss for column k alone: classes are one against all others, and what a fit would learn of the loss
# is set in proportion to the spread of the response.
family_of_column <- function(family, y, k) {
  spread <- mean(abs(y - stats::median(y)))
  if (!is.null(family$levels)) family[c("loss", "levels")] <- list(c(family$loss[1], spread / 10, family$levels[k]), family$levels[k])
  if (anyNA(family$loss)) family$loss[2] <- 1.345 * spread
  family
}

# The link of the model without kernels that is fitted to rows `train`, at all rows. Of classes, no share is 0.
constant_link <- function(family, own, train, run) {
  if (family$of_classes) return(0 * own$y + stats::qlogis((sum(own$y[train, ] > 0) + 0.5) / (length(train) + 1)))
  offset <- if (is.null(own$offset)) 0 * own$y else own$offset
  offset + null_link(family, own$y[train, , drop = FALSE], NULL, offset[train, , drop = FALSE], run)
}

# The loss at rows held out, the sum over columns with a family each, by Newton's method for decreasing noises, each from
# the coefficients a of the previous one, until that of a column exceeds its least loss by a tenth. With curvatures W at the
# link f = base + K a, a step solves (K + s / W) a = K a - slope / W. All columns take their steps together.
newton_losses <- function(fold, families, known, held, noises, run) {
  K <- fold$K
  own <- lapply(families, `[[`, "loss")
  point <- list(a = 0 * known$y, link = 0 * known$y)
  losses <- matrix(Inf, length(fold$out), length(noises))
  least <- Inf
  for (i in seq_along(noises)) {
    moving <- seq_along(families)
    for (step in 1:20) {
      part <- \(name, f) {
        loss_by_column(name, own[moving], known$base[, moving, drop = FALSE] + f, known$y[, moving, drop = FALSE], run)
      }
      last <- lapply(point, \(x) x[, moving, drop = FALSE])
      change <- newton_change(K, last, part, noises[i], run)
      if (is.null(change)) return(losses)
      found <- search_lines(last, list(a = change, link = matrix_product(K, change, run)), part, noises[i])
      for (name in names(point)) point[[name]][, moving] <- found[[name]]
      far <- apply(abs(found$link - last$link), 2, max) >= 1e-3 * (1 + apply(abs(last$link), 2, max))
      moving <- moving[far]
      if (length(moving) == 0) break
    }
    each <- loss_by_column("value", lapply(families, final_loss), held$base + matrix_product(fold$at, point$a, run), held$y, run)
    losses[, i] <- rowSums(each)
    least <- pmin(least, colSums(each))
    if (!isTRUE(all(colSums(each) <= 1.1 * least))) break
  }
  losses
}

# row_loss() of columns with a loss each. Columns with the same one are one column.
loss_by_column <- function(part, losses, f, y, run) {
  kind <- match(losses, unique(losses))
  for (k in unique(kind)) {
    f[, kind == k] <- row_loss(part, losses[[match(k, kind)]], matrix(f[, kind == k]), matrix(y[, kind == k]), run)
  }
  f
}

# Steps of each column from `point` along `change`, halved until the objective does not grow.
search_lines <- function(point, change, part, s) {
  objective <- \(point) colSums(part("value", point$link)) + s * colSums(point$a * point$link) / 2
  least <- objective(point) * (1 + 1e-9)
  by <- rep(1, ncol(point$a))
  repeat {
    to <- Map(\(x, step) x + step * rep(by, each = nrow(x)), point, change)
    worse <- !(objective(to) <= least)
    worse <- (is.na(worse) | worse) & by > 1e-9
    if (!any(worse)) return(to)
    by[worse] <- by[worse] / 2
  }
}

# The change of the coefficients, or NULL if a matrix has no Cholesky factorisation. Curvatures have a least value, since
# s / W must be finite; the step is still one of descent.
newton_change <- function(K, point, part, s, run) {
  W <- pmax(part("curvature", point$link), 1e-12)
  goal <- point$link - part("slope", point$link) / W
  a <- ridge_path(K, array(goal, c(nrow(K), 1, ncol(goal))), s / W, run, with_own = FALSE)$coefficients
  if (!anyNA(a)) a[, 1, ] - point$a
}
