#' The default bandwidth, and why
#'
#' Without a `bandwidth`, [flash_kde()] takes the one that [bw_auto()] chooses for the estimator at hand: its structure,
#' one factor on the spreads of the columns, a factor on the covariance matrix, a bandwidth for each column or a full
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
#'    then up to 2,000 rows. The estimate with them is the plain one: they do what debiasing would.
#'
#' @section Measured:
#' Mean log density of held-out rows, in nats, n = 2,000, means over 12 splits of columns that are standardised; `before`
#' is the default of one factor by the likelihood that this one has replaced, the last columns are `ks::Hpi()` and
#' scikit-learn's search (5 folds, 20 bandwidths, one for all columns). In brackets standard errors of the difference to
#' the first column.
#'
#' | data | sdkde | kde | before (sdkde) | ks | scikit-learn |
#' |---|---|---|---|---|---|
#' | longitude, latitude | -0.372 | -0.422 (0.004) | -0.395 (0.008) | -0.415 (0.029) | -0.315 (0.029) |
#' | the same, income, value | -2.115 | -2.186 (0.002) | -2.777 (0.027) | over 40 s | -2.754 (0.027) |
#' | diamonds, 3 columns | -2.188 | -2.294 (0.006) | -2.660 (0.097) | -2.873 (0.092) | -2.625 (0.079) |
#' | higgs, 6 masses | -5.417 | -5.743 (0.167) | -5.820 (0.422) | over 40 s | -5.768 (0.439) |
#' | income | -1.263 | -1.265 (0.002) | -1.263 (0.000) | -1.265 (0.001) | -1.265 (0.001) |
#'
#' A few rows that are far from all others decide the first of these: a millionth of a Cauchy density mixed into every
#' estimate makes of it -0.180 for sdkde, -0.388 for ks and -0.277 for scikit-learn.
#'
#' Integrated squared error over the best of all selectors tried, geometric means over 204 cells of simulated families
#' (Marron and Wand's fifteen, their products and rotations, heavy tails, d = 1 to 12, n = 500 and 2,000, 4 samples each):
#' laplace 1.11, sdkde 1.44 and kde 1.85 by the likelihood; in one dimension, where it is censored, 1.31, 1.08 and 1.48.
#' Heavy tails in several dimensions are the worst of them: no one bandwidth suits these, and step 5 is for them.
#'
#' The default before that step and with it, n = 2,000, four splits, and in brackets the standard error of the difference,
#' most of it from the few rows that are far from all others (`floored`: a millionth of a Cauchy density mixed into both):
#'
#' | data | one bandwidth | default | floored: one bandwidth | default |
#' |---|---|---|---|---|
#' | longitude, latitude | -0.387 | 0.061 (0.043) | -0.179 | 0.061 (0.003) |
#' | the same, income, value | -2.205 | -1.556 (0.047) | -1.879 | -1.556 (0.008) |
#' | diamonds, 3 columns | -2.146 | -1.708 (0.047) | -1.935 | -1.708 (0.017) |
#' | higgs, 6 masses | -5.782 | -3.974 (0.679) | -4.448 | -3.973 (0.019) |
#' | income | -1.268 | the same | -1.268 | the same |
#'
#' @section What it does not do:
#' With `adaptive = FALSE`, or `"sdkde"` or `"laplace"` by name, one H serves all points. Where `print()` then tells of heavy
#' tails, the middle and the tails want different ones; where it tells of spikes or few values, a density is no good description of that column, whatever the bandwidth. In more than
#' 16 columns a full H is not tried.
#'
#' @source `inst/bench/bandwidths.R`
#' @seealso [bw_auto()], [bw_lscv()], [bw_plugin()], [bw_silverman()] (also for what the papers use), [bw_nrd0()]
#' @name bandwidth_default
NULL
