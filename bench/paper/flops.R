# The cost model of the Flash-SD-KDE paper (its section 3 and appendix), for rows of a table with columns estimator, d,
# n and m. Used by runtime.R.

# Number of pairs by the definition: n m for densities, and n^2 for the score of an SD-KDE.
pairs_of <- function(rows) {
  list(density = rows$n * rows$m, score = ifelse(rows$estimator == "sdkde", rows$n^2, 0))
}

paper_flops <- function(rows) {
  pairs <- pairs_of(rows)
  pairs$density * ifelse(rows$d == 1, 14, 2 * rows$d + 12) + pairs$score * ifelse(rows$d == 1, 16, 4 * rows$d + 12)
}
