/* Points that are sent before they are summed: the transfer runs while the host continues. */
#include "exact.cuh"
#include "kept.cuh"

#include "../../core/resident.h"
#include "../device/resident.cuh"

/* A few points are sent later, in less time than a handle takes. They are cached once more, whitened: two copies
 * must fit into what operators may keep, and a small share of the device is enough. */
static bool pays(const struct fk_cuda_context *context, const struct fk_matrix *x, const struct fk_opts *opts) {
  const double bytes = 8.0 * (double)x->n * (double)x->d, least = 1 << 17, share = 1.0 / 64;
  return x->type == FK_DOUBLE && x->ld == x->n && !x->resident && bytes >= least &&
         bytes <= share * (double)context->memory_total && 2 * bytes <= fk_cuda_memory_to_keep(context, opts);
}

enum fk_status fk_cuda_exact_send(const struct fk_matrix *x, const struct fk_opts *opts, struct fk_resident **sent,
                                  bool *finite, struct fk_error *err) {
  struct fk_cuda_context *contexts[FK_MAX_DEVICES], *context;
  struct fk_cuda_arena arena = {};
  struct fk_cuda_buffer *buffer;
  int count;
  double *there;
  FK_TRY(fk_cuda_contexts(opts, contexts, &count, err));
  context = contexts[0];
  if (count > 1 || !pays(context, x, opts)) return FK_STATUS_UNSUPPORTED;
  FK_CUDA_TRY(cudaSetDevice(context->device));
  FK_TRY(fk_cuda_arena_buffer(context, &arena, &buffer, err));
  enum fk_status status = fk_cuda_room(context, buffer, x->n * x->d, &there, err);
  if (status) return status == FK_STATUS_ALLOC ? FK_STATUS_UNSUPPORTED : status;
  context->copy_threads = 0;
  FK_TRY(fk_cuda_upload_finite(context, *x, there, finite, err));
  if (!*finite) return FK_STATUS_OK;
  FK_TRY(fk_cuda_resident_create(context, buffer, x->n, x->d, sent, err));
  (*sent)->host = (double *)x->data;
  (*sent)->borrowed = true;
  return FK_STATUS_OK;
}
