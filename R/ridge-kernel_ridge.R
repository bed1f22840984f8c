#' Kernel ridge and logistic regression, from ten to hundreds of millions of rows
#'
#' Predicts numbers or classes by a smooth function of all variables,
#' \eqn{f(x) = b + \sum_j \alpha_j k(x, c_j)}{f(x) = b + sum_j alpha_j k(x, c_j)}, a weighted sum of kernels at `m`
#' centres. With few rows every row is a centre: this is kernel ridge regression. Of many rows some are centres (Nystroem
#' approximation), and the solver is Falkon: preconditioned conjugate gradients with `O(nm)` operations per iteration,
#' `O(m^3)` once, and memory for one `m` x `m` matrix and at most 1.4 GB of kernels.
#'
#' @details
#' **Squared loss.** The coefficients minimise
#' \deqn{\frac{1}{n} \sum_i w_i (y_i - f(x_i))^2 + \lambda \alpha' K \alpha,}{(1/n) sum_i w_i (y_i - f(x_i))^2 + lambda
#' alpha' K alpha,}
#' where `K` is the kernel matrix of the centres. If all rows are centres, `f` is the mean of a Gaussian process whose
#' noise variance is \eqn{n \lambda}{n lambda} times the signal variance. `n` counts all rows, including those of weight
#' 0: a row of weight 2 equals two rows if `lambda * n` stays the same. A factor `y` is coded as -1 and 1, with
#' one column for each class if there are more than two.
#'
#' **Other families.** Newton's method minimises the (weighted) mean loss of [ridge_family()], which is the negative
#' log-likelihood for classes, plus \eqn{\lambda \alpha' K \alpha / 2}{lambda alpha' K alpha / 2}. More than two classes
#' have a column of coefficients each; the columns sum to 0. The log exposure of counts is an `offset`. Quantiles and Huber's loss have no likelihood,
#' so no standard errors.
#'
#' **Intercept.** It is not penalised. For squared loss it is the (weighted) mean of `y` minus the `offset`, for other families
#' the constant of least loss.
#'
#' **Defaults.** Without `bandwidth`, a few kernels and metrics are fitted exactly to at most 2,000 rows. After each fit the
#' mean outer product of its gradients is the next metric (Radhakrishnan and others, 2024). The best few by leave-one-out
#' error, and bandwidths of largest marginal likelihood, are compared by the error at rows that they have not seen: further
#' rows, or folds. The simplest within one standard error of the best is chosen. With up to 100,000 rows in memory a
#' kernel of normal scores is chosen alike, and the result is the mean of both kernels unless that is worse by a standard
#' error; `bandwidth` is that of the first. From 4,000 rows on, larger fits are compared. If at least 1,000 rows are all
#' centres, the kernel at 0.05 times the bandwidth, for rows that are nearly copies of others, is added where errors fall
#' by two standard errors. Standard errors and Bayesian intervals ignore these choices and are too small with few rows
#' for each column: use `interval = "conformal"` of [predict()][predict.kernel_ridge] there.
#'
#' With `metric = "none"`, for sparse rows and for kernels of \eqn{x'y}, bandwidths are chosen by the leave-one-out error on
#' 400 rows. Families other than `"gaussian"` choose kernel and bandwidth by squared errors of classes, or of `y` on the
#' scale of the link, and `lambda` by the loss at rows held out. The choices depend on the rows, but not on their order or
#' on R's random numbers.
#'
#' **Terms.** `y ~ z + k(x1, x2) + k(x3)` fits \eqn{b + z\beta + f_1(x_1, x_2) + f_2(x_3)}{b + z beta + f_1(x1, x2) +
#' f_2(x3)} by squared loss. `f_1` and `f_2` have their own kernels; `b` and `beta` are hardly penalised. Bandwidths,
#' scales and `lambda` maximise the restricted likelihood of 400 rows. `summary()` has a table of linear terms,
#' `predict(type = "terms")` the effect of each term.
#'
#' **Solver.** [ridge_solver()] describes centres, exact fits, and when iterations stop. With `validation` the result is
#' the iterate of least error there: root mean square error, share of wrong classes, or mean loss of the family.
#'
#' **Precision.** Computations are in double precision. On GPUs with more than 5e9 pairs of rows and centres, products
#' with the kernel matrix are in single precision, and the fit is repeated in double precision if need be. A `jitter` is added to the diagonal of the centres' kernel matrix.
#' It is raised if the factorisation fails or conjugate gradients stall. If that does not help, the error has class
#' `flashkernel_error_singular`.
#'
#' **Rows on a cluster.** If `x` is a [flash_data()], the rows, the response (`y` may be missing), the weights and
#' everything computed for each row stay on the workers. An iteration transfers `m` numbers per response. The result has
#' the same bits for any number of workers, and equals that for rows in memory up to rounding. `exact = TRUE`,
#' `fitted()` and `residuals()` fetch the rows; figures show 20,000 rows.
#'
#' @param x The rows: a numeric matrix, a data frame (factors become indicator columns), a sparse `dgCMatrix` or
#'   `dgRMatrix` of package Matrix, a `big.matrix`, a [flash_data()], a formula, or a function that returns chunks as
#'   for [kernel_sum()]. A chunk is a list with `x`, `y` and perhaps `weights`. Each product reads all chunks, so the
#'   function must start again after it has returned `NULL`, or have an argument `reset`.
#' @param y The response: a vector, a matrix of several responses, or a factor.
#' @param kernel Name of a kernel, `r kernel_names()`, or a [kernel_spec()] with parameters. `NULL` (default): chosen
#'   with `metric`, or `"gaussian"` if that is `"none"` or the `bandwidth` is given.
#' @param bandwidth Scale of the kernel in units of the columns: one number, one for each column, or a `d` x `d`
#'   **variance** matrix, as for [kernel_operator()]. `NULL` (default): chosen from the data.
#' @param lambda Ridge penalty, a positive number. Quantiles may have two. `NULL` (default): chosen from the data.
#' @param centers Number of centres, indices of rows, or a matrix with the columns of `x`. `NULL` (default): all of up to
#'   1,000 rows, or any number with a Laplacian or Matern kernel of one column; otherwise `10 sqrt(n)`; with a `metric`,
#'   all of up to 6,000 rows (40,000 on a GPU) with squared loss, otherwise as time allows.
#' @param family `"gaussian"` (squared loss), `"binomial"` or `"multinomial"` (logistic loss, the latter for more than two
#'   classes), `"poisson"`, `"Gamma"` (log link), `"huber"`, `"quantile"` (the median), a function or object of
#'   [stats::family], or a [ridge_family()] with parameters. `NULL` (default): logistic loss for a factor, otherwise
#'   `"gaussian"`.
#' @param weights Non-negative weights of the rows. `NULL` (default): all 1.
#' @param offset Known part of the link of each row. `NULL` (default): none.
#' @param validation Rows at which the error is measured in each iteration: a fraction of the rows, drawn at random (not
#'   for rows in chunks), `list(x = , y = )`, or a [flash_data()] with a response. `NULL` (default): none.
#' @param metric The metric of a kernel whose `bandwidth` is not given. `"auto"` (default): the best of those below.
#'   `"none"`: a bandwidth for each column. `"diagonal"`, `"full"`: learnt from the gradients of fits to a sample, one
#'   relevance for each column or a matrix. Unless `kernel` is given, a few kernels are compared, too. See Details.
#' @param solver A [ridge_solver()], or a list of some of its settings: an exact fit, the stopping rule, how centres are
#'   drawn, a warm start, a checkpoint file. `NULL` (default): its defaults.
#' @param control A [flash_control()]: where and how sums are computed.
#' @param formula,data A formula with a response, and the data frame that has its variables.
#' @param subset,na.action As for [stats::lm()].
#' @param ... Arguments for methods. The formula and data-frame methods pass them to the default method.
#' @returns An object of class `kernel_ridge`, a list with the `coefficients` (`m` x number of responses), the
#'   `intercept`, the `centers` and their `center_index` among the rows, `kernel`, `bandwidth`, `lambda`, the `trace` of
#'   the iterations (a data frame), `converged`, `iterations`, `jitter` and the settings of the fit.
#' @references Meanti, G., Carratino, L., Rosasco, L. and Rudi, A. (2020) Kernel methods through the roof: handling
#'   billions of points efficiently. \doi{10.48550/arXiv.2006.10350}
#'
#' Radhakrishnan, A., Beaglehole, D., Pandit, P. and Belkin, M. (2024) Mechanism for feature learning in neural networks
#' and backpropagation-free machine learning models. *Science* 383, 1461-1467.
#'
#' Rudi, A., Carratino, L. and Rosasco, L. (2017) FALKON: an optimal large scale kernel method.
#' \doi{10.48550/arXiv.1705.10958}
#' @aliases falkon
#' @seealso [predict.kernel_ridge()], [tune_ridge()], [ridge_solver()], [marginal_effects()], [ridge-methods],
#'   [flash_ridge()] for parsnip, `vignette("kernel-ridge")`.
#' @rawRd \concept{kernel ridge regression}\concept{Gaussian process}\concept{Falkon}\concept{logistic regression}
#'   \concept{support vector machine}\concept{classification}
#' @export
#' @examples
#' fit <- kernel_ridge(dist ~ speed, data = cars)
#' fit
#' predict(fit, data.frame(speed = c(10, 20)), interval = "prediction")
#' plot(fit, "partial")
#'
#' # classes, with probabilities
#' fit <- kernel_ridge(Species ~ ., data = iris, bandwidth = 2, lambda = 1e-3)
#' head(predict(fit, type = "prob"))
#'
#' # counts, with an exposure
#' fit <- kernel_ridge(
#'   ncases ~ agegp + alcgp + offset(log(ncases + ncontrols)), data = esoph, family = "poisson"
#' )
#' c(deviance(fit), AIC(fit))
kernel_ridge <- function(x, ...) {
  # data |> kernel_ridge(formula = y ~ a), as lm() takes it
  if (any(...names() == "formula", na.rm = TRUE)) return(eval(formula_call(match.call()), parent.frame()))
  UseMethod("kernel_ridge")
}

#' @rdname kernel_ridge
#' @export
kernel_ridge.default <- function(x, y, kernel = NULL, bandwidth = NULL, lambda = NULL, centers = NULL, family = NULL,
                                 weights = NULL, offset = NULL, validation = NULL,
                                 metric = c("auto", "none", "diagonal", "full"), solver = NULL, control = NULL, ...) {
  check_ridge_dots(...)
  if (missing(x)) stop_argument("x", "must be given")
  asked <- settle_control(control)
  run <- start_run(asked, "Fitting")
  points <- check_rows(x)
  rows <- ridge_rows(points, brings_y = missing(y))
  hold_rows(rows)
  done <- watch_workers(if (inherits(rows, "rows_data")) rows$data$cluster else asked$cluster)
  if (missing(y)) y <- rows$y
  if (is.null(y)) stop_argument("y", "must be given")
  spec <- ridge_spec(mget(ridge_arguments()))
  if (is.null(weights)) spec$weights <- rows$weights
  spec$asked <- asked
  spec$call <- ridge_call(match.call())
  fit <- fit_rows(rows, y, spec, run)
  if (!inherits(fit, "kernel_ridge")) return(fit)
  fit$row_names <- kept_names(own_row_names(x), fit$held)
  fit$workers <- done()
  fit
}

#' @rdname kernel_ridge
#' @export
kernel_ridge.data.frame <- function(x, y, ...) {
  # data |> kernel_ridge(y ~ a)
  if (!missing(y) && inherits(y, "formula")) return(eval(formula_call(match.call()), parent.frame()))
  fit_frame(kernel_ridge.default, frame_columns(x, "x"), list(y = if (!missing(y)) y, ...), match.call())
}

#' @rdname kernel_ridge
#' @export
kernel_ridge.formula <- function(formula, data = NULL, ..., subset, weights, offset, na.action = getOption("na.action")) {
  call <- match.call()
  made <- terms_frame(formula, data, call, parent.frame(), na.action)
  arguments <- list(...)
  if (!is.null(made$terms)) arguments$kernel <- kernel_of_terms(arguments$kernel, made$terms, made$frame)
  fit_frame(kernel_ridge.default, made$frame, arguments, call)
}

ridge_call <- function(call) {
  call[[1]] <- quote(kernel_ridge)
  call
}

# ---- rows and response ------------------------------------------------------------------------

# What ridge_rows() takes.
check_rows <- function(x, arg = "x", d = NULL, names = NULL) {
  if (is.function(x) || is_elsewhere(x)) return(x)
  if (is_sparse(x)) return(if (is.null(d)) x else match_columns(x, arg, d, names))
  check_points(x, arg, d, names, single = TRUE)
}

# Rows of the kind of a fit's. The columns of chunks stay in their order.
rows_of_fit <- function(x, arg, d, names) {
  rows <- ridge_rows(check_rows(x, arg, d, names), arg = arg)
  if (rows$d != d) stop_argument(arg, "must have ", whole(d), ngettext(d, " column", " columns"), ": found ", whole(rows$d))
  if (has_names(rows$names) && has_names(names) && !identical(rows$names, names)) {
    stop_argument(
      arg, "must have the columns of the fit in their order, ", quote_names(names), ": found ", quote_names(rows$names)
    )
  }
  rows
}

fit_rows <- function(rows, y, spec, run) {
  spec$family <- default_family(spec$family, y)
  if (has_terms(spec)) spec <- check_additive(spec)
  response <- check_response(y, rows$n, family = spec$family)
  is_part <- is.numeric(spec$validation) && length(spec$validation) == 1
  of <- list(rows = rows, response = response, spec = spec)
  if (is_part) of <- with_fixed_seed(hold_out(with_row_keys(rows, response, run), response, spec), spec$seed)
  tryCatch(fit_ridge(of$rows, of$response, of$spec, run), flashkernel_error_singular = \(e) {
    # where no factor is found of a kernel whose matrices may have negative eigenvalues, that is why
    kernel <- spec$kernel
    if (!identical(kernel$name, "sigmoid") && !isTRUE(kernel$parameters["coef0"] < 0)) stop(e)
    stop(new_error("singular", paste0(
      "the ", kernel$name, " kernel", if (kernel$name != "sigmoid") " with `coef0` below 0", " is not positive definite, ",
      "and its kernel matrix has no Cholesky factorisation here. Use another `kernel`, such as \"polynomial\" ",
      "or \"gaussian\"."
    ), user_call(), parent = e))
  })
}

# A part of the rows, drawn at random, is held out.
hold_out <- function(rows, response, spec) {
  part <- spec$validation
  if (!is.finite(part) || part <= 0 || part >= 1) {
    stop_argument("validation", "must be a fraction of the rows, between 0 and 1: found ", describe(part))
  }
  split <- split_rows(rows, response, spec)
  of <- split$of
  offset <- check_offset(spec$offset, rows$n, ncol(response$y))
  weights <- if (is_column(spec$weights)) spec$weights else check_weights(spec$weights, rows$n)
  y <- if (is_column(response$y)) of(response$y, TRUE) else response_values(response, split$index)
  spec$validation <- list(x = split$held, y = y, offset = of(offset, TRUE))
  spec[c("offset", "weights")] <- list(of(offset, FALSE), of(weights, FALSE))
  spec[c("held", "centers")] <- split[c("taken", "centers")]
  response$y <- of(response$y, FALSE)
  if (!is.null(response$classes)) check_no_lacking(class_counts(response$y), response$classes, "validation")
  list(rows = ridge_rows(split$kept), response = response, spec = spec)
}

# list(held, kept, index, of, taken, centers): points of rows that are held out and of the others, the numbers of the
# former, a function of numbers of each row for those of the rows that are held or not, `taken`, what fits say of the
# rows held out, and the `centers` among the others.
split_rows <- function(rows, response, spec) UseMethod("split_rows")
#' @export
split_rows.default <- function(rows, response, spec) {
  if (inherits(rows, "rows_chunks")) {
    stop_argument("validation", "must be list(x = , y = ) if rows come in chunks: found a fraction")
  }
  index <- resume_held(spec$checkpoint, rows$n)
  if (is.null(index)) {
    index <- sort(draw_places(rows, max(1, round(spec$validation * rows$n))))
    index <- spare_classes(index, response$y, response$classes, spec$weights)
  }
  if (!length(index) %in% seq_len(rows$n - 1)) {
    stop_argument(
      "validation", "must leave rows of every class for the fit, and at least one for validation: found ",
      format(spec$validation)
    )
  }
  kept <- seq_len(rows$n)[-index]
  centers <- spec$centers
  if (are_several(centers)) {
    centers <- match(centers, kept)
    if (anyNA(centers)) {
      stop_argument(
        "centers", "must not be rows that `validation` holds out. Give list(x = , y = ) as `validation`, or a number ",
        "of centres."
      )
    }
  }
  list(
    held = rows_take(rows, index), kept = rows_take(rows, kept), index = index, taken = index, centers = centers,
    of = \(x, held) numbers_at(x, if (held) index else -index)
  )
}

# Numbers of rows, or of candidates.
are_several <- function(centers) is_number(centers) && is.null(dim(centers)) && length(centers) > 1

# Rows `index` of the response as the user would give them.
response_values <- function(response, index) {
  y <- response$y[index, , drop = FALSE]
  if (!is.null(response$family$levels)) return(y[, 1])
  if (is.null(response$classes)) y else factor(response$classes[class_codes(y)], levels = response$classes)
}

# Numbers that nobody gave. Few rows are all centres.
settle_defaults <- function(rows, response, weights, spec, run) {
  if (is.null(spec$exact)) {
    all <- is.null(spec$centers) && (may_be_markov(rows, spec) || takes_all(rows, spec, run))
    spec$exact <- if (is.null(spec$start)) all else spec$start$exact
  }
  if (!is.null(spec$start)) spec <- settle_start(spec, ncol(response$y))
  if (is.null(spec$centers_given)) spec$centers_given <- length(spec$centers) > 1 || !is.null(spec$start)
  if (is.null(spec$centers)) spec$centers <- if (spec$exact) rows$n else most_centers(rows, spec, ncol(response$y), run)
  m <- if (is.null(spec$start)) center_count(spec$centers, rows$n) else nrow(spec$start$coefficients)
  spec <- settle_solver(spec, exceeds_matrix(m, rows$d, run))
  open <- c(is.null(spec$bandwidth), is.null(spec$lambda))
  if (any(open)) {
    spec$chosen <- c(if (is.null(spec$kernel) && learns_metric(spec)) "kernel", c("bandwidth", "lambda")[open])
    choose <- if (has_terms(spec)) choose_terms else choose_defaults
    chosen <- choose(rows, response, weights, spec, run)
    spec[names(chosen)] <- chosen
  }
  if (is.null(spec$kernel)) spec$kernel <- kernel_spec("gaussian")
  if (has_terms(spec)) spec$kernel <- with_vague_terms(spec$kernel, rows$n * spec$lambda)
  spec$L <- rows_factor(rows, spec$bandwidth)
  spec
}

# Is every row a centre by default? With a learnt metric and squared loss if the factorisation takes a second or two,
# otherwise for fewer rows.
takes_all <- function(rows, spec, run) {
  n <- rows$n
  if (n <= EXACT_ROWS) return(TRUE)
  if (!takes_time(rows, spec) || !spec$family$squared || n > EXACT_ON_GPU) return(FALSE)
  n <= EXACT_FACTORISED || fits_on_gpu(n, run)
}

# Does the fit take some seconds by default, so that the best of a few kernels and metrics is not spoilt by few centres?
takes_time <- function(rows, spec) learns_metric(spec) && inherits(rows, "rows_dense")

# Where its iterations end. `in_blocks`: the centres are in blocks (ridge-blocks.R). With many classes, the second half of the
# iterations changes log losses at other rows by less than the choice of `lambda` does.
settle_solver <- function(spec, in_blocks = FALSE) {
  squared <- spec$family$squared
  # of ridge-exact.R
  if (isTRUE(spec$exact) && squared) return(spec)
  if (is.null(spec$iterations)) spec$iterations <- 50L
  loose <- is.null(spec$lambda) && identical(spec$family$family, "multinomial")
  if (is.null(spec$tolerance)) spec$tolerance <- if (squared && !in_blocks) 1e-6 else if (loose) 2e-2 else 1e-4
  spec
}

default_centers <- function(n) min(n, ceiling(10 * sqrt(n)))

# As many centres as some seconds allow, on two cores or on a GPU, at least default_centers().
most_centers <- function(rows, spec, outputs, run) {
  n <- rows$n
  least <- default_centers(n)
  if (!takes_time(rows, spec)) return(least)
  positive <- positive_weights(spec$weights)
  if (!is.null(positive)) n <- sum(positive)
  table <- CENTERS_IN_SECONDS[[if (fits_on_gpu(least, run)) "cuda" else "cpu"]]
  most <- \(kind, outputs) min(table[[kind]] / c(1, outputs * n))
  number <- if (spec$family$squared) most("squared", 1) else most("others", outputs)
  if (spec$family$of_classes && outputs > 1) number <- max(number, min(most("classes", outputs), KERNEL_BYTES / 8 / n))
  min(n, max(least, floor(number)))
}

# Centres, and pairs of rows and centres. Newton's method factorises the matrix of the centres several times, and takes
# more iterations, for each output. Those of more than two classes multiply kernels that are kept.
CENTERS_IN_SECONDS <- list(
  cpu = list(squared = c(6000, 1.5e8), classes = c(3000, 1e9), others = c(4000, 3.75e7)),
  cuda = list(squared = c(20000, 2e9), classes = c(4500, 2e9), others = c(13333, 5e8))
)

EXACT_ROWS <- 1000
EXACT_ON_GPU <- 40000

# A warm start goes on with the same centres, and with its numbers where none are given.
settle_start <- function(spec, outputs) {
  start <- spec$start
  found <- ncol(start$coefficients)
  if (found != outputs) {
    stop_argument("start", "must be a fit with one column of coefficients for each response, ", outputs, ": found ", found)
  }
  if (start$exact != spec$exact) stop_argument("start", "must be an exact fit if the new fit is exact, and only then")
  if (!is.null(spec$centers)) stop_argument("centers", "must not be given with `start`, whose centres are used")
  if (is.null(spec$kernel)) spec$kernel <- start$kernel
  if (is.null(spec$bandwidth)) spec$bandwidth <- start$bandwidth
  if (is.null(spec$lambda)) spec$lambda <- start$lambda[length(start$lambda)]
  spec
}
