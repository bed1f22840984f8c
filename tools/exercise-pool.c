/* Exercises the thread pool for tools/check-memory (gcc -fsanitize=thread): more threads than processors, loops of
 * several callers at once, nested loops, threads that take turns (fk_turn_wait()), a forked child, and a pool that is
 * restarted. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../src/core/pool.h"
#include "../src/core/threads.h"

enum { ITEMS = 1000, THREADS = 8, CALLERS = 4, ROUNDS = 300 };

static void fail(const char *what) {
  printf("exercise-pool: %s\n", what);
  exit(1);
}

struct job {
  double *out;
  atomic_uint busy[THREADS]; /* a slot is one thread's at a time */
  bool nested;
};

static void square(void *data, int64_t first, int64_t end, int slot) {
  struct job *job = data;
  if (atomic_fetch_add(&job->busy[slot], 1)) fail("two threads in one slot");
  for (int64_t i = first; i < end; i++) job->out[i] += (double)i * (double)i;
  if (job->nested && first % 100 == 0) {
    double inner[ITEMS] = {0};
    struct job within = {.out = inner};
    fk_parallel_for(3, ITEMS / 10, 7, square, &within);
    if (inner[99] != 99.0 * 99.0) fail("a wrong result in a loop within a loop");
  }
  atomic_fetch_sub(&job->busy[slot], 1);
}

static void check_loops(int threads, int rounds, bool nested) {
  double out[ITEMS] = {0};
  for (int r = 1; r <= rounds; r++) {
    struct job job = {.out = out, .nested = nested};
    int64_t n = ITEMS - r % 3;
    fk_parallel_for(threads, n, 1 + r % 50, square, &job);
  }
  for (int64_t i = 0; i < ITEMS - 2; i++)
    if (out[i] != rounds * ((double)i * (double)i)) fail("a wrong result");
}

static void *call(void *unused) {
  check_loops(THREADS, ROUNDS, false);
  return unused;
}

/* Numbers that join a sum in their order. */
struct ordered {
  atomic_uint now;
  double sum;
};

static void join(void *data, int64_t i, int64_t end, int slot) {
  struct ordered *o = data;
  (void)end, (void)slot;
  fk_turn_wait(&o->now, (unsigned)i);
  o->sum = 0.9 * o->sum + (double)i;
  fk_turn_end(&o->now, (unsigned)i);
}

static double ordered_sum(int threads) {
  struct ordered o = {0, 0};
  fk_parallel_for(threads, ITEMS, 1, join, &o);
  return o.sum;
}

int main(void) {
  pthread_t callers[CALLERS];
  int status = 1;
  fk_threads_init();
  for (int threads = 1; threads <= THREADS; threads++) check_loops(threads, ROUNDS, false);
  check_loops(4, 30, true);
  for (int i = 0; i < CALLERS; i++)
    if (pthread_create(&callers[i], NULL, call, NULL)) fail("no threads");
  for (int i = 0; i < CALLERS; i++) pthread_join(callers[i], NULL);
  for (int threads = 2; threads <= THREADS; threads++)
    if (ordered_sum(threads) != ordered_sum(1)) fail("a sum in another order");
  pid_t child = fork();
  if (child == 0) {
    if (fk_threads(4) != 1) _exit(2);
    check_loops(4, ROUNDS, false);
    fk_pool_stop();
    _exit(0);
  }
  if (waitpid(child, &status, 0) != child || status != 0) fail("a forked child failed");
  check_loops(4, ROUNDS, false);
  fk_pool_stop();
  check_loops(4, ROUNDS, false);
  fk_pool_stop();
  puts("exercise-pool: done");
  return 0;
}
