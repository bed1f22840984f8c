#include "stored.h"

#include <stdlib.h>
#include <string.h>

#include "count.h"
#include "dense_kernels.h"
#include "pool.h"
#include "threads.h"

struct fk_stored {
  const struct fk_dense_ops *ops;
  int device;
  struct fk_dense K;             /* m x n */
  struct fk_dense v, u, product; /* m x t, n x t, m x t; of as many columns as the last call had */
  struct fk_dense sums;          /* n x t on the host, in memory with fast copies */
};

void fk_normal_weigh(const struct fk_host_normal *of, int64_t first, int64_t count, double *u, int64_t row,
                     int64_t column) {
  double mean[FK_WEIGHED] = {0};
  for (int64_t c = 0; c < of->columns; c++)
    for (int64_t r = 0; r < count; r++) {
      double *value = u + c * column + r * row;
      const int64_t at = c * of->ld + first + r;
      if (of->sums) of->sums[at] = *value;
      if (of->w) *value += of->w[at];
      if (of->weights) *value *= of->weights[first + r];
      if (of->chances) mean[r] += of->chances[at] * *value;
    }
  for (int64_t c = 0; of->chances && c < of->columns; c++)
    for (int64_t r = 0; r < count; r++) {
      double *value = u + c * column + r * row;
      *value = of->chances[c * of->ld + first + r] * (*value - mean[r]);
    }
}

enum fk_status fk_stored_create(const struct fk_opts *opts, int64_t m, int64_t n, struct fk_stored **out,
                                struct fk_error *err) {
  struct fk_opts own = *opts;
  struct fk_dense_place place;
  own.backend = FK_BACKEND_CUDA;
  enum fk_status status = fk_dense_place_choose(&own, m, &place, err);
  struct fk_stored *S = status ? NULL : calloc(1, sizeof *S);
  if (!S) return status ? status : fk_fail(err, FK_STATUS_ALLOC, "out of memory");
  S->ops = place.ops;
  S->device = place.devices[0];
  S->K = fk_dense_of(NULL, m, n);
  status = S->ops->alloc(S->device, &S->K, err);
  if (status) {
    fk_stored_free(S);
    return status;
  }
  *out = S;
  return FK_STATUS_OK;
}

static void free_columns(struct fk_stored *S) {
  S->ops->free(S->device, &S->v);
  S->ops->free(S->device, &S->u);
  S->ops->free(S->device, &S->product);
  if (S->sums.data) S->ops->free_here(&S->sums);
  S->sums = (struct fk_dense){0};
}

void fk_stored_free(struct fk_stored *S) {
  if (!S) return;
  free_columns(S);
  S->ops->free(S->device, &S->K);
  free(S);
}

const struct fk_dense *fk_stored_matrix(const struct fk_stored *S) { return &S->K; }

enum fk_status fk_stored_send(const struct fk_stored *S, int64_t first, const struct fk_dense *part,
                              struct fk_error *err) {
  const struct fk_dense to = fk_dense_part(&S->K, 0, first, S->K.n, part->d);
  enum fk_status status = S->ops->ready(S->device, &S->K, fk_larger(S->K.n, S->K.d), err);
  return status ? status : S->ops->send(S->device, part, &to, err);
}

static enum fk_status room_for(struct fk_stored *S, int64_t t, struct fk_error *err) {
  if (S->sums.data && S->sums.d == t) return FK_STATUS_OK;
  free_columns(S);
  S->v = S->product = fk_dense_of(NULL, S->K.n, t);
  S->u = S->sums = fk_dense_of(NULL, S->K.d, t);
  enum fk_status status = S->ops->alloc(S->device, &S->v, err);
  if (!status) status = S->ops->alloc(S->device, &S->u, err);
  if (!status) status = S->ops->alloc(S->device, &S->product, err);
  if (!status) status = S->ops->alloc_here(&S->sums, err);
  return status;
}

struct weighing {
  const struct fk_host_normal *of;
  double *u;
  int64_t n;
};
static void weigh_rows(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct weighing *w = data;
  for (int64_t row = first; row < end; row += FK_WEIGHED)
    fk_normal_weigh(w->of, row, fk_smaller(FK_WEIGHED, end - row), w->u + row, 1, w->n);
}

enum fk_status fk_stored_normal(struct fk_stored *S, int threads, const struct fk_host_normal *of,
                                struct fk_error *err) {
  const struct fk_dense_ops *ops = S->ops;
  const int64_t m = S->K.n, n = S->K.d;
  enum { STEP = 64 * FK_WEIGHED }; /* rows */
  enum fk_status status = ops->ready(S->device, &S->K, fk_larger(m, n), err);
  if (!status) status = room_for(S, of->columns, err);
  if (!status && of->v) {
    const struct fk_dense v = fk_dense_of(of->v, m, of->columns);
    status = ops->send(S->device, &v, &S->v, err);
    if (!status) status = ops->gemm(S->device, FK_TRANSPOSED, 1, &S->K, &S->v, 0, &S->u, err);
    if (!status) status = ops->fetch(S->device, &S->u, &S->sums, err);
  }
  if (status) return status;
  if (!of->v) memset(S->sums.data, 0, sizeof(double) * (size_t)(n * of->columns));
  struct weighing w = {of, S->sums.data, n};
  threads = fk_threads_for_bytes(threads, 8.0 * (double)n * (double)of->columns);
  fk_parallel_for(threads, n, STEP, weigh_rows, &w);
  if (!of->product) return FK_STATUS_OK;
  const struct fk_dense product = fk_dense_of(of->product, m, of->columns);
  status = ops->send(S->device, &S->sums, &S->u, err);
  if (!status) status = ops->gemm(S->device, 0, 1, &S->K, &S->u, 0, &S->product, err);
  if (!status) status = ops->fetch(S->device, &S->product, &product, err);
  return status;
}
