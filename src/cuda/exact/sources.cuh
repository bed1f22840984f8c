/* Sources on a device, all or a chunk: sent, whitened, and packed for a method and a pass. An operator's sources
 * are cached for its next sums, until memory is short. */
#ifndef FK_CUDA_SOURCES_CUH
#define FK_CUDA_SOURCES_CUH

#include "../fma/task.cuh"
#include "../near/frames.cuh"
#include "../points/normal_points.cuh"
#include "../tensor/sums_dmma.cuh"
#include "kept.cuh"
#include "../near/order.cuh"

/* The method that sums a set of sources. */
enum fk_cuda_method { FK_METHOD_DOUBLE, FK_METHOD_SINGLE, FK_METHOD_MMA, FK_METHOD_WGMMA, FK_METHOD_DMMA };

/* What sources are packed for; compared as bytes. */
struct fk_cuda_packing {
  enum fk_cuda_method method; /* as the points allow, before what this GPU supports */
  enum fk_values values;
  int first_value, single, coarse, factor, self;
  int own;    /* the values are the coordinates as packed */
  int matrix; /* values are in a matrix of their own */
  int doubled, relative;
  struct fk_kernel_form form;
  double weight_scale;
  uint64_t weights, columns; /* identifies the weights and columns that were sent; 0: none */
};

/* What a launch of its method takes: the packed sources, and later the targets. */
struct fk_cuda_packed {
  enum fk_cuda_method method;   /* a card's own */
  int first_value, values_here; /* tensor cores sum so many columns at a time */
  struct fk_tensor_task tensor;
  struct fk_fma_task<float> f32;
  struct fk_fma_task<double> f64;
  struct fk_dmma_task dmma;
  double *undo; /* of the targets: factors of their sums; NULL: none */
};

struct fk_cuda_sources : fk_cuda_tenant {
  struct fk_cuda_context *context;
  uint64_t context_id; /* identifies the context, whose address may be reused */
  int device;
  union { /* the same buffers by name and as an array */
    struct {
      struct fk_cuda_buffer whitening_buffer, raw_buffer, weight_buffer, column_buffer, white_buffer, low_buffer,
          packed_buffer, value_buffer, tensor_buffer, scale_buffer;
    };
    struct fk_cuda_buffer buffers[10];
  };
  struct fk_cuda_whitening whitening;

  int64_t first;     /* of the chunk; -1: no chunk is there */
  const double *raw; /* NULL: no longer on the device */
  int64_t ld_raw;
  const double *weights, *columns, *column_scale;
  bool weights_own;                  /* weights belong to the operator */
  uint64_t weights_job, columns_job; /* otherwise the jobs that weights and columns belong to */
  uint64_t weights_sent, columns_sent;
  struct fk_cuda_points points;
  bool whitened;
  double radius2; /* < 0: unknown */
  bool asked;     /* the device is computing it */
  bool order_sought, frames_sought;
  double kept_guess; /* valid if radius2 is known and sources may be ordered */
  struct fk_cuda_order order;
  struct fk_cuda_frames frames;
  /* All sources in order, with frames of their own, if that pays; the sources of frames; the sources outside all
   * frames. NULL: not gathered yet, or none. */
  struct fk_cuda_sources *in_order, *framed, *rest;
  bool in_double; /* the sources outside all frames, far from most rows */
  /* for the sources of frames: */
  double rows2;    /* |y|^2 of their rows; 0: these are not sources of frames */
  const int *list; /* below 0: a place that fills up its group; NULL: there is none */

  bool is_packed;
  struct fk_cuda_packing packed_as;
  struct fk_cuda_packed packed;
  void *wgmma_columns;

  /* of an operator */
  struct fk_grid_memory grid;     /* what its sums on a grid have on the device */
  struct fk_normal_points normal; /* what its normal products have on the device */
};

void fk_cuda_sources_init(struct fk_cuda_sources *s, struct fk_cuda_context *context);
/* Frees the memory; the sources can be filled again. */
void fk_cuda_sources_empty(struct fk_cuda_sources *s);
/* Frees frames, order and what was gathered for them. */
void fk_cuda_frames_drop(struct fk_cuda_sources *s);
void fk_cuda_order_drop(struct fk_cuda_sources *s);
double fk_cuda_sources_bytes(const struct fk_cuda_sources *s);

/* Columns in a slot, which one block sums, on tensor cores (mma) or not: enough blocks to fill a large GPU several
 * times over, each long enough to be worth starting. */
int64_t fk_cols_per_slot(int64_t n_cols, int64_t n_rows, bool tensor);

#endif
