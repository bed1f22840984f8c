# Sources of kernel sums. The class of the sources determines how they are summed; the methods of a class are in one
# file.
#
#   engine_sources        points in memory, kernels of the engines (sum-doors.R)
#   sources_of_terms      points in memory, sums of kernels of some columns (sum-terms.R)
#   compact_sources       points in memory, kernels with bounded support (sum-compact.R)
#   levels_alone          points without numeric columns, whose kernels are all 1 (sum-by-categories.R)
#   grouped_sources       points in groups, each of which is an object of sources (sum-over.R):
#     sources_by_factors    local bandwidth factors of the sources (sum-by-factors.R)
#     sources_by_targets    local bandwidth factors of the targets (sum-balloon.R)
#     sources_by_levels     points with categories and numbers (sum-by-categories.R)
#     sources_in_bands      weights whose squares exceed the range of a double (below)
#     sources_in_pieces     a big.matrix (sum-by-pieces.R)
#   sources_in_shards, sources_in_blocks, spread_sources    sources on a cluster, in files store-*.R

# Makes an object of sources:
# - points: a matrix or a big.matrix; for sum_kernels() also a function that returns chunks;
# - weights: NULL for equal weights; L: H = L L'; kernel: a name, or an object of check_kernel() or compact_kernel();
# - plan: of new_plan(), for sources that are summed over more than once; of send_points(), for points that were sent;
# - factors: NULL, or a local bandwidth factor f for each point, for log_sum(), score_sum() and both stages of an
#   SD-KDE. The kernel of the point then has the bandwidth f^2 H and is multiplied by f^(-d height). Height 1 is for
#   densities, height 2 for their squares;
# - target_factors: NULL, or a function(at, loo, control) that returns a factor for each target (sum-balloon.R);
# - discrete: NULL, or the categories of the points (level_tables()). The last columns of targets are then the numbers
#   of their categories (density-mixed-frame.R).
#
# Nested groups are, from the outermost: pieces, factors of targets, categories, factors of sources.
sum_sources <- function(points, weights, L, kernel = "gaussian", plan = NULL, factors = NULL, height = 1,
                        target_factors = NULL, discrete = NULL) {
  class <- if (is.object(points)) class_of_place(points)
  if (is.null(class)) {
    class <- if (inherits(kernel, "kernel_of_terms")) {
      "sources_of_terms"
    } else if (!is.null(target_factors)) {
      c("sources_by_targets", "grouped_sources")
    } else if (!is.null(discrete)) {
      c("sources_by_levels", "grouped_sources", "memory_sources")
    } else if (identical(dim(points)[2], 0L)) {
      c("levels_alone", "memory_sources")
    } else if (!is.null(factors)) {
      c("sources_by_factors", "grouped_sources", "memory_sources")
    } else {
      c(if (is.object(kernel) && is_compact(kernel)) "compact_sources" else "engine_sources", "memory_sources")
    }
  }
  sources <- list(
    points = points, weights = weights, L = L, kernel = kernel, plan = plan, factors = factors, height = height,
    target_factors = target_factors, discrete = discrete
  )
  class(sources) <- class
  if (inherits(sources, "sources_of_terms")) sources$parts <- sources_of_terms(points, L, kernel)
  sources
}

# Returns the class of sources for points outside of memory, or NULL for points in memory.
class_of_place <- function(points) UseMethod("class_of_place")
#' @export
class_of_place.default <- function(points) NULL

# Returns an external pointer to C's cache of prepared sources. The cache is valid for these sources only and is made
# again when needed, for example after readRDS(). Copies of the object share it. `sent`: the result of send_points() for
# the points of the sources, or NULL.
new_plan <- function(sent = NULL) .Call(ffi_plan, sent)

# Returns the sources with some arguments of sum_sources() replaced.
remade <- function(sources, ...) {
  given <- list(...)
  parts <- unclass(sources)[names(formals(sum_sources))]
  parts[names(given)] <- given
  do.call(sum_sources, parts)
}

# Returns the sources with only these rows of points, weights, factors and categories.
some_sources <- function(sources, rows) {
  sources$points <- sources$points[rows, , drop = FALSE]
  for (name in c("weights", "factors")) if (!is.null(sources[[name]])) sources[[name]] <- sources[[name]][rows]
  sources["discrete"] <- list(discrete_rows(sources$discrete, rows))
  if (!is.null(sources$agreeing)) sources$agreeing$codes <- sources$agreeing$codes[rows, , drop = FALSE]
  sources["plan"] <- list(NULL)
  sources
}

# Returns points of the sources as targets, with the numbers of their categories in the last columns.
places_of <- function(sources, rows) {
  points <- sources$points[rows, , drop = FALSE]
  codes <- if (!is.null(sources$agreeing)) sources$agreeing$codes else sources$discrete$codes
  if (is.null(codes)) points else cbind(points, codes[rows, , drop = FALSE])
}

is_weightless <- function(sources) {
  is.matrix(sources$points) && nrow(sources$points) == 0 || !is.null(sources$weights) && all(sources$weights == 0)
}

# ---- where sums run ---------------------------------------------------------------------------

# Returns the sources, or an object of class `spread_sources` if the workers of control$cluster are to share the targets
# `at`. The generics of sums dispatch on the result.
spread <- function(sources, at, control) UseMethod("spread")
#' @export
spread.default <- function(sources, at, control) sources

# ---- squares ----------------------------------------------------------------------------------

# Returns sources whose sums are those of squared weights times squared kernels.
squared <- function(sources) UseMethod("squared")

#' @export
squared.default <- function(sources) {
  discrete <- sources$discrete
  if (!is.null(discrete)) discrete$power <- "square"
  L <- if (is_compact(sources$kernel)) sources$L else sources$L / sqrt(2)
  squares <- remade(
    sources,
    weights = NULL, L = L, kernel = squared_kernel(sources$kernel), plan = NULL, height = 2 * sources$height,
    discrete = discrete
  )
  if (is.null(sources$weights)) squares else in_bands(squares, sources$weights)
}

# Weights whose ratios exceed 2^400 have squares outside of the range of a double. Such weights are summed in bands,
# each with its own scale.
in_bands <- function(sources, weights) {
  class(sources) <- c("sources_in_bands", "grouped_sources")
  replace(sources, "band_weights", list(weights))
}

#' @export
groups_of.sources_in_bands <- function(sources, at, loo, control) {
  weights <- sources$band_weights
  top <- 2 * floor(log2(max(weights)) / 2)
  band <- floor((top - log2(weights)) / 400)
  bands <- unique(band[weights > 0])
  list(
    adds = TRUE, work = rep(1 / length(bands), length(bands)), m = targets_count(sources, at), d = ncol(sources$points),
    group = function(i) {
      exponent <- top - 400 * bands[i]
      root <- 2^(-exponent / 2) # in two steps, because 2^1074 overflows
      squares <- ifelse(band == bands[i], weights * root * root, 0)^2
      list(sources = remade(sources, weights = squares), y = at, loo = TRUE, log_height = 2 * log(2) * exponent)
    }
  )
}

targets_count <- function(sources, at) if (is.null(at)) nrow(sources$points) else nrow(at)
