/* The estimators: which kernel sums they need and what is done with them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "aligned.h"
#include "../fk.h"
#include "count.h"
#include "host.h"
#include "loo.h"
#include "plan.h"
#include "pool.h"
#include "scan.h"
#include "threads.h"
#include "triangular.h"

static const double plain[3] = {1, 0, 0};

static enum fk_status out_of_memory(struct fk_error *err, double bytes) {
  return fk_no_memory(err, bytes, "intermediate results");
}

/* The task of summing the operator's kernels at y, or at its own points if y has no data. */
static struct fk_task task_of(struct fk_operator *op, const struct fk_matrix *y) {
  struct fk_task task = {.op = op, .sources = op->x, .targets = *y, .whitening = &op->whitening};
  task.kernel = op->kernel;
  task.weights = op->weights;
  memcpy(task.factor, plain, sizeof plain);
  return task;
}

enum fk_status fk_kernel_matrix(struct fk_operator *op, const struct fk_matrix *y,
                                const struct fk_matrix_term *term, const struct fk_opts *opts, double *K,
                                struct fk_error *err) {
  enum fk_status status = fk_operator_here(op, opts->threads, NULL, err);
  struct fk_task task = task_of(op, y);
  struct fk_dense to = fk_dense_of(K, fk_n_targets(&task), op->x.n);
  if (!status) status = fk_engine_exact_cpu.matrix(&task, term, opts, &to, err);
  if (!status && !y->data) status = fk_dense_host.transpose(opts->threads, 0, &to, NULL, &to, err);
  return status;
}

/* Computes the task on the engine that the planner chooses. */
static enum fk_status run(struct fk_task *task, const struct fk_opts *opts, struct fk_stats *stats,
                          struct fk_error *err) {
  struct fk_plan_choice choice;
  struct fk_work work = fk_task_work(task);
  enum fk_status status = fk_plan_choose(opts, &work, &choice, stats, err);
  if (!status && !choice.engine->sends_points) status = fk_operator_here(task->op, opts->threads, task, err);
  if (!status && !choice.engine->sends_points) task->logs = NULL; /* its parts would be taken for sums */
  return status ? status : choice.engine->sums(task, &choice.opts, stats, err);
}

enum fk_status fk_pairs_share(struct fk_operator *op, const struct fk_matrix *y, const struct fk_opts *opts,
                              double *share, struct fk_error *err) {
  struct fk_task task = task_of(op, y);
  struct fk_work work = fk_task_work(&task);
  struct fk_opts exact = *opts;
  struct fk_plan_choice choice;
  struct fk_stats stats;
  exact.engine = FK_ENGINE_EXACT;
  *share = 1;
  enum fk_status status = fk_plan_choose(&exact, &work, &choice, &stats, err);
  if (status || !choice.engine->share) return status;
  status = fk_operator_here(op, opts->threads, &task, err);
  if (!status) *share = choice.engine->share(&task, &choice.opts);
  return status;
}

enum fk_status fk_send_points(const struct fk_matrix *x, const struct fk_opts *opts, struct fk_resident **sent,
                              bool *finite, struct fk_error *err) {
  struct fk_work work = {.n = (double)x->n, .m = (double)x->n, .d = (double)x->d, .operation = FK_OP_LOGS};
  struct fk_plan_choice choice;
  struct fk_stats stats;
  *sent = NULL;
  fk_kernel_of("gaussian", &work.kernel);
  enum fk_status status = fk_plan_choose(opts, &work, &choice, &stats, err);
  if (!status)
    status = choice.engine->send ? choice.engine->send(x, &choice.opts, sent, finite, err) : FK_STATUS_UNSUPPORTED;
  if (status != FK_STATUS_UNSUPPORTED) return status;
  *err = (struct fk_error){FK_STATUS_OK, ""};
  *finite = fk_all_finite(x);
  return FK_STATUS_OK;
}

enum fk_status fk_kernel_sum(struct fk_operator *op, const struct fk_matrix *y, const double *b, int64_t n_columns,
                             const struct fk_opts *opts, double *sums, struct fk_stats *stats,
                             struct fk_error *err) {
  struct fk_task task = task_of(op, y);
  int64_t m = fk_n_targets(&task);
  task.weights = NULL;
  if (n_columns == 1) { /* one column is a set of weights, of any sign, and needs no kernel values in memory */
    task.weights = b;
    task.mass = sums;
    return run(&task, opts, stats, err);
  }
  task.values = FK_VALUES_COLUMNS;
  task.columns = b;
  task.n_columns = n_columns;
  task.sums = sums;
  task.mass = fk_aligned_alloc(sizeof(double) * (size_t)m);
  if (!task.mass) return out_of_memory(err, 8.0 * (double)m);
  enum fk_status status = run(&task, opts, stats, err);
  fk_aligned_free(task.mass);
  return status;
}

enum fk_status fk_sign_sums(struct fk_operator *op, const struct fk_matrix *y, const double *b, int64_t n_columns,
                            const struct fk_opts *opts, double *sums, struct fk_stats *stats,
                            struct fk_error *err) {
  struct fk_task task = task_of(op, y);
  struct fk_opts own = *opts;
  const int64_t n = op->x.n, m = fk_n_targets(&task), d = op->x.d;
  bool relative = false;
  own.precision = FK_PRECISION_DOUBLE;
  task.values = FK_VALUES_COORDINATES;
  task.relative = &relative;
  task.mass = fk_aligned_alloc(sizeof(double) * (size_t)m);
  enum fk_status status = task.mass ? FK_STATUS_OK : out_of_memory(err, 8.0 * (double)m);
  if (!status) status = fk_operator_here(op, opts->threads, &task, err);
  for (int64_t v = 0; v < n_columns && !status; v++) {
    task.weights = b + v * n;
    task.sums = sums + v * m * d;
    status = fk_engine_exact_cpu.sums(&task, &own, stats, err);
  }
  fk_aligned_free(task.mass);
  return status;
}

struct logs {
  double *log_abs;
  const double *shift;
  int *negative;
};

static void take_logs(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct logs *l = data;
  for (int64_t j = first; j < end; j++) {
    double mass = l->log_abs[j];
    if (l->negative) l->negative[j] = mass < 0;
    l->log_abs[j] = log(fabs(mass)) + l->shift[j];
  }
}

enum fk_status fk_log_sum(struct fk_operator *op, const struct fk_matrix *y, const double factor[3], bool loo,
                          const struct fk_opts *opts, const struct fk_logs *out, struct fk_stats *stats,
                          struct fk_error *err) {
  struct fk_task task = task_of(op, y);
  int64_t m = fk_n_targets(&task);
  task.exclude_self = loo;
  task.mass = out->log_abs;
  task.tail_pass = true;
  task.shift = fk_aligned_alloc(sizeof(double) * (size_t)m);
  bool done = false;
  task.logs = out->negative ? NULL : &done;
  memcpy(task.factor, factor, sizeof task.factor);
  if (!task.shift) return out_of_memory(err, 8.0 * (double)m);
  enum fk_status status = run(&task, opts, stats, err);
  int threads = fk_threads_for_work(opts->threads, 50.0 * (double)m);
  struct logs logs = {out->log_abs, task.shift, out->negative};
  if (!status && !done) fk_parallel_for(threads, m, fk_step_for_work(50), take_logs, &logs);
  fk_aligned_free(task.shift);
  return status;
}

/* ---- scores ----------------------------------------------------------------------------------- */

/* out_j = A (V_j - S_j u_j) / D_j, plus y_j with add_target: u_j the whitened target y_j, S and D sums of kernels
 * (D = S but for the Laplace-corrected estimate). V comes in out; where it is `relative` to the target, it stands
 * for V_j - S_j u_j. */
struct shift_map {
  const struct fk_matrix *targets;
  const struct fk_whitening *whitening;
  const double *A; /* d x d, column-major */
  bool A_diagonal, add_target, relative;
  const double *S, *D;
  double *out;
  struct fk_scratch scratch; /* two blocks */
};

static void map_block(const struct shift_map *map, int64_t first, int64_t count, double *u) {
  int64_t d = map->whitening->d, m = map->targets->n;
  const double *S = map->S, *D = map->D;
  double *shift = u + d * FK_BLOCK, *out = map->out;
  if (map->relative)
    memset(u, 0, sizeof *u * (size_t)(d * FK_BLOCK));
  else
    fk_whiten(map->whitening, map->targets, NULL, first, count, u, FK_BLOCK, NULL);
  for (int64_t k = 0; k < d; k++) {
    double *restrict to = u + k * FK_BLOCK, scale = map->A_diagonal ? map->A[k + k * d] : 1;
    for (int64_t r = 0; r < count; r++)
      to[r] = scale * (out[k * m + first + r] - S[first + r] * to[r]) / D[first + r];
  }
  if (!map->A_diagonal) fk_host.block_multiply(map->A, d, u, FK_BLOCK, shift);
  double *moved = map->A_diagonal ? u : shift, *target = map->A_diagonal ? shift : u;
  for (int64_t k = 0; k < d; k++) {
    const double *from = moved + k * FK_BLOCK;
    if (map->add_target) fk_read(map->targets, k, first, count, target);
    for (int64_t r = 0; r < count; r++) out[k * m + first + r] = from[r] + (map->add_target ? target[r] : 0);
  }
}

static void map_blocks(void *data, int64_t first, int64_t end, int slot) {
  const struct shift_map *map = data;
  for (int64_t at = first * FK_BLOCK, b = first; b < end; b++, at += FK_BLOCK)
    map_block(map, at, fk_smaller(map->targets->n - at, FK_BLOCK), fk_scratch_at(&map->scratch, slot));
}

static enum fk_status map_shift(struct shift_map *map, const double *S, const double *D, double *out, int threads,
                                struct fk_error *err) {
  int64_t m = map->targets->n;
  size_t bytes = 2 * sizeof(double) * FK_BLOCK * (size_t)map->whitening->d;
  double d = (double)map->whitening->d, work = d * (d + 10);
  threads = fk_threads_for_work(threads, (double)m * work);
  map->S = S;
  map->D = D;
  map->out = out;
  if (!fk_scratch_init(&map->scratch, threads, bytes)) return out_of_memory(err, (double)bytes);
  fk_parallel_for(threads, fk_pieces(m, FK_BLOCK), fk_step_for_work(FK_BLOCK * work), map_blocks, map);
  fk_scratch_free(&map->scratch);
  return FK_STATUS_OK;
}

/* The gradient of sum_i w_i k_ij f(q/2) is -sum_i w_i k_ij (f - f')(q/2) H^-1 (y_j - x_i), and the score divides
 * it by the estimate. For f = 1 the two sums are one. */
enum fk_status fk_score(struct fk_operator *op, const struct fk_score_spec *spec, const struct fk_opts *opts,
                        double *score, struct fk_stats *stats, struct fk_error *err) {
  struct fk_task task = task_of(op, &spec->y);
  int64_t d = op->x.d, m = fk_n_targets(&task);
  const double *f = spec->factor;
  bool corrected = f[0] != 1 || f[1] != 0 || f[2] != 0;
  double bytes = 8.0 * ((corrected ? 4 : 1) * (double)m + (double)d * (double)d);
  double *work = fk_aligned_alloc((size_t)bytes);
  if (!work) return out_of_memory(err, bytes);
  double *A = work, *mass = A + d * d, *shift = NULL, *estimate = mass, *estimate_shift = NULL;
  bool relative = false;

  task.relative = &relative;
  task.values = FK_VALUES_COORDINATES;
  task.exclude_self = spec->loo;
  task.tail_pass = true;
  task.mass = mass;
  task.sums = score;
  if (corrected) {
    task.shift = shift = mass + m;
    estimate = mass + 2 * m;
    estimate_shift = mass + 3 * m;
    task.factor[0] = f[0] - f[1];
    task.factor[1] = f[1] - 2 * f[2];
    task.factor[2] = f[2];
  }
  enum fk_status status = fk_operator_here(op, opts->threads, &task, err);
  if (!status) status = run(&task, opts, stats, err);
  if (!status && corrected) {
    task.values = FK_VALUES_NONE;
    task.sums = NULL;
    memcpy(task.factor, f, sizeof task.factor);
    task.mass = estimate;
    task.shift = estimate_shift;
    status = run(&task, opts, stats, err);
    for (int64_t j = 0; j < m && !status; j++) estimate[j] *= exp(estimate_shift[j] - shift[j]);
  }
  if (!status) {
    struct shift_map map = {.targets = spec->y.data ? &spec->y : &op->x,
                            .whitening = &op->whitening,
                            .A = A,
                            .A_diagonal = op->whitening.diagonal,
                            .add_target = false,
                            .relative = relative};
    fk_inverse_transposed(op->chol, d, A);
    status = map_shift(&map, mass, estimate, score, opts->threads, err);
  }
  fk_aligned_free(work);
  return status;
}

/* The sums at the points themselves, and A with (H/2) H_s^-1 (m - x) = (H/2) L_s^-T (V/S - u) = A (V/S - u).
 * scratch: d x d. */
static struct fk_task debias_task(struct fk_operator *op, const double *chol, double *A, double *scratch) {
  const struct fk_matrix own = {.data = NULL, .d = op->x.d};
  struct fk_task task = task_of(op, &own);
  task.values = FK_VALUES_COORDINATES;
  task.rounded = true;
  task.tail_pass = op->weights != NULL; /* a point's own kernel, 1, is in its sum: only weights let it underflow */
  fk_inverse_transposed(op->chol, op->x.d, scratch);
  fk_variance_times(chol, scratch, op->x.d, 0.5, A);
  return task;
}

enum fk_status fk_debias(struct fk_operator *op, const double *chol, const struct fk_opts *opts, double *debiased,
                         struct fk_stats *stats, struct fk_error *err) {
  int64_t d = op->x.d, n = op->x.n;
  double bytes = 8.0 * ((double)n + 2 * (double)d * (double)d);
  double *work = fk_aligned_alloc((size_t)bytes);
  if (!work) return out_of_memory(err, bytes);
  double *A = work, *scratch = A + d * d, *mass = scratch + d * d;
  struct fk_task task = debias_task(op, chol, A, scratch);
  bool relative = false;
  task.relative = &relative;
  task.mass = mass;
  task.sums = debiased;
  enum fk_status status = fk_operator_here(op, opts->threads, &task, err);
  if (!status) status = run(&task, opts, stats, err);
  if (!status) {
    struct shift_map map = {.targets = &op->x,
                            .whitening = &op->whitening,
                            .A = A,
                            .A_diagonal = op->whitening.diagonal && fk_is_diagonal(chol, d),
                            .add_target = true,
                            .relative = relative};
    status = map_shift(&map, mass, mass, debiased, opts->threads, err);
  }
  fk_aligned_free(work);
  return status;
}

enum fk_status fk_debias_there(struct fk_operator *op, const double *chol, const struct fk_opts *opts,
                               struct fk_resident **debiased, struct fk_stats *stats, struct fk_error *err) {
  struct fk_plan_choice choice;
  int64_t d = op->x.d;
  double *A = malloc(2 * sizeof *A * (size_t)(d * d));
  if (!A) return out_of_memory(err, 16.0 * (double)d * (double)d);
  struct fk_task task = debias_task(op, chol, A, A + d * d);
  struct fk_work work = fk_task_work(&task);
  enum fk_status status = fk_plan_choose(opts, &work, &choice, stats, err);
  if (!status && !fk_engine_can(choice.engine, FK_OP_SHIFT)) status = FK_STATUS_UNSUPPORTED;
  if (!status) status = choice.engine->shift(&task, A, &choice.opts, debiased, stats, err);
  free(A);
  return status;
}

/* ---- leave-one-out of SD-KDE ------------------------------------------------------------------ */

/* The mean a_j around each point is the debiased point for H = 2 H_s: x + H_s score = a. The operator's points are
 * here; shift: n, to work in. */
static enum fk_status find_means(struct fk_operator *op, const struct fk_plan_choice *choice, double *means,
                                 double *log_mass, double *shift, struct fk_stats *stats, struct fk_error *err) {
  const struct fk_matrix own = {.data = NULL, .d = op->x.d};
  int threads = choice->opts.threads;
  struct fk_task task = task_of(op, &own);
  bool relative = false;
  task.values = FK_VALUES_COORDINATES;
  task.relative = &relative;
  task.mass = log_mass;
  task.shift = shift;
  task.sums = means;
  task.tail_pass = op->weights != NULL;
  enum fk_status status = choice->engine->sums(&task, &choice->opts, stats, err);
  if (status) return status;
  /* H_s H_s^-1 (m - x) = H_s L_s^-T (V/S - u) = L_s (V/S - u) */
  struct shift_map map = {.targets = &op->x,
                          .whitening = &op->whitening,
                          .A = op->chol,
                          .A_diagonal = op->whitening.diagonal,
                          .add_target = true,
                          .relative = relative};
  status = map_shift(&map, log_mass, log_mass, means, threads, err);
  struct logs logs = {log_mass, shift, NULL};
  if (!status) take_logs(&logs, 0, op->x.n, 0);
  return status;
}

/* Chooses the engine for the leave-one-out sums at y, also if only the means are needed. */
static enum fk_status choose_loo(struct fk_operator *op, const struct fk_matrix *y, const struct fk_opts *opts,
                                 struct fk_plan_choice *choice, struct fk_stats *stats, struct fk_error *err) {
  struct fk_task task = task_of(op, y);
  task.values = FK_VALUES_COORDINATES;
  struct fk_work asked = fk_task_work(&task);
  asked.operation = FK_OP_DEBIASED_LOO;
  enum fk_status status = fk_plan_choose(opts, &asked, choice, stats, err);
  return status ? status : fk_operator_here(op, opts->threads, NULL, err);
}

enum fk_status fk_score_means(struct fk_operator *op, const struct fk_opts *opts, double *means, double *log_mass,
                              struct fk_stats *stats, struct fk_error *err) {
  const struct fk_matrix own = {.data = NULL, .d = op->x.d};
  struct fk_plan_choice choice;
  double bytes = 8.0 * (double)op->x.n, *shift = fk_aligned_alloc((size_t)bytes);
  if (!shift) return out_of_memory(err, bytes);
  enum fk_status status = choose_loo(op, &own, opts, &choice, stats, err);
  if (!status) status = find_means(op, &choice, means, log_mass, shift, stats, err);
  fk_aligned_free(shift);
  return status;
}

/* The largest log(w_j f_j^-d) of points with positive weight. */
static double largest_log_height(const struct fk_widths *widths, int64_t n, int64_t d, int threads) {
  double largest = -INFINITY;
  if (!widths->factors) return widths->weights ? log(fk_largest(widths->weights, n, threads)) : 0;
  for (int64_t j = 0; j < n; j++) {
    double weight = widths->weights ? widths->weights[j] : 1;
    if (weight > 0) largest = fmax(largest, log(weight) - (double)d * log(widths->factors[j]));
  }
  return largest;
}

/* Adds log_term[j], which engines leave out, to the sum of the point that dominates source j. */
static void add_dominated(const struct fk_loo_task *task) {
  for (int64_t j = 0; j < task->points.n; j++) {
    int64_t i = fk_loo_dominant(&task->widths, &task->held_out, j);
    if (i < 0) continue;
    double a = task->log_sum[i], b = task->widths.log_term[j], top = fmax(a, b);
    if (top > -INFINITY) task->log_sum[i] = top + log1p(exp(fmin(a, b) - top));
  }
}

enum fk_status fk_sdkde_loo(struct fk_operator *op, const double *chol, const struct fk_widths *widths,
                            const struct fk_held_out *held_out, const struct fk_opts *opts, double *log_sum,
                            struct fk_stats *stats, struct fk_error *err) {
  const struct fk_matrix own = {.data = NULL, .d = op->x.d};
  int64_t n = op->x.n, d = op->x.d;
  struct fk_plan_choice choice;
  struct fk_whitening whitening = {.centre = NULL};
  double numbers = (widths ? 0 : (double)n * (double)(d + 2)) + (double)d * (double)(2 * d + 1);
  double *work = fk_aligned_alloc((size_t)(8 * numbers));
  if (!work) return out_of_memory(err, 8 * numbers);
  double *dense = work, *scratch = dense + d * d, *lambda = scratch + d * d, *means = lambda + d;
  struct fk_widths one = {.means = means, .log_mass = means + n * d, .weights = op->weights};

  enum fk_status status = choose_loo(op, held_out ? &held_out->points : &own, opts, &choice, stats, err);
  if (!status && !widths) status = find_means(op, &choice, means, means + n * d, means + n * d + n, stats, err);
  if (!status) status = fk_whitening_init(&whitening, chol, &op->x, op->weights, opts->threads, err);
  if (!status) status = fk_common_axes(chol, op->chol, d, dense, lambda, scratch, &whitening, err);
  if (!status) {
    struct fk_held_out all = {op->x, op->weights, 0, 1};
    struct fk_loo_task loo = {op->x,  held_out ? *held_out : all, widths ? *widths : one, 0, lambda, &whitening,
                              log_sum};
    loo.log_scale = largest_log_height(&loo.widths, n, d, opts->threads);
    status = choice.engine->debiased_loo(&loo, &choice.opts, stats, err);
    if (!status && loo.widths.dominant) add_dominated(&loo);
  }
  fk_whitening_free(&whitening);
  fk_aligned_free(work);
  return status;
}
