# Families of responses: what kernel_ridge() minimises, and what its methods know of the distribution of the response.

# The elements of a family besides `family` and `link`: `squared`, is the loss the square, so that the fit is linear in the
# response; `of_classes`, is the response a factor, with a column of the link for each of more than two classes;
# check(response, arg), which stops if the response does not suit; error(link, y, classes), the validation error.
new_family <- function(family, link, squared = FALSE, of_classes = FALSE, check, error) {
  structure(mget(names(formals())), class = c("ridge_family", "family"))
}

FAMILIES <- list(
  gaussian = new_family(
    "gaussian", "identity", squared = TRUE, check = \(response, arg) NULL, error = \(...) squared_error(...)
  ),
  binomial = new_family(
    "binomial", "logit", of_classes = TRUE, error = \(...) log_loss(...), check = \(response, arg) {
      k <- length(response$classes)
      if (k > 2) stop_argument("family", "must be \"multinomial\" for ", k, " classes: found \"binomial\"")
    }
  ),
  multinomial = new_family(
    "multinomial", "logit", of_classes = TRUE, check = \(response, arg) NULL, error = \(...) log_loss(...)
  )
)

# The family by its name, as a function or as an object of package stats.
check_family <- function(family, arg) {
  if (inherits(family, "ridge_family")) return(family)
  if (is.function(family)) family <- family()
  if (!inherits(family, "family")) return(FAMILIES[[check_choice(family, names(FAMILIES), arg)]])
  own <- FAMILIES[[check_choice(family$family, names(FAMILIES), arg)]]
  if (family$link != own$link) {
    stop_argument(arg, "must have the ", own$link, " link for ", own$family, ": found \"", family$link, "\"")
  }
  own
}

default_family <- function(family, y) {
  if (!is.null(family)) family else if (is_classes(y)) FAMILIES$multinomial else FAMILIES$gaussian
}
