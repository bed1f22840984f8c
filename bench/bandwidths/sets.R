# Real data: list(name, d, x, step) with standardised columns. `step`: half-width of the rounding interval of a value,
# within which held-out rows are spread: at repeated values, the log density has no upper bound.

SETS <- list(
  "income" = list("california_housing", "median_income"),
  "house age" = list("california_housing", "housing_median_age"),
  "carat" = list("diamonds", "carat"),
  "shuttle 4" = list("shuttle", "V4"),
  "california 2" = list("california_housing", c("longitude", "latitude")),
  "california 4" = list("california_housing", c("longitude", "latitude", "median_income", "median_house_value")),
  "california 9" = list("california_housing", 1:9),
  "diamonds 3" = list("diamonds", c("carat", "depth", "price")),
  "diamonds 7" = list("diamonds", c("carat", "depth", "table", "price", "x", "y", "z")),
  "higgs 6" = list("higgs_subset", c("m_jj", "m_jjj", "m_lv", "m_jlv", "m_bb", "m_wbb")),
  "higgs 20" = list("higgs_subset", c(1:8, 10:12, 14:16, 18:20, 22:24)),
  "shuttle 6" = list("shuttle", c("V1", "V3", "V5", "V7", "V8", "V9")),
  "shuttle 9" = list("shuttle", 1:9),
  "satellite 5" = list("satellite", 1:36, components = 5),
  "satellite 16" = list("satellite", 1:36, components = 16),
  "elevators 6" = list("uci_elevators", 1:6),
  "elevators 9" = list("uci_elevators", 1:9),
  "bike 4" = list("uci_bike", 12:15),
  "pol 4" = list("uci_pol", 1:4),
  "gas 5" = list("uci_gas", 1:128, components = 5),
  "parkinsons 6" = list("uci_parkinsons", c(4:6, 15:17)),
  "parkinsons 17" = list("uci_parkinsons", 4:20),
  "airfoil 5" = list("uci_airfoil", 1:5),
  "concrete 8" = list("uci_concrete", 1:8),
  "energy 8" = list("uci_energy", 1:8),
  "kin40k 8" = list("uci_kin40k", 1:8),
  "letter 16" = list("letter", 2:17)
)

read_sets <- function(names) {
  files <- list()
  sets <- list()
  for (name in names) {
    file <- SETS[[name]][[1]]
    if (is.null(files[[file]])) files[[file]] <- read_data(file)
    if (!is.null(files[[file]])) sets[[name]] <- made_set(name, files[[file]], SETS[[name]])
  }
  sets
}

made_set <- function(name, table, use) {
  table <- table[vapply(table, is.numeric, NA) | seq_along(table) %in% use[[2]]]
  x <- unname(as.matrix(table[use[[2]]]))
  x <- x[stats::complete.cases(x), , drop = FALSE]
  if (!is.null(use$components)) x <- stats::prcomp(x, rank. = use$components)$x
  x <- unname(scale(x)[, seq_len(ncol(x)), drop = FALSE])
  list(name = name, d = ncol(x), x = x, step = lapply(seq_len(ncol(x)), \(k) rounding(x[, k])))
}

# list(value, below, above): the distinct values, and how far what they stand for goes: half of the width of a lattice,
# half of the way to the neighbours where a few values are on none. NULL where values hardly repeat.
rounding <- function(column) {
  value <- sort(unique(column))
  if (length(value) >= 0.9 * length(column)) return(NULL)
  gap <- diff(value)
  width <- stats::quantile(gap, 0.01, names = FALSE)
  if (mean(abs(gap / width - round(gap / width)) < 0.02) < 0.9) {
    if (length(value) > 200) return(NULL)
    return(list(value = value, below = c(gap[1], gap) / 2, above = c(gap, gap[length(gap)]) / 2))
  }
  list(value = value, below = rep(width / 2, length(value)), above = rep(width / 2, length(value)))
}

spread_within <- function(x, step) {
  for (k in seq_along(step)) {
    if (is.null(step[[k]])) next
    at <- match(x[, k], step[[k]]$value)
    x[, k] <- x[, k] + stats::runif(nrow(x), -step[[k]]$below[at], step[[k]]$above[at])
  }
  x
}

held_out <- function(set) min(4000, nrow(set$x) %/% 5)

# list(x, test, spread) of a split: n rows, and the same others for every n.
split_set <- function(set, n, split) {
  set.seed(seed_of(set$name, split))
  rows <- sample.int(nrow(set$x))
  test <- set$x[rows[seq_len(held_out(set))], , drop = FALSE]
  spread <- spread_within(test, set$step)
  list(x = set$x[rows[held_out(set) + seq_len(n)], , drop = FALSE], test = test, spread = spread)
}

split_density <- function(density, n, split) {
  set.seed(seed_of(density$name, split))
  test <- density$draw(2000)
  x <- if (is.null(density$sample)) density$draw(n) else density$sample(n)
  list(x = x, test = test, spread = test, truth = density)
}

seed_of <- function(name, split) sum(utf8ToInt(name) * seq_len(nchar(name))) %% 1e6 * 1000 + split
