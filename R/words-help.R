# Help pages about concepts, which belong to no function.

#' Estimators of densities
#'
#' [flash_kde()] has four estimators. They differ in bias, in whether they are densities, and in the time of the fit. With
#' `estimator = "auto"`, the default, the estimator is chosen from the data.
#'
#' @section Which estimator to take:
#' | estimator | bias | is it a density? | time of the fit |
#' |---|---|---|---|
#' | `"kde"` | \eqn{O(h^2)} | yes | none |
#' | `"sdkde"` | \eqn{O(h^4)}; with two steps \eqn{O(h^6)} | yes | \eqn{O(n^2 d)} for each step |
#' | `"laplace"` | \eqn{O(h^4)} | no, it may be negative | none |
#' | `"laplace6"` | \eqn{O(h^6)} | no, it may be negative | none |
#'
#' Debiasing helps where the density is smooth at the scale of the bandwidth. `"auto"` compares the score-debiased estimate
#' with the classical estimate that has a bandwidth for each point ([adaptive_factors()]), by their leave-one-out
#' likelihoods. It takes `"kde"` on a `support`, for data with categories, for other kernels than the Gaussian and for
#' a `big.matrix`. [compare_fits()] and [cross_validate()] compare estimators on your data.
#'
#' @section Formulas:
#' Let \eqn{K_H(u) = (2\pi)^{-d/2} |H|^{-1/2} \exp(-u' H^{-1} u / 2)}{K_H(u) = (2 pi)^(-d/2) |H|^(-1/2) exp(-u' H^-1 u /
#' 2)} be the Gaussian kernel, \eqn{w_i} the weights, \eqn{W} their sum, and \eqn{q_i = (y - x_i)' H^{-1} (y - x_i)}{q_i =
#' (y - x_i)' H^-1 (y - x_i)}.
#' \describe{
#'   \item{`"kde"`, the classical estimate}{\eqn{p(y) = \sum_i w_i K_H(y - x_i) / W}{p(y) = sum_i w_i K_H(y - x_i) / W}.}
#'   \item{`"sdkde"`, the score-debiased estimate}{Each point first moves by \eqn{(H / 2) \nabla \log p_{H_s}(x_i)}{(H / 2)
#'     grad log p_Hs(x_i)}, where \eqn{p_{H_s}}{p_Hs} is the classical estimate with bandwidth \eqn{H_s}{H_s}. The estimate is
#'     the classical estimate of the debiased points. [debiasing()] describes further steps and other scores.}
#'   \item{`"laplace"`, the Laplace-corrected estimate}{\eqn{p(y) = \sum_i w_i K_H(y - x_i) (1 + d/2 - q_i/2) / W}{p(y) =
#'     sum_i w_i K_H(y - x_i) (1 + d/2 - q_i/2) / W}. This subtracts an estimate of the bias, \eqn{tr(H \nabla^2 p) /
#'     2}{tr(H grad^2 p) / 2}. The integral is 1.}
#'   \item{`"laplace6"`}{The polynomial has order 2: \eqn{L_2^{(d/2)}(q_i/2)}{L_2^(d/2)(q_i / 2)} with the Laguerre polynomial
#'     \eqn{L_2^{(d/2)}(t) = (d/2 + 1)(d/2 + 2)/2 - (d/2 + 2) t + t^2/2}{L_2^(d/2)(t) = (d/2 + 1) (d/2 + 2) / 2 -
#'     (d/2 + 2) t + t^2 / 2}. It is negative more often than `"laplace"`.}
#' }
#' `debiasing(nonnegative = TRUE)` makes a density of a Laplace-corrected estimate: \eqn{\max(p, 0) / (1 + m)}{max(p, 0) / (1
#' + m)}, where m is the integral of the negative part.
#'
#' @section Cost:
#' A prediction at m points takes \eqn{O(nmd)} time and \eqn{O((n + m) d)} memory. In up to three dimensions many points
#' take \eqn{O(n + m)} time, and so do up to seven dimensions with a tolerance (see [flash_control()]).
#'
#' @references
#' Epstein, E. L. and others (2025) SD-KDE: Score-Debiased Kernel Density Estimation. *Advances in Neural Information Processing
#' Systems* 38, arXiv:2504.19084.
#'
#' Epstein, E. L. and others (2026) Flash-SD-KDE: Accelerating SD-KDE with Tensor Cores. arXiv:2602.10378.
#'
#' Wand, M. P. and Schucany, W. R. (1990) Gaussian-based kernels. *The Canadian Journal of Statistics* 18, 197-204.
#'
#' Wand, M. P. and Jones, M. C. (1995) *Kernel Smoothing*. Chapman & Hall.
#' @seealso [flash_kde()], [debiasing()], `vignette("bandwidth")`.
#' @name kde_estimators
#' @examples
#' plot(flash_kde(faithful$waiting, "kde"))
#' lines(flash_kde(faithful$waiting, "sdkde"), lty = 2)
#' sapply(c("kde", "sdkde"), \(estimator) logLik(flash_kde(faithful, estimator)))
NULL

#' Kernels with bounded support
#'
#' The argument `kernel` of [flash_kde()] selects the kernel of a density estimate: the Gaussian kernel, or one that is zero
#' beyond a cutoff radius, as in [stats::density()], `np::npudens()` and scikit-learn's `KernelDensity`.
#'
#' @section Kernels:
#' Here u is the distance divided by the cutoff radius.
#'
#' | `kernel` | density of u | cutoff radius, in bandwidths | factor of an automatic bandwidth |
#' |---|---|---|---|
#' | `"epanechnikov"` | \eqn{3 (1 - u^2) / 4}{3 (1 - u^2) / 4} | 2.236 | 0.990 |
#' | `"biweight"` | \eqn{15 (1 - u^2)^2 / 16}{15 (1 - u^2)^2 / 16} | 2.646 | 0.991 |
#' | `"triweight"` | \eqn{35 (1 - u^2)^3 / 32}{35 (1 - u^2)^3 / 32} | 3 | 0.993 |
#' | `"triangular"` | \eqn{1 - |u|}{1 - |u|} | 2.449 | 0.993 |
#' | `"uniform"` | 1 / 2, also at its ends | 1.732 | 1.005 |
#'
#' @section Bandwidth:
#' The bandwidth is the standard deviation of the kernel, as in [stats::density()], so that equal bandwidths smooth about
#' equally. In scikit-learn and in most formulas the bandwidth is the cutoff radius instead.
#'
#' An automatic bandwidth is the one for the Gaussian kernel, for `"kde"` times the factor in the table (Marron and Nolan 1988).
#' `"lscv"` then minimises its criterion for the kernel itself, on up to 5,000 rows in several dimensions. The
#' leave-one-out likelihood cannot choose for these kernels: it is `-Inf` if a single point is out of reach of
#' all others. Use `compare_fits(score = "quadratic")` to compare such fits.
#'
#' @section Several dimensions:
#' The kernel is the product of the kernels of the columns, as in np, if the bandwidth matrix is diagonal. With correlations it
#' is the product over the coordinates of \eqn{A^{-1}(y - x_i)}{A^-1 (y - x_i)}, where \eqn{A = D R^{1/2}}{A = D R^(1/2)},
#' D holds the standard deviations and \eqn{R^{1/2}}{R^(1/2)} is the symmetric root of the correlation matrix. Then
#' marginal and conditional densities, quantiles of columns and box probabilities are not available.
#'
#' @section What works:
#' The estimators are `"kde"` (the default) and `"sdkde"`, which moves points along the score of the Gaussian estimate.
#' Weights, adaptive bandwidths, leave-one-out values, standard errors, distribution functions, quantiles and draws
#' work as with the Gaussian kernel. The density is 0, and its logarithm `-Inf`, where no point is in reach. Sums run on
#' the CPU, are exact, and take \eqn{O((n + m) \log n)}{O((n + m) log n)} time in one dimension. Laplace-corrected estimates, GPUs
#' and `engine = "fast"` are refused with an error of class `flashkernel_error_unsupported`.
#'
#' @references Marron, J. S. and Nolan, D. (1988) Canonical kernels for density estimation. *Statistics & Probability Letters*
#'   7, 195-199.
#' @seealso [flash_kde()]; [kernel_spec()] for the kernels of [kernel_sum()] and [kernel_ridge()].
#' @name kde_kernels
#' @examples
#' fit <- flash_kde(faithful$eruptions, kernel = "epanechnikov", bandwidth = 0.2)
#' plot(fit)
#' quantile(fit, c(0, 0.5, 1))
NULL

#' Errors, warnings and progress
#'
#' All errors of this package inherit the class `flashkernel_error`, so that programs can catch them by kind. Work of more
#' than a second shows a progress bar.
#'
#' @section Errors:
#' | class | when |
#' |---|---|
#' | `flashkernel_error_argument` | an argument is wrong; the message names it and says what was found |
#' | `flashkernel_error_unsupported` | the method does not exist for this kind of fit; the message says what to do instead |
#' | `flashkernel_error_no_device` | CUDA was requested and is not available, or there is no device of that number |
#' | `flashkernel_error_forked` | CUDA was requested in a child of a process that uses CUDA |
#' | `flashkernel_error_device` | a GPU failed; the next call starts it again |
#' | `flashkernel_error_alloc` | the memory of the machine or of the GPU is too small |
#'
#' Arguments are checked before anything is computed: values that are not numeric or not finite, no rows or columns, weights that
#' are negative, all zero or of the wrong length, a bandwidth that is not positive definite, a constant column with an
#' automatic bandwidth, and points that do not fit in memory (or in the bytes of the option
#' `flashkernel.memory_limit`). An error in a function of yours, such as the `reader` of [flash_data()], also has
#' the class `flashkernel_error_argument`. It names the argument, and its element `parent` is the original error.
#'
#' @section Progress:
#' The progress bar appears in interactive sessions and on terminals (also of `Rscript`).
#' `options(flashkernel.progress = FALSE)` turns it off. With `TRUE` lines are written to standard error where there is no
#' terminal. Long computations can be interrupted at any time.
#'
#' If an exact sum will take more than 5 seconds, and less than one second with a tolerance, a message of class
#' `flashkernel_message_tolerance` says so, once per session.
#'
#' @seealso [diagnostics()] reports what was computed where, how fast and how exactly.
#' @name flashkernel_errors
#' @examples
#' tryCatch(
#'   flash_kde(faithful, bandwidth = -1),
#'   flashkernel_error_argument = \(e) conditionMessage(e)
#' )
NULL

#' Data larger than memory
#'
#' Which functions take points that do not fit in memory, or that are spread over several machines.
#'
#' @section Ways:
#' | data | functions |
#' |---|---|
#' | [flash_data()]: files, chunks or shards on the workers of a cluster | `flash_kde()`, `kernel_ridge()`, `tune_ridge()`, `kernel_sum()`, `kernel_operator()`, `kde_bandwidth()` |
#' | a `big.matrix` of package bigmemory | `flash_kde()` with a given bandwidth, `kernel_ridge()`, `kernel_sum()` |
#' | a function that returns the next chunk | `kernel_ridge()`, `kernel_sum()` |
#' | memory is sufficient for the data, not for the sums | `memory_limit` and `chunk_bytes` of [flash_control()] |
#'
#' @section A big.matrix in flash_kde():
#' The fit keeps the object and does not read it into memory. [predict()][predict.flash_kde], [logLik()][logLik.flash_kde],
#' [simulate()][simulate.flash_kde] and [diagnostics()] read its rows in pieces; other methods refuse it. The estimators are
#' `"kde"` (the default), `"laplace"` and `"laplace6"`. A bandwidth must be given, and missing values are
#' not allowed. With a global tolerance plain densities use one grid for all rows, in time linear in the rows. Otherwise the
#' estimates of the pieces are added, each with its part of the tolerance.
#'
#' @seealso [flash_data()], `vignette("cluster")`, `vignette("billion")`.
#' @name large_data
NULL

#' Coming from other packages
#'
#' Calls of ks, np, KernSmooth, stats, kernlab, mgcv and scikit-learn, and the calls of this package for the same task. In
#' each row bandwidths have the same meaning unless the last column says otherwise.
#'
#' @section Densities:
#' | task | elsewhere | here | difference |
#' |---|---|---|---|
#' | density of one variable | `density(x, bw = "SJ")` | `flash_kde(x, "kde", bandwidth = "sj")` | exact at any point, no grid |
#' | density of several variables | `ks::kde(x, H = H)` | `flash_kde(x, "kde", bandwidth = H)` | `H` is a variance in both |
#' | | `np::npudens(~ a + b, data = d)` | `flash_kde(~ a + b, data = d)` | np has standard deviations by column |
#' | | `KernelDensity(bandwidth=h).fit(x)` | `flash_kde(x, "kde", bandwidth = h)` | for other kernels scikit-learn's h is the cutoff radius |
#' | | `KernSmooth::bkde2D(x, h)` | `flash_kde(x, "kde", bandwidth = h)` | exact instead of binned |
#' | selected bandwidth matrix | `ks::Hpi(x)`, `ks::Hscv(x)` | `kde_bandwidth(x, "plugin")`, `kde_bandwidth(x, "scv")` | |
#' | values at points | `ks::kde(x, H = H, eval.points = y)` | `predict(fit, y)` | ks interpolates by default |
#' | log densities | `score_samples(y)` | `predict(fit, y, type = "log_density")` | |
#' | distribution function, quantiles | `ks::kcde(x)`, `ks::qkde(p, fit)` | `kde_cdf(fit, q)`, `quantile(fit, p)` | |
#' | draws | `ks::rkde(n, fit)` | `simulate(fit, n)` | |
#' | contours with given probability | `plot(fit, cont = c(50, 90))` (ks) | `plot(fit, prob = c(0.5, 0.9))` | |
#' | positive data | `ks::kde(x, positive = TRUE)` | `flash_kde(x, support = c(0, Inf))` | the method is chosen from the data |
#' | categories | `np::npudens(~ x + factor)` | `flash_kde(d)` | |
#' | conditional density | `np::npcdens(y ~ x)` | `flash_kde(y ~ x, d)` | |
#' | derivatives | `ks::kdde(x, deriv.order = 1)` | `kde_derivative(fit, y)` | |
#' | clusters | `ks::kms(x)`, `MeanShift()` | `mean_shift(fit)` | |
#' | density ridges | `ks::kdr(x)` | `kde_ridges(fit)` | |
#' | two-sample test | `ks::kde.test(x1, x2)` | `kde_test(x1, x2)` | exact level by permutation |
#' | discriminant analysis | `ks::kda(x, group)` | `flash_kda(x, group)` | |
#'
#' @section Regression and kernel matrices:
#' | task | elsewhere | here | difference |
#' |---|---|---|---|
#' | local regression | `np::npreg(y ~ x, regtype = "ll")`, `KernSmooth::locpoly()` | `kernel_regression(y ~ x, d)` | |
#' | kernel ridge regression | `KRLS::krls(X, y)`, `KernelRidge(alpha)` | `kernel_ridge(X, y)` | alpha is `n * lambda` |
#' | Gaussian process regression | `kernlab::gausspr(x, y)` | `kernel_ridge(x, y, solver = ridge_solver(exact = TRUE))` | |
#' | smooth function of several variables | `mgcv::gam(y ~ s(a, b))` | `kernel_ridge(y ~ a + b, d)` | for additive models and counts use mgcv |
#' | kernel matrix times vectors | `kernlab::kernelMult(rbfdot(s), x, y, v)` | `kernel_operator(x, y, bandwidth = h) %*% v` | `s = 1 / (2 h^2)` |
#'
#' @seealso The article "Beside other packages" of the web site compares features and times.
#' @name coming_from
#' @aliases flashkernel-alternatives
#' @examples
#' x <- faithful$waiting
#' sj <- flash_kde(x, "kde", bandwidth = "sj")
#' all.equal(predict(sj, 70), approx(density(x, bw = "SJ", n = 4096), xout = 70)$y, tolerance = 1e-3)
#'
#' H <- matrix(c(0.06, 0.3, 0.3, 20), 2)
#' fit <- flash_kde(faithful, "kde", bandwidth = H)
#' predict(fit, data.frame(eruptions = 2, waiting = 55), type = "log_density")
#' kde_bandwidth(faithful, "plugin")
#'
#' K <- kernel_operator(faithful$waiting, bandwidth = 4)
#' drop(K %*% rep(1, 272))[1:3]
NULL

#' Frequently asked questions
#'
#' Short answers, with the pages that say more.
#'
#' @section Densities:
#' \describe{
#'   \item{Which estimator and which bandwidth should I use?}{The defaults. [compare_fits()] and [cross_validate()] show what
#'     another choice gains on your data. See [kde_estimators] and `vignette("bandwidth")`.}
#'   \item{My data are positive, or between two bounds.}{`flash_kde(x, support = c(0, Inf))`. See [kde_support()].}
#'   \item{My data are angles or times of day.}{`flash_kde(hour, support = kde_circle(24))`.}
#'   \item{Which rows are unusual?}{`kde_pvalue(fit)` returns a p-value for each row. See [kde_pvalue()].}
#'   \item{How do I draw a curve with a confidence band?}{`plot(fit, band = TRUE)`, or [kde_bands()] for the numbers.}
#'   \item{How do I get the contour that holds 90 percent of the probability?}{`plot(fit, prob = 0.9)`, [hdr_level()] and
#'     [hdr_regions()].}
#'   \item{Do two samples have the same distribution?}{[kde_test()].}
#'   \item{My estimate is negative somewhere.}{That is possible for `"laplace"` and `"laplace6"`. Use `"sdkde"`, or
#'     `debiasing(nonnegative = TRUE)`.}
#'   \item{Why does a second fit to the same data differ?}{It does not: equal calls give equal bits, for any number of
#'     threads. The number of rows that a search uses depends on `seconds`; give `rows` in [kde_bandwidth()] to fix it.}
#' }
#'
#' @section Regression and classes:
#' \describe{
#'   \item{Which function should I use for a regression?}{[kernel_regression()] for a curve in one or two variables, with
#'     bandwidths by cross-validation. [kernel_ridge()] for predictions from many variables or many rows. [tune_ridge()] if
#'     there is time to choose its parameters.}
#'   \item{Which function should I use for classes?}{[kernel_ridge()] with a factor as response for predictions,
#'     [flash_kda()] if you need the densities of the classes.}
#'   \item{Does a variable matter?}{[marginal_effects()] returns average effects with standard errors.}
#'   \item{How do I get a prediction interval?}{`predict(model, newdata, interval = "prediction")`.}
#'   \item{How do I get quantiles of y given x?}{`quantile(flash_kde(y ~ x, data), newdata, probs)`. See [flash_conditional].}
#' }
#'
#' @section Size and speed:
#' \describe{
#'   \item{I have 10^7 rows.}{In up to 7 dimensions a tolerance makes sums linear: `flash_kde(x, tol = 1e-6)`. See [flash_control()]
#'     and `vignette("billion")`. [kernel_ridge()] takes any number of rows.}
#'   \item{My data do not fit in memory.}{See [large_data].}
#'   \item{Is my GPU used?}{[gpu_info()] says whether there is one. [diagnostics()] says where a fit was computed, and why.}
#'   \item{How do I use fewer cores?}{`options(flashkernel.threads = 2)`, or `threads` of [flash_control()].}
#'   \item{How exact are the results?}{Sums have a relative error below 1e-12 on the CPU. A GPU uses single precision by default:
#'     densities have a relative error near 1e-5. See `vignette("exact")`.}
#' }
#' @name flashkernel_faq
#' @examples
#' fit <- flash_kde(faithful)
#' faithful[kde_pvalue(fit) < 0.02, ]
#' plot(flash_kde(faithful$waiting), band = TRUE)
#' quantile(flash_kde(waiting ~ eruptions, faithful), data.frame(eruptions = 2:4), c(0.1, 0.9))
NULL
