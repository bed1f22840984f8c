/* Local frames: sources that reach too far for FP16 terms about one centre are cut into balls that do not.
 * || A frame is a ball of sources. They are packed relative to its centre, and so are the targets that it can
 * matter to: those within its radius plus FK_FRAME_REACH. What other targets miss is less than 2^-30 of any sum
 * that is not lost (fk_lost_below); lost sums are recomputed in double anyway. The points of all frames are stored
 * one frame after the other, and one launch sums them (struct fk_tensor_part), so that small frames fill a device
 * together. Sources that no ball takes, far from all others, are summed by direct distances in double. A target's
 * sum is the sum over those sources, then over its frames in order, so the bits depend on neither device nor
 * chunk. */
#ifndef FK_CUDA_FRAMES_CUH
#define FK_CUDA_FRAMES_CUH

#include "../points/pack.cuh"

enum { FK_FRAMES = 63, FK_PARTS = FK_FRAMES + 1 }; /* of sources; those outside all frames are a part, too */

/* A kernel at this distance, times the largest factor and value of tensor sums, is at most 2^-130. */
#define FK_FRAME_REACH 14.2

/* ---- points, frame by frame (frame_lists.cu) -------------------------------------------------- */

/* Two groups for each frame f: group 2 f has its own sources, group 2 f + 1 other points. A group fills whole
 * units of places with points in their order; its last point fills the places that are left. */
enum { FK_FRAME_GROUPS = 2 * FK_PARTS, FK_FRAME_RUN = 32 };

struct fk_frame_list {
  struct fk_cuda_buffer buffer, places;
  int64_t n;
  int runs;                 /* of FK_FRAME_RUN points */
  uint64_t *mask;           /* [point]: a bit for each frame that it is in */
  const unsigned char *own; /* [point]: the frame of the source; NULL: the points are not sources */
  int *before;              /* [group][run]: number of points of the group before the run */
  int count[FK_FRAME_GROUPS], first[FK_FRAME_GROUPS + 1];
  int *list;            /* [place]: the point, or ~point where the place is filled up */
  unsigned char *frame; /* [place / FK_TENSOR_UNIT] */
};
/* Three steps: allocates masks for n points; with the masks set, counts points (in host memory when the device is
 * done); with the counts known, makes the list. unit: of places, a multiple of FK_TENSOR_UNIT. */
enum fk_status fk_frame_list_begin(struct fk_cuda_context *context, int64_t n, struct fk_frame_list *list,
                                   struct fk_error *err);
enum fk_status fk_frame_list_count(struct fk_cuda_context *context, struct fk_frame_list *list, int *staged,
                                   struct fk_error *err);
enum fk_status fk_frame_list_make(struct fk_cuda_context *context, struct fk_frame_list *list, const int *staged,
                                  int unit, struct fk_error *err);
void fk_frame_list_free(struct fk_cuda_context *context, struct fk_frame_list *list);
/* Sets the part of each unit of rows; own: row i is source own + i, if rows are sources. */
enum fk_status fk_frame_parts(struct fk_cuda_context *context, const struct fk_frame_list *rows,
                              const struct fk_frame_list *sources, const unsigned char *part_of, int64_t own,
                              struct fk_tensor_part *parts, struct fk_error *err);
/* Adds sums of places to their rows, frame after frame. Sums of coordinates become relative to the common centre.
 */
struct fk_frame_join {
  const double *in;
  int64_t ld_in;
  const double *centre; /* [frame][d]; NULL: values are not coordinates */
  int d;
  double *out;
  int64_t ld_out;
  bool first; /* `out` is written, not added to */
};
cudaError_t fk_frames_join(const struct fk_frame_list *rows, const struct fk_frame_join *join, int widths,
                           cudaStream_t stream);

/* ---- frames ----------------------------------------------------------------------------------- */

struct fk_cuda_frames {
  int count;     /* of frames; 0: frames are of no use */
  double radius; /* largest radius of a frame */
  struct fk_cuda_buffer buffer;
  double *centre;            /* [frame][d], on the device */
  unsigned char *part_of;    /* of each source; `count` for sources outside all frames */
  double *reach2;            /* [frame], on the device: |y - centre|^2 of the furthest row */
  double radius2;            /* the largest |x - centre|^2 in a frame */
  struct fk_frame_list list; /* the sources, part by part */
};
/* Sources of a part. */
static inline int fk_frames_size(const struct fk_cuda_frames *frames, int part) {
  return frames->list.count[2 * part + 1];
}
static inline int fk_frames_rest(const struct fk_cuda_frames *frames) {
  return fk_frames_size(frames, frames->count);
}
/* Places of all frames; the sources outside all frames come behind them. */
static inline int fk_frames_places(const struct fk_cuda_frames *frames) {
  return frames->list.first[2 * frames->count];
}

/* Looks for frames of this radius. count stays 0 if they would leave out most sources. */
enum fk_status fk_cuda_frames_find(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                   struct fk_cuda_frames *frames, struct fk_error *err);
/* Finds the centres of frames and their number, on the device (frame_centres.cu). best: a 0 for each frame. */
enum fk_status fk_cuda_frame_centres(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                     double radius, double *centre, unsigned long long *best, int *count,
                                     struct fk_cuda_arena *arena, struct fk_error *err);
void fk_cuda_frames_free(struct fk_cuda_context *context, struct fk_cuda_frames *frames);
/* Unit of places by dimension: blocks of rows have 192 or 256 rows. */
static inline int fk_frame_unit(int d) { return (d > 32 ? 3 : 1) * FK_TENSOR_UNIT; }

/* ---- rows (frame_rows.cu) --------------------------------------------------------------------- */

struct fk_frame_rows {
  struct fk_cuda_buffer parts_buffer, rest_buffer;
  struct fk_frame_list list;
  struct fk_tensor_part *parts; /* [place / FK_TENSOR_UNIT] */
  int64_t *in_rest;             /* of each row: its source outside all frames, or -1 */
};
/* own: row i is source own + i; < 0: rows are not sources, or are not excluded from their own sums. */
enum fk_status fk_cuda_frame_rows(struct fk_cuda_context *context, const struct fk_cuda_frames *frames,
                                  const struct fk_cuda_points *rows, int64_t own, struct fk_frame_rows *found,
                                  struct fk_error *err);
void fk_cuda_frame_rows_free(struct fk_cuda_context *context, struct fk_frame_rows *rows);

/* out[w][i] = in[w][list[i]] - minus[w], for `widths` columns; 0 in the padding, from count to ld_out. minus may
 * be NULL. An entry ~p of the list stands for p. */
struct fk_gather {
  const double *in;
  int64_t ld_in;
  const int *list; /* NULL: the first `count` rows */
  int64_t count;
  const double *minus;
  const unsigned char *frame; /* [i / FK_TENSOR_UNIT]: minus is [frame][w]; NULL: the same for all */
  double *out;
  int64_t ld_out;
};
cudaError_t fk_frames_gather(const struct fk_gather *gather, int widths, cudaStream_t stream);
/* Adds sums to the rows that they belong to. */
struct fk_scatter {
  const double *in;
  int64_t ld_in;
  const int *list; /* NULL: the first `count` rows */
  int64_t count;
  double *out;
  int64_t ld_out;
};
cudaError_t fk_frames_scatter(const struct fk_scatter *scatter, int widths, cudaStream_t stream);

#endif
