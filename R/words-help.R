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
#' `debiasing(nonnegative = TRUE)` makes a density of a Laplace-corrected estimate.
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
#' @rawRd \concept{bias of a kernel density estimate}\concept{choice of estimator}
#' @examples
#' plot(flash_kde(faithful$waiting, "kde"))
#' lines(flash_kde(faithful$waiting, "sdkde"), lty = 2)
#' sapply(c("kde", "sdkde"), \(estimator) logLik(flash_kde(faithful, estimator)))
NULL

#' Kernels
#'
#' The argument `kernel` selects a kernel by its name. Density estimates and local regression take the Gaussian kernel or
#' kernels of bounded support; kernel ridge regression and sums of kernels take nine kernels.
#'
#' @section Which function takes which kernels:
#' | function | kernels |
#' |---|---|
#' | [flash_kde()], [flash_kda()] | Gaussian, and the five of bounded support below |
#' | [kernel_ridge()], [kernel_sum()], [kernel_operator()] | the nine kernels of [kernel_sum()], with parameters by [kernel_spec()] |
#' | [tune_ridge()] | Gaussian and Matern 5/2 |
#' | [kernel_regression()] | Gaussian |
#' | categorical columns | [categorical_kernel()] |
#'
#' @section Densities with bounded support:
#' These kernels are zero beyond a cutoff radius, as in [stats::density()], `np::npudens()` and scikit-learn's
#' `KernelDensity`. Here u is the distance divided by the cutoff radius.
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
#' @seealso [flash_kde()], [kernel_sum()], [kernel_spec()].
#' @name kde_kernels
#' @aliases kernels
#' @rawRd \concept{Epanechnikov kernel}\concept{choice of kernel}
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
#' @rawRd \concept{error classes}\concept{progress bar}\concept{warnings}
#' @examples
#' tryCatch(
#'   flash_kde(faithful, bandwidth = -1),
#'   flashkernel_error_argument = \(e) conditionMessage(e)
#' )
NULL

#' Many rows, and data larger than memory
#'
#' What to do with 10^6 rows and more: a tolerance makes the time of sums linear in the number of points, and points need not
#' fit in memory.
#'
#' @section Many rows in memory:
#' - In up to 7 dimensions give a tolerance: `flash_kde(x, tol = 1e-4)`. The time is then linear in the rows instead of
#'   quadratic. See [tolerance].
#' - In more dimensions evaluate the estimate at the points you need, or use a GPU ([gpus]) or a cluster ([clusters]).
#' - [kernel_ridge()] takes time linear in the rows, for any number of columns.
#' - [kde_bandwidth()] chooses bandwidths on a sample if the rows are too many for its budget of 5 seconds.
#'
#' @section Rows that do not fit in memory:
#' | data | functions |
#' |---|---|
#' | [flash_data()]: files, chunks or shards on the workers of a cluster | `flash_kde()`, `kernel_ridge()`, `tune_ridge()`, `kernel_sum()`, `kernel_operator()`, `kde_bandwidth()` |
#' | a `big.matrix` of package bigmemory | `flash_kde()` with a given bandwidth, `kernel_ridge()`, `kernel_sum()` |
#' | a function that returns the next chunk | `kernel_ridge()`, `kernel_sum()` |
#' | memory is sufficient for the data, not for the sums | `memory_limit` and `chunk_bytes` of [flash_control()] |
#'
#' @section A big.matrix in flash_kde():
#' [predict()][predict.flash_kde], [logLik()][logLik.flash_kde],
#' [simulate()][simulate.flash_kde] and [diagnostics()] read its rows in pieces; other methods refuse it. The estimators are
#' `"kde"` (the default), `"laplace"` and `"laplace6"`. A bandwidth must be given, and missing values are
#' not allowed. With a global tolerance plain densities use one grid for all rows, in time linear in the rows. Otherwise the
#' estimates of the pieces are added, each with its part of the tolerance.
#'
#' @seealso [flash_data()], `vignette("cluster")`, `vignette("billion")`.
#' @name large_data
#' @rawRd \concept{millions of rows}\concept{big data}\concept{out of memory}
#' @examples
#' # 100,000 points; ten million take the same lines
#' set.seed(1)
#' x <- matrix(rnorm(2e5), ncol = 2)
#' fit <- flash_kde(x, "kde", tol = 1e-4)
#' plot(fit)
#' range(predict(fit))
#' diagnostics(fit)
NULL

#' Tolerance, engines and precision
#'
#' How exact sums of kernels are, and how `tol`, `engine` and `precision` exchange accuracy for time. By default sums have a
#' relative error below 1e-12 on a CPU.
#'
#' @section Error tolerance:
#' With `tol = 0` each sum has a relative error of at most 1e-12. For the Laplace-corrected estimates the error is relative to
#' the classical estimate. Scores of the classical estimate and the debiasing are exact to 2e-12 of a bandwidth.
#'
#' With `tol > 0` let \eqn{A_j} be the sum of \eqn{|b_i| k}{|b_i| k} at target j. For a density this is the density, up to a constant.
#' - `tol_type = "global"` (default): the error at each target is at most `tol` times the largest \eqn{A_j} of all targets. Log
#'   densities and scores are computed directly where the density might be off by more than a hundredth of itself.
#' - `tol_type = "pointwise"`: the error is at most `tol` times \eqn{A_j} itself, so that log densities in the tails
#'   are exact, too.
#'
#' The bound holds for any points and coefficients. It is proven, not estimated: see `vignette("exact")`. [diagnostics()] reports
#' the bound, `tol_bound`, and the largest error at a sample of targets, `tol_achieved`. Neither includes the rounding of the
#' coordinates.
#'
#' @section Engines:
#' | `engine` | time, for `r` columns of coefficients | error |
#' |---|---|---|
#' | `"exact"` | \eqn{O(nm(d + r))}{O(n m (d + r))}, half of it if the targets are the sources | rounding in `precision` |
#' | `"fast"` | linear in `n + m` | at most `tol` |
#' | `"auto"` (default) | the one that should finish first | at most `tol` |
#'
#' The exact engine skips blocks of points that provably cannot change the last bit of any sum. The fast engine is for the kernels
#' `"gaussian"`, `"cauchy"` and `"imq"` in up to 7 dimensions. For other kernels, or more dimensions, `engine = "fast"` is an error of
#' class `flashkernel_error_unsupported`. The Laplacian and Matern kernels, which are not smooth at distance 0, and the kernels
#' of inner products are always summed exactly. If the proof of a bound would take longer than summing all pairs,
#' `"auto"` sums all pairs.
#'
#' With `tol = 0`, `"auto"` uses the exact engine, with one exception: Gaussian sums of many points in up to three dimensions, on the
#' CPU in double precision, may use the fast engine if this proves an error of at most 1e-12 of \eqn{A_j}.
#'
#' @section Precision:
#' | `precision` | densities | log densities |
#' |---|---|---|
#' | `"double"`, the default on a CPU | relative error near 1e-12 | relative error near 1e-12 |
#' | `"single"`, the default on a GPU | relative error of 1e-5 in the L2 norm | absolute error of 1e-4 |
#' | `"fast"` | relative error of 2e-3 in the L2 norm | |
#'
#' In `"single"`, densities have an error of up to 3e-5 if points lie more than some 30 bandwidths from their centre or
#' have hundreds of columns. Log densities have an error of 2e-4 on a GPU at points with few neighbours, and a relative
#' error of 1e-5 in far tails. On a GPU, a sum to which only one or two terms contribute may be off by 5e-5 if there are several
#' columns of coefficients. `"fast"` uses the tensor cores of a GPU; on the CPU it is the same as `"single"`.
#'
#' @section Reproducibility:
#' Results have the same bits for any number of threads. Name `backend` and `precision` in [flash_control()] if they must agree on
#' machines with and without a GPU. The last bits may differ between processors with different vector instructions.
#' @seealso [flash_control()], [diagnostics()], `vignette("exact")`.
#' @name tolerance
#' @aliases engines precision
#' @rawRd \concept{accuracy}\concept{numerical error}\concept{reproducibility}
#' @examples
#' set.seed(1)
#' x <- matrix(rnorm(4e4), ncol = 2)
#' fit <- flash_kde(x, "kde", bandwidth = 0.1)
#' exact <- predict(fit)
#' fast <- predict(fit, tol = 1e-6)
#' max(abs(fast - exact)) / max(exact)
#' plot(exact, abs(fast - exact) / max(exact), log = "xy", pch = ".", ylab = "error / largest density")
NULL

#' Computing on a cluster
#'
#' Sums can run on the workers of a cluster that package parallel or future has made. Pass the cluster in
#' `control`, or keep the data on the workers with [flash_data()].
#'
#' @section Two ways:
#' | points | call |
#' |---|---|
#' | in this session | `flash_kde(x, control = flash_control(cluster = workers))` |
#' | on the workers, or in files that they read | `flash_kde(flash_data(files, workers, reader = readRDS))` |
#'
#' In the first case sums of more than 2e7 pairs are divided by targets. In the second only sums come back, so the data need
#' not fit in one machine. With a named `backend`, results have the same bits for any number of workers. Without a cluster
#' they differ by rounding in the first case, and not at all in the second. Each worker uses its share of the cores and GPUs
#' of its host, unless `threads` and `devices` are given.
#'
#' A lost worker is replaced by the other workers, with a warning of class `flashkernel_warning_worker`: see [flash_data()].
#'
#' @section Clusters of clusters:
#' From some dozens of workers on, the one connection of the master limits the speed.
#' `cluster = list(masters, make)` makes each worker of the cluster `masters` the master of another cluster. The
#' function `make` takes the number of a master and makes its cluster there, as in `\(i) makeCluster(racks[[i]])` with
#' package parallel; or it returns a list of two for one more level. Each master adds up the results of its workers and
#' sends one result.
#'
#' Pass the element `cluster` of the returned control to [flash_data()] and to other controls. A lost master and its cluster are
#' replaced by the other masters. `diagnostics()$workers` has a row for each master, with the number of its workers in the
#' column `below`. Masters that are forks of one session share its port: give each its own, as in
#' `\(i) makeCluster(4, port = 11000 + i)`. [parallel::stopCluster()] stops the clusters of the masters, too.
#' @seealso [flash_data()], [flash_control()], `vignette("cluster")`.
#' @name clusters
#' @rawRd \concept{parallel computing}\concept{several machines}\concept{future}
#' @examples
#' \donttest{
#' workers <- parallel::makeCluster(2)
#' fit <- flash_kde(faithful, control = flash_control(cluster = workers))
#' plot(fit)
#' there <- flash_data(as.matrix(faithful), workers, shard_rows = 100)
#' predict(flash_kde(there, "kde", bandwidth = c(0.3, 4)), faithful[1:3, ])
#' parallel::stopCluster(workers)
#' }
NULL

#' Coming from other packages
#'
#' The calls of ks, np, KernSmooth, stats, kernlab, mgcv and scikit-learn, and those of this package for the same task. In
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
#' | independence | `dHSIC::dhsic.test(x, y)` | `kde_test(x, y, method = "independence")` | |
#' | discriminant analysis | `ks::kda(x, group)` | `flash_kda(x, group)` | |
#'
#' @section Regression and kernel matrices:
#' | task | elsewhere | here | difference |
#' |---|---|---|---|
#' | local regression | `np::npreg(y ~ x, regtype = "ll")`, `KernSmooth::locpoly()` | `kernel_regression(y ~ x, d)` | |
#' | kernel ridge regression | `KRLS::krls(X, y)`, `KernelRidge(alpha)` | `kernel_ridge(X, y)` | alpha is `n * lambda` |
#' | Gaussian process regression | `kernlab::gausspr(x, y)` | `kernel_ridge(x, y, solver = ridge_solver(exact = TRUE))` | |
#' | smooth functions of variables | `mgcv::gam(y ~ z + s(a) + s(b, c))` | `kernel_ridge(y ~ z + k(a) + k(b, c), d)` | |
#' | counts | `mgcv::gam(family = poisson)` | `kernel_ridge(count ~ a, d, family = "poisson")` | |
#' | classes | `kernlab::gausspr(factor(g) ~ .)`, `GaussianProcessClassifier()` | `kernel_ridge(g ~ ., d)` | logistic loss |
#' | standard errors, intervals | `predict(gam, se.fit = TRUE)` | `predict(model, newdata, interval = "prediction")` | |
#' | average marginal effects | `summary(KRLS::krls(X, y))` | `marginal_effects(model)` | |
#' | kernel matrix times vectors | `kernlab::kernelMult(rbfdot(s), x, y, v)` | `kernel_operator(x, y, bandwidth = h) %*% v` | `s = 1 / (2 h^2)` |
#' | kernel PCA | `kernlab::kpca(x)`, `KernelPCA()` | `kernel_eigen(op, k, center = TRUE)` | |
#'
#' @seealso The article "Beside other packages" of the web site compares features and times.
#' @name coming_from
#' @rawRd \concept{ks}\concept{np}\concept{KernSmooth}\concept{kernlab}\concept{mgcv}\concept{scikit-learn}
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
#' Short answers, with pages that say more.
#'
#' @section Densities:
#' \describe{
#'   \item{Which estimator and which bandwidth should I use?}{The defaults. [compare_fits()] and [cross_validate()] show what
#'     another choice gains on your data. See [kde_estimators] and `vignette("bandwidth")`.}
#'   \item{My data are positive, or between two bounds.}{`flash_kde(x, support = c(0, Inf))`. See [kde_support()].}
#'   \item{My data are angles or times of day.}{`flash_kde(hour, support = kde_circle(24))`.}
#'   \item{My data are points of package sf.}{Convert them: `sf::st_coordinates(points)`.}
#'   \item{Which rows are outliers?}{`kde_pvalue(fit)` returns a p-value for each row. See [kde_pvalue()].}
#'   \item{How do I draw a curve with a confidence band?}{`plot(fit, band = TRUE)`, or [kde_bands()] for the numbers.}
#'   \item{How do I get the contour that holds 90 percent of the probability?}{`plot(fit, prob = 0.9)`, [hdr_level()] and
#'     [hdr_regions()].}
#'   \item{Do two samples have the same distribution?}{`kde_test(x, y)`.}
#'   \item{Are x and y independent?}{`kde_test(x, y, method = "independence")`.}
#'   \item{My estimate is negative somewhere.}{That is possible for `"laplace"` and `"laplace6"`. Use `"sdkde"`, or
#'     `debiasing(nonnegative = TRUE)`.}
#'   \item{How do I fit new rows with the same bandwidth?}{`update(model, data = rbind(old, more), bandwidth = "keep")`
#'     keeps all that was chosen; `x = new` without formula. Only SD-KDE, local factors and regressions compute sums.}
#'   \item{Why does a second fit to the same data differ?}{It does not: equal calls give equal bits, for any number of
#'     threads. The number of rows that a search uses depends on `seconds`; give `rows` in [kde_bandwidth()] to fix it.}
#' }
#'
#' @section Regression and classes:
#' \describe{
#'   \item{Which function should I use for a regression?}{[kernel_regression()] for a curve in one or two variables.
#'     [kernel_ridge()] for many variables or many rows, [tune_ridge()] if there is time.}
#'   \item{Which function should I use for classes?}{[kernel_ridge()] with a factor as response for predictions,
#'     [flash_kda()] if you need the densities of the classes.}
#'   \item{Does a variable matter?}{`marginal_effects(model)` returns average effects with standard errors.}
#'   \item{How do I get a prediction interval?}{`predict(model, newdata, interval = "prediction")`.}
#'   \item{How do I get quantiles of y given x?}{`quantile(flash_kde(y ~ x, data), newdata, probs)`. See [flash_conditional].}
#'   \item{My response is a count, or rows are grouped.}{`kernel_ridge(count ~ a + b, d, family = "poisson")`. There are no
#'     random effects here: use `mgcv::gam()`.}
#'   \item{How do I do kernel PCA?}{With [kernel_eigen()].}
#' }
#'
#' @section Size and speed:
#' \describe{
#'   \item{I have 10^7 rows.}{In up to 7 dimensions a tolerance makes sums linear: `flash_kde(x, tol = 1e-4)`. See
#'     [large_data].}
#'   \item{Is my GPU used?}{`gpu_info()` says whether there is one. `diagnostics(fit)` says where a fit was computed, and why.}
#'   \item{How do I use fewer cores?}{`options(flashkernel.threads = 2)`, or `threads` of [flash_control()].}
#'   \item{How exact are the results?}{Sums have a relative error below 1e-12 on the CPU. A GPU uses single precision by default:
#'     densities have a relative error near 1e-5. See [tolerance].}
#'   \item{How do I save a fit?}{`saveRDS(fit, file)`. Call `library(flashkernel)` before you use it in a new session.}
#' }
#' @name flashkernel_faq
#' @rawRd \concept{how to}
#' @examples
#' fit <- flash_kde(faithful)
#' plot(fit)
#' faithful[kde_pvalue(fit) < 0.02, ]
#' plot(flash_kde(faithful$waiting), band = TRUE)
#' quantile(flash_kde(waiting ~ eruptions, faithful), data.frame(eruptions = 2:4), c(0.1, 0.9))
NULL
