/* Leave-one-out sums of score-debiased points. core/loo.h has the formula; its twin is cpu/debiased_loo.c. Tensor
 * cores compute what single precision allows (loo.cuh), all other sums are in FP64: a block computes 64 held-out
 * points against 64 others, a thread 4 x 4 pairs. */
#include <math.h>
#include <stdlib.h>

#include "../../core/loo.h"
#include "../device/devices.cuh"
#include "../device/exp2.cuh"
#include "../device/copy_async.cuh"
#include "exact.cuh"
#include "finish.cuh"
#include "loo.cuh"

enum { TILE = 64, SIDE = 16, PER_THREAD = TILE / SIDE, DEPTH = 8 };

struct loo_task {
  const double *u, *means, *log_mass, *lambda;  /* the columns: sources */
  const double *held_out, *shift;               /* the rows: held-out points; shift NULL: none */
  const double *weight, *score_weight, *factor; /* NULL: ones; score_weight: of the held-out points */
  const int64_t *index;                         /* the held-out point of each row; NULL: first_row + r */
  const int64_t *dominant; /* for each column, the number `self` of the row whose pair is omitted; NULL: none */
  double log_scale;        /* see core/loo.h; also first_self */
  int64_t n, ld, ld_held_out, first_self, first_row, rows;
  int d, slots;
  int64_t cols_per_slot;
  bool find_max, half;
  double *acc; /* [slot][rows] */
};

/* Two stages in shared memory: one slice of the dimensions is used while the next is copied. Weights come with the
 * first slice of a tile. */
struct loo_slices {
  double rows[2][DEPTH][TILE], cols[2][DEPTH][TILE], means[2][DEPTH][TILE], log_mass[2][TILE];
};

/* 0 outside the array. */
static __device__ __forceinline__ void fetch_number(double *to, const double *from, bool there) {
#if __CUDA_ARCH__ >= 800
  unsigned address = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(address), "l"(from), "r"(there ? 8 : 0));
#else
  *to = there ? *from : 0;
#endif
}

/* Fetches point `row` (-1: none) and the columns from col0 on; each thread fetches one of both. */
static __device__ __forceinline__ void fetch_slice(struct loo_slices &to, int stage, int tile,
                                                   const struct loo_task &a, int64_t row, int64_t col0,
                                                   int64_t end, int k0) {
  int c = threadIdx.x % TILE;
  bool is_row = row >= 0, is_col = col0 + c < end;
  const double *x = a.held_out + (is_row ? row : 0);
  int64_t col = is_col ? col0 + c : 0;
  if (k0 == 0 && threadIdx.x < TILE) fetch_number(&to.log_mass[tile][c], a.log_mass + col, is_col);
  for (int k = threadIdx.x / TILE; k < DEPTH; k += SIDE * SIDE / TILE) {
    int64_t from = k0 + k < a.d ? k0 + k : 0;
    bool inside = k0 + k < a.d;
    fetch_number(&to.rows[stage][k][c], x + from * a.ld_held_out, inside && is_row);
    fetch_number(&to.cols[stage][k][c], a.u + from * a.ld + col, inside && is_col);
    fetch_number(&to.means[stage][k][c], a.means + from * a.ld + col, inside && is_col);
  }
}

/* exp(t) for t <= 0 or slightly above. The product is rounded by itself, wherever the row stands in the tile. */
static __device__ __forceinline__ double exponential(const double *powers, double t) {
  return exp2_any(powers, __dmul_rn(t, FK_LOG2E));
}

/* |v|^2. 1 - eps > 0, since S_j includes v_j itself; the bound prevents a division by 0 from rounding. For points
 * far from each other, nearly all pairs, 1 - eps is 1. */
static __device__ __forceinline__ double squared_distance(double eps, double zz, double ze, double ee) {
  double f = eps > 0x1p-54 ? 1 / fmax(1 - eps, 0x1p-60) : 1;
  return fma(f, fma(f, ee, 2 * ze), zz);
}

/* For point j of positive weight: 1 / (2 f_j^2), and the logarithm of its kernel's height. */
static __device__ __forceinline__ double term_of(const struct loo_task &a, int64_t j, double *log_height) {
  *log_height = (a.weight ? log(a.weight[j]) : 0) - a.log_scale;
  if (!a.factor) return 0.5;
  double factor = a.factor[j];
  *log_height -= a.d * log(factor);
  return 0.5 / (factor * factor);
}

/* Sum over the threads of a row. */
static __device__ __forceinline__ double join_lanes(double sum, bool find_max) {
  for (int step = SIDE / 2; step > 0; step /= 2) {
    double other = __shfl_xor_sync(~0u, sum, step);
    sum = find_max ? fmax(sum, other) : sum + other;
  }
  return sum;
}

/* A thread's pairs. s: the squared distance under the score bandwidth; zz, ze, ee as on the CPU. */
struct loo_pairs {
  double s[PER_THREAD][PER_THREAD], zz[PER_THREAD][PER_THREAD];
  double ze[PER_THREAD][PER_THREAD], ee[PER_THREAD][PER_THREAD];
};

/* HALF: the score's bandwidth is H / 2, the default: x_i - x_j then has no part in v_ij, and s lacks its lambda.
 * Multiply-adds are explicit, since the compiler chose different ones for a thread's rows by their place. */
template <bool HALF>
static __device__ __forceinline__ void add_slice(struct loo_pairs &of, const struct loo_slices &from, int stage,
                                                 const struct loo_task &a, int k0) {
  int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
  for (int k = 0; k < DEPTH && k0 + k < a.d; k++) {
    double lambda = a.lambda[k0 + k], alpha = 1 - lambda / 2, beta = lambda / 2;
#pragma unroll
    for (int c = 0; c < PER_THREAD; c++)
#pragma unroll
      for (int r = 0; r < PER_THREAD; r++) {
        double x = from.rows[stage][k][ty * PER_THREAD + r];
        double z = x - from.cols[stage][k][tx + SIDE * c], e = x - from.means[stage][k][tx + SIDE * c];
        if (HALF) {
          of.s[r][c] = fma(z, z, of.s[r][c]);
        } else {
          of.s[r][c] = fma(lambda * z, z, of.s[r][c]), z *= alpha, e *= beta;
          of.zz[r][c] = fma(z, z, of.zz[r][c]);
          of.ze[r][c] = fma(z, e, of.ze[r][c]);
        }
        of.ee[r][c] = fma(e, e, of.ee[r][c]);
      }
  }
}

template <bool HALF>
static __global__ void __launch_bounds__(SIDE *SIDE, HALF ? 2 : 1) loo_kernel(const struct loo_task a) {
  __shared__ struct loo_slices slices;
  __shared__ double shifts[TILE], own_log_weights[TILE];
  const double *powers = exp2_table();
  int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
  int64_t row0 = (int64_t)blockIdx.x * TILE, row_base = a.index ? 0 : a.first_row;
  int64_t begin = (int64_t)blockIdx.y * a.cols_per_slot, end = min(begin + a.cols_per_slot, a.n);
  double sum[PER_THREAD];
  int64_t self[PER_THREAD];
  for (int r = 0; r < PER_THREAD; r++) {
    int64_t i = row0 + ty * PER_THREAD + r, held_out = i >= a.rows ? -1 : a.index ? a.index[i] : row_base + i;
    self[r] = held_out < 0 ? -1 : a.first_self + held_out;
    if (tx == 0) { /* they came with the first slice */
      own_log_weights[ty * PER_THREAD + r] = a.score_weight && held_out >= 0 ? log(a.score_weight[held_out]) : 0;
      shifts[ty * PER_THREAD + r] = a.shift && i < a.rows ? a.shift[i] : 0;
    }
    sum[r] = a.find_max ? -INFINITY : 0;
  }
  int64_t fetched = row0 + threadIdx.x % TILE;
  fetched = fetched >= a.rows ? -1 : a.index ? a.index[fetched] : row_base + fetched;
  fetch_slice(slices, 0, 0, a, fetched, begin, end, 0);
  copy_commit();
  int stage = 0, tile = 0;
  for (int64_t col0 = begin; col0 < end; col0 += TILE, tile ^= 1) {
    struct loo_pairs of = {};
    for (int k0 = 0; k0 < a.d; k0 += DEPTH, stage ^= 1) {
      copy_wait<0>();
      __syncthreads(); /* this slice has arrived, and no thread needs the previous one */
      if (k0 + DEPTH < a.d)
        fetch_slice(slices, stage ^ 1, tile, a, fetched, col0, end, k0 + DEPTH);
      else if (col0 + TILE < end)
        fetch_slice(slices, stage ^ 1, tile ^ 1, a, fetched, col0 + TILE, end, 0);
      copy_commit();
      add_slice<HALF>(of, slices, stage, a, k0);
    }
#pragma unroll
    for (int c = 0; c < PER_THREAD; c++) {
      int64_t j = col0 + tx + SIDE * c;
      if (j >= end || (a.weight && a.weight[j] == 0)) continue;
      double log_height, half_precision = term_of(a, j, &log_height),
                         log_mass = slices.log_mass[tile][tx + SIDE * c];
      int64_t dominant = a.dominant ? a.dominant[j] : -1;
#pragma unroll
      for (int r = 0; r < PER_THREAD; r++) {
        if (self[r] == j || self[r] == dominant) continue;
        double scored = (HALF ? 2 : 1) * of.s[r][c], own_log_weight = own_log_weights[ty * PER_THREAD + r];
        double eps = exponential(powers, fma(-half_precision, scored, own_log_weight - log_mass));
        double away = squared_distance(eps, of.zz[r][c], of.ze[r][c], of.ee[r][c]);
        double t = fma(-half_precision, away, log_height) - shifts[ty * PER_THREAD + r];
        sum[r] = a.find_max ? fmax(sum[r], t) : sum[r] + exponential(powers, t);
      }
    }
  }
  for (int r = 0; r < PER_THREAD; r++) {
    sum[r] = join_lanes(sum[r], a.find_max);
    int64_t i = row0 + ty * PER_THREAD + r;
    if (tx == 0 && i < a.rows) a.acc[blockIdx.y * a.rows + i] = sum[r];
  }
}

/* ---- one device ------------------------------------------------------------------------------- */

struct loo_shared {
  const struct fk_loo_task *task;
  bool allows_single;
  bool single[FK_MAX_DEVICES]; /* the sums of a device are in single precision */
  int64_t tail_rows[FK_MAX_DEVICES];
};

enum { ROWS_PER_LAUNCH = 4096, MAX_SLOTS = 64, MOST_RATIO = 8 };

/* The arrays of a device. */
struct loo_device {
  struct fk_cuda_context *context;
  struct fk_cuda_progress *progress;
  struct fk_cuda_arena arena;
  struct fk_cuda_buffer *whitening;
  struct loo_task task;
  double *result;
};

/* Rows first .. first + count - 1, or the rows of index, each with a shift or none. */
struct loo_rows {
  int64_t first, count;
  const int64_t *index;
  const double *shift;
  double progress;
};

/* find_max: writes the largest exponents, not the sums, to `to` on the device. */
static enum fk_status run_loo_rows(struct loo_device *on, const struct loo_rows *rows, bool find_max, double *to,
                                   struct fk_error *err) {
  struct fk_cuda_context *context = on->context;
  struct loo_task *a = &on->task;
  a->find_max = find_max;
  for (int64_t done = 0; done < rows->count; done += ROWS_PER_LAUNCH) {
    a->rows = fk_smaller(ROWS_PER_LAUNCH, rows->count - done);
    a->first_row = rows->first + done;
    a->index = rows->index ? rows->index + done : NULL;
    a->shift = rows->shift && !find_max ? rows->shift + done : NULL;
    dim3 grid(fk_blocks(a->rows, TILE), (unsigned)a->slots);
    if (a->half)
      loo_kernel<true><<<grid, SIDE * SIDE, 0, context->stream>>>(*a);
    else
      loo_kernel<false><<<grid, SIDE * SIDE, 0, context->stream>>>(*a);
    FK_CUDA_TRY(cudaGetLastError());
    double *out = to + done;
    struct fk_finish finish = {a->acc, a->slots, 1, 0, a->rows, 0, a->rows, NULL, 1, find_max, true};
    finish.result = out, finish.ld_result = a->rows;
    FK_CUDA_TRY(fk_finish_slots(&finish, context->stream));
    FK_TRY(fk_cuda_tick(on->progress, context, rows->progress * (double)a->rows / (double)rows->count, err));
  }
  return FK_STATUS_OK;
}

/* Some rows of a range that starts at held-out point `first`. */
struct loo_lost {
  int64_t first, *rows, found;
};

static enum fk_status send_index(struct loo_device *on, struct fk_cuda_arena *arena, const struct loo_lost *lost,
                                 int64_t **index, struct fk_error *err) {
  fk_host_array<int64_t> sources(lost->found);
  if (!sources.at) return fk_fail(err, FK_STATUS_ALLOC, "out of memory");
  for (int64_t r = 0; r < lost->found; r++) sources.at[r] = lost->first + lost->rows[r];
  FK_TRY(fk_cuda_take(on->context, arena, lost->found, index, err));
  return fk_cuda_upload(on->context, fk_doubles((const double *)sources.at, lost->found, 1), (double *)*index,
                        lost->found, err);
}

/* Replaces sums in single precision that have lost terms, or are out of its range, by sums in FP64. */
static enum fk_status sum_again(struct loo_device *on, const struct loo_lost *lost, double *out,
                                struct fk_error *err) {
  struct fk_cuda_arena arena = {};
  int64_t *index;
  fk_host_array<double> host(lost->found);
  if (!host.at) return fk_fail(err, FK_STATUS_ALLOC, "out of memory");
  FK_TRY(send_index(on, &arena, lost, &index, err));
  struct loo_rows wanted = {0, lost->found, index, NULL, 0};
  FK_TRY(run_loo_rows(on, &wanted, false, on->result, err));
  FK_TRY(fk_cuda_download(on->context, on->result, lost->found, fk_all_rows(lost->found, 1), host.at, err));
  for (int64_t r = 0; r < lost->found; r++) out[lost->rows[r]] = host.at[r];
  return FK_STATUS_OK;
}

/* Computes logarithms of sums that underflowed, to out. */
static enum fk_status loo_tails(struct loo_device *on, const struct loo_lost *lost, double *out,
                                struct fk_error *err) {
  struct fk_cuda_context *context = on->context;
  const int64_t found = lost->found;
  struct fk_cuda_arena arena = {};
  int64_t *index;
  double *shift;
  FK_TRY(send_index(on, &arena, lost, &index, err));
  FK_TRY(fk_cuda_take(context, &arena, found, &shift, err));
  fk_host_array<double> both(2 * found);
  double *host = both.at;
  if (!host) return fk_fail(err, FK_STATUS_ALLOC, "out of memory");
  struct loo_rows wanted = {0, found, index, shift, 0};
  FK_TRY(run_loo_rows(on, &wanted, true, shift, err));
  FK_CUDA_TRY(fk_finish_shift(shift, found, context->stream));
  FK_TRY(run_loo_rows(on, &wanted, false, on->result, err));
  FK_TRY(fk_cuda_download(context, on->result, found, fk_all_rows(found, 1), host, err));
  FK_TRY(fk_cuda_download(context, shift, found, fk_all_rows(found, 1), host + found, err));
  for (int64_t r = 0; r < found; r++) out[lost->rows[r]] = log(host[r]) + host[found + r] + on->task.log_scale;
  return FK_STATUS_OK;
}

/* Is the score's bandwidth H / 2, up to rounding? */
static bool is_half(const double *lambda, int64_t d) {
  for (int64_t k = 0; k < d; k++)
    if (fabs(lambda[k] - 2) > 0x1p-48) return false;
  return true;
}

/* Sends an array; NULL stays NULL. */
static enum fk_status send_numbers(struct loo_device *on, const double *from, int64_t n, double **to,
                                   struct fk_error *err) {
  *to = NULL;
  return from ? fk_cuda_send_to(on->context, &on->arena, fk_doubles(from, n, 1), to, err) : FK_STATUS_OK;
}

/* Sends held-out points that are not the sources. */
static enum fk_status send_held_out(struct loo_device *on, const struct fk_cuda_whitening *whitening,
                                    const struct fk_matrix *points, struct fk_error *err) {
  struct fk_cuda_points u = {NULL, points->n, points->n};
  double *raw;
  FK_TRY(fk_cuda_bring(on->context, &on->arena, whitening, points, &raw, &u, err));
  on->task.held_out = u.u, on->task.ld_held_out = points->n;
  return FK_STATUS_OK;
}

/* Sends int64_t numbers as doubles: they are only copied. */
static enum fk_status send_dominant(struct loo_device *on, const struct fk_loo_task *task, struct fk_error *err) {
  int64_t n = task->points.n;
  double *there;
  on->task.dominant = NULL;
  if (!task->widths.dominant) return FK_STATUS_OK;
  fk_host_array<int64_t> dominant(n);
  if (!dominant.at) return fk_fail(err, FK_STATUS_ALLOC, "out of memory");
  for (int64_t j = 0; j < n; j++) {
    int64_t i = fk_loo_dominant(&task->widths, &task->held_out, j);
    dominant.at[j] = task->held_out.first + (i < 0 ? task->held_out.points.n : i); /* i < 0: of no row */
  }
  FK_TRY(fk_cuda_send_to(on->context, &on->arena, fk_doubles((const double *)dominant.at, n, 1), &there, err));
  on->task.dominant = (const int64_t *)there;
  return FK_STATUS_OK;
}

static enum fk_status send_all(struct loo_device *on, const struct fk_loo_task *task, struct fk_error *err) {
  const struct fk_widths *widths = &task->widths;
  int64_t n = task->points.n, d = task->points.d, m = task->held_out.points.n;
  struct fk_cuda_context *context = on->context;
  struct fk_cuda_whitening whitening;
  struct fk_cuda_points u = {NULL, n, n, (int)d}, means = u;
  double *raw, *raw_means, *mass, *weight, *score_weight, *factor, *lambda, *acc;
  struct loo_task *a = &on->task;
  FK_TRY(fk_cuda_whitening_init(context, on->whitening, task->whitening, &whitening, err));
  FK_TRY(fk_cuda_send_to(context, &on->arena, task->points, &raw, err));
  FK_TRY(fk_cuda_send_to(context, &on->arena, fk_doubles(widths->means, n, d), &raw_means, err));
  FK_TRY(send_numbers(on, widths->log_mass, n, &mass, err));
  FK_TRY(send_numbers(on, task->lambda, d, &lambda, err));
  FK_TRY(send_numbers(on, widths->weights, n, &weight, err));
  FK_TRY(send_numbers(on, task->held_out.weights, m, &score_weight, err));
  FK_TRY(send_numbers(on, widths->factors, n, &factor, err));
  FK_TRY(send_dominant(on, task, err));
  a->cols_per_slot = fk_padded(fk_larger((n + MAX_SLOTS - 1) / MAX_SLOTS, 1024), TILE);
  a->slots = (int)fk_blocks(n, a->cols_per_slot);
  FK_TRY(fk_cuda_take(context, &on->arena, (int64_t)a->slots * ROWS_PER_LAUNCH, &acc, err));
  FK_TRY(fk_cuda_take(context, &on->arena, n * d, &u.u, err));
  FK_TRY(fk_cuda_take(context, &on->arena, n * d, &means.u, err));
  FK_CUDA_TRY(cudaEventRecord(context->begin, context->stream));
  FK_TRY(fk_cuda_whiten(context, &whitening, raw, n, &u, err));
  FK_TRY(fk_cuda_whiten(context, &whitening, raw_means, n, &means, err));
  a->u = u.u, a->means = means.u, a->log_mass = mass, a->lambda = lambda, a->acc = acc;
  a->weight = weight, a->score_weight = score_weight, a->factor = factor;
  a->log_scale = task->log_scale, a->n = a->ld = n, a->d = (int)d;
  a->half = is_half(task->lambda, d);
  a->held_out = a->u, a->ld_held_out = n, a->first_self = task->held_out.first;
  return fk_loo_is_own(task) ? FK_STATUS_OK : send_held_out(on, &whitening, &task->held_out.points, err);
}

/* The smallest and largest positive weight. */
struct loo_spread {
  double least, largest;
};

static struct loo_spread spread_of(const double *weights, int64_t n, struct loo_spread s) {
  for (int64_t i = 0; i < n; i++) {
    double weight = weights ? weights[i] : 1;
    if (weight > 0) s.least = fmin(s.least, weight), s.largest = fmax(s.largest, weight);
  }
  return s;
}

/* Without factors, with weights of similar size and the default bandwidth of the score, little cancels in 1 - eps.
 */
static bool allows_single(const struct fk_loo_task *task, const struct fk_opts *opts) {
  const struct fk_widths *w = &task->widths;
  if (opts->precision == FK_PRECISION_DOUBLE || w->factors || w->dominant ||
      !is_half(task->lambda, task->points.d))
    return false;
  struct loo_spread spread = spread_of(w->weights, task->points.n, {INFINITY, 0});
  spread = spread_of(task->held_out.weights, task->held_out.points.n, spread);
  return spread.largest <= MOST_RATIO * spread.least;
}

static enum fk_status sum_by_tensor(struct loo_device *on, const struct fk_loo_task *task,
                                    const struct loo_rows *rows, bool *done, struct fk_error *err) {
  const struct loo_task *a = &on->task;
  const int64_t m = task->held_out.points.n;
  struct fk_loo_points points = {{(double *)a->u, a->n, a->ld, a->d},
                                 {(double *)a->means, a->n, a->ld, a->d},
                                 {(double *)a->held_out, m, a->ld_held_out, a->d},
                                 a->log_mass,
                                 a->weight,
                                 a->score_weight,
                                 a->log_scale,
                                 a->first_self};
  struct fk_loo_range range = {rows->first, rows->count, on->progress};
  return fk_loo_by_tensor(on->context, &on->arena, &points, &range, on->result, done, err);
}

static enum fk_status find_lost(const struct loo_device *on, bool single, const double *out, int64_t count,
                                struct loo_lost *lost, struct fk_error *err) {
  free(lost->rows);
  return fk_rows_below(out, count, fk_lost_below(single, on->task.n, 1), &lost->rows, &lost->found, err);
}

/* The logarithms of the sums that are on the device. */
static enum fk_status finish_sums(struct loo_device *on, bool single, struct loo_lost *lost, double *out,
                                  int64_t count, struct fk_error *err) {
  FK_TRY(fk_cuda_download(on->context, on->result, count, fk_all_rows(count, 1), out, err));
  FK_TRY(find_lost(on, single, out, count, lost, err));
  if (single && lost->found) {
    FK_TRY(sum_again(on, lost, out, err));
    FK_TRY(find_lost(on, false, out, count, lost, err));
  }
  for (int64_t r = 0; r < count; r++) out[r] = log(out[r]) + on->task.log_scale;
  return lost->found ? loo_tails(on, lost, out, err) : FK_STATUS_OK;
}

static enum fk_status sum_range(struct loo_device *on, struct loo_shared *shared, int64_t first, int64_t count,
                                double *seconds, struct fk_error *err) {
  struct fk_cuda_context *context = on->context;
  struct loo_rows all = {first, count, NULL, NULL, (double)count};
  struct loo_lost lost = {first};
  bool *single = &shared->single[context->device];
  FK_TRY(send_all(on, shared->task, err));
  FK_TRY(fk_cuda_take(context, &on->arena, count, &on->result, err));
  if (shared->allows_single) FK_TRY(sum_by_tensor(on, shared->task, &all, single, err));
  if (!*single) FK_TRY(run_loo_rows(on, &all, false, on->result, err));
  FK_CUDA_TRY(cudaEventRecord(context->end, context->stream));
  enum fk_status status = finish_sums(on, *single, &lost, shared->task->log_sum + first, count, err);
  if (!status) status = fk_cuda_elapsed(context, seconds, err);
  shared->tail_rows[context->device] = lost.found;
  free(lost.rows);
  return status;
}

static enum fk_status loo_range(struct fk_cuda_context *context, int64_t first, int64_t count, void *data,
                                struct fk_cuda_progress *progress, double *seconds, struct fk_error *err) {
  struct loo_device on = {context, progress};
  FK_TRY(fk_cuda_arena_buffer(context, &on.arena, &on.whitening, err));
  return sum_range(&on, (struct loo_shared *)data, first, count, seconds, err);
}

enum fk_status fk_cuda_debiased_loo(const struct fk_loo_task *task, const struct fk_opts *opts,
                                    struct fk_stats *stats, struct fk_error *err) {
  struct fk_cuda_context *contexts[FK_MAX_DEVICES];
  int count;
  double start = fk_seconds();
  struct loo_shared shared = {task, allows_single(task, opts)};
  bool single = false;
  FK_TRY(fk_cuda_contexts(opts, contexts, &count, err));
  int64_t m = task->held_out.points.n;
  struct fk_cuda_work work = {m, FK_TENSOR_ROWS, &opts->poll, loo_range, &shared};
  FK_TRY(fk_cuda_on_devices(contexts, count, &work, &stats->device_seconds, err));
  for (int i = 0; i < FK_MAX_DEVICES; i++) {
    stats->tail_rows += (double)shared.tail_rows[i];
    single = single || shared.single[i];
  }
  fk_cuda_describe(stats, contexts, count, single ? "mma" : "difference",
                   single ? fk_cuda_precision_name(opts->precision) : "double");
  stats->pairs += (double)task->points.n * (double)m;
  stats->seconds += fk_seconds() - start;
  return FK_STATUS_OK;
}
