/* The kernels: their names and parameters, the functions that engines evaluate, the table of their properties. A
 * part of fk.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "language.h"

FK_BEGIN_C

/* The kernels; core/kernels.c has the table of their properties. */
enum fk_kernel_id {
  FK_KERNEL_GAUSSIAN,
  FK_KERNEL_LAPLACIAN,
  FK_KERNEL_PRODUCT_LAPLACIAN,
  FK_KERNEL_POWERED_EXPONENTIAL,
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
  double parameters[FK_KERNEL_PARAMETERS]; /* in the order of struct fk_kernel_info */
};

/* What loops over coordinates compute for a pair of whitened points: the square of their distance, the sum of the
 * absolute differences of their coordinates, or their inner product. */
enum fk_metric { FK_METRIC_SQUARES, FK_METRIC_ABSOLUTE, FK_METRIC_PRODUCTS };

/* The functions that engines evaluate. The argument is t = -|scale L^-1 (y - x)|^2, its root s = -sqrt(-t), the
 * sum a = -sum_k |scale (L^-1 (y - x))_k|, or the inner product p = (L^-1 x)'(L^-1 y) of points that are not
 * centred. */
enum fk_form_type {
  FK_FORM_GAUSSIAN,  /* 2^t (factor[0] + factor[1] t + factor[2] t^2) */
  FK_FORM_ROOT,      /* 2^s (factor[0] + factor[1] s + factor[2] s^2) */
  FK_FORM_STRETCHED, /* exp(-(-t)^power), 0 < power <= 1 */
  FK_FORM_ABSOLUTE,  /* 2^a */
  FK_FORM_CAUCHY,    /* 1 / (1 - t) */
  FK_FORM_IMQ,       /* 1 / sqrt(1 - t) */
  FK_FORM_POWER,     /* (factor[0] + factor[1] p)^factor[2] */
  FK_FORM_TANH       /* tanh(factor[0] + factor[1] p) */
};
static inline enum fk_metric fk_form_metric(enum fk_form_type type) {
  if (type == FK_FORM_ABSOLUTE) return FK_METRIC_ABSOLUTE;
  return type >= FK_FORM_POWER ? FK_METRIC_PRODUCTS : FK_METRIC_SQUARES;
}
/* Does it fall exponentially? */
static inline bool fk_form_decays(enum fk_form_type type) { return type <= FK_FORM_ABSOLUTE; }
/* Is it a function of p? */
static inline bool fk_form_is_product(enum fk_form_type type) {
  return fk_form_metric(type) == FK_METRIC_PRODUCTS;
}

/* A parameter of a kernel: its value is greater than `above`, at most `most`, and an integer if `whole`. */
struct fk_kernel_parameter {
  const char *name;              /* NULL: the kernel has no more parameters */
  double otherwise, above, most; /* otherwise: the default */
  bool whole;
};
struct fk_kernel_info {
  const char *name, *others; /* others: names in other programs, letters and digits only, separated by spaces */
  const char *formula;       /* in u = L^-1 (y - x) and r = |u|, or in x'y of whitened points */
  enum fk_form_type form;
  double rate, factor[3]; /* for FK_FORM_ROOT: exp(-a) (factor[0] + factor[1] a + factor[2] a^2), a = rate r */
  bool smooth;            /* at r = 0; otherwise no sum of few Gaussians approximates it */
  bool underflows;        /* it decays exponentially, so that terms of sums far from the points underflow */
  double mixture; /* p of (1 + r^2)^-p, which a sum of few Gaussians approximates (fast/mixture.h); else 0 */
  double cost;    /* multiply-adds of a pair, besides those of coordinates and values */
  struct fk_kernel_parameter parameters[FK_KERNEL_PARAMETERS];
};
/* Properties of a kernel, a constant; and the number of its parameters. */
const struct fk_kernel_info *fk_kernel_info(enum fk_kernel_id id);
int fk_kernel_n_parameters(enum fk_kernel_id id);
/* Sets *kernel to the kernel of this name, with default parameters. Returns false if there is none. */
bool fk_kernel_of(const char *name, struct fk_kernel *kernel);
/* Are both the same kernel with equal parameters? */
bool fk_kernel_equal(const struct fk_kernel *a, const struct fk_kernel *b);
/* Is it the Gaussian kernel? */
bool fk_kernel_is_gaussian(const struct fk_kernel *kernel);
/* The metric of its form. */
enum fk_metric fk_kernel_metric(const struct fk_kernel *kernel);
/* Is it a function of y - x? Otherwise it is a function of x'y, whose value changes if points are centred. */
bool fk_kernel_is_stationary(const struct fk_kernel *kernel);
/* Replaces the inner products values[i] = x_i'y of m whitened points x_i with a whitened point y by the kernels of
 * x_i and y. norm: |y|^2; norms: the m numbers |x_i|^2. For FK_METRIC_ABSOLUTE these three are what
 * fk_sparse_norms() and fk_sparse_kernels() sum instead. For kernels of the distance r^2 = max(0, |x|^2 + |y|^2 -
 * 2 x'y) has a rounding error of the size of that of |x|^2 + |y|^2; for close points that are far from 0, r is off
 * by the root of that. r is 0 if |x|^2, |y|^2 and x'y are the same number. */
void fk_kernel_of_products(const struct fk_kernel *kernel, double norm, const double *norms, int64_t m,
                           double *values);

/* How an engine computes a kernel and its polynomial: type, scale of the whitened distance, coefficients. */
struct fk_kernel_form {
  enum fk_form_type type;
  double scale, factor[3], power; /* power: of FK_FORM_STRETCHED */
};
/* Can sums of this form in d dimensions keep 3e-5 in single precision? There is no bound for kernels of products.
 * Squares of distances in floats end at 2^-126 and 2^127, which a power of less than an eighth would bring close
 * to 1. A sum of d absolute differences up to 87, beyond which kernels underflow, is off by about 87 2^-25 sqrt(d
 * / 3); roots of squared distances by half of that. */
static inline bool fk_form_allows_single(const struct fk_kernel_form *form, int64_t d) {
  bool is_long = fk_form_metric(form->type) == FK_METRIC_ABSOLUTE && d > 256;
  bool is_flat = form->type == FK_FORM_STRETCHED && form->power < 0.125;
  return !fk_form_is_product(form->type) && !is_flat && !is_long;
}
/* The largest |x|^2 of points with as large an error from rounded coordinates, if the form were one of distances.
 * A coordinate is off by up to 2^-24 |x_k| in single precision, and so is a sum of d absolute differences by up to
 * 2^-24 sqrt(d) |x|. At the limit for distances, that is under 3e-5 in 12 dimensions. */
static inline double fk_form_radius2(const struct fk_kernel_form *form, double radius2, int64_t d) {
  return fk_form_metric(form->type) == FK_METRIC_ABSOLUTE && d > 12 ? radius2 * (double)d / 12 : radius2;
}

FK_END_C
