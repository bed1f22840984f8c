/* Methods that tests and benches ask for, by a control of their own, where another would take less time. */
#pragma once

enum fk_method {
  FK_METHOD_GRID = 1,      /* of the fast engine, this one ... */
  FK_METHOD_DIRECT = 2,    /* ... or this one */
  FK_METHOD_LINE = 4,      /* boxes in one dimension */
  FK_METHOD_NEAR = 8,      /* near pairs alone */
  FK_METHOD_PAIRS = 16,    /* every pair */
  FK_METHOD_AS_EXACT = 32, /* the fast engine for sums without a tolerance */
  FK_METHOD_ENVELOPE = 64  /* the bound of a grid's error on the device */
};
