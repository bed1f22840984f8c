#include "triangular.h"

#include <math.h>
#include <stdlib.h>

/* LAPACK comes with R; nothing else of R is used here. Arguments are valid, so that its error handler,
 * which would jump, is never called. */
#ifndef USE_FC_LEN_T
#define USE_FC_LEN_T
#endif
#include <R_ext/Lapack.h>
#ifndef FCONE
#define FCONE
#endif

bool fk_is_diagonal(const double *chol, int64_t d) {
  for (int64_t k = 0; k < d; k++)
    for (int64_t l = k + 1; l < d; l++)
      if (chol[l + k * d] != 0) return false;
  return true;
}

/* Column k of L^-1 by forward substitution, stored as row k of the transpose. */
void fk_inverse_transposed(const double *chol, int64_t d, double *out) {
  if (fk_is_diagonal(chol, d)) {
    for (int64_t i = 0; i < d * d; i++) out[i] = 0;
    for (int64_t k = 0; k < d; k++) out[k + k * d] = 1 / chol[k + k * d];
    return;
  }
  for (int64_t k = 0; k < d; k++) {
    for (int64_t l = 0; l < d; l++) {
      double sum = l == k ? 1 : 0;
      for (int64_t i = k; i < l; i++) sum -= chol[l + i * d] * out[k + i * d];
      out[k + l * d] = l < k ? 0 : sum / chol[l + l * d];
    }
  }
}

void fk_variance_times(const double *chol, const double *B, int64_t d, double factor, double *out) {
  for (int64_t c = 0; c < d; c++) {
    /* L' b, then L: the second overwrites from the end, where it needs nothing more. */
    for (int64_t k = 0; k < d; k++) {
      double sum = 0;
      for (int64_t l = k; l < d; l++) sum += chol[l + k * d] * B[l + c * d];
      out[k + c * d] = sum;
    }
    for (int64_t k = d - 1; k >= 0; k--) {
      double sum = 0;
      for (int64_t l = 0; l <= k; l++) sum += chol[k + l * d] * out[l + c * d];
      out[k + c * d] = factor * sum;
    }
  }
}

/* chol = factor * chol_score, to rounding? */
static bool is_multiple(const double *chol, const double *chol_score, int64_t d, double *factor) {
  *factor = chol[0] / chol_score[0];
  for (int64_t i = 0; i < d * d; i++)
    if (fabs(chol[i] - *factor * chol_score[i]) > 1e-14 * fabs(chol[i])) return false;
  return true;
}

enum fk_status fk_common_axes(const double *chol, const double *chol_score, int64_t d, double *dense,
                              double *lambda, double *spare, struct fk_whitening *whitening,
                              struct fk_error *err) {
  double factor;
  if (is_multiple(chol, chol_score, d, &factor)) {
    for (int64_t k = 0; k < d; k++) lambda[k] = factor * factor;
    return FK_STATUS_OK;
  }
  /* M = L_s^-1 L, column by column; M'M = Q diag(lambda) Q'. */
  for (int64_t c = 0; c < d; c++) {
    for (int64_t k = 0; k < d; k++) {
      double sum = chol[k + c * d];
      for (int64_t l = 0; l < k; l++) sum -= chol_score[k + l * d] * spare[l + c * d];
      spare[k + c * d] = sum / chol_score[k + k * d];
    }
  }
  for (int64_t a = 0; a < d; a++)
    for (int64_t b = 0; b < d; b++) {
      double sum = 0;
      for (int64_t k = 0; k < d; k++) sum += spare[k + a * d] * spare[k + b * d];
      dense[a + b * d] = sum;
    }
  int order = (int)d, lwork = 4 * order, info = 0;
  double *work = malloc(sizeof(double) * (size_t)lwork);
  if (!work) return fk_fail(err, FK_STATUS_ALLOC, "out of memory");
  F77_CALL(dsyev)("V", "U", &order, dense, &order, lambda, work, &lwork, &info FCONE FCONE);
  free(work);
  if (info) return fk_fail(err, FK_STATUS_INTERNAL, "eigenvalues of the bandwidths did not converge");

  /* dense = Q' L^-1; Q is in dense now, so through spare = L^-T. */
  fk_inverse_transposed(chol, d, spare);
  double *row = malloc(sizeof(double) * (size_t)(d * d));
  if (!row) return fk_fail(err, FK_STATUS_ALLOC, "out of memory");
  for (int64_t a = 0; a < d; a++)
    for (int64_t c = 0; c < d; c++) {
      double sum = 0;
      for (int64_t k = 0; k < d; k++) sum += dense[k + a * d] * spare[c + k * d];
      row[a + c * d] = sum;
    }
  for (int64_t i = 0; i < d * d; i++) dense[i] = row[i];
  free(row);
  whitening->dense = dense;
  return FK_STATUS_OK;
}
