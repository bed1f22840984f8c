/* Direct sums over all pairs, in double, for some rows: the reference that checks a grid's results. */
#include <stdlib.h>
#include <string.h>

#include "../exact/kept.cuh"
#include "job.cuh"

enum { ROWS = 8, VALUES = 2 * ROWS };

/* For ROWS rows y in the map's coordinates: [block][sum of b k, sum of |b| k][row], written to host memory. */
struct rows_of {
  double y[ROWS][FK_GRID_MAX_D];
};

template <int D>
static __global__ void rows_kernel(const __grid_constant__ struct fk_grid_map map, const struct fk_grid_raw points,
                                   const double *b, const __grid_constant__ struct rows_of rows,
                                   const double3 factor, double *of_block) {
  __shared__ double of_warp[VALUES][FK_THREADS / 32];
  double sum[VALUES];
#pragma unroll
  for (int v = 0; v < VALUES; v++) sum[v] = 0;
  for (int64_t i = (int64_t)blockIdx.x * FK_THREADS + threadIdx.x; i < points.n;
       i += (int64_t)gridDim.x * FK_THREADS) {
    double x[D], weight = b ? b[i] : 1;
    fk_grid_place<D>(map, points.x, points.ld, i, x);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      double half = 0;
#pragma unroll
      for (int k = 0; k < D; k++) half += (x[k] - rows.y[r][k]) * (x[k] - rows.y[r][k]);
      half /= 2;
      double k = exp(-half) * (factor.x + half * (factor.y + half * factor.z));
      sum[r] += weight * k;
      sum[ROWS + r] += fabs(weight) * k;
    }
  }
#pragma unroll
  for (int v = 0; v < VALUES; v++) {
    for (int step = 16; step > 0; step /= 2) sum[v] += __shfl_xor_sync(~0u, sum[v], step);
    if (threadIdx.x % 32 == 0) of_warp[v][threadIdx.x / 32] = sum[v];
  }
  __syncthreads();
  if (threadIdx.x < VALUES) {
    double total = 0;
    for (int w = 0; w < FK_THREADS / 32; w++) total += of_warp[threadIdx.x][w];
    of_block[blockIdx.x * VALUES + threadIdx.x] = total;
  }
}

/* y of row r: matrix (row - centre) */
static void place_row(const struct fk_grid_map *map, const struct fk_matrix *rows, int64_t r, double *y) {
  for (int k = 0; k < map->d; k++) {
    y[k] = 0;
    for (int l = 0; l < map->d; l++) y[k] += map->matrix[k][l] * (fk_column(rows, l)[r] - map->centre[l]);
  }
}

/* ---- of a task -------------------------------------------------------------------------------- */

/* No step here leaves data on the device for the next, so a step that ran out of memory can run again. */
struct rows_job {
  struct fk_grid_job job;
  const struct fk_matrix *rows;
  const double *factor;
  double *sums, *absolute;
};

/* Adds the sums of column c over the points on the device. */
static enum fk_status add_rows(struct fk_cuda_context *context, const struct rows_job *job,
                               const struct fk_grid_raw *points, const double *b, double *sums, double *absolute,
                               struct fk_error *err) {
  const struct fk_grid_map *map = &job->job.spec.map;
  const struct fk_matrix *rows = job->rows;
  int blocks = (int)fk_smaller(fk_blocks(points->n, FK_THREADS), 4 * context->multiprocessors);
  double *of_block = (double *)context->staging[0];
  double3 f = {job->factor[0], job->factor[1], job->factor[2]};
  for (int64_t first = 0; first < rows->n && points->n > 0; first += ROWS) {
    struct rows_of here = {};
    int64_t count = fk_smaller(ROWS, rows->n - first);
    for (int64_t r = 0; r < count; r++) place_row(map, rows, first + r, here.y[r]);
    FK_CUDA_TRY(cudaEventSynchronize(context->staged[0]));
    FK_CUDA_TRY(cudaEventRecord(context->begin, context->stream));
    fk_with_constant<1, FK_GRID_MAX_D>(map->d, [&](auto dim) {
      rows_kernel<decltype(dim)::value>
          <<<blocks, FK_THREADS, 0, context->stream>>>(*map, *points, b, here, f, of_block);
    });
    FK_CUDA_TRY(cudaGetLastError());
    FK_CUDA_TRY(cudaEventRecord(context->end, context->stream));
    FK_CUDA_TRY(cudaStreamSynchronize(context->stream));
    for (int k = 0; k < blocks; k++)
      for (int64_t r = 0; r < count; r++) {
        sums[first + r] += of_block[k * VALUES + r];
        absolute[first + r] += of_block[k * VALUES + ROWS + r];
      }
  }
  return FK_STATUS_OK;
}

static enum fk_status rows_range(struct fk_cuda_context *context, int64_t first, int64_t count, void *data,
                                 struct fk_cuda_progress *progress, double *seconds, struct fk_error *err) {
  struct rows_job *rows = (struct rows_job *)data;
  struct fk_grid_job *job = &rows->job;
  struct fk_grid_matrix x = fk_grid_points_of(job, FK_GRID_SOURCES), b = fk_grid_b_of(job);
  int64_t step, step_b, numbers = job->task->columns * rows->rows->n;
  FK_TRY(fk_grid_hold(job, context, &x, first, count, &step, err));
  if (b.x.data) FK_TRY(fk_grid_hold(job, context, &b, first, count, &step_b, err));
  fk_host_array<double> own(2 * numbers);
  if (!own.at) return fk_fail(err, FK_STATUS_ALLOC, "out of memory for a sample of rows");
  for (int64_t i = first; i < first + count; i += job->spec.chunk) {
    struct fk_grid_raw raw;
    int64_t here = fk_smaller(job->spec.chunk, first + count - i), ld_b;
    const double *at_b;
    FK_TRY(fk_grid_fetch_points(job, context, FK_GRID_SOURCES, i, here, &raw, err));
    FK_TRY(fk_grid_fetch_b(job, context, i, here, &at_b, &ld_b, err));
    for (int64_t c = 0; c < job->task->columns; c++)
      FK_TRY(add_rows(context, rows, &raw, at_b ? at_b + c * ld_b : NULL, own.at + c * rows->rows->n,
                      own.at + numbers + c * rows->rows->n, err));
    FK_TRY(fk_cuda_tick(progress, context, (double)here, err));
  }
  pthread_mutex_lock(&job->lock);
  for (int64_t i = 0; i < numbers; i++) {
    rows->sums[i] += own.at[i];
    rows->absolute[i] += own.at[numbers + i];
  }
  pthread_mutex_unlock(&job->lock);
  (void)seconds;
  return FK_STATUS_OK;
}

enum fk_status fk_cuda_grid_rows(const struct fk_cuda_grid_task *task, const struct fk_matrix *rows,
                                 const double factor[3], const struct fk_opts *opts, double *sums,
                                 double *absolute, struct fk_error *err) {
  struct fk_cuda_context *contexts[FK_MAX_DEVICES];
  struct rows_job job = {};
  double seconds = 0;
  int count;
  FK_TRY(fk_cuda_contexts(opts, contexts, &count, err));
  fk_grid_job_init(&job.job, task, opts, count);
  job.rows = rows;
  job.factor = factor;
  job.sums = sums;
  job.absolute = absolute;
  memset(sums, 0, sizeof *sums * (size_t)(task->columns * rows->n));
  memset(absolute, 0, sizeof *sums * (size_t)(task->columns * rows->n));
  FK_TRY(fk_grid_map_init(task->whitening, 1, &job.job.spec.map, err));
  FK_TRY(fk_cuda_enter(task->op, contexts, count, err));
  enum fk_status status = fk_grid_plan_chunk(&job.job, contexts[0], err);
  struct fk_cuda_work work = {task->sources.n, job.job.spec.chunk, &opts->poll, rows_range, &job};
  if (!status) status = fk_cuda_on_devices(contexts, count, &work, &seconds, err);
  fk_cuda_leave(task->op, contexts, count, opts);
  return status;
}
