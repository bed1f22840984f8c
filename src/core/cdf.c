/* Distribution function of a one-dimensional estimate. */
#include <math.h>

#include "count.h"
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
static double cdf_at(const double *x, const double *cumulative_weights, int64_t n, double h, double y,
                     bool laplace) {
  const double sqrt_half = 0.707106781186547524401, phi0 = 0.398942280401432677940;
  int64_t first = lower_bound(x, n, y - 9 * h), last = lower_bound(x, n, y + 39 * h);
  double sum = first > 0 ? cumulative_weights[first - 1] : 0;
  for (int64_t i = first; i < last; i++) {
    double w = cumulative_weights[i] - (i > 0 ? cumulative_weights[i - 1] : 0), z = (y - x[i]) / h;
    double p = 0.5 * erfc(-z * sqrt_half);
    if (laplace) p += 0.5 * z * phi0 * exp(-0.5 * z * z);
    sum += w * p;
  }
  return sum;
}

struct values {
  const double *x, *cumulative_weights, *y;
  int64_t n, from; /* y from `from` on */
  double h;
  bool laplace;
  double *out;
};

static void fill(void *data, int64_t first, int64_t end, int slot) {
  const struct values *v = data;
  (void)slot;
  for (int64_t j = v->from + first; j < v->from + end; j++)
    v->out[j] = cdf_at(v->x, v->cumulative_weights, v->n, v->h, v->y[j], v->laplace);
}

enum fk_status fk_cdf(const double *x, const double *cumulative_weights, int64_t n, double h, const double *y,
                      int64_t m, bool laplace, const struct fk_opts *opts, double *out, struct fk_error *err) {
  int threads = fk_threads_for_work(opts->threads, 30.0 * (double)n * (double)m);
  enum fk_status status = FK_STATUS_OK;
  struct values values = {x, cumulative_weights, y, n, 0, h, laplace, out};
  struct fk_chunks progress;
  fk_chunks_start(&progress, &opts->poll, threads, (double)m, 10 * (double)n);
  for (int64_t from = 0, to; from < m && !status; from = to) {
    to = fk_smaller(m, from + progress.size);
    values.from = from;
    fk_parallel_for(threads, to - from, fk_step_for_work(30.0 * (double)n), fill, &values);
    status = fk_chunks_done(&progress, to - from, err);
  }
  return status;
}
