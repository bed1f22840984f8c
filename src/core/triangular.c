/* Small dense algebra on the factors of bandwidth matrices, by the BLAS and LAPACK that come with R. Nothing
 * else of R is used below src/r; arguments are valid, so that their error handler, which would jump, is never
 * called. */
#include "triangular.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifndef USE_FC_LEN_T
#define USE_FC_LEN_T
#endif
#include <R_ext/BLAS.h>
#include <R_ext/Lapack.h>
#ifndef FCONE
#define FCONE
#endif
#define BLAS_DTRSM F77_CALL(dtrsm)
#define BLAS_DTRMM F77_CALL(dtrmm)
#define BLAS_DSYRK F77_CALL(dsyrk)
#define LAPACK_DSYEV F77_CALL(dsyev)

bool fk_is_diagonal(const double *chol, int64_t d) {
  for (int64_t k = 0; k < d; k++)
    for (int64_t l = k + 1; l < d; l++)
      if (chol[l + k * d] != 0) return false;
  return true;
}

static void copy(const double *from, int64_t d, double *to) { memcpy(to, from, sizeof *to * (size_t)(d * d)); }

/* B := L^-1 B or L^-T B, from the left; B L^-1 from the right. */
static void solve(const char *side, const char *transposed, const double *chol, int64_t d, double *B) {
  int order = (int)d;
  double one = 1;
  BLAS_DTRSM(side, "L", transposed, "N", &order, &order, &one, chol, &order, B, &order FCONE FCONE FCONE FCONE);
}

/* B := factor L B or factor L' B */
static void multiply(const char *transposed, const double *chol, int64_t d, double factor, double *B) {
  int order = (int)d;
  BLAS_DTRMM("L", "L", transposed, "N", &order, &order, &factor, chol, &order, B, &order FCONE FCONE FCONE FCONE);
}

void fk_inverse_transposed(const double *chol, int64_t d, double *out) {
  bool diagonal = fk_is_diagonal(chol, d);
  memset(out, 0, sizeof *out * (size_t)(d * d));
  for (int64_t k = 0; k < d; k++) out[k + k * d] = diagonal ? 1 / chol[k + k * d] : 1;
  if (!diagonal) solve("L", "T", chol, d, out);
}

void fk_variance_times(const double *chol, const double *B, int64_t d, double factor, double *out) {
  copy(B, d, out);
  if (fk_is_diagonal(chol, d)) {
    for (int64_t c = 0; c < d; c++)
      for (int64_t k = 0; k < d; k++) out[k + c * d] *= factor * chol[k + k * d] * chol[k + k * d];
    return;
  }
  multiply("T", chol, d, 1, out);
  multiply("N", chol, d, factor, out);
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
  int order = (int)d, lwork = 4 * order, info = 0;
  double one = 1, zero = 0, *work = malloc(sizeof(double) * (size_t)lwork);
  if (!work) return fk_fail(err, FK_STATUS_ALLOC, "out of memory");
  copy(chol, d, scratch);
  solve("L", "N", chol_score, d, scratch);
  BLAS_DSYRK("U", "T", &order, &order, &one, scratch, &order, &zero, dense, &order FCONE FCONE);
  LAPACK_DSYEV("V", "U", &order, dense, &order, lambda, work, &lwork, &info FCONE FCONE);
  free(work);
  if (info) return fk_fail(err, FK_STATUS_INTERNAL, "eigenvalues of the bandwidths did not converge");
  for (int64_t a = 0; a < d; a++)
    for (int64_t c = 0; c < d; c++) scratch[a + c * d] = dense[c + a * d];
  solve("R", "N", chol, d, scratch);
  copy(scratch, d, dense);
  whitening->dense = dense;
  whitening->diagonal = false;
  return FK_STATUS_OK;
}
