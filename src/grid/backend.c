/* What both back ends do with the values of their grids. */
#include "backend.h"

#include "../core/pool.h"
#include "../core/threads.h"

struct joined {
  double *out;
  const double *from;
  double scale;
  bool first;
};

static void join(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct joined *a = data;
  for (int64_t i = first; i < end; i++) a->out[i] = (a->first ? 0 : a->out[i]) + a->scale * a->from[i];
}

void fk_grid_join(const struct fk_grid_task *task, int64_t at, int64_t count, double scale, bool first,
                  const double *value) {
  int threads = fk_threads_for_bytes(task->opts->threads, 24.0 * (double)count);
  for (int64_t c = 0; c < task->columns; c++) {
    struct joined a = {
        .out = fk_grid_out(task, c) + at, .from = value + c * count, .scale = scale, .first = first};
    if (a.from != a.out) fk_parallel_for(threads, count, fk_step_for_bytes(24), join, &a);
  }
}

struct coordinates {
  double *out;
  const double *slope, *u, *mass, *b;
  double scale, own;
};

static void join_coordinates(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct coordinates *a = data;
  for (int64_t i = first; i < end; i++) {
    double own = a->own != 0 && a->b ? a->own * a->b[i] : a->own;
    a->out[i] = a->scale * a->slope[i] + a->u[i] * (a->mass[i] - own);
  }
}

void fk_grid_join_coordinates(const struct fk_grid_task *task, int64_t at, int64_t count, double scale,
                              const double *slope, int64_t ld, const double *u) {
  int threads = fk_threads_for_bytes(task->opts->threads, 24.0 * (double)count);
  for (int64_t k = 0; k < task->sources.d; k++) {
    struct coordinates a = {.out = task->sums + k * task->targets.n + at,
                            .slope = slope + k * ld,
                            .u = u + k * count,
                            .mass = task->mass + at,
                            .b = task->b ? task->b + at : NULL,
                            .scale = scale,
                            .own = task->own};
    fk_parallel_for(threads, count, fk_step_for_bytes(24), join_coordinates, &a);
  }
}
