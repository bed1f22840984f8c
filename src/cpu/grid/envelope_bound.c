/* The bounds of an envelope: nodes filtered by what dominates f and a window's error, read at the cells'
 * corners. */
#include "envelope_parts.h"

#include <math.h>
#include <string.h>

#include "../../core/aligned.h"
#include "../../core/count.h"
#include "../../core/pool.h"
#include "../../core/threads.h"
#include "filter.h"
#include "../../grid/window.h"

/* ---- the filter ------------------------------------------------------------------------------- */

/* Parts are numbered by what of `use` they have. */
static unsigned part_use(const struct fk_envelope *e, int part) {
  return e->parts == FK_ENVELOPE_PARTS ? (unsigned)part : part ? e->use : 0;
}

/* f_u, and eps_u with what f_u and it are together. */
struct envelope_taps {
  const void *f[FK_ENVELOPE_PARTS], *eps[FK_ENVELOPE_PARTS], *both[FK_ENVELOPE_PARTS];
};

static void add_terms(const struct fk_envelope *e, struct fk_filter_pass *pass, int to, int planes,
                      const void *const *taps, bool to_error, bool from_error) {
  for (int from = 0; from < e->parts; from++) {
    int plane = from + (from_error ? e->parts : 0), left = to & ~from;
    if ((from & to) != from || plane >= planes) continue;
    pass->terms[pass->n_terms++] = (struct fk_filter_term){to + (to_error ? e->parts : 0), plane, taps[left]};
  }
}

/* Planes: the parts of prod f, then those of prod (f + eps) - prod f, which from D and P before become (f + eps) D
 * + eps P; last the counts. The masses are a plane of the first kind. */
static void make_pass(const struct fk_envelope *e, const struct envelope_taps *taps, bool errors, int k,
                      struct fk_filter_pass *pass) {
  int all = e->parts * (errors ? 2 : 1), planes = k == 0 ? 1 : all;
  pass->planes_in = planes + e->spec.counted;
  pass->planes_out = all + e->spec.counted;
  pass->n_terms = 0;
  for (int to = 0; to < e->parts; to++)
    add_terms(e, pass, to, fk_smaller(planes, e->parts), taps->f, false, false);
  for (int to = 0; errors && to < e->parts; to++) {
    add_terms(e, pass, to, planes, taps->both, true, true);
    add_terms(e, pass, to, fk_smaller(planes, e->parts), taps->eps, true, false);
  }
  if (e->spec.counted) pass->terms[pass->n_terms++] = (struct fk_filter_term){all, planes, taps->both[0]};
}

/* Upper bound of the contribution of pairs that are beyond the taps in some dimension. */
static void beyond(const struct fk_envelope *e, const struct fk_window *window, double out[FK_ENVELOPE_PARTS]) {
  double far[FK_ENVELOPE_PARTS] = {0}, whole[FK_ENVELOPE_PARTS] = {0}, power[FK_ENVELOPE_PARTS] = {1},
         unused[FK_ENVELOPE_REACH + 1];
  for (int p = 0; p < e->parts; p++) {
    double taps[FK_ENVELOPE_REACH + 1], top, flat = 0;
    fk_envelope_function(part_use(e, p), unused, &top);
    if (window) fk_window_envelope(window, part_use(e, p), taps, &flat);
    far[p] = flat + 1e-18; /* f itself there, and what it is times eps elsewhere */
    whole[p] = top + (window ? taps[0] : 0);
  }
  for (int k = 1; k < e->spec.d; k++) {
    double next[FK_ENVELOPE_PARTS] = {0};
    for (int a = 0; a < e->parts; a++)
      for (int b = 0; b < e->parts; b++)
        if (!(a & b)) next[a | b] += power[a] * whole[b];
    memcpy(power, next, sizeof next);
  }
  memset(out, 0, FK_ENVELOPE_PARTS * sizeof *out);
  for (int a = 0; a < e->parts; a++)
    for (int b = 0; b < e->parts; b++)
      if (!(a & b)) out[a | b] += e->spec.d * far[a] * power[b] * e->mass;
}

static enum fk_status filter(struct fk_envelope *e, const struct fk_window *window, struct fk_error *err) {
  struct fk_filter filter = {.layout = &e->layout, .ops = e->ops, .columns = 1, .reach = FK_ENVELOPE_REACH};
  struct envelope_taps taps;
  filter.threads = e->spec.threads;
  filter.poll = e->spec.poll;
  void *memory = fk_filter_memory(e->ops, 3 * FK_ENVELOPE_PARTS);
  if (!memory) return fk_no_memory(err, 0, "the bound of the grid's error");
  for (int p = 0; p < e->parts; p++) {
    double f[FK_ENVELOPE_REACH + 1], eps[FK_ENVELOPE_REACH + 1] = {0}, unused;
    fk_envelope_function(part_use(e, p), f, &unused);
    if (window) fk_window_envelope(window, part_use(e, p), eps, &unused);
    taps.f[p] = fk_filter_taps(e->ops, memory, 3 * p, f, FK_ENVELOPE_REACH);
    taps.eps[p] = fk_filter_taps(e->ops, memory, 3 * p + 1, eps, FK_ENVELOPE_REACH);
    for (int i = 0; i <= FK_ENVELOPE_REACH; i++) f[i] += eps[i];
    taps.both[p] = fk_filter_taps(e->ops, memory, 3 * p + 2, f, FK_ENVELOPE_REACH);
  }
  for (int k = 0; k < e->spec.d; k++) make_pass(e, &taps, window != NULL, k, &filter.pass[k]);
  enum fk_status status = fk_filter_run(&filter, &e->nodes, &e->needed, &e->result, &e->between, err);
  fk_aligned_free(memory);
  return status;
}

/* ---- bounds ----------------------------------------------------------------------------------- */

struct reading {
  struct fk_envelope *e;
  bool errors;
  double rounding, slope_rounding, unit, place, beyond[FK_ENVELOPE_PARTS];
};

/* The value or the gradient of the task's sum, from the parts of a product. */
static double value_of(const struct fk_envelope *e, const double *part, bool gradient) {
  int with = gradient ? 1 : 0, laplace = e->parts == FK_ENVELOPE_PARTS ? 2 : 1;
  double plain = fabs(e->spec.plain) * part[with];
  if (e->spec.laplace == 0) return plain;
  return plain + fabs(e->spec.laplace) * ((1 + 0.5 * e->spec.d) * part[with] + part[with + laplace]);
}

static double error_at(const struct reading *r, const double *f, const double *error, double count) {
  const struct fk_envelope *e = r->e;
  double all[FK_ENVELOPE_PARTS], wrong[FK_ENVELOPE_PARTS];
  for (int p = 0; p < e->parts; p++) {
    wrong[p] = error[p] + r->beyond[p];
    all[p] = f[p] + wrong[p];
  }
  double most = value_of(e, wrong, false) + r->rounding * value_of(e, all, false);
  if (e->spec.gradient) {
    double slope = r->rounding * value_of(e, all, true) + r->slope_rounding * value_of(e, all, false);
    most = fmax(most, value_of(e, wrong, true) + slope);
  }
  return most + r->unit * (e->spec.counted ? count : all[0]);
}

/* Computes the error at each node of whole blocks, and stores it in the plane of the node's first part. A node is
 * a corner of several cells. */
static void fill_errors(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct reading *r = data;
  const struct fk_envelope *e = r->e;
  int64_t cells = e->layout.cells;
  for (int64_t i = first; i < end; i++) {
    double *planes = fk_blocks_at(&e->result, i), *errors = planes + e->parts * cells;
    const double *count = errors + e->parts * cells;
    for (int64_t at = 0; at < cells; at++) {
      double f[FK_ENVELOPE_PARTS], error[FK_ENVELOPE_PARTS];
      for (int p = 0; p < e->parts; p++) {
        f[p] = planes[p * cells + at];
        error[p] = errors[p * cells + at];
      }
      errors[at] = error_at(r, f, error, e->spec.counted ? count[at] : 0);
    }
  }
}

/* A pair at r bandwidths whose places are off by delta is so by r delta of its kernel; r <= FK_ENVELOPE_REACH. */
static double place_error(const struct reading *r, const struct fk_envelope_corners *where) {
  double most = 0;
  for (int k = 0; k < r->e->spec.d; k++) most = fmax(most, fabs((double)where->at[k]));
  return 2 * r->place * FK_ENVELOPE_REACH * sqrt(r->e->spec.d) * (most + FK_ENVELOPE_REACH);
}

static void read_cells(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  static const double none[FK_ENVELOPE_PARTS] = {0};
  const struct reading *r = data;
  struct fk_envelope *e = r->e;
  int corners = 1 << e->spec.d;
  int64_t place, block = -1, cells = e->layout.cells;
  uint64_t key, last = 0;
  double nowhere = error_at(r, none, none, 0), rest = 1e-18 * e->spec.d * e->mass;
  for (int64_t i = first; i < end; i++) {
    struct fk_envelope_cell *bound = &e->bounds[i];
    struct fk_envelope_corners where = fk_envelope_corners_of(e, e->cells.keys[e->cell_of[i]]);
    double misplaced = r->errors ? place_error(r, &where) : 0;
    bound->error = bound->sum = 0;
    for (int c = 0; c < corners; c++) {
      key = fk_envelope_corner_key(e, &where, c, &place);
      if (block < 0 || key != last) block = fk_blocks_find(&e->result, key);
      last = key;
      const double *sum = block < 0 ? none : (const double *)fk_blocks_at(&e->result, block) + place;
      double error = block < 0 || !r->errors ? nowhere : sum[e->parts * cells];
      error += misplaced * (sum[0] + rest);
      e->at_corners[i * corners + c] = error;
      bound->error = fmax(bound->error, error);
      bound->sum = fmax(bound->sum, sum[0] + rest);
    }
  }
}

enum fk_status fk_envelope_bound(struct fk_envelope *e, const struct fk_window *window,
                                 struct fk_envelope_rounding rounding, struct fk_error *err) {
  enum fk_status status = fk_envelope_prepare(e, err);
  if (!status) status = filter(e, window, err);
  if (status) return status;
  struct reading r = {e, window != NULL, rounding.sums, 0, 0, rounding.place, {0}};
  if (window) {
    r.slope_rounding = 4 * rounding.node / window->spacing;
    r.unit = rounding.unit * e->mass * pow(1.5 * window->width, e->spec.d);
    if (e->spec.gradient) r.unit /= window->spacing;
  }
  beyond(e, window, r.beyond);
  double node = 20 * e->parts, corner = 20 << e->spec.d;
  int threads = fk_threads_for_work(e->spec.threads, node * (double)(e->result.n * e->layout.cells));
  if (window)
    fk_parallel_for(threads, e->result.n, fk_step_for_work(node * (double)e->layout.cells), fill_errors, &r);
  threads = fk_threads_for_work(e->spec.threads, corner * (double)e->n_bounds);
  fk_parallel_for(threads, e->n_bounds, fk_step_for_work(corner), read_cells, &r);
  return FK_STATUS_OK;
}

int64_t fk_envelope_cells(const struct fk_envelope *e, const struct fk_envelope_cell **cells) {
  *cells = e->bounds;
  return e->n_bounds;
}
