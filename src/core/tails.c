/* Which rows a tail pass has to do again. */
#include <math.h>
#include <stdlib.h>

#include "../fk.h"

/* In single precision terms are under 2^-125, and 2^27 of them are needed to matter. */
double fk_lost_below(bool single, int64_t n, double weight_scale) {
  double lost = single ? 0x1p-125 * 0x1p27 : FK_LOST;
  return (double)n * fmax(lost * weight_scale, FK_LOST);
}

enum fk_status fk_rows_below(const double *mass, int64_t m, double threshold, int64_t **rows, int64_t *found,
                             struct fk_error *err) {
  int64_t count = 0, at = 0;
  *rows = NULL;
  *found = 0;
  for (int64_t j = 0; j < m; j++) count += !(fabs(mass[j]) >= threshold);
  if (count == 0) return FK_STATUS_OK;
  *rows = malloc(sizeof(int64_t) * (size_t)count);
  if (!*rows)
    return fk_fail(err, FK_STATUS_ALLOC, "out of memory: %.1f MB for the rows in the tails", 8e-6 * (double)count);
  for (int64_t j = 0; j < m; j++)
    if (!(fabs(mass[j]) >= threshold)) (*rows)[at++] = j;
  *found = count;
  return FK_STATUS_OK;
}
