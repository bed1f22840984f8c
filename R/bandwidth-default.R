#' The default bandwidth, and why
#'
#' Without a `bandwidth`, [flash_kde()] takes the one that [bw_lcv()] finds for the estimator at hand
#' with `structure = "scaled"` (one factor on the spreads of the columns), from at most 2,000 rows, or
#' fewer in more than 16 dimensions, carried to all n by the estimator's rate. It costs a fraction of a
#' second whatever n is. This page holds the measurement behind that choice.
#'
#' @section Method:
#' `inst/bench/default-bandwidth.R` (316 s on two cores) draws samples of n = 200, 500 and 2,000 points
#' in d = 1, 2, 4, 8 and 16 from six densities each (normal, skewed, heavy-tailed, and mixtures of
#' unequal and correlated normals), 90 cells for each estimator, and splits eight real data sets. Every
#' selector picks a bandwidth for every sample. Two losses are taken: nats per fresh point, *log-loss*,
#' the mean over cells of the excess over the best selector of the cell; and the integrated squared
#' error, *ISE*, the geometric mean over cells of its ratio to the best. Smaller is better; the ideal is
#' 0 and 1.
#'
#' @section Simulated data:
#' | estimator | selector | log-loss | ISE | seconds |
#' |---|---|---|---|---|
#' | kde | **lcv** | 0.085 | 1.26 | 0.06 |
#' | | silverman | 0.39 | 1.54 | 0.002 |
#' | | scott | 0.41 | 1.53 | 0.001 |
#' | | lscv | 0.51 | 1.11 | 0.04 |
#' | sdkde | **lcv** | 0.084 | 1.23 | 0.16 |
#' | | silverman, rate of the kde | 0.38 | 1.49 | 0.002 |
#' | | silverman, its own rate | 0.40 | 1.88 | 0.001 |
#' | | scott, its own rate | 0.46 | 2.05 | 0.001 |
#' | | the papers' rule | 0.75 | 1.97 | 0.002 |
#' | laplace | **lcv** | 0.085 | 1.31 | 0.12 |
#' | | scott, its own rate | 0.62 | 1.43 | 0.001 |
#' | | silverman, its own rate | 0.67 | 1.52 | 0.001 |
#' | | silverman, rate of the kde | 1.05 | 1.61 | 0.002 |
#'
#' In one dimension `"sj"` comes to 0.05 and 1.19 for the plain estimate, `"lcv"` to 0.015 and 1.30;
#' for the debiased estimates, whose best bandwidths are larger, `"lcv"` is ahead on both losses.
#' `"lscv"` is best in integrated squared error, which hardly sees the tails, and poor in likelihood,
#' which does. The rules of thumb lose by modes and heavy tails: their worst ratio of the integrated
#' squared error is 8 to 100, that of `"lcv"` 4.6.
#'
#' @section Real data:
#' Log-loss on a held-out fifth, over the best selector of each set (faithful, quakes, iris and three
#' UCI sets, d = 1 to 9): `"lcv"` 1.4 to 1.5, `"silverman"` at the estimator's own rate 2.5 to 2.8, the
#' papers' rule 6.3 to 6.8. `"lcv"` with a parameter for each column is better in the mean of simulated
#' data and can fail on real ones (columns of few distinct values), so it has to be asked for:
#' `bw_lcv(x, structure = "diagonal")`.
#'
#' @section Many points:
#' Nine cells with n = 10,000, the log-loss over the best and the seconds:
#'
#' | estimator | lcv, 2,000 rows | lcv, all rows | silverman |
#' |---|---|---|---|
#' | kde | 0.006, 0.09 s | 0.002, 1.2 s | 0.12 |
#' | sdkde | 0.002, 0.35 s | 0.004, 8.1 s | 0.12 |
#' | laplace | 0.006, 0.23 s | 0.003, 2.7 s | 0.15 |
#'
#' Two thousand rows lose nothing that could be told from noise.
#'
#' @source `inst/bench/default-bandwidth.R`; all cells are in `inst/bench/results/default-bandwidth.csv`.
#' @seealso [bw_lcv()], [bw_silverman()] (also for what the papers use), [bw_nrd0()]
#' @name bandwidth_default
NULL
