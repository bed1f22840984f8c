# Methods of what tune_ridge() returns.

#' @export
#' @noRd
print.tune_ridge <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  NextMethod()
  search <- x$search
  print_lines(
    Search = if (!is.null(search$ways)) paste0(
      search$ways$way[search$ways$chosen], ", the best of ", paste(search$ways$way, collapse = ", "), " at held-out rows"
    ),
    Criterion = if (!is.null(search$path)) paste0(
      CRITERION_LABELS[[search$criterion]], ", ", format(search$value, digits = digits), ", on ", whole(search$rows), " of ",
      whole(x$n), " rows (", nrow(search$path), " evaluations)"
    ),
    Time = time_label(search$seconds)
  )
  invisible(x)
}

CRITERION_LABELS <- c(
  likelihood = "minus the log marginal likelihood per row",
  loo = "the logarithm of the root mean square leave-one-out error",
  gcv = "the logarithm of the root of generalised cross-validation",
  holdout = "the logarithm of the root mean square error at held-out rows"
)

#' @rdname tune_ridge
#' @param which `"search"` (default): the criterion along a search by it, and the relevance of the columns. Others: as for
#'   [plot.kernel_ridge()].
#' @param most Largest number of columns whose relevance is shown. Default 20.
#' @export
plot.tune_ridge <- function(x, which = "search", most = 20, ...) {
  if (!identical(which, "search")) return(NextMethod())
  check_dots_empty(...)
  most <- check_count(most, "most")
  search <- x$search
  panels <- c(!is.null(search$path), length(search$relevance) > 1)
  if (all(panels) && !has_layout()) {
    old <- graphics::par(mfrow = c(1, 2))
    on.exit(graphics::par(old))
  }
  if (panels[1]) plot_search(search)
  if (panels[2]) plot_relevance(search$relevance, most)
  if (!any(panels)) graphics::plot(x, "fitted")
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
