#include "pairs.h"

#include "../core/count.h"
#include "../core/plan.h"
#include "../core/threads.h"

void fk_pairs_columns(const struct fk_pairs *p, struct fk_tile *tile, int64_t first, int64_t count) {
  tile->d = p->points.d;
  tile->n_cols = (int)fk_padded(count, p->mode.ops->panel);
  tile->cols = fk_packed_points_at(&p->points, &p->mode, first);
  tile->col_const = fk_packed_constant_at(&p->points, &p->mode, first);
  tile->col_weight = fk_packed_weight_at(&p->points, &p->mode, first);
}

void fk_pairs_rows(const struct fk_pairs *p, struct fk_tile *tile, int64_t first, int64_t count) {
  tile->n_rows = (int)fk_padded(fk_smaller(FK_TILE_ROWS, count), p->mode.ops->row_step);
  tile->first_row = first;
  tile->rows = fk_packed_points_at(&p->points, &p->mode, first);
  tile->row_const = fk_packed_constant_at(&p->points, &p->mode, first);
  tile->row_weight = fk_packed_weight_at(&p->points, &p->mode, first);
}

enum fk_status fk_pairs_run(const struct fk_pairs_job *job, const struct fk_opts *opts, struct fk_stats *stats,
                            struct fk_error *err) {
  double started = fk_seconds(), pairs = (double)job->x->n * (double)job->x->n;
  struct fk_whitening whitening = {.centre = NULL};
  struct fk_pairs p = {.mode = {.ops = fk_isa()->f64, .difference = true, .scale = job->scale}};
  p.threads = fk_threads_for_work(opts->threads, pairs * job->work);
  enum fk_status status = fk_whitening_init(&whitening, job->chol, job->x, job->weights, opts->threads, err);
  if (!status)
    status = fk_packed_all(&p.points, &p.mode, job->x, &whitening, job->weights, p.threads, &p.weight_scale, err);
  if (!status && !fk_scratch_init(&p.scratch, p.threads, job->room))
    status = fk_fail(err, FK_STATUS_ALLOC, "out of memory for sums over pairs of points");
  if (!status) status = job->body(&p, job->data, opts, err);
  fk_scratch_free(&p.scratch);
  fk_packed_free(&p.points);
  fk_whitening_free(&whitening);
  fk_plan_describe(opts, fk_operation_name(job->operation), pairs, started, stats);
  stats->threads = p.threads;
  return status;
}
