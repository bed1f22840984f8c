/* The functions of one instruction set: kernels on a tile of row points (sources) by column points (targets).
 *
 * Points lie in panels of `panel` columns, [panel][k][lane], so that one layout serves as vectors (column
 * side) and as broadcasts (row side). REAL is double or float; results are added up in double.
 */
#pragma once

#include "../core/polynomial.h"
#include "../fk.h"

/* A kernel tile of 48 x 192 stays in the second-level cache (73 kB in double). Both sizes are multiples of every
 * panel. */
enum { FK_TILE_ROWS = 48, FK_TILE_COLS = 192 };

enum fk_tile_flags {
  FK_TILE_DIFFERENCE = 1, /* -sum (x - y)^2 in place of the faster 2 x'y - |x|^2 - |y|^2 */
  FK_TILE_FACTOR = 2,     /* times the polynomial of the exponent */
  FK_TILE_STORE = 4,      /* keep the kernel values */
  FK_TILE_SYMMETRIC = 8,  /* sum over columns too */
  /* other kernels than 2^t, by differences; see enum fk_form_type */
  FK_TILE_ROOT = 16, /* with FK_TILE_FACTOR */
  FK_TILE_CAUCHY = 32,
  FK_TILE_IMQ = 64,
  FK_TILE_RATIONAL = FK_TILE_CAUCHY | FK_TILE_IMQ,
  FK_TILE_STRETCHED = 512,
  FK_TILE_ABSOLUTE = 1024, /* the differences are -sum |x - y| */
  /* kernels of products x'y, double only; they are always stored */
  FK_TILE_POWER = 128,
  FK_TILE_TANH = 256
};
/* How a tile's exponents are formed: FK_METRIC_PRODUCTS also stands for x'y - |x|^2 / 2 - |y|^2 / 2. */
static inline enum fk_metric fk_tile_metric(unsigned flags) {
  if (!(flags & FK_TILE_DIFFERENCE)) return FK_METRIC_PRODUCTS;
  return flags & FK_TILE_ABSOLUTE ? FK_METRIC_ABSOLUTE : FK_METRIC_SQUARES;
}

struct fk_tile {
  int64_t d;
  int n_rows, n_cols; /* multiples of the row step and of the panel */
  const void *rows, *row_const, *row_weight;
  const void *cols, *col_const, *col_weight;
  const double *rows_low, *cols_low; /* the low parts of double-doubles, by differences in double alone; NULL: 0 */
  const void *row_exponent;          /* of the weights (base 2); only where col_shift is, and in largest() */
  const void *col_shift;             /* exponent (base 2) taken off each column, or NULL */
  const int64_t
      *col_index; /* largest(): rows first_row + i with the index of the column are left out; NULL: none */
  int64_t first_row;
  double factor[3]; /* polynomial of the exponent in base 2, or of its root; of products see enum fk_form_type */
  double power;     /* with FK_TILE_STRETCHED */
  void *kernel;     /* n_rows x FK_TILE_COLS */
  double *col_mass; /* n_cols, added to: sum over rows of row_weight * k */
  double *row_mass; /* n_rows, added to: sum over columns of col_weight * k */
};

struct fk_tile_values {
  int n_rows, n_cols;
  const void *kernel, *weight; /* weight: of the side summed over, NULL: ones */
  const void *values;          /* panels of the side summed over, [panel][v][lane] */
  int64_t n_values;
  double *out; /* out[v * ld + point] += sum */
  int64_t ld;
};

/* Y += alpha A X, or alpha A'X, of A, n x d. The columns of A, X and Y are ld, ldx and ldy apart, the rows of X
 * `step`. multiply_across: Y = A'X, where the rows of X and Y are ldx and ldy apart, and `columns` are a multiple of
 * vector_lanes. */
struct fk_tile_vector {
  const double *A, *x;
  int64_t n, d, ld, columns, ldx, ldy, step;
  double alpha, *y;
};

/* C += A B of a panel of rows by a group of row_step columns, of doubles. A is [k][panel], B [k][row_step]. */
struct fk_tile_multiply {
  const double *A, *B;
  int64_t depth;
  double *C;
  int64_t ld;
};

/* Pairs of training points j (rows) and held-out points i (columns); see core/loo.h. */
struct fk_tile_loo {
  int64_t d;
  int n_rows, n_cols;
  const double *row_points, *row_means, *row_log_mass, *row_log_weight; /* base 2; log of weight 0: -Inf */
  const double *row_precision;                                          /* 1 / f_j^2 */
  const double *col_points, *col_log_weight, *col_shift;                /* col_log_weight: of v_i, for eps */
  const double *lambda;                                                 /* d */
  int64_t first_row;
  /* a column meets itself, or a row that it dominates: rows with index, or row_dominant, col_index are dropped */
  bool drop;
  const int64_t *col_index, *row_dominant; /* row_dominant NULL: there are none */
  double *col_mass;                        /* sums of w_j * k, or with find_max the largest exponent of a term */
};

/* Second moments of differences, sum over rows of p z z', z = col - row, for each column. p is row_weight times
 * the stored kernel, or times its square, and times coordinates `times` of z where they are not negative. */
struct fk_tile_moments {
  int64_t d;
  int n_rows, n_cols;
  const double *kernel, *row_weight; /* kernel: n_rows x FK_TILE_COLS */
  const double *rows, *cols;
  bool squared, diagonal; /* diagonal: z_a^2 alone, out[a * FK_TILE_COLS + col] += */
  int64_t times[2],
      first;    /* coordinates from `first` on: z_a z_b, first <= b <= a, is number fk_moment_at() of out */
  double *mass; /* of p itself, added to; NULL: not asked */
  double *out;  /* NULL: not asked */
};
static inline int64_t fk_moment_at(int64_t a, int64_t b, int64_t first) {
  return (a - first) * (a - first + 1) / 2 + b - first;
}

/* A tile by differences, of 2^(power t) in chains, t multiplied by row_precision of the row unless that is NULL,
 * each kernel the square of the one before. A chain begins with its power, or, where `times` is not 1, with an odd
 * power of what the last chain began with whose `times` is 1. Sums of all of them, chain by chain: those of
 * columns FK_TILE_COLS apart, those of rows, NULL where they are not asked, row_ld. */
enum { FK_TILE_SCALES = 64 };
struct fk_tile_chain {
  double power;
  int times, length;
};
struct fk_tile_scales {
  struct fk_tile tile; /* col_index as in largest() */
  int n_scales, n_chains;
  const struct fk_tile_chain *chains;
  const double *row_precision;
  int64_t row_ld;
};

/* Points that are searched for neighbours lie in panels [k][FK_NEAR_POINTS], those whose neighbours they are in
 * groups [k][FK_NEAR_TARGETS]. */
enum { FK_NEAR_POINTS = 64, FK_NEAR_TARGETS = 8 };

/* Kernels of a panel of points at a group of targets with their first and second derivatives; see
 * loops/derivatives.h. */
struct fk_tile_derivatives {
  int64_t d;
  const double *points, *log_weight, *precision; /* of the points: log2 w, 1 / f^2 */
  const double *targets, *log_scale;             /* base 2 */
  const double *points_low, *targets_low;        /* of double-doubles, or both NULL */
  int64_t drop;                                  /* point drop + t is target t, and left out */
  double factor[3];
  double *sums; /* [sum][FK_NEAR_TARGETS], added to */
};

/* A panel of points at one target; see loops/cubes.h. */
enum { FK_CUBE_LANES = 8, FK_CUBE_POINTS = 32 };
struct fk_tile_cubes {
  int64_t d;
  struct fk_polynomial value, tip, slope;
  const double *points, *weights;        /* weights: 0 of the padding, and of the target itself */
  const double *target, *reach, *narrow; /* narrow: 1 / reach */
  double *sums;                          /* [sum][FK_CUBE_LANES], added to */
  double *work;                          /* with a slope 2 d FK_CUBE_POINTS */
};

/* Sums over a list of points, a multiple of FK_NEAR_POINTS of them: of weight Phi(z), and of its derivative by
 * sign y, z = sign (y - centre) / s. */
struct fk_tile_normal {
  const double *weight, *centre, *narrow; /* narrow: 1 / s, NULL: ones */
  int64_t count;
  double y, sign;
  double below, density;
};

/* Sums of weighted kernels times differences to the target, out[k * ld + col] += sum over rows of k * weight *
 * (row - col), of double-doubles. */
struct fk_tile_differences {
  int64_t d;
  int n_rows, n_cols;
  const double *kernel, *weight; /* weight: of the rows, 0 in the padding, whose differences are not 0 */
  const double *rows, *rows_low, *cols, *cols_low;
  double *out;
  int64_t ld;
};

struct fk_tile_ops {
  int panel, row_step;
  void (*sums)(const struct fk_tile *tile, unsigned flags);
  void (*largest)(const struct fk_tile *tile, unsigned flags); /* col_mass: largest exponent with the weight's */
  void (*col_values)(const struct fk_tile_values *tile);       /* sums over rows */
  void (*row_values)(const struct fk_tile_values *tile);       /* sums over columns */
  void (*differences)(const struct fk_tile_differences *tile); /* double only */
  void (*signs)(const struct fk_tile_differences *tile); /* their signs, also without low parts; double only */
  void (*loo)(const struct fk_tile_loo *tile, bool find_max); /* double only */
  void (*moments)(const struct fk_tile_moments *tile);        /* double only, as the next */
  void (*scales)(const struct fk_tile_scales *tile);
  /* Squared distances below `below` of a panel's points to one target of a group, to out[], which has room for
   * all; returns how many. low, target_low: of double-doubles, or both NULL, as of point_exponents(). Of all
   * targets of a group to a box, d lower ends and d upper ones. */
  int (*near_points)(const double *points, const double *low, int64_t d, const double *target,
                     const double *target_low, double below, double *out);
  void (*near_box)(const double *box, int64_t d, const double *targets, double *squares);
  void (*derivatives)(const struct fk_tile_derivatives *tile);
  void (*cubes)(const struct fk_tile_cubes *tile);
  /* log_weight - precision |x - target|^2 of a panel's points, to out[]; returns the least. 2^(t - shift) of a
   * list t, in place; returns their sum. See fk_tile_normal. */
  double (*point_exponents)(const double *points, const double *low, int64_t d, const double *target,
                            const double *target_low, const double *log_weight, const double *precision,
                            double *out);
  double (*powers_of_two)(double *t, int64_t n, double shift);
  /* power r^(power - 2) k of n kernels k = exp(-r^power). */
  void (*stretched_slopes)(const double *k, int64_t n, double power, double *out);
  void (*normal_sums)(struct fk_tile_normal *list);
  void (*block_solve)(const double *chol, int64_t d, double *u, int64_t width);
  void (*block_multiply)(const double *A, int64_t d, const double *u, int64_t width, double *out);
  /* Dense matrices, double only: see fk_tile_multiply. solve: rows first .. n - 1 of T^-1 u, of a lower triangle T
   * and n x panel numbers u, whose rows before `first` are 0. T is in groups of row_step rows, [column][row] up to
   * the end of the group's square, with the reciprocals of its diagonal and zeros above it. factor: replaces the
   * lower triangle of A by its Cholesky factor; returns the order of the first leading minor that is not positive,
   * or 0; group: n x row_step numbers of working memory. n and `first` are multiples of row_step; A has a panel of
   * rows more, whose numbers have no meaning. transposed: to[row * stride + column] = factor * from[row + column *
   * ld]; copied: to[row + column * stride] = that. */
  void (*multiply)(const struct fk_tile_multiply *a);
  void (*solve)(const double *T, int64_t n, double *u, int64_t first);
  int64_t (*factor)(double *A, int64_t n, int64_t ld, double *group);
  void (*transposed)(const double *from, int64_t ld, int64_t rows, int64_t columns, double factor, double *to,
                     int64_t stride);
  void (*copied)(const double *from, int64_t ld, int64_t rows, int64_t columns, double factor, double *to,
                 int64_t stride);
  void (*multiply_vector)(const struct fk_tile_vector *a);
  void (*multiply_vector_transposed)(const struct fk_tile_vector *a);
  void (*multiply_across)(const struct fk_tile_vector *a);
  int vector_lanes;
  double (*fma_rate)(double seconds); /* lanes a second, one thread */
};

struct fk_isa {
  const char *name;
  const struct fk_tile_ops *f64, *f32;
  int per_cycle; /* multiply-adds of doubles that a core could begin in a cycle */
};

extern const struct fk_isa fk_isa_portable;
/* GCC on Windows spills wide vectors to a stack aligned to 16 bytes only (its bug 54412) and crashes. */
#if defined(__x86_64__) && (defined(__clang__) || (defined(__GNUC__) && !defined(_WIN32)))
#define FK_X86 1
extern const struct fk_isa fk_isa_avx2, fk_isa_avx512;
#endif

/* Chosen once, at load: the widest that the processor has and FLASHKERNEL_ISA allows. */
void fk_isa_choose(void);
const struct fk_isa *fk_isa(void);
int fk_isa_count(void);
const struct fk_isa *fk_isa_at(int i); /* those that run here, best first */
