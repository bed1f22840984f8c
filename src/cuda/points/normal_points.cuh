/* Points as normal products read them (normal.cuh): packed once, they serve as rows and as columns. */
#ifndef FK_CUDA_NORMAL_POINTS_CUH
#define FK_CUDA_NORMAL_POINTS_CUH

#include "pack.cuh"

enum fk_normal_way {
  FK_NORMAL_TENSOR,      /* two sweeps on tensor cores, Gaussian kernels */
  FK_NORMAL_DIFFERENCES, /* two sweeps by direct distances in FP32 */
  FK_NORMAL_TILES,       /* kernel matrices from FP16 products */
  FK_NORMAL_TILES_DOUBLE /* kernel matrices, all in FP64 */
};

/* The form in which points are packed. */
struct fk_normal_form {
  enum fk_normal_way way;
  bool wgmma; /* for FK_NORMAL_TENSOR */
  bool rough; /* for FK_NORMAL_TILES: lo is 0, points are on the grid */
  struct fk_tensor_grid grid;
  int d, k;        /* k: d padded, of the FP16 terms */
  uint64_t centre; /* identifies the centre that was subtracted */
};
bool fk_normal_same_form(const struct fk_normal_form *a, const struct fk_normal_form *b);

/* Points first .. first + filled - 1 of an operator, with room for more. Only the arrays that the method reads are
 * allocated. */
struct fk_normal_points {
  struct fk_cuda_buffer buffer;
  struct fk_normal_form form;
  int64_t first, room, filled;
  double radius2;  /* the largest |u|^2 of all points so far, cached or not; 0: unknown */
  char *stages;    /* wgmma: columns as packed by sums_wgmma.cu */
  __half *hi, *lo; /* mma */
  float *offset;   /* mma */
  float *undo;     /* factors of the kernels that correct the rounding of the offset; NULL: not on tensor cores */
  float *differences; /* [d][room], scaled so that t = -|x - y|^2 */
  double *u, *square; /* FP64 matrices: [d][room], and |u|^2 */
  /* FP16 matrices: [room][3][k] with x = hi + lo, stored as hi, lo and hi + lo rounded to FP16. The second and
   * third part of one point times the first and second of another are all that hi.hi lacks. On the grid, products
   * of hi are exact in FP32. norm: |x|^2/2 as a multiple of the grid's 2^-2g, and the rest. */
  __half *parts;
  float2 *norm;
};

/* A view of consecutive points. */
struct fk_normal_view {
  const struct fk_normal_points *points;
  int64_t row, n;
};

/* Views for tensor-core sweeps begin at multiples of this number: whole stages, and the padding of rows and
 * columns. */
enum { FK_NORMAL_STEP = 3 * FK_TENSOR_FLUSH };

double fk_normal_bytes(const struct fk_normal_form *form, int64_t points);
/* Allocates room for points; none is filled yet. */
enum fk_status fk_normal_make(struct fk_cuda_context *context, const struct fk_normal_form *form, int64_t points,
                              struct fk_normal_points *to, struct fk_error *err);
/* Packs whitened points [d][ld] to the place of point `row`. work: buffer for FP16 terms. */
enum fk_status fk_normal_fill(struct fk_cuda_context *context, const struct fk_cuda_points *from, int64_t row,
                              struct fk_cuda_buffer *work, struct fk_normal_points *to, struct fk_error *err);
/* The view as rows and columns of a task, and the start of its stages. */
struct fk_tensor_points fk_normal_halves(const struct fk_normal_view *view);
char *fk_normal_stages(const struct fk_normal_view *view);
/* Raises *largest, the bits of a double, to the largest |u|^2 or |x|. NaN counts as the largest. */
cudaError_t fk_normal_radius2(const struct fk_cuda_points *points, unsigned long long *largest,
                              cudaStream_t stream);
cudaError_t fk_normal_largest(const double *x, int64_t n, unsigned long long *largest, cudaStream_t stream);

#endif
