/* Losses, row by row; R/ridge-loss.R. */
#include "../core/losses.h"

#include "ffi.h"

/* loss: the number of the kind of enum fk_loss_kind, and the parameters. f and y of as many rows and columns; y
 * NULL: not read, only for classes. */
static struct fk_row_loss r_row_loss(SEXP kind, SEXP f, SEXP y, SEXP control) {
  struct r_call call = r_begin(control);
  if (!Rf_isMatrix(f) || Rf_ncols(f) < 1) Rf_error("`f` must be a matrix with at least one column");
  struct fk_row_loss loss = {.n = Rf_nrows(f), .t = Rf_ncols(f), .threads = call.opts.threads};
  const double *numbers = r_numbers(kind, Rf_xlength(kind), "loss");
  loss.kind = (enum fk_loss_kind)(int)numbers[0];
  loss.parameters = numbers + 1;
  int64_t given[] = {1, 1, 1, 2, 2, 2 + loss.t};
  if (!(numbers[0] >= FK_LOSS_CLASSES && numbers[0] <= FK_LOSS_QUANTILE) || Rf_xlength(kind) != given[loss.kind])
    Rf_error("`loss` must be the number of a loss and its parameters");
  if (loss.kind != FK_LOSS_CLASSES && Rf_isNull(y)) Rf_error("`y` must be given");
  loss.f = r_numbers(f, (R_xlen_t)(loss.n * loss.t), "f");
  if (!Rf_isNull(y)) loss.y = r_numbers(y, (R_xlen_t)(loss.n * loss.t), "y");
  return loss;
}

/* part: of enum fk_loss_part; u: what second derivatives multiply. */
SEXP ffi_row_loss(SEXP part, SEXP kind, SEXP f, SEXP y, SEXP u, SEXP control) {
  struct fk_row_loss loss = r_row_loss(kind, f, y, control);
  int which = Rf_asInteger(part);
  if (which < FK_LOSS_VALUE || which > FK_LOSS_PRODUCT) Rf_error("`part` must be between 0 and 3");
  bool by_class = which == FK_LOSS_SLOPE || which == FK_LOSS_PRODUCT;
  if (which <= FK_LOSS_SLOPE && !loss.y) Rf_error("`y` must be given");
  const double *by = which == FK_LOSS_PRODUCT ? r_numbers(u, (R_xlen_t)(loss.n * loss.t), "u") : NULL;
  SEXP out = PROTECT(by_class ? r_matrix(loss.n, loss.t, R_NilValue) : r_vector(loss.n));
  fk_row_loss_rows(&loss, (enum fk_loss_part)which, by, REAL(out));
  UNPROTECT(1);
  return out;
}

SEXP ffi_row_loss_sum(SEXP kind, SEXP f, SEXP y, SEXP direction, SEXP length, SEXP weights, SEXP control) {
  struct fk_error err = {FK_STATUS_OK, ""};
  struct fk_row_loss loss = r_row_loss(kind, f, y, control);
  struct fk_loss_line line = {.weights = r_weights(weights, loss.n), .length = Rf_asReal(length)};
  double sum = 0;
  if (!loss.y) Rf_error("`y` must be given");
  if (!Rf_isNull(direction)) line.direction = r_numbers(direction, (R_xlen_t)(loss.n * loss.t), "direction");

  fk_row_loss_sum(&loss, &line, &sum, &err);

  r_finish(&err);
  return Rf_ScalarReal(sum);
}
