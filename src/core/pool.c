/* The threads, and the loops that they take pieces of.
 *
 * A loop is on the list while its caller works on it. A thread that wakes up takes a piece of a loop on the list
 * and is counted in, both under the lock. The caller works until no piece is left, and then waits for the threads
 * that were counted in, each of which has at most one piece to end: for none that was not awake in time. The loop
 * is on the caller's stack, and nobody touches it who is not counted in. */
#ifdef __linux__
#define _GNU_SOURCE /* sched_getcpu, sched_setaffinity */
#include <unistd.h>
#endif
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "aligned.h"
#include "costs.h"
#include "count.h"
#include "threads.h"

struct pool_loop {
  fk_body body;
  void *data;
  int64_t n, step, pieces;
  _Atomic int64_t next; /* piece that nobody has taken */
  int slots, taken;     /* the caller has the first */
  int wanted;           /* threads to be awake for it, beside the caller */
  int processor;        /* the caller's, -1: not known */
  atomic_int inside;    /* threads counted in; changed under the lock */
  pthread_cond_t left;  /* inside is 0 */
  struct pool_loop *after;
};

static struct {
  pthread_mutex_t lock;
  pthread_cond_t posted;
  atomic_uint posts; /* loops so far; changed under the lock */
  struct pool_loop *loops;
  pthread_t *threads;
  int started, capacity, asleep;
  double patience; /* seconds for which a thread looks for the next loop before it sleeps, 0: not known */
  bool stop;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .posted = PTHREAD_COND_INITIALIZER};

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

/* Threads come for a loop all at once, and the lock is held for far less than the system takes to put one of them
 * to sleep and wake it. */
static void lock_pool(void) {
  for (int spins = 0; spins < 1000; spins++) {
    if (pthread_mutex_trylock(&pool.lock) == 0) return;
    relax();
  }
  pthread_mutex_lock(&pool.lock);
}

/* ---- a loop ----------------------------------------------------------------------------------- */

static void run_piece(const struct pool_loop *loop, int64_t piece, int slot) {
  int64_t first = piece * loop->step;
  loop->body(loop->data, first, fk_smaller(first + loop->step, loop->n), slot);
}

static int64_t take(struct pool_loop *loop) {
  return atomic_fetch_add_explicit(&loop->next, 1, memory_order_relaxed);
}

static void run_pieces(struct pool_loop *loop, int64_t piece, int slot) {
  for (; piece < loop->pieces; piece = take(loop)) run_piece(loop, piece, slot);
}

/* ---- the threads ------------------------------------------------------------------------------ */

/* A loop with a piece for one more thread, which is counted in; NULL: there is none. Under the lock. */
static struct pool_loop *enter(int64_t *piece, int *slot) {
  for (struct pool_loop *loop = pool.loops; loop; loop = loop->after) {
    if (loop->taken == loop->slots || atomic_load_explicit(&loop->next, memory_order_relaxed) >= loop->pieces)
      continue;
    *piece = take(loop);
    if (*piece >= loop->pieces) continue;
    *slot = loop->taken++;
    atomic_fetch_add_explicit(&loop->inside, 1, memory_order_relaxed);
    return loop;
  }
  return NULL;
}

static void leave(struct pool_loop *loop) {
  if (atomic_fetch_sub_explicit(&loop->inside, 1, memory_order_release) == 1) pthread_cond_signal(&loop->left);
}

/* The system often wakes a thread on the processor of the caller, and leaves both there for longer than a loop
 * takes: then it may run on all of the process's processors but that one. */
#ifdef __linux__
static int this_processor(void) { return sched_getcpu(); }
static void move_away(int from) {
  cpu_set_t all;
  if (from < 0 || sched_getcpu() != from || sched_getaffinity(getpid(), sizeof all, &all) != 0) return;
  CPU_CLR(from, &all);
  if (CPU_COUNT(&all) > 0) (void)sched_setaffinity(0, sizeof all, &all);
}
#else
static int this_processor(void) { return -1; }
static void move_away(int from) { (void)from; }
#endif

static void look_for_post(unsigned seen) {
  enum { PAUSES = 16 }; /* in which the thread beside this one on its core has all of that, for less than 1 us */
  double end = fk_seconds() + pool.patience;
  while (atomic_load_explicit(&pool.posts, memory_order_relaxed) == seen && fk_seconds() < end)
    for (int i = 0; i < PAUSES; i++) relax();
}

static void *work(FK_UNUSED void *unused) {
  struct pool_loop *loop;
  int64_t piece;
  int slot;
  lock_pool();
  while (!pool.stop) {
    unsigned seen = atomic_load(&pool.posts);
    while ((loop = enter(&piece, &slot))) {
      pthread_mutex_unlock(&pool.lock);
      move_away(loop->processor);
      run_pieces(loop, piece, slot);
      lock_pool();
      leave(loop);
    }
    pthread_mutex_unlock(&pool.lock);
    look_for_post(seen);
    lock_pool();
    pool.asleep++;
    while (atomic_load(&pool.posts) == seen && !pool.stop) pthread_cond_wait(&pool.posted, &pool.lock);
    pool.asleep--;
  }
  pthread_mutex_unlock(&pool.lock);
  return unused;
}

/* R's signals are for R's thread: a handler that jumps must not run on another. */
static bool start_one(void) {
  enum { STACK = 1 << 22 }; /* some systems give a new thread half a megabyte */
  pthread_attr_t attributes;
  if (pool.started == pool.capacity) {
    int capacity = pool.capacity ? 2 * pool.capacity : 16;
    pthread_t *threads = realloc(pool.threads, (size_t)capacity * sizeof *threads);
    if (!threads) return false;
    pool.threads = threads;
    pool.capacity = capacity;
  }
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setstacksize(&attributes, STACK);
#ifndef _WIN32
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
#endif
  bool fine = pthread_create(&pool.threads[pool.started], &attributes, work, NULL) == 0;
#ifndef _WIN32
  pthread_sigmask(SIG_SETMASK, &before, NULL);
#endif
  pthread_attr_destroy(&attributes);
  pool.started += fine;
  return fine;
}

void fk_pool_stop(void) {
  if (fk_forked()) return; /* a child has none of its parent's threads */
  lock_pool();
  pool.stop = true;
  pthread_cond_broadcast(&pool.posted);
  pthread_mutex_unlock(&pool.lock);
  for (int i = 0; i < pool.started; i++) pthread_join(pool.threads[i], NULL);
  free(pool.threads);
  pool.threads = NULL;
  pool.started = pool.capacity = 0;
  pool.stop = false;
}

/* ---- the caller ------------------------------------------------------------------------------- */

static void open_loop(struct pool_loop *loop) {
  int wanted = loop->wanted;
  lock_pool();
  if (pool.patience == 0) pool.patience = fk_costs.threads.patience[fk_threads(0) >= fk_costs.threads.many];
  for (const struct pool_loop *l = pool.loops; l; l = l->after) wanted += l->wanted; /* of other callers */
  while (pool.started < wanted && start_one()) continue;
  loop->after = pool.loops;
  pool.loops = loop;
  atomic_fetch_add(&pool.posts, 1);
  int asleep = pool.asleep, woken = wanted - (pool.started - asleep); /* the others look for loops */
  pthread_mutex_unlock(&pool.lock);
  if (woken >= asleep && asleep > 1)
    pthread_cond_broadcast(&pool.posted);
  else
    for (int i = 0; i < woken && i < asleep; i++) pthread_cond_signal(&pool.posted);
}

static void close_loop(struct pool_loop *loop) {
  double end = 0;
  while (atomic_load_explicit(&loop->inside, memory_order_relaxed) > 0) {
    if (end == 0) end = fk_seconds() + pool.patience;
    if (fk_seconds() > end) break;
    relax();
  }
  lock_pool();
  struct pool_loop **at = &pool.loops;
  while (*at != loop) at = &(*at)->after;
  *at = loop->after;
  while (atomic_load_explicit(&loop->inside, memory_order_acquire) > 0) pthread_cond_wait(&loop->left, &pool.lock);
  pthread_mutex_unlock(&pool.lock);
}

/* On up to `threads` threads, of which `woken` are made to be awake. */
static void run_loop(int threads, int woken, int64_t n, int64_t step, fk_body body, void *data) {
  struct pool_loop loop = {.body = body, .data = data, .n = n, .step = step, .pieces = fk_pieces(n, step)};
  loop.slots = (int)fk_smaller(threads, loop.pieces);
  loop.wanted = (int)fk_smaller(woken, loop.slots) - 1;
  if (loop.slots <= 1 || fk_forked()) {
    for (int64_t piece = 0; piece < loop.pieces; piece++) run_piece(&loop, piece, 0);
    return;
  }
  loop.taken = 1;
  loop.processor = this_processor();
  pthread_cond_init(&loop.left, NULL);
  open_loop(&loop);
  run_pieces(&loop, take(&loop), 0);
  close_loop(&loop);
  pthread_cond_destroy(&loop.left);
}

void fk_parallel_for(int threads, int64_t n, int64_t step, fk_body body, void *data) {
  run_loop(threads, threads, n, step, body, data);
}

void fk_parallel_pass(int threads, double bytes, int64_t n, int64_t step, fk_body body, void *data) {
  int woken, most = fk_threads_of_pass(threads, bytes, &woken);
  run_loop(most, woken, n, step, body, data);
}

int64_t fk_step_for_work(double work) { return 1 + (int64_t)(fk_costs.threads.step / (work + 1)); }
int64_t fk_step_for_bytes(double bytes) { return 1 + (int64_t)(fk_costs.threads.step_bytes / (bytes + 1)); }

/* ---- turns ------------------------------------------------------------------------------------ */

/* The thread that is waited for may itself wait for a processor, and ours might be it. */
static void nap(void) {
#ifdef _WIN32
  sched_yield();
#else
  nanosleep(&(struct timespec){0, 30000}, NULL);
#endif
}

void fk_turn_wait(atomic_uint *now, unsigned turn) {
  for (int spins = 0; atomic_load_explicit(now, memory_order_acquire) != turn; spins++)
    if (spins < 1000)
      relax();
    else
      nap();
}

/* ---- scratch ---------------------------------------------------------------------------------- */

bool fk_scratch_init(struct fk_scratch *scratch, int threads, size_t bytes) {
  enum { LINES = 128 }; /* processors fetch lines in pairs */
  scratch->stride = (bytes + LINES - 1) / LINES * LINES;
  scratch->memory = fk_aligned_alloc((size_t)threads * scratch->stride);
  return scratch->memory != NULL;
}

void fk_scratch_free(struct fk_scratch *scratch) {
  fk_aligned_free(scratch->memory);
  scratch->memory = NULL;
}
