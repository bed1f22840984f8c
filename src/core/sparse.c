/* Kernels between sparse points. A row's products with all centres are summed in one vector, entry by entry:
 * column k of the centres lists those that have it. Sums are in ascending k, of norms as of products, so that a
 * point is at distance 0 of its equal to the bit. For the sum of absolute differences norms are |u|_1, and
 * products are (|u| + |v| - |u - v|) / 2 of each coordinate. */
#include "sparse.h"

#include <math.h>
#include <string.h>

#include "plan.h"
#include "pool.h"
#include "threads.h"

static double scale_of(const double *scale, int64_t n_scale, int k) { return n_scale == 1 ? *scale : scale[k]; }

/* The part of a coordinate in |u|^2, or in the sum of |u_k|. */
static double norm_of(double u, enum fk_metric metric) { return metric == FK_METRIC_ABSOLUTE ? fabs(u) : u * u; }

/* Its part in u'v, or in (|u| + |v| - |u - v|) / 2. Both are 0 unless both points have the coordinate. */
static double product_of(double u, double v, enum fk_metric metric) {
  if (metric != FK_METRIC_ABSOLUTE) return u * v;
  return (u > 0) == (v > 0) ? fmin(fabs(u), fabs(v)) : 0;
}

struct norms {
  const struct fk_compressed *rows;
  const double *scale;
  int64_t n_scale;
  enum fk_metric metric;
  double *norms;
};

static void square(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct norms *t = data;
  const struct fk_compressed *rows = t->rows;
  for (int64_t i = first; i < end; i++) {
    double sum = 0;
    for (int e = rows->start[i]; e < rows->start[i + 1]; e++) {
      double u = rows->values[e] / scale_of(t->scale, t->n_scale, rows->index[e]);
      sum += norm_of(u, t->metric);
    }
    t->norms[i] = sum;
  }
}

void fk_sparse_norms(const struct fk_compressed *rows, const double *scale, int64_t n_scale, enum fk_metric metric,
                     int threads, double *norms) {
  struct norms t = {rows, scale, n_scale, metric, norms};
  double entries = (double)rows->start[rows->n];
  double bytes = 16 * entries / (double)rows->n + 16;
  fk_parallel_for(fk_threads_for_bytes(threads, bytes * (double)rows->n), rows->n, fk_step_for_bytes(bytes),
                  square, &t);
}

struct sparse_job {
  const struct fk_sparse *s;
  int64_t first; /* the row of the first column of values */
  double *values;
};

static void do_rows(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct sparse_job *job = data;
  const struct fk_sparse *s = job->s;
  const struct fk_compressed *rows = &s->rows, *centres = &s->centres;
  const enum fk_metric metric = fk_kernel_metric(&s->kernel);
  for (int64_t i = first; i < end; i++) {
    double *sums = job->values + i * s->m;
    int64_t row = job->first + i;
    memset(sums, 0, sizeof *sums * (size_t)s->m);
    for (int e = rows->start[row]; e < rows->start[row + 1]; e++) {
      int k = rows->index[e];
      double u = rows->values[e] / scale_of(s->scale, s->n_scale, k);
      for (int c = centres->start[k]; c < centres->start[k + 1]; c++)
        sums[centres->index[c]] += product_of(u, centres->values[c], metric);
    }
    fk_kernel_of_products(&s->kernel, s->row_norms[row], s->centre_norms, s->m, sums);
  }
}

enum fk_status fk_sparse_kernels(const struct fk_sparse *s, int64_t first, int64_t count,
                                 const struct fk_opts *opts, double *values, struct fk_stats *stats,
                                 struct fk_error *err) {
  double started = fk_seconds();
  double entries = (double)(s->rows.start[first + count] - s->rows.start[first]) / (double)count;
  double per_column = (double)s->centres.start[s->centres.n] / (double)s->centres.n;
  double work = (double)s->m * fk_plan_pair_work(FK_OP_SPARSE, 0, fk_kernel_info(s->kernel.id)->cost) +
                entries * (1 + per_column);
  struct sparse_job job = {s, first, values};
  const struct fk_loop loop = fk_loop_of(opts->threads, count, work);
  enum fk_status status = fk_loop_run(&loop, &opts->poll, do_rows, &job, err);
  fk_plan_describe(opts, FK_OP_SPARSE, (double)s->m * (double)count, started, loop.threads, stats);
  return status;
}
