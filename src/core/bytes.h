/* Numbers one after the other in memory, for another process of the same package on such a machine. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct fk_bytes {
  unsigned char *data; /* NULL: nothing is written, `at` counts */
  size_t size, at;
};

static inline void fk_bytes_put(struct fk_bytes *to, const void *from, size_t n) {
  if (to->data && n) memcpy(to->data + to->at, from, n);
  to->at += n;
}

/* false where there are no more. */
static inline bool fk_bytes_get(struct fk_bytes *from, void *to, size_t n) {
  if (n > from->size - from->at) return false;
  if (n) memcpy(to, from->data + from->at, n);
  from->at += n;
  return true;
}

/* n numbers where they are, NULL where there are fewer: at no particular alignment. */
static inline const unsigned char *fk_bytes_skip(struct fk_bytes *from, size_t n) {
  const unsigned char *here = from->data + from->at;
  if (n > from->size - from->at) return NULL;
  from->at += n;
  return here;
}
