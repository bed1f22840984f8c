/* Operations on columns, in blocks that depend on the length of columns only. */
#include "vectors.h"

#include <math.h>
#include <stdlib.h>

#include "count.h"
#include "host.h"
#include "pool.h"
#include "threads.h"

enum { ROWS = 8192, LANES = 8 }; /* of a block; sums side by side */

struct vectors_job {
  const double *a, *b, *by;
  int64_t n, blocks; /* blocks of a column */
  double *out;
};

static double product_of(const double *a, const double *b, int64_t n) {
  double lane[LANES] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int l = 0; l < LANES; l++) lane[l] += a[i + l] * b[i + l];
  for (; i < n; i++) lane[i % LANES] += a[i] * b[i];
  for (int l = 0; l < LANES; l++) sum += lane[l];
  return sum;
}

static void sum_blocks(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct vectors_job *job = data;
  for (int64_t block = first; block < end; block++) {
    const int64_t row = block % job->blocks * ROWS, at = block / job->blocks * job->n + row;
    job->out[block] = product_of(job->a + at, job->b + at, fk_smaller(ROWS, job->n - row));
  }
}

static void add_blocks(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct vectors_job *job = data;
  for (int64_t block = first; block < end; block++) {
    const int64_t c = block / job->blocks, row = block % job->blocks * ROWS, at = c * job->n + row;
    const int64_t count = fk_smaller(ROWS, job->n - row);
    if (job->b)
      for (int64_t i = at; i < at + count; i++) job->out[i] = job->a[i] + job->b[i] * job->by[c];
    else
      for (int64_t i = at; i < at + count; i++) job->out[i] = job->a[i] + job->by[c];
  }
}

static void run(struct vectors_job *job, int64_t t, int threads, double numbers, fk_body body) {
  const double bytes = numbers * sizeof(double); /* that a row moves */
  fk_parallel_for(fk_threads_for_bytes(threads, bytes * (double)job->n * (double)t), job->blocks * t,
                  fk_step_for_bytes(bytes * ROWS), body, job);
}

enum fk_status fk_column_products(const double *a, const double *b, int64_t n, int64_t t, int threads,
                                  double *sums, struct fk_error *err) {
  struct vectors_job job = {a, b, NULL, n, fk_pieces(n, ROWS), NULL};
  job.out = malloc(sizeof *job.out * (size_t)(job.blocks * t + 1));
  if (!job.out) return fk_no_memory(err, 0, "the sums of columns");
  run(&job, t, threads, 2, sum_blocks);
  for (int64_t c = 0; c < t; c++) {
    long double all = 0;
    for (int64_t block = 0; block < job.blocks; block++) all += job.out[c * job.blocks + block];
    sums[c] = (double)all;
  }
  free(job.out);
  return FK_STATUS_OK;
}

void fk_combine_columns(const double *x, const double *a, const double *by, int64_t n, int64_t t, int threads,
                        double *out) {
  struct vectors_job job = {x, a, by, n, fk_pieces(n, ROWS), out};
  run(&job, t, threads, 3, add_blocks);
}

static void round_blocks(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct vectors_job *job = data;
  for (int64_t block = first; block < end; block++) {
    const int64_t c = block / job->blocks, row = block % job->blocks * ROWS, at = c * job->n + row;
    const int64_t count = fk_smaller(ROWS, job->n - row);
    const double middle = job->b[c], step = job->by[c];
    for (int64_t i = at; i < at + count; i++) job->out[i] = rint((job->a[i] - middle) / step) * step + middle;
  }
}

void fk_round_columns(const double *x, const double *middle, const double *step, int64_t n, int64_t t, int threads,
                      double *out) {
  struct vectors_job job = {x, middle, step, n, fk_pieces(n, ROWS), out};
  run(&job, t, threads, 2, round_blocks);
}

static void slope_blocks(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct vectors_job *job = data;
  const int64_t at = first * ROWS, count = fk_smaller(end * ROWS, job->n) - at;
  fk_host.stretched_slopes(job->a + at, count, *job->by, job->out + at);
}

void fk_stretched_slopes(const double *k, int64_t n, double power, int threads, double *out) {
  struct vectors_job job = {k, NULL, &power, n, fk_pieces(n, ROWS), out};
  run(&job, 1, threads, 6, slope_blocks); /* the functions take as long as 6 numbers from memory */
}
