/* Pruned direct sums: the sources, and groups of targets against what is near them. */
#include "direct.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/count.h"
#include "../../core/pool.h"
#include "../../core/scan.h"
#include "../../core/threads.h"
#include "direct_parts.h"

static enum fk_status out_of_memory(struct fk_error *err, double bytes) {
  return fk_no_memory(err, bytes, "pruned sums");
}

/* ---- sources ---------------------------------------------------------------------------------- */

/* lifted: the last coordinate of the points is that of the logarithms. */
static enum fk_status create(const struct fk_matrix *x, bool lifted, const double *b, int64_t n_columns,
                             const struct fk_direct_options *options, struct fk_direct **direct,
                             struct fk_error *err) {
  struct fk_direct *s = *direct = calloc(1, sizeof *s);
  if (!s) return out_of_memory(err, sizeof *s);
  s->options = *options;
  s->lifted = lifted;
  s->d = (int)x->d - lifted;
  for (int i = 0; i < FK_DECAY_STEPS; i++) s->decay[i] = exp(-0.5 * FK_DECAY_PER_STEP * i);
  enum fk_status status = fk_cells_init(&s->cells, x, FK_DIRECT_LEAF, options->threads, err);
  if (!status) status = fk_cells_groups(&s->cells, FK_DIRECT_GROUP, &s->groups, &s->n_groups, err);
  if (!status) status = fk_direct_set_columns(s, b, n_columns, err);
  if (status) {
    fk_direct_destroy(s);
    *direct = NULL;
  }
  return status;
}

enum fk_status fk_direct_create(const struct fk_matrix *x, const double *b, int64_t n_columns,
                                const struct fk_direct_options *options, struct fk_direct **direct,
                                struct fk_error *err) {
  *direct = NULL;
  if (x->d < 1 || x->d > FK_DIRECT_MAX_DIM)
    return fk_fail(err, FK_STATUS_UNSUPPORTED, "pruned sums need 1 to %d dimensions", FK_DIRECT_MAX_DIM);
  return create(x, false, b, n_columns, options, direct, err);
}

static void drop_columns(struct fk_direct *s) {
  fk_direct_destroy(s->logs);
  free(s->columns);
  free(s->exponent);
  free(s->largest);
  free(s->seen);
  free(s->mass);
  free(s->raw);
  s->logs = NULL;
  s->columns = s->raw = s->largest = s->seen = s->mass = NULL;
  s->exponent = NULL;
}

void fk_direct_destroy(struct fk_direct *direct) {
  if (!direct) return;
  drop_columns(direct);
  fk_cells_free(&direct->cells);
  free(direct->groups);
  free(direct->position);
  free(direct);
}

/* ---- columns ---------------------------------------------------------------------------------- */

/* |b| that differ by more than 2^32 are summed in the log domain: the lightest might decide a sum far from the
 * others, and would be lost beside them. */
enum { WIDE = 32 };

/* In the cells' order, times 2^-exponent: by two factors, as one may be no double. */
struct scaling {
  const struct fk_cells *cells;
  const double *b;
  double half, rest, *to;
};

static void scale_some(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct scaling *s = data;
  for (int64_t j = first; j < end; j++) s->to[j] = s->b[s->cells->rows[j]] * s->half * s->rest;
}

static void scale_column(const struct fk_cells *cells, const double *b, int exponent, double *to, int threads) {
  struct scaling s = {cells, b, ldexp(1, -(exponent / 2)), ldexp(1, exponent / 2 - exponent), to};
  fk_parallel_for(threads, cells->n, fk_step_for_bytes(20), scale_some, &s);
}

/* The sum over the points of a leaf of the largest |b[j, c]|. */
static double leaf_mass(const struct fk_direct *s, const struct fk_cell *cell) {
  double sum = 0;
  if (!s->columns) return cell->end - cell->first;
  for (uint32_t j = cell->first; j < cell->end; j++) {
    double most = 0;
    for (int c = 0; c < s->n_columns; c++) most = fmax(most, fabs(s->columns[c * s->cells.n + j]));
    sum += most;
  }
  return sum;
}

static void weigh_leaves(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  struct fk_direct *s = data;
  for (int64_t i = first; i < end; i++)
    if (fk_cell_is_leaf(&s->cells, i)) s->mass[i] = leaf_mass(s, s->cells.cells + i);
}

static void find_masses(struct fk_direct *s, int threads) {
  const struct fk_cell *cells = s->cells.cells;
  fk_parallel_for(threads, s->cells.n_cells, fk_step_for_bytes(16.0 * FK_DIRECT_LEAF), weigh_leaves, s);
  for (int64_t i = s->cells.n_cells - 1; i >= 0; i--)
    if (!fk_cell_is_leaf(&s->cells, i)) s->mass[i] = s->mass[i + 1] + s->mass[cells[i + 1].skip];
}

/* Copies the unscaled columns, which columns with a wide range need. */
static enum fk_status keep_raw(struct fk_direct *s, const double *b, struct fk_error *err) {
  int64_t n = s->cells.n;
  s->raw = malloc(sizeof(double) * (size_t)(n * s->n_columns + 1));
  if (!s->raw) return out_of_memory(err, 8.0 * (double)n * s->n_columns);
  for (int c = 0; c < s->n_columns; c++) scale_column(&s->cells, b + c * n, 0, s->raw + c * n, 1);
  return FK_STATUS_OK;
}

enum fk_status fk_direct_set_columns(struct fk_direct *s, const double *b, int64_t n_columns,
                                     struct fk_error *err) {
  int64_t n = s->cells.n, columns = b ? n_columns : 1;
  int threads = fk_threads_for_bytes(s->options.threads, 40.0 * (double)n * (double)columns);
  bool wide = false;
  drop_columns(s);
  s->n_columns = (int)columns;
  s->columns = b ? calloc((size_t)(n * columns + FK_CELLS_SPARE), sizeof(double)) : NULL;
  s->exponent = calloc((size_t)columns, sizeof(int));
  s->largest = calloc((size_t)columns, sizeof(double));
  s->seen = calloc(2 * (size_t)columns, sizeof(double));
  s->mass = malloc(sizeof(double) * (size_t)(s->cells.n_cells + 1));
  if ((b && !s->columns) || !s->exponent || !s->largest || !s->seen || !s->mass)
    return out_of_memory(err, 8.0 * (double)n * (double)columns);
  for (int64_t c = 0; c < columns; c++) {
    double least = 1, most = 1;
    if (b) fk_sizes(b + c * n, n, threads, &least, &most);
    if (most > 0) {
      s->exponent[c] = ilogb(most);
      s->largest[c] = ldexp(most, -s->exponent[c]);
      wide = wide || s->exponent[c] - ilogb(least) > WIDE;
    }
    if (b) scale_column(&s->cells, b + c * n, s->exponent[c], s->columns + c * n, threads);
  }
  find_masses(s, threads);
  return wide && !s->lifted ? keep_raw(s, b, err) : FK_STATUS_OK;
}

enum fk_status fk_direct_restart(struct fk_direct *s, const double *b, int64_t n_columns,
                                 const struct fk_direct_options *options, struct fk_error *err) {
  s->options = *options;
  return fk_direct_set_columns(s, b, n_columns, err);
}

double fk_direct_rest(struct fk_direct *s) {
  const struct fk_cells *cells = &s->cells;
  double of_point = sizeof(double) * s->cells.d + 2 * sizeof(uint32_t);
  double of_cell = sizeof *cells->cells + 2 * sizeof(double) * cells->d;
  drop_columns(s);
  return (double)sizeof *s + of_point * (double)cells->n + of_cell * (double)cells->capacity +
         sizeof *s->groups * (double)s->n_groups;
}

static enum fk_status set_positions(struct fk_direct *s, struct fk_error *err) {
  if (s->position) return FK_STATUS_OK;
  s->position = malloc(sizeof(uint32_t) * (size_t)(s->cells.n + 1));
  if (!s->position) return out_of_memory(err, 4.0 * (double)s->cells.n);
  for (int64_t j = 0; j < s->cells.n; j++) s->position[s->cells.rows[j]] = (uint32_t)j;
  return FK_STATUS_OK;
}

/* ---- other structures of the same points -------------------------------------------------------- */

/* Points as they were given, n x d, in a matrix with `more` columns more; what is in the cells' order, where it
 * was given. */
static double *given_points(const struct fk_direct *s, int more) {
  int64_t n = s->cells.n;
  double *x = malloc(sizeof(double) * (size_t)(n * (s->d + more) + 1));
  for (int64_t k = 0; k < s->d && x; k++)
    for (int64_t j = 0; j < n; j++) x[k * n + s->cells.rows[j]] = s->cells.x[k * n + j];
  return x;
}
static void given_order(const struct fk_direct *s, const double *from, double *to) {
  for (int64_t j = 0; j < s->cells.n; j++) to[s->cells.rows[j]] = from[j];
}

enum fk_status fk_direct_one_column(const struct fk_direct *s, int64_t column, struct fk_direct **one,
                                    struct fk_error *err) {
  int64_t n = s->cells.n;
  double *x = given_points(s, 0), *b = malloc(sizeof(double) * (size_t)(n + 1));
  struct fk_matrix points = fk_doubles(x, n, s->d);
  const double *from = s->raw ? s->raw + column * n : s->columns ? s->columns + column * n : NULL;
  int exponent = s->raw ? 0 : s->exponent[column];
  enum fk_status status = x && b ? FK_STATUS_OK : out_of_memory(err, 8.0 * (double)n * s->d);
  *one = NULL;
  if (!status && from) given_order(s, from, b);
  for (int64_t j = 0; j < n && !status && from; j++) b[j] = ldexp(b[j], exponent);
  if (!status) status = create(&points, false, from ? b : NULL, 1, &s->options, one, err);
  free(x);
  free(b);
  return status;
}

/* b to beta in [1, 2), with its sign, and the coordinate whose square is 2 log 2 times what it lacks in binary
 * places. */
static void split_columns(double *b, double *lift, int64_t n, int top) {
  int lowest = top;
  for (int64_t j = 0; j < n; j++)
    if (b[j] != 0 && ilogb(b[j]) < lowest) lowest = ilogb(b[j]);
  for (int64_t j = 0; j < n; j++) {
    int places = top - (b[j] != 0 ? ilogb(b[j]) : lowest); /* what weighs nothing is out of the way */
    if (b[j] != 0) b[j] = ldexp(b[j], places - top);
    lift[j] = sqrt(2 * FK_LN2 * places);
  }
}

enum fk_status fk_direct_in_logs(struct fk_direct *s, struct fk_direct **by, struct fk_error *err) {
  int64_t n = s->cells.n;
  *by = s;
  if (!s->raw) return FK_STATUS_OK;
  if (!s->logs) {
    double *x = given_points(s, 1), *b = malloc(sizeof(double) * (size_t)(n + 1));
    struct fk_matrix points = fk_doubles(x, n, s->d + 1);
    enum fk_status status = x && b ? FK_STATUS_OK : out_of_memory(err, 8.0 * (double)n * s->d);
    if (!status) {
      given_order(s, s->raw, b);
      split_columns(b, x + s->d * n, n, s->exponent[0]);
      status = create(&points, true, b, 1, &s->options, &s->logs, err);
    }
    free(x);
    free(b);
    if (status) return status;
    s->logs->exponent[0] = s->exponent[0];
  }
  *by = s->logs;
  return FK_STATUS_OK;
}

/* ---- jobs ------------------------------------------------------------------------------------- */

enum fk_status fk_direct_check(const struct fk_direct *s, const struct fk_direct_job *job, struct fk_error *err) {
  int64_t m = job->targets.data ? job->targets.n : s->cells.n;
  if (!(job->tol >= 0) || job->ld < m || (job->targets.data && job->targets.d != s->d))
    return fk_fail(err, FK_STATUS_INVALID, "pruned sums: tolerance, dimension or leading dimension is wrong");
  if (job->self_first >= 0 && job->self_first + m > s->cells.n)
    return fk_fail(err, FK_STATUS_INVALID, "pruned sums: targets are out of the range of the sources");
  return FK_STATUS_OK;
}

/* Rows of the targets, in as many dimensions as the cells have: the coordinate more is 0. */
static double *gather_rows(const struct fk_direct *s, const struct fk_direct_job *job, const int64_t *rows,
                           int64_t n_rows) {
  const struct fk_matrix *y = &job->targets;
  double *x = calloc((size_t)(n_rows * s->cells.d + 1), sizeof(double));
  for (int64_t k = 0; k < s->d && x; k++)
    for (int64_t r = 0; r < n_rows; r++) {
      int64_t row = rows ? rows[r] : r;
      x[k * n_rows + r] = y->data ? fk_column(y, k)[row] : s->cells.x[k * s->cells.n + s->position[row]];
    }
  return x;
}

enum fk_status fk_direct_groups_init(struct fk_direct_groups *g, struct fk_direct *s,
                                     const struct fk_direct_job *job, const int64_t *rows, int64_t n_rows,
                                     struct fk_error *err) {
  memset(g, 0, sizeof *g);
  g->cells = &g->own;
  bool as_they_are = !job->targets.data && !rows && !s->lifted;
  bool positions = job->self_first >= 0 || (!job->targets.data && !as_they_are);
  enum fk_status status = positions ? set_positions(s, err) : FK_STATUS_OK;
  if (status) return status;
  if (as_they_are) {
    g->cells = &s->cells;
    g->list = s->groups;
    g->n = s->n_groups;
    return FK_STATUS_OK;
  }
  struct fk_matrix targets = job->targets;
  double *gathered = NULL;
  if (!targets.data || rows || s->lifted) {
    int64_t m = targets.data ? targets.n : s->cells.n;
    if (!rows) n_rows = m;
    gathered = gather_rows(s, job, rows, n_rows);
    if (!gathered) return out_of_memory(err, 8.0 * (double)n_rows * s->cells.d);
    targets = fk_doubles(gathered, n_rows, s->cells.d);
    g->rows = rows;
  }
  status = fk_cells_init(&g->own, &targets, FK_DIRECT_GROUP, s->options.threads, err);
  if (!status) status = fk_cells_groups(&g->own, FK_DIRECT_GROUP, &g->list, &g->n, err);
  free(gathered);
  return status;
}

void fk_direct_groups_free(struct fk_direct_groups *g) {
  if (g->cells == &g->own) free(g->list);
  fk_cells_free(&g->own);
}
