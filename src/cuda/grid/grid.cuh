/* The grid of one device, step by step; grid.cu builds whole jobs from these steps.
 * || The grid is a box of nodes. An axis has only the nodes that points touch: intervals of cells, each followed
 * by the window's width minus one nodes, in one row. Sources and targets have separate axes. The filter leads from
 * the sources' axes to the targets', one axis at a time. So neither the reach of the filter nor gaps that cross
 * the whole box take memory.
 * || Points are taken in chunks, sorted by their cells. Consecutive sources share their nodes' sums in registers,
 * which are then added to the grid as integers: the order does not matter. */
#ifndef FK_CUDA_GRID_CUH
#define FK_CUDA_GRID_CUH

#include "../device/common.cuh"
#include "../../grid/work.h"

/* ---- what points mean ------------------------------------------------------------------------- */

/* y = matrix (x - centre), in units of cells. */
struct fk_grid_map {
  int d;
  double centre[FK_GRID_MAX_D], matrix[FK_GRID_MAX_D][FK_GRID_MAX_D];
};
enum fk_status fk_grid_map_init(const struct fk_whitening *whitening, double spacing, struct fk_grid_map *map,
                                struct fk_error *err);

/* Raw points on the device, column-major. */
struct fk_grid_raw {
  const double *x;
  int64_t n, ld;
};

#ifdef __CUDACC__
/* Cell coordinates of point i; D > 0. */
template <int D>
static __device__ __forceinline__ void fk_grid_place(const struct fk_grid_map &map, const double *x, int64_t ld,
                                                     int64_t i, double y[D]) {
  double v[D];
#pragma unroll
  for (int k = 0; k < D; k++) v[k] = x[k * ld + i] - map.centre[k];
#pragma unroll
  for (int k = 0; k < D; k++) {
    double sum = 0;
#pragma unroll
    for (int l = 0; l < D; l++) sum += map.matrix[k][l] * v[l];
    y[k] = sum;
  }
}
#endif

/* ---- surveys (survey.cu); they wait for the device --------------------------------------- */

/* Widens low and high to include the points' cell coordinates; infinite if one is not finite. */
enum fk_status fk_grid_extent(struct fk_cuda_context *context, const struct fk_grid_map *map,
                              const struct fk_grid_raw *points, double *low, double *high, struct fk_error *err);
/* Marks the bins that contain a point, on each axis: marks[k * bins + bin] = 1, on the host. A bin has `cells`
 * cells; the first begins at origin. */
struct fk_grid_bins {
  int64_t origin[FK_GRID_MAX_D], cells[FK_GRID_MAX_D];
  int bins;
};
enum fk_status fk_grid_mark(struct fk_cuda_context *context, const struct fk_grid_map *map,
                            const struct fk_grid_raw *points, const struct fk_grid_bins *bins,
                            unsigned char *marks, struct fk_error *err);
/* Counts binary exponents of |b|, which gives an upper bound of sum |b| that does not depend on the order. */
enum { FK_GRID_EXPONENTS = 2048 };
enum fk_status fk_grid_exponents(struct fk_cuda_context *context, const double *b, int64_t ld, int64_t n,
                                 int64_t columns, unsigned long long *counts, struct fk_error *err);

/* ---- axes (axes.cu) ---------------------------------------------------------------------- */

/* Cells first .. first + cells - 1. offset: the node of the first cell on the axis. */
struct fk_grid_segment {
  int64_t first;
  int cells, offset;
};
struct fk_grid_segments {
  struct fk_grid_segment *at;
  int count;
};
/* Intervals of cells with sources and with targets, for each axis, on the host. */
struct fk_grid_axes {
  int d, width;
  struct fk_grid_segments source[FK_GRID_MAX_D], target[FK_GRID_MAX_D];
};
void fk_grid_axes_free(struct fk_grid_axes *axes);
/* One interval per axis from the extents, or the intervals of marked bins if marks are given (not NULL). Drops
 * what is beyond the filter's reach of the other side. */
struct fk_grid_occupied {
  const double *low, *high;
  const unsigned char *marks;
};
enum fk_status fk_grid_axes_init(struct fk_grid_axes *axes, int d, int width, int reach,
                                 const struct fk_grid_occupied *sources, const struct fk_grid_occupied *targets,
                                 const struct fk_grid_bins *bins, struct fk_error *err);
/* Nodes of a side's box, and of the largest box during the filter. */
double fk_grid_axes_nodes(const struct fk_grid_axes *axes, bool target);
double fk_grid_axes_between(const struct fk_grid_axes *axes);

/* ---- the grid --------------------------------------------------------------------------------- */

/* Widths of windows for which kernels are compiled. */
enum { FK_GRID_NARROWEST = 3, FK_GRID_WIDEST_F32 = 9, FK_GRID_WIDEST_F64 = 13 };

/* An axis and a box, as kernels read them. */
struct fk_grid_axis {
  struct fk_grid_segment one; /* first segment */
  const struct fk_grid_segment *at;
  int count;
  unsigned nodes, stride;
};
struct fk_grid_box {
  int d;
  unsigned nodes;
  struct fk_grid_axis axis[FK_GRID_MAX_D];
};

/* Points of a chunk in the order of their cells. */
struct fk_grid_sorted {
  const unsigned *key;   /* the node where the point's stencil starts; box.nodes: outside the grid */
  const unsigned *index; /* number of the point in the chunk */
  const void *fractions; /* [chunk][padded d], in the chunk's own order */
  int count;
};

enum { FK_GRID_CHUNK_MOST = 1 << 27 }; /* most points sorted at a time */

struct fk_cuda_grid_spec {
  struct fk_grid_map map;
  struct fk_window window;
  unsigned use;
  bool single;
  int64_t columns;
  const double *bound; /* [columns], sum |b| over all sources, including those of other devices */
  int64_t n;           /* number of all sources */
  int64_t chunk;       /* points of a chunk; with n, this decides the bits */
};

struct fk_cuda_grid {
  struct fk_cuda_context *context;
  struct fk_cuda_grid_spec spec;
  struct fk_grid_box source, target;
  bool same_axes; /* boxes of sources and targets */
  int reach, tile;
  unsigned between; /* nodes of the largest box during the filter */
  const double *scale;
  const void *taps;          /* [1 or 2][2 reach + 1] */
  unsigned long long *total; /* [columns][source.nodes], fixed point */
  void *out;                 /* [columns][target.nodes] */
  /* the window, on its nodes */
  int degree;
  double polynomial[FK_WINDOW_DEGREE + 1][FK_WINDOW_WIDTH];
  /* points that the last sort has left */
  struct fk_grid_sorted sorted;
  const double *sorted_x;
  const struct fk_grid_box *sorted_box;
};

/* Largest width with float: wider windows are more accurate than float. */
enum { FK_GRID_WIDTH_SINGLE = 9 };
static inline bool fk_grid_is_single(const struct fk_cuda_grid_spec *spec) {
  return spec->single && spec->window.width <= FK_GRID_WIDTH_SINGLE;
}
/* Bytes of a grid, and of sorting a chunk. */
double fk_cuda_grid_axes_bytes(const struct fk_grid_axes *axes, const struct fk_cuda_grid_spec *spec);
double fk_cuda_grid_sort_bytes(const struct fk_cuda_grid_spec *spec);

/* Starts an empty grid in the context's memory; a second grid of the same context replaces the first. Returns
 * FK_STATUS_UNSUPPORTED if it has more than 2^31 nodes. */
enum fk_status fk_cuda_grid_create(struct fk_cuda_context *context, const struct fk_cuda_grid_spec *spec,
                                   const struct fk_grid_axes *axes, struct fk_cuda_grid *grid,
                                   struct fk_error *err);
/* Adds sources on the device, with weights b[q * ld_b + j] (NULL: ones). Points outside the axes are ignored.
 * Launches only; does not wait. */
enum fk_status fk_cuda_grid_add(struct fk_cuda_grid *grid, const struct fk_grid_raw *points, const double *b,
                                int64_t ld_b, struct fk_error *err);
enum fk_status fk_cuda_grid_convolve(struct fk_cuda_grid *grid, struct fk_error *err);
/* Writes value[q * ld + i] and, if not NULL, gradient[(q * d + k) * ld + i], on the device; 0 outside the axes. */
enum fk_status fk_cuda_grid_evaluate(struct fk_cuda_grid *grid, const struct fk_grid_raw *points, double *value,
                                     double *gradient, int64_t ld, struct fk_error *err);
/* To be called when the memory of the points has new content. */
static inline void fk_cuda_grid_forget(struct fk_cuda_grid *grid) { grid->sorted_x = NULL; }

/* ---- its parts -------------------------------------------------------------------------------- */

/* Sorts the first `count` points of a chunk into grid->sorted, unless they are there already (sort.cu). */
enum fk_status fk_cuda_grid_sort(struct fk_cuda_grid *grid, const struct fk_grid_box *box, const double *x,
                                 int64_t ld, int count, struct fk_error *err);
/* Spread or evaluate the points of grid->sorted, by precision (spread.cuh, evaluate.cuh). */
enum fk_status fk_grid_spread_f32(struct fk_cuda_grid *grid, const double *b, int64_t ld_b, struct fk_error *err);
enum fk_status fk_grid_spread_f64(struct fk_cuda_grid *grid, const double *b, int64_t ld_b, struct fk_error *err);
enum fk_status fk_grid_evaluate_f32(struct fk_cuda_grid *grid, double *value, double *gradient, int64_t ld,
                                    struct fk_error *err);
enum fk_status fk_grid_evaluate_f64(struct fk_cuda_grid *grid, double *value, double *gradient, int64_t ld,
                                    struct fk_error *err);

/* Coordinates per point in the record, including padding: a power of two, for aligned loads. */
static inline int fk_grid_record(int d) { return d == 1 ? 1 : d == 2 ? 2 : d <= 4 ? 4 : 8; }

#ifdef __CUDACC__
/* The node where the stencil of a cell starts; -1 outside. */
static __device__ __forceinline__ int fk_grid_node(const struct fk_grid_axis &axis, int64_t cell) {
  struct fk_grid_segment s = axis.one;
  if (axis.count > 1) {
    int low = 0, high = axis.count; /* at[low].first <= cell < at[high].first, except for cells before all
                                     * segments */
    while (high - low > 1) {
      int middle = (low + high) / 2;
      if (axis.at[middle].first <= cell)
        low = middle;
      else
        high = middle;
    }
    s = axis.at[low];
  }
  int64_t r = cell - s.first;
  return r >= 0 && r < s.cells ? s.offset + (int)r : -1;
}

/* The window in a kernel's precision, passed by value. */
template <typename T, int W>
struct fk_grid_window {
  int degree;
  T c[FK_WINDOW_DEGREE + 1][W];
};
template <typename T, int W>
static struct fk_grid_window<T, W> fk_grid_window_of(const struct fk_cuda_grid *grid) {
  struct fk_grid_window<T, W> window;
  window.degree = grid->degree;
  for (int k = 0; k <= FK_WINDOW_DEGREE; k++)
    for (int l = 0; l < W; l++) window.c[k][l] = (T)grid->polynomial[k][l];
  return window;
}

/* Weights of the nodes at fraction f, or their slopes by the point's position in cells (SLOPE). Splines have their
 * own degree, so that the loop unrolls. */
template <bool SLOPE, typename T, int W>
static __device__ __forceinline__ void fk_grid_weights(const struct fk_grid_window<T, W> &window, T f, T *value,
                                                       T *slope) {
  T t = 1 - 2 * f;
#pragma unroll
  for (int l = 0; l < W; l++) value[l] = 0, slope[SLOPE ? l : 0] = 0;
  if (W <= 8 && window.degree == W - 1) {
#pragma unroll
    for (int k = W - 1; k >= 0; k--)
#pragma unroll
      for (int l = 0; l < W; l++) {
        if (SLOPE) slope[l] = slope[l] * t + value[l];
        value[l] = value[l] * t + window.c[k][l];
      }
  } else {
    for (int k = window.degree; k >= 0; k--)
#pragma unroll
      for (int l = 0; l < W; l++) {
        if (SLOPE) slope[l] = slope[l] * t + value[l];
        value[l] = value[l] * t + window.c[k][l];
      }
  }
#pragma unroll
  for (int l = 0; l < W && SLOPE; l++) slope[l] *= -2;
}

/* Loads a point's fractions, with the widest loads possible. */
static __device__ __forceinline__ void fk_grid_load(const float *records, int record, unsigned index, float f[8]) {
  const float *at = records + (size_t)index * record;
#pragma unroll
  for (int k = 0; k < 8; k++) f[k] = 0;
  if (record == 1) {
    f[0] = at[0];
  } else if (record == 2) {
    float2 part = *(const float2 *)at;
    f[0] = part.x, f[1] = part.y;
  } else {
    float4 part = *(const float4 *)at;
    f[0] = part.x, f[1] = part.y, f[2] = part.z, f[3] = part.w;
    if (record == 8) {
      part = *(const float4 *)(at + 4);
      f[4] = part.x, f[5] = part.y, f[6] = part.z, f[7] = part.w;
    }
  }
}
static __device__ __forceinline__ void fk_grid_load(const double *records, int record, unsigned index,
                                                    double f[8]) {
  const double *at = records + (size_t)index * record;
#pragma unroll
  for (int k = 0; k < 8; k++) f[k] = 0;
  if (record == 1) {
    f[0] = at[0];
  } else {
#pragma unroll
    for (int k = 0; k < 8; k += 2)
      if (k < record) {
        double2 part = *(const double2 *)(at + k);
        f[k] = part.x, f[k + 1] = part.y;
      }
  }
}
/* f[k] for a k that the compiler does not know: registers cannot be indexed. */
template <typename T>
static __device__ __forceinline__ T fk_grid_pick(const T f[8], int k) {
  T here = f[0];
#pragma unroll
  for (int l = 1; l < FK_GRID_MAX_D; l++) here = k == l ? f[l] : here;
  return here;
}
#endif

#endif
