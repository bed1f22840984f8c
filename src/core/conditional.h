/* Distribution functions of conditional densities, one y given x; by no engine. */
#ifndef FK_CORE_CONDITIONAL_H
#define FK_CORE_CONDITIONAL_H

#include "../fk.h"

/* sum_i a_i Phi((y - c_i) / s_i) / sum_i a_i, log a_i = log_weights_i - |x - x_i|^2 / (2 s_i^2): points x_i,
 * whitened, and their centres c_i of y, in units of its bandwidth. */
struct fk_conditional {
  const double *x;           /* n x d, by columns */
  const double *log_weights; /* n */
  const double *centres;     /* n */
  const double *widths;      /* n: s, NULL: ones */
  int64_t n, d;
};
/* At m rows of x (m x d, by columns) and y. However far x is, the nearest points count. */
enum fk_status fk_conditional_cdf(const struct fk_conditional *of, const double *x, const double *y, int64_t m,
                                  const struct fk_opts *opts, double *out, struct fk_error *err);

#endif
