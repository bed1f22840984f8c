/* The exact engine on NVIDIA GPUs: what is summed how, in which pieces, and what is done twice.
 *
 * Targets are taken in chunks that fit the device, and for each chunk all sources, in chunks if they must be. A
 * chunk of targets goes through passes:
 *   mass      first of two, where sums beside the mass go through halves: it tells how far each row can be raised
 *   largest   first of two for rows in the tails: it tells what is to be taken off
 *   sums      what was asked for
 * The method goes by the precision and by how far the sources reach: tensor cores, FP32 or FP64. Rows that
 * underflow or lie outside a method's range are done again in FP64. Twin of cpu/exact_cpu.c.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices.cuh"
#include "job.cuh"

/* As on the CPU: differences in FP32 are good up to this |u|^2. */
#define DIFFERENCE_LIMIT_SINGLE 1e4
/* Up to this dimension differences on CUDA cores are as fast as tensor cores. */
enum { DIFFERENCE_DIMENSION = 4 };
/* Kernels rounded to 2^-12 move a point that has few neighbours by some 1e-5 of a bandwidth; where that saves less
 * than half a millisecond it is not done. */
#define EXACT_PAIRS 5e8

enum pass { PASS_MASS, PASS_LARGEST, PASS_SUMS };

/* All that one device needs for one range of targets. */
struct job {
  struct fk_cuda_context *context;
  const struct fk_task *task;
  enum fk_precision precision;
  int threads;
  double *seconds; /* of the device */
  struct fk_cuda_progress *progress;
  double progress_per_pair;
  struct fk_cuda_whitening whitening;
  double weight_scale, factor[3]; /* polynomial of the exponent in base 2 */
  const double *column_scale;     /* on the device; NULL: not columns */
  int n_values;

  /* sources: a chunk on the device, whitened, and packed for a method and a pass */
  int64_t source_chunk, source_first;
  const double *resident, *resident_weights; /* all of them, in the cache; or NULL */
  const double *raw, *weights;               /* of the chunk */
  int64_t ld_raw;
  struct fk_cuda_points sources;
  bool whitened, packed;
  enum fk_cuda_method method;
  struct fk_tensor_grid grid;
  bool packed_values;
  int packed_first_value, first_value, values_here; /* tensor cores sum so many columns at a time */

  /* targets: a chunk of those to do */
  int64_t target_chunk, target_first;
  double partial_bytes;
  struct fk_cuda_points targets;
  const double *targets_raw;
  int64_t ld_targets_raw;
  const int64_t *rows; /* host: which targets, NULL: all */
  int64_t *self;       /* device: the same */
  bool in_double, shifted, normalised;

  /* results on the device */
  double *result, *mass, *shift;
  int64_t ld_result;

  struct fk_tensor_task tensor;
  struct fk_fma_task<float> f32;
  struct fk_fma_task<double> f64;
  double *undo;
  void *wgmma_columns;
};

static bool is_plain(const double factor[3]) { return factor[0] == 1 && factor[1] == 0 && factor[2] == 0; }
static bool is_large(const struct job *job) {
  return (double)job->task->sources.n * (double)fk_n_targets(job->task) > EXACT_PAIRS;
}
static bool is_coarse(const struct job *job) { return job->precision == FK_PRECISION_FAST && is_large(job); }
/* A first pass for the mass sums kernels alone. */
static bool uses_factor(const struct job *job, bool values) {
  return !is_plain(job->factor) && (values || job->n_values == 0);
}
static bool on_tensor_cores(enum fk_cuda_method method) {
  return method == FK_METHOD_MMA || method == FK_METHOD_WGMMA;
}

/* ---- sources ---------------------------------------------------------------------------------- */

static enum fk_status fetch_sources(struct job *job, int64_t first, struct fk_error *err) {
  const struct fk_points *x = &job->task->sources;
  struct fk_cuda_context *context = job->context;
  int64_t count = fk_at_most(job->source_chunk, x->n - first);
  if (job->source_first == first) return FK_STATUS_OK;
  job->source_first = -1;
  job->whitened = false;
  job->sources.n = count;
  job->sources.ld = fk_up_to_multiple(count, FK_TENSOR_ROWS); /* as that of targets */
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
static enum fk_status choose_method(struct job *job, struct fk_error *err) {
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
  bool tensor = context->capability >= 80 && job->sources.d > DIFFERENCE_DIMENSION && job->factor[2] == 0 &&
                !is_lowered_to("difference") &&
                fk_tensor_grid_choose(radius2, job->sources.d, job->precision != FK_PRECISION_FAST, &job->grid);
  if (tensor)
    job->method = FK_METHOD_MMA;
  else if (radius2 <= DIFFERENCE_LIMIT_SINGLE)
    job->method = FK_METHOD_SINGLE;
  return FK_STATUS_OK;
}

template <typename T>
static enum fk_status pack_fma(struct job *job, struct fk_fma_task<T> *f, bool values, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const struct fk_cuda_points *x = &job->sources;
  bool columns = values && job->task->values == FK_VALUES_COLUMNS;
  double scale = sqrt(FK_CUDA_LOG2E / 2);
  T *data;
  int64_t numbers = x->ld * x->d;
  FK_TRY(fk_cuda_array(context, FK_SLOT_PACKED_SOURCES, numbers + x->ld * (1 + (columns ? job->n_values : 0)),
                       &data, err));
  T *weight = data + numbers, *packed = weight + x->ld;
  *f = (struct fk_fma_task<T>){};
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

/* Consecutive arrays in one block of workspace. */
struct carver {
  char *at;
};
template <typename T>
static T *carve(struct carver *c, int64_t count) {
  T *here = (T *)c->at;
  c->at += fk_up_to_multiple((int64_t)sizeof(T) * count, 256);
  return here;
}

/* Which values a launch takes, and room for them. Coordinates without weights are in the packed points already,
 * for tasks that may have rounded sums of them. */
static enum fk_status choose_values(struct job *job, struct fk_error *err) {
  struct fk_tensor_task *t = &job->tensor;
  int64_t rows = job->sources.ld, most = fk_mma_value_width(FK_MMA_VALUES, t->cols.k);
  char *block;
  job->values_here = (int)fk_at_most(job->n_values - job->first_value, FK_MMA_VALUES);
  t->values.n_values = job->values_here;
  if (job->task->rounded && is_large(job) && !job->weights && t->cols.k <= FK_MMA_VALUES) return FK_STATUS_OK;
  FK_TRY(fk_cuda_workspace(job->context, FK_SLOT_PACKED_VALUES, (size_t)(rows * 4 * most + 512), (void **)&block,
                           err));
  struct carver c = {block};
  t->values.width = (int)fk_up_to_multiple(job->values_here + 1, 8);
  t->values.hi = carve<__half>(&c, rows * most);
  t->values.lo = carve<__half>(&c, rows * most);
  return FK_STATUS_OK;
}

static enum fk_status pack_tensor(struct job *job, bool values, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const struct fk_cuda_points *x = &job->sources;
  struct fk_tensor_task *t = &job->tensor;
  struct fk_tensor_pack pack = {job->grid, job->weights,  job->weight_scale, values && job->weights,
                                values,    is_coarse(job)};
  int k = (int)fk_up_to_multiple(x->d, 16);
  bool columns = job->task->values == FK_VALUES_COLUMNS, factor = uses_factor(job, values);
  char *block;
  *t = (struct fk_tensor_task){};
  FK_TRY(fk_cuda_workspace(context, FK_SLOT_PACKED_SOURCES, (size_t)(x->ld * (4 * k + 12) + 5 * 256),
                           (void **)&block, err));
  struct carver c = {block};
  __half *hi = carve<__half>(&c, x->ld * k), *lo = carve<__half>(&c, x->ld * k);
  float *offset = carve<float>(&c, x->ld), *weight = carve<float>(&c, x->ld),
        *col_factor = carve<float>(&c, x->ld);
  bool corrected = fk_tensor_is_corrected(&job->grid);
  if (!corrected && (!job->weights || values)) weight = NULL;
  if (!job->weights || !values || !factor) col_factor = NULL;
  FK_CUDA_TRY(fk_tensor_pack_cols(x, &pack, hi, lo, offset, weight, col_factor, (float)job->factor[1], x->ld, k,
                                  context->stream));
  t->cols = (struct fk_tensor_points){hi, lo, offset, x->n, x->ld, k};
  /* What is known of the rows; their data come with the targets. */
  t->rows.k = k;
  t->factor0 = factor ? offset : NULL;
  t->self = job->task->exclude_self ? 0 : INT64_MIN;
  t->single = job->precision != FK_PRECISION_FAST;
  t->low_low = job->grid.low_low;
  t->coarse = pack.coarse;
  t->weight = values ? NULL : weight;
  t->col_factor = col_factor;
  t->factor1 = (float)job->factor[1];
  t->has_values = values;
  if (values) FK_TRY(choose_values(job, err));
  bool wgmma = context->capability == 90 && !is_lowered_to("mma") && fk_wgmma_supports(t);
  job->method = wgmma ? FK_METHOD_WGMMA : FK_METHOD_MMA;
  if (t->values.hi) {
    if (!wgmma) t->values.width = fk_mma_value_width(t->values.n_values, k);
    const double *from = columns ? (double *)context->workspace[FK_SLOT_COLUMNS].data : x->u;
    FK_CUDA_TRY(fk_tensor_pack_values(from, x->ld, columns ? 1 : job->grid.scale, job->first_value, weight, &pack,
                                      x->n, x->ld, &t->values, context->stream));
  }
  if (job->method == FK_METHOD_WGMMA) {
    FK_TRY(fk_cuda_workspace(context, FK_SLOT_PACKED_TENSOR, fk_wgmma_pack_bytes(t), &job->wgmma_columns, err));
    FK_CUDA_TRY(fk_wgmma_pack(t, job->wgmma_columns, context->stream));
  }
  return FK_STATUS_OK;
}

/* Targets that are the same points are whitened already. */
static enum fk_status whiten_sources(struct job *job, struct fk_error *err) {
  struct fk_cuda_points *x = &job->sources;
  x->u = job->targets.u;
  if (job->targets_raw == job->raw && job->targets.n == x->n) return FK_STATUS_OK;
  FK_TRY(fk_cuda_array(job->context, FK_SLOT_WHITE_SOURCES, x->ld * x->d, &x->u, err));
  return fk_cuda_whiten(job->context, &job->whitening, job->raw, job->ld_raw, x, err);
}

/* The chunk of sources that begins at `first`, ready for a pass. */
static enum fk_status prepare_sources(struct job *job, int64_t first, bool values, struct fk_error *err) {
  FK_TRY(fetch_sources(job, first, err));
  if (!job->whitened) {
    FK_TRY(whiten_sources(job, err));
    FK_TRY(choose_method(job, err));
    job->whitened = true;
    job->packed = false;
  }
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

/* ---- targets ---------------------------------------------------------------------------------- */

/* Rows of a host matrix picked by index, for the few in the tails. */
static enum fk_status upload_rows(struct job *job, const struct fk_points *y, int64_t count, double *raw,
                                  struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const int64_t *rows = job->rows + job->target_first;
  double *gathered = (double *)malloc(sizeof(double) * (size_t)(count * y->d));
  if (!gathered)
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for points in the tails",
                   8e-6 * (double)(count * y->d));
  for (int64_t k = 0; k < y->d; k++)
    for (int64_t i = 0; i < count; i++) gathered[k * count + i] = y->data[k * y->n + rows[i]];
  enum fk_status status = fk_cuda_upload(context, gathered, count, y->d, 0, count, raw, count, err);
  free(gathered);
  FK_TRY(status);
  FK_TRY(fk_cuda_array(context, FK_SLOT_SELF, count, &job->self, err));
  return fk_cuda_upload(context, (const double *)rows, count, 1, 0, count, (double *)job->self, count, err);
}

static enum fk_status fetch_targets(struct job *job, int64_t first, int64_t count, struct fk_error *err) {
  const struct fk_points *y = job->task->targets.data ? &job->task->targets : &job->task->sources;
  struct fk_cuda_context *context = job->context;
  bool here = !job->task->targets.data && !job->rows && job->resident;
  job->targets_raw = here ? job->resident + first : NULL;
  job->ld_targets_raw = here ? y->n : count;
  job->target_first = first;
  job->targets.n = count;
  job->targets.ld = fk_up_to_multiple(count, FK_TENSOR_ROWS);
  job->targets.d = (int)y->d;
  if (!here) {
    double *raw;
    FK_TRY(fk_cuda_array(context, FK_SLOT_RAW_TARGETS, count * y->d, &raw, err));
    job->targets_raw = raw;
    if (job->rows)
      FK_TRY(upload_rows(job, y, count, raw, err));
    else
      FK_TRY(fk_cuda_upload(context, y->data, y->n, y->d, first, count, raw, count, err));
  }
  return fk_cuda_array(context, FK_SLOT_WHITE_TARGETS, job->targets.ld * y->d, &job->targets.u, err);
}

template <typename T>
static enum fk_status pack_targets_fma(struct job *job, struct fk_fma_task<T> *f, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const struct fk_cuda_points *y = &job->targets;
  T *data;
  FK_TRY(fk_cuda_array(context, FK_SLOT_PACKED_TARGETS, y->ld * y->d, &data, err));
  FK_CUDA_TRY(fk_fma_pack(y->u, y->ld * y->d, sqrt(FK_CUDA_LOG2E / 2), data, context->stream));
  f->rows = data;
  f->n_rows = y->n;
  f->ld_rows = y->ld;
  f->exclude_self = job->task->exclude_self;
  f->self = job->self;
  f->self_offset = job->target_first;
  return FK_STATUS_OK;
}

static enum fk_status pack_targets_tensor(struct job *job, bool values, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const struct fk_cuda_points *y = &job->targets;
  struct fk_tensor_task *t = &job->tensor;
  struct fk_tensor_pack pack = {job->grid, NULL, 1, false, false, t->coarse};
  bool factor = uses_factor(job, values);
  int raise = !values        ? 0
              : job->weights ? FK_TENSOR_RAISE - 1
                             : FK_TENSOR_RAISE; /* their mantissas are 1/2 at least */
  if (values && factor) raise -= (int)ceil(log2(fmax(1, fabs(job->factor[0]))));
  char *block;
  FK_TRY(fk_cuda_workspace(context, FK_SLOT_PACKED_TARGETS, (size_t)(y->ld * (4 * t->cols.k + 8) + 4 * 256),
                           (void **)&block, err));
  FK_TRY(fk_cuda_array(context, FK_SLOT_SCALE, y->ld, &job->undo, err));
  struct carver c = {block};
  __half *hi = carve<__half>(&c, y->ld * t->cols.k), *lo = carve<__half>(&c, y->ld * t->cols.k);
  float *offset = carve<float>(&c, y->ld), *factor0 = factor ? carve<float>(&c, y->ld) : NULL;
  FK_CUDA_TRY(fk_tensor_pack_rows(y, &pack, values && job->normalised ? job->mass : NULL, raise, job->factor, hi,
                                  lo, offset, factor0, job->undo, y->ld, t->cols.k, context->stream));
  t->rows = (struct fk_tensor_points){hi, lo, offset, y->n, y->ld, t->cols.k};
  t->factor0 = factor0;
  t->self = job->task->exclude_self ? job->target_first - job->source_first : INT64_MIN;
  return FK_STATUS_OK;
}

/* ---- launches --------------------------------------------------------------------------------- */

/* Runs of columns by the sizes of the task alone, so that the bits depend on neither device nor chunk: enough
 * blocks to fill a large card several times over, none too short to be worth starting. Rows in the tails are few.
 */
static void plan_slots(const struct job *job, bool values, int64_t *cols_per_slot, int *slots) {
  if (job->method == FK_METHOD_WGMMA) {
    fk_wgmma_plan(job->sources.n, fk_n_targets(job->task), 0, values, slots, cols_per_slot);
    return;
  }
  const int64_t tile = on_tensor_cores(job->method) ? FK_TENSOR_ROWS : 64, blocks = 132 * 16;
  int64_t rows = job->rows ? tile : fk_n_targets(job->task), tiles = (rows + tile - 1) / tile;
  int64_t wanted = (blocks + tiles - 1) / tiles, least = on_tensor_cores(job->method) ? 1024 : 512;
  int64_t cols = (job->task->sources.n + wanted - 1) / wanted;
  *cols_per_slot = fk_at_least(fk_up_to_multiple(cols, least), least);
  if (*cols_per_slot > FK_TENSOR_FLUSH) *cols_per_slot = fk_up_to_multiple(*cols_per_slot, FK_TENSOR_FLUSH);
  *slots = (int)fk_blocks(job->sources.ld, *cols_per_slot);
}

/* Some 50 ms, after which an interrupt is seen, and what partial sums fit. */
static int64_t plan_rows(const struct job *job, int64_t rows, int slots, int widths) {
  double d = job->sources.d, v = widths - 1, n = (double)job->sources.n;
  double rate = on_tensor_cores(job->method)      ? 2.5e12 / fmax(1, (d + v) / 32)
                : job->method == FK_METHOD_SINGLE ? 2e13 / (2 * d + v + 8)
                                                  : 1e13 / (2 * d + v + 30);
  double by_time = 0.05 * rate / n, by_memory = job->partial_bytes / (8.0 * slots * widths);
  int64_t most = (int64_t)fmin(fmin(by_time, by_memory), 1e9) / FK_TENSOR_ROWS * FK_TENSOR_ROWS;
  return fk_at_most(fk_at_least(most, FK_TENSOR_ROWS), fk_up_to_multiple(rows, FK_TENSOR_ROWS));
}

template <typename T>
static cudaError_t launch_fma(const struct job *job, struct fk_fma_task<T> *f, enum pass pass, int64_t first,
                              int64_t rows, double *acc) {
  struct fk_fma_task<T> launch = *f;
  const double plain[3] = {1, 0, 0};
  memcpy(launch.factor, pass == PASS_SUMS ? job->factor : plain, sizeof plain);
  launch.shift = pass == PASS_SUMS && job->shifted ? job->shift : NULL;
  launch.find_max = pass == PASS_LARGEST;
  if (pass != PASS_SUMS) launch.n_values = 0;
  launch.first_row = first;
  launch.rows_here = rows;
  launch.acc = acc;
  return fk_fma_launch(&launch, job->context->stream);
}

/* All rows of the chunk against the prepared sources, added to the result. widths: the mass, and the values of
 * this launch. */
static enum fk_status run_launches(struct job *job, enum pass pass, double *result, int widths,
                                   struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  bool tensor = on_tensor_cores(job->method), coordinates = job->task->values == FK_VALUES_COORDINATES;
  int64_t rows = job->targets.n, cols_per_slot;
  int slots;
  double *acc;
  plan_slots(job, widths > 1, &cols_per_slot, &slots);
  int64_t rows_per_launch = plan_rows(job, rows, slots, widths);
  FK_TRY(fk_cuda_array(context, FK_SLOT_PARTIAL, (int64_t)slots * widths * rows_per_launch, &acc, err));
  struct fk_finish finish = {acc, slots, widths, job->first_value};
  finish.undo = tensor ? job->undo : NULL;
  finish.value_scale = !coordinates ? 1 : tensor ? 1 / job->grid.scale : 1 / sqrt(FK_CUDA_LOG2E / 2);
  finish.largest = pass == PASS_LARGEST;
  finish.first = job->source_first == 0;
  finish.result = result;
  finish.ld_result = job->ld_result;
  for (int64_t first = 0; first < rows; first += rows_per_launch) {
    int64_t here = fk_at_most(rows_per_launch, rows - first), ld_acc = fk_up_to_multiple(here, FK_TENSOR_ROWS);
    if (tensor) {
      struct fk_tensor_task t = job->tensor;
      t.first_row = first, t.n_rows = here, t.slots = slots, t.cols_per_slot = cols_per_slot, t.acc = acc;
      FK_CUDA_TRY(job->method == FK_METHOD_WGMMA
                      ? fk_wgmma_launch(&t, job->wgmma_columns, context->multiprocessors, context->stream)
                      : fk_mma_launch(&t, context->stream));
    } else {
      job->f32.ld_acc = job->f64.ld_acc = ld_acc;
      job->f32.slots = job->f64.slots = slots;
      job->f32.cols_per_slot = job->f64.cols_per_slot = cols_per_slot;
      FK_CUDA_TRY(job->method == FK_METHOD_SINGLE ? launch_fma(job, &job->f32, pass, first, here, acc)
                                                  : launch_fma(job, &job->f64, pass, first, here, acc));
    }
    finish.first_row = first, finish.rows = here, finish.ld_acc = ld_acc;
    FK_CUDA_TRY(fk_finish_slots(&finish, context->stream));
    FK_TRY(
        fk_cuda_tick(job->progress, context, job->progress_per_pair * (double)here * (double)job->sources.n, err));
  }
  return FK_STATUS_OK;
}

/* ---- passes ----------------------------------------------------------------------------------- */

static enum fk_status pack_targets(struct job *job, bool values, struct fk_error *err) {
  if (job->method == FK_METHOD_DOUBLE) return pack_targets_fma(job, &job->f64, err);
  if (job->method == FK_METHOD_SINGLE) return pack_targets_fma(job, &job->f32, err);
  return pack_targets_tensor(job, values, err);
}

static enum fk_status run_pass(struct job *job, enum pass pass, double *result, struct fk_error *err) {
  bool values = pass == PASS_SUMS && job->n_values > 0;
  for (int64_t first = 0; first < job->task->sources.n; first += job->source_chunk) {
    job->first_value = 0;
    do {
      FK_TRY(prepare_sources(job, first, values, err));
      FK_TRY(pack_targets(job, values, err));
      int here = !values ? 0 : on_tensor_cores(job->method) ? job->values_here : job->n_values;
      FK_TRY(run_launches(job, pass, result, 1 + here, err));
      job->first_value += here;
    } while (values && job->first_value < job->n_values);
  }
  return FK_STATUS_OK;
}

/* The chunk's results to the host, scaled back. */
static enum fk_status deliver(struct job *job, struct fk_error *err) {
  const struct fk_task *task = job->task;
  struct fk_cuda_context *context = job->context;
  int64_t m = fk_n_targets(task), first = job->target_first, count = job->targets.n;
  int v = job->n_values;
  if (!job->rows) {
    FK_TRY(fk_cuda_download(context, job->result, job->ld_result, 1, first, count, task->mass, m, err));
    if (v)
      FK_TRY(fk_cuda_download(context, job->result + job->ld_result, job->ld_result, v, first, count, task->sums,
                              m, err));
    return FK_STATUS_OK;
  }
  double *host = (double *)malloc(sizeof(double) * (size_t)(count * (v + 2)));
  if (!host)
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for sums in the tails",
                   8e-6 * (double)(count * (v + 2)));
  enum fk_status status =
      fk_cuda_download(context, job->result, job->ld_result, 1 + v, 0, count, host, count, err);
  double *shift = host + count * (1 + v);
  if (!status && job->shifted && task->shift)
    status = fk_cuda_download(context, job->shift, job->ld_result, 1, 0, count, shift, count, err);
  const int64_t *rows = job->rows + first;
  for (int64_t i = 0; i < count && !status; i++) {
    task->mass[rows[i]] = host[i];
    for (int k = 0; k < v; k++) task->sums[k * m + rows[i]] = host[(1 + k) * count + i];
    if (task->shift) task->shift[rows[i]] = job->shifted ? shift[i] * FK_CUDA_LN2 : 0;
  }
  free(host);
  return status;
}

static enum fk_status run_chunk(struct job *job, int64_t first, int64_t count, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  int widths = 1 + job->n_values;
  bool one_chunk = job->source_chunk >= job->task->sources.n;
  job->ld_result = fk_up_to_multiple(count, FK_TENSOR_ROWS);
  FK_TRY(fk_cuda_array(context, FK_SLOT_RESULT, job->ld_result * widths, &job->result, err));
  if (one_chunk) FK_TRY(fetch_sources(job, 0, err));
  FK_TRY(fetch_targets(job, first, count, err));
  FK_CUDA_TRY(cudaEventRecord(context->begin, context->stream));
  FK_TRY(fk_cuda_whiten(context, &job->whitening, job->targets_raw, job->ld_targets_raw, &job->targets, err));
  if (job->shifted) {
    FK_TRY(fk_cuda_array(context, FK_SLOT_SHIFT, job->ld_result, &job->shift, err));
    FK_TRY(run_pass(job, PASS_LARGEST, job->shift, err));
    FK_CUDA_TRY(fk_finish_shift(job->shift, count, context->stream));
  }
  if (job->normalised) {
    FK_TRY(fk_cuda_array(context, FK_SLOT_MASS, job->ld_result, &job->mass, err));
    FK_TRY(run_pass(job, PASS_MASS, job->mass, err));
  }
  FK_TRY(run_pass(job, PASS_SUMS, job->result, err));
  if (on_tensor_cores(job->method) && job->tensor.coarse && widths > 1 && !job->tensor.values.hi)
    FK_CUDA_TRY(fk_finish_own_low(job->result, widths, job->ld_result, count, &job->tensor.rows,
                                  1 / job->grid.scale, context->stream));
  if (job->normalised && is_plain(job->factor))
    FK_CUDA_TRY(fk_finish_ratio(job->result, widths, job->ld_result, count, job->mass, context->stream));
  FK_CUDA_TRY(fk_finish_scale(job->result, widths, job->ld_result, count, job->weight_scale, job->column_scale,
                              false, context->stream));
  FK_CUDA_TRY(cudaEventRecord(context->end, context->stream));
  FK_TRY(deliver(job, err));
  return fk_cuda_elapsed(context, job->seconds, err);
}

/* ---- one device ------------------------------------------------------------------------------- */

struct shared {
  const struct fk_task *task;
  const struct fk_opts *opts;
  double weight_scale, *column_scale; /* host */
  double tail_rows[FK_MAX_DEVICES];
  enum fk_cuda_method method;
};

/* How many sources and targets fit, with their packed forms. */
static enum fk_status plan_chunks(struct job *job, struct fk_error *err) {
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

static enum fk_status run_rows(struct job *job, int64_t first, int64_t end, struct fk_error *err) {
  for (; first < end; first += job->target_chunk)
    FK_TRY(run_chunk(job, first, fk_at_most(job->target_chunk, end - first), err));
  return FK_STATUS_OK;
}

/* Sums in single precision that underflow lose terms below 2^-125; 2^27 of them are needed to matter. */
static double lost_below(const struct job *job) {
  double lost = job->precision == FK_PRECISION_DOUBLE ? FK_CUDA_LOST : 0x1p-125 * 0x1p27;
  return (double)job->task->sources.n * fmax(lost * job->weight_scale, FK_CUDA_LOST);
}

/* Rows that underflowed, each with its own largest exponent taken off, and rows out of the method's range. */
static enum fk_status redo_rows(struct job *job, int64_t first, int64_t count, double *redone,
                                struct fk_error *err) {
  const struct fk_task *task = job->task;
  int64_t *rows = NULL, found = 0;
  FK_TRY(fk_rows_below(task->mass + first, count, task->tail_pass ? lost_below(job) : 0, &rows, &found, err));
  if (found == 0) return FK_STATUS_OK;
  for (int64_t r = 0; r < found; r++) rows[r] += first;
  job->rows = rows;
  job->in_double = true;
  job->shifted = task->tail_pass;
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
  struct job job = {};
  job.context = context;
  job.task = task;
  job.precision = shared->opts->precision == FK_PRECISION_AUTO ? FK_PRECISION_SINGLE : shared->opts->precision;
  job.threads = fk_threads(shared->opts->threads);
  job.progress = progress;
  job.seconds = seconds;
  job.weight_scale = shared->weight_scale;
  job.sources.d = (int)x->d;
  job.source_first = -1;
  job.n_values = task->values == FK_VALUES_COORDINATES ? (int)x->d
                 : task->values == FK_VALUES_COLUMNS   ? (int)task->n_columns
                                                       : 0;
  job.factor[0] = task->factor[0]; /* q/2 = -t ln 2 */
  job.factor[1] = -FK_CUDA_LN2 * task->factor[1];
  job.factor[2] = FK_CUDA_LN2 * FK_CUDA_LN2 * task->factor[2];
  /* A point's own kernel is 1: a sum at the points themselves needs no first pass to be raised by. */
  job.normalised = job.n_values > 0 && job.precision != FK_PRECISION_DOUBLE && x->d > DIFFERENCE_DIMENSION &&
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

static double largest_absolute(const double *x, int64_t n) {
  double largest = 0;
  for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(x[i]));
  return largest > 0 ? largest : 1;
}

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
  shared.weight_scale = task->weights ? largest_absolute(task->weights, task->sources.n) : 1;
  if (task->values == FK_VALUES_COLUMNS) {
    shared.column_scale = (double *)malloc(sizeof(double) * (size_t)task->n_columns);
    if (!shared.column_scale) return fk_fail(err, FK_STATUS_ALLOC, "out of memory");
    for (int64_t v = 0; v < task->n_columns; v++)
      shared.column_scale[v] = largest_absolute(task->columns + v * task->sources.n, task->sources.n);
  }
  enum fk_status status = fk_cuda_on_devices(contexts, count, fk_n_targets(task), FK_TENSOR_ROWS, &opts->poll,
                                             sums_range, &shared, &stats->device_seconds, err);
  free(shared.column_scale);
  FK_TRY(status);
  fk_cuda_describe(stats, contexts, count, methods[shared.method],
                   shared.method == FK_METHOD_DOUBLE ? "double" : precision_name(opts->precision));
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
    .available = available,
    .seconds = seconds,
    .describe = describe,
    .sums = sums,
    .debiased_loo = fk_cuda_debiased_loo,
};
