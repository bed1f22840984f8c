# The choice of centres: points that the user gives, or rows drawn by one of four methods. Rows of weight 0 are never
# drawn.

CENTER_METHODS <- c("uniform", "rpcholesky", "leverage", "kmeans++")

# list(points, index, merged): the centres, their indices among the rows (NULL if given as a matrix), and the number of
# duplicates that were removed. `centers`: a number, indices of rows, or points, as the user gave them. `lambda`:
# penalty of the fit, for leverage scores; without it they use a penalty from the spectrum.
choose_centers <- function(rows, centers, method, weights, L, kernel, run, lambda = NULL) {
  if (is.data.frame(centers) || length(dim(centers)) == 2) {
    return(merge_duplicates(list(points = center_points(rows, centers), index = NULL)))
  }
  if (!is_number(centers)) {
    stop_argument("centers", "must be a number, indices of rows, or a matrix: found ", describe(centers))
  }
  index <- if (length(centers) != 1) check_indices(centers, rows$n) else {
    under <- list(L = L, kernel = kernel, lambda = lambda)
    draw_rows(rows, check_count(centers, "centers"), method, weights, under, run)
  }
  merge_duplicates(list(points = rows_take(rows, index), index = index))
}

check_indices <- function(index, n) {
  if (length(index) == 0) stop_argument("centers", "must be at least one: found none")
  bad <- which(is.na(index) | index != round(index) | index < 1 | index > n)
  if (length(bad) > 0) {
    stop_argument(
      "centers", "must be whole numbers from 1 to ", whole(n), ", the rows of `x`: found ", format(index[bad[1]]),
      " at position ", bad[1]
    )
  }
  as.vector(index)
}

# ---- drawn ------------------------------------------------------------------------------------

# Returns indices of rows in ascending order. `under`: list(L, kernel, lambda).
draw_rows <- function(rows, number, method, weights, under, run) {
  positive <- positive_weights(weights)
  n <- if (is.null(positive)) rows$n else sum(positive)
  if (number > n) {
    warning("`centers` is ", whole(number), ", but `x` has ", whole(n), " rows", if (n < rows$n) " of positive weight",
      ": all of them are centres", call. = FALSE)
  }
  if (number >= n && is.null(positive)) return(seq_len(n))
  draw <- \(number) draw_places(rows, min(number, n), positive)
  if (method == "uniform" || number >= n) return(sort(draw(number)))
  name_stage(run, "Choosing centers")
  run$progress <- NULL
  size <- pool_size(method, number, rows$d)
  pool <- draw(size)
  points <- rows_take(rows, pool)
  found <- pool[switch(method,
    rpcholesky = random_pivots(points, min(number, MOST_PIVOTS), point_kernels(under$kernel, under$L, run)),
    leverage = by_leverage(points, number, point_kernels(under$kernel, under$L, run), under$lambda),
    `kmeans++` = far_apart(points, number, point_kernels(check_kernel("linear"), under$L, run))
  )]
  # a method may find fewer centres than `number`
  others <- setdiff(pool, found)
  lacking <- number - length(found)
  if (lacking > length(others)) others <- setdiff(draw(n), found)
  sort(c(found, others[sample.int(length(others), lacking)]))
}

# 1 for each row of positive weight and 0 for others, or NULL if all are positive.
positive_weights <- function(weights) {
  if (is.null(weights)) return(NULL)
  positive <- if (is_column(weights)) weights > 0 else as.numeric(weights > 0)
  if (sum(positive) < NROW(positive)) positive
}

# Methods draw centres from a pool of POOL_ROWS rows for each centre, with a minimum size. The factor of random pivots
# is in memory, limited to MOST_PIVOTS columns and POOL_BYTES; further centres are drawn at random.
POOL_ROWS <- 10
POOL_LEAST <- 10000
POOL_BYTES <- 2^28
MOST_PIVOTS <- 2896

pool_size <- function(method, number, d) {
  width <- if (method == "rpcholesky") min(number, MOST_PIVOTS) else d + PROPOSED
  max(number + 1, min(max(POOL_ROWS * number, POOL_LEAST), floor(POOL_BYTES / 8 / width)))
}

# Number of proposals at a time in rejection sampling.
PROPOSED <- 64

# Randomly pivoted Cholesky (Chen, Epperly, Tropp and Webber 2023): rows are drawn with probabilities proportional to
# the diagonal of the Schur complement of K after the previous pivots. Blocks of proposals use the diagonal before the
# block; rejection corrects for its decrease, so that the distribution is that of single draws (Epperly and others
# 2024).
random_pivots <- function(points, number, kernels) {
  n <- nrow(points)
  left <- kernels$diagonal(points)
  least <- 100 * .Machine$double.eps * max(left)
  factor <- matrix(0, n, number)
  chosen <- integer()
  while (length(chosen) < number && any(left > least)) {
    proposed <- sample.int(n, PROPOSED, replace = TRUE, prob = left)
    done <- seq_along(chosen)
    of <- points[proposed, , drop = FALSE]
    rest <- kernels$between(of, of) - tcrossprod(factor[proposed, done, drop = FALSE])
    accepted <- proposed[accept_pivots(rest, left[proposed], least)]
    accepted <- utils::head(accepted, number - length(chosen))
    if (length(accepted) == 0) {
      left[proposed] <- pmin(left[proposed], pmax(diag(rest), 0))
      next
    }
    new <- kernels$between(points, points[accepted, , drop = FALSE]) -
      tcrossprod(factor[, done, drop = FALSE], factor[accepted, done, drop = FALSE])
    root <- tryCatch(chol(new[accepted, , drop = FALSE]), error = \(e) NULL)
    # the kernel is not positive definite
    if (is.null(root)) break
    new <- new %*% backsolve(root, diag(length(accepted)))
    factor[, length(chosen) + seq_along(accepted)] <- new
    left <- pmax(left - rowSums(new^2), 0)
    left[accepted] <- 0
    chosen <- c(chosen, accepted)
  }
  chosen
}

# Returns which proposals are accepted as pivots. `rest`: Schur complement of K at the proposals; `before`: its diagonal
# that the proposals were drawn from.
accept_pivots <- function(rest, before, least) {
  u <- stats::runif(length(before))
  accepted <- integer()
  for (i in seq_along(before)) {
    if (rest[i, i] <= max(u[i] * before[i], least)) next
    accepted <- c(accepted, i)
    rest <- rest - tcrossprod(rest[, i] / sqrt(rest[i, i]))
  }
  accepted
}

# Draws by approximate ridge leverage scores, the diagonal of K (K + lambda n)^-1, computed twice: from rows drawn at
# random, and from rows drawn by the first scores (two steps of Rudi, Calandriello, Carratino and Rosasco 2018).
# `lambda` is increased until the landmarks resolve the scores.
by_leverage <- function(points, number, kernels, lambda) {
  n <- nrow(points)
  size <- min(number, MOST_LANDMARKS)
  diagonal <- kernels$diagonal(points)
  landmarks <- sample.int(n, size)
  share <- rep(size / n, size)
  for (step in 1:2) {
    of <- points[landmarks, , drop = FALSE]
    K <- kernels$between(of, of)
    if (step == 1) lambda <- max(lambda, resolved_lambda(K, size / 2))
    root <- chol(K + diag(lambda * n * share, size))
    scores <- diagonal - leverage_part(points, of, root, kernels)
    scores <- pmin(pmax(scores / (lambda * n), .Machine$double.eps), 1)
    landmarks <- draw_by(scores, size)
    share <- pmin(1, size * scores[landmarks] / sum(scores))
  }
  draw_by(scores, number)
}

MOST_LANDMARKS <- 1000

# The lambda at which the kernel matrix K of a sample has `freedom` effective degrees of freedom.
resolved_lambda <- function(K, freedom) {
  values <- eigen(K, symmetric = TRUE, only.values = TRUE)$values / nrow(K)
  # smaller eigenvalues are rounding errors
  least <- log(1e-12 * max(values))
  values <- pmax(values, 0)
  excess <- \(log_lambda) sum(values / (values + exp(log_lambda))) - freedom
  if (excess(least) <= 0) return(exp(least))
  exp(stats::uniroot(excess, c(least, log(max(values)) + 30), tol = 1e-3)$root)
}

# diag(K_nJ (R'R)^-1 K_Jn), in blocks of rows.
leverage_part <- function(points, of, root, kernels) {
  part <- \(piece) {
    K <- kernels$between(points[piece[1]:piece[2], , drop = FALSE], of)
    colSums(backsolve(root, t(K), transpose = TRUE)^2)
  }
  unlist(lapply(pieces_of(nrow(points), 4096), part))
}

# Initial centres of k-means++ (Arthur and Vassilvitskii 2007) in units of the bandwidth: rows are drawn with
# probabilities proportional to the squared distance to the nearest centre so far, with rejection as above.
far_apart <- function(points, number, products) {
  n <- nrow(points)
  if (is.matrix(points)) points <- points - rep(colMeans(points), each = n)
  size <- products$diagonal(points)
  distances <- function(at, of) {
    between <- products$between(points[at, , drop = FALSE], points[of, , drop = FALSE])
    pmax(size[at] + rep(size[of], each = length(at)) - 2 * between, 0)
  }
  all <- seq_len(n)
  chosen <- sample.int(n, 1)
  left <- as.vector(distances(all, chosen))
  left[chosen] <- 0
  while (length(chosen) < number && any(left > 0)) {
    proposed <- sample.int(n, PROPOSED, replace = TRUE, prob = left)
    between <- distances(proposed, proposed)
    now <- before <- left[proposed]
    u <- stats::runif(PROPOSED)
    accepted <- integer()
    for (i in seq_len(PROPOSED)) {
      if (proposed[i] %in% accepted || now[i] <= u[i] * before[i]) next
      accepted <- c(accepted, proposed[i])
      now <- pmin(now, between[, i])
    }
    accepted <- utils::head(accepted, number - length(chosen))
    to <- distances(all, accepted)
    for (k in seq_along(accepted)) left <- pmin(left, to[, k])
    left[accepted] <- 0
    chosen <- c(chosen, accepted)
  }
  chosen
}

# Functions for kernels between points, and for k(x, x) of each point.
point_kernels <- function(kernel, L, run) {
  between <- \(at, of) kernels_between(at, of, L, kernel, run)
  own <- function(points, piece) {
    points <- points[piece[1]:piece[2], , drop = FALSE]
    diag(between(points, points))
  }
  diagonal <- function(points) {
    n <- nrow(points)
    # kernels of u
    if (is_stationary(kernel)) rep(1, n) else unlist(lapply(pieces_of(n, 256), \(piece) own(points, piece)))
  }
  list(between = between, diagonal = diagonal)
}

# ---- points -----------------------------------------------------------------------------------

# Converts centres given as points to the form of centres taken from rows.
center_points <- function(rows, centers) {
  if (!is_sparse(centers)) centers <- check_points(centers, "centers", rows$d, rows$names, like = "`x`")
  if (!inherits(rows, "rows_sparse")) {
    return(if (is_sparse(centers)) center_points(rows, as.matrix(centers)) else centers)
  }
  sparse <- rows_take(sparse_rows(centers), seq_len(nrow(centers)))
  if (ncol(sparse) != rows$d) {
    stop_argument("centers", "must have ", rows$d, " columns, as `x`: found ", ncol(sparse))
  }
  sparse
}

# Removes centres that equal an earlier one.
merge_duplicates <- function(chosen) {
  again <- duplicated_rows(chosen$points)
  merged <- sum(again)
  if (merged > 0) {
    chosen$points <- chosen$points[!again, , drop = FALSE]
    chosen$index <- chosen$index[!again]
  }
  c(chosen, list(merged = merged))
}

# duplicated() for the rows of a matrix: after sorting by all columns equal rows are adjacent, the first one first.
# order() compares a column only if all earlier columns are equal.
duplicated_rows <- function(points) {
  if (is_sparse(points)) return(duplicated_sparse(points))
  again <- logical(nrow(points))
  if (nrow(points) < 2) return(again)
  order <- do.call(order, c(lapply(seq_len(ncol(points)), \(k) points[, k]), list(method = "radix")))
  same <- rep(TRUE, nrow(points) - 1)
  for (k in seq_len(ncol(points))) {
    same <- same & points[order[-1], k] == points[order[-length(order)], k]
    if (!any(same)) break
  }
  again[order[-1]] <- same
  again
}
