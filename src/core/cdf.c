/* Distribution function of a one-dimensional estimate. */
#include <math.h>

#include "gauss.h"
#include "pool.h"
#include "threads.h"

/* First i with x[i] >= value. */
static int64_t lower_bound(const double *x, int64_t n, double value) {
  int64_t low = 0, high = n;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (x[middle] < value)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Points 9 h below count whole (1 - Phi(9) < 2e-19), points 39 h above not at all (underflow). */
static double cdf_at(const struct fk_cdf_spec *spec, double y) {
  const double *x = spec->x, *cumulative_weights = spec->cumulative_weights;
  const int64_t n = spec->n;
  const double h = spec->h, *corrected = spec->corrected;
  const bool is_corrected = corrected[0] != 0 || corrected[1] != 0;
  int64_t first = lower_bound(x, n, y - 9 * h), last = lower_bound(x, n, y + 39 * h);
  double sum = first > 0 ? cumulative_weights[first - 1] : 0;
  for (int64_t i = first; i < last; i++) {
    double w = cumulative_weights[i] - (i > 0 ? cumulative_weights[i - 1] : 0), z = (y - x[i]) / h;
    double p = fk_normal_below(z);
    if (is_corrected) p += z * (corrected[0] + corrected[1] * z * z) * fk_normal_density(z);
    sum += w * p;
  }
  return sum;
}

struct values {
  const struct fk_cdf_spec *spec;
  const double *y;
  double *out;
};

static void fill(void *data, int64_t first, int64_t end, int slot) {
  const struct values *v = data;
  (void)slot;
  for (int64_t j = first; j < end; j++) v->out[j] = cdf_at(v->spec, v->y[j]);
}

enum fk_status fk_cdf(const struct fk_cdf_spec *spec, const double *y, int64_t m, const struct fk_opts *opts,
                      double *out, struct fk_error *err) {
  int64_t n = spec->n;
  int threads = fk_threads_for_work(opts->threads, 30.0 * (double)n * (double)m);
  struct values values = {spec, y, out};
  struct fk_loop loop = {threads, m, fk_step_for_work(30.0 * (double)n), 10 * (double)n};
  return fk_loop_run(&loop, &opts->poll, fill, &values, err);
}
