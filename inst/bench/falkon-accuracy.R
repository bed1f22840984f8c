# Error of kernel regression beside published figures of Gaussian processes: by default, and with tune_falkon().
#
#   Rscript inst/bench/falkon-accuracy.R [--data FOLDER] [--sets kin40k,pol,...] [--splits 1,2,3] [--centers 4000]
#     [--rows 1000] [--kernels gaussian,matern52] [--criterion likelihood] [--iterations 100] [--backend cuda] [--save]
#
# FOLDER has the sets of treforevans/uci_datasets as uci_NAME.csv.gz and uci_NAME.test_mask.csv.gz (a column for each
# split); default ../shared/data. Sets that are not there are skipped, and told.
#
# Published: root mean square errors on standardised targets, Wang et al. 2019 (arXiv 1903.08114), table 1, whose rows
# for training are fewer (4 of 9) than those of these splits (9 of 10).

source(file.path(dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))), "common.R"))

folder <- option("--data", "../shared/data")
sets <- option_values("--sets", c("airfoil", "concrete", "energy", "gas", "parkinsons", "elevators", "bike", "pol", "kin40k"))
splits <- as.integer(option_values("--splits", 2))
centers <- as.integer(option("--centers", 4000))
rows <- as.integer(option("--rows", 1000))
kernels <- option_values("--kernels", c("gaussian", "matern52"))
criterion <- option("--criterion", "likelihood")
iterations <- as.integer(option("--iterations", 100))
control <- flash_control(backend = option("--backend", "auto"))
bench_start("falkon-accuracy.R", "Kernel regression beside published Gaussian processes")

PUBLISHED <- data.frame(
  set = c("pol", "elevators", "bike", "kin40k"), exact = c(0.151, 0.394, 0.220, 0.099),
  sgpr = c(0.217, 0.437, 0.362, 0.273), svgp = c(0.215, 0.399, 0.303, 0.268)
)

read <- function(file) as.matrix(utils::read.csv(file.path(folder, file), header = FALSE))

# Columns and response standardised by the rows of training.
standardised <- function(name, split) {
  data <- unname(read(paste0("uci_", name, ".csv.gz")))
  test <- read(paste0("uci_", name, ".test_mask.csv.gz"))[, split] == 1
  data <- sweep(data, 2, colMeans(data[!test, ]))
  spread <- apply(data[!test, ], 2, stats::sd)
  data <- sweep(data, 2, ifelse(spread > 0, spread, 1), "/")
  d <- ncol(data) - 1
  list(x = data[!test, 1:d], y = data[!test, d + 1], new = data[test, 1:d], truth = data[test, d + 1])
}

error_of <- function(fit, data) sqrt(mean((predict(fit, data$new) - data$truth)^2))

measure <- function(name, split) {
  data <- standardised(name, split)
  set.seed(split)
  default_s <- elapsed(\() fit <<- falkon(data$x, data$y, control = control))
  by_default <- error_of(fit, data)
  tune_s <- elapsed(\() {
    tuned <<- tune_falkon(
      data$x, data$y, criterion = criterion, kernel = kernels, rows = rows, refit = FALSE, control = control
    )
  })
  m <- min(nrow(data$x), centers)
  fit_s <- elapsed(\() fit <<- falkon(tuned, centers = m, max_iter = iterations, tol = 1e-5, exact = FALSE))
  data.frame(
    set = name, n = nrow(data$x), d = ncol(data$x), split = split, default = by_default, default_s = default_s,
    tuned = error_of(fit, data), tune_s = tune_s, fit_s = fit_s, kernel = tuned$kernel$name, m = m, iterations = fit$iterations
  )
}
fit <- tuned <- NULL

for (name in sets) {
  if (!file.exists(file.path(folder, paste0("uci_", name, ".csv.gz")))) {
    cat("no data of ", name, " in ", folder, ": skipped\n", sep = "")
    next
  }
  found <- do.call(rbind, lapply(splits, \(split) measure(name, split)))
  shown <- found
  for (column in c("default", "tuned")) shown[[column]] <- formatC(found[[column]], digits = 4, format = "f")
  for (column in c("default_s", "tune_s", "fit_s")) shown[[column]] <- formatC(found[[column]], digits = 3, format = "g")
  show_table(shown)
  published <- PUBLISHED[PUBLISHED$set == name, ]
  cat(
    name, ": mean ", formatC(mean(found$default), digits = 4, format = "f"), " by default, ",
    formatC(mean(found$tuned), digits = 4, format = "f"), " tuned",
    if (nrow(published) > 0) {
      sprintf("; exact GP %.3f, SGPR %.3f, SVGP %.3f", published$exact, published$sgpr, published$svgp)
    },
    "\n\n", sep = ""
  )
}
