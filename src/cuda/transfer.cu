/* Between R's memory, which is pageable, and the device: through two pinned buffers in turn, so that the copy of
 * one piece by the processor's threads meets the transfer of the one before. */
#include <string.h>

#include "common.cuh"

/* A piece is whole columns' parts: `rows` rows of one column at a time would be short transfers for small d, so a
 * piece holds as many columns as fit. */
struct piece {
  int64_t column, columns, row, rows;
};

/* Numbers of a piece: small enough that the first is soon under way, large enough to be worth a start. */
static int64_t piece_size(int64_t numbers) {
  enum { LEAST = 1 << 17, MOST = FK_STAGING_BYTES / sizeof(double) };
  return fk_smaller(fk_larger(numbers / 8, LEAST), MOST);
}

static bool next_piece(struct piece *p, int64_t columns, int64_t rows) {
  const int64_t capacity = piece_size(columns * rows);
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

enum fk_status fk_cuda_upload(struct fk_cuda_context *context, struct fk_matrix from, double *to, int64_t ld,
                              struct fk_error *err) {
  struct piece p = {0, 0, 0, 0};
  for (int turn = 0; next_piece(&p, from.d, from.n); turn ^= 1) {
    double *staging = (double *)context->staging[turn];
    struct fk_matrix part = fk_part(&from, p.row, p.rows, p.column, p.columns);
    FK_CUDA_TRY(cudaEventSynchronize(context->staged[turn]));
    fk_copy_rows(&part, staging, p.rows, context->copy_threads);
    size_t width = sizeof(double) * (size_t)p.rows;
    FK_CUDA_TRY(cudaMemcpy2DAsync(to + p.column * ld + p.row, sizeof(double) * (size_t)ld, staging, width, width,
                                  (size_t)p.columns, cudaMemcpyHostToDevice, context->stream));
    FK_CUDA_TRY(cudaEventRecord(context->staged[turn], context->stream));
  }
  return FK_STATUS_OK;
}

enum fk_status fk_cuda_download(struct fk_cuda_context *context, const double *from, int64_t ld,
                                struct fk_cuda_rows rows, double *to, struct fk_error *err) {
  struct piece pieces[2] = {{0, 0, 0, 0}, {0, 0, 0, 0}}, p = {0, 0, 0, 0};
  bool more = next_piece(&p, rows.columns, rows.count), waiting[2] = {false, false};
  for (int turn = 0; more || waiting[0] || waiting[1]; turn ^= 1) {
    double *staging = (double *)context->staging[turn];
    if (waiting[turn]) { /* the piece sent two turns ago */
      const struct piece *done = &pieces[turn];
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
      more = next_piece(&p, rows.columns, rows.count);
    }
  }
  return FK_STATUS_OK;
}
