/* The functions of the exact engine on NVIDIA GPUs; core/gpu.c tells the planner what it can do. Twin of
 * cpu/exact_cpu.c. */
#include <math.h>

#include "../core/costs.h"
#include "device/devices.cuh"
#include "exact/exact.cuh"
#include "normal/normal.cuh"

static enum fk_status exact_cuda_available(const struct fk_opts *opts, struct fk_error *err) {
  struct fk_cuda_context *contexts[FK_MAX_DEVICES];
  int count;
  return fk_cuda_contexts(opts, contexts, &count, err);
}

static double exact_cuda_seconds(const struct fk_work *work, const struct fk_opts *opts) {
  if (work->operation == FK_OP_NORMAL) return fk_cuda_normal_seconds(work, opts);
  const struct fk_exact_cuda_costs *c = &fk_costs.exact_cuda;
  double d = work->d, v = work->n_values,
         bytes = 8 * (work->n * work->d + work->m * (work->d + 1 + work->n_values));
  bool in_double = opts->precision == FK_PRECISION_DOUBLE || !fk_kernel_is_stationary(&work->kernel);
  bool gaussian = fk_kernel_is_gaussian(&work->kernel);
  bool products = gaussian && d > fk_costs.limits.difference_dimension;
  double each = in_double && products   ? (d + v + c->gaussian_f64) / c->tensor_f64
                : in_double && gaussian ? (2 * d + v + c->difference_f64) / c->f64
                : in_double             ? (2 * d + v + c->kernel_f64) / c->f64
                : !gaussian             ? (2 * d + v + c->kernel_f32) / c->f32
                                        : fmax(1, (d + v) / c->tensor_width) / c->tensor;
  return c->call + bytes / c->host + work->n * work->m * each;
}

static void exact_cuda_describe(const struct fk_opts *opts, struct fk_stats *stats) {
  struct fk_cuda_context *contexts[FK_MAX_DEVICES];
  struct fk_error err = {FK_STATUS_OK, ""};
  int count;
  if (fk_cuda_contexts(opts, contexts, &count, &err) == FK_STATUS_OK)
    fk_cuda_describe(stats, contexts, count, "", fk_cuda_precision_name(opts->precision));
}

const struct fk_engine fk_engine_exact_cuda = {
    .available = exact_cuda_available,
    .seconds = exact_cuda_seconds,
    .describe = exact_cuda_describe,
    .sums = fk_cuda_exact_sums,
    .debiased_loo = fk_cuda_debiased_loo,
    .shift = fk_cuda_exact_shift,
    .send = fk_cuda_exact_send,
    .normal = fk_cuda_normal,
    .matrix = fk_cuda_matrix,
};
