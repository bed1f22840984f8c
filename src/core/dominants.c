/* Points that have nearly all of the kernel sum at another; see loo.h. */
#include "loo.h"
#include "pool.h"
#include "threads.h"

struct dominants_search {
  const struct fk_dominants *of;
  int32_t *by;
};

/* Most sources are too far by their first coordinate. */
static int32_t dominant_of(const struct fk_dominants *of, int64_t target) {
  for (int64_t i = 0; i < of->n && of->log_v[i] > of->least[target]; i++) {
    double room = 2 * (of->log_v[i] - of->least[target]);
    for (int64_t k = 0; k < of->d && room > 0; k++) {
      double z = of->at[target + k * of->m] - of->x[i + k * of->n];
      room -= z * z;
    }
    if (room > 0) return (int32_t)(i + 1);
  }
  return 0;
}

static void fill(void *data, int64_t first, int64_t end, FK_UNUSED int slot) {
  const struct dominants_search *s = data;
  for (int64_t target = first; target < end; target++) s->by[target] = dominant_of(s->of, target);
}

enum fk_status fk_dominants(const struct fk_dominants *of, const struct fk_opts *opts, int32_t *by,
                            struct fk_error *err) {
  struct dominants_search search = {of, by};
  const struct fk_loop loop = fk_loop_of(opts->threads, of->m, 3.0 * (double)of->n);
  return fk_loop_run(&loop, &opts->poll, fill, &search, err);
}
