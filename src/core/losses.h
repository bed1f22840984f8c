/* Losses of classes, row by row: what Newton's method asks of all rows in each step (R/ridge-loss.R). No margin
 * is too large, in either direction, and what is small keeps its digits. */
#pragma once

#include "../fk.h"

/* t = 1: the logistic loss of two classes, f the log odds of the second. Else the softmax of t classes. */
struct fk_class_loss {
  const double *f; /* the link, n x t */
  const double *y; /* n x t: 1 in the column of a row's class, else -1; t = 1: 1 for the second class, -1 */
  int64_t n, t;
  int threads;
};

enum fk_loss_part {
  FK_LOSS_VALUE,     /* n: the loss */
  FK_LOSS_SLOPE,     /* n x t: its derivatives by f */
  FK_LOSS_CURVATURE, /* n: p (1 - p), the mean over the classes; y is not read */
  FK_LOSS_PRODUCT    /* n x t: the second derivatives times u; y is not read */
};
void fk_class_loss_rows(const struct fk_class_loss *loss, enum fk_loss_part part, const double *u, double *out);

/* The sum over all rows of weights (NULL: ones) times the losses at f - length * direction (NULL: at f). */
struct fk_loss_line {
  const double *direction, *weights;
  double length;
};
enum fk_status fk_class_loss_sum(const struct fk_class_loss *loss, const struct fk_loss_line *line, double *sum,
                                 struct fk_error *err);
