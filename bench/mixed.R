# Numbers and factors together, compared with np, if it is installed: held-out log density of random splits, seconds,
# and whether np's bandwidths give np's density with this package.
#
#   Rscript bench/mixed.R [--splits 3]
#
# If bench/data has diamonds, also times the fit and all densities of all diamonds.

source("bench/common.R")
options(flashkernel.progress = FALSE, flashkernel.threads = 1)
splits <- as.integer(option("--splits", "3"))
has_np <- requireNamespace("np", quietly = TRUE)
if (has_np) suppressMessages(library(np))
options(np.messages = FALSE)

sets <- list(
  iris = iris, tooth = transform(ToothGrowth, dose = factor(dose)),
  pima = rbind(MASS::Pima.tr, MASS::Pima.te)[c("glu", "bmi", "age", "type")]
)
diamonds <- read_data("diamonds")
if (!is.null(diamonds)) {
  diamonds[] <- lapply(diamonds, \(column) if (is.character(column)) factor(column) else column)
  set.seed(3)
  few <- transform(diamonds[sample(nrow(diamonds), 700), ], carat = log(carat), price = log(price))
  sets$diamonds <- few[c("carat", "price", "cut", "clarity")]
}

mean_log <- function(density) mean(log(pmax(density, 1e-300)))

one_split <- function(data, seed) {
  set.seed(seed)
  train <- sample(nrow(data), floor(0.7 * nrow(data)))
  seconds <- cpu_seconds(fit <- flash_kde(data[train, ]))
  one <- flash_kde(data[train, ], adaptive = FALSE)
  row <- c(
    flash_kde = mean_log(predict(fit, data[-train, ])), one_bandwidth = mean_log(predict(one, data[-train, ])),
    seconds = seconds
  )
  if (!has_np) return(row)
  row["np_seconds"] <- cpu_seconds(bw <- npudensbw(dat = data[train, ], bwmethod = "cv.ml", nmulti = 2))
  theirs <- fitted(npudens(bw, edat = data[-train, ]))
  levels <- vapply(data, is.factor, NA)
  lambda <- stats::setNames(bw$bw[levels], names(data)[levels])
  same <- flash_kde(data[train, ], "kde", bandwidth = bw$bw[!levels], categorical = categorical_kernel(smoothing = lambda))
  far <- abs(log(predict(same, data[-train, ]) / theirs))[theirs > 1e-250]
  c(row, np = mean_log(theirs), differs = max(far))
}

for (name in names(sets)) {
  cat("\n", name, ", n = ", nrow(sets[[name]]), "\n", sep = "")
  print(signif(t(vapply(seq_len(splits), \(seed) one_split(sets[[name]], seed), numeric(if (has_np) 6 else 3))), 4))
}
if (!is.null(diamonds)) {
  cat("\nall diamonds:", cpu_seconds(fit <- flash_kde(diamonds)), "s of a core for the fit, ")
  cat(cpu_seconds(predict(fit)), "s for all densities\n")
}
