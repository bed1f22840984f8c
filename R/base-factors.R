# Factors of local bandwidths, on a lattice, so that few different ones make few sums.

on_lattice <- function(log_factors) {
  most <- floor(log(MOST_FACTOR) / log(FACTOR_STEP))
  FACTOR_STEP^pmin(pmax(round(log_factors / log(FACTOR_STEP)), -most), most)
}

# Neighbouring factors; finer steps have changed held-out densities by less than 0.0015 nats (bench/NOTES.md).
FACTOR_STEP <- sqrt(2)

# No factor above this, and none below its inverse.
MOST_FACTOR <- 30

# On the lattice of the factors.
at_least <- function(factors, least) {
  if (least <= min(factors)) return(factors)
  pmax(factors, FACTOR_STEP^ceiling(log(least) / log(FACTOR_STEP)))
}
