/* The rows of a task come in blocks: their kernels with all points become slopes in place, and a product with the
 * columns a and a z' of some functions gives their gradients. So no more than a block is ever in memory. Parts of
 * a task are runs of blocks, which depend on its sizes only; their sums are added in order. */
#include "gradients.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "aligned.h"
#include "count.h"
#include "dense_kernels.h"
#include "host.h"
#include "pool.h"
#include "threads.h"

/* Rows of a block; columns of a product; the most parts of a task, and numbers of the sums of all its parts. */
enum { ROWS = 128, COLUMNS = 128, PARTS = 32, NUMBERS = 10000000 };

struct gradients_task {
  const struct fk_gradients_spec *spec;
  int64_t parts, blocks;      /* blocks of a part */
  int64_t size;               /* numbers of its sums */
  int64_t group, coordinates; /* functions, and coordinates of these, at a time */
  double *centred, *sums;     /* m x d: z about its mean; parts x size */
};

struct gradients_job {
  struct gradients_task *tasks;
  int64_t n;
  struct fk_opts opts; /* of a thread: it asks nobody */
  struct fk_scratch rooms;
  int64_t kernels, columns, functions, gradients; /* numbers of the parts of a room */
  struct fk_error *errors;
};

/* Memory for a block: its slopes, m x rows, and these with signs; columns, and their products; sums of functions;
 * and gradients, with a row for each function and row. */
struct gradients_room {
  double *slopes, *changed, *columns, *products, *sums, *gradients;
};

static struct gradients_room room_of(const struct gradients_job *job, int slot) {
  struct gradients_room room = {.slopes = fk_scratch_at(&job->rooms, slot)};
  room.changed = room.slopes + job->kernels;
  room.columns = room.changed + job->kernels;
  room.products = room.columns + job->columns;
  room.sums = room.products + ROWS * COLUMNS;
  room.gradients = room.sums + ROWS * job->functions;
  return room;
}

static void make_slopes(const struct fk_slope *slope, int64_t n, double *k) {
  if (slope->absolute) return;
  if (slope->power > 0) {
    fk_host.stretched_slopes(k, n, slope->power, k);
  } else if (slope->exponent == 1) {
    for (int64_t i = 0; i < n; i++) k[i] *= slope->times;
  } else {
    for (int64_t i = 0; i < n; i++) k[i] = slope->times * pow(k[i], slope->exponent);
  }
}

/* Columns a_c z_k of `count` functions a and coordinates k .. k + some - 1. */
static void fill_columns(const struct gradients_task *task, const double *a, int64_t count, int64_t k,
                         int64_t some, double *columns) {
  const int64_t m = task->spec->m;
  for (int64_t i = 0; i < count * some; i++) {
    const double *of = a + i / some * m, *z = task->centred + (k + i % some) * m;
    double *to = columns + i * m;
    for (int64_t j = 0; j < m; j++) to[j] = of[j] * z[j];
  }
}

/* The gradients of functions first .. first + count - 1 at the rows of a block: column k has that of the rows for
 * one function after the other. */
static enum fk_status by_differences(const struct gradients_task *task, const struct gradients_room *room,
                                     int64_t row, int64_t rows, int64_t first, int64_t count,
                                     struct fk_error *err) {
  const int64_t m = task->spec->m, d = task->spec->d;
  const double *a = task->spec->a + first * m;
  const struct fk_dense G = fk_dense_of(room->slopes, m, rows), A = fk_dense_of(a, m, count),
                        S = fk_dense_of(room->sums, rows, count);
  enum fk_status status = fk_host.gemm(1, FK_TRANSPOSED, 1, &G, &A, 0, &S, err);
  for (int64_t begin = 0; begin < d && !status; begin += task->coordinates) {
    const int64_t some = fk_smaller(task->coordinates, d - begin);
    const struct fk_dense B = fk_dense_of(room->columns, m, count * some),
                          P = fk_dense_of(room->products, rows, count * some);
    fill_columns(task, a, count, begin, some, room->columns);
    status = fk_host.gemm(1, FK_TRANSPOSED, 1, &G, &B, 0, &P, err);
    for (int64_t i = 0; i < count * some; i++) {
      const int64_t c = i / some, k = begin + i % some;
      const double *sums = room->sums + c * rows, *products = room->products + i * rows,
                   *z = task->centred + k * m + row;
      double *to = room->gradients + (k * count + c) * rows;
      for (int64_t j = 0; j < rows; j++) to[j] = products[j] - z[j] * sums[j];
    }
  }
  return status;
}

static enum fk_status by_signs(const struct gradients_task *task, const struct gradients_room *room, int64_t row,
                               int64_t rows, int64_t first, int64_t count, struct fk_error *err) {
  const int64_t m = task->spec->m;
  const struct fk_dense A = fk_dense_of(task->spec->a + first * m, m, count),
                        G = fk_dense_of(room->changed, m, rows);
  enum fk_status status = FK_STATUS_OK;
  for (int64_t k = 0; k < task->spec->d && !status; k++) {
    const double *z = task->spec->z + k * m;
    for (int64_t i = 0; i < rows; i++) {
      const double x = z[row + i], *from = room->slopes + i * m;
      double *to = room->changed + i * m;
      for (int64_t j = 0; j < m; j++) to[j] = z[j] > x ? from[j] : z[j] < x ? -from[j] : 0;
    }
    const struct fk_dense S = fk_dense_of(room->gradients + k * count * rows, rows, count);
    status = fk_host.gemm(1, FK_TRANSPOSED, 1, &G, &A, 0, &S, err);
  }
  return status;
}

static enum fk_status add_products(const struct gradients_task *task, const double *gradients, int64_t n,
                                   double *sums, struct fk_error *err) {
  const int64_t d = task->spec->d;
  const struct fk_dense g = fk_dense_of(gradients, n, d), M = fk_dense_of(sums, d, d);
  if (task->spec->full) return fk_host.gemm(1, FK_TRANSPOSED | FK_HOST_LOWER, 1, &g, &g, 1, &M, err);
  for (int64_t k = 0; k < d; k++) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += gradients[k * n + i] * gradients[k * n + i];
    sums[k] += sum;
  }
  return FK_STATUS_OK;
}

static enum fk_status add_block(const struct gradients_job *job, const struct gradients_task *task, int64_t row,
                                double *sums, int slot, struct fk_error *err) {
  const struct fk_gradients_spec *spec = task->spec;
  const int64_t rows = fk_smaller(ROWS, spec->m - row);
  const struct gradients_room room = room_of(job, slot);
  const struct fk_dense K = fk_dense_of(room.slopes, spec->m, rows);
  enum fk_status status =
      fk_dense_kernels(fk_dense_engine(FK_BACKEND_CPU), &spec->kernels, &job->opts, 0, 0, row, false, &K, err);
  if (status) return status;
  make_slopes(&spec->slope, spec->m * rows, room.slopes);
  for (int64_t first = 0; first < spec->t && !status; first += task->group) {
    const int64_t count = fk_smaller(task->group, spec->t - first);
    status = spec->slope.absolute ? by_signs(task, &room, row, rows, first, count, err)
                                  : by_differences(task, &room, row, rows, first, count, err);
    if (!status) status = add_products(task, room.gradients, rows * count, sums, err);
  }
  return status;
}

static void add_parts(void *data, int64_t first, int64_t end, int slot) {
  const struct gradients_job *job = data;
  struct fk_error *err = &job->errors[slot];
  for (int64_t unit = first; unit < end; unit++) {
    const struct gradients_task *task = job->tasks;
    int64_t part = unit;
    for (; part >= task->parts; task++) part -= task->parts;
    const int64_t begin = part * task->blocks * ROWS,
                  last = fk_smaller(task->spec->m, begin + task->blocks * ROWS);
    for (int64_t row = begin; row < last && !err->status; row += ROWS)
      add_block(job, task, row, task->sums + part * task->size, slot, err);
  }
}

/* ---- all tasks -------------------------------------------------------------------------------- */

static enum fk_status open_task(struct gradients_task *task, int threads, struct fk_error *err) {
  const struct fk_gradients_spec *spec = task->spec;
  const int64_t m = spec->m, d = spec->d, blocks = fk_pieces(m, ROWS);
  task->size = spec->full ? d * d : d;
  task->blocks = fk_pieces(blocks, fk_larger(1, fk_smaller(PARTS, NUMBERS / task->size)));
  task->parts = fk_pieces(blocks, task->blocks);
  task->group = fk_smaller(spec->t, fk_larger(1, COLUMNS / d));
  task->coordinates = fk_smaller(d, COLUMNS);
  task->sums = calloc((size_t)(task->parts * task->size), sizeof *task->sums);
  task->centred = fk_aligned_alloc(sizeof *task->centred * (size_t)(m * d));
  if (!task->sums || !task->centred) return fk_no_memory(err, 0, "gradients");
  for (int64_t k = 0; k < d; k++) {
    double sum = 0;
    for (int64_t i = 0; i < m; i++) sum += spec->z[k * m + i];
    for (int64_t i = 0; i < m; i++) task->centred[k * m + i] = spec->z[k * m + i] - sum / (double)m;
  }
  return fk_kernel_terms_here(&spec->kernels, threads, err);
}

static enum fk_status run(struct gradients_job *job, const struct fk_opts *opts, struct fk_error *err) {
  int64_t units = 0;
  double work = 0;
  for (int64_t i = 0; i < job->n; i++) {
    const struct gradients_task *task = &job->tasks[i];
    const int64_t m = task->spec->m, d = task->spec->d, rows = fk_smaller(ROWS, m);
    units += task->parts;
    work += (double)m * (double)m * (double)(task->spec->t * (d + 1) + d + 40);
    job->kernels = fk_larger(job->kernels, m * rows);
    job->columns = fk_larger(job->columns, m * task->group * task->coordinates);
    job->functions = fk_larger(job->functions, task->group);
    job->gradients = fk_larger(job->gradients, rows * task->group * d);
  }
  const struct fk_loop loop = fk_loop_of(opts->threads, units, work / (double)units);
  const size_t numbers =
      (size_t)(2 * job->kernels + job->columns + ROWS * (COLUMNS + job->functions) + job->gradients);
  job->errors = calloc((size_t)loop.threads, sizeof *job->errors);
  if (!job->errors || !fk_scratch_init(&job->rooms, loop.threads, numbers * sizeof(double)))
    return fk_no_memory(err, 0, "gradients");
  enum fk_status status = fk_loop_run(&loop, &opts->poll, add_parts, job, err);
  for (int i = 0; i < loop.threads && !status; i++)
    if (job->errors[i].status) {
      *err = job->errors[i];
      status = err->status;
    }
  return status;
}

static void add_up(const struct gradients_task *task, double *out) {
  const int64_t d = task->spec->d;
  memset(out, 0, sizeof *out * (size_t)task->size);
  for (int64_t part = 0; part < task->parts; part++)
    for (int64_t k = 0; k < task->size; k++) out[k] += task->sums[part * task->size + k];
  for (int64_t k = 0; k < d && task->spec->full; k++)
    for (int64_t l = k + 1; l < d; l++) out[k + l * d] = out[l + k * d];
}

enum fk_status fk_gradient_products(const struct fk_gradients_spec *specs, int64_t n, const struct fk_opts *opts,
                                    double **outs, struct fk_error *err) {
  struct gradients_job job = {.tasks = calloc((size_t)n, sizeof *job.tasks), .n = n, .opts = *opts};
  enum fk_status status = job.tasks ? FK_STATUS_OK : fk_no_memory(err, 0, "gradients");
  job.opts.threads = 1;
  job.opts.poll = (struct fk_poll){NULL, NULL};
  for (int64_t i = 0; i < n && !status; i++) {
    job.tasks[i].spec = &specs[i];
    status = open_task(&job.tasks[i], opts->threads, err);
  }
  if (!status) status = run(&job, opts, err);
  for (int64_t i = 0; i < n && job.tasks; i++) {
    if (!status) add_up(&job.tasks[i], outs[i]);
    free(job.tasks[i].sums);
    fk_aligned_free(job.tasks[i].centred);
  }
  fk_scratch_free(&job.rooms);
  free(job.errors);
  free(job.tasks);
  return status;
}
