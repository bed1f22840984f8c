/* A polynomial that the caller holds. */
#pragma once

/* c_0 + c_1 s + ... */
struct fk_polynomial {
  const double *c;
  int count; /* 0: there is none */
};
