/* Exact sums on NVIDIA GPUs. Targets are taken in chunks that fit the device. Each chunk meets all sources, which
 * also come in chunks if they must. The method depends on the precision and on how far the sources reach: FP16
 * terms on tensor cores, FP32, or FP64 with or without tensor cores. Rows that underflow or lie outside a method's
 * range are recomputed in FP64 by direct distances. */
#include <math.h>
#include <stdlib.h>

#include "../../core/scan.h"
#include "exact.cuh"
#include "job.cuh"
#include "../device/resident.cuh"

/* ---- one device ------------------------------------------------------------------------------- */

struct shared_job {
  const struct fk_task *task;
  const struct fk_opts *opts;
  double weight_scale, *column_scale; /* host */
  double tail_rows[FK_MAX_DEVICES];
  enum fk_cuda_method method;
  bool ordered, relative, logs;
  double *parts;             /* sums of shards, [shard][target] */
  const double *A;           /* for points that move; NULL: sums */
  struct fk_pair_sums pairs; /* symmetric sums by pairs of tiles */
  bool looks;                /* only look at the sources: are they ordered? */
  struct fk_resident *moved; /* moved points on the device, */
  double *host;              /* or on the host, from several devices */
};

/* Finds how many sources and targets fit, with their packed forms. */
static enum fk_status plan_chunks(struct fk_cuda_job *job, struct fk_error *err) {
  const struct fk_cuda_memory_shares *share = &fk_costs.cuda_memory;
  const struct fk_task *task = job->task;
  double bytes, d = (double)task->sources.d, v = job->n_values, k = 16 * ceil(d / 16);
  double per_source = 8 * (3 * d + 2 * v + 3) + 8 * k + 16, per_target = 8 * (3 * d + v + 6) + 8 * k;
  double needed = per_source * (double)task->sources.n + per_target * (double)fk_n_targets(task);
  FK_TRY(fk_cuda_budget(job->context, needed, fk_cuda_sources_bytes(job->sources), &bytes, err));
  bytes = (bytes - 8 * d * d) / (1 << (2 * job->progress->attempt));
  double sources = share->sources * bytes / per_source, targets = share->targets * bytes / per_target;
  job->partial_bytes = share->partials * bytes;
  if (sources < FK_TENSOR_COLS || targets < FK_TENSOR_ROWS)
    return fk_fail(err, FK_STATUS_ALLOC,
                   "out of memory on CUDA device %d: %.2g MB are not enough for %.0f dimensions",
                   job->context->device, fmax(bytes, 0) / 1e6, d);
  job->source_chunk = (int64_t)fmin(sources, 2e9) / FK_TENSOR_COLS * FK_TENSOR_COLS;
  job->target_chunk = (int64_t)fmin(targets, 1e9) / FK_TENSOR_ROWS * FK_TENSOR_ROWS;
  return FK_STATUS_OK;
}

static enum fk_status run_rows(struct fk_cuda_job *job, int64_t first, int64_t end, struct fk_error *err) {
  for (; first < end; first += job->target_chunk)
    FK_TRY(fk_job_run_chunk(job, first, fk_smaller(job->target_chunk, end - first), err));
  return FK_STATUS_OK;
}

/* Recomputes rows that underflowed, each with the exponent of its largest term subtracted, and rows out of the
 * method's range. */
static enum fk_status redo_rows(struct fk_cuda_job *job, int64_t first, int64_t count, double *redone,
                                struct fk_error *err) {
  int64_t *rows = NULL, found = 0;
  FK_TRY(fk_job_find_lost(job, first, count, &rows, &found, err));
  if (found == 0) return FK_STATUS_OK;
  job->rows = rows;
  job->pairs = NULL;
  job->shifted = job->task->tail_pass;
  if (job->shifted) job->weight_scale = 1;
  job->normalised = false;
  job->progress_per_pair = 0;
  enum fk_status status = run_rows(job, 0, found, err);
  free(rows);
  *redone = (double)found;
  return status;
}

static void init_job(struct fk_cuda_job *job, const struct shared_job *shared) {
  const struct fk_task *task = shared->task;
  const struct fk_opts *opts = shared->opts;
  job->task = task;
  job->id = ++job->context->clock;
  job->precision = opts->precision == FK_PRECISION_AUTO ? FK_PRECISION_SINGLE : opts->precision;
  job->weight_scale = shared->weight_scale;
  job->column_scale = shared->column_scale;
  job->n_values = (int)fk_n_values(task);
  job->form = fk_task_form(task);
  /* A point's own kernel is 1: a sum that includes it needs no first pass to scale it. */
  job->normalised = job->form.type == FK_FORM_GAUSSIAN && job->n_values > 0 &&
                    job->precision != FK_PRECISION_DOUBLE &&
                    (task->targets.data || task->weights || task->exclude_self);
  job->source_end = task->sources.n;
  job->progress_per_pair = 1.0 / ((double)task->sources.n * (job->normalised ? 2 : 1));
}

/* Sends A and allocates room for moved points. */
static enum fk_status make_move(struct fk_cuda_job *job, const double *A, struct fk_cuda_arena *arena,
                                struct fk_cuda_buffer *moved, struct fk_cuda_move *move, struct fk_error *err) {
  int64_t n = job->task->sources.n, d = job->task->sources.d;
  double *there;
  move->diagonal = true;
  for (int64_t k = 0; k < d * d; k++) move->diagonal &= A[k] == 0 || k / d == k % d;
  FK_TRY(fk_cuda_take(job->context, arena, n, &move->mass, err));
  FK_TRY(fk_cuda_room(job->context, moved, n * d, &move->moved, err));
  FK_TRY(fk_cuda_send_to(job->context, arena, fk_doubles(A, d * d, 1), &there, err));
  move->A = there;
  job->move = move;
  return FK_STATUS_OK;
}

/* Moved points stay on the device if all of them are there; otherwise they go to the host. */
static enum fk_status move_points(struct fk_cuda_job *job, struct shared_job *shared, int64_t first, int64_t count,
                                  struct fk_error *err) {
  struct fk_cuda_arena arena = {};
  struct fk_cuda_buffer *moved;
  struct fk_cuda_move move = {};
  const struct fk_matrix *x = &job->task->sources;
  FK_TRY(fk_cuda_arena_buffer(job->context, &arena, &moved, err));
  FK_TRY(make_move(job, shared->A, &arena, moved, &move, err));
  job->context->answers[FK_ANSWER_LOST] = 0;
  FK_TRY(run_rows(job, first, first + count, err));
  shared->method = job->method;
  shared->ordered = job->ordered;
  FK_TRY(redo_rows(job, first, count, &shared->tail_rows[job->context->device], err));
  if (!shared->host) return fk_cuda_resident_create(job->context, moved, x->n, x->d, &shared->moved, err);
  return fk_cuda_download(job->context, move.moved + first, x->n, fk_rows(x->n, x->d, first, count), shared->host,
                          err);
}

/* Sums of coordinates are made relative to the target with the centre that the host knows. Cached sources, whose
 * centre the device computed, cannot be used for that. */
static bool is_kept(const struct shared_job *shared) {
  return fk_task_own(shared->task) && (shared->task->values != FK_VALUES_COORDINATES || shared->A);
}

static enum fk_status look_at_sources(struct fk_cuda_job *job, bool *ordered, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  struct fk_job_way way;
  FK_TRY(fk_job_fetch_sources(job, job->source_begin, err));
  FK_CUDA_TRY(cudaEventRecord(context->begin, context->stream));
  FK_TRY(fk_job_whiten_sources(job, job->source_begin, &way, err));
  FK_CUDA_TRY(cudaEventRecord(context->end, context->stream));
  *ordered = way.ordered;
  return fk_cuda_elapsed(context, job->seconds, err);
}

static enum fk_status run_job(struct fk_cuda_job *job, struct shared_job *shared, int64_t first, int64_t count,
                              struct fk_error *err) {
  const struct fk_task *task = job->task;
  FK_TRY(plan_chunks(job, err));
  bool whole = job->source_chunk >= job->source_end - job->source_begin;
  job->finds_centre = whole && is_kept(shared) && fk_kernel_is_stationary(&task->kernel) &&
                      (!task->op->weights || task->weights == task->op->weights);
  bool centred = job->finds_centre || task->whitening->centre || job->sources->whitening.host;
  if (!centred || (!whole && (shared->A || !task->sources.data)))
    return fk_fail(err, FK_STATUS_UNSUPPORTED, "the points do not fit into the memory of a CUDA device");
  if (shared->looks) return look_at_sources(job, &shared->ordered, err);
  if (shared->pairs.phase == FK_PAIRS_SUMMED) return fk_job_sum_pairs(job, &shared->pairs, first, count, err);
  job->pairs = shared->pairs.phase == FK_PAIRS_THERE ? &shared->pairs : NULL;
  if (!whole && task->values == FK_VALUES_COORDINATES) FK_TRY(fk_job_find_reach(job, err));
  if (shared->A) return move_points(job, shared, first, count, err);
  for (int64_t j = first; j < first + count && task->shift; j++) task->shift[j] = 0;
  FK_TRY(run_rows(job, first, first + count, err));
  shared->method = job->method; /* the same for all devices: it depends on the points */
  shared->ordered = job->ordered;
  shared->relative = job->relative;
  shared->logs = task->logs != NULL;
  double pairs = (double)count * (double)task->sources.n;
  if (pairs > fk_costs.exact_cuda.measured_pairs) job->context->pairs_per_second = pairs / *job->seconds;
  return redo_rows(job, first, count, &shared->tail_rows[job->context->device], err);
}

/* With cached sources, or (NULL) with sources for this job alone. */
static enum fk_status run_on(struct fk_cuda_job *job, struct fk_cuda_sources *kept, struct shared_job *shared,
                             int64_t first, int64_t count, struct fk_error *err) {
  struct fk_cuda_sources own;
  fk_cuda_sources_init(&own, job->context);
  job->sources = kept ? kept : &own;
  job->sources->busy = true;
  enum fk_status status = run_job(job, shared, first, count, err);
  job->sources->busy = false;
  if (!kept || status || job->source_chunk < job->source_end - job->source_begin)
    fk_cuda_sources_empty(job->sources);
  if (shared->pairs.phase != FK_PAIRS_SUMMED) { /* then the points move, from their own coordinates */
    fk_cuda_drop(job->context, &job->sources->raw_buffer);
    job->sources->raw = NULL;
  }
  fk_job_free(job);
  return status;
}

static enum fk_status sums_range(struct fk_cuda_context *context, int64_t first, int64_t count, void *data,
                                 struct fk_cuda_progress *progress, double *seconds, struct fk_error *err) {
  struct shared_job *shared = (struct shared_job *)data;
  struct fk_cuda_job job = {};
  struct fk_cuda_sources *kept = NULL;
  job.context = context;
  job.progress = progress;
  job.seconds = seconds;
  init_job(&job, shared);
  if (is_kept(shared)) FK_TRY(fk_cuda_sources_of(shared->task->op, context, FK_CUDA_ALL, &kept, err));
  return run_on(&job, kept, shared, first, count, err);
}

/* ---- few targets ------------------------------------------------------------------------------ */

/* If targets are too few to be shared among devices, sources are: in shards, whose number depends on the number of
 * sources alone. Their sums are added in order, so that the bits are the same for any number of devices. */
static int64_t shard_length(const struct fk_task *task) {
  const struct fk_cuda_cuts *cuts = &fk_costs.cuda_cuts;
  int64_t shards = fk_smaller(FK_CUDA_SHARDS, task->sources.n / cuts->shard_rows);
  bool few = task->targets.data && task->targets.n <= cuts->shard_targets && task->sources.data;
  bool plain = task->values == FK_VALUES_NONE && !task->exclude_self;
  return few && plain && shards > 1 ? fk_padded(fk_pieces(task->sources.n, shards), FK_TENSOR_FLUSH) : 0;
}

/* Sums shards first .. first + count - 1, each to its own result. */
static enum fk_status shards_range(struct fk_cuda_context *context, int64_t first, int64_t count, void *data,
                                   struct fk_cuda_progress *progress, double *seconds, struct fk_error *err) {
  struct shared_job *shared = (struct shared_job *)data;
  const struct fk_task *task = shared->task;
  int64_t m = task->targets.n, length = shard_length(task);
  for (int64_t shard = first; shard < first + count; shard++) {
    struct fk_task part = *task;
    struct shared_job own = *shared;
    struct fk_cuda_job job = {};
    struct fk_cuda_sources *kept = NULL;
    part.mass = shared->parts + shard * m;
    part.shift = NULL;
    part.logs = NULL;
    part.tail_pass = false;
    own.task = &part;
    job.context = context;
    job.progress = progress;
    job.seconds = seconds;
    init_job(&job, &own);
    job.source_begin = shard * length;
    job.source_end = fk_smaller(task->sources.n, job.source_begin + length);
    job.progress_per_pair = 1.0 / ((double)m * (double)(job.source_end - job.source_begin));
    if (is_kept(shared)) FK_TRY(fk_cuda_sources_of(task->op, context, (int)shard, &kept, err));
    FK_TRY(run_on(&job, kept, &own, 0, m, err));
    if (shard == 0) shared->method = own.method;
  }
  return FK_STATUS_OK;
}

/* Returns true if some sum has lost terms, and all must be computed by another method. */
static bool join_shards(const struct shared_job *shared, int64_t shards) {
  const struct fk_task *task = shared->task;
  int64_t m = task->targets.n;
  double lost =
      fk_lost_below(shared->opts->precision != FK_PRECISION_DOUBLE, task->sources.n, shared->weight_scale);
  bool any = false;
  for (int64_t j = 0; j < m; j++) {
    double sum = 0;
    for (int64_t s = 0; s < shards; s++) sum += shared->parts[s * m + j];
    task->mass[j] = sum;
    if (task->shift) task->shift[j] = 0;
    any |= task->tail_pass && !(fabs(sum) >= lost);
  }
  return any;
}

/* ---- all of them ------------------------------------------------------------------------------ */

const char *fk_cuda_precision_name(enum fk_precision precision) {
  return precision == FK_PRECISION_DOUBLE ? "double" : precision == FK_PRECISION_FAST ? "fast" : "single";
}

static enum fk_status scale_columns(const struct fk_task *task, int threads, double **scale,
                                    struct fk_error *err) {
  *scale = NULL;
  if (task->values != FK_VALUES_COLUMNS) return FK_STATUS_OK;
  *scale = (double *)malloc(sizeof **scale * (size_t)task->n_columns);
  if (!*scale) return fk_fail(err, FK_STATUS_ALLOC, "out of memory");
  int64_t n = task->sources.n;
  for (int64_t v = 0; v < task->n_columns; v++)
    (*scale)[v] = fk_largest_absolute(task->columns + v * n, n, threads);
  return FK_STATUS_OK;
}

/* Points that are on another device only, or that several devices need, come through the host. */
static enum fk_status bring_points(struct fk_task *task, struct fk_cuda_context *const *contexts, int count,
                                   int threads, struct fk_error *err) {
  struct fk_operator *op = task->op;
  if (!op || task->sources.data) return FK_STATUS_OK;
  bool there = count == 1 && fk_cuda_resident_data(contexts[0], task->sources.resident);
  return there ? FK_STATUS_OK : fk_operator_here(op, threads, task, err);
}

/* Makes the cache entries before the devices' threads ask for them. */
static enum fk_status keep_sources(const struct shared_job *shared, struct fk_cuda_context *const *contexts,
                                   int count, struct fk_error *err) {
  struct fk_cuda_sources *kept;
  for (int i = 0; i < count && is_kept(shared); i++)
    FK_TRY(fk_cuda_sources_of(shared->task->op, contexts[i], FK_CUDA_ALL, &kept, err));
  return FK_STATUS_OK;
}

/* *lost: some sums have lost terms. */
static enum fk_status sum_shards(struct shared_job *shared, struct fk_cuda_context **contexts, int count,
                                 double *seconds, bool *lost, struct fk_error *err) {
  const struct fk_task *task = shared->task;
  int64_t shards = fk_pieces(task->sources.n, shard_length(task));
  struct fk_cuda_work work = {shards, 1, &shared->opts->poll, shards_range, shared};
  fk_host_array<double> parts(shards * task->targets.n);
  shared->parts = parts.at;
  if (!parts.at) return fk_fail(err, FK_STATUS_ALLOC, "out of memory for sums of shards");
  FK_TRY(fk_cuda_on_devices(contexts, count, &work, seconds, err));
  *lost = join_shards(shared, shards);
  return FK_STATUS_OK;
}

/* Symmetric sums of points that move come first. */
static enum fk_status sum_pairs(struct shared_job *shared, struct fk_cuda_context **contexts, int count,
                                double *seconds, struct fk_error *err) {
  struct fk_pair_sums *pairs = &shared->pairs;
  if (!fk_pairs_begin(pairs, shared->task, shared->opts, contexts, count)) return FK_STATUS_OK;
  struct fk_cuda_work work = {pairs->plan.jobs, 1, &shared->opts->poll, sums_range, shared};
  FK_TRY(fk_cuda_on_devices(contexts, count, &work, seconds, err));
  pairs->phase = pairs->unfit ? FK_PAIRS_NONE : FK_PAIRS_THERE;
  return FK_STATUS_OK;
}

/* Sums over ordered points use one device: the blocks that a row skips depend on the rows beside it, which another
 * number of devices would change. Such sums are short. */
static enum fk_status devices_of(struct shared_job *shared, struct fk_cuda_context **contexts, int *count,
                                 double *seconds, struct fk_error *err) {
  struct fk_cuda_work look = {1, 1, &shared->opts->poll, sums_range, shared};
  if (*count == 1 || !fk_may_be_ordered(shared->task)) return FK_STATUS_OK;
  shared->looks = true;
  FK_TRY(fk_cuda_on_devices(contexts, 1, &look, seconds, err));
  shared->looks = false;
  if (shared->ordered) *count = 1;
  return FK_STATUS_OK;
}

static enum fk_status sum_on_devices(struct shared_job *shared, struct fk_cuda_context **contexts, int count,
                                     double *seconds, struct fk_error *err) {
  struct fk_cuda_work work = {fk_n_targets(shared->task), FK_TENSOR_ROWS, &shared->opts->poll, sums_range, shared};
  bool lost = true;
  FK_TRY(devices_of(shared, contexts, &count, seconds, err));
  if (shared->A) FK_TRY(sum_pairs(shared, contexts, count, seconds, err));
  if (!shared->A && shard_length(shared->task)) FK_TRY(sum_shards(shared, contexts, count, seconds, &lost, err));
  return lost ? fk_cuda_on_devices(contexts, count, &work, seconds, err) : FK_STATUS_OK;
}

static enum fk_status run_shared(struct shared_job *shared, struct fk_cuda_context **contexts, int count,
                                 struct fk_stats *stats, struct fk_error *err) {
  const struct fk_task *task = shared->task;
  const struct fk_opts *opts = shared->opts;
  int64_t n = task->sources.n;
  struct fk_resident *residents[] = {task->sources.resident, task->targets.resident};
  shared->weight_scale = task->weights ? fk_largest_absolute(task->weights, n, opts->threads) : 1;
  FK_TRY(scale_columns(task, opts->threads, &shared->column_scale, err));
  for (struct fk_resident *points : residents)
    if (points) points->busy = true;
  enum fk_status status = keep_sources(shared, contexts, count, err);
  if (!status) status = sum_on_devices(shared, contexts, count, &stats->device_seconds, err);
  fk_pairs_end(&shared->pairs, contexts, count);
  for (struct fk_resident *points : residents) {
    if (points) points->busy = false;
    if (points && points->borrowed) fk_resident_leave(points); /* what is summed is whitened now */
  }
  fk_cuda_keep_all_within(contexts, count, opts);
  free(shared->column_scale);
  FK_TRY(status);
  const char *methods[] = {"difference", "difference", "mma", shared->ordered ? "wgmma, lists" : "wgmma", "dmma"};
  bool stationary = fk_kernel_is_stationary(&task->kernel),
       in_double = shared->method == FK_METHOD_DOUBLE || shared->method == FK_METHOD_DMMA;
  fk_cuda_describe(stats, contexts, count, stationary ? methods[shared->method] : "product",
                   in_double ? "double" : fk_cuda_precision_name(opts->precision));
  for (int i = 0; i < FK_MAX_DEVICES; i++) stats->tail_rows += shared->tail_rows[i];
  stats->pairs += (double)n * (double)fk_n_targets(task);
  return FK_STATUS_OK;
}

/* Logarithms take the host 6 ns each; a kernel for them takes 5 us. */
enum { LOGS_LEAST = 2048 };

enum fk_status fk_cuda_exact_sums(const struct fk_task *task, const struct fk_opts *opts, struct fk_stats *stats,
                                  struct fk_error *err) {
  struct fk_cuda_context *contexts[FK_MAX_DEVICES];
  struct fk_task own = *task;
  struct shared_job shared = {&own, opts};
  double start = fk_seconds();
  int count;
  if (opts->precision == FK_PRECISION_DOUBLE || fk_n_targets(task) < LOGS_LEAST) own.logs = NULL;
  FK_TRY(fk_cuda_contexts(opts, contexts, &count, err));
  FK_TRY(bring_points(&own, contexts, count, opts->threads, err));
  enum fk_status status = run_shared(&shared, contexts, count, stats, err);
  if (status == FK_STATUS_UNSUPPORTED && own.op) { /* the points do not fit: sum by chunks, from the host */
    *err = (struct fk_error){FK_STATUS_OK, ""};
    FK_TRY(fk_operator_here(own.op, opts->threads, &own, err));
    status = run_shared(&shared, contexts, count, stats, err);
  }
  FK_TRY(status);
  if (shared.relative) *task->relative = true;
  if (shared.logs) *task->logs = true;
  if (opts->precision == FK_PRECISION_DOUBLE && own.sources.data)
    FK_TRY(fk_redo_lost_sums(&own, &fk_engine_exact_cuda, opts, stats, err));
  stats->seconds += fk_seconds() - start;
  return FK_STATUS_OK;
}

/* For points that fit into memory. With one device they stay there. */
enum fk_status fk_cuda_exact_shift(const struct fk_task *task, const double *A, const struct fk_opts *opts,
                                   struct fk_resident **moved, struct fk_stats *stats, struct fk_error *err) {
  struct fk_cuda_context *contexts[FK_MAX_DEVICES];
  struct fk_task own = *task;
  struct shared_job shared = {&own, opts};
  double start = fk_seconds();
  int count;
  FK_TRY(fk_cuda_contexts(opts, contexts, &count, err));
  shared.A = A;
  FK_TRY(bring_points(&own, contexts, count, opts->threads, err));
  if (count > 1) {
    shared.moved = fk_resident_on_host(task->sources.n, task->sources.d, &shared.host, err);
    if (!shared.moved) return err->status;
  }
  enum fk_status status = run_shared(&shared, contexts, count, stats, err);
  if (status) fk_resident_free(shared.moved);
  if (status == FK_STATUS_UNSUPPORTED) *err = (struct fk_error){FK_STATUS_OK, ""};
  FK_TRY(status);
  *moved = shared.moved;
  stats->seconds += fk_seconds() - start;
  return FK_STATUS_OK;
}
