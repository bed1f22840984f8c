/* The internal interface of flashkernel: the declarations that more than one layer uses.
 *
 *   r/     converts R objects to plain structs and failures to R conditions (only r/ and init.c know R)
 *   core/  whitening, operators, estimators, the choice of an engine, threads
 *   fast/  sums to a tolerance: the choice of a method and the proof of its error (uses grids by grid/backend.h)
 *   cpu/   the exact engine on the CPU; subfolders hold the grid, direct sums and vector instructions
 *   cuda/  the exact engine and the grid on NVIDIA GPUs, if built (C++ without exceptions, for nvcc)
 *   grid/  code shared by the grids of the CPU and of the GPU
 *
 * All estimators are computed from one operation, the kernel sum. For the Gaussian kernel it is
 *
 *   V[j, r] = sum_i w_i f(q_ij / 2) exp(-q_ij / 2) B[i, r],   q_ij = |L^-1 (y_j - x_i)|^2,  H = L L'
 *
 * where f is a quadratic polynomial (1 for a density, 1 + d/2 - q/2 for the Laplace correction).
 *
 * Conventions. Matrices are column-major, n x d, one point a row, as R stores them. Sources are the n points x_i,
 * targets the m points y_j. Unless a comment says otherwise, arguments are borrowed: the caller owns them, and
 * outputs are arrays that the caller has allocated. A function that returns enum fk_status returns FK_STATUS_OK or
 * the status that it has written to *err; its outputs are then unspecified.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/kernels.h"
#include "core/language.h"
#include "core/operations.h"

FK_BEGIN_C

/* ---- status and errors ------------------------------------------------------------------------ */

/* Outcome of a function. Values are frozen: append only. Between layers, FK_STATUS_UNSUPPORTED means that the
 * caller should try another method. */
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

/* A failure, owned by the caller and initialised to {FK_STATUS_OK, ""}. The first failure fills it; later failures
 * leave it unchanged. */
struct fk_error {
  enum fk_status status;
  char message[256];
};

/* Records a failure in *err, unless *err holds one already. `format` is a printf() format. Returns `status`. */
enum fk_status fk_fail(struct fk_error *err, enum fk_status status, const char *format, ...);
/* Records FK_STATUS_ALLOC: "out of memory: <bytes> for <what>". With bytes = 0 the message omits the size. */
enum fk_status fk_no_memory(struct fk_error *err, double bytes, const char *what);
/* Name of a status, as in the class of the R condition, flashkernel_error_<name>. */
const char *fk_status_name(enum fk_status status);

/* ---- options and what was done ---------------------------------------------------------------- */

enum fk_backend { FK_BACKEND_AUTO, FK_BACKEND_CPU, FK_BACKEND_CUDA };
enum fk_precision { FK_PRECISION_AUTO, FK_PRECISION_DOUBLE, FK_PRECISION_SINGLE, FK_PRECISION_FAST };

/* "exact" engines sum every pair that matters; "fast" engines take time linear in the number of points, and have
 * an error up to a tolerance. */
enum fk_engine_kind { FK_ENGINE_AUTO, FK_ENGINE_EXACT, FK_ENGINE_FAST };
/* What the tolerance is relative to: the largest of all targets' sums of |b_j| k, or each target's own such
 * sum. */
enum fk_tol_type { FK_TOL_GLOBAL, FK_TOL_POINTWISE };

enum { FK_MAX_DEVICES = 16 };

/* A callback that is called between chunks of work, on the calling thread only. `fraction` is the part of the work
 * that is done, 0 to 1. A nonzero return value asks to stop, with FK_STATUS_INTERRUPTED. fn may be NULL. */
struct fk_poll {
  int (*fn)(void *data, double fraction);
  void *data;
};

/* What a caller asks of a computation. */
struct fk_opts {
  enum fk_backend backend;
  enum fk_precision precision;
  int threads;                            /* 0: the default, see fk_threads() */
  int devices[FK_MAX_DEVICES], n_devices; /* numbers as in nvidia-smi; -1: all; n_devices = 0: the first */
  enum fk_engine_kind engine;
  double tol; /* error tolerance, relative as tol_type says; 0: exact */
  enum fk_tol_type tol_type;
  unsigned methods;     /* methods to use, a sum of enum fk_method (core/method.h); 0: the fastest by estimate */
  bool as_exact;        /* set by the planner: the fast engine replaces exact sums, with tol = FK_PLAN_AS_EXACT */
  double device_memory; /* bytes of each GPU that operators may cache; < 0: half of its memory */
  double host_memory;   /* bytes of the host that operators may cache; < 0: the default, see core/kept.h */
  double gpu_memory;    /* bytes of each GPU that may be used in all; < 0: no limit; 0: the last limit given */
  struct fk_poll poll;
};

/* What was computed, where and why. Calls add to pairs, skipped, seconds, device_seconds and tail_rows. The
 * strings are constants. */
struct fk_stats {
  const char *backend, *engine, *method, *precision, *isa;
  /* reason: why this back end was chosen; reason_engine: why this engine and method. */
  char device[128], reason[96], reason_engine[128];
  int threads;
  int devices[FK_MAX_DEVICES], n_devices;
  double pairs, skipped; /* pairs of points; those of them that could not matter and were not computed */
  double seconds, device_seconds, tail_rows; /* tail_rows: rows that underflowed and were recomputed */
  /* Errors of the fast engine, relative as tol_type says: the largest one on a sample of rows that was checked,
   * and a proven bound for all rows. 0 for exact sums. */
  double tol_achieved, tol_bound;
};

/* ---- points and bandwidth --------------------------------------------------------------------- */

enum fk_type { FK_DOUBLE, FK_FLOAT };

/* A view of n x d numbers, column-major, with columns `ld` numbers apart, so that it may be a part of a larger
 * matrix. It owns nothing. Users' points are read in the type in which they came; whitened points are doubles. */
struct fk_matrix {
  const void *data; /* NULL: not on the host; for targets, NULL means that they are the sources */
  enum fk_type type;
  int64_t n, d, ld;
  struct fk_resident *resident; /* the matrix on a device that holds all of these numbers; NULL: none */
};

/* The view of n x d contiguous doubles. */
static inline struct fk_matrix fk_doubles(const double *data, int64_t n, int64_t d) {
  struct fk_matrix x = {data, FK_DOUBLE, n, d, n, NULL};
  return x;
}
/* Column k, from 0; x->type must be FK_DOUBLE. */
static inline const double *fk_column(const struct fk_matrix *x, int64_t k) {
  return (const double *)x->data + k * x->ld;
}
/* The view of rows row .. row + rows - 1 and columns column .. column + columns - 1 of x. */
struct fk_matrix fk_part(const struct fk_matrix *x, int64_t row, int64_t rows, int64_t column, int64_t columns);
/* Do both views have the same address, type and dimensions? Compares no numbers. */
bool fk_is_same(const struct fk_matrix *a, const struct fk_matrix *b);
/* The next three copy numbers as doubles. fk_gather: row rows[r] goes to to[k * ld + r], r < count. fk_thin_out:
 * a row of each of `count` parts goes to to[k * count + r]. fk_read: rows first .. first + count - 1 of column k
 * go to to[0 .. count - 1]. */
void fk_gather(const struct fk_matrix *x, const int64_t *rows, int64_t count, double *to, int64_t ld);
void fk_thin_out(const struct fk_matrix *x, int64_t count, double *to);
void fk_read(const struct fk_matrix *x, int64_t k, int64_t first, int64_t count, double *to);
/* Copies all rows to to[k * ld + i], as doubles, on `threads` threads (0: the default). One thread alone cannot
 * use the whole bandwidth of the memory. */
void fk_copy_rows(const struct fk_matrix *from, double *to, int64_t ld, int threads);

/* The map u = L^-1 (x - centre), after which the bandwidth is 1 and coordinates are of moderate size. `chol` and
 * `dense` are borrowed; `centre` is allocated by fk_whitening_centre() and freed by fk_whitening_free(). */
struct fk_whitening {
  int64_t d;
  const double *chol;  /* L, d x d lower triangular, column-major */
  const double *dense; /* d x d matrix that replaces L^-1; NULL: L^-1 is used */
  double *centre;      /* d numbers; NULL: not known yet */
  bool diagonal;       /* is the map diagonal? */
};

/* fk_whitening_start: sets all but the centre. fk_whitening_centre: finds the centre in one pass over the points
 * x, which have the given weights (NULL: ones); fails with FK_STATUS_ALLOC. fk_whitening_init: both. */
void fk_whitening_start(struct fk_whitening *w, const double *chol, int64_t d);
enum fk_status fk_whitening_centre(struct fk_whitening *w, const struct fk_matrix *x, const double *weights,
                                   int threads, struct fk_error *err);
enum fk_status fk_whitening_init(struct fk_whitening *w, const double *chol, const struct fk_matrix *x,
                                 const double *weights, int threads, struct fk_error *err);
void fk_whitening_free(struct fk_whitening *w);
/* Number of points that fk_whiten() takes at a time. */
enum { FK_BLOCK = 192 };
/* Whitens rows first .. first + count - 1 of x (rows[first] .. if rows is not NULL) into u[k * width + r], and
 * sets u to 0 for r = count .. width - 1. work: d x width numbers of scratch, used only if w->dense is set. */
void fk_whiten(const struct fk_whitening *w, const struct fk_matrix *x, const int64_t *rows, int64_t first,
               int64_t count, double *u, int64_t width, double *work);
/* Whitens rows first .. first + count - 1 into u[k * ld + r], on several threads. Fails with FK_STATUS_ALLOC. */
enum fk_status fk_whiten_points(const struct fk_whitening *w, int threads, const struct fk_matrix *points,
                                int64_t first, int64_t count, double *u, int64_t ld, struct fk_error *err);

/* ---- the task of an engine -------------------------------------------------------------------- */

/* What is summed for each target, with k_ij the kernel and f the polynomial of the task. */
enum fk_values {
  FK_VALUES_NONE,        /* mass[j] = sum_i w_i f k_ij */
  FK_VALUES_COORDINATES, /* mass, and sums[j, k] = sum_i w_i f k_ij u_ik; u: whitened coordinates, see `relative`
                          */
  FK_VALUES_COLUMNS      /* mass, and sums[j, r] = sum_i w_i f k_ij columns[i, r] */
};

struct fk_engine;
struct fk_operator;

/* One sum for an engine: its inputs, and the arrays of the caller for its results. */
struct fk_task {
  /* The operator that caches what is prepared for sources, whitening and kernel; NULL: nothing is cached. */
  struct fk_operator *op;
  struct fk_matrix sources, targets; /* targets.data NULL: targets are the sources; pairs are computed once */
  const struct fk_whitening *whitening;
  /* Other than the Gaussian: the polynomial f is 1, and no FK_VALUES_COORDINATES but for FK_METRIC_ABSOLUTE on the
   * CPU, in double, with the signs of u_ik - u_jk in place of u_ik. */
  struct fk_kernel kernel;
  const double *weights; /* n numbers w_i; NULL: ones */
  enum fk_values values;
  const double *columns; /* n x n_columns, for FK_VALUES_COLUMNS */
  int64_t n_columns;
  double factor[3];  /* f(q/2) = factor[0] + factor[1] q/2 + factor[2] (q/2)^2 */
  bool exclude_self; /* leave out i == j; targets must be the sources */

  /* rounded: sums of coordinates may use kernels rounded to 2^-12, which is enough for debiasing. The engine sets
   * *relative, false before, if its sums are of u_ik - u_jk in place of u_ik, as for points far from the
   * centre. */
  bool rounded, *relative;

  double *mass;   /* m kernel sums, always written */
  double *sums;   /* m x d or m x n_columns; NULL for FK_VALUES_NONE */
  bool tail_pass; /* recompute rows that underflow; their mass and sums are then multiplied by exp(-shift[j]) */
  double *shift;  /* m log scales, 0 but for recomputed rows; NULL: not needed, as if only sums / mass is used */
  /* If not NULL, the engine may store log |mass| + shift in place of mass; it then sets *logs, false before. */
  bool *logs;
};

/* The targets of a task, their number, and the number of columns that are summed besides the mass. */
static inline const struct fk_matrix *fk_task_targets(const struct fk_task *task) {
  return task->targets.data ? &task->targets : &task->sources;
}
static inline int64_t fk_n_targets(const struct fk_task *task) { return fk_task_targets(task)->n; }
static inline int64_t fk_n_values(const struct fk_task *task) {
  return task->values == FK_VALUES_COORDINATES ? task->sources.d
         : task->values == FK_VALUES_COLUMNS   ? task->n_columns
                                               : 0;
}

/* The form of the task's kernel and polynomial. */
struct fk_kernel_form fk_task_form(const struct fk_task *task);

#define FK_LN2 0.693147180559945309417
#define FK_LOG2E 1.44269504088896340736

/* Sums in double below n times this number may have lost terms to underflow. A lost term is below 2^-1021, and
 * 2^60 lost terms per term would be needed to matter. */
#define FK_LOST (0x1p-1021 * 0x1p60)
/* The size below which a sum of n terms, with weights up to weight_scale, must be recomputed on the log scale.
 * single: the sum was made in single precision. */
double fk_lost_below(bool single, int64_t n, double weight_scale);
/* Lists the rows with |mass| < threshold or NaN: *rows has *found numbers, from 0, ascending. The caller frees
 * *rows, which is NULL if there are none. Fails with FK_STATUS_ALLOC. */
enum fk_status fk_rows_below(const double *mass, int64_t m, double threshold, int64_t **rows, int64_t *found,
                             struct fk_error *err);

/* Recomputes sums of a task that lost terms to underflow, for coefficients (task->weights or columns) of any sign
 * and size: rows that are that small beside the largest coefficient are summed again by `engine` on the log scale.
 * The number of these rows is added to stats->tail_rows. */
enum fk_status fk_redo_lost_sums(const struct fk_task *task, const struct fk_engine *engine,
                                 const struct fk_opts *opts, struct fk_stats *stats, struct fk_error *err);

/* ---- matrices on a device --------------------------------------------------------------------- */

/* An n x d matrix, column-major, in the memory of the device that computed it. fk_resident_host() returns it as
 * doubles on the host, copied at the first call; the memory stays the matrix's. It returns NULL after a failure,
 * as if the matrix was lost with its device. fk_resident_is_here: is there a copy on the host? */
struct fk_resident;
int64_t fk_resident_rows(const struct fk_resident *x);
int64_t fk_resident_columns(const struct fk_resident *x);
const double *fk_resident_host(struct fk_resident *x, struct fk_error *err);
bool fk_resident_is_here(const struct fk_resident *x);
void fk_resident_free(struct fk_resident *x); /* x may be NULL */
/* Starts to copy points to the device that will sum over them, and finds whether all numbers are finite, in one
 * pass over the host's memory. *sent: the copy, for the field `resident` of these points; the caller frees it and
 * keeps the points unchanged until then. NULL if the points are not finite or need not be sent. */
enum fk_status fk_send_points(const struct fk_matrix *x, const struct fk_opts *opts, struct fk_resident **sent,
                              bool *finite, struct fk_error *err);

/* ---- operators -------------------------------------------------------------------------------- */

/* An operator holds sources for any number of sums, and caches what engines prepare for them (the centre, whitened
 * and packed points, a copy on a device). Each item is prepared by the first sum that needs it.
 *
 *   fk_operator_create -> fk_kernel_sum, fk_log_sum, fk_score, ... -> fk_operator_free
 *
 * The operator borrows points and weights: they must stay in place, unchanged, until fk_operator_free(). */
struct fk_operator_spec {
  struct fk_matrix x;
  const double *weights; /* n weights of a density, used for the centre, too; NULL: ones */
  const double *chol;    /* L, d x d; copied */
  struct fk_kernel kernel;
  bool stays; /* more sums will follow: also cache what takes much memory */
};
/* Fails with FK_STATUS_ALLOC. The caller frees *op. */
enum fk_status fk_operator_create(const struct fk_operator_spec *spec, struct fk_operator **op,
                                  struct fk_error *err);
void fk_operator_free(struct fk_operator *op); /* op may be NULL */

/* A cached item of an operator: what an engine prepared, and the function that frees it. Large items are in a list
 * of all operators' items, from which the least recently used are evicted, see core/kept.h. */
struct fk_kept {
  void *state;
  void (*free)(void *state);
  double bytes;
  struct fk_kept *older, *newer; /* neighbours in that list; NULL: not in the list */
};
/* The items that an operator can cache. */
enum fk_keeper {
  FK_KEEPER_RADIUS,   /* the largest distance of a source from the centre */
  FK_KEEPER_PACKED,   /* the sources in the layout of the CPU's exact engine */
  FK_KEEPER_BLOCKS,   /* the sources in blocks with bounding boxes, for pruned exact sums on the CPU */
  FK_KEEPER_GRID,     /* the CPU's grid, and the sources in its order */
  FK_KEEPER_DIRECT,   /* the sources in cells, for direct sums */
  FK_KEEPER_SAMPLES,  /* samples of the sources, by which methods are chosen */
  FK_KEEPER_ENVELOPE, /* the distribution of the sources, for the bound of a grid's error on the CPU */
  FK_KEEPER_CUDA,     /* copies on GPUs */
  FK_KEEPERS
};

/* The fields of an operator; engines and estimators read them. */
struct fk_operator {
  struct fk_matrix x; /* data NULL: not on the host yet, see fk_operator_here() */
  const double *weights;
  struct fk_kernel kernel;
  bool stays;
  struct fk_whitening whitening; /* centre NULL: not known yet */
  double *chol;
  struct fk_kept kept[FK_KEEPERS];
};
/* Are the sources and whitening of the task those of its operator? */
bool fk_task_own(const struct fk_task *task);
/* The operator in which an engine may cache what it prepares for the task's sources. NULL: do not cache, because
 * no other sums will follow or because the sources are not the operator's. */
struct fk_operator *fk_task_keeper(const struct fk_task *task);
/* Makes sure that the operator's points are on the host and that their centre is known. Updates task->sources if
 * task is not NULL. Fails if memory runs out or the points were lost with their device. */
enum fk_status fk_operator_here(struct fk_operator *op, int threads, struct fk_task *task, struct fk_error *err);

/* The normal product K'(W (K v + w)) of the m x n kernel matrix K, one step of conjugate gradients. The columns of
 * K belong to the n points of one operator, its rows to the m points of another operator with the same bandwidth
 * and kernel. */
struct fk_normal {
  struct fk_operator *rows; /* operator of the rows; may be that of the columns */
  const double *v;          /* n x n_columns; NULL: 0 */
  const double *w;          /* m x n_columns; NULL: 0 */
  const double *weights;    /* m numbers of any sign, the diagonal of W; NULL: ones */
  double *sums;             /* output K v, m x n_columns, if v is not NULL; may be NULL */
  int64_t n_columns;
};
/* The task K v, without arrays for results. */
struct fk_task fk_normal_task(struct fk_operator *op, const struct fk_normal *normal);

/* ---- engines ---------------------------------------------------------------------------------- */

/* The size of a job and its operation, from which the planner (core/plan.h) chooses an engine. */
struct fk_work {
  double n, m, d, n_values; /* sources, targets, dimensions; columns summed besides the mass */
  struct fk_kernel kernel;
  enum fk_operation operation;
};
struct fk_work fk_task_work(const struct fk_task *task);

struct fk_dense; /* core/dense.h */

/* The kernel that is the sum of scales[i] times that of operator i of n, whose points may differ, but not in
 * number. */
struct fk_kernel_terms {
  int n;
  struct fk_operator **ops;
  const double *scales;
};
/* How a matrix of kernels k is written to K: scale k, or with `adds` K + scale k. */
struct fk_matrix_term {
  double scale;
  bool adds;
};
struct fk_loo_task; /* core/loo.h, also for the next two */
struct fk_widths;
struct fk_held_out;

/* The table of functions of an engine. Engines sum kernels of whitened points and know nothing of R. A function
 * pointer may be NULL where its comment says so, or if `operations` lacks the operation. */
struct fk_engine {
  const char *name;
  enum fk_backend backend;
  enum fk_engine_kind kind;
  unsigned operations; /* sum of FK_CAN(operation) */
  /* Can it do this work to the tolerance of the options? NULL: it does any work, exactly. */
  bool (*supports)(const struct fk_work *work, const struct fk_opts *opts);
  /* Is the engine available on this machine? May load the driver. NULL: always. On failure, err says why not. */
  enum fk_status (*available)(const struct fk_opts *opts, struct fk_error *err);
  /* Estimated run time in seconds, without side effects. */
  double (*seconds)(const struct fk_work *work, const struct fk_opts *opts);
  /* Share of the pairs that an exact engine would compute, estimated from a sample of the points. NULL: all. */
  double (*share)(const struct fk_task *task, const struct fk_opts *opts);
  /* Fills in the fields of stats that are known before a computation, such as backend, engine and device. */
  void (*describe)(const struct fk_opts *opts, struct fk_stats *stats);
  /* Computes the sums of a task. */
  enum fk_status (*sums)(const struct fk_task *task, const struct fk_opts *opts, struct fk_stats *stats,
                         struct fk_error *err);
  /* Computes a leave-one-out task of SD-KDE, see core/loo.h. */
  enum fk_status (*debiased_loo)(const struct fk_loo_task *task, const struct fk_opts *opts,
                                 struct fk_stats *stats, struct fk_error *err);
  bool sends_points; /* sums() accepts sources that are only on the device, with an unknown centre */
  /* Computes x_j + A (V_j / S_j - u_j): V and S are the task's sums of coordinates and of kernels, u_j the
   * whitened x_j, A a d x d matrix. The result stays on the device as *moved, which the caller frees. Returns
   * FK_STATUS_UNSUPPORTED, without side effects, if the engine cannot shift these points on the device. */
  enum fk_status (*shift)(const struct fk_task *task, const double *A, const struct fk_opts *opts,
                          struct fk_resident **moved, struct fk_stats *stats, struct fk_error *err);
  /* fk_send_points() by this engine. Returns FK_STATUS_UNSUPPORTED, without side effects, if it would not pay.
   * NULL for engines that read the host's memory. */
  enum fk_status (*send)(const struct fk_matrix *x, const struct fk_opts *opts, struct fk_resident **sent,
                         bool *finite, struct fk_error *err);
  /* Computes a normal product (n x n_columns) in one sweep. The points of both operators must be on the host, and
   * the centre of the columns' operator known. Returns FK_STATUS_UNSUPPORTED, without side effects, if two sums
   * are faster. NULL: two sums always are. */
  enum fk_status (*normal)(struct fk_operator *op, const struct fk_normal *normal, const struct fk_opts *opts,
                           double *product, struct fk_stats *stats, struct fk_error *err);
  /* Writes the kernel matrix K, or a term of it, targets by sources, in double by direct distances or inner
   * products. K is in the host's memory or in that of the first device in opts. Without targets, only the lower
   * triangle is written. NULL for engines that are not exact. */
  enum fk_status (*matrix)(const struct fk_task *task, const struct fk_matrix_term *term,
                           const struct fk_opts *opts, const struct fk_dense *K, struct fk_error *err);
};

extern const struct fk_engine fk_engine_exact_cpu, fk_engine_exact_cuda, fk_engine_line, fk_engine_fast_cpu,
    fk_engine_fast_cuda;

/* ---- estimators ------------------------------------------------------------------------------- */

/* The functions below choose an engine by the options and leave their results in the caller's arrays. y holds the
 * m targets; with y->data = NULL they are the operator's own points. Options and statistics are described above.
 * Besides the failures of an engine (memory, device, interrupt), they fail with FK_STATUS_UNSUPPORTED if no engine
 * can do the work, and with FK_STATUS_NO_DEVICE if the build has no engine for the back end that was asked for. */

/* *share: the share of the pairs that exact sums at y would compute, 0 to 1, estimated from a sample of the
 * points. */
enum fk_status fk_pairs_share(struct fk_operator *op, const struct fk_matrix *y, const struct fk_opts *opts,
                              double *share, struct fk_error *err);
/* sums: m x n_columns numbers, sum_i b_ir k_ij. b: n x n_columns coefficients; NULL: ones, with n_columns = 1. The
 * weights of the operator are not used. */
enum fk_status fk_kernel_sum(struct fk_operator *op, const struct fk_matrix *y, const double *b, int64_t n_columns,
                             const struct fk_opts *opts, double *sums, struct fk_stats *stats,
                             struct fk_error *err);
/* sums: m x d x n_columns numbers, sum_i b_ir k_ij sign(u_ik - u_jk), with sign(0) = 0: L' times the gradients of
 * the sums, for kernels of FK_METRIC_ABSOLUTE. On the CPU in double, whatever the options. */
enum fk_status fk_sign_sums(struct fk_operator *op, const struct fk_matrix *y, const double *b, int64_t n_columns,
                            const struct fk_opts *opts, double *sums, struct fk_stats *stats,
                            struct fk_error *err);
/* product: n x n_columns numbers, see struct fk_normal; op has the n points of the columns of K. */
enum fk_status fk_normal_product(struct fk_operator *op, const struct fk_normal *normal,
                                 const struct fk_opts *opts, double *product, struct fk_stats *stats,
                                 struct fk_error *err);
/* K: the m x n kernels of the targets y and the operator's points, a term of a matrix, exact, on the CPU. */
enum fk_status fk_kernel_matrix(struct fk_operator *op, const struct fk_matrix *y,
                                const struct fk_matrix_term *term, const struct fk_opts *opts, double *K,
                                struct fk_error *err);
/* Results of fk_log_sum(): log |sum_i w_i f k_ij| for m targets, computed without underflow, and whether the sum
 * is negative, 0 or 1 (negative may be NULL). */
struct fk_logs {
  double *log_abs;
  int *negative;
};
/* factor: coefficients of the polynomial f, see struct fk_task. loo: leave out each point's own term; y->data must
 * be NULL. */
enum fk_status fk_log_sum(struct fk_operator *op, const struct fk_matrix *y, const double factor[3], bool loo,
                          const struct fk_opts *opts, const struct fk_logs *out, struct fk_stats *stats,
                          struct fk_error *err);
/* fk_score() writes the gradient of log |estimate| to score, m x d, in the units of the points. The estimate is
 * the KDE or the Laplace-corrected KDE, by its factor. */
struct fk_score_spec {
  struct fk_matrix y;
  const double *factor; /* 3 coefficients of the polynomial f */
  bool loo;
};
enum fk_status fk_score(struct fk_operator *op, const struct fk_score_spec *spec, const struct fk_opts *opts,
                        double *score, struct fk_stats *stats, struct fk_error *err);
/* debiased: n x d numbers, x + (H/2) score(x) at the operator's points x, where H = chol chol' and the score is
 * that of the KDE with the operator's bandwidth. */
enum fk_status fk_debias(struct fk_operator *op, const double *chol, const struct fk_opts *opts, double *debiased,
                         struct fk_stats *stats, struct fk_error *err);
/* Computes fk_debias() on a device and leaves the result there; the caller frees *debiased. Returns
 * FK_STATUS_UNSUPPORTED, without side effects, if the engine that is chosen cannot do so. */
enum fk_status fk_debias_there(struct fk_operator *op, const double *chol, const struct fk_opts *opts,
                               struct fk_resident **debiased, struct fk_stats *stats, struct fk_error *err);
/* log_sum: logs of the leave-one-out sums of the SD-KDE of the operator's points, see struct fk_loo_task. chol:
 * the Cholesky factor of the bandwidth H of the estimate; the operator has that of the score. widths: local
 * bandwidth factors, means and masses; NULL: one bandwidth, and the operator's points are all points of the score.
 * held_out: the points that are left out; NULL: the operator's points. */
enum fk_status fk_sdkde_loo(struct fk_operator *op, const double *chol, const struct fk_widths *widths,
                            const struct fk_held_out *held_out, const struct fk_opts *opts, double *log_sum,
                            struct fk_stats *stats, struct fk_error *err);

/* ---- threads and memory ----------------------------------------------------------------------- */

/* Number of threads to use: `requested`, or the default for 0, within the limits of the process and the
 * environment. Returns 1 in forked children, which mostly share the processors already. */
int fk_threads(int requested);
double fk_seconds(void); /* a monotonic clock, in seconds */

/* Bytes of physical memory of the machine; infinite if the system does not report it. */
double fk_machine_memory(void);

FK_END_C
