#include "columns.h"

#include <math.h>
#include <stdlib.h>

#include "../core/aligned.h"
#include "../core/count.h"
#include "../core/pool.h"
#include "../core/scan.h"
#include "../core/threads.h"

/* ---- columns ---------------------------------------------------------------------------------- */

/* Powers of two that bring the largest number near 1, to the last bit; 0 where they would cost the least one. */
static int exponent_of(const double *x, int64_t n, int threads) {
  double least, largest = 0;
  if (x) fk_sizes(x, n, threads, &least, &largest);
  return largest > 0 && ilogb(least) - ilogb(largest) > -1000 ? ilogb(largest) : 0;
}

struct columns_fill {
  const double *w, *from; /* from: a column of the task's, NULL: ones */
  int w_exponent, from_exponent;
  double *to;
};

static void fill_column(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct columns_fill *f = data;
  for (int64_t i = first; i < end; i++) {
    double w = f->w ? ldexp(f->w[i], -f->w_exponent) : 1;
    f->to[i] = f->from ? ldexp(f->from[i], -f->from_exponent) * w : w;
  }
}

static enum fk_status copy_columns(struct fk_fast_job *job, int64_t values, int w_exponent, int threads,
                                   struct fk_error *err) {
  const struct fk_task *task = job->task;
  int64_t n = job->n;
  job->own_b = fk_aligned_alloc(sizeof(double) * (size_t)(n * job->columns));
  if (!job->own_b) return fk_no_memory(err, 8.0 * (double)n * (double)job->columns, "columns");
  for (int64_t c = 0; c < job->columns; c++) {
    const double *from = c < values ? task->columns + c * n : NULL;
    struct columns_fill f = {task->weights, from, w_exponent, exponent_of(from, n, threads), job->own_b + c * n};
    job->exponent[c] = f.w_exponent + f.from_exponent;
    fk_parallel_for(threads, n, fk_step_for_bytes(24), fill_column, &f);
  }
  job->b = job->own_b;
  return FK_STATUS_OK;
}

/* Weights as they are where sums of them suit a float. */
enum { PLAIN_EXPONENT = 60 };

/* Sets the size of column c, its largest |b|, and job->negative if a b is negative. */
static void measure_column(struct fk_fast_job *job, int64_t c, const double *b) {
  double low = 1, high = 1;
  if (b) fk_range(b, job->n, job->opts->threads, &low, &high);
  job->size[c] = job->n > 0 ? fmax(-low, high) : 0;
  job->negative = job->negative || low < 0;
  job->wide = job->wide || (job->size[c] > 0 && abs(ilogb(job->size[c])) > PLAIN_EXPONENT);
}

/* b that are not 0 count, however little beside the largest. */
#define LEAST_MASS 1e-290

void fk_fast_masses(const void *data, int64_t first, int64_t count, double *mass) {
  const struct fk_fast_job *job = data;
  for (int64_t i = 0; i < count; i++) mass[i] = 0;
  for (int64_t c = 0; c < job->columns; c++) {
    const double *b = job->b + c * job->n + first;
    double scale = job->size[c] > 0 ? 1 / job->size[c] : 0;
    for (int64_t i = 0; i < count; i++) {
      double share = b[i] == 0 ? 0 : fmax(fabs(b[i]) * scale, LEAST_MASS);
      mass[i] = share > mass[i] ? share : mass[i];
    }
  }
}

static double least_share(const struct fk_fast_job *job) {
  enum { CHUNK = 256 };
  double mass[CHUNK], total = 0, least = INFINITY;
  for (int64_t first = 0; first < job->n; first += CHUNK) {
    int64_t count = fk_smaller(CHUNK, job->n - first);
    fk_fast_masses(job, first, count, mass);
    for (int64_t i = 0; i < count; i++) total += mass[i];
  }
  for (int64_t c = 0; c < job->columns; c++) {
    double sum = 0;
    for (int64_t i = 0; i < job->n; i++) sum += fabs(job->b[c * job->n + i]);
    if (sum > 0) least = fmin(least, sum / job->size[c]);
  }
  return total > 0 && least < total ? least / total : 1;
}

enum fk_status fk_fast_columns_init(struct fk_fast_job *job, struct fk_error *err) {
  const struct fk_task *task = job->task;
  int64_t values = task->values == FK_VALUES_COLUMNS ? task->n_columns : 0;
  int threads = fk_threads_for_bytes(job->opts->threads, 16.0 * (double)job->n);
  job->columns = values + 1;
  job->share = 1;
  job->b = task->weights;
  job->exponent = calloc((size_t)job->columns, sizeof *job->exponent);
  job->size = calloc((size_t)job->columns, sizeof *job->size);
  if (!job->exponent || !job->size) return fk_no_memory(err, 0, "columns");
  measure_column(job, values, task->weights);
  bool plain = !(job->size[values] > 0) || abs(ilogb(job->size[values])) <= PLAIN_EXPONENT;
  if (values == 0 && plain) return FK_STATUS_OK;
  int exponent = exponent_of(task->weights, job->n, threads);
  job->wide = false; /* once they are on their scales */
  enum fk_status status = copy_columns(job, values, exponent, threads, err);
  for (int64_t c = 0; c < job->columns && !status; c++) measure_column(job, c, job->b + c * job->n);
  if (!status && values > 0 && fk_fast_pointwise(job)) job->share = least_share(job);
  return status;
}

void fk_fast_columns_free(struct fk_fast_job *job) {
  fk_aligned_free(job->own_b);
  free(job->exponent);
  free(job->size);
}

/* ---- sums ------------------------------------------------------------------------------------- */

struct own {
  double *out;
  const double *b;
  double factor;
};

static void drop_own(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct own *a = data;
  for (int64_t i = first; i < end; i++) a->out[i] -= a->factor * (a->b ? a->b[i] : 1);
}

void fk_fast_leave_out(struct fk_fast_job *job) {
  int threads = fk_threads_for_bytes(job->opts->threads, 16.0 * (double)job->n);
  for (int64_t c = 0; c < job->columns; c++) {
    struct own a = {fk_fast_out(job, c), job->b ? job->b + c * job->n : NULL, job->task->factor[0]};
    fk_parallel_for(threads, job->n, fk_step_for_bytes(16), drop_own, &a);
  }
}

struct columns_scaled {
  double *out, *shift;
  int exponent;
};

static void scale_back(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct columns_scaled *a = data;
  for (int64_t i = first; i < end; i++) {
    if (a->shift)
      a->shift[i] += FK_LN2 * a->exponent;
    else
      a->out[i] = ldexp(a->out[i], a->exponent);
  }
}

/* If the task has log scales, they take the scale of the columns; quotients of sums need none. */
void fk_fast_scale_back(struct fk_fast_job *job) {
  int threads = fk_threads_for_bytes(job->opts->threads, 16.0 * (double)job->m);
  for (int64_t c = 0; c < job->columns; c++) {
    struct columns_scaled a = {fk_fast_out(job, c), job->task->shift, job->exponent[c]};
    if (a.exponent != 0 && (a.shift || !job->gradient))
      fk_parallel_for(threads, job->m, fk_step_for_bytes(16), scale_back, &a);
  }
}
