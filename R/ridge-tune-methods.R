# Methods of what tune_ridge() returns.

#' @export
#' @noRd
print.tune_ridge <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  digits <- check_digits(digits)
  number <- \(value) format(value, digits = digits)
  cat("Tuned kernel ridge regression\n\n")
  print_call(x$call, 4, "")
  cat(
    "Criterion: ", CRITERION_LABELS[[x$criterion]], ", ", number(x$value), ", on ", whole(x$rows), " of ", whole(x$n),
    " rows (", nrow(x$path), " evaluations in ", time_label(x$seconds), ")\n", sep = ""
  )
  cat("Kernel: ", kernel_label(x$kernel$name, x$kernel$parameters), "\nLambda: ", number(x$lambda), "\n", sep = "")
  if (is_count(x$centers)) cat("Centres: ", whole(x$centers), "\n", sep = "")
  cat("Bandwidth", if (length(x$bandwidth) > 1) "s, the most relevant columns first", ":\n", sep = "")
  order <- if (length(x$bandwidth) > 1) order(x$relevance, decreasing = TRUE) else 1
  shown <- x$bandwidth[order]
  if (is.null(names(shown)) && length(shown) > 1) names(shown) <- order
  print_sds(shown, digits)
  if (!is.null(x$fit)) cat("\nThe element `fit` is the fit to all rows.\n")
  invisible(x)
}

CRITERION_LABELS <- c(
  likelihood = "minus the log marginal likelihood per row",
  loo = "the logarithm of the root mean square leave-one-out error",
  gcv = "the logarithm of the root of generalised cross-validation",
  holdout = "the logarithm of the root mean square error at held-out rows"
)

#' @rdname tune_ridge
#' @param object,newdata As for [predict.kernel_ridge()].
#' @export
predict.tune_ridge <- function(object, newdata, ...) {
  if (missing(newdata)) stats::predict(tuned_fit(object), ...) else stats::predict(tuned_fit(object), newdata, ...)
}

#' @rdname tune_ridge
#' @param most Largest number of columns whose relevance is shown. Default 20.
#' @export
plot.tune_ridge <- function(x, most = 20, ...) {
  check_dots_empty(...)
  most <- check_count(most, "most")
  ranked <- length(x$relevance) > 1
  if (ranked) {
    old <- graphics::par(mfrow = c(1, 2))
    on.exit(graphics::par(old))
  }
  plot_search(x)
  if (ranked) plot_relevance(x$relevance, most)
  invisible(x)
}

# One colour a kernel; the part of the sample is drawn in open points.
plot_search <- function(x) {
  path <- x$path
  kernels <- unique(path$kernel)
  colours <- grDevices::hcl.colors(max(2, length(kernels)), "Dark 3")[match(path$kernel, kernels)]
  # steps of a line search that went too far would hide all else
  limits <- c(min(path$criterion), stats::quantile(path$criterion, 0.95, names = FALSE))
  graphics::plot(
    seq_len(nrow(path)), path$criterion, ylim = limits, xlab = "Evaluation", ylab = CRITERION_LABELS[[x$criterion]],
    col = colours, pch = ifelse(path$rows < max(path$rows), 1, 19), main = "Search"
  )
  if (length(kernels) > 1) {
    graphics::legend("topright", kernels, col = colours[match(kernels, path$kernel)], pch = 19, bty = "n")
  }
}

plot_relevance <- function(relevance, most) {
  if (is.null(names(relevance))) names(relevance) <- seq_along(relevance)
  top <- rev(utils::head(sort(relevance, decreasing = TRUE), most))
  graphics::dotchart(top, xlab = "Spread / bandwidth", main = "Relevance", pch = 19, xlim = c(0, 1))
}

# ---- what its fit has -------------------------------------------------------------------------

# The fit of a tuned object; a fit is its own.
tuned_fit <- function(object) {
  if (!inherits(object, "tune_ridge")) return(object)
  if (is.null(object$fit)) {
    stop_argument("object", "must have a fit: found none (refit = FALSE). kernel_ridge(object) fits the model.")
  }
  object$fit
}

# Every method of class "kernel_ridge" is one of a tuned object, too, and hands on to its fit (test-ridge-tune.R). By
# the names of their first arguments.
HANDED_ON <- list(
  object = paste0("stats::", c(
    "coef", "confint", "deviance", "df.residual", "family", "fitted", "logLik", "nobs", "residuals", "sigma",
    "simulate", "variable.names", "vcov", "weights"
  )),
  object = c("base::summary", "diagnostics", "ggplot2::autoplot"), model = c("stats::hatvalues", "stats::rstandard"),
  x = c("stats::formula", "generics::tidy", "generics::glance", "generics::augment"), formula = "stats::model.frame"
)

# A method of `generic`, whose first argument is `first`, for tuned objects.
method_of_fit <- function(generic, first) {
  body <- call("{", as.call(list(str2lang(generic), call("tuned_fit", as.name(first)), quote(...))))
  as.function(c(stats::setNames(alist(, ), c(first, "...")), body), environment(tuned_fit))
}

invisible(Map(\(generics, first) for (generic in generics) {
  assign(paste0(sub(".*:", "", generic), ".tune_ridge"), method_of_fit(generic, first), topenv())
}, HANDED_ON, names(HANDED_ON)))

# A suggested package registers what it dispatches when it is loaded.
#' @evalNamespace paste0("S3method(", sub("^(base|stats)::", "", unlist(HANDED_ON)), ",tune_ridge)")
NULL
