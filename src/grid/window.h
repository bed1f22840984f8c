/* Windows of the grid engines: the function phi that spreads a point to `width` grid nodes in each dimension and
 * interpolates from them, and the filter taps T that turn two such functions into the Gaussian.
 *
 *   k(y - x) ~ sum_{i,j} phi(y - x_i) T(i - j) phi(x - x_j),   nodes x_i = i spacing,   unit bandwidth,
 *
 * T being the least-squares optimal kernel of Hockney and Eastwood: with p_m = phi^(s + 2 pi m)^2, s in (-pi, pi],
 *   T^(s) = sum_m g^(s + 2 pi m) p_m / (sum_m p_m)^2.
 * The Gaussian damps aliased frequencies, so that width and
 * spacing can be traded, and T is a short filter. In d dimensions window and filter are products: errors of values
 * are at most (1 + error)^d - 1 of sum_j |b_j|.
 */
#pragma once

#include "../fk.h"

FK_BEGIN_C

enum fk_window_family {
  FK_WINDOW_KAISER, /* I0(beta sqrt(1 - (2 t / width)^2)) / I0(beta), |t| <= width / 2 */
  FK_WINDOW_SPLINE  /* the B-spline of order width */
};

/* The widest window, the longest filter (taps on each side of its centre), the highest degree of a polynomial. */
enum { FK_WINDOW_WIDTH = 13, FK_WINDOW_REACH = 255, FK_WINDOW_DEGREE = 18 };
/* Taps of an envelope on each side of its centre. */
enum { FK_ENVELOPE_REACH = 10 };
struct fk_window {
  enum fk_window_family family;
  int width;
  double spacing; /* spacing of the nodes, in bandwidths */
  double beta;    /* Kaiser only */
  /* Bounds of the absolute errors in one dimension, taps cut off and window by polynomials: of exp(-t^2/2), of its
   * derivative through phi', of (t^2/2) exp(-t^2/2), and of that one's derivative. */
  double error, error_gradient, error_laplace, error_laplace_gradient;
  int reach; /* taps of the filters at scale 1, on each side */
  /* Bounds of these errors as functions of the distance, for each use: see fk_window_envelope(). */
  float flat[4], envelope[4][FK_ENVELOPE_REACH + 1];
};

/* What a sum is used for; flags. */
enum fk_window_use { FK_WINDOW_VALUE = 0, FK_WINDOW_GRADIENT = 1, FK_WINDOW_LAPLACE = 2 };

/* The table of windows: constants. */
int fk_window_count(void);
const struct fk_window *fk_window_at(int i);

/* Do both windows have the same family, width, spacing, parameter and error? */
bool fk_window_equal(const struct fk_window *a, const struct fk_window *b);

/* Is the longest filter long enough for a Gaussian of bandwidth `scale`? */
bool fk_window_has_scale(const struct fk_window *window, double scale);

/* Bound of the error in d dimensions, relative to sum_j |b_j|: of values, for FK_WINDOW_LAPLACE of the Laplace
 * sum, for FK_WINDOW_GRADIENT of each component of h times the gradient as well, whichever is largest. Infinite:
 * the window's filters are not available. */
double fk_window_error(const struct fk_window *window, int d, unsigned use);

/* Filters in double, taps[0 .. *reach] on one side (they are symmetric) scaled for a window that sums to one:
 * gauss of exp(-t^2 / (2 scale^2)), laplace of (t^2 / (2 scale^2)) exp(-t^2 / (2 scale^2)) (NULL: not wanted).
 * scale >= 1 serves a wider kernel from the same grid. */
enum fk_status fk_window_taps(const struct fk_window *window, double scale, double gauss[FK_WINDOW_REACH + 1],
                              double laplace[FK_WINDOW_REACH + 1], int *reach, struct fk_error *err);

/* The window on its nodes: for a point at fraction f in [0, 1) past node 0, phi at node l (0 <= l < width; the
 * stencil starts at node 0, a constant shift that sources and targets share) is sum_k coefficients[k][l] t^k, t =
 * 1 - 2 f. Returns the degree; the derivative in units of nodes, d/dx, is -2 d/dt. */
int fk_window_polynomial(const struct fk_window *window,
                         double coefficients[FK_WINDOW_DEGREE + 1][FK_WINDOW_WIDTH]);

/* ---- envelopes: errors as they fade with the distance -----------------------------------------
 *
 * f_u is what a sum for use u, a subset of FK_WINDOW_GRADIENT | FK_WINDOW_LAPLACE, is of in one dimension:
 * kappa(r) = exp(-r^2/2), (r^2/2) kappa(r), or the derivative of either. Taps t dominate a function of the
 * distance if on nodes one bandwidth apart, with hats (B-splines of order 2) at both ends, wherever x and y lie
 * between nodes,
 *
 *   sum_{m,n} hat(y - m) t(|m - n|) hat(x - n) >= f(|y - x|)   for |y - x| <= FK_ENVELOPE_REACH.
 */

/* Taps that dominate the window's largest error at each distance and beyond; past FK_ENVELOPE_REACH bandwidths it
 * is at most *flat. */
void fk_window_envelope(const struct fk_window *window, unsigned u, double taps[FK_ENVELOPE_REACH + 1],
                        double *flat);

/* The largest |f_u|. */
extern const double fk_window_sup[4];

/* Taps that dominate |f_u|; *sup is the largest. */
void fk_envelope_function(unsigned u, double taps[FK_ENVELOPE_REACH + 1], double *sup);

FK_END_C
