#include "lattice.h"

#include <math.h>
#include <string.h>

#include "../../core/aligned.h"
#include "../../core/count.h"
#include "../../core/host.h"
#include "../../core/threads.h"

/* A slab is the sums of all bins at so many numbered nodes that they take 64 MB. */
enum { WIDTH = 2 * FK_LATTICE_SIDE + 1, MARGIN = 9, SLAB = 1 << 23 };
static const double LEAST = 1e-12; /* of the kernel's height */

struct job {
  const struct fk_lattice *of;
  int *index;                        /* the numbers of the nodes */
  int64_t stride[FK_LATTICE_AXES];   /* between neighbours along an axis */
  double fall[FK_LATTICE_SIDE + 1];  /* exp(-(k step)^2 / 2) */
  int64_t first, count, begin, last; /* nodes of a slab: numbers before it; how many; the first and last node */
  const double *b;                   /* coefficients */
  double *sums;                      /* [bin][node of the slab] */
};

/* The first node along an axis that a point adds to. */
static int64_t first_node(const struct fk_lattice *of, int64_t axis, double u) {
  return (int64_t)floor((u - of->from[axis]) / of->step + 0.5) - FK_LATTICE_SIDE;
}

/* Marks the nodes within MARGIN of a marked one along a line. */
static void widen(int *line, int64_t count, int64_t stride) {
  int64_t until = -1;
  for (int64_t i = 0; i < count; i++)
    if (line[i * stride] == 1)
      until = i + MARGIN;
    else if (i <= until)
      line[i * stride] = 2;
  until = count;
  for (int64_t i = count - 1; i >= 0; i--)
    if (line[i * stride] == 1)
      until = i - MARGIN;
    else if (i >= until)
      line[i * stride] = 2;
  for (int64_t i = 0; i < count; i++) line[i * stride] = line[i * stride] > 0;
}

/* Numbers the nodes that points add to from 1 on in `index`, which has 0 for the others. Returns their number. */
static int64_t number_nodes(const struct fk_lattice *of, const int64_t *stride, int64_t nodes, int *index) {
  int64_t number = 0;
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

/* Adds c times w at the numbered nodes among those from `node` on. */
static inline void add_line(const struct job *s, const double *restrict w, int64_t node, double c, double *sums) {
  const int *index = s->index + node;
  const int64_t before = s->first + 1, start = index[0] - before;
  if (start >= 0 && start + WIDTH <= s->count && index[WIDTH - 1] - index[0] == WIDTH - 1) {
    double *restrict line = sums + start;
    /* 24 of the nodes fill whole vectors of any length. */
    for (int k = 0; k < WIDTH - 1; k++) line[k] += c * w[k];
    line[WIDTH - 1] += c * w[WIDTH - 1];
    return;
  }
  for (int k = 0; k < WIDTH; k++)
    if (index[k] >= before && index[k] - before < s->count) sums[index[k] - before] += c * w[k];
}

/* Adds c times the product of the kernels along the axes up to `axis`, at `node` and the nodes after it, of which
 * the last is `span` later. Products below LEAST are left out. */
static void spread(const struct job *s, const double (*w)[WIDTH], int64_t axis, int64_t node, int64_t span,
                   double c, double *sums) {
  if (node > s->last || node + span < s->begin || c < LEAST) return;
  if (axis == 0) add_line(s, w[0], node, c, sums);
  if (axis == 1)
    for (int k = 0; k < WIDTH; k++)
      if (c * w[1][k] >= LEAST) add_line(s, w[0], node + k * s->stride[1], c * w[1][k], sums);
  for (int k = 0; k < WIDTH && axis > 1; k++)
    spread(s, w, axis - 1, node + k * s->stride[axis], span - (WIDTH - 1) * s->stride[axis], c * w[axis][k], sums);
}

static void sum_bins(void *data, int64_t begin, int64_t end, int slot) {
  const struct job *s = data;
  const struct fk_lattice *of = s->of;
  double w[FK_LATTICE_AXES][WIDTH];
  int64_t span = 0;
  (void)slot;
  for (int64_t k = 0; k < of->d; k++) span += (WIDTH - 1) * s->stride[k];
  for (int64_t bin = begin; bin < end; bin++) {
    double *sums = s->sums + bin * s->count;
    memset(sums, 0, sizeof(double) * (size_t)s->count);
    for (int64_t j = bin > 0 ? (int64_t)of->ends[bin - 1] : 0; j < (int64_t)of->ends[bin]; j++) {
      int64_t node = 0, first[FK_LATTICE_AXES];
      for (int64_t k = 0; k < of->d; k++)
        node += s->stride[k] * (first[k] = first_node(of, k, of->u[k * of->n + j]));
      if (node > s->last || node + span < s->begin) continue;
      for (int64_t k = 0; k < of->d; k++)
        kernel_at_nodes(s, of->u[k * of->n + j] - of->from[k] - of->step * (double)(first[k] + FK_LATTICE_SIDE),
                        w[k]);
      for (int k = 0; k < WIDTH; k++) w[0][k] *= s->b[j];
      spread(s, (const double(*)[WIDTH])w, of->d - 1, node, span, 1, sums);
    }
  }
}

/* forms += left' right at the nodes of a slab. `sums`: room for one slab, or for two if left and right differ. */
static enum fk_status add_slab(struct job *s, double *sums, const struct fk_opts *opts, const struct fk_poll *poll,
                               double *forms, struct fk_error *err) {
  const struct fk_lattice *of = s->of;
  const bool same = of->left == of->right;
  double work = (double)of->n / (double)of->bins * pow(WIDTH, (double)of->d);
  struct fk_loop loop = fk_loop_of(opts->threads, of->bins, work);
  struct fk_dense left = {.data = sums, .n = s->count, .d = of->bins, .ld = s->count}, right = left;
  struct fk_dense sum = {.data = forms, .n = of->bins, .d = of->bins, .ld = of->bins};
  if (!same) right.data = sums + s->count * of->bins;
  for (int part = 0; part <= !same; part++) {
    s->b = part ? of->right : of->left;
    s->sums = part ? right.data : left.data;
    enum fk_status status = fk_loop_run(&loop, poll, sum_bins, s, err);
    if (status) return status;
  }
  unsigned flags = FK_TRANSPOSED | (same ? FK_HOST_LOWER : 0);
  return fk_host.gemm(opts->threads, flags, 1, &left, &right, 1, &sum, err);
}

enum fk_status fk_lattice_forms(const struct fk_lattice *of, const struct fk_opts *opts, double *forms,
                                struct fk_error *err) {
  struct job s = {.of = of, .last = -1};
  const bool same = of->left == of->right;
  int64_t nodes = 1;
  for (int64_t k = 0; k < of->d; k++) {
    s.stride[k] = nodes;
    nodes *= (int64_t)of->counts[k];
  }
  for (int k = 0; k <= FK_LATTICE_SIDE; k++) s.fall[k] = exp(-k * of->step * k * of->step / 2);
  memset(forms, 0, sizeof *forms * (size_t)(of->bins * of->bins));
  s.index = fk_aligned_alloc(sizeof *s.index * (size_t)nodes);
  const int64_t used = s.index ? number_nodes(of, s.stride, nodes, s.index) : 0;
  const int64_t most = fk_smaller(used, fk_larger(1024, SLAB / of->bins));
  double *sums = fk_aligned_alloc(sizeof *sums * (size_t)(most * of->bins * (same ? 1 : 2)));
  enum fk_status status = s.index && sums ? FK_STATUS_OK : fk_no_memory(err, 0, "sums at the nodes of a lattice");
  for (; s.first < used && !status; s.first += s.count) {
    s.count = fk_smaller(most, used - s.first);
    for (s.begin = s.last + 1; s.index[s.begin] == 0;) s.begin++;
    for (s.last = s.begin; s.index[s.last] != s.first + s.count;) s.last++;
    struct fk_step step = {&opts->poll, (double)s.first / (double)used,
                           (double)(s.first + s.count) / (double)used};
    const struct fk_poll poll = fk_poll_of_step(&step);
    status = add_slab(&s, sums, opts, &poll, forms, err);
  }
  for (int64_t i = 0; i < of->bins && same; i++)
    for (int64_t j = 0; j < i; j++) forms[j + i * of->bins] = forms[i + j * of->bins];
  fk_aligned_free(sums);
  fk_aligned_free(s.index);
  return status;
}
