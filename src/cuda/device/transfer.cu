/* Transfers between R's pageable memory and the device through two pinned buffers: the host's threads copy one
 * piece while the previous one is transferred. */
#include <string.h>

#include "../../core/pool.h"
#include "../../core/scan.h"
#include "../../core/threads.h"
#include "common.cuh"

/* The content of a buffer: a part of a column, or as many columns as fit, because short transfers are slow. */
struct transfer_piece {
  int64_t column, columns, row, rows;
};

static bool next_piece(struct transfer_piece *p, int64_t columns, int64_t rows, int64_t capacity) {
  if (p->columns == 0) {
    p->rows = fk_smaller(rows, capacity);
  } else {
    p->row += p->rows;
    if (p->row >= rows) {
      p->row = 0;
      p->column += p->columns;
    }
    p->rows = fk_smaller(rows - p->row, capacity);
  }
  p->columns = rows <= capacity ? fk_smaller(capacity / rows, columns - p->column) : 1;
  return p->column < columns;
}

/* ---- to the device ---------------------------------------------------------------------------- */

/* A piece being sent, in strips: the threads copy strips to the buffer in order, and the calling thread sends at
 * once all strips that are complete without a gap. A strip is a part of one column, or several short columns. */
enum { STRIP = 1 << 14, STRIPS = 2 * FK_STAGING_NUMBERS / STRIP + 1, AT_ONCE = 2 /* strips */ };
struct sending {
  struct fk_cuda_context *context;
  cudaStream_t stream;
  struct fk_matrix from;
  double *staging, *to;
  int64_t ld;
  struct transfer_piece piece;
  int64_t height, parts, width; /* rows of a strip, strips of a column, columns of a strip */
  int strips, sent;
  bool checks, infinite; /* look for numbers that are not finite; one was found */
  bool ready[STRIPS];
  cudaError_t code;
};

static void cut_strips(struct sending *s) {
  s->parts = fk_pieces(s->piece.rows, STRIP);
  s->height = fk_pieces(s->piece.rows, s->parts);
  s->width = fk_larger(STRIP / s->piece.rows, 1);
  s->strips = (int)(s->parts * fk_pieces(s->piece.columns, s->width));
  s->sent = 0;
  memset(s->ready, 0, sizeof s->ready);
}

/* Rows and columns of strip i within the piece. */
static struct transfer_piece strip_of(const struct sending *s, int64_t i) {
  int64_t column = i / s->parts * s->width, row = i % s->parts * s->height;
  return {column, fk_smaller(s->width, s->piece.columns - column), row,
          fk_smaller(s->height, s->piece.rows - row)};
}

/* Offset of strip i in the buffer, where strips are contiguous; for i one past the last, the end. */
static int64_t begin_of(const struct sending *s, int64_t i) {
  if (i == s->strips) return s->piece.columns * s->piece.rows;
  struct transfer_piece strip = strip_of(s, i);
  return strip.column * s->piece.rows + strip.row;
}

static cudaError_t send_strips(const struct sending *s, int first, int end) {
  const int64_t rows = s->piece.rows;
  const bool joined = s->piece.columns == 1 || s->ld == rows; /* contiguous on the device as well */
  cudaError_t code = cudaSuccess;
  for (int i = first; i < end && code == cudaSuccess; i++) {
    const struct transfer_piece strip = strip_of(s, i);
    const int64_t begin = begin_of(s, i), numbers = begin_of(s, joined ? end : i + 1) - begin;
    double *to = s->to + (s->piece.column + strip.column) * s->ld + s->piece.row + strip.row;
    const double *from = s->staging + begin;
    if (joined) return cudaMemcpyAsync(to, from, sizeof *to * (size_t)numbers, cudaMemcpyHostToDevice, s->stream);
    code = cudaMemcpy2DAsync(to, sizeof *to * (size_t)s->ld, from, sizeof *to * (size_t)rows,
                             sizeof *to * (size_t)strip.rows, (size_t)strip.columns, cudaMemcpyHostToDevice,
                             s->stream);
  }
  return code;
}

static void send_ready(struct sending *s) {
  int end = s->sent;
  while (end < s->strips && __atomic_load_n(&s->ready[end], __ATOMIC_ACQUIRE)) end++;
  if (end < s->strips && end - s->sent < AT_ONCE) return; /* a transfer takes the host 2 us */
  if (end > s->sent && s->code == cudaSuccess) s->code = send_strips(s, s->sent, end);
  s->sent = end;
}

static void fill_strip(void *data, int64_t i, int64_t, int slot) {
  struct sending *s = (struct sending *)data;
  struct transfer_piece strip = strip_of(s, i);
  for (int64_t k = strip.column; k < strip.column + strip.columns; k++) {
    double *to = s->staging + k * s->piece.rows + strip.row;
    fk_read(&s->from, s->piece.column + k, s->piece.row + strip.row, strip.rows, to);
    if (s->checks && !fk_are_finite(to, strip.rows)) __atomic_store_n(&s->infinite, true, __ATOMIC_RELAXED);
  }
  __atomic_store_n(&s->ready[i], true, __ATOMIC_RELEASE);
  if (slot == 0) send_ready(s);
}

/* Finds room in a pinned buffer for what the stream will send. First choice: behind what the stream sends from
 * this buffer already, so that short transfers do not wait. Second: the front, which is in the processor's cache,
 * if a megabyte has been sent and nothing is in flight. Third: the other buffer, once its transfers have ended. */
static enum fk_status take_staging(struct fk_cuda_context *context, struct sending *s, int64_t numbers,
                                   struct fk_error *err) {
  enum { CACHED = 1 << 17 };
  int turn = context->sending_turn;
  const int64_t end = context->sending[turn] + numbers;
  const bool own = context->sending_by[turn] == s->stream;
  if (!own || end > CACHED) {
    const bool idle = cudaEventQuery(context->staged[turn]) == cudaSuccess;
    if (!idle) cudaGetLastError(); /* clears the error "not ready", which must not fail the next launch */
    if (!idle && (!own || end > FK_STAGING_NUMBERS)) {
      turn = context->sending_turn ^= 1;
      FK_CUDA_TRY(cudaEventSynchronize(context->staged[turn]));
      context->sending[turn] = 0;
    }
    if (idle) context->sending[turn] = 0;
    context->sending_by[turn] = s->stream;
  }
  s->staging = (double *)context->staging[turn] + context->sending[turn];
  context->sending[turn] += numbers;
  return FK_STATUS_OK;
}

/* Sends the whole matrix. */
static enum fk_status send_all(struct sending *s, struct fk_error *err) {
  struct fk_cuda_context *context = s->context;
  while (next_piece(&s->piece, s->from.d, s->from.n, FK_STAGING_NUMBERS)) {
    const int64_t numbers = s->piece.rows * s->piece.columns;
    FK_TRY(take_staging(context, s, numbers, err));
    cut_strips(s);
    fk_parallel_pass(context->copy_threads, 64.0 * (double)numbers, s->strips, 1, fill_strip, s);
    send_ready(s);
    FK_CUDA_TRY(s->code);
    FK_CUDA_TRY(cudaEventRecord(context->staged[context->sending_turn], s->stream));
  }
  return FK_STATUS_OK;
}

enum fk_status fk_cuda_upload(struct fk_cuda_context *context, struct fk_matrix from, double *to, int64_t ld,
                              struct fk_error *err, cudaStream_t stream) {
  struct sending s = {context, stream ? stream : context->stream, from, NULL, to, ld, {0, 0, 0, 0}};
  return send_all(&s, err);
}

enum fk_status fk_cuda_upload_finite(struct fk_cuda_context *context, struct fk_matrix from, double *to,
                                     bool *finite, struct fk_error *err) {
  struct sending s = {context, context->stream, from, NULL, to, from.n, {0, 0, 0, 0}};
  s.checks = true;
  enum fk_status status = send_all(&s, err);
  *finite = !s.infinite;
  return status;
}

enum fk_status fk_cuda_send(struct fk_cuda_context *context, struct fk_cuda_buffer *buffer, struct fk_matrix from,
                            double **to, struct fk_error *err) {
  FK_TRY(fk_cuda_room(context, buffer, from.n * from.d, to, err));
  return fk_cuda_upload(context, from, *to, from.n, err);
}

enum fk_status fk_cuda_send_to(struct fk_cuda_context *context, struct fk_cuda_arena *arena, struct fk_matrix from,
                               double **to, struct fk_error *err) {
  FK_TRY(fk_cuda_take(context, arena, from.n * from.d, to, err));
  return fk_cuda_upload(context, from, *to, from.n, err);
}

/* ---- from the device -------------------------------------------------------------------------- */

/* Numbers in a piece: few enough that the first arrives soon, enough for all threads. */
static int64_t numbers_at_a_time(int64_t numbers) {
  enum { LEAST = 1 << 18 };
  return fk_smaller(fk_larger(numbers / 4, LEAST), FK_STAGING_NUMBERS);
}

enum fk_status fk_cuda_download(struct fk_cuda_context *context, const double *from, int64_t ld,
                                struct fk_cuda_rows rows, double *to, struct fk_error *err) {
  struct transfer_piece pieces[2] = {{0, 0, 0, 0}, {0, 0, 0, 0}}, p = {0, 0, 0, 0};
  const int64_t capacity = numbers_at_a_time(rows.columns * rows.count);
  bool more = next_piece(&p, rows.columns, rows.count, capacity), waiting[2] = {false, false};
  for (int turn = 0; more || waiting[0] || waiting[1]; turn ^= 1) {
    double *staging = (double *)context->staging[turn];
    if (waiting[turn]) { /* the piece sent two turns ago */
      const struct transfer_piece *done = &pieces[turn];
      FK_CUDA_TRY(cudaEventSynchronize(context->staged[turn]));
      struct fk_matrix part = fk_doubles(staging, done->rows, done->columns);
      fk_copy_rows(&part, to + done->column * rows.n + rows.first + done->row, rows.n, context->copy_threads);
      waiting[turn] = false;
    }
    if (more) {
      size_t width = sizeof(double) * (size_t)p.rows;
      FK_CUDA_TRY(cudaMemcpy2DAsync(staging, width, from + p.column * ld + p.row, sizeof(double) * (size_t)ld,
                                    width, (size_t)p.columns, cudaMemcpyDeviceToHost, context->stream));
      FK_CUDA_TRY(cudaEventRecord(context->staged[turn], context->stream));
      pieces[turn] = p;
      waiting[turn] = true;
      more = next_piece(&p, rows.columns, rows.count, capacity);
    }
  }
  return FK_STATUS_OK;
}
