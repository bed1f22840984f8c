# Balloon estimates. The bandwidth depends on the target y: f(y)^2 H, where the factor f depends on the distance from y
# to its k-th nearest point (Loftsgaarden and Quesenberry 1965, Terrell and Scott 1992). Each value is an ordinary
# kernel sum over all points, so targets with equal factors are summed together. The values do not integrate to 1.

# Returns the factors of the targets `at`. `places`: list(points, L, origin, k, level, least), the whitened points about
# their origin, and the smallest factor that rounding allows.
factors_at <- function(places, at, run) {
  centred <- at - rep(places$origin, each = nrow(at))
  distance <- kth_distances(places$points, whitened_columns(centred, places$L), places$k, run)
  at_least(on_lattice(log(distance) - places$level), places$least)
}

# ---- sums -------------------------------------------------------------------------------------

# Each group has all sources and the targets of one factor. A global tolerance is relative to the largest sum of a
# group, which is at most the largest of all.
#' @export
groups_of.sources_by_targets <- function(sources, at, loo, control) {
  classes <- width_classes(sources$target_factors(at, loo, control))
  d <- ncol(sources$points)
  m <- targets_count(sources, at)
  list(
    adds = FALSE, work = lengths(classes$rows) / m, m = m, d = d,
    group = function(i) {
      rows <- classes$rows[[i]]
      wide <- remade(sources, L = classes$factors[i] * sources$L, plan = NULL, target_factors = NULL)
      list(
        sources = wide, y = if (is.null(at)) places_of(wide, rows) else at[rows, , drop = FALSE], targets = rows,
        own = if (is.null(at)) list(of = rows), log_height = -sources$height * d * log(classes$factors[i])
      )
    }
  )
}
