/* Groups of targets: the loop over all of them, and the work on one, packing and the tile over what is packed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/aligned.h"
#include "../../core/costs.h"
#include "../../core/count.h"
#include "../../core/pool.h"
#include "../../core/threads.h"
#include "direct_parts.h"

bool fk_direct_group_init(struct fk_direct_group *group, const struct fk_direct *direct,
                          const struct fk_direct_job *job) {
  struct fk_direct_tile *tile = &group->tile;
  size_t d = (size_t)direct->d, columns = (size_t)direct->n_columns, real = sizeof(double);
  memset(group, 0, sizeof *group);
  group->targets = fk_aligned_alloc((size_t)direct->cells.d * FK_DIRECT_GROUP * real);
  tile->targets = group->targets;
  tile->sources = fk_aligned_alloc((size_t)direct->cells.d * FK_DIRECT_PACKED * real);
  tile->b = fk_aligned_alloc(columns * FK_DIRECT_PACKED * real);
  tile->sums = fk_aligned_alloc(columns * FK_DIRECT_GROUP * real);
  tile->gradient = job->gradient ? fk_aligned_alloc(d * FK_DIRECT_GROUP * real) : NULL;
  tile->d = (int)d;
  tile->lifted = direct->lifted;
  tile->n_columns = (int)columns;
  tile->has_factor = job->factor[0] != 1 || job->factor[1] != 0 || job->factor[2] != 0;
  tile->factor[0] = job->factor[0]; /* q/2 = -t ln 2 */
  tile->factor[1] = -FK_LN2 * job->factor[1];
  tile->factor[2] = FK_LN2 * FK_LN2 * job->factor[2];
  return group->targets && tile->sources && tile->b && tile->sums && (tile->gradient || !job->gradient);
}

void fk_direct_group_free(struct fk_direct_group *group) {
  fk_aligned_free(group->targets);
  fk_aligned_free(group->tile.sources);
  fk_aligned_free(group->tile.b);
  fk_aligned_free(group->tile.sums);
  fk_aligned_free(group->tile.gradient);
  free(group->near.pieces);
}

bool fk_direct_team_init(struct fk_direct_team *team, int threads, const struct fk_direct *direct,
                         const struct fk_direct_job *job) {
  team->n = threads;
  team->failed = false;
  team->groups = calloc((size_t)threads, sizeof *team->groups);
  bool fits = team->groups != NULL;
  for (int i = 0; i < threads && fits; i++) fits = fk_direct_group_init(&team->groups[i], direct, job);
  return fits;
}

void fk_direct_team_free(struct fk_direct_team *team) {
  for (int i = 0; team->groups && i < team->n; i++) fk_direct_group_free(&team->groups[i]);
  free(team->groups);
}

struct direct_loop {
  struct fk_direct_team team;
  fk_direct_sum_fn *sum;
  const void *work;
};

static void sum_some(void *data, int64_t first, int64_t end, int slot) {
  struct direct_loop *loop = data;
  for (int64_t g = first; g < end && !loop->team.failed; g++)
    if (!loop->sum(loop->work, &loop->team.groups[slot], g)) loop->team.failed = true;
}

static void collect(const struct fk_direct_team *team, struct fk_direct_job *job, double *left_out,
                    double *rounding) {
  *left_out = *rounding = 0;
  for (int i = 0; i < team->n; i++) {
    const struct fk_direct_group *group = &team->groups[i];
    job->pairs += group->pairs;
    job->used_single = job->used_single || group->used_single;
    *left_out = fmax(*left_out, group->left_out);
    *rounding = fmax(*rounding, group->rounding);
  }
}

enum fk_status fk_direct_each_group(const struct fk_direct *direct, struct fk_direct_job *job, int64_t n,
                                    fk_direct_sum_fn *sum, const void *work, double *left_out, double *rounding,
                                    struct fk_error *err) {
  const struct fk_direct_options *options = &direct->options;
  int threads = fk_threads_for_work(options->threads, fk_costs.direct.target * (double)n * FK_DIRECT_GROUP);
  struct direct_loop loop = {.sum = sum, .work = work};
  const struct fk_loop items = {threads, n, 4, 4e4};
  loop.team.failed = !fk_direct_team_init(&loop.team, threads, direct, job);
  enum fk_status status = FK_STATUS_OK;
  if (!loop.team.failed) status = fk_loop_run(&items, &options->poll, sum_some, &loop, err);
  if (loop.team.failed) status = fk_no_memory(err, 0, "pruned sums");
  if (!status) collect(&loop.team, job, left_out, rounding);
  fk_direct_team_free(&loop.team);
  return status;
}

static void pack_targets(struct fk_direct_group *group, const double *x, int64_t ld, int count, bool single) {
  for (int k = 0; k < group->tile.d; k++) /* not the lift: it is 0 */
    for (int i = 0; i < count; i++) {
      double u = (x[k * ld + i] - group->centre[k]) * FK_DIRECT_SCALE;
      if (single)
        ((float *)group->targets)[k * FK_DIRECT_GROUP + i] = (float)u;
      else
        ((double *)group->targets)[k * FK_DIRECT_GROUP + i] = u;
    }
}

static void run_tile(struct fk_direct_group *group, const struct fk_direct_ops *ops, int count) {
  double pairs = (double)count * group->tile.n_targets;
  group->tile.n_sources = count;
  if (count > 0 && !group->only_count) ops->sums(&group->tile);
  group->pairs += pairs;
  if (ops == fk_direct_isa()->f32) group->single_pairs += pairs;
  if (group->tile.shift || group->tile.lifted) group->shifted_pairs += pairs;
}

/* Rounding of coordinates and of their squares, whose exponents in base 2 are on average over the kernels at most
 * log2(mass / sum) (Jensen), then of kernels and of partial sums. */
double fk_direct_single_error(const struct fk_reach *reach, const struct fk_direct_near *near, const double *box,
                              double offset, double least) {
  int d = reach->direct->cells.d;
  double half2 = 0, t = fmax(1, log2(near->inside / least) + 0.5 * FK_LOG2E * offset), h = t * FK_LN2, f = 1;
  for (int k = 0; k < d; k++) half2 += 0.25 * (box[d + k] - box[k]) * (box[d + k] - box[k]);
  if (!(t < 90)) return INFINITY; /* kernels below 2^-125 are 0 */
  if (!reach->plain) f = fmax(1, reach->factor[0] + h * (reach->factor[1] + h * reach->factor[2]));
  if (reach->gradient) f *= 0.5 + h;
  return f * (FK_LN2 * 0x1p-24 * ((4 + d) * t + 4 * FK_DIRECT_SCALE * sqrt(half2 * t)) + 1e-6);
}

void fk_direct_group_sum(struct fk_direct_group *group, const struct fk_direct *direct,
                         const struct fk_direct_targets *targets, int64_t self, bool single, double shift) {
  const struct fk_cells *cells = &direct->cells;
  const struct fk_direct_ops *ops = single ? fk_direct_isa()->f32 : fk_direct_isa()->f64;
  struct fk_direct_tile *tile = &group->tile;
  struct fk_direct_pack pack = {.d = cells->d, .n_columns = direct->n_columns, .n = cells->n};
  const double *box = targets->box;
  int d = cells->d, at = 0;
  for (int k = 0; k < d; k++) {
    group->centre[k] = box[k] + 0.5 * (box[d + k] - box[k]);
    group->half[k] = fmax(box[d + k] - group->centre[k], group->centre[k] - box[k]);
  }
  pack_targets(group, targets->x, targets->ld, targets->count, single);
  tile->n_targets = targets->count;
  for (int i = 0; i < FK_DIRECT_GROUP; i++) group->shifts[i] = shift;
  tile->shift = shift != 0 ? group->shifts : NULL;
  group->groups++;
  memset(tile->sums, 0, sizeof(double) * (size_t)(FK_DIRECT_GROUP * tile->n_columns));
  if (tile->gradient) memset(tile->gradient, 0, sizeof(double) * (size_t)(FK_DIRECT_GROUP * tile->d));

  pack.x = cells->x;
  pack.columns = direct->columns;
  pack.centre = group->centre;
  pack.half = group->half;
  pack.scale = FK_DIRECT_SCALE;
  pack.sources = tile->sources;
  pack.b = tile->b;
  for (int64_t p = 0; p < group->near.n_pieces; p++) {
    struct fk_piece piece = group->near.pieces[p];
    /* Inside the cutoff with all its points, it is packed without a look at each. */
    bool inside = fk_boxes_far2(box, fk_cell_box(cells, piece.cell), d) <= group->near.cut2;
    pack.cut2 = inside ? INFINITY : group->near.cut2;
    for (int64_t first = piece.first, end; first < piece.end; first = end) {
      end = first + FK_DIRECT_LEAF < piece.end ? first + FK_DIRECT_LEAF : piece.end;
      if (first == self) {
        end = first + 1;
        continue;
      }
      if (first < self && self < end) end = self;
      if (at + FK_DIRECT_LEAF > FK_DIRECT_PACKED) {
        run_tile(group, ops, at);
        at = 0;
      }
      pack.first = first;
      pack.count = (int)(end - first);
      pack.at = at;
      at += ops->pack(&pack);
      group->packed_from += pack.count;
    }
  }
  run_tile(group, ops, at);
}
