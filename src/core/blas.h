/* Which BLAS R uses. */
#pragma once

#include <stdbool.h>

/* Is it one that is optimised for the processor, such as OpenBLAS or MKL? False for the reference BLAS and for a
 * library that is not known. */
bool fk_blas_is_tuned(void);
