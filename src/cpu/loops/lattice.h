/* Sums of Gaussian kernels of pairs of bins of points, by their sums at the nodes of a lattice, in double. */
#pragma once

#include "../../fk.h"

/* Each point adds to the 2 FK_LATTICE_SIDE + 1 nodes nearest to it along each axis; the lattice must reach as far.
 */
enum { FK_LATTICE_SIDE = 12, FK_LATTICE_AXES = 8 };

struct fk_lattice {
  const double *u; /* [coordinate][point], in order of their bins */
  int64_t n, d, bins;
  const double *ends;         /* bins: the number of points to the end of each */
  const double *left, *right; /* n coefficients each; may be the same */
  const double *from;         /* d: the first node along each axis */
  const double *counts;       /* d: how many nodes there are; the first axis runs fastest */
  double step;                /* between neighbouring nodes */
};

/* forms[a + b bins] = sum_t left_a(t) right_b(t) over the nodes t, where left_a(t) = sum_j left_j exp(-|u_j - t|^2
 * / 2) over the points of bin a, and right_b(t) likewise. */
enum fk_status fk_lattice_forms(const struct fk_lattice *of, const struct fk_opts *opts, double *forms,
                                struct fk_error *err);
