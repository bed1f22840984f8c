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
#' 3. One factor for all of H is found on all rows where that is affordable, else on up to four samples. For `"kde"` by
#'    a likelihood that is censored towards the tails, since the likelihood itself oversmooths where these are heavy, by
#'    an integrated squared error several times as large as need be; for `"sdkde"` by the exact leave-one-out likelihood
#'    of both stages, with a score bandwidth of H / 2, less what censoring takes off the plain estimate's factor; for
#'    `"laplace"` by the least-squares criterion of the signed estimate, because the likelihood knows no negative
#'    densities.
#' 4. Columns that are discrete are smoothed by at least the width of their rounding.
#'
#' @section What it does not do:
#' One H serves all points. Where `print()` tells of heavy tails, the middle and the tails want different ones; where it
#' tells of spikes or few values, a density is no good description of that column, whatever the bandwidth. In more than
#' 16 columns a full H is not tried.
#'
#' @source `inst/bench/bandwidths.R`
#' @seealso [bw_auto()], [bw_lscv()], [bw_plugin()], [bw_silverman()] (also for what the papers use), [bw_nrd0()]
#' @name bandwidth_default
NULL
