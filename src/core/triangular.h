/* Cholesky factors L of bandwidth matrices H = L L', d x d, column-major. */
#pragma once

#include "../fk.h"

/* fk_is_diagonal: are all numbers below the diagonal 0? fk_inverse_transposed: writes L^-T, d x d, to `out`. */
bool fk_is_diagonal(const double *chol, int64_t d);
void fk_inverse_transposed(const double *chol, int64_t d, double *out);
/* Writes factor * L L' B, d x d, to `out`. */
void fk_variance_times(const double *chol, const double *B, int64_t d, double factor, double *out);
/* Finds axes in which H = L L' is the identity and H H_s^-1 is diag(lambda), where chol_score is the factor of
 * H_s. Writes d numbers lambda. Unless L is a multiple of the factor of H_s, writes the d x d map to `dense`,
 * which whitening->dense then refers to. scratch: d x d. Fails if eigenvalues do not converge or memory runs
 * out. */
enum fk_status fk_common_axes(const double *chol, const double *chol_score, int64_t d, double *dense,
                              double *lambda, double *scratch, struct fk_whitening *whitening,
                              struct fk_error *err);
