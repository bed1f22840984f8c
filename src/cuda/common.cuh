/* What all CUDA files share: checked calls and the contexts of the devices.
 *
 * The rules: every call is checked; nothing here throws, prints or jumps; a function that fails has filled
 * *err and leaves what it allocated to the context, which owns all device memory.
 */
#ifndef FK_CUDA_COMMON_CUH
#define FK_CUDA_COMMON_CUH

#include <cuda_runtime.h>

#include "../core/count.h"
#include "../fk.h"

/* Says which call failed on which device; running out of memory is FK_STATUS_ALLOC. */
enum fk_status fk_cuda_fail(struct fk_error *err, cudaError_t code, const char *call, int device);

/* In functions that have `err` and `context`. */
#define FK_CUDA_TRY(call)                                                                                         \
  do {                                                                                                            \
    cudaError_t code_ = (call);                                                                                   \
    if (code_ != cudaSuccess) return fk_cuda_fail(err, code_, #call, context->device);                            \
  } while (0)
#define FK_TRY(call)                                                                                              \
  do {                                                                                                            \
    enum fk_status status_ = (call);                                                                              \
    if (status_) return status_;                                                                                  \
  } while (0)

static inline unsigned fk_blocks(int64_t n, int64_t size) { return (unsigned)fk_pieces(n, size); }

/* ---- contexts --------------------------------------------------------------------------------- */

/* Workspace by purpose; each grows when a job needs more, and stays for the next. */
enum fk_cuda_slot {
  FK_SLOT_RAW_SOURCES,
  FK_SLOT_RAW_TARGETS,
  FK_SLOT_WHITENING,
  FK_SLOT_WHITE_SOURCES,
  FK_SLOT_WHITE_TARGETS,
  FK_SLOT_WEIGHTS,
  FK_SLOT_COLUMNS,
  FK_SLOT_PACKED_SOURCES,
  FK_SLOT_PACKED_TARGETS,
  FK_SLOT_PACKED_TENSOR,
  FK_SLOT_PACKED_VALUES,
  FK_SLOT_SELF,
  FK_SLOT_PARTIAL,
  FK_SLOT_RESULT,
  FK_SLOT_MASS,
  FK_SLOT_SHIFT,
  FK_SLOT_SCALE,
  FK_SLOT_FACTORS,
  FK_SLOT_GRID_SORT,
  FK_SLOT_GRID_TABLES,
  FK_SLOT_GRID_TOTAL,
  FK_SLOT_GRID_FILTER,
  FK_SLOT_GRID_OUT,
  FK_SLOT_COUNT
};

enum { FK_CACHE_ENTRIES = 8, FK_STAGING_BUFFERS = 2, FK_STAGING_BYTES = 16 << 20 };

/* Data that stay on the device between calls, known by their content. */
struct fk_cuda_cached {
  uint64_t key[2], last_used;
  size_t bytes;
  void *data;
};

/* Device memory for a purpose, and what fk_cuda_hold() has put there. */
struct fk_cuda_block {
  void *data;
  size_t bytes;
  uint64_t session; /* 0: nothing that is known */
  const double *from;
  int64_t first, count;
};

struct fk_cuda_context {
  int device, multiprocessors, capability; /* capability: 90 for 9.0 */
  char name[96];
  size_t memory_total;
  cudaStream_t stream;
  cudaEvent_t begin, end, launched[2], staged[FK_STAGING_BUFFERS];
  char *staging[FK_STAGING_BUFFERS]; /* pinned */
  struct fk_cuda_block workspace[FK_SLOT_COUNT];
  int copy_threads; /* of the host, for transfers; 0: all */
  struct fk_cuda_cached cache[FK_CACHE_ENTRIES];
  uint64_t clock;
  double pairs_per_second; /* of the last large job, 0: not known; splits work over devices */
};

/* The devices that the options ask for, started; at least one. */
enum fk_status fk_cuda_contexts(const struct fk_opts *opts, struct fk_cuda_context **contexts, int *count,
                                struct fk_error *err);
/* After a failure: a device that is lost is started anew by the next call. The context may be gone after this. */
void fk_cuda_recover(struct fk_cuda_context *context);

/* At least so many bytes for a purpose; what was there is lost. */
enum fk_status fk_cuda_workspace(struct fk_cuda_context *context, enum fk_cuda_slot slot, size_t bytes,
                                 void **data, struct fk_error *err);
template <typename T>
enum fk_status fk_cuda_array(struct fk_cuda_context *context, enum fk_cuda_slot slot, int64_t count, T **data,
                             struct fk_error *err) {
  return fk_cuda_workspace(context, slot, sizeof(T) * (size_t)count, (void **)data, err);
}
void fk_cuda_release_workspace(struct fk_cuda_context *context);
void fk_cuda_release_cache(struct fk_cuda_context *context);
double fk_cuda_memory_limit(void);
/* Bytes that a job may use, with the workspace that is there already. */
enum fk_status fk_cuda_budget(struct fk_cuda_context *context, double *bytes, struct fk_error *err);

/* ---- transfers -------------------------------------------------------------------------------- */

/* Rows first .. first + count - 1 of a column-major n x columns matrix of doubles, to `columns` columns of
 * device memory, `ld` apart. The host's memory may change as soon as they return. */
enum fk_status fk_cuda_upload(struct fk_cuda_context *context, const double *from, int64_t n, int64_t columns,
                              int64_t first, int64_t count, double *to, int64_t ld, struct fk_error *err);
enum fk_status fk_cuda_download(struct fk_cuda_context *context, const double *from, int64_t ld, int64_t columns,
                                int64_t first, int64_t count, double *to, int64_t n, struct fk_error *err);
/* Rows first .. first + count - 1 in the memory of a slot, columns `count` apart, until somebody else asks for
 * that slot: a session is a time in which the host's memory does not change. */
enum fk_status fk_cuda_hold(struct fk_cuda_context *context, enum fk_cuda_slot slot, uint64_t session,
                            const double *from, int64_t n, int64_t columns, int64_t first, int64_t count,
                            struct fk_error *err);
/* Where such rows are held already, *ld apart; NULL: not all of them are. */
const double *fk_cuda_held(const struct fk_cuda_context *context, enum fk_cuda_slot slot, uint64_t session,
                           const double *from, int64_t first, int64_t count, int64_t *ld);

/* An array that calls to come are likely to bring again: sent once, found by its content after that. Where it is
 * too large to keep, *data is NULL. */
enum fk_status fk_cuda_resident(struct fk_cuda_context *context, const double *from, int64_t count, int threads,
                                const double **data, struct fk_error *err);

#endif
