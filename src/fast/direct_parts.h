/* What the parts of the pruned sums share. */
#ifndef FK_FAST_DIRECT_PARTS_H
#define FK_FAST_DIRECT_PARTS_H

#include "../core/pool.h"
#include "cells.h"
#include "direct.h"
#include "direct_tile.h"

/* exp(-q/2) at steps of a quarter of q */
enum { FK_DECAY_STEPS = 640 };
#define FK_DECAY_PER_STEP 0.25

struct fk_direct {
  struct fk_direct_options options;
  struct fk_cells cells;
  int n_columns;
  double *columns;    /* n x n_columns, in the cells' order; NULL: ones */
  double *largest;    /* of each column, in absolute value */
  double *seen;       /* of each column, a lower bound on the largest sum of |b| k so far, in units of `largest` */
  double *mass;       /* of each cell: sum over its points of the largest |b[j, c]| / largest[c] */
  uint32_t *groups;   /* cells that are summed together where the sources are the targets */
  uint32_t *position; /* of each row in the cells' order; NULL until it is needed */
  int64_t n_groups;
  double decay[FK_DECAY_STEPS];
};

/* ---- what is near enough ---------------------------------------------------------------------- */

struct fk_piece {
  uint32_t cell, first, end;
  double near2; /* squared distance to the targets' box */
};

/* Of one thread. */
struct fk_near {
  struct fk_piece *pieces;
  int64_t n_pieces, capacity;
  double cut2, left_out; /* squared cutoff, and the bound on what it leaves out */
  double visited;        /* cells looked at, added to */
  double bins[FK_DECAY_STEPS + 1];
};

/* What is summed: |f| and, for a gradient, |x - y| enlarge what a far source adds. */
struct fk_reach {
  const struct fk_direct *direct;
  double factor[3];
  bool plain; /* factor 1, no gradient */
  bool gradient;
};
void fk_reach_init(struct fk_reach *reach, const struct fk_direct *direct, const struct fk_direct_job *job);

/* The sources that matter for targets in a box: those left out add, to each target's sum of mass times
 * exp(-(q - offset) / 2), at most `budget` in all. offset: no source with mass is nearer than its square root, for
 * a box that is one point; else 0. Points of the pieces beyond cut2 are to be left out too. False: no memory. */
bool fk_near_find(struct fk_near *near, const struct fk_reach *reach, const double *box, double offset,
                  double budget);
/* Everything within a given distance. */
bool fk_near_within(struct fk_near *near, const struct fk_direct *direct, const double *box, double cut2);

/* ---- summing it ------------------------------------------------------------------------------- */

/* Of one thread: a group of targets, packed, and the sources near it. */
struct fk_direct_group {
  struct fk_near near;
  struct fk_direct_tile tile;
  void *targets;
  double centre[7], half[7];
  bool only_count;           /* pack, but sum nothing */
  double packed_from, pairs; /* sources looked at one by one, kernels computed: added to */
};
bool fk_direct_group_init(struct fk_direct_group *group, const struct fk_direct *direct,
                          const struct fk_direct_job *job);
void fk_direct_group_free(struct fk_direct_group *group);
/* One for each thread. False: no memory; to be freed all the same. */
struct fk_direct_team {
  struct fk_direct_group *groups;
  int n;
  atomic_bool failed; /* for loops: memory was short */
};
bool fk_direct_team_init(struct fk_direct_team *team, int threads, const struct fk_direct *direct,
                         const struct fk_direct_job *job);
double fk_direct_team_pairs(const struct fk_direct_team *team);
void fk_direct_team_free(struct fk_direct_team *team);
/* Sums over what group->near found, in units of packed coordinates; without the source at `self` (-1: none). */
void fk_direct_group_sum(struct fk_direct_group *group, const struct fk_direct *direct, const double *x,
                         int64_t ld, int count, const double *box, int64_t self, bool single);
/* Packed coordinates are in units of it. */
#define FK_DIRECT_SCALE 0.849321800288019160 /* sqrt(log2(e) / 2) */

/* Position among the sources of the target that is row i of a job, -1: it is none. */
enum fk_status fk_direct_positions(struct fk_direct *direct, const struct fk_direct_job *job,
                                   struct fk_error *err);
static inline int64_t fk_direct_self(const struct fk_direct *direct, const struct fk_direct_job *job, int64_t i) {
  return job->self_first < 0 ? -1 : (int64_t)direct->position[job->self_first + i];
}

enum fk_status fk_direct_check(const struct fk_direct *direct, const struct fk_direct_job *job,
                               struct fk_error *err);
/* The targets in groups: their own cells, or the sources'. */
struct fk_direct_groups {
  const struct fk_cells *cells;
  uint32_t *list;
  int64_t n;
  struct fk_cells own;
};
enum fk_status fk_direct_groups_init(struct fk_direct_groups *groups, const struct fk_direct *direct,
                                     const struct fk_direct_job *job, struct fk_error *err);
void fk_direct_groups_free(struct fk_direct_groups *groups);
/* From a sample of the groups, so that what may be left out is known: a share of the largest sum. */
enum fk_status fk_direct_look(struct fk_direct *direct, const struct fk_direct_job *job,
                              const struct fk_direct_groups *groups, double *budget, struct fk_error *err);

#endif
