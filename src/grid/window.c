/* Windows, their transforms, filters and polynomials; all in double, once for each grid. */
#include "window.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PI 3.141592653589793238462643383279502884L

enum { PERIOD = 1024, ALIASES = 8 }; /* of the discrete transform; aliases summed on each side */
/* Windows for sums in double, whose filters reach to where exp(-t^2 / 2) is 2e-16; others to 6e-13. */
#define FINE_ERROR 1e-10
#define FINE_SDS 8.5
#define SDS 7.5

/* The power series: terms are positive, so nothing cancels. */
static long double bessel_i0(long double x) {
  long double sum = 1, term = 1, square = x * x / 4;
  for (int k = 1; term > 1e-20L * sum; k++) sum += term *= square / ((long double)k * k);
  return sum;
}

/* Order n on [0, n]. */
static long double spline(int n, long double x) {
  long double value[FK_WINDOW_WIDTH + 1];
  if (x <= 0 || x >= n) return 0;
  for (int i = 0; i < n; i++) value[i] = x >= i && x < i + 1;
  for (int k = 2; k <= n; k++)
    for (int i = 0; i + k <= n; i++) value[i] = ((x - i) * value[i] + (i + k - x) * value[i + 1]) / (k - 1);
  return value[0];
}

/* sinh(x) / x of x = sqrt(square), also where that is imaginary. */
static long double sinh_over(long double square) {
  long double x = sqrtl(fabsl(square));
  return x < 1e-10L ? 1 : square > 0 ? sinhl(x) / x : sinl(x) / x;
}

/* The integral of the window times cos(s t), relative to that of the window; beta: sinh_over of its square. */
static long double transform(const struct fk_window *w, long double beta, long double s) {
  if (w->family == FK_WINDOW_SPLINE) return fabsl(s) < 1e-10L ? 1 : powl(sinl(s / 2) / (s / 2), w->width);
  return sinh_over((long double)w->beta * w->beta - s * s * w->width * w->width / 4) / beta;
}

bool fk_window_equal(const struct fk_window *a, const struct fk_window *b) {
  return a->family == b->family && a->width == b->width && a->spacing == b->spacing && a->beta == b->beta &&
         a->error == b->error;
}

static long double value_at(const struct fk_window *w, long double t) {
  if (w->family == FK_WINDOW_SPLINE) return spline(w->width, t + 0.5L * w->width);
  long double u = 2 * t / w->width, square = 1 - u * u;
  if (square < -1e-9L) return 0;
  return bessel_i0(w->beta * sqrtl(fmaxl(square, 0))) / (w->width * sinh_over((long double)w->beta * w->beta));
}

bool fk_window_has_scale(const struct fk_window *w, double scale) {
  return (w->error < FINE_ERROR ? FINE_SDS : SDS) * scale / w->spacing <= FK_WINDOW_REACH;
}

double fk_window_value(const struct fk_window *w, double t) { return (double)value_at(w, t); }

/* ---- filters ---------------------------------------------------------------------------------- */

/* The transform of the filters at frequency s, without its scale; in long double, as taps far out are beside the
 * first one what rounding would leave of it in double. */
static void transform_filters(const struct fk_window *w, double h, int j, long double hat[2]) {
  long double beta = sinh_over((long double)w->beta * w->beta), sum = 0, num[2] = {0, 0};
  for (int m = -ALIASES; m <= ALIASES; m++) {
    long double s = 2 * PI * ((long double)j / PERIOD + m), p = transform(w, beta, s), x = s * h;
    long double g = h * sqrtl(2 * PI) * expl(-x * x / 2) * p * p;
    sum += p * p;
    num[0] += g;
    num[1] += g * (1 - x * x) / 2;
  }
  for (int f = 0; f < 2; f++) hat[f] = num[f] / (sum * sum);
}

/* What is cut off stays a tenth of the window's own error. Of windows for sums in double, taps go on to where the
 * Gaussian itself ends: where mass is mostly far away, errors are to fade with the distance. */
static int last_tap(const struct fk_window *w, double h, const double *taps) {
  int last = FK_WINDOW_REACH, least = w->error < FINE_ERROR ? (int)fmin(ceil(FINE_SDS * h), FK_WINDOW_REACH) : 1;
  double tail = 0;
  while (last > least && (tail += 2 * fabs(taps[last])) < 0.1 * w->error) last--;
  return last;
}

static void make_taps(const struct fk_window *w, double h, double gauss[FK_WINDOW_REACH + 1],
                      double laplace[FK_WINDOW_REACH + 1], int *reach) {
  long double hat[PERIOD / 2 + 1][2], cosine[PERIOD];
  double *out[2] = {gauss, laplace};
  int filters = laplace ? 2 : 1, frequencies = PERIOD / 2;
  *reach = 0;
  for (int j = 0; j < PERIOD; j++) cosine[j] = cosl(2 * PI * j / PERIOD);
  for (int j = 0; j <= PERIOD / 2; j++) transform_filters(w, h, j, hat[j]);
  /* a wide kernel has low frequencies only */
  while (frequencies > 1 && fabsl(hat[frequencies][0]) + fabsl(hat[frequencies][1]) < 1e-22L * hat[0][0])
    frequencies--;
  for (int f = 0; f < filters; f++) {
    for (int k = 0; k <= FK_WINDOW_REACH; k++) {
      long double sum = hat[0][f] + (k & 1 ? -hat[PERIOD / 2][f] : hat[PERIOD / 2][f]);
      for (int j = 1; j <= frequencies && j < PERIOD / 2; j++)
        sum += 2 * hat[j][f] * cosine[(unsigned)(j * k) % PERIOD];
      out[f][k] = (double)(sum / PERIOD);
    }
    int last = last_tap(w, h, out[f]);
    if (last > *reach) *reach = last;
  }
}

/* To make them takes a millisecond, and the same window serves one sum after the other: the last few are kept. */
struct taps {
  struct fk_window window;
  double h;
  bool laplace;
  int reach;
  double taps[2][FK_WINDOW_REACH + 1];
};
enum { KEPT = 8 };
static struct {
  pthread_mutex_t lock;
  struct taps at[KEPT];
  int next;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const struct taps *taps_of(const struct fk_window *w, double h, bool laplace) {
  for (int i = 0; i < KEPT; i++)
    if (kept.at[i].h == h && kept.at[i].laplace == laplace && fk_window_equal(&kept.at[i].window, w))
      return &kept.at[i];
  struct taps *t = &kept.at[kept.next++ % KEPT];
  t->window = *w;
  t->h = h;
  t->laplace = laplace;
  make_taps(w, h, t->taps[0], laplace ? t->taps[1] : NULL, &t->reach);
  return t;
}

enum fk_status fk_window_taps(const struct fk_window *w, double scale, double gauss[FK_WINDOW_REACH + 1],
                              double laplace[FK_WINDOW_REACH + 1], int *reach, struct fk_error *err) {
  double h = scale / w->spacing;
  *reach = 0;
  if (!(h > 0) || !fk_window_has_scale(w, scale))
    return fk_fail(err, FK_STATUS_UNSUPPORTED, "a bandwidth of %.0f grid nodes is too wide for the filter", h);
  pthread_mutex_lock(&kept.lock);
  const struct taps *t = taps_of(w, h, laplace != NULL);
  memcpy(gauss, t->taps[0], sizeof t->taps[0]);
  if (laplace) memcpy(laplace, t->taps[1], sizeof t->taps[1]);
  *reach = t->reach;
  pthread_mutex_unlock(&kept.lock);
  return FK_STATUS_OK;
}

/* Chebyshev coefficients of the window on the interval between nodes where node l has weight, in t. */
static void chebyshev(const struct fk_window *w, int l, int n, double *c) {
  long double value[FK_WINDOW_DEGREE + 1];
  for (int i = 0; i < n; i++)
    value[i] = value_at(w, (cosl(PI * (i + 0.5L) / n) + 1) / 2 + l - 0.5L * w->width);
  for (int k = 0; k < n; k++) {
    long double sum = 0;
    for (int i = 0; i < n; i++) sum += value[i] * cosl(PI * k * (i + 0.5L) / n);
    c[k] = (double)((k ? 2 : 1) * sum / n);
  }
}

int fk_window_polynomial(const struct fk_window *w, double coefficients[FK_WINDOW_DEGREE + 1][FK_WINDOW_WIDTH]) {
  enum { N = FK_WINDOW_DEGREE + 1 };
  double c[FK_WINDOW_WIDTH][N], basis[N][N] = {{0}};
  int degree = 0;
  memset(coefficients, 0, sizeof(double) * N * FK_WINDOW_WIDTH);
  for (int l = 0; l < w->width; l++) {
    chebyshev(w, l, N, c[l]);
    /* 2 width such errors at most meet; k is what the derivative multiplies them by */
    double tail = 0, allowed = fmax(0.05 * w->error / w->width, 1e-16);
    int k = N - 1;
    while (k > 1 && (tail += fabs(c[l][k])) < allowed) k--;
    if (k > degree) degree = k;
  }
  if (w->family == FK_WINDOW_SPLINE && degree > w->width - 1) degree = w->width - 1;
  basis[0][0] = basis[1][1] = 1;
  for (int k = 2; k <= degree; k++)
    for (int i = 0; i <= k; i++) basis[k][i] = (i ? 2 * basis[k - 1][i - 1] : 0) - basis[k - 2][i];
  for (int l = 0; l < w->width; l++)
    for (int k = 0; k <= degree; k++)
      for (int i = 0; i <= k; i++) coefficients[i][l] += c[l][k] * basis[k][i];
  return degree;
}

const double fk_window_sup[4] = {1, 0.60653065971263343, 0.36787944117144233, 0.41521948783839614};

/* What rounding adds to the table's errors where a long double, in which windows and taps are made, is a double. */
static double noise(unsigned u) {
  if (LDBL_MANT_DIG >= 64) return 0;
  return u & FK_WINDOW_GRADIENT ? 1e-11 : 2e-14;
}

/* (1 + e)^n - 1 */
static double growth(double e, int n) { return expm1(n * log1p(e)); }

/* (sup + error) (1 + e)^n - sup */
static double excess(double sup, double error, double e, int n) { return (sup + error) * growth(e, n) + error; }

/* In each dimension f_0 + t f_2 + u f_1 + t u f_3 with t^2 = u^2 = 0. In the product, u goes with the derivative
 * along one dimension, which alone has it, t with what Laplace subtracts, a sum over dimensions; errors are at
 * most what they add to the product of the largest values. */
double fk_window_error(const struct fk_window *w, int d, unsigned use) {
  const double *sup = fk_window_sup;
  double e = w->error + noise(0), e2 = w->error_laplace + noise(FK_WINDOW_LAPLACE);
  double e1 = w->error_gradient + noise(FK_WINDOW_GRADIENT);
  double e12 = w->error_laplace_gradient + noise(FK_WINDOW_GRADIENT | FK_WINDOW_LAPLACE);
  double value = growth(e, d), slope = excess(sup[1], e1, e, d - 1);
  if (use & FK_WINDOW_LAPLACE) {
    double half = 1 + 0.5 * d, both = sup[1] * e2 + e1 * sup[2] + e1 * e2;
    value = half * value + d * excess(sup[2], e2, e, d - 1);
    slope = half * slope + excess(sup[3], e12, e, d - 1);
    if (d > 1) slope += (d - 1) * excess(sup[1] * sup[2], both, e, d - 2);
  }
  return use & FK_WINDOW_GRADIENT ? fmax(value, slope) : value;
}

void fk_window_envelope(const struct fk_window *w, unsigned u, double taps[FK_ENVELOPE_REACH + 1], double *flat) {
  for (int m = 0; m <= FK_ENVELOPE_REACH; m++) taps[m] = w->envelope[u][m] + noise(u);
  *flat = w->flat[u];
}
