/* A chunk of K's rows by two sweeps on tensor cores, or on CUDA cores in FP32, one column of v at a time: K v of
 * the chunk, with the rows as targets, and K' u with the columns as targets. Weights are floats with a scale of
 * their own. Sums move from FP32 to FP64 every 16 to 64 terms; longer FP32 sums make conjugate gradients stall. */
#include "normal.cuh"

/* Sums of slots, [slot][ld], before they are added. */
struct slots {
  const double *sums;
  int count;
  int64_t ld;
};

static __device__ __forceinline__ double sum_of_slots(const struct slots &slots, int64_t i) {
  double sum = 0;
  for (int s = 0; s < slots.count; s++) sum += slots.sums[s * slots.ld + i];
  return sum;
}

static __device__ __forceinline__ double scale_of(const unsigned long long *largest) {
  return *largest ? __longlong_as_double((long long)*largest) : 1;
}

static __device__ __forceinline__ double undone(const float *undo, int64_t i) {
  return undo ? (double)undo[i] : 1;
}

/* Weights divided by their scale, as floats; 0 in the padding. */
static __global__ void weights_kernel(const double *x, int64_t n, int64_t n_pad, const float *undo,
                                      const unsigned long long *largest, float *weights) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n_pad) weights[i] = i < n ? (float)(x[i] / scale_of(largest) * undone(undo, i)) : 0.0f;
}

/* u = W (K v + w) */
struct residual {
  struct slots products; /* sums NULL: v is 0 */
  const float *undo;
  const unsigned long long *largest_v;
  const double *w, *weights;
  int64_t n;
  double *u, *sums; /* sums: receives K v, or NULL */
};

static __global__ void residual_kernel(const struct residual r) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= r.n) return;
  double u = r.products.sums ? sum_of_slots(r.products, i) * undone(r.undo, i) * scale_of(r.largest_v) : 0;
  if (r.sums) r.sums[i] = u;
  if (r.w) u += r.w[i];
  if (r.weights) u *= r.weights[i];
  r.u[i] = u;
}

static __global__ void add_kernel(const struct slots slots, const float *undo, const unsigned long long *largest,
                                  int64_t n, double *product) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) product[i] += sum_of_slots(slots, i) * undone(undo, i) * scale_of(largest);
}

static const float *undo_of(const struct fk_normal_view *view) {
  return view->points->undo ? view->points->undo + view->row : NULL;
}

/* Sums over the columns with weights x, at the rows. */
struct normal_sweep {
  const struct fk_normal_view *rows, *columns;
  const double *x;
  const unsigned long long *largest;
};

static enum fk_status make_slots(struct fk_normal_device *device, const struct normal_sweep *sweep, double **sums,
                                 struct slots *slots, struct fk_error *err) {
  slots->ld = fk_padded(sweep->rows->n, FK_TENSOR_ROWS);
  FK_TRY(fk_cuda_room(device->context, &device->sums_buffer, slots->count * slots->ld, sums, err));
  slots->sums = *sums;
  return FK_STATUS_OK;
}

static enum fk_status sum_by_differences(struct fk_normal_device *device, const struct normal_sweep *sweep,
                                         const float *weights, struct slots *slots, struct fk_error *err) {
  struct fk_cuda_context *context = device->context;
  const struct fk_normal_view *rows = sweep->rows, *columns = sweep->columns;
  const struct fk_kernel_form *kernel = &device->job->kernel;
  struct fk_fma_task<float> t = {};
  fk_fma_takes_form(&t, kernel);
  t.rows = rows->points->differences + rows->row, t.cols = columns->points->differences + columns->row;
  t.ld_rows = rows->points->room, t.ld_cols = columns->points->room;
  t.n_cols = columns->n, t.d = columns->points->form.d;
  t.weight = weights;
  t.short_sums = true;
  t.cols_per_slot = fk_cols_per_slot(columns->n, rows->n, false);
  t.slots = slots->count = (int)fk_blocks(columns->n, t.cols_per_slot);
  FK_TRY(make_slots(device, sweep, &t.acc, slots, err));
  t.rows_here = rows->n, t.ld_acc = slots->ld;
  return FK_CUDA_STATUS(fk_fma_launch(&t, context->stream));
}

static enum fk_status sum_by_tensor(struct fk_normal_device *device, const struct normal_sweep *sweep,
                                    const float *weights, struct slots *slots, struct fk_error *err) {
  struct fk_cuda_context *context = device->context;
  const struct fk_normal_view *rows = sweep->rows, *columns = sweep->columns;
  const struct fk_normal_form *form = &columns->points->form;
  struct fk_tensor_task t = {};
  t.rows = fk_normal_halves(rows), t.cols = fk_normal_halves(columns);
  t.weight = weights;
  t.single = t.short_sums = true;
  t.low_low = form->grid.low_low;
  t.self = INT64_MIN;
  t.n_rows = rows->n;
  if (form->wgmma) {
    fk_wgmma_plan(columns->n, rows->n, false, FK_TENSOR_FLUSH, &t.slots, &t.cols_per_slot);
  } else {
    t.cols_per_slot = fk_cols_per_slot(columns->n, rows->n, true);
    t.slots = (int)fk_blocks(t.cols.n_pad, t.cols_per_slot);
  }
  slots->count = t.slots;
  FK_TRY(make_slots(device, sweep, &t.acc, slots, err));
  if (!form->wgmma) {
    return FK_CUDA_STATUS(fk_mma_launch(&t, context->stream));
  }
  char *stages = fk_normal_stages(columns);
  t.row_stages = fk_normal_stages(rows);
  FK_CUDA_TRY(fk_wgmma_weigh(&t, stages, context->stream));
  return FK_CUDA_STATUS(fk_wgmma_launch(&t, stages, context->stream));
}

static enum fk_status run_sweep(struct fk_normal_device *device, const struct normal_sweep *sweep,
                                struct slots *slots, struct fk_error *err) {
  struct fk_cuda_context *context = device->context;
  const struct fk_normal_view *columns = sweep->columns;
  const int64_t n_pad = fk_padded(columns->n, FK_TENSOR_ROWS);
  float *weights;
  FK_TRY(fk_cuda_room(context, &device->weight_buffer, n_pad, &weights, err));
  weights_kernel<<<fk_blocks(n_pad, FK_THREADS), FK_THREADS, 0, context->stream>>>(
      sweep->x, columns->n, n_pad, undo_of(columns), sweep->largest, weights);
  FK_CUDA_TRY(cudaGetLastError());
  return columns->points->form.way == FK_NORMAL_DIFFERENCES
             ? sum_by_differences(device, sweep, weights, slots, err)
             : sum_by_tensor(device, sweep, weights, slots, err);
}

/* Computes column c of v and w. */
static enum fk_status run_column(struct fk_normal_device *device, const struct fk_normal_view *rows,
                                 const struct fk_normal_numbers *numbers, int64_t c, struct fk_error *err) {
  struct fk_cuda_context *context = device->context;
  const int64_t m = device->job->m, n = rows->n;
  struct fk_normal_view columns = {device->columns, 0, m};
  struct residual r = {{}, undo_of(rows), device->largest_v + c, NULL, numbers->weights, n};
  FK_TRY(fk_cuda_room(context, &device->residual_buffer, n, &r.u, err));
  if (numbers->w) r.w = numbers->w + c * numbers->ld;
  if (numbers->sums) r.sums = numbers->sums + c * numbers->ld;
  if (device->v) {
    struct normal_sweep forth = {rows, &columns, device->v + c * device->ld_v, device->largest_v + c};
    FK_TRY(run_sweep(device, &forth, &r.products, err));
  }
  residual_kernel<<<fk_blocks(n, FK_THREADS), FK_THREADS, 0, context->stream>>>(r);
  FK_CUDA_TRY(cudaGetLastError());
  FK_CUDA_TRY(cudaMemsetAsync(device->largest_residual, 0, sizeof *device->largest_residual, context->stream));
  FK_CUDA_TRY(fk_normal_largest(r.u, n, device->largest_residual, context->stream));
  struct normal_sweep back = {&columns, rows, r.u, device->largest_residual};
  struct slots slots;
  FK_TRY(run_sweep(device, &back, &slots, err));
  add_kernel<<<fk_blocks(m, FK_THREADS), FK_THREADS, 0, context->stream>>>(
      slots, undo_of(&columns), device->largest_residual, m, device->product + c * m);
  return FK_CUDA_STATUS(cudaGetLastError());
}

enum fk_status fk_normal_sweeps(struct fk_normal_device *device, const struct fk_normal_view *rows,
                                const struct fk_normal_numbers *numbers, struct fk_error *err) {
  for (int64_t c = 0; c < device->job->t; c++) FK_TRY(run_column(device, rows, numbers, c, err));
  return FK_STATUS_OK;
}
