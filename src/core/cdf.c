/* Distribution function of a one-dimensional estimate. */
#include <math.h>

#include "../fk.h"

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

enum fk_status fk_cdf(const double *x, const double *cumulative_weights, int64_t n, double h, const double *y,
                      int64_t m, bool laplace, const struct fk_opts *opts, double *out, struct fk_error *err) {
  const double sqrt_half = 0.707106781186547524401, phi0 = 0.398942280401432677940;
  int threads = fk_threads(opts->threads);
  for (int64_t from = 0; from < m; from += 64) {
    int64_t to = from + 64 < m ? from + 64 : m;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t j = from; j < to; j++) {
      /* Points 9 h below count whole (1 - Phi(9) < 2e-19), points 39 h above not at all (underflow). */
      int64_t first = lower_bound(x, n, y[j] - 9 * h), last = lower_bound(x, n, y[j] + 39 * h);
      double sum = first > 0 ? cumulative_weights[first - 1] : 0;
      for (int64_t i = first; i < last; i++) {
        double w = cumulative_weights[i] - (i > 0 ? cumulative_weights[i - 1] : 0), z = (y[j] - x[i]) / h;
        double p = 0.5 * erfc(-z * sqrt_half);
        if (laplace) p += 0.5 * z * phi0 * exp(-0.5 * z * z);
        sum += w * p;
      }
      out[j] = sum;
    }
    if (opts->poll.fn && opts->poll.fn(opts->poll.data, (double)to / (double)m))
      return fk_fail(err, FK_STATUS_INTERRUPTED, "interrupted");
  }
  return FK_STATUS_OK;
}
