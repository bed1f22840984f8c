/* C = alpha A'B + beta C of doubles on tensor cores. Each number is split into two FP16 terms, hi + lo, and hi hi
 * + hi lo + lo hi is summed in FP32. The split loses 2^-22 of a number.
 * || Columns are first scaled by powers of two to bring the largest number of each close to 2^14: FP16 reaches
 * from 2^-24 to 2^16, and the columns of a kernel matrix's factor differ much in size. What lies below 2^-39 of a
 * column's largest number is lost. Tensor cores truncate their sums, always towards 0. Each sum therefore runs
 * over at most FK_HALVES_ROWS rows and is added to the sums of other rows with rounding. */
#include <cuda_fp16.h>

#include "halves.cuh"

/* The split rows of a chunk: [column][part][row], so that gemm sums over parts and rows. */
enum { PARTS = FK_HALVES_PARTS };
enum { WARP = 32, MOST_BLOCKS = 65535 };

/* The scale of each column. Numbers that are not finite show in the product. */
static __global__ void scale_kernel(const double *A, int64_t ld, int64_t n, double *scale) {
  __shared__ double largest[FK_THREADS / WARP];
  const double *column = A + blockIdx.x * ld;
  double most = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < n; i += FK_THREADS) most = fmax(most, fabs(column[i]));
  for (int lanes = WARP / 2; lanes > 0; lanes /= 2) most = fmax(most, __shfl_down_sync(0xffffffffu, most, lanes));
  if (threadIdx.x % WARP == 0) largest[threadIdx.x / WARP] = most;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int i = 1; i < FK_THREADS / WARP; i++) most = fmax(most, largest[i]);
  /* within the range of doubles in both directions */
  scale[blockIdx.x] = most > 0 && isfinite(most) ? ldexp(1.0, max(-1000, min(1000, 14 - ilogb(most)))) : 1;
}

/* Splits rows 2 i and 2 i + 1, 0 beyond n; part `low` is lo, the others are hi. */
static __global__ void split_kernel(const double *A, int64_t ld, int64_t n, int64_t d, const double *scale,
                                    __half2 *to, int64_t padded, int low) {
  const int64_t i = (int64_t)blockIdx.x * FK_THREADS + threadIdx.x;
  if (2 * i >= padded) return;
  for (int64_t j = blockIdx.y; j < d; j += gridDim.y) {
    const double *from = A + 2 * i + j * ld, s = scale[j];
    const double x = 2 * i < n ? s * from[0] : 0, y = 2 * i + 1 < n ? s * from[1] : 0;
    const __half2 hi = __halves2half2(__double2half(x), __double2half(y)),
                  lo = __halves2half2(__double2half(x - (double)__low2float(hi)),
                                      __double2half(y - (double)__high2float(hi)));
    for (int part = 0; part < PARTS; part++) to[(PARTS * j + part) * (padded / 2) + i] = part == low ? lo : hi;
  }
}

/* FP32 sums, and the scales that turn them into a matrix. */
struct halves_sums {
  float *of;
  int64_t ld;
  const double *scale_a, *scale_b;
  double alpha, beta;
};

/* C = beta C + alpha A'B; with beta = 0, C is not read. */
static __global__ void add_kernel(const struct halves_sums S, double *C, int64_t ld, int64_t n, int64_t d) {
  const int64_t i = (int64_t)blockIdx.x * FK_THREADS + threadIdx.x;
  if (i >= n) return;
  for (int64_t j = blockIdx.y; j < d; j += gridDim.y) {
    const double sum = S.alpha * ((double)S.of[i + j * S.ld] / S.scale_a[i] / S.scale_b[j]);
    double *to = C + i + j * ld;
    *to = S.beta == 0 ? sum : S.beta * *to + sum;
  }
}

static dim3 grid_of(int64_t along, int64_t columns) {
  return dim3(fk_blocks(along, FK_THREADS), (unsigned)fk_smaller(columns, MOST_BLOCKS));
}

/* A or B, and its split chunk. */
struct halves_side {
  const struct fk_dense *from;
  double *scale;
  __half *parts;
  int low; /* index of the part that is lo */
};

static enum fk_status take_side(struct fk_cuda_context *context, struct fk_cuda_arena *arena, int64_t room,
                                struct halves_side *side, struct fk_error *err) {
  const struct fk_dense *A = side->from;
  FK_TRY(fk_cuda_take(context, arena, A->d, &side->scale, err));
  FK_TRY(fk_cuda_take(context, arena, PARTS * room * A->d, &side->parts, err));
  scale_kernel<<<(unsigned)A->d, FK_THREADS, 0, context->stream>>>((const double *)A->data, A->ld, A->n,
                                                                   side->scale);
  return FK_CUDA_STATUS(cudaGetLastError());
}

static enum fk_status split(struct fk_cuda_context *context, const struct halves_side *side, int64_t first,
                            int64_t rows, int64_t padded, struct fk_error *err) {
  const struct fk_dense part = fk_dense_part(side->from, first, 0, rows, side->from->d);
  split_kernel<<<grid_of(padded / 2, part.d), FK_THREADS, 0, context->stream>>>(
      (const double *)part.data, part.ld, rows, part.d, side->scale, (__half2 *)side->parts, padded, side->low);
  return FK_CUDA_STATUS(cudaGetLastError());
}

/* S += A'B for some rows, split; for the first rows S = A'B. */
static enum fk_status multiply_chunk(struct fk_cuda_context *context, struct fk_blas blas,
                                     const struct halves_side sides[2], int64_t first, const struct halves_sums *S,
                                     struct fk_error *err) {
  const int64_t rows = fk_smaller(FK_HALVES_ROWS, sides[0].from->n - first),
                padded = fk_padded(rows, FK_HALVES_PADDED), k = PARTS * padded;
  const float one = 1, before = first > 0;
  for (int i = 0; i < 2; i++) FK_TRY(split(context, &sides[i], first, rows, padded, err));
  FK_CUBLAS_TRY(blas.f->gemm(blas.handle, CUBLAS_OP_T, CUBLAS_OP_N, sides[0].from->d, sides[1].from->d, k, &one,
                             sides[0].parts, CUDA_R_16F, k, sides[1].parts, CUDA_R_16F, k, &before, S->of,
                             CUDA_R_32F, S->ld, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  return FK_STATUS_OK;
}

static enum fk_status multiply_halves(struct fk_cuda_context *context, struct fk_blas blas,
                                      struct fk_cuda_arena *arena, struct halves_side sides[2],
                                      struct halves_sums *S, const struct fk_dense *C, struct fk_error *err) {
  const int64_t n = sides[0].from->n, room = fk_padded(fk_smaller(n, FK_HALVES_ROWS), FK_HALVES_PADDED);
  S->ld = fk_padded(C->n, FK_HALVES_PADDED);
  FK_TRY(fk_cuda_take(context, arena, S->ld * C->d, &S->of, err));
  for (int i = 0; i < 2; i++) FK_TRY(take_side(context, arena, room, &sides[i], err));
  S->scale_a = sides[0].scale, S->scale_b = sides[1].scale;
  for (int64_t first = 0; first < n; first += FK_HALVES_ROWS)
    FK_TRY(multiply_chunk(context, blas, sides, first, S, err));
  add_kernel<<<grid_of(C->n, C->d), FK_THREADS, 0, context->stream>>>(*S, (double *)C->data, C->ld, C->n, C->d);
  return FK_CUDA_STATUS(cudaGetLastError());
}

enum fk_status fk_cuda_halves_gemm(struct fk_cuda_context *context, struct fk_blas blas, double alpha,
                                   const struct fk_dense *A, const struct fk_dense *B, double beta,
                                   const struct fk_dense *C, struct fk_error *err) {
  struct halves_side sides[2] = {{A, NULL, NULL, 2}, {B, NULL, NULL, 1}};
  struct halves_sums S = {NULL, 0, NULL, NULL, alpha, beta};
  struct fk_cuda_arena arena = {};
  if (C->n == 0 || C->d == 0) return FK_STATUS_OK;
  return multiply_halves(context, blas, &arena, sides, &S, C, err);
}
