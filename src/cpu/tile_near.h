/* Squared distances to what may be near, in double: a part of tile_body.h, by whose macros it is written.
 *
 * Both functions do the same operations in the same order, each of which never falls when what it is done to
 * grows: so what is found for a box is at most what is found for any point in it, to the last bit. */
#define NEAR_VECTORS (FK_ROWS == 8 ? 8 : 4) /* registers hold so many sums */

_Static_assert(FK_NEAR_POINTS % (NEAR_VECTORS * V_LANES) == 0 && FK_NEAR_TARGETS % V_LANES == 0,
               "the vectors do not fit");

INLINE int FN(near_points_body)(const double *points, const double *low, int64_t d, const double *target,
                                const double *target_low, double below, double *out, const int doubled) {
  int found = 0;
  for (int from = 0; from < FK_NEAR_POINTS; from += NEAR_VECTORS * V_LANES) {
    V sums[NEAR_VECTORS];
    FK_UNROLL
    for (int v = 0; v < NEAR_VECTORS; v++) sums[v] = V_SET(0);
    for (int64_t k = 0; k < d; k++) {
      const double *x = points + k * FK_NEAR_POINTS + from;
      V y = V_SET(target[k * FK_NEAR_TARGETS]);
      FK_UNROLL
      for (int v = 0; v < NEAR_VECTORS; v++) {
        V z = V_SUB(V_LOAD(x + v * V_LANES), y);
        if (doubled)
          z = V_ADD(z, V_SUB(V_LOAD(low + (x - points) + v * V_LANES), V_SET(target_low[k * FK_NEAR_TARGETS])));
        sums[v] = V_FMA(z, z, sums[v]);
      }
    }
    FK_UNROLL
    for (int v = 0; v < NEAR_VECTORS; v++) {
      unsigned lanes = V_BELOW(sums[v], V_SET(below));
      if (!lanes) continue;
      double squares[V_LANES];
      V_STORE(squares, sums[v]);
      /* a branch for each would be guessed wrong half of the time */
      FK_UNROLL
      for (int lane = 0; lane < V_LANES; lane++) {
        out[found] = squares[lane];
        found += lanes >> lane & 1;
      }
    }
  }
  return found;
}

static int FN(near_points)(const double *points, const double *low, int64_t d, const double *target,
                           const double *target_low, double below, double *out) {
  return low ? FN(near_points_body)(points, low, d, target, target_low, below, out, 1)
             : FN(near_points_body)(points, low, d, target, target_low, below, out, 0);
}

static void FN(near_box)(const double *box, int64_t d, const double *targets, double *squares) {
  for (int t = 0; t < FK_NEAR_TARGETS; t += V_LANES) {
    V sum = V_SET(0);
    for (int64_t k = 0; k < d; k++) {
      V y = V_LOAD(targets + k * FK_NEAR_TARGETS + t);
      V z = V_MAX(V_SUB(V_SET(box[k]), y), V_SUB(y, V_SET(box[d + k])));
      z = V_MAX(z, V_SET(0));
      sum = V_FMA(z, z, sum);
    }
    V_STORE(squares + t, sum);
  }
}

#undef NEAR_VECTORS
