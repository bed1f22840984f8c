/* The axes of a grid: which intervals of cells it has. All on the host. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "grid.cuh"

/* Intervals first .. end - 1, ascending and disjoint. */
struct interval {
  int64_t first, end;
};
struct list {
  struct interval *at = NULL;
  int64_t count = 0;
  ~list() { free(at); }
};

static enum fk_status out_of_memory(struct fk_error *err) {
  return fk_fail(err, FK_STATUS_ALLOC, "out of memory for the axes of a grid");
}

/* Appends an interval that begins no earlier than the last one; joins the two if the gap is shorter than `apart`.
 */
static void append(struct list *list, int64_t first, int64_t end, int64_t apart) {
  if (first >= end) return;
  struct interval *last = list->count ? &list->at[list->count - 1] : NULL;
  if (last && first - last->end < apart)
    last->end = fk_larger(last->end, end);
  else
    list->at[list->count++] = (struct interval){first, end};
}

/* The occupied intervals of an axis. Gaps of fewer than 16 cells are not worth a cut. */
static enum fk_status occupied(const struct fk_grid_occupied *side, int k, const struct fk_grid_bins *bins,
                               struct list *list, struct fk_error *err) {
  list->at = (struct interval *)malloc(sizeof *list->at * (size_t)(side->marks ? bins->bins / 2 + 2 : 1));
  if (!list->at) return out_of_memory(err);
  if (!(side->low[k] <= side->high[k])) return FK_STATUS_OK; /* no points */
  int64_t low = (int64_t)floor(side->low[k]), high = (int64_t)floor(side->high[k]) + 1;
  if (!side->marks) {
    append(list, low, high, 0);
    return FK_STATUS_OK;
  }
  for (int64_t i = 0; i < bins->bins; i++) {
    int64_t first = bins->origin[k] + i * bins->cells[k];
    if (side->marks[k * bins->bins + i])
      append(list, fk_larger(first, low), fk_smaller(first + bins->cells[k], high), 16);
  }
  return FK_STATUS_OK;
}

/* The parts of a list that come within `reach` of another list. */
static enum fk_status near(const struct list *list, const struct list *other, int64_t reach, int64_t apart,
                           struct list *out, struct fk_error *err) {
  out->at = (struct interval *)malloc(sizeof *out->at * (size_t)(list->count + other->count + 1));
  if (!out->at) return out_of_memory(err);
  for (int64_t i = 0, j = 0; i < list->count && j < other->count;) {
    int64_t first = other->at[j].first - reach, end = other->at[j].end + reach;
    append(out, fk_larger(list->at[i].first, first), fk_smaller(list->at[i].end, end), apart);
    if (list->at[i].end < end)
      i++;
    else
      j++;
  }
  return FK_STATUS_OK;
}

static enum fk_status segments(const struct list *list, int width, struct fk_grid_segments *out,
                               struct fk_error *err) {
  int64_t offset = 0;
  out->at = (struct fk_grid_segment *)malloc(sizeof *out->at * (size_t)(list->count + 1));
  if (!out->at) return out_of_memory(err);
  out->count = (int)list->count;
  for (int64_t i = 0; i < list->count; i++) {
    int64_t cells = list->at[i].end - list->at[i].first;
    if (offset + cells + width > INT32_MAX)
      return fk_fail(err, FK_STATUS_UNSUPPORTED, "points are too sparse for a grid on a GPU");
    out->at[i] = (struct fk_grid_segment){list->at[i].first, (int)cells, (int)offset};
    offset += cells + width - 1;
  }
  return FK_STATUS_OK;
}

void fk_grid_axes_free(struct fk_grid_axes *axes) {
  for (int k = 0; k < FK_GRID_MAX_D; k++) {
    free(axes->source[k].at);
    free(axes->target[k].at);
    axes->source[k].at = axes->target[k].at = NULL;
  }
}

static enum fk_status make_axis(struct fk_grid_axes *axes, int k, int reach,
                                const struct fk_grid_occupied *sources, const struct fk_grid_occupied *targets,
                                const struct fk_grid_bins *bins, struct fk_error *err) {
  struct list s, t, near_s, near_t;
  const int width = axes->width;
  FK_TRY(occupied(sources, k, bins, &s, err));
  FK_TRY(occupied(targets, k, bins, &t, err));
  /* stencils of different intervals must not overlap */
  FK_TRY(near(&s, &t, reach + width, width + 15, &near_s, err));
  FK_TRY(near(&t, &s, reach + width, width + 15, &near_t, err));
  FK_TRY(segments(&near_s, width, &axes->source[k], err));
  return segments(&near_t, width, &axes->target[k], err);
}

enum fk_status fk_grid_axes_init(struct fk_grid_axes *axes, int d, int width, int reach,
                                 const struct fk_grid_occupied *sources, const struct fk_grid_occupied *targets,
                                 const struct fk_grid_bins *bins, struct fk_error *err) {
  enum fk_status status = FK_STATUS_OK;
  memset(axes, 0, sizeof *axes);
  axes->d = d;
  axes->width = width;
  for (int k = 0; k < d && !status; k++) status = make_axis(axes, k, reach, sources, targets, bins, err);
  if (status) fk_grid_axes_free(axes);
  return status;
}

/* ---- sizes ------------------------------------------------------------------------------------ */

static double nodes(const struct fk_grid_segments *s, int width) {
  return s->count ? (double)s->at[s->count - 1].offset + s->at[s->count - 1].cells + width - 1 : 0;
}

double fk_grid_axes_nodes(const struct fk_grid_axes *axes, bool target) {
  double product = 1;
  for (int k = 0; k < axes->d; k++) product *= nodes(target ? &axes->target[k] : &axes->source[k], axes->width);
  return product;
}

/* After j passes, the first j axes are the targets' and the others still the sources'. */
double fk_grid_axes_between(const struct fk_grid_axes *axes) {
  double most = 0;
  for (int j = 0; j <= axes->d; j++) {
    double product = 1;
    for (int k = 0; k < axes->d; k++) product *= nodes(k < j ? &axes->target[k] : &axes->source[k], axes->width);
    most = fmax(most, product);
  }
  return most;
}
