/* Probabilities of two correlated Gaussians: A. Genz (2004), Numerical computation of rectangular bivariate and
 * trivariate normal and t probabilities, Statistics and Computing 14, 251-260; his modification of the method of
 * Drezner and Wesolowsky (1990). */
#include "bivariate.h"

#include <math.h>

#include "../../core/gauss.h"

#define TWO_PI 6.283185307179586476925

/* Half of the nodes of Gauss and Legendre's rules for 6, 12 and 20, on [-1, 1]. */
struct gauss_legendre {
  int half;
  double node[10], weight[10];
};
static const struct gauss_legendre rules[3] = {
    {3,
     {0.9324695142031522, 0.6612093864662647, 0.2386191860831970},
     {0.1713244923791705, 0.3607615730481384, 0.4679139345726904}},
    {6,
     {0.9815606342467191, 0.9041172563704750, 0.7699026741943050, 0.5873179542866171, 0.3678314989981802,
      0.1252334085114692},
     {0.04717533638651177, 0.1069393259953183, 0.1600783285433464, 0.2031674267230659, 0.2334925365383547,
      0.2491470458134029}},
    {10,
     {0.9931285991850949, 0.9639719272779138, 0.9122344282513259, 0.8391169718222188, 0.7463319064601508,
      0.6360536807265150, 0.5108670019508271, 0.3737060887154196, 0.2277858511416451, 0.07652652113349733},
     {0.01761400713915212, 0.04060142980038694, 0.06267204833410906, 0.08327674157670475, 0.1019301198172404,
      0.1181945319615184, 0.1316886384491766, 0.1420961093183821, 0.1491729864726037, 0.1527533871307259}},
};

/* On [0, 2]. */
static double node_of(const struct gauss_legendre *rule, int i) {
  return i < rule->half ? 1 - rule->node[i] : 1 + rule->node[i - rule->half];
}
static double weight_of(const struct gauss_legendre *rule, int i) { return rule->weight[i % rule->half]; }

/* Plackett's integral over the correlation from 0 on. */
static double from_independence(double h, double k, double r, const struct gauss_legendre *rule) {
  double half_squares = (h * h + k * k) / 2, half_angle = asin(r) / 2, sum = 0;
  for (int i = 0; i < 2 * rule->half; i++) {
    double sine = sin(half_angle * node_of(rule, i));
    sum += weight_of(rule, i) * exp((sine * h * k - half_squares) / (1 - sine * sine));
  }
  return sum * half_angle / TWO_PI + fk_normal_below(-h) * fk_normal_below(-k);
}

/* The integral from a correlation of 1 down to r > 0, its singular part taken off by a series. */
static double below_dependence(double h, double k, double r, const struct gauss_legendre *rule) {
  double hk = h * k, as = (1 - r) * (1 + r), a = sqrt(as), bs = (h - k) * (h - k), sum = 0, part = 0;
  double c = (4 - hk) / 8, e = (12 - hk) / 80, exponent = -(bs / as + hk) / 2;
  if (exponent > -100) part = a * exp(exponent) * (1 - c * (bs - as) * (1 - e * bs) / 3 + c * e * as * as);
  if (hk > -100) {
    double b = sqrt(bs), tail = sqrt(TWO_PI) * fk_normal_below(-b / a);
    part -= exp(-hk / 2) * tail * b * (1 - c * bs * (1 - e * bs) / 3);
  }
  for (int i = 0; i < 2 * rule->half; i++) {
    double xs = a / 2 * node_of(rule, i) * (a / 2 * node_of(rule, i)), own = -(bs / xs + hk) / 2;
    if (own <= -100) continue;
    double root = sqrt(1 - xs), series = 1 + c * xs * (1 + 5 * e * xs);
    double exact = exp(-hk / 2 * xs / ((1 + root) * (1 + root))) / root;
    sum += weight_of(rule, i) * exp(own) * (series - exact);
  }
  return (a / 2 * sum - part) / TWO_PI;
}

double fk_bivariate_upper(double h, double k, double r) {
  if (h == INFINITY || k == INFINITY) return 0;
  if (h == -INFINITY) return fk_normal_below(-k);
  if (k == -INFINITY) return fk_normal_below(-h);
  const struct gauss_legendre *rule = rules + (fabs(r) < 0.3 ? 0 : fabs(r) < 0.75 ? 1 : 2);
  double p;
  if (fabs(r) < 0.925)
    p = from_independence(h, k, r, rule);
  else if (r > 0)
    p = below_dependence(h, k, r, rule) + fk_normal_below(-fmax(h, k));
  else { /* what lies between the two lines of (X, -Y) */
    p = -below_dependence(h, -k, -r, rule);
    if (h < -k) p += h < 0 ? fk_normal_below(-k) - fk_normal_below(h) : fk_normal_below(-h) - fk_normal_below(k);
  }
  return fmax(0, fmin(1, p));
}
