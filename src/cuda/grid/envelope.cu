/* What the bound of a grid's error (cpu/grid/envelope.h) needs of all points: |b| spread linearly (by hat
 * functions) on the corners of cells one bandwidth wide, and which cells have targets. Numbers are rounded up and
 * added as integers: the sums do not depend on the order and are never too small. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../exact/kept.cuh"
#include "job.cuh"

/* COLUMNS: of b, whose scales are launch arguments. SHARED: numbers in a block's shared memory. */
enum { COLUMNS = 8, SHARED = 48 * 1024 / 8, MOST_NODES = 1 << 24 };

/* The box of cells and the place of its numbers: for nodes, |b| and the number of points with b != 0; for cells,
 * the number of targets and the first of them. */
struct hats {
  int64_t low[FK_GRID_MAX_D], cells[FK_GRID_MAX_D], n_nodes, n_cells;
  unsigned long long *mass, *count, *targets, *row; /* count NULL: not wanted */
  double unit;                                      /* the unit of the numbers for a mass of 1 */
  double scale[COLUMNS];
  int columns;
  bool sources, is_targets;
};

template <int D>
static __device__ void add_point(const struct hats &a, const double y[D], double mass, int64_t row,
                                 unsigned long long *to_mass, unsigned long long *to_count,
                                 unsigned long long *to_targets, unsigned long long *to_row) {
  double f[D];
  int64_t node = 0, cell = 0, nodes = 1, cells = 1, step[D];
#pragma unroll
  for (int k = 0; k < D; k++) {
    double below = floor(y[k]);
    int64_t at = (int64_t)below - a.low[k];
    f[k] = y[k] - below;
    at = at < 0 ? 0 : at >= a.cells[k] ? a.cells[k] - 1 : at;
    step[k] = nodes;
    node += at * nodes;
    cell += at * cells;
    nodes *= a.cells[k] + 1;
    cells *= a.cells[k];
  }
  if (a.is_targets) {
    atomicAdd(&to_targets[cell], 1ull);
    if ((unsigned long long)row < to_row[cell]) atomicMin(&to_row[cell], (unsigned long long)row);
  }
  if (!a.sources || mass == 0) return;
  for (int c = 0; c < 1 << D; c++) {
    double hat = 1;
    int64_t at = node;
#pragma unroll
    for (int k = 0; k < D; k++) {
      hat *= c >> k & 1 ? f[k] : 1 - f[k];
      at += c >> k & 1 ? step[k] : 0;
    }
    if (hat == 0) continue;
    atomicAdd(&to_mass[at], __double2ull_ru(hat * mass * a.unit));
    if (a.count) atomicAdd(&to_count[at], __double2ull_ru(hat * a.unit));
  }
}

template <int D, bool OWN>
static __global__ void hats_kernel(const __grid_constant__ struct fk_grid_map map, const struct fk_grid_raw points,
                                   const double *b, int64_t ld_b, const __grid_constant__ struct hats a,
                                   int64_t first) {
  extern __shared__ unsigned long long own[];
  unsigned long long *mass = OWN ? own : a.mass, *count = OWN ? mass + a.n_nodes : a.count,
                     *targets = OWN ? count + (a.count ? a.n_nodes : 0) : a.targets,
                     *row = OWN ? targets + a.n_cells : a.row;
  if (OWN) {
    for (int64_t i = threadIdx.x; i < targets - own + 2 * a.n_cells; i += FK_THREADS)
      own[i] = i >= row - own ? ~0ull : 0;
    __syncthreads();
  }
  for (int64_t i = (int64_t)blockIdx.x * FK_THREADS + threadIdx.x; i < points.n;
       i += (int64_t)gridDim.x * FK_THREADS) {
    double y[D], most = b ? 0 : 1;
    fk_grid_place<D>(map, points.x, points.ld, i, y);
    for (int c = 0; c < a.columns && b; c++) most = fmax(most, fabs(b[c * ld_b + i]) * a.scale[c]);
    bool any = !b;
    for (int c = 0; c < a.columns && !any; c++) any = b[c * ld_b + i] != 0;
    /* a mass too small for a double counts as well */
    add_point<D>(a, y, any ? fmax(most, 1e-300) : 0, first + i, mass, count, targets, row);
  }
  if (!OWN) return;
  __syncthreads();
  for (int64_t i = threadIdx.x; i < a.n_nodes && a.sources; i += FK_THREADS) {
    if (mass[i]) atomicAdd(&a.mass[i], mass[i]);
    if (a.count && count[i]) atomicAdd(&a.count[i], count[i]);
  }
  for (int64_t i = threadIdx.x; i < a.n_cells && a.is_targets; i += FK_THREADS) {
    if (targets[i]) atomicAdd(&a.targets[i], targets[i]);
    if (row[i] < a.row[i]) atomicMin(&a.row[i], row[i]);
  }
}

template <int D>
static cudaError_t launch_hats(struct fk_cuda_context *context, const struct fk_grid_map *map,
                               const struct fk_grid_raw *points, const double *b, int64_t ld_b,
                               const struct hats *a, int64_t first) {
  unsigned blocks = (unsigned)fk_smaller(fk_blocks(points->n, 4 * FK_THREADS), 8 * context->multiprocessors);
  int64_t numbers = a->n_nodes * (a->count ? 2 : 1) + 2 * a->n_cells;
  if (numbers <= SHARED)
    hats_kernel<D, true><<<blocks, FK_THREADS, sizeof *a->mass *(size_t)numbers, context->stream>>>(
        *map, *points, b, ld_b, *a, first);
  else
    hats_kernel<D, false><<<blocks, FK_THREADS, 0, context->stream>>>(*map, *points, b, ld_b, *a, first);
  return cudaGetLastError();
}

/* ---- of a task -------------------------------------------------------------------------------- */

struct envelope_job {
  struct fk_grid_job job;
  struct hats hats;
  struct fk_grid_cells *out;
};

/* 64-bit integers pass as doubles: they are only copied. */
static enum fk_status join_devices(struct envelope_job *e, struct fk_cuda_context *context,
                                   const unsigned long long *all, int64_t numbers, struct fk_error *err) {
  int64_t sums = numbers - e->hats.n_cells;
  fk_host_array<unsigned long long> own(numbers);
  if (!own.at) return fk_fail(err, FK_STATUS_ALLOC, "out of memory for the bound of the grid's error");
  FK_TRY(fk_cuda_download(context, (const double *)all, numbers, fk_all_rows(numbers, 1), (double *)own.at, err));
  pthread_mutex_lock(&e->job.lock);
  for (int64_t i = 0; i < numbers; i++) {
    uint64_t *to = e->out->memory + i;
    *to = i < sums ? *to + own.at[i] : own.at[i] < *to ? own.at[i] : *to;
  }
  pthread_mutex_unlock(&e->job.lock);
  return FK_STATUS_OK;
}

static enum fk_status hats_range(struct fk_cuda_context *context, int64_t first, int64_t count, void *data,
                                 struct fk_cuda_progress *progress, double *seconds, struct fk_error *err) {
  struct envelope_job *e = (struct envelope_job *)data;
  struct fk_grid_job *job = &e->job;
  struct hats a = e->hats;
  struct fk_grid_matrix x = fk_grid_points_of(job, job->side), b = fk_grid_b_of(job);
  int64_t nodes = a.n_nodes * (a.count ? 2 : 1), numbers = nodes + 2 * a.n_cells, step, step_b;
  FK_TRY(fk_grid_no_second_attempt(progress, err));
  FK_TRY(fk_grid_hold(job, context, &x, first, count, &step, err));
  if (a.sources && b.x.data) FK_TRY(fk_grid_hold(job, context, &b, first, count, &step_b, err));
  FK_TRY(fk_cuda_room(context, &context->grid->survey, numbers, &a.mass, err));
  a.count = a.count ? a.mass + a.n_nodes : NULL;
  a.targets = a.mass + nodes;
  a.row = a.targets + a.n_cells;
  FK_CUDA_TRY(cudaMemsetAsync(a.mass, 0, sizeof *a.mass * (size_t)(numbers - a.n_cells), context->stream));
  FK_CUDA_TRY(cudaMemsetAsync(a.row, 0xff, sizeof *a.row * (size_t)a.n_cells, context->stream));
  for (int64_t i = first; i < first + count; i += job->spec.chunk) {
    struct fk_grid_raw raw;
    const double *at_b = NULL;
    int64_t here = fk_smaller(job->spec.chunk, first + count - i), ld_b = 0;
    FK_TRY(fk_grid_fetch_points(job, context, job->side, i, here, &raw, err));
    if (a.sources) FK_TRY(fk_grid_fetch_b(job, context, i, here, &at_b, &ld_b, err));
    FK_CUDA_TRY(cudaEventRecord(context->begin, context->stream));
    FK_CUDA_TRY(fk_with_constant<1, FK_GRID_MAX_D>(job->d, [&](auto dim) {
      return launch_hats<decltype(dim)::value>(context, &job->spec.map, &raw, at_b, ld_b, &a, i);
    }));
    FK_CUDA_TRY(cudaEventRecord(context->end, context->stream));
    FK_TRY(fk_cuda_tick(progress, context, (double)here, err));
    FK_TRY(fk_cuda_elapsed(context, seconds, err));
  }
  return join_devices(e, context, a.mass, numbers, err);
}

static enum fk_status make_box(struct envelope_job *e, bool counted, double most_nodes, struct fk_error *err) {
  struct hats *a = &e->hats;
  struct fk_grid_cells *out = e->out;
  const struct fk_grid_job *job = &e->job;
  double nodes = 1;
  a->n_nodes = a->n_cells = 1;
  for (int k = 0; k < job->d; k++) {
    double low = floor(fmin(job->low[0][k], job->low[1][k])), high = floor(fmax(job->high[0][k], job->high[1][k]));
    nodes *= high - low + 2;
    if (nodes > fmin(most_nodes, MOST_NODES))
      return fk_fail(err, FK_STATUS_UNSUPPORTED, "points are too sparse for a box of grid nodes");
    out->low[k] = a->low[k] = (int64_t)low;
    out->cells[k] = a->cells[k] = (int64_t)(high - low) + 1;
    a->n_nodes *= a->cells[k] + 1;
    a->n_cells *= a->cells[k];
  }
  a->unit = ldexp(1, 62 - (int)ceil(log2((double)job->task->sources.n + 1))); /* n masses of 1 take 62 bits */
  out->unit = 1 / a->unit;
  int64_t sums = a->n_nodes * (counted ? 2 : 1) + a->n_cells;
  out->memory = (uint64_t *)calloc((size_t)(sums + a->n_cells), sizeof *out->memory);
  if (!out->memory) return fk_fail(err, FK_STATUS_ALLOC, "out of memory for the bound of the grid's error");
  memset(out->memory + sums, 0xff, sizeof *out->memory * (size_t)a->n_cells);
  out->mass = out->memory;
  out->count = counted ? out->mass + a->n_nodes : NULL;
  out->targets = out->mass + a->n_nodes * (counted ? 2 : 1);
  out->row = out->targets + a->n_cells;
  a->count = counted ? (unsigned long long *)out->count : NULL;
  return FK_STATUS_OK;
}

static enum fk_status fill_cells(struct envelope_job *e, struct fk_cuda_context **contexts, bool counted,
                                 double most_nodes, struct fk_error *err) {
  struct fk_grid_job *job = &e->job;
  double seconds = 0;
  FK_TRY(fk_grid_plan_chunk(job, contexts[0], err));
  FK_TRY(fk_grid_extents(job, contexts, 0, 0, &seconds, err));
  FK_TRY(make_box(e, counted, most_nodes, err));
  e->hats.sources = true;
  e->hats.is_targets = job->same;
  FK_TRY(fk_grid_run_phase(job, contexts, FK_GRID_SOURCES, hats_range, 0, 0, &seconds, err));
  if (job->same) return FK_STATUS_OK;
  e->hats.sources = false;
  e->hats.is_targets = true;
  return fk_grid_run_phase(job, contexts, FK_GRID_TARGETS, hats_range, 0, 0, &seconds, err);
}

enum fk_status fk_cuda_grid_envelope(const struct fk_cuda_grid_task *task, const double *size, bool counted,
                                     double most_nodes, const struct fk_opts *opts, struct fk_grid_cells *out,
                                     struct fk_error *err) {
  struct fk_cuda_context *contexts[FK_MAX_DEVICES];
  struct envelope_job e = {};
  int count;
  *out = (struct fk_grid_cells){};
  if (task->columns > COLUMNS)
    return fk_fail(err, FK_STATUS_UNSUPPORTED, "the bound takes up to %d columns on a GPU", COLUMNS);
  FK_TRY(fk_cuda_contexts(opts, contexts, &count, err));
  fk_grid_job_init(&e.job, task, opts, count);
  FK_TRY(fk_grid_map_init(task->whitening, 1, &e.job.spec.map, err));
  e.out = out;
  e.hats.columns = (int)task->columns;
  for (int c = 0; c < e.hats.columns; c++) e.hats.scale[c] = size[c] > 0 ? 1 / size[c] : 0;
  FK_TRY(fk_cuda_enter(task->op, contexts, count, err));
  enum fk_status status = fill_cells(&e, contexts, counted, most_nodes, err);
  fk_cuda_leave(task->op, contexts, count, opts);
  if (status) free(out->memory);
  return status;
}
