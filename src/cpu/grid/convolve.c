/* The filter, on blocks that can be reached; only on those from which an expected
 * target can be reached, where targets were announced.
 *
 * Laplace: with A the sums of G and B those of Q = (t^2/2) G along one of the dimensions so far, a pass makes
 *   A <- G A,  B <- G B + Q A,   and the last one  (1 + d/2) A - B  by  ((1 + d/2) G - Q) A - G B:
 * one filter more on the grid, and no difference of two sums over points.
 */
#include <math.h>
#include <stdlib.h>

#include "../../core/aligned.h"
#include "../../core/count.h"
#include "../../core/pool.h"
#include "../../core/threads.h"
#include "filter.h"
#include "state.h"

static enum fk_status no_memory(struct fk_error *err) { return fk_grid_no_memory(err, "the filtered blocks"); }

/* ---- what the passes are ---------------------------------------------------------------------- */

struct filters {
  void *memory, *gauss, *laplace, *last, *minus;
};

static enum fk_status make_filters(const struct fk_grid *g, double scale, struct filters *f, int *reach,
                                   struct fk_error *err) {
  double gauss[FK_WINDOW_REACH + 1], laplace[FK_WINDOW_REACH + 1], mixed[FK_WINDOW_REACH + 1] = {0};
  bool both = g->spec.use & FK_WINDOW_LAPLACE;
  enum fk_status status = fk_window_taps(&g->spec.window, scale, gauss, both ? laplace : NULL, reach, err);
  if (status) return status;
  f->memory = fk_filter_memory(g->ops, 4);
  if (!f->memory) return no_memory(err);
  f->gauss = fk_filter_taps(g->ops, f->memory, 0, gauss, *reach);
  if (!both) return FK_STATUS_OK;
  f->laplace = fk_filter_taps(g->ops, f->memory, 1, laplace, *reach);
  for (int i = 0; i <= *reach; i++) mixed[i] = (1 + 0.5 * g->spec.d) * gauss[i] - laplace[i];
  f->last = fk_filter_taps(g->ops, f->memory, 2, mixed, *reach);
  for (int i = 0; i <= *reach; i++) mixed[i] = -gauss[i];
  f->minus = fk_filter_taps(g->ops, f->memory, 3, mixed, *reach);
  return FK_STATUS_OK;
}

static void add_term(struct fk_filter_pass *pass, int to, int from, const void *taps) {
  if (from < pass->planes_in) pass->terms[pass->n_terms++] = (struct fk_filter_term){to, from, taps};
}

static void make_pass(const struct fk_grid *g, const struct filters *f, int k, struct fk_filter_pass *pass) {
  bool both = g->spec.use & FK_WINDOW_LAPLACE, last = k == g->spec.d - 1;
  pass->planes_in = both && k > 0 ? 2 : 1;
  pass->planes_out = both && !last ? 2 : 1;
  pass->n_terms = 0;
  add_term(pass, 0, 0, both && last ? f->last : f->gauss);
  if (both && last) add_term(pass, 0, 1, f->minus);
  if (both && !last) add_term(pass, 1, 0, f->laplace);
  if (both && !last) add_term(pass, 1, 1, f->gauss);
}

/* ---- blocks ----------------------------------------------------------------------------------- */

/* Blocks whose values the expected targets read. */
static bool wanted(const struct fk_grid *g, struct fk_blocks *to) {
  for (int64_t i = 0; i < g->expected.n; i++) {
    const struct fk_extent *e = fk_blocks_at(&g->expected, i);
    for (int slot = 0; slot < g->slots.count; slot++) {
      struct fk_box box;
      int64_t first[FK_GRID_MAX_D];
      if (fk_slot_box(g, e->low, e->high, slot, &box, first) &&
          fk_blocks_insert(to, g->expected.keys[i] + g->slots.key[slot]) < 0)
        return false;
    }
  }
  return true;
}

static void narrow_blocks(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  struct fk_grid *g = data;
  for (int64_t i = first; i < end; i++)
    g->ops->convert(fk_blocks_at(&g->narrow, i), fk_blocks_at(&g->totals, i), g->layout.cells * g->spec.columns);
}

/* The totals as the filter's input: themselves, or in float. */
static enum fk_status narrow(struct fk_grid *g, const struct fk_blocks **in, struct fk_error *err) {
  *in = &g->totals;
  if (!g->spec.single) return FK_STATUS_OK;
  *in = &g->narrow;
  fk_blocks_clear(&g->narrow);
  for (int64_t i = 0; i < g->totals.n; i++)
    if (fk_blocks_insert(&g->narrow, g->totals.keys[i]) < 0) return no_memory(err);
  int threads = fk_threads_for_bytes(g->spec.threads, (double)g->totals.n * (double)g->totals.bytes);
  fk_parallel_for(threads, g->totals.n, fk_step_for_bytes((double)g->totals.bytes), narrow_blocks, g);
  return FK_STATUS_OK;
}

/* Limits both tables of results to the memory that the totals leave. */
static void limit_results(struct fk_grid *g) {
  if (!(g->spec.most_bytes > 0)) return;
  double left = g->spec.most_bytes - (double)g->totals.n * fk_grid_total_bytes(g);
  g->result.most = g->between.most = 1 + (int64_t)(fmax(left, 0) / fk_grid_result_bytes(g));
}

enum fk_status fk_grid_convolve(struct fk_grid *g, double scale, struct fk_error *err) {
  struct fk_filter filter = {.layout = &g->layout, .ops = g->ops, .columns = g->spec.columns};
  struct filters f = {.memory = NULL};
  const struct fk_blocks *in = NULL;
  struct fk_blocks needed;
  fk_blocks_init(&needed, 0, false);
  filter.threads = g->spec.threads;
  filter.poll = g->spec.poll;
  g->convolved = false;
  enum fk_status status = make_filters(g, scale, &f, &filter.reach, err);
  for (int k = 0; k < g->spec.d; k++) make_pass(g, &f, k, &filter.pass[k]);
  if (!status) status = narrow(g, &in, err);
  limit_results(g);
  if (!status && g->expecting && !wanted(g, &needed)) status = no_memory(err);
  if (!status) status = fk_filter_run(&filter, in, g->expecting ? &needed : NULL, &g->result, &g->between, err);
  fk_blocks_free(&needed);
  fk_aligned_free(f.memory);
  g->convolved = !status;
  return status;
}

/* ---- a sum of filters ------------------------------------------------------------------------- */

static void add_block(const struct fk_grid *g, double weight, const void *from, void *to) {
  int64_t cells = g->layout.cells * g->spec.columns;
  if (g->spec.single)
    for (int64_t i = 0; i < cells; i++) ((float *)to)[i] += (float)weight * ((const float *)from)[i];
  else
    for (int64_t i = 0; i < cells; i++) ((double *)to)[i] += weight * ((const double *)from)[i];
}

struct convolve_addition {
  struct fk_grid *grid;
  double weight;
  const int64_t *place;
};

static void add_blocks(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct convolve_addition *a = data;
  struct fk_grid *g = a->grid;
  for (int64_t i = first; i < end; i++)
    add_block(g, a->weight, fk_blocks_at(&g->result, i), fk_blocks_at(&g->sum, a->place[i]));
}

static enum fk_status add_result(struct fk_grid *g, double weight, struct fk_error *err) {
  int64_t n = g->result.n, *place = malloc(sizeof *place * (size_t)fk_larger(n, 1));
  bool fits = place != NULL;
  for (int64_t i = 0; i < n && fits; i++) fits = (place[i] = fk_blocks_insert(&g->sum, g->result.keys[i])) >= 0;
  int threads = fk_threads_for_bytes(g->spec.threads, 3.0 * (double)n * (double)g->sum.bytes);
  struct convolve_addition addition = {g, weight, place};
  if (fits) fk_parallel_for(threads, n, fk_step_for_bytes(3.0 * (double)g->sum.bytes), add_blocks, &addition);
  free(place);
  return fits ? FK_STATUS_OK : no_memory(err);
}

enum fk_status fk_grid_convolve_sum(struct fk_grid *g, const double *scales, const double *weights, int count,
                                    struct fk_error *err) {
  enum fk_status status = FK_STATUS_OK;
  fk_blocks_clear(&g->sum);
  for (int c = 0; c < count && !status; c++) {
    status = fk_grid_convolve(g, scales[c], err);
    if (!status) status = add_result(g, weights[c], err);
  }
  struct fk_blocks last = g->result;
  g->result = g->sum;
  g->sum = last;
  g->result.zeroed = false;
  g->sum.zeroed = true;
  fk_blocks_clear(&g->sum);
  g->convolved = !status;
  return status;
}
