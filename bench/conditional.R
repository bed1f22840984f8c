# p(y | x) by flash_kde(y ~ x), compared with np, if it is installed, and with a literal loop in R.
#
#   Rscript bench/conditional.R [n] [n for np's bandwidths]
#
# Times are processor seconds of all threads, which other work on the machine affects little. np's choice of bandwidths
# (cv.ml, one start) takes time quadratic in the rows, so it gets fewer rows.

source("bench/common.R")
given <- as.numeric(arguments)
n <- if (length(given) > 0) given[1] else 1e4
few <- if (length(given) > 1) given[2] else 1000
with_np <- requireNamespace("np", quietly = TRUE)
options(np.messages = FALSE)

set.seed(1)
data <- data.frame(x = rnorm(n))
data$y <- sin(2 * data$x) + 0.3 * rnorm(n)
at <- data.frame(x = seq(-2, 2, length.out = 100))
data$k <- factor(sample(letters[1:4], n, TRUE))
sds <- c(0.12, 0.08)
fit <- flash_kde(y ~ x, data, bandwidth = sds)
peer <- if (with_np) {
  list(
    density = np::npcdensbw(y ~ x, data = data, bws = sds, bandwidth.compute = FALSE),
    distribution = np::npcdistbw(y ~ x, data = data, bws = sds, bandwidth.compute = FALSE),
    levels = np::npcdensbw(y ~ x + k, data = data, bws = c(sds, 0.1), bandwidth.compute = FALSE)
  )
}

literal <- function() {
  vapply(seq_len(n), \(i) {
    k <- dnorm(data$x[i], data$x, sds[2])
    sum(k * dnorm(data$y[i], data$y, sds[1])) / sum(k)
  }, 0)
}

seconds <- function(task) {
  if (is.null(task)) return(NA)
  used <- system.time(task())
  used[["user.self"]] + used[["sys.self"]]
}
compare <- function(what, own, np = NULL, loop = NULL) {
  times <- c(flashkernel = median(replicate(5, seconds(own))), np = seconds(if (with_np) np), loop = seconds(loop))
  ratio <- if (all(is.na(times[-1]))) NA else min(times[-1], na.rm = TRUE) / times[1]
  cat(sprintf("%-44s %9.3f %9.3f %9.3f %8.0f\n", what, times[1], times[2], times[3], ratio))
}

cat(sprintf("n = %d; processor seconds\n%-44s %9s %9s %9s %8s\n", n, "", "here", "np", "loop", "times"))
compare("density at all points", \() predict(fit), \() fitted(np::npcdens(peer$density)), literal)
compare("conditional mean at all points", \() fitted(fit), \() {
  fitted(np::npreg(np::npregbw(y ~ x, data = data, bws = sds[2], bandwidth.compute = FALSE)))
})
compare("distribution function at all points", \() predict(fit, data, type = "cdf"),
  \() fitted(np::npcdist(peer$distribution)))
compare("median at 100 x", \() quantile(fit, at, 0.5), \() np::npqreg(bws = peer$distribution, newdata = at, tau = 0.5))
compare("medians at all points", \() quantile(fit, data, 0.5))
with_levels <- flash_kde(y ~ x + k, data, bandwidth = sds, categorical = categorical_kernel(smoothing = 0.1))
compare("density at all points, with a factor", \() predict(with_levels), \() fitted(np::npcdens(peer$levels)))
part <- data[seq_len(few), ]
compare(sprintf("bandwidths of %d rows", few), \() flash_kde(y ~ x, part), \() {
  np::npcdensbw(y ~ x, data = part, nmulti = 1)
})
compare(sprintf("bandwidths and lambda of %d rows", few), \() flash_kde(y ~ x + k, part), \() {
  np::npcdensbw(y ~ x + k, data = part, nmulti = 1)
})
compare(sprintf("bandwidths of %d rows", n), \() flash_kde(y ~ x, data))

if (with_np) {
  same <- max(abs(predict(fit) / fitted(np::npcdens(peer$density)) - 1))
  cat("largest relative difference of densities from np's:", format(same, digits = 2), "\n")
  Italy <- transform(get(utils::data("Italy", package = "np")), year = as.numeric(as.character(year)))
  theirs <- np::npcdensbw(gdp ~ year, data = Italy, nmulti = 1)
  ours <- flash_kde(gdp ~ year, Italy)
  at_theirs <- update(ours, bandwidth = c(theirs$ybw, theirs$xbw))
  cat("Italy: bandwidths", format(coef(ours), digits = 4), "here,", format(c(theirs$ybw, theirs$xbw), digits = 4),
    "np; log-likelihood of them", format(c(logLik(ours), logLik(at_theirs)), digits = 8), "; np says", theirs$fval, "\n")
}
