# Integrated squared error, over that of the best, of default fits of several columns: ten densities, two of them with
# outliers, beside other estimators of this package, the plug-in matrix and, up to three columns, ks::Hpi().
#
#   Rscript bench/several.R [--n 500] [--d 2,3,4,5] [--samples 2] [--seed 400] [--save]

source("bench/common.R")
for (part in c("mixtures", "densities", "losses")) source(file.path(bench_folder, "bandwidths", paste0(part, ".R")))
options(flashkernel.progress = FALSE, flashkernel.threads = 1)
numbers <- \(text) as.numeric(strsplit(text, ",", fixed = TRUE)[[1]])
n <- as.numeric(option("--n", "500"))
seeds <- as.numeric(option("--seed", "400")) + seq_len(as.numeric(option("--samples", "2")))

with_outliers <- function(mixture, share = 0.03, sd = 6) {
  normal_mixture(
    c((1 - share) * mixture$p, share), rbind(mixture$mean, 0), c(lapply(mixture$root, crossprod), list(diag(mixture$d) * sd^2))
  )
}
ten_densities <- function(d) {
  units <- diag(10^seq(0, 1, length.out = d))
  list(
    simulated("normal", autoregressive(d, 0)), simulated("ar .8", autoregressive(d, 0.8)), simulated("clusters", clusters(d)),
    simulated("bimodal, rotated", transformed(product_of(d, c("skewed_bimodal", "bimodal")), units %*% rotation(d))),
    simulated("kurtotic product", product_of(d, c("kurtotic", "gaussian", "outlier"))),
    student("t3", d, 3), student("t2", d, 2), student("cauchy", d, 1),
    simulated("clusters, outliers", with_outliers(clusters(d, 4))),
    simulated("normal, outliers", with_outliers(autoregressive(d, 0.5)))
  )
}
FITS <- list(
  default = \(x) flash_kde(x), sdkde = \(x) flash_kde(x, "sdkde", adaptive = FALSE),
  adaptive = \(x) flash_kde(x, "kde", adaptive = TRUE), laplace = \(x) flash_kde(x, "laplace"),
  plugin = \(x) flash_kde(x, "kde", bandwidth = kde_bandwidth(x, "plugin", "kde", "full")),
  `ks::Hpi` = \(x) if (ncol(x) <= 3) flash_kde(x, "kde", bandwidth = unname(ks::Hpi(x)))
)

bench_start("several.R", "Default fits of several columns: integrated squared error over that of the best")
tables <- lapply(numbers(option("--d", "2,3,4,5")), \(d) {
  rows <- lapply(ten_densities(d), \(density) {
    density$square <- density$square()
    rowMeans(matrix(vapply(seeds, \(s) {
      set.seed(s)
      x <- density$draw(n)
      vapply(FITS, \(fit) {
        found <- suppressWarnings(suppressMessages(fit(x)))
        if (is.null(found)) NA else integrated_error(found, density)
      }, 0)
    }, numeric(length(FITS))), length(FITS)))
  })
  table <- do.call(rbind, rows)
  dimnames(table) <- list(paste0(vapply(ten_densities(d), `[[`, "", "name"), ", d = ", d), names(FITS))
  table / apply(table, 1, min, na.rm = TRUE)
})
table <- do.call(rbind, tables)
cat("n =", n, " samples:", length(seeds), "\n")
print(round(table, 3))
cat("geometric mean", round(exp(colMeans(log(table), na.rm = TRUE)), 3), " largest", round(apply(table, 2, max, na.rm = TRUE), 2), "\n")
