/* A job's passes: launches over all pieces of targets and sources, and the results. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "job.cuh"

/* ---- launches --------------------------------------------------------------------------------- */

/* By the sizes of the task alone, so that the bits depend on neither device nor chunk. */
int64_t fk_cols_per_slot(int64_t n_cols, int64_t n_rows, bool tensor) {
  const int64_t tile = tensor ? FK_TENSOR_ROWS : 64, blocks = 132 * 16, least = tensor ? 1024 : 512;
  int64_t wanted = fk_pieces(blocks, fk_pieces(n_rows, tile)), cols = fk_pieces(n_cols, wanted);
  cols = fk_larger(fk_padded(cols, least), least);
  return cols > FK_TENSOR_FLUSH ? fk_padded(cols, FK_TENSOR_FLUSH) : cols;
}

/* Of a few rows: more blocks than a card has processors, as long as their sums are soon added. */
static int64_t cols_of_tails(int64_t n_cols) {
  const int64_t most = fk_cols_per_slot(n_cols, 1, false), tile = 64;
  return fk_smaller(most, fk_padded(fk_larger(n_cols / 128, 2 * tile), tile));
}

static void plan_slots(const struct fk_cuda_job *job, bool values, int64_t *cols_per_slot, int *slots) {
  const int64_t n = job->sources->points.n;
  if (job->frames) {
    fk_job_plan_parts(job, values, cols_per_slot, slots);
    return;
  }
  if (job->method == FK_METHOD_WGMMA && job->least) {
    /* Lists are of all lengths: so many blocks that none is waited for. */
    const int64_t most = values ? FK_TENSOR_LONGEST : INT64_MAX - FK_TENSOR_FLUSH;
    *cols_per_slot = fk_padded(fk_cols_per_slot(n, fk_n_targets(job->task), true), FK_TENSOR_FLUSH);
    *cols_per_slot = fk_smaller(*cols_per_slot, most);
    *slots = (int)fk_blocks(job->sources->points.ld, *cols_per_slot);
    return;
  }
  if (job->method == FK_METHOD_WGMMA) {
    const int unit = job->sources->points.d > FK_TENSOR_WIDE ? FK_TENSOR_FLUSH : FK_TENSOR_LEAST_SLOT;
    fk_wgmma_plan(n, fk_n_targets(job->task), values, unit, slots, cols_per_slot);
    return;
  }
  int64_t columns = job->apart ? job->sources->points.n : job->source_end - job->source_begin;
  if (job->rows) /* those in the tails are few */
    *cols_per_slot = cols_of_tails(columns);
  else
    *cols_per_slot = fk_cols_per_slot(columns, fk_n_targets(job->task), fk_on_tensor_cores(job->method));
  *slots = (int)fk_blocks(job->sources->points.ld, *cols_per_slot);
}

/* Until an interrupt is seen, and what partial sums fit. */
static int64_t plan_rows(const struct fk_cuda_job *job, int64_t rows, int slots, int widths) {
  const double least_kept = 0.125; /* lists take memory, too */
  const struct fk_exact_cuda_costs *c = &fk_costs.exact_cuda;
  const struct fk_cuda_points *x = &job->sources->points;
  double d = x->d, v = widths - 1, n = (double)x->n;
  double rate = fk_on_tensor_cores(job->method)   ? c->tensor / fmax(1, (d + v) / c->tensor_width)
                : job->method == FK_METHOD_DMMA   ? c->tensor_f64 / (d + v + c->gaussian_f64)
                : job->method == FK_METHOD_SINGLE ? c->f32 / (2 * d + v + c->gaussian_f32)
                                                  : c->f64 / (2 * d + v + c->kernel_f64);
  if (job->least && job->method == FK_METHOD_WGMMA) rate /= fmax(job->kept, least_kept);
  double by_time = c->launch * rate / n, by_memory = job->partial_bytes / (8.0 * slots * widths);
  const int64_t unit = job->frames ? 2 * FK_TENSOR_ROWS : FK_TENSOR_ROWS; /* whole units of parts */
  int64_t most = (int64_t)fmin(fmin(by_time, by_memory), 1e9) / unit * unit;
  return fk_smaller(fk_larger(most, unit), fk_padded(rows, unit));
}

/* Some rows of the chunk, and where their slots' sums go. */
struct launch {
  int64_t first, rows, ld_acc, cols_per_slot;
  int slots;
  double *acc;
};

template <typename T>
static cudaError_t launch_fma(const struct fk_cuda_job *job, const struct fk_fma_task<T> *f,
                              enum fk_cuda_pass pass, const struct launch *l) {
  struct fk_fma_task<T> t = *f;
  const double plain[3] = {1, 0, 0};
  memcpy(t.factor, pass == FK_PASS_SUMS ? job->form.factor : plain, sizeof plain);
  t.shift = pass == FK_PASS_SUMS && job->shifted ? job->shift : NULL;
  t.find_max = pass == FK_PASS_LARGEST;
  t.tails = job->shifted;
  if (pass != FK_PASS_SUMS) t.n_values = 0;
  t.first_row = l->first, t.rows_here = l->rows, t.ld_acc = l->ld_acc, t.acc = l->acc;
  t.slots = l->slots, t.cols_per_slot = l->cols_per_slot;
  return fk_fma_launch(&t, job->context->stream);
}

static cudaError_t launch_dmma(const struct fk_cuda_job *job, const struct launch *l) {
  struct fk_dmma_task t = job->dmma;
  t.first_row = l->first, t.rows_here = l->rows, t.ld_acc = l->ld_acc, t.acc = l->acc;
  t.slots = l->slots, t.cols_per_slot = l->cols_per_slot;
  return fk_dmma_launch(&t, job->context->stream);
}

static cudaError_t launch_tensor(const struct fk_cuda_job *job, const struct launch *l) {
  struct fk_tensor_task t = job->tensor;
  t.first_row = l->first, t.n_rows = l->rows, t.acc = l->acc;
  t.slots = l->slots, t.cols_per_slot = l->cols_per_slot;
  return job->method == FK_METHOD_WGMMA ? fk_wgmma_launch(&t, job->sources->wgmma_columns, job->context->stream)
                                        : fk_mma_launch(&t, job->context->stream);
}

static cudaError_t launch(const struct fk_cuda_job *job, enum fk_cuda_pass pass, const struct launch *l) {
  switch (job->method) {
    case FK_METHOD_DOUBLE: return launch_fma(job, &job->f64, pass, l);
    case FK_METHOD_SINGLE: return launch_fma(job, &job->f32, pass, l);
    case FK_METHOD_DMMA: return launch_dmma(job, l);
    case FK_METHOD_MMA:
    case FK_METHOD_WGMMA: break;
  }
  return launch_tensor(job, l);
}

/* What coordinates are here, of those that are whitened. */
static double scale_of_values(const struct fk_cuda_job *job) {
  if (job->task->values != FK_VALUES_COORDINATES || job->method == FK_METHOD_DMMA) return 1;
  return fk_on_tensor_cores(job->method) ? job->grid.scale : job->form.scale;
}

/* What is near to the chunk's rows, where they are in order. */
static enum fk_status begin_lists(struct fk_cuda_job *job, bool values, struct fk_error *err) {
  struct fk_near near = {values, fk_job_uses_factor(job, values), fk_job_raise(job, values)};
  const double *factor = job->form.factor, farthest = 180; /* as exponents go, in base 2 */
  if (near.factor) near.factor_bits = (int)ceil(log2(fmax(1, fabs(factor[0]) + farthest * fabs(factor[1]))));
  near.mass = values && job->normalised ? job->mass : NULL;
  near.least = job->least;
  near.sources = (double)job->task->sources.n;
  fk_wgmma_tiles(&job->tensor, &job->lists.stage_cols, &job->lists.block_rows);
  return fk_cuda_lists_begin(job->context, &job->sources->points, &job->targets, &near, &job->lists, err);
}

/* Those of a launch. */
static enum fk_status make_lists(struct fk_cuda_job *job, const struct launch *l, struct fk_error *err) {
  struct fk_tensor_task *t = &job->tensor;
  t->first_row = l->first, t->n_rows = l->rows;
  t->slots = l->slots, t->cols_per_slot = l->cols_per_slot;
  return fk_cuda_lists_make(job->context, &job->lists, t, err);
}

/* What rows are of the whole sum. Of frames, they are so many of their places. */
static double pairs_of(const struct fk_cuda_job *job, int64_t rows) {
  if (!job->frames) return (double)rows * (double)job->sources->points.n;
  return (double)rows / (double)job->targets.n * (double)job->part_rows.list.n * (double)job->frames->list.n;
}

/* All rows of the chunk against the prepared sources, added to the result. widths: the mass, and the values of
 * this launch. */
static enum fk_status run_launches(struct fk_cuda_job *job, enum fk_cuda_pass pass, double *result, int widths,
                                   struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const bool lists = job->least && job->method == FK_METHOD_WGMMA;
  const int64_t rows = job->targets.n;
  struct launch l = {};
  plan_slots(job, widths > 1, &l.cols_per_slot, &l.slots);
  const int64_t rows_per_launch = plan_rows(job, rows, l.slots, widths);
  FK_TRY(fk_cuda_room(context, &job->partial_buffer, (int64_t)l.slots * widths * rows_per_launch, &l.acc, err));
  struct fk_finish finish = {l.acc, l.slots, widths, job->first_value};
  finish.undo = fk_on_tensor_cores(job->method) || job->method == FK_METHOD_DMMA ? job->undo : NULL;
  finish.value_scale = 1 / scale_of_values(job);
  finish.largest = pass == FK_PASS_LARGEST;
  finish.first = job->apart || job->sources->first == job->source_begin;
  finish.result = result;
  finish.ld_result = job->ld_result;
  job->tensor.parts = finish.parts = job->frames ? job->part_rows.parts : NULL;
  finish.cols_per_slot = l.cols_per_slot;
  if (lists) FK_TRY(begin_lists(job, widths > 1, err));
  for (; l.first < rows; l.first += rows_per_launch) {
    l.rows = fk_smaller(rows_per_launch, rows - l.first);
    l.ld_acc = fk_padded(l.rows, FK_TENSOR_ROWS);
    if (lists) FK_TRY(make_lists(job, &l, err));
    FK_CUDA_TRY(launch(job, pass, &l));
    finish.first_row = l.first, finish.rows = l.rows, finish.ld_acc = l.ld_acc;
    FK_CUDA_TRY(fk_finish_slots(&finish, context->stream));
    FK_TRY(fk_cuda_tick(job->progress, context, job->progress_per_pair * pairs_of(job, l.rows), err));
  }
  return FK_STATUS_OK;
}

/* ---- passes ----------------------------------------------------------------------------------- */

enum fk_status fk_job_sum(struct fk_cuda_job *job, enum fk_cuda_pass pass, double *result, struct fk_error *err) {
  bool values = pass == FK_PASS_SUMS && job->n_values > 0;
  job->first_value = 0;
  if (job->pairs) return fk_job_take_pairs(job, result, err);
  if (values && job->by_matrix) return fk_job_sum_matrix(job, result, err);
  do {
    FK_TRY(fk_job_pack_sources(job, values, err));
    FK_TRY(fk_job_pack_targets(job, values, err));
    int here = !values ? 0 : fk_on_tensor_cores(job->method) ? job->sources->values_here : job->n_values;
    FK_TRY(run_launches(job, pass, result, 1 + here, err));
    job->first_value += here;
  } while (values && job->first_value < job->n_values);
  return FK_STATUS_OK;
}

static enum fk_status run_pass(struct fk_cuda_job *job, enum fk_cuda_pass pass, double *result,
                               struct fk_error *err) {
  for (int64_t first = job->source_begin; first < job->source_end; first += job->source_chunk) {
    FK_TRY(fk_job_whiten_sources(job, first, err));
    FK_TRY(job->ordered     ? fk_job_sum_ordered(job, pass, result, err)
           : job->by_frames ? fk_job_sum_frames(job, pass, result, err)
                            : fk_job_sum(job, pass, result, err));
  }
  return FK_STATUS_OK;
}

/* The chunk's results to the host, scaled back. */
static enum fk_status deliver(struct fk_cuda_job *job, struct fk_error *err) {
  const struct fk_task *task = job->task;
  struct fk_cuda_context *context = job->context;
  int64_t m = fk_n_targets(task), first = job->target_first, count = job->targets.n;
  int v = job->n_values;
  const bool by_places = fk_job_goes_by_places(job);
  if (by_places) FK_TRY(fk_job_find_places(job, err));
  if (!job->rows && !by_places) {
    FK_TRY(fk_cuda_download(context, job->result, job->ld_result, fk_rows(m, 1, first, count), task->mass, err));
    if (v)
      FK_TRY(fk_cuda_download(context, job->result + job->ld_result, job->ld_result, fk_rows(m, v, first, count),
                              task->sums, err));
    return FK_STATUS_OK;
  }
  double *host = (double *)malloc(sizeof(double) * (size_t)(count * (v + 2)));
  if (!host)
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for sums of some rows",
                   8e-6 * (double)(count * (v + 2)));
  enum fk_status status =
      fk_cuda_download(context, job->result, job->ld_result, fk_all_rows(count, 1 + v), host, err);
  double *shift = host + count * (1 + v);
  if (!status && job->shifted && task->shift)
    status = fk_cuda_download(context, job->shift, job->ld_result, fk_all_rows(count, 1), shift, err);
  const int64_t *rows = (by_places ? job->places : job->rows) + first;
  for (int64_t i = 0; i < count && !status; i++) {
    task->mass[rows[i]] = host[i];
    for (int k = 0; k < v; k++) task->sums[k * m + rows[i]] = host[(1 + k) * count + i];
    if (task->shift) task->shift[rows[i]] = job->shifted ? shift[i] * FK_LN2 : 0;
  }
  free(host);
  return status;
}

enum fk_status fk_job_add_own_low(struct fk_cuda_job *job, double *result, int64_t count, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  bool packed = !job->pairs && !job->by_matrix && fk_on_tensor_cores(job->method);
  if (!packed || !job->tensor.coarse || job->n_values == 0 || job->tensor.values.hi) return FK_STATUS_OK;
  FK_CUDA_TRY(fk_finish_own_low(result, 1 + job->n_values, job->ld_result, count, &job->tensor.rows,
                                1 / job->grid.scale, context->stream));
  return FK_STATUS_OK;
}

/* The passes over a chunk whose points are whitened. */
static enum fk_status run_passes(struct fk_cuda_job *job, int64_t count, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  int widths = 1 + job->n_values;
  if (job->shifted) {
    FK_TRY(fk_cuda_room(context, &job->shift_buffer, job->ld_result, &job->shift, err));
    FK_TRY(run_pass(job, FK_PASS_LARGEST, job->shift, err));
    FK_CUDA_TRY(fk_finish_shift(job->shift, count, context->stream));
  }
  if (job->normalised) {
    FK_TRY(fk_cuda_room(context, &job->mass_buffer, job->ld_result, &job->mass, err));
    FK_TRY(run_pass(job, FK_PASS_MASS, job->mass, err));
  }
  FK_TRY(run_pass(job, FK_PASS_SUMS, job->result, err));
  if (!job->by_frames && !job->ordered) FK_TRY(fk_job_add_own_low(job, job->result, count, err));
  if (job->normalised && fk_is_plain(job->form.factor))
    FK_CUDA_TRY(fk_finish_ratio(job->result, widths, job->ld_result, count, job->mass, context->stream));
  const double *own = job->task->values == FK_VALUES_COLUMNS ? job->sources->column_scale : NULL;
  FK_CUDA_TRY(
      fk_finish_scale(job->result, widths, job->ld_result, count, job->weight_scale, own, false, context->stream));
  return FK_STATUS_OK;
}

enum fk_status fk_job_run_chunk(struct fk_cuda_job *job, int64_t first, int64_t count, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  bool one_chunk = job->source_chunk >= job->source_end - job->source_begin;
  job->ld_result = fk_padded(count, FK_TENSOR_ROWS);
  FK_TRY(fk_cuda_room(context, &job->result_buffer, job->ld_result * (1 + job->n_values), &job->result, err));
  if (one_chunk) FK_TRY(fk_job_fetch_sources(job, job->source_begin, err));
  FK_TRY(fk_job_fetch_targets(job, first, count, err));
  FK_CUDA_TRY(cudaEventRecord(context->begin, context->stream));
  if (one_chunk) {
    FK_TRY(fk_job_whiten_sources(job, job->source_begin, err));
    job->normalised &= fk_on_tensor_cores(job->method) && !job->by_matrix; /* other sums need not be raised */
  }
  FK_TRY(fk_job_whiten_targets(job, err));
  FK_TRY(run_passes(job, count, err));
  if (job->move) FK_TRY(fk_job_move(job, err));
  FK_CUDA_TRY(cudaEventRecord(context->end, context->stream));
  if (!job->move) FK_TRY(deliver(job, err));
  return fk_cuda_elapsed(context, job->seconds, err);
}

void fk_job_free(struct fk_cuda_job *job) {
  struct fk_cuda_buffer *all[] = {
      &job->self_buffer,    &job->raw_targets,  &job->white_targets,  &job->low_targets,
      &job->packed_targets, &job->stage_buffer, &job->undo_buffer,    &job->result_buffer,
      &job->mass_buffer,    &job->shift_buffer, &job->partial_buffer, &job->matrix_buffer,
      &job->matrix_values,  &job->matrix_sums,  &job->matrix_scales,  &job->row_order.buffer};
  for (struct fk_cuda_buffer *buffer : all) fk_cuda_drop(job->context, buffer);
  for (struct fk_row_room *room : {&job->of_frame, &job->of_order})
    for (struct fk_cuda_buffer *buffer : {&room->targets, &room->mass, &room->least, &room->result})
      fk_cuda_drop(job->context, buffer);
  fk_cuda_frame_rows_free(job->context, &job->part_rows);
  fk_cuda_lists_free(job->context, &job->lists);
  free(job->places);
}
