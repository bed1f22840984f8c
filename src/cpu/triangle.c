/* Solutions, factors and inverses of small triangles, by the loops of tile_dense.h. Every solution becomes one
 * with a lower triangle, whose columns are those of u, [column][lane]: the lanes are rows of B, or its columns if
 * the triangle is on the left. */
#include "triangle.h"

#include <string.h>

#include "../core/costs.h"
#include "../core/count.h"
#include "../core/pool.h"
#include "../core/threads.h"
#include "tile.h"

struct triangle {
  const struct fk_tile_ops *ops;
  int64_t n, padded; /* order, and as a multiple of row_step */
  bool turned;       /* its rows are columns of A as it is stored */
  bool reversed;     /* the last unknown is solved first */
  bool left;
  double alpha;
  const struct fk_dense *A, *B; /* B NULL: the identity, whose solution replaces A */
  double *T;
  struct fk_scratch panels;
};

static int64_t place(const struct triangle *t, int64_t k) { return t->reversed ? t->n - 1 - k : k; }

/* Groups of rows, [column][row]; padding is that of the identity. */
static void pack(const struct triangle *t, double *to) {
  const int64_t group = t->ops->row_step, ld = t->A->ld, sign = t->reversed ? -1 : 1;
  const int64_t row_step = sign * (t->turned ? ld : 1), column_step = sign * (t->turned ? 1 : ld);
  const double *A = (double *)t->A->data + place(t, 0) * (ld + 1);
  for (int64_t k = 0; k < t->n; to += (k + group) * group, k += group) {
    const int64_t rows = fk_smaller(group, t->n - k);
    memset(to, 0, sizeof *to * (size_t)((k + group) * group));
    for (int64_t l = 0; l < k; l++)
      for (int64_t r = 0; r < rows; r++) to[l * group + r] = A[(k + r) * row_step + l * column_step];
    for (int64_t l = k; l < k + group; l++) {
      to[l * group + l - k] = l < t->n ? 1 / A[l * (row_step + column_step)] : 1;
      for (int64_t r = l + 1; r < k + rows; r++) to[l * group + r - k] = A[r * row_step + l * column_step];
    }
  }
}

/* Lanes `first` on of u, from B or back. */
static void move(const struct triangle *t, int64_t first, int64_t lanes, double *u, bool back) {
  const int64_t panel = t->ops->panel, ld = t->B->ld, n = t->n;
  double *B = (double *)t->B->data + first * (t->left ? ld : 1), *begin = u + place(t, 0) * panel;
  const int64_t step = t->reversed ? -panel : panel;
  if (!back && (lanes < panel || n < t->padded)) memset(u, 0, sizeof *u * (size_t)(panel * t->padded));
  if (t->left && back) t->ops->transposed(begin, step, lanes, n, 1, B, ld);
  if (t->left && !back) t->ops->transposed(B, ld, n, lanes, t->alpha, begin, step);
  double *column = B + place(t, 0) * ld;
  const int64_t next = t->reversed ? -ld : ld;
  if (!t->left && back) t->ops->copied(u, panel, lanes, n, 1, column, next);
  if (!t->left && !back) t->ops->copied(column, next, lanes, n, t->alpha, u, panel);
}

static void solve_panels(void *data, int64_t first, int64_t end, int slot) {
  const struct triangle *t = data;
  const int64_t panel = t->ops->panel, length = t->left ? t->B->d : t->B->n;
  double *u = fk_scratch_at(&t->panels, slot);
  for (int64_t lane = first * panel; lane < fk_smaller(length, end * panel); lane += panel) {
    const int64_t lanes = fk_smaller(panel, length - lane);
    move(t, lane, lanes, u, false);
    t->ops->solve(t->T, t->padded, u, 0);
    move(t, lane, lanes, u, true);
  }
}

/* Rows of the inverse, X A = 1. */
static void invert_panels(struct triangle *t) {
  const int64_t panel = t->ops->panel, group = t->ops->row_step, n = t->n;
  double *u = fk_scratch_at(&t->panels, 0), *A = t->A->data;
  for (int64_t row = 0; row < n; row += panel) {
    const int64_t last = fk_smaller(n, row + panel) - 1, first = place(t, t->reversed ? last : row);
    memset(u, 0, sizeof *u * (size_t)(panel * t->padded));
    for (int64_t i = row; i <= last; i++) u[i - row + place(t, i) * panel] = 1;
    t->ops->solve(t->T, t->padded, u, first / group * group);
    for (int64_t k = first; k < n; k++) {
      const int64_t j = place(t, k), begin = t->reversed ? fk_larger(row, j) : row,
                    end = t->reversed ? last : fk_smaller(last, j);
      for (int64_t i = begin; i <= end; i++) A[i + j * t->A->ld] = u[i - row + k * panel];
    }
  }
}

static enum fk_status start(struct triangle *t, unsigned flags, const struct fk_dense *A, int threads,
                            struct fk_error *err) {
  t->ops = fk_isa()->f64;
  t->n = A->n;
  t->padded = fk_padded(t->n, t->ops->row_step);
  t->turned = !(flags & FK_RIGHT) == !!(flags & FK_TRANSPOSED);
  t->reversed = t->turned != !!(flags & FK_UPPER);
  t->left = !(flags & FK_RIGHT);
  t->A = A;
  const int64_t most = t->padded * (t->padded + t->ops->row_step) / 2;
  if (!fk_scratch_init(&t->panels, threads + 1,
                       sizeof(double) * (size_t)fk_larger(most, t->padded * t->ops->panel)))
    return fk_no_memory(err, 0, "a triangle of a matrix");
  t->T = fk_scratch_at(&t->panels, threads);
  pack(t, t->T);
  return FK_STATUS_OK;
}

enum fk_status fk_triangle_solve(int threads, unsigned flags, double alpha, const struct fk_dense *A,
                                 const struct fk_dense *B, struct fk_error *err) {
  struct triangle t = {.alpha = alpha, .B = B};
  const int64_t panels = fk_pieces(flags & FK_RIGHT ? B->n : B->d, fk_isa()->f64->panel);
  const double work = (double)A->n * (double)A->n * (double)fk_isa()->f64->panel / 2;
  threads = fk_threads_for_work(threads, fk_costs.dense.awake * work * (double)panels);
  enum fk_status status = start(&t, flags, A, threads, err);
  if (status) return status;
  fk_parallel_for(threads, panels, fk_step_for_work(work), solve_panels, &t);
  fk_scratch_free(&t.panels);
  return status;
}

enum fk_status fk_triangle_invert(unsigned flags, const struct fk_dense *A, struct fk_error *err) {
  struct triangle t = {.alpha = 1};
  enum fk_status status = start(&t, FK_RIGHT | (flags & FK_UPPER), A, 1, err);
  if (status) return status;
  invert_panels(&t);
  fk_scratch_free(&t.panels);
  return status;
}

/* A's triangle as a lower one, padded by the identity, and back. */
static void move_triangle(bool upper, const struct fk_dense *A, double *L, int64_t ld, bool back) {
  double *from = A->data;
  for (int64_t j = 0; j < A->n; j++)
    for (int64_t i = j; i < A->n; i++) {
      double *a = upper ? from + j + i * A->ld : from + i + j * A->ld;
      if (back)
        *a = L[i + j * ld];
      else
        L[i + j * ld] = *a;
    }
}

enum fk_status fk_triangle_factor(unsigned flags, const struct fk_dense *A, int64_t *pivot, struct fk_error *err) {
  const struct fk_tile_ops *ops = fk_isa()->f64;
  const int64_t group = ops->row_step, n = fk_padded(A->n, group), ld = n + ops->panel;
  struct fk_scratch scratch;
  if (!fk_scratch_init(&scratch, 1, sizeof(double) * (size_t)(n * (ld + group))))
    return fk_no_memory(err, 0, "a triangle of a matrix");
  double *L = fk_scratch_at(&scratch, 0);
  memset(L, 0, sizeof *L * (size_t)(n * ld));
  for (int64_t j = A->n; j < n; j++) L[j * (ld + 1)] = 1;
  move_triangle(flags & FK_UPPER, A, L, ld, false);
  *pivot = ops->factor(L, n, ld, L + n * ld);
  if (*pivot == 0) move_triangle(flags & FK_UPPER, A, L, ld, true);
  fk_scratch_free(&scratch);
  return FK_STATUS_OK;
}
