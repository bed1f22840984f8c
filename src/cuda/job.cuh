/* One job: the sums of a range of targets on one device, step by step. engine.cu makes it, sources.cu and
 * targets.cu bring the points to the device and pack them, passes.cu sums.
 */
#ifndef FK_CUDA_JOB_CUH
#define FK_CUDA_JOB_CUH

#include "devices.cuh"
#include "steps.cuh"

/* As on the CPU: differences in FP32 are good up to this |u|^2. */
#define DIFFERENCE_LIMIT_SINGLE 1e4
/* Kernels rounded to 2^-12 move a point that has few neighbours by some 1e-5 of a bandwidth; where that saves less
 * than half a millisecond it is not done. */
#define EXACT_PAIRS 5e8

/* What is summed over all sources for a chunk of targets:
 *   mass      first of two, where sums beside the mass go through halves: it tells how far each row can be raised
 *   largest   first of two for rows in the tails: it tells what is to be taken off
 *   sums      what was asked for
 */
enum fk_cuda_pass { FK_PASS_MASS, FK_PASS_LARGEST, FK_PASS_SUMS };

/* All that one device needs for one range of targets. */
struct fk_cuda_job {
  struct fk_cuda_context *context;
  const struct fk_task *task;
  enum fk_precision precision;
  int threads;
  double *seconds; /* of the device */
  struct fk_cuda_progress *progress;
  double progress_per_pair;
  struct fk_cuda_whitening whitening;
  double weight_scale, factor[3]; /* polynomial of the exponent in base 2 */
  const double *column_scale;     /* on the device; NULL: not columns */
  int n_values;

  /* sources: a chunk on the device, whitened, and packed for a method and a pass */
  int64_t source_chunk, source_first;
  const double *resident, *resident_weights; /* all of them, in the cache; or NULL */
  const double *raw, *weights;               /* of the chunk */
  int64_t ld_raw;
  struct fk_cuda_points sources;
  bool whitened, packed;
  enum fk_cuda_method method;
  struct fk_tensor_grid grid;
  bool packed_values;
  int packed_first_value, first_value, values_here; /* tensor cores sum so many columns at a time */

  /* targets: a chunk of those to do */
  int64_t target_chunk, target_first;
  double partial_bytes;
  struct fk_cuda_points targets;
  const double *targets_raw;
  int64_t ld_targets_raw;
  const int64_t *rows; /* host: which targets, NULL: all */
  int64_t *self;       /* device: the same */
  bool in_double, shifted, normalised;

  /* results on the device */
  double *result, *mass, *shift;
  int64_t ld_result;

  struct fk_tensor_task tensor;
  struct fk_fma_task<float> f32;
  struct fk_fma_task<double> f64;
  double *undo;
  void *wgmma_columns;
};

static inline bool fk_is_plain(const double factor[3]) {
  return factor[0] == 1 && factor[1] == 0 && factor[2] == 0;
}
static inline bool fk_job_is_large(const struct fk_cuda_job *job) {
  return (double)job->task->sources.n * (double)fk_n_targets(job->task) > EXACT_PAIRS;
}
static inline bool fk_job_is_coarse(const struct fk_cuda_job *job) {
  return job->precision == FK_PRECISION_FAST && fk_job_is_large(job);
}
/* A first pass for the mass sums kernels alone. */
static inline bool fk_job_uses_factor(const struct fk_cuda_job *job, bool values) {
  return !fk_is_plain(job->factor) && (values || job->n_values == 0);
}
static inline bool fk_on_tensor_cores(enum fk_cuda_method method) {
  return method == FK_METHOD_MMA || method == FK_METHOD_WGMMA;
}

/* Consecutive arrays in one block of workspace. */
struct carver {
  char *at;
};
template <typename T>
static T *carve(struct carver *c, int64_t count) {
  T *here = (T *)c->at;
  c->at += fk_padded((int64_t)sizeof(T) * count, 256);
  return here;
}

/* A chunk of sources, whitened, by a method that its points allow, and then packed for a pass. */
enum fk_status fk_job_fetch_sources(struct fk_cuda_job *job, int64_t first, struct fk_error *err);
enum fk_status fk_job_whiten_sources(struct fk_cuda_job *job, int64_t first, struct fk_error *err);
enum fk_status fk_job_prepare_sources(struct fk_cuda_job *job, int64_t first, bool values, struct fk_error *err);
/* A chunk of targets, and then packed as the sources are. */
enum fk_status fk_job_fetch_targets(struct fk_cuda_job *job, int64_t first, int64_t count, struct fk_error *err);
enum fk_status fk_job_pack_targets(struct fk_cuda_job *job, bool values, struct fk_error *err);
/* All passes over a chunk of targets, and its results to the task. */
enum fk_status fk_job_run_chunk(struct fk_cuda_job *job, int64_t first, int64_t count, struct fk_error *err);

#endif
