/* Moves points by their sums on the device: x + A (V / S - u). Twin of the maps of core/estimators.c. */
#include "job.cuh"

/* Rows of a chunk: their sums, whitened and raw coordinates, and the place of the result. */
struct moved_rows {
  const double *S, *V, *u, *raw;
  int64_t ld_result, ld_u, ld_raw, count, first, n;
  const int64_t *index; /* NULL: first, first + 1, ... */
  int d;
  bool relative;    /* V is V - S u already */
  double lost;      /* a sum below it has lost terms */
  double *any_lost; /* host; set to nonzero if any has */
};

static __device__ __forceinline__ int64_t row_of(const struct moved_rows &r, int64_t i) {
  return r.index ? r.index[i] : r.first + i;
}

/* Replaces V by V / S - u, and stores S in the result. */
static __global__ void means_kernel(const struct moved_rows r, double *V, double *mass) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= r.count) return;
  double S = r.S[i];
  if (blockIdx.y == 0) {
    mass[row_of(r, i)] = S;
    if (!(fabs(S) >= r.lost)) *r.any_lost = 1;
  }
  for (int k = blockIdx.y; k < r.d; k += gridDim.y)
    V[k * r.ld_result + i] =
        r.relative ? r.V[k * r.ld_result + i] / S : (r.V[k * r.ld_result + i] - S * r.u[k * r.ld_u + i]) / S;
}

/* Adds A times the step to x; A is diagonal or full. */
static __global__ void add_kernel(const struct moved_rows r, const double *step, const double *A, double *moved) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= r.count) return;
  int64_t row = row_of(r, i);
  for (int k = blockIdx.y; k < r.d; k += gridDim.y) {
    double scale = A ? A[k + (int64_t)k * r.d] : 1;
    moved[k * r.n + row] = r.raw[k * r.ld_raw + row] + scale * step[k * r.ld_result + i];
  }
}

enum fk_status fk_job_move(struct fk_cuda_job *job, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const struct fk_cuda_move *move = job->move;
  const struct fk_cuda_sources *s = job->sources;
  const struct fk_job_chunk *chunk = &job->chunk;
  const struct fk_cuda_points *y = &chunk->targets;
  const int64_t ld = chunk->ld_result;
  double *V = chunk->result + ld, *step = V;
  struct moved_rows r = {chunk->result, V, y->u, s->raw, ld, y->ld, s->ld_raw};
  r.count = y->n;
  r.first = chunk->first;
  r.n = s->points.n;
  r.index = chunk->self;
  r.d = y->d;
  r.relative = job->relative;
  r.lost = fk_job_lost_below(job);
  r.any_lost = context->answers + FK_ANSWER_LOST;
  dim3 grid(fk_blocks(r.count, FK_THREADS), (unsigned)fk_smaller(r.d, 64));
  means_kernel<<<grid, FK_THREADS, 0, context->stream>>>(r, V, move->mass);
  if (!move->diagonal) {
    struct fk_cuda_points to = {NULL, r.count, ld, r.d};
    FK_TRY(fk_job_room(job, FK_ROOM_RAW, to.ld * r.d, &to.u, err));
    FK_TRY(fk_cuda_multiply(context, move->A, V, ld, &to, err));
    step = to.u;
  }
  add_kernel<<<grid, FK_THREADS, 0, context->stream>>>(r, step, move->diagonal ? move->A : NULL, move->moved);
  return FK_CUDA_STATUS(cudaGetLastError());
}
