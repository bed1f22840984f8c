/* Methods that tests and benchmarks can force in struct fk_opts, where the planner would choose a faster one. */
#pragma once

enum fk_method {
  FK_METHOD_GRID = 1,      /* fast engine: the grid */
  FK_METHOD_DIRECT = 2,    /* fast engine: direct sums with pruning */
  FK_METHOD_LINE = 4,      /* boxes in one dimension */
  FK_METHOD_NEAR = 8,      /* exact engine: only pairs within the cutoff radius */
  FK_METHOD_PAIRS = 16,    /* exact engine: every pair */
  FK_METHOD_AS_EXACT = 32, /* the fast engine for sums without a tolerance */
  FK_METHOD_ENVELOPE = 64  /* compute the bound of a grid's error on the device */
};
