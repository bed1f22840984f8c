/* Pruning of exact sums: the sources that can matter to targets.
 *
 * Every row has a lower bound s of its own sum of |w f| k, from the pairs with one near block. Sources at an
 * exponent of -t in base 2 and beyond add at most W |f|(t) 2^-t to it, W the sum of all |w|: where that is at most
 * 2^-54 s (2^-26 s in single precision), they cannot matter together, whoever they are. So a block of targets has
 * a reach that is proven for each of its rows and each column, and a pair of blocks that are further apart is not
 * computed. No reach is longer than that of kernels which are numbers at all. */
#pragma once

#include <stdatomic.h>

#include "near_blocks.h"
#include "sweep.h"

struct fk_near_pairs {
  const struct fk_near_blocks *sources,
      *targets; /* the same, of points at themselves: a pair is computed for both */
  bool same;
  double *reach2;         /* squared, of each block of targets, in packed units */
  double *regions_reach2; /* the largest in a region */
  atomic_llong computed;  /* pairs */
};

/* sweep: of |weights| and |columns| in the order of the sources' blocks; loo: a source is no pair of itself. */
enum fk_status fk_near_init(struct fk_near_pairs *near, const struct fk_sweep *sweep,
                            const struct fk_near_blocks *targets, bool loo, struct fk_error *err);
void fk_near_free(struct fk_near_pairs *near);
/* The squared cutoff radius, in packed units, for sums with coefficients of 1 that are at least one kernel. */
double fk_near_usual_reach2(const struct fk_kernel_mode *mode, bool coordinates, double n);
/* t with |f|(t) 2^-t <= 2^-bits, times (1/2 + t ln 2) for sums of coordinates; `most` where it would be more. */
double fk_near_exponent(const struct fk_kernel_mode *mode, bool coordinates, double bits, double most);
/* The square of a distance, in units of form->scale, from which on exponents are at most -t. A sum of absolute
 * differences is at least the distance. */
double fk_near_square(const struct fk_kernel_form *form, double t);
/* Does the kernel fall so that what is far away cannot matter? */
static inline bool fk_near_decays(const struct fk_kernel_mode *mode) { return fk_form_decays(mode->form.type); }
/* The share of all pairs that would be computed, 0 to 1. */
double fk_near_share(const struct fk_near_pairs *near);

static inline void fk_near_count(struct fk_near_pairs *near, int64_t targets, int64_t sources) {
  atomic_fetch_add_explicit(&near->computed, (long long)(targets * sources), memory_order_relaxed);
}

/* Can what is in a box of sources matter to a block of targets, or where they are the same points, the other way
 * round? reach2: of the sources. */
static inline bool fk_near_matters(const struct fk_near_pairs *near, const double *box, const double *reach2,
                                   int64_t target) {
  double reach = near->reach2[target];
  if (near->same && *reach2 > reach) reach = *reach2;
  return !(fk_boxes_apart2(box, fk_near_box(near->targets, target), near->sources->d) > reach);
}

/* If the targets are the sources: can a point of region a matter to a point of region b? */
static inline bool fk_near_regions(const struct fk_near_pairs *near, int64_t a, int64_t b) {
  double of_a = near->regions_reach2[a], of_b = near->regions_reach2[b];
  double apart2 = fk_boxes_apart2(fk_near_region_box(near->sources, a), fk_near_region_box(near->sources, b),
                                  near->sources->d);
  return !(apart2 > (of_a > of_b ? of_a : of_b));
}

/* The first block of sources from `block` on, before `end`, that can matter to a block of targets. */
static inline int64_t fk_near_next(const struct fk_near_pairs *near, int64_t block, int64_t end, int64_t target) {
  const struct fk_near_blocks *x = near->sources;
  for (; block < end; block++) {
    int64_t region = block / x->per_region;
    bool begins = block % x->per_region == 0;
    if (begins && !fk_near_matters(near, fk_near_region_box(x, region), near->regions_reach2 + region, target))
      block += x->per_region - 1;
    else if (fk_near_matters(near, fk_near_box(x, block), near->reach2 + block, target))
      break;
  }
  return block < end ? block : end;
}
