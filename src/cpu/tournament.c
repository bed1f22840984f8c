/* The rounds of a tournament, by the circle method; see tournament.h. */
#include "tournament.h"

#include <stdlib.h>

#include "../core/count.h"
#include "../core/pool.h"
#include "../core/threads.h"

/* Pair p of round r among `blocks` blocks (one more, who sits out, where their number is odd). Round 0 is
 * each block with itself. */
static void pairing(int64_t blocks, int64_t round, int64_t p, int64_t *a, int64_t *b) {
  if (round == 0) {
    *a = *b = p;
    return;
  }
  int64_t players = blocks + blocks % 2, ring = players - 1, r = round - 1;
  *a = p == 0 ? players - 1 : (r + p) % ring;
  *b = p == 0 ? r : (r - p + ring) % ring;
  if (*a > *b) {
    int64_t swap = *a;
    *a = *b;
    *b = swap;
  }
}

/* Pairs from .. to - 1 of the rounds from `first` on. */
struct rounds {
  const struct fk_tournament *tournament;
  atomic_uint *next; /* of each block, the round that it is to play */
  int64_t blocks, first, from, to;
  atomic_bool failed;
};

static void play(void *data, int64_t i, FK_UNUSED int64_t end, int slot) {
  struct rounds *rounds = data;
  const struct fk_tournament *t = rounds->tournament;
  int64_t pairs = rounds->to - rounds->from, round = rounds->first + i / pairs, a, b;
  pairing(rounds->blocks, round, rounds->from + i % pairs, &a, &b);
  bool two = b != a && b < rounds->blocks;
  fk_turn_wait(&rounds->next[a], (unsigned)round);
  if (two) fk_turn_wait(&rounds->next[b], (unsigned)round);
  if (b < rounds->blocks && !rounds->failed && !t->play(t->data, a, b, slot)) rounds->failed = true;
  fk_turn_end(&rounds->next[a], (unsigned)round);
  if (two) fk_turn_end(&rounds->next[b], (unsigned)round);
}

/* Rounds first .. last - 1, pairs from .. to - 1 of each. */
static bool run_rounds(const struct fk_tournament *t, atomic_uint *next, int64_t first, int64_t last, int64_t from,
                       int64_t to) {
  struct rounds rounds = {t, next, fk_pieces(t->n, t->size), first, from, to, false};
  fk_parallel_for(t->threads, (last - first) * (to - from), 1, play, &rounds);
  return !rounds.failed;
}

enum fk_status fk_tournament_run(const struct fk_tournament *t, const struct fk_poll *poll, struct fk_error *err) {
  int64_t size = t->size, blocks = fk_pieces(t->n, size), players = blocks + blocks % 2;
  int64_t rounds = blocks == 1 ? 1 : players;
  atomic_uint *next = calloc((size_t)blocks, sizeof *next);
  enum fk_status status = FK_STATUS_OK;
  struct fk_chunks progress;
  if (!next) return fk_no_memory(err, 0, "blocks of points");
  for (int64_t i = 0; i < blocks; i++) atomic_init(&next[i], 0);
  fk_chunks_start(&progress, poll, t->threads, (double)blocks + (double)(rounds - 1) * (double)(players / 2),
                  (double)size * (double)size);
  for (int64_t round = 0; round < rounds && !status;) {
    /* Whole rounds where they are short, pieces of a round where they are long. */
    int64_t pairs = round == 0 ? blocks : players / 2, last = round + 1;
    if (round > 0) last = fk_smaller(rounds, round + (progress.size > pairs ? progress.size / pairs : 1));
    for (int64_t from = 0, to; from < pairs && !status; from = to) {
      to = fk_smaller(pairs, from + (progress.size > pairs ? pairs : progress.size));
      if (!run_rounds(t, next, round, last, from, to))
        status = fk_no_memory(err, 0, "a tile of kernel values");
      else
        status = fk_chunks_done(&progress, (to - from) * (last - round), err);
      if (last > round + 1) break; /* every pair of these rounds is done */
    }
    round = last;
  }
  free(next);
  return status;
}
