/* Windows, their transforms, filters and polynomials; all in double, once for each grid. */
#include "window.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PI 3.141592653589793238462643383279502884L

enum { PERIOD = 1024, ALIASES = 8 }; /* of the discrete transform; aliases summed on each side, at most */
#define NOTHING 100                  /* exp(-this), even over the square of a window's transform */
/* Windows for sums in double, whose filters reach to where exp(-t^2 / 2) is 2e-16; others to 6e-13. */
#define FINE_SDS 8.5
#define SDS 7.5
static bool is_fine(const struct fk_window *w) { return w->error < 1e-10; }

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

/* sinh(x) / x of x = sqrt(square), also where that is imaginary; fine: in long double, which takes ten times as
 * long. */
static long double sinh_over(long double square, bool fine) {
  long double x = sqrtl(fabsl(square));
  if (x < 1e-10L) return 1;
  if (!fine) return (square > 0 ? sinh((double)x) : sin((double)x)) / x;
  return (square > 0 ? sinhl(x) : sinl(x)) / x;
}

/* The integral of the window times cos(s t), relative to that of the window; beta: sinh_over of its square. */
static long double transform(const struct fk_window *w, long double beta, long double s) {
  bool fine = is_fine(w);
  if (w->family == FK_WINDOW_KAISER)
    return sinh_over((long double)w->beta * w->beta - s * s * w->width * w->width / 4, fine) / beta;
  if (fabsl(s) < 1e-10L) return 1;
  long double one = (fine ? sinl(s / 2) : sin((double)(s / 2))) / (s / 2), power = one;
  for (int i = 1; i < w->width; i++) power *= one;
  return power;
}

bool fk_window_equal(const struct fk_window *a, const struct fk_window *b) {
  return a->family == b->family && a->width == b->width && a->spacing == b->spacing && a->beta == b->beta &&
         a->error == b->error;
}

static long double value_at(const struct fk_window *w, long double t) {
  if (w->family == FK_WINDOW_SPLINE) return spline(w->width, t + 0.5L * w->width);
  long double u = 2 * t / w->width, square = 1 - u * u;
  if (square < -1e-9L) return 0;
  long double integral = w->width * sinh_over((long double)w->beta * w->beta, true);
  return bessel_i0(w->beta * sqrtl(fmaxl(square, 0))) / integral;
}

bool fk_window_has_scale(const struct fk_window *w, double scale) {
  return (is_fine(w) ? FINE_SDS : SDS) * scale / w->spacing <= FK_WINDOW_REACH;
}

/* ---- filters ---------------------------------------------------------------------------------- */

/* The transforms of both filters at a frequency; in long double, as taps far out are beside the first one what
 * rounding would leave of it in double. Aliases are added from the middle until they do not count. */
static void transform_filters(const struct fk_window *w, double h, int frequency, long double beta,
                              long double hat[2]) {
  long double sum = 0, num[2] = {0, 0}, own = 2 * PI * frequency / PERIOD, most = 1;
  hat[0] = hat[1] = 0;
  if (own * own * h * h / 2 > NOTHING) return;
  for (int m = 0; m <= ALIASES && most > 1e-24L * sum; m++) {
    most = 0;
    for (int side = m > 0 ? -1 : 1; side <= 1; side += 2) {
      long double s = own + 2 * PI * side * m, p = transform(w, beta, s), half = s * s * h * h / 2;
      most = fmaxl(most, p * p);
      sum += p * p;
      if (half > NOTHING) continue;
      long double g = h * sqrtl(2 * PI) * (is_fine(w) ? expl(-half) : exp((double)-half)) * p * p;
      num[0] += g;
      num[1] += g * (0.5L - half);
    }
  }
  for (int f = 0; f < 2; f++) hat[f] = num[f] / (sum * sum);
}

/* The taps that are cut off add at most a tenth of the window's own error. For sums in double, taps extend to
 * where the Gaussian itself ends, so that errors decrease with the distance if most points are far away. */
static int last_tap(const struct fk_window *w, double h, const double *taps) {
  int last = FK_WINDOW_REACH, least = is_fine(w) ? (int)fmin(ceil(FINE_SDS * h), FK_WINDOW_REACH) : 1;
  double tail = 0;
  while (last > least && (tail += 2 * fabs(taps[last])) < 0.1 * w->error) last--;
  return last;
}

/* Taps from a transform that is nothing beyond frequency `last`. */
static void taps_in_long(const long double *hat, int last, double *taps) {
  long double cosine[PERIOD];
  for (int j = 0; j < PERIOD; j++) cosine[j] = cosl(2 * PI * j / PERIOD);
  for (int k = 0; k <= FK_WINDOW_REACH; k++) {
    long double sum = hat[0] + (k & 1 ? -hat[PERIOD / 2] : hat[PERIOD / 2]);
    for (int j = 1; j <= last && j < PERIOD / 2; j++) sum += 2 * hat[j] * cosine[(unsigned)(j * k) % PERIOD];
    taps[k] = (double)(sum / PERIOD);
  }
}

static void taps_in_double(const long double *hat, int last, double *taps) {
  double cosine[PERIOD], own[PERIOD / 2 + 1];
  for (int j = 0; j < PERIOD; j++) cosine[j] = cos(2 * (double)PI * j / PERIOD);
  for (int j = 0; j <= PERIOD / 2; j++) own[j] = (double)hat[j];
  for (int k = 0; k <= FK_WINDOW_REACH; k++) {
    double sum = own[0] + (k & 1 ? -own[PERIOD / 2] : own[PERIOD / 2]);
    for (int j = 1; j <= last && j < PERIOD / 2; j++) sum += 2 * own[j] * cosine[(unsigned)(j * k) % PERIOD];
    taps[k] = sum / PERIOD;
  }
}

static void make_taps(const struct fk_window *w, double h, double gauss[FK_WINDOW_REACH + 1],
                      double laplace[FK_WINDOW_REACH + 1], int *reach) {
  long double hat[2][PERIOD / 2 + 1], beta = sinh_over((long double)w->beta * w->beta, true);
  double *out[2] = {gauss, laplace};
  int frequencies = PERIOD / 2;
  *reach = 0;
  for (int j = 0; j <= PERIOD / 2; j++) {
    long double both[2];
    transform_filters(w, h, j, beta, both);
    for (int f = 0; f < 2; f++) hat[f][j] = both[f];
  }
  /* a wide kernel has low frequencies only */
  long double least = is_fine(w) ? 1e-22L : 1e-19L;
  while (frequencies > 1 && fabsl(hat[0][frequencies]) + fabsl(hat[1][frequencies]) < least * hat[0][0])
    frequencies--;
  for (int f = 0; f < (laplace ? 2 : 1); f++) {
    (is_fine(w) ? taps_in_long : taps_in_double)(hat[f], frequencies, out[f]);
    int last = last_tap(w, h, out[f]);
    if (last > *reach) *reach = last;
  }
}

/* To make them takes a millisecond, and the same window serves one sum after the other: the last few are kept. */
struct window_taps {
  struct fk_window window;
  double h;
  bool laplace;
  int reach;
  double taps[2][FK_WINDOW_REACH + 1];
};
enum { KEPT = 8 };
static struct {
  pthread_mutex_t lock;
  struct window_taps at[KEPT];
  int next;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const struct window_taps *taps_of(const struct fk_window *w, double h, bool laplace) {
  for (int i = 0; i < KEPT; i++)
    if (kept.at[i].h == h && kept.at[i].laplace == laplace && fk_window_equal(&kept.at[i].window, w))
      return &kept.at[i];
  struct window_taps *t = &kept.at[kept.next++ % KEPT];
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
  const struct window_taps *t = taps_of(w, h, laplace != NULL);
  memcpy(gauss, t->taps[0], sizeof t->taps[0]);
  if (laplace) memcpy(laplace, t->taps[1], sizeof t->taps[1]);
  *reach = t->reach;
  pthread_mutex_unlock(&kept.lock);
  return FK_STATUS_OK;
}

/* Chebyshev coefficients of the window on the interval between nodes where node l has weight, in t. cosine[j]: of
 * pi j / (2 n). */
static void chebyshev(const struct fk_window *w, const long double *cosine, int l, int n, double *c) {
  long double value[FK_WINDOW_DEGREE + 1];
  for (int i = 0; i < n; i++) value[i] = value_at(w, (cosine[2 * i + 1] + 1) / 2 + l - 0.5L * w->width);
  for (int k = 0; k < n; k++) {
    long double sum = 0;
    for (int i = 0; i < n; i++) sum += value[i] * cosine[k * (2 * i + 1) % (4 * n)];
    c[k] = (double)((k ? 2 : 1) * sum / n);
  }
}

int fk_window_polynomial(const struct fk_window *w, double coefficients[FK_WINDOW_DEGREE + 1][FK_WINDOW_WIDTH]) {
  enum { N = FK_WINDOW_DEGREE + 1 };
  double c[FK_WINDOW_WIDTH][N], basis[N][N] = {{0}};
  long double cosine[4 * N];
  int degree = 0;
  memset(coefficients, 0, sizeof(double) * N * FK_WINDOW_WIDTH);
  for (int j = 0; j < 4 * N; j++) cosine[j] = cosl(PI * j / (2 * N));
  for (int l = 0; l < w->width; l++) {
    chebyshev(w, cosine, l, N, c[l]);
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

/* What rounding adds to the table's errors where the long doubles of windows and taps are but doubles. */
static double noise(unsigned u) {
  if (LDBL_MANT_DIG >= 64) return 0;
  return u & FK_WINDOW_GRADIENT ? 1e-11 : 2e-14;
}

/* (1 + e)^n - 1 */
static double growth(double e, int n) { return expm1(n * log1p(e)); }

/* (sup + error) (1 + e)^n - sup */
static double excess(double sup, double error, double e, int n) { return (sup + error) * growth(e, n) + error; }

/* Where long double is double, as on arm64 Macs, the filters of fine windows are off by up to tens of their errors
 * near by, and far away by more than their envelopes. */
static bool is_computable(const struct fk_window *w) { return LDBL_MANT_DIG > DBL_MANT_DIG || !is_fine(w); }

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
  if (!is_computable(w)) return INFINITY;
  return use & FK_WINDOW_GRADIENT ? fmax(value, slope) : value;
}

void fk_window_envelope(const struct fk_window *w, unsigned u, double taps[FK_ENVELOPE_REACH + 1], double *flat) {
  for (int m = 0; m <= FK_ENVELOPE_REACH; m++) taps[m] = w->envelope[u][m] + noise(u);
  *flat = w->flat[u];
}
