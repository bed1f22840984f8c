/* An order of points in which those that follow each other are close: half of them on either side of a number in
 * the coordinate in which they vary most, halves of these, and so on. */
#pragma once

#include "../core/count.h"
#include "../fk.h"

/* The first half of n points, in whole units. */
static inline int64_t fk_first_half(int64_t n, int64_t unit) { return fk_pieces(fk_pieces(n, unit), 2) * unit; }

/* Runs longer than units[0] are halved in wholes of it, those longer than units[1] in wholes of that; the others
 * stay as they are. Puts index[0 .. n), points x[i * d ..], in order: the same for any number of threads. */
void fk_order_points(const double *x, int64_t d, const int64_t units[2], int threads, int64_t *index, int64_t n);
