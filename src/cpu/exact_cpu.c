/* The exact engine on the CPU: every pair, in double or single precision, with a second pass for rows that would
 * underflow. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/costs.h"
#include "../core/plan.h"
#include "../core/threads.h"
#include "exact_cpu.h"

/* Rounding of the exponent x'y - |x|^2/2 - |y|^2/2 grows with |x|^2, that of -|x - y|^2/2 hardly. The limits
 * on the largest |x|^2 (core/costs.c) keep its error under about 1e-12 (double) and 3e-5 (single); past the last
 * one, single precision would lose its promise and double is used. In few dimensions differences cost next to
 * nothing more. Differences of coordinates that reach far are those of rounded numbers: past the limit of doubles
 * they are of double-doubles, which keeps every sum within 1e-12 of itself.
 *
 * Other kernels than the Gaussian take a root of the squared distance, or are largest where it is small: only
 * differences keep its digits. */
void fk_cpu_choose_mode(enum fk_precision precision, const struct fk_kernel_form *form, double radius2, int64_t d,
                        struct fk_kernel_mode *mode) {
  const struct fk_exact_limits *limits = &fk_costs.limits;
  bool single = precision == FK_PRECISION_SINGLE || precision == FK_PRECISION_FAST;
  bool product = fk_form_is_product(form->type);
  radius2 = fk_form_radius2(form, radius2, d);
  mode->form = *form;
  mode->single = single && fk_form_allows_single(form) && radius2 <= limits->difference_f32;
  mode->difference = !product && (form->type != FK_FORM_GAUSSIAN || d <= limits->difference_dimension ||
                                  radius2 > (mode->single ? limits->gram_f32 : limits->gram_f64));
  mode->doubled = mode->difference && !mode->single && radius2 > limits->difference_f64;
  mode->ops = mode->single ? fk_isa()->f32 : fk_isa()->f64;
  mode->scale = fk_mode_is_gram(mode) ? sqrt(FK_LOG2E) : form->scale;
  mode->slack = mode->doubled ? 0x1p-50 * sqrt(radius2) * mode->scale : 0;
}

static const char *cpu_name(void) {
  static char name[96];
  if (!name[0]) {
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(name, sizeof name, "CPU");
    while (file && fgets(line, sizeof line, file)) {
      char *colon = strchr(line, ':');
      if (strncmp(line, "model name", 10) == 0 && colon) {
        line[strcspn(line, "\n")] = 0;
        snprintf(name, sizeof name, "%.90s", colon + 2);
        break;
      }
    }
    if (file) fclose(file);
  }
  return name;
}

void fk_cpu_describe(struct fk_stats *stats, const struct fk_kernel_mode *mode, int threads) {
  stats->backend = "cpu";
  stats->engine = "exact";
  stats->method = mode->difference ? "difference" : fk_mode_is_gram(mode) ? "gram" : "product";
  stats->precision = mode->single ? "single" : "double";
  stats->isa = fk_isa()->name;
  stats->threads = threads;
  snprintf(stats->device, sizeof stats->device, "%s", cpu_name());
}

static void describe(const struct fk_opts *opts, struct fk_stats *stats) {
  struct fk_kernel_mode mode;
  const struct fk_kernel_form gaussian = {.type = FK_FORM_GAUSSIAN};
  fk_cpu_choose_mode(opts->precision, &gaussian, 0, fk_costs.limits.difference_dimension + 1, &mode);
  fk_cpu_describe(stats, &mode, fk_threads(opts->threads));
}

/* By the multiply-adds of a pair. */
static double seconds(const struct fk_work *work, const struct fk_opts *opts) {
  bool single = opts->precision == FK_PRECISION_SINGLE || opts->precision == FK_PRECISION_FAST;
  single = single && fk_kernel_is_stationary(&work->kernel);
  const struct fk_exact_cpu_costs *c = &fk_costs.exact_cpu;
  double rate = c->share * c->clock * fk_isa()->per_cycle * (single ? 2 : 1);
  double kernel = work->d + fk_kernel_info(work->kernel.id)->cost, values = work->n_values;
  if (work->operation == FK_OP_NORMAL) {
    values *= 2;
    kernel *= fk_sweep_kept_rows((int64_t)work->n, single) ? 1 : 2;
  }
  double pair = kernel + values;
  if (FK_CAN_LOOPS & FK_CAN(work->operation)) pair = fk_plan_pair_work(work->operation, (int64_t)work->d, values);
  double operations = work->n * work->m * pair;
  return operations / (rate * fk_threads_for_work(opts->threads, operations));
}

static double share(const struct fk_task *task, const struct fk_opts *opts) {
  struct fk_kernel_form form = fk_task_form(task);
  struct fk_sweep sweep = {.task = task, .opts = opts};
  fk_cpu_choose_mode(opts->precision, &form, 0, task->sources.d, &sweep.mode);
  return fk_sweep_near_share(&sweep);
}

void fk_cpu_drop_overflow(double *shift2, int64_t m) {
  for (int64_t r = 0; r < m; r++)
    if (!isfinite(shift2[r])) shift2[r] = 0;
}

static enum fk_status by_all_pairs(const struct fk_sweep *sweep, const int64_t *rows, int64_t found,
                                   struct fk_error *err) {
  double *shift2 = malloc(sizeof(double) * (size_t)found);
  if (!shift2) return fk_no_memory(err, 8.0 * (double)found, "rows that underflow");
  enum fk_status status = fk_sweep_targets(sweep, rows, found, shift2, true, err);
  if (!status) {
    fk_cpu_drop_overflow(shift2, found);
    status = fk_sweep_targets(sweep, rows, found, shift2, false, err);
  }
  free(shift2);
  return status;
}

/* Rows that underflow are done again, in double, with the exponent of their own largest term taken off. */
static enum fk_status tail_pass(const struct fk_sweep *main_sweep, const struct fk_kernel_mode *mode,
                                struct fk_stats *stats, struct fk_error *err) {
  const struct fk_task *task = main_sweep->task;
  int64_t *rows = NULL, found = 0;
  double lost = fk_lost_below(main_sweep->mode.single, task->sources.n, main_sweep->weight_scale);
  enum fk_status status = fk_rows_below(task->mass, fk_n_targets(task), lost, &rows, &found, err);
  if (status || found == 0) return status;

  struct fk_sweep sweep;
  stats->tail_rows += (double)found;
  status = fk_sweep_init(&sweep, task, main_sweep->opts, mode, true, main_sweep->threads, err);
  if (!status) {
    status = fk_near_tails(&sweep, rows, &found, err);
    if (!status && found) status = by_all_pairs(&sweep, rows, found, err);
    fk_sweep_free(&sweep);
  }
  free(rows);
  return status;
}

enum fk_status fk_cpu_radius2(const struct fk_task *task, int threads, double *radius2, struct fk_error *err) {
  struct fk_kept *kept = fk_task_own(task) ? &task->op->kept[FK_KEEPER_RADIUS] : NULL;
  if (kept && kept->state) {
    *radius2 = *(double *)kept->state;
    return FK_STATUS_OK;
  }
  enum fk_status status = fk_radius2(&task->sources, task->whitening, threads, radius2, err);
  double *found = kept && !status ? malloc(sizeof *found) : NULL;
  if (found) {
    *found = *radius2;
    *kept = (struct fk_kept){.state = found, .free = free};
  }
  return status;
}

static enum fk_status every_pair(struct fk_sweep *sweep, struct fk_error *err) {
  const struct fk_task *task = sweep->task;
  if (!task->targets.data && !fk_sweep_is_relative(sweep)) return fk_sweep_symmetric(sweep, err);
  sweep->kept = fk_sweep_kept(sweep);
  return fk_sweep_targets(sweep, NULL, fk_n_targets(task), NULL, false, err);
}

static enum fk_status sums(const struct fk_task *task, const struct fk_opts *opts, struct fk_stats *stats,
                           struct fk_error *err) {
  int64_t n = task->sources.n, d = task->sources.d, m = fk_n_targets(task);
  int threads = fk_threads_for_work(opts->threads, (double)n * (double)m * (double)(d + 10));
  double start = fk_seconds(), radius2 = 0;
  enum fk_status status = fk_cpu_radius2(task, threads, &radius2, err);
  if (status) return status;

  struct fk_kernel_mode mode, tail_mode;
  struct fk_kernel_form form = fk_task_form(task);
  struct fk_sweep sweep;
  fk_cpu_choose_mode(opts->precision, &form, radius2, d, &mode);
  fk_cpu_choose_mode(FK_PRECISION_DOUBLE, &form, radius2, d, &tail_mode);
  fk_cpu_describe(stats, &mode, threads);
  status = fk_sweep_init(&sweep, task, opts, &mode, false, threads, err);
  if (status) return status;
  if (fk_sweep_is_relative(&sweep)) *task->relative = true;
  bool done;
  double skipped = 0;
  status = fk_sweep_near(&sweep, &done, &skipped, err);
  if (!status && !done) status = every_pair(&sweep, err);
  stats->skipped += skipped;
  if (!status && task->tail_pass) status = tail_pass(&sweep, &tail_mode, stats, err);
  fk_sweep_free(&sweep);
  if (!status && !mode.single) status = fk_redo_lost_sums(task, &fk_engine_exact_cpu, opts, stats, err);
  stats->pairs += (double)n * (double)m;
  stats->seconds += fk_seconds() - start;
  return status;
}

/* Points at themselves are two sums, each of which computes a pair once. */
static enum fk_status normal(struct fk_operator *op, const struct fk_normal *normal, const struct fk_opts *opts,
                             double *product, struct fk_stats *stats, struct fk_error *err) {
  int64_t n = op->x.n, d = op->x.d, m = normal->rows->x.n;
  struct fk_task task = fk_normal_task(op, normal);
  double pairs = (double)n * (double)m, start = fk_seconds(), radius2 = 0;
  int threads = fk_threads_for_work(opts->threads, pairs * (double)(d + 10 + 2 * normal->n_columns));
  if (!normal->v || normal->rows == op) return FK_STATUS_UNSUPPORTED;
  struct fk_kernel_form form = fk_task_form(&task);
  struct fk_kernel_mode mode;
  struct fk_sweep sweep;
  enum fk_status status = fk_cpu_radius2(&task, threads, &radius2, err);
  if (status) return status;
  fk_cpu_choose_mode(opts->precision, &form, radius2, d, &mode);
  if (!fk_sweep_kept_rows(n, mode.single)) return FK_STATUS_UNSUPPORTED;
  fk_cpu_describe(stats, &mode, threads);
  status = fk_sweep_init(&sweep, &task, opts, &mode, false, threads, err);
  if (status) return status;
  status = fk_sweep_normal(&sweep, normal, product, err);
  fk_sweep_free(&sweep);
  stats->pairs += pairs;
  stats->seconds += fk_seconds() - start;
  return status;
}

const struct fk_engine fk_engine_exact_cpu = {
    .name = "exact",
    .backend = FK_BACKEND_CPU,
    .kind = FK_ENGINE_EXACT,
    .operations = FK_CAN(FK_OP_SUMS) | FK_CAN(FK_OP_LOGS) | FK_CAN(FK_OP_COORDINATES) |
                  FK_CAN(FK_OP_DEBIASED_LOO) | FK_CAN(FK_OP_NORMAL) | FK_CAN_LOOPS,
    .seconds = seconds,
    .share = share,
    .describe = describe,
    .sums = sums,
    .debiased_loo = fk_cpu_debiased_loo,
    .normal = normal,
    .matrix = fk_cpu_matrix,
};
