/* Points against themselves, every pair once: they are cut into blocks, and the pairs of blocks are played like a
 * tournament. In each round every block is in one pair at most, so that the pairs of a round may run at the same
 * time and a block receives its contributions in the order of the rounds, whatever the number of threads. A pair
 * waits for its two blocks alone, which were in pairs next to its own a round ago: no thread waits for a round to
 * end. */
#pragma once

#include "../fk.h"

struct fk_tournament {
  int64_t n, size; /* number of points, and of points in a block */
  int threads;
  /* Blocks a <= b, first each with itself. False: there is no memory, which is all that can fail. */
  bool (*play)(void *data, int64_t a, int64_t b, int slot);
  void *data;
};
enum fk_status fk_tournament_run(const struct fk_tournament *t, const struct fk_poll *poll, struct fk_error *err);
