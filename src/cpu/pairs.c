#include "pairs.h"

#include "../core/plan.h"
#include "../core/threads.h"

enum fk_status fk_pairs_run(struct fk_pairs *p, fk_pairs_body body, void *data, const struct fk_opts *opts,
                            struct fk_stats *stats, struct fk_error *err) {
  double started = fk_seconds(), pairs = (double)p->x->n * (double)p->x->n;
  struct fk_whitening whitening = {.centre = NULL};
  p->mode.ops = fk_isa()->f64;
  p->mode.difference = true;
  p->threads = fk_threads_for_work(opts->threads, pairs * p->work);
  enum fk_status status = fk_whitening_init(&whitening, p->chol, p->x, p->weights, opts->threads, err);
  if (!status)
    status = fk_packed_all(&p->points, &p->mode, p->x, &whitening, p->weights, p->threads, &p->weight_scale, err);
  if (!status && !fk_scratch_init(&p->scratch, p->threads, p->room))
    status = fk_no_memory(err, 0, fk_operation_words(p->operation));
  if (!status) status = body(data, &opts->poll, err);
  fk_scratch_free(&p->scratch);
  fk_packed_free(&p->points);
  fk_whitening_free(&whitening);
  fk_plan_describe(opts, p->operation, pairs, started, p->threads, stats);
  return status;
}
