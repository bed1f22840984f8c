/* Normal products K'(W (K v + w)) on devices: K's rows in chunks, each of which meets all columns, gets its
 * numbers W (K v + w), which stay on the device, and adds its part of the product before the next comes.
 *
 *   normal.cu         which way, on which devices, and the sum of the shards
 *   chunks.cu         one device: its points, kept or coming by, and its chunks
 *   sweeps.cu         a chunk by two sweeps, of tensor cores or of CUDA cores in FP32
 *   tiles.cu          a chunk by matrices of kernels
 *   normal_points.cu  points as they read them
 */
#ifndef FK_CUDA_NORMAL_CUH
#define FK_CUDA_NORMAL_CUH

#include "../../core/costs.h"
#include "../exact/sources.cuh"
#include "../tensor/sums_mma.cuh"
#include "../tensor/sums_wgmma.cuh"
#include "../device/devices.cuh"

enum fk_status fk_cuda_normal(struct fk_operator *op, const struct fk_normal *normal, const struct fk_opts *opts,
                              double *product, struct fk_stats *stats, struct fk_error *err);
double fk_cuda_normal_seconds(const struct fk_work *work, const struct fk_opts *opts);

/* Of all devices. */
struct fk_normal_job {
  struct fk_operator *op;
  const struct fk_normal *normal;
  const struct fk_opts *opts;
  struct fk_kernel_form kernel;
  int64_t m, n, d, t; /* K's columns, its rows; dimensions; columns of v and w */
  uint64_t centre;    /* the columns', which rows have, too */
  enum fk_normal_way way;
  bool wide_sweeps; /* sweeps of many dimensions are as fast as others */
  /* Rows in shards, by the sizes of the job alone: their parts of the product are added in order, so that the bits
   * are the same for any number of devices. */
  int64_t shard;
  double *parts;       /* of the host: [shard][t][m] */
  double *product;     /* their sum; */
  bool joined;         /* a device that had them all has made it */
  double rows_radius2; /* as far as is known before, and of a device each that sees them now */
  double seen_radius2[FK_MAX_DEVICES], row_limit[FK_MAX_DEVICES];
  bool wide[FK_MAX_DEVICES]; /* points are too wide for this way */
};

/* On one device. */
struct fk_normal_device {
  struct fk_cuda_context *context;
  struct fk_normal_job *job;
  struct fk_cuda_progress *progress;
  const struct fk_normal_points *columns;
  double *v, *product; /* [t][ld_v] with 0 in the padding, [t][m] */
  int64_t ld_v;
  unsigned long long *radius2, *largest_v, *largest_residual; /* bits of doubles */
  union {                                                     /* one by one, and all */
    struct {
      struct fk_cuda_buffer numbers_buffer, residual_buffer, weight_buffer, sums_buffer, tile_buffer, high_buffer,
          low_buffer;
    };
    struct fk_cuda_buffer buffers[7];
  };
};
/* Numbers of a chunk's rows; NULL: none. */
struct fk_normal_numbers {
  const double *w, *weights; /* [t][ld]; */
  int64_t ld;
  double *sums; /* [t][ld], for K v */
};

/* A matrix of kernels: rows of K; all columns, padded to whole runs. The runs' parts of K v are computed side by
 * side, or else few rows and columns of v would leave most of a device idle. */
struct fk_normal_tile {
  int64_t rows, ld, run;
  int parts; /* of K v */
};
enum {
  FK_NORMAL_STRIPS = 32, /* blocks that share a tile's columns */
  FK_NORMAL_GRAM = 24    /* in more dimensions, tiles in double come from products by cuBLAS */
};

static inline bool fk_normal_is_tiles(enum fk_normal_way way) { return way >= FK_NORMAL_TILES; }
/* Seconds of a pair, forth and back, with t columns; wide: has wide_sweeps. */
double fk_normal_pair_seconds(enum fk_normal_way way, bool wide, double d, double t);
/* A shard's rows; rows of a chunk, that are on their way while those before are computed; and a tile. */
int64_t fk_normal_shard(const struct fk_normal_job *job);
int64_t fk_normal_chunk(const struct fk_normal_job *job, int attempt);
struct fk_normal_tile fk_normal_tile(const struct fk_normal_job *job, int attempt);

/* Shards first .. first + count - 1, as fk_cuda_range_fn; data: the job. */
enum fk_status fk_normal_range(struct fk_cuda_context *context, int64_t first, int64_t count, void *data,
                               struct fk_cuda_progress *progress, double *seconds, struct fk_error *err);
/* The rows' part, added to the product. */
enum fk_status fk_normal_sweeps(struct fk_normal_device *device, const struct fk_normal_view *rows,
                                const struct fk_normal_numbers *numbers, struct fk_error *err);
enum fk_status fk_normal_tiles(struct fk_normal_device *device, const struct fk_normal_view *rows,
                               const struct fk_normal_numbers *numbers, struct fk_error *err);

#endif
