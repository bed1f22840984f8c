/* Packing: whitened points in panels, in the engine's precision. */
#include "pack.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../core/aligned.h"
#include "../core/count.h"
#include "../core/doubled.h"
#include "../core/pool.h"
#include "../core/scan.h"
#include "../core/threads.h"

size_t fk_real_size(const struct fk_kernel_mode *mode) { return mode->single ? sizeof(float) : sizeof(double); }

double fk_real_get(const struct fk_kernel_mode *mode, const void *array, int64_t i) {
  return mode->single ? (double)((const float *)array)[i] : ((const double *)array)[i];
}

void fk_real_set(const struct fk_kernel_mode *mode, void *array, int64_t i, double value) {
  if (mode->single)
    ((float *)array)[i] = (float)value;
  else
    ((double *)array)[i] = value;
}

void *fk_real_at(const struct fk_kernel_mode *mode, const void *array, int64_t i) {
  return (char *)array + (size_t)i * fk_real_size(mode);
}

static enum fk_status out_of_memory(struct fk_error *err, double bytes) {
  return fk_no_memory(err, bytes, "the engine's copy of the points");
}

/* Whitening is to take as long as that many multiply-adds for each point. */
static double work_of(int64_t d) { return (double)d * (double)(d + 10); }

struct radius {
  const struct fk_matrix *x;
  const struct fk_whitening *whitening;
  struct fk_scratch blocks;
  _Atomic double square;
};

static void measure(void *data, int64_t from, int64_t to, int slot) {
  struct radius *radius = data;
  double *u = fk_scratch_at(&radius->blocks, slot), largest = 0, so_far = radius->square;
  int64_t n = radius->x->n, d = radius->x->d;
  for (int64_t b = from; b < to; b++) {
    int64_t first = b * FK_BLOCK, count = fk_smaller(n - first, FK_BLOCK);
    fk_whiten(radius->whitening, radius->x, NULL, first, count, u, FK_BLOCK, NULL);
    for (int64_t r = 0; r < count; r++) {
      double square = 0;
      for (int64_t k = 0; k < d; k++) square += u[k * FK_BLOCK + r] * u[k * FK_BLOCK + r];
      if (square > largest) largest = square;
    }
  }
  while (largest > so_far && !atomic_compare_exchange_weak(&radius->square, &so_far, largest)) continue;
}

enum fk_status fk_radius2(const struct fk_matrix *x, const struct fk_whitening *w, int threads, double *radius2,
                          struct fk_error *err) {
  struct radius radius = {.x = x, .whitening = w};
  size_t bytes = sizeof(double) * FK_BLOCK * (size_t)x->d;
  threads = fk_threads_for_work(threads, (double)x->n * work_of(x->d));
  if (!fk_scratch_init(&radius.blocks, threads, bytes)) return out_of_memory(err, (double)bytes);
  fk_parallel_for(threads, fk_pieces(x->n, FK_BLOCK), fk_step_for_work(FK_BLOCK * work_of(x->d)), measure,
                  &radius);
  fk_scratch_free(&radius.blocks);
  *radius2 = radius.square;
  return FK_STATUS_OK;
}

double fk_packed_bytes(const struct fk_kernel_mode *mode, int64_t n, int64_t d, unsigned parts) {
  int64_t numbers = parts & FK_PACKED_BORROWED ? 0 : d + (parts & FK_PACKED_CONSTANT ? 1 : 0);
  if (mode->doubled && !(parts & FK_PACKED_BORROWED)) numbers += d;
  numbers += (parts & FK_PACKED_WEIGHT ? 1 : 0) + (parts & FK_PACKED_EXPONENT ? 1 : 0);
  return (double)fk_real_size(mode) * (double)fk_padded(n, FK_TILE_COLS) * (double)numbers;
}

enum fk_status fk_packed_init(struct fk_packed *p, const struct fk_kernel_mode *mode, int64_t n, int64_t d,
                              unsigned parts, struct fk_error *err) {
  memset(p, 0, sizeof *p);
  p->n = n;
  p->d = d;
  p->capacity = fk_padded(n, FK_TILE_COLS);
  size_t real = fk_real_size(mode), points = (size_t)p->capacity;
  bool own = !(parts & FK_PACKED_BORROWED), constant = own && parts & FK_PACKED_CONSTANT,
       weight = parts & FK_PACKED_WEIGHT, exponent = parts & FK_PACKED_EXPONENT;
  double bytes = fk_packed_bytes(mode, n, d, parts);
  if (bytes > (double)PTRDIFF_MAX) return out_of_memory(err, bytes);
  p->borrowed = !own;
  if (own) p->points = fk_aligned_alloc(points * (size_t)d * real);
  if (own && mode->doubled) p->low = fk_aligned_alloc(points * (size_t)d * sizeof *p->low);
  p->ones = fk_aligned_alloc(FK_TILE_COLS * real);
  p->edge = fk_aligned_alloc(FK_TILE_COLS * real);
  if (constant) p->constant = fk_aligned_alloc(points * real);
  if (weight) p->weight = fk_aligned_alloc(points * real);
  if (exponent) p->exponent = fk_aligned_alloc(points * real);
  if ((own && (!p->points || (mode->doubled && !p->low))) || !p->ones || !p->edge || (constant && !p->constant) ||
      (weight && !p->weight) || (exponent && !p->exponent)) {
    fk_packed_free(p);
    return out_of_memory(err, bytes);
  }
  for (int i = 0; i < FK_TILE_COLS; i++) fk_real_set(mode, p->ones, i, 1);
  return FK_STATUS_OK;
}

void fk_packed_free(struct fk_packed *p) {
  if (!p->borrowed) {
    fk_aligned_free(p->points);
    fk_aligned_free(p->low);
    fk_aligned_free(p->constant);
  }
  fk_aligned_free(p->weight);
  fk_aligned_free(p->exponent);
  fk_aligned_free(p->ones);
  fk_aligned_free(p->edge);
  memset(p, 0, sizeof *p);
}

const void *fk_packed_points_at(const struct fk_packed *p, const struct fk_kernel_mode *mode, int64_t i) {
  return fk_real_at(mode, p->points, i * p->d);
}

const double *fk_packed_low_at(const struct fk_packed *p, int64_t i) { return p->low ? p->low + i * p->d : NULL; }

/* From i on, to the end of its block; zeros where there is no array. */
static const void *at_or_zeros(const void *array, const struct fk_kernel_mode *mode, int64_t i) {
  static const double zeros[FK_TILE_COLS]; /* as many floats, too */
  return array ? fk_real_at(mode, array, i) : fk_real_at(mode, zeros, i % FK_TILE_COLS);
}

const void *fk_packed_constant_at(const struct fk_packed *p, const struct fk_kernel_mode *mode, int64_t i) {
  return at_or_zeros(p->constant, mode, i);
}

static const void *exponent_at(const struct fk_packed *p, const struct fk_kernel_mode *mode, int64_t i) {
  return at_or_zeros(p->exponent, mode, i);
}

static const void *weight_at(const struct fk_packed *p, const struct fk_kernel_mode *mode, int64_t i) {
  if (p->weight) return fk_real_at(mode, p->weight, i);
  bool inside = i / FK_TILE_COLS < p->n / FK_TILE_COLS;
  return fk_real_at(mode, inside ? p->ones : p->edge, i % FK_TILE_COLS);
}

enum { WIDEST_PANEL = 64 };

/* One panel in the engine's precision; the norms are those of the stored (rounded) coordinates, so that
 * x'y - |x|^2/2 - |y|^2/2 cancels. */
static void store_panel(const struct fk_kernel_mode *mode, const double *u, int64_t d, void *out, double *square) {
  int panel = mode->ops->panel;
  for (int lane = 0; lane < panel; lane++) square[lane] = 0;
  for (int64_t k = 0; k < d; k++, u += panel) {
    if (mode->single) {
      float *to = (float *)out + k * panel;
      for (int lane = 0; lane < panel; lane++) to[lane] = (float)(u[lane] * mode->scale);
      for (int lane = 0; lane < panel; lane++) square[lane] += (double)to[lane] * to[lane];
    } else {
      double *to = (double *)out + k * panel;
      for (int lane = 0; lane < panel; lane++) to[lane] = u[lane] * mode->scale;
      for (int lane = 0; lane < panel; lane++) square[lane] += to[lane] * to[lane];
    }
  }
}

/* Memory is all that can fail. */
static bool fill_doubled(struct fk_packed *p, const struct fk_kernel_mode *mode, const struct fk_picked *picked,
                         int64_t start, int64_t here) {
  int64_t at = start * p->d;
  const struct fk_doubled_block to = {(double *)p->points + at, p->low + at, mode->ops->panel};
  return fk_whiten_doubled(picked->whitening, picked->x, picked->rows, picked->first + start, here, mode->scale,
                           &to);
}

struct pack_fill {
  struct fk_packed *packed;
  const struct fk_kernel_mode *mode;
  const struct fk_picked *picked;
  struct fk_scratch panels; /* two each */
  atomic_bool failed;
};

static void fill_panels(void *data, int64_t from, int64_t to, int slot) {
  struct pack_fill *f = data;
  const struct fk_picked *picked = f->picked;
  const struct fk_kernel_mode *mode = f->mode;
  struct fk_packed *p = f->packed;
  int panel = mode->ops->panel;
  int64_t d = p->d;
  double *u = fk_scratch_at(&f->panels, slot), square[WIDEST_PANEL];
  for (int64_t b = from; b < to; b++) {
    int64_t start = b * panel, left = picked->count - start, here = left < 0 ? 0 : left < panel ? left : panel;
    if (mode->doubled) {
      if (!fill_doubled(p, mode, picked, start, here)) f->failed = true;
      continue;
    }
    fk_whiten(picked->whitening, picked->x, picked->rows, picked->first + start, here, u, panel, u + panel * d);
    store_panel(mode, u, d, fk_real_at(mode, p->points, b * panel * d), square);
    for (int lane = 0; lane < panel && p->constant; lane++)
      fk_real_set(mode, p->constant, start + lane, -square[lane] / 2);
  }
}

static void set_count(struct fk_packed *p, const struct fk_kernel_mode *mode, int64_t count) {
  p->n = count;
  for (int i = 0; i < FK_TILE_COLS; i++) fk_real_set(mode, p->edge, i, i < count % FK_TILE_COLS ? 1 : 0);
}

void fk_packed_borrow(struct fk_packed *p, const struct fk_kernel_mode *mode, const struct fk_packed *from) {
  p->points = from->points;
  p->low = from->low;
  p->constant = from->constant;
  set_count(p, mode, from->n);
}

struct pack_rows {
  const struct fk_picked *picked;
  double *u, *low;
  struct fk_scratch blocks;
  atomic_bool failed;
};

static void whiten_rows(void *data, int64_t first, int64_t end, int slot) {
  struct pack_rows *rows = data;
  const struct fk_picked *picked = rows->picked;
  int64_t d = picked->x->d;
  double *u = fk_scratch_at(&rows->blocks, slot), *low = u + d * FK_BLOCK;
  const struct fk_doubled_block doubled = {u, low, FK_BLOCK};
  for (int64_t from = first * FK_BLOCK; from < fk_smaller(end * FK_BLOCK, picked->count); from += FK_BLOCK) {
    int64_t count = fk_smaller(picked->count - from, FK_BLOCK);
    if (!rows->low)
      fk_whiten(picked->whitening, picked->x, picked->rows, picked->first + from, count, u, FK_BLOCK, low);
    else if (!fk_whiten_doubled(picked->whitening, picked->x, picked->rows, picked->first + from, count, 1,
                                &doubled))
      rows->failed = true;
    for (int64_t r = 0; r < count; r++)
      for (int64_t k = 0; k < d; k++) {
        rows->u[(from + r) * d + k] = u[k * FK_BLOCK + r];
        if (rows->low) rows->low[(from + r) * d + k] = low[k * FK_BLOCK + r];
      }
  }
}

enum fk_status fk_whitened_rows(const struct fk_picked *picked, int threads, double *u, double *low,
                                struct fk_error *err) {
  struct pack_rows rows = {.picked = picked, .u = u, .low = low};
  size_t bytes = 2 * sizeof(double) * FK_BLOCK * (size_t)picked->x->d;
  if (!fk_scratch_init(&rows.blocks, threads, bytes)) return out_of_memory(err, (double)bytes);
  fk_parallel_for(threads, fk_pieces(picked->count, FK_BLOCK), 8, whiten_rows, &rows);
  fk_scratch_free(&rows.blocks);
  return rows.failed ? out_of_memory(err, (double)bytes) : FK_STATUS_OK;
}

enum fk_status fk_packed_fill(struct fk_packed *p, const struct fk_kernel_mode *mode,
                              const struct fk_picked *picked, int threads, struct fk_error *err) {
  int64_t count = picked->count;
  struct pack_fill fill = {p, mode, picked, {NULL, 0}, false};
  int panel = mode->ops->panel;
  size_t bytes = 2 * sizeof(double) * (size_t)panel * (size_t)p->d;
  set_count(p, mode, count);
  threads = fk_threads_for_work(threads, (double)count * work_of(p->d));
  if (!fk_scratch_init(&fill.panels, threads, bytes)) return out_of_memory(err, (double)bytes);
  fk_parallel_for(threads, fk_padded(count, FK_TILE_COLS) / panel, fk_step_for_work(panel * work_of(p->d)),
                  fill_panels, &fill);
  fk_scratch_free(&fill.panels);
  return fill.failed ? out_of_memory(err, (double)bytes) : FK_STATUS_OK;
}

void fk_packed_weights(struct fk_packed *p, const struct fk_kernel_mode *mode, const double *weights,
                       double scale) {
  int64_t end = fk_padded(p->n, FK_TILE_COLS);
  for (int64_t i = 0; i < end; i++) {
    double weight = i < p->n ? weights[i] / scale : 0;
    int exponent = 0;
    if (p->exponent) weight = i < p->n ? frexp(weights[i], &exponent) : 0;
    fk_real_set(mode, p->weight, i, weight);
    if (p->exponent) fk_real_set(mode, p->exponent, i, exponent);
  }
}

enum fk_status fk_packed_all(struct fk_packed *p, const struct fk_kernel_mode *mode, const struct fk_matrix *x,
                             const struct fk_whitening *whitening, const double *weights, int threads,
                             double *weight_scale, struct fk_error *err) {
  const struct fk_picked all = {x, whitening, NULL, 0, x->n};
  enum fk_status status = fk_packed_init(p, mode, x->n, x->d, weights ? FK_PACKED_WEIGHT : 0, err);
  if (!status) status = fk_packed_fill(p, mode, &all, threads, err);
  if (weight_scale) *weight_scale = 1;
  if (status || !weights) return status;
  *weight_scale = fk_largest_absolute(weights, x->n, threads);
  fk_packed_weights(p, mode, weights, *weight_scale);
  return status;
}

void fk_packed_rows(const struct fk_packed *p, const struct fk_kernel_mode *mode, int64_t i, int64_t count,
                    struct fk_tile *tile) {
  tile->n_rows = (int)fk_padded(fk_smaller(FK_TILE_ROWS, count), mode->ops->row_step);
  tile->rows = fk_packed_points_at(p, mode, i);
  tile->rows_low = fk_packed_low_at(p, i);
  tile->row_const = fk_packed_constant_at(p, mode, i);
  tile->row_weight = weight_at(p, mode, i);
  tile->row_exponent = exponent_at(p, mode, i);
}

void fk_packed_columns(const struct fk_packed *p, const struct fk_kernel_mode *mode, int64_t i, int64_t count,
                       struct fk_tile *tile) {
  tile->d = p->d;
  tile->n_cols = (int)fk_padded(fk_smaller(FK_TILE_COLS, count), mode->ops->panel);
  tile->cols = fk_packed_points_at(p, mode, i);
  tile->cols_low = fk_packed_low_at(p, i);
  tile->col_const = fk_packed_constant_at(p, mode, i);
  tile->col_weight = weight_at(p, mode, i);
}

enum fk_status fk_pack_columns(const struct fk_kernel_mode *mode, const double *columns, int64_t n, int64_t r,
                               void **panels, double *scale, struct fk_error *err) {
  int panel = mode->ops->panel;
  int64_t padded = fk_padded(n, FK_TILE_COLS);
  size_t bytes = (size_t)padded * (size_t)r * fk_real_size(mode);
  *panels = fk_aligned_alloc(bytes);
  if (!*panels) return out_of_memory(err, (double)bytes);
  memset(*panels, 0, bytes);
  for (int64_t v = 0; v < r; v++) {
    const double *column = columns + v * n;
    scale[v] = fk_largest_absolute(column, n, 1);
    for (int64_t i = 0; i < n; i++)
      fk_real_set(mode, *panels, ((i / panel) * r + v) * panel + i % panel, column[i] / scale[v]);
  }
  return FK_STATUS_OK;
}
