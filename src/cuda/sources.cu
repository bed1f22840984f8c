/* Sources of a job: sent, whitened, and packed for the method that their extent allows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "job.cuh"

enum fk_status fk_job_fetch_sources(struct fk_cuda_job *job, int64_t first, struct fk_error *err) {
  const struct fk_points *x = &job->task->sources;
  struct fk_cuda_context *context = job->context;
  int64_t count = fk_smaller(job->source_chunk, x->n - first);
  if (job->source_first == first) return FK_STATUS_OK;
  job->source_first = -1;
  job->whitened = false;
  job->sources.n = count;
  job->sources.ld = fk_padded(count, FK_TENSOR_ROWS); /* as that of targets */
  job->ld_raw = job->resident ? x->n : count;
  job->raw = job->resident ? job->resident + first : NULL;
  if (!job->resident) {
    double *raw;
    FK_TRY(fk_cuda_array(context, FK_SLOT_RAW_SOURCES, count * x->d, &raw, err));
    FK_TRY(fk_cuda_upload(context, x->data, x->n, x->d, first, count, raw, count, err));
    job->raw = raw;
  }
  job->weights = job->resident_weights ? job->resident_weights + first : NULL;
  if (job->task->weights && !job->resident_weights) {
    double *weights;
    FK_TRY(fk_cuda_array(context, FK_SLOT_WEIGHTS, count, &weights, err));
    FK_TRY(fk_cuda_upload(context, job->task->weights, x->n, 1, first, count, weights, count, err));
    job->weights = weights;
  }
  if (job->task->values == FK_VALUES_COLUMNS) {
    double *columns;
    FK_TRY(fk_cuda_array(context, FK_SLOT_COLUMNS, job->sources.ld * job->n_values, &columns, err));
    FK_CUDA_TRY(cudaMemsetAsync(columns, 0, sizeof(double) * (size_t)(job->sources.ld * job->n_values),
                                context->stream)); /* the padding, too */
    FK_TRY(fk_cuda_upload(context, job->task->columns, x->n, job->n_values, first, count, columns, job->sources.ld,
                          err));
    FK_CUDA_TRY(fk_finish_scale(columns, job->n_values, job->sources.ld, count, 1, job->column_scale, true,
                                context->stream));
  }
  job->source_first = first;
  return FK_STATUS_OK;
}

/* Tests run the methods of older cards: FLASHKERNEL_CUDA_METHOD is "mma" or "difference". */
static bool is_lowered_to(const char *method) {
  const char *wish = getenv("FLASHKERNEL_CUDA_METHOD");
  return wish && strcmp(wish, method) == 0;
}

/* What a chunk's points allow. */
static enum fk_status choose_method(struct fk_cuda_job *job, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  double radius2 = 0;
  int parts;
  job->method = FK_METHOD_DOUBLE;
  if (job->in_double || job->precision == FK_PRECISION_DOUBLE) return FK_STATUS_OK;
  FK_TRY(fk_cuda_radius2(context, &job->sources, &parts, err));
  FK_CUDA_TRY(cudaEventRecord(context->end, context->stream)); /* the device waits for the choice: not its time */
  FK_CUDA_TRY(cudaStreamSynchronize(context->stream));
  for (int i = 0; i < parts; i++) radius2 = fmax(radius2, ((double *)context->staging[0])[i]);
  FK_TRY(fk_cuda_elapsed(context, job->seconds, err));
  FK_CUDA_TRY(cudaEventRecord(context->begin, context->stream));
  bool tensor = context->capability >= 80 && job->form.type == FK_FORM_GAUSSIAN && job->form.factor[2] == 0 &&
                !is_lowered_to("difference") &&
                fk_tensor_grid_choose(radius2, job->sources.d, job->precision != FK_PRECISION_FAST, &job->grid);
  if (tensor)
    job->method = FK_METHOD_MMA;
  else if (radius2 <= DIFFERENCE_LIMIT_SINGLE)
    job->method = FK_METHOD_SINGLE;
  return FK_STATUS_OK;
}

template <typename T>
static enum fk_status pack_fma(struct fk_cuda_job *job, struct fk_fma_task<T> *f, bool values,
                               struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const struct fk_cuda_points *x = &job->sources;
  bool columns = values && job->task->values == FK_VALUES_COLUMNS;
  double scale = job->form.scale;
  T *data;
  int64_t numbers = x->ld * x->d;
  FK_TRY(fk_cuda_array(context, FK_SLOT_PACKED_SOURCES, numbers + x->ld * (1 + (columns ? job->n_values : 0)),
                       &data, err));
  T *weight = data + numbers, *packed = weight + x->ld;
  *f = (struct fk_fma_task<T>){};
  f->form = job->form.type;
  FK_CUDA_TRY(fk_fma_pack(x->u, numbers, scale, data, context->stream));
  if (job->weights) FK_CUDA_TRY(fk_fma_pack(job->weights, x->n, 1 / job->weight_scale, weight, context->stream));
  if (columns)
    FK_CUDA_TRY(fk_fma_pack((double *)context->workspace[FK_SLOT_COLUMNS].data, x->ld * job->n_values, 1, packed,
                            context->stream));
  f->cols = data;
  f->n_cols = x->n;
  f->ld_cols = x->ld;
  f->d = x->d;
  f->weight = job->weights ? weight : NULL;
  f->values = !values ? NULL : columns ? packed : data;
  f->n_values = values ? job->n_values : 0;
  f->first_col = job->source_first;
  return FK_STATUS_OK;
}

/* Which values a launch takes, and room for them. Coordinates without weights are in the packed points already,
 * for tasks that may have rounded sums of them. */
static enum fk_status choose_values(struct fk_cuda_job *job, struct fk_error *err) {
  struct fk_tensor_task *t = &job->tensor;
  int64_t rows = job->sources.ld, most = fk_mma_value_width(FK_MMA_VALUES, t->cols.k);
  char *block;
  job->values_here = (int)fk_smaller(job->n_values - job->first_value, FK_MMA_VALUES);
  t->values.n_values = job->values_here;
  if (job->task->rounded && fk_job_is_large(job) && !job->weights && t->cols.k <= FK_MMA_VALUES)
    return FK_STATUS_OK;
  FK_TRY(fk_cuda_workspace(job->context, FK_SLOT_PACKED_VALUES, (size_t)(rows * 4 * most + 512), (void **)&block,
                           err));
  struct carver c = {block};
  t->values.width = (int)fk_padded(job->values_here + 1, 8);
  t->values.hi = carve<__half>(&c, rows * most);
  t->values.lo = carve<__half>(&c, rows * most);
  return FK_STATUS_OK;
}

static enum fk_status pack_tensor(struct fk_cuda_job *job, bool values, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const struct fk_cuda_points *x = &job->sources;
  struct fk_tensor_task *t = &job->tensor;
  bool coarse = fk_job_is_coarse(job);
  struct fk_tensor_pack pack = {job->grid, job->weights, job->weight_scale, values && job->weights, coarse, false};
  int k = (int)fk_padded(x->d, 16);
  bool columns = job->task->values == FK_VALUES_COLUMNS, factor = fk_job_uses_factor(job, values);
  char *block;
  *t = (struct fk_tensor_task){};
  FK_TRY(fk_cuda_workspace(context, FK_SLOT_PACKED_SOURCES, (size_t)(x->ld * (4 * k + 12) + 5 * 256),
                           (void **)&block, err));
  struct carver c = {block};
  __half *hi = carve<__half>(&c, x->ld * k), *lo = carve<__half>(&c, x->ld * k);
  float *offset = carve<float>(&c, x->ld), *weight = carve<float>(&c, x->ld),
        *col_factor = carve<float>(&c, x->ld);
  if (!job->weights || values) weight = NULL;
  if (!job->weights || !values || !factor) col_factor = NULL;
  struct fk_tensor_cols to = {hi, lo, offset, weight, col_factor, (float)job->form.factor[1], x->ld, k};
  FK_CUDA_TRY(fk_tensor_pack_cols(x, &pack, &to, context->stream));
  t->cols = (struct fk_tensor_points){hi, lo, offset, x->n, x->ld, k};
  /* What is known of the rows; their data come with the targets. */
  t->rows.k = k;
  t->factor0 = factor ? offset : NULL;
  t->self = job->task->exclude_self ? 0 : INT64_MIN;
  t->single = job->precision != FK_PRECISION_FAST;
  t->low_low = job->grid.low_low;
  t->coarse = pack.coarse;
  t->weight = weight;
  t->col_factor = col_factor;
  t->factor1 = (float)job->form.factor[1];
  t->has_values = values;
  if (values) FK_TRY(choose_values(job, err));
  bool wgmma = context->capability == 90 && !is_lowered_to("mma") && fk_wgmma_supports(t);
  job->method = wgmma ? FK_METHOD_WGMMA : FK_METHOD_MMA;
  if (t->values.hi) {
    if (!wgmma) t->values.width = fk_mma_value_width(t->values.n_values, k);
    const double *from = columns ? (double *)context->workspace[FK_SLOT_COLUMNS].data : x->u;
    struct fk_tensor_columns v = {from, x->ld, x->n, x->ld, columns ? 1 : job->grid.scale, job->first_value};
    FK_CUDA_TRY(fk_tensor_pack_values(&v, &pack, &t->values, context->stream));
  }
  if (job->method == FK_METHOD_WGMMA) {
    FK_TRY(fk_cuda_workspace(context, FK_SLOT_PACKED_TENSOR, fk_wgmma_pack_bytes(t), &job->wgmma_columns, err));
    FK_CUDA_TRY(fk_wgmma_pack(t, job->wgmma_columns, context->stream));
  }
  return FK_STATUS_OK;
}

/* Targets that are the same points are whitened already. */
static enum fk_status whiten(struct fk_cuda_job *job, struct fk_error *err) {
  struct fk_cuda_points *x = &job->sources;
  x->u = job->targets.u;
  if (job->targets_raw == job->raw && job->targets.n == x->n) return FK_STATUS_OK;
  FK_TRY(fk_cuda_array(job->context, FK_SLOT_WHITE_SOURCES, x->ld * x->d, &x->u, err));
  return fk_cuda_whiten(job->context, &job->whitening, job->raw, job->ld_raw, x, err);
}

enum fk_status fk_job_whiten_sources(struct fk_cuda_job *job, int64_t first, struct fk_error *err) {
  FK_TRY(fk_job_fetch_sources(job, first, err));
  if (job->whitened) return FK_STATUS_OK;
  FK_TRY(whiten(job, err));
  FK_TRY(choose_method(job, err));
  job->whitened = true;
  job->packed = false;
  return FK_STATUS_OK;
}

enum fk_status fk_job_prepare_sources(struct fk_cuda_job *job, int64_t first, bool values, struct fk_error *err) {
  FK_TRY(fk_job_whiten_sources(job, first, err));
  if (job->packed && job->packed_values == values && job->packed_first_value == job->first_value)
    return FK_STATUS_OK;
  if (job->method == FK_METHOD_DOUBLE)
    FK_TRY(pack_fma(job, &job->f64, values, err));
  else if (job->method == FK_METHOD_SINGLE)
    FK_TRY(pack_fma(job, &job->f32, values, err));
  else
    FK_TRY(pack_tensor(job, values, err));
  job->packed = true;
  job->packed_values = values;
  job->packed_first_value = job->first_value;
  return FK_STATUS_OK;
}
