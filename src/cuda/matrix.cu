/* The matrix of kernels itself, to a device's memory, by differences or products in double. Twin of cpu/matrix.c.
 */
#include "../core/dense.h"
#include "steps.cuh"

/* Threads of a block make a tile of kernels, each 4 x 4 of them, from so many coordinates at a time; columns of
 * the matrix that are launched together, after which one looks for an interrupt. */
enum { TILE = 64, SIDE = 16, EACH = TILE / SIDE, DEPTH = 16, STRIP = 128 * TILE };

struct matrix {
  const double *rows, *columns; /* whitened, [d][ld], 0 in the padding */
  int64_t ld_rows, ld_columns;
  int d;
  struct fk_kernel_form form;
  bool lower;
  double *K;
  int64_t m, n, ld;
  int64_t first_row, first_column; /* of this launch */
};

static __device__ double kernel_of(const struct fk_kernel_form *form, double t) {
  const double *f = form->factor;
  switch (form->type) {
    case FK_FORM_CAUCHY: return 1 / (1 - t);
    case FK_FORM_IMQ: return 1 / sqrt(1 - t);
    case FK_FORM_TANH: return tanh(f[0] + f[1] * t);
    case FK_FORM_POWER: {
      double base = f[0] + f[1] * t;
      int exponent = (int)f[2];
      double power = exponent & 1 ? base : 1;
      while (exponent >>= 1) {
        base *= base;
        if (exponent & 1) power *= base;
      }
      return power;
    }
    default: {
      if (form->type == FK_FORM_ROOT) t = -sqrt(-t);
      double s = fmax(t, -1e30); /* finite where the kernel is 0 */
      return exp2(t) * (f[0] + s * (f[1] + s * f[2]));
    }
  }
}

template <bool PRODUCT>
static __global__ void __launch_bounds__(SIDE *SIDE) matrix_kernel(const struct matrix a) {
  __shared__ double x[DEPTH][TILE], y[DEPTH][TILE];
  const int64_t row = a.first_row + (int64_t)blockIdx.x * TILE,
                column = a.first_column + (int64_t)blockIdx.y * TILE;
  const int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
  double t[EACH][EACH] = {};
  if (a.lower && row + TILE <= column) return;
  for (int k0 = 0; k0 < a.d; k0 += DEPTH) {
    for (int l = threadIdx.x; l < DEPTH * TILE; l += SIDE * SIDE) {
      const int k = k0 + l / TILE, point = l % TILE;
      y[l / TILE][point] = k < a.d ? a.form.scale * a.rows[k * a.ld_rows + row + point] : 0;
      x[l / TILE][point] = k < a.d ? a.form.scale * a.columns[k * a.ld_columns + column + point] : 0;
    }
    __syncthreads();
    for (int k = 0; k < DEPTH; k++)
#pragma unroll
      for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++) {
          const double of_row = y[k][tx + SIDE * i], of_column = x[k][ty + SIDE * j], z = of_row - of_column;
          t[i][j] = PRODUCT ? fma(of_row, of_column, t[i][j]) : fma(-z, z, t[i][j]);
        }
    __syncthreads();
  }
  double kept[EACH * EACH]; /* one copy of the code of all kernels; t is to stay in registers */
#pragma unroll
  for (int l = 0; l < EACH * EACH; l++) kept[l] = t[l % EACH][l / EACH];
  for (int j = 0; j < EACH; j++)
    for (int i = 0; i < EACH; i++) {
      const int64_t r = row + tx + SIDE * i, c = column + ty + SIDE * j;
      if (r < a.m && c < a.n && !(a.lower && r < c)) a.K[r + c * a.ld] = kernel_of(&a.form, kept[i + EACH * j]);
    }
}

static enum fk_status launch(struct fk_cuda_context *context, struct matrix *a, const struct fk_poll *poll,
                             struct fk_error *err) {
  for (a->first_column = 0; a->first_column < a->n; a->first_column += STRIP) {
    a->first_row = a->lower ? a->first_column : 0;
    const int64_t last = fk_smaller(a->n, a->first_column + STRIP);
    const dim3 grid(fk_blocks(a->m - a->first_row, TILE), fk_blocks(last - a->first_column, TILE));
    if (fk_form_is_product(a->form.type))
      matrix_kernel<true><<<grid, SIDE * SIDE, 0, context->stream>>>(*a);
    else
      matrix_kernel<false><<<grid, SIDE * SIDE, 0, context->stream>>>(*a);
    FK_CUDA_TRY(cudaGetLastError());
    FK_CUDA_TRY(cudaStreamSynchronize(context->stream));
    if (poll->fn && poll->fn(poll->data, (double)last / (double)a->n))
      return fk_fail(err, FK_STATUS_INTERRUPTED, "interrupted");
  }
  return FK_STATUS_OK;
}

static enum fk_status bring(struct fk_cuda_context *context, struct fk_cuda_arena *arena,
                            const struct fk_cuda_whitening *whitening, const struct fk_matrix *x,
                            struct fk_cuda_points *points, struct fk_error *err) {
  double *raw;
  points->n = x->n;
  points->ld = fk_padded(x->n, TILE);
  points->d = (int)x->d;
  FK_TRY(fk_cuda_take(context, arena, points->ld * x->d, &points->u, err));
  FK_TRY(fk_cuda_take(context, arena, x->n * x->d, &raw, err));
  FK_TRY(fk_cuda_upload(context, *x, raw, x->n, err));
  return fk_cuda_whiten(context, whitening, raw, x->n, points, err);
}

static enum fk_status compute(struct fk_cuda_context *context, struct fk_cuda_arena *arena,
                              const struct fk_task *task, const struct fk_poll *poll, const struct fk_dense *K,
                              struct fk_error *err) {
  struct fk_cuda_buffer *buffer = &arena->buffers[arena->count++];
  struct fk_cuda_whitening whitening;
  struct fk_cuda_points columns, rows;
  const bool own = !task->targets.data;
  FK_CUDA_TRY(cudaSetDevice(context->device));
  FK_TRY(fk_cuda_whitening_init(context, buffer, task->whitening, &whitening, err));
  FK_TRY(bring(context, arena, &whitening, &task->sources, &columns, err));
  if (!own) FK_TRY(bring(context, arena, &whitening, &task->targets, &rows, err));
  if (own) rows = columns;
  struct matrix a = {rows.u, columns.u,         rows.ld, columns.ld, columns.d, fk_task_form(task),
                     own,    (double *)K->data, rows.n,  columns.n,  K->ld};
  return launch(context, &a, poll, err);
}

enum fk_status fk_cuda_matrix(const struct fk_task *task, const struct fk_opts *opts, const struct fk_dense *K,
                              struct fk_error *err) {
  struct fk_cuda_context *contexts[FK_MAX_DEVICES];
  struct fk_cuda_arena arena = {};
  int count;
  FK_TRY(fk_cuda_contexts(opts, contexts, &count, err));
  enum fk_status status = compute(contexts[0], &arena, task, &opts->poll, K, err);
  fk_cuda_arena_free(contexts[0], &arena);
  if (status == FK_STATUS_DEVICE) fk_cuda_recover(contexts[0]);
  return status;
}
