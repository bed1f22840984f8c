/* Handles of operators. */
#include "operator.h"

#include <stdlib.h>
#include <string.h>

/* What a handle points at: the operator (NULL: not made yet), the R objects whose numbers it reads, and the copy
 * of the points that was sent to a device, or NULL. */
struct plan {
  struct fk_operator *op;
  SEXP points, weights;
  struct fk_resident *sent;
};

/* What a handle without an operator points at: one that was read from a file points nowhere, and has no finalizer
 * yet. */
static struct plan empty;

static SEXP tag(void) { return Rf_install("flashkernel_plan"); }

static void drop(SEXP handle) {
  struct plan *plan = R_ExternalPtrAddr(handle);
  if (!plan || plan == &empty) return;
  R_SetExternalPtrAddr(handle, &empty);
  fk_operator_free(plan->op);
  fk_resident_free(plan->sent);
  R_ReleaseObject(plan->points);
  R_ReleaseObject(plan->weights);
  free(plan);
}

static int handles;
void r_count_handle(int by) { handles += by; }
int r_handles(void) { return handles; }

static void finalize(SEXP handle) {
  drop(handle);
  r_count_handle(-1);
}

static void watch(SEXP handle, R_CFinalizer_t by) {
  R_RegisterCFinalizerEx(handle, by, FALSE);
  r_count_handle(1);
}

SEXP r_new_handle(void *address, SEXP tag, R_CFinalizer_t by) {
  SEXP handle = PROTECT(R_MakeExternalPtr(address, tag, R_NilValue));
  watch(handle, by);
  UNPROTECT(1);
  return handle;
}

SEXP r_new_plan(void) { return r_new_handle(&empty, tag(), finalize); }

SEXP r_plan_of_sent(SEXP sent) {
  SEXP handle = PROTECT(r_new_plan()), points = R_ExternalPtrProtected(sent);
  struct plan *plan = malloc(sizeof *plan);
  if (plan) { /* else the points are sent again */
    R_PreserveObject(points);
    *plan = (struct plan){NULL, points, R_NilValue, r_take_sent(sent)};
    R_SetExternalPtrAddr(handle, plan);
  }
  UNPROTECT(1);
  return handle;
}

static struct fk_operator_spec spec_of(SEXP sources) {
  SEXP points = r_element(sources, "points");
  struct fk_resident *there = r_resident_of(points);
  struct fk_operator_spec spec = {.kernel = r_kernel(r_element(sources, "kernel"))};
  if (there && !fk_resident_is_here(there)) /* it is not fetched for the sake of knowing where it will be */
    spec.x = fk_doubles(NULL, fk_resident_rows(there), fk_resident_columns(there));
  else
    spec.x = r_points(points, "x");
  spec.x.resident = there;
  spec.weights = r_weights(r_element(sources, "weights"), spec.x.n);
  spec.chol = r_factor(r_element(sources, "L"), spec.x.d);
  SEXP handle = r_element(sources, "plan");
  if (r_is_sent(handle) && !there) spec.x.resident = r_sent_of(handle, points);
  spec.stays = !Rf_isNull(handle) && !r_is_sent(handle);
  return spec;
}

/* Are these the objects of the cached operator? The handle protects them, so that they do not change and their
 * addresses are not used again. */
static bool is_of(const struct plan *plan, SEXP sources, const struct fk_operator_spec *spec) {
  size_t factor = sizeof(double) * (size_t)(spec->x.d * spec->x.d);
  return plan->op && plan->points == r_element(sources, "points") &&
         plan->weights == r_element(sources, "weights") && fk_kernel_equal(&plan->op->kernel, &spec->kernel) &&
         memcmp(plan->op->chol, spec->chol, factor) == 0;
}

/* Takes the points over that were sent, if they are those of the sources. */
static struct fk_resident *sent_of(SEXP handle, SEXP points) {
  struct plan *plan = R_ExternalPtrAddr(handle);
  if (plan == &empty || plan->points != points) return NULL;
  struct fk_resident *sent = plan->sent;
  plan->sent = NULL;
  return sent;
}

/* sent: becomes the plan's. */
static void fill(SEXP handle, SEXP sources, const struct fk_operator_spec *spec, struct fk_resident *sent) {
  struct fk_error err = {FK_STATUS_OK, ""};
  struct plan made = {NULL, r_element(sources, "points"), r_element(sources, "weights"), sent};
  R_PreserveObject(made.points);
  R_PreserveObject(made.weights);
  struct plan *plan = malloc(sizeof *plan);
  if (!plan) fk_no_memory(&err, 0, "an operator");
  if (plan && fk_operator_create(spec, &made.op, &err) == FK_STATUS_OK) {
    *plan = made;
    R_SetExternalPtrAddr(handle, plan);
    return;
  }
  free(plan);
  fk_resident_free(sent);
  R_ReleaseObject(made.points);
  R_ReleaseObject(made.weights);
  r_finish(&err);
}

/* R may move the numbers of an object between calls: an ALTREP wrapper copies what it shares when somebody asks
 * for a pointer to write to. */
static void find_numbers(struct fk_operator *op, const struct fk_operator_spec *spec) {
  if (spec->x.data) op->x.data = spec->x.data;
  op->weights = spec->weights;
}

struct r_operator r_open(SEXP sources) {
  SEXP handle = r_element(sources, "plan");
  struct r_operator opened = {NULL, spec_of(sources)};
  if (!opened.spec.stays) return opened;
  if (TYPEOF(handle) != EXTPTRSXP || R_ExternalPtrTag(handle) != tag())
    Rf_error("`plan` must be a handle of an operator");
  if (!R_ExternalPtrAddr(handle)) {
    watch(handle, finalize);
    R_SetExternalPtrAddr(handle, &empty);
  }
  const struct plan *plan = R_ExternalPtrAddr(handle);
  struct fk_resident *sent = NULL;
  if (plan != &empty && !is_of(plan, sources, &opened.spec)) {
    sent = sent_of(handle, r_element(sources, "points"));
    drop(handle);
  }
  if (sent) opened.spec.x.resident = sent;
  if (R_ExternalPtrAddr(handle) == &empty) fill(handle, sources, &opened.spec, sent);
  plan = R_ExternalPtrAddr(handle);
  opened.op = plan->op;
  find_numbers(opened.op, &opened.spec);
  return opened;
}

struct fk_operator *r_start(struct r_operator *opened, struct fk_error *err) {
  if (!opened->op) fk_operator_create(&opened->spec, &opened->op, err);
  return opened->op;
}

void r_close(const struct r_operator *opened) {
  if (!opened->spec.stays) fk_operator_free(opened->op);
}
