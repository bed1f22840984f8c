/* The kernels: the table of what is known of each, and the form in which engines compute it. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "../fk.h"

#define GAMMA                                                                                                     \
  { .name = "gamma", .otherwise = 1, .above = 0, .most = DBL_MAX }
#define COEF0(value)                                                                                              \
  { .name = "coef0", .otherwise = value, .above = -INFINITY, .most = DBL_MAX }

/* Costs: dimensions.R on the EPYC (core/costs.c) for the Gaussian, fast_kernels.R for other kernels of r, where a
 * division takes the time of 5 multiply-adds, a square root that of 15; kernels.R on a Xeon with AVX-512 for those
 * of x'y, and on the EPYC for the powered exponential and, in 8 dimensions, the product Laplacian, which takes one
 * more for each coordinate. */
static const struct fk_kernel_info table[FK_KERNELS] = {
    [FK_KERNEL_GAUSSIAN] =
        {
            .name = "gaussian",
            .others = "gauss rbf",
            .formula = "exp(-r^2 / 2)",
            .form = FK_FORM_GAUSSIAN,
            .smooth = true,
            .underflows = true,
            .cost = 11,
        },
    [FK_KERNEL_LAPLACIAN] =
        {
            .name = "laplacian",
            .others = "exponential matern12 laplacedot",
            .formula = "exp(-r)",
            .form = FK_FORM_ROOT,
            .rate = 1,
            .factor = {1, 0, 0},
            .underflows = true,
            .cost = 26,
        },
    [FK_KERNEL_PRODUCT_LAPLACIAN] =
        {
            .name = "product_laplacian",
            .others = "laplaciankernel productlaplace laplaceproduct l1laplacian manhattan cityblock",
            .formula = "exp(-sum(abs(u)))",
            .form = FK_FORM_ABSOLUTE,
            .rate = 1,
            .underflows = true,
            .cost = 19,
        },
    [FK_KERNEL_POWERED_EXPONENTIAL] =
        {
            .name = "powered_exponential",
            .others = "powerexponential exponentialpower gammaexponential generalizedexponential stable",
            .formula = "exp(-r^power)",
            .form = FK_FORM_STRETCHED,
            .underflows = true,
            .cost = 45,
            .parameters = {{.name = "power", .otherwise = 1.4, .above = 0, .most = 2}},
        },
    [FK_KERNEL_MATERN32] =
        {
            .name = "matern32",
            .others = "",
            .formula = "(1 + sqrt(3) r) exp(-sqrt(3) r)",
            .form = FK_FORM_ROOT,
            .rate = 1.7320508075688772,
            .factor = {1, 1, 0},
            .underflows = true,
            .cost = 26,
        },
    [FK_KERNEL_MATERN52] =
        {
            .name = "matern52",
            .others = "",
            .formula = "(1 + sqrt(5) r + 5 r^2 / 3) exp(-sqrt(5) r)",
            .form = FK_FORM_ROOT,
            .rate = 2.23606797749979,
            .factor = {1, 1, 1.0 / 3},
            .underflows = true,
            .cost = 26,
        },
    [FK_KERNEL_CAUCHY] =
        {
            .name = "cauchy",
            .others = "rationalquadratic",
            .formula = "1 / (1 + r^2)",
            .form = FK_FORM_CAUCHY,
            .smooth = true,
            .mixture = 1,
            .cost = 5,
        },
    [FK_KERNEL_IMQ] =
        {
            .name = "imq",
            .others = "inversemultiquadric",
            .formula = "1 / sqrt(1 + r^2)",
            .form = FK_FORM_IMQ,
            .smooth = true,
            .mixture = 0.5,
            .cost = 16,
        },
    [FK_KERNEL_LINEAR] =
        {
            .name = "linear",
            .others = "dot vanilladot",
            .formula = "gamma x'y + coef0",
            .form = FK_FORM_POWER,
            .smooth = true,
            .cost = 10,
            .parameters = {GAMMA, COEF0(0)},
        },
    [FK_KERNEL_POLYNOMIAL] =
        {
            .name = "polynomial",
            .others = "poly polydot",
            .formula = "(gamma x'y + coef0)^degree",
            .form = FK_FORM_POWER,
            .smooth = true,
            .cost = 11,
            .parameters = {GAMMA,
                           COEF0(1),
                           {.name = "degree", .otherwise = 3, .above = 0, .most = 64, .whole = true}},
        },
    [FK_KERNEL_SIGMOID] =
        {
            .name = "sigmoid",
            .others = "tanh tanhdot",
            .formula = "tanh(gamma x'y + coef0)",
            .form = FK_FORM_TANH,
            .smooth = true,
            .cost = 30,
            .parameters = {GAMMA, COEF0(1)},
        },
};

const struct fk_kernel_info *fk_kernel_info(enum fk_kernel_id id) { return &table[id]; }

int fk_kernel_n_parameters(enum fk_kernel_id id) {
  int n = 0;
  while (n < FK_KERNEL_PARAMETERS && table[id].parameters[n].name) n++;
  return n;
}

bool fk_kernel_of(const char *name, struct fk_kernel *kernel) {
  for (int id = 0; id < FK_KERNELS; id++) {
    if (strcmp(name, table[id].name) != 0) continue;
    kernel->id = (enum fk_kernel_id)id;
    for (int p = 0; p < FK_KERNEL_PARAMETERS; p++) kernel->parameters[p] = table[id].parameters[p].otherwise;
    return true;
  }
  return false;
}

bool fk_kernel_equal(const struct fk_kernel *a, const struct fk_kernel *b) {
  bool equal = a->id == b->id;
  for (int p = 0; p < FK_KERNEL_PARAMETERS; p++) equal = equal && a->parameters[p] == b->parameters[p];
  return equal;
}

bool fk_kernel_is_gaussian(const struct fk_kernel *kernel) { return table[kernel->id].form == FK_FORM_GAUSSIAN; }

enum fk_metric fk_kernel_metric(const struct fk_kernel *kernel) { return fk_form_metric(table[kernel->id].form); }

bool fk_kernel_is_stationary(const struct fk_kernel *kernel) {
  return fk_kernel_metric(kernel) != FK_METRIC_PRODUCTS;
}

struct fk_kernel_form fk_task_form(const struct fk_task *task) {
  const struct fk_kernel_info *info = &table[task->kernel.id];
  const double *own = task->kernel.parameters;
  const double *factor = info->form == FK_FORM_GAUSSIAN ? task->factor : info->factor;
  struct fk_kernel_form form = {info->form, 1, {1, 0, 0}, 1};
  switch (info->form) {
    case FK_FORM_GAUSSIAN: /* q/2 = -t ln 2 */
    case FK_FORM_ROOT:     /* a = -s ln 2 */
      form.scale = info->form == FK_FORM_ROOT ? FK_LOG2E * info->rate : sqrt(FK_LOG2E / 2);
      form.factor[0] = factor[0];
      form.factor[1] = -FK_LN2 * factor[1];
      form.factor[2] = FK_LN2 * FK_LN2 * factor[2];
      break;
    case FK_FORM_ABSOLUTE: form.scale = FK_LOG2E * info->rate; break;
    case FK_FORM_STRETCHED: form.power = own[0] / 2; break; /* of the square of r */
    case FK_FORM_CAUCHY:
    case FK_FORM_IMQ: break;
    case FK_FORM_POWER:
    case FK_FORM_TANH:
      form.factor[0] = own[1];
      form.factor[1] = own[0];
      form.factor[2] = info->parameters[2].name ? own[2] : 1;
      break;
  }
  return form;
}

static double power(double x, int degree) {
  double result = 1;
  for (; degree > 0; degree /= 2, x *= x)
    if (degree % 2) result *= x;
  return result;
}

void fk_kernel_of_products(const struct fk_kernel *kernel, double norm, const double *norms, int64_t m,
                           double *values) {
  const struct fk_kernel_info *info = &table[kernel->id];
  const double *own = kernel->parameters, *f = info->factor;
  int degree = info->parameters[2].name ? (int)own[2] : 1;
  for (int64_t j = 0; j < m && !fk_form_is_product(info->form); j++) {
    double q = norm + norms[j] - 2 * values[j];
    values[j] = q > 0 ? q : 0;
  }
  switch (info->form) {
    case FK_FORM_GAUSSIAN:
      for (int64_t j = 0; j < m; j++) values[j] = exp(-0.5 * values[j]);
      break;
    case FK_FORM_ROOT:
      for (int64_t j = 0; j < m; j++) {
        double a = info->rate * sqrt(values[j]);
        values[j] = a < 800 ? exp(-a) * (f[0] + a * (f[1] + a * f[2])) : 0; /* no 0 Inf */
      }
      break;
    case FK_FORM_ABSOLUTE:
      for (int64_t j = 0; j < m; j++) values[j] = exp(-values[j]);
      break;
    case FK_FORM_STRETCHED:
      for (int64_t j = 0; j < m; j++) values[j] = exp(-pow(values[j], own[0] / 2));
      break;
    case FK_FORM_CAUCHY:
      for (int64_t j = 0; j < m; j++) values[j] = 1 / (1 + values[j]);
      break;
    case FK_FORM_IMQ:
      for (int64_t j = 0; j < m; j++) values[j] = 1 / sqrt(1 + values[j]);
      break;
    case FK_FORM_POWER:
      for (int64_t j = 0; j < m; j++) values[j] = power(own[0] * values[j] + own[1], degree);
      break;
    case FK_FORM_TANH:
      for (int64_t j = 0; j < m; j++) values[j] = tanh(own[0] * values[j] + own[1]);
      break;
  }
}
