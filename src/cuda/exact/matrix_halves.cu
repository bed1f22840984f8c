/* Kernel matrices in FP16 (matrix_pass.cuh). The kernel for many dimensions stores exponents (sums_wgmma_wide.cu).
 * For each row and run of columns, a warp turns these exponents into kernels: two FP16 terms replace one float,
 * scaled by what the run's largest kernel allows. So no pass for the kernel sums comes first. Tensor cores
 * truncate at every step: hi lo + lo hi, which are small, are summed apart from hi hi. */
#include <math.h>

#include "matrix_pass.cuh"
#include "../tensor/mma.cuh"

enum {
  WARP = 32,
  GROUP = 4, /* adjacent columns of a lane */
  GROUPS = FK_MATRIX_RUN / (WARP * GROUP)
};

/* ---- kernels ---------------------------------------------------------------------------------- */

/* Exponents of a matrix, [row][ld], which kernels overwrite one run at a time. */
struct exponents {
  float *of;
  int64_t ld, rows, ld_scales, run, n; /* n: columns without padding */
  const float *weights;                /* [column] */
  const float *factor0, *col_factor;   /* as in struct fk_tensor_task; NULL: none */
  float factor1;
  double *scales, *masses; /* [run][ld_scales] */
};

/* A lane's exponents of a row in a run; padding columns get a large negative exponent. */
static __device__ __forceinline__ float load_exponents(float (&t)[GROUPS][GROUP], const struct exponents &e,
                                                       const float *from, int64_t first_column, int lane) {
  float largest = -INFINITY;
#pragma unroll
  for (int g = 0; g < GROUPS; g++) {
    const int at = GROUP * (WARP * g + lane);
    const float4 x = at < e.run ? *(const float4 *)(from + at) : make_float4(0, 0, 0, 0);
    const float x4[GROUP] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int i = 0; i < GROUP; i++) {
      t[g][i] = at < e.run && first_column + at + i < e.n ? x4[i] : -INFINITY;
      largest = fmaxf(largest, t[g][i]);
    }
  }
  for (int step = WARP / 2; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
  return largest;
}

/* Turns a lane's next exponents into kernels; the first is that of `column`. */
template <bool FACTOR>
static __device__ __forceinline__ void to_kernels(float (&t)[GROUP], const struct exponents &e, int64_t column,
                                                  float most, float factor0) {
#pragma unroll
  for (int i = 0; i < GROUP; i++) {
    const float exponent = t[i];
    t[i] = exp2_fast(exponent - most);
    if (!FACTOR || t[i] == 0) continue; /* an exponent may be infinite */
    t[i] *= fmaf(e.factor1, exponent, factor0 + (e.col_factor ? e.col_factor[column + i] : 0));
  }
}

/* A warp holds a row's exponents of a run in registers. It scales the largest kernel to at most 2^14, or with a
 * factor 2^(t - largest) (|factor0| + |factor1 t|): FP16 reaches 2^16. */
template <bool FACTOR>
static __global__ void __launch_bounds__(FK_THREADS, 2) halves_kernel(const struct exponents e) {
  const int lane = threadIdx.x % WARP;
  const int64_t row = (int64_t)blockIdx.x * (FK_THREADS / WARP) + threadIdx.x / WARP;
  const int64_t first_column = blockIdx.y * e.run, at = blockIdx.y * e.ld_scales + row;
  if (row >= e.rows) return;
  float *exponents = e.of + row * e.ld + first_column, t[GROUPS][GROUP];
  const float largest = fmaxf(load_exponents(t, e, exponents, first_column, lane), -0x1p24f),
              factor0 = FACTOR ? e.factor0[row] : 1;
  float most = ceilf(largest) - 14, mass = 0;
  if (FACTOR) most += ceilf(log2f(fmaxf(1, fabsf(factor0) + fabsf(e.factor1) * (fabsf(largest) + 3))));
  uint2 *lo = (uint2 *)exponents, *hi = lo + e.run / GROUP;
#pragma unroll
  for (int g = 0; g < GROUPS; g++) {
    const int group = WARP * g + lane;
    if (GROUP * group >= e.run) continue;
    to_kernels<FACTOR>(t[g], e, first_column + GROUP * group, most, factor0);
    const float4 w = *(const float4 *)(e.weights + first_column + GROUP * group);
    mass += (w.x * t[g][0] + w.y * t[g][1]) + (w.z * t[g][2] + w.w * t[g][3]);
    const uint2 high = {pack_halves(t[g][0], t[g][1]), pack_halves(t[g][2], t[g][3])};
    hi[group] = high;
    lo[group] = {pack_rest(t[g][0], t[g][1], high.x), pack_rest(t[g][2], t[g][3], high.y)};
  }
  for (int step = WARP / 2; step > 0; step /= 2) mass += __shfl_xor_sync(~0u, mass, step);
  if (lane > 0) return;
  e.scales[at] = exp2((double)most);
  e.masses[at] = (double)mass * e.scales[at];
}

/* Cuts columns for the kernel that stores exponents: blocks of 256 rows and stages of FK_TENSOR_COLS columns, in
 * waves of one block per multiprocessor. Starting a block takes the time of a stage. */
static void cut_columns(const struct fk_cuda_context *context, struct fk_tensor_task *t) {
  const int64_t stages = fk_pieces(t->cols.n_pad, FK_TENSOR_COLS), row_blocks = fk_pieces(t->n_rows, 256);
  int64_t best = INT64_MAX;
  for (int64_t slots = 1; slots <= stages; slots++) {
    const int64_t each = fk_pieces(stages, slots), used = fk_pieces(stages, each);
    const int64_t time = fk_pieces(row_blocks * used, context->multiprocessors) * (each + 1);
    if (time >= best) continue;
    best = time;
    t->slots = (int)used;
    t->cols_per_slot = each * FK_TENSOR_COLS;
  }
}

static enum fk_status make_kernels(const struct fk_matrix_pass *pass, const struct fk_matrix_piece *piece,
                                   struct fk_error *err) {
  struct fk_cuda_context *context = pass->job->context;
  const struct fk_matrix_plan *plan = &pass->plan;
  const int64_t first = piece->first_run * plan->run;
  struct fk_tensor_task t = pass->packed.tensor, before = t;
  before.cols.n_pad = first;
  const char *columns = (const char *)pass->view.sources->wgmma_columns + fk_wgmma_pack_bytes(&before);
  t.cols.n_pad = fk_smaller(t.cols.n_pad - first, piece->runs * plan->run);
  if (t.self != INT64_MIN) t.self -= first;
  t.first_row = piece->first_row, t.n_rows = piece->rows;
  t.exponents = (float *)pass->kernels, t.ld_exponents = plan->at_once * plan->run;
  cut_columns(context, &t);
  FK_CUDA_TRY(fk_wgmma_launch(&t, columns, context->stream));

  struct exponents e = {t.exponents, t.ld_exponents, piece->rows, plan->rows, plan->run, t.cols.n - first};
  e.weights = (const float *)pass->weights + first;
  e.factor0 = t.factor0 ? t.factor0 + piece->first_row : NULL;
  e.col_factor = t.col_factor ? t.col_factor + first : NULL;
  e.factor1 = t.factor1;
  e.scales = pass->scales, e.masses = pass->masses;
  const dim3 grid(fk_blocks(piece->rows, FK_THREADS / WARP), (unsigned)piece->runs);
  if (e.factor0)
    halves_kernel<true><<<grid, FK_THREADS, 0, context->stream>>>(e);
  else
    halves_kernel<false><<<grid, FK_THREADS, 0, context->stream>>>(e);
  return FK_CUDA_STATUS(cudaGetLastError());
}

/* ---- products --------------------------------------------------------------------------------- */

/* The sums of a piece: += or, for the first product, =. */
static enum fk_status multiply_piece(const struct fk_matrix_pass *pass, const struct fk_matrix_piece *piece,
                                     const __half *kernels, int64_t depth, float before, struct fk_error *err) {
  struct fk_cuda_context *context = pass->job->context;
  const struct fk_matrix_plan *p = &pass->plan;
  const int64_t both = 2 * p->run, values = pass->job->n_values;
  const __half *of = (const __half *)pass->values + piece->first_run * both;
  const float one = 1;
  FK_CUBLAS_TRY(pass->blas.f->gemm_batch(pass->blas.handle, CUBLAS_OP_T, CUBLAS_OP_N, p->rows, values, depth, &one,
                                         kernels, CUDA_R_16F, both * p->at_once, both, of, CUDA_R_16F,
                                         both * p->runs, both, &before, pass->sums, CUDA_R_32F, p->rows,
                                         p->rows * values, piece->runs, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  return FK_STATUS_OK;
}

enum fk_status fk_matrix_halves_room(struct fk_matrix_pass *pass, struct fk_error *err) {
  const int64_t rows = pass->plan.rows * pass->plan.at_once;
  FK_TRY(fk_job_room(pass->job, FK_ROOM_MATRIX_SCALES, 2 * rows, &pass->scales, err));
  pass->masses = pass->scales + rows;
  return FK_STATUS_OK;
}

enum fk_status fk_matrix_halves(const struct fk_matrix_pass *pass, const struct fk_matrix_piece *piece,
                                struct fk_error *err) {
  const __half *lo = (const __half *)pass->kernels, *hi = lo + pass->plan.run;
  FK_TRY(make_kernels(pass, piece, err));
  FK_TRY(multiply_piece(pass, piece, lo, 2 * pass->plan.run, 0, err));
  return multiply_piece(pass, piece, hi, pass->plan.run, 1, err);
}
