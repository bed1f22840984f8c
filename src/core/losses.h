/* Losses of all rows, for the Newton steps of R/ridge-loss.R. Margins of any size neither overflow nor lose the
 * digits of small losses of classes. */
#pragma once

#include "../fk.h"

/* FK_LOSS_CLASSES: with t = 1, the logistic loss of two classes, where f is the log odds of the second class; with
 * t > 1, the softmax loss of t classes. y is 1 in the column of the row's class, else -1; t = 1: 1 for the second
 * class, else -1. The others are sums over the columns. Of the log link, f = log(mu), half the unit deviance: */
enum fk_loss_kind {
  FK_LOSS_CLASSES,
  FK_LOSS_POISSON, /* y log(y / mu) - (y - mu) */
  FK_LOSS_GAMMA,   /* y / mu - 1 - log(y / mu) */
  FK_LOSS_NEGBIN,  /* y log(y / mu) - (y + theta) log((y + theta) / (mu + theta)); parameters: theta */
  /* Of the residual r = y - f: */
  FK_LOSS_HUBER,   /* r^2 / 2 up to |r| = delta, then linear; parameters: delta */
  FK_LOSS_QUANTILE /* r (level - (r < 0)) + width log(1 + exp(-|r| / width)); parameters: width, level of each
                      column */
};
struct fk_row_loss {
  enum fk_loss_kind kind;
  const double *parameters;
  const double *f; /* linear predictor, n x t */
  const double *y; /* n x t */
  int64_t n, t;
  int threads;
};

/* What fk_row_loss_rows() writes to `out`, and its size. */
enum fk_loss_part {
  FK_LOSS_VALUE,     /* n: the loss of each row */
  FK_LOSS_SLOPE,     /* n x t: its derivatives by f */
  FK_LOSS_CURVATURE, /* n: the second derivatives, averaged over the columns; y is not read for classes */
  FK_LOSS_PRODUCT /* n x t: the second derivatives times u (n x t); y is not read for classes, and of more than two
                   * f has the probabilities, which serve many products */
};
void fk_row_loss_rows(const struct fk_row_loss *loss, enum fk_loss_part part, const double *u, double *out);

/* *sum: the sum over all rows of weights (n; NULL: ones) times the losses at f - length * direction (n x t; NULL:
 * at f). The same bits for any number of threads. Fails with FK_STATUS_ALLOC. */
struct fk_loss_line {
  const double *direction, *weights;
  double length;
};
enum fk_status fk_row_loss_sum(const struct fk_row_loss *loss, const struct fk_loss_line *line, double *sum,
                               struct fk_error *err);
