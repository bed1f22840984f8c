/* Packs points and values as FP16 terms for tensor cores; tensor.cuh explains the format. */
#include "pack.cuh"

enum {
  THREADS = 128,
  GROUP = 8 /* FP16 numbers in 16 bytes */,
  SETTLED = 15 /* a coarser grid of norms would show */
};

/* Relative margin for the norms of rows: those of the FP16 terms are a little larger. */
#define MARGIN 1.001

/* Rows are taken up to |x|^2 = row_limit, which depends on the sources if rows2 is not given, so that |x|^2/2 +
 * |y|^2/2 <= most. All summands are multiples of 2^-2g or of 2^-norm and have 24 bits; products have one bit more
 * if a single one makes the exponent, because they cancel before they are rounded. */
static int bits_of(int d) { return d <= 16 ? 25 : 24; }
static int least_of(bool single) { return single ? 6 : 5; }

bool fk_tensor_grid_choose(double radius2, double rows2, int d, bool single, struct fk_tensor_grid *grid) {
  const int bits = bits_of(d), least = least_of(single);
  int power;
  radius2 *= FK_LOG2E;
  if (rows2 > 0)
    grid->row_limit = MARGIN * FK_LOG2E * rows2;
  else
    grid->row_limit = radius2 <= 512 ? fmin(3 * radius2 + 64, 1024 - radius2) : 1.5 * radius2 + 64;
  double most = (radius2 + grid->row_limit) / 2;
  for (grid->g = 10; grid->g >= least; grid->g--)
    if (ldexp(most, 2 * grid->g) <= ldexp(1, bits)) {
      power = (int)ceil(log2(most));
      grid->norm = power > 4 ? 24 - power : 20;
      grid->steps = ldexp(1, grid->g);
      grid->step = 1 / grid->steps;
      /* The part of lo.lo that is lost where a point meets itself: a quarter, from rounding hi + lo; all of it if
       * coordinates are so large that their FP16 terms reach no further than the grid. */
      grid->low_low = single && d * ldexp(1, -2 * grid->g) / (grid->g >= 8 ? 48 : 12) > 1e-5;
      /* Tensor cores truncate: each product after the first takes up to a unit in the last place off |t|, 0.45 of
       * 2^-24 on average (bench/NOTES.md). A wider scale compensates for that. */
      int products = (d + 15) / 16 * (grid->low_low || d > FK_TENSOR_WIDE ? 3 : 2);
      grid->scale = sqrt(FK_LOG2E * (1 + products * 0.45 * ldexp(1, -24)));
      return true;
    }
  return false;
}

/* The radius for which radius2 + MARGIN (radius + reach)^2 is twice the limit of the coarsest grid. */
double fk_tensor_radius(double reach, int d, bool single) {
  const double a = 1 + MARGIN, b = MARGIN * reach,
               c = b * reach - 2 * ldexp(1, bits_of(d) - 2 * least_of(single)) / FK_LOG2E;
  return (sqrt(b * b - a * c) - b) / a;
}

struct split {
  __half hi, lo;
};

/* If 11 bits do not reach down to the grid, hi lies on a coarser part of it. coarse: hi is the nearest FP16
 * number, since there is no lo. */
static __device__ __forceinline__ struct split split_in_halves(double x, const struct fk_tensor_pack &pack) {
  struct split s;
  s.hi = __double2half(pack.coarse ? x : rint(x * pack.grid.steps) * pack.grid.step);
  s.lo = __double2half(x - (double)__half2float(s.hi));
  return s;
}

/* Splits eight coordinates of a point, from k0 on, into 16 bytes each of hi and lo; returns their part of |x|^2,
 * computed from the FP16 terms. */
static __device__ __forceinline__ double split_group(const struct fk_cuda_points &points, int64_t i, int k0,
                                                     const struct fk_tensor_pack &pack, bool with_low, __half *hi,
                                                     __half *lo) {
  __align__(16) __half h[GROUP], l[GROUP];
  double square = 0;
  for (int k = 0; k < GROUP; k++) {
    double x = i < points.n && k0 + k < points.d ? points.u[(k0 + k) * points.ld + i] * pack.grid.scale : 0;
    struct split s = split_in_halves(x, pack);
    h[k] = s.hi;
    l[k] = with_low ? s.lo : __half(0.0f);
    double kept = (double)__half2float(h[k]) + (pack.high_norms ? 0 : (double)__half2float(l[k]));
    square += kept * kept;
  }
  *(uint4 *)hi = *(const uint4 *)h;
  *(uint4 *)lo = *(const uint4 *)l;
  return square;
}

static __device__ __forceinline__ double on_grid(double c, int power) {
  return ldexp(rint(ldexp(c, power)), -power);
}

/* Moves coordinate k to change |x|^2/2 by `wanted`, as far as its low part allows and by at most `most`; returns
 * the change still wanted. */
static __device__ __forceinline__ double move_by(double wanted, double most, const __half *hi, __half *lo) {
  double low = (double)__half2float(*lo), x = (double)__half2float(*hi) + low;
  if (fabs(wanted) > most * fabs(x) || wanted == 0) return wanted;
  __half moved = __double2half(low + wanted / x);
  double by = (double)__half2float(moved) - low, left = wanted - (x + by / 2) * by;
  if (fabs(left) >= fabs(wanted)) return wanted;
  *lo = moved;
  return left;
}

/* Moves a point so that |x|^2/2 lies on the grid of norms. If that grid is coarse, rounding the norm would show,
 * but moving the point by a few millionths of a bandwidth does not. The largest coordinate takes most of the
 * change. */
static __device__ __forceinline__ double settle(double half_square, int power, int k, const __half *hi,
                                                __half *lo) {
  double at = on_grid(half_square, power), wanted = at - half_square;
  int largest = 0;
  for (int j = 1; j < k; j++)
    if (fabsf(__half2float(hi[j])) > fabsf(__half2float(hi[largest]))) largest = j;
  wanted = move_by(wanted, 0x1p-15, hi + largest, lo + largest);
  for (int j = 0; j < k; j++) wanted = move_by(wanted, 0x1p-18, hi + j, lo + j);
  return at - wanted;
}

/* ---- columns ---------------------------------------------------------------------------------- */

static __global__ void cols_kernel(const struct fk_cuda_points points, struct fk_tensor_pack pack,
                                   const struct fk_tensor_cols to) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, n = points.n;
  if (i >= to.n_pad) return;
  __half *hi = to.hi + i * to.k, *lo = to.lo + i * to.k;
  double square = 0, w = i < n ? pack.weight ? pack.weight[i] / pack.weight_scale : 1 : 0;
  for (int k = 0; k < to.k; k += GROUP) square += split_group(points, i, k, pack, !pack.coarse, hi + k, lo + k);
  if (pack.grid.norm <= SETTLED && !pack.coarse && !pack.stays)
    square = 2 * settle(square / 2, pack.grid.norm, to.k, hi, lo);
  int exponent = 0;
  if (pack.weight_in_offset && w != 0) frexp(w, &exponent);
  bool counts = i < n && w != 0 && !(pack.list && pack.list[i] < 0);
  double exact = -square / 2, kept = on_grid(exact, pack.grid.norm);
  to.offset[i] = counts ? (float)(kept + exponent) : -INFINITY;
  if (to.weight) to.weight[i] = (float)(w * exp2(exact - kept));
  if (to.col_factor) to.col_factor[i] = counts ? -to.factor1 * (float)exponent : 0;
}

cudaError_t fk_tensor_pack_cols(const struct fk_cuda_points *points, const struct fk_tensor_pack *pack,
                                const struct fk_tensor_cols *to, cudaStream_t stream) {
  cols_kernel<<<fk_blocks(to->n_pad, THREADS), THREADS, 0, stream>>>(*points, *pack, *to);
  return cudaGetLastError();
}

/* ---- rows ------------------------------------------------------------------------------------- */

static __global__ void rows_kernel(const struct fk_cuda_points points, struct fk_tensor_pack pack,
                                   const struct fk_tensor_rows to) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, n = points.n;
  if (i >= to.n_pad) return;
  double square = 0;
  for (int k = 0; k < to.k; k += GROUP)
    square += split_group(points, i, k, pack, true, to.hi + i * to.k + k, to.lo + i * to.k + k);
  bool inside = i < n && square <= pack.grid.row_limit; /* false if an FP16 term overflowed */
  const int exponent = to.mass && i < n ? fk_raise_of_mass(to.mass[i]) : 0;
  double exact = -square / 2, kept = on_grid(exact, pack.grid.norm), raise = to.shift - exponent;
  to.offset[i] = inside ? (float)(kept + raise) : i < n ? -INFINITY : 0.0f;
  to.undo[i] = inside ? exp2(exact - kept - raise) : NAN;
  if (to.factor0) to.factor0[i] = (float)(to.factor[0] + to.factor[1] * (exact - kept - raise));
}

cudaError_t fk_tensor_pack_rows(const struct fk_cuda_points *points, const struct fk_tensor_pack *pack,
                                const struct fk_tensor_rows *to, cudaStream_t stream) {
  rows_kernel<<<fk_blocks(to->n_pad, THREADS), THREADS, 0, stream>>>(*points, *pack, *to);
  return cudaGetLastError();
}

/* ---- values ----------------------------------------------------------------------------------- */

static __global__ void values_kernel(const struct fk_tensor_columns from, struct fk_tensor_pack pack,
                                     struct fk_tensor_values to) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= from.n_pad) return;
  int exponent;
  double w = pack.weight && i < from.n ? frexp(pack.weight[i] / pack.weight_scale, &exponent) : 1;
  for (int v0 = 0; v0 < to.width; v0 += GROUP) {
    __align__(16) __half h[GROUP], l[GROUP];
    for (int v = 0; v < GROUP; v++) {
      double value = i >= from.n || v0 + v > to.n_values ? 0
                     : v0 + v == to.n_values             ? w
                                             : w * from.values[(from.first + v0 + v) * from.ld + i] * from.scale;
      h[v] = __double2half(value);
      l[v] = __double2half(value - (double)__half2float(h[v]));
    }
    *(uint4 *)(to.hi + i * to.width + v0) = *(const uint4 *)h;
    *(uint4 *)(to.lo + i * to.width + v0) = *(const uint4 *)l;
  }
}

cudaError_t fk_tensor_pack_values(const struct fk_tensor_columns *from, const struct fk_tensor_pack *pack,
                                  const struct fk_tensor_values *to, cudaStream_t stream) {
  values_kernel<<<fk_blocks(from->n_pad, THREADS), THREADS, 0, stream>>>(*from, *pack, *to);
  return cudaGetLastError();
}
