/* The walk of targets through a k-d tree of points: one for all sums that leave out what is far away.
 *
 * The tree has half of the points on either side of a number in the coordinate in which they vary most, halves of
 * these, and so on, down to panels [k][FK_NEAR_POINTS]. A node is a run of panels with its box, and follows from
 * the numbers of the panels alone: its left half is the node after it. Targets go through it one by one, or in
 * groups of a few that are close to each other. A rule says what there is to know of points and of nodes, which
 * nodes are opened, and what is done with a panel. Groups and panels come in an order that depends on points and
 * targets alone: results have the same bits for any number of threads. */
#pragma once

#include "../core/count.h"
#include "../core/pool.h"
#include "tile.h"

struct fk_walk;

/* Targets first .. first + count - 1 of their order. */
struct fk_walk_group {
  const struct fk_walk *walk;
  int64_t first;
  int count;
  /* Their coordinates [k][FK_NEAR_TARGETS], and the low parts of these or 0; lanes without a target have those of
   * the first one. Of a single target its d numbers where they are, low NULL if there are none. */
  const double *y, *low;
  double bound[FK_NEAR_TARGETS]; /* for fk_walk_near_opens() */
  double looked;                 /* pairs of a target and a point of a panel so far, of this thread */
  void *room;                    /* memory of this thread, on a cache line of its own */
};

/* How a group goes through the tree. */
struct fk_walk_look {
  /* Writes to gaps[FK_NEAR_TARGETS] how far a node is, but for the whole tree, whose gaps are 0; of two halves
   * that with the lesser result comes first. NULL: halves come in their order, and there are no gaps. */
  double (*gap)(const struct fk_walk_group *g, int64_t node, double *gaps);
  /* False: the node is done with; its points do not matter, or were counted as a whole. */
  bool (*opens)(struct fk_walk_group *g, int64_t node, const double *gaps);
  void (*panel)(struct fk_walk_group *g, int64_t panel, const double *gaps);
};

/* A number of each node: of the numbers `of` of its points. */
enum fk_walk_summary { FK_WALK_NONE, FK_WALK_LEAST, FK_WALK_LARGEST, FK_WALK_SUM };
struct fk_walk_number {
  enum fk_walk_summary is;
  int of;
};
enum { FK_WALK_NUMBERS = 2 };

struct fk_walk_rule {
  enum fk_operation operation;
  int width;      /* targets of a group: FK_NEAR_TARGETS or 1 */
  int piece;      /* targets of a piece of the loop, whole groups; 1: targets stay in their order */
  int few;        /* so many targets are not worth an order of the points */
  double padding; /* coordinates of what is missing in the last panel */
  int values;     /* numbers of a point, which `point` writes; of the padding where point is -1 */
  void (*point)(const void *of, int64_t point, double *values);
  struct fk_walk_number numbers[FK_WALK_NUMBERS];
  /* Does all for a group, by fk_walk_through(). False: the rest of the piece is left. */
  bool (*group)(struct fk_walk_group *g);
};

struct fk_walk_points {
  const double *x,
      *low; /* one after the other, d numbers each; their low parts if they are double-doubles, or NULL */
  int64_t n;
};

struct fk_walk {
  const struct fk_walk_rule *rule;
  const void *of; /* the caller's */
  int64_t d;
  struct fk_walk_points x, y; /* y.x NULL: the points themselves */
  size_t room;                /* bytes of memory for each thread */
  double work;                /* multiply-adds of a target, at most */
  int threads;                /* 0: as many as the work is worth */
  /* fk_walk_run() sets the following fields. */
  const struct fk_tile_ops *ops;
  bool own;                 /* the targets are the points */
  int64_t count;            /* panels */
  int64_t *order, *targets; /* which point is in which place, and which target, NULL: each in its own */
  double *points, *low;     /* of panels; low NULL: 0 */
  double *values;           /* [value][place] */
  double *boxes, *nodes;    /* of each node d lower and d upper ends, and FK_WALK_NUMBERS */
  struct fk_scratch scratch;
};
/* Builds the tree and calls the functions of *w for all targets. stats may be NULL. Fails with FK_STATUS_ALLOC. */
enum fk_status fk_walk_run(struct fk_walk *w, const struct fk_opts *opts, struct fk_stats *stats,
                           struct fk_error *err);

/* Coordinates and low parts of a panel, values v of a panel, box and numbers of a node, and the target at a place.
 */
static inline const double *fk_walk_panel(const struct fk_walk *w, int64_t panel) {
  return w->points + panel * FK_NEAR_POINTS * w->d;
}
static inline const double *fk_walk_low(const struct fk_walk *w, int64_t panel) {
  return w->low ? w->low + panel * FK_NEAR_POINTS * w->d : NULL;
}
/* Number of points of a panel; the last panel may have fewer than FK_NEAR_POINTS. */
static inline int fk_walk_size(const struct fk_walk *w, int64_t panel) {
  return (int)fk_smaller(FK_NEAR_POINTS, w->x.n - panel * FK_NEAR_POINTS);
}
static inline const double *fk_walk_values(const struct fk_walk *w, int v, int64_t panel) {
  return w->values + (v * w->count + panel) * FK_NEAR_POINTS;
}
static inline const double *fk_walk_box(const struct fk_walk *w, int64_t node) {
  return w->boxes + 2 * w->d * node;
}
static inline const double *fk_walk_node(const struct fk_walk *w, int64_t node) {
  return w->nodes + FK_WALK_NUMBERS * node;
}
static inline int64_t fk_walk_target(const struct fk_walk *w, int64_t place) {
  return w->targets ? w->targets[place] : place;
}
/* n rounded up to full panels. */
static inline int64_t fk_walk_padded(int64_t n) { return fk_pieces(n, FK_NEAR_POINTS) * FK_NEAR_POINTS; }

/* ---- through the tree ------------------------------------------------------------------------- */

/* A node and its panels. fk_walk_halves() returns the children of a node with more than one panel. */
struct fk_walk_span {
  int64_t node, first, end;
};
static inline void fk_walk_halves(struct fk_walk_span at, struct fk_walk_span halves[2]) {
  int64_t middle = at.first + fk_pieces(at.end - at.first, 2);
  halves[0] = (struct fk_walk_span){at.node + 1, at.first, middle};
  halves[1] = (struct fk_walk_span){at.node + 2 * (middle - at.first), middle, at.end};
}

/* `look` is to be a constant, so that what it calls for every node is compiled into the loop. */
static inline __attribute__((always_inline)) void fk_walk_through(struct fk_walk_group *g,
                                                                  const struct fk_walk_look *look) {
  enum { DEPTH = 66 };              /* of a tree of any number of panels, and one more */
  struct fk_walk_span nodes[DEPTH]; /* still to be looked at, the next one last */
  double gaps[DEPTH][FK_NEAR_TARGETS];
  int n = 1;
  for (int t = 0; t < FK_NEAR_TARGETS; t++) gaps[0][t] = 0;
  nodes[0] = (struct fk_walk_span){0, 0, g->walk->count};
  while (n > 0) {
    struct fk_walk_span at = nodes[--n], halves[2];
    if (!look->opens(g, at.node, gaps[n])) continue;
    if (at.end - at.first == 1) {
      g->looked += (double)g->count * FK_NEAR_POINTS;
      look->panel(g, at.first, gaps[n]);
      continue;
    }
    int nearest = 0;
    fk_walk_halves(at, halves);
    if (look->gap) { /* to the places where they stay unless the right half comes first */
      double to_left = look->gap(g, halves[0].node, gaps[n + 1]);
      nearest = look->gap(g, halves[1].node, gaps[n]) < to_left;
      for (int t = 0; t < FK_NEAR_TARGETS && nearest; t++) {
        double of_left = gaps[n + 1][t];
        gaps[n + 1][t] = gaps[n][t];
        gaps[n][t] = of_left;
      }
    }
    nodes[n++] = halves[!nearest];
    nodes[n++] = halves[nearest];
  }
}

/* `gap` and `opens` of groups whose targets look for points nearer than the root of a bound, near ones first:
 * `panel` brings the bounds down. gaps: squared distances. */
static inline double fk_walk_near_gap(const struct fk_walk_group *g, int64_t node, double *gaps) {
  double sum = 0;
  g->walk->ops->near_box(fk_walk_box(g->walk, node), g->walk->d, g->y, gaps);
  for (int t = 0; t < FK_NEAR_TARGETS; t++) sum += gaps[t];
  return sum;
}

static inline bool fk_walk_near_opens(struct fk_walk_group *g, FK_UNUSED int64_t node, const double *gaps) {
  bool any = false;
  for (int t = 0; t < g->count; t++) any |= gaps[t] < g->bound[t];
  return any;
}
