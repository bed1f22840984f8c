/* Gaussian sums in time linear in the points, d = 1 .. 7, on the CPU: spread the sources onto a grid, filter it,
 * interpolate at the targets (grid/window.h says why that is exact up to a tolerance).
 *
 *   V[i, q] = sum_j b[j, q] f(r_ij^2 / 2) exp(-r_ij^2 / 2),   f = 1, or 1 + d/2 - r^2/2 for the Laplace correction
 *
 * Points are whitened: unit bandwidth. The grid exists only in blocks near points, found through a hash table, so
 * outliers cost a few blocks. Sources and targets come in any number of calls, and a call's order of points never
 * matters to its memory: that is O(blocks) + O(one batch). Results have the same bits for any number of threads.
 *
 *   fk_grid_create -> fk_grid_add ... [-> fk_grid_expect ...] -> fk_grid_convolve -> fk_grid_evaluate ... ->
 * fk_grid_free
 *
 * Points used more than once (targets that are the sources; new b) are sorted once: fk_grid_sort. After a failure
 * a grid can only be cleared or freed. b and points are finite; with `single`, b far from the ends of a float's
 * range.
 */
#pragma once

#include "../../core/bytes.h"
#include "../../grid/points.h"
#include "../../grid/work.h"

struct fk_grid;   /* the blocks, their window and filters */
struct fk_sorted; /* points in the order of the blocks, for grids of one window, d and precision */

struct fk_grid_spec {
  int d;
  int64_t columns; /* of b */
  unsigned use;    /* enum fk_window_use */
  bool single;     /* inner loops in float (block-relative, totals in double); good to about 1e-6 */
  struct fk_window window;
  int threads; /* as struct fk_opts has it */
  struct fk_poll poll;
  double most_bytes; /* of blocks; 0: as many as memory takes. Beyond it calls are FK_STATUS_UNSUPPORTED */
};

/* An empty grid; the caller frees *grid. Fails with FK_STATUS_ALLOC, or FK_STATUS_UNSUPPORTED for a dimension or
 * window without code. */
enum fk_status fk_grid_create(const struct fk_grid_spec *spec, struct fk_grid **grid, struct fk_error *err);
void fk_grid_free(struct fk_grid *grid);
double fk_grid_held(const struct fk_grid *grid); /* bytes of its blocks */
/* Resets a grid to its state after fk_grid_create(), but for its memory and the announced targets. */
void fk_grid_restart(struct fk_grid *grid, const struct fk_poll *poll);

/* Sorts points into *sorted, which is NULL or has earlier points. After a failure *sorted is NULL. */
enum fk_status fk_grid_sort(struct fk_grid *grid, const struct fk_grid_points *points, struct fk_sorted **sorted,
                            struct fk_error *err);
void fk_sorted_free(struct fk_sorted *sorted);

/* Adds sources with coefficients b[q * ld_b + j]; NULL: ones (one column). FK_STATUS_UNSUPPORTED: coordinates
 * exceed the range of a block's key: +-2^29 blocks in 2 dimensions, 2^19 in 3, 2^14, 2^11, 2^9, 2^7 from 4 to
 * 7. */
enum fk_status fk_grid_add(struct fk_grid *grid, const struct fk_grid_points *points, const double *b,
                           int64_t ld_b, struct fk_error *err);
enum fk_status fk_grid_add_sorted(struct fk_grid *grid, const struct fk_sorted *points, const double *b,
                                  int64_t ld_b, struct fk_error *err);

/* put: serializes the sums of the sources. take: adds serialized sums of a grid of the same spec, with columns
 * multiplied by 2^shift. */
void fk_grid_put(const struct fk_grid *grid, struct fk_bytes *to);
enum fk_status fk_grid_take(struct fk_grid *grid, struct fk_bytes *from, const int *shift, struct fk_error *err);

/* Announces targets. Optional: without it, every block within reach of sources is computed; with it, only the
 * blocks of announced targets, and other targets fail with FK_STATUS_INVALID. */
enum fk_status fk_grid_expect(struct fk_grid *grid, const struct fk_grid_points *points, struct fk_error *err);
enum fk_status fk_grid_expect_sorted(struct fk_grid *grid, const struct fk_sorted *points, struct fk_error *err);

/* Filters with the bandwidth `scale` >= 1 in place of 1 (coordinates stay as they are). May be called again, with
 * another scale or after more sources. */
enum fk_status fk_grid_convolve(struct fk_grid *grid, double scale, struct fk_error *err);
/* Filters with a sum of Gaussians, weights[c] exp(-r^2 / (2 scales[c]^2)). Not for FK_WINDOW_LAPLACE. */
enum fk_status fk_grid_convolve_sum(struct fk_grid *grid, const double *scales, const double *weights, int count,
                                    struct fk_error *err);

/* Writes the filtered sums at the points to value[q * ld + i] and, if gradient is not NULL, their derivatives by
 * u_k to gradient[(q * d + k) * ld + i]. Both are exactly 0 where no source is near. */
enum fk_status fk_grid_evaluate(struct fk_grid *grid, const struct fk_grid_points *points, double *value,
                                double *gradient, int64_t ld, struct fk_error *err);
enum fk_status fk_grid_evaluate_sorted(struct fk_grid *grid, const struct fk_sorted *points, double *value,
                                       double *gradient, int64_t ld, struct fk_error *err);

/* ---- how long it takes ------------------------------------------------------------------------ */

/* The sides of a block, in cells; returns their product. */
int64_t fk_grid_sides(int d, int64_t sides[FK_GRID_MAX_D]);

/* Fills extent and boxes. points: all n of them, or a sample that is spread evenly. */
enum fk_status fk_grid_survey(const struct fk_grid_points *points, double n, int d, struct fk_grid_work *work,
                              struct fk_error *err);
/* Estimated time with a window, and bytes of the grid, if targets are announced. Otherwise blocks all around the
 * sources are computed, which in 4 and more dimensions are far more. */
double fk_grid_seconds(const struct fk_grid_work *work, const struct fk_window *window, bool single, int threads);
double fk_grid_bytes(const struct fk_grid_work *work, const struct fk_window *window, bool single);
/* On one thread: the same window for any number of them. */
fk_grid_cost fk_grid_seconds_alone;
