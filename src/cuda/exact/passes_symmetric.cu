/* Symmetric sums by pairs of tiles: the jobs of a device, the sums of all devices, and a chunk's part of them. */
#include "job.cuh"

/* Returns whether the task is summed by pairs. This does not depend on the number of devices, so that results are
 * identical for any number. */
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
  pairs->phase = FK_PAIRS_SUMMED;
  return true;
}

void fk_pairs_end(struct fk_pair_sums *pairs, struct fk_cuda_context *const *contexts, int count) {
  for (int i = 0; i < count; i++) fk_cuda_drop(contexts[i], &pairs->sums[contexts[i]->device]);
  pairs->phase = FK_PAIRS_NONE;
}

/* ---- jobs ------------------------------------------------------------------------------------- */

static enum fk_status run_jobs(struct fk_cuda_job *job, struct fk_pair_sums *pairs, const struct fk_tensor_task *t,
                               int64_t first, int64_t count, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const struct fk_symmetric_plan *plan = &pairs->plan;
  const struct fk_exact_cuda_costs *c = &fk_costs.exact_cuda;
  int64_t numbers = fk_symmetric_numbers(plan->n_pad);
  unsigned long long *sums;
  char *packed;
  FK_TRY(fk_cuda_room(context, &pairs->sums[context->device], numbers, &sums, err));
  FK_TRY(fk_job_room(job, FK_ROOM_PARTIALS, (int64_t)fk_symmetric_pack_bytes(t, plan), &packed, err));
  FK_CUDA_TRY(cudaMemsetAsync(sums, 0, sizeof *sums * (size_t)numbers, context->stream));
  FK_CUDA_TRY(fk_symmetric_pack(t, plan, packed, context->stream));
  double pairs_of_job = (double)plan->run * plan->strip * plan->strip;
  int64_t at_once = fk_larger((int64_t)(c->launch * c->tensor / pairs_of_job), 1);
  for (int64_t at = first; at < first + count; at += at_once) {
    int64_t here = fk_smaller(at_once, first + count - at);
    FK_CUDA_TRY(fk_symmetric_launch(t, plan, packed, at, here, sums, context->stream));
    FK_TRY(fk_cuda_tick(job->progress, context, (double)here, err));
  }
  return FK_STATUS_OK;
}

/* Do the points and the device's memory allow symmetric sums? */
static bool is_fit(const struct fk_cuda_job *job, const struct fk_symmetric_plan *plan,
                   const struct fk_cuda_packed *packed) {
  const struct fk_tensor_task *t = &packed->tensor;
  double bytes = 8.0 * (double)fk_symmetric_numbers(plan->n_pad) + (double)fk_symmetric_pack_bytes(t, plan);
  return packed->method == FK_METHOD_WGMMA && fk_symmetric_supports(t) && bytes <= job->partial_bytes;
}

enum fk_status fk_job_sum_pairs(struct fk_cuda_job *job, struct fk_pair_sums *pairs, int64_t first, int64_t count,
                                struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  struct fk_pass_view view = {FK_PASS_SUMS, job->sources};
  struct fk_cuda_packed packed;
  FK_TRY(fk_job_fetch_sources(job, job->source_begin, err));
  FK_CUDA_TRY(cudaEventRecord(context->begin, context->stream));
  FK_TRY(fk_job_whiten_sources(job, job->source_begin, &view.way, err));
  bool whole = job->source_chunk >= job->source_end && !view.way.framed && !view.way.ordered;
  bool fit = whole && fk_on_tensor_cores(view.way.method);
  if (fit) FK_TRY(fk_job_pack_sources(job, view, 0, &packed, err));
  fit = fit && is_fit(job, &pairs->plan, &packed);
  if (!fit) __atomic_store_n(&pairs->unfit, 1, __ATOMIC_RELAXED);
  if (fit) FK_TRY(run_jobs(job, pairs, &packed.tensor, first, count, err));
  FK_CUDA_TRY(cudaEventRecord(context->end, context->stream));
  return fk_cuda_elapsed(context, job->seconds, err);
}

/* ---- results ---------------------------------------------------------------------------------- */

/* Rows of a chunk, which begins at a multiple of 16. */
struct taken_rows {
  const unsigned long long *sums;
  struct fk_tensor_points points; /* first row first, like u */
  const double *u;
  int64_t ld_u, rows, ld_result;
  int d;
  bool coarse;
  double unit, scale; /* unit: of the integer sums; scale: of the packed coordinates */
  double *result;
};

static __device__ __forceinline__ double sum_at(const struct taken_rows &t, int64_t row, int number, int lane) {
  const unsigned long long *of16 = t.sums + row / FK_SYMMETRIC_ROWS * FK_SYMMETRIC_SUMS;
  return (double)(long long)of16[number * 32 + row % 8 * 4 + lane] * t.unit;
}

/* Restores what rounding took off the norm in the offset. If coordinates were summed without low parts, adds the
 * row's own, as in fk_finish_own_low(). */
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

static __global__ void add_kernel(unsigned long long *to, const unsigned long long *from, int64_t n) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] += from[i];
}

/* Sets *sums to the total over all devices, of `numbers` sums from `first` on. The sums of each device do not
 * change. */
static enum fk_status sums_of_all(struct fk_cuda_job *job, int64_t first, int64_t numbers,
                                  const unsigned long long **sums, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const struct fk_cuda_buffer *of = job->pairs->sums;
  const size_t bytes = sizeof **sums * (size_t)numbers;
  unsigned long long *total = NULL;
  *sums = (const unsigned long long *)of[context->device].data + first;
  for (int i = 0; i < FK_MAX_DEVICES; i++) {
    if (i == context->device || !of[i].data) continue;
    if (!total) {
      FK_TRY(fk_job_room(job, FK_ROOM_PARTIALS, 2 * numbers, &total, err));
      FK_CUDA_TRY(cudaMemcpyAsync(total, *sums, bytes, cudaMemcpyDeviceToDevice, context->stream));
      *sums = total;
    }
    const unsigned long long *there = (const unsigned long long *)of[i].data + first;
    FK_CUDA_TRY(cudaMemcpyPeerAsync(total + numbers, context->device, there, i, bytes, context->stream));
    add_kernel<<<fk_blocks(numbers, 256), 256, 0, context->stream>>>(total, total + numbers, numbers);
    FK_CUDA_TRY(cudaGetLastError());
  }
  return FK_STATUS_OK;
}

enum fk_status fk_job_take_pairs(struct fk_cuda_job *job, const struct fk_pass_view view, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  struct fk_pair_sums *pairs = job->pairs;
  struct fk_cuda_packed packed;
  int64_t first = job->chunk.first, rows = view.targets.n;
  int64_t before = fk_symmetric_numbers(first), numbers = fk_symmetric_numbers(fk_padded(rows, FK_SYMMETRIC_ROWS));
  FK_TRY(fk_job_pack_sources(job, view, 0, &packed, err));
  struct taken_rows t = {};
  FK_TRY(sums_of_all(job, before, numbers, &t.sums, err));
  const struct fk_tensor_points *x = &packed.tensor.cols;
  t.points = {x->hi + first * x->k, x->lo + first * x->k, x->offset + first, rows, rows, x->k};
  t.u = view.sources->points.u + first, t.ld_u = view.sources->points.ld;
  t.rows = rows, t.ld_result = view.ld_result, t.d = view.sources->points.d, t.coarse = packed.tensor.coarse;
  t.unit = 1 / (pairs->plan.unit * (1 << FK_TENSOR_RAISE)), t.scale = view.way.grid.scale, t.result = view.result;
  take_kernel<<<fk_blocks(rows, 128), 128, 0, context->stream>>>(t);
  return FK_CUDA_STATUS(cudaGetLastError());
}
