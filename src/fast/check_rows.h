/* Which targets the fast engine's sums are checked at. */
#pragma once

#include "../fk.h"

/* How many of m targets, for n sources, and which: random ones, but the same for the same m. */
int64_t fk_check_size(double n, int64_t m);
int64_t fk_check_row(int64_t m, int64_t r);
