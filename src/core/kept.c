#include "kept.h"
#include "costs.h"

/* A ring of items, from the most recently to the least recently used. */
static struct fk_kept ring = {.older = &ring, .newer = &ring};
static double bytes_in_all;

double fk_kept_limit(const struct fk_opts *opts) {
  return opts->host_memory >= 0 ? opts->host_memory : fk_costs.kept_bytes;
}

double fk_kept_bytes(void) { return bytes_in_all; }

/* Removes an item from the ring, if it is there: small items are not. */
static void take_out(struct fk_kept *kept) {
  if (!kept->older) return;
  kept->older->newer = kept->newer;
  kept->newer->older = kept->older;
  kept->older = kept->newer = NULL;
  bytes_in_all -= kept->bytes;
}

static void put_in_front(struct fk_kept *kept) {
  kept->newer = &ring;
  kept->older = ring.older;
  ring.older->newer = kept;
  ring.older = kept;
  bytes_in_all += kept->bytes;
}

static void drop(struct fk_kept *kept) {
  take_out(kept);
  if (kept->state) kept->free(kept->state);
  *kept = (struct fk_kept){.state = NULL};
}

void fk_kept_drop(struct fk_operator *op, enum fk_keeper keeper) { drop(&op->kept[keeper]); }

void *fk_kept_use(struct fk_operator *op, enum fk_keeper keeper) {
  struct fk_kept *kept = &op->kept[keeper];
  if (kept->older) {
    take_out(kept);
    put_in_front(kept);
  }
  return kept->state;
}

void *fk_kept_take(struct fk_operator *op, enum fk_keeper keeper) {
  struct fk_kept *kept = &op->kept[keeper];
  void *state = kept->state;
  take_out(kept);
  *kept = (struct fk_kept){.state = NULL};
  return state;
}

bool fk_keep(struct fk_operator *op, enum fk_keeper keeper, struct fk_kept what, const struct fk_opts *opts) {
  struct fk_kept *kept = &op->kept[keeper];
  double limit = fk_kept_limit(opts);
  if (kept->state != what.state) drop(kept);
  take_out(kept);
  *kept = (struct fk_kept){.state = what.state, .free = what.free, .bytes = what.bytes};
  if (what.bytes > limit) {
    drop(kept);
    return false;
  }
  while (bytes_in_all + what.bytes > limit && ring.newer != &ring) drop(ring.newer);
  put_in_front(kept);
  return true;
}
