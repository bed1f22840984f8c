/* The call tree of tools/profile-calls: counts and times the calls that gcc's -finstrument-functions reports at the
 * start and end of each function, on the thread that called profile_begin(), until profile_write(). Preloaded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

enum { NODES = 1 << 16, DEPTH = 1000 };
struct node {
  void *function;
  int parent, child, next; /* numbers of nodes, 0: none */
  long calls;
  double microseconds;
};
static struct node nodes[NODES];
static double began[DEPTH];
static int n_nodes, at, depth;
static bool on;
static pthread_t owner;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static bool counts(void) { return on && pthread_equal(owner, pthread_self()); }

void __cyg_profile_func_enter(void *function, void *site) {
  (void)site;
  if (!counts()) return;
  int child = nodes[at].child;
  while (child && nodes[child].function != function) child = nodes[child].next;
  if (!child) {
    if (n_nodes == NODES) {
      on = false;
      return;
    }
    child = n_nodes++;
    nodes[child] = (struct node){.function = function, .parent = at, .next = nodes[at].child};
    nodes[at].child = child;
  }
  at = child;
  began[depth++ % DEPTH] = now();
}

void __cyg_profile_func_exit(void *function, void *site) {
  (void)site;
  if (!counts() || nodes[at].function != function) return;
  nodes[at].microseconds += now() - began[--depth % DEPTH];
  nodes[at].calls++;
  at = nodes[at].parent;
}

void profile_begin(void) {
  owner = pthread_self();
  nodes[0] = (struct node){.function = NULL};
  n_nodes = 1;
  at = depth = 0;
  on = true;
}

static void write_below(FILE *to, int node, int level, double least) {
  for (int child = nodes[node].child; child; child = nodes[child].next) {
    Dl_info info;
    if (nodes[child].microseconds < least || !dladdr(nodes[child].function, &info)) continue;
    fprintf(to, "%d %ld %.1f %lx\n", level, nodes[child].calls, nodes[child].microseconds,
            (unsigned long)((char *)nodes[child].function - (char *)info.dli_fbase));
    write_below(to, child, level + 1, least);
  }
}

/* Lines of depth, calls, microseconds and place in the library, of calls of at least so many microseconds. */
void profile_write(char **path, double *least) {
  on = false;
  FILE *to = fopen(*path, "w");
  if (!to) return;
  write_below(to, 0, 0, *least);
  fclose(to);
}
