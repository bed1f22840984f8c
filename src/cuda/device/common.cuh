/* What all CUDA files share: checked calls and device contexts.
 * Every CUDA call is checked. No function here throws, prints or jumps. A function that fails has filled *err; its
 * allocations belong to buffers that the caller frees. */
#ifndef FK_CUDA_COMMON_CUH
#define FK_CUDA_COMMON_CUH

#include <cuda_runtime.h>
#include <stdlib.h>

#include "../../core/count.h"
#include "../../fk.h"

/* Fills *err with the failed call and the device; returns FK_STATUS_ALLOC if memory ran out. */
enum fk_status fk_cuda_fail(struct fk_error *err, cudaError_t code, const char *call, int device);
static inline enum fk_status fk_cuda_status(struct fk_error *err, cudaError_t code, const char *call, int device) {
  return code == cudaSuccess ? FK_STATUS_OK : fk_cuda_fail(err, code, call, device);
}

/* For functions that have variables `err` and `context`. */
#define FK_CUDA_STATUS(...) fk_cuda_status(err, (__VA_ARGS__), #__VA_ARGS__, context->device)
#define FK_CUDA_TRY(...) FK_TRY(FK_CUDA_STATUS(__VA_ARGS__))
#define FK_TRY(call)                                                                                              \
  do {                                                                                                            \
    enum fk_status status_ = (call);                                                                              \
    if (status_) return status_;                                                                                  \
  } while (0)

/* Calls f() with the constant n, FIRST <= n <= LAST: decltype(argument)::value is n. */
template <int N>
struct fk_constant {
  static const int value = N;
};
template <int FIRST, int LAST, typename F>
static inline auto fk_with_constant(int n, F f) {
  if constexpr (FIRST < LAST) {
    if (n != FIRST) return fk_with_constant<FIRST + 1, LAST>(n, f);
  }
  return f(fk_constant<FIRST>());
}

/* The threads of a block, where nothing else decides on their number. */
enum { FK_THREADS = 256 };

static inline unsigned fk_blocks(int64_t n, int64_t size) { return (unsigned)fk_pieces(n, size); }

/* A host array, initialized to zeros and freed at the end of its scope. `at` is NULL if out of memory. */
template <typename T>
struct fk_host_array {
  T *at;
  explicit fk_host_array(int64_t count) : at((T *)calloc((size_t)fk_larger(count, 1), sizeof(T))) {}
  fk_host_array(const fk_host_array &) = delete;
  ~fk_host_array() { free(at); }
};

/* ---- contexts --------------------------------------------------------------------------------- */

/* Device memory that grows on demand; growing discards its content. The owner of the buffer frees it. */
struct fk_cuda_buffer {
  void *data;
  size_t bytes;
};

enum { FK_STAGING_BUFFERS = 2, FK_STAGING_NUMBERS = 1 << 21, FK_STAGING_BYTES = 8 * FK_STAGING_NUMBERS };
enum { FK_ANSWERS = 1024, FK_ANSWER_LOST = FK_ANSWERS /* behind them: nonzero if moved points lack terms */ };
enum { FK_CUDA_SPARES = 64, FK_CUDA_SPARE_MOST = 1 << 26 /* bytes */ };

/* Rows of a host matrix on the device. */
struct fk_cuda_held {
  struct fk_cuda_buffer buffer;
  uint64_t session; /* a period during which the host's memory does not change; 0: unknown */
  const void *from;
  int64_t first, count;
};

/* Device memory of sums on a grid: the matrices that they read, and the workspace of their steps. Each operator
 * has its own, cached for its next sums. */
enum fk_grid_held { FK_GRID_HELD_SOURCES, FK_GRID_HELD_TARGETS, FK_GRID_HELD_B, FK_GRID_HELD };
struct fk_grid_memory {
  struct fk_cuda_held held[FK_GRID_HELD];
  union { /* the same seven buffers by name and as an array */
    struct {
      struct fk_cuda_buffer survey, result;                      /* of a step over points */
      struct fk_cuda_buffer sort, tables, totals, filter, nodes; /* of the grid */
    };
    struct fk_cuda_buffer buffers[7];
  };
};

struct fk_cuda_context;
struct fk_cuda_libraries;

/* Data cached on a device between calls, evicted when memory is short. */
struct fk_cuda_tenant {
  struct fk_cuda_tenant *next;
  uint64_t used_at;
  bool busy; /* a call is using it */
  double (*bytes)(const struct fk_cuda_tenant *tenant);
  void (*empty)(struct fk_cuda_context *context, struct fk_cuda_tenant *tenant);
};

struct fk_cuda_context {
  int device, multiprocessors, capability; /* capability: 90 for 9.0 */
  char name[96];
  size_t memory_total;
  cudaMemPool_t pool; /* NULL: the device has no memory pool */
  double used, peak;  /* bytes of all buffers now, and their maximum so far */
  double limit;       /* upper limit of `used` from the last call; 0: none */
  double available;   /* the most that `used` could reach; 0: unknown */
  cudaStream_t stream;
  cudaEvent_t begin, end, launched[2], staged[FK_STAGING_BUFFERS];
  char *staging[FK_STAGING_BUFFERS]; /* pinned */
  /* Per pinned buffer: numbers sent since it was last empty, and the stream that sends them. Then the buffer in
   * use. */
  int64_t sending[FK_STAGING_BUFFERS];
  cudaStream_t sending_by[FK_STAGING_BUFFERS];
  int sending_turn;
  double *answers; /* pinned: 1 + FK_ANSWERS numbers that kernels write and the host reads, without a copy */
  struct fk_grid_memory own, *grid; /* own: for sums without an operator; grid: of the sum under way, or NULL */
  struct fk_cuda_buffer spare[FK_CUDA_SPARES]; /* freed blocks, for the next request of the same size */
  int spare_turn;                              /* the next one to replace if all are taken */
  int copy_threads;                            /* host threads for transfers; 0: all */
  struct fk_cuda_tenant *kept;                 /* list of what operators cached, in order of creation */
  /* For copies concurrent with computations, all made at the first copy: their stream; the events that order the
   * two streams (last use as a source, and before the last turn) and the copies counted by then; devices that can
   * read buffers here. */
  cudaStream_t copies;
  cudaEvent_t told, turned, copied;
  unsigned readers;
  struct fk_cuda_libraries *libraries; /* handles of cuBLAS and cuSOLVER; NULL: not used yet */
  uint64_t id, clock;                  /* id: unique among all contexts of the process */
  double pairs_per_second;             /* measured by the last large job, 0: unknown; divides work among devices */
};

/* The devices that the options name, started. Returns at least one. */
enum fk_status fk_cuda_contexts(const struct fk_opts *opts, struct fk_cuda_context **contexts, int *count,
                                struct fk_error *err);
/* The context of a device in use; NULL if there is none, or if this process cannot use it. */
struct fk_cuda_context *fk_cuda_context_in_use(int device);
enum fk_status fk_cuda_check_forked(struct fk_error *err);
/* To be called after a failure: resets a lost device, which the next call starts again. The context may be gone
 * afterwards. Call it on the thread that has waited for all devices. */
void fk_cuda_recover(struct fk_cuda_context *context);
/* True if FLASHKERNEL_CUDA_METHOD names this method of older GPUs ("mma" or "difference"). */
bool fk_cuda_is_lowered_to(const char *method);
void fk_cuda_libraries_free(struct fk_cuda_context *context); /* libraries.cuh */

/* ---- memory (memory.cu) ----------------------------------------------------------------------- */

enum fk_status fk_cuda_make_pool(struct fk_cuda_context *context, struct fk_error *err);
/* Makes the buffer at least `bytes` large; its content is lost. If memory is short, what operators cached and no
 * call uses is evicted, least recently used first. */
enum fk_status fk_cuda_reserve(struct fk_cuda_context *context, struct fk_cuda_buffer *buffer, size_t bytes,
                               struct fk_error *err);
template <typename T>
enum fk_status fk_cuda_room(struct fk_cuda_context *context, struct fk_cuda_buffer *buffer, int64_t count,
                            T **data, struct fk_error *err) {
  FK_TRY(fk_cuda_reserve(context, buffer, sizeof(T) * (size_t)count, err));
  *data = (T *)buffer->data;
  return FK_STATUS_OK;
}
void fk_cuda_drop(struct fk_cuda_context *context, struct fk_cuda_buffer *buffer);
template <int N>
static void fk_cuda_drop_all(struct fk_cuda_context *context, struct fk_cuda_buffer (&buffers)[N]) {
  for (struct fk_cuda_buffer &buffer : buffers) fk_cuda_drop(context, &buffer);
}
template <int N>
static double fk_cuda_bytes_of(const struct fk_cuda_buffer (&buffers)[N]) {
  double bytes = 0;
  for (const struct fk_cuda_buffer &buffer : buffers) bytes += (double)buffer.bytes;
  return bytes;
}
/* Consecutive arrays in one block of workspace. */
struct carver {
  char *at;
};
template <typename T>
static T *carve(struct carver *c, int64_t count) {
  T *here = (T *)c->at;
  c->at += fk_padded((int64_t)sizeof(T) * count, 256);
  return here;
}
/* Buffers that are freed together, at the latest at the end of their scope. */
enum { FK_ARENA_BUFFERS = 16 };
struct fk_cuda_arena {
  struct fk_cuda_buffer buffers[FK_ARENA_BUFFERS];
  int count;
  struct fk_cuda_context *context; /* of the first buffer */
  fk_cuda_arena(const fk_cuda_arena &) = delete;
  ~fk_cuda_arena();
};
enum fk_status fk_cuda_arena_buffer(struct fk_cuda_context *context, struct fk_cuda_arena *arena,
                                    struct fk_cuda_buffer **buffer, struct fk_error *err);
template <typename T>
enum fk_status fk_cuda_take(struct fk_cuda_context *context, struct fk_cuda_arena *arena, int64_t count, T **data,
                            struct fk_error *err) {
  struct fk_cuda_buffer *buffer;
  FK_TRY(fk_cuda_arena_buffer(context, arena, &buffer, err));
  return fk_cuda_room(context, buffer, count, data, err);
}
void fk_cuda_arena_free(struct fk_cuda_context *context, struct fk_cuda_arena *arena);
/* Evicts the least recently used entry of the cache; false: nothing to evict. */
bool fk_cuda_give_way(struct fk_cuda_context *context);
/* Returns unused memory of the pool to the system. */
void fk_cuda_trim(struct fk_cuda_context *context);
/* Bytes that a job may use, including `own`, which it has already. needed: about as much as it would take. */
enum fk_status fk_cuda_budget(struct fk_cuda_context *context, double needed, double own, double *bytes,
                              struct fk_error *err);
/* Bytes cached for operators. */
double fk_cuda_kept_bytes(const struct fk_cuda_context *context);
/* Limit of the bytes cached for operators: as the options say, or half of the device. */
double fk_cuda_memory_to_keep(const struct fk_cuda_context *context, const struct fk_opts *opts);
/* Empties the cache of a device. Matrices that exist only there are copied to the host. */
void fk_cuda_release_kept(struct fk_cuda_context *context);

void fk_grid_memory_empty(struct fk_cuda_context *context, struct fk_grid_memory *memory);
double fk_grid_memory_bytes(const struct fk_grid_memory *memory);

/* ---- transfers -------------------------------------------------------------------------------- */

/* Rows first .. first + count - 1 of a column-major n x columns host matrix. */
struct fk_cuda_rows {
  int64_t n, columns, first, count;
};
static inline struct fk_cuda_rows fk_rows(int64_t n, int64_t columns, int64_t first, int64_t count) {
  return {n, columns, first, count};
}
static inline struct fk_cuda_rows fk_all_rows(int64_t n, int64_t columns) { return {n, columns, 0, n}; }

/* Copies rows to columns of device memory, `ld` apart, as doubles; and back. The host's memory may change as soon
 * as the call returns. stream NULL: the context's. On another stream, concurrent with the context's: the context's
 * must wait for it before a download and before memory is freed, because both use the same pinned buffers. */
enum fk_status fk_cuda_upload(struct fk_cuda_context *context, struct fk_matrix from, double *to, int64_t ld,
                              struct fk_error *err, cudaStream_t stream = NULL);
/* Copies the matrix to columns without gaps, and finds whether all its numbers are finite. */
enum fk_status fk_cuda_upload_finite(struct fk_cuda_context *context, struct fk_matrix from, double *to,
                                     bool *finite, struct fk_error *err);
/* Copies a matrix to a buffer, or to a new buffer of an arena. */
enum fk_status fk_cuda_send(struct fk_cuda_context *context, struct fk_cuda_buffer *buffer, struct fk_matrix from,
                            double **to, struct fk_error *err);
enum fk_status fk_cuda_send_to(struct fk_cuda_context *context, struct fk_cuda_arena *arena, struct fk_matrix from,
                               double **to, struct fk_error *err);
enum fk_status fk_cuda_download(struct fk_cuda_context *context, const double *from, int64_t ld,
                                struct fk_cuda_rows rows, double *to, struct fk_error *err);

#endif
