/* The internal interface of flashkernel: everything that one layer may know of another.
 *
 *   r/     R objects -> plain structs, errors -> R conditions   (with init.c the only code that knows R)
 *   core/  whitening, operators, estimators, choice of the engine, threads
 *   fast/  sums to a tolerance: the method, and the proof       (knows grids by grid/backend.h)
 *   cpu/   the exact engine on the CPU; in folders of its own a grid, direct sums, vector operations
 *   cuda/  the exact engine and a grid on NVIDIA GPUs, where they are built  (C++ without exceptions, for nvcc)
 *   grid/  what both grids share
 *
 * One operation carries every estimator, the kernel sum, here of the Gaussian kernel
 *
 *   V[j, r] = sum_i w_i f(q_ij / 2) exp(-q_ij / 2) B[i, r],   q_ij = |L^-1 (y_j - x_i)|^2,  H = L L'
 *
 * with f a quadratic polynomial (1 for a density, 1 + d/2 - q/2 for the Laplace correction).
 * Matrices are column-major, n x d, one point a row, as R stores them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/language.h"
#include "core/operations.h"

FK_BEGIN_C

/* ---- status and errors ------------------------------------------------------------------------ */

/* Numbers are frozen: append only. */
enum fk_status {
  FK_STATUS_OK = 0,
  FK_STATUS_INVALID = 1,
  FK_STATUS_ALLOC = 2,
  FK_STATUS_UNSUPPORTED = 3,
  FK_STATUS_INTERRUPTED = 4,
  FK_STATUS_FORKED = 5,
  FK_STATUS_NO_DEVICE = 6,
  FK_STATUS_DEVICE = 7,
  FK_STATUS_INTERNAL = 8,
  FK_STATUS_SINGULAR = 9,
  FK_STATUS_LOST = 10
};

/* Owned by the caller; the first failure fills it, later ones leave it. */
struct fk_error {
  enum fk_status status;
  char message[256];
};

enum fk_status fk_fail(struct fk_error *err, enum fk_status status, const char *format, ...);
/* FK_STATUS_ALLOC; bytes 0: they do not matter. */
enum fk_status fk_no_memory(struct fk_error *err, double bytes, const char *what);
const char *fk_status_name(enum fk_status status);

/* ---- options and what was done ---------------------------------------------------------------- */

enum fk_backend { FK_BACKEND_AUTO, FK_BACKEND_CPU, FK_BACKEND_CUDA };
enum fk_precision { FK_PRECISION_AUTO, FK_PRECISION_DOUBLE, FK_PRECISION_SINGLE, FK_PRECISION_FAST };

/* "exact" sums every pair, "fast" in time linear in the points, up to a tolerance. */
enum fk_engine_kind { FK_ENGINE_AUTO, FK_ENGINE_EXACT, FK_ENGINE_FAST };
/* What the tolerance is relative to: the largest sum of |b_j| k of all targets, or each target's own. */
enum fk_tol_type { FK_TOL_GLOBAL, FK_TOL_POINTWISE };

enum { FK_MAX_DEVICES = 16 };

/* Called between chunks of work, on the calling thread only; nonzero asks to stop. */
struct fk_poll {
  int (*fn)(void *data, double fraction);
  void *data;
};

struct fk_opts {
  enum fk_backend backend;
  enum fk_precision precision;
  int threads;                            /* 0: the default */
  int devices[FK_MAX_DEVICES], n_devices; /* numbers as in nvidia-smi; -1: all; none: the first */
  enum fk_engine_kind engine;
  double tol; /* 0: exact */
  enum fk_tol_type tol_type;
  unsigned methods;     /* see core/method.h; 0: those that take the least time */
  bool as_exact;        /* a tolerance that was not asked for: sums of all pairs in double have no better one */
  double device_memory; /* bytes of each GPU that operators may keep; < 0: half of it */
  double host_memory;   /* the same of the host's, for the CPU; < 0: see core/kept.h */
  double gpu_memory;    /* bytes of each GPU that may be used in all; < 0: what there is; 0: as it was said last */
  struct fk_poll poll;
};

/* What was computed where; calls add to pairs, skipped, seconds, device_seconds and tail_rows. */
struct fk_stats {
  const char *backend, *engine, *method, *precision, *isa;
  char device[128], reason[96], reason_engine[128]; /* why this back end, and why this engine and method */
  int threads;
  int devices[FK_MAX_DEVICES], n_devices;
  double pairs, skipped; /* skipped: of them, those that could not matter and were not computed */
  double seconds, device_seconds, tail_rows;
  /* Of the fast engine, relative as tol_type says; 0: exact. On a sample of rows, and what is proven of all. */
  double tol_achieved, tol_bound;
};

/* ---- points and bandwidth --------------------------------------------------------------------- */

enum fk_type { FK_DOUBLE, FK_FLOAT };

/* A view of n x d numbers, column-major, columns `ld` apart: it may be rows of a larger matrix. Points are read
 * through it as they came; those in whitened coordinates are doubles. */
struct fk_matrix {
  const void *data; /* NULL: not on the host; of targets: the points of the other side */
  enum fk_type type;
  int64_t n, d, ld;
  struct fk_resident *resident; /* where a device computed all of these; NULL: none did */
};

static inline struct fk_matrix fk_doubles(const double *data, int64_t n, int64_t d) {
  struct fk_matrix x = {data, FK_DOUBLE, n, d, n, NULL};
  return x;
}
static inline const double *fk_column(const struct fk_matrix *x, int64_t k) { /* x->type is FK_DOUBLE */
  return (const double *)x->data + k * x->ld;
}
struct fk_matrix fk_part(const struct fk_matrix *x, int64_t row, int64_t rows, int64_t column, int64_t columns);
/* Are these the same numbers, in the same place? */
bool fk_is_same(const struct fk_matrix *a, const struct fk_matrix *b);
/* As doubles: row rows[r] to to[k * ld + r]; `count` rows spread evenly over all, to[k * count + r]; numbers first
 * .. first + count - 1 of column k. */
void fk_gather(const struct fk_matrix *x, const int64_t *rows, int64_t count, double *to, int64_t ld);
void fk_thin_out(const struct fk_matrix *x, int64_t count, double *to);
void fk_read(const struct fk_matrix *x, int64_t k, int64_t first, int64_t count, double *to);
/* All of it, to[k * ld + i], on several threads (0: all), as one cannot fill the memory's bus. */
void fk_copy_rows(const struct fk_matrix *from, double *to, int64_t ld, int threads);

/* u = L^-1 (x - centre): unit bandwidth, numbers of moderate size. */
struct fk_whitening {
  int64_t d;
  const double *chol;  /* L, d x d lower, column-major */
  const double *dense; /* d x d, takes the place of L^-1 where it is not NULL */
  double *centre;      /* d */
  bool diagonal;
};

/* Without a centre, which takes a pass over the points; then with it. */
void fk_whitening_start(struct fk_whitening *w, const double *chol, int64_t d);
enum fk_status fk_whitening_centre(struct fk_whitening *w, const struct fk_matrix *x, const double *weights,
                                   int threads, struct fk_error *err);
enum fk_status fk_whitening_init(struct fk_whitening *w, const double *chol, const struct fk_matrix *x,
                                 const double *weights, int threads, struct fk_error *err);
void fk_whitening_free(struct fk_whitening *w);
/* Points are whitened in blocks of so many. */
enum { FK_BLOCK = 192 };
/* Rows first .. first + count - 1, picked through rows[] where it is not NULL, to u[k * width + r]; 0 from count
 * to width. work: d x width, NULL where w->dense is. */
void fk_whiten(const struct fk_whitening *w, const struct fk_matrix *x, const int64_t *rows, int64_t first,
               int64_t count, double *u, int64_t width, double *work);
/* Rows first .. first + count - 1, to u[k * ld + r], on several threads. */
enum fk_status fk_whiten_points(const struct fk_whitening *w, int threads, const struct fk_matrix *points,
                                int64_t first, int64_t count, double *u, int64_t ld, struct fk_error *err);

/* ---- the task of an engine -------------------------------------------------------------------- */

/* Kernels; core/kernels.c has the table of what is known of each. */
enum fk_kernel_id {
  FK_KERNEL_GAUSSIAN,
  FK_KERNEL_LAPLACIAN,
  FK_KERNEL_MATERN32,
  FK_KERNEL_MATERN52,
  FK_KERNEL_CAUCHY,
  FK_KERNEL_IMQ,
  FK_KERNEL_LINEAR,
  FK_KERNEL_POLYNOMIAL,
  FK_KERNEL_SIGMOID,
  FK_KERNELS
};
enum { FK_KERNEL_PARAMETERS = 3 };
struct fk_kernel {
  enum fk_kernel_id id;
  double parameters[FK_KERNEL_PARAMETERS]; /* in the order of the table */
};

/* How engines compute a kernel: from t = -|scale L^-1 (y - x)|^2, from its root s = -sqrt(-t), or from the product
 * p = (L^-1 x)'(L^-1 y) of points that are not centred. */
enum fk_form_type {
  FK_FORM_GAUSSIAN, /* 2^t (factor[0] + factor[1] t + factor[2] t^2) */
  FK_FORM_ROOT,     /* the same of s */
  FK_FORM_CAUCHY,   /* 1 / (1 - t) */
  FK_FORM_IMQ,      /* 1 / sqrt(1 - t) */
  FK_FORM_POWER,    /* (factor[0] + factor[1] p)^factor[2] */
  FK_FORM_TANH      /* tanh(factor[0] + factor[1] p) */
};
static inline bool fk_form_is_product(enum fk_form_type type) { return type >= FK_FORM_POWER; }

/* A value is above `above`, at most `most`, and whole where it has to be. */
struct fk_kernel_parameter {
  const char *name; /* NULL: there are no more */
  double otherwise, above, most;
  bool whole;
};
struct fk_kernel_info {
  const char *name, *others; /* others: what other programs call it, letters and digits alone, apart by spaces */
  const char *formula;       /* of r = |L^-1 (y - x)|, or of x'y with whitened points */
  enum fk_form_type form;
  double rate, factor[3]; /* of FK_FORM_ROOT: exp(-a) (factor[0] + factor[1] a + factor[2] a^2), a = rate r */
  bool smooth;            /* at r = 0: else no few Gaussians add up to it */
  bool underflows;        /* it falls exponentially, so that sums far away lose terms */
  double mixture;         /* p, where it is (1 + r^2)^-p, a sum of few Gaussians (fast/mixture.h); else 0 */
  double cost;            /* multiply-adds of a pair beside those of the coordinates and values */
  struct fk_kernel_parameter parameters[FK_KERNEL_PARAMETERS];
};
const struct fk_kernel_info *fk_kernel_info(enum fk_kernel_id id);
int fk_kernel_n_parameters(enum fk_kernel_id id);
bool fk_kernel_of(const char *name,
                  struct fk_kernel *kernel); /* with no others' parameters; false: there is none */
bool fk_kernel_equal(const struct fk_kernel *a, const struct fk_kernel *b);
/* The Gaussian itself. */
bool fk_kernel_is_gaussian(const struct fk_kernel *kernel);
/* A function of r; else of x'y, which means other points once they are centred. */
bool fk_kernel_is_radial(const struct fk_kernel *kernel);
/* The kernels of m points x at a point y in the place of their products x'y, all whitened; norm: |y|^2, norms: the
 * m |x|^2. r^2 is |x|^2 + |y|^2 - 2 x'y, at least 0: its error is of the size of rounding |x|^2 + |y|^2, so that
 * of r between points that are close to each other and far from 0 is the root of that. Where the three sums are
 * the same number, r is 0 and its kernel 1. */
void fk_kernel_of_products(const struct fk_kernel *kernel, double norm, const double *norms, int64_t m,
                           double *values);

enum fk_values {
  FK_VALUES_NONE,        /* mass[j] = sum_i w_i f k_ij */
  FK_VALUES_COORDINATES, /* and sums[j, k] = sum_i w_i f k_ij u_ik, u the whitened coordinates; see `relative` */
  FK_VALUES_COLUMNS      /* and sums[j, r] = sum_i w_i f k_ij columns[i, r] */
};

struct fk_engine;
struct fk_operator;

struct fk_task {
  /* Whose sources, whitening and kernel these are: it keeps what is prepared for them; NULL: nothing is kept. */
  struct fk_operator *op;
  struct fk_matrix sources, targets; /* targets.data NULL: the sources, every pair computed once */
  const struct fk_whitening *whitening;
  struct fk_kernel kernel; /* other than the Gaussian: no factor, no coordinates */
  const double *weights;   /* n, NULL: ones */
  enum fk_values values;
  const double *columns; /* n x n_columns */
  int64_t n_columns;
  double factor[3];  /* f(q/2) = factor[0] + factor[1] q/2 + factor[2] (q/2)^2 */
  bool exclude_self; /* drop i == j (targets are the sources) */

  /* Sums of coordinates may be those of kernels rounded to 2^-12, as where half a score is a shift. The engine
   * sets *relative, false before, where they are those of u_ik - u_jk, as of points far from the centre. */
  bool rounded, *relative;

  double *mass;   /* m, always written */
  double *sums;   /* m x d or m x n_columns, NULL for FK_VALUES_NONE */
  bool tail_pass; /* do rows again that underflow, with mass and sums scaled by exp(-shift[j]) */
  double *shift;  /* m, 0 but for those rows; NULL: of no interest, as where only sums / mass counts */
  /* NULL: no. Else an engine that can may leave the logarithms of |mass|, shift included, in place of the masses:
   * it sets *logs, false before. */
  bool *logs;
};

static inline const struct fk_matrix *fk_task_targets(const struct fk_task *task) {
  return task->targets.data ? &task->targets : &task->sources;
}
static inline int64_t fk_n_targets(const struct fk_task *task) { return fk_task_targets(task)->n; }
/* Columns summed beside the mass. */
static inline int64_t fk_n_values(const struct fk_task *task) {
  return task->values == FK_VALUES_COORDINATES ? task->sources.d
         : task->values == FK_VALUES_COLUMNS   ? task->n_columns
                                               : 0;
}

struct fk_kernel_form {
  enum fk_form_type type;
  double scale, factor[3];
};
struct fk_kernel_form fk_task_form(const struct fk_task *task);

#define FK_LN2 0.693147180559945309417
#define FK_LOG2E 1.44269504088896340736

/* For each term, a sum in double below this may have lost some to underflow: each is under 2^-1021, the smallest
 * number that counts, and 2^60 of them would be needed to matter. */
#define FK_LOST (0x1p-1021 * 0x1p60)
/* A sum of n terms, with weights up to weight_scale, that is below this has to be done again. */
double fk_lost_below(bool single, int64_t n, double weight_scale);
/* The rows whose sum underflowed, |mass| < threshold, or is not a number; the caller frees. None found: NULL. */
enum fk_status fk_rows_below(const double *mass, int64_t m, double threshold, int64_t **rows, int64_t *found,
                             struct fk_error *err);

/* Exact sums of coefficients, task->weights or columns, that may be of any size: where a sum is so far below the
 * largest of them that terms were lost, it is done again by `engine`, as a tail. */
enum fk_status fk_redo_lost_sums(const struct fk_task *task, const struct fk_engine *engine,
                                 const struct fk_opts *opts, struct fk_stats *stats, struct fk_error *err);

/* ---- matrices that stay where they were computed ---------------------------------------------- */

/* n x d, column-major. On the host, as doubles, from the first time that somebody asks for it there. */
struct fk_resident;
int64_t fk_resident_rows(const struct fk_resident *x);
int64_t fk_resident_columns(const struct fk_resident *x);
const double *fk_resident_host(struct fk_resident *x, struct fk_error *err); /* NULL: a failure */
bool fk_resident_is_here(const struct fk_resident *x);
void fk_resident_free(struct fk_resident *x);

/* ---- operators -------------------------------------------------------------------------------- */

/* Sums over the same sources, any number of them: an operator keeps what engines prepare (the centre, points that
 * are whitened and packed, a device's copy), each from the first sum that needs it.
 *
 *   fk_operator_create -> fk_kernel_sum, fk_log_sum, fk_score, ... -> fk_operator_free
 *
 * Points and weights stay the caller's and must not change. */
struct fk_operator_spec {
  struct fk_matrix x;
  const double *weights; /* of a density, which give it a centre; NULL: ones */
  const double *chol;    /* d x d, copied */
  struct fk_kernel kernel;
  bool stays; /* there will be other sums: what takes much memory is kept, too */
};
enum fk_status fk_operator_create(const struct fk_operator_spec *spec, struct fk_operator **op,
                                  struct fk_error *err);
void fk_operator_free(struct fk_operator *op);

/* What an engine prepared, and how it is given back. What takes much of the host's memory is among all that does,
 * see core/kept.h. */
struct fk_kept {
  void *state;
  void (*free)(void *state);
  double bytes;
  struct fk_kept *older, *newer; /* NULL: not among them */
};
enum fk_keeper {
  FK_KEEPER_RADIUS,   /* how far the sources reach */
  FK_KEEPER_PACKED,   /* the sources as the exact engine reads them on the CPU */
  FK_KEEPER_BLOCKS,   /* in blocks with boxes, for the pairs that matter, on the CPU */
  FK_KEEPER_GRID,     /* in the order of a grid, and the grid, on the CPU */
  FK_KEEPER_DIRECT,   /* in cells, for direct sums */
  FK_KEEPER_SAMPLES,  /* some of them, by which methods are chosen */
  FK_KEEPER_ENVELOPE, /* where they are, for the bound of a grid's error, on the CPU */
  FK_KEEPER_CUDA,     /* what GPUs have */
  FK_KEEPERS
};

/* Of an operator, for engines and estimators. */
struct fk_operator {
  struct fk_matrix x; /* data NULL: not on the host yet, see fk_operator_here() */
  const double *weights;
  struct fk_kernel kernel;
  bool stays;
  struct fk_whitening whitening; /* centre NULL: not known yet */
  double *chol;
  struct fk_kept kept[FK_KEEPERS];
};
/* Are the task's sources its operator's? */
bool fk_task_own(const struct fk_task *task);
/* The task's operator, where it is to keep what is prepared of the task's sources; NULL: it is not, or these are
 * not its own. */
struct fk_operator *fk_task_keeper(const struct fk_task *task);
/* Points on the host, and their centre: to the operator, and to a task of its. */
enum fk_status fk_operator_here(struct fk_operator *op, int threads, struct fk_task *task, struct fk_error *err);

/* The normal product K'(W (K v + w)) of the m x n matrix K of kernels: its columns are the n points of one
 * operator, its rows those of another with the same factor and kernel. What conjugate gradients ask for in each
 * step. */
struct fk_normal {
  struct fk_operator *rows; /* the same operator: the points at themselves */
  const double *v;          /* n x n_columns; NULL: 0 */
  const double *w;          /* m x n_columns; NULL: 0 */
  const double *weights;    /* m, the diagonal of W, of any sign; NULL: ones */
  double *sums;             /* m x n_columns, where K v goes as well, of a v that is given; NULL: nowhere */
  int64_t n_columns;
};
struct fk_task fk_normal_task(struct fk_operator *op, const struct fk_normal *normal); /* K v, without results */

/* ---- engines ---------------------------------------------------------------------------------- */

/* The size of a job and what is asked, by which the planner (core/plan.h) chooses. */
struct fk_work {
  double n, m, d, n_values; /* n_values: columns summed beside the mass */
  struct fk_kernel kernel;
  enum fk_operation operation;
};
struct fk_work fk_task_work(const struct fk_task *task);

struct fk_dense;    /* core/dense.h */
struct fk_loo_task; /* core/loo.h, as the next */
struct fk_widths;
struct fk_held_out;

/* An engine knows nothing of R: it sums kernels on whitened points. */
struct fk_engine {
  const char *name;
  enum fk_backend backend;
  enum fk_engine_kind kind;
  unsigned operations; /* FK_CAN() of each that it has */
  /* Can it do this work to the tolerance of the options? NULL: any work, exactly. */
  bool (*supports)(const struct fk_work *work, const struct fk_opts *opts);
  /* May touch the driver; NULL: always. */
  enum fk_status (*available)(const struct fk_opts *opts, struct fk_error *err);
  double (*seconds)(const struct fk_work *work, const struct fk_opts *opts); /* a guess, which touches nothing */
  /* Of an exact engine: the share of the pairs that it would compute, by a sample of the points; NULL: all. */
  double (*share)(const struct fk_task *task, const struct fk_opts *opts);
  void (*describe)(const struct fk_opts *opts, struct fk_stats *stats); /* what would compute, before any data */
  enum fk_status (*sums)(const struct fk_task *task, const struct fk_opts *opts, struct fk_stats *stats,
                         struct fk_error *err);
  enum fk_status (*debiased_loo)(const struct fk_loo_task *task, const struct fk_opts *opts,
                                 struct fk_stats *stats, struct fk_error *err);
  bool sends_points; /* an operator's may be on the device alone, and their centre unknown */
  /* The points x_j + A (V_j / S_j - u_j), V and S the sums of the task's coordinates and of their kernels, u_j the
   * whitened x_j; they stay on the device. FK_STATUS_UNSUPPORTED: not these, and nothing was done.
   */
  enum fk_status (*shift)(const struct fk_task *task, const double *A, const struct fk_opts *opts,
                          struct fk_resident **moved, struct fk_stats *stats, struct fk_error *err);
  /* A normal product as a whole; both operators have their points on the host, K's columns have their centre.
   * FK_STATUS_UNSUPPORTED: two sums are the better way here, and nothing was done. NULL: they always are. */
  enum fk_status (*normal)(struct fk_operator *op, const struct fk_normal *normal, const struct fk_opts *opts,
                           double *product, struct fk_stats *stats, struct fk_error *err);
  /* Kernels of the task's targets, the rows, at its sources, the columns, in double and by differences or
   * products, to the host's memory or that of the options' first device. Of sources at themselves, the lower
   * triangle alone. NULL: of an engine that is not exact. */
  enum fk_status (*matrix)(const struct fk_task *task, const struct fk_opts *opts, const struct fk_dense *K,
                           struct fk_error *err);
};

extern const struct fk_engine fk_engine_exact_cpu, fk_engine_exact_cuda, fk_engine_line, fk_engine_fast_cpu,
    fk_engine_fast_cuda;

/* ---- estimators, written against the table ---------------------------------------------------- */

/* The share of the pairs that exact sums at y would compute, by a sample of the points. */
enum fk_status fk_pairs_share(struct fk_operator *op, const struct fk_matrix *y, const struct fk_opts *opts,
                              double *share, struct fk_error *err);
/* y: where; data NULL: at the operator's own points. b: n x n_columns, NULL: ones (one column). */
enum fk_status fk_kernel_sum(struct fk_operator *op, const struct fk_matrix *y, const double *b, int64_t n_columns,
                             const struct fk_opts *opts, double *sums, struct fk_stats *stats,
                             struct fk_error *err);
/* product: n x n_columns, n the points of op. */
enum fk_status fk_normal_product(struct fk_operator *op, const struct fk_normal *normal,
                                 const struct fk_opts *opts, double *product, struct fk_stats *stats,
                                 struct fk_error *err);
/* The m x n matrix of kernels at y, exact, by the CPU. */
enum fk_status fk_kernel_matrix(struct fk_operator *op, const struct fk_matrix *y, const struct fk_opts *opts,
                                double *K, struct fk_error *err);
/* log |sum_i w_i f k|, which never underflows, and whether the sum is negative (negative: NULL if of no interest).
 */
struct fk_logs {
  double *log_abs;
  int *negative;
};
enum fk_status fk_log_sum(struct fk_operator *op, const struct fk_matrix *y, const double factor[3], bool loo,
                          const struct fk_opts *opts, const struct fk_logs *out, struct fk_stats *stats,
                          struct fk_error *err);
/* Gradient of log |estimate|, m x d, of the KDE or the Laplace-corrected KDE. */
struct fk_score_spec {
  struct fk_matrix y;
  const double *factor; /* 3, as of fk_log_sum() */
  bool loo;
};
enum fk_status fk_score(struct fk_operator *op, const struct fk_score_spec *spec, const struct fk_opts *opts,
                        double *score, struct fk_stats *stats, struct fk_error *err);
/* x + (H/2) score of the KDE at x, H = chol chol', the score's bandwidth being the operator's. */
enum fk_status fk_debias(struct fk_operator *op, const double *chol, const struct fk_opts *opts, double *debiased,
                         struct fk_stats *stats, struct fk_error *err);
/* The same where it is computed and stays on a device. FK_STATUS_UNSUPPORTED: it does not, and nothing was done.
 */
enum fk_status fk_debias_there(struct fk_operator *op, const double *chol, const struct fk_opts *opts,
                               struct fk_resident **debiased, struct fk_stats *stats, struct fk_error *err);
/* Leave-one-out of the SD-KDE of the operator's points, whose bandwidth is that of the score. widths: NULL for
 * one, of points that are all the score is of. held_out: the points that are left out; NULL: the operator's.
 */
enum fk_status fk_sdkde_loo(struct fk_operator *op, const double *chol, const struct fk_widths *widths,
                            const struct fk_held_out *held_out, const struct fk_opts *opts, double *log_sum,
                            struct fk_stats *stats, struct fk_error *err);

/* ---- threads and memory ----------------------------------------------------------------------- */

/* Threads for a request (0: default). One in forked children, which mostly share the processors already. */
int fk_threads(int requested);
double fk_seconds(void);

/* Bytes of memory that the machine has; infinite where the system does not tell. */
double fk_machine_memory(void);

FK_END_C
