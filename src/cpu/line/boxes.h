/* Sums over points on a line at places on it. Points are in boxes a bandwidth wide, or one that is as wide as all
 * of them, for variances of narrow ones have to have digits, too. The points of a box that has many are replaced
 * by charges at Chebyshev nodes, and sums at many places by those at its nodes: Gaussians and polynomials times
 * them are polynomials between these to what doubles hold. With 20 nodes an interpolated kernel at the distance D
 * is wrong by (D / 4)^20 / 20!: by 1e-15 of itself at D = 6, by 3e-10 at 11. So where a sum of kernels is more
 * than 1e-8 of the weights within FK_LINE_REACH, kernels further away than 6 hardly matter to its digits, and
 * where it is more than 1e-12 of all weights, those beyond FK_LINE_REACH, 5e-27, neither. Where it is less, the
 * place is alone, and whoever asked has to take its sums point by point. */
#pragma once

#include "../../fk.h"

enum {
  FK_LINE_NODES = 20,
  FK_LINE_FEW = 8, /* points of a box that stay as they are */
  FK_LINE_REACH = 11,
  FK_LINE_OFFSETS = 2 * FK_LINE_REACH + 1,
  FK_LINE_KINDS = 3,
  FK_LINE_BOXES = 1 << 14
};

/* Runs of places in the same of all boxes from `origin` on, both ways; boxes ascend. */
struct fk_line_boxes {
  const double *x, *low; /* low parts of double-doubles; NULL: 0 */
  int64_t n;
  double origin, width;
  /* While fk_line_run() is under way: */
  int64_t count;
  int64_t *first; /* count + 1 */
};
double fk_line_number_at(const struct fk_line_boxes *b, double x);
double fk_line_number_of(const struct fk_line_boxes *b, int64_t box);
int64_t fk_line_box_from(const struct fk_line_boxes *b, double number); /* the first from a number on */
/* Sorts n places by boxes of width 1 from 0 on, at most FK_LINE_BOXES of them. order[i]: the former index of place
 * i. Returns false if memory runs out. */
bool fk_line_sort(double *x, int64_t *order, int64_t n);
/* Index of the first of n sorted numbers x that is at least `place`. */
int64_t fk_line_point_from(const double *x, int64_t n, double place);
/* Place i minus the double-double from + from_low. */
static inline double fk_line_gap(const struct fk_line_boxes *b, int64_t i, double from, double from_low) {
  return b->x[i] - from + ((b->low ? b->low[i] : 0) - from_low);
}

/* The sums at a place. */
struct fk_line_place {
  int64_t j, first;    /* the first source within reach, by boxes: those before it are not in the sums */
  double *sums, *room; /* of each term; as many numbers to work in */
  const double *least; /* of each guard: a sum of it below this is wrong */
  bool without;        /* the place's own part is not among them */
};

struct fk_line_term {
  int kind;
  int64_t column;
};

/* sum_i charges[i, column] values[kind](x_i - y_j) of each term. */
struct fk_line_spec {
  struct fk_line_boxes sources, targets;      /* of the same origin and width */
  double (*kernel)(const void *of, double u); /* smooth, as fk_line_gaussian() */
  /* The kinds of values, of kernels k at u. */
  void (*kinds)(const double *k, const double *u, int count, const void *of, double (*values)[FK_LINE_NODES]);
  int64_t n_columns, n_guards; /* the first columns are guards: none of their charges is negative */
  const double *charges;       /* n x n_columns */
  int64_t n_terms;
  const struct fk_line_term *terms;
  bool drops_self; /* targets are the sources: a box of few leaves out a place's own part */
  void (*finish)(const void *of, const struct fk_line_place *place); /* on any thread */
  const void *of;
};
double fk_line_gaussian(const void *of, double u);
enum fk_status fk_line_run(struct fk_line_spec *spec, const struct fk_opts *opts, struct fk_error *err);
