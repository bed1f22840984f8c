/* Matrices that stay on a device until somebody asks for them here. */
#include "resident.h"

#include <stdlib.h>

#include "aligned.h"

static struct fk_resident *first, *last;

struct fk_resident *fk_resident_first(void) {
  return first;
}

struct fk_resident *fk_resident_create(int64_t n, int64_t d, void *device, const struct fk_resident_ops *ops,
                                       struct fk_error *err) {
  struct fk_resident *x = calloc(1, sizeof *x);
  if (!x) {
    fk_no_memory(err, 0, "a matrix on a device");
    return NULL;
  }
  *x = (struct fk_resident){.n = n, .d = d, .device = device, .ops = ops, .before = last};
  x->bytes = (int64_t)sizeof(double) * n * d;
  *(last ? &last->next : &first) = x;
  last = x;
  return x;
}

struct fk_resident *fk_resident_on_host(int64_t n, int64_t d, double **host, struct fk_error *err) {
  double *numbers = fk_aligned_alloc(sizeof *numbers * (size_t)(n * d));
  struct fk_resident *x = numbers ? fk_resident_create(n, d, NULL, NULL, err) : NULL;
  if (!numbers) fk_no_memory(err, 8.0 * (double)n * (double)d, "points");
  if (x)
    x->host = *host = numbers;
  else
    fk_aligned_free(numbers);
  return x;
}

int64_t fk_resident_rows(const struct fk_resident *x) { return x->n; }
int64_t fk_resident_columns(const struct fk_resident *x) { return x->d; }
bool fk_resident_is_here(const struct fk_resident *x) { return x->host != NULL; }

const double *fk_resident_host(struct fk_resident *x, struct fk_error *err) {
  if (x->host) return x->host;
  if (!x->device) {
    fk_fail(err, FK_STATUS_DEVICE,
            "points on a CUDA device were lost when it failed or was released; fit the model again");
    return NULL;
  }
  double *host = fk_aligned_alloc((size_t)x->bytes);
  if (!host) {
    fk_no_memory(err, (double)x->bytes, "points from a device");
    return NULL;
  }
  if (x->ops->download(x, host, err)) {
    fk_aligned_free(host);
    return NULL;
  }
  return x->host = host;
}

void fk_resident_leave(struct fk_resident *x) {
  struct fk_error err = {FK_STATUS_OK, ""};
  if (!x->device) return;
  fk_resident_host(x, &err);
  x->ops->release(x);
  x->device = NULL;
}

void fk_resident_free(struct fk_resident *x) {
  if (!x) return;
  if (x->device) x->ops->release(x);
  *(x->before ? &x->before->next : &first) = x->next;
  *(x->next ? &x->next->before : &last) = x->before;
  if (!x->borrowed) fk_aligned_free(x->host);
  free(x);
}
