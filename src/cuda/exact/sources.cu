/* Sources of a job: sent, whitened, and packed for the method that their extent allows. */
#include <math.h>
#include <string.h>

#include "job.cuh"
#include "../device/resident.cuh"

/* ---- what is sent ----------------------------------------------------------------------------- */

static enum fk_status send_points(struct fk_cuda_job *job, int64_t first, int64_t count, struct fk_error *err) {
  const struct fk_matrix *x = &job->task->sources;
  struct fk_cuda_context *context = job->context;
  struct fk_cuda_sources *s = job->sources;
  const double *there = fk_cuda_resident_data(context, x->resident);
  double *raw;
  s->ld_raw = there ? x->n : count;
  s->raw = there ? there + first : NULL;
  if (there) return FK_STATUS_OK;
  FK_TRY(fk_cuda_send(context, &s->raw_buffer, fk_part(x, first, count, 0, x->d), &raw, err));
  s->raw = raw;
  return FK_STATUS_OK;
}

static bool is_own(const struct fk_task *task) { return task->op && task->weights == task->op->weights; }

static enum fk_status send_weights(struct fk_cuda_job *job, int64_t first, int64_t count, struct fk_error *err) {
  struct fk_cuda_sources *s = job->sources;
  const struct fk_task *task = job->task;
  double *weights;
  bool known = is_own(task) ? s->weights_own : s->weights_job == job->id;
  if (s->weights && known) return FK_STATUS_OK;
  s->weights = NULL;
  s->weights_own = is_own(task);
  s->weights_job = job->id;
  s->weights_sent = ++job->context->clock;
  FK_TRY(
      fk_cuda_send(job->context, &s->weight_buffer, fk_doubles(task->weights + first, count, 1), &weights, err));
  s->weights = weights;
  return FK_STATUS_OK;
}

/* Each column has a scale of its own; the padding is 0. */
static enum fk_status send_columns(struct fk_cuda_job *job, int64_t first, int64_t count, struct fk_error *err) {
  struct fk_cuda_sources *s = job->sources;
  struct fk_cuda_context *context = job->context;
  double *columns, *scale;
  int64_t ld = s->points.ld, v = job->n_values;
  struct fk_matrix all = fk_doubles(job->task->columns, job->task->sources.n, v);
  if (s->columns_job == job->id) return FK_STATUS_OK;
  s->columns_sent = ++context->clock;
  FK_TRY(fk_cuda_send(context, &s->scale_buffer, fk_doubles(job->column_scale, v, 1), &scale, err));
  FK_TRY(fk_cuda_room(context, &s->column_buffer, ld * v, &columns, err));
  FK_CUDA_TRY(cudaMemsetAsync(columns, 0, sizeof(double) * (size_t)(ld * v), context->stream));
  FK_TRY(fk_cuda_upload(context, fk_part(&all, first, count, 0, v), columns, ld, err));
  FK_CUDA_TRY(fk_finish_scale(columns, (int)v, ld, count, 1, scale, true, context->stream));
  s->columns = columns;
  s->column_scale = scale;
  s->columns_job = job->id;
  return FK_STATUS_OK;
}

enum fk_status fk_job_fetch_sources(struct fk_cuda_job *job, int64_t first, struct fk_error *err) {
  const struct fk_matrix *x = &job->task->sources;
  struct fk_cuda_sources *s = job->sources;
  int64_t count = fk_smaller(job->source_chunk, job->source_end - first);
  if (s->first != first || s->points.n != count) {
    s->first = -1;
    s->whitened = s->is_packed = s->frames_sought = s->order_sought = false;
    s->radius2 = -1;
    s->asked = false;
    fk_cuda_frames_drop(s);
    fk_cuda_order_drop(s);
    s->raw = s->weights = NULL;
    s->columns_job = 0;
    s->points = (struct fk_cuda_points){NULL, count, fk_padded(count, FK_TENSOR_ROWS), (int)x->d};
  }
  if (!s->raw && (!s->whitened || job->move)) FK_TRY(send_points(job, first, count, err));
  if (job->task->weights)
    FK_TRY(send_weights(job, first, count, err));
  else
    s->weights = NULL;
  s->first = first;
  return job->task->values == FK_VALUES_COLUMNS ? send_columns(job, first, count, err) : FK_STATUS_OK;
}

/* ---- whitened --------------------------------------------------------------------------------- */

/* Finds the extent of the points, which decides on the method, and whether frames would help: their radius is two
 * thirds of what FP16 terms reach, for errors of half the bounds (gpu-real.R). The device is asked between the
 * context's events and read once it is done: the time that the host waits is not counted as the device's. */
static enum fk_status ask_radius(struct fk_cuda_job *job, struct fk_cuda_sources *s, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  FK_TRY(fk_cuda_find_radius2(context, &s->points, err));
  if (fk_job_may_order(job, s)) FK_TRY(fk_cuda_count_near(context, &s->points, err));
  FK_CUDA_TRY(cudaEventRecord(context->end, context->stream));
  s->asked = true;
  return FK_STATUS_OK;
}

static enum fk_status find_radius(struct fk_cuda_job *job, struct fk_cuda_sources *s, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  if (!s->asked) FK_TRY(ask_radius(job, s, err));
  s->asked = false;
  FK_TRY(fk_cuda_elapsed(context, job->seconds, err));
  s->radius2 = fk_cuda_radius2(context, &s->points);
  if (fk_job_may_order(job, s)) s->kept_guess = fk_cuda_guess_kept(context, &s->points);
  s->frames.radius = 2.0 / 3 * fk_tensor_radius(FK_FRAME_REACH, s->points.d, true);
  return FK_CUDA_STATUS(cudaEventRecord(context->begin, context->stream));
}

/* Finds frames if the points are too wide for FP16 terms about one centre. Depends on the points alone, so that
 * the frames serve calls with other targets and precisions. The host waits for the device. */
static enum fk_status find_frames(const struct fk_cuda_job *job, struct fk_cuda_sources *s, struct fk_error *err) {
  bool whole = job->source_chunk >= job->source_end - job->source_begin;
  /* with many dimensions frames have not been measured */
  if (s->frames_sought || s->rows2 > 0 || !whole || s->points.d > FK_TENSOR_WIDE) return FK_STATUS_OK;
  FK_TRY(fk_cuda_frames_find(job->context, &s->points, &s->frames, err));
  s->frames_sought = true;
  return FK_STATUS_OK;
}

/* How far sources may reach with coordinates in one double each: limited by the accuracy of the sums, and for rows
 * in the tails by targets far from all sources. */
static double farthest2(enum fk_precision precision) {
  return precision == FK_PRECISION_DOUBLE ? fk_costs.limits.difference_f64 : fk_costs.limits.frames;
}

/* The reach of all sources, or, if nothing depends on that, of the chunk that is there. */
static double reach2_of(const struct fk_cuda_job *job, const struct fk_cuda_sources *s) {
  return fk_form_radius2(&job->form, fmax(job->reach2, s->radius2), s->points.d);
}

/* Computes low parts once for all calls. Sends the points again if they are no longer on the device. */
static enum fk_status find_low(struct fk_cuda_job *job, struct fk_cuda_sources *s, struct fk_error *err) {
  struct fk_cuda_points points = s->points;
  if (points.low) return FK_STATUS_OK;
  if (!s->raw) FK_TRY(send_points(job, s->first, points.n, err));
  FK_TRY(fk_cuda_room(job->context, &s->low_buffer, points.ld * points.d, &points.low, err));
  FK_TRY(fk_cuda_whiten_low(job->context, &s->whitening, s->raw, s->ld_raw, &points, err));
  s->points = points;
  return FK_STATUS_OK;
}

/* In FP64: Gaussian sums by products, if the points reach no further than the products' rounding allows and there
 * are enough dimensions to pay for it. Recomputed rows and sources outside all frames use direct distances. */
static enum fk_status choose_in_double(struct fk_cuda_job *job, struct fk_cuda_sources *s, struct fk_job_way *way,
                                       struct fk_error *err) {
  const struct fk_exact_limits *limits = &fk_costs.limits;
  way->method = FK_METHOD_DOUBLE;
  if (s->in_double || fk_form_is_product(job->form.type)) return FK_STATUS_OK;
  if (s->radius2 < 0) FK_TRY(find_radius(job, s, err));
  const double reach2 = reach2_of(job, s);
  way->doubled = reach2 > farthest2(job->shifted ? FK_PRECISION_DOUBLE : job->precision);
  if (way->doubled) return find_low(job, s, err);
  bool products = !job->rows && job->context->capability >= 80 && job->form.type == FK_FORM_GAUSSIAN &&
                  s->points.d > limits->difference_dimension && !fk_cuda_is_lowered_to("difference");
  if (products && reach2 <= limits->gram_f64) way->method = FK_METHOD_DMMA;
  return FK_STATUS_OK;
}

/* For points that one centre serves, but not well: frames serve them better if the sources outside all frames cost
 * little beside the others, or beside launches. */
static bool is_better_framed(const struct fk_cuda_sources *s, bool single) {
  return single && s->rows2 == 0 && s->radius2 > s->frames.radius * s->frames.radius;
}

static bool leaves_few(const struct fk_cuda_frames *frames) {
  if (frames->count == 0) return false;
  double all = (double)frames->list.n, rest = fk_frames_rest(frames);
  return rest <= fk_costs.cuda_cuts.framed_share * (all - rest) + fk_costs.cuda_cuts.framed_pairs / all;
}

static enum fk_status choose_by_reach(struct fk_cuda_job *job, struct fk_cuda_sources *s, struct fk_job_way *way,
                                      struct fk_error *err) {
  const bool single = job->precision != FK_PRECISION_FAST;
  if (job->rows || s->in_double || job->precision == FK_PRECISION_DOUBLE || !fk_form_allows_single(&job->form))
    return choose_in_double(job, s, way, err);
  if (s->radius2 < 0) FK_TRY(find_radius(job, s, err));
  if (reach2_of(job, s) > farthest2(job->precision)) return choose_in_double(job, s, way, err);
  bool tensor = job->context->capability >= 80 && job->form.type == FK_FORM_GAUSSIAN && job->form.factor[2] == 0 &&
                !fk_cuda_is_lowered_to("difference");
  bool one = tensor && fk_tensor_grid_choose(s->radius2, s->rows2, s->points.d, single, &way->grid);
  if (tensor) FK_TRY(fk_job_order_sources(job, s, &way->ordered, err));
  struct fk_cuda_sources *whole = s;
  if (way->ordered) s = s->in_order;
  if (tensor && (!one || is_better_framed(s, single))) {
    FK_TRY(find_frames(job, s, err));
    way->framed = one ? leaves_few(&s->frames) : s->frames.count > 0;
  }
  way->ordered &= one || way->framed;
  if (!one && !way->framed &&
      !(fk_form_radius2(&job->form, s->radius2, s->points.d) <= fk_costs.limits.difference_f32))
    return choose_in_double(job, whole, way, err);
  way->method = one || way->framed ? FK_METHOD_MMA : FK_METHOD_SINGLE;
  return FK_STATUS_OK;
}

enum fk_status fk_job_choose_way(struct fk_cuda_job *job, struct fk_cuda_sources *s, bool part,
                                 struct fk_job_way *way, struct fk_error *err) {
  *way = {};
  FK_TRY(choose_by_reach(job, s, way, err));
  way->by_matrix = !part && fk_job_takes_matrix(job, s, way);
  job->method = way->method;
  return FK_STATUS_OK;
}

enum fk_status fk_job_whitening(struct fk_cuda_job *job, struct fk_error *err) {
  struct fk_whitening host = *job->task->whitening;
  struct fk_cuda_sources *s = job->sources;
  if (s->whitening.host) return FK_STATUS_OK;
  if (job->finds_centre) host.centre = NULL; /* whether or not other calls have made the host compute it */
  FK_TRY(fk_cuda_whitening_init(job->context, &s->whitening_buffer, &host, &s->whitening, err));
  s->whitening.host = job->task->whitening;
  if (!job->finds_centre) return FK_STATUS_OK;
  const double *weights = job->task->op->weights ? s->weights : NULL;
  struct fk_cuda_raw raw = {s->raw, weights, s->points.n, s->ld_raw, s->points.d};
  enum fk_status status = fk_cuda_centre(job->context, &raw, &s->whitening, err);
  if (status) s->whitening.host = NULL;
  return status;
}

static enum fk_status whiten_chunk(struct fk_cuda_job *job, struct fk_error *err) {
  struct fk_cuda_sources *s = job->sources;
  FK_TRY(fk_job_whitening(job, err));
  FK_TRY(fk_cuda_room(job->context, &s->white_buffer, s->points.ld * s->points.d, &s->points.u, err));
  FK_TRY(fk_cuda_whiten(job->context, &s->whitening, s->raw, s->ld_raw, &s->points, err));
  s->whitened = true;
  return FK_STATUS_OK;
}

enum fk_status fk_job_begin_sources(struct fk_cuda_job *job, struct fk_error *err) {
  struct fk_cuda_sources *s = job->sources;
  struct fk_cuda_context *context = job->context;
  FK_TRY(fk_job_fetch_sources(job, job->source_begin, err));
  if (s->whitened || fk_form_is_product(job->form.type)) return FK_STATUS_OK;
  FK_CUDA_TRY(cudaEventRecord(context->begin, context->stream));
  FK_TRY(whiten_chunk(job, err));
  return ask_radius(job, s, err);
}

enum fk_status fk_job_whiten_sources(struct fk_cuda_job *job, int64_t first, struct fk_job_way *way,
                                     struct fk_error *err) {
  FK_TRY(fk_job_fetch_sources(job, first, err));
  if (!job->sources->whitened) FK_TRY(whiten_chunk(job, err));
  FK_TRY(fk_job_choose_way(job, job->sources, false, way, err));
  job->ordered = way->ordered;
  job->relative =
      job->task->values == FK_VALUES_COORDINATES && reach2_of(job, job->sources) > farthest2(job->precision);
  return FK_STATUS_OK;
}

enum fk_status fk_job_find_reach(struct fk_cuda_job *job, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  struct fk_job_way way;
  double reach2 = 0;
  for (int64_t first = job->source_begin; first < job->source_end; first += job->source_chunk) {
    FK_TRY(fk_job_fetch_sources(job, first, err));
    FK_CUDA_TRY(cudaEventRecord(context->begin, context->stream));
    FK_TRY(fk_job_whiten_sources(job, first, &way, err));
    FK_CUDA_TRY(cudaEventRecord(context->end, context->stream));
    FK_TRY(fk_cuda_elapsed(context, job->seconds, err));
    reach2 = fmax(reach2, job->sources->radius2);
  }
  job->reach2 = reach2;
  return FK_STATUS_OK;
}

/* ---- packed ----------------------------------------------------------------------------------- */

template <typename T>
static enum fk_status pack_fma(const struct fk_cuda_job *job, const struct fk_pass_view view,
                               struct fk_fma_task<T> *f, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  struct fk_cuda_sources *s = view.sources;
  const bool values = fk_pass_has_values(job, view);
  const struct fk_cuda_points *x = &s->points;
  bool columns = values && job->task->values == FK_VALUES_COLUMNS;
  T *data;
  int64_t numbers = x->ld * x->d;
  int64_t points = numbers * (view.way.doubled ? 2 : 1);
  FK_TRY(
      fk_cuda_room(context, &s->packed_buffer, points + x->ld * (1 + (columns ? job->n_values : 0)), &data, err));
  T *weight = data + points, *packed = weight + x->ld;
  *f = (struct fk_fma_task<T>){};
  fk_fma_takes_form(f, &job->form);
  FK_CUDA_TRY(fk_fma_pack(x->u, numbers, job->form.scale, data, context->stream));
  if (s->weights) FK_CUDA_TRY(fk_fma_pack(s->weights, x->n, 1 / job->weight_scale, weight, context->stream));
  if (columns) FK_CUDA_TRY(fk_fma_pack(s->columns, x->ld * job->n_values, 1, packed, context->stream));
  if constexpr (sizeof(T) == sizeof(double)) {
    if (view.way.doubled) {
      FK_CUDA_TRY(fk_fma_pack_low(x->u, x->low, numbers, job->form.scale, data + numbers, context->stream));
      f->cols_low = data + numbers;
      f->relative = values && job->relative;
    }
  }
  f->cols = data;
  f->n_cols = x->n;
  f->ld_cols = x->ld;
  f->d = x->d;
  f->weight = s->weights ? weight : NULL;
  f->values = !values ? NULL : columns ? packed : data;
  f->n_values = values ? job->n_values : 0;
  f->first_col = s->first;
  if (s->in_double) f->least = -FK_LOG2E / 2 * FK_FRAME_REACH * FK_FRAME_REACH;
  return FK_STATUS_OK;
}

static enum fk_status pack_dmma(const struct fk_cuda_job *job, const struct fk_pass_view view,
                                struct fk_dmma_task *t, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  struct fk_cuda_sources *s = view.sources;
  const struct fk_cuda_points *x = &s->points;
  const bool values = fk_pass_has_values(job, view);
  bool general = !fk_is_plain(job->form.factor), columns = job->task->values == FK_VALUES_COLUMNS;
  int k = (int)fk_blocks(x->d, 8);
  double *data;
  FK_TRY(fk_cuda_room(context, &s->packed_buffer, x->ld * (8 * k + 2), &data, err));
  double *offset = data + x->ld * 8 * k, *weight = general && s->weights ? offset + x->ld : NULL;
  *t = (struct fk_dmma_task){};
  t->cols = (struct fk_dmma_points){data, x->ld, k};
  t->offset = offset;
  t->weight = weight;
  t->n_cols = x->n;
  memcpy(t->factor, job->form.factor, sizeof t->factor);
  t->values = !values ? NULL : columns ? s->columns : x->u;
  t->n_values = values ? job->n_values : 0;
  struct fk_dmma_cols to = {t->cols, offset, weight, s->weights, job->weight_scale};
  return FK_CUDA_STATUS(fk_dmma_pack_cols(x, &to, context->stream));
}

/* Chooses the values of a launch and allocates room for them. Coordinates without weights are in the packed points
 * already, for tasks that allow rounded sums of them. */
static enum fk_status choose_values(const struct fk_cuda_job *job, struct fk_cuda_sources *s,
                                    struct fk_cuda_packed *p, struct fk_error *err) {
  struct fk_tensor_task *t = &p->tensor;
  int64_t rows = s->points.ld, most = fk_mma_value_width(FK_MMA_VALUES, t->cols.k);
  char *block;
  p->values_here = (int)fk_smaller(job->n_values - p->first_value, FK_MMA_VALUES);
  t->values.n_values = p->values_here;
  if (job->task->rounded && fk_job_is_large(job) && !s->weights && t->cols.k <= FK_MMA_VALUES) return FK_STATUS_OK;
  FK_TRY(fk_cuda_room(job->context, &s->value_buffer, rows * 4 * most + 512, &block, err));
  struct carver c = {block};
  t->values.width = (int)fk_padded(p->values_here + 1, 8);
  t->values.hi = carve<__half>(&c, rows * most);
  t->values.lo = carve<__half>(&c, rows * most);
  return FK_STATUS_OK;
}

static enum fk_status pack_columns(const struct fk_cuda_job *job, const struct fk_pass_view view,
                                   const struct fk_tensor_pack *pack, struct fk_tensor_task *t,
                                   struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  struct fk_cuda_sources *s = view.sources;
  const struct fk_cuda_points *x = &s->points;
  const bool factor = fk_job_uses_factor(job, t->has_values);
  /* the kernel that stores exponents takes points of many dimensions */
  int k = (int)fk_padded(t->has_values && view.way.by_matrix ? fk_larger(x->d, FK_TENSOR_WIDE + 1) : x->d, 16);
  char *block;
  FK_TRY(fk_cuda_room(context, &s->packed_buffer, x->ld * (4 * k + 12) + 5 * 256, &block, err));
  struct carver c = {block};
  __half *hi = carve<__half>(&c, x->ld * k), *lo = carve<__half>(&c, x->ld * k);
  float *offset = carve<float>(&c, x->ld), *weight = carve<float>(&c, x->ld),
        *col_factor = carve<float>(&c, x->ld);
  if (!s->weights || t->has_values) weight = NULL;
  if (!s->weights || !t->has_values || !factor) col_factor = NULL;
  struct fk_tensor_cols to = {hi, lo, offset, weight, col_factor, (float)job->form.factor[1], x->ld, k};
  FK_CUDA_TRY(fk_tensor_pack_cols(x, pack, &to, context->stream));
  t->cols = (struct fk_tensor_points){hi, lo, offset, x->n, x->ld, k};
  t->weight = weight;
  t->col_factor = col_factor;
  /* What is known of the rows before their data come with the targets. */
  t->rows.k = k;
  t->factor0 = factor ? offset : NULL;
  return FK_STATUS_OK;
}

static enum fk_status pack_tensor(const struct fk_cuda_job *job, const struct fk_pass_view view,
                                  struct fk_cuda_packed *p, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  struct fk_cuda_sources *s = view.sources;
  const struct fk_cuda_points *x = &s->points;
  struct fk_tensor_task *t = &p->tensor;
  const bool values = fk_pass_has_values(job, view), columns = job->task->values == FK_VALUES_COLUMNS;
  struct fk_tensor_pack pack = {
      view.way.grid, s->weights, job->weight_scale, values && s->weights, fk_job_is_coarse(job), false,
      false,         s->list};
  *t = (struct fk_tensor_task){};
  t->self = job->task->exclude_self ? 0 : INT64_MIN;
  t->single = job->precision != FK_PRECISION_FAST;
  t->low_low = view.way.grid.low_low;
  t->coarse = pack.coarse;
  t->factor1 = (float)job->form.factor[1];
  t->has_values = values;
  FK_TRY(pack_columns(job, view, &pack, t, err));
  t->has_values &= !view.way.by_matrix; /* which has the values beside these columns */
  if (t->has_values) FK_TRY(choose_values(job, s, p, err));
  bool wgmma = context->capability == 90 && !fk_cuda_is_lowered_to("mma") && fk_wgmma_supports(t);
  p->method = wgmma ? FK_METHOD_WGMMA : FK_METHOD_MMA;
  if (t->values.hi) {
    if (!wgmma) t->values.width = fk_mma_value_width(t->values.n_values, t->cols.k);
    const double *from = columns ? s->columns : x->u;
    struct fk_tensor_columns v = {from, x->ld, x->n, x->ld, columns ? 1 : view.way.grid.scale, p->first_value};
    FK_CUDA_TRY(fk_tensor_pack_values(&v, &pack, &t->values, context->stream));
  }
  if (!wgmma) return FK_STATUS_OK;
  FK_TRY(fk_cuda_reserve(context, &s->tensor_buffer, fk_wgmma_pack_bytes(t), err));
  s->wgmma_columns = s->tensor_buffer.data;
  return FK_CUDA_STATUS(fk_wgmma_pack(t, s->wgmma_columns, context->stream));
}

static struct fk_cuda_packing packing_for(const struct fk_cuda_job *job, const struct fk_pass_view view,
                                          int first_value) {
  const struct fk_cuda_sources *s = view.sources;
  const bool values = fk_pass_has_values(job, view);
  struct fk_cuda_packing p;
  memset(&p, 0, sizeof p); /* set the padding, too: the structs are compared as bytes */
  p.method = view.way.method;
  p.values = values ? job->task->values : FK_VALUES_NONE;
  p.first_value = values ? first_value : 0;
  p.single = job->precision != FK_PRECISION_FAST;
  p.coarse = fk_job_is_coarse(job);
  p.factor = fk_job_uses_factor(job, values);
  p.own = values && job->task->rounded && fk_job_is_large(job);
  p.self = job->task->exclude_self;
  p.matrix = values && view.way.by_matrix;
  p.doubled = view.way.doubled;
  p.relative = job->relative;
  p.form = job->form;
  p.weight_scale = job->weight_scale;
  p.weights = s->weights ? s->weights_sent : 0;
  p.columns = p.values == FK_VALUES_COLUMNS ? s->columns_sent : 0;
  return p;
}

enum fk_status fk_job_pack_sources(struct fk_cuda_job *job, const struct fk_pass_view view, int first_value,
                                   struct fk_cuda_packed *packed, struct fk_error *err) {
  struct fk_cuda_sources *s = view.sources;
  const struct fk_cuda_packing wanted = packing_for(job, view, first_value);
  if (!s->is_packed || memcmp(&wanted, &s->packed_as, sizeof wanted) != 0) {
    struct fk_cuda_packed *p = &s->packed;
    s->is_packed = false;
    *p = {view.way.method, first_value, job->n_values};
    if (p->method == FK_METHOD_DOUBLE)
      FK_TRY(pack_fma(job, view, &p->f64, err));
    else if (p->method == FK_METHOD_SINGLE)
      FK_TRY(pack_fma(job, view, &p->f32, err));
    else if (p->method == FK_METHOD_DMMA)
      FK_TRY(pack_dmma(job, view, &p->dmma, err));
    else
      FK_TRY(pack_tensor(job, view, p, err));
    s->packed_as = wanted;
    s->is_packed = true;
  }
  *packed = s->packed;
  job->method = packed->method;
  return FK_STATUS_OK;
}
