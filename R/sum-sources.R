# What is summed over, as values of classes: a class says how its points are summed, and has its methods in one file.
#
#   engine_sources        points in memory, kernels of the engines (sum-doors.R)
#   compact_sources       points in memory, kernels of bounded reach (sum-compact.R)
#   levels_alone          points without numbers, whose kernels all are 1 (sum-by-categories.R)
#   grouped_sources       points in groups, each of which is sources again (sum-over.R):
#     sources_by_factors    kernels of several widths (sum-by-factors.R)
#     sources_by_targets    kernels as wide as each target wants them (sum-balloon.R)
#     sources_by_levels     points with levels beside numbers (sum-by-categories.R)
#     sources_in_bands      weights whose squares no double can hold (below)
#     sources_in_pieces     a big.matrix (sum-by-pieces.R)
#   sources_in_shards, sources_in_blocks, spread_sources    of a cluster, in the room `store`

# Points with their weights (NULL: equal ones), H = L L' and the kernel. For sum_kernels() alone the points may be a
# function that yields chunks. `plan`: of new_plan(), for sources that are summed over more than once. `factors`: NULL,
# or for sums with their logarithms and both stages of an SD-KDE a number for each point, whose kernel then is that of
# factor L, times factor^(-d height): of densities relative to those of L, or with height 2 of their squares.
# `target_factors`: NULL, or for sums with their logarithms the same by targets: a function of `at`, `loo` and `control`
# that has a number for each (sum-balloon.R). `discrete`: NULL, or levels of the points (level_tables()); targets, where
# there are any, have the numbers of their levels in their last columns (density-mixed-frame.R).
#
# Groups within groups go from the outermost: pieces, widths of targets, levels, widths of sources.
sum_sources <- function(points, weights, L, kernel = "gaussian", plan = NULL, factors = NULL, height = 1,
                        target_factors = NULL, discrete = NULL) {
  class <- if (is.object(points)) class_of_place(points)
  if (is.null(class)) {
    class <- if (!is.null(target_factors)) {
      c("sources_by_targets", "grouped_sources")
    } else if (!is.null(discrete)) {
      c("sources_by_levels", "grouped_sources", "memory_sources")
    } else if (identical(dim(points)[2], 0L)) {
      c("levels_alone", "memory_sources")
    } else if (!is.null(factors)) {
      c("sources_by_factors", "grouped_sources", "memory_sources")
    } else {
      c(if (is_compact(kernel)) "compact_sources" else "engine_sources", "memory_sources")
    }
  }
  structure(class = class, list(
    points = points, weights = weights, L = L, kernel = kernel, plan = plan, factors = factors, height = height,
    target_factors = target_factors, discrete = discrete
  ))
}

# The class of sources by where their points are; NULL: in memory.
class_of_place <- function(points) UseMethod("class_of_place")
#' @export
class_of_place.default <- function(points) NULL

# A handle in which C keeps what it prepares of sources in memory: the same as long as these are, else made anew, as
# after readRDS(). It is a reference: copies share it.
new_plan <- function() .Call(ffi_plan)

# The same sources but for some arguments of sum_sources().
remade <- function(sources, ...) {
  given <- list(...)
  parts <- unclass(sources)[names(formals(sum_sources))]
  parts[names(given)] <- given
  do.call(sum_sources, parts)
}

# Some of the points, with what belongs to each.
some_sources <- function(sources, rows) {
  sources$points <- sources$points[rows, , drop = FALSE]
  for (name in c("weights", "factors")) if (!is.null(sources[[name]])) sources[[name]] <- sources[[name]][rows]
  sources["discrete"] <- list(discrete_rows(sources$discrete, rows))
  if (!is.null(sources$agreeing)) sources$agreeing$codes <- sources$agreeing$codes[rows, , drop = FALSE]
  sources["plan"] <- list(NULL)
  sources
}

# Their points as targets, which have levels in their last columns.
places_of <- function(sources, rows) {
  points <- sources$points[rows, , drop = FALSE]
  codes <- if (!is.null(sources$agreeing)) sources$agreeing$codes else sources$discrete$codes
  if (is.null(codes)) points else cbind(points, codes[rows, , drop = FALSE])
}

is_weightless <- function(sources) {
  is.matrix(sources$points) && nrow(sources$points) == 0 || !is.null(sources$weights) && all(sources$weights == 0)
}

# ---- where sums run ---------------------------------------------------------------------------

# As where the sources are summed at `at`: they themselves, or sources of the class `spread_sources` where the workers
# of control$cluster are to share the targets. Generics of sums dispatch on it.
spread <- function(sources, at, control) UseMethod("spread")
#' @export
spread.default <- function(sources, at, control) sources

# ---- squares ----------------------------------------------------------------------------------

# Sources whose sums are those of the squared weights times the squared kernels.
squared <- function(sources) UseMethod("squared")

#' @export
squared.default <- function(sources) {
  discrete <- sources$discrete
  if (!is.null(discrete)) discrete$squared <- TRUE
  L <- if (is_compact(sources$kernel)) sources$L else sources$L / sqrt(2)
  squares <- remade(
    sources,
    weights = NULL, L = L, kernel = squared_kernel(sources$kernel), plan = NULL, height = 2 * sources$height,
    discrete = discrete
  )
  if (is.null(sources$weights)) squares else in_bands(squares, sources$weights)
}

# The squares of weights that are further apart than 2^400 leave the range of a double: such weights go in bands, each
# at a scale of its own.
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
      root <- 2^(-exponent / 2) # in two steps, for 2^1074 is no number
      squares <- ifelse(band == bands[i], weights * root * root, 0)^2
      list(sources = remade(sources, weights = squares), y = at, loo = TRUE, log_height = 2 * log(2) * exponent)
    }
  )
}

targets_count <- function(sources, at) if (is.null(at)) nrow(sources$points) else nrow(at)
