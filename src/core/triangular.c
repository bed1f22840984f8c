/* Factors of bandwidth matrices. They are d x d, in double and on the host, where dense operations on such
 * matrices cannot fail, but for eigenvalues. */
#include "triangular.h"

#include <math.h>
#include <string.h>

#include "dense.h"

bool fk_is_diagonal(const double *chol, int64_t d) {
  for (int64_t k = 0; k < d; k++)
    for (int64_t l = k + 1; l < d; l++)
      if (chol[l + k * d] != 0) return false;
  return true;
}

static void copy(const double *from, int64_t d, double *to) { memcpy(to, from, sizeof *to * (size_t)(d * d)); }

/* B := L^-1 B, or as flags say */
static void solve(unsigned flags, const double *chol, int64_t d, double *B) {
  struct fk_error none = {FK_STATUS_OK, ""};
  struct fk_dense L = fk_dense_of(chol, d, d), X = fk_dense_of(B, d, d);
  fk_dense_host.trsm(0, flags, 1, &L, &X, &none);
}

/* B := factor L B, or as flags say */
static void multiply(unsigned flags, const double *chol, int64_t d, double factor, double *B) {
  struct fk_error none = {FK_STATUS_OK, ""};
  struct fk_dense L = fk_dense_of(chol, d, d), X = fk_dense_of(B, d, d);
  fk_dense_host.trmm(0, flags, factor, &L, &X, &none);
}

void fk_inverse_transposed(const double *chol, int64_t d, double *out) {
  bool diagonal = fk_is_diagonal(chol, d);
  memset(out, 0, sizeof *out * (size_t)(d * d));
  for (int64_t k = 0; k < d; k++) out[k + k * d] = diagonal ? 1 / chol[k + k * d] : 1;
  if (!diagonal) solve(FK_TRANSPOSED, chol, d, out);
}

void fk_variance_times(const double *chol, const double *B, int64_t d, double factor, double *out) {
  copy(B, d, out);
  if (fk_is_diagonal(chol, d)) {
    for (int64_t c = 0; c < d; c++)
      for (int64_t k = 0; k < d; k++) out[k + c * d] *= factor * chol[k + k * d] * chol[k + k * d];
    return;
  }
  multiply(FK_TRANSPOSED, chol, d, 1, out);
  multiply(0, chol, d, factor, out);
}

/* chol = factor * chol_score, to rounding? */
static bool is_multiple(const double *chol, const double *chol_score, int64_t d, double *factor) {
  *factor = chol[0] / chol_score[0];
  for (int64_t i = 0; i < d * d; i++)
    if (fabs(chol[i] - *factor * chol_score[i]) > 1e-14 * fabs(chol[i])) return false;
  return true;
}

enum fk_status fk_common_axes(const double *chol, const double *chol_score, int64_t d, double *dense,
                              double *lambda, double *scratch, struct fk_whitening *whitening,
                              struct fk_error *err) {
  double factor;
  if (is_multiple(chol, chol_score, d, &factor)) {
    for (int64_t k = 0; k < d; k++) lambda[k] = factor * factor;
    return FK_STATUS_OK;
  }
  /* M = L_s^-1 L; M'M = Q diag(lambda) Q'; the axes are Q' L^-1. */
  struct fk_dense M = fk_dense_of(scratch, d, d), Q = fk_dense_of(dense, d, d), values = fk_dense_of(lambda, d, 1);
  copy(chol, d, scratch);
  solve(0, chol_score, d, scratch);
  enum fk_status status = fk_dense_host.syrk(0, FK_UPPER | FK_TRANSPOSED, 1, &M, 0, &Q, err);
  if (!status) status = fk_host_eigen(FK_UPPER, &Q, &values, err);
  if (status) return status;
  for (int64_t a = 0; a < d; a++)
    for (int64_t c = 0; c < d; c++) scratch[a + c * d] = dense[c + a * d];
  solve(FK_RIGHT, chol, d, scratch);
  copy(scratch, d, dense);
  whitening->dense = dense;
  whitening->diagonal = false;
  return FK_STATUS_OK;
}
