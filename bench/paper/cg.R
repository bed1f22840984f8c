# Plain conjugate gradients, for solvers.R and falkon-ablations.R. `product`: of a symmetric positive definite matrix
# and a matrix of vectors, each column a separate problem. Returns list(x, iterations, residual), with the largest
# residual of the columns, relative to b. each(iteration, x, residual) is called for every iterate.
conjugate_gradients <- function(product, b, tol = 1e-4, max_iter = 500, each = \(iteration, x, residual) NULL) {
  b <- as.matrix(b)
  across <- \(v) rep(v, each = nrow(b))
  x <- 0 * b
  r <- p <- b
  size <- start <- colSums(r^2)
  for (iteration in seq_len(max_iter)) {
    image <- product(p)
    step <- size / colSums(p * image)
    x <- x + across(step) * p
    r <- r - across(step) * image
    before <- size
    size <- colSums(r^2)
    residual <- max(sqrt(size / start))
    each(iteration, x, residual)
    if (residual < tol) break
    p <- r + across(size / before) * p
  }
  list(x = x, iterations = iteration, residual = residual)
}
