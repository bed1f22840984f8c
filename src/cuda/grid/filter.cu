/* The grid itself: its memory, and the filter that turns the sources' totals into the nodes that targets read. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "grid.cuh"

enum { TAPS = 2 * FK_WINDOW_REACH + 1 };

/* ---- memory ----------------------------------------------------------------------------------- */

static double number_bytes(const struct fk_cuda_grid_spec *spec) { return fk_grid_is_single(spec) ? 4 : 8; }
static int planes(const struct fk_cuda_grid_spec *spec) { return spec->use & FK_WINDOW_LAPLACE ? 2 : 1; }

double fk_cuda_grid_axes_bytes(const struct fk_grid_axes *axes, const struct fk_cuda_grid_spec *spec) {
  double columns = (double)spec->columns, number = number_bytes(spec);
  return columns * (8 * fk_grid_axes_nodes(axes, false) + number * fk_grid_axes_nodes(axes, true)) +
         2 * planes(spec) * number * fk_grid_axes_between(axes);
}

static void describe_box(const struct fk_grid_segments *lists, int d, int width, const struct fk_grid_segment *at,
                         struct fk_grid_box *box) {
  unsigned stride = 1;
  memset(box, 0, sizeof *box);
  box->d = d;
  for (int k = 0; k < d; k++) {
    struct fk_grid_axis *axis = &box->axis[k];
    const struct fk_grid_segments *list = &lists[k];
    axis->at = at;
    axis->count = list->count;
    if (list->count) {
      const struct fk_grid_segment *last = &list->at[list->count - 1];
      axis->one = list->at[0];
      axis->nodes = (unsigned)(last->offset + last->cells + width - 1);
    }
    axis->stride = stride;
    stride *= axis->nodes;
    at += list->count;
  }
  box->nodes = stride;
}

static bool same(const struct fk_grid_axes *axes) {
  for (int k = 0; k < axes->d; k++) {
    const struct fk_grid_segments *s = &axes->source[k], *t = &axes->target[k];
    if (s->count != t->count) return false;
    for (int i = 0; i < s->count; i++)
      if (s->at[i].first != t->at[i].first || s->at[i].cells != t->at[i].cells) return false;
  }
  return true;
}

/* The scale of the integer totals: a power of two with which no node's total can overflow, since the window is at
 * most 1. */
static double scale_of(double bound) {
  int exponent;
  if (!(bound > 0)) return 1;
  frexp(bound, &exponent); /* bound < 2^exponent */
  return ldexp(1, (int)fmin(61 - exponent, 1000));
}

/* Sends the segments of all axes, the scales and the taps to the device, in one block. */
static enum fk_status send_tables(struct fk_cuda_grid *grid, const struct fk_grid_axes *axes,
                                  struct fk_error *err) {
  struct fk_cuda_context *context = grid->context;
  const struct fk_cuda_grid_spec *spec = &grid->spec;
  double gauss[FK_WINDOW_REACH + 1], laplace[FK_WINDOW_REACH + 1];
  int64_t counts[2] = {0, 0};
  FK_TRY(fk_window_taps(&spec->window, 1, gauss, planes(spec) > 1 ? laplace : NULL, &grid->reach, err));
  for (int k = 0; k < axes->d; k++) {
    counts[0] += axes->source[k].count;
    counts[1] += axes->target[k].count;
  }
  int64_t doubles = 2 * (counts[0] + counts[1]); /* a segment has the size of two numbers */
  int64_t all = doubles + spec->columns + 2 * TAPS;
  fk_host_array<double> tables(all);
  double *host = tables.at, *on_device;
  if (!host) return fk_fail(err, FK_STATUS_ALLOC, "out of memory for the tables of a grid");
  struct fk_grid_segment *at = (struct fk_grid_segment *)host;
  for (int side = 0; side < 2; side++)
    for (int k = 0; k < axes->d; k++) {
      const struct fk_grid_segments *list = side ? &axes->target[k] : &axes->source[k];
      if (list->count) memcpy(at, list->at, sizeof *at * (size_t)list->count);
      at += list->count;
    }
  for (int64_t q = 0; q < spec->columns; q++) host[doubles + q] = scale_of(spec->bound[q]);
  char *taps = (char *)(host + doubles + spec->columns);
  int length = 2 * grid->reach + 1;
  for (int f = 0; f < planes(spec); f++)
    for (int i = 0; i < length; i++) {
      double tap = (f ? laplace : gauss)[abs(i - grid->reach)];
      if (fk_grid_is_single(spec))
        ((float *)taps)[f * length + i] = (float)tap;
      else
        ((double *)taps)[f * length + i] = tap;
    }
  FK_TRY(fk_cuda_send(context, &context->grid->tables, fk_doubles(host, all, 1), &on_device, err));
  const struct fk_grid_segment *there = (const struct fk_grid_segment *)on_device;
  describe_box(axes->source, axes->d, axes->width, there, &grid->source);
  describe_box(axes->target, axes->d, axes->width, there + counts[0], &grid->target);
  grid->scale = on_device + doubles;
  grid->taps = on_device + doubles + spec->columns;
  return FK_STATUS_OK;
}

enum fk_status fk_cuda_grid_create(struct fk_cuda_context *context, const struct fk_cuda_grid_spec *spec,
                                   const struct fk_grid_axes *axes, struct fk_cuda_grid *grid,
                                   struct fk_error *err) {
  static_assert(sizeof(struct fk_grid_segment) == 2 * sizeof(double), "segments are sent as doubles");
  memset(grid, 0, sizeof *grid);
  grid->context = context;
  grid->spec = *spec;
  if (!(fk_grid_axes_between(axes) < 2147483647.0))
    return fk_fail(err, FK_STATUS_UNSUPPORTED, "points are too sparse for a grid on a GPU: %.2g nodes",
                   fk_grid_axes_between(axes));
  const int width = spec->window.width, widest = fk_grid_is_single(spec) ? FK_GRID_WIDEST_F32 : FK_GRID_WIDEST_F64;
  if (width < FK_GRID_NARROWEST || width > widest)
    return fk_fail(err, FK_STATUS_INTERNAL, "no window of width %d", width);
  grid->degree = fk_window_polynomial(&spec->window, grid->polynomial);
  FK_TRY(send_tables(grid, axes, err));
  grid->same_axes = same(axes);
  grid->between = (unsigned)fk_grid_axes_between(axes);
  /* Few points need short tiles to keep a device busy; long tiles add to the grid less often. */
  grid->tile = 64;
  while (grid->tile < 512 && (int64_t)grid->tile * 8192 < spec->n) grid->tile *= 2;
  int64_t total = (int64_t)grid->source.nodes * spec->columns, out = (int64_t)grid->target.nodes * spec->columns;
  if (!total || !out) return FK_STATUS_OK; /* no target is near a source */
  FK_TRY(fk_cuda_room(context, &context->grid->totals, total, &grid->total, err));
  char *nodes;
  FK_TRY(fk_cuda_room(context, &context->grid->nodes, (int64_t)number_bytes(spec) * out, &nodes, err));
  grid->out = nodes;
  return FK_CUDA_STATUS(cudaMemsetAsync(grid->total, 0, sizeof *grid->total * (size_t)total, context->stream));
}

/* ---- the filter ------------------------------------------------------------------------------- */

template <typename T>
static __global__ void totals_kernel(const unsigned long long *total, unsigned nodes, const double *scale,
                                     T *out) {
  double inverse = 1 / *scale; /* exact: powers of two */
  for (int64_t i = (int64_t)blockIdx.x * FK_THREADS + threadIdx.x; i < nodes; i += (int64_t)gridDim.x * FK_THREADS)
    out[i] = (T)((double)(long long)total[i] * inverse);
}

struct filter_task {
  struct fk_grid_axis from, to;
  unsigned inner, count; /* numbers per index of the axes before; numbers of results */
  int width, reach;
  double half; /* 1 + d/2 if the two planes are to be joined, else 0 */
};

/* The segment of an axis that contains a node. */
static __device__ __forceinline__ struct fk_grid_segment segment_of(const struct fk_grid_axis &axis, int node) {
  if (axis.count <= 1) return axis.one;
  int low = 0, high = axis.count;
  while (high - low > 1) {
    int middle = (low + high) / 2;
    if (axis.at[middle].offset <= node)
      low = middle;
    else
      high = middle;
  }
  return axis.at[low];
}

/* Filters one axis of a plane, or with PAIR of two planes, of which the second sums terms with one factor t^2/2 in
 * place of 1:
 *   A <- G A,   B <- G B + Q A   (b NULL: 0). */
template <typename T, bool PAIR>
static __global__ void __launch_bounds__(FK_THREADS)
    filter_kernel(const __grid_constant__ struct filter_task t, const T *taps, const T *a, const T *b, T *out_a,
                  T *out_b) {
  __shared__ T tap[PAIR ? 2 * TAPS : TAPS];
  int length = 2 * t.reach + 1;
  for (int i = threadIdx.x; i < (PAIR ? 2 : 1) * length; i += FK_THREADS) tap[i] = taps[i];
  __syncthreads();
  int64_t i = (int64_t)blockIdx.x * FK_THREADS + threadIdx.x;
  if (i >= t.count) return;
  unsigned inner = (unsigned)i % t.inner, rest = (unsigned)i / t.inner, outer = rest / t.to.nodes;
  int node = (int)(rest % t.to.nodes);
  struct fk_grid_segment s = segment_of(t.to, node);
  /* nodes within reach */
  int64_t first = s.first + (node - s.offset) - t.reach, end = first + length;
  int at = 0;
  if (t.from.count > 1) { /* the first segment that ends after `first` */
    int high = t.from.count;
    while (at < high) {
      int middle = (at + high) / 2;
      struct fk_grid_segment m = t.from.at[middle];
      if (m.first + m.cells + t.width - 1 > first)
        high = middle;
      else
        at = middle + 1;
    }
  }
  size_t base = (size_t)outer * t.from.nodes;
  T sum_a = 0, sum_b = 0;
  for (; at < t.from.count; at++) {
    struct fk_grid_segment f = t.from.count > 1 ? t.from.at[at] : t.from.one;
    if (f.first >= end) break;
    int64_t low = f.first > first ? f.first : first, high = f.first + f.cells + t.width - 1;
    int count = (int)((high < end ? high : end) - low);
    const T *g = tap + (low - first);
    size_t place = (base + (size_t)(f.offset + (low - f.first))) * t.inner + inner;
#pragma unroll 4
    for (int l = 0; l < count; l++, place += t.inner) {
      T value = a[place];
      sum_a += g[l] * value;
      if (PAIR) {
        sum_b += g[l + length] * value;
        if (b) sum_b += g[l] * b[place];
      }
    }
  }
  if (PAIR && t.half > 0) {
    out_a[i] = (T)t.half * sum_a - sum_b;
  } else {
    out_a[i] = sum_a;
    if (PAIR) out_b[i] = sum_b;
  }
}

template <typename T>
static enum fk_status convolve(struct fk_cuda_grid *grid, struct fk_error *err) {
  struct fk_cuda_context *context = grid->context;
  int d = grid->spec.map.d, two = planes(&grid->spec);
  int64_t plane = fk_padded(grid->between, 64);
  T *memory;
  FK_TRY(fk_cuda_room(context, &context->grid->filter, plane * 2 * two, &memory, err));
  for (int64_t q = 0; q < grid->spec.columns; q++) {
    T *a = memory, *b = NULL, *spare_a = memory + plane * two, *spare_b = spare_a + plane;
    int64_t nodes = grid->source.nodes;
    unsigned inner = 1;
    totals_kernel<T>
        <<<(unsigned)fk_smaller(fk_blocks(nodes, FK_THREADS), 1 << 16), FK_THREADS, 0, context->stream>>>(
            grid->total + q * nodes, grid->source.nodes, grid->scale + q, a);
    FK_CUDA_TRY(cudaGetLastError());
    for (int k = 0; k < d; k++) {
      bool last = k == d - 1;
      T *to_a = last ? (T *)grid->out + q * grid->target.nodes : spare_a, *to_b = spare_b;
      struct filter_task t = {grid->source.axis[k], grid->target.axis[k],  inner, 0, grid->spec.window.width,
                              grid->reach,          last ? 1 + 0.5 * d : 0};
      nodes = nodes / t.from.nodes * t.to.nodes;
      t.count = (unsigned)nodes;
      inner *= t.to.nodes;
      if (two > 1)
        filter_kernel<T, true><<<fk_blocks(nodes, FK_THREADS), FK_THREADS, 0, context->stream>>>(
            t, (const T *)grid->taps, a, b, to_a, to_b);
      else
        filter_kernel<T, false><<<fk_blocks(nodes, FK_THREADS), FK_THREADS, 0, context->stream>>>(
            t, (const T *)grid->taps, a, NULL, to_a, NULL);
      FK_CUDA_TRY(cudaGetLastError());
      spare_a = a;
      spare_b = a + plane;
      a = to_a;
      b = to_b;
    }
  }
  return FK_STATUS_OK;
}

static bool is_empty(const struct fk_cuda_grid *grid) {
  return grid->source.nodes == 0 || grid->target.nodes == 0;
}

enum fk_status fk_cuda_grid_convolve(struct fk_cuda_grid *grid, struct fk_error *err) {
  if (is_empty(grid)) return FK_STATUS_OK;
  return fk_grid_is_single(&grid->spec) ? convolve<float>(grid, err) : convolve<double>(grid, err);
}

/* ---- points ----------------------------------------------------------------------------------- */

enum fk_status fk_cuda_grid_add(struct fk_cuda_grid *grid, const struct fk_grid_raw *points, const double *b,
                                int64_t ld_b, struct fk_error *err) {
  if (is_empty(grid)) return FK_STATUS_OK;
  for (int64_t first = 0; first < points->n; first += grid->spec.chunk) {
    int count = (int)fk_smaller(grid->spec.chunk, points->n - first);
    const double *here = b ? b + first : NULL;
    FK_TRY(fk_cuda_grid_sort(grid, &grid->source, points->x + first, points->ld, count, err));
    FK_TRY(fk_grid_is_single(&grid->spec) ? fk_grid_spread_f32(grid, here, ld_b, err)
                                          : fk_grid_spread_f64(grid, here, ld_b, err));
  }
  return FK_STATUS_OK;
}

/* The last chunk comes first: if it was also the last chunk of the sources, it is sorted already. */
enum fk_status fk_cuda_grid_evaluate(struct fk_cuda_grid *grid, const struct fk_grid_raw *points, double *value,
                                     double *gradient, int64_t ld, struct fk_error *err) {
  struct fk_cuda_context *context = grid->context;
  int64_t columns = grid->spec.columns;
  if (is_empty(grid)) {
    size_t pitch = sizeof(double) * (size_t)ld, width = sizeof(double) * (size_t)points->n;
    FK_CUDA_TRY(cudaMemset2DAsync(value, pitch, 0, width, (size_t)columns, context->stream));
    if (gradient)
      FK_CUDA_TRY(
          cudaMemset2DAsync(gradient, pitch, 0, width, (size_t)(columns * grid->spec.map.d), context->stream));
    return FK_STATUS_OK;
  }
  for (int64_t i = fk_pieces(points->n, grid->spec.chunk) - 1; i >= 0; i--) {
    int64_t first = i * grid->spec.chunk;
    int count = (int)fk_smaller(grid->spec.chunk, points->n - first);
    double *slopes = gradient ? gradient + first : NULL;
    FK_TRY(fk_cuda_grid_sort(grid, &grid->target, points->x + first, points->ld, count, err));
    FK_TRY(fk_grid_is_single(&grid->spec) ? fk_grid_evaluate_f32(grid, value + first, slopes, ld, err)
                                          : fk_grid_evaluate_f64(grid, value + first, slopes, ld, err));
  }
  return FK_STATUS_OK;
}
