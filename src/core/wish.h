/* Environment variables by which tests and benchmarks force a method. */
#pragma once

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Is the environment variable set to this value? */
static inline bool fk_is_wish(const char *variable, const char *value) {
  const char *wish = getenv(variable);
  return wish && strcmp(wish, value) == 0;
}
