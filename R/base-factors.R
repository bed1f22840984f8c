# Local bandwidth factors are rounded to a lattice, as each different factor needs a sum of its own.

on_lattice <- function(log_factors) {
  most <- floor(log(MOST_FACTOR) / log(FACTOR_STEP))
  FACTOR_STEP^pmin(pmax(round(log_factors / log(FACTOR_STEP)), -most), most)
}

# Ratio of neighbouring factors. Coarser steps leave a bias where factors change (bench/NOTES.md).
FACTOR_STEP <- 2^(1 / 8)

# Largest factor; the smallest is its inverse.
MOST_FACTOR <- 30

# Raises factors to `least`, rounded up to the lattice.
at_least <- function(factors, least) {
  if (least <= min(factors)) return(factors)
  pmax(factors, FACTOR_STEP^ceiling(log(least) / log(FACTOR_STEP)))
}
