/* (K + N) x = y for a Markov kernel by the square root form of the Kalman filter and the smoother of de Jong
 * (1989). The covariance of a state given the points before it is S S', with S lower triangular. The point's own f
 * is the first coordinate, so that it is correlated with the first column of S alone: the observation multiplies
 * that column by the root of N / (S_11^2 + N), and nothing cancels however small N is. */
#include "markov.h"

#include <stdlib.h>
#include <string.h>

#include "../../core/threads.h"
#include "line.h"

enum { ORDER = FK_MARKOV_ORDER, LOOK_UP = 1 << 14 };
/* A state keeps nothing over a step of this length. */
static const double LONGEST = 1000;

/* What the way back needs of a point. */
struct place {
  double column[ORDER]; /* the first of S, before the observation */
  double left;          /* N / (S_11^2 + N) */
};

struct walk {
  const struct fk_markov_system *of;
  struct fk_markov markov;
  struct place *places;
  double *states; /* [column of y][order], on the way back from the last coordinate to the first */
  double *y;
  int64_t t;
};

/* Turns the columns of a d x n matrix so that only the first d are not 0, and these lower triangular. Householder
 * reflections: the error of a row is relative to that row, however small it is. */
static void turn_columns(int d, int n, double *w) {
  for (int i = 0; i < d; i++) {
    double square = 0, own = w[i + i * d];
    for (int k = i; k < n; k++) square += w[i + k * d] * w[i + k * d];
    double length = sqrt(square), pivot = own + copysign(length, own);
    for (int row = i + 1; row < d && length > 0; row++) {
      double product = pivot * w[row + i * d];
      for (int k = i + 1; k < n; k++) product += w[i + k * d] * w[row + k * d];
      product /= length * fabs(pivot);
      w[row + i * d] -= product * pivot;
      for (int k = i + 1; k < n; k++) w[row + k * d] -= product * w[i + k * d];
    }
    w[i + i * d] = -copysign(length, own);
    for (int k = i + 1; k < n; k++) w[i + k * d] = 0;
  }
}

/* moments[k]: the integral of x^k exp(-c x) from 0 to 1. */
static void set_moments(double c, int count, double *moments) {
  double end = exp(-c), term = 1.0 / count, sum = term;
  if (c > 8) {
    moments[0] = (1 - end) / c;
    for (int k = 1; k < count; k++) moments[k] = (k * moments[k - 1] - end) / c;
    return;
  }
  for (int j = 1; term > 1e-17 * sum; j++) sum += term *= c / (count + j);
  moments[count - 1] = end * sum;
  for (int k = count - 1; k > 0; k--) moments[k - 1] = (c * moments[k] + end) / k;
}

/* root: the Cholesky factor, d x d, of the covariance that a step adds to a state. That of coordinates i and j is
 * the integral of s^(p + q) exp(-2 s) / (p! q!) from 0 to the length of the step, times a constant for which f has
 * the variance 1; p = d - 1 - i, q = d - 1 - j. */
static void set_noise(int d, double length, double *root) {
  static const double constants[ORDER] = {2, 4, 16.0 / 3};
  double moments[2 * ORDER - 1], scale = sqrt(constants[d - 1] * length);
  set_moments(2 * length, 2 * d - 1, moments);
  memset(root, 0, sizeof *root * (size_t)(d * d));
  for (int j = 0; j < d; j++)
    for (int i = j; i < d; i++) {
      double sum = moments[2 * (d - 1) - i - j];
      for (int k = 0; k < j; k++) sum -= root[i + k * d] * root[j + k * d];
      root[i + j * d] = i == j ? sqrt(sum) : sum / root[j + j * d];
    }
  for (int i = d - 1; i >= 0; i--) {
    for (int j = 0; j <= i; j++) root[i + j * d] *= scale;
    scale *= length / (d - i);
  }
}

/* The step from the point before. */
static struct fk_markov_step step_to(const struct walk *w, int64_t i) {
  const struct fk_markov_system *of = w->of;
  double length = i > 0 ? w->markov.rate * ((of->x[i] - of->x[i - 1]) / of->bandwidth) : LONGEST;
  return fk_markov_step_of(fmin(length, LONGEST));
}

/* S: d x 2d, of which the first half is S. y becomes what the points before a point do not tell of it. */
static double go_forward(struct walk *w, int64_t i, double *S) {
  const int d = w->markov.order;
  const struct fk_markov_step step = step_to(w, i);
  struct place *place = w->places + i;
  for (int k = 0; k < d; k++) fk_markov_move(&step, d, S + k * d);
  set_noise(d, step.length, S + d * d);
  turn_columns(d, 2 * d, S);
  double noise = w->of->noise[i], left = 1 / (1 + S[0] * S[0] / noise);
  memcpy(place->column, S, sizeof *S * (size_t)d);
  place->left = left;
  for (int64_t column = 0; column < w->t; column++) {
    double *mean = w->states + column * d, *y = w->y + i + column * w->of->n;
    fk_markov_move(&step, d, mean);
    *y -= mean[0];
    for (int k = 0; k < d; k++) mean[k] += S[k] * (S[0] * (left / noise) * *y);
  }
  for (int k = 0; k < d; k++) S[k] *= sqrt(left);
  return -log(left);
}

/* The states are sums of the solution times the steps from each point to those after it. R R', of d x (d + 1), is
 * the information of these points. */
static void go_back(struct walk *w, int64_t i, double *R, double *own, double *variance) {
  const int d = w->markov.order, last = d - 1;
  const struct place *place = w->places + i;
  const double *s = place->column, precision = place->left / w->of->noise[i];
  const struct fk_markov_step step = i + 1 < w->of->n ? step_to(w, i + 1) : fk_markov_step_of(0);
  double gain[ORDER], square = 0, known = 0;
  for (int k = 0; k < d; k++) gain[k] = s[0] * precision * s[k];
  for (int64_t column = 0; column < w->t; column++) {
    double *state = w->states + column * d, *y = w->y + i + column * w->of->n;
    fk_markov_move(&step, d, state);
    *y *= precision;
    for (int k = 0; k < d; k++) *y -= gain[k] * state[last - k];
    state[last] += *y;
  }
  if (!own) return;
  for (int column = 0; column < d; column++) {
    double *r = R + column * d, others = 0, product;
    fk_markov_move(&step, d, r);
    for (int k = 1; k < d; k++) others += gain[k] * r[last - k];
    product = gain[0] * r[last] + others;
    square += product * product;
    r[last] = place->left * r[last] - others;
  }
  for (int k = 0; k < d; k++) R[k + d * d] = k == last ? sqrt(precision) : 0;
  turn_columns(d, d + 1, R);
  for (int column = 0; column < d; column++) {
    double product = 0;
    for (int k = 0; k < d; k++) product += s[k] * R[last - k + column * d];
    known += product * product;
  }
  own[i] = precision + square;
  variance[i] = s[0] * s[0] * fmax(0, 1 - known);
}

static enum fk_status walk(struct walk *w, struct fk_markov_result *result, const struct fk_poll *poll,
                           struct fk_error *err) {
  double S[2 * ORDER * ORDER] = {0}, R[ORDER * (ORDER + 1)] = {0};
  int64_t n = w->of->n;
  enum fk_status status = FK_STATUS_OK;
  result->log_det = 0;
  for (int64_t i = 0; i < n && !status; i++) {
    result->log_det += go_forward(w, i, S);
    if (i % LOOK_UP == 0) status = fk_look_up(poll, 0.5 * (double)i / (double)n, err);
  }
  memset(w->states, 0, sizeof *w->states * (size_t)(w->t * w->markov.order));
  for (int64_t i = n - 1; i >= 0 && !status; i--) {
    go_back(w, i, R, result->own, result->variance);
    if (i % LOOK_UP == 0) status = fk_look_up(poll, 1 - 0.5 * (double)i / (double)n, err);
  }
  return status;
}

enum fk_status fk_markov_solve(const struct fk_markov_system *of, double *y, int64_t t,
                               struct fk_markov_result *result, const struct fk_opts *opts, struct fk_error *err) {
  struct walk w = {.of = of, .y = y, .t = t};
  if (!fk_markov_of(&of->kernel, &w.markov))
    return fk_fail(err, FK_STATUS_UNSUPPORTED, "the process of this kernel is not a Markov process");
  w.places = malloc(sizeof *w.places * (size_t)of->n);
  w.states = calloc((size_t)(t * ORDER), sizeof *w.states);
  enum fk_status status = w.places && w.states
                              ? walk(&w, result, &opts->poll, err)
                              : fk_no_memory(err, (double)sizeof *w.places * (double)of->n, "states of a process");
  free(w.places);
  free(w.states);
  return status;
}
