# The engine "flashkernel" of parsnip's svm_rbf(), registered when that package is loaded.

#' Kernel regressions as a model of parsnip
#'
#' With package parsnip, `svm_rbf(mode = , cost = , rbf_sigma = )` has an engine `"flashkernel"`: kernel ridge
#' regression (mode `"regression"`) and kernel logistic regression (`"classification"`) by [kernel_ridge()]. This is the
#' function that it calls; engine arguments, as `centers`, go on to [kernel_ridge()].
#'
#' @param x,y As for [kernel_ridge()].
#' @param cost The weight of the losses, as kernlab's `C`: `lambda` is 1 / (2 n cost) for squared loss, 1 / (n cost) for
#'   logistic loss. `NULL`: `lambda` is chosen from the data.
#' @param rbf_sigma The kernel is \eqn{\exp(-\sigma |x - y|^2)}{exp(-sigma |x - y|^2)}: `bandwidth` is 1 / sqrt(2 rbf_sigma).
#'   `NULL`: it is chosen from the data.
#' @param ... Arguments of [kernel_ridge()].
#' @returns A [kernel_ridge()] fit.
#' @export
#' @keywords internal
#' @examples
#' # what parsnip calls, for svm_rbf(mode = "regression", cost = 10) |> set_engine("flashkernel")
#' ridge_svm_rbf(as.matrix(mtcars[c("wt", "hp")]), mtcars$mpg, cost = 10)
ridge_svm_rbf <- function(x, y, cost = NULL, rbf_sigma = NULL, ...) {
  lambda <- if (!is.null(cost)) 1 / ((if (is.factor(y)) 1 else 2) * NROW(x) * check_penalty(cost, "cost"))
  bandwidth <- if (!is.null(rbf_sigma)) 1 / sqrt(2 * check_penalty(rbf_sigma, "rbf_sigma"))
  kernel_ridge(x, y, lambda = lambda, bandwidth = bandwidth, ...)
}

register_parsnip <- function() {
  model <- "svm_rbf"
  eng <- "flashkernel"
  of_parsnip <- \(name) getExportedValue("parsnip", name)
  has <- of_parsnip("get_from_env")(model)
  if (eng %in% has$engine) return(invisible())
  for (mode in c("regression", "classification")) {
    of_parsnip("set_model_engine")(model, mode = mode, eng = eng)
    of_parsnip("set_dependency")(model, eng = eng, pkg = "flashkernel", mode = mode)
    of_parsnip("set_fit")(model, eng = eng, mode = mode, value = list(
      interface = "matrix", protect = c("x", "y"), func = c(pkg = "flashkernel", fun = "ridge_svm_rbf"), defaults = list()
    ))
    of_parsnip("set_encoding")(model, eng = eng, mode = mode, options = list(
      predictor_indicators = "traditional", compute_intercept = TRUE, remove_intercept = TRUE, allow_sparse_x = TRUE
    ))
  }
  for (arg in c("cost", "rbf_sigma")) {
    of_parsnip("set_model_arg")(
      model, eng = eng, parsnip = arg, original = arg, func = list(pkg = "dials", fun = arg), has_submodel = FALSE
    )
  }
  predicts <- function(mode, type, of, post = NULL) {
    of_parsnip("set_pred")(model, eng = eng, mode = mode, type = type, value = list(
      pre = NULL, post = post, func = c(fun = "predict"),
      args = list(object = quote(object$fit), newdata = quote(new_data), type = of)
    ))
  }
  predicts("regression", "numeric", "response", \(result, object) as.vector(result))
  predicts("regression", "raw", "link")
  predicts("classification", "class", "class")
  predicts("classification", "prob", "prob", \(result, object) as_tibble(as.data.frame(result)))
  predicts("classification", "raw", "link")
}
