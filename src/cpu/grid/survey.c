/* A survey of points: their extent, and how many boxes of each size hold points. */
#include <math.h>
#include "../../core/costs.h"
#include <stdlib.h>
#include <string.h>

#include "../../core/count.h"
#include "blocks.h"
#include "grid.h"

/* Boxes that all n points would occupy, of which s sampled points occupy `seen`, `once` and `twice` of them with
 * one and two points (Chao and others, Ecol. Monogr. 84 (2014) 45, equation 9). */
static double extrapolate(double n, double s, double seen, double once, double twice) {
  if (n <= s || once < 1) return seen;
  double unseen = (s - 1) / s * (twice > 0 ? once * once / (2 * twice) : once * (once - 1) / 2);
  if (!(unseen > 0)) return seen;
  return seen + unseen * -expm1((n - s) * log1p(-fmin(once / (s * unseen + once), 1 - 1e-12)));
}

/* Points taken, evenly spread, and the boxes of two levels with how many of them are in each. */
struct grid_survey {
  const struct fk_grid_points *points;
  int64_t sampled;
  int d, bits; /* of a box's number, for each dimension */
  struct fk_blocks boxes[2];
  int64_t *counts[2];
};

static int64_t sampled_row(const struct grid_survey *s, int64_t i) {
  return (int64_t)((double)i * ((double)s->points->n / (double)s->sampled));
}

static double extent_of(const struct grid_survey *s, int k) {
  double low = INFINITY, high = -INFINITY;
  for (int64_t i = 0; i < s->sampled; i++) {
    double u = s->points->u[k * s->points->ld + sampled_row(s, i)];
    low = fmin(low, u);
    high = fmax(high, u);
  }
  return s->sampled ? high - low : 0;
}

/* Coordinates wrap around where they exceed a key. */
static uint64_t box_of_point(const struct grid_survey *s, int64_t i) {
  uint64_t key = 0, mask = ((uint64_t)1 << s->bits) - 1;
  int64_t row = sampled_row(s, i);
  for (int k = 0; k < s->d; k++)
    key |= ((uint64_t)(int64_t)(floor(s->points->u[k * s->points->ld + row]) + 0x1p40) & mask) << k * s->bits;
  return key;
}

static uint64_t box_around(const struct grid_survey *s, uint64_t box) {
  uint64_t key = 0, mask = ((uint64_t)1 << s->bits) - 1;
  for (int k = 0; k < s->d; k++) key |= (box >> k * s->bits & mask) >> 1 << k * s->bits;
  return key;
}

/* Boxes of side 1 from the points, then of 2, 4, ... from those before. False: no memory. */
static bool fill_level(struct grid_survey *s, int level) {
  const struct fk_blocks *from = &s->boxes[level % 2];
  struct fk_blocks *to = &s->boxes[(level + 1) % 2];
  int64_t *from_count = s->counts[level % 2], *to_count = s->counts[(level + 1) % 2];
  int64_t items = level ? from->n : s->sampled;
  fk_blocks_clear(to);
  for (int64_t i = 0; i < items; i++) {
    int64_t at = fk_blocks_insert(to, level ? box_around(s, from->keys[i]) : box_of_point(s, i));
    if (at < 0) return false;
    to_count[at] += level ? from_count[i] : 1;
  }
  memset(from_count, 0, (size_t)fk_larger(from->n, 1) * sizeof *from_count);
  return true;
}

static double boxes_of_level(const struct grid_survey *s, int level, double all) {
  const struct fk_blocks *boxes = &s->boxes[(level + 1) % 2];
  const int64_t *count = s->counts[(level + 1) % 2];
  double once = 0, twice = 0;
  for (int64_t i = 0; i < boxes->n; i++) {
    once += count[i] == 1;
    twice += count[i] == 2;
  }
  return extrapolate(all, (double)s->sampled, (double)boxes->n, once, twice);
}

enum fk_status fk_grid_survey(const struct fk_grid_points *points, double all, int d, struct fk_grid_work *work,
                              struct fk_error *err) {
  struct grid_survey s = {.points = points, .sampled = fk_smaller(points->n, fk_costs.choice.survey), .d = d};
  bool fits = true;
  s.bits = d == 1 ? 60 : 62 / d;
  for (int i = 0; i < 2; i++) {
    fk_blocks_init(&s.boxes[i], 0, false);
    s.counts[i] = calloc((size_t)s.sampled + 1, sizeof *s.counts[i]);
    fits = fits && s.counts[i];
  }
  for (int k = 0; k < d && fits; k++) work->extent[k] = extent_of(&s, k);
  for (int level = 0; level < FK_GRID_LEVELS && fits; level++) {
    fits = fill_level(&s, level);
    if (fits) work->boxes[level] = boxes_of_level(&s, level, all);
  }
  for (int i = 0; i < 2; i++) {
    fk_blocks_free(&s.boxes[i]);
    free(s.counts[i]);
  }
  return fits ? FK_STATUS_OK : fk_no_memory(err, 0, "a survey of the points");
}
