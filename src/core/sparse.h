/* Kernels between sparse points: only what is not zero is looked at. */
#pragma once

#include "../fk.h"

/* A sparse matrix by rows, or by columns: entries start[i] .. start[i + 1] - 1 are those of row i, and index[]
 * their columns, ascending. */
struct fk_compressed {
  int64_t n;
  const int *start, *index;
  const double *values;
};

/* m centres by columns, whitened; rows of points that become so where they are read, values[e] / scale[column], or
 * / scale[0] for n_scale == 1. */
struct fk_sparse {
  struct fk_compressed rows, centres;
  int64_t m, n_scale;
  const double *scale;
  const double *row_norms, *centre_norms; /* |u|^2, of fk_sparse_norms() */
  struct fk_kernel kernel;
};

/* |u|^2 of all rows. */
void fk_sparse_norms(const struct fk_compressed *rows, const double *scale, int64_t n_scale, int threads,
                     double *norms);
/* values: m x count, the kernels of all centres at rows first .. first + count - 1. What a kernel costs is the
 * same for all m; products are summed through the entries of each row and, in each of their columns, of the
 * centres. See fk_kernel_of_products() for the error. */
enum fk_status fk_sparse_kernels(const struct fk_sparse *s, int64_t first, int64_t count,
                                 const struct fk_opts *opts, double *values, struct fk_stats *stats,
                                 struct fk_error *err);
