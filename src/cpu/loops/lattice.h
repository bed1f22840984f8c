/* Sums of Gaussian kernels of bins of points at the nodes of a lattice, in double. */
#pragma once

#include "../../fk.h"

/* Each point adds to the 2 FK_LATTICE_SIDE + 1 nodes nearest to it along each axis; the lattice must reach as far.
 */
enum { FK_LATTICE_SIDE = 12, FK_LATTICE_AXES = 8 };

struct fk_lattice {
  const double *u; /* [coordinate][point], in order of their bins */
  int64_t n, d, bins;
  const double *ends;   /* bins: the number of points to the end of each */
  const double *b;      /* n coefficients */
  const double *from;   /* d: the first node along each axis */
  const double *counts; /* d: how many nodes there are; the first axis runs fastest */
  double step;          /* between neighbouring nodes */
};

/* Numbers the nodes that points add to from 1 on in `index`, which has 0 for the others. Returns their number. */
int64_t fk_lattice_nodes(const struct fk_lattice *of, int *index);

/* sums[bin][i] = sum_j b_j exp(-|u_j - t|^2 / 2) over the points of the bin, t being node number first + i + 1 of
 * `index`. */
enum fk_status fk_lattice_sums(const struct fk_lattice *of, const int *index, int64_t first, int64_t count,
                               const struct fk_opts *opts, double *sums, struct fk_error *err);
