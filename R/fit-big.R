#' @rdname flash_kde
#' @method flash_kde big.matrix
#' @export
flash_kde.big.matrix <- function(x, estimator = c("kde", "laplace", "laplace6"), bandwidth, weights = NULL,
                                 backend = c("auto", "cpu", "cuda"),
                                 precision = c("auto", "double", "single", "fast"), threads = NULL,
                                 devices = NULL, tol = 0, tol_type = c("global", "pointwise"),
                                 engine = c("auto", "exact", "fast"), control = NULL, ...) {
  if ("adaptive" %in% ...names()) stop_argument("adaptive", "is not for a big.matrix")
  if ("kernel" %in% ...names()) stop_argument("kernel", "is not for a big.matrix, whose kernel is the Gaussian")
  check_fit_dots(...)
  x <- check_big(x, "x")
  estimator <- check_estimator_in_pieces(estimator)
  asked <- settle_control(control, list(
    backend = backend, precision = precision, threads = threads, devices = devices, engine = engine,
    tol_type = tol_type, tol = if (!missing(tol)) check_tol(tol)
  ))
  run <- start_run(asked)
  resolved <- resolve_control(run, nrow(x), nrow(x), ncol(x))
  weights <- common_scale(check_weights(weights, nrow(x)))
  if (missing(bandwidth) || is.null(bandwidth) || is.character(bandwidth)) {
    stop_argument(
      "bandwidth", "must be given where `x` is a big.matrix, such as that of kde_bandwidth() for some of its rows"
    )
  }
  main <- want_bandwidth(bandwidth, x, weights, "bandwidth")
  for (piece in big_pieces(x)) read_rows(x, piece, "x", ncol(x), colnames(x)) # are all numbers finite?
  data <- list(points = x, weights = weights)
  computed <- list(stages = list(), resolved = resolved)
  new_fit(generic_call(match.call()), estimator, data, list(main = main), NULL, run, computed)
}

check_estimator_in_pieces <- function(estimator) {
  able <- estimators_that("in_pieces")
  if (length(estimator) == 1 && estimator %in% setdiff(names(ESTIMATORS), able)) {
    stop_argument(
      "estimator", "must be ", paste0('"', able, '"', collapse = " or "), " where `x` is a big.matrix: found ",
      describe(estimator)
    )
  }
  check_choice(estimator, able, "estimator")
}
