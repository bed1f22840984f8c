#' Fast, exact kernel density estimation
#'
#' `flash_kde()` fits a kernel density estimate, with Gaussian or other kernels, to points in any number of dimensions:
#' the plain estimate, the score-debiased one (SD-KDE) or the Laplace-corrected one. Sums have the digits of doubles.
#' They run over all pairs of points that can reach a sum's last bit, or, for many points in up to three dimensions,
#' over a grid that is proven to leave each of them within 1e-12 of itself. With a tolerance `tol`, sums in up to 7
#' dimensions take time linear in the points.
#'
#' @details With the Gaussian kernel \eqn{K_H(u) = (2\pi)^{-d/2} |H|^{-1/2} \exp(-u' H^{-1} u / 2)}{K_H(u) = (2
#'   pi)^(-d/2) |H|^(-1/2) exp(-u' H^-1 u / 2)}, \eqn{q_i = (y - x_i)' H^{-1} (y - x_i)}{q_i = (y - x_i)' H^-1 (y -
#'   x_i)} and \eqn{W = \sum_i w_i}{W = sum_i w_i}:
#' \describe{
#'   \item{`"kde"`}{\eqn{p(y) = \sum_i w_i K_H(y - x_i) / W}{p(y) = sum_i w_i K_H(y - x_i) / W}. Its bias is of order
#'     \eqn{h^2}.}
#'   \item{`"sdkde"`}{Every point first takes half a step of size \eqn{H} along the score (the gradient of the log
#'     density) of a KDE with variance \eqn{H_s}{H_s}, \eqn{\tilde x_i = x_i + (H / 2) \nabla \log p_{H_s}(x_i)}{xd_i =
#'     x_i + (H / 2) grad log p_Hs(x_i)}; the estimate is the KDE of these debiased points. Its bias is of order
#'     \eqn{h^4}, and it stays a density.}
#'   \item{`"laplace"`}{\eqn{p(y) = \sum_i w_i K_H(y - x_i) (1 + d/2 - q_i/2) / W}{p(y) = sum_i w_i K_H(y - x_i) (1 +
#'     d/2 - q_i/2) / W}: the KDE minus half of its own curvature, which removes the same bias. It integrates to 1 but
#'     **may be negative**; see [diagnostics()].}
#'   \item{`"laplace6"`}{The same with the Laguerre polynomial \eqn{L_2^{(d/2)}(t) = (d/2 + 1)(d/2 + 2)/2 - (d/2 + 2) t
#'     + t^2/2}{L_2^(d/2)(t) = (d/2 + 1) (d/2 + 2) / 2 - (d/2 + 2) t + t^2 / 2} of \eqn{t = q_i/2}: its bias is of order
#'     \eqn{h^6}. It is negative more often, and its sums are exact whatever `tol` is.}
#' }
#' `H` is always a **variance** (the square of a kernel standard deviation), as in package ks; a bandwidth given as a
#' number or a vector is a standard deviation, as in [stats::density()].
#'
#' Debiasing visits all pairs of points once for each of its steps (\eqn{O(n^2 d)} time, \eqn{O(nd)} memory); the others
#' do no work at the fit. A prediction at \eqn{m} points costs \eqn{O(nmd)}. On a grid both are \eqn{O(n + m)}.
#'
#' @param x The points: a numeric matrix or data frame with one row per point and one column per dimension, or a numeric
#'   vector for one dimension. A data frame may have factors, ordered factors, texts and logical values beside numbers
#'   or alone: see Factors and texts. Or a `big.matrix`: see Points larger than memory.
#' @param formula A one-sided formula that names the columns, such as `~ eruptions + log(waiting)` or `~ Sepal.Length +
#'   Species`. A two-sided one, `y ~ x`, is for a conditional density: see [flash_conditional].
#' @param data A data frame in which `formula`, `weights` and `subset` are evaluated. It may come first where `formula`
#'   is named: `faithful |> flash_kde(formula = ~ waiting)`.
#' @param subset Which rows of `data` to use.
#' @param estimator `"auto"`, `"sdkde"` (score-debiased), `"kde"`, `"laplace"` or `"laplace6"`; see Details. `"auto"`:
#'   `"kde"` with a bandwidth for each point if that is clearly better, otherwise `"sdkde"`. It is `"kde"` on a
#'   `support`, for data with factors, for other kernels than the Gaussian and for a `big.matrix`.
#' @param bandwidth The kernel's bandwidth: one number, the kernel standard deviation in all dimensions; a vector of `d`
#'   standard deviations; a `d` x `d` **variance** matrix (symmetric, positive definite); what [kde_bandwidth()]
#'   returns; or the name of one of its methods, by default `"auto"`. A vector or matrix with names is matched to the
#'   columns by them. A search by name that finds no optimum leaves it to `"silverman"`.
#' @param weights Non-negative weights of the points, one per row, not all zero; only their ratios matter. In the
#'   estimate, a weight of 2 counts as the same row twice (an automatic bandwidth uses the effective sample size
#'   instead). `NULL`: equal weights.
#' @param adaptive Bandwidths of each point's own, for `"kde"` and `"sdkde"`: `"auto"`, the default, has them where they
#'   gain; `TRUE` or `"abramson"`, `"knn"`, or a positive number for each row, for `"kde"` where no `estimator` is
#'   named; `FALSE`: one for all. See Adaptive bandwidths. Or `"balloon"`, a bandwidth of each place: see Balloon
#'   estimates.
#' @param support Where the data can lie: `c(lower, upper)` for one column or all, a list of these or of [kde_circle()]
#'   by column, or a polygon. The estimate is 0 elsewhere. See [kde_support()].
#' @param debias What [debiasing()] returns: for `"sdkde"` the number of steps, their score and its bandwidth; for
#'   `"laplace"` and `"laplace6"` whether the estimate is to be a density. `NULL`: one step along the estimate's own
#'   score. See More debiasing.
#' @param categorical What [categorical_kernel()] returns, for data with factors or texts: their smoothing parameters
#'   and kernels. `NULL`: smoothing parameters are chosen from the data together with `bandwidth`.
#' @param tol Error tolerance of kernel sums, a number from 0 to below 1. With 0, the default, each sum is within 1e-12
#'   of itself. With more, in up to 7 dimensions, sums take linear time where that is faster, with a proven bound on
#'   their error: see [flash_control()].
#' @param na.action What to do about rows with missing values, in the points or the weights: a function or its name.
#'   [stats::na.omit()] leaves them out, [stats::na.exclude()] as well, and pads predictions for the training points
#'   with `NA`; [stats::na.fail()] is an error. Infinite values always are.
#' @param kernel `"gaussian"`, or `"epanechnikov"`, `"biweight"`, `"triweight"`, `"triangular"` or `"uniform"` (or
#'   `"rectangular"`), whose reach is bounded, for `"kde"` and `"sdkde"`; in several dimensions a product of them.
#'   `bandwidth` is the standard deviation of each. See Other kernels.
#' @param control A [flash_control()], which says where and how sums are computed, and limits memory. `NULL`: the
#'   defaults.
#' @param ... For the formula method: `estimator` to `control`, as for the default method. Otherwise unused: an unknown
#'   argument is an error.
#'
#' @returns An object of class `flash_kde`, a plain list that survives [saveRDS()]:
#'   \item{`call`, `estimator`, `n`, `d`}{the call; the estimator's name; number of points (after `na.action`) and of
#'     dimensions.}
#'   \item{`x`, `names`, `weights`}{the `n` x `d` training points (or the `big.matrix` that was given), the names of
#'     their columns, and the weights or `NULL`.}
#'   \item{`bandwidth`, `score_bandwidth`}{`d` x `d` variance matrices \eqn{H} and \eqn{H_s} (`NULL` unless `"sdkde"`).}
#'   \item{`selector`, `search`}{name of the selector that chose `bandwidth`, or `"user"`; of a search, what
#'     [kde_bandwidth()] returns, which has a `plot()`.}
#'   \item{`adaptive`}{`NULL`, or a list of `method`, `factors`, one for each point, and where the bandwidth was chosen
#'     `scale`, by which the factors changed its sds, and `gain`, in nats of leave-one-out likelihood a row; `auto`:
#'     were they taken for this gain? For a balloon estimate `method`, `scale`, `at_points`, the factors at the points
#'     by the others, and `places`, from which factors elsewhere are computed.}
#'   \item{`discrete`}{for data with factors or texts, whose fits have class `flash_kde_mixed`, too: a list of `columns`
#'     (their kinds, levels and kernels), `lambda`, `codes`, an `n`-row matrix of the levels by number, `names`, those
#'     of all columns, and `chosen`, which of `lambda` were. `x`, `d` and `bandwidth` are of the numeric columns.}
#'   \item{`support`, `inner`}{`NULL`, or where the data can lie, column by column, and the fit in the coordinates in
#'     which kernels are summed: see [kde_support()]. Then `bandwidth` and `score_bandwidth` are in these.}
#'   \item{`debiased`, `centred`}{for `"sdkde"`, the `n` x `d` debiased points; `NULL`, or where points lie more than
#'     1,024 bandwidths from the origin a list of `centre` and `points`, the debiased points relative to it, which
#'     predictions use.}
#'   \item{`steps`, `given_score`}{for `"sdkde"`, how many steps it took, and whether the first went along a `score`
#'     that was given.}
#'   \item{`kernel`, `nonnegative`}{the name of the kernel; `NULL`, or for an estimate that was made a density the mass
#'     below 0 that it had, and `square`, the integral of the square there.}
#'   \item{`settings`}{the arguments that say what is fitted, for [cross_validate()].}
#'   \item{`backend`, `precision`, `threads`, `devices`, `engine`, `tol`, `tol_type`, `memory_limit`, `chunk_bytes`,
#'     `device_memory`, `host_memory`, `gpu_memory_limit`}{as asked for by `control`; predictions use them.}
#'   \item{`factor`, `computed`}{for the methods: the Cholesky factor of `bandwidth`, and what was computed where, for
#'     [diagnostics()].}
#'   \item{`terms`, `variables`, `na.action`}{as in other R models; the first two for fits by formula, `variables` being
#'     those that `newdata` must have. `terms` keeps the environment of the formula, as in [stats::lm()].}
#'
#'   Methods: [`predict()`][predict.flash_kde], [`simulate()`][simulate.flash_kde], [`plot()`][plot.flash_kde],
#'   [`summary()`][summary.flash_kde], [`logLik()`][logLik.flash_kde], [`quantile()`][quantile.flash_kde], [kde_cdf()],
#'   [hdr_level()], [kde_bands()], [kde_pvalue()], [kde_derivative()], [kde_modes()], [mean_shift()], [kde_ridges()],
#'   [diagnostics()], [compare_fits()], [cross_validate()], [`as.data.frame()`][as.data.frame.flash_kde],
#'   [`coef()`][coef.flash_kde], [`fitted()`][coef.flash_kde] and [`update()`][stats::update].
#'
#' @section Adaptive bandwidths: With `adaptive` point i has the bandwidth \eqn{f_i^2 H}{f_i^2 H}, and \eqn{p(y) =
#'   \sum_i w_i f_i^{-d} K_H((y - x_i) / f_i) / W}{p(y) = sum_i w_i f_i^-d K_H((y - x_i) / f_i) / W}, which is a
#'   density. Factors are small where points are many and large in the tails: see [adaptive_factors()]. Where
#'   `bandwidth` is chosen from the data, one scale is chosen for all factors by leave-one-out likelihood, and `print()`
#'   reports what the factors gain there over one bandwidth; a `bandwidth` that is given is taken as it is. Up to 64
#'   different factors of your own are taken as they are; more are rounded to powers of \eqn{\sqrt 2}{sqrt(2)}, from
#'   1/30 to 30. No point is smoothed by less than the rounding of its column. Sums take somewhat longer for each
#'   different factor.
#'
#'   The factors help where the density has structure of several sizes, or heavy tails; where it is close to normal they
#'   cost a little. `adaptive = "auto"` takes them for fits of 50 points and more without a `bandwidth`, and with no
#'   `estimator` or `"kde"`, if they gain more than 0.02 nats of leave-one-out likelihood a row, and more than three
#'   standard errors, over one bandwidth, on up to 2,000 of the rows. The estimate is then the plain one: to debias it,
#'   too, gains little.
#'
#'   With `"sdkde"`, named, and factors, point i first moves by \eqn{(f_i^2 H / 2) \nabla \log g_i(x_i)}{(f_i^2 H / 2)
#'   grad log g_i(x_i)}, \eqn{g_i} the estimate of variance \eqn{f_i^2 H_s}{f_i^2 H_s} with the weights \eqn{w_j
#'   f_j^2}{w_j f_j^2}. Kernels of \eqn{f^2 H}{f^2 H} leave a bias of order \eqn{h^2} that is due to the curvature of
#'   \eqn{p f^2}{p f^2}, and this removes it, up to order \eqn{h^4}, wherever the factors come from. For factors
#'   \eqn{p^{-\alpha}}{p^-alpha} it comes to \eqn{1 - 2\alpha}{1 - 2 alpha} of a step of `"sdkde"`. A point is left out
#'   of both stages, with the factors as they are.
#'
#' @section Balloon estimates: With `adaptive = "balloon"` the bandwidth is that of the place y at which the estimate is
#'   asked for: \eqn{p(y) = \sum_i w_i K_{f(y)^2 H}(y - x_i) / W}{p(y) = sum_i w_i K_(f(y)^2 H)(y - x_i) / W}, for
#'   `"kde"` alone. The factor f(y) is proportional to the distance from y to its \eqn{\sqrt n}{sqrt(n)}-th nearest
#'   point (Loftsgaarden and Quesenberry 1965; Terrell and Scott 1992), where H is the identity; its geometric mean over
#'   the points is 1, and it is rounded and limited as the factors above. Where `bandwidth` is chosen from the data, the
#'   scale of all factors is, too.
#'
#'   A balloon estimate **is no density: it does not integrate to 1**, and in one dimension to up to twice that where
#'   tails are long. [predict()][predict.flash_kde] has its values, their logarithms, standard errors, leave-one-out
#'   values and scores, which are those of the estimate whose f stays what it is at y; [`plot()`][plot.flash_kde] draws
#'   it in one and two dimensions. [logLik()][logLik.flash_kde] does not compare with that of a density. What needs a
#'   density is an error that names `adaptive`.
#'
#' @section More debiasing: **Steps.** The step of `"sdkde"` undoes what smoothing by H does, up to order \eqn{h^4}. The
#'   flow \eqn{dx/dt = (H/2) \nabla \log u_{-t}(x)}{dx/dt = (H / 2) grad log u_-t(x)} for t from 0 to 1 undoes it
#'   exactly, \eqn{u_{-t}}{u_-t} being the density of the points on their way. Each further step takes the debiased
#'   points of the last one for the score half way to them, by the midpoint rule \eqn{\tilde x = x + (H/2) \nabla \log
#'   u_{-1/2}((x + \tilde x)/2)}{xd = x + (H / 2) grad log u_-1/2((x + xd) / 2)}, and begins again at x; the first has
#'   the score bandwidth H / 2. Two steps leave a bias of order \eqn{h^6}, more than three gain little. The sds of a
#'   bandwidth that is chosen are then wider by \eqn{0.9 n^{1/(d+8) - 1/(d+12)}}{0.9 n^(1 / (d + 8) - 1 / (d + 12))}
#'   (for more than two steps 0.95 times that power). Leave-one-out values, and [logLik()][logLik.flash_kde], take a fit
#'   without each point, \eqn{O(n^3 d)}, up to some 3,000 points; [cross_validate()] takes folds. `adaptive` goes with
#'   one step.
#'
#'   **Scores.** With a score that is known, or estimated elsewhere, points move by half of H along that; further steps
#'   use the debiased points. Leave-one-out values then leave a point out of the other sums alone, which flatters where
#'   the score is that of a fit to the same points.
#'
#'   **Densities.** With `debiasing(nonnegative = TRUE)`, p is replaced by \eqn{\max(p, 0) / (1 + m)}{max(p, 0) / (1 +
#'   m)}, m the integral of what is below 0, which `print()` reports; [diagnostics()] says how it is found. Densities
#'   are 0 there, their logarithms `-Inf`, their scores `NaN`. Leave-one-out values are divided by the same. All methods
#'   serve it; figures of more than two variables show the marginals of p itself.
#'
#' @section Factors and texts: Beside numbers x a data frame may have columns of levels c: factors, texts and logical
#'   values, and ordered factors. The estimate is that of numbers and levels together, \eqn{p(x, c) = \sum_i w_i K_H(x -
#'   x_i) \prod_k l_k(c_k, c_{ik}) / W}{p(x, c) = sum_i w_i K_H(x - x_i) prod_k l_k(c_k, c_ik) / W}, as in
#'   `np::npudens()` (Li and Racine 2003): a density in x that sums to 1 over the levels and integrates to 1. With
#'   levels a and b of a column, k ranks apart where they have an order, and \eqn{\lambda}{lambda} of `lambda`, before
#'   they are made to sum to 1:
#'
#'   | kernel | levels | l(a, a) | l(a, b) | limit of lambda |
#'   |---|---|---|---|---|
#'   | `"aitchisonaitken"` | of r, without order | 1 - lambda | lambda / (r - 1) | (r - 1) / r |
#'   | `"liracine"` | without order | 1 | lambda | 1 |
#'   | `"liracine"` | ordered | 1 | lambda^k | 1 |
#'   | `"wangvanryzin"` | ordered | 1 - lambda | (1 - lambda) lambda^k / 2 | 1 |
#'
#'   With lambda 0 each level has the estimate of its own points; at its limit, but for `"wangvanryzin"`, all levels are
#'   alike. Levels of a factor without points count, as in np; of texts those that occur. (For ordered levels np's
#'   kernels sum to 1 over all whole numbers.)
#'
#'   `"auto"` and `"lcv"` choose `lambda` and the bandwidth together by the leave-one-out likelihood of the plain
#'   estimate: shape and structure of H on a sample of rows, in turns with `lambda`; then the factor of H and `lambda`
#'   by up to 2,000 rows, whose densities are those by all others. For `"sdkde"` and `"laplace"` the factor of H is then
#'   chosen by their own likelihoods. Where `bandwidth` is a number or a rule such as `"silverman"`, `lambda` is chosen
#'   for it. Other selectors know no levels.
#'
#'   The default `estimator` is `"kde"`, by default with factors for the points where these gain. With `"sdkde"` points
#'   move along the score of numbers and levels together; what is left of the bias is of order \eqn{h^4 + \lambda}{h^4 +
#'   lambda}. Leave-one-out values of an `"sdkde"` take a pass over all pairs for each combination of levels. All
#'   methods know levels: [`predict()`][predict.flash_kde] wants them in `newdata`, where one that the fit does not know
#'   is an error; [`plot()`][plot.flash_kde_mixed] and [`autoplot()`][autoplot.flash_kde_mixed] show the numbers by
#'   levels. [kde_cdf()], [`quantile()`][quantile.flash_kde] and `lines()` are those of the numeric columns alone.
#'
#' @section Other kernels: In one dimension, in `u`, the distance in units of the reach, beyond which the kernel is 0:
#'
#'   | `kernel` | | reach, in `bandwidth`s | factor of a chosen `bandwidth` |
#'   |---|---|---|---|
#'   | `"epanechnikov"` | \eqn{3 (1 - u^2) / 4}{3 (1 - u^2) / 4} | 2.236 | 0.990 |
#'   | `"biweight"` | \eqn{15 (1 - u^2)^2 / 16}{15 (1 - u^2)^2 / 16} | 2.646 | 0.991 |
#'   | `"triweight"` | \eqn{35 (1 - u^2)^3 / 32}{35 (1 - u^2)^3 / 32} | 3 | 0.993 |
#'   | `"triangular"` | \eqn{1 - |u|}{1 - |u|} | 2.449 | 0.993 |
#'   | `"uniform"` | 1 / 2, also at its ends | 1.732 | 1.005 |
#'
#'   **The bandwidth is always the kernel's standard deviation**, as in [stats::density()]; it is the reach in
#'   scikit-learn and in most formulas. One that is chosen from the data is that of the Gaussian, for `"kde"` times the
#'   factor by which the bandwidths of least asymptotic error differ (Marron and Nolan 1988); `"lscv"` then goes on to
#'   the minimum of that criterion for the kernel itself (in several dimensions by up to 5,000 of the rows). The
#'   leave-one-out likelihood cannot choose for these kernels, as a point out of reach of all others makes it `-Inf`.
#'   `compare_fits(score = "quadratic")` judges them.
#'
#'   **In several dimensions** the kernel is the product of those of the columns where `bandwidth` is diagonal, with the
#'   factor above to the power \eqn{5d / (d + 4)}{5 d / (d + 4)}. With correlations it is the product of those of the
#'   coordinates of \eqn{A^{-1}(y - x_i)}{A^-1 (y - x_i)}, \eqn{A = D R^{1/2}}{A = D R^(1/2)} with D the standard
#'   deviations and \eqn{R^{1/2}}{R^(1/2)} the symmetric root of the correlations, so that neither units nor the order
#'   of the columns matter. Then marginals, conditionals, quantiles of columns and [kde_cdf()] of rectangles are
#'   refused, which without correlations are exact.
#'
#'   Sums are exact, with a relative error near 1e-14 however far the origin, in \eqn{O((n + m) \log n)}{O((n + m) log
#'   n)} time in one dimension; in several the pairs within reach are found by a tree. The density is 0 where no point
#'   is in reach, its logarithm `-Inf` and its score `NaN`; else scores are slopes of the density over the density, 0
#'   for `"uniform"`, and at a kink one of the two, a triangle's own tip counting 0. `"sdkde"` moves points by the score
#'   of the Gaussian estimate, which takes the bias of order \eqn{h^2}{h^2} off any symmetric kernel of variance H, in
#'   one step. `"laplace"` is an error of class `flashkernel_error_unsupported`, as kernels have no second derivative at
#'   their edges, and so are `flash_control(backend = "cuda")` and `flash_control(engine = "fast")`; `tol` and
#'   `precision` change nothing.
#'
#' @section Points larger than memory: A `big.matrix` of the package bigmemory is not read into memory: the fit keeps
#'   the object, and [predict()][predict.flash_kde], [logLik()][logLik.flash_kde], [simulate()][simulate.flash_kde] and
#'   [diagnostics()] read its rows a piece at a time; other methods refuse it. Its estimators are `"kde"`, the default
#'   then, `"laplace"` and `"laplace6"`; it needs a `bandwidth`, and has no missing values. With a global `tol` plain
#'   densities use one grid for all rows, in time linear in them; otherwise the estimates of the pieces are added, each
#'   to its part of the tolerance. For sums over points that a function yields see [kernel_sum()].
#'
#' @section Errors: Bad input raises a condition of class `flashkernel_error_argument` that names the argument, before
#'   anything is computed: values that are not numeric or not finite, no rows or columns, weights that are negative, all
#'   zero or of the wrong length, a bandwidth that is not positive definite, a constant column with an automatic
#'   bandwidth, points that do not fit in memory (or in the bytes that the option `flashkernel.memory_limit` allows). An
#'   error in a function of yours, such as the `reader` of [flash_data()], is of this class, too, and its element
#'   `parent` is the error itself. When a back end fails, the classes of its errors are `flashkernel_error_no_device`
#'   (CUDA was asked for and is not available, or not a device of that number), `_forked` (CUDA in a child of a process
#'   that uses it, see [gpu_info()]), `_device` (a GPU failed), `_alloc` (its memory or that of the machine is too
#'   small) and `_unsupported`. All of them inherit `flashkernel_error`.
#'
#' @section Progress: In interactive sessions and on a terminal work of more than a second shows a progress bar;
#'   `options(flashkernel.progress = FALSE)` turns it off. `TRUE` writes lines to standard error where there is no
#'   terminal. Exact sums that will take more than 5 seconds, and with a tolerance less than one by the package's own
#'   guess, say so once per session, by a message of class `flashkernel_message_tolerance`.
#'
#' @references *Flash-SD-KDE: Accelerating SD-KDE with Tensor Cores* (2026), arXiv:2602.10378, for the score-debiased
#'   and the Laplace-corrected estimator as used here.
#'
#' *SD-KDE: Score-Debiased Kernel Density Estimation* (2025), Advances in Neural Information Processing Systems 38,
#' arXiv:2504.19084.
#'
#' Aitchison, J. and Aitken, C. G. G. (1976) Multivariate binary discrimination by the kernel method. *Biometrika* 63,
#' 413-420.
#'
#' Li, Q. and Racine, J. (2003) Nonparametric estimation of distributions with categorical and continuous data. *Journal
#' of Multivariate Analysis* 86, 266-292.
#'
#' Loftsgaarden, D. O. and Quesenberry, C. P. (1965) A nonparametric estimate of a multivariate density function. *The
#' Annals of Mathematical Statistics* 36, 1049-1051.
#'
#' Marron, J. S. and Nolan, D. (1988) Canonical kernels for density estimation. *Statistics & Probability Letters* 7,
#' 195-199.
#'
#' Terrell, G. R. and Scott, D. W. (1992) Variable kernel density estimation. *The Annals of Statistics* 20, 1236-1265.
#'
#' Wand, M. P. and Schucany, W. R. (1990) Gaussian-based kernels. *The Canadian Journal of Statistics* 18, 197-204, for
#' `"laplace6"`.
#'
#' Wang, M.-C. and van Ryzin, J. (1981) A class of smooth estimators for discrete distributions. *Biometrika* 68,
#' 301-309.
#' @seealso [kde_marginal()] and [kde_conditional()] make fits of some of the variables; [flash_conditional] estimates
#'   p(y | x). [kernel_sum()] for the sums themselves.
#' @export
#' @examples
#' fit <- flash_kde(~ eruptions + waiting, data = faithful)
#' fit
#' predict(fit, data.frame(eruptions = c(2, 4.5), waiting = c(50, 80)))
#'
#' # two steps of debiasing, and a Laplace-corrected density
#' flash_kde(faithful, debias = debiasing(steps = 2))
#' flash_kde(faithful, "laplace", debias = debiasing(nonnegative = TRUE))
#'
#' # numbers and a factor
#' flowers <- flash_kde(iris)
#' flowers
#' predict(flowers, iris[c(1, 51, 101), ])
#'
#' # one dimension, sd of the kernel given
#' flash_kde(faithful$eruptions, "kde", bandwidth = 0.2)
#'
#' # another kernel, of the same standard deviation
#' fit <- flash_kde(faithful$eruptions, kernel = "epanechnikov", bandwidth = 0.2)
#' quantile(fit, c(0, 0.5, 1))
flash_kde <- function(x, ...) {
  if (!all(...names() %in% FIT_ARGUMENTS)) check_abbreviations(...names())
  # data |> flash_kde(formula = ~ a), as lm() takes it
  if (any(...names() == "formula", na.rm = TRUE)) {
    call <- name_data(match.call())
    if (missing(x)) return(fit_named_formula(call, parent.frame(), ...))
    return(fit_named_formula(call, parent.frame(), data = x, ...))
  }
  UseMethod("flash_kde")
}

#' @rdname flash_kde
#' @export
flash_kde.default <- function(x, estimator = "auto", bandwidth = "auto", adaptive = "auto", weights = NULL,
                              support = NULL, kernel = "gaussian", debias = NULL, categorical = NULL, tol = 0,
                              na.action = getOption("na.action"), control = NULL, ...) {
  if (...length() > 0) check_fit_dots(...)
  if (missing(x)) stop_argument("x", "must be given")
  options <- flat_options(list(
    estimator = estimator, bandwidth = bandwidth, adaptive = adaptive, weights = weights, support = support,
    kernel = kernel, debias = debias, categorical = categorical, na.action = na.action
  ))
  run <- start_run(settle_control(control, if (!missing(tol)) list(tol = check_tol(tol))))
  # fit_kde() looks for infinite values, too
  points <- if (is.list(x) && has_levels(x)) mixed_points(x, "x") else check_points(x, "x", infinite = TRUE)
  fit_kde(points, "x", generic_call(match.call()), options, run)
}

#' @rdname flash_kde
#' @export
flash_kde.formula <- function(formula, data = NULL, ..., subset, weights,
                              na.action = getOption("na.action")) {
  fit_formula(match.call(), parent.frame(), formula, data, check_fit_options(...), na.action)
}

# `call`: the matched call, `frame`: where the user wrote it.
fit_formula <- function(call, frame, formula, data, options, na.action) {
  check_formula(formula, data)
  if (length(formula) == 3) return(fit_conditional(call, frame, data, options, na.action))
  run <- start_run(options$asked)
  made <- formula_data(call, data, frame)
  options[c("weights", "na.action")] <- list(made$weights, na.action)
  fit_kde(made$points, "formula", generic_call(name_options(call)), options, run, made)
}

# The first argument of a call whose formula is named is the data.
name_data <- function(call) {
  first <- names(call) == "x"
  if (any(first) && "data" %in% names(call)) {
    stop_argument("data", "must be given once: found a first argument without a name, too")
  }
  names(call)[first] <- "data"
  call
}

fit_named_formula <- function(call, frame, formula, data = NULL, ..., subset, weights,
                              na.action = getOption("na.action")) {
  if (is_big(data)) stop_argument("formula", "is not for a big.matrix: give its columns")
  fit_formula(call, frame, formula, data, check_fit_options(...), na.action)
}

# The dots of the formula method: arguments of the default method, by name or in its order; its formals are those of the
# default method (see below). list() of options as flat_options() has them, with `asked`, the control.
check_fit_options <- function(...) {
  check_fit_dots(...)
  asked <- settle_control(control, if (!missing(tol)) list(tol = check_tol(tol)))
  options <- flat_options(list(
    estimator = estimator, bandwidth = bandwidth, adaptive = adaptive, support = support, kernel = kernel,
    debias = debias, categorical = categorical
  ))
  c(options, list(asked = asked))
}

formals(check_fit_options) <- formals(flash_kde.default)[setdiff(names(formals(flash_kde.default)), c("x", "weights", "na.action"))]

check_fit_dots <- function(...) {
  known <- c(names(formals(sys.function(sys.parent()))), "weights", "subset", "na.action") # the last three of formulas
  check_dots_empty(..., .known = known, .others = FIT_OTHERS)
}

# R matches the beginnings of names when it calls a method, and its error where there are several does not say which.
check_abbreviations <- function(names) {
  known <- setdiff(FIT_ARGUMENTS, "")
  for (name in setdiff(names, c(known, "", NA))) {
    several <- known[startsWith(known, name)]
    if (length(several) < 2 && !(length(several) == 1 && name %in% names(FIT_OTHERS))) next
    meant <- if (name %in% names(FIT_OTHERS)) FIT_OTHERS[[name]] else several
    stop_argument(
      name, "is not an argument of this function (did you mean ", paste0("`", meant, "`", collapse = " or "), "?)"
    )
  }
}

# Of all methods; "" is an argument without a name.
FIT_ARGUMENTS <- c(names(formals(flash_kde.default)), "formula", "data", "subset", "")

# What other packages call arguments of flash_kde().
FIT_OTHERS <- c(
  h = "bandwidth", H = "bandwidth", bw = "bandwidth", structure = "bandwidth", rows = "bandwidth", seconds = "bandwidth",
  steps = "debias", score = "debias", score_bandwidth = "debias", nonnegative = "debias", lambda = "categorical",
  discrete_kernel = "categorical", backend = "control", precision = "control", threads = "control", devices = "control",
  engine = "control", tol_type = "control", from = "support", to = "support", lower = "support",
  upper = "support", xmin = "support", xmax = "support", bounds = "support"
)

# Names the options that the call gives by position. Stored as written, an unnamed "kde" would be taken
# for the points when the call is evaluated again.
name_options <- function(call) {
  own <- names(call) %in% c("formula", "data", "subset", "weights", "na.action")
  own[1] <- TRUE
  options <- match.call(check_fit_options, call[c(TRUE, !own[-1])])
  as.call(c(as.list(call[own]), as.list(options)[-1]))
}

# The call under the generic's name, so that update() finds the function.
generic_call <- function(call) {
  call[[1]] <- quote(flash_kde)
  call
}
