/* Points on a device: whitening and extent.
 * || Arrays on the device are [column][point], consecutive points adjacent, except the FP16 terms of
 * tensor/tensor.cuh. Numbers are doubles until a method packs them in its own precision. */
#ifndef FK_CUDA_POINTS_CUH
#define FK_CUDA_POINTS_CUH

#include "../device/common.cuh"

/* Whitened points, [d][ld]. low: rounding errors of the coordinates of points far from the origin, whose
 * differences must keep all digits (doubled.cuh); NULL: 0. */
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
/* Writes the whitening to the buffer. A centre that the host does not know is 0 until fk_cuda_centre() computes
 * it. */
enum fk_status fk_cuda_whitening_init(struct fk_cuda_context *context, struct fk_cuda_buffer *buffer,
                                      const struct fk_whitening *host, struct fk_cuda_whitening *whitening,
                                      struct fk_error *err);
/* raw: n x d, ld apart, with weights or NULL. To be called if the centre was unknown when the whitening was sent.
 */
struct fk_cuda_raw {
  const double *x, *weights;
  int64_t n, ld;
  int d;
};
enum fk_status fk_cuda_centre(struct fk_cuda_context *context, const struct fk_cuda_raw *raw,
                              const struct fk_cuda_whitening *whitening, struct fk_error *err);
/* raw: column-major, ld_raw apart. The padding, points n to points->ld - 1, becomes 0. */
enum fk_status fk_cuda_whiten(struct fk_cuda_context *context, const struct fk_cuda_whitening *whitening,
                              const double *raw, int64_t ld_raw, struct fk_cuda_points *points,
                              struct fk_error *err);
/* Sends a host matrix to an arena, raw and whitened. On entry, points->ld is the distance of columns. */
enum fk_status fk_cuda_bring(struct fk_cuda_context *context, struct fk_cuda_arena *arena,
                             const struct fk_cuda_whitening *whitening, const struct fk_matrix *x, double **raw,
                             struct fk_cuda_points *points, struct fk_error *err);
/* Computes points->low of whitened points; 0 where a coordinate is not finite. */
enum fk_status fk_cuda_whiten_low(struct fk_cuda_context *context, const struct fk_cuda_whitening *whitening,
                                  const double *raw, int64_t ld_raw, const struct fk_cuda_points *points,
                                  struct fk_error *err);
/* Computes the points A x, where A is d x d on the device. */
enum fk_status fk_cuda_multiply(struct fk_cuda_context *context, const double *A, const double *raw,
                                int64_t ld_raw, struct fk_cuda_points *points, struct fk_error *err);
enum { FK_RADIUS_ANSWERS = FK_ANSWERS / 2 };
/* Finds the largest |u|^2 of all points: the device writes parts of it to the context's answers; read them when it
 * is done. */
enum fk_status fk_cuda_find_radius2(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                    struct fk_error *err);
double fk_cuda_radius2(const struct fk_cuda_context *context, const struct fk_cuda_points *points);

#endif
