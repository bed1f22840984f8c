#include "check_rows.h"

#include "../core/costs.h"
#include "../core/count.h"
#include "../cpu/direct/check.h"

int64_t fk_check_size(double n, int64_t m) {
  const struct fk_fast_choice_costs *c = &fk_costs.choice;
  int64_t rows = (int64_t)c->check_rows + (int64_t)(c->check_pairs / n);
  return fk_smaller(m, fk_smaller(rows, FK_CHECK_ROWS));
}

/* splitmix64: points often come in some order. */
int64_t fk_check_row(int64_t m, int64_t r) {
  uint64_t z = ((uint64_t)r + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return fk_smaller((int64_t)(0x1p-53 * (double)(z >> 11) * (double)m), m - 1);
}
