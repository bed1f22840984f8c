#include "box.h"

#include <math.h>

#include "../core/count.h"
#include "../core/pool.h"
#include "../core/threads.h"

/* What a thread works with, followed by two blocks of points. */
struct box_search {
  const struct fk_fast_job *job;
  const struct fk_matrix *points;
  struct fk_scratch boxes;
};

static void widen_box(void *data, int64_t from, int64_t to, int slot) {
  const struct box_search *s = data;
  int64_t d = s->job->d;
  struct fk_fast_box *own = fk_scratch_at(&s->boxes, slot);
  double *u = (double *)(own + 1);
  for (int64_t i = from; i < to; i++) {
    int64_t at = i * FK_BLOCK, rows = fk_smaller(s->points->n - at, FK_BLOCK);
    fk_whiten(s->job->task->whitening, s->points, NULL, at, rows, u, FK_BLOCK, u + FK_BLOCK * d);
    for (int64_t k = 0; k < d; k++)
      for (int64_t r = 0; r < rows; r++) {
        double x = u[k * FK_BLOCK + r];
        own->low[k] = x < own->low[k] ? x : own->low[k];
        own->high[k] = x > own->high[k] ? x : own->high[k];
      }
  }
}

enum fk_status fk_fast_find_box(const struct fk_fast_job *job, const struct fk_matrix *points,
                                struct fk_fast_box *box, struct fk_error *err) {
  struct box_search s = {job, points, {NULL, 0}};
  int64_t d = job->d;
  double bytes = 16.0 * (double)d;
  int threads = fk_threads_for_bytes(job->opts->threads, bytes * (double)points->n);
  for (int64_t k = 0; k < d; k++) box->low[k] = INFINITY, box->high[k] = -INFINITY;
  if (!fk_scratch_init(&s.boxes, threads, sizeof(struct fk_fast_box) + sizeof(double) * 2 * FK_BLOCK * (size_t)d))
    return fk_no_memory(err, 0, "whitening points");
  for (int t = 0; t < threads; t++) *(struct fk_fast_box *)fk_scratch_at(&s.boxes, t) = *box;
  fk_parallel_for(threads, fk_pieces(points->n, FK_BLOCK), fk_step_for_bytes(FK_BLOCK * bytes), widen_box, &s);
  for (int t = 0; t < threads; t++) {
    const struct fk_fast_box *own = fk_scratch_at(&s.boxes, t);
    for (int64_t k = 0; k < d; k++) {
      box->low[k] = fmin(box->low[k], own->low[k]);
      box->high[k] = fmax(box->high[k], own->high[k]);
    }
  }
  fk_scratch_free(&s.boxes);
  return FK_STATUS_OK;
}

double fk_fast_box_reach(const struct fk_fast_box *box, int64_t d) {
  double reach = 0;
  for (int64_t k = 0; k < d; k++) reach = fmax(reach, fmax(fabs(box->low[k]), fabs(box->high[k])));
  return reach;
}

enum fk_status fk_fast_find_reach(struct fk_fast_job *job, double of_targets, struct fk_error *err) {
  struct fk_fast_box box;
  enum fk_status status = FK_STATUS_OK;
  if (of_targets < 0) status = fk_fast_find_box(job, fk_task_targets(job->task), &box, err);
  if (status) return status;
  job->reach = of_targets < 0 ? fk_fast_box_reach(&box, job->d) : of_targets;
  if (job->same || fk_fast_keeps_places(job)) return FK_STATUS_OK;
  status = fk_fast_find_box(job, &job->task->sources, &box, err);
  if (!status) job->reach = fmin(job->reach, fk_fast_box_reach(&box, job->d));
  return status;
}
