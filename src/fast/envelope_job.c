/* The envelope of a job: from cells that a device has counted, or from the points, where an operator may keep it.
 */
#include "envelope_job.h"

#include <math.h>
#include <stdlib.h>

#include "../core/costs.h"
#include "../core/count.h"
#include "../core/kept.h"
#include "../core/method.h"
#include "columns.h"
#include "guess.h"

/* Nodes are to take a part of the grid's seconds, and of the memory: points thin for a grid are so for nodes.
 * Where the grid is wished for, they may take some seconds. */
static double most_nodes(const struct fk_fast_job *job, double grid_seconds) {
  const struct fk_fast_choice_costs *c = &fk_costs.choice;
  bool wished = job->opts->engine == FK_ENGINE_FAST || !fk_fast_may_be(job->opts, FK_METHOD_DIRECT);
  double planes = 2.0 * (job->gradient ? 2 : 1) * (job->laplace != 0 ? 2 : 1);
  double each = c->node * planes * (double)job->d, least = wished ? c->nodes_wished : c->nodes_least;
  return fmin(fmax(least, c->nodes_share * grid_seconds / each), c->nodes_bytes / (16 * planes));
}

/* Few points are sooner done here. */
static bool is_on_device(const struct fk_fast_job *job) {
  if (!job->grid->cells) return false;
  double points = (double)job->n + (job->same ? 0 : (double)job->m);
  return points > fk_costs.choice.device_points || (job->opts->methods & FK_METHOD_ENVELOPE);
}

static enum fk_status take_cells(const struct fk_fast_job *job, const struct fk_envelope_spec *spec,
                                 struct fk_envelope *envelope, struct fk_error *err) {
  struct fk_grid_task task = fk_fast_grid_task(job);
  struct fk_grid_cells cells;
  enum fk_status status = job->grid->cells(&task, spec->counted, spec->most_nodes, &cells, err);
  if (status) return status;
  status = fk_envelope_take(envelope, &cells, err);
  free(cells.memory);
  return status;
}

static void free_kept(void *envelope) { fk_envelope_free(envelope); }

/* The envelope of the operator's last sum, if it serves. */
static struct fk_envelope *take_kept(struct fk_operator *op, const struct fk_envelope_spec *spec) {
  struct fk_envelope *kept = op ? fk_kept_take(op, FK_KEEPER_ENVELOPE) : NULL;
  if (!kept || fk_envelope_reuse(kept, spec)) return kept;
  fk_envelope_free(kept);
  return NULL;
}

void fk_fast_envelope_close(const struct fk_fast_envelope *e) {
  double bytes = e->keeper && e->envelope ? fk_envelope_empty(e->envelope) : 0;
  struct fk_kept what = {.state = e->envelope, .free = free_kept, .bytes = bytes};
  if (bytes > 0)
    fk_keep(e->keeper, FK_KEEPER_ENVELOPE, what, e->opts);
  else
    fk_envelope_free(e->envelope);
}

static enum fk_status make_on_device(const struct fk_fast_job *job, const struct fk_envelope_spec *spec,
                                     struct fk_envelope **envelope, struct fk_error *err) {
  enum fk_status status = fk_envelope_create(spec, envelope, err);
  return status ? status : take_cells(job, spec, *envelope, err);
}

enum fk_status fk_fast_envelope_open(const struct fk_fast_job *job, double grid_seconds,
                                     struct fk_fast_envelope *e, struct fk_error *err) {
  struct fk_envelope_spec spec = {.d = (int)job->d, .threads = job->opts->threads, .plain = job->plain};
  struct fk_envelope **envelope = &e->envelope;
  *e = (struct fk_fast_envelope){.opts = job->opts};
  spec.laplace = job->laplace;
  spec.gradient = job->gradient;
  spec.points = (double)fk_larger(job->n, job->m);
  spec.poll = job->opts->poll;
  spec.most_nodes = most_nodes(job, grid_seconds);
  spec.counted = job->grid->unit > 0 && job->b;
  if (is_on_device(job)) {
    struct fk_error why = {FK_STATUS_OK, ""};
    enum fk_status there = make_on_device(job, &spec, envelope, &why);
    if (there == FK_STATUS_INTERRUPTED) return fk_fail(err, there, "%s", why.message);
    if (!there) return there;
    fk_envelope_free(*envelope); /* thin points, or no memory there: on the CPU */
    *envelope = NULL;
  }
  if (job->same) e->keeper = fk_task_keeper(job->task);
  spec.stays = e->keeper && (double)job->n * (8.0 * (double)job->d + 4) <= fk_kept_limit(job->opts);
  *envelope = take_kept(e->keeper, &spec);
  enum fk_status status = *envelope ? FK_STATUS_OK : fk_envelope_create(&spec, envelope, err);
  struct fk_envelope_points sources = {.raw = &job->task->sources, .whitening = job->task->whitening};
  struct fk_envelope_points targets = sources;
  sources.mass = job->b ? fk_fast_masses : NULL;
  sources.data = job;
  targets.raw = fk_task_targets(job->task);
  if (!status) status = fk_envelope_add(*envelope, &sources, job->same, err);
  if (!status && !job->same) status = fk_envelope_expect(*envelope, &targets, err);
  return status;
}
