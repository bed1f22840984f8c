# Features of a fit in words.
FEATURES <- c(
  laplace6 = "fits by estimator \"laplace6\"", kernel = "fits with another kernel than the Gaussian",
  nonnegative = "fits with nonnegative = TRUE", support = "fits with a `support`"
)

# What a user can do who needs one such sum.
FIT_WITHOUT <- c(
  laplace6 = "fit estimator = \"laplace\" or \"kde\"", kernel = "fit kernel = \"gaussian\"",
  nonnegative = "fit nonnegative = FALSE", support = "fit without `support`"
)

# Which features keep an estimate from being one sum of kernels of the points in their coordinates.
beyond_one_sum <- function(object) {
  c(
    laplace6 = object$estimator == "laplace6", kernel = !has_gaussian(object), nonnegative = is_clipped(object),
    support = !is.null(object$support)
  )
}

# Refuses fits for which there is no `what`. `lacking`: named by features, as in FEATURES or in words, whether the fit
# has them; `cure`: what to do instead, for all of them or by the same names.
check_none_of <- function(lacking, what, cure) {
  if (!any(lacking)) return(invisible())
  feature <- names(which(lacking))[1]
  words <- if (feature %in% names(FEATURES)) FEATURES[[feature]] else feature
  if (!is.null(names(cure))) cure <- cure[[feature]]
  stop(new_error("unsupported", paste0("there are no ", what, " for ", words, ": ", cure), user_call()))
}

# The one refusal of a verb for a class of densities: "<what> not known for <the density, in words>: <cure>".
refuse_verb <- function(what, object, cure = NULL) {
  words <- paste0(what, " not known for ", density_words(object), if (!is.null(cure)) paste0(": ", cure))
  stop(new_error("unsupported", words, user_call()))
}

# What a density is, for messages.
density_words <- function(object) UseMethod("density_words", object$kind)
#' @export
density_words.default <- function(object) {
  if (is_balloon(object)) return("balloon estimates")
  if (!has_gaussian(object)) return(paste0("fits with kernel = \"", object$kernel, "\""))
  paste0("estimator = \"", object$estimator, "\"")
}
#' @export
density_words.mixed <- function(object) "fits with columns of categories"
#' @export
density_words.clipped <- function(object) "fits with nonnegative = TRUE"
#' @export
density_words.supported <- function(object) {
  domain <- object$support
  if (!is.null(domain$polygon)) return("fits on a polygon")
  kinds <- setdiff(unique(domain$kind), "free")
  paste0("fits with a `support`, by method = ", quote_choices(kinds))
}
