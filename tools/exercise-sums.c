/* Runs the CPU engines without R, for tools/check-cross.sh: exact sums of every kernel of the distance compared
 * with loops over all pairs, equal bits for several threads, sums to a tolerance, and sums that underflow. Nothing
 * here calls R's BLAS and LAPACK. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/core/pool.h"
#include "../src/core/threads.h"
#include "../src/cpu/tile.h"
#include "../src/fk.h"

enum { N = 700, M = 300, D_MOST = 9, THREADS = 3 };

#define NOT_HERE(name)                                                                                            \
  void name(void) {                                                                                               \
    printf("exercise-sums: %s was called\n", #name);                                                              \
    exit(1);                                                                                                      \
  }
NOT_HERE(dgemm_)
NOT_HERE(dlauum_)
NOT_HERE(dpotrf_)
NOT_HERE(dsyev_)
NOT_HERE(dsyrk_)
NOT_HERE(dtrmm_)
NOT_HERE(dtrsm_)
NOT_HERE(dtrtri_)

static double x[N * D_MOST], y[M * D_MOST], expected[M], found[M], again[M];
static int failures;

/* A linear congruential generator, so that points are the same on all machines. */
static double uniform(void) {
  static uint64_t state = 20261123;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (double)(state >> 11) * 0x1p-53;
}

/* Value of a kernel at a squared distance, or a sum of absolute differences, by the formulas of core/kernels.c. */
static double kernel_of(const struct fk_kernel *kernel, double square, double absolute) {
  double r = sqrt(square), a;
  switch (kernel->id) {
    case FK_KERNEL_GAUSSIAN: return exp(-square / 2);
    case FK_KERNEL_LAPLACIAN: return exp(-r);
    case FK_KERNEL_PRODUCT_LAPLACIAN: return exp(-absolute);
    case FK_KERNEL_POWERED_EXPONENTIAL: return exp(-pow(r, kernel->parameters[0]));
    case FK_KERNEL_MATERN32: return a = sqrt(3) * r, (1 + a) * exp(-a);
    case FK_KERNEL_MATERN52: return a = sqrt(5) * r, (1 + a + a * a / 3) * exp(-a);
    case FK_KERNEL_CAUCHY: return 1 / (1 + square);
    case FK_KERNEL_IMQ: return 1 / sqrt(1 + square);
    default: return NAN;
  }
}

static void expect(const struct fk_kernel *kernel, int d, double h) {
  for (int j = 0; j < M; j++) {
    expected[j] = 0;
    for (int i = 0; i < N; i++) {
      double square = 0, absolute = 0;
      for (int k = 0; k < d; k++) {
        double u = (x[k * N + i] - y[k * M + j]) / h;
        square += u * u;
        absolute += fabs(u);
      }
      expected[j] += kernel_of(kernel, square, absolute);
    }
  }
}

static void judge(const char *what, int d, double error, double bound) {
  if (error <= bound) return; /* not of NaN */
  printf("exercise-sums: %s in %d dimensions is off by %.3g, more than %.3g\n", what, d, error, bound);
  failures++;
}

static double relative_error(const double *sums) {
  double most = 0;
  for (int j = 0; j < M; j++) {
    double error = fabs(sums[j] / expected[j] - 1);
    if (!(error <= most)) most = error;
  }
  return most;
}

static struct fk_operator *operator_of(const struct fk_kernel *kernel, int d, double h) {
  double chol[D_MOST * D_MOST] = {0};
  struct fk_operator_spec spec = {.x = fk_doubles(x, N, d), .chol = chol, .kernel = *kernel};
  struct fk_operator *op = NULL;
  struct fk_error err = {FK_STATUS_OK, ""};
  for (int k = 0; k < d; k++) chol[k * d + k] = h;
  if (fk_operator_create(&spec, &op, &err)) printf("exercise-sums: %s\n", err.message), exit(1);
  return op;
}

static void sum(struct fk_operator *op, int d, struct fk_opts opts, double *sums) {
  struct fk_matrix targets = fk_doubles(y, M, d);
  struct fk_stats stats;
  struct fk_error err = {FK_STATUS_OK, ""};
  memset(&stats, 0, sizeof stats);
  opts.backend = FK_BACKEND_CPU;
  if (!opts.threads) opts.threads = THREADS;
  if (fk_kernel_sum(op, &targets, NULL, 1, &opts, sums, &stats, &err)) {
    printf("exercise-sums: %s\n", err.message);
    failures++;
  }
}

static void check_exact(const struct fk_kernel *kernel, int d, double h) {
  const char *name = fk_kernel_info(kernel->id)->name;
  struct fk_operator *op = operator_of(kernel, d, h);
  expect(kernel, d, h);
  sum(op, d, (struct fk_opts){.engine = FK_ENGINE_EXACT, .precision = FK_PRECISION_DOUBLE}, found);
  judge(name, d, relative_error(found), 1e-12);
  sum(op, d, (struct fk_opts){.engine = FK_ENGINE_EXACT, .precision = FK_PRECISION_DOUBLE, .threads = 1}, again);
  judge("a sum of one thread, against several,", d, memcmp(found, again, sizeof found), 0);
  sum(op, d, (struct fk_opts){.engine = FK_ENGINE_EXACT, .precision = FK_PRECISION_SINGLE}, found);
  judge("a sum in floats", d, relative_error(found), 2e-4);
  fk_operator_free(op);
}

static void check_fast(const struct fk_kernel *kernel, int d, double h) {
  struct fk_operator *op = operator_of(kernel, d, h);
  expect(kernel, d, h);
  sum(op, d, (struct fk_opts){.engine = FK_ENGINE_FAST, .tol = 1e-8, .tol_type = FK_TOL_POINTWISE}, found);
  judge("a sum to a tolerance", d, relative_error(found), 1e-8);
  fk_operator_free(op);
}

/* Targets so far out that all terms underflow. */
static void check_tails(const struct fk_kernel *kernel, int d, double h) {
  struct fk_operator *op = operator_of(kernel, d, h);
  struct fk_opts opts = {.backend = FK_BACKEND_CPU, .threads = THREADS};
  struct fk_stats stats;
  struct fk_error err = {FK_STATUS_OK, ""};
  double far[D_MOST], factor[3] = {1, 0, 0}, log_sum = 0, nearest = INFINITY;
  memset(&stats, 0, sizeof stats);
  for (int k = 0; k < d; k++) far[k] = 60;
  for (int i = 0; i < N; i++) {
    double square = 0;
    for (int k = 0; k < d; k++) square += pow((x[k * N + i] - far[k]) / h, 2);
    nearest = fmin(nearest, square / 2);
  }
  struct fk_matrix target = fk_doubles(far, 1, d);
  struct fk_logs out = {&log_sum, NULL};
  if (fk_log_sum(op, &target, factor, false, &opts, &out, &stats, &err))
    printf("exercise-sums: %s\n", err.message);
  judge("the logarithm of a sum that underflows", d, fabs(log_sum + nearest), log(N));
  judge("a logarithm that has one term at least", d, -nearest - log_sum, 1e-9 * nearest);
  fk_operator_free(op);
}

int main(void) {
  static const int dimensions[] = {1, 2, 3, 9};
  fk_threads_init();
  fk_isa_choose();
  for (int i = 0; i < N * D_MOST; i++) x[i] = uniform() + uniform();
  for (int i = 0; i < M * D_MOST; i++) y[i] = uniform() + uniform();
  for (int c = 0; c < 4; c++) {
    int d = dimensions[c];
    double h = 0.2 + 0.05 * d;
    for (int id = 0; id < FK_KERNELS; id++) {
      struct fk_kernel kernel;
      if (!fk_kernel_of(fk_kernel_info((enum fk_kernel_id)id)->name, &kernel)) failures++;
      if (fk_kernel_is_stationary(&kernel)) check_exact(&kernel, d, h);
    }
    struct fk_kernel gaussian = {FK_KERNEL_GAUSSIAN, {0}};
    if (d <= 3) check_fast(&gaussian, d, h);
    check_tails(&gaussian, d, h);
  }
  fk_pool_stop();
  printf("exercise-sums: %s, %s, %d threads\n", failures ? "FAILED" : "done", fk_isa()->name, fk_threads(THREADS));
  return failures > 0;
}
