#' Kernel ridge regression as a model of package parsnip
#'
#' A specification for `fit()` of package parsnip, whose engine is [kernel_ridge()]. Arguments that are not given are
#' chosen from the data, so that there is nothing to tune; each can also be `tune()`.
#'
#' @param mode `"regression"` or `"classification"`.
#' @param engine `"flashkernel"`.
#' @param penalty,bandwidth,kernel,metric,centers Arguments of [kernel_ridge()]; `penalty` is its `lambda`. When tuned,
#'   `bandwidth` is from 0.1 to 30: normalise the columns.
#' @param object,parameters,fresh,... As for other models of parsnip. Engine arguments of `set_engine()` are further
#'   arguments of [kernel_ridge()].
#' @returns A model specification of parsnip. Its fits predict `"numeric"`, `"conf_int"` and `"pred_int"`, or `"class"` and
#'   `"prob"`.
#' @rawRd \concept{tidymodels}
#' @seealso [kernel_ridge()]
#' @export
#' @examples
#' \dontrun{
#' fit <- parsnip::fit(flash_ridge("regression"), mpg ~ wt + hp, data = mtcars)
#' predict(fit, mtcars[1:3, ], type = "pred_int", level = 0.9)
#' }
flash_ridge <- function(mode = "unknown", engine = "flashkernel", penalty = NULL, bandwidth = NULL, kernel = NULL,
                        metric = NULL, centers = NULL) {
  package <- "parsnip" # which is not among the packages that are suggested
  if (!requireNamespace(package, quietly = TRUE)) {
    stop(new_error("unsupported", "flash_ridge() needs package parsnip. Use install.packages(\"parsnip\").", user_call()))
  }
  parsnip_function("new_model_spec")(
    "flash_ridge", args = quoted(environment(), parent.frame()), eng_args = NULL, mode = mode, method = NULL,
    engine = engine, user_specified_mode = !missing(mode), user_specified_engine = !missing(engine)
  )
}

#' @rdname flash_ridge
#' @importFrom stats update
#' @export
update.flash_ridge <- function(object, parameters = NULL, penalty = NULL, bandwidth = NULL, kernel = NULL, metric = NULL,
                               centers = NULL, fresh = FALSE, ...) {
  parsnip_function("update_spec")(
    object = object, parameters = parameters, args_enquo_list = quoted(environment(), parent.frame()),
    fresh = fresh, cls = "flash_ridge", ...
  )
}

# The expressions of the arguments in `frame`, the call of a function, which parsnip evaluates in `from`, its caller.
quoted <- function(frame, from) {
  quosure <- getExportedValue("rlang", "new_quosure")
  sapply(PARSNIP_ARGUMENTS, \(name) quosure(eval(call("substitute", as.name(name)), frame), from), simplify = FALSE)
}

# Arguments with the parameters of package dials that tune() gives them.
PARSNIP_ARGUMENTS <- c("penalty", "bandwidth", "kernel", "metric", "centers")
PARSNIP_PARAMETERS <- list(
  penalty = list(pkg = "dials", fun = "penalty"),
  bandwidth = list(pkg = "dials", fun = "scale_factor", range = c(-1, 1.5)),
  kernel = list(
    pkg = "dials", fun = "weight_func",
    values = c("gaussian", "laplacian", "matern32", "matern52", "product_laplacian")
  ),
  metric = list(pkg = "dials", fun = "weight_func", values = c("none", "diagonal", "full")),
  centers = list(pkg = "dials", fun = "num_terms", range = c(50L, 2000L))
)

parsnip_function <- function(name) getExportedValue("parsnip", name)

# Registers the model, when parsnip is loaded.
register_parsnip <- function() {
  set <- \(what, ...) parsnip_function(what)("flash_ridge", ...)
  if ("flash_ridge" %in% parsnip_function("get_from_env")("models")) return(invisible())
  set("set_new_model")
  for (mode in c("regression", "classification")) {
    set("set_model_mode", mode = mode)
    set("set_model_engine", mode = mode, eng = "flashkernel")
    set("set_dependency", eng = "flashkernel", pkg = "flashkernel", mode = mode)
    set("set_fit", mode = mode, eng = "flashkernel", value = list(
      interface = "matrix", protect = c("x", "y"), func = c(pkg = "flashkernel", fun = "kernel_ridge"),
      defaults = list()
    ))
    set("set_encoding", mode = mode, eng = "flashkernel", options = list(
      predictor_indicators = "traditional", compute_intercept = TRUE, remove_intercept = TRUE, allow_sparse_x = TRUE
    ))
  }
  for (arg in PARSNIP_ARGUMENTS) {
    set(
      "set_model_arg", eng = "flashkernel", parsnip = arg, original = if (arg == "penalty") "lambda" else arg,
      func = PARSNIP_PARAMETERS[[arg]], has_submodel = FALSE
    )
  }
  register_predictions(set)
}

register_predictions <- function(set) {
  predicts <- \(mode, of, post = NULL, ...) set(
    "set_pred", mode = mode, eng = "flashkernel", type = of, value = list(
      pre = NULL, post = post, func = c(fun = "predict"),
      args = list(object = quote(object$fit), newdata = quote(new_data), ...)
    )
  )
  bounds <- \(result, object) {
    as_tibble(data.frame(.pred_lower = result[, "lwr"], .pred_upper = result[, "upr"], row.names = NULL))
  }
  predicts("regression", "numeric", \(result, object) as.vector(result), type = "response")
  predicts("regression", "conf_int", bounds, interval = "confidence", level = quote(level))
  predicts("regression", "pred_int", bounds, interval = "prediction", level = quote(level))
  predicts("regression", "raw", type = "link")
  predicts("classification", "class", type = "class")
  predicts("classification", "prob", \(result, object) {
    as_tibble(data.frame(result, row.names = NULL, check.names = FALSE))
  }, type = "prob")
  predicts("classification", "raw", type = "link")
}
