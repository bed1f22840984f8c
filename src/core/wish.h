/* What tests and benches ask for by a variable of the environment. */
#pragma once

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool fk_is_wish(const char *variable, const char *value) {
  const char *wish = getenv(variable);
  return wish && strcmp(wish, value) == 0;
}
