# What goes with what. A density has traits, and some verbs are not known for densities of a certain trait: all of these stand
# in the table REFUSALS, with the reason and what to do instead. can() and the message of each refusal are made from it.

traits_of <- function(object) {
  has <- c(
    balloon = is_balloon(object), signed = estimator_of(object)$signed, clipped = is_clipped(object),
    kinked = isTRUE(object$kernel %in% c("triangular", "uniform")), categories_alone = object$d == 0,
    polygon = is_kind(object, "polygon"), mixed = is_kind(object, "mixed"),
    no_squares = is_kind(object, "supported") || !has_gaussian(object) && !is.null(object$adaptive)
  )
  names(which(has))
}

# What each verb makes, as messages call it.
VERBS <- c(
  conditional = "conditional densities", marginal = "marginal densities", derivatives = "derivatives",
  second_derivatives = "second derivatives", modes = "modes, clusters and ridges",
  rectangles = "probabilities of rectangles", cdf = "distribution functions", quantiles = "quantiles", draws = "draws",
  levels = "highest-density levels", regions = "regions", bands = "bands", ks = "objects of package ks",
  square = "the integral of the square, for scores other than \"log\","
)

# A reason is list(trait, verbs, fits and why, what to do instead). The order is that in which they are named where there are
# several.
refusal <- function(trait, verbs, fits, instead) list(trait = trait, verbs = verbs, fits = fits, instead = instead)
NO_BALLOON <- "use adaptive = FALSE or \"abramson\""
UNSIGNED <- "Laplace-corrected estimates, which may be negative"
SMOOTH_KERNEL <- "fit kernel = \"biweight\" or \"gaussian\""
SHARES <- "predict() returns the probabilities of categories"
ALONE <- "fit the columns that you want without `support`"
NUMBERS_ALONE <- "kde_marginal() and kde_conditional() make fits of the numbers alone"
REFUSALS <- list(
  refusal("balloon", setdiff(names(VERBS), "square"), "balloon estimates, whose bandwidth differs from place to place", NO_BALLOON),
  refusal("signed", "conditional", UNSIGNED, "fit estimator = \"kde\" or \"sdkde\""),
  refusal("clipped", "marginal", "clipped estimates, which are no sums of kernels", "fit debiasing(nonnegative = FALSE)"),
  refusal("kinked", c("second_derivatives", "modes"), "triangular and uniform kernels, which have kinks or jumps", SMOOTH_KERNEL),
  refusal("categories_alone", c("derivatives", "modes", "rectangles", "quantiles"), "categories, which have no distances", SHARES),
  refusal("polygon", c("conditional", "marginal"), "fits on a polygon, whose width differs from place to place", ALONE),
  refusal("no_squares", "square", "kernels whose products have no integral in closed form", "use score = \"log\""),
  refusal("mixed", c("regions", "ks"), "mixed data, which have a space of numbers for each category", NUMBERS_ALONE)
)

# Why a verb is not known for a density: the first entry of REFUSALS for which that is so, or NULL.
refusal_of <- function(object, verb) {
  traits <- traits_of(object)
  Find(\(entry) verb %in% entry$verbs && entry$trait %in% traits, REFUSALS)
}

# Is the verb, a name of VERBS, known for the density?
can <- function(object, verb) is.null(refusal_of(object, verb))

# Raises the error "<what the verb makes> are not available for <the fits, and why>: <what to do instead>".
check_can <- function(object, verb) {
  entry <- refusal_of(object, verb)
  if (is.null(entry)) return(invisible(object))
  be <- if (startsWith(VERBS[[verb]], "the ")) " is" else " are"
  stop(new_error("unsupported", paste0(
    VERBS[[verb]], be, " not available for ", entry$fits, ": ", entry$instead
  ), user_call()))
}
