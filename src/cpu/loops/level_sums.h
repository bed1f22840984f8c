/* Sums of kernels of points that have levels beside numbers, cell by cell, a cell being the points of one
 * combination of levels; for searches on a few thousand points, where a call for each cell would take longer than
 * its pairs. */
#pragma once

#include "../../fk.h"

/* With s = |x_j - x_i|^2 / (2 f_j^2) and point i one of the `rows`, for each cell c
 *
 *   sums_ic = sum_{j != i in cell c} w_j exp(-s) / exp(top_i),
 *
 * top_i being the largest log w_j - s of all cells, so that no row underflows. Where `shares` are given, of which
 * cell c gives shares_bc to cell b, `sums` is S_i = sum_c shares_bc sums_ic, b the cell of i, and where v is
 * given, too, with g_i = exp(log_floor_i - top_i)
 *
 *   moments = sum_i v_i / (S_i + g_i) sum_{j != i} shares_bc w_j exp(-s) / exp(top_i) u u',  u = x_j - x_i, f = 1.
 *
 * Points are in the order of their cells, their numbers whitened, [coordinate][point]. */
struct fk_level_sums {
  const double *x;
  int64_t n, d, m, cells;
  const double *log_weight;    /* n: log w, finite */
  const double *factors;       /* n: f; NULL: ones */
  const double *ends;          /* cells: the number of points to the end of each */
  const double *rows;          /* m: numbers of points, from 0 */
  const double *shares;        /* cells x cells, [c][b], or NULL */
  double *sums, *top;          /* [cell][row], with shares m; m */
  const double *v, *log_floor; /* m; NULL: no moments */
  bool diagonal;
  double *moments; /* d, or d (d + 1) / 2: u_a u_b, b <= a, is number a (a + 1) / 2 + b */
};
enum fk_status fk_level_sums(const struct fk_level_sums *of, const struct fk_opts *opts, struct fk_stats *stats,
                             struct fk_error *err);
