/* Points at themselves by pairs of tiles: the jobs of a device, the sums of all, and what of them a chunk takes.
 */
#include <stdlib.h>

#include "job.cuh"

/* Of the same devices whatever their number, the same tasks. */
bool fk_pairs_begin(struct fk_pair_sums *pairs, const struct fk_task *task, const struct fk_opts *opts,
                    struct fk_cuda_context *const *contexts, int count) {
  struct fk_kernel_form form = fk_task_form(task);
  bool single =
      opts->precision != FK_PRECISION_DOUBLE && form.type == FK_FORM_GAUSSIAN && fk_is_plain(form.factor);
  bool themselves = !task->targets.data && !task->exclude_self && !task->weights;
  if (task->sources.d > 16 || !single || !themselves || !task->rounded || task->values != FK_VALUES_COORDINATES)
    return false;
  for (int i = 0; i < count; i++)
    if (contexts[i]->capability != 90) return false;
  pairs->plan = fk_symmetric_plan_of(task->sources.n, opts->precision == FK_PRECISION_FAST);
  if ((double)pairs->plan.strips < fk_costs.exact_cuda.symmetric_strips) return false;
  if (count > 1) {
    pairs->host = (int64_t *)calloc((size_t)fk_symmetric_numbers(pairs->plan.n_pad), sizeof *pairs->host);
    if (!pairs->host) return false; /* the other way takes less */
    pthread_mutex_init(&pairs->lock, NULL);
  }
  pairs->phase = FK_PAIRS_SUMMED;
  return true;
}

void fk_pairs_end(struct fk_pair_sums *pairs, struct fk_cuda_context *const *contexts, int count) {
  for (int i = 0; i < count; i++) fk_cuda_drop(contexts[i], &pairs->sums[contexts[i]->device]);
  if (pairs->host) pthread_mutex_destroy(&pairs->lock);
  free(pairs->host);
  pairs->host = NULL;
  pairs->phase = FK_PAIRS_NONE;
}

/* ---- jobs ------------------------------------------------------------------------------------- */

/* Packs the sources, and finds whether they and the device allow it. */
static enum fk_status look_at_sources(struct fk_cuda_job *job, const struct fk_symmetric_plan *plan, bool *fit,
                                      struct fk_error *err) {
  *fit = false;
  bool whole = job->source_chunk >= job->source_end && !job->by_frames && !job->ordered;
  if (!whole || !fk_on_tensor_cores(job->method)) return FK_STATUS_OK;
  FK_TRY(fk_job_pack_sources(job, true, err));
  const struct fk_tensor_task *t = &job->tensor;
  double bytes = 8.0 * (double)fk_symmetric_numbers(plan->n_pad) + (double)fk_symmetric_pack_bytes(t, plan);
  *fit = job->method == FK_METHOD_WGMMA && fk_symmetric_supports(t) && bytes <= job->partial_bytes;
  return FK_STATUS_OK;
}

static enum fk_status run_jobs(struct fk_cuda_job *job, struct fk_pair_sums *pairs, int64_t first, int64_t count,
                               struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const struct fk_symmetric_plan *plan = &pairs->plan;
  const struct fk_tensor_task *t = &job->tensor;
  const struct fk_exact_cuda_costs *c = &fk_costs.exact_cuda;
  int64_t numbers = fk_symmetric_numbers(plan->n_pad);
  unsigned long long *sums;
  FK_TRY(fk_cuda_room(context, &pairs->sums[context->device], numbers, &sums, err));
  FK_TRY(fk_cuda_reserve(context, &job->partial_buffer, fk_symmetric_pack_bytes(t, plan), err));
  FK_CUDA_TRY(cudaMemsetAsync(sums, 0, sizeof *sums * (size_t)numbers, context->stream));
  FK_CUDA_TRY(fk_symmetric_pack(t, plan, job->partial_buffer.data, context->stream));
  double pairs_of_job = (double)plan->run * plan->strip * plan->strip;
  int64_t at_once = fk_larger((int64_t)(c->launch * c->tensor / pairs_of_job), 1);
  for (int64_t at = first; at < first + count; at += at_once) {
    int64_t here = fk_smaller(at_once, first + count - at);
    FK_CUDA_TRY(fk_symmetric_launch(t, plan, job->partial_buffer.data, at, here, sums, context->stream));
    FK_TRY(fk_cuda_tick(job->progress, context, (double)here, err));
  }
  return FK_STATUS_OK;
}

/* A device's sums to those of all. */
static enum fk_status add_on_host(struct fk_cuda_job *job, struct fk_pair_sums *pairs, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  int64_t numbers = fk_symmetric_numbers(pairs->plan.n_pad);
  const double *there = (const double *)pairs->sums[context->device].data;
  int64_t *own = (int64_t *)malloc(sizeof *own * (size_t)numbers);
  if (!own)
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for a device's sums", 8e-6 * (double)numbers);
  enum fk_status status = fk_cuda_download(context, there, numbers, fk_all_rows(numbers, 1), (double *)own, err);
  if (!status) {
    pthread_mutex_lock(&pairs->lock);
    for (int64_t i = 0; i < numbers; i++) pairs->host[i] += own[i];
    pthread_mutex_unlock(&pairs->lock);
  }
  free(own);
  return status;
}

enum fk_status fk_job_sum_pairs(struct fk_cuda_job *job, struct fk_pair_sums *pairs, int64_t first, int64_t count,
                                struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  bool fit;
  FK_TRY(fk_job_fetch_sources(job, job->source_begin, err));
  FK_CUDA_TRY(cudaEventRecord(context->begin, context->stream));
  FK_TRY(fk_job_whiten_sources(job, job->source_begin, err));
  FK_TRY(look_at_sources(job, &pairs->plan, &fit, err));
  if (!fit) __atomic_store_n(&pairs->unfit, 1, __ATOMIC_RELAXED);
  if (fit) FK_TRY(run_jobs(job, pairs, first, count, err));
  FK_CUDA_TRY(cudaEventRecord(context->end, context->stream));
  FK_TRY(fk_cuda_elapsed(context, job->seconds, err));
  return fit && pairs->host ? add_on_host(job, pairs, err) : FK_STATUS_OK;
}

/* ---- results ---------------------------------------------------------------------------------- */

/* Rows of a chunk, the first of which begins 16. */
struct taken_rows {
  const unsigned long long *sums;
  struct fk_tensor_points points; /* from the first on, as u is */
  const double *u;
  int64_t ld_u, rows, ld_result;
  int d;
  bool coarse;
  double unit, scale; /* of sums; of coordinates */
  double *result;
};

static __device__ __forceinline__ double sum_at(const struct taken_rows &t, int64_t row, int number, int lane) {
  const unsigned long long *of16 = t.sums + row / FK_SYMMETRIC_ROWS * FK_SYMMETRIC_SUMS;
  return (double)(long long)of16[number * 32 + row % 8 * 4 + lane] * t.unit;
}

/* What rounding took off the norm in the offset is put back; of coordinates that were summed without their low
 * parts, the row's own stands for all, as in fk_finish_own_low(). */
static __global__ void take_kernel(const struct taken_rows t) {
  int64_t r = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= t.rows) return;
  const __half *hi = t.points.hi + r * t.points.k, *lo = t.points.lo + r * t.points.k;
  int second = r % FK_SYMMETRIC_ROWS / 8;
  double square = 0;
  for (int k = 0; k < t.d; k++) {
    double x = (double)__half2float(hi[k]) + (double)__half2float(lo[k]);
    square += x * x;
  }
  double undo = exp2(-square / 2 - (double)t.points.offset[r]), mass = undo * sum_at(t, r, 8, 2 + second);
  t.result[r] = mass;
  for (int k = 0; k < t.d; k++) {
    double own_low = t.coarse ? t.u[k * t.ld_u + r] - (double)__half2float(hi[k]) / t.scale : 0;
    double sum = undo * sum_at(t, r, k / 8 * 4 + 2 * second + k % 2, k % 8 / 2);
    t.result[(k + 1) * t.ld_result + r] = sum / t.scale + mass * own_low;
  }
}

enum fk_status fk_job_take_pairs(struct fk_cuda_job *job, double *result, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  struct fk_pair_sums *pairs = job->pairs;
  struct fk_cuda_buffer *there = &pairs->sums[context->device];
  int64_t first = job->target_first, rows = job->targets.n;
  int64_t before = fk_symmetric_numbers(first), numbers = fk_symmetric_numbers(fk_padded(rows, FK_SYMMETRIC_ROWS));
  FK_TRY(fk_job_pack_sources(job, true, err));
  if (pairs->host) {
    double *room;
    struct fk_matrix from = fk_doubles((const double *)pairs->host + before, numbers, 1);
    FK_TRY(fk_cuda_room(context, there, numbers, &room, err));
    FK_TRY(fk_cuda_upload(context, from, room, numbers, err));
  }
  const struct fk_tensor_points *x = &job->tensor.cols;
  struct taken_rows t = {(const unsigned long long *)there->data + (pairs->host ? 0 : before)};
  t.points = {x->hi + first * x->k, x->lo + first * x->k, x->offset + first, rows, rows, x->k};
  t.u = job->sources->points.u + first, t.ld_u = job->sources->points.ld;
  t.rows = rows, t.ld_result = job->ld_result, t.d = job->sources->points.d, t.coarse = job->tensor.coarse;
  t.unit = 1 / (pairs->plan.unit * (1 << FK_TENSOR_RAISE)), t.scale = job->grid.scale, t.result = result;
  take_kernel<<<fk_blocks(rows, 128), 128, 0, context->stream>>>(t);
  FK_CUDA_TRY(cudaGetLastError());
  return FK_STATUS_OK;
}
