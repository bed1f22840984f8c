# The kernels by their names in R and C, in the order in which messages list them; kernel_matvec() has the formulas.
# - others: what other programs call it, letters and digits alone.
KERNELS <- list(
  gaussian = list(others = c("gauss", "rbf")),
  laplacian = list(others = c("exponential", "matern12")),
  matern32 = list(),
  matern52 = list(),
  cauchy = list(),
  imq = list()
)

check_kernel <- function(kernel) check_choice(kernel, names(KERNELS), "kernel")

# As nearest_choice() looks them up: the names of kernels, named by what others call them.
kernel_synonyms <- function() {
  others <- lapply(KERNELS, `[[`, "others")
  stats::setNames(rep(names(KERNELS), lengths(others)), unlist(others))
}
