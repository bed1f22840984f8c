/* Factors of bandwidth matrices, d x d, column-major. */
#pragma once

#include "../fk.h"

bool fk_is_diagonal(const double *chol, int64_t d);
void fk_inverse_transposed(const double *chol, int64_t d, double *out); /* L^-T */
/* out = factor * L L' B */
void fk_variance_times(const double *chol, const double *B, int64_t d, double factor, double *out);
/* Axes in which both H = L L' is 1 and H H_s^-1 is diag(lambda): sets whitening->dense, or leaves L^-1 where
 * the two are multiples of each other. scratch: d x d. */
enum fk_status fk_common_axes(const double *chol, const double *chol_score, int64_t d, double *dense,
                              double *lambda, double *scratch, struct fk_whitening *whitening,
                              struct fk_error *err);
