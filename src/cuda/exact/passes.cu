/* The passes of a job: launches over all pieces of targets and sources, and the results. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "job.cuh"

/* ---- launches --------------------------------------------------------------------------------- */

/* Depends on the sizes of the task alone, so that the bits depend on neither device nor chunk. */
int64_t fk_cols_per_slot(int64_t n_cols, int64_t n_rows, bool tensor) {
  const struct fk_cuda_cuts *cuts = &fk_costs.cuda_cuts;
  const int64_t tile = tensor ? FK_TENSOR_ROWS : 64, least = tensor ? cuts->slot_tensor : cuts->slot;
  int64_t wanted = fk_pieces(cuts->blocks, fk_pieces(n_rows, tile)), cols = fk_pieces(n_cols, wanted);
  cols = fk_larger(fk_padded(cols, least), least);
  return cols > FK_TENSOR_FLUSH ? fk_padded(cols, FK_TENSOR_FLUSH) : cols;
}

/* For few rows: more blocks than a GPU has multiprocessors, while adding their sums stays cheap. */
static int64_t cols_of_tails(int64_t n_cols) {
  const int64_t most = fk_cols_per_slot(n_cols, 1, false), tile = 64;
  return fk_smaller(most, fk_padded(fk_larger(n_cols / 128, 2 * tile), tile));
}

/* Rows in order can skip the blocks that are not near. */
static bool takes_lists(const struct fk_pass_view view, enum fk_cuda_method method) {
  return view.least && method == FK_METHOD_WGMMA;
}

static void plan_slots(const struct fk_cuda_job *job, const struct fk_pass_view view, enum fk_cuda_method method,
                       int64_t *cols_per_slot, int *slots) {
  const int64_t n = view.sources->points.n, m = fk_n_targets(job->task);
  const bool values = fk_pass_has_values(job, view), lists = takes_lists(view, method);
  if (view.frames) {
    fk_job_plan_parts(job, view, lists, cols_per_slot, slots);
    return;
  }
  if (method == FK_METHOD_WGMMA && !lists) {
    const int unit = view.sources->points.d > FK_TENSOR_WIDE ? FK_TENSOR_FLUSH : FK_TENSOR_LEAST_SLOT;
    fk_wgmma_plan(n, m, values, unit, slots, cols_per_slot);
    return;
  }
  if (lists) { /* slots differ in length: enough blocks to balance the load */
    const int64_t most = values ? FK_TENSOR_LONGEST : INT64_MAX - FK_TENSOR_FLUSH;
    *cols_per_slot = fk_smaller(fk_padded(fk_cols_per_slot(n, m, true), FK_TENSOR_FLUSH), most);
  } else if (job->rows) { /* rows to recompute are few */
    *cols_per_slot = cols_of_tails(view.columns);
  } else {
    *cols_per_slot = fk_cols_per_slot(view.columns, m, fk_on_tensor_cores(method));
  }
  *slots = (int)fk_blocks(view.sources->points.ld, *cols_per_slot);
}

/* Limits the rows of a launch by the time until interrupts are checked and by the memory of partial sums. */
static int64_t plan_rows(const struct fk_cuda_job *job, const struct fk_pass_view view, enum fk_cuda_method method,
                         int slots, int widths) {
  const double least_kept = 0.125; /* lists take memory, too */
  const struct fk_exact_cuda_costs *c = &fk_costs.exact_cuda;
  const struct fk_cuda_points *x = &view.sources->points;
  double d = x->d, v = widths - 1, n = (double)x->n;
  double rate = fk_on_tensor_cores(method)   ? c->tensor / fmax(1, (d + v) / c->tensor_width)
                : method == FK_METHOD_DMMA   ? c->tensor_f64 / (d + v + c->gaussian_f64)
                : method == FK_METHOD_SINGLE ? c->f32 / (2 * d + v + c->gaussian_f32)
                                             : c->f64 / (2 * d + v + c->kernel_f64);
  if (takes_lists(view, method)) rate /= fmax(view.kept, least_kept);
  double by_time = c->launch * rate / n, by_memory = job->partial_bytes / (8.0 * slots * widths);
  const int64_t unit = view.frames ? 2 * FK_TENSOR_ROWS : FK_TENSOR_ROWS; /* whole units of parts */
  int64_t most = (int64_t)fmin(fmin(by_time, by_memory), 1e9) / unit * unit;
  return fk_smaller(fk_larger(most, unit), fk_padded(view.targets.n, unit));
}

/* Some rows of the view, and the place of their slots' sums. */
struct launch_rows {
  int64_t first, rows, ld_acc, cols_per_slot;
  int slots;
  double *acc;
};

template <typename T>
static cudaError_t launch_fma(const struct fk_cuda_job *job, const struct fk_pass_view view,
                              const struct fk_fma_task<T> *f, const struct launch_rows *l) {
  struct fk_fma_task<T> t = *f;
  const double plain[3] = {1, 0, 0};
  memcpy(t.factor, view.pass == FK_PASS_SUMS ? job->form.factor : plain, sizeof plain);
  t.shift = view.shift;
  t.find_max = view.pass == FK_PASS_LARGEST;
  t.tails = job->shifted;
  if (view.pass != FK_PASS_SUMS) t.n_values = 0;
  t.first_row = l->first, t.rows_here = l->rows, t.ld_acc = l->ld_acc, t.acc = l->acc;
  t.slots = l->slots, t.cols_per_slot = l->cols_per_slot;
  return fk_fma_launch(&t, job->context->stream);
}

static cudaError_t launch_dmma(const struct fk_cuda_job *job, struct fk_dmma_task t, const struct launch_rows *l) {
  t.first_row = l->first, t.rows_here = l->rows, t.ld_acc = l->ld_acc, t.acc = l->acc;
  t.slots = l->slots, t.cols_per_slot = l->cols_per_slot;
  return fk_dmma_launch(&t, job->context->stream);
}

static cudaError_t launch_tensor(const struct fk_cuda_job *job, const struct fk_pass_view view,
                                 const struct fk_cuda_packed *packed, const struct launch_rows *l) {
  struct fk_tensor_task t = packed->tensor;
  t.first_row = l->first, t.n_rows = l->rows, t.acc = l->acc;
  t.slots = l->slots, t.cols_per_slot = l->cols_per_slot;
  return packed->method == FK_METHOD_WGMMA ? fk_wgmma_launch(&t, view.sources->wgmma_columns, job->context->stream)
                                           : fk_mma_launch(&t, job->context->stream);
}

static cudaError_t launch_packed(const struct fk_cuda_job *job, const struct fk_pass_view view,
                                 const struct fk_cuda_packed *packed, const struct launch_rows *l) {
  switch (packed->method) {
    case FK_METHOD_DOUBLE: return launch_fma(job, view, &packed->f64, l);
    case FK_METHOD_SINGLE: return launch_fma(job, view, &packed->f32, l);
    case FK_METHOD_DMMA: return launch_dmma(job, packed->dmma, l);
    default: return launch_tensor(job, view, packed, l);
  }
}

/* The factor between packed and whitened coordinates, if coordinates are the values. */
static double scale_of_values(const struct fk_cuda_job *job, const struct fk_pass_view view,
                              enum fk_cuda_method method) {
  if (job->task->values != FK_VALUES_COORDINATES || method == FK_METHOD_DMMA) return 1;
  return fk_on_tensor_cores(method) ? view.way.grid.scale : job->form.scale;
}

/* Finds the near stages of the rows, if they are in order. */
static enum fk_status begin_lists(struct fk_cuda_job *job, const struct fk_pass_view view,
                                  const struct fk_tensor_task *task, struct fk_error *err) {
  const bool values = fk_pass_has_values(job, view);
  struct fk_list_reach reach = {values, fk_job_uses_factor(job, values), fk_job_raise(job, view.sources, values)};
  const double *factor = job->form.factor, farthest = 180; /* exponents are to base 2 */
  if (reach.factor) reach.factor_bits = (int)ceil(log2(fmax(1, fabs(factor[0]) + farthest * fabs(factor[1]))));
  reach.mass = values ? view.mass : NULL;
  reach.least = view.least;
  reach.sources = (double)job->task->sources.n;
  fk_wgmma_tiles(task, &job->lists.stage_cols, &job->lists.block_rows);
  return fk_cuda_lists_begin(job->context, &view.sources->points, &view.targets, &reach, &job->lists, err);
}

/* Adds the lists of a launch to the task. */
static enum fk_status make_lists(struct fk_cuda_job *job, const struct launch_rows *l, struct fk_tensor_task *t,
                                 struct fk_error *err) {
  t->first_row = l->first, t->n_rows = l->rows;
  t->slots = l->slots, t->cols_per_slot = l->cols_per_slot;
  return fk_cuda_lists_make(job->context, &job->lists, t, err);
}

/* Pairs of these rows with the sources; in frames, pairs of their places. */
static double pairs_of(const struct fk_cuda_job *job, const struct fk_pass_view view, int64_t rows) {
  if (!view.frames) return (double)rows * (double)view.sources->points.n;
  return (double)rows / (double)view.targets.n * (double)job->chunk.frame_rows.list.n *
         (double)view.frames->list.n;
}

/* How the sums of slots become results. widths: the kernel sum and the values of this launch. */
static struct fk_finish finish_of(const struct fk_cuda_job *job, const struct fk_pass_view view,
                                  const struct fk_cuda_packed *packed, const struct launch_rows *l, int widths) {
  struct fk_finish finish = {l->acc, l->slots, widths, packed->first_value};
  finish.undo = packed->undo;
  finish.value_scale = 1 / scale_of_values(job, view, packed->method);
  finish.largest = view.pass == FK_PASS_LARGEST;
  finish.first = view.first;
  finish.parts = packed->tensor.parts;
  finish.cols_per_slot = l->cols_per_slot;
  finish.result = view.result;
  finish.ld_result = view.ld_result;
  return finish;
}

/* Sums all rows of the view over the packed sources and adds to the result. */
static enum fk_status run_launches(struct fk_cuda_job *job, const struct fk_pass_view view,
                                   struct fk_cuda_packed *packed, int widths, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const bool lists = takes_lists(view, packed->method);
  const int64_t rows = view.targets.n;
  struct launch_rows l = {};
  plan_slots(job, view, packed->method, &l.cols_per_slot, &l.slots);
  const int64_t rows_per_launch = plan_rows(job, view, packed->method, l.slots, widths);
  FK_TRY(fk_job_room(job, FK_ROOM_PARTIALS, (int64_t)l.slots * widths * rows_per_launch, &l.acc, err));
  packed->tensor.parts = view.frames ? job->chunk.frame_rows.parts : NULL;
  struct fk_finish finish = finish_of(job, view, packed, &l, widths);
  if (lists) FK_TRY(begin_lists(job, view, &packed->tensor, err));
  for (; l.first < rows; l.first += rows_per_launch) {
    l.rows = fk_smaller(rows_per_launch, rows - l.first);
    l.ld_acc = fk_padded(l.rows, FK_TENSOR_ROWS);
    if (lists) FK_TRY(make_lists(job, &l, &packed->tensor, err));
    FK_CUDA_TRY(launch_packed(job, view, packed, &l));
    finish.first_row = l.first, finish.rows = l.rows, finish.ld_acc = l.ld_acc;
    FK_CUDA_TRY(fk_finish_slots(&finish, context->stream));
    FK_TRY(fk_cuda_tick(job->progress, context, job->progress_per_pair * pairs_of(job, view, l.rows), err));
  }
  return FK_STATUS_OK;
}

/* ---- passes ----------------------------------------------------------------------------------- */

/* Adds the low parts that sums of coordinates lack; see fk_finish_own_low(). */
static enum fk_status add_own_low(const struct fk_cuda_job *job, const struct fk_pass_view view,
                                  const struct fk_cuda_packed *packed, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  const struct fk_tensor_task *t = &packed->tensor;
  if (!fk_on_tensor_cores(packed->method) || !t->coarse || t->values.hi) return FK_STATUS_OK;
  return FK_CUDA_STATUS(fk_finish_own_low(view.result, 1 + job->n_values, view.ld_result, view.targets.n, &t->rows,
                                          1 / view.way.grid.scale, context->stream));
}

enum fk_status fk_job_sum(struct fk_cuda_job *job, const struct fk_pass_view view, struct fk_error *err) {
  const bool values = fk_pass_has_values(job, view);
  struct fk_cuda_packed packed;
  int first_value = 0;
  if (job->pairs) return fk_job_take_pairs(job, view, err);
  if (values && view.way.by_matrix) return fk_job_sum_matrix(job, view, err);
  do {
    FK_TRY(fk_job_pack_sources(job, view, first_value, &packed, err));
    FK_TRY(fk_job_pack_targets(job, view, &packed, err));
    const int here = values ? packed.values_here : 0;
    FK_TRY(run_launches(job, view, &packed, 1 + here, err));
    first_value += here;
  } while (values && first_value < job->n_values);
  return values && view.last ? add_own_low(job, view, &packed, err) : FK_STATUS_OK;
}

static enum fk_status run_pass(struct fk_cuda_job *job, enum fk_cuda_pass pass, double *result,
                               struct fk_error *err) {
  const struct fk_job_chunk *chunk = &job->chunk;
  const bool sums = pass == FK_PASS_SUMS;
  for (int64_t first = job->source_begin; first < job->source_end; first += job->source_chunk) {
    struct fk_pass_view view = {pass, job->sources};
    FK_TRY(fk_job_whiten_sources(job, first, &view.way, err));
    if (view.way.doubled) FK_TRY(fk_job_find_targets_low(job, err));
    view.first = first == job->source_begin;
    view.last = first + job->source_chunk >= job->source_end;
    view.columns = job->source_end - job->source_begin;
    view.targets = chunk->targets;
    view.self = chunk->self;
    view.mass = sums && job->normalised ? chunk->mass : NULL;
    view.shift = sums && job->shifted ? chunk->shift : NULL;
    view.result = result;
    view.ld_result = chunk->ld_result;
    FK_TRY(view.way.ordered  ? fk_job_sum_ordered(job, view, err)
           : view.way.framed ? fk_job_sum_frames(job, view, err)
                             : fk_job_sum(job, view, err));
  }
  return FK_STATUS_OK;
}

/* Delivers rows that are not contiguous on the host. */
static enum fk_status deliver_rows(struct fk_cuda_job *job, const int64_t *rows, struct fk_error *err) {
  const struct fk_task *task = job->task;
  const struct fk_job_chunk *chunk = &job->chunk;
  struct fk_cuda_context *context = job->context;
  const int64_t m = fk_n_targets(task), count = chunk->targets.n;
  const int v = job->n_values;
  fk_host_array<double> host(count * (v + 2));
  if (!host.at)
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for sums of some rows",
                   8e-6 * (double)(count * (v + 2)));
  FK_TRY(fk_cuda_download(context, chunk->result, chunk->ld_result, fk_all_rows(count, 1 + v), host.at, err));
  double *shift = host.at + count * (1 + v);
  if (job->shifted && task->shift)
    FK_TRY(fk_cuda_download(context, chunk->shift, chunk->ld_result, fk_all_rows(count, 1), shift, err));
  for (int64_t i = 0; i < count; i++) {
    task->mass[rows[i]] = task->logs && job->rows ? log(fabs(host.at[i])) + shift[i] * FK_LN2 : host.at[i];
    for (int k = 0; k < v; k++) task->sums[k * m + rows[i]] = host.at[(1 + k) * count + i];
    if (task->shift) task->shift[rows[i]] = job->shifted && !task->logs ? shift[i] * FK_LN2 : 0;
  }
  return FK_STATUS_OK;
}

/* Delivers the chunk's results to the host, scaled back. */
static enum fk_status deliver_chunk(struct fk_cuda_job *job, struct fk_error *err) {
  const struct fk_task *task = job->task;
  const struct fk_job_chunk *chunk = &job->chunk;
  const int64_t m = fk_n_targets(task), count = chunk->targets.n;
  if (chunk->by_places) FK_TRY(fk_job_find_places(job, err));
  if (chunk->by_places || job->rows)
    return deliver_rows(job, (chunk->by_places ? job->places : job->rows) + chunk->first, err);
  FK_TRY(fk_cuda_download(job->context, chunk->result, chunk->ld_result, fk_rows(m, 1, chunk->first, count),
                          task->mass, err));
  if (job->n_values == 0) return FK_STATUS_OK;
  return fk_cuda_download(job->context, chunk->result + chunk->ld_result, chunk->ld_result,
                          fk_rows(m, job->n_values, chunk->first, count), task->sums, err);
}

/* Runs the passes over a chunk of whitened points. */
static enum fk_status run_passes(struct fk_cuda_job *job, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  struct fk_job_chunk *chunk = &job->chunk;
  const int widths = 1 + job->n_values;
  const int64_t count = chunk->targets.n, ld = chunk->ld_result;
  if (job->shifted) {
    FK_TRY(fk_job_room(job, FK_ROOM_SHIFT, ld, &chunk->shift, err));
    FK_TRY(run_pass(job, FK_PASS_LARGEST, chunk->shift, err));
    FK_CUDA_TRY(fk_finish_shift(chunk->shift, count, context->stream));
  }
  if (job->normalised) {
    FK_TRY(fk_job_room(job, FK_ROOM_MASS, ld, &chunk->mass, err));
    FK_TRY(run_pass(job, FK_PASS_MASS, chunk->mass, err));
  }
  FK_TRY(run_pass(job, FK_PASS_SUMS, chunk->result, err));
  if (job->normalised && fk_is_plain(job->form.factor))
    FK_CUDA_TRY(fk_finish_ratio(chunk->result, widths, ld, count, chunk->mass, context->stream));
  const double *own = job->task->values == FK_VALUES_COLUMNS ? job->sources->column_scale : NULL;
  return FK_CUDA_STATUS(
      fk_finish_scale(chunk->result, widths, ld, count, job->weight_scale, own, false, context->stream));
}

enum fk_status fk_job_run_chunk(struct fk_cuda_job *job, int64_t first, int64_t count, struct fk_error *err) {
  struct fk_cuda_context *context = job->context;
  struct fk_job_chunk *chunk = &job->chunk;
  struct fk_job_way way;
  bool one_chunk = job->source_chunk >= job->source_end - job->source_begin;
  chunk->ld_result = fk_padded(count, FK_TENSOR_ROWS);
  FK_TRY(fk_job_room(job, FK_ROOM_RESULT, chunk->ld_result * (1 + job->n_values), &chunk->result, err));
  if (one_chunk) FK_TRY(fk_job_begin_sources(job, err));
  FK_TRY(fk_job_fetch_targets(job, first, count, err));
  if (!job->sources->asked) FK_CUDA_TRY(cudaEventRecord(context->begin, context->stream));
  if (one_chunk) {
    FK_TRY(fk_job_whiten_sources(job, job->source_begin, &way, err));
    job->normalised &= fk_on_tensor_cores(way.method) && !way.by_matrix; /* other sums need no scaling */
  }
  FK_TRY(fk_job_whiten_targets(job, err));
  FK_TRY(run_passes(job, err));
  if (job->move) FK_TRY(fk_job_move(job, err));
  if (job->task->logs && !job->rows)
    FK_CUDA_TRY(fk_finish_logs(chunk->result, count, fk_job_lost_below(job), context->stream));
  FK_CUDA_TRY(cudaEventRecord(context->end, context->stream));
  if (!job->move) FK_TRY(deliver_chunk(job, err));
  return fk_cuda_elapsed(context, job->seconds, err);
}

void fk_job_free(struct fk_cuda_job *job) {
  fk_cuda_drop_all(job->context, job->rooms);
  fk_cuda_frame_rows_free(job->context, &job->chunk.frame_rows);
  fk_cuda_lists_free(job->context, &job->lists);
  free(job->places);
}
