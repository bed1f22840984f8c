# Evaluates `expr` with a fixed random number generator and seed, and restores the user's generator. With `seed = NULL`
# the user's generator is used.
with_fixed_seed <- function(expr, seed = 1) {
  if (is.null(seed)) return(expr)
  kinds <- RNGkind()
  old <- get0(".Random.seed", globalenv(), inherits = FALSE)
  on.exit({
    if (is.null(old)) {
      RNGkind(kinds[1], kinds[2], kinds[3])
      rm(".Random.seed", envir = globalenv())
    } else {
      assign(".Random.seed", old, envir = globalenv())
    }
  })
  set.seed(seed, "Mersenne-Twister", "Inversion", "Rejection")
  expr
}
