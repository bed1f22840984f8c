/* What all CUDA files share: checked calls and the contexts of the devices.
 *
 * The rules: every call is checked; nothing here throws, prints or jumps; a function that fails has filled
 * *err, and what it allocated is in buffers of others, who free them.
 */
#ifndef FK_CUDA_COMMON_CUH
#define FK_CUDA_COMMON_CUH

#include <cuda_runtime.h>
#include <stdlib.h>

#include "../../core/count.h"
#include "../../fk.h"

/* Says which call failed on which device; running out of memory is FK_STATUS_ALLOC. */
enum fk_status fk_cuda_fail(struct fk_error *err, cudaError_t code, const char *call, int device);
static inline enum fk_status fk_cuda_status(struct fk_error *err, cudaError_t code, const char *call, int device) {
  return code == cudaSuccess ? FK_STATUS_OK : fk_cuda_fail(err, code, call, device);
}

/* In functions that have `err` and `context`. */
#define FK_CUDA_STATUS(...) fk_cuda_status(err, (__VA_ARGS__), #__VA_ARGS__, context->device)
#define FK_CUDA_TRY(...) FK_TRY(FK_CUDA_STATUS(__VA_ARGS__))
#define FK_TRY(call)                                                                                              \
  do {                                                                                                            \
    enum fk_status status_ = (call);                                                                              \
    if (status_) return status_;                                                                                  \
  } while (0)

/* f() with the number n, of FIRST .. LAST, as a constant: decltype(number)::value of its argument. */
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

static inline unsigned fk_blocks(int64_t n, int64_t size) { return (unsigned)fk_pieces(n, size); }

/* An array of the host, of zeros, that is freed at the end of its scope; `at` NULL: out of memory. */
template <typename T>
struct fk_host_array {
  T *at;
  explicit fk_host_array(int64_t count) : at((T *)calloc((size_t)fk_larger(count, 1), sizeof(T))) {}
  fk_host_array(const fk_host_array &) = delete;
  ~fk_host_array() { free(at); }
};

/* ---- contexts --------------------------------------------------------------------------------- */

/* Memory of a device that grows when it must; what was there is lost then. Whoever has one frees it. */
struct fk_cuda_buffer {
  void *data;
  size_t bytes;
};

enum { FK_STAGING_BUFFERS = 2, FK_STAGING_NUMBERS = 1 << 21, FK_STAGING_BYTES = 8 * FK_STAGING_NUMBERS };
enum { FK_ANSWERS = 1024, FK_ANSWER_LOST = FK_ANSWERS /* after them: do points that move lack terms? */ };
enum { FK_CUDA_SPARES = 64, FK_CUDA_SPARE_MOST = 1 << 26 /* bytes */ };

/* Rows of a matrix of the host, on the device. */
struct fk_cuda_held {
  struct fk_cuda_buffer buffer;
  uint64_t session; /* a time in which the host's memory does not change; 0: nothing that is known */
  const void *from;
  int64_t first, count;
};

/* What a grid's sums have on a device: the matrices that they read, and the memory that their steps work in. An
 * operator has one of its own, which stays for its next sums. */
enum fk_grid_held { FK_GRID_HELD_SOURCES, FK_GRID_HELD_TARGETS, FK_GRID_HELD_B, FK_GRID_HELD };
struct fk_grid_memory {
  struct fk_cuda_held held[FK_GRID_HELD];
  union { /* one by one, and all */
    struct {
      struct fk_cuda_buffer survey, result;                      /* of a step over points */
      struct fk_cuda_buffer sort, tables, totals, filter, nodes; /* of the grid */
    };
    struct fk_cuda_buffer buffers[7];
  };
};

struct fk_cuda_context;
struct fk_cuda_libraries;

/* What stays on a device from call to call, and gives way there where memory is short. */
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
  cudaMemPool_t pool; /* NULL: the device has none */
  double used, peak;  /* bytes of all buffers; the most that they ever were */
  double limit;       /* of `used`, as the last call said; 0: none */
  double available;   /* what they could be in all, as far as is known; 0: it is not */
  cudaStream_t stream;
  cudaEvent_t begin, end, launched[2], staged[FK_STAGING_BUFFERS];
  char *staging[FK_STAGING_BUFFERS]; /* pinned */
  /* What is sent from them: numbers since the buffer was last empty, by which stream; and the buffer in use. */
  int64_t sending[FK_STAGING_BUFFERS];
  cudaStream_t sending_by[FK_STAGING_BUFFERS];
  int sending_turn;
  double *answers; /* pinned, 1 + FK_ANSWERS numbers that kernels write for the host while more is sent */
  struct fk_grid_memory own,
      *grid; /* own: of sums of no operator; grid: of the one under way, NULL: there is none */
  struct fk_cuda_buffer spare[FK_CUDA_SPARES]; /* that nobody has, for the next who asks for as much */
  int spare_turn;                              /* which of them goes first where all are taken */
  int copy_threads;                            /* of the host, for transfers; 0: all */
  struct fk_cuda_tenant *kept;                 /* by operators, as they were made */
  /* Copies beside calculations: their stream; what was told the other one when it was last a source, and before
   * the last turn, and the copies by then; devices that read buffers here. All made at the first copy. */
  cudaStream_t copies;
  cudaEvent_t told, turned, copied;
  unsigned readers;
  struct fk_cuda_libraries *libraries; /* handles of cuBLAS and cuSOLVER; NULL: not used yet */
  uint64_t id, clock;                  /* id: of no other context, before or after */
  double pairs_per_second;             /* of the last large job, 0: not known; splits work over devices */
};

/* The devices that the options ask for, started; at least one. */
enum fk_status fk_cuda_contexts(const struct fk_opts *opts, struct fk_cuda_context **contexts, int *count,
                                struct fk_error *err);
/* That of a device that is in use; NULL: there is none, or this process cannot use it. */
struct fk_cuda_context *fk_cuda_context_in_use(int device);
enum fk_status fk_cuda_check_forked(struct fk_error *err);
/* After a failure: a device that is lost is started anew by the next call. The context may be gone after this. On
 * the thread that has waited for all devices. */
void fk_cuda_recover(struct fk_cuda_context *context);
/* To try the methods of older cards: FLASHKERNEL_CUDA_METHOD is "mma" or "difference". */
bool fk_cuda_is_lowered_to(const char *method);
void fk_cuda_libraries_free(struct fk_cuda_context *context); /* libraries.cuh */

/* ---- memory (memory.cu) ----------------------------------------------------------------------- */

enum fk_status fk_cuda_make_pool(struct fk_cuda_context *context, struct fk_error *err);
/* At least so many bytes; what was there is lost. Where memory is short, what operators keep and nobody uses gives
 * way, that used longest ago first. */
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
/* Buffers that are given back together, at the end of their scope at the latest. */
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
/* What was kept longest without use goes; false: there is nothing. */
bool fk_cuda_give_way(struct fk_cuda_context *context);
/* Memory that no buffer has goes back to the system. */
void fk_cuda_trim(struct fk_cuda_context *context);
/* Bytes that a job may use, `own` among them, which it has already. needed: what it would take, roughly. */
enum fk_status fk_cuda_budget(struct fk_cuda_context *context, double needed, double own, double *bytes,
                              struct fk_error *err);
/* Bytes of what is kept for operators. */
double fk_cuda_kept_bytes(const struct fk_cuda_context *context);
/* How many of them may stay there: what the options say, or half of the device. */
double fk_cuda_memory_to_keep(const struct fk_cuda_context *context, const struct fk_opts *opts);
/* All that is kept on a device goes, and matrices that are nowhere else come to the host. */
void fk_cuda_release_kept(struct fk_cuda_context *context);

void fk_grid_memory_empty(struct fk_cuda_context *context, struct fk_grid_memory *memory);
double fk_grid_memory_bytes(const struct fk_grid_memory *memory);

/* ---- transfers -------------------------------------------------------------------------------- */

/* Rows first .. first + count - 1 of a column-major n x columns matrix of the host. */
struct fk_cuda_rows {
  int64_t n, columns, first, count;
};
static inline struct fk_cuda_rows fk_rows(int64_t n, int64_t columns, int64_t first, int64_t count) {
  return {n, columns, first, count};
}
static inline struct fk_cuda_rows fk_all_rows(int64_t n, int64_t columns) { return {n, columns, 0, n}; }

/* To columns of device memory, `ld` apart, as doubles, and back. The host's memory may change as soon as they
 * return. On another stream than the context's (NULL), beside what that does: before a download, and before memory
 * is given back, the context's has to wait for it, as both go through the same pinned buffers. */
enum fk_status fk_cuda_upload(struct fk_cuda_context *context, struct fk_matrix from, double *to, int64_t ld,
                              struct fk_error *err, cudaStream_t stream = NULL);
/* A matrix to a buffer, or to one of an arena, that gets room for it. */
enum fk_status fk_cuda_send(struct fk_cuda_context *context, struct fk_cuda_buffer *buffer, struct fk_matrix from,
                            double **to, struct fk_error *err);
enum fk_status fk_cuda_send_to(struct fk_cuda_context *context, struct fk_cuda_arena *arena, struct fk_matrix from,
                               double **to, struct fk_error *err);
enum fk_status fk_cuda_download(struct fk_cuda_context *context, const double *from, int64_t ld,
                                struct fk_cuda_rows rows, double *to, struct fk_error *err);

#endif
