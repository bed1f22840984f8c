/* The kernel matrix itself, in device memory, by differences of coordinates or their products, in FP64. Twin of
 * cpu/matrix.c. */
#include <math.h>

#include "../../core/costs.h"
#include "../../core/dense.h"
#include "../points/points.cuh"
#include "exact.cuh"

/* A block computes a tile of kernels, each thread 4 x 4 of them, from DEPTH coordinates at a time. STRIP columns
 * of the matrix are launched together, after which interrupts are checked. */
enum { TILE = 64, SIDE = 16, EACH = TILE / SIDE, DEPTH = 16, STRIP = 128 * TILE };

struct matrix_task {
  struct fk_cuda_points rows, columns; /* whitened, 0 in the padding */
  struct fk_kernel_form form;
  struct fk_matrix_term term;
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
      if (form->type == FK_FORM_STRETCHED) t = -FK_LOG2E * pow(-t, form->power);
      double s = fmax(t, -1e30); /* finite even where the kernel is 0 */
      return exp2(t) * (f[0] + s * (f[1] + s * f[2]));
    }
  }
}

/* DEPTH coordinates of TILE points, scaled, and DOUBLED their low parts. */
template <bool DOUBLED>
struct matrix_slice {
  double high[DEPTH][TILE], low[DOUBLED ? DEPTH : 1][TILE];
};

template <bool DOUBLED>
static __device__ __forceinline__ void load_slice(const struct fk_cuda_points &from, int64_t first, int k0,
                                                  double scale, struct matrix_slice<DOUBLED> &to) {
  for (int l = threadIdx.x; l < DEPTH * TILE; l += SIDE * SIDE) {
    const int k = k0 + l / TILE, point = l % TILE;
    const double u = k < from.d ? from.u[k * from.ld + first + point] : 0, high = __dmul_rn(u, scale);
    to.high[l / TILE][point] = high;
    if (!DOUBLED) continue;
    const double low = k < from.d ? from.low[k * from.ld + first + point] : 0;
    const double lacks = __fma_rn(low, scale, __fma_rn(u, scale, -high));
    to.low[l / TILE][point] = isfinite(lacks) ? lacks : 0;
  }
}

template <enum fk_metric METRIC, bool DOUBLED>
static __global__ void __launch_bounds__(SIDE *SIDE) matrix_kernel(const struct matrix_task a) {
  __shared__ struct matrix_slice<DOUBLED> x, y;
  const int64_t row = a.first_row + (int64_t)blockIdx.x * TILE,
                column = a.first_column + (int64_t)blockIdx.y * TILE;
  const int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
  double t[EACH][EACH] = {};
  if (a.lower && row + TILE <= column) return;
  for (int k0 = 0; k0 < a.rows.d; k0 += DEPTH) {
    load_slice<DOUBLED>(a.rows, row, k0, a.form.scale, y);
    load_slice<DOUBLED>(a.columns, column, k0, a.form.scale, x);
    __syncthreads();
    for (int k = 0; k < DEPTH; k++)
#pragma unroll
      for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++) {
          const double of_row = y.high[k][tx + SIDE * i], of_column = x.high[k][ty + SIDE * j];
          double z = of_row - of_column;
          if (DOUBLED) z += y.low[k][tx + SIDE * i] - x.low[k][ty + SIDE * j];
          t[i][j] = METRIC == FK_METRIC_PRODUCTS   ? fma(of_row, of_column, t[i][j])
                    : METRIC == FK_METRIC_ABSOLUTE ? t[i][j] - fabs(z)
                                                   : fma(-z, z, t[i][j]);
        }
    __syncthreads();
  }
  double kept[EACH * EACH]; /* one copy of the code for all kernels; t is to stay in registers */
#pragma unroll
  for (int l = 0; l < EACH * EACH; l++) kept[l] = t[l % EACH][l / EACH];
  for (int j = 0; j < EACH; j++)
    for (int i = 0; i < EACH; i++) {
      const int64_t r = row + tx + SIDE * i, c = column + ty + SIDE * j;
      if (r >= a.m || c >= a.n || (a.lower && r < c)) continue;
      double *to = a.K + r + c * a.ld;
      *to = a.term.scale * kernel_of(&a.form, kept[i + EACH * j]) + (a.term.adds ? *to : 0);
    }
}

typedef void (*matrix_function)(struct matrix_task);

static matrix_function function_for(enum fk_metric metric, bool doubled) {
  switch (metric) {
    case FK_METRIC_PRODUCTS: return matrix_kernel<FK_METRIC_PRODUCTS, false>;
    case FK_METRIC_ABSOLUTE:
      return doubled ? matrix_kernel<FK_METRIC_ABSOLUTE, true> : matrix_kernel<FK_METRIC_ABSOLUTE, false>;
    case FK_METRIC_SQUARES: break;
  }
  return doubled ? matrix_kernel<FK_METRIC_SQUARES, true> : matrix_kernel<FK_METRIC_SQUARES, false>;
}

static enum fk_status launch_strips(struct fk_cuda_context *context, struct matrix_task *a,
                                    const struct fk_poll *poll, struct fk_error *err) {
  const matrix_function kernel = function_for(fk_form_metric(a->form.type), a->columns.low);
  for (a->first_column = 0; a->first_column < a->n; a->first_column += STRIP) {
    a->first_row = a->lower ? a->first_column : 0;
    const int64_t last = fk_smaller(a->n, a->first_column + STRIP);
    const dim3 grid(fk_blocks(a->m - a->first_row, TILE), fk_blocks(last - a->first_column, TILE));
    kernel<<<grid, SIDE * SIDE, 0, context->stream>>>(*a);
    FK_CUDA_TRY(cudaGetLastError());
    FK_CUDA_TRY(cudaStreamSynchronize(context->stream));
    if (poll->fn && poll->fn(poll->data, (double)last / (double)a->n))
      return fk_fail(err, FK_STATUS_INTERRUPTED, "interrupted");
  }
  return FK_STATUS_OK;
}

static enum fk_status bring_low(struct fk_cuda_context *context, struct fk_cuda_arena *arena,
                                const struct fk_cuda_whitening *whitening, const double *raw,
                                struct fk_cuda_points *points, struct fk_error *err) {
  FK_TRY(fk_cuda_take(context, arena, points->ld * points->d, &points->low, err));
  return fk_cuda_whiten_low(context, whitening, raw, points->n, points, err);
}

static enum fk_status are_wide(struct fk_cuda_context *context, const struct fk_kernel_form *form,
                               const struct fk_cuda_points *columns, bool *wide, struct fk_error *err) {
  FK_TRY(fk_cuda_find_radius2(context, columns, err));
  FK_CUDA_TRY(cudaStreamSynchronize(context->stream));
  const double radius2 = fk_form_radius2(form, fk_cuda_radius2(context, columns), columns->d);
  *wide = radius2 > fk_costs.limits.difference_f64;
  return FK_STATUS_OK;
}

static enum fk_status make_matrix(struct fk_cuda_context *context, const struct fk_task *task,
                                  const struct fk_matrix_term *term, const struct fk_poll *poll,
                                  const struct fk_dense *K, struct fk_error *err) {
  struct fk_cuda_arena arena = {};
  struct fk_cuda_buffer *buffer;
  struct fk_cuda_whitening whitening;
  struct fk_cuda_points columns = {}, rows = {};
  double *raw_columns, *raw_rows;
  const struct fk_kernel_form form = fk_task_form(task);
  const bool own = !task->targets.data;
  bool wide = false;
  FK_CUDA_TRY(cudaSetDevice(context->device));
  FK_TRY(fk_cuda_arena_buffer(context, &arena, &buffer, err));
  FK_TRY(fk_cuda_whitening_init(context, buffer, task->whitening, &whitening, err));
  columns.ld = fk_padded(task->sources.n, TILE);
  rows.ld = fk_padded(task->targets.n, TILE);
  FK_TRY(fk_cuda_bring(context, &arena, &whitening, &task->sources, &raw_columns, &columns, err));
  if (!own) FK_TRY(fk_cuda_bring(context, &arena, &whitening, &task->targets, &raw_rows, &rows, err));
  if (!fk_form_is_product(form.type)) FK_TRY(are_wide(context, &form, &columns, &wide, err));
  if (wide) FK_TRY(bring_low(context, &arena, &whitening, raw_columns, &columns, err));
  if (wide && !own) FK_TRY(bring_low(context, &arena, &whitening, raw_rows, &rows, err));
  if (own) rows = columns;
  struct matrix_task a = {rows, columns, form, *term, own, (double *)K->data, rows.n, columns.n, K->ld};
  return launch_strips(context, &a, poll, err);
}

enum fk_status fk_cuda_matrix(const struct fk_task *task, const struct fk_matrix_term *term,
                              const struct fk_opts *opts, const struct fk_dense *K, struct fk_error *err) {
  struct fk_cuda_context *contexts[FK_MAX_DEVICES];
  int count;
  FK_TRY(fk_cuda_contexts(opts, contexts, &count, err));
  enum fk_status status = make_matrix(contexts[0], task, term, &opts->poll, K, err);
  if (status == FK_STATUS_DEVICE) fk_cuda_recover(contexts[0]);
  return status;
}
