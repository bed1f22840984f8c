/* Targets of a job: sent, or picked by index for rows in the tails, and packed like the sources. */
#include <math.h>
#include <stdlib.h>

#include "../device/resident.cuh"
#include "job.cuh"

/* Sends rows that are picked by index, such as those in the tails: their indices and their points. */
static enum fk_status send_rows(struct fk_cuda_job *job, int64_t count, struct fk_error *err) {
  const int64_t *rows = job->rows + job->chunk.first;
  double *self;
  FK_TRY(fk_cuda_send(job->context, &job->rooms[FK_ROOM_SELF], fk_doubles((const double *)rows, count, 1), &self,
                      err));
  job->chunk.self = (int64_t *)self;
  return FK_STATUS_OK;
}

static enum fk_status send_targets(struct fk_cuda_job *job, struct fk_matrix y, struct fk_error *err) {
  double *raw;
  FK_TRY(fk_cuda_send(job->context, &job->rooms[FK_ROOM_RAW], y, &raw, err));
  job->chunk.raw = raw;
  job->chunk.ld_raw = y.n;
  return FK_STATUS_OK;
}

static enum fk_status send_picked(struct fk_cuda_job *job, const struct fk_matrix *y, int64_t count,
                                  struct fk_error *err) {
  const int64_t *rows = job->rows + job->chunk.first;
  fk_host_array<double> gathered(count * y->d);
  if (!gathered.at)
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for points in the tails",
                   8e-6 * (double)(count * y->d));
  fk_gather(y, rows, count, gathered.at, count);
  return send_targets(job, fk_doubles(gathered.at, count, y->d), err);
}

/* If targets are the sources, they are on the device already, whitened. */
static bool are_there(const struct fk_cuda_job *job) {
  return !job->task->targets.data && job->source_chunk >= job->task->sources.n;
}
static bool are_sources(const struct fk_cuda_job *job) {
  return are_there(job) && !job->rows && job->chunk.targets.n == job->sources->points.n;
}

enum fk_status fk_job_fetch_targets(struct fk_cuda_job *job, int64_t first, int64_t count, struct fk_error *err) {
  const struct fk_matrix *y = fk_task_targets(job->task);
  struct fk_job_chunk *chunk = &job->chunk;
  const double *there = fk_cuda_resident_data(job->context, y->resident);
  chunk->first = first;
  chunk->frames_known = chunk->order_known = chunk->by_places = false;
  chunk->targets = (struct fk_cuda_points){NULL, count, fk_padded(count, FK_TENSOR_ROWS), (int)y->d};
  if (job->rows) FK_TRY(send_rows(job, count, err));
  if (are_there(job)) return FK_STATUS_OK;
  if (job->rows) return send_picked(job, y, count, err);
  if (!there) return send_targets(job, fk_part(y, first, count, 0, y->d), err);
  chunk->raw = there + first;
  chunk->ld_raw = y->n;
  return FK_STATUS_OK;
}

static __global__ void pick_kernel(const struct fk_cuda_points from, const int64_t *rows, int64_t first,
                                   struct fk_cuda_points to) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= to.ld) return;
  int64_t row = i >= to.n ? 0 : rows ? rows[i] : first + i;
  for (int k = blockIdx.y; k < to.d; k += gridDim.y)
    to.u[k * to.ld + i] = i < to.n ? from.u[k * from.ld + row] : 0;
}

static enum fk_status pick_targets(const struct fk_cuda_job *job, const struct fk_cuda_points *from,
                                   const struct fk_cuda_points *to, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  dim3 grid(fk_blocks(to->ld, 256), (unsigned)fk_smaller(to->d, 64));
  pick_kernel<<<grid, 256, 0, context->stream>>>(*from, job->chunk.self, job->chunk.first, *to);
  return FK_CUDA_STATUS(cudaGetLastError());
}

enum fk_status fk_job_whiten_targets(struct fk_cuda_job *job, struct fk_error *err) {
  struct fk_cuda_points *y = &job->chunk.targets;
  const struct fk_cuda_points *x = &job->sources->points;
  const bool all = are_sources(job);
  job->chunk.by_places = job->ordered && job->task->exclude_self && !job->rows && y->n < x->n;
  if (job->chunk.by_places) x = &job->sources->in_order->points;
  y->u = x->u;
  if (all) return FK_STATUS_OK;
  FK_TRY(fk_job_whitening(job, err));
  FK_TRY(fk_job_room(job, FK_ROOM_WHITE, y->ld * y->d, &y->u, err));
  if (are_there(job)) return pick_targets(job, x, y, err);
  return fk_cuda_whiten(job->context, &job->sources->whitening, job->chunk.raw, job->chunk.ld_raw, y, err);
}

/* With low parts of the sources: computed once for all passes; their packed form comes behind them. */
enum fk_status fk_job_find_targets_low(struct fk_cuda_job *job, struct fk_error *err) {
  struct fk_cuda_points *y = &job->chunk.targets, from = job->sources->points, to = *y;
  double *low;
  if (y->low) return FK_STATUS_OK;
  FK_TRY(fk_job_room(job, FK_ROOM_LOW, 2 * y->ld * y->d, &low, err));
  y->low = are_sources(job) ? from.low : low;
  if (are_sources(job)) return FK_STATUS_OK;
  if (!are_there(job))
    return fk_cuda_whiten_low(job->context, &job->sources->whitening, job->chunk.raw, job->chunk.ld_raw, y, err);
  from.u = from.low;
  to.u = low;
  return pick_targets(job, &from, &to, err);
}

static enum fk_status pack_low(struct fk_cuda_job *job, const struct fk_cuda_points *y,
                               struct fk_cuda_packed *packed, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const int64_t numbers = y->ld * y->d;
  double *low;
  FK_TRY(fk_job_room(job, FK_ROOM_LOW, 2 * numbers, &low, err));
  FK_CUDA_TRY(fk_fma_pack_low(y->u, y->low, numbers, job->form.scale, low + numbers, context->stream));
  packed->f64.rows_low = low + numbers;
  return FK_STATUS_OK;
}

template <typename T>
static enum fk_status pack_fma(struct fk_cuda_job *job, const struct fk_pass_view view, struct fk_fma_task<T> *f,
                               struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const struct fk_cuda_points *y = &view.targets;
  T *data;
  FK_TRY(fk_job_room(job, FK_ROOM_PACKED, y->ld * y->d, &data, err));
  FK_CUDA_TRY(fk_fma_pack(y->u, y->ld * y->d, job->form.scale, data, context->stream));
  f->rows = data;
  f->ld_rows = y->ld;
  f->exclude_self = job->task->exclude_self;
  f->self = view.self;
  f->self_offset = job->chunk.first;
  return FK_STATUS_OK;
}

/* Row r is column r + the returned number. */
static int64_t own_column(const struct fk_cuda_job *job, const struct fk_pass_view view, int64_t none) {
  return job->task->exclude_self ? job->chunk.first - view.sources->first : none;
}

static enum fk_status pack_dmma(struct fk_cuda_job *job, const struct fk_pass_view view,
                                struct fk_cuda_packed *packed, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const struct fk_cuda_points *y = &view.targets;
  struct fk_dmma_task *t = &packed->dmma;
  const int k = t->cols.k;
  double *data;
  FK_TRY(fk_job_room(job, FK_ROOM_PACKED, y->ld * (8 * k + 2), &data, err));
  FK_TRY(fk_job_room(job, FK_ROOM_UNDO, y->ld, &packed->undo, err));
  t->rows = (struct fk_dmma_points){data, y->ld, k};
  double *magic = data + y->ld * 8 * k, *norm = fk_is_plain(t->factor) ? NULL : magic + y->ld;
  struct fk_dmma_rows to = {t->rows, magic, norm, packed->undo};
  FK_CUDA_TRY(fk_dmma_pack_rows(y, &to, context->stream));
  t->magic = magic;
  t->norm = norm;
  t->self = own_column(job, view, INT64_MIN / 2);
  return FK_STATUS_OK;
}

/* Weights are mantissas of at least 1/2. */
int fk_job_raise(const struct fk_cuda_job *job, const struct fk_cuda_sources *s, bool values) {
  if (!values) return 0;
  int raise = s->weights ? FK_TENSOR_RAISE - 1 : FK_TENSOR_RAISE;
  double factor = fk_job_uses_factor(job, values) ? fabs(job->form.factor[0]) : 1;
  return raise - (int)ceil(log2(fmax(1, factor)));
}

static enum fk_status pack_tensor(struct fk_cuda_job *job, const struct fk_pass_view view,
                                  struct fk_cuda_packed *packed, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const struct fk_cuda_points *y = &view.targets;
  struct fk_tensor_task *t = &packed->tensor;
  bool wgmma = packed->method == FK_METHOD_WGMMA, high = wgmma && fk_wgmma_has_high_rows(t);
  struct fk_tensor_pack pack = {view.way.grid, NULL, 1, false, t->coarse, high, false};
  const bool values = fk_pass_has_values(job, view), raised = values && !view.way.by_matrix;
  bool factor = fk_job_uses_factor(job, values);
  char *block;
  FK_TRY(fk_job_room(job, FK_ROOM_PACKED, y->ld * (4 * t->cols.k + 8) + 4 * 256, &block, err));
  FK_TRY(fk_job_room(job, FK_ROOM_UNDO, y->ld, &packed->undo, err));
  struct carver c = {block};
  __half *hi = carve<__half>(&c, y->ld * t->cols.k), *lo = carve<__half>(&c, y->ld * t->cols.k);
  float *offset = carve<float>(&c, y->ld), *factor0 = factor ? carve<float>(&c, y->ld) : NULL;
  struct fk_tensor_rows to = {hi, lo, offset, factor0, packed->undo, y->ld, t->cols.k};
  to.mass = raised ? view.mass : NULL;
  to.shift = fk_job_raise(job, view.sources, raised);
  for (int i = 0; i < 2; i++) to.factor[i] = job->form.factor[i];
  FK_CUDA_TRY(fk_tensor_pack_rows(y, &pack, &to, context->stream));
  t->rows = (struct fk_tensor_points){hi, lo, offset, y->n, y->ld, t->cols.k};
  t->factor0 = factor0;
  t->self = own_column(job, view, INT64_MIN);
  size_t bytes = wgmma ? fk_wgmma_row_bytes(t) : 0;
  if (bytes == 0) return FK_STATUS_OK;
  char *stages;
  FK_TRY(fk_job_room(job, FK_ROOM_STAGES, (int64_t)bytes, &stages, err));
  FK_CUDA_TRY(fk_wgmma_pack_rows(t, stages, context->stream));
  t->row_stages = stages;
  return FK_STATUS_OK;
}

enum fk_status fk_job_pack_targets(struct fk_cuda_job *job, const struct fk_pass_view view,
                                   struct fk_cuda_packed *packed, struct fk_error *err) {
  if (view.way.doubled) FK_TRY(pack_low(job, &view.targets, packed, err));
  switch (packed->method) {
    case FK_METHOD_DOUBLE: return pack_fma(job, view, &packed->f64, err);
    case FK_METHOD_SINGLE: return pack_fma(job, view, &packed->f32, err);
    case FK_METHOD_DMMA: return pack_dmma(job, view, packed, err);
    default: return pack_tensor(job, view, packed, err);
  }
}
