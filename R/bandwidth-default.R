#' The default bandwidth, and why
#'
#' Without a `bandwidth`, [flash_kde()] takes the one that [kde_bandwidth()] chooses for the estimator at hand: its
#' structure, one factor on the spreads of the columns, a factor on the covariance matrix, a bandwidth for each column or a full
#' matrix, by cross-validated likelihood; its factor by a criterion that suits the estimator.
#'
#' @section Method:
#' 1. Rows are put into an order of their own, copies are merged, what was rounded away is put back.
#' 2. On up to some thousand rows the leave-one-out likelihood of the plain estimate is maximised in every structure, by
#'    its gradient. p parameters gain about 3 p / n nats by chance: so much is taken off before structures are compared.
#' 3. One factor for all of H is found on all rows where that is affordable, else on up to four samples: for `"kde"` by
#'    the leave-one-out likelihood, for `"sdkde"` by the exact one of both stages, with a score bandwidth of H / 2. In one
#'    dimension by a likelihood that is censored towards the tails (less what censoring takes off the plain estimate's
#'    factor), since the likelihood itself oversmooths where these are heavy. For `"laplace"` by the least-squares
#'    criterion of the signed estimate, because the likelihood knows no negative densities: that estimate is the one
#'    with the least integrated squared error, and not one to take logarithms of.
#' 4. Columns that are discrete are smoothed by at least the width of their rounding.
#' 5. Where no `estimator` is named, or `"kde"`: points get bandwidths of their own ([adaptive_factors()]) if these gain
#'    more than 0.02 nats a row, and three standard errors, over the estimate so far, each point left out, on 500 and
#'    then up to 2,000 rows. The estimate with them is the plain one: to debias it, too, gains little.
#'
#' @section Measured:
#' Mean log density of held-out rows, in nats, n = 2,000, means over 12 splits of columns that are standardised; sdkde and
#' kde with `adaptive = FALSE`, `before`: the default of one factor for all columns that this one has replaced, the last
#' columns are `ks::Hpi()` and scikit-learn's search (5 folds, 20 bandwidths, one for all columns). In brackets standard
#' errors of the difference to the default, of income 0.002 at most.
#'
#' | data | default | sdkde | kde | before | ks | scikit-learn |
#' |---|---|---|---|---|---|---|
#' | longitude, latitude | 0.07 | -0.37 (0.04) | -0.42 (0.04) | -0.40 (0.04) | -0.42 (0.01) | -0.32 (0.01) |
#' | and income, value | -1.56 | -2.12 (0.03) | -2.19 (0.03) | -2.78 (0.02) | over 40 s | -2.75 (0.02) |
#' | diamonds, 3 columns | -1.68 | -2.19 (0.05) | -2.30 (0.06) | -2.66 (0.07) | -2.87 (0.08) | -2.63 (0.04) |
#' | higgs, 6 masses | -3.93 | -5.42 (0.24) | -5.74 (0.27) | -5.82 (0.16) | over 40 s | -5.77 (0.06) |
#' | income | -1.263 | -1.263 | -1.265 | -1.263 | -1.265 | -1.265 |
#'
#' A few rows that are far from all others decide much of the difference to one bandwidth: with a millionth of a Cauchy
#' density mixed into every estimate that of sdkde is 0.25, 0.31, 0.22, 0.47 and 0.00 nats.
#'
#' On 26 sets of columns with n = 500 and 2,000 (49 cells, 15 to 18 splits) the default is better than scikit-learn's search
#' and, in one dimension, `stats::bw.SJ()` in 41 cells, within a standard error in 2 and worse in 6; with the Cauchy
#' density mixed in, and held-out rows spread within their rounding, better in 48. Those 6: a column of shuttle that
#' is a spike with far outliers, shuttle's nine columns, carats of 500 diamonds, and ages, where the narrow bandwidth sits on
#' integers.
#'
#' Integrated squared error over the best of all selectors tried, geometric means over 204 cells of simulated families
#' (Marron and Wand's fifteen, their products and rotations, heavy tails, d = 1 to 20, n = 500 and 2,000, 4 samples each):
#' laplace 1.14, the default 1.18 (1.08 in one dimension), sdkde 1.30, kde 1.71; above 1.5 in 12, 29, 47 and 98 of them.
#' The default is worst, up to 4.9, at products of Marron and Wand's outlier density and at heavy tails in several
#' dimensions (1.5 to 3).
#'
#' @section What it does not do:
#' With `adaptive = FALSE`, or `"sdkde"` or `"laplace"` by name, one H serves all points. Where `print()` then tells of
#' heavy tails, the middle and the tails want different ones; where it tells of spikes or few values, a density is no
#' good description of that column, whatever the bandwidth. In more than 16 columns a full H is not tried.
#'
#' @source `bench/bandwidths.R` of the source repository
#' @seealso [kde_bandwidth()]
#' @name bandwidth_default
NULL
