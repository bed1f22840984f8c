# augment() of broom: the rows of a fit, or others, with columns from the fit.

# `columns`: a function of the fit and of new rows (`NULL`: the rows of the fit) that returns a list of columns.
# `own`: a function that makes a data frame of the rows of the fit. `of`: the part of the fit with the number of rows
# `n` and `na.action`.
augment_rows <- function(x, data, newdata, own, columns, of = x) {
  if (is.null(newdata)) {
    rows <- rows_to_augment(of, data, own)
    # values are for the rows that na.action has kept; `restore` puts them into all rows of `data`
    x["na.action"] <- list(NULL)
    added <- lapply(columns(x, NULL), rows$restore)
  } else {
    rows <- list(frame = as_frame_of(newdata))
    added <- columns(x, rows$frame)
  }
  rows$frame[names(added)] <- lapply(added, unname)
  as_tibble(rows$frame)
}

as_frame_of <- function(data) if (is.data.frame(data)) data else as.data.frame(data)

# list(frame, restore): the rows of `data` that are rows of the fit, and a function that expands values to all rows.
rows_to_augment <- function(of, data, own) {
  if (is.null(data)) return(list(frame = own(of), restore = identity))
  data <- as_frame_of(data)
  omitted <- of$na.action
  if (nrow(data) == of$n) return(list(frame = data, restore = identity))
  if (nrow(data) != of$n + length(omitted)) {
    stop_argument(
      "data", "must have the rows of the fit, ", of$n + length(omitted), ": found ", nrow(data),
      " (give other rows as `newdata =`)"
    )
  }
  if (!inherits(omitted, "exclude")) return(list(frame = data[-omitted, , drop = FALSE], restore = identity))
  list(frame = data, restore = \(values) stats::napredict(omitted, values))
}

own_density_rows <- function(fit) points_frame(fit, own_places(fit))

# A column, or one for each column of a matrix, with `name` or names from `labels`.
named_columns <- function(name, values, labels = colnames(values), sep = "_") {
  if (!is.matrix(values)) return(stats::setNames(list(values), name))
  stats::setNames(lapply(seq_len(ncol(values)), \(k) unname(values[, k])), paste0(name, sep, labels))
}

# ---- densities --------------------------------------------------------------------------------

#' @rdname flashkernel-broom
#' @exportS3Method generics::augment
augment.flash_kde <- function(x, data = NULL, newdata = NULL, se.fit = FALSE, loo = NULL, prob = NULL, ...) {
  check_dots_empty(...)
  check_in_memory(x, "x")
  se.fit <- check_flag(se.fit, "se.fit")
  check_combination(x, newdata, "density", se.fit, !is.null(loo) && check_flag(loo, "loo"))
  levels <- if (!is.null(prob)) hdr_level(x, sort(unique(check_prob(prob, "prob", open = TRUE))))
  run <- start_run(fit_asked(x), "Predicting")
  augment_rows(x, data, newdata, own_density_rows, \(x, at) {
    added <- if (is.null(at)) estimate_columns(x, NULL, se.fit, run, \(values, at_infinity) values) else {
      kept <- newdata_rows(new_points(x, at), stats::na.pass)
      estimate_columns(x, kept$points, se.fit, run, kept$restore)
    }
    if (is.null(at) && wants_loo(x, loo)) added$.loo_log_density <- signed_log(log_estimate(x, NULL, TRUE, run))
    if (!is.null(levels)) added$.hdr <- smallest_region(added$.density, levels)
    added
  })
}

estimate_columns <- function(object, at, se.fit, run, restore) {
  estimate <- log_estimate(object, at, FALSE, run)
  columns <- list(.density = restore(signed_density(estimate), 0), .log_density = restore(signed_log(estimate), -Inf))
  if (se.fit) columns$.se.fit <- restore(exp(error_estimate(object, at, FALSE, run, estimate)), 0)
  columns
}

# The smallest region that contains each row, or ">95%" if none does. `levels`: named, from the innermost region out.
smallest_region <- function(density, levels) {
  outside <- paste0(">", names(levels)[length(levels)])
  names <- c(names(levels), outside)
  factor(names[1 + findInterval(-density, -levels, left.open = TRUE)], names, ordered = TRUE)
}

#' @rdname flashkernel-broom
#' @exportS3Method generics::augment
augment.flash_conditional <- function(x, data = NULL, newdata = NULL, loo = NULL, ...) {
  check_dots_empty(...)
  augment_rows(x, data, newdata, own_density_rows, of = x$joint, columns = \(x, at) {
    own <- is.null(at)
    log_p <- if (own || all(x$variables$y %in% names(at))) stats::predict(x, at, type = "log_density")
    c(
      prediction_columns(x, at),
      if (own && length(response_levels(x)) == 0) response_named(x, ".resid", stats::residuals(x)),
      if (!is.null(log_p)) list(.density = exp(log_p), .log_density = log_p),
      if (own && wants_conditional_loo(x, loo)) {
        list(.loo_log_density = stats::predict(x, type = "log_density", loo = TRUE))
      }
    )
  })
}

# The conditional mean of a numeric response, or the most probable category with all probabilities.
prediction_columns <- function(object, at) {
  column <- response_levels(object)
  if (length(column) == 0) return(response_named(object, ".fitted", stats::predict(object, at, type = "mean")))
  p <- stats::predict(object, at, type = "probability")
  of <- object$joint$discrete$columns[[column]]
  predicted_classes(p, of$levels, of$kind == "ordered")
}

# The most probable class, and the probability of each class.
predicted_classes <- function(p, classes, ordered = FALSE) {
  class <- factor(classes[likeliest(p)], classes, ordered = ordered)
  c(list(.pred_class = class), named_columns(".pred", p, classes))
}

response_named <- function(object, name, values) named_columns(name, values, object$response)

# ---- classes and clusters ---------------------------------------------------------------------

#' @rdname flashkernel-broom
#' @exportS3Method generics::augment
augment.flash_kda <- function(x, data = NULL, newdata = NULL, loo = FALSE, ...) {
  check_dots_empty(...)
  loo <- check_flag(loo, "loo")
  if (loo && !is.null(newdata)) {
    stop_argument("loo", "must be FALSE with `newdata`: only training points can be left out")
  }
  augment_rows(x, data, newdata, own_kda_rows, \(x, at) {
    p <- if (loo) cross_validate(x)$prob else stats::predict(x, at, type = "prob")
    predicted_classes(p, x$classes)
  })
}

# The class and the columns of each row of the fit.
own_kda_rows <- function(object) {
  frame <- as.data.frame(kda_points(object))
  names(frame) <- point_names(object)
  class <- factor(object$classes[kda_codes(object)], object$classes)
  response <- if (is.null(object$terms)) "class" else deparse(object$terms[[2]])[1]
  frame <- cbind(class, frame)
  stats::setNames(frame, make.unique(c(response, names(frame)[-1])))
}

#' @rdname flashkernel-broom
#' @exportS3Method generics::augment
augment.flash_clusters <- function(x, data = NULL, newdata = NULL, ...) {
  check_dots_empty(...)
  augment_rows(x, data, newdata, own_density_rows, of = x$fit, columns = \(x, at) {
    if (is.null(at)) {
      # if mean_shift() had newdata, x$cluster is for those rows, not for the rows of the fit
      number <- if (is.null(x$newdata)) x$cluster else stats::predict(x, x$fit$x)
      if (length(number) > x$fit$n) number <- number[-x$fit$na.action]
    } else {
      names <- x$fit$names
      by_name <- is.null(x$fit$terms) && has_names(names) && all(names %in% names(at))
      number <- stats::predict(x, if (by_name) at[names] else at)
    }
    list(.cluster = factor(number, seq_len(nrow(x$modes))))
  })
}

# ---- regressions ------------------------------------------------------------------------------

#' @rdname flashkernel-broom
#' @exportS3Method generics::augment
augment.kernel_ridge <- function(x, data = NULL, newdata = NULL, se.fit = FALSE, interval = "none", conf.level = 0.95,
                                 ...) {
  check_dots_empty(...)
  se.fit <- check_flag(se.fit, "se.fit")
  interval <- check_choice(interval, RIDGE_INTERVALS, "interval")
  augment_rows(x, data, newdata, own_ridge_rows, \(x, at) {
    predicted <- \(...) if (is.null(at)) stats::predict(x, ...) else stats::predict(x, at, ...)
    columns <- \(name, values) {
      labels <- colnames(values)
      named_columns(name, values, if (is.null(labels)) output_names(x) else labels)
    }
    p <- if (has_probabilities(x)) predicted(type = "prob")
    ends <- if (interval != "none") predicted(interval = interval, level = conf.level)
    # the second dimension has fit, lwr and upr; a third one has the responses
    end <- \(part) if (length(dim(ends)) == 3) asplit(ends, 2)[[part]] else ends[, part]
    c(
      if (is.null(x$classes)) columns(".fitted", if (is.null(at)) stats::fitted(x) else predicted(type = "response")),
      if (!is.null(x$classes)) list(.pred_class = predicted(type = "class")),
      if (!is.null(p)) columns(".pred", p),
      if (is.null(at) && is.null(x$classes)) columns(".resid", stats::residuals(x)),
      if (se.fit) columns(".se.fit", predicted(type = "link", se.fit = TRUE)$se.fit),
      if (!is.null(ends)) c(columns(".lower", end("lwr")), columns(".upper", end("upr")))
    )
  })
}

own_ridge_rows <- function(x) {
  kept <- kept_data(x)
  own <- if (!is.null(kept$frame)) kept$frame else {
    stats::setNames(as.data.frame(rows_take(kept$rows, seq_len(x$n))), column_names(x))
  }
  y <- fit_response(x)
  if (!is.null(x$family$levels)) y <- y[, 1]
  y <- if (!is.null(x$classes)) factor(x$classes[class_codes(y)], x$classes) else as_vector_if_one(y)
  own <- cbind(stats::setNames(as.data.frame(y), if (is.matrix(y)) output_names(x) else response_label(x)), own)
  rownames(own) <- x$row_names
  own
}

#' @rdname flashkernel-broom
#' @exportS3Method generics::augment
augment.kernel_regression <- function(x, data = NULL, newdata = NULL, se.fit = FALSE, ...) {
  check_dots_empty(...)
  se.fit <- check_flag(se.fit, "se.fit")
  augment_rows(x, data, newdata, own_local_rows, \(x, at) {
    columns <- \(name, values) named_columns(name, values, output_labels(x))
    found <- if (is.null(at)) stats::predict(x, se.fit = se.fit) else stats::predict(x, at, se.fit = se.fit)
    c(
      columns(".fitted", if (se.fit) found$fit else found),
      if (is.null(at)) c(columns(".resid", stats::residuals(x)), list(.hat = stats::hatvalues(x))),
      if (se.fit) columns(".se.fit", found$se.fit)
    )
  })
}

own_local_rows <- function(x) {
  y <- stats::setNames(as.data.frame(x$y), if (ncol(x$y) > 1) output_labels(x) else response_label(x))
  own <- if (is.null(x$discrete)) stats::setNames(as.data.frame(x$x), point_names(x)) else {
    decode(own_places(x), x$discrete)
  }
  for (name in names(x$dates)) own[[name]] <- as_dates(own[[name]], x$dates[[name]])
  cbind(y, own)
}
