# Random numbers that are the same each time.

# Evaluates `expr` with a generator of a fixed kind and state, and gives the user's back untouched.
# With `seed = NULL` the user's own generator goes on.
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
