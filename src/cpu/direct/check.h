/* What error sums have on a sample of targets: every source, in double. Sources come in any number of calls, and
 * the bits do not depend on the threads. */
#pragma once

#include "../../core/bytes.h"
#include "../../fk.h"

enum { FK_CHECK_ROWS = 64 };

struct fk_check {
  int rows, d;
  int64_t columns;
  bool apart;              /* one of b was negative, or there is a factor: |b| k is summed apart */
  double *targets;         /* as a tile has them */
  double *sums, *absolute; /* of b f k and of |b| k: [column][FK_CHECK_ROWS] */
};

/* rows: at most FK_CHECK_ROWS. */
enum fk_status fk_check_init(struct fk_check *check, const struct fk_whitening *w, const struct fk_matrix *rows,
                             int64_t columns, int threads, struct fk_error *err);
void fk_check_free(struct fk_check *check);
/* Another of the same targets, without sources; and what these have left, written, and taken. */
enum fk_status fk_check_clone(const struct fk_check *of, struct fk_check *check, struct fk_error *err);
void fk_check_put(const struct fk_check *check, struct fk_bytes *to);
enum fk_status fk_check_take(struct fk_check *check, struct fk_bytes *from, struct fk_error *err);
/* Sources with b, n x columns; NULL: one column of ones. */
enum fk_status fk_check_add(struct fk_check *check, const struct fk_whitening *w, const double factor[3],
                            const struct fk_matrix *points, const double *b, int threads, struct fk_error *err);
/* Of |b| k, of each row. */
const double *fk_check_absolute(const struct fk_check *check, int64_t column);
/* The largest error of a column's sums got[row], but where they are NAN. Relative to each row's own sum of |b|, or
 * to the largest of these and of `largest`. size: the largest |b|. */
double fk_check_error(const struct fk_check *check, int64_t column, const double *got, bool pointwise,
                      double largest, double size);
