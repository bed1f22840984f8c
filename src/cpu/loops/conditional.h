/* Distribution functions of conditional densities, one y given x, and their inverses, in double, exactly. */
#pragma once

#include "../../fk.h"

/* F(y) = sum_i a_i Phi((y - c_i) / s_i) / sum_i a_i, log a_i = log_weights_i - |x - x_i|^2 / (2 s_i^2), at m
 * places x. Both points and places are whitened, one after the other; centres are in units of y's bandwidth.
 * However far x is, the nearest points count; where a double cannot hold the distance, what comes back is NaN. */
struct fk_conditional {
  const double *x;           /* n x d */
  const double *log_weights; /* n */
  const double *centres;     /* n: c */
  const double *widths;      /* n: s, NULL: ones */
  int64_t n, d;
  const double *at; /* m x d */
  int64_t m;
  /* The low parts of x, at and the centres, of double-doubles; either all or none, NULL. */
  const double *x_low, *at_low, *centres_low;
};
/* F at `count` values of y (with y_low, NULL without low parts) for each place, those of a place next to each
 * other, as in `out`. Both tails keep their digits: below 1/2 they are relative to F itself. */
struct fk_conditional_at {
  const double *y, *y_low;
  int64_t count;
};
enum fk_status fk_conditional_cdf(const struct fk_conditional *of, const struct fk_conditional_at *y,
                                  const struct fk_opts *opts, double *out, struct fk_stats *stats,
                                  struct fk_error *err);

/* A probability by its smaller tail, below or (`upper`) above; normal: the quantile of that, z <= 0. */
struct fk_probability {
  double tail, normal;
  bool upper;
};
/* The quantiles of `count` probabilities, in the same layout: to 1e-12 of the least s, or 4 units of a double.
 * With low parts `out` is relative to the centre of a point, whose number goes to nearest[] (NULL without). */
enum fk_status fk_conditional_quantiles(const struct fk_conditional *of, const struct fk_probability *p,
                                        int64_t count, const struct fk_opts *opts, double *out, double *nearest,
                                        struct fk_stats *stats, struct fk_error *err);
