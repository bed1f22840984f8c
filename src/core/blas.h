/* R's BLAS: the reference one, or one that was made for the processor? */
#ifndef FK_CORE_BLAS_H
#define FK_CORE_BLAS_H

#include <stdbool.h>

bool fk_blas_is_tuned(void);

#endif
