/* The trapezoidal rule in u = log t, and what is spared at its ends.
 *
 * With step h, nodes t_k = e^(h k) and weights w_k = h t_k^p e^(-t_k) / Gamma(p), Poisson's summation formula
 * gives
 *
 *   sum_k w_k exp(-t_k s) = (1 + s)^-p sum_m Gamma(p + 2 pi i m / h) / Gamma(p) (1 + s)^(-2 pi i m / h),
 *
 * so that the error relative to the kernel is at most 2 sum_{m > 0} |Gamma(p + 2 pi i m / h)| / Gamma(p) at every
 * s, about e^(-pi^2/h). The nodes at both ends, where exp(-t s) varies little or w is small, are replaced by a
 * Gauss rule for them as a measure, with as few nodes as keep the tolerance: n nodes match 2 n moments. The error
 * of all that is measured over all s. */
#include "mixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PI 3.14159265358979323846

enum { MOST_GAUSS = 12, PER_STEP = 16 /* places s for each step, in log(1 + s) */ };

double fk_mixture_share(const struct fk_mixture *m, int c) {
  double rate = m->rate[c]; /* the slope of its log is -rate + p / (1 + s) */
  double s = fmin(fmax(m->power / rate - 1, 0), m->largest);
  return m->weight[c] * exp(-rate * s + m->power * log1p(s));
}

/* ---- the rule --------------------------------------------------------------------------------- */

/* |Gamma(1 + i y)|^2 = pi y / sinh(pi y), |Gamma(1/2 + i y)|^2 = pi / cosh(pi y) */
static double step_error(double p, double step) {
  double sum = 0;
  for (int m = 1; m <= 3; m++) {
    double z = 2 * PI * PI * m / step, half = 2 * exp(-z);
    sum += 2 * (p == 1 ? sqrt(z * half / (1 - half * half / 4)) : sqrt(half / (1 + half * half / 4)));
  }
  return sum;
}

static double widest_step(double p, double error) {
  double low = 0.05, high = 3;
  for (int i = 0; i < 50; i++) {
    double middle = (low + high) / 2;
    *(step_error(p, middle) <= error ? &low : &high) = middle;
  }
  return low;
}

/* All nodes that matter, ascending, and their sums at all places. */
struct mixture_rule {
  double p, step, log_largest; /* log(1 + largest) */
  int n, places;
  double *node, *weight;
  double *s, *kernel; /* places */
  double *below;      /* places x (n + 1): the sum of the first nodes */
};

static double place_of(double log_largest, int i, int places) { return expm1(log_largest * i / (places - 1)); }

static enum fk_status rule_init(struct mixture_rule *r, double p, double largest, double error,
                                struct fk_error *err) {
  double gamma = p == 1 ? 1 : sqrt(PI), step = r->step = widest_step(p, error);
  r->p = p;
  r->log_largest = log1p(largest);
  /* below the first and beyond the last there is a thousandth of the error */
  int first = (int)floor((log(1e-3 * error) / p - r->log_largest) / step);
  int last = (int)ceil(log(10 - log(error)) / step);
  r->n = last - first + 1;
  r->places = 33 + (int)(PER_STEP * r->log_largest / step);
  size_t numbers = (size_t)r->n * 2 + (size_t)r->places * (size_t)(r->n + 3);
  r->node = malloc(sizeof(double) * numbers);
  if (!r->node) return fk_no_memory(err, 0, "a sum of Gaussians");
  r->weight = r->node + r->n;
  r->s = r->weight + r->n;
  r->kernel = r->s + r->places;
  r->below = r->kernel + r->places;
  for (int k = 0; k < r->n; k++) {
    double t = r->node[k] = exp(step * (first + k));
    r->weight[k] = step * exp(p * step * (first + k) - t) / gamma;
  }
  for (int i = 0; i < r->places; i++) {
    double s = r->s[i] = place_of(r->log_largest, i, r->places), *sum = r->below + (size_t)i * (size_t)(r->n + 1);
    r->kernel[i] = pow(1 + s, -p);
    sum[0] = 0;
    for (int k = 0; k < r->n; k++) sum[k + 1] = sum[k] + r->weight[k] * exp(-r->node[k] * s);
  }
  return FK_STATUS_OK;
}

/* ---- Gauss rules of its ends ------------------------------------------------------------------ */

struct gauss {
  int n;
  double node[MOST_GAUSS], weight[MOST_GAUSS];
};

/* Eigenvalues below x of the Jacobi matrix with diagonal a and squared off-diagonal b. */
static int below(const double *a, const double *b, int n, double x) {
  int count = 0;
  double pivot = 1;
  for (int i = 0; i < n; i++) {
    pivot = a[i] - x - (i ? b[i] / pivot : 0);
    if (pivot == 0) pivot = -1e-300;
    count += pivot < 0;
  }
  return count;
}

/* Nodes are eigenvalues of the Jacobi matrix of the measure's polynomials, weights sums of their squares. */
static bool gauss_init(struct gauss *g, int n, const double *x, const double *w, int count, double *work) {
  double a[MOST_GAUSS], b[MOST_GAUSS], mass = 0, before = 1, scale = 0, *now = work, *last = work + count;
  g->n = n;
  if (count <= n) return false;
  for (int i = 0; i < count; i++) {
    mass += w[i];
    scale = fmax(scale, x[i]);
    now[i] = 1;
    last[i] = 0;
  }
  for (int j = 0; j < n; j++) {
    double square = 0, first = 0;
    for (int i = 0; i < count; i++) {
      square += w[i] * now[i] * now[i];
      first += w[i] * now[i] * now[i] * (x[i] / scale);
    }
    a[j] = first / square;
    b[j] = j ? square / before : 0;
    if (!(square > 0) || !isfinite(a[j])) return false;
    before = square;
    for (int i = 0; i < count; i++) {
      double next = (x[i] / scale - a[j]) * now[i] - b[j] * last[i];
      last[i] = now[i];
      now[i] = next;
    }
  }
  for (int j = 0; j < n; j++) {
    double low = 0, high = 1, value = 1, previous = 0, sum = 1;
    for (int i = 0; i < 60; i++) {
      double middle = (low + high) / 2;
      *(below(a, b, n, middle) <= j ? &low : &high) = middle;
    }
    for (int i = 0; i + 1 < n; i++) { /* orthonormal polynomials at the node */
      double next = ((low - a[i]) * value - (i ? sqrt(b[i]) : 0) * previous) / sqrt(b[i + 1]);
      previous = value;
      value = next;
      sum += value * value;
    }
    g->node[j] = scale * low;
    g->weight[j] = mass / sum;
  }
  return true;
}

/* Do n Gauss nodes stand for the nodes first .. end - 1? */
static bool replaces(const struct mixture_rule *r, struct gauss *g, int n, int first, int end, double error,
                     double *work) {
  if (end - first <= n) return end == first;
  if (n > 0 && !gauss_init(g, n, r->node + first, r->weight + first, end - first, work)) return false;
  g->n = n;
  for (int i = 0; i < r->places; i++) {
    const double *sum = r->below + (size_t)i * (size_t)(r->n + 1);
    double miss = sum[end] - sum[first];
    for (int j = 0; j < n; j++) miss -= g->weight[j] * exp(-g->node[j] * r->s[i]);
    if (!(fabs(miss) <= error * r->kernel[i])) return false;
  }
  return true;
}

/* Finds how many of the lowest (or highest) of nodes from .. to - 1 are best replaced; returns the number left. */
static int shorten(const struct mixture_rule *r, bool lowest, int from, int to, double error, struct gauss *best,
                   double *work) {
  int least = to - from, cut = 0;
  best->n = 0;
  for (int n = 0; n <= MOST_GAUSS; n++) {
    struct gauss g = {0};
    int yes = 0, no = to - from + 1;
    while (no - yes > 1) {
      int middle = (yes + no) / 2, first = lowest ? from : to - middle;
      *(replaces(r, &g, n, first, first + middle, error, work) ? &yes : &no) = middle;
    }
    if (yes <= n || to - from - yes + n >= least) continue;
    int first = lowest ? from : to - yes;
    if (!replaces(r, &g, n, first, first + yes, error, work)) continue;
    least = to - from - yes + n;
    cut = yes;
    *best = g;
  }
  return to - from - cut;
}

/* ---- together --------------------------------------------------------------------------------- */

static void append(struct fk_mixture *m, double rate, double weight) {
  int at = m->n++;
  for (; at > 0 && m->rate[at - 1] < rate; at--) {
    m->rate[at] = m->rate[at - 1];
    m->weight[at] = m->weight[at - 1];
  }
  m->rate[at] = rate;
  m->weight[at] = weight;
}

/* At twice as many places as those by which the ends were shortened. */
static double measure(const struct fk_mixture *m, const struct mixture_rule *r) {
  double worst = 0;
  int places = 2 * r->places - 1;
  for (int i = 0; i < places; i++) {
    double s = place_of(r->log_largest, i, places), sum = 0;
    for (int c = 0; c < m->n; c++) sum += m->weight[c] * exp(-m->rate[c] * s);
    worst = fmax(worst, fabs(sum * pow(1 + s, m->power) - 1));
  }
  return 1.02 * worst; /* the place that is worst is at most half a place away: cos(pi / 32) */
}

static enum fk_status build(struct fk_mixture *m, double tol, struct fk_error *err) {
  struct mixture_rule r;
  struct gauss low, high;
  enum fk_status status = rule_init(&r, m->power, m->largest, 0.6 * tol, err);
  if (status) return status;
  double *work = malloc(sizeof(double) * 2 * (size_t)r.n);
  m->n = 0;
  if (work) {
    int upper = shorten(&r, true, 0, r.n, 0.2 * tol, &low, work), first = r.n - upper;
    int left = shorten(&r, false, first, r.n, 0.2 * tol, &high, work);
    if (left + low.n + high.n <= FK_MIXTURE_MOST) {
      for (int k = first; k < first + left; k++) append(m, r.node[k], r.weight[k]);
      for (int j = 0; j < low.n; j++) append(m, low.node[j], low.weight[j]);
      for (int j = 0; j < high.n; j++) append(m, high.node[j], high.weight[j]);
      m->error = measure(m, &r);
    } else {
      m->error = INFINITY;
    }
  } else {
    status = fk_no_memory(err, 0, "a sum of Gaussians");
  }
  free(work);
  free(r.node);
  return status;
}

enum fk_status fk_mixture_init(struct fk_mixture *m, double power, double largest, double tol,
                               struct fk_error *err) {
  enum fk_status status = FK_STATUS_OK;
  m->power = power;
  m->largest = largest;
  m->error = INFINITY;
  if (power > 0 && largest >= 0 && largest < 1e40 && tol > 1e-14)
    for (int i = 0; i < 3 && !status && !(m->error <= tol); i++) status = build(m, tol * (1 - 0.3 * i), err);
  if (status || m->error <= tol) return status;
  return fk_fail(err, FK_STATUS_UNSUPPORTED, "no sum of Gaussians approximates (1 + r^2)^-%g to %.1e", power, tol);
}
