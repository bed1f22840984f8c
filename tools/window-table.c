/* Writes src/grid/window_table.c to stdout: measures the errors of each window, also as they fade with the
 * distance, and makes the envelopes that dominate them. On stderr: what by_mixture.c takes for the error of wider
 * kernels. tools/window-table.sh compiles and runs this; with -DVERIFY it is tools/check-window-table.sh's, and
 * holds the table against measurements on other offsets.
 *
 * Errors are those of window.c as the engines compute: taps cut off, the window by polynomials. They are taken on
 * equally many offsets of source and target between two nodes, and at both ends: the limits from either side,
 * because Kaiser's window jumps at its edge, and lattices of points sit just there.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/grid/window.h"

/* Bins of the distance, per bandwidth; they end where the envelope does. */
enum { FINE = 256, BINS = FINE * FK_ENVELOPE_REACH, USES = 4 };
#define SAFETY 1.1
#define WIDEST_SCALE 8 /* by_mixture.c's */

static void fail(const char *message) {
  fprintf(stderr, "window-table: %s\n", message);
  exit(1);
}

/* What a sum for use u is of, at t bandwidths. */
static double function(unsigned u, double t) {
  double k = exp(-t * t / 2);
  switch (u) {
    case FK_WINDOW_GRADIENT: return -t * k;
    case FK_WINDOW_LAPLACE: return t * t / 2 * k;
    case FK_WINDOW_GRADIENT | FK_WINDOW_LAPLACE: return (t - t * t * t / 2) * k;
    default: return k;
  }
}

/* ---- errors ----------------------------------------------------------------------------------- */

/* The largest error at bin / FINE bandwidths and beyond; the last bin is all that is farther than the envelope. */
struct errors {
  double from[USES][BINS + 1];
};

static void meet(struct errors *e, unsigned u, double distance, double error) {
  int bin = distance < FK_ENVELOPE_REACH ? (int)(distance * FINE) : BINS;
  e->from[u][bin] = fmax(e->from[u][bin], error);
}

/* Weights, and their derivatives by the point's place, at fraction f past node 0. */
static void evaluate(const struct fk_window *w, int degree, double poly[][FK_WINDOW_WIDTH], double f,
                     double *value, double *derivative) {
  double t = 1 - 2 * f;
  for (int l = 0; l < w->width; l++) {
    double v = 0, s = 0;
    for (int k = degree; k >= 0; k--) {
      s = s * t + v;
      v = v * t + poly[k][l];
    }
    value[l] = v;
    derivative[l] = -2 * s;
  }
}

/* With or without the filter of Laplace sums, which may be longer, and lengthens the other then. between = 1 takes
 * errors as if they were an offset farther away, for what lies between two offsets. */
static void measure_filter(const struct fk_window *w, double scale, bool both, int offsets, double between,
                           struct errors *e) {
  enum { NODES = 2 * (FK_WINDOW_REACH + 2 * FK_WINDOW_WIDTH) + 1 };
  double gauss[FK_WINDOW_REACH + 1], laplace[FK_WINDOW_REACH + 1];
  double poly[FK_WINDOW_DEGREE + 1][FK_WINDOW_WIDTH], h = scale / w->spacing;
  struct fk_error err = {FK_STATUS_OK, ""};
  int reach, degree = fk_window_polynomial(w, poly);
  if (fk_window_taps(w, scale, gauss, both ? laplace : NULL, &reach, &err)) fail(err.message);
  int apart = reach + w->width - 1; /* stencils farther apart share nothing */
  /* the mirror image of a pair has the same error: half the offsets of sources do */
  for (int a = 0; a <= offsets / 2; a++) {
    double source[FK_WINDOW_WIDTH], ignored[FK_WINDOW_WIDTH], g[NODES] = {0}, q[NODES] = {0};
    evaluate(w, degree, poly, (double)a / offsets, source, ignored);
    for (int j = -reach; j <= apart; j++)
      for (int i = 0; i < w->width; i++) {
        if (abs(j - i) > reach) continue;
        g[j + apart] += source[i] * gauss[abs(j - i)];
        if (both) q[j + apart] += source[i] * laplace[abs(j - i)];
      }
    for (int b = 0; b <= offsets; b++) {
      double target[FK_WINDOW_WIDTH], slope[FK_WINDOW_WIDTH];
      evaluate(w, degree, poly, (double)b / offsets, target, slope);
      for (int n = -apart; n <= apart; n++) {
        double got[USES] = {0}, t = (n + (double)(b - a) / offsets) / h;
        for (int j = 0; j < w->width; j++) {
          got[FK_WINDOW_VALUE] += target[j] * g[n + j + apart];
          got[FK_WINDOW_GRADIENT] += h * slope[j] * g[n + j + apart];
          if (!both) continue;
          got[FK_WINDOW_LAPLACE] += target[j] * q[n + j + apart];
          got[FK_WINDOW_LAPLACE | FK_WINDOW_GRADIENT] += h * slope[j] * q[n + j + apart];
        }
        for (unsigned u = 0; u < (both ? USES : FK_WINDOW_LAPLACE); u++)
          meet(e, u, fabs(t) + between / (offsets * h), fabs(got[u] - function(u, t)));
      }
    }
  }
  if (scale > 1) return;
  for (int bin = (int)floor(apart / h * FINE); bin <= BINS; bin++)
    for (unsigned u = 0; u < (both ? USES : FK_WINDOW_LAPLACE); u++)
      meet(e, u, (double)bin / FINE, fabs(function(u, (double)bin / FINE)));
}

static void measure(const struct fk_window *w, double scale, int offsets, double between, struct errors *e) {
  memset(e, 0, sizeof *e);
  measure_filter(w, scale, false, offsets, between, e);
  if (scale == 1) measure_filter(w, scale, true, offsets, between, e);
  for (unsigned u = 0; u < USES; u++)
    for (int bin = BINS - 1; bin >= 0; bin--) e->from[u][bin] = fmax(e->from[u][bin], e->from[u][bin + 1]);
}

#ifndef VERIFY

enum { OFFSETS = 64, OFFSETS_SCALED = 32 };

/* A number as the table has it: three digits, rounded up. */
static double rounded(double x, char text[16]) {
  double up = x;
  do {
    snprintf(text, 16, "%.2e", up);
    up *= 1 + 1e-3;
  } while (strtod(text, NULL) < x);
  if (!(x > 0)) strcpy(text, "0");
  return strtod(text, NULL);
}

static void write_row(const double *x, int n) {
  char text[16];
  for (int i = 0; i < n; i++) {
    rounded(x[i] * (1 + FLT_EPSILON), text); /* becomes a float */
    printf("%s%s", i ? ", " : "{", text);
  }
  printf("}");
}

/* ---- envelopes -------------------------------------------------------------------------------- */

enum { TAPS = FK_ENVELOPE_REACH + 1, DEMANDS = 3 * (BINS + 1) };

/* sum_m weight[m] taps[m] >= 1 */
struct demand {
  double weight[TAPS];
};

/* With hats at both ends, the taps at a distance of node + part give
 *   t(node) + y (t(node + 1) - t(node)) + x (t(node - 1) - t(node)) - x y (t(node - 1) - 2 t(node) + t(node + 1)),
 * x, y the fractions of source and target past their nodes, y - x = part: quadratic in x. Extremes are x or y on
 * its node, which interpolates (a line), and x = (1 - part) / 2. */
static struct demand line(int node, double part, double least) {
  struct demand d = {{0}};
  d.weight[node] = (1 - part) / least;
  if (node + 1 < TAPS) d.weight[node + 1] = part / least;
  return d;
}

static struct demand middle(int node, double part, double least) {
  double low = (1 - part) / 2, high = (1 + part) / 2;
  struct demand d = {{0}};
  d.weight[node] = 2 * low * high / least;
  d.weight[abs(node - 1)] += low * low / least;
  if (node + 1 < TAPS) d.weight[node + 1] += high * high / least;
  return d;
}

static int demand_at(double distance, double least, struct demand *d) {
  int node = (int)distance;
  double part = distance - node;
  if (!(least > 0)) return 0;
  d[0] = line(node, part, least);
  d[1] = middle(node, part, least);
  if (node == FK_ENVELOPE_REACH) return 2;
  d[2] = middle(node + 1, part - 1, least);
  return 3;
}

/* Taps >= 0 that meet all demands, with the least sum of cost * taps: the dual, max sum y with sum_i weight_i[m]
 * y_i
 * <= cost[m], by the simplex method, for it has few rows and starts at y = 0. Its prices are the taps. */
static void minimise(const struct demand *demands, int n, const double *cost, double *taps) {
  static double rows[TAPS + 1][DEMANDS + TAPS + 1];
  int columns = n + TAPS, right = columns;
  for (int m = 0; m < TAPS; m++) {
    for (int i = 0; i < n; i++) rows[m][i] = demands[i].weight[m];
    for (int k = 0; k < TAPS; k++) rows[m][n + k] = k == m;
    rows[m][right] = cost[m];
  }
  for (int i = 0; i <= right; i++) rows[TAPS][i] = i < n ? 1 : 0;
  for (int step = 0;; step++) {
    int enter = 0, leave = -1;
    for (int i = 1; i < columns; i++)
      if (rows[TAPS][i] > rows[TAPS][enter]) enter = i;
    if (rows[TAPS][enter] < 1e-9) break;
    for (int m = 0; m < TAPS; m++)
      if (rows[m][enter] > 1e-12 &&
          (leave < 0 || rows[m][right] * rows[leave][enter] < rows[leave][right] * rows[m][enter]))
        leave = m;
    if (leave < 0 || step > 1000) fail("no envelope found");
    double pivot = rows[leave][enter];
    for (int i = 0; i <= right; i++) rows[leave][i] /= pivot;
    for (int m = 0; m <= TAPS; m++) {
      double factor = rows[m][enter];
      if (m == leave || factor == 0) continue;
      for (int i = 0; i <= right; i++) rows[m][i] -= factor * rows[leave][i];
    }
  }
  for (int m = 0; m < TAPS; m++) taps[m] = fmax(-rows[TAPS][n + m], 0);
}

/* least[k] at k / FINE bandwidths. Small sums of taps and small factors over what is needed are weighed against
 * each other. */
static void make_envelope(const double least[BINS + 1], double taps[TAPS]) {
  static struct demand demands[DEMANDS];
  double scale[TAPS], cost[TAPS], beyond = 0, lacking = 1;
  int n = 0;
  for (int k = 0; k <= BINS; k++) n += demand_at((double)k / FINE, least[k], demands + n);
  for (int k = BINS; k >= 0; k--) {
    beyond = fmax(beyond, least[k]);
    if (k % FINE == 0) scale[k / FINE] = beyond;
  }
  for (int m = 0; m < TAPS; m++) {
    cost[m] = (m ? 2 : 1) * sqrt(scale[m] / scale[0]);
    for (int i = 0; i < n; i++) demands[i].weight[m] *= scale[m];
  }
  minimise(demands, n, cost, taps);
  for (int i = 0; i < n; i++) {
    double sum = 0;
    for (int m = 0; m < TAPS; m++) sum += demands[i].weight[m] * taps[m];
    lacking = fmin(lacking, sum);
  }
  if (lacking < 0.999) fail("an envelope is too low");
  /* between those distances a bit may lack */
  for (int m = 0; m < TAPS; m++) taps[m] *= scale[m] / lacking * (1 + 1e-5);
}

/* ---- the table -------------------------------------------------------------------------------- */

static const double spline_spacings[] = {0.1, 0.125, 0.15, 0.2, 0.25, 0.3};

/* beta is the best to 0.01 width. Windows are left out whose filter is as long as FK_WINDOW_REACH lets it be, and
 * cut there: more than nine bandwidths away errors are up to 10^12 times those near. */
static const struct {
  int width;
  double first, beta[10]; /* spacings are first, first + 0.05, ... */
} kaisers[] = {
    {3, 0.25, {8.67, 8.43, 8.31, 8.16, 7.89, 7.83, 7.74, 7.71, 7.68, 7.23}},
    {4, 0.25, {11.48, 10.88, 10.72, 10.28, 10.4, 10.44, 10, 9.6, 9.68, 9.36}},
    {5, 0.25, {14.25, 14.05, 13.8, 13.2, 13.25, 12.7, 12.45, 11.55, 11.2, 10.6}},
    {6, 0.25, {17.16, 16.74, 16.2, 15.9, 15.12, 14.7, 14.16, 13.32, 12.6, 11.76}},
    {7, 0.25, {19.39, 19.11, 18.34, 18.13, 17.57, 17.01, 16.03, 14.77, 13.93, 13.16}},
    {8, 0.25, {22.4, 21.2, 20.88, 19.92, 19.28, 18.48, 17.28, 15.84, 14.72, 13.28}},
    {9, 0.25, {24.93, 24.12, 22.86, 22.05, 20.97, 19.89, 18.27, 16.83, 15.93}},
    {10, 0.25, {27.3, 26.4, 25.4, 23.9, 22.8, 20.9, 18.8}},
    {11, 0.2, {30.8, 29.92, 28.71, 27.39, 25.52, 23.87, 21.78}},
    {12, 0.2, {33, 32.16, 30.96, 29.52, 27.36, 25.08}},
    {13, 0.125, {38.7}},
    {13, 0.15, {38, 36.5, 34.58, 32.89, 31.2, 28.86}},
};

/* Errors decide where filters and polynomials are cut, and that changes errors: until they stay. */
static void settle(struct fk_window *w, struct errors *e, char text[USES][16]) {
  for (int tries = 0;; tries++) {
    measure(w, 1, OFFSETS, 1, e);
    double error = rounded(SAFETY * e->from[FK_WINDOW_VALUE][0], text[0]);
    if (error <= w->error && (tries > 5 || error > 0.98 * w->error)) break;
    if (tries > 20) fail("a window's error does not settle");
    w->error = tries > 5 ? fmax(error, w->error) : error;
  }
  rounded(w->error, text[0]);
  for (unsigned u = 1; u < USES; u++) rounded(SAFETY * e->from[u][0], text[u]);
}

/* Errors as small as the rounding of long double differ by a fifth between processors, whose own instructions take
 * the exponentials of filters: so small ones are doubled. */
static double allowed(double error) { return SAFETY * error + fmin(error, LDBL_EPSILON); }

static void write_window(struct fk_window *w, double *of_scales) {
  static struct errors e;
  double gauss[FK_WINDOW_REACH + 1], laplace[FK_WINDOW_REACH + 1], flat[USES];
  char text[USES][16];
  struct fk_error err = {FK_STATUS_OK, ""};
  settle(w, &e, text);
  if (fk_window_taps(w, 1, gauss, laplace, &w->reach, &err)) fail(err.message);
  for (unsigned u = 0; u < USES; u++) flat[u] = SAFETY * e.from[u][BINS];
  printf("    {FK_WINDOW_%s, %d, %g, %g, %s, %s, %s, %s, %d, ", w->family == FK_WINDOW_KAISER ? "KAISER" : "SPLINE",
         w->width, w->spacing, w->beta, text[0], text[1], text[2], text[3], w->reach);
  write_row(flat, USES);
  printf(", {\n");
  for (unsigned u = 0; u < USES; u++) {
    double least[BINS + 1], taps[TAPS];
    /* the error of a bin is that of both of its ends */
    for (int k = 0; k <= BINS; k++) least[k] = allowed(e.from[u][k ? k - 1 : 0]);
    make_envelope(least, taps);
    printf("    ");
    write_row(taps, TAPS);
    printf(u + 1 < USES ? ",\n" : "}},\n");
  }
  for (double scale = 1; scale <= WIDEST_SCALE; scale *= 1.1) {
    if (!fk_window_has_scale(w, scale)) break;
    measure(w, scale, OFFSETS_SCALED, 1, &e);
    *of_scales = fmax(*of_scales, SAFETY * e.from[FK_WINDOW_VALUE][0] / w->error);
  }
}

static void write_functions(void) {
  printf("/* Taps that dominate |f_u|. */\nstatic const double functions[%d][FK_ENVELOPE_REACH + 1] = {\n", USES);
  for (unsigned u = 0; u < USES; u++) {
    double taps[TAPS], least[BINS + 1];
    for (int k = 0; k <= BINS; k++) least[k] = fabs(function(u, (double)k / FINE));
    make_envelope(least, taps);
    printf("    ");
    write_row(taps, TAPS);
    printf(",\n");
  }
  printf("};\n\n");
}

static void write_windows(double *of_scales) {
  printf("static const struct fk_window windows[] = {\n");
  for (int width = 3; width <= 8; width++)
    for (size_t i = 0; i < sizeof spline_spacings / sizeof *spline_spacings; i++) {
      struct fk_window w = {.family = FK_WINDOW_SPLINE, .width = width, .spacing = spline_spacings[i]};
      write_window(&w, of_scales);
    }
  for (size_t k = 0; k < sizeof kaisers / sizeof *kaisers; k++)
    for (int i = 0; i < 10 && kaisers[k].beta[i] > 0; i++) {
      struct fk_window w = {.family = FK_WINDOW_KAISER, .width = kaisers[k].width, .beta = kaisers[k].beta[i]};
      w.spacing = (int)(1000 * kaisers[k].first + 50 * i + 0.5) / 1000.0;
      write_window(&w, of_scales);
    }
  printf("};\n\n");
}

static const char head[] =
    "/* The windows to choose from. tools/window-table.sh writes this file: there are the windows, and how "
    "numbers are\n"
    " * found. Entries are\n"
    " *   {family, width, spacing / h, beta, bounds of the errors of values, of h * gradient, of Laplace, of its\n"
    " *    h * gradient, reach, {beyond their envelopes}, {taps of these in the same order, on a line "
    "each}}.\n"
    " * Errors are the largest on %d offsets of sources and of targets between two nodes, the limits at nodes "
    "from both\n"
    " * sides among them, at all distances, times %g; in envelopes, those as small as rounding are doubled.\n"
    " * tools/check-window-table.sh holds other offsets against them. */\n"
    "#include \"window.h\"\n\n"
    "#include <string.h>\n\n"
    "/* clang-format off */\n";

static const char tail[] =
    "/* clang-format on */\n\n"
    "int fk_window_count(void) { return (int)(sizeof windows / sizeof *windows); }\n"
    "const struct fk_window *fk_window_at(int i) { return &windows[i]; }\n\n"
    "void fk_envelope_function(unsigned u, double taps[FK_ENVELOPE_REACH + 1], double *sup) {\n"
    "  memcpy(taps, functions[u], sizeof functions[u]);\n"
    "  *sup = fk_window_sup[u];\n"
    "}\n";

int main(void) {
  double of_scales = 0;
  printf(head, OFFSETS, SAFETY);
  write_functions();
  write_windows(&of_scales);
  fputs(tail, stdout);
  fprintf(stderr, "ERROR_OF_SCALES: %.3f\n", of_scales);
  return 0;
}

#else

enum { OFFSETS = 23, GRID = 16, GRID_OF_FUNCTIONS = 200 };

/* Hats at both ends, as window.h defines it: x and y are the fractions past their nodes, which are n apart. */
static double hatted(const double *taps, int n, double x, double y) {
  double sum = 0;
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++) {
      int apart = abs(n + j - i);
      if (apart <= FK_ENVELOPE_REACH) sum += (i ? x : 1 - x) * (j ? y : 1 - y) * taps[apart];
    }
  return sum;
}

/* Is the envelope at least the error, or |f_u| (NULL), on a grid of places? */
static bool dominates(const double *taps, unsigned u, const struct errors *e, int grid) {
  for (int a = 0; a <= grid; a++)
    for (int b = 0; b <= grid; b++)
      for (int n = -1; n <= FK_ENVELOPE_REACH + 1; n++) {
        double x = (double)a / grid, y = (double)b / grid, distance = fabs(n + y - x);
        if (distance > FK_ENVELOPE_REACH) continue;
        double least = e ? e->from[u][(int)fmin(distance * FINE, BINS - 1)] : fabs(function(u, distance));
        if (hatted(taps, n, x, y) < least) return false;
      }
  return true;
}

static int check_window(const struct fk_window *w) {
  static struct errors e;
  double bound[USES] = {w->error, w->error_gradient, w->error_laplace, w->error_laplace_gradient};
  double gauss[FK_WINDOW_REACH + 1], laplace[FK_WINDOW_REACH + 1], taps[FK_ENVELOPE_REACH + 1], flat;
  struct fk_error err = {FK_STATUS_OK, ""};
  int reach, wrong = 0;
  if (fk_window_taps(w, 1, gauss, laplace, &reach, &err)) fail(err.message);
  if (reach != w->reach) {
    printf("width %d, spacing %g: reach is %d\n", w->width, w->spacing, reach);
    wrong++;
  }
  measure(w, 1, OFFSETS, 0, &e);
  for (unsigned u = 0; u < USES; u++) {
    fk_window_envelope(w, u, taps, &flat);
    if (e.from[u][0] <= bound[u] && e.from[u][BINS] <= flat && dominates(taps, u, &e, GRID)) continue;
    printf("width %d, spacing %g, use %u: errors %.3g, %.3g past the envelope%s\n", w->width, w->spacing, u,
           e.from[u][0], e.from[u][BINS], dominates(taps, u, &e, GRID) ? "" : ", and some within are above it");
    wrong++;
  }
  return wrong;
}

int main(void) {
  int wrong = 0;
  for (unsigned u = 0; u < USES; u++) {
    double taps[FK_ENVELOPE_REACH + 1], sup, most = 0;
    fk_envelope_function(u, taps, &sup);
    for (int i = 0; i < 10000; i++) most = fmax(most, fabs(function(u, i / 1000.0)));
    if (most <= sup && dominates(taps, u, NULL, GRID_OF_FUNCTIONS)) continue;
    printf("use %u: the function is above its envelope, or %.7g\n", u, sup);
    wrong++;
  }
  for (int i = 0; i < fk_window_count(); i++) wrong += check_window(fk_window_at(i));
  printf("%d windows, %d wrong\n", fk_window_count(), wrong);
  return wrong > 0;
}

#endif
