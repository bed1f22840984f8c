/* The order of sources along a Hilbert curve through the coordinates of largest spread. It keeps neighbours
 * together, so that runs of sources lie in small boxes, which lists.cuh uses. It does not help if most boxes are
 * near to each other all the same; samples decide, by the points alone. */
#ifndef FK_CUDA_ORDER_CUH
#define FK_CUDA_ORDER_CUH

#include "../points/points.cuh"

struct fk_hilbert_curve;

struct fk_cuda_order {
  double kept; /* share of the pairs of boxes that are near */
  struct fk_cuda_buffer buffer;
  struct fk_hilbert_curve *curve; /* on the device */
  uint64_t *key;                  /* of the sources, sorted */
  int *order;                     /* the source that is i-th in the order */
};

/* Counts near pairs of a sample, in the context's answers. Once the device is done, they give an estimate of the
 * share of pairs of blocks that an order would leave near. */
enum fk_status fk_cuda_count_near(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                  struct fk_error *err);
double fk_cuda_guess_kept(const struct fk_cuda_context *context, const struct fk_cuda_points *points);
/* Finds the curve, and the order of the points along it. */
enum fk_status fk_cuda_order_find(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                  struct fk_cuda_order *order, struct fk_error *err);
/* Sorts rows along the same curve: their keys, and the row that is i-th. */
enum fk_status fk_cuda_order_rows(struct fk_cuda_context *context, const struct fk_cuda_order *order,
                                  const struct fk_cuda_points *rows, uint64_t *key, int *list,
                                  struct fk_error *err);
void fk_cuda_order_free(struct fk_cuda_context *context, struct fk_cuda_order *order);

/* A lower bound of each row's weighted kernel sum, from the sources around its place on the curve. */
struct fk_least {
  struct fk_cuda_points rows, sources; /* rows and sources in order */
  const uint64_t *row_key, *source_key;
  const double *weight; /* NULL: ones */
  double weight_scale;
  int64_t own; /* row r excludes source r + own; INT64_MIN: excludes none */
  double *least;
};
cudaError_t fk_order_least(const struct fk_least *least, cudaStream_t stream);

#endif
