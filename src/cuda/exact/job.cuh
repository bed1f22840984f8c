/* One job: the sums of a range of targets on one device, step by step. sums.cu makes it, sources.cu and
 * targets.cu bring the points to the device and pack them, passes.cu sums.
 */
#ifndef FK_CUDA_JOB_CUH
#define FK_CUDA_JOB_CUH

#include "../../core/costs.h"
#include "../device/devices.cuh"
#include "../near/lists.cuh"
#include "../tensor/sums_mma.cuh"
#include "../tensor/sums_wgmma.cuh"
#include "finish.cuh"
#include "sources.cuh"
#include "../tensor/sums_symmetric.cuh"

/* What is summed over all sources for a chunk of targets:
 *   mass      first of two, where sums beside the mass go through halves: it tells how far each row can be raised
 *   largest   first of two for rows in the tails: it tells what is to be taken off
 *   sums      what was asked for
 */
enum fk_cuda_pass { FK_PASS_MASS, FK_PASS_LARGEST, FK_PASS_SUMS };

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

/* Room for rows that take the place of a chunk's, and for what goes by them. */
struct fk_row_room {
  struct fk_cuda_buffer targets, mass, least, result;
};

/* A chunk's rows along the curve of the sources. */
struct fk_row_order {
  struct fk_cuda_buffer buffer;
  double *least;
  uint64_t *key;
  int *list;   /* NULL: as they come */
  bool places; /* they come as sources in order */
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
  int64_t source_chunk;
  int first_value; /* of the columns that are summed next */
  bool by_matrix;  /* sums with values come from matrices of kernels */
  enum fk_cuda_method method;
  bool doubled;  /* in double, of points that reach far: with their low parts */
  bool relative; /* sums of coordinates are those of differences to the target */
  double reach2; /* of sources in chunks, the largest |u|^2 of all; 0: not known */
  struct fk_tensor_grid grid;

  /* targets: a chunk of those to do */
  int64_t target_chunk, target_first;
  double partial_bytes;
  struct fk_cuda_points targets;
  const int64_t *rows; /* host: which targets, NULL: all */
  int64_t *self;       /* device: the same, or which of the rest of frames each is; NULL: row r is r + meets */
  bool in_double, shifted, normalised;
  struct fk_cuda_buffer self_buffer, raw_targets, white_targets, low_targets, packed_targets, stage_buffer,
      undo_buffer;

  /* results on the device */
  double *result, *mass, *shift;
  int64_t ld_result;
  struct fk_cuda_buffer result_buffer, mass_buffer, shift_buffer, partial_buffer;

  int64_t meets; /* row r is source r + meets, which it leaves out where the task says so */
  /* of frames: sources, targets and results are those of the rest and of the frames in turn */
  bool by_frames, apart, rows_known;
  const struct fk_cuda_frames
      *frames; /* the job's sources are theirs, and targets their rows; NULL: they are not */
  struct fk_frame_rows part_rows;
  struct fk_row_room of_frame;
  /* of sources in order: so are targets and results, in turn */
  bool ordered, order_known;
  double kept;   /* of all pairs, those that are near; roughly */
  double *least; /* a lower bound of each row's sum; NULL: rows are not in order */
  struct fk_row_order row_order;
  struct fk_row_room of_order;
  struct fk_cuda_lists lists;
  int64_t *places; /* host, of fk_job_goes_by_places(): which source is the i-th in order; NULL: not asked for */
  struct fk_cuda_buffer matrix_buffer, matrix_values, matrix_sums, matrix_scales;

  struct fk_tensor_task tensor;
  struct fk_fma_task<float> f32;
  struct fk_fma_task<double> f64;
  struct fk_dmma_task dmma;
  double *undo;
};
void fk_job_free(struct fk_cuda_job *job);

/* ---- what takes the place of sources and targets (passes_parts.cu) ---------------------------- */

/* Some of them, about a centre of their own or (NULL) the common one. */
struct fk_pick {
  const int *list; /* NULL: the first ones */
  int64_t count;
  const double *centre;
  const unsigned char *frame; /* [i / FK_TENSOR_UNIT]: it is [frame][d]; NULL: there is one */
};
/* A job as it was before that. */
struct fk_job_whole {
  struct fk_cuda_sources *sources;
  struct fk_cuda_points targets;
  double *mass, *least;
  int64_t ld_result, meets;
};
struct fk_job_whole fk_job_whole_of(const struct fk_cuda_job *job);
void fk_job_restore(struct fk_cuda_job *job, const struct fk_job_whole *whole);
/* Whitened sources to a part, and those weights and columns that are not what is there already. */
enum fk_status fk_job_pick_points(struct fk_cuda_context *context, const struct fk_cuda_sources *whole,
                                  const struct fk_pick *pick, struct fk_cuda_sources *part, struct fk_error *err);
enum fk_status fk_job_pick_numbers(const struct fk_cuda_job *job, const struct fk_cuda_sources *whole,
                                   const int *list, struct fk_cuda_sources *part, struct fk_error *err);
/* Rows become the job's targets; then their sums, with what else goes by them, in the room. */
enum fk_status fk_job_pick_rows(struct fk_cuda_job *job, const struct fk_job_whole *whole,
                                const struct fk_pick *pick, struct fk_row_room *room, struct fk_error *err);
enum fk_status fk_job_sum_picked(struct fk_cuda_job *job, const struct fk_job_whole *whole, enum fk_cuda_pass pass,
                                 const struct fk_pick *pick, struct fk_row_room *room, double **sums,
                                 struct fk_error *err);

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
/* A chunk of sources, whitened, with a method that they allow, and then packed for a pass by it. */
enum fk_status fk_job_fetch_sources(struct fk_cuda_job *job, int64_t first, struct fk_error *err);
enum fk_status fk_job_whiten_sources(struct fk_cuda_job *job, int64_t first, struct fk_error *err);
enum fk_status fk_job_choose_method(struct fk_cuda_job *job, struct fk_error *err);
/* Of all chunks, how far they reach: whether sums of coordinates are relative is to be the same for all. */
enum fk_status fk_job_find_reach(struct fk_cuda_job *job, struct fk_error *err);
enum fk_status fk_job_pack_sources(struct fk_cuda_job *job, bool values, struct fk_error *err);
/* A chunk of targets, whitened, and then packed as the sources are. */
enum fk_status fk_job_fetch_targets(struct fk_cuda_job *job, int64_t first, int64_t count, struct fk_error *err);
enum fk_status fk_job_whiten_targets(struct fk_cuda_job *job, struct fk_error *err);
enum fk_status fk_job_pack_targets(struct fk_cuda_job *job, bool values, struct fk_error *err);
/* The power of two by which kernels are raised that are summed with values: FK_TENSOR_RAISE, or less. */
int fk_job_raise(const struct fk_cuda_job *job, bool values);
/* The sums of the sources, which are packed for it first, for the targets; added to the result, or beginning it.
 */
enum fk_status fk_job_sum(struct fk_cuda_job *job, enum fk_cuda_pass pass, double *result, struct fk_error *err);
/* The same where the sources are in frames; and in order, in frames or not. */
enum fk_status fk_job_sum_frames(struct fk_cuda_job *job, enum fk_cuda_pass pass, double *result,
                                 struct fk_error *err);
void fk_job_plan_parts(const struct fk_cuda_job *job, bool values, int64_t *cols_per_slot, int *slots);
enum fk_status fk_job_sum_ordered(struct fk_cuda_job *job, enum fk_cuda_pass pass, double *result,
                                  struct fk_error *err);
/* Whether sources may be in order, by their number; whether they are to be, and that, once their extent is known.
 */
bool fk_may_be_ordered(const struct fk_task *task);
bool fk_job_may_order(const struct fk_cuda_job *job);
enum fk_status fk_job_order_sources(struct fk_cuda_job *job, struct fk_error *err);
/* Where points are left out of their own sums, and not all of them at once, targets first .. first + count - 1 are
 * those of the sources in order: each is a column then. Their results go to the host's places one by one. */
bool fk_job_goes_by_places(const struct fk_cuda_job *job);
enum fk_status fk_job_find_places(struct fk_cuda_job *job, struct fk_error *err);
/* Whether sums of a task are begun by pairs; and the end, on the thread that has waited for all devices. */
bool fk_pairs_begin(struct fk_pair_sums *pairs, const struct fk_task *task, const struct fk_opts *opts,
                    struct fk_cuda_context *const *contexts, int count);
void fk_pairs_end(struct fk_pair_sums *pairs, struct fk_cuda_context *const *contexts, int count);
/* Jobs first .. first + count - 1 of the plan. */
enum fk_status fk_job_sum_pairs(struct fk_cuda_job *job, struct fk_pair_sums *pairs, int64_t first, int64_t count,
                                struct fk_error *err);
/* The chunk's sums, which are there, in the place of a pass. */
enum fk_status fk_job_take_pairs(struct fk_cuda_job *job, double *result, struct fk_error *err);
/* The sums with values for the same, where these are so many that matrices of kernels pay (passes_matrix.cu). */
bool fk_job_takes_matrix(const struct fk_cuda_job *job);
enum fk_status fk_job_sum_matrix(struct fk_cuda_job *job, double *result, struct fk_error *err);
/* What sums of the high parts of coordinates lack; see fk_finish_own_low(). */
enum fk_status fk_job_add_own_low(struct fk_cuda_job *job, double *result, int64_t count, struct fk_error *err);
/* Which of a range are lost, and to be done again: their numbers in all. The caller frees `rows`. */
enum fk_status fk_job_find_lost(struct fk_cuda_job *job, int64_t first, int64_t count, int64_t **rows,
                                int64_t *found, struct fk_error *err);
/* All passes over a chunk of targets, and its results to the task. */
enum fk_status fk_job_run_chunk(struct fk_cuda_job *job, int64_t first, int64_t count, struct fk_error *err);

#endif
