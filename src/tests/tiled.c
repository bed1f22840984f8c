/* Tests of C units, continued: tiled matrices. */
#include <math.h>
#include <string.h>

#include "../core/blocked.h"
#include "../core/tiled.h"
#include "units.h"

/* K of the host, and a caller who stops at some look. */
struct tiled_test {
  const struct fk_dense_ops *ops;
  struct fk_dense K;
  int looks, stop_at;
  double fraction;
  bool backwards;
};

static enum fk_status fill(void *data, int device, int64_t row, int64_t first, const struct fk_dense *K,
                           FK_UNUSED const struct fk_poll *poll, struct fk_error *err) {
  const struct tiled_test *test = data;
  struct fk_dense from = fk_dense_part(&test->K, row, first, K->n, K->d);
  return test->ops->send(device, &from, K, err);
}

static int look(void *data, double fraction) {
  struct tiled_test *test = data;
  test->backwards |= fraction < test->fraction || fraction > 1;
  test->fraction = fraction;
  return ++test->looks == test->stop_at;
}

/* FP16 products like those of a device, but coarser: numbers have 11 bits, so that a pivot occurs sooner. */
static enum fk_status rough_gemm(int device, unsigned flags, double alpha, const struct fk_dense *A,
                                 const struct fk_dense *B, double beta, const struct fk_dense *C,
                                 struct fk_error *err) {
  const struct fk_dense *sides[2] = {A, B};
  struct fk_dense rounded[2] = {*A, *B};
  enum fk_status status = FK_STATUS_OK;
  if (!(flags & FK_HALVES)) return fk_dense_host.gemm(device, flags, alpha, A, B, beta, C, err);
  for (int s = 0; s < 2; s++) rounded[s].data = NULL;
  for (int s = 0; s < 2 && !status; s++) {
    status = fk_dense_host.alloc(device, &rounded[s], err);
    double *to = rounded[s].data;
    for (int64_t k = 0; k < rounded[s].d && !status; k++)
      for (int64_t i = 0; i < rounded[s].n; i++) {
        int exponent;
        double mantissa = frexp(((double *)sides[s]->data)[i + k * sides[s]->ld], &exponent);
        to[i + k * rounded[s].ld] = ldexp(rint(mantissa * 2048) / 2048, exponent);
      }
  }
  if (!status) status = fk_dense_host.gemm(device, flags, alpha, &rounded[0], &rounded[1], beta, C, err);
  for (int s = 0; s < 2; s++) fk_dense_host.free(device, &rounded[s]);
  return status;
}

static struct fk_tiled_spec spec_of(SEXP arguments, int64_t m, struct fk_error *err) {
  SEXP devices = argument(arguments, 1);
  struct fk_tiled_spec spec = {.n_devices = (int)Rf_xlength(devices),
                               .m = m,
                               .block = whole(arguments, 2),
                               .most = REAL(argument(arguments, 3))[0],
                               .host = REAL(argument(arguments, 3))[1],
                               .halves = whole(arguments, 10),
                               .rough = whole(arguments, 11)};
  for (int g = 0; g < spec.n_devices; g++) spec.devices[g] = INTEGER(devices)[g];
  spec.ops = fk_dense_ops(spec.devices[0] < 0 ? FK_BACKEND_CPU : FK_BACKEND_CUDA, err);
  return spec;
}

static enum fk_status apply(const struct fk_tiled *t, SEXP steps, const struct fk_dense *v, struct fk_error *err) {
  enum { MOST = 8 };
  struct fk_tiled_step all[MOST];
  int n = (int)fmin(MOST, (double)Rf_xlength(steps));
  for (int i = 0; i < n; i++) {
    const int code = INTEGER(steps)[i];
    all[i] = (struct fk_tiled_step){(code & 2 ? FK_TRANSPOSED : 0) | (code & 4 ? FK_UPPER : 0), code & 1};
  }
  return fk_tiled_apply(t, all, n, v, err);
}

/* (K, devices or -1s, block, bytes of each and of the host, diagonal or NULL, roots, lambda, v, steps: sums of 1
 * for a solve, 2 for the transpose, 4 for U, the look that stops, whether U may be of halves, and is rough): L, U,
 * both diagonals, v, c(pivot, streamed, looks, backwards)
 */
SEXP r_test_tiled(SEXP arguments) {
  const int64_t m = Rf_nrows(argument(arguments, 0));
  struct fk_error err = {FK_STATUS_OK, ""};
  struct tiled_test test = {.K = fk_dense_of(numbers(arguments, 0), m, m), .stop_at = whole(arguments, 9)};
  struct fk_tiled_spec spec = spec_of(arguments, m, &err);
  struct fk_dense_ops rough = fk_dense_host;
  rough.gemm = rough_gemm;
  if (spec.ops == &fk_dense_host && spec.halves) spec.ops = &rough;
  SEXP diagonal = argument(arguments, 4);
  struct fk_tiled_source source = {fill, &test, r_weights(diagonal, m)};
  const double *roots = r_numbers(argument(arguments, 5), (R_xlen_t)m, "roots");
  const double lambda = Rf_asReal(argument(arguments, 6));
  const struct fk_poll poll = {look, &test};
  struct fk_tiled *t = NULL;
  int64_t pivot = 0;
  double *to[6];
  const int64_t columns = Rf_ncols(argument(arguments, 7));
  SEXP out = PROTECT(results(6, (const int64_t[]){m * m, m * m, m, m, m * columns, 4}, to));
  for (int i = 0; i < 2; i++) memset(to[i], 0, sizeof(double) * (size_t)(m * m));
  memcpy(to[4], numbers(arguments, 7), sizeof(double) * (size_t)(m * columns));
  test.ops = spec.ops;
  const struct fk_dense L = fk_dense_of(to[0], m, m), U = fk_dense_of(to[1], m, m),
                        v = fk_dense_of(to[4], m, columns);
  enum fk_status status = spec.ops ? fk_tiled_create(&spec, &t, &err) : err.status;
  if (!status) status = fk_tiled_factor(t, &source, &poll, &pivot, &err);
  test.fraction = 0;
  if (!status && !pivot && !spec.rough) status = fk_tiled_weigh(t, roots, lambda, &poll, &pivot, &err);
  if (!status && !pivot) status = fk_tiled_ready(t, &err);
  if (!status && !pivot && !spec.rough) status = fk_tiled_triangle(t, false, &L, &err);
  if (!status && !pivot) status = fk_tiled_triangle(t, true, &U, &err);
  if (!status && !pivot && !spec.rough) status = fk_tiled_diagonal(t, false, to[2], &err);
  if (!status && !pivot) status = fk_tiled_diagonal(t, true, to[3], &err);
  if (!status && !pivot) status = apply(t, argument(arguments, 8), &v, &err);
  memcpy(to[5], (const double[]){(double)pivot, t && fk_tiled_is_streamed(t), test.looks, test.backwards},
         4 * sizeof *to[5]);
  fk_tiled_free(t);
  r_finish(&err);
  UNPROTECT(1);
  return out;
}

/* ---- seconds ---------------------------------------------------------------------------------- */

static enum fk_status set_identity(const struct fk_dense_ops *ops, int device, const struct fk_dense *A,
                                   const double *ones, struct fk_error *err) {
  struct fk_dense none = fk_dense_part(A, 0, 0, A->n, 0), there = fk_dense_diagonal(A),
                  here = fk_dense_of(ones, 1, A->n);
  enum fk_status status = ops->gemm(device, FK_TRANSPOSED_B, 1, &none, &none, 0, A, err);
  if (!status) status = ops->send(device, &here, &there, err);
  return status ? status : ops->wait(device, err);
}

/* (operation, device or -1, ones: as many as the order, block): seconds of potrf or lauum of the identity */
SEXP r_test_dense_seconds(SEXP arguments) {
  const char *what = CHAR(Rf_asChar(argument(arguments, 0)));
  const int device = whole(arguments, 1);
  const double *ones = numbers(arguments, 2);
  const int64_t n = length(arguments, 2);
  struct fk_error err = {FK_STATUS_OK, ""};
  const struct fk_dense_ops *ops = fk_dense_ops(device < 0 ? FK_BACKEND_CPU : FK_BACKEND_CUDA, &err);
  struct fk_blocked how = {.ops = ops, .device = device, .block = whole(arguments, 3)};
  struct fk_dense A = {.type = FK_DOUBLE, .n = n, .d = n};
  int64_t pivot = 0;
  double begin = 0;
  if (ops && !ops->alloc(device, &A, &err)) {
    enum fk_status status = set_identity(ops, device, &A, ones, &err);
    begin = fk_seconds();
    if (!status && strcmp(what, "potrf") == 0) status = ops->potrf(device, 0, &A, &pivot, &err);
    if (!status && strcmp(what, "lauum") == 0) status = ops->lauum(device, 0, &A, &err);
    if (!status && strcmp(what, "blocked potrf") == 0) status = fk_blocked_potrf(&how, 0, &A, &pivot, &err);
    if (!status && strcmp(what, "blocked lauum") == 0) status = fk_blocked_lauum(&how, 0, &A, &err);
    if (!status) ops->wait(device, &err);
    begin = fk_seconds() - begin;
    ops->free(device, &A);
  }
  r_finish(&err);
  return Rf_ScalarReal(begin);
}
