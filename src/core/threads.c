/* How many threads, and the chunks between which callers are asked. */
#ifdef __linux__
#define _GNU_SOURCE /* sched_getaffinity */
#include <sched.h>
#endif
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _WIN32
#include <pthread.h> /* winpthreads; not windows.h, which makes macros of near, far and small */
#else
#include <unistd.h>
#endif

#include "costs.h"
#include "count.h"
#include "pool.h"
#include "threads.h"

#ifdef _WIN32
void fk_threads_init(void) {}
bool fk_forked(void) { return false; }
#else
static pid_t loaded_in;
void fk_threads_init(void) { loaded_in = getpid(); }
/* A child has its parent's memory, but not the threads of its pool. */
bool fk_forked(void) { return getpid() != loaded_in; }
#endif

static int positive(const char *name) {
  const char *value = getenv(name);
  int n = value ? atoi(value) : 0;
  return n > 0 ? n : 0;
}

static int at_most(int threads, int limit) { return limit > 0 && limit < threads ? limit : threads; }

/* That this process may use. Tests set FLASHKERNEL_PROCESSORS to have more threads than there are processors. */
static int processors(void) {
  int set_by_test = positive("FLASHKERNEL_PROCESSORS");
  if (set_by_test) return set_by_test;
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
#ifdef _WIN32
  return pthread_num_processors_np();
#else
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (int)online : 1;
#endif
}

int fk_threads(int requested) {
  int threads = requested > 0 ? requested : positive("FLASHKERNEL_THREADS"), most = processors();
  if (threads == 0) threads = at_most(most, positive("OMP_NUM_THREADS"));
  threads = at_most(at_most(threads, most), positive("OMP_THREAD_LIMIT"));
  /* CRAN's limit for checks. */
  const char *cran = getenv("_R_CHECK_LIMIT_CORES_");
  if (cran && *cran && (*cran == 't' || *cran == 'T' || *cran == 'w')) threads = at_most(threads, 2);
  return fk_forked() ? 1 : threads;
}

/* A thread takes tens of microseconds to wake, and far longer where the cores are busy. To ask the system for the
 * number of processors takes as long as a small matrix. */
int fk_threads_for_work(int requested, double work) {
  const double *of = fk_costs.threads.work;
  if (work < of[1]) return 1;
  const int threads = fk_threads(requested);
  const double least = of[threads >= fk_costs.threads.many];
  if (work < least) return 1;
  return work < least * threads ? at_most(threads, 1 + (int)(work / least)) : threads;
}

/* Work that is one pass through memory: more threads than fill its bus would only have to be woken, which takes as
 * long as a few megabytes, and the more of them the longer. */
int fk_threads_for_bytes(int requested, double bytes) {
  const struct fk_thread_costs *c = &fk_costs.threads;
  if (bytes < c->bytes) return 1;
  int threads = at_most(fk_threads(requested), bytes < c->beyond ? c->most : c->most_beyond);
  return at_most(threads, 1 + (int)fmin(bytes / c->bytes, 1000));
}

int fk_threads_of_pass(int requested, double bytes, int *woken) {
  const struct fk_thread_costs *c = &fk_costs.threads;
  *woken = 1;
  if (bytes < c->bytes_awake) return 1;
  int threads = at_most(fk_threads(requested), bytes < c->beyond ? c->most : c->most_beyond);
  *woken = at_most(threads, 1 + (int)fmin(bytes / c->bytes, 1000));
  return at_most(threads, 1 + (int)fmin(bytes / c->bytes_awake, 1000));
}

/* A clock that nobody sets. */
double fk_seconds(void) {
  struct timespec now = {0, 0};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int fk_threads_to_copy(int requested, int64_t numbers) {
  return fk_threads_for_bytes(requested, 64.0 * (double)numbers);
}

/* ---- steps ------------------------------------------------------------------------------------- */

static int poll_step(void *data, double fraction) {
  const struct fk_step *step = data;
  return step->whole->fn(step->whole->data, step->from + (step->to - step->from) * fmin(fraction, 1));
}

struct fk_poll fk_poll_of_step(struct fk_step *step) {
  return (struct fk_poll){step->whole->fn ? poll_step : NULL, step};
}

enum fk_status fk_look_up(const struct fk_poll *poll, double fraction, struct fk_error *err) {
  bool stops = poll->fn && poll->fn(poll->data, fraction);
  return stops ? fk_fail(err, FK_STATUS_INTERRUPTED, "interrupted") : FK_STATUS_OK;
}

/* ---- chunks ----------------------------------------------------------------------------------- */

void fk_chunks_start(struct fk_chunks *c, const struct fk_poll *poll, int threads, double total,
                     double pairs_per_item) {
  *c = (struct fk_chunks){.poll = poll, .total = total};
  c->size = ((int64_t)(fk_costs.threads.chunk_pairs / (pairs_per_item + 1)) + 1) * threads;
  c->started = fk_seconds();
}

enum fk_status fk_chunks_done(struct fk_chunks *c, int64_t items, struct fk_error *err) {
  double now = fk_seconds(), seconds = now - c->started;
  double factor = seconds > 0 ? fk_costs.threads.chunk_seconds / seconds : 4;
  double size = (double)items * (factor > 4 ? 4 : factor);
  c->size = size < 1 ? 1 : size > 1e9 ? 1000000000 : (int64_t)size;
  c->done += (double)items;
  c->started = now;
  enum fk_status status = fk_look_up(c->poll, c->total > 0 ? c->done / c->total : 1, err);
  c->started = fk_seconds();
  return status;
}

struct part_of_loop {
  fk_body body;
  void *data;
  int64_t from;
};

static void do_part(void *data, int64_t first, int64_t end, int slot) {
  const struct part_of_loop *part = data;
  part->body(part->data, part->from + first, part->from + end, slot);
}

enum fk_status fk_chunks_run(struct fk_chunks *c, int threads, int64_t n, int64_t step, fk_body body, void *data,
                             struct fk_error *err) {
  enum fk_status status = FK_STATUS_OK;
  struct part_of_loop part = {body, data, 0};
  for (int64_t to; part.from < n && !status; part.from = to) {
    to = fk_smaller(n, part.from + fk_larger(c->size, threads * step)); /* each thread has some */
    fk_parallel_for(threads, to - part.from, step, do_part, &part);
    status = fk_chunks_done(c, to - part.from, err);
  }
  return status;
}

/* A kernel takes about 10 multiply-adds. */
struct fk_loop fk_loop_of(int requested, int64_t n, double work) {
  return (struct fk_loop){fk_threads_for_work(requested, work * (double)n), n, fk_step_for_work(work), work / 10};
}

enum fk_status fk_loop_run(const struct fk_loop *loop, const struct fk_poll *poll, fk_body body, void *data,
                           struct fk_error *err) {
  struct fk_chunks progress;
  fk_chunks_start(&progress, poll, loop->threads, (double)loop->n, loop->pairs);
  return fk_chunks_run(&progress, loop->threads, loop->n, loop->step, body, data, err);
}
