/* A polynomial whose coefficients the caller owns. */
#pragma once

/* c[0] + c[1] s + ... + c[count - 1] s^(count - 1) */
struct fk_polynomial {
  const double *c;
  int count; /* 0: no polynomial */
};
