/* Points for normal products: whitened, as doubles, floats or FP16 terms, in memory that operators cache. */
#include "normal_points.cuh"
#include "../tensor/sums_wgmma.cuh"

bool fk_normal_same_form(const struct fk_normal_form *a, const struct fk_normal_form *b) {
  return a->way == b->way && a->wgmma == b->wgmma && a->rough == b->rough && a->d == b->d &&
         a->centre == b->centre && a->grid.g == b->grid.g && a->grid.norm == b->grid.norm &&
         a->grid.scale == b->grid.scale;
}

/* ---- memory ----------------------------------------------------------------------------------- */

static struct fk_tensor_task packing_of(const struct fk_normal_form *form, struct fk_tensor_points cols) {
  struct fk_tensor_task task = {};
  task.rows.k = form->k;
  task.cols = cols;
  task.single = task.short_sums = true;
  task.low_low = form->grid.low_low;
  task.self = INT64_MIN;
  return task;
}

/* For FK_NORMAL_STEP points. */
static int64_t stage_bytes(const struct fk_normal_form *form) {
  struct fk_tensor_task task = packing_of(form, {NULL, NULL, NULL, FK_NORMAL_STEP, FK_NORMAL_STEP, form->k});
  return form->wgmma ? (int64_t)fk_wgmma_pack_bytes(&task) : 0;
}

/* Places the arrays for `room` points one after the other from `at` on; returns the end. */
static char *lay_out(const struct fk_normal_form *form, int64_t room, char *at, struct fk_normal_points *to) {
  struct carver c = {at};
  to->undo = NULL;
  switch (form->way) {
    case FK_NORMAL_TILES_DOUBLE:
      to->u = carve<double>(&c, room * form->d);
      to->square = carve<double>(&c, room);
      break;
    case FK_NORMAL_TILES:
      to->parts = carve<__half>(&c, room * 3 * form->k);
      to->norm = carve<float2>(&c, room);
      break;
    case FK_NORMAL_DIFFERENCES: to->differences = carve<float>(&c, room * form->d); break;
    case FK_NORMAL_TENSOR:
      to->undo = carve<float>(&c, room);
      if (form->wgmma) {
        to->stages = carve<char>(&c, room / FK_NORMAL_STEP * stage_bytes(form));
        break;
      }
      to->hi = carve<__half>(&c, room * form->k);
      to->lo = carve<__half>(&c, room * form->k);
      to->offset = carve<float>(&c, room);
  }
  return c.at;
}

double fk_normal_bytes(const struct fk_normal_form *form, int64_t points) {
  struct fk_normal_points none = {};
  return (double)(uintptr_t)lay_out(form, fk_padded(points, FK_NORMAL_STEP), NULL, &none);
}

enum fk_status fk_normal_make(struct fk_cuda_context *context, const struct fk_normal_form *form, int64_t points,
                              struct fk_normal_points *to, struct fk_error *err) {
  int64_t room = fk_padded(points, FK_NORMAL_STEP);
  to->room = to->filled = 0;
  FK_TRY(fk_cuda_reserve(context, &to->buffer, (size_t)fk_normal_bytes(form, points), err));
  lay_out(form, room, (char *)to->buffer.data, to);
  to->form = *form;
  to->room = room;
  return FK_STATUS_OK;
}

/* ---- packed ----------------------------------------------------------------------------------- */

static __global__ void doubles_kernel(const struct fk_cuda_points from, double *u, double *square, int64_t ld) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= from.n) return;
  double sum = 0;
  for (int k = 0; k < from.d; k++) {
    double x = from.u[k * from.ld + i];
    u[k * ld + i] = x;
    sum += x * x;
  }
  square[i] = sum;
}

static __global__ void floats_kernel(const struct fk_cuda_points from, double scale, float *u, int64_t ld) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  for (int k = 0; k < from.d && i < from.n; k++) u[k * ld + i] = (float)(from.u[k * from.ld + i] * scale);
}

/* Packs the parts of struct fk_normal_points. */
static __global__ void parts_kernel(const struct fk_cuda_points from, const struct fk_tensor_grid grid, int k_pad,
                                    bool rough, __half *parts, float2 *norm) {
  enum { GROUP = 8 /* 16 bytes */ };
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= from.n) return;
  __half *to = parts + i * 3 * k_pad;
  double square = 0;
  for (int k0 = 0; k0 < k_pad; k0 += GROUP) {
    __align__(16) __half part[3][GROUP];
    for (int j = 0; j < GROUP; j++) {
      double x = k0 + j < from.d ? from.u[(k0 + j) * from.ld + i] * grid.scale : 0;
      __half hi = __double2half(rint(x * grid.steps) * grid.step),
             lo = __double2half(rough ? 0.0 : x - (double)__half2float(hi));
      double kept = (double)__half2float(hi) + (double)__half2float(lo);
      part[0][j] = hi, part[1][j] = lo, part[2][j] = __double2half(kept);
      square += kept * kept;
    }
    for (int p = 0; p < 3; p++) *(uint4 *)(to + p * k_pad + k0) = *(const uint4 *)part[p];
  }
  double high = rint(square / 2 * grid.steps * grid.steps) * grid.step * grid.step;
  norm[i] = {(float)high, (float)(square / 2 - high)};
}

static enum fk_status pack_halves(struct fk_cuda_context *context, const struct fk_cuda_points *from, int64_t row,
                                  struct fk_cuda_buffer *work, struct fk_normal_points *to, struct fk_error *err) {
  const struct fk_normal_form *form = &to->form;
  const int64_t k = form->k, n_pad = fk_padded(from->n, FK_TENSOR_ROWS);
  struct fk_tensor_pack pack = {form->grid, NULL, 1, false, false, false, true};
  struct fk_tensor_cols halves = {};
  if (form->wgmma) { /* temporary arrays */
    char *block;
    FK_TRY(fk_cuda_room(context, work, n_pad * (4 * k + 4) + 3 * 256, &block, err));
    struct carver c = {block};
    halves.hi = carve<__half>(&c, n_pad * k);
    halves.lo = carve<__half>(&c, n_pad * k);
    halves.offset = carve<float>(&c, n_pad);
  } else {
    halves.hi = to->hi + row * k;
    halves.lo = to->lo + row * k;
    halves.offset = to->offset + row;
  }
  halves.weight = to->undo + row; /* with a weight of 1, what is left in `weight` is the rounding error */
  halves.n_pad = n_pad;
  halves.k = (int)k;
  FK_CUDA_TRY(fk_tensor_pack_cols(from, &pack, &halves, context->stream));
  if (!form->wgmma) return FK_STATUS_OK;
  struct fk_tensor_task task = packing_of(form, {halves.hi, halves.lo, halves.offset, from->n, n_pad, (int)k});
  struct fk_normal_view view = {to, row, from->n};
  return FK_CUDA_STATUS(fk_wgmma_pack(&task, fk_normal_stages(&view), context->stream));
}

enum fk_status fk_normal_fill(struct fk_cuda_context *context, const struct fk_cuda_points *from, int64_t row,
                              struct fk_cuda_buffer *work, struct fk_normal_points *to, struct fk_error *err) {
  const unsigned blocks = fk_blocks(from->n, FK_THREADS);
  const struct fk_normal_form *form = &to->form;
  switch (form->way) {
    case FK_NORMAL_TILES_DOUBLE:
      doubles_kernel<<<blocks, FK_THREADS, 0, context->stream>>>(*from, to->u + row, to->square + row, to->room);
      break;
    case FK_NORMAL_TILES:
      parts_kernel<<<blocks, FK_THREADS, 0, context->stream>>>(*from, form->grid, form->k, form->rough,
                                                               to->parts + row * 3 * form->k, to->norm + row);
      break;
    case FK_NORMAL_DIFFERENCES:
      floats_kernel<<<blocks, FK_THREADS, 0, context->stream>>>(*from, form->grid.scale, to->differences + row,
                                                                to->room);
      break;
    case FK_NORMAL_TENSOR: FK_TRY(pack_halves(context, from, row, work, to, err));
  }
  FK_CUDA_TRY(cudaGetLastError());
  to->filled = row + from->n;
  return FK_STATUS_OK;
}

struct fk_tensor_points fk_normal_halves(const struct fk_normal_view *view) {
  const struct fk_normal_points *p = view->points;
  const int64_t k = p->form.k, n_pad = fk_padded(view->n, FK_TENSOR_ROWS);
  return {p->hi + view->row * k, p->lo + view->row * k, p->offset + view->row, view->n, n_pad, (int)k};
}

char *fk_normal_stages(const struct fk_normal_view *view) {
  return view->points->stages + view->row / FK_NORMAL_STEP * stage_bytes(&view->points->form);
}

/* ---- the largest ------------------------------------------------------------------------------ */

/* Bits of nonnegative doubles have the order of the numbers. */
static __device__ __forceinline__ void raise(unsigned long long *largest, double x) {
  unsigned long long bits = (unsigned long long)__double_as_longlong(fabs(x));
  for (int step = 16; step > 0; step /= 2) {
    unsigned long long other = __shfl_xor_sync(~0u, bits, step);
    bits = other > bits ? other : bits;
  }
  if (threadIdx.x % 32 == 0 && bits > 0) atomicMax(largest, bits);
}

static __global__ void radius2_kernel(const struct fk_cuda_points points, unsigned long long *largest) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  double square = 0;
  for (int k = 0; k < points.d && i < points.n; k++)
    square += points.u[k * points.ld + i] * points.u[k * points.ld + i];
  raise(largest, square);
}

cudaError_t fk_normal_radius2(const struct fk_cuda_points *points, unsigned long long *largest,
                              cudaStream_t stream) {
  radius2_kernel<<<fk_blocks(points->n, FK_THREADS), FK_THREADS, 0, stream>>>(*points, largest);
  return cudaGetLastError();
}

static __global__ void largest_kernel(const double *x, int64_t n, unsigned long long *largest) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  raise(largest, i < n ? x[i] : 0);
}

cudaError_t fk_normal_largest(const double *x, int64_t n, unsigned long long *largest, cudaStream_t stream) {
  largest_kernel<<<fk_blocks(n, FK_THREADS), FK_THREADS, 0, stream>>>(x, n, largest);
  return cudaGetLastError();
}
