/* A job: the sums of a range of targets on one device, step by step. sums.cu makes the job, sources.cu and
 * targets.cu bring points to the device and pack them, and passes.cu sums.
 * A pass is a view, passed by value: sources, targets and the place of the result. To sum in another order
 * (passes_ordered.cu) or about other centres (passes_frames.cu), make views of subsets and sum those. */
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

/* Symmetric sums of coordinates by pairs of tiles (sums_symmetric.cuh). First, each device does some of the jobs,
 * for sums of all points. Then each adds, as integers, what the other devices have for its range of points. */
enum fk_pair_phase { FK_PAIRS_NONE, FK_PAIRS_SUMMED, FK_PAIRS_THERE };
struct fk_pair_sums {
  enum fk_pair_phase phase;
  struct fk_symmetric_plan plan;
  int unfit;                                  /* set by a device if the points or its memory do not allow these
                                               * sums */
  struct fk_cuda_buffer sums[FK_MAX_DEVICES]; /* indexed by device number */
};

/* Buffers of a job besides its sources. */
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
  /* of rows that replace others: points, kernel sums, lower bounds and results */
  FK_ROOM_ROWS_IN_ORDER,
  FK_ROOM_ROWS_OF_FRAMES = FK_ROOM_ROWS_IN_ORDER + 4,
  FK_JOB_ROOMS = FK_ROOM_ROWS_OF_FRAMES + 4
};

/* Rows in the order of the sources along the curve. */
struct fk_row_order {
  double *least;
  uint64_t *key;
  int *list; /* NULL: in their own order */
};

/* A chunk of targets, and what the passes find out about it. */
struct fk_job_chunk {
  int64_t first; /* row r is source first + r, which it omits if the task says so */
  struct fk_cuda_points targets;
  const double *raw; /* device: the targets as they came, ld_raw apart, unless they are sources */
  int64_t ld_raw;
  int64_t *self;                 /* device: the source that each row is, if rows are picked by index; else NULL */
  bool by_places;                /* rows come in the order of the sources: see fk_job_find_places() */
  double *result, *mass, *shift; /* device */
  int64_t ld_result;
  bool frames_known, order_known;
  struct fk_frame_rows frame_rows;
  struct fk_row_order order;
};

/* What one device needs for one range of targets. */
struct fk_cuda_job {
  struct fk_cuda_context *context;
  const struct fk_task *task;
  uint64_t id; /* unique among the jobs of this device */
  enum fk_precision precision;
  double *seconds; /* of the device */
  struct fk_cuda_progress *progress;
  double progress_per_pair;
  double weight_scale;
  const double *column_scale; /* host; NULL: values are not given as columns */
  struct fk_kernel_form form;
  int n_values;
  bool finds_centre;               /* of all sources, on the device */
  const struct fk_cuda_move *move; /* results are points that move; NULL: sums for the host */
  struct fk_pair_sums *pairs;      /* where the sums are already; NULL: not yet made */

  struct fk_cuda_sources *sources;
  int64_t source_begin, source_end; /* all sources, or those of a shard */
  int64_t source_chunk, target_chunk;
  double partial_bytes;
  double reach2; /* if sources come in chunks: the largest |u|^2 of all; 0: unknown */

  const int64_t *rows; /* host: the targets to recompute in double; NULL: all targets, first time */
  bool shifted;        /* rows in the tails: their largest exponents are subtracted */
  bool normalised;     /* sums with values are scaled by the kernel sums, which are computed first */
  struct fk_job_chunk chunk;
  struct fk_cuda_buffer rooms[FK_JOB_ROOMS];
  int64_t *places; /* host, from fk_job_find_places(): the source that is i-th in the order; NULL: not needed */
  struct fk_cuda_lists lists;

  /* method of the last pass, for reports. For all passes: sums of coordinates are sums of differences to the
   * target. */
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
 *   mass      first of two passes, if sums besides the kernel sum use FP16: how far each row can be raised
 *   largest   first of two passes for rows in the tails: the exponent to subtract
 *   sums      the result */
enum fk_cuda_pass { FK_PASS_MASS, FK_PASS_LARGEST, FK_PASS_SUMS };

/* The method that sums the sources: what their extent and the job's precision allow. */
struct fk_job_way {
  enum fk_cuda_method method; /* the method for this precision, before what this GPU supports */
  struct fk_tensor_grid grid;
  bool doubled;         /* in double, for points far from the origin: with low parts */
  bool by_matrix;       /* sums with values come from kernel matrices */
  bool framed, ordered; /* use frames; use the order along the curve */
};

struct fk_pass_view {
  enum fk_cuda_pass pass;
  struct fk_cuda_sources *sources;
  struct fk_job_way way;
  bool first, last; /* of the chunks of sources; the first one starts the result */
  int64_t columns;  /* of all chunks together */
  struct fk_cuda_points targets;
  const int64_t *self; /* as in struct fk_job_chunk */
  const double *mass;  /* kernel sums that scale sums with values; NULL: no scaling */
  const double *shift; /* subtracted from the exponents; NULL: none */
  const double *least; /* a lower bound of each row's sum; NULL: rows are not in order */
  double kept;         /* in order: approximate share of all pairs that are near */
  const struct fk_cuda_frames
      *frames;    /* the frames of the sources, whose targets are places of frames; NULL: none */
  double *result; /* [0: kernel sum; 1 + value][ld_result] */
  int64_t ld_result;
};
/* Does the pass sum values besides kernels? How many sums are there in all? */
static inline bool fk_pass_has_values(const struct fk_cuda_job *job, const struct fk_pass_view &view) {
  return view.pass == FK_PASS_SUMS && job->n_values > 0;
}
static inline int fk_pass_widths(const struct fk_cuda_job *job, const struct fk_pass_view &view) {
  return view.pass == FK_PASS_SUMS ? 1 + job->n_values : 1;
}

/* ---- parts of views (passes_parts.cu) --------------------------------------------------------- */

/* Some points, relative to a centre of their own or (NULL) the common one. */
struct fk_pick {
  const int *list; /* NULL: the first `count` points */
  int64_t count;
  const double *centre;
  const unsigned char *frame; /* [i / FK_TENSOR_UNIT]: the centre is [frame][d]; NULL: one centre */
};
/* Gathers whitened sources into a new subset, with the weights and columns that it does not have yet. */
enum fk_status fk_job_pick_points(struct fk_cuda_context *context, const struct fk_cuda_sources *whole,
                                  const struct fk_pick *pick, struct fk_cuda_sources **part, struct fk_error *err);
enum fk_status fk_job_pick_numbers(const struct fk_cuda_job *job, const struct fk_cuda_sources *whole,
                                   const int *list, struct fk_cuda_sources *part, struct fk_error *err);
/* The view with a subset of its sources. */
struct fk_pass_view fk_pass_of_sources(struct fk_pass_view view, struct fk_cuda_sources *part);
/* Makes rows of the whole the targets of the subset, with the data of these rows and a result of their own. */
enum fk_status fk_job_pick_rows(struct fk_cuda_job *job, const struct fk_pass_view whole,
                                const struct fk_pick *pick, int rooms, struct fk_pass_view *part,
                                struct fk_error *err);

/* ---- steps ------------------------------------------------------------------------------------ */

/* To get points x + A (V / S - u) on the device in place of sums; with relative sums, x + A V / S. */
struct fk_cuda_move {
  const double *A; /* d x d */
  bool diagonal;
  double *moved, *mass; /* n x d, and n */
};
/* Turns a chunk's results into moved points. */
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
/* A first pass for the kernel sum uses no factor. */
static inline bool fk_job_uses_factor(const struct fk_cuda_job *job, bool values) {
  return !fk_is_plain(job->form.factor) && (values || job->n_values == 0);
}
static inline bool fk_on_tensor_cores(enum fk_cuda_method method) {
  return method == FK_METHOD_MMA || method == FK_METHOD_WGMMA;
}

/* Sends the whitening to the device. If the host does not know the centre, the device computes it. */
enum fk_status fk_job_whitening(struct fk_cuda_job *job, struct fk_error *err);
/* A chunk of sources: fetch, whiten and choose a method; then pack for a pass, with values from first_value on. */
enum fk_status fk_job_fetch_sources(struct fk_cuda_job *job, int64_t first, struct fk_error *err);
/* Starts to whiten the first chunk and to find its radius, while the host continues. */
enum fk_status fk_job_begin_sources(struct fk_cuda_job *job, struct fk_error *err);
enum fk_status fk_job_whiten_sources(struct fk_cuda_job *job, int64_t first, struct fk_job_way *way,
                                     struct fk_error *err);
enum fk_status fk_job_pack_sources(struct fk_cuda_job *job, const struct fk_pass_view view, int first_value,
                                   struct fk_cuda_packed *packed, struct fk_error *err);
/* Chooses the method of the job's sources, or of a subset. */
enum fk_status fk_job_choose_way(struct fk_cuda_job *job, struct fk_cuda_sources *s, bool part,
                                 struct fk_job_way *way, struct fk_error *err);
/* Finds the extent of all chunks, which decides for all of them whether sums of coordinates are relative. */
enum fk_status fk_job_find_reach(struct fk_cuda_job *job, struct fk_error *err);
/* A chunk of targets: fetch and whiten; compute low parts; pack like the sources. */
enum fk_status fk_job_fetch_targets(struct fk_cuda_job *job, int64_t first, int64_t count, struct fk_error *err);
enum fk_status fk_job_whiten_targets(struct fk_cuda_job *job, struct fk_error *err);
enum fk_status fk_job_find_targets_low(struct fk_cuda_job *job, struct fk_error *err);
enum fk_status fk_job_pack_targets(struct fk_cuda_job *job, const struct fk_pass_view view,
                                   struct fk_cuda_packed *packed, struct fk_error *err);
/* The exponent of the power of two that scales kernels summed with values: FK_TENSOR_RAISE or less. */
int fk_job_raise(const struct fk_cuda_job *job, const struct fk_cuda_sources *s, bool values);
/* Sum a view: as it is; with sources in frames; in order, with or without frames. */
enum fk_status fk_job_sum(struct fk_cuda_job *job, const struct fk_pass_view view, struct fk_error *err);
enum fk_status fk_job_sum_frames(struct fk_cuda_job *job, const struct fk_pass_view view, struct fk_error *err);
enum fk_status fk_job_sum_ordered(struct fk_cuda_job *job, const struct fk_pass_view view, struct fk_error *err);
void fk_job_plan_parts(const struct fk_cuda_job *job, const struct fk_pass_view view, bool lists,
                       int64_t *cols_per_slot, int *slots);
/* fk_may_be_ordered(): may the sources be ordered, given their number? The other functions decide once their
 * extent is known. */
bool fk_may_be_ordered(const struct fk_task *task);
bool fk_job_may_order(const struct fk_cuda_job *job, const struct fk_cuda_sources *s);
enum fk_status fk_job_order_sources(struct fk_cuda_job *job, struct fk_cuda_sources *s, bool *ordered,
                                    struct fk_error *err);
/* For points that are excluded from their own sums, if not all are targets at once: makes targets first .. first +
 * count - 1 those of the sources in order, so that each excluded point is a column. Results go to their places on
 * the host one by one. */
enum fk_status fk_job_find_places(struct fk_cuda_job *job, struct fk_error *err);
/* Starts symmetric sums by pairs; returns whether the task can use them. The end function runs on the thread that
 * has waited for all devices. */
bool fk_pairs_begin(struct fk_pair_sums *pairs, const struct fk_task *task, const struct fk_opts *opts,
                    struct fk_cuda_context *const *contexts, int count);
void fk_pairs_end(struct fk_pair_sums *pairs, struct fk_cuda_context *const *contexts, int count);
/* Runs jobs first .. first + count - 1 of the plan. */
enum fk_status fk_job_sum_pairs(struct fk_cuda_job *job, struct fk_pair_sums *pairs, int64_t first, int64_t count,
                                struct fk_error *err);
/* Takes a chunk's sums from the pairs, in place of a pass. */
enum fk_status fk_job_take_pairs(struct fk_cuda_job *job, const struct fk_pass_view view, struct fk_error *err);
/* Sums with so many values that kernel matrices pay (passes_matrix.cu). */
bool fk_job_takes_matrix(const struct fk_cuda_job *job, const struct fk_cuda_sources *s,
                         const struct fk_job_way *way);
enum fk_status fk_job_sum_matrix(struct fk_cuda_job *job, const struct fk_pass_view view, struct fk_error *err);
/* A sum below this value has lost terms; 0: no sum can have. */
double fk_job_lost_below(const struct fk_cuda_job *job);
/* Finds the rows of a range that have lost terms and must be recomputed. The caller frees `rows`. */
enum fk_status fk_job_find_lost(struct fk_cuda_job *job, int64_t first, int64_t count, int64_t **rows,
                                int64_t *found, struct fk_error *err);
/* Runs all passes over a chunk of targets and delivers the results to the task. */
enum fk_status fk_job_run_chunk(struct fk_cuda_job *job, int64_t first, int64_t count, struct fk_error *err);

#endif
