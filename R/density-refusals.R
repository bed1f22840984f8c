# What goes with what. A density has traits, and some verbs are not known for densities of a certain trait: all of these
# pairs stand in the table REFUSALS, with what to do instead. can() and the message of each refusal are made from it, and
# so is the table in the article "What goes with what".

# In words, for messages. The order is that in which a trait is named where a density has several.
TRAITS <- c(
  balloon = "balloon estimates, which do not integrate to 1",
  rebuilt = "points that were debiased in more dimensions",
  steps = "SD-KDEs of several steps or by a given score",
  signed = "Laplace-corrected estimates, which may be negative",
  clipped = "fits with debiasing(nonnegative = TRUE)", kinked = "triangular and uniform kernels, whose densities have kinks and jumps",
  compact_adaptive = "adaptive fits with another kernel than the Gaussian",
  mixed = "fits with categorical columns", categories_alone = "fits to categories alone",
  polygon = "fits on a polygon", bent = "fits by a boundary kernel or local likelihood",
  supported = "fits with a `support`"
)

traits_of <- function(object) {
  estimator <- estimator_of(object)
  supported <- is_kind(object, "supported")
  has <- c(
    balloon = is_balloon(object), rebuilt = !is.null(object$debiased_in),
    steps = n_steps(object) > 1 || isTRUE(object$given_score),
    signed = estimator$signed, clipped = is_clipped(object), kinked = isTRUE(object$kernel %in% c("triangular", "uniform")),
    compact_adaptive = !has_gaussian(object) && !is.null(object$adaptive), mixed = is_kind(object, "mixed"),
    categories_alone = object$d == 0,
    polygon = is_kind(object, "polygon"), bent = is_kind(object, "bent"),
    supported = supported
  )
  names(which(has))
}

UNSIGNED <- "fit estimator = \"kde\" or \"sdkde\""
NUMBERS_ALONE <- "kde_marginal() and kde_conditional() make fits of the numbers alone"
ONE_SUM <- "predict(se.fit = TRUE) returns standard errors"

# For each verb what it makes, as the message calls it, and what to do instead where the density has a trait.
REFUSALS <- list(
  conditional = list("conditional densities", c(
    signed = UNSIGNED, polygon = "fit the columns that you want without `support`"
  )),
  marginal = list("marginal densities", c(
    clipped = "fit debiasing(nonnegative = FALSE)", polygon = "fit the columns that you want without `support`"
  )),
  derivatives = list("derivatives", c(categories_alone = "predict() returns the probabilities of categories")),
  second_derivatives = list("second derivatives", c(kinked = "fit kernel = \"biweight\" or \"gaussian\"")),
  modes = list("modes, clusters and ridges", c(kinked = "fit kernel = \"biweight\" or \"gaussian\"")),
  rectangles = list("probabilities of rectangles", c(
    clipped = "simulate() draws from the estimate", categories_alone = "predict() returns the probabilities of categories"
  )),
  cdf = list("distribution functions", c()),
  quantiles = list("quantiles", c(categories_alone = "predict() returns the probabilities of categories")),
  draws = list("draws", c()),
  levels = list("highest-density levels", c()),
  regions = list("regions", c(mixed = "hdr_level() returns the levels of regions")),
  square = list("the integral of the square, for scores other than \"log\",", c(
    compact_adaptive = "use score = \"log\"", supported = "use score = \"log\""
  )),
  bands = list("bands", c()),
  ks = list("objects of package ks", c(mixed = NUMBERS_ALONE))
)

# Balloon estimates do not integrate to 1: all verbs that need a density refuse them.
NEED_A_DENSITY <- setdiff(names(REFUSALS), c("square", "bands"))
REFUSALS[NEED_A_DENSITY] <- lapply(REFUSALS[NEED_A_DENSITY], \(entry) {
  list(entry[[1]], c(balloon = "use adaptive = FALSE or \"abramson\"", entry[[2]]))
})

# Why a verb is not known for a density: the name of its first trait for which that is so, or NULL.
trait_against <- function(object, verb) {
  against <- intersect(names(TRAITS), intersect(traits_of(object), names(REFUSALS[[verb]][[2]])))
  if (length(against) > 0) against[1]
}

# Is the verb, a name of REFUSALS, known for the density?
can <- function(object, verb) is.null(trait_against(object, verb))

# Raises the error "<what the verb makes> are not available for <the trait, in words>: <what to do instead>".
check_can <- function(object, verb) {
  trait <- trait_against(object, verb)
  if (is.null(trait)) return(invisible(object))
  entry <- REFUSALS[[verb]]
  be <- if (startsWith(entry[[1]], "the ")) " is" else " are"
  stop(new_error("unsupported", paste0(
    entry[[1]], be, " not available for ", TRAITS[[trait]], ": ", entry[[2]][[trait]]
  ), user_call()))
}
