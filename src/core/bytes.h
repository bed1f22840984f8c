/* Serialisation: numbers one after the other in memory, to be read by another process with the same build of the
 * package on a machine with the same number formats. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct fk_bytes {
  unsigned char *data; /* NULL: write nothing, only count bytes in `at` */
  size_t size, at;     /* bytes in all; bytes written or read so far */
};

/* Appends n bytes. The caller has made `data` large enough, by a first pass with data = NULL. */
static inline void fk_bytes_put(struct fk_bytes *to, const void *from, size_t n) {
  if (to->data && n) memcpy(to->data + to->at, from, n);
  to->at += n;
}

/* Copies the next n bytes to `to`. Returns false, and copies nothing, if fewer than n are left. */
static inline bool fk_bytes_get(struct fk_bytes *from, void *to, size_t n) {
  if (n > from->size - from->at) return false;
  if (n) memcpy(to, from->data + from->at, n);
  from->at += n;
  return true;
}

/* Passes over the next n bytes and returns their address, which may be unaligned; NULL if fewer than n are
 * left. */
static inline const unsigned char *fk_bytes_skip(struct fk_bytes *from, size_t n) {
  const unsigned char *here = from->data + from->at;
  if (n > from->size - from->at) return NULL;
  from->at += n;
  return here;
}
