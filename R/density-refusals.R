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
