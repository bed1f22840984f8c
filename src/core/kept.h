/* What engines keep of operators in the host's memory: all of it together within a limit, beyond which goes what
 * was used longest ago. On the main thread alone. */
#pragma once

#include "../fk.h"

double fk_kept_limit(const struct fk_opts *opts);

/* It is used now; NULL: there is none. */
void *fk_kept_use(struct fk_operator *op, enum fk_keeper keeper);
/* `what`, for which others give way; of what is there already only the bytes are new. False: it is more than the
 * limit by itself, and is freed. Who uses something that is kept calls nobody who keeps. */
bool fk_keep(struct fk_operator *op, enum fk_keeper keeper, struct fk_kept what, const struct fk_opts *opts);
/* Away from the operator, to be freed or kept again by whoever takes it; NULL: there is none. */
void *fk_kept_take(struct fk_operator *op, enum fk_keeper keeper);
void fk_kept_drop(struct fk_operator *op, enum fk_keeper keeper);
/* Of all operators. */
double fk_kept_bytes(void);
