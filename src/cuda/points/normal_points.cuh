/* Points as normal products read them (normal.cuh): packed once, they serve as rows and as columns. */
#ifndef FK_CUDA_NORMAL_POINTS_CUH
#define FK_CUDA_NORMAL_POINTS_CUH

#include "pack.cuh"

enum fk_normal_way {
  FK_NORMAL_TENSOR,      /* two sweeps of tensor cores, of Gaussians */
  FK_NORMAL_DIFFERENCES, /* two sweeps by differences in FP32 */
  FK_NORMAL_TILES,       /* matrices of kernels, from products of halves */
  FK_NORMAL_TILES_DOUBLE /* the same, all in FP64 */
};

/* What points are made for. */
struct fk_normal_form {
  enum fk_normal_way way;
  bool wgmma; /* of FK_NORMAL_TENSOR */
  struct fk_tensor_grid grid;
  int d, k;        /* k: d with its padding, of halves */
  uint64_t centre; /* a key of the one that was taken off */
};
bool fk_normal_same_form(const struct fk_normal_form *a, const struct fk_normal_form *b);

/* Points first .. first + filled - 1 of an operator, with room for more. Of the arrays only those that the method
 * reads are there. */
struct fk_normal_points {
  struct fk_cuda_buffer buffer;
  struct fk_normal_form form;
  int64_t first, room, filled;
  double radius2;  /* the largest |u|^2 of all that went by, kept or not; 0: not known */
  char *stages;    /* wgmma: columns as sums_wgmma.cu packs them */
  __half *hi, *lo; /* mma */
  float *offset;   /* mma */
  float *undo;     /* what kernels are multiplied with, for the rounding of the offset; NULL: of no tensor cores */
  float *differences; /* [d][room], scaled so that t is -|x - y|^2 */
  double *u, *square; /* tiles in double: [d][room], and |u|^2 */
  /* Tiles: [room][3][k], x = hi + lo as hi, lo and hi + lo rounded to one half: the second and third of one point
   * times the first and second of another are all that hi.hi lacks. On the grid, products of hi are exact in FP32.
   * norm: |x|^2/2 on the grid's 2^-2g, and the rest. */
  __half *parts;
  float2 *norm;
};

/* A view of them. */
struct fk_normal_view {
  const struct fk_normal_points *points;
  int64_t row, n;
};

/* Halves of sweeps are in views that begin at multiples of this: of whole stages, and of rows and columns as they
 * are padded.
 */
enum { FK_NORMAL_STEP = 3 * FK_TENSOR_FLUSH };

double fk_normal_bytes(const struct fk_normal_form *form, int64_t points);
/* Room for points, none of which is there yet. */
enum fk_status fk_normal_make(struct fk_cuda_context *context, const struct fk_normal_form *form, int64_t points,
                              struct fk_normal_points *to, struct fk_error *err);
/* Whitened points [d][ld] to the place of point `row`. work: for halves on their way. */
enum fk_status fk_normal_fill(struct fk_cuda_context *context, const struct fk_cuda_points *from, int64_t row,
                              struct fk_cuda_buffer *work, struct fk_normal_points *to, struct fk_error *err);
/* The view as rows and columns of a task, and where its stages begin. */
struct fk_tensor_points fk_normal_halves(const struct fk_normal_view *view);
char *fk_normal_stages(const struct fk_normal_view *view);
/* *largest, bits of a double, becomes the largest |u|^2 or |x|, if that is larger; NaN is the largest of all. */
cudaError_t fk_normal_radius2(const struct fk_cuda_points *points, unsigned long long *largest,
                              cudaStream_t stream);
cudaError_t fk_normal_largest(const double *x, int64_t n, unsigned long long *largest, cudaStream_t stream);

#endif
