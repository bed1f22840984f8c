/* One device's shards of a normal product: the points of the columns, cached rows and rows that are sent again,
 * and the chunks of rows. The numbers of a chunk are sent while the previous chunk is computed. */
#include <math.h>
#include <string.h>

#include "normal.cuh"

/* The rows of a chunk, which belong to one shard. */
struct row_chunk {
  int64_t first, n;
  int slot;  /* identifies what was sent for it */
  bool last; /* last chunk of its shard */
};

enum { SLOTS = 2 };

/* A device at work. */
struct normal_worker {
  struct fk_normal_device device;
  struct fk_cuda_sources *columns, *rows; /* cached by their operators; the same pointer: a symmetric product */
  struct fk_normal_form form;
  struct fk_cuda_whitening whitening;
  struct fk_normal_points passing; /* rows that are not cached */
  int64_t begin, end, chunk_rows, sent_rows;
  cudaStream_t aside; /* for copies */
  cudaEvent_t sent[SLOTS], used[SLOTS];
  double *inputs[SLOTS]; /* of a chunk: w, weights, coordinates, each `sent_rows` apart */
  double *row_sums;      /* K v of a chunk, if wanted, equally far apart */
  double *sum;           /* sum of the shards' parts, if this device has all; else NULL */
  union {                /* the same buffers by name and as an array */
    struct {
      struct fk_cuda_buffer sum_buffer, whitening_buffer, input_buffers[SLOTS], row_sums_buffer, white_buffer,
          work_buffer;
    };
    struct fk_cuda_buffer buffers[5 + SLOTS];
  };
};

/* ---- sizes ------------------------------------------------------------------------------------ */

/* Enough shards for any number of devices; fewer if their parts of the product would take much host memory. */
int64_t fk_normal_shard(const struct fk_normal_job *job) {
  const struct fk_cuda_cuts *cuts = &fk_costs.cuda_cuts;
  int64_t shards = fk_smaller(fk_smaller(cuts->normal_shards, job->n / cuts->normal_rows),
                              cuts->normal_numbers / (job->m * job->t));
  return fk_padded(fk_pieces(job->n, fk_larger(shards, 1)), FK_NORMAL_STEP);
}

/* Rows for this many seconds, after which interrupts are checked, and for the data that is on its way to the
 * device. */
int64_t fk_normal_chunk(const struct fk_normal_job *job, int attempt) {
  const int64_t step = fk_normal_is_tiles(job->way) ? (int64_t)FK_TENSOR_ROWS : (int64_t)FK_NORMAL_STEP;
  double d = (double)job->d, t = (double)job->t,
         by_time = 2 * fk_costs.exact_cuda.launch /
                   (fk_normal_pair_seconds(job->way, job->wide_sweeps, d, t) * (double)job->m),
         rows = fmin(fmin(by_time, (double)fk_costs.cuda_cuts.normal_bytes / (8 * (d + t))), (double)job->shard);
  return fk_larger(((int64_t)rows / step) >> (2 * attempt), 1) * step;
}

/* A matrix of a gigabyte, and enough runs of its columns to give each multiprocessor some blocks of a product.
 * With one column of v, K v is computed with the kernels. */
struct fk_normal_tile fk_normal_tile(const struct fk_normal_job *job, int attempt) {
  enum { LEAST = 32, WHOLE = 256, BLOCK_ROWS = 128, BLOCK_COLUMNS = 64 }; /* rows; whole: for cuBLAS */
  const struct fk_cuda_cuts *cuts = &fk_costs.cuda_cuts;
  int64_t wanted = (cuts->tile_numbers / job->m) >> (2 * attempt), step = wanted >= WHOLE ? WHOLE : LEAST,
          rows = fk_smaller(fk_larger(wanted / step * step, LEAST), cuts->tile_rows),
          blocks = fk_pieces(rows, BLOCK_ROWS) * fk_pieces(job->t, BLOCK_COLUMNS), most = job->m / cuts->tile_rows,
          runs = job->t == 1 ? 1 : fk_larger(fk_smaller(cuts->tile_blocks / blocks, most), 1),
          run = fk_padded(fk_pieces(job->m, runs), 16), ld = fk_padded(job->m, run);
  return {rows, ld, run, (int)(job->t == 1 ? (int64_t)FK_NORMAL_STRIPS : ld / run)};
}

static double tile_bytes(const struct fk_normal_job *job) {
  const struct fk_normal_tile tile = fk_normal_tile(job, 0);
  const double of_kernel = job->way == FK_NORMAL_TILES ? 8 + 4 + 2 : 8;
  return (double)tile.rows * (of_kernel * (double)tile.ld + 8.0 * (double)(job->t * tile.parts));
}

/* ---- numbers ---------------------------------------------------------------------------------- */

static double number_of(unsigned long long bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static enum fk_status fetch_radius2(struct normal_worker *w, double *radius2, struct fk_error *err) {
  unsigned long long bits;
  FK_TRY(fk_cuda_download(w->device.context, (const double *)w->device.radius2, 1, fk_all_rows(1, 1),
                          (double *)&bits, err));
  *radius2 = number_of(bits);
  return FK_STATUS_OK;
}

/* Sends v, and allocates the largest number of each column, the product, and what the device finds. */
static enum fk_status take_numbers(struct normal_worker *w, struct fk_error *err) {
  struct fk_normal_device *device = &w->device;
  struct fk_cuda_context *context = device->context;
  const struct fk_normal_job *job = device->job;
  const bool tiles = fk_normal_is_tiles(job->way);
  device->ld_v = tiles ? fk_normal_tile(job, device->progress->attempt).ld : job->m;
  const int64_t numbers = job->m * job->t, padded = device->ld_v * job->t, found = 2 + job->t;
  double *data;
  FK_TRY(fk_cuda_room(context, &device->numbers_buffer, numbers + padded + found, &data, err));
  device->product = data;
  device->radius2 = (unsigned long long *)(data + numbers + padded);
  device->largest_residual = device->radius2 + 1;
  device->largest_v = device->radius2 + 2;
  FK_CUDA_TRY(cudaMemsetAsync(device->radius2, 0, sizeof(double) * (size_t)found, context->stream));
  FK_CUDA_TRY(cudaMemsetAsync(device->product, 0, sizeof(double) * (size_t)numbers, context->stream));
  if (!job->normal->v) return FK_STATUS_OK;
  device->v = data + numbers;
  FK_CUDA_TRY(cudaMemsetAsync(device->v, 0, sizeof(double) * (size_t)padded, context->stream));
  FK_TRY(fk_cuda_upload(context, fk_doubles(job->normal->v, job->m, job->t), device->v, device->ld_v, err));
  for (int64_t c = 0; c < job->t && !tiles; c++)
    FK_CUDA_TRY(fk_normal_largest(device->v + c * job->m, job->m, device->largest_v + c, context->stream));
  return FK_STATUS_OK;
}

/* ---- points ----------------------------------------------------------------------------------- */

/* Whitens n raw points on the device and stores them from row `row` on. */
static enum fk_status whiten_rows(struct normal_worker *w, const double *raw, int64_t ld_raw, int64_t n,
                                  struct fk_cuda_points *white, struct fk_error *err) {
  struct fk_cuda_context *context = w->device.context;
  *white = (struct fk_cuda_points){NULL, n, fk_padded(n, FK_TENSOR_ROWS), (int)w->device.job->d};
  FK_TRY(fk_cuda_room(context, &w->white_buffer, white->ld * white->d, &white->u, err));
  FK_TRY(fk_cuda_whiten(context, &w->whitening, raw, ld_raw, white, err));
  return FK_CUDA_STATUS(fk_normal_radius2(white, w->device.radius2, context->stream));
}

static enum fk_status bring_columns(struct normal_worker *w, struct fk_cuda_points *white, struct fk_error *err) {
  struct fk_cuda_context *context = w->device.context;
  const struct fk_matrix *x = &w->device.job->op->x;
  struct fk_cuda_arena arena = {};
  double *raw;
  FK_TRY(fk_cuda_send_to(context, &arena, *x, &raw, err));
  return whiten_rows(w, raw, x->n, x->n, white, err);
}

/* Chooses the grid for columns of this extent, and rows that may reach further. If rows are known to be beyond it,
 * chooses one for both. Returns false if they reach too far. */
static bool choose_grid(const struct fk_normal_job *job, double radius2, struct fk_tensor_grid *grid,
                        double *row_limit) {
  enum { ONE_PRODUCT = 16 }; /* most dimensions of one product, which gains no bit in tiles */
  const struct fk_exact_limits *limits = &fk_costs.limits;
  const bool tiles = job->way == FK_NORMAL_TILES;
  const double rows2 = job->rows_radius2;
  const int d = (int)(tiles ? fk_larger(job->d, ONE_PRODUCT + 1) : job->d);
  if (job->way == FK_NORMAL_DIFFERENCES) {
    grid->scale = job->kernel.scale;
    *row_limit = limits->difference_f32 / fk_form_radius2(&job->kernel, 1, job->d);
    return radius2 <= *row_limit && rows2 <= *row_limit;
  }
  bool fits = fk_tensor_grid_choose(radius2, 0, d, true, grid);
  if (fits && rows2 * FK_LOG2E > grid->row_limit)
    fits = fk_tensor_grid_choose(fmax(radius2, rows2), 0, d, true, grid);
  *row_limit = grid->row_limit / FK_LOG2E;
  if (!tiles) return fits;
  grid->scale = sqrt(FK_LOG2E);
  *row_limit = fmin(*row_limit, limits->gram_half);
  return fits && radius2 <= limits->gram_half && rows2 <= limits->gram_half;
}

static void choose_form(struct normal_worker *w, double radius2) {
  struct fk_normal_job *job = w->device.job;
  struct fk_cuda_context *context = w->device.context;
  struct fk_normal_form *form = &w->form;
  struct fk_tensor_task task = {};
  *form = (struct fk_normal_form){};
  form->way = job->way;
  form->d = (int)job->d;
  form->k = (int)fk_padded(job->d, 16);
  form->centre = job->centre;
  form->rough = job->way == FK_NORMAL_TILES && job->opts->precision == FK_PRECISION_FAST;
  if (job->way == FK_NORMAL_TILES_DOUBLE) return;
  job->wide[context->device] = !choose_grid(job, radius2, &form->grid, &job->row_limit[context->device]);
  task.rows.k = task.cols.k = form->k;
  task.short_sums = true;
  form->wgmma = job->way == FK_NORMAL_TENSOR && context->capability == 90 && !fk_cuda_is_lowered_to("mma") &&
                fk_wgmma_supports(&task);
}

static enum fk_status prepare_columns(struct normal_worker *w, struct fk_error *err) {
  struct fk_normal_points *x = &w->columns->normal;
  struct fk_cuda_context *context = w->device.context;
  const struct fk_normal_job *job = w->device.job;
  struct fk_cuda_points white = {};
  bool known = x->filled >= job->m && x->first == 0 && x->form.centre == job->centre;
  double radius2 = x->radius2;
  if (!known) {
    FK_TRY(bring_columns(w, &white, err));
    FK_TRY(fetch_radius2(w, &radius2, err));
  }
  choose_form(w, radius2);
  if (job->wide[context->device]) return FK_STATUS_OK;
  if (!known || !fk_normal_same_form(&x->form, &w->form)) {
    if (!white.u) FK_TRY(bring_columns(w, &white, err));
    FK_TRY(fk_normal_make(context, &w->form, job->m, x, err));
    x->first = 0;
    x->radius2 = radius2;
    FK_TRY(fk_normal_fill(context, &white, 0, &w->work_buffer, x, err));
  }
  w->device.columns = x;
  return FK_CUDA_STATUS(cudaMemsetAsync(w->device.radius2, 0, sizeof *w->device.radius2, context->stream));
}

/* Bytes that a job uses besides points: chunks being sent and computed, sums, and a tile. */
static double bytes_in_use(const struct normal_worker *w) {
  const struct fk_normal_job *job = w->device.job;
  double d = (double)job->d, t = (double)job->t, m = (double)job->m, k = (double)w->form.k,
         rows = (double)fk_smaller(w->chunk_rows, w->end - w->begin), slots = 256 * 384;
  double tile = fk_normal_is_tiles(job->way) ? tile_bytes(job) : 0;
  return rows * (8 * (SLOTS * (d + t + 1) + t + d + 3) + 4 * k) + fk_normal_bytes(&w->form, (int64_t)rows) +
         8 * (3 * m * t + 2 * fmax(m, slots)) + tile + 64e6;
}

/* Caches as many of the device's rows as memory allows, the first ones. */
static enum fk_status make_rows(struct normal_worker *w, struct fk_normal_points *rows, struct fk_error *err) {
  struct fk_cuda_context *context = w->device.context;
  const struct fk_normal_job *job = w->device.job;
  const int64_t n = w->end - w->begin;
  double room, each = fk_normal_bytes(&w->form, FK_NORMAL_STEP), needed = fk_normal_bytes(&w->form, n);
  fk_cuda_drop(context, &rows->buffer);
  if (rows->form.centre != w->form.centre) rows->radius2 = 0;
  rows->form = w->form;
  rows->room = rows->filled = 0;
  rows->first = w->begin;
  if (w->device.progress->attempt > 0) return FK_STATUS_OK;
  FK_TRY(fk_cuda_budget(context, needed + bytes_in_use(w), 0, &room, err));
  room =
      fmin(room - bytes_in_use(w), fk_cuda_memory_to_keep(context, job->opts) - fk_cuda_sources_bytes(w->columns));
  int64_t steps = room < each ? 0 : (int64_t)fmin(room / each, 1e9);
  return steps ? fk_normal_make(context, &w->form, fk_smaller(n, steps * FK_NORMAL_STEP), rows, err)
               : FK_STATUS_OK;
}

static enum fk_status prepare_rows(struct normal_worker *w, struct fk_error *err) {
  struct fk_normal_points *rows = &w->rows->normal;
  if (w->rows == w->columns) return FK_STATUS_OK;
  bool there = rows->room > 0 && rows->first == w->begin && fk_normal_same_form(&rows->form, &w->form);
  return there ? FK_STATUS_OK : make_rows(w, rows, err);
}

static enum fk_status prepare_sum(struct normal_worker *w, struct fk_error *err) {
  struct fk_cuda_context *context = w->device.context;
  const struct fk_normal_job *job = w->device.job;
  const int64_t numbers = job->m * job->t;
  if (w->end - w->begin < job->n) return FK_STATUS_OK;
  FK_TRY(fk_cuda_room(context, &w->sum_buffer, numbers, &w->sum, err));
  return FK_CUDA_STATUS(cudaMemsetAsync(w->sum, 0, sizeof *w->sum * (size_t)numbers, context->stream));
}

/* ---- what is sent ----------------------------------------------------------------------------- */

static bool is_there(const struct normal_worker *w, const struct row_chunk *chunk) {
  const struct fk_normal_points *rows = &w->rows->normal;
  return chunk->first >= rows->first && chunk->first + chunk->n <= rows->first + rows->filled;
}

static int64_t columns_sent(const struct normal_worker *w, bool points) {
  const struct fk_normal_job *job = w->device.job;
  const struct fk_normal *normal = job->normal;
  return (normal->w ? job->t : 0) + (normal->weights ? 1 : 0) + (points ? job->d : 0);
}

static enum fk_status start_copies(struct normal_worker *w, struct fk_error *err) {
  struct fk_cuda_context *context = w->device.context;
  struct row_chunk all = {w->begin, w->end - w->begin};
  const int64_t columns = columns_sent(w, !is_there(w, &all));
  w->sent_rows = fk_smaller(w->chunk_rows, all.n);
  if (w->device.job->normal->sums)
    FK_TRY(fk_cuda_room(context, &w->row_sums_buffer, w->device.job->t * w->sent_rows, &w->row_sums, err));
  FK_CUDA_TRY(cudaStreamCreateWithFlags(&w->aside, cudaStreamNonBlocking));
  for (int i = 0; i < SLOTS; i++) {
    FK_TRY(fk_cuda_room(context, &w->input_buffers[i], columns * w->sent_rows, &w->inputs[i], err));
    FK_CUDA_TRY(cudaEventCreateWithFlags(&w->sent[i], cudaEventDisableTiming));
    FK_CUDA_TRY(cudaEventCreateWithFlags(&w->used[i], cudaEventDisableTiming));
    FK_CUDA_TRY(cudaEventRecord(w->used[i], context->stream)); /* the memory can be reused */
    FK_CUDA_TRY(cudaEventRecord(w->sent[i], w->aside));
  }
  return FK_STATUS_OK;
}

static void stop_copies(struct normal_worker *w) {
  if (!w->aside) return;
  cudaStreamSynchronize(w->aside);
  for (int i = 0; i < SLOTS; i++) {
    if (w->sent[i]) cudaEventDestroy(w->sent[i]);
    if (w->used[i]) cudaEventDestroy(w->used[i]);
  }
  cudaStreamDestroy(w->aside);
}

static enum fk_status send_part(struct normal_worker *w, const struct fk_matrix *from,
                                const struct row_chunk *chunk, double **to, struct fk_error *err) {
  FK_TRY(fk_cuda_upload(w->device.context, fk_part(from, chunk->first, chunk->n, 0, from->d), *to, w->sent_rows,
                        err, w->aside));
  *to += from->d * w->sent_rows;
  return FK_STATUS_OK;
}

static enum fk_status send_chunk(struct normal_worker *w, const struct row_chunk *chunk, struct fk_error *err) {
  struct fk_cuda_context *context = w->device.context;
  const struct fk_normal_job *job = w->device.job;
  const struct fk_normal *normal = job->normal;
  const struct fk_matrix numbers = fk_doubles(normal->w, job->n, job->t),
                         weights = fk_doubles(normal->weights, job->n, 1);
  const bool points = !is_there(w, chunk);
  double *to = w->inputs[chunk->slot];
  if (columns_sent(w, points) == 0) return FK_STATUS_OK;
  FK_CUDA_TRY(cudaStreamWaitEvent(w->aside, w->used[chunk->slot], 0));
  if (normal->w) FK_TRY(send_part(w, &numbers, chunk, &to, err));
  if (normal->weights) FK_TRY(send_part(w, &weights, chunk, &to, err));
  if (points) FK_TRY(send_part(w, &normal->rows->x, chunk, &to, err));
  return FK_CUDA_STATUS(cudaEventRecord(w->sent[chunk->slot], w->aside));
}

/* ---- chunks ----------------------------------------------------------------------------------- */

/* The next chunk from row `first` on; n = 0: none. */
static struct row_chunk chunk_at(const struct normal_worker *w, int64_t first, int slot) {
  int64_t shard = w->device.job->shard, end = fk_smaller((first / shard + 1) * shard, w->end);
  if (first >= w->end) return {first, 0, slot, false};
  int64_t n = fk_smaller(w->chunk_rows, end - first);
  return {first, n, slot, first + n == end};
}

/* Makes the view of a chunk's points, cached or just sent. */
static enum fk_status view_of(struct normal_worker *w, const struct row_chunk *chunk, const double *raw,
                              struct fk_normal_view *view, struct fk_error *err) {
  struct fk_normal_points *rows = &w->rows->normal;
  struct fk_cuda_points white;
  *view = {rows, chunk->first - rows->first, chunk->n};
  if (is_there(w, chunk)) return FK_STATUS_OK;
  if (view->row + chunk->n > rows->room) {
    if (!w->passing.room) FK_TRY(fk_normal_make(w->device.context, &w->form, w->sent_rows, &w->passing, err));
    *view = {&w->passing, 0, chunk->n};
  }
  FK_TRY(whiten_rows(w, raw, w->sent_rows, chunk->n, &white, err));
  return fk_normal_fill(w->device.context, &white, view->row, &w->work_buffer,
                        (struct fk_normal_points *)view->points, err);
}

static enum fk_status run_chunk(struct normal_worker *w, const struct row_chunk *chunk, struct fk_error *err) {
  struct fk_cuda_context *context = w->device.context;
  const struct fk_normal_job *job = w->device.job;
  struct fk_normal_numbers numbers = {NULL, NULL, w->sent_rows, w->row_sums};
  struct fk_normal_view view;
  const double *at = w->inputs[chunk->slot];
  FK_CUDA_TRY(cudaStreamWaitEvent(context->stream, w->sent[chunk->slot], 0));
  if (job->normal->w) {
    numbers.w = at;
    at += job->t * w->sent_rows;
  }
  if (job->normal->weights) {
    numbers.weights = at;
    at += w->sent_rows;
  }
  FK_TRY(view_of(w, chunk, at, &view, err));
  FK_TRY(fk_normal_is_tiles(job->way) ? fk_normal_tiles(&w->device, &view, &numbers, err)
                                      : fk_normal_sweeps(&w->device, &view, &numbers, err));
  return FK_CUDA_STATUS(cudaEventRecord(w->used[chunk->slot], context->stream));
}

/* Adds a shard's part to the sum and clears it. */
static __global__ void join_kernel(double *part, int64_t n, double *sum) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  sum[i] += part[i];
  part[i] = 0;
}

/* Waits for copies to the device, which share staging memory with results. */
static enum fk_status await_copies(struct normal_worker *w, struct fk_error *err) {
  struct fk_cuda_context *context = w->device.context;
  for (int i = 0; i < SLOTS; i++) FK_CUDA_TRY(cudaStreamWaitEvent(context->stream, w->sent[i], 0));
  return FK_STATUS_OK;
}

/* Delivers K v of a computed chunk to the caller's array. */
static enum fk_status deliver_sums(struct normal_worker *w, const struct row_chunk *chunk, struct fk_error *err) {
  const struct fk_normal_job *job = w->device.job;
  if (!w->row_sums) return FK_STATUS_OK;
  FK_TRY(await_copies(w, err));
  return fk_cuda_download(w->device.context, w->row_sums, w->sent_rows,
                          fk_rows(job->n, job->t, chunk->first, chunk->n), job->normal->sums, err);
}

/* Delivers a shard's part of the product when copies have ended; or, if the device has all shards, the sum, in the
 * order in which the host would add it. */
static enum fk_status deliver_shard(struct normal_worker *w, const struct row_chunk *chunk, struct fk_error *err) {
  struct fk_cuda_context *context = w->device.context;
  struct fk_normal_job *job = w->device.job;
  const int64_t numbers = job->m * job->t;
  double *part = w->device.product;
  FK_TRY(await_copies(w, err));
  if (!w->sum) {
    FK_TRY(fk_cuda_download(context, part, numbers, fk_all_rows(numbers, 1),
                            job->parts + chunk->first / job->shard * numbers, err));
    return FK_CUDA_STATUS(cudaMemsetAsync(part, 0, sizeof *part * (size_t)numbers, context->stream));
  }
  join_kernel<<<fk_blocks(numbers, FK_THREADS), FK_THREADS, 0, context->stream>>>(part, numbers, w->sum);
  FK_CUDA_TRY(cudaGetLastError());
  if (chunk->first + chunk->n < job->n) return FK_STATUS_OK;
  job->joined = true;
  return fk_cuda_download(context, w->sum, numbers, fk_all_rows(numbers, 1), job->product, err);
}

static enum fk_status run_chunks(struct normal_worker *w, struct fk_error *err) {
  struct row_chunk chunk = chunk_at(w, w->begin, 0);
  FK_TRY(send_chunk(w, &chunk, err));
  while (chunk.n > 0) {
    struct row_chunk next = chunk_at(w, chunk.first + chunk.n, chunk.slot ^ 1);
    FK_TRY(run_chunk(w, &chunk, err));
    if (next.n > 0) FK_TRY(send_chunk(w, &next, err));
    FK_TRY(deliver_sums(w, &chunk, err));
    FK_TRY(
        fk_cuda_tick(w->device.progress, w->device.context, (double)chunk.n / (double)w->device.job->shard, err));
    if (chunk.last) FK_TRY(deliver_shard(w, &chunk, err));
    chunk = next;
  }
  return FK_STATUS_OK;
}

/* ---- a range of shards ------------------------------------------------------------------------ */

static enum fk_status run_worker(struct normal_worker *w, double *seconds, struct fk_error *err) {
  struct fk_cuda_context *context = w->device.context;
  struct fk_normal_job *job = w->device.job;
  double *seen = &job->seen_radius2[context->device], rows2;
  FK_CUDA_TRY(cudaEventRecord(context->begin, context->stream));
  FK_TRY(fk_cuda_whitening_init(context, &w->whitening_buffer, &job->op->whitening, &w->whitening, err));
  FK_TRY(take_numbers(w, err));
  FK_TRY(prepare_columns(w, err));
  if (job->wide[context->device]) return FK_STATUS_OK;
  FK_TRY(prepare_sum(w, err));
  FK_TRY(prepare_rows(w, err));
  FK_TRY(start_copies(w, err));
  FK_TRY(run_chunks(w, err));
  FK_CUDA_TRY(cudaEventRecord(context->end, context->stream));
  FK_TRY(fetch_radius2(w, &rows2, err));
  *seen = w->rows->normal.radius2 = fmax(w->rows->normal.radius2, rows2);
  return fk_cuda_elapsed(context, seconds, err);
}

static void free_worker(struct normal_worker *w) {
  struct fk_cuda_context *context = w->device.context;
  stop_copies(w);
  fk_cuda_drop_all(context, w->device.buffers);
  fk_cuda_drop_all(context, w->buffers);
  fk_cuda_drop(context, &w->passing.buffer);
}

enum fk_status fk_normal_range(struct fk_cuda_context *context, int64_t first, int64_t count, void *data,
                               struct fk_cuda_progress *progress, double *seconds, struct fk_error *err) {
  struct fk_normal_job *job = (struct fk_normal_job *)data;
  struct normal_worker w = {};
  w.device.context = context;
  w.device.job = job;
  w.device.progress = progress;
  w.begin = first * job->shard;
  w.end = fk_smaller((first + count) * job->shard, job->n);
  w.chunk_rows = fk_normal_chunk(job, progress->attempt);
  FK_TRY(fk_cuda_sources_of(job->op, context, FK_CUDA_ALL, &w.columns, err));
  FK_TRY(fk_cuda_sources_of(job->normal->rows, context, FK_CUDA_ALL, &w.rows, err));
  w.columns->busy = w.rows->busy = true;
  enum fk_status status = run_worker(&w, seconds, err);
  w.columns->busy = w.rows->busy = false;
  free_worker(&w);
  if (status) { /* what was being sent may be incomplete */
    fk_cuda_sources_empty(w.columns);
    fk_cuda_sources_empty(w.rows);
  }
  return status;
}
