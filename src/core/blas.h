/* R's BLAS: the reference one, or one that was made for the processor? */
#pragma once

#include <stdbool.h>

bool fk_blas_is_tuned(void);
