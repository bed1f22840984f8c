# kernel_regression() without any number on small data sets: ten-fold error beside lm(), loess(), mgcv::gam() and np.
#
#   Rscript bench/regression-sets.R [--save] [--sets A,B] [--models kernel,lm] [--repeats 3] [--kept FILE]
#
# A cell is the root mean square error of rows left out of ten folds, over that of lm() on the same folds, which are drawn
# anew `repeats` times. The last columns are the ratio of kernel_regression() to the best peer but lm(), and the standard
# error of its logarithm over the repeats, paired. The last lines are
# geometric means over the sets that a model can fit, beside those of kernel_regression() on the same sets. Constants
# of kernel_regression() were chosen on the first table's sets; those of the second table were looked at while its search
# was changed; those of the third table were chosen before anything was measured on them. loess() takes
# up to four columns and no factors; gam() has a smooth term for each number with four values or more; np chooses by
# cross-validation ("np") or AICc ("np_aic") and gets local linear fits. --kept: a file that keeps errors of peers.

source("bench/common.R")
suppressPackageStartupMessages(library(mgcv))
has_np <- suppressPackageStartupMessages(require("np", quietly = TRUE))
options(np.messages = FALSE, flashkernel.threads = 1)

mass <- \(name) get(utils::data(list = name, package = "MASS", envir = environment()))
uci <- \(name) {
  table <- read_data(paste0("uci_", name))
  if (!is.null(table)) stats::setNames(table, c(paste0("x", seq_len(ncol(table) - 1)), "y"))
}
states <- as.data.frame(state.x77)
names(states) <- make.names(names(states))

# name = list(formula, data)
CHOSEN_ON <- list(
  swiss = list(Fertility ~ ., swiss),
  mtcars = list(mpg ~ wt + hp, mtcars),
  cars = list(dist ~ speed, cars),
  airquality = list(Ozone ~ Solar.R + Wind + Temp, airquality),
  trees = list(Volume ~ ., trees),
  stackloss = list(stack.loss ~ ., stackloss),
  attitude = list(rating ~ ., attitude),
  rock = list(perm ~ area + peri + shape, rock),
  iris = list(Sepal.Width ~ ., iris),
  hills = list(time ~ dist + climb, mass("hills")),
  mcycle = list(accel ~ times, mass("mcycle")),
  states = list(Life.Exp ~ ., states),
  cats = list(Hwt ~ Bwt + Sex, mass("cats")),
  savings = list(sr ~ ., LifeCycleSavings),
  GAGurine = list(GAG ~ Age, mass("GAGurine")),
  yacht = list(y ~ ., uci("yacht"))
)
HELD_ASIDE <- list(
  faithful = list(waiting ~ eruptions, faithful),
  longley = list(Employed ~ ., longley),
  freeny = list(y ~ ., freeny),
  quakes = list(mag ~ lat + long + depth + stations, quakes[seq(1, 1000, 3), ]),
  ToothGrowth = list(len ~ dose + supp, ToothGrowth),
  pressure = list(pressure ~ temperature, pressure),
  mtcars_all = list(mpg ~ ., mtcars),
  UScrime = list(y ~ ., mass("UScrime")),
  cpus = list(log10(perf) ~ syct + mmin + mmax + cach + chmin + chmax, mass("cpus")),
  whiteside = list(Gas ~ Temp + Insul, mass("whiteside")),
  Rubber = list(loss ~ hard + tens, mass("Rubber")),
  petrol = list(Y ~ SG + VP + V10 + EP, mass("petrol")),
  mammals = list(log(brain) ~ log(body), mass("mammals")),
  geyser = list(duration ~ waiting, mass("geyser")),
  crabs = list(CW ~ FL + BD + sp + sex, mass("crabs")),
  birthwt = list(bwt ~ age + lwt + factor(race) + factor(smoke) + ptl, mass("birthwt")),
  autompg = list(y ~ ., uci("autompg")),
  Boston = list(medv ~ lstat + rm + crim + ptratio, mass("Boston")),
  GAG_log = list(log(GAG) ~ Age, mass("GAGurine")),
  warpbreaks = list(breaks ~ wool + tension, warpbreaks)
)


from <- \(package, name) {
  if (requireNamespace(package, quietly = TRUE)) get(utils::data(list = name, package = package, envir = environment()))
}
NEW <- list(
  ethanol = list(NOx ~ C + E, from("lattice", "ethanol")),
  engel = list(foodexp ~ income, from("quantreg", "engel")),
  Prestige = list(prestige ~ education + income + type, from("carData", "Prestige")),
  Davis = list(weight ~ height + sex, from("carData", "Davis")),
  Duncan = list(prestige ~ income + education + type, from("carData", "Duncan")),
  Leinhardt = list(log(infant) ~ log(income) + region + oil, from("carData", "Leinhardt")),
  Cars93 = list(MPG.highway ~ Weight + Horsepower + EngineSize + Type, mass("Cars93")),
  anorexia = list(Postwt ~ Prewt + Treat, mass("anorexia")),
  cabbages = list(VitC ~ HeadWt + Cult + Date, mass("cabbages")),
  wtloss = list(Weight ~ Days, mass("wtloss")),
  delivery = list(delTime ~ ., from("robustbase", "delivery")),
  coleman = list(Y ~ ., from("robustbase", "coleman")),
  education = list(Y ~ X1 + X2 + X3, from("robustbase", "education")),
  toxicity = list(toxicity ~ ., from("robustbase", "toxicity")),
  salinity = list(sal ~ lag + trend + dis, from("boot", "salinity")),
  nuclear = list(log(cost) ~ date + cap + pt + ne, from("boot", "nuclear")),
  mileage = list(Mileage ~ Weight + Disp. + HP, from("rpart", "car.test.frame")),
  penguins = list(body_mass_g ~ bill_length_mm + flipper_length_mm + species + sex, from("palmerpenguins", "penguins")),
  attenu = list(accel ~ mag + dist, attenu),
  CO2 = list(uptake ~ conc + Type + Treatment, CO2),
  Puromycin = list(rate ~ conc + state, Puromycin),
  Journals = list(log(subs) ~ log(price / citations) + log(pages), from("AER", "Journals")),
  CPS1985 = list(log(wage) ~ education + experience + gender, from("AER", "CPS1985")),
  sleepstudy = list(Reaction ~ Days, from("lme4", "sleepstudy"))
)

# ---- models: predictions at `new` of a fit to `data`, whose response is y -------------------------

numbers_of <- \(data) setdiff(names(Filter(is.numeric, data)), "y")

MODELS <- list(
  kernel = \(data, new) stats::predict(kernel_regression(y ~ ., data), new),
  lm = \(data, new) stats::predict(stats::lm(y ~ ., data), new),
  loess = function(data, new) {
    if (ncol(data) > 5 || length(numbers_of(data)) < ncol(data) - 1) return(NA)
    stats::predict(stats::loess(y ~ ., data, control = stats::loess.control(surface = "direct")), new)
  },
  gam = function(data, new) {
    values <- vapply(data[numbers_of(data)], \(x) length(unique(x)), 0)
    smooth <- names(values)[values >= 4]
    most <- max(3, floor((nrow(data) - ncol(data)) / max(1, length(smooth))))
    terms <- c(setdiff(names(data), c("y", smooth)), sprintf("s(%s, k = %d)", smooth, pmin(10, values[smooth], most)))
    stats::predict(gam(stats::reformulate(terms, "y"), data = data, method = "REML"), new)
  },
  np = \(data, new) np_fit(data, new, "cv.ls"),
  np_aic = \(data, new) np_fit(data, new, "cv.aic")
)

np_fit <- function(data, new, criterion) {
  if (!has_np || nrow(data) * (ncol(data) - 1)^2 > 6000) return(NA)
  x <- setdiff(names(data), "y")
  bws <- npregbw(xdat = data[x], ydat = data$y, regtype = "ll", bwmethod = criterion, nmulti = 2)
  npreg(bws = bws, txdat = data[x], tydat = data$y, exdat = new[x])$mean
}

# ---- errors -------------------------------------------------------------------------------------

frame_of <- function(set) {
  frame <- stats::model.frame(set[[1]], set[[2]])
  x <- frame[-1]
  names(x) <- make.names(names(x))
  made <- data.frame(y = as.double(frame[[1]]), lapply(x, \(one) if (is.numeric(one)) as.double(one) else factor(one)))
  made
}

# The divisions into folds, as columns.
folds_of <- function(n, repeats) {
  set.seed(1)
  matrix(vapply(seq_len(repeats), \(i) sample(rep_len(1:10, n)), integer(n)), n)
}

squared_errors <- function(model, data, folds) {
  total <- 0
  for (k in 1:10) {
    found <- tryCatch(
      suppressWarnings(model(data[folds != k, ], data[folds == k, ])), error = \(e) if (Sys.getenv("WHY") != "") print(e)
    )
    if (length(found) == 0 || anyNA(found)) return(NA)
    total <- total + sum((data$y[folds == k] - found)^2)
  }
  total / nrow(data)
}

kept_file <- option("--kept")
kept <- if (!is.null(kept_file) && file.exists(kept_file)) readRDS(kept_file) else list()
cell <- function(set, name, data, folds) {
  key <- paste(set, name, ncol(folds))
  if (name != "kernel" && !is.null(kept[[key]])) return(kept[[key]])
  found <- apply(folds, 2, \(one) squared_errors(MODELS[[name]], data, one))
  if (name != "kernel" && !is.null(kept_file)) {
    kept[[key]] <<- found
    saveRDS(kept, kept_file)
  }
  found
}

# Returns c(ratio, se): kernel_regression() beside the best of the peers, whose squared errors by repeat are `cells`.
beside_best <- function(cells) {
  peers <- Filter(\(one) !anyNA(one), cells[setdiff(names(cells), c("kernel", "lm"))])
  if (length(peers) == 0 || is.null(cells$kernel)) return(c(NA, NA))
  best <- peers[[which.min(vapply(peers, mean, 0))]]
  logs <- log(cells$kernel / best) / 2
  c(sqrt(mean(cells$kernel) / mean(best)), stats::sd(logs) / sqrt(length(logs)))
}

# Returns and prints the table of errors, a row for each set.
table_of <- function(sets, models, repeats) {
  if (length(sets) == 0) return(invisible())
  cat(sprintf("%-12s %5s %3s %9s", "set", "rows", "d", "lm"), sprintf("%8s", models), "    best     se\n")
  rows <- lapply(names(sets), \(set) {
    if (is.null(sets[[set]][[2]])) return(NULL)
    data <- frame_of(sets[[set]])
    folds <- folds_of(nrow(data), repeats)
    cells <- lapply(stats::setNames(nm = c("lm", models)), \(name) cell(set, name, data, folds))
    errors <- sqrt(vapply(cells, mean, 0))
    ratios <- errors[-1] / errors[[1]]
    cat(
      sprintf("%-12s %5d %3d %9.4g", set, nrow(data), ncol(data) - 1, errors[[1]]), sprintf("%8.3f", ratios),
      sprintf("%7.3f", beside_best(cells)), "\n"
    )
    ratios
  })
  ratios <- do.call(rbind, rows)
  mean_of <- \(x) exp(mean(log(x), na.rm = TRUE))
  cat(sprintf("%-31s", "geometric mean"), sprintf("%8.3f", apply(ratios, 2, mean_of)), "\n")
  own <- apply(ratios, 2, \(one) mean_of(ratios[!is.na(one), "kernel"]))
  cat(sprintf("%-31s", "kernel on the same sets"), sprintf("%8.3f", own), "\n\n")
  invisible(ratios)
}

bench_start("regression-sets.R", "Ten-fold error of kernel regression on small sets, over that of lm()")
repeats <- as.integer(option("--repeats", "3"))
models <- option_values("--models", setdiff(names(MODELS), c("lm", if (!has_np) c("np", "np_aic"))))
wanted <- \(sets) sets[intersect(names(sets), option_values("--sets", names(sets)))]
cat("sets on which constants were chosen\n")
table_of(wanted(CHOSEN_ON), models, repeats)
cat("sets that were looked at while the search was changed\n")
table_of(wanted(HELD_ASIDE), models, repeats)
cat("new sets\n")
table_of(wanted(NEW), models, repeats)
