#' @rdname flash_kde
#' @order 5
#' @method flash_kde big.matrix
#' @export
flash_kde.big.matrix <- function(x, estimator = "auto", bandwidth, weights = NULL, tol = 0, control = NULL, ...) {
  if ("adaptive" %in% ...names()) stop_argument("adaptive", "is not available for a big.matrix")
  if ("kernel" %in% ...names()) stop_argument("kernel", "is not available for a big.matrix, whose kernel is Gaussian")
  check_fit_dots(...)
  x <- check_big(x, "x")
  estimator <- check_estimator_in_pieces(estimator)
  run <- start_run(settle_control(control, if (!missing(tol)) list(tol = check_tol(tol))))
  resolved <- resolve_control(run, nrow(x), nrow(x), ncol(x))
  weights <- common_scale(check_weights(weights, nrow(x)))
  if (missing(bandwidth) || is.null(bandwidth) || is.character(bandwidth)) {
    stop_argument("bandwidth", "must be given for a big.matrix: apply kde_bandwidth() to a sample of its rows")
  }
  main <- want_bandwidth(bandwidth, x, weights, "bandwidth")
  for (piece in big_pieces(x)) read_rows(x, piece, "x", ncol(x), colnames(x)) # are all numbers finite?
  data <- list(points = x, weights = weights)
  made_fit(generic_call(match.call()), estimator, data, list(main = main), NULL, run, resolved)
}

check_estimator_in_pieces <- function(estimator) {
  if (is_auto(estimator)) return(PLAIN_ESTIMATOR)
  able <- estimators_that("in_pieces")
  if (length(estimator) == 1 && estimator %in% setdiff(names(ESTIMATORS), able)) {
    stop_argument(
      "estimator", "must be ", paste0('"', able, '"', collapse = " or "), " for a big.matrix: found ",
      describe(estimator)
    )
  }
  check_choice(estimator, able, "estimator")
}
