#' Kernel ridge and logistic regression, from ten to hundreds of millions of rows
#'
#' Regression and classification with a function \eqn{f(x) = b + \sum_j \alpha_j k(x, c_j)}{f(x) = b + sum_j alpha_j
#' k(x, c_j)} of kernels at `m` centres (Nystroem approximation), fitted by conjugate gradients with Falkon's
#' preconditioner: `O(nm)` for each iteration, `O(m^3)` once, and memory for one matrix of `m` x `m` numbers, never of
#' `n` x `m`. On all processors, or on NVIDIA GPUs.
#'
#' @details
#' **Squared loss**: the coefficients minimise
#' \deqn{\frac{1}{n} \sum_i w_i (y_i - f(x_i))^2 + \lambda \alpha' K \alpha,}{(1/n) sum_i w_i (y_i - f(x_i))^2 + lambda
#' alpha' K alpha,}
#' with `K` the kernels of the centres among themselves. With all rows for centres (`exact = TRUE` in [ridge_solver()]) that is kernel ridge
#' regression, or the mean of a Gaussian process whose noise has \eqn{n \lambda}{n lambda} times the variance of the
#' signal. `n` counts rows, also those of weight 0: a row of weight 2 is two rows where `lambda * n` is the same. A
#' factor `y` of two classes is fitted as -1 and 1, one of more as one column for each class against all others.
#'
#' **Logistic loss**: the (weighted) mean negative log-likelihood plus \eqn{\lambda \alpha' K \alpha / 2}{lambda alpha'
#' K alpha / 2}, by Newton's method with penalties that fall to `lambda`, each step by a few conjugate gradients. For
#' more than two classes it is the multinomial likelihood (softmax), with a column of coefficients for each class,
#' penalised alike: their sum is 0, and the order of the classes does not matter. `"weighted"` is the same with rows
#' weighted by `class_weights` of [ridge_solver()], too. With penalty, also classes that can be told apart without error have finite
#' coefficients.
#'
#' **The intercept** is not penalised: it is that of the model without kernels. For squared loss this is the (weighted)
#' mean of `y` less the `offset`. For logistic loss it is the link at which the mean probabilities of the classes are
#' their (weighted) shares: without an offset the log odds of the shares (for more than two classes their logarithms,
#' centred), with an offset the intercept that [stats::glm()] estimates with this offset and no other term.
#'
#' **Without numbers** (`bandwidth`, `lambda`) both are chosen on 400 of the rows, drawn at random where there are more, by
#' the error that leaving one row out makes (`lambda` of classes by the log loss that leaving out thirds makes), with a
#' bandwidth for each column: in proportion to its spread and then, where there are few columns, by some steps of
#' descent. [tune_ridge()] does that with care, and for the kernel and the number of centres, too.
#'
#' **Centres**: a number (rows drawn by `center_method` of [ridge_solver()]), indices of rows, or a matrix. `"uniform"` draws at random;
#' `"rpcholesky"` by randomly pivoted Cholesky (of up to 2,896 pivots on a sample of the rows; what is more is drawn at
#' random), `"leverage"` by approximate ridge leverage scores (of up to 1,000 landmarks), `"kmeans++"` far from each
#' other. These leave less of the kernel matrix unexplained, by 6 to 37 percent on real data and by more where rows are in
#' clusters; on rows like those of training the error was that of `"uniform"`. Exact duplicates are merged.
#'
#' **Rows on a cluster**: of a [flash_data()] the rows, the response and weights (`y` and `weights` may be missing), and
#' all that is computed for each row, stay on the workers; `m` numbers for each output travel in an iteration. The result
#' has the same bits for any number of workers, and is that for rows in memory up to rounding; steps of logistic loss take
#' a third more time. What needs all rows in this session fetches them, as `exact = TRUE`, `fitted()` and
#' `residuals()` do; errors of fits are merged from the shards, and figures go by 20,000 rows. A part of the rows for
#' `validation` is drawn from each shard. With `flash_control(cluster = )` rows in memory are sent to the workers, where
#' there is enough to do.
#'
#' **Without centres** (`exact = TRUE`), squared loss: by Cholesky for up to 4,000 rows (on a GPU, for as many as half
#' of its free memory holds the matrix of), beyond by conjugate gradients, preconditioned by what some of the rows say
#' of the matrix. Their products go by the fast engine where that is faster ([kernel_matvec()]: `"gaussian"`, `"cauchy"`
#' and `"imq"` in few dimensions), to a tolerance far below that of the solver unless `control` has one. Each iteration then takes
#' time linear in `n`, and Gaussian-process regression on a million rows in 3 dimensions some minutes at most on two
#' cores.
#'
#' **Precision**: the preconditioner is computed in double, but for its second factor beside products in single
#' precision on GPUs, from some 16,000 centres on: that comes from tensor cores, with the digits of single precision,
#' which changes how fast iterations converge by next to nothing, and the solution not at all. Products with the kernel
#' matrix are in double and, by default on GPUs beyond 5e9 pairs of rows and centres, in single precision with short sums
#' in double: what a fit loses by that is looked at, and a warning tells where it matters.
#' `flash_control(precision = "double")` asks for more. To factorise
#' the centres' kernel matrix a `jitter` is added to its diagonal, first 1e-13 `m` (1e-10 `m` in single precision), and
#' a hundred times as much where that is not enough, or where conjugate gradients stall; the fit tells. In single
#' precision on GPUs the centres are moved by up to a millionth of a bandwidth, to where tensor cores can hold them.
#' When nothing helps it is an error of class `flashkernel_error_singular`.
#'
#' **Convergence**: until the residual is `tolerance` times what it was, or as many `iterations` as [ridge_solver()]
#' allows. Few iterations (5 to 20) are a
#' regularisation of their own, and often enough; small penalties take more. Newton's method ends when a step promises
#' less than `tolerance` times the objective, much as [stats::glm()] does. With `validation`, the iterate of the least error
#' is kept: of the root mean square or the part of wrong classes for squared loss, of the mean negative log-likelihood
#' for logistic loss.
#'
#' @param x The rows: a numeric matrix, a data frame (factors become indicator columns), a sparse `dgCMatrix` or
#'   `dgRMatrix` of package Matrix, a `big.matrix`, a function that yields chunks as for [kernel_matvec()], whose chunks
#'   are lists of `x`, `y` and perhaps `weights`, or a formula. A function is read once for each product: it must begin
#'   again after its `NULL`, or have an argument `reset`.
#' @param y The response: a vector, a matrix of several responses, or a factor.
#' @param kernel By its name, `r kernel_names()`, or with parameters, of [kernel_spec()].
#' @param bandwidth The kernel's scale, in units of the columns: one number, one for each column, or a `d` x `d`
#'   **variance** matrix, as for [kernel_operator()]. `NULL`: chosen from the data.
#' @param lambda The penalty, for each row. `NULL`: chosen from the data.
#' @param centers A number, indices of rows, or a matrix with the columns of `x`. `NULL`: all rows if there are up to
#'   1,000, else `10 sqrt(n)` of them.
#' @param loss `"squared"`, `"logistic"`, or `"weighted"`: logistic, with weights of the classes. `NULL`: logistic for a
#'   factor, else squared.
#' @param weights Non-negative weights of the rows, or `NULL`.
#' @param offset Known part of the link for each row, not fitted, or `NULL`.
#' @param validation A fraction of the rows to hold out (drawn at random; not of rows in chunks), or `list(x = , y = )` of
#'   others or a [flash_data()] with a response, at which the error is measured in each iteration. `NULL`: none.
#' @param subset,na.action For formulas, as for [stats::lm()].
#' @param formula,data A formula with a response, and where its variables are.
#' @param solver A [ridge_solver()], or a list of some of its settings: an exact fit, the stopping rule, how centres are
#'   drawn, where to begin, what to save. `NULL`: its defaults.
#' @param control A [flash_control()]: where and how sums are computed.
#' @param ... For methods; for the formula and the data-frame method, the arguments of the default method.
#' @returns An object of class `kernel_ridge`, a list with the `coefficients` (`m` x number of responses), the
#'   `intercept`, the `centers` and their `center_index` among the rows, `kernel`, `bandwidth`, `lambda`, the `trace` of
#'   the iterations (a data frame), `converged`, `iterations`, `jitter` and what the fit was made with.
#' @references Meanti, G., Carratino, L., Rosasco, L. and Rudi, A. (2020) Kernel methods through the roof: handling
#'   billions of points efficiently. \doi{10.48550/arXiv.2006.10350}
#'
#' Rudi, A., Carratino, L. and Rosasco, L. (2017) FALKON: an optimal large scale kernel method.
#' \doi{10.48550/arXiv.1705.10958}
#' @inheritSection flash_kde Errors
#' @seealso [predict.kernel_ridge()], [tune_ridge()], [kernel_operator()] for the products.
#' @export
#' @examples
#' fit <- kernel_ridge(dist ~ speed, data = cars)
#' fit
#' predict(fit, data.frame(speed = c(10, 20)))
#'
#' # classes, with probabilities
#' fit <- kernel_ridge(Species ~ ., data = iris, bandwidth = 2, lambda = 1e-3)
#' head(predict(fit, type = "prob"))
kernel_ridge <- function(x, ...) {
  # data |> kernel_ridge(formula = y ~ a), as lm() takes it
  if (any(...names() == "formula", na.rm = TRUE)) return(eval(formula_call(match.call()), parent.frame()))
  UseMethod("kernel_ridge")
}

#' @rdname kernel_ridge
#' @export
falkon <- kernel_ridge

#' @rdname kernel_ridge
#' @export
kernel_ridge.default <- function(x, y, kernel = "gaussian", bandwidth = NULL, lambda = NULL, centers = NULL,
                                 loss = NULL, weights = NULL, offset = NULL, validation = NULL, solver = NULL,
                                 control = NULL, ...) {
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
  if (all(vapply(x, is_number, NA))) {
    fit <- kernel_ridge.default(as_points(x, "x"), y, ...)
  } else {
    frame <- frame_columns(x, "x")
    fit <- kernel_ridge.default(frame$points, y, ...)
    if (inherits(fit, "kernel_ridge")) fit <- with_frame(fit, frame)
  }
  if (inherits(fit, "ridge_plan")) return(fit)
  fit$row_names <- kept_names(own_row_names(x), fit$held)
  fit$call <- ridge_call(match.call())
  fit
}

#' @rdname kernel_ridge
#' @export
kernel_ridge.formula <- function(formula, data = NULL, ..., subset, weights, offset, na.action = getOption("na.action")) {
  call <- match.call()
  frame <- response_frame(call, data, parent.frame(), na.action)
  options <- list(...)
  if (is.data.frame(options$validation)) options$validation <- validation_frame(options$validation, frame)
  fit <- do.call(kernel_ridge.default, c(
    list(quote(frame$points), quote(frame$y), weights = quote(frame$weights), offset = quote(frame$offset)), options
  ))
  if (inherits(fit, "ridge_plan")) return(fit)
  fit <- with_frame(fit, frame)
  fit$call <- ridge_call(call)
  fit
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
  spec$loss <- default_loss(spec$loss, y)
  response <- check_response(y, rows$n, binary = spec$loss != "squared")
  if (is.numeric(spec$validation) && length(spec$validation) == 1) {
    held <- hold_out(rows, response, spec)
    return(fit_definite(held$rows, held$response, held$spec, run))
  }
  fit_definite(rows, response, spec, run)
}

# As fit_ridge(). Where no factor is found of a kernel whose matrices may have negative eigenvalues, that is why.
fit_definite <- function(rows, response, spec, run) {
  tryCatch(fit_ridge(rows, response, spec, run), flashkernel_error_singular = \(e) {
    kernel <- spec$kernel
    if (kernel$name != "sigmoid" && !isTRUE(kernel$parameters["coef0"] < 0)) stop(e)
    stop(new_error("singular", paste0(
      "the ", kernel$name, " kernel", if (kernel$name != "sigmoid") " with `coef0` below 0", " is not positive definite, ",
      "and its matrix of these rows has no Cholesky factor. Use another `kernel`, such as \"polynomial\" or \"gaussian\"."
    ), user_call(), parent = e))
  })
}

# A part of the rows, drawn at random, is held out.
hold_out <- function(rows, response, spec) {
  part <- spec$validation
  if (!is.finite(part) || part <= 0 || part >= 1) {
    stop_argument("validation", "must be a fraction of the rows, between 0 and 1: found ", describe(part))
  }
  if (inherits(rows, "rows_chunks")) {
    stop_argument("validation", "must be list(x = , y = ) where rows come in chunks: found a fraction")
  }
  if (inherits(rows, "rows_data")) return(hold_out_data(rows, response, spec))
  index <- resume_held(spec$checkpoint, rows$n)
  if (is.null(index)) {
    index <- sort(sample.int(rows$n, max(1, round(part * rows$n))))
    index <- spare_classes(index, response$y, response$classes, spec$weights)
  }
  if (!length(index) %in% seq_len(rows$n - 1)) {
    stop_argument("validation", "must leave rows of every class for the fit, and others: found ", format(part))
  }
  if (!is.null(spec$weights)) spec$weights <- numbers_at(check_weights(spec$weights, rows$n), -index)
  offset <- check_offset(spec$offset, rows$n, ncol(response$y))
  spec$offset <- numbers_at(offset, -index)
  spec$validation <- list(
    x = rows_take(rows, index), y = response_values(response, index), offset = numbers_at(offset, index)
  )
  spec$held <- index
  kept <- seq_len(rows$n)[-index]
  if (is_number(spec$centers) && is.null(dim(spec$centers)) && length(spec$centers) > 1) {
    spec$centers <- match(spec$centers, kept)
    if (anyNA(spec$centers)) stop_argument("centers", "must not be among the rows that `validation` holds out: give these")
  }
  response$y <- numbers_at(response$y, -index)
  list(rows = ridge_rows(rows_take(rows, kept)), response = response, spec = spec)
}

# Rows `index` of the response as the user would give them.
response_values <- function(response, index) {
  y <- response$y[index, , drop = FALSE]
  if (is.null(response$classes)) y else factor(response$classes[class_codes(y)], levels = response$classes)
}

# Numbers that nobody gave. Few rows are all centres.
settle_defaults <- function(rows, response, weights, spec, run) {
  if (is.null(spec$exact)) {
    spec$exact <- if (is.null(spec$start)) is.null(spec$centers) && rows$n <= EXACT_ROWS else spec$start$exact
  }
  if (!is.null(spec$start)) spec <- settle_start(spec, ncol(response$y))
  spec <- settle_solver(spec)
  if (is.null(spec$centers_given)) spec$centers_given <- length(spec$centers) > 1 || !is.null(spec$start)
  open <- c(is.null(spec$bandwidth), is.null(spec$lambda))
  if (any(open)) {
    spec$chosen <- c("bandwidth", "lambda")[open]
    chosen <- choose_defaults(rows, response, weights, spec, run)
    spec$bandwidth <- chosen$bandwidth
    spec$lambda <- chosen$lambda
  }
  spec$L <- rows_factor(rows, spec$bandwidth)
  if (is.null(spec$centers)) spec$centers <- default_centers(rows$n)
  spec
}

# Where its iterations end.
settle_solver <- function(spec) {
  squared <- spec$loss == "squared"
  if (is.null(spec$iterations)) spec$iterations <- if (isTRUE(spec$exact) && squared) 1000L else 50L
  if (is.null(spec$tolerance)) spec$tolerance <- if (squared) 1e-7 else 1e-5
  spec
}

default_loss <- function(loss, y) {
  if (!is.null(loss)) return(loss)
  if (is_classes(y)) "logistic" else "squared"
}

default_centers <- function(n) min(n, ceiling(10 * sqrt(n)))

EXACT_ROWS <- 1000

# A warm start goes on with the same centres, and with its numbers where none are given.
settle_start <- function(spec, outputs) {
  start <- spec$start
  found <- ncol(start$coefficients)
  if (found != outputs) {
    stop_argument("start", "must be a fit with as many columns of coefficients, ", outputs, ": found ", found)
  }
  if (start$exact != spec$exact) stop_argument("start", "must be exact as the fit is, or have centres as it has")
  if (!is.null(spec$centers)) stop_argument("centers", "must not be given with `start`, which has its own")
  if (is.null(spec$bandwidth)) spec$bandwidth <- start$bandwidth
  if (is.null(spec$lambda)) spec$lambda <- start$lambda
  spec
}
