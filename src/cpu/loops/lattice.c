#include "lattice.h"

#include <math.h>
#include <string.h>

#include "../../core/count.h"
#include "../../core/threads.h"

enum { WIDTH = 2 * FK_LATTICE_SIDE + 1 };

struct job {
  const struct fk_lattice *of;
  const int *index;
  int64_t first, count, stride[FK_LATTICE_AXES];
  double fall[FK_LATTICE_SIDE + 1]; /* exp(-(k step)^2 / 2) */
  double *sums;
};

static void take_strides(const struct fk_lattice *of, int64_t *stride) {
  stride[0] = 1;
  for (int64_t k = 1; k < of->d; k++) stride[k] = stride[k - 1] * (int64_t)of->counts[k - 1];
}

/* The first node along an axis that a point adds to. */
static int64_t first_node(const struct fk_lattice *of, int64_t axis, double u) {
  return (int64_t)floor((u - of->from[axis]) / of->step + 0.5) - FK_LATTICE_SIDE;
}

/* Marks the nodes within FK_LATTICE_SIDE of a marked one along a line. */
static void widen(int *line, int64_t count, int64_t stride) {
  int64_t until = -1;
  for (int64_t i = 0; i < count; i++)
    if (line[i * stride] == 1)
      until = i + FK_LATTICE_SIDE;
    else if (i <= until)
      line[i * stride] = 2;
  until = count;
  for (int64_t i = count - 1; i >= 0; i--)
    if (line[i * stride] == 1)
      until = i - FK_LATTICE_SIDE;
    else if (i >= until)
      line[i * stride] = 2;
  for (int64_t i = 0; i < count; i++) line[i * stride] = line[i * stride] > 0;
}

int64_t fk_lattice_nodes(const struct fk_lattice *of, int *index) {
  int64_t stride[FK_LATTICE_AXES], nodes = 1, number = 0;
  take_strides(of, stride);
  for (int64_t k = 0; k < of->d; k++) nodes *= (int64_t)of->counts[k];
  memset(index, 0, sizeof(int) * (size_t)nodes);
  for (int64_t j = 0; j < of->n; j++) {
    int64_t node = 0;
    for (int64_t k = 0; k < of->d; k++)
      node += stride[k] * (first_node(of, k, of->u[k * of->n + j]) + FK_LATTICE_SIDE);
    index[node] = 1;
  }
  for (int64_t k = 0; k < of->d; k++) {
    int64_t count = (int64_t)of->counts[k];
    for (int64_t node = 0; node < nodes; node++)
      if (node / stride[k] % count == 0) widen(index + node, count, stride[k]);
  }
  for (int64_t node = 0; node < nodes; node++)
    if (index[node]) index[node] = (int)++number;
  return number;
}

/* exp(-(u - t)^2 / 2) at the nodes t = m + k step, as exp(-(u - m)^2 / 2) exp((u - m) step)^k exp(-(k step)^2 /
 * 2). */
static void kernel_at_nodes(const struct job *s, double off, double *w) {
  double ahead = exp(-off * off / 2), behind = ahead, ratio = exp(off * s->of->step), inverse = 1 / ratio;
  w[FK_LATTICE_SIDE] = ahead;
  for (int k = 1; k <= FK_LATTICE_SIDE; k++) {
    ahead *= ratio;
    behind *= inverse;
    w[FK_LATTICE_SIDE + k] = ahead * s->fall[k];
    w[FK_LATTICE_SIDE - k] = behind * s->fall[k];
  }
}

/* Adds c times the product of the kernels along the axes up to `axis`, at `node` and the nodes after it. The nodes
 * of a line have numbers that follow each other. */
static void spread(const struct job *s, const double (*w)[WIDTH], int64_t axis, int64_t node, double c,
                   double *sums) {
  if (axis > 0) {
    for (int k = 0; k < WIDTH; k++) spread(s, w, axis - 1, node + k * s->stride[axis], c * w[axis][k], sums);
    return;
  }
  int64_t start = s->index[node] - 1 - s->first;
  int64_t low = fk_larger(0, -start), high = fk_smaller(WIDTH, s->count - start);
  for (int64_t k = low; k < high; k++) sums[start + k] += c * w[0][k];
}

static void sum_bins(void *data, int64_t begin, int64_t end, int slot) {
  const struct job *s = data;
  const struct fk_lattice *of = s->of;
  double w[FK_LATTICE_AXES][WIDTH];
  (void)slot;
  for (int64_t bin = begin; bin < end; bin++) {
    double *sums = s->sums + bin * s->count;
    memset(sums, 0, sizeof(double) * (size_t)s->count);
    for (int64_t j = bin > 0 ? (int64_t)of->ends[bin - 1] : 0; j < (int64_t)of->ends[bin]; j++) {
      int64_t node = 0;
      for (int64_t k = 0; k < of->d; k++) {
        double u = of->u[k * of->n + j];
        int64_t first = first_node(of, k, u);
        kernel_at_nodes(s, u - of->from[k] - of->step * (double)(first + FK_LATTICE_SIDE), w[k]);
        node += s->stride[k] * first;
      }
      spread(s, (const double(*)[WIDTH])w, of->d - 1, node, of->b[j], sums);
    }
  }
}

enum fk_status fk_lattice_sums(const struct fk_lattice *of, const int *index, int64_t first, int64_t count,
                               const struct fk_opts *opts, double *sums, struct fk_error *err) {
  struct job s = {.of = of, .index = index, .first = first, .count = count, .sums = sums};
  take_strides(of, s.stride);
  for (int k = 0; k <= FK_LATTICE_SIDE; k++) s.fall[k] = exp(-k * of->step * k * of->step / 2);
  double work = (double)of->n / (double)of->bins * pow(WIDTH, (double)of->d);
  struct fk_loop loop = fk_loop_of(opts->threads, of->bins, work);
  return fk_loop_run(&loop, &opts->poll, sum_bins, &s, err);
}
