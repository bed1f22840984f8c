/* Local frames: sources that reach too far for halves about one centre, cut into balls that do not.
 *
 * A frame is a ball of sources. They are packed about its centre, and so are the targets that it can matter to:
 * those within its radius and FK_FRAME_REACH. What other targets miss is less than 2^-30 of any sum that is not
 * lost (fk_lost_below) and done again in double anyway. All frames' points stand one frame after the other, and
 * one launch sums them (struct fk_tensor_part), so that small frames fill a device together. Sources that no ball
 * takes, far from all others, are the rest: they go by differences in double. A target's sum is that of the rest
 * and then of its frames in their order, so the bits depend on neither device nor chunk.
 */
#ifndef FK_CUDA_FRAMES_CUH
#define FK_CUDA_FRAMES_CUH

#include "../points/pack.cuh"

enum { FK_FRAMES = 63, FK_PARTS = FK_FRAMES + 1 }; /* of sources, the rest is a part, too */

/* A kernel at this distance, times the largest factor and value of tensor sums, is 2^-130 and less. */
#define FK_FRAME_REACH 14.2

/* ---- points, frame by frame (frame_lists.cu) -------------------------------------------------- */

/* Two groups for each frame, 2 f of its own sources and 2 f + 1 of other points. A group fills whole units of
 * places with points in their order, the last one standing for those that are missing. */
enum { FK_FRAME_GROUPS = 2 * FK_PARTS, FK_FRAME_RUN = 32 };

struct fk_frame_list {
  struct fk_cuda_buffer buffer, places;
  int64_t n;
  int runs;                 /* of FK_FRAME_RUN points */
  uint64_t *mask;           /* [point]: a bit for each frame that it is in */
  const unsigned char *own; /* [point]: the frame whose source it is; NULL: the points are no sources */
  int *before;              /* [group][run]: points of the group before the run */
  int count[FK_FRAME_GROUPS], first[FK_FRAME_GROUPS + 1];
  int *list;            /* [place]: the point, or ~point where it fills up */
  unsigned char *frame; /* [place / FK_TENSOR_UNIT] */
};
/* Room for masks of n points; then, masks being there, counts in the host's memory when the device is done; and
 * the list, when they are there. unit: of places, a multiple of FK_TENSOR_UNIT. */
enum fk_status fk_frame_list_begin(struct fk_cuda_context *context, int64_t n, struct fk_frame_list *list,
                                   struct fk_error *err);
enum fk_status fk_frame_list_count(struct fk_cuda_context *context, struct fk_frame_list *list, int *staged,
                                   struct fk_error *err);
enum fk_status fk_frame_list_make(struct fk_cuda_context *context, struct fk_frame_list *list, const int *staged,
                                  int unit, struct fk_error *err);
void fk_frame_list_free(struct fk_cuda_context *context, struct fk_frame_list *list);
/* The part of each unit of rows; own: source own + i is row i, where rows are sources. */
enum fk_status fk_frame_parts(struct fk_cuda_context *context, const struct fk_frame_list *rows,
                              const struct fk_frame_list *sources, const unsigned char *part_of, int64_t own,
                              struct fk_tensor_part *parts, struct fk_error *err);
/* Sums of places to their rows, frame after frame; those of coordinates become those about the common centre. */
struct fk_frame_join {
  const double *in;
  int64_t ld_in;
  const double *centre; /* [frame][d]; NULL: values are not coordinates */
  int d;
  double *out;
  int64_t ld_out;
  bool first; /* `out` holds nothing yet */
};
cudaError_t fk_frames_join(const struct fk_frame_list *rows, const struct fk_frame_join *join, int widths,
                           cudaStream_t stream);

/* ---- frames ----------------------------------------------------------------------------------- */

struct fk_cuda_frames {
  int count;     /* of frames; 0: of no use */
  double radius; /* at most, of each */
  struct fk_cuda_buffer buffer;
  double *centre;            /* [frame][d], on the device */
  unsigned char *part_of;    /* of each source; that of the rest is `count` */
  double *reach2;            /* [frame], on the device: of |y - centre|^2 of its rows */
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
/* Places of all frames, and the first of the rest. */
static inline int fk_frames_places(const struct fk_cuda_frames *frames) {
  return frames->list.first[2 * frames->count];
}

/* Looks for frames of their radius; count stays 0 where they would leave most sources to the rest. */
enum fk_status fk_cuda_frames_find(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                   struct fk_cuda_frames *frames, struct fk_error *err);
/* Their centres, and how many, on the device (frame_centres.cu). best: a 0 for each frame. */
enum fk_status fk_cuda_frame_centres(struct fk_cuda_context *context, const struct fk_cuda_points *points,
                                     double radius, double *centre, unsigned long long *best, int *count,
                                     struct fk_cuda_arena *arena, struct fk_error *err);
void fk_cuda_frames_free(struct fk_cuda_context *context, struct fk_cuda_frames *frames);
/* Of places, by the depth of halves: blocks of rows are 192 or 256. */
static inline int fk_frame_unit(int d) { return (d > 32 ? 3 : 1) * FK_TENSOR_UNIT; }

/* ---- rows (frame_rows.cu) --------------------------------------------------------------------- */

struct fk_frame_rows {
  struct fk_cuda_buffer parts_buffer, rest_buffer;
  struct fk_frame_list list;
  struct fk_tensor_part *parts; /* [place / FK_TENSOR_UNIT] */
  int64_t *in_rest;             /* of each row, which source of the rest it is, or -1 */
};
/* own: row i is source own + i; < 0: rows are not sources, or meet themselves like others. */
enum fk_status fk_cuda_frame_rows(struct fk_cuda_context *context, const struct fk_cuda_frames *frames,
                                  const struct fk_cuda_points *rows, int64_t own, struct fk_frame_rows *found,
                                  struct fk_error *err);
void fk_cuda_frame_rows_free(struct fk_cuda_context *context, struct fk_frame_rows *rows);

/* out[w][i] = in[w][list[i]] - minus[w], of `widths` columns; 0 in the padding, count to ld_out. minus: or NULL.
 * A point ~p in the list is p. */
struct fk_gather {
  const double *in;
  int64_t ld_in;
  const int *list; /* NULL: the first ones */
  int64_t count;
  const double *minus;
  const unsigned char *frame; /* [i / FK_TENSOR_UNIT]: minus is [frame][w]; NULL: one of all */
  double *out;
  int64_t ld_out;
};
cudaError_t fk_frames_gather(const struct fk_gather *gather, int widths, cudaStream_t stream);
/* And sums back, added to where their rows are. */
struct fk_scatter {
  const double *in;
  int64_t ld_in;
  const int *list; /* NULL: the first ones */
  int64_t count;
  double *out;
  int64_t ld_out;
};
cudaError_t fk_frames_scatter(const struct fk_scatter *scatter, int widths, cudaStream_t stream);

#endif
