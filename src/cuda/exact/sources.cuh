/* Sources on a device, a chunk of them or all: sent, whitened, and packed for a method and a pass. Those of an
 * operator stay there for its next sums, until memory is short.
 */
#ifndef FK_CUDA_SOURCES_CUH
#define FK_CUDA_SOURCES_CUH

#include "../fma/task.cuh"
#include "../near/frames.cuh"
#include "../points/normal_points.cuh"
#include "../tensor/sums_dmma.cuh"
#include "kept.cuh"
#include "../near/order.cuh"

/* How a set of sources is summed. */
enum fk_cuda_method { FK_METHOD_DOUBLE, FK_METHOD_SINGLE, FK_METHOD_MMA, FK_METHOD_WGMMA, FK_METHOD_DMMA };

/* What sources are packed for; compared as bytes. */
struct fk_cuda_packing {
  enum fk_cuda_method method; /* as the points allow it, before a card's own */
  enum fk_values values;
  int first_value, single, coarse, factor, self;
  int own;    /* coordinates as they are packed are the values */
  int matrix; /* they are in a matrix of their own */
  int doubled, relative;
  struct fk_kernel_form form;
  double weight_scale;
  uint64_t weights, columns; /* which were sent; 0: none */
};

/* What a launch takes, of its method: the packed sources, and then targets. */
struct fk_cuda_packed {
  enum fk_cuda_method method;   /* a card's own */
  int first_value, values_here; /* tensor cores sum so many columns at a time */
  struct fk_tensor_task tensor;
  struct fk_fma_task<float> f32;
  struct fk_fma_task<double> f64;
  struct fk_dmma_task dmma;
  double *undo; /* of the targets, what their sums are multiplied with; NULL: nothing */
};

struct fk_cuda_sources : fk_cuda_tenant {
  struct fk_cuda_context *context;
  uint64_t context_id; /* as an address may come again */
  int device;
  union { /* one by one, and all */
    struct {
      struct fk_cuda_buffer whitening_buffer, raw_buffer, weight_buffer, column_buffer, white_buffer, low_buffer,
          packed_buffer, value_buffer, tensor_buffer, scale_buffer;
    };
    struct fk_cuda_buffer buffers[10];
  };
  struct fk_cuda_whitening whitening;

  int64_t first;     /* of the chunk; -1: none is there */
  const double *raw; /* NULL: no longer there */
  int64_t ld_raw;
  const double *weights, *columns, *column_scale;
  bool weights_own;                  /* the operator's */
  uint64_t weights_job, columns_job; /* whose they are, else */
  uint64_t weights_sent, columns_sent;
  struct fk_cuda_points points;
  bool whitened;
  double radius2; /* < 0: not known */
  bool asked;     /* the device is finding it */
  bool order_sought, frames_sought;
  double kept_guess; /* where radius2 is known and there may be an order */
  struct fk_cuda_order order;
  struct fk_cuda_frames frames;
  /* All in order, with frames of their own, where that is of use; those of the frames, and those of none. NULL:
   * not gathered yet, or none. */
  struct fk_cuda_sources *in_order, *framed, *rest;
  bool in_double; /* those that no frame has, far from most rows */
  /* of frames: */
  double rows2;    /* |y|^2 of their rows; 0: not of frames */
  const int *list; /* below 0: a place that is none's; NULL: none is */

  bool is_packed;
  struct fk_cuda_packing packed_as;
  struct fk_cuda_packed packed;
  void *wgmma_columns;

  /* of an operator */
  struct fk_grid_memory grid;     /* what its sums by a grid have there */
  struct fk_normal_points normal; /* what its normal products have there */
};

void fk_cuda_sources_init(struct fk_cuda_sources *s, struct fk_cuda_context *context);
/* Gives the memory back; it can be filled again. */
void fk_cuda_sources_empty(struct fk_cuda_sources *s);
/* Frames and order, and what was gathered by them. */
void fk_cuda_frames_drop(struct fk_cuda_sources *s);
void fk_cuda_order_drop(struct fk_cuda_sources *s);
double fk_cuda_sources_bytes(const struct fk_cuda_sources *s);

/* Columns of a run that one block sums, on tensor cores (mma) or not: enough blocks to fill a large card several
 * times over, none too short to be worth starting. */
int64_t fk_cols_per_slot(int64_t n_cols, int64_t n_rows, bool tensor);

#endif
