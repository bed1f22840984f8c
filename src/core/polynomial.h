/* A polynomial that the caller holds. */
#ifndef FK_CORE_POLYNOMIAL_H
#define FK_CORE_POLYNOMIAL_H

/* c_0 + c_1 s + ... */
struct fk_polynomial {
  const double *c;
  int count; /* 0: there is none */
};

#endif
