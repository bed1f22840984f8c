/* Kernel matrices in FP64 (matrix_pass.cuh), by the code of normal products. */
#include "kernel_tile.cuh"
#include "matrix_pass.cuh"

static __global__ void square_kernel(const struct fk_cuda_points points, double *square) {
  const int64_t i = (int64_t)blockIdx.x * FK_THREADS + threadIdx.x;
  double sum = 0;
  if (i >= points.n) return;
  for (int64_t k = 0; k < points.d; k++) sum += points.u[k * points.ld + i] * points.u[k * points.ld + i];
  square[i] = sum;
}

static enum fk_status find_squares(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                   double *square, struct fk_error *err) {
  square_kernel<<<fk_blocks(points->n, FK_THREADS), FK_THREADS, 0, context->stream>>>(*points, square);
  return FK_CUDA_STATUS(cudaGetLastError());
}

/* Sets to 0 the kernel of each row with itself. Row r is source own[r], or r + meets; the matrix begins with
 * source `first`. */
static __global__ void leave_out_kernel(double *kernels, int64_t ld, int64_t rows, int64_t columns,
                                        const int64_t *own, int64_t meets, int64_t first) {
  const int64_t r = (int64_t)blockIdx.x * FK_THREADS + threadIdx.x;
  if (r >= rows) return;
  const int64_t column = (own ? own[r] : r + meets) - first;
  if (column >= 0 && column < columns) kernels[r * ld + column] = 0;
}

/* Pads the rows to the number in the plan; the last ones are 0. */
static enum fk_status take_rows(const struct fk_matrix_pass *pass, const struct fk_matrix_piece *piece,
                                struct fk_cuda_points *rows, struct fk_error *err) {
  struct fk_cuda_context *context = pass->job->context;
  const struct fk_cuda_points *y = &pass->view.targets;
  const int64_t count = pass->plan.rows;
  const size_t number = sizeof(double);
  *rows = (struct fk_cuda_points){y->u + piece->first_row, count, y->ld, y->d};
  if (piece->rows == count) return FK_STATUS_OK;
  FK_CUDA_TRY(cudaMemsetAsync(pass->rows, 0, number * (size_t)(count * y->d), context->stream));
  FK_CUDA_TRY(cudaMemcpy2DAsync(pass->rows, number * (size_t)count, rows->u, number * (size_t)y->ld,
                                number * (size_t)piece->rows, (size_t)y->d, cudaMemcpyDeviceToDevice,
                                context->stream));
  rows->u = pass->rows;
  rows->ld = count;
  return FK_STATUS_OK;
}

static enum fk_status make_kernels(const struct fk_matrix_pass *pass, const struct fk_matrix_piece *piece,
                                   struct fk_error *err) {
  const struct fk_cuda_job *job = pass->job;
  struct fk_cuda_context *context = job->context;
  const struct fk_matrix_plan *plan = &pass->plan;
  const int64_t first = piece->first_run * plan->run;
  struct fk_kernel_tile tile = {job->form, pass->view.sources->points};
  tile.columns.u += first;
  tile.columns.n = fk_smaller(tile.columns.n - first, piece->runs * plan->run);
  tile.column_square = pass->column_square + first;
  tile.row_square = pass->row_square;
  tile.kernels = (double *)pass->kernels;
  tile.ld = plan->at_once * plan->run;
  FK_TRY(take_rows(pass, piece, &tile.rows, err));
  FK_TRY(find_squares(context, &tile.rows, pass->row_square, err));
  FK_TRY(fk_kernel_tiles.fill(context, pass->blas, &tile, err));
  if (!job->task->exclude_self) return FK_STATUS_OK;
  const int64_t *own = pass->view.self ? pass->view.self + piece->first_row : NULL;
  leave_out_kernel<<<fk_blocks(piece->rows, FK_THREADS), FK_THREADS, 0, context->stream>>>(
      tile.kernels, tile.ld, piece->rows, tile.columns.n, own, job->chunk.first + piece->first_row,
      pass->view.sources->first + first);
  return FK_CUDA_STATUS(cudaGetLastError());
}

enum fk_status fk_matrix_doubles_room(struct fk_matrix_pass *pass, struct fk_error *err) {
  struct fk_cuda_context *context = pass->job->context;
  const struct fk_cuda_points *x = &pass->view.sources->points;
  const int64_t rows = pass->plan.rows;
  FK_TRY(fk_job_room(pass->job, FK_ROOM_MATRIX_SCALES, x->ld + rows * (x->d + 2), &pass->column_square, err));
  pass->row_square = pass->column_square + x->ld;
  pass->masses = pass->row_square + rows;
  pass->rows = pass->masses + rows;
  return find_squares(context, x, pass->column_square, err);
}

enum fk_status fk_matrix_doubles(const struct fk_matrix_pass *pass, const struct fk_matrix_piece *piece,
                                 struct fk_error *err) {
  struct fk_cuda_context *context = pass->job->context;
  const struct fk_matrix_plan *p = &pass->plan;
  const int64_t values = pass->job->n_values, first = piece->first_run * p->run, ld = p->run * p->at_once;
  const double one = 1, zero = 0, *kernels = (const double *)pass->kernels;
  FK_TRY(make_kernels(pass, piece, err));
  FK_CUBLAS_TRY(pass->blas.f->dgemv(pass->blas.handle, CUBLAS_OP_T, p->run * piece->runs, p->rows, &one, kernels,
                                    ld, (const double *)pass->weights + first, 1, &zero, pass->masses, 1));
  FK_CUBLAS_TRY(pass->blas.f->dgemm_batch(pass->blas.handle, CUBLAS_OP_T, CUBLAS_OP_N, p->rows, values, p->run,
                                          &one, kernels, ld, p->run, (const double *)pass->values + first,
                                          p->run * p->runs, p->run, &zero, (double *)pass->sums, p->rows,
                                          p->rows * values, piece->runs));
  return FK_STATUS_OK;
}
