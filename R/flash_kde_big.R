# Fits whose points are a big.matrix, which need not fit into memory: predictions read it a piece at a time. What
# such a fit has no method for asks check_in_memory().

#' @rdname flash_kde
#' @method flash_kde big.matrix
#' @export
flash_kde.big.matrix <- function(x, estimator = c("kde", "laplace"), bandwidth, weights = NULL,
                                 backend = c("auto", "cpu", "cuda"),
                                 precision = c("auto", "double", "single", "fast"), threads = NULL,
                                 devices = NULL, tol = 0, tol_type = c("global", "pointwise"), ...) {
  check_fit_dots(...)
  x <- check_big(x, "x")
  if (identical(estimator, "sdkde")) {
    stop_argument("estimator", "must be \"kde\" or \"laplace\" where `x` is a big.matrix: found \"sdkde\"")
  }
  estimator <- check_choice(estimator, c("kde", "laplace"), "estimator")
  control <- fk_control(backend, precision, threads, devices, tol = tol, tol_type = tol_type)
  resolved <- resolve_control(control, nrow(x), nrow(x), ncol(x))
  weights <- common_scale(check_weights(weights, nrow(x)))
  if (missing(bandwidth) || is.null(bandwidth) || is.character(bandwidth)) {
    stop_argument("bandwidth", "must be given where `x` is a big.matrix, such as that of bw_lcv() for some of its rows")
  }
  main <- want_bandwidth(bandwidth, x, weights, estimator, "bandwidth")
  for (piece in big_pieces(x)) read_rows(x, piece, "x", ncol(x), colnames(x)) # are all numbers finite?
  new_fit(generic_call(match.call()), estimator, x, weights, main, control, threads, devices, resolved)
}

check_in_memory <- function(object, arg = "object") {
  if (is_big(object$x)) {
    stop_argument(
      arg, "has its points in a big.matrix, which only predict(), logLik(), simulate() and diagnostics() read a ",
      "piece at a time"
    )
  }
  invisible(object)
}

big_pieces <- function(x) row_pieces(x, chunk_size(NULL, ncol(x)))

# Numbers of the points that are in memory at a time.
numbers_held <- function(object) {
  # not dim(): bigmemory looks there where a detached matrix has nothing
  if (is_big(object$x)) min(as.double(object$n) * object$d, 2 * chunk_bytes() / 8) else length(object$x)
}

# ---- sums -------------------------------------------------------------------------------------

# As ffi_log_sum gives them: log_abs, negative, stats.
log_sum <- function(points, at, weights, L, factor, loo, control, plan = NULL) {
  if (!is_big(points)) return(.Call(ffi_log_sum, sum_sources(points, weights, L, plan = plan), at, factor, loo, control))
  by_grid <- !loo && identical(factor, PLAIN_FACTOR) && control$tol > 0 && control$tol_type == "global"
  if (by_grid) return(log_of_sums(points, at, weights, L, control))
  sum_parts(points, at, weights, control, \(x, y, w, own, control) {
    .Call(ffi_log_sum, sum_sources(x, w, L), y, factor, loo && own, control)
  })
}

# As ffi_score gives them.
score_sum <- function(points, at, weights, L, laplace, loo, names, control) {
  if (!is_big(points)) return(.Call(ffi_score, sum_sources(points, weights, L), at, laplace, loo, names, control)$score)
  factor <- estimator_factor(if (laplace) "laplace" else "kde", ncol(points))
  sum_parts(points, at, weights, control, \(x, y, w, own, control) {
    part <- .Call(ffi_log_sum, sum_sources(x, w, L), y, factor, loo && own, control)
    part$score <- .Call(ffi_score, sum_sources(x, w, L), y, laplace, loo && own, names, control)$score
    part
  })$score
}

# One grid for all points where that is fastest. Sums that its tolerance does not tell from zero have no logarithm:
# they are summed again.
log_of_sums <- function(points, at, weights, L, control) {
  result <- sum_kernels(points, at, NULL, tcrossprod(L), weights, "gaussian", control)
  log_abs <- log(result$sums)
  low <- which(!(result$sums > 4 * control$tol * max(result$sums)))
  if (length(low) > 0) {
    rows <- (if (is.null(at)) points else at)[low, , drop = FALSE]
    control$tol <- 0
    again <- log_sum(points, rows, weights, L, PLAIN_FACTOR, FALSE, control)
    log_abs[low] <- again$log_abs
  }
  list(log_abs = log_abs, stats = result$stats)
}

# `sum_part(x, y, w, own, control)` for each piece x of the points with each of the targets (y is NULL and `own`
# TRUE where these are the same rows), merged.
sum_parts <- function(points, at, weights, control, sum_part) {
  pieces <- big_pieces(points)
  own <- is.null(at)
  m <- if (own) nrow(points) else nrow(at)
  read <- \(piece) read_rows(points, piece, "object", ncol(points), colnames(points))
  # errors of parts add up, each relative to the largest sum of its own
  if (control$tol_type == "global") control$tol <- control$tol / length(pieces)
  done <- 0
  of_targets <- lapply(if (own) pieces else list(c(1, m)), \(targets) {
    y <- if (own) read(targets) else at
    total <- NULL
    for (piece in pieces) {
      w <- if (!is.null(weights)) weights[piece[1]:piece[2]]
      pairs <- (diff(piece) + 1) * nrow(y)
      share_stage(control, done / (as.double(nrow(points)) * m), pairs / (as.double(nrow(points)) * m))
      done <<- done + pairs
      if (!is.null(w) && all(w == 0)) next
      same <- own && identical(piece, targets)
      part <- sum_part(if (same) y else read(piece), if (!same) y, w, same, control)
      total <- if (is.null(total)) part else merge_parts(total, part)
    }
    total
  })
  stats <- Reduce(add_stats, lapply(of_targets, `[[`, "stats"))
  list(
    log_abs = unlist(lapply(of_targets, `[[`, "log_abs")), negative = unlist(lapply(of_targets, `[[`, "negative")),
    score = do.call(rbind, lapply(of_targets, `[[`, "score")), stats = stats
  )
}

# Logarithms of sums add up; scores are means, by these sums.
merge_parts <- function(a, b) {
  top <- pmax(a$log_abs, b$log_abs)
  share_a <- signed_share(a, top)
  share_b <- signed_share(b, top)
  sum <- share_a + share_b
  weigh <- function(share, score) {
    score[share == 0, ] <- 0 # a part without other points has none
    share * score
  }
  list(
    log_abs = top + log(abs(sum)), negative = if (!is.null(a$negative)) sum < 0,
    score = if (!is.null(a$score)) (weigh(share_a, a$score) + weigh(share_b, b$score)) / sum,
    stats = add_stats(a$stats, b$stats)
  )
}

# exp(log_abs - top) with its sign; 0 where both are.
signed_share <- function(part, top) {
  share <- exp(part$log_abs - top)
  share[top == -Inf] <- 0
  if (!is.null(part$negative)) share[part$negative] <- -share[part$negative]
  share
}
