/* Distribution functions of one-dimensional estimates: pair by pair, or where that would take longer by boxes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/costs.h"
#include "../../core/gauss.h"
#include "../../core/plan.h"
#include "../../core/pool.h"
#include "../../core/threads.h"
#include "boxes.h"
#include "line.h"

struct cdf {
  const struct fk_cdf_spec *spec;
  const double *y;
  double *out;
  int64_t *order; /* by boxes: which of the targets each place is */
};

static bool is_corrected(const struct fk_cdf_spec *spec) {
  return spec->corrected[0] != 0 || spec->corrected[1] != 0;
}

/* The distribution function of the kernel of a point z bandwidths below the target. */
static double below(const struct fk_cdf_spec *spec, double z) {
  double p = fk_normal_below(z);
  if (is_corrected(spec)) p += z * (spec->corrected[0] + spec->corrected[1] * z * z) * fk_normal_density(z);
  return p;
}

static double weight_of(const struct fk_cdf_spec *spec, int64_t i) {
  return spec->cumulative_weights[i] - (i > 0 ? spec->cumulative_weights[i - 1] : 0);
}

/* ---- pair by pair ----------------------------------------------------------------------------- */

/* Points 9 h below count whole (1 - Phi(9) < 2e-19), points 39 h above not at all (underflow). */
static double cdf_at(const struct fk_cdf_spec *spec, double y) {
  const double *x = spec->x, h = spec->h;
  int64_t first = fk_line_point_from(x, spec->n, y - 9 * h), last = fk_line_point_from(x, spec->n, y + 39 * h);
  double sum = first > 0 ? spec->cumulative_weights[first - 1] : 0;
  for (int64_t i = first; i < last; i++) sum += weight_of(spec, i) * below(spec, (y - x[i]) / h);
  return sum;
}

static void fill(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct cdf *v = data;
  for (int64_t j = first; j < end; j++) v->out[j] = cdf_at(v->spec, v->y[j]);
}

static enum fk_status by_pairs(struct cdf *v, int64_t m, const struct fk_opts *opts, struct fk_error *err) {
  const double work = (double)v->spec->n * fk_plan_pair_work(FK_OP_CDF, 1, 1);
  const struct fk_loop loop = fk_loop_of(opts->threads, m, work);
  return fk_loop_run(&loop, &opts->poll, fill, v, err);
}

/* ---- by boxes --------------------------------------------------------------------------------- */

static double kernel(const void *of, double u) {
  const struct cdf *v = of;
  return below(v->spec, -u);
}

static void kinds(const double *k, FK_UNUSED const double *u, int count, FK_UNUSED const void *of,
                  double (*values)[FK_LINE_NODES]) {
  memcpy(values[0], k, sizeof *k * (size_t)count);
}

/* Points of boxes further below than their reach count whole. In the tails digits are those of pairs. */
static void finish(const void *of, const struct fk_line_place *place) {
  const struct cdf *v = of;
  int64_t j = v->order[place->j], first = place->first;
  double sum = place->sums[0] + (first > 0 ? v->spec->cumulative_weights[first - 1] : 0);
  v->out[j] = sum > place->least[0] ? sum : cdf_at(v->spec, v->y[j]);
}

static enum fk_status by_boxes(struct cdf *v, int64_t m, const struct fk_opts *opts, struct fk_error *err) {
  const struct fk_cdf_spec *spec = v->spec;
  const struct fk_line_term term = {0, 0};
  struct fk_line_spec sums = {.kernel = kernel,
                              .kinds = kinds,
                              .n_columns = 1,
                              .n_guards = 1,
                              .n_terms = 1,
                              .terms = &term,
                              .finish = finish,
                              .of = v};
  int64_t n = spec->n;
  double *charges = malloc(sizeof *charges * (size_t)n), *u = malloc(sizeof *u * (size_t)n);
  double *places = malloc(sizeof *places * (size_t)m), low = spec->x[0];
  enum fk_status status = FK_STATUS_OK;
  v->order = malloc(sizeof *v->order * (size_t)m);
  sums.sources = (struct fk_line_boxes){.x = u, .n = n, .width = 1};
  sums.targets = (struct fk_line_boxes){.x = places, .n = m, .width = 1};
  sums.charges = charges;
  if (charges && u && places && v->order) {
    for (int64_t i = 0; i < n; i++) charges[i] = weight_of(spec, i);
    for (int64_t i = 0; i < n; i++) u[i] = (spec->x[i] - low) / spec->h;
    /* all that is further out has the value of where it is put, or none that a box would tell */
    for (int64_t j = 0; j < m; j++)
      places[j] = fmin(fmax((v->y[j] - low) / spec->h, -2 * FK_LINE_REACH), u[n - 1] + 2 * FK_LINE_REACH);
  }
  if (!charges || !u || !places || !v->order || !fk_line_sort(places, v->order, m))
    status = fk_fail(err, FK_STATUS_ALLOC, "out of memory for the boxes of %.0f points", (double)n);
  if (!status) status = fk_line_run(&sums, opts, err);
  free(charges);
  free(u);
  free(places);
  free(v->order);
  return status;
}

static bool is_for_boxes(const struct fk_cdf_spec *spec, int64_t m) {
  const struct fk_line_costs *c = &fk_costs.line;
  double n = (double)spec->n, range = (spec->x[spec->n - 1] - spec->x[0]) / spec->h;
  double pairs = n * (double)m * fmin(1, (9 + 39) / range), boxes = c->start + c->point * (n + (double)m);
  return range <= c->range && c->times * boxes < c->below * pairs;
}

enum fk_status fk_cdf(const struct fk_cdf_spec *spec, const double *y, int64_t m, const struct fk_opts *opts,
                      double *out, struct fk_error *err) {
  struct cdf values = {.spec = spec, .y = y, .out = out};
  return is_for_boxes(spec, m) ? by_boxes(&values, m, opts, err) : by_pairs(&values, m, opts, err);
}
