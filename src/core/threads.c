/* How many threads. The package never calls omp_set_num_threads: that would change other packages. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime, getpid */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#ifndef _WIN32
#include <unistd.h>
#endif

#include "count.h"
#include "threads.h"

#ifdef _WIN32
void fk_threads_init(void) {}
static bool in_forked_child(void) { return false; }
#else
static pid_t loaded_in;
void fk_threads_init(void) { loaded_in = getpid(); }
/* OpenMP's thread pool does not survive fork(): libgomp hangs at the next parallel region. */
static bool in_forked_child(void) { return getpid() != loaded_in; }
#endif

bool fk_openmp(void) {
#ifdef _OPENMP
  return true;
#else
  return false;
#endif
}

static int positive(const char *name) {
  const char *value = getenv(name);
  int n = value ? atoi(value) : 0;
  return n > 0 ? n : 0;
}

static int at_most(int threads, int limit) { return limit > 0 && limit < threads ? limit : threads; }

int fk_threads(int requested) {
#ifdef _OPENMP
  int threads = requested > 0 ? requested : positive("FLASHKERNEL_THREADS"), processors = omp_get_num_procs();
  if (threads == 0) threads = at_most(processors, positive("OMP_NUM_THREADS"));
  threads = at_most(at_most(threads, processors), omp_get_thread_limit());
  /* CRAN's limit for checks. */
  const char *cran = getenv("_R_CHECK_LIMIT_CORES_");
  if (cran && *cran && (*cran == 't' || *cran == 'T' || *cran == 'w')) threads = at_most(threads, 2);
  return in_forked_child() ? 1 : threads;
#else
  (void)requested;
  (void)positive;
  (void)at_most;
  (void)in_forked_child;
  return 1;
#endif
}

/* A thread takes tens of microseconds to wake, and far longer where the cores are busy: 3e7 multiply-adds,
 * about a millisecond, is the least to share. */
int fk_threads_for_work(int requested, double work) {
  int threads = fk_threads(requested);
  return work < 3e7 * threads ? at_most(threads, 1 + (int)(work / 3e7)) : threads;
}

/* Work that is one pass through memory: more threads than fill its bus would only have to be woken, which takes as
 * long as a few megabytes, and the more of them the longer. */
int fk_threads_for_bytes(int requested, double bytes) {
  int threads = at_most(fk_threads(requested), bytes < 1e9 ? 8 : 16);
  return at_most(threads, 1 + (int)fmin(bytes / 8e6, 1000));
}

/* A clock that nobody sets. */
double fk_seconds(void) {
#ifdef _OPENMP
  return omp_get_wtime();
#else
  struct timespec now = {0, 0};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
#endif
}

void fk_copy_rows(const double *from, int64_t from_ld, double *to, int64_t to_ld, int64_t rows, int64_t columns,
                  int threads) {
  enum { PIECE = 1 << 15 }; /* numbers, 256 kB */
  int64_t pieces = fk_pieces(rows, PIECE), total = pieces * columns;
  /* one piece of many mostly: the threads are awake */
  threads = fk_threads_for_bytes(threads, 128.0 * (double)rows * (double)columns);
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
  for (int64_t i = 0; i < total; i++) {
    int64_t column = i / pieces, row = i % pieces * PIECE;
    memcpy(to + column * to_ld + row, from + column * from_ld + row,
           sizeof(double) * (size_t)fk_smaller(PIECE, rows - row));
  }
}

/* ---- chunks ----------------------------------------------------------------------------------- */

void fk_chunks_start(struct fk_chunks *c, const struct fk_poll *poll, int threads, double total,
                     double pairs_per_item) {
  *c = (struct fk_chunks){.poll = poll, .total = total};
  c->size = ((int64_t)(4e6 / (pairs_per_item + 1)) + 1) * threads;
  c->started = fk_seconds();
}

enum fk_status fk_chunks_done(struct fk_chunks *c, int64_t items, struct fk_error *err) {
  double now = fk_seconds(), seconds = now - c->started;
  /* Towards 50 ms a chunk: short enough to stop soon, long enough not to be felt. */
  double factor = seconds > 0 ? 0.05 / seconds : 4;
  double size = (double)items * (factor > 4 ? 4 : factor);
  c->size = size < 1 ? 1 : size > 1e9 ? 1000000000 : (int64_t)size;
  c->done += (double)items;
  c->started = now;
  if (c->poll->fn && c->poll->fn(c->poll->data, c->total > 0 ? c->done / c->total : 1))
    return fk_fail(err, FK_STATUS_INTERRUPTED, "interrupted");
  c->started = fk_seconds();
  return FK_STATUS_OK;
}
