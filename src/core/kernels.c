/* The kernels, as the engines compute them. */
#include <math.h>
#include <string.h>

#include "../fk.h"

struct fk_kernel_form fk_task_form(const struct fk_task *task) {
  /* The exponents -a of the Matern kernels are -s ln 2 in base 2. */
  struct fk_kernel_form form = {FK_FORM_ROOT, FK_LOG2E, {1, 0, 0}};
  switch (task->kernel) {
    case FK_KERNEL_GAUSSIAN: /* q/2 = -t ln 2 */
      form.type = FK_FORM_GAUSSIAN;
      form.scale = sqrt(FK_LOG2E / 2);
      form.factor[0] = task->factor[0];
      form.factor[1] = -FK_LN2 * task->factor[1];
      form.factor[2] = FK_LN2 * FK_LN2 * task->factor[2];
      break;
    case FK_KERNEL_LAPLACIAN: break;
    case FK_KERNEL_MATERN32:
      form.scale = FK_LOG2E * sqrt(3);
      form.factor[1] = -FK_LN2;
      break;
    case FK_KERNEL_MATERN52:
      form.scale = FK_LOG2E * sqrt(5);
      form.factor[1] = -FK_LN2;
      form.factor[2] = FK_LN2 * FK_LN2 / 3;
      break;
    case FK_KERNEL_CAUCHY:
      form.type = FK_FORM_CAUCHY;
      form.scale = 1;
      break;
    case FK_KERNEL_IMQ:
      form.type = FK_FORM_IMQ;
      form.scale = 1;
      break;
  }
  return form;
}

static const char *const names[] = {"gaussian", "laplacian", "matern32", "matern52", "cauchy", "imq"};

const char *fk_kernel_name(enum fk_kernel kernel) { return names[kernel]; }

bool fk_kernel_of(const char *name, enum fk_kernel *kernel) {
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0) {
      *kernel = (enum fk_kernel)i;
      return true;
    }
  return false;
}
