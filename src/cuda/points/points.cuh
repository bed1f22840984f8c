/* Points on a device: whitened, and how far they reach.
 *
 * Everything on the device lies in the order [column][point], point by point next to each other, but for the
 * halves of tensor/tensor.cuh. Numbers are doubles until a method packs them in its own precision.
 */
#ifndef FK_CUDA_POINTS_CUH
#define FK_CUDA_POINTS_CUH

#include "../device/common.cuh"

/* Whitened points, [d][ld]. low: what the coordinates lack of points that reach far, whose differences are to keep
 * all their digits (doubled.cuh); NULL: 0. */
struct fk_cuda_points {
  double *u;
  int64_t n, ld;
  int d;
  double *low;
};

/* The whitening on the device: centre, then the matrix or its diagonal. */
struct fk_cuda_whitening {
  const struct fk_whitening *host;
  double *centre;
  const double *matrix;
};
/* To the buffer; a centre that the host does not know is 0 until fk_cuda_centre() finds it. */
enum fk_status fk_cuda_whitening_init(struct fk_cuda_context *context, struct fk_cuda_buffer *buffer,
                                      const struct fk_whitening *host, struct fk_cuda_whitening *whitening,
                                      struct fk_error *err);
/* raw: n x d, ld apart, with weights or none (NULL). The centre was not known when the whitening was sent. */
struct fk_cuda_raw {
  const double *x, *weights;
  int64_t n, ld;
  int d;
};
enum fk_status fk_cuda_centre(struct fk_cuda_context *context, const struct fk_cuda_raw *raw,
                              const struct fk_cuda_whitening *whitening, struct fk_error *err);
/* raw: column-major, ld_raw apart. Points of the padding, n to points->ld, become 0. */
enum fk_status fk_cuda_whiten(struct fk_cuda_context *context, const struct fk_cuda_whitening *whitening,
                              const double *raw, int64_t ld_raw, struct fk_cuda_points *points,
                              struct fk_error *err);
/* A matrix of the host to an arena, raw and whitened; points->ld says how far apart columns are to be. */
enum fk_status fk_cuda_bring(struct fk_cuda_context *context, struct fk_cuda_arena *arena,
                             const struct fk_cuda_whitening *whitening, const struct fk_matrix *x, double **raw,
                             struct fk_cuda_points *points, struct fk_error *err);
/* points->low of points that were whitened so; 0 where a coordinate is no number. */
enum fk_status fk_cuda_whiten_low(struct fk_cuda_context *context, const struct fk_cuda_whitening *whitening,
                                  const double *raw, int64_t ld_raw, const struct fk_cuda_points *points,
                                  struct fk_error *err);
/* The points A x, A being d x d on the device. */
enum fk_status fk_cuda_multiply(struct fk_cuda_context *context, const double *A, const double *raw,
                                int64_t ld_raw, struct fk_cuda_points *points, struct fk_error *err);
enum { FK_RADIUS_ANSWERS = FK_ANSWERS / 2 };
/* The largest |u|^2 of all points: parts of it come to the context's answers, and when the device is done they
 * tell it. */
enum fk_status fk_cuda_find_radius2(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                    struct fk_error *err);
double fk_cuda_radius2(const struct fk_cuda_context *context, const struct fk_cuda_points *points);

#endif
