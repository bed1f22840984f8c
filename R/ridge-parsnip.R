# The engine "flashkernel" of parsnip's svm_rbf(), registered when that package is loaded. It calls kernel_ridge() with
# `cost` and `rbf_sigma` of parsnip in place of `lambda` and `bandwidth`.

SVM_NUMBERS <- c(cost = "lambda", rbf_sigma = "bandwidth")

# Adds to `spec` the lambda and bandwidth that the list `numbers` (`cost`, `rbf_sigma`) determines, for n responses `y`.
with_svm_numbers <- function(spec, numbers, n, y) {
  for (name in names(numbers)) {
    number <- check_penalty(numbers[[name]], name)
    of <- SVM_NUMBERS[[name]]
    if (!is.null(spec[[of]])) stop_argument(name, "must not be given together with `", of, "`, which it determines")
    losses <- (if (default_family(spec$family, y)$squared) 2 else 1) * n
    spec[[of]] <- switch(name, cost = 1 / (losses * number), rbf_sigma = 1 / sqrt(2 * number))
  }
  spec
}

parsnip_function <- function(name) getExportedValue("parsnip", name)

register_parsnip <- function() {
  set <- \(what, ...) parsnip_function(what)("svm_rbf", eng = "flashkernel", ...)
  if ("flashkernel" %in% parsnip_function("get_from_env")("svm_rbf")$engine) return(invisible())
  for (mode in c("regression", "classification")) {
    set("set_model_engine", mode = mode)
    set("set_dependency", pkg = "flashkernel", mode = mode)
    set("set_fit", mode = mode, value = list(
      interface = "matrix", protect = c("x", "y"), func = c(pkg = "flashkernel", fun = "kernel_ridge"),
      defaults = list()
    ))
    set("set_encoding", mode = mode, options = list(
      predictor_indicators = "traditional", compute_intercept = TRUE, remove_intercept = TRUE, allow_sparse_x = TRUE
    ))
  }
  for (arg in names(SVM_NUMBERS)) {
    set("set_model_arg", parsnip = arg, original = arg, func = list(pkg = "dials", fun = arg), has_submodel = FALSE)
  }
  predicts <- function(mode, type, of, post = NULL) {
    set("set_pred", mode = mode, type = type, value = list(
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
