/* Sources that operators cache on devices. */
#include <stdlib.h>

#include "sources.cuh"

static double bytes_of(const struct fk_cuda_tenant *tenant) {
  return fk_cuda_sources_bytes((const struct fk_cuda_sources *)tenant);
}

static void empty_tenant(struct fk_cuda_context *, struct fk_cuda_tenant *tenant) {
  fk_cuda_sources_empty((struct fk_cuda_sources *)tenant);
}

void fk_cuda_sources_init(struct fk_cuda_sources *s, struct fk_cuda_context *context) {
  *s = {};
  s->bytes = bytes_of;
  s->empty = empty_tenant;
  s->context = context;
  s->context_id = context->id;
  s->device = context->device;
  s->first = -1;
  s->radius2 = -1;
}

double fk_cuda_sources_bytes(const struct fk_cuda_sources *s) {
  double bytes = fk_cuda_bytes_of(s->buffers) + (double)s->normal.buffer.bytes + fk_grid_memory_bytes(&s->grid);
  for (const struct fk_cuda_sources *part : {s->in_order, s->framed, s->rest})
    if (part) bytes += fk_cuda_sources_bytes(part);
  bytes += (double)(s->frames.list.buffer.bytes + s->frames.list.places.bytes);
  return bytes + (double)(s->frames.buffer.bytes + s->order.buffer.bytes);
}

static void drop_part(struct fk_cuda_sources **part) {
  if (*part) fk_cuda_sources_empty(*part);
  free(*part);
  *part = NULL;
}

void fk_cuda_frames_drop(struct fk_cuda_sources *s) {
  drop_part(&s->framed);
  drop_part(&s->rest);
  fk_cuda_frames_free(s->context, &s->frames);
}

void fk_cuda_order_drop(struct fk_cuda_sources *s) {
  drop_part(&s->in_order);
  fk_cuda_order_free(s->context, &s->order);
}

void fk_cuda_sources_empty(struct fk_cuda_sources *s) {
  const struct fk_cuda_tenant tenant = *s;
  fk_cuda_drop_all(s->context, s->buffers);
  fk_cuda_drop(s->context, &s->normal.buffer);
  fk_grid_memory_empty(s->context, &s->grid);
  fk_cuda_frames_drop(s);
  fk_cuda_order_drop(s);
  fk_cuda_sources_init(s, s->context);
  *(struct fk_cuda_tenant *)s = tenant;
}

/* ---- those of an operator --------------------------------------------------------------------- */

/* For each device: the sources of all points, and of each shard, which any device may have. Only the device's own
 * thread finds, makes and forgets them, so no thread changes what another one reads. What a shard left on a device
 * that it no longer uses is evicted there. */
struct kept_sources {
  struct fk_cuda_sources *on[FK_MAX_DEVICES][1 + FK_CUDA_SHARDS];
};

static void forget_sources(struct fk_cuda_sources *s) {
  struct fk_cuda_context *context = fk_cuda_context_in_use(s->device);
  /* nothing is left on a device that was released, or that belongs to the parent process */
  if (context && context->id == s->context_id) {
    struct fk_cuda_tenant **link = &context->kept;
    int current = context->device;
    while (*link && *link != s) link = &(*link)->next;
    if (*link) *link = s->next;
    if (cudaGetDevice(&current) == cudaSuccess && current != context->device) cudaSetDevice(context->device);
    fk_cuda_sources_empty(s);
  }
  free(s);
}

static void free_kept(void *state) {
  struct kept_sources *kept = (struct kept_sources *)state;
  for (auto &of_device : kept->on)
    for (struct fk_cuda_sources *s : of_device)
      if (s) forget_sources(s);
  free(kept);
}

/* Made if missing, or if made before the device was released. */
enum fk_status fk_cuda_sources_of(struct fk_operator *op, struct fk_cuda_context *context, int shard,
                                  struct fk_cuda_sources **sources, struct fk_error *err) {
  struct fk_kept *slot = &op->kept[FK_KEEPER_CUDA];
  if (!slot->state) *slot = (struct fk_kept){calloc(1, sizeof(struct kept_sources)), free_kept, 0, NULL, NULL};
  struct kept_sources *kept = (struct kept_sources *)slot->state;
  if (!kept) return fk_fail(err, FK_STATUS_ALLOC, "out of memory");
  struct fk_cuda_sources **own = &kept->on[context->device][1 + shard];
  if (*own && (*own)->context_id != context->id) {
    forget_sources(*own);
    *own = NULL;
  }
  if (!*own) {
    *own = (struct fk_cuda_sources *)malloc(sizeof **own);
    if (!*own) return fk_fail(err, FK_STATUS_ALLOC, "out of memory");
    fk_cuda_sources_init(*own, context);
    (*own)->next = context->kept;
    context->kept = *own;
  }
  (*own)->used_at = ++context->clock;
  *sources = *own;
  return FK_STATUS_OK;
}

void fk_cuda_keep_within(struct fk_cuda_context *context, double bytes) {
  if (context->used <= bytes) return; /* the cache is no larger than `used` */
  while (fk_cuda_kept_bytes(context) > bytes && fk_cuda_give_way(context)) continue;
}

static bool is_in_use(const struct fk_cuda_context *context) {
  for (int device = 0; device < FK_MAX_DEVICES; device++)
    if (fk_cuda_context_in_use(device) == context) return true;
  return false;
}

void fk_cuda_keep_all_within(struct fk_cuda_context *const *contexts, int count, const struct fk_opts *opts) {
  for (int i = 0; i < count; i++)
    if (is_in_use(contexts[i]) && cudaSetDevice(contexts[i]->device) == cudaSuccess)
      fk_cuda_keep_within(contexts[i], fk_cuda_memory_to_keep(contexts[i], opts));
}

static void leave_grid(struct fk_operator *op, struct fk_cuda_context *context) {
  struct fk_cuda_sources *kept = NULL;
  struct fk_error err = {FK_STATUS_OK, ""};
  context->grid = NULL;
  if (op && fk_cuda_sources_of(op, context, FK_CUDA_ALL, &kept, &err) == FK_STATUS_OK) kept->busy = false;
}

enum fk_status fk_cuda_enter(struct fk_operator *op, struct fk_cuda_context *const *contexts, int count,
                             struct fk_error *err) {
  for (int i = 0; i < count; i++) {
    struct fk_cuda_sources *kept = NULL;
    if (op && fk_cuda_sources_of(op, contexts[i], FK_CUDA_ALL, &kept, err)) {
      while (i > 0) leave_grid(op, contexts[--i]);
      return err->status;
    }
    contexts[i]->grid = kept ? &kept->grid : &contexts[i]->own;
    if (kept) kept->busy = true;
  }
  return FK_STATUS_OK;
}

void fk_cuda_leave(struct fk_operator *op, struct fk_cuda_context *const *contexts, int count,
                   const struct fk_opts *opts) {
  for (int i = 0; i < count; i++)
    if (is_in_use(contexts[i])) leave_grid(op, contexts[i]); /* a context that is not in use was lost */
  if (op) fk_cuda_keep_all_within(contexts, count, opts);
}
