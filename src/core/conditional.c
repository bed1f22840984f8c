#include "conditional.h"

#include <math.h>

#include "pool.h"
#include "threads.h"

/* Multiply-adds that a pair is as long as. */
#define PAIR_WORK 15.0

/* Points whose weight is below e^-70 of the largest are not worth their Phi: in a probability of 1e-15, a relative
 * change of 1e-15 n. */
#define LEAST_EXPONENT -70.0

struct rows {
  const struct fk_conditional *of;
  const double *x, *y;
  int64_t m;
  struct fk_scratch exponents;
  double *out;
};

/* log a of each point at row j; the largest. */
static double exponents_at(const struct rows *r, int64_t j, double *t) {
  const struct fk_conditional *of = r->of;
  for (int64_t i = 0; i < of->n; i++) t[i] = 0;
  for (int64_t k = 0; k < of->d; k++) {
    const double *column = of->x + k * of->n;
    double at = r->x[k * r->m + j];
    for (int64_t i = 0; i < of->n; i++) t[i] += (column[i] - at) * (column[i] - at);
  }
  if (of->widths)
    for (int64_t i = 0; i < of->n; i++) t[i] /= of->widths[i] * of->widths[i];
  double top = -INFINITY;
  for (int64_t i = 0; i < of->n; i++) {
    t[i] = of->log_weights[i] - 0.5 * t[i];
    top = t[i] > top ? t[i] : top;
  }
  return top;
}

/* Beyond these, 1 and 0 to the last bit of a sum that has such terms. */
static double phi(double z) {
  const double sqrt_half = 0.707106781186547524401;
  return z > 9 ? 1 : z < -39 ? 0 : 0.5 * erfc(-z * sqrt_half);
}

static double cdf_at(const struct rows *r, int64_t j, double *t) {
  const struct fk_conditional *of = r->of;
  double top = exponents_at(r, j, t), least = top + LEAST_EXPONENT, total = 0, below = 0;
  for (int64_t i = 0; i < of->n; i++) {
    if (!(t[i] >= least)) continue;
    double weight = exp(t[i] - top), z = r->y[j] - of->centres[i];
    total += weight;
    below += weight * phi(of->widths ? z / of->widths[i] : z);
  }
  return below / total;
}

static void fill(void *data, int64_t first, int64_t end, int slot) {
  const struct rows *r = data;
  for (int64_t j = first; j < end; j++) r->out[j] = cdf_at(r, j, fk_scratch_at(&r->exponents, slot));
}

enum fk_status fk_conditional_cdf(const struct fk_conditional *of, const double *x, const double *y, int64_t m,
                                  const struct fk_opts *opts, double *out, struct fk_error *err) {
  double work = PAIR_WORK * (double)of->n;
  int threads = fk_threads_for_work(opts->threads, work * (double)m);
  struct rows rows = {.of = of, .x = x, .y = y, .m = m, .out = out};
  if (!fk_scratch_init(&rows.exponents, threads, sizeof(double) * (size_t)of->n))
    return fk_fail(err, FK_STATUS_ALLOC, "no memory for the weights of %.0f points", (double)of->n);
  struct fk_loop loop = {threads, m, fk_step_for_work(work), (double)of->n * (double)(of->d + 4)};
  enum fk_status status = fk_loop_run(&loop, &opts->poll, fill, &rows, err);
  fk_scratch_free(&rows.exponents);
  return status;
}
