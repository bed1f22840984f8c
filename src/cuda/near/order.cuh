/* Sources in an order that keeps neighbours together, along a Hilbert curve through the coordinates that spread
 * most, so that runs of them lie in small boxes: lists.cuh has what that is good for. Of no use where most boxes
 * are near to each other all the same; that is found out on samples, by the points alone.
 */
#ifndef FK_CUDA_ORDER_CUH
#define FK_CUDA_ORDER_CUH

#include "../points/points.cuh"

struct fk_hilbert_curve;

struct fk_cuda_order {
  double kept; /* of the pairs of their boxes, those that are near */
  struct fk_cuda_buffer buffer;
  struct fk_hilbert_curve *curve; /* on the device */
  uint64_t *key;                  /* of the sources, sorted */
  int *order;                     /* which source is the i-th */
};

/* Counts of near pairs of a sample come to the context's answers; when the device is done, they tell roughly
 * what share of pairs of blocks an order would leave near. */
enum fk_status fk_cuda_count_near(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                  struct fk_error *err);
double fk_cuda_guess_kept(const struct fk_cuda_context *context, const struct fk_cuda_points *points);
/* The curve, and the points' order along it. */
enum fk_status fk_cuda_order_find(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                  struct fk_cuda_order *order, struct fk_error *err);
/* Rows along the same curve: their keys, sorted, and which is the i-th. */
enum fk_status fk_cuda_order_rows(struct fk_cuda_context *context, const struct fk_cuda_order *order,
                                  const struct fk_cuda_points *rows, uint64_t *key, int *list,
                                  struct fk_error *err);
void fk_cuda_order_free(struct fk_cuda_context *context, struct fk_cuda_order *order);

/* A lower bound of each row's sum of weighted kernels: the sources about its place on the curve. */
struct fk_least {
  struct fk_cuda_points rows, sources; /* both in order */
  const uint64_t *row_key, *source_key;
  const double *weight; /* NULL: ones */
  double weight_scale;
  int64_t own; /* row r leaves source r + own out; INT64_MIN: it meets all */
  double *least;
};
cudaError_t fk_order_least(const struct fk_least *least, cudaStream_t stream);

#endif
