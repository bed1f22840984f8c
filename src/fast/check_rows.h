/* The targets at which the fast engine checks its sums. */
#pragma once

#include "../fk.h"

/* fk_check_size: the number of checked targets, of m, for n sources. fk_check_row: index, from 0, of the r-th of
 * them; pseudo-random, the same for the same m. */
int64_t fk_check_size(double n, int64_t m);
int64_t fk_check_row(int64_t m, int64_t r);
