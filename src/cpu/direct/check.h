/* Measures the error of sums on a sample of targets, by exact sums in double over all sources. Sources come in any
 * number of calls; results have the same bits for any number of threads. */
#pragma once

#include "../../core/bytes.h"
#include "../../fk.h"

enum { FK_CHECK_ROWS = 64 };

struct fk_check {
  int rows, d;
  int64_t columns;
  bool apart;              /* sum |b| k separately, because a b is negative or there is a polynomial f */
  double *targets;         /* in the layout of a tile */
  double *sums, *absolute; /* sums of b f k and of |b| k, [column][FK_CHECK_ROWS] */
};

/* Starts a check at the targets `rows`, at most FK_CHECK_ROWS. To be freed by fk_check_free(). */
enum fk_status fk_check_init(struct fk_check *check, const struct fk_whitening *w, const struct fk_matrix *rows,
                             int64_t columns, int threads, struct fk_error *err);
void fk_check_free(struct fk_check *check);
/* clone: a check of the same targets, without sources. put: serializes the sums. take: adds serialized sums; fails
 * with FK_STATUS_INVALID if they are truncated. */
enum fk_status fk_check_clone(const struct fk_check *of, struct fk_check *check, struct fk_error *err);
void fk_check_put(const struct fk_check *check, struct fk_bytes *to);
enum fk_status fk_check_take(struct fk_check *check, struct fk_bytes *from, struct fk_error *err);
/* Adds sources with coefficients b, n x columns; NULL: one column of ones. */
enum fk_status fk_check_add(struct fk_check *check, const struct fk_whitening *w, const double factor[3],
                            const struct fk_matrix *points, const double *b, int threads, struct fk_error *err);
/* The sums of |b| k of a column, one for each row. */
const double *fk_check_absolute(const struct fk_check *check, int64_t column);
/* The largest error of a column's sums got[row]; rows with NAN are skipped. It is relative to each row's own sum
 * of |b| k (pointwise), or to the largest of these sums and of `largest`. size: the largest |b|. */
double fk_check_error(const struct fk_check *check, int64_t column, const double *got, bool pointwise,
                      double largest, double size);
