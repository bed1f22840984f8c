/* Kernels between sparse points, computed from their nonzero entries. */
#pragma once

#include "../fk.h"

/* A sparse matrix of n compressed rows (or columns): entries start[i] .. start[i + 1] - 1 belong to row i, and
 * index[] has their columns, ascending, from 0. */
struct fk_compressed {
  int64_t n;
  const int *start, *index;
  const double *values;
};

/* rows: points by rows, which are whitened as they are read: values[e] / scale[column], or / scale[0] if n_scale
 * is 1. centres: m whitened centres by columns. */
struct fk_sparse {
  struct fk_compressed rows, centres;
  int64_t m, n_scale;
  const double *scale;
  const double *row_norms, *centre_norms; /* from fk_sparse_norms(), of the kernel's metric */
  struct fk_kernel kernel;
};

/* norms: |u|^2 of all rows, whitened by `scale`, or their sums of |u_k| for FK_METRIC_ABSOLUTE. */
void fk_sparse_norms(const struct fk_compressed *rows, const double *scale, int64_t n_scale, enum fk_metric metric,
                     int threads, double *norms);
/* values: m x count, the kernels of all centres at rows first .. first + count - 1. Inner products are summed over
 * the entries of each row and over the centres with entries in the same columns. See fk_kernel_of_products() for
 * rounding errors. Fails only by an interrupt. */
enum fk_status fk_sparse_kernels(const struct fk_sparse *s, int64_t first, int64_t count,
                                 const struct fk_opts *opts, double *values, struct fk_stats *stats,
                                 struct fk_error *err);
