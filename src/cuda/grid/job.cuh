/* What the steps of a grid's job share: the points of both sides on devices, and the loop over devices. */
#ifndef FK_CUDA_GRID_JOB_CUH
#define FK_CUDA_GRID_JOB_CUH

#include <pthread.h>

#include "../device/devices.cuh"
#include "grid.cuh"
#include "task.cuh"

enum fk_grid_side { FK_GRID_SOURCES, FK_GRID_TARGETS };

struct fk_grid_device {
  struct fk_cuda_grid grid;
  bool has_grid;
};

struct fk_grid_job {
  const struct fk_cuda_grid_task *task;
  const struct fk_opts *opts;
  struct fk_matrix points[2];
  bool same; /* targets are the sources */
  int devices, attempt, d;
  double budget; /* memory of the first device, in bytes */
  struct fk_cuda_grid_spec spec;
  struct fk_grid_axes axes;
  enum fk_grid_side side; /* results of a survey */
  double low[2][FK_GRID_MAX_D], high[2][FK_GRID_MAX_D], *bound;
  unsigned char *marks[2];
  struct fk_grid_bins bins;
  unsigned long long *exponents, *total; /* total: over several devices */
  struct fk_grid_device *state;          /* indexed by device number; NULL: no grids yet */
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
};

/* A host matrix, the buffer for its rows, and the share of the device's memory that they may use when sent at
 * once. */
struct fk_grid_matrix {
  struct fk_matrix x;
  enum fk_grid_held held;
  double share;
  uint64_t session;
};
struct fk_grid_matrix fk_grid_points_of(const struct fk_grid_job *job, enum fk_grid_side side);
struct fk_grid_matrix fk_grid_b_of(const struct fk_grid_job *job);

/* Sends a range at once if there is room. Sets how many rows to work on at a time: all, or those of a chunk. */
enum fk_status fk_grid_hold(const struct fk_grid_job *job, struct fk_cuda_context *context,
                            const struct fk_grid_matrix *x, int64_t first, int64_t count, int64_t *step,
                            struct fk_error *err);
/* Gets rows to work on: points, or b (NULL if there is none), columns *ld apart. */
enum fk_status fk_grid_fetch_points(struct fk_grid_job *job, struct fk_cuda_context *context,
                                    enum fk_grid_side side, int64_t first, int64_t count, struct fk_grid_raw *raw,
                                    struct fk_error *err);
enum fk_status fk_grid_fetch_b(struct fk_grid_job *job, struct fk_cuda_context *context, int64_t first,
                               int64_t count, const double **b, int64_t *ld, struct fk_error *err);
/* Fails in a second attempt: what earlier steps left on the device is gone, and all steps must run again. */
enum fk_status fk_grid_no_second_attempt(const struct fk_cuda_progress *progress, struct fk_error *err);

/* A second attempt finds the memory of earlier calls free. Attempts after it use less, by a factor 2^(returned
 * number). */
int fk_grid_less_by(const struct fk_grid_job *job);

void fk_grid_job_init(struct fk_grid_job *job, const struct fk_cuda_grid_task *task, const struct fk_opts *opts,
                      int devices);
enum fk_status fk_grid_plan_chunk(struct fk_grid_job *job, struct fk_cuda_context *context, struct fk_error *err);
/* Runs a step over the points of one side, from `from` to `to` of the whole progress. */
enum fk_status fk_grid_run_phase(struct fk_grid_job *job, struct fk_cuda_context **contexts,
                                 enum fk_grid_side side, fk_cuda_range_fn fn, double from, double to,
                                 double *seconds, struct fk_error *err);
/* Finds how far the points reach, in the map's coordinates: job->low and job->high. */
enum fk_status fk_grid_extents(struct fk_grid_job *job, struct fk_cuda_context **contexts, double from, double to,
                               double *seconds, struct fk_error *err);

#endif
