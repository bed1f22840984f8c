/* Whitening u = L^-1 (x - centre), so that every engine sees an isotropic unit bandwidth.
 * Centring at the weighted mean first keeps the digits of data far from the origin. */
#include <stdlib.h>

#include "triangular.h"

/* Two passes: the second removes the rounding error of the first. */
static double weighted_mean(const double *x, const double *weights, int64_t n) {
  double mean = 0;
  for (int pass = 0; pass < 2; pass++) {
    double sum = 0, total = 0;
    for (int64_t i = 0; i < n; i++) {
      double w = weights ? weights[i] : 1;
      sum += w * (x[i] - mean);
      total += w;
    }
    mean += sum / total;
  }
  return mean;
}

enum fk_status fk_whitening_init(struct fk_whitening *w, const double *chol, const struct fk_points *x,
                                 const double *weights, struct fk_error *err) {
  w->d = x->d;
  w->chol = chol;
  w->dense = NULL;
  w->diagonal = fk_is_diagonal(chol, x->d);
  w->centre = malloc((size_t)x->d * sizeof *w->centre);
  if (!w->centre) return fk_fail(err, FK_STATUS_ALLOC, "out of memory for a vector of length %.0f", (double)x->d);
  for (int64_t k = 0; k < x->d; k++) w->centre[k] = weighted_mean(x->data + k * x->n, weights, x->n);
  return FK_STATUS_OK;
}

void fk_whitening_free(struct fk_whitening *w) {
  free(w->centre);
  w->centre = NULL;
}

/* u = dense (x - centre) */
static void whiten_dense(const struct fk_whitening *w, const struct fk_points *x, const int64_t *rows,
                         int64_t first, int64_t count, double *out, int64_t ld) {
  for (int64_t k = 0; k < w->d; k++) {
    double *restrict uk = out + k * ld;
    for (int64_t r = 0; r < count; r++) uk[r] = 0;
    for (int64_t l = 0; l < w->d; l++) {
      const double *column = x->data + l * x->n;
      double c = w->dense[k + l * w->d], centre = w->centre[l];
      for (int64_t r = 0; r < count; r++) uk[r] += c * (column[rows ? rows[first + r] : first + r] - centre);
    }
  }
}

void fk_whiten(const struct fk_whitening *w, const struct fk_points *x, const int64_t *rows, int64_t first,
               int64_t count, double *out, int64_t ld) {
  if (w->dense) {
    whiten_dense(w, x, rows, first, count, out, ld);
    return;
  }
  for (int64_t k = 0; k < w->d; k++) {
    const double *column = x->data + k * x->n;
    double *restrict uk = out + k * ld;
    for (int64_t r = 0; r < count; r++) uk[r] = column[rows ? rows[first + r] : first + r] - w->centre[k];
    /* Forward substitution, one dimension for all points of the panel at a time. */
    for (int64_t l = 0; l < k && !w->diagonal; l++) {
      double c = w->chol[k + l * w->d];
      const double *restrict ul = out + l * ld;
      for (int64_t r = 0; r < count; r++) uk[r] -= c * ul[r];
    }
    double c = 1 / w->chol[k + k * w->d];
    for (int64_t r = 0; r < count; r++) uk[r] *= c;
  }
}
