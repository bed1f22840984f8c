/* Kernels in one dimension whose Gaussian processes are Markov processes: exp(-a) times a polynomial in a = rate
 * |x - y|, the Matern kernels. Of a process f with such a kernel and the derivative D in a, the state is the
 * vector of (1 + D)^i f. A step of length a moves it by exp(-a) a^(j - i) / (j - i)! from coordinate j to i <= j:
 * there are no negative entries, and nothing cancels. The covariances of f and a later state move alike. */
#pragma once

#include <math.h>

#include "../../fk.h"

enum { FK_MARKOV_ORDER = 3 };
struct fk_markov {
  int order; /* coordinates of a state */
  double rate;
  double start[FK_MARKOV_ORDER]; /* the covariances of f and the state at the same place */
};

static inline bool fk_markov_of(const struct fk_kernel *kernel, struct fk_markov *markov) {
  const struct fk_kernel_info *info = fk_kernel_info(kernel->id);
  const double *f = info->factor;
  if (info->form != FK_FORM_ROOT && info->form != FK_FORM_ABSOLUTE) return false;
  *markov = (struct fk_markov){1 + (f[1] > 0) + (f[2] > 0), info->rate, {1, f[1], 2 * f[2]}};
  return true;
}

struct fk_markov_step {
  double length, kept, change; /* exp(-length), and that minus 1 */
};
static inline struct fk_markov_step fk_markov_step_of(double length) {
  return (struct fk_markov_step){length, exp(-length), expm1(-length)};
}
/* Moves a state. Short steps are added as changes: otherwise the rounding error of exp(-length) would add up over
 * a million equal steps. */
static inline void fk_markov_move(const struct fk_markov_step *step, int order, double *state) {
  for (int i = 0; i < order; i++) {
    double others = 0;
    for (int j = order - 1; j > i; j--) others = (others + state[j]) * step->length / (j - i);
    if (step->length < 0.5)
      state[i] += step->change * state[i] + step->kept * others;
    else
      state[i] = step->kept * (state[i] + others);
  }
}

/* The sums of a task with such a kernel. *may: false if they are left to pairs: points are too far apart for the
 * digits of their places, or rows that underflow need a log scale. */
enum fk_status fk_markov_sums(const struct fk_task *task, const struct fk_opts *opts, bool *may,
                              struct fk_error *err);
