/* Logistic and softmax losses of all rows, for the Newton steps of R/ridge-loss.R. Margins of any size neither
 * overflow nor lose the digits of small losses. */
#pragma once

#include "../fk.h"

/* With t = 1, the logistic loss of two classes, where f is the log odds of the second class; with t > 1, the
 * softmax loss of t classes. */
struct fk_class_loss {
  const double *f; /* linear predictor, n x t */
  const double *y; /* n x t: 1 in the column of the row's class, else -1; t = 1: 1 for the second class, else -1 */
  int64_t n, t;
  int threads;
};

/* What fk_class_loss_rows() writes to `out`, and its size. */
enum fk_loss_part {
  FK_LOSS_VALUE,     /* n: the loss of each row */
  FK_LOSS_SLOPE,     /* n x t: its derivatives by f */
  FK_LOSS_CURVATURE, /* n: p (1 - p), averaged over the classes; y is not read */
  FK_LOSS_PRODUCT    /* n x t: the second derivatives times u (n x t); y is not read */
};
void fk_class_loss_rows(const struct fk_class_loss *loss, enum fk_loss_part part, const double *u, double *out);

/* *sum: the sum over all rows of weights (n; NULL: ones) times the losses at f - length * direction (n x t; NULL:
 * at f). The same bits for any number of threads. Fails with FK_STATUS_ALLOC. */
struct fk_loss_line {
  const double *direction, *weights;
  double length;
};
enum fk_status fk_class_loss_sum(const struct fk_class_loss *loss, const struct fk_loss_line *line, double *sum,
                                 struct fk_error *err);
