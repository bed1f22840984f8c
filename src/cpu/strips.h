/* Normal products with a matrix in memory: see struct fk_host_normal. */
#pragma once

#include "../core/host.h"

enum fk_status fk_strips_normal(int threads, const struct fk_host_normal *of, struct fk_error *err);
