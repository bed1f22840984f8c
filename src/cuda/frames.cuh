/* Local frames: sources that reach too far for halves about one centre, cut into balls that do not.
 *
 * A frame is a ball of sources. They are packed about its centre, and so are the targets that it can matter to:
 * those within its radius and FK_FRAME_REACH. What other targets miss is less than 2^-30 of any sum that is not
 * lost (fk_lost_below) and done again in double anyway. Sources that no ball takes, far from all others, are the
 * rest: they go by differences in double. A target is summed over frames in their order, so the bits depend on
 * neither device nor chunk.
 */
#ifndef FK_CUDA_FRAMES_CUH
#define FK_CUDA_FRAMES_CUH

#include "steps.cuh"

enum { FK_FRAMES = 31, FK_PARTS = FK_FRAMES + 1 }; /* the rest is a part, too */

/* A kernel at this distance, times the largest factor and value of tensor sums, is 2^-130 and less. */
#define FK_FRAME_REACH 14.2

struct fk_cuda_sources;

struct fk_cuda_frames {
  int count;     /* of frames; 0: of no use */
  double radius; /* at most, of each */
  struct fk_cuda_buffer buffer;
  double *centre;                         /* [frame][d], on the device; that of the rest is 0 */
  int *order;                             /* sources, part by part, as they come */
  unsigned char *part_of;                 /* of each source */
  double *reach2;                         /* [frame], on the device: of |y - centre|^2 of its rows */
  int first[FK_PARTS + 1];                /* of each part, in `order` */
  double radius2[FK_PARTS];               /* the largest |x - centre|^2 of its sources */
  struct fk_cuda_sources *part[FK_PARTS]; /* NULL: not gathered yet, or empty */
};

/* Looks for frames of their radius; count stays 0 where they would leave most sources to the rest. `least`: a
 * frame of fewer is not worth its launches. */
enum fk_status fk_cuda_frames_find(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                   double least, struct fk_cuda_frames *frames, struct fk_error *err);
void fk_cuda_frames_free(struct fk_cuda_context *context, struct fk_cuda_frames *frames);

/* out[w][i] = in[w][list[i]] - minus[w], of `widths` columns; 0 in the padding, count to ld_out. minus: or NULL.
 */
struct fk_gather {
  const double *in;
  int64_t ld_in;
  const int *list; /* NULL: the first ones */
  int64_t count;
  const double *minus;
  double *out;
  int64_t ld_out;
};
cudaError_t fk_frames_gather(const struct fk_gather *gather, int widths, cudaStream_t stream);
/* And sums back, added to where their rows are; those of coordinates become those about the common centre. */
struct fk_scatter {
  const double *in;
  int64_t ld_in;
  const int *list; /* NULL: the first ones */
  int64_t count;
  const double *centre; /* NULL: values are not coordinates */
  double *out;
  int64_t ld_out;
};
cudaError_t fk_frames_scatter(const struct fk_scatter *scatter, int widths, cudaStream_t stream);

/* Which targets of a chunk each part is for: list[first[g]] .. list[first[g + 1]], g = 2 part + 0 for those that
 * are sources of the part themselves, in their order, and 2 part + 1 for the others. */
struct fk_frame_rows {
  struct fk_cuda_buffer buffer;
  int *list;
  int64_t first[2 * FK_PARTS + 1];
  int64_t before[FK_PARTS]; /* sources of the part that come before the chunk's */
};
/* own: row i is source own + i; < 0: rows are not sources, or meet themselves like others. */
enum fk_status fk_cuda_frame_rows(struct fk_cuda_context *context, const struct fk_cuda_frames *frames,
                                  const struct fk_cuda_points *rows, int64_t own, struct fk_frame_rows *found,
                                  struct fk_error *err);

#endif
