/* Columns of vectors and products of matrices; R/sum-gradients.R. */
#include "../core/dense_product.h"
#include "../core/host.h"
#include "../core/vectors.h"

#include "ffi.h"

static int r_threads(SEXP control) { return r_begin(control).opts.threads; }

static R_xlen_t r_size(SEXP x, const char *name) {
  if (!Rf_isMatrix(x)) Rf_error("`%s` must be a matrix", name);
  return XLENGTH(x);
}

SEXP ffi_column_products(SEXP a, SEXP b, SEXP control) {
  struct fk_error err = {FK_STATUS_OK, ""};
  R_xlen_t size = r_size(a, "a");
  const double *first = r_numbers(a, size, "a"), *second = r_numbers(b, size, "b");
  int threads = r_threads(control);
  SEXP out = PROTECT(r_vector(Rf_ncols(a)));

  fk_column_products(first, second, Rf_nrows(a), Rf_ncols(a), threads, REAL(out), &err);

  r_finish(&err);
  UNPROTECT(1);
  return out;
}

SEXP ffi_combine_columns(SEXP x, SEXP a, SEXP by, SEXP control) {
  R_xlen_t size = r_size(x, "x");
  const double *to = r_numbers(x, size, "x"), *from = r_numbers(a, size, "a"),
               *factors = r_numbers(by, Rf_ncols(x), "by");
  int threads = r_threads(control);
  SEXP out = PROTECT(r_matrix(Rf_nrows(x), Rf_ncols(x), R_NilValue));
  fk_combine_columns(to, from, factors, Rf_nrows(x), Rf_ncols(x), threads, REAL(out));
  UNPROTECT(1);
  return out;
}

SEXP ffi_stretched_slopes(SEXP k, SEXP power, SEXP control) {
  R_xlen_t size = r_size(k, "k");
  const double *kernels = r_numbers(k, size, "k"), *exponent = r_numbers(power, 1, "power");
  int threads = r_threads(control);
  SEXP out = PROTECT(r_matrix(Rf_nrows(k), Rf_ncols(k), R_NilValue));
  fk_stretched_slopes(kernels, size, *exponent, threads, REAL(out));
  UNPROTECT(1);
  return out;
}

/* Copies the lower triangle to the upper one. */
static void mirror(double *C, R_xlen_t n) {
  for (R_xlen_t j = 0; j < n; j++)
    for (R_xlen_t i = j + 1; i < n; i++) C[j + i * n] = C[i + j * n];
}

/* a b, where number `transposed` is transposed: 1: a, 2: b, 0: none. Of a'a and a a' one triangle is computed. */
SEXP ffi_matrix_product(SEXP a, SEXP b, SEXP transposed, SEXP control) {
  R_xlen_t size_a = r_size(a, "a"), size_b = r_size(b, "b");
  const bool left = Rf_asInteger(transposed) == 1, right = Rf_asInteger(transposed) == 2;
  const struct fk_dense A = fk_dense_of(r_numbers(a, size_a, "a"), Rf_nrows(a), Rf_ncols(a)),
                        B = fk_dense_of(r_numbers(b, size_b, "b"), Rf_nrows(b), Rf_ncols(b));
  struct r_call call = r_begin(control);
  SEXP out = PROTECT(r_matrix(left ? A.d : A.n, right ? B.n : B.d, R_NilValue));
  const struct fk_dense C = fk_dense_of(REAL(out), Rf_nrows(out), Rf_ncols(out));
  const bool own = a == b && (left || right);
  fk_dense_product(&call.opts, (left ? FK_TRANSPOSED : 0) | (right && !own ? FK_TRANSPOSED_B : 0), &A,
                   own ? NULL : &B, &C, &call.err);
  if (own && !call.err.status) mirror(REAL(out), Rf_nrows(out));
  r_finish(&call.err);
  UNPROTECT(1);
  return out;
}

/* list(product, sums), K'(W (K v + w)) and K v, of which NULL are not asked. `blocks`: a list of matrices of
 * kernels, each with a column for each row of its part of K. v or w NULL: 0, weights NULL: ones. */
SEXP ffi_stored_normal(SEXP blocks, SEXP v, SEXP w, SEXP weights, SEXP chances, SEXP asked, SEXP control) {
  const int m = Rf_nrows(VECTOR_ELT(blocks, 0)), t = Rf_ncols(Rf_isNull(v) ? w : v);
  int n = 0;
  for (R_xlen_t b = 0; b < XLENGTH(blocks); b++) {
    const SEXP block = VECTOR_ELT(blocks, b);
    r_numbers(block, (R_xlen_t)m * Rf_ncols(block), "blocks");
    n += Rf_ncols(block);
  }
  struct fk_host_normal of = {.columns = t, .ld = n};
  if (!Rf_isNull(v)) of.v = r_numbers(v, (R_xlen_t)m * t, "v");
  if (!Rf_isNull(w)) of.w = r_numbers(w, (R_xlen_t)n * t, "w");
  if (!Rf_isNull(weights)) of.weights = r_numbers(weights, n, "weights");
  if (!Rf_isNull(chances)) of.chances = r_numbers(chances, (R_xlen_t)n * t, "chances");
  const int threads = r_threads(control);
  struct fk_error err = {FK_STATUS_OK, ""};
  SEXP result = PROTECT(Rf_allocVector(VECSXP, 2));
  if (LOGICAL(asked)[0]) SET_VECTOR_ELT(result, 0, r_matrix(m, t, R_NilValue));
  if (LOGICAL(asked)[1]) SET_VECTOR_ELT(result, 1, r_matrix(n, t, R_NilValue));
  if (LOGICAL(asked)[0]) of.product = REAL(VECTOR_ELT(result, 0));
  if (LOGICAL(asked)[1]) of.sums = REAL(VECTOR_ELT(result, 1));
  for (R_xlen_t b = 0; b < XLENGTH(blocks) && !err.status; b++) {
    const int rows = Rf_ncols(VECTOR_ELT(blocks, b));
    const struct fk_dense K = fk_dense_of(REAL(VECTOR_ELT(blocks, b)), m, rows);
    of.transposed = &K;
    fk_host.normal(threads, &of, &err);
    of.adds = true;
    if (of.w) of.w += rows;
    if (of.weights) of.weights += rows;
    if (of.chances) of.chances += rows;
    if (of.sums) of.sums += rows;
  }
  r_finish(&err);
  UNPROTECT(1);
  return result;
}
