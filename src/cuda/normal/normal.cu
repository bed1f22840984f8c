/* Normal products on CUDA devices: choice of method and devices, and the sum of the shards; see normal.cuh. */
#include <math.h>
#include <stdlib.h>

#include "../../core/hash.h"
#include "../../core/pool.h"
#include "../../core/threads.h"
#include "normal.cuh"

/* ---- which way -------------------------------------------------------------------------------- */

double fk_normal_pair_seconds(enum fk_normal_way way, bool wide, double d, double t) {
  const struct fk_exact_cuda_costs *c = &fk_costs.exact_cuda;
  /* tiles: each of two sums reads the kernels, except K v with one column, which is computed with them */
  const double number = sizeof(double) / c->memory, sums = (t > 1 ? 2 : 1) * fmax(2 * t / c->gemm, number);
  switch (way) {
    case FK_NORMAL_TENSOR:
      return 2 * t *
             (d > FK_TENSOR_WIDE && !wide ? 8 * d / c->mma_wide : fmax(1, d / c->tensor_width) / c->tensor);
    case FK_NORMAL_DIFFERENCES: return 2 * t * (d + c->kernel_f32) / c->f32;
    case FK_NORMAL_TILES: return 3 * 2 * d / c->gemm_half + 2.5 * number + sums;
    case FK_NORMAL_TILES_DOUBLE: break;
  }
  return d > FK_NORMAL_GRAM ? 2 * d / c->gemm + 3 * number + sums
                            : fmax((d + c->kernel_f64) / c->f64, number) + sums;
}

static enum fk_normal_way way_of(const struct fk_kernel *kernel, const struct fk_opts *opts, bool wide, double d,
                                 double t) {
  const enum fk_normal_way sweeps = fk_kernel_is_gaussian(kernel) ? FK_NORMAL_TENSOR : FK_NORMAL_DIFFERENCES;
  struct fk_task task = {};
  task.kernel = *kernel;
  const struct fk_kernel_form form = fk_task_form(&task);
  if (opts->precision == FK_PRECISION_DOUBLE || !fk_form_allows_single(&form, (int64_t)d) ||
      fk_cuda_is_lowered_to("difference"))
    return FK_NORMAL_TILES_DOUBLE;
  if (fk_form_metric(form.type) == FK_METRIC_ABSOLUTE) return sweeps;
  bool tiles = fk_normal_pair_seconds(FK_NORMAL_TILES, wide, d, t) < fk_normal_pair_seconds(sweeps, wide, d, t);
  return tiles ? FK_NORMAL_TILES : sweeps;
}

/* Are sweeps with many dimensions as fast as others, or the only ones that are not slow? */
static bool has_wide_sweeps(const struct fk_cuda_context *context) {
  enum { FAST = 4 }; /* FP64 has at least a quarter of FP32's rate */
  int ratio = 2;
  cudaDeviceGetAttribute(&ratio, cudaDevAttrSingleToDoublePrecisionPerfRatio, context->device);
  return ratio > FAST || (context->capability == 90 && !fk_cuda_is_lowered_to("mma"));
}

/* An estimate for Hopper; the device is not known yet. */
double fk_cuda_normal_seconds(const struct fk_work *work, const struct fk_opts *opts) {
  const struct fk_exact_cuda_costs *c = &fk_costs.exact_cuda;
  double d = work->d, t = fmax(1, work->n_values), bytes = 8 * (work->n * (d + 2 * t) + work->m * (d + t + 1));
  enum fk_normal_way way = way_of(&work->kernel, opts, true, d, t);
  return c->call + bytes / c->host + work->n * work->m * fk_normal_pair_seconds(way, true, d, t);
}

/* ---- the sum of the shards -------------------------------------------------------------------- */

struct shard_join {
  const struct fk_normal_job *job;
  int64_t shards;
  double *product;
};

static void add_parts(void *data, int64_t first, int64_t end, int) {
  const struct shard_join *join = (const struct shard_join *)data;
  const int64_t numbers = join->job->m * join->job->t;
  for (int64_t i = first; i < end; i++) {
    double sum = 0;
    for (int64_t s = 0; s < join->shards; s++) sum += join->job->parts[s * numbers + i];
    join->product[i] = sum;
  }
}

/* ---- on devices ------------------------------------------------------------------------------- */

static double largest_of(const double *x, int n) {
  double largest = 0;
  for (int i = 0; i < n; i++) largest = fmax(largest, x[i]);
  return largest;
}

/* Remembers the extent of rows for the next call. */
static void remember(struct fk_normal_job *job, struct fk_cuda_sources *const *rows, int count) {
  for (int i = 0; i < count; i++)
    if (rows[i]->normal.form.centre == job->centre)
      job->rows_radius2 = fmax(job->rows_radius2, rows[i]->normal.radius2);
}

/* Runs again if rows lie beyond what the columns suggest, and in double if points are too wide for less. */
static enum fk_status run_shards(struct fk_normal_job *job, struct fk_cuda_context **contexts, int count,
                                 double *seconds, struct fk_error *err) {
  const int64_t shards = fk_pieces(job->n, job->shard);
  struct fk_cuda_work work = {shards, 1, &job->opts->poll, fk_normal_range, job};
  for (;;) {
    bool wide = false;
    for (int i = 0; i < FK_MAX_DEVICES; i++) job->wide[i] = false, job->seen_radius2[i] = job->row_limit[i] = 0;
    FK_TRY(fk_cuda_on_devices(contexts, count, &work, seconds, err));
    for (int i = 0; i < FK_MAX_DEVICES; i++) wide |= job->wide[i];
    double seen = largest_of(job->seen_radius2, FK_MAX_DEVICES);
    bool beyond = seen > largest_of(job->row_limit, FK_MAX_DEVICES) && seen > job->rows_radius2;
    if (job->way == FK_NORMAL_TILES_DOUBLE || (!wide && !beyond)) return FK_STATUS_OK;
    if (wide) job->way = FK_NORMAL_TILES_DOUBLE;
    job->rows_radius2 = fmax(job->rows_radius2, seen);
  }
}

static enum fk_status run_kept(struct fk_normal_job *job, struct fk_cuda_context **contexts, int count,
                               double *seconds, struct fk_error *err) {
  struct fk_cuda_sources *columns, *rows[FK_MAX_DEVICES]; /* before the devices' threads use them */
  for (int i = 0; i < count; i++) {
    FK_TRY(fk_cuda_sources_of(job->op, contexts[i], FK_CUDA_ALL, &columns, err));
    FK_TRY(fk_cuda_sources_of(job->normal->rows, contexts[i], FK_CUDA_ALL, &rows[i], err));
    if (contexts[i]->capability < 80 && job->way != FK_NORMAL_DIFFERENCES) job->way = FK_NORMAL_TILES_DOUBLE;
  }
  remember(job, rows, count);
  enum fk_status status = run_shards(job, contexts, count, seconds, err);
  fk_cuda_keep_all_within(contexts, count, job->opts);
  return status;
}

static struct fk_normal_job job_of(struct fk_operator *op, const struct fk_normal *normal,
                                   const struct fk_opts *opts, struct fk_cuda_context *const *contexts,
                                   int count) {
  struct fk_task task = fk_normal_task(op, normal);
  struct fk_normal_job job = {op, normal, opts, fk_task_form(&task)};
  uint64_t key[2];
  job.m = op->x.n, job.n = normal->rows->x.n, job.d = op->x.d, job.t = normal->n_columns;
  fk_hash(op->whitening.centre, sizeof(double) * (size_t)job.d, opts->threads, key);
  job.centre = key[0];
  job.wide_sweeps = true;
  for (int i = 0; i < count; i++) job.wide_sweeps &= has_wide_sweeps(contexts[i]);
  job.way = way_of(&op->kernel, opts, job.wide_sweeps, (double)job.d, (double)job.t);
  job.shard = fk_normal_shard(&job);
  return job;
}

enum fk_status fk_cuda_normal(struct fk_operator *op, const struct fk_normal *normal, const struct fk_opts *opts,
                              double *product, struct fk_stats *stats, struct fk_error *err) {
  static const char *const names[] = {"tensor cores, two sweeps", "differences, two sweeps", "dense tiles",
                                      "dense tiles"};
  struct fk_cuda_context *contexts[FK_MAX_DEVICES];
  double start = fk_seconds(), seconds = 0;
  int count;
  FK_TRY(fk_cuda_contexts(opts, contexts, &count, err));
  struct fk_normal_job job = job_of(op, normal, opts, contexts, count);
  const int64_t shards = fk_pieces(job.n, job.shard), numbers = job.m * job.t;
  job.product = product;
  job.parts = (double *)malloc(sizeof *job.parts * (size_t)(shards * numbers));
  if (!job.parts) return fk_fail(err, FK_STATUS_UNSUPPORTED, "out of memory for parts of the product");
  enum fk_status status = run_kept(&job, contexts, count, &seconds, err);
  struct shard_join join = {&job, shards, product};
  const double bytes = 8.0 * (double)(shards + 1);
  if (!status && !job.joined)
    fk_parallel_for(fk_threads_for_bytes(opts->threads, bytes * (double)numbers), numbers,
                    fk_step_for_bytes(bytes), add_parts, &join);
  free(job.parts);
  if (status == FK_STATUS_ALLOC) err->status = status = FK_STATUS_UNSUPPORTED; /* sums need little memory */
  FK_TRY(status);
  fk_cuda_describe(stats, contexts, count, names[job.way],
                   job.way == FK_NORMAL_TILES_DOUBLE ? "double" : "single");
  stats->pairs += 2 * (double)job.m * (double)job.n;
  stats->device_seconds += seconds;
  stats->seconds += fk_seconds() - start;
  return FK_STATUS_OK;
}
