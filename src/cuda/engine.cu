/* The exact engine on NVIDIA GPUs. Targets are taken in chunks that fit the device, and for each chunk all
 * sources, in chunks if they must be. The method goes by the precision and by how far the sources reach: tensor
 * cores, FP32 or FP64. Rows that underflow or lie outside a method's range are done again in FP64. Twin of
 * cpu/exact_cpu.c.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "job.cuh"

/* ---- one device ------------------------------------------------------------------------------- */

struct shared {
  const struct fk_task *task;
  const struct fk_opts *opts;
  double weight_scale, *column_scale; /* host */
  double tail_rows[FK_MAX_DEVICES];
  enum fk_cuda_method method;
};

/* How many sources and targets fit, with their packed forms. */
static enum fk_status plan_chunks(struct fk_cuda_job *job, struct fk_error *err) {
  const struct fk_task *task = job->task;
  double bytes, d = (double)task->sources.d, v = job->n_values, k = 16 * ceil(d / 16);
  double per_source = 8 * (3 * d + 2 * v + 3) + 8 * k + 16, per_target = 8 * (3 * d + v + 6) + 4 * k;
  FK_TRY(fk_cuda_budget(job->context, &bytes, err));
  bytes = (bytes - 8 * d * d) / (1 << (2 * job->progress->attempt));
  double sources = 0.6 * bytes / per_source, targets = 0.25 * bytes / per_target;
  job->partial_bytes = 0.1 * bytes;
  if (sources < FK_TENSOR_COLS || targets < FK_TENSOR_ROWS)
    return fk_fail(err, FK_STATUS_ALLOC,
                   "out of memory on CUDA device %d: %.2g MB are not enough for %.0f dimensions",
                   job->context->device, bytes / 1e6, d);
  job->source_chunk = (int64_t)fmin(sources, 2e9) / FK_TENSOR_COLS * FK_TENSOR_COLS;
  job->target_chunk = (int64_t)fmin(targets, 1e9) / FK_TENSOR_ROWS * FK_TENSOR_ROWS;
  return FK_STATUS_OK;
}

static enum fk_status run_rows(struct fk_cuda_job *job, int64_t first, int64_t end, struct fk_error *err) {
  for (; first < end; first += job->target_chunk)
    FK_TRY(fk_job_run_chunk(job, first, fk_smaller(job->target_chunk, end - first), err));
  return FK_STATUS_OK;
}

/* Rows that underflowed, each with the exponent of its own largest term taken off, and rows out of the method's
 * range. */
static enum fk_status redo_rows(struct fk_cuda_job *job, int64_t first, int64_t count, double *redone,
                                struct fk_error *err) {
  const struct fk_task *task = job->task;
  int64_t *rows = NULL, found = 0;
  double lost = fk_lost_below(job->precision != FK_PRECISION_DOUBLE, task->sources.n, job->weight_scale);
  FK_TRY(fk_rows_below(task->mass + first, count, task->tail_pass ? lost : 0, &rows, &found, err));
  if (found == 0) return FK_STATUS_OK;
  for (int64_t r = 0; r < found; r++) rows[r] += first;
  job->rows = rows;
  job->in_double = true;
  job->shifted = task->tail_pass;
  if (job->shifted) job->weight_scale = 1;
  job->normalised = false;
  job->whitened = false;
  job->progress_per_pair = 0;
  enum fk_status status = run_rows(job, 0, found, err);
  free(rows);
  *redone = (double)found;
  return status;
}

static enum fk_status sums_range(struct fk_cuda_context *context, int64_t first, int64_t count, void *data,
                                 struct fk_cuda_progress *progress, double *seconds, struct fk_error *err) {
  struct shared *shared = (struct shared *)data;
  const struct fk_task *task = shared->task;
  const struct fk_points *x = &task->sources;
  struct fk_cuda_job job = {};
  job.context = context;
  job.task = task;
  job.precision = shared->opts->precision == FK_PRECISION_AUTO ? FK_PRECISION_SINGLE : shared->opts->precision;
  job.threads = fk_threads(shared->opts->threads);
  job.progress = progress;
  job.seconds = seconds;
  job.weight_scale = shared->weight_scale;
  job.sources.d = (int)x->d;
  job.source_first = -1;
  job.n_values = (int)fk_n_values(task);
  job.form = fk_task_form(task);
  /* A point's own kernel is 1: a sum at the points themselves needs no first pass to be raised by. */
  job.normalised = job.form.type == FK_FORM_GAUSSIAN && job.n_values > 0 && job.precision != FK_PRECISION_DOUBLE &&
                   (task->targets.data || task->weights || task->exclude_self);
  job.progress_per_pair = 1.0 / ((double)x->n * (job.normalised ? 2 : 1));
  FK_TRY(fk_cuda_whitening_init(context, task->whitening, &job.whitening, err));
  if (shared->column_scale) {
    double *scale;
    FK_TRY(fk_cuda_array(context, FK_SLOT_FACTORS, job.n_values, &scale, err));
    FK_TRY(
        fk_cuda_upload(context, shared->column_scale, job.n_values, 1, 0, job.n_values, scale, job.n_values, err));
    job.column_scale = scale;
  }
  FK_TRY(plan_chunks(&job, err));
  if (job.source_chunk >= x->n) {
    FK_TRY(fk_cuda_resident(context, x->data, x->n * x->d, job.threads, &job.resident, err));
    if (task->weights)
      FK_TRY(fk_cuda_resident(context, task->weights, x->n, job.threads, &job.resident_weights, err));
    FK_TRY(plan_chunks(&job, err)); /* with what the cache has left */
    if (job.source_chunk < x->n) job.resident = job.resident_weights = NULL;
  }
  for (int64_t j = first; j < first + count && task->shift; j++) task->shift[j] = 0;
  FK_TRY(run_rows(&job, first, first + count, err));
  double pairs = (double)count * (double)x->n;
  if (pairs > 1e10) context->pairs_per_second = pairs / *seconds;
  shared->method = job.method; /* of all devices: the points decide */
  return redo_rows(&job, first, count, &shared->tail_rows[context->device], err);
}

/* ---- the engine ------------------------------------------------------------------------------- */

void fk_cuda_describe(struct fk_stats *stats, struct fk_cuda_context *const *contexts, int count,
                      const char *method, const char *precision) {
  static char isa[16];
  snprintf(isa, sizeof isa, "sm_%d", contexts[0]->capability);
  stats->backend = "cuda";
  stats->engine = "exact";
  stats->method = method;
  stats->precision = precision;
  stats->isa = isa;
  stats->threads = count;
  if (count == 1)
    snprintf(stats->device, sizeof stats->device, "%s", contexts[0]->name);
  else
    snprintf(stats->device, sizeof stats->device, "%d x %s", count, contexts[0]->name);
  stats->n_devices = count;
  for (int i = 0; i < count; i++) stats->devices[i] = contexts[i]->device;
}

static const char *precision_name(enum fk_precision precision) {
  return precision == FK_PRECISION_DOUBLE ? "double" : precision == FK_PRECISION_FAST ? "fast" : "single";
}

static enum fk_status sums(const struct fk_task *task, const struct fk_opts *opts, struct fk_stats *stats,
                           struct fk_error *err) {
  const char *methods[] = {"difference", "difference", "mma", "wgmma"};
  struct fk_cuda_context *contexts[FK_MAX_DEVICES];
  struct shared shared = {task, opts};
  double start = fk_seconds(), n = (double)task->sources.n, m = (double)fk_n_targets(task);
  int count;
  FK_TRY(fk_cuda_contexts(opts, contexts, &count, err));
  shared.weight_scale = task->weights ? fk_largest_absolute(task->weights, task->sources.n) : 1;
  if (task->values == FK_VALUES_COLUMNS) {
    shared.column_scale = (double *)malloc(sizeof(double) * (size_t)task->n_columns);
    if (!shared.column_scale) return fk_fail(err, FK_STATUS_ALLOC, "out of memory");
    for (int64_t v = 0; v < task->n_columns; v++)
      shared.column_scale[v] = fk_largest_absolute(task->columns + v * task->sources.n, task->sources.n);
  }
  enum fk_status status = fk_cuda_on_devices(contexts, count, fk_n_targets(task), FK_TENSOR_ROWS, &opts->poll,
                                             sums_range, &shared, &stats->device_seconds, err);
  free(shared.column_scale);
  FK_TRY(status);
  fk_cuda_describe(stats, contexts, count, methods[shared.method],
                   shared.method == FK_METHOD_DOUBLE ? "double" : precision_name(opts->precision));
  if (opts->precision == FK_PRECISION_DOUBLE)
    FK_TRY(fk_redo_lost_sums(task, &fk_engine_exact_cuda, opts, stats, err));
  for (int i = 0; i < FK_MAX_DEVICES; i++) stats->tail_rows += shared.tail_rows[i];
  stats->pairs += n * m;
  stats->seconds += fk_seconds() - start;
  return FK_STATUS_OK;
}

static enum fk_status available(const struct fk_opts *opts, struct fk_error *err) {
  struct fk_cuda_context *contexts[FK_MAX_DEVICES];
  int count;
  return fk_cuda_contexts(opts, contexts, &count, err);
}

/* Constants of an H200 (inst/bench/NOTES.md), which a smaller card reaches by a factor that matters little beside
 * the distance to the CPU. The start of CUDA counts always: the same call is to give the same numbers, also after
 * another has started it. */
static double seconds(const struct fk_work *work, const struct fk_opts *opts) {
  double start = 0.3;
  double bytes = 8 * (work->n * work->d + work->m * (work->d + 1 + work->n_values));
  double operations = opts->precision == FK_PRECISION_DOUBLE ? (2 * work->d + work->n_values + 30) / 1e13
                      : work->kernel != FK_KERNEL_GAUSSIAN   ? (2 * work->d + work->n_values + 16) / 2e13
                                                             : fmax(1, (work->d + work->n_values) / 32) / 2.5e12;
  return start + bytes / 8e9 + work->n * work->m * operations;
}

static void describe(const struct fk_opts *opts, struct fk_stats *stats) {
  struct fk_cuda_context *contexts[FK_MAX_DEVICES];
  struct fk_error err = {FK_STATUS_OK, ""};
  int count;
  if (fk_cuda_contexts(opts, contexts, &count, &err) == FK_STATUS_OK)
    fk_cuda_describe(stats, contexts, count, "", precision_name(opts->precision));
}

const struct fk_engine fk_engine_exact_cuda = {
    .name = "exact",
    .backend = FK_BACKEND_CUDA,
    .kind = FK_ENGINE_EXACT,
    .available = available,
    .seconds = seconds,
    .describe = describe,
    .sums = sums,
    .debiased_loo = fk_cuda_debiased_loo,
};
