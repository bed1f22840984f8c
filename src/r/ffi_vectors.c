/* Columns of vectors, products of matrices, and products with kernels that are kept; R/sum-gradients.R and
 * R/ridge-rows-kernels.R. */
#include "../core/dense_product.h"
#include "../core/host.h"
#include "../core/stored.h"
#include "../core/vectors.h"

#include "ffi.h"
#include "operator.h"

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
  const double *to = r_numbers(x, size, "x"), *from = Rf_isNull(a) ? NULL : r_numbers(a, size, "a"),
               *factors = r_numbers(by, Rf_ncols(x), "by");
  int threads = r_threads(control);
  SEXP out = PROTECT(r_matrix(Rf_nrows(x), Rf_ncols(x), R_NilValue));
  fk_combine_columns(to, from, factors, Rf_nrows(x), Rf_ncols(x), threads, REAL(out));
  UNPROTECT(1);
  return out;
}

SEXP ffi_round_columns(SEXP x, SEXP middle, SEXP step, SEXP control) {
  R_xlen_t size = r_size(x, "x");
  const double *from = r_numbers(x, size, "x"), *about = r_numbers(middle, Rf_ncols(x), "middle"),
               *steps = r_numbers(step, Rf_ncols(x), "step");
  int threads = r_threads(control);
  SEXP out = PROTECT(r_matrix(Rf_nrows(x), Rf_ncols(x), R_NilValue));
  fk_round_columns(from, about, steps, Rf_nrows(x), Rf_ncols(x), threads, REAL(out));
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

/* ---- kernels that are kept -------------------------------------------------------------------- */

static SEXP tag_of_stored(void) { return Rf_install("flashkernel_stored"); }
static struct fk_stored *stored_of(SEXP handle) {
  if (TYPEOF(handle) != EXTPTRSXP || R_ExternalPtrTag(handle) != tag_of_stored()) return NULL;
  if (!R_ExternalPtrAddr(handle)) Rf_error("the kernels were freed");
  return R_ExternalPtrAddr(handle);
}
static void free_stored(SEXP handle) {
  fk_stored_free(R_ExternalPtrAddr(handle));
  R_ClearExternalPtr(handle);
}
static void finalize(SEXP handle) {
  free_stored(handle);
  r_count_handle(-1);
}

/* A handle of memory on a GPU for `rows` columns of `centers` numbers each. */
SEXP ffi_store(SEXP centers, SEXP rows, SEXP control) {
  struct r_call call = r_begin(control);
  struct fk_stored *S = NULL;
  SEXP handle = PROTECT(r_new_handle(NULL, tag_of_stored(), finalize));
  fk_stored_create(&call.opts, Rf_asInteger(centers), Rf_asInteger(rows), &S, &call.err);
  R_SetExternalPtrAddr(handle, S);
  r_finish(&call.err);
  UNPROTECT(1);
  return handle;
}

/* Sends the kernels of the rows from `first` (from 0), in columns. NULL: frees the memory. */
SEXP ffi_store_kernels(SEXP handle, SEXP first, SEXP kernels) {
  struct fk_error err = {FK_STATUS_OK, ""};
  if (Rf_isNull(kernels)) {
    free_stored(handle);
    return R_NilValue;
  }
  const double *numbers = r_numbers(kernels, r_size(kernels, "kernels"), "kernels");
  const struct fk_dense part = fk_dense_of(numbers, Rf_nrows(kernels), Rf_ncols(kernels));
  fk_stored_send(stored_of(handle), Rf_asInteger(first), &part, &err);
  r_finish(&err);
  return R_NilValue;
}

/* The kernels of `blocks`, matrices, in turn. */
static enum fk_status multiply_blocks(SEXP blocks, int threads, struct fk_host_normal of, struct fk_error *err) {
  for (R_xlen_t b = 0; b < XLENGTH(blocks) && !err->status; b++) {
    const int m = Rf_nrows(VECTOR_ELT(blocks, b)), rows = Rf_ncols(VECTOR_ELT(blocks, b));
    const struct fk_dense K = fk_dense_of(REAL(VECTOR_ELT(blocks, b)), m, rows);
    of.transposed = &K;
    fk_host.normal(threads, &of, err);
    of.adds = true;
    if (of.w) of.w += rows;
    if (of.weights) of.weights += rows;
    if (of.chances) of.chances += rows;
    if (of.sums) of.sums += rows;
  }
  return err->status;
}

/* list(product, sums), K'(W (K v + w)) and K v, of which NULL are not asked. `kernels`: a list of matrices, each
 * with a column for each row of its part of K, or a handle. v or w NULL: 0, weights NULL: ones. */
SEXP ffi_stored_normal(SEXP kernels, SEXP v, SEXP w, SEXP weights, SEXP chances, SEXP asked, SEXP control) {
  struct fk_stored *stored = stored_of(kernels);
  const int m = stored ? (int)fk_stored_matrix(stored)->n : Rf_nrows(VECTOR_ELT(kernels, 0));
  const int t = Rf_ncols(Rf_isNull(v) ? w : v);
  int n = stored ? (int)fk_stored_matrix(stored)->d : 0;
  for (R_xlen_t b = 0; !stored && b < XLENGTH(kernels); b++) {
    const SEXP block = VECTOR_ELT(kernels, b);
    r_numbers(block, (R_xlen_t)m * Rf_ncols(block), "kernels");
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
  if (stored)
    fk_stored_normal(stored, threads, &of, &err);
  else
    multiply_blocks(kernels, threads, of, &err);
  r_finish(&err);
  UNPROTECT(1);
  return result;
}
