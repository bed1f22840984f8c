/* Declarations that the files of the pruned sums share. */
#pragma once

#include <stdatomic.h>

#include "cells.h"
#include "direct.h"
#include "direct_tile.h"

/* exp(-q/2) at steps of a quarter of q */
enum { FK_DECAY_STEPS = 640 };
#define FK_DECAY_PER_STEP 0.25

/* Columns are held times powers of two, so that the largest |b| of each is in [1, 2).
 *
 * Where the |b| of a single column differ by many orders, rows are summed in the log domain (direct.c): in a
 * structure with |b| = beta 2^-E, beta in [1, 2), whose sources have a coordinate more, sqrt(2 E log 2). The
 * targets' is 0, so that exp(-q/2) is 2^-E times what it was: boxes, searches and cutoffs know no difference. */
struct fk_direct {
  struct fk_direct_options options;
  struct fk_cells cells;
  int d; /* of the points, without that coordinate */
  bool lifted;
  int n_columns;
  double *columns; /* n x n_columns, in the cells' order, scaled; NULL: ones */
  int *exponent;   /* of each column: b = column * 2^exponent */
  double *largest; /* of each column, in absolute value: 0 or in [1, 2) */
  double
      *seen; /* lower bounds on the largest sum of |b| k so far, with the own terms and without: 2 x n_columns */
  double *mass;           /* of each cell: sum over its points of the largest |b[j, c]| */
  double *raw;            /* b in the cells' order, where a column is wide; NULL: none is */
  struct fk_direct *logs; /* of this column; NULL until it is needed */
  uint32_t *groups;       /* cells that are summed together where the sources are the targets */
  uint32_t *position;     /* of each row in the cells' order; NULL until it is needed */
  int64_t n_groups;
  double decay[FK_DECAY_STEPS];
};

/* The structure that rows are summed by: this one, or that of its logarithms. */
enum fk_status fk_direct_in_logs(struct fk_direct *direct, struct fk_direct **by, struct fk_error *err);
/* The sources as they were given, n x d, and each column: for a structure of one column of this one; the caller
 * frees x. */
enum fk_status fk_direct_one_column(const struct fk_direct *direct, int64_t column, struct fk_direct **one,
                                    struct fk_error *err);

/* ---- what is near enough ---------------------------------------------------------------------- */

struct fk_piece {
  uint32_t cell, first, end;
  double near2; /* squared distance to the targets' box */
};

/* Working memory of one thread. */
struct fk_direct_near {
  struct fk_piece *pieces;
  int64_t n_pieces, capacity;
  double cut2, left_out; /* squared cutoff, and the bound on what it leaves out */
  double least;          /* a lower bound on any target's sum */
  double inside;         /* mass of the pieces */
  double visited;        /* cells looked at, added to */
  double bins[FK_DECAY_STEPS + 1], far_bins[FK_DECAY_STEPS + 1];
};

/* How far sources matter. |f| and, for a gradient, |x - y| enlarge the contribution of a far source. */
struct fk_reach {
  const struct fk_direct *direct;
  double factor[3];
  bool plain; /* factor 1, no gradient */
  bool gradient;
};
void fk_reach_init(struct fk_reach *reach, const struct fk_direct *direct, const struct fk_direct_job *job);

/* The targets in a box, and what may be left out of their sums of mass times exp(-(q - offset) / 2): `budget`, or
 * `tol` times the least of the sums, where that is more. */
struct fk_direct_near_ask {
  const double *box;
  double offset; /* no target has a source with mass nearer than its square root */
  double budget, tol;
  double least;               /* a lower bound on any target's sum */
  int64_t own_first, own_end; /* sources that do not count for such a bound */
};
/* The sources that matter. Points of the pieces beyond cut2 are to be left out too. False: no memory. */
bool fk_direct_near_find(struct fk_direct_near *near, const struct fk_reach *reach,
                         const struct fk_direct_near_ask *ask);
/* Everything within a given distance. */
bool fk_direct_near_within(struct fk_direct_near *near, const struct fk_direct *direct, const double *box,
                           double cut2);

/* The leaf with mass that is nearest to a box, -1: none. */
int64_t fk_direct_near_leaf(const struct fk_direct *direct, const double *box, double *near2);
/* The source with mass that is nearest to a point, but for that at `self`; -1: none. */
int64_t fk_direct_near_source(const struct fk_direct *direct, const double *x, int64_t self, double *near2);

/* ---- summing it ------------------------------------------------------------------------------- */

/* Working memory of one thread: a packed group of targets, and the sources near it. */
struct fk_direct_group {
  struct fk_direct_near near;
  struct fk_direct_tile tile;
  void *targets;
  double centre[FK_CELLS_MAX_DIM], half[FK_CELLS_MAX_DIM];
  double shifts[FK_DIRECT_GROUP];
  bool only_count; /* pack, but sum nothing */
  /* added to: sources looked at one by one, kernels computed, of which in float, and those with a shift */
  double packed_from, pairs, single_pairs, shifted_pairs, groups;
  /* at most: what was left out, and rounding, relative to what the caller takes; whether floats were used */
  double left_out, rounding;
  bool used_single;
};
bool fk_direct_group_init(struct fk_direct_group *group, const struct fk_direct *direct,
                          const struct fk_direct_job *job);
void fk_direct_group_free(struct fk_direct_group *group);
/* One for each thread. False: no memory; to be freed all the same. */
struct fk_direct_team {
  struct fk_direct_group *groups;
  int n;
  atomic_bool failed; /* in a loop memory was short */
};
bool fk_direct_team_init(struct fk_direct_team *team, int threads, const struct fk_direct *direct,
                         const struct fk_direct_job *job);
void fk_direct_team_free(struct fk_direct_team *team);
/* Sums group number g. False: no memory. */
typedef bool fk_direct_sum_fn(const void *work, struct fk_direct_group *group, int64_t g);
/* All n groups on all threads, between looks for an interrupt. Kernels and floats that were used join the job;
 * what was left out and rounding are the largest of all groups. */
enum fk_status fk_direct_each_group(const struct fk_direct *direct, struct fk_direct_job *job, int64_t n,
                                    fk_direct_sum_fn *sum, const void *work, double *left_out, double *rounding,
                                    struct fk_error *err);
/* Targets near each other, x[k * ld + i], and the box around them. */
struct fk_direct_targets {
  const double *x;
  int64_t ld;
  int count;
  const double *box;
};
/* Sums over what group->near found, in units of packed coordinates; without the source at `self` (-1: none).
 * shift: a power of two that all are divided by. */
void fk_direct_group_sum(struct fk_direct_group *group, const struct fk_direct *direct,
                         const struct fk_direct_targets *targets, int64_t self, bool single, double shift);
/* Packed coordinates are in units of it. */
#define FK_DIRECT_SCALE 0.849321800288019160 /* sqrt(log2(e) / 2) */

/* The error that single precision adds to a sum over near sources, relative to `least`, a lower bound of the sum
 * or of what the tolerance is relative to; infinite if single precision would lose terms. */
double fk_direct_single_error(const struct fk_reach *reach, const struct fk_direct_near *near, const double *box,
                              double offset, double least);
/* Is this error small compared with the tolerance? */
static inline bool fk_direct_may_be_single(double error, double tol) { return 3 * error <= tol; }

/* Position among the sources of the target in row i of a job; -1: the target is not a source. */
static inline int64_t fk_direct_self(const struct fk_direct *direct, const struct fk_direct_job *job, int64_t i) {
  return job->self_first < 0 ? -1 : (int64_t)direct->position[job->self_first + i];
}

/* Checks dimensions, tolerance and ranges of a job. Fails with FK_STATUS_INVALID. */
enum fk_status fk_direct_check(const struct fk_direct *direct, const struct fk_direct_job *job,
                               struct fk_error *err);
/* The targets in groups: their own cells, or the sources'. */
struct fk_direct_groups {
  const struct fk_cells *cells;
  const int64_t *rows; /* which row of the job each of the targets is; NULL: as they come */
  uint32_t *list;
  int64_t n;
  struct fk_cells own;
};
enum fk_status fk_direct_groups_init(struct fk_direct_groups *groups, struct fk_direct *direct,
                                     const struct fk_direct_job *job, const int64_t *rows, int64_t n_rows,
                                     struct fk_error *err);
void fk_direct_groups_free(struct fk_direct_groups *groups);
static inline int64_t fk_direct_row(const struct fk_direct_groups *groups, int64_t at) {
  int64_t row = groups->cells->rows[at];
  return groups->rows ? groups->rows[row] : row;
}

/* Lower bounds on the largest sum of each column that counts, from a sample of the groups; the least of them. */
enum fk_status fk_direct_look(struct fk_direct *direct, const struct fk_direct_job *job,
                              const struct fk_direct_groups *groups, double *least, struct fk_error *err);
/* A lower bound, for one column, if no target is near a source: its logarithm in base 2, -Inf if no source is
 * found. */
enum fk_status fk_direct_look_far(struct fk_direct *direct, const struct fk_direct_job *job,
                                  const struct fk_direct_groups *groups, double *least2, struct fk_error *err);

/* fk_direct_rows() with the logarithm of a floor, in base 2. */
enum fk_status fk_direct_by_rows(struct fk_direct *direct, struct fk_direct_job *job, const int64_t *rows,
                                 int64_t n_rows, double *shift, double floor2, struct fk_error *err);

/* ---- one group of rows, as the sums and their price need it ------------------------------------- */

struct fk_rows_work {
  struct fk_direct *direct;
  struct fk_reach reach;
  struct fk_direct_job *job;
  struct fk_direct_groups groups;
  double floor2; /* log2 of what may be left out of any row, in units of the scaled column; -Inf: nothing */
  double *shift; /* NULL: sums are only priced */
};
/* Targets first .. end - 1 in the groups' order, at most FK_DIRECT_GROUP; in parts where their sums differ
 * much. */
bool fk_rows_sum(const struct fk_rows_work *work, struct fk_direct_group *group, int64_t first, int64_t end,
                 const double *box);
