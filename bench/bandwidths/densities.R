# Simulated densities: list(name, d, draw = \(n), log_density = \(x), square = \() the integral of its square), and
# either a mixture or, in one dimension, its quantile function. `sample` is given if the selectors see other points than
# those drawn (rounded or resampled).

# Marron and Wand (1992), Exact mean integrated squared error, table 1.
MARRON_WAND <- list(
  gaussian = line_mixture(1, 0, 1),
  skewed = line_mixture(c(1, 1, 3), c(0, 1 / 2, 13 / 12), c(1, 2 / 3, 5 / 9)),
  strongly_skewed = line_mixture(rep(1, 8), 3 * ((2 / 3)^(0:7) - 1), (2 / 3)^(0:7)),
  kurtotic = line_mixture(c(2, 1), c(0, 0), c(1, 1 / 10)),
  outlier = line_mixture(c(1, 9), c(0, 0), c(1, 1 / 10)),
  bimodal = line_mixture(c(1, 1), c(-1, 1), c(2, 2) / 3),
  separated = line_mixture(c(1, 1), c(-3, 3) / 2, c(1, 1) / 2),
  skewed_bimodal = line_mixture(c(3, 1), c(0, 3 / 2), c(1, 1 / 3)),
  trimodal = line_mixture(c(9, 9, 2), c(-6, 6, 0) / 5, c(3 / 5, 3 / 5, 1 / 4)),
  claw = line_mixture(c(5, rep(1, 5)), c(0, (0:4) / 2 - 1), c(1, rep(1 / 10, 5))),
  double_claw = line_mixture(
    c(rep(49 / 100, 2), rep(1 / 350, 7)), c(-1, 1, (-3:3) / 2), c(2 / 3, 2 / 3, rep(1 / 100, 7))
  ),
  asymmetric_claw = line_mixture(c(1 / 2, 2^(1 - -2:2) / 31), c(0, -2:2 + 1 / 2), c(1, 2^-(-2:2) / 10)),
  asymmetric_double_claw = line_mixture(
    c(rep(46 / 100, 2), rep(1 / 300, 3), rep(7 / 300, 3)), c(-1, 1, -(1:3) / 2, (1:3) / 2),
    c(2 / 3, 2 / 3, rep(1 / 100, 3), rep(7 / 100, 3))
  ),
  smooth_comb = line_mixture(2^(5:0) / 63, (65 - 96 / 2^(0:5)) / 21, 32 / 63 / 2^(0:5)),
  discrete_comb = line_mixture(
    c(rep(2 / 7, 3), rep(1 / 21, 3)), c((12 * (0:2) - 15) / 7, 2 * (8:10) / 7), c(rep(2 / 7, 3), rep(1 / 21, 3))
  )
)

simulated <- function(name, mixture, ...) {
  density <- list(
    name = name, d = mixture$d, mixture = mixture, draw = \(n) draw_mixture(n, mixture),
    log_density = \(x) log_density_mixture(x, mixture), square = \() mixture_square(mixture)
  )
  utils::modifyList(density, list(...))
}

# Drawn as t, so that the far tails, too, are right.
student <- function(name, d, df) {
  simulated(
    name, student_mixture(d, df),
    draw = \(n) matrix(stats::rnorm(n * d), n) / sqrt(stats::rchisq(n, df) / df),
    log_density = \(x) {
      lgamma((df + d) / 2) - lgamma(df / 2) - d / 2 * log(df * pi) - (df + d) / 2 * log1p(rowSums(x^2) / df)
    },
    square = \() exp(
      2 * (lgamma((df + d) / 2) - lgamma(df / 2)) - d / 2 * log(df * pi) + lgamma(df + d / 2) - lgamma(df + d)
    )
  )
}

gamma_density <- function(shape) {
  list(
    name = paste0("gamma ", shape), d = 1L, draw = \(n) matrix(stats::rgamma(n, shape)),
    log_density = \(x) stats::dgamma(x[, 1], shape, log = TRUE), quantile = \(p) stats::qgamma(p, shape),
    square = \() exp(lgamma(2 * shape - 1) - 2 * lgamma(shape) - (2 * shape - 1) * log(2))
  )
}

rounded <- function(density, width) {
  density$name <- paste0(density$name, ", rounded to ", width)
  density$sample <- \(n) width * round(density$draw(n) / width)
  density
}

resampled <- function(density) {
  density$name <- paste0(density$name, ", resampled")
  density$sample <- \(n) density$draw(n)[sample.int(n, replace = TRUE), , drop = FALSE]
  density
}

# ---- in one dimension -----------------------------------------------------------------------------

line_densities <- function() {
  own <- Map(simulated, names(MARRON_WAND), MARRON_WAND)
  own$skewed_bimodal$name <- "skewed bimodal"
  c(unname(own), list(
    student("t3", 1, 3), student("t2", 1, 2), student("cauchy", 1, 1), gamma_density(1.5), gamma_density(3),
    rounded(own$gaussian, 0.2), rounded(own$bimodal, 0.5), rounded(own$skewed, 1), resampled(own$gaussian)
  ))
}

# ---- in several -----------------------------------------------------------------------------------

# Fixed by d alone, whatever was drawn before.
with_seed <- function(seed, task) {
  set.seed(seed)
  task()
}

rotation <- function(d) with_seed(d, \() qr.Q(qr(matrix(stats::rnorm(d * d), d))))

# Marron and Wand's densities `names`, as often as there are coordinates.
product_of <- function(d, names) product_mixture(MARRON_WAND[rep_len(names, d)])

clusters <- function(d, k = 5) with_seed(100 + d, \() {
  variances <- lapply(seq_len(k), \(i) stats::rWishart(1, d + 2, diag(d) * stats::runif(1, 0.2, 1) / (d + 2))[, , 1])
  normal_mixture(stats::runif(k, 0.5, 1), matrix(3 * stats::rnorm(k * d), k), variances)
})

autoregressive <- function(d, r) normal_mixture(1, matrix(0, 1, d), list(r^abs(outer(1:d, 1:d, "-"))))

space_densities <- function(d) {
  units <- diag(10^seq(0, 1, length.out = d))
  own <- list(
    simulated("normal", normal_mixture(1, matrix(0, 1, d), list(diag(d)))),
    simulated("ar .8", autoregressive(d, 0.8)),
    simulated("clusters", clusters(d)),
    student("t3", d, 3)
  )
  if (d > 6) return(own)
  # no more than 4^3 or 2^6 components
  mixed <- product_of(d, c("skewed_bimodal", "bimodal"))
  peaked <- product_of(d, c("kurtotic", "gaussian", "outlier"))
  c(own, list(
    student("t2", d, 2), student("cauchy", d, 1), simulated("bimodal product", mixed),
    simulated("bimodal product, rotated", transformed(mixed, units %*% rotation(d))),
    simulated("kurtotic product", peaked), simulated("kurtotic product, rotated", transformed(peaked, rotation(d))),
    rounded(simulated("bimodal product", mixed), 0.3), resampled(simulated("normal", autoregressive(d, 0))),
    if (d < 4) simulated("skewed product", product_of(d, c("skewed", "strongly_skewed", "gaussian"))),
    if (d < 4) simulated("claw product", product_of(d, c("claw", "gaussian")))
  ))
}

# Each of the fifteen with itself, in the plane.
plane_densities <- function() {
  squared <- \(name) simulated(paste(name, "squared"), product_mixture(MARRON_WAND[c(name, name)]))
  lapply(names(MARRON_WAND)[-1], squared)
}

densities_of <- function(d, all = FALSE) {
  own <- if (d == 1) line_densities() else c(space_densities(d), if (all && d == 2) plane_densities())
  own <- Filter(Negate(is.null), unname(own))
  lapply(own, \(density) replace(density, "name", paste0(gsub("_", " ", density$name), ", d = ", d)))
}
