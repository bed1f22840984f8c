/* Losses of rows, in blocks that depend on the number of rows only. */
#include "losses.h"

#include <math.h>
#include <stdlib.h>

#include "count.h"
#include "pool.h"
#include "threads.h"

enum { ROWS = 512 }; /* of a block */

struct losses_job {
  const struct fk_row_loss *loss;
  const struct fk_loss_line *line; /* NULL: at f */
  enum fk_loss_part part;
  const double *u;
  double *out;       /* [t][n] or [n]; */
  long double *sums; /* or a sum of each block */
};

/* Rows first .. first + count - 1. */
struct losses_rows {
  const struct losses_job *job;
  int64_t first, count;
};

static double link_at(const struct losses_rows *rows, int64_t c, int64_t i) {
  const struct fk_row_loss *loss = rows->job->loss;
  const struct fk_loss_line *line = rows->job->line;
  const int64_t at = c * loss->n + rows->first + i;
  return line && line->direction ? loss->f[at] - line->length * line->direction[at] : loss->f[at];
}

/* ---- two classes ------------------------------------------------------------------------------ */

static double logit_curvature(double f) {
  double odds = exp(-fabs(f));
  return odds / ((1 + odds) * (1 + odds));
}

static void logit_rows(const struct losses_rows *rows, double *out) {
  const struct losses_job *job = rows->job;
  const double *y = job->loss->y ? job->loss->y + rows->first : NULL;
  const double *u = job->u ? job->u + rows->first : NULL;
  for (int64_t i = 0; i < rows->count; i++) {
    double f = link_at(rows, 0, i);
    switch (job->part) {
      case FK_LOSS_VALUE: out[i] = log1p(exp(-fabs(f))) - fmin(y[i] * f, 0); break;
      case FK_LOSS_SLOPE: out[i] = -y[i] / (1 + exp(y[i] * f)); break; /* exp() may be infinite */
      case FK_LOSS_CURVATURE: out[i] = logit_curvature(f); break;
      case FK_LOSS_PRODUCT: out[i] = logit_curvature(f) * u[i]; break;
    }
  }
}

/* ---- more ------------------------------------------------------------------------------------- */

/* For each row: the largest linear predictor, the first class that has it, and the sum of the other classes' odds
 * against it. */
struct softmax {
  double top[ROWS], rest[ROWS];
  int64_t best[ROWS];
};

static void softmax_of(const struct losses_rows *rows, struct softmax *s) {
  const int64_t t = rows->job->loss->t;
  for (int64_t i = 0; i < rows->count; i++) s->top[i] = link_at(rows, 0, i), s->rest[i] = 0, s->best[i] = 0;
  for (int64_t c = 1; c < t; c++)
    for (int64_t i = 0; i < rows->count; i++) {
      double f = link_at(rows, c, i);
      if (f > s->top[i]) s->top[i] = f, s->best[i] = c;
    }
  for (int64_t c = 0; c < t; c++)
    for (int64_t i = 0; i < rows->count; i++)
      if (c != s->best[i]) s->rest[i] += exp(link_at(rows, c, i) - s->top[i]);
}

/* p of class c, and 1 - p. */
struct chance {
  double p, not_p;
};
static struct chance chance_of(const struct losses_rows *rows, const struct softmax *s, int64_t c, int64_t i) {
  const double all = 1 + s->rest[i];
  if (c == s->best[i]) return (struct chance){1 / all, s->rest[i] / all};
  const double odds = exp(link_at(rows, c, i) - s->top[i]);
  return (struct chance){odds / all, (all - odds) / all};
}

static void softmax_values(const struct losses_rows *rows, const struct softmax *s, double *out) {
  const struct fk_row_loss *loss = rows->job->loss;
  for (int64_t c = 0; c < loss->t; c++)
    for (int64_t i = 0; i < rows->count; i++)
      if (loss->y[c * loss->n + rows->first + i] > 0) out[i] = s->top[i] - link_at(rows, c, i) + log1p(s->rest[i]);
}

static void softmax_slopes(const struct losses_rows *rows, const struct softmax *s, double *out) {
  const struct fk_row_loss *loss = rows->job->loss;
  for (int64_t c = 0; c < loss->t; c++)
    for (int64_t i = 0; i < rows->count; i++) {
      struct chance chance = chance_of(rows, s, c, i);
      out[c * loss->n + i] = loss->y[c * loss->n + rows->first + i] > 0 ? -chance.not_p : chance.p;
    }
}

static void softmax_curvatures(const struct losses_rows *rows, const struct softmax *s, double *out) {
  const int64_t t = rows->job->loss->t;
  for (int64_t i = 0; i < rows->count; i++) out[i] = 0;
  for (int64_t c = 0; c < t; c++)
    for (int64_t i = 0; i < rows->count; i++) {
      struct chance chance = chance_of(rows, s, c, i);
      out[i] += chance.p * chance.not_p / (double)t;
    }
}

/* p (u - p'u), of probabilities instead of f */
static void softmax_products(const struct losses_rows *rows, double *out) {
  const struct fk_row_loss *loss = rows->job->loss;
  const double *p = loss->f + rows->first, *u = rows->job->u + rows->first;
  double mean[ROWS] = {0};
  for (int64_t c = 0; c < loss->t; c++)
    for (int64_t i = 0; i < rows->count; i++) mean[i] += p[c * loss->n + i] * u[c * loss->n + i];
  for (int64_t c = 0; c < loss->t; c++)
    for (int64_t i = 0; i < rows->count; i++)
      out[c * loss->n + i] = p[c * loss->n + i] * (u[c * loss->n + i] - mean[i]);
}

/* ---- numbers ---------------------------------------------------------------------------------- */

/* A loss with its first and second derivative by f. */
struct bend {
  double value, slope, curvature;
};

static struct bend poisson_bend(double f, double y) {
  const double mu = exp(f), d = f - log(y);
  return (struct bend){y > 0 ? y * (expm1(d) - d) : mu, mu - y, mu};
}

static struct bend gamma_bend(double f, double y) {
  const double d = log(y) - f;
  return (struct bend){expm1(d) - d, -expm1(d), exp(d)};
}

static struct bend negbin_bend(double f, double y, double theta) {
  const double mu = exp(f), all = mu + theta;
  const double own = y > 0 ? y * (log(y) - f) : 0;
  return (struct bend){own - (y + theta) * log((y + theta) / all), theta * (mu - y) / all,
                       (y + theta) / all * theta * (mu / all)};
}

static struct bend huber_bend(double f, double y, double delta) {
  const double r = f - y;
  if (fabs(r) <= delta) return (struct bend){r * r / 2, r, 1};
  return (struct bend){delta * (fabs(r) - delta / 2), copysign(delta, r), 0};
}

static struct bend quantile_bend(double f, double y, double width, double level) {
  const double r = y - f, sharp = r * (level - (r < 0));
  if (!(width > 0)) return (struct bend){sharp, (r < 0) - level, 0};
  const double z = r / width;
  return (struct bend){sharp + width * log1p(exp(-fabs(z))), 1 / (1 + exp(z)) - level, logit_curvature(z) / width};
}

static struct bend bend_at(const struct fk_row_loss *loss, int64_t c, double f, double y) {
  const double *p = loss->parameters;
  switch (loss->kind) {
    case FK_LOSS_POISSON: return poisson_bend(f, y);
    case FK_LOSS_GAMMA: return gamma_bend(f, y);
    case FK_LOSS_NEGBIN: return negbin_bend(f, y, p[0]);
    case FK_LOSS_HUBER: return huber_bend(f, y, p[0]);
    default: return quantile_bend(f, y, p[0], p[1 + c]);
  }
}

static void number_rows(const struct losses_rows *rows, double *out) {
  const struct losses_job *job = rows->job;
  const struct fk_row_loss *loss = job->loss;
  const bool by_column = job->part == FK_LOSS_SLOPE || job->part == FK_LOSS_PRODUCT;
  for (int64_t c = 0; c < loss->t; c++)
    for (int64_t i = 0; i < rows->count; i++) {
      const int64_t at = c * loss->n + rows->first + i;
      const struct bend bend = bend_at(loss, c, link_at(rows, c, i), loss->y[at]);
      double *own = &out[by_column ? c * loss->n + i : i];
      if (!by_column && c == 0) *own = 0;
      switch (job->part) {
        case FK_LOSS_VALUE: *own += bend.value; break;
        case FK_LOSS_SLOPE: *own = bend.slope; break;
        case FK_LOSS_CURVATURE: *own += bend.curvature / (double)loss->t; break;
        case FK_LOSS_PRODUCT: *own = bend.curvature * job->u[at]; break;
      }
    }
}

/* ---- blocks ----------------------------------------------------------------------------------- */

static void do_rows(const struct losses_rows *rows, double *out) {
  struct softmax s;
  if (rows->job->loss->kind != FK_LOSS_CLASSES) {
    number_rows(rows, out);
    return;
  }
  if (rows->job->loss->t == 1) {
    logit_rows(rows, out);
    return;
  }
  if (rows->job->part != FK_LOSS_PRODUCT) softmax_of(rows, &s);
  switch (rows->job->part) {
    case FK_LOSS_VALUE: softmax_values(rows, &s, out); break;
    case FK_LOSS_SLOPE: softmax_slopes(rows, &s, out); break;
    case FK_LOSS_CURVATURE: softmax_curvatures(rows, &s, out); break;
    case FK_LOSS_PRODUCT: softmax_products(rows, out); break;
  }
}

static struct losses_rows rows_of(const struct losses_job *job, int64_t block) {
  const int64_t first = block * ROWS;
  return (struct losses_rows){job, first, fk_smaller(ROWS, job->loss->n - first)};
}

static void write_blocks(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct losses_job *job = data;
  for (int64_t b = first; b < end; b++) {
    struct losses_rows rows = rows_of(job, b);
    do_rows(&rows, job->out + rows.first);
  }
}

static void sum_blocks(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct losses_job *job = data;
  const double *weights = job->line->weights;
  for (int64_t b = first; b < end; b++) {
    struct losses_rows rows = rows_of(job, b);
    double values[ROWS] = {0};
    long double sum = 0;
    do_rows(&rows, values);
    for (int64_t i = 0; i < rows.count; i++)
      sum += weights ? (long double)weights[rows.first + i] * values[i] : values[i];
    job->sums[b] = sum;
  }
}

static void run(struct losses_job *job, fk_body body) {
  const struct fk_row_loss *loss = job->loss;
  const double row = 50.0 * (double)loss->t; /* multiply-adds */
  fk_parallel_for(fk_threads_for_work(loss->threads, row * (double)loss->n), fk_pieces(loss->n, ROWS),
                  fk_step_for_work(row * ROWS), body, job);
}

void fk_row_loss_rows(const struct fk_row_loss *loss, enum fk_loss_part part, const double *u, double *out) {
  struct losses_job job = {.loss = loss, .part = part, .u = u, .out = out};
  run(&job, write_blocks);
}

enum fk_status fk_row_loss_sum(const struct fk_row_loss *loss, const struct fk_loss_line *line, double *sum,
                               struct fk_error *err) {
  const int64_t blocks = fk_pieces(loss->n, ROWS);
  struct losses_job job = {.loss = loss, .line = line, .part = FK_LOSS_VALUE};
  long double all = 0;
  job.sums = malloc(sizeof *job.sums * (size_t)(blocks + 1));
  if (!job.sums) return fk_no_memory(err, 0, "the losses of blocks of rows");
  run(&job, sum_blocks);
  for (int64_t b = 0; b < blocks; b++) all += job.sums[b];
  free(job.sums);
  *sum = (double)all;
  return FK_STATUS_OK;
}
