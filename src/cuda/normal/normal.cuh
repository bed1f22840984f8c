/* Normal products K'(W (K v + w)) on devices. K's rows come in chunks. Each chunk meets all columns, computes W (K
 * v + w), which stays on the device, and adds its part of the product before the next chunk comes.
 * ||   normal.cu         choice of method and devices, and the sum of the shards
 *   chunks.cu         one device: its points, cached or sent again, and its chunks
 *   sweeps.cu         a chunk by two sweeps, on tensor cores or on CUDA cores in FP32
 *   tiles.cu          a chunk by kernel matrices
 *   normal_points.cu  points in the form that these methods read */
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

/* Shared by all devices. */
struct fk_normal_job {
  struct fk_operator *op;
  const struct fk_normal *normal;
  const struct fk_opts *opts;
  struct fk_kernel_form kernel;
  int64_t m, n, d, t; /* K's columns, its rows; dimensions; columns of v and w */
  uint64_t centre;    /* identifies the columns' centre, which the rows share */
  enum fk_normal_way way;
  bool wide_sweeps; /* sweeps of many dimensions are as fast as others */
  /* Rows in shards, which depend on the sizes of the job alone. Their parts of the product are added in order, so
   * that the bits are the same for any number of devices. */
  int64_t shard;
  double *parts;       /* on the host: [shard][t][m] */
  double *product;     /* sum of the parts */
  bool joined;         /* a device with all shards has added them */
  double rows_radius2; /* as known before, and as found now by each device */
  double seen_radius2[FK_MAX_DEVICES], row_limit[FK_MAX_DEVICES];
  bool wide[FK_MAX_DEVICES]; /* points are too wide for this method */
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
  union {                                                     /* the same buffers by name and as an array */
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
  double *sums; /* [t][ld], receives K v */
};

/* A kernel matrix: rows of K; all columns, padded to whole runs. The runs' parts of K v are computed in parallel;
 * otherwise few rows and few columns of v would leave most of a device idle. */
struct fk_normal_tile {
  int64_t rows, ld, run;
  int parts; /* of K v */
};
enum {
  FK_NORMAL_STRIPS = 32, /* blocks that share a tile's columns */
  FK_NORMAL_GRAM = 24    /* in more dimensions, FP64 tiles come from cuBLAS products */
};

static inline bool fk_normal_is_tiles(enum fk_normal_way way) { return way >= FK_NORMAL_TILES; }
/* Seconds of a pair, for K v and K' u, with t columns; wide: has wide_sweeps. */
double fk_normal_pair_seconds(enum fk_normal_way way, bool wide, double d, double t);
/* Rows of a shard; rows of a chunk, which are sent while the previous chunk is computed; and the size of a tile.
 */
int64_t fk_normal_shard(const struct fk_normal_job *job);
int64_t fk_normal_chunk(const struct fk_normal_job *job, int attempt);
struct fk_normal_tile fk_normal_tile(const struct fk_normal_job *job, int attempt);

/* Computes shards first .. first + count - 1; see fk_cuda_range_fn. data: the job. */
enum fk_status fk_normal_range(struct fk_cuda_context *context, int64_t first, int64_t count, void *data,
                               struct fk_cuda_progress *progress, double *seconds, struct fk_error *err);
/* Add the rows' part to the product. */
enum fk_status fk_normal_sweeps(struct fk_normal_device *device, const struct fk_normal_view *rows,
                                const struct fk_normal_numbers *numbers, struct fk_error *err);
enum fk_status fk_normal_tiles(struct fk_normal_device *device, const struct fk_normal_view *rows,
                               const struct fk_normal_numbers *numbers, struct fk_error *err);

#endif
