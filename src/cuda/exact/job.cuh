/* One job: the sums of a range of targets on one device, step by step. sums.cu makes it, sources.cu and targets.cu
 * bring the points to the device and pack them, passes.cu sums.
 *
 * A pass is a view, by value: these sources for these targets, to this result. Whoever sums it in another order
 * (passes_ordered.cu) or about other centres (passes_frames.cu) makes views of parts of it, and sums those.
 */
#ifndef FK_CUDA_JOB_CUH
#define FK_CUDA_JOB_CUH

#include "../../core/costs.h"
#include "../device/devices.cuh"
#include "../near/lists.cuh"
#include "../tensor/sums_mma.cuh"
#include "../tensor/sums_symmetric.cuh"
#include "../tensor/sums_wgmma.cuh"
#include "finish.cuh"
#include "sources.cuh"

/* Sums of coordinates of points at themselves by pairs of tiles (sums_symmetric.cuh): first all devices do some of
 * the jobs each, of sums of all points; then each adds what the others have of its range of points, as integers.
 */
enum fk_pair_phase { FK_PAIRS_NONE, FK_PAIRS_SUMMED, FK_PAIRS_THERE };
struct fk_pair_sums {
  enum fk_pair_phase phase;
  struct fk_symmetric_plan plan;
  int unfit;                                  /* set by a device: the points or its memory do not allow it */
  struct fk_cuda_buffer sums[FK_MAX_DEVICES]; /* by the device's number */
};

/* Memory of a job beside its sources. */
enum {
  FK_ROOM_SELF,
  FK_ROOM_RAW,
  FK_ROOM_WHITE,
  FK_ROOM_LOW,
  FK_ROOM_PACKED,
  FK_ROOM_STAGES,
  FK_ROOM_UNDO,
  FK_ROOM_RESULT,
  FK_ROOM_MASS,
  FK_ROOM_SHIFT,
  FK_ROOM_PARTIALS,
  FK_ROOM_MATRIX,
  FK_ROOM_MATRIX_VALUES,
  FK_ROOM_MATRIX_SUMS,
  FK_ROOM_MATRIX_SCALES,
  FK_ROOM_ORDER,
  /* of rows that take the place of others, each for points, masses, least sums and results */
  FK_ROOM_ROWS_IN_ORDER,
  FK_ROOM_ROWS_OF_FRAMES = FK_ROOM_ROWS_IN_ORDER + 4,
  FK_JOB_ROOMS = FK_ROOM_ROWS_OF_FRAMES + 4
};

/* Rows along the curve of the sources. */
struct fk_row_order {
  double *least;
  uint64_t *key;
  int *list; /* NULL: as they come */
};

/* A chunk of targets, and what passes find out about it. */
struct fk_job_chunk {
  int64_t first; /* row r is source first + r, which it leaves out where the task says so */
  struct fk_cuda_points targets;
  int64_t *self;                 /* device: which source each is, where rows are picked; NULL: they are not */
  bool by_places;                /* they come as sources in order: see fk_job_find_places() */
  double *result, *mass, *shift; /* device */
  int64_t ld_result;
  bool frames_known, order_known;
  struct fk_frame_rows frame_rows;
  struct fk_row_order order;
};

/* All that one device needs for one range of targets. */
struct fk_cuda_job {
  struct fk_cuda_context *context;
  const struct fk_task *task;
  uint64_t id; /* of no other on this device */
  enum fk_precision precision;
  double *seconds; /* of the device */
  struct fk_cuda_progress *progress;
  double progress_per_pair;
  double weight_scale;
  const double *column_scale; /* of the host; NULL: not columns */
  struct fk_kernel_form form;
  int n_values;
  bool finds_centre;               /* of all sources, on the device */
  const struct fk_cuda_move *move; /* results are points that move; NULL: sums for the host */
  struct fk_pair_sums *pairs;      /* where the sums are already; NULL: nowhere */

  struct fk_cuda_sources *sources;
  int64_t source_begin, source_end; /* all of them, or those of a shard */
  int64_t source_chunk, target_chunk;
  double partial_bytes;
  double reach2; /* of sources in chunks, the largest |u|^2 of all; 0: not known */

  const int64_t *rows; /* host: which targets, to be done again in double; NULL: all, for the first time */
  bool shifted;        /* of rows in the tails: their largest exponents are taken off */
  bool normalised;     /* sums with values are raised by the masses, which are found first */
  struct fk_job_chunk chunk;
  struct fk_cuda_buffer rooms[FK_JOB_ROOMS];
  int64_t *places; /* host, of fk_job_find_places(): which source is the i-th in order; NULL: not asked for */
  struct fk_cuda_lists lists;

  /* what the last pass was, for reports; and for all: sums of coordinates are those of differences to the target
   */
  enum fk_cuda_method method;
  bool ordered, relative;
};
void fk_job_free(struct fk_cuda_job *job);
template <typename T>
enum fk_status fk_job_room(struct fk_cuda_job *job, int room, int64_t count, T **data, struct fk_error *err) {
  return fk_cuda_room(job->context, &job->rooms[room], count, data, err);
}

/* ---- views ------------------------------------------------------------------------------------ */

/* What is summed over all sources for a chunk of targets:
 *   mass      first of two, where sums beside the mass go through halves: it tells how far each row can be raised
 *   largest   first of two for rows in the tails: it tells what is to be taken off
 *   sums      what was asked for
 */
enum fk_cuda_pass { FK_PASS_MASS, FK_PASS_LARGEST, FK_PASS_SUMS };

/* How sources are summed: what their reach and the job's precision allow. */
struct fk_job_way {
  enum fk_cuda_method method; /* before a card's own */
  struct fk_tensor_grid grid;
  bool doubled;         /* in double, of points that reach far: with their low parts */
  bool by_matrix;       /* sums with values come from matrices of kernels */
  bool framed, ordered; /* sources have frames, and an order, that are of use */
};

struct fk_pass_view {
  enum fk_cuda_pass pass;
  struct fk_cuda_sources *sources;
  struct fk_job_way way;
  bool first, last; /* of the chunks of sources; the first begins the result */
  int64_t columns;  /* of all those chunks */
  struct fk_cuda_points targets;
  const int64_t *self; /* as those of struct fk_job_chunk */
  const double *mass;  /* by which sums with values are raised; NULL: they are not */
  const double *shift; /* taken off the exponents; NULL: none */
  const double *least; /* a lower bound of each row's sum; NULL: rows are not in order */
  double kept;         /* in order: of all pairs, those that are near; roughly */
  const struct fk_cuda_frames
      *frames;    /* sources are theirs, and targets places of their rows; NULL: they are not */
  double *result; /* [0: mass; 1 + value][ld_result] */
  int64_t ld_result;
};
/* Are there sums beside the mass? And how many are there in all? */
static inline bool fk_pass_has_values(const struct fk_cuda_job *job, const struct fk_pass_view &view) {
  return view.pass == FK_PASS_SUMS && job->n_values > 0;
}
static inline int fk_pass_widths(const struct fk_cuda_job *job, const struct fk_pass_view &view) {
  return view.pass == FK_PASS_SUMS ? 1 + job->n_values : 1;
}

/* ---- parts of views (passes_parts.cu) --------------------------------------------------------- */

/* Some points, about a centre of their own or (NULL) the common one. */
struct fk_pick {
  const int *list; /* NULL: the first ones */
  int64_t count;
  const double *centre;
  const unsigned char *frame; /* [i / FK_TENSOR_UNIT]: it is [frame][d]; NULL: there is one */
};
/* Whitened sources to a part, made empty, and those weights and columns that are not what is there already. */
enum fk_status fk_job_pick_points(struct fk_cuda_context *context, const struct fk_cuda_sources *whole,
                                  const struct fk_pick *pick, struct fk_cuda_sources **part, struct fk_error *err);
enum fk_status fk_job_pick_numbers(const struct fk_cuda_job *job, const struct fk_cuda_sources *whole,
                                   const int *list, struct fk_cuda_sources *part, struct fk_error *err);
/* The view of a part of its sources. */
struct fk_pass_view fk_pass_of_sources(struct fk_pass_view view, struct fk_cuda_sources *part);
/* Rows of the whole become the targets of the part, with what goes by them and a result of their own. */
enum fk_status fk_job_pick_rows(struct fk_cuda_job *job, const struct fk_pass_view whole,
                                const struct fk_pick *pick, int rooms, struct fk_pass_view *part,
                                struct fk_error *err);

/* ---- steps ------------------------------------------------------------------------------------ */

/* Points x + A (V / S - u), in place of sums, on the device; of relative sums x + A V / S. */
struct fk_cuda_move {
  const double *A; /* d x d */
  bool diagonal;
  double *moved, *mass; /* n x d, and n */
};
/* A chunk's results to where they move to. */
enum fk_status fk_job_move(struct fk_cuda_job *job, struct fk_error *err);

static inline bool fk_is_plain(const double factor[3]) {
  return factor[0] == 1 && factor[1] == 0 && factor[2] == 0;
}
static inline bool fk_job_is_large(const struct fk_cuda_job *job) {
  return (double)job->task->sources.n * (double)fk_n_targets(job->task) > fk_costs.exact_cuda.coarse_pairs;
}
static inline bool fk_job_is_coarse(const struct fk_cuda_job *job) {
  return job->precision == FK_PRECISION_FAST && fk_job_is_large(job);
}
/* A first pass for the mass sums kernels alone. */
static inline bool fk_job_uses_factor(const struct fk_cuda_job *job, bool values) {
  return !fk_is_plain(job->form.factor) && (values || job->n_values == 0);
}
static inline bool fk_on_tensor_cores(enum fk_cuda_method method) {
  return method == FK_METHOD_MMA || method == FK_METHOD_WGMMA;
}

/* The whitening on the device; the points' centre is found there where the host does not know it. */
enum fk_status fk_job_whitening(struct fk_cuda_job *job, struct fk_error *err);
/* A chunk of sources; whitened, with the way that they allow; and packed for a pass, of values from first_value
 * on. */
enum fk_status fk_job_fetch_sources(struct fk_cuda_job *job, int64_t first, struct fk_error *err);
/* The first chunk is whitened, and its radius found, while the host goes on. */
enum fk_status fk_job_begin_sources(struct fk_cuda_job *job, struct fk_error *err);
enum fk_status fk_job_whiten_sources(struct fk_cuda_job *job, int64_t first, struct fk_job_way *way,
                                     struct fk_error *err);
enum fk_status fk_job_pack_sources(struct fk_cuda_job *job, const struct fk_pass_view view, int first_value,
                                   struct fk_cuda_packed *packed, struct fk_error *err);
/* The way of sources that are a part of the job's, or not. */
enum fk_status fk_job_choose_way(struct fk_cuda_job *job, struct fk_cuda_sources *s, bool part,
                                 struct fk_job_way *way, struct fk_error *err);
/* Of all chunks, how far they reach: whether sums of coordinates are relative is to be the same for all. */
enum fk_status fk_job_find_reach(struct fk_cuda_job *job, struct fk_error *err);
/* A chunk of targets; whitened; their low parts; and packed as the sources are. */
enum fk_status fk_job_fetch_targets(struct fk_cuda_job *job, int64_t first, int64_t count, struct fk_error *err);
enum fk_status fk_job_whiten_targets(struct fk_cuda_job *job, struct fk_error *err);
enum fk_status fk_job_find_targets_low(struct fk_cuda_job *job, struct fk_error *err);
enum fk_status fk_job_pack_targets(struct fk_cuda_job *job, const struct fk_pass_view view,
                                   struct fk_cuda_packed *packed, struct fk_error *err);
/* The power of two by which kernels are raised that are summed with values: FK_TENSOR_RAISE, or less. */
int fk_job_raise(const struct fk_cuda_job *job, const struct fk_cuda_sources *s, bool values);
/* The sums of a view; of one whose sources are in frames; and in order, in frames or not. */
enum fk_status fk_job_sum(struct fk_cuda_job *job, const struct fk_pass_view view, struct fk_error *err);
enum fk_status fk_job_sum_frames(struct fk_cuda_job *job, const struct fk_pass_view view, struct fk_error *err);
enum fk_status fk_job_sum_ordered(struct fk_cuda_job *job, const struct fk_pass_view view, struct fk_error *err);
void fk_job_plan_parts(const struct fk_cuda_job *job, const struct fk_pass_view view, bool lists,
                       int64_t *cols_per_slot, int *slots);
/* Whether sources may be in order, by their number; whether they are to be, and that, once their extent is known.
 */
bool fk_may_be_ordered(const struct fk_task *task);
bool fk_job_may_order(const struct fk_cuda_job *job, const struct fk_cuda_sources *s);
enum fk_status fk_job_order_sources(struct fk_cuda_job *job, struct fk_cuda_sources *s, bool *ordered,
                                    struct fk_error *err);
/* Where points are left out of their own sums, and not all of them at once, targets first .. first + count - 1 are
 * those of the sources in order: each is a column then. Their results go to the host's places one by one. */
enum fk_status fk_job_find_places(struct fk_cuda_job *job, struct fk_error *err);
/* Whether sums of a task are begun by pairs; and the end, on the thread that has waited for all devices. */
bool fk_pairs_begin(struct fk_pair_sums *pairs, const struct fk_task *task, const struct fk_opts *opts,
                    struct fk_cuda_context *const *contexts, int count);
void fk_pairs_end(struct fk_pair_sums *pairs, struct fk_cuda_context *const *contexts, int count);
/* Jobs first .. first + count - 1 of the plan. */
enum fk_status fk_job_sum_pairs(struct fk_cuda_job *job, struct fk_pair_sums *pairs, int64_t first, int64_t count,
                                struct fk_error *err);
/* The chunk's sums, which are there, in the place of a pass. */
enum fk_status fk_job_take_pairs(struct fk_cuda_job *job, const struct fk_pass_view view, struct fk_error *err);
/* The sums with values, where these are so many that matrices of kernels pay (passes_matrix.cu). */
bool fk_job_takes_matrix(const struct fk_cuda_job *job, const struct fk_cuda_sources *s,
                         const struct fk_job_way *way);
enum fk_status fk_job_sum_matrix(struct fk_cuda_job *job, const struct fk_pass_view view, struct fk_error *err);
/* Below it a sum has lost terms; 0: where none can have. */
double fk_job_lost_below(const struct fk_cuda_job *job);
/* Which of a range are lost, and to be done again: their numbers in all. The caller frees `rows`. */
enum fk_status fk_job_find_lost(struct fk_cuda_job *job, int64_t first, int64_t count, int64_t **rows,
                                int64_t *found, struct fk_error *err);
/* All passes over a chunk of targets, and its results to the task. */
enum fk_status fk_job_run_chunk(struct fk_cuda_job *job, int64_t first, int64_t count, struct fk_error *err);

#endif
