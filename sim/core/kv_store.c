/* See kv_store.h. */
#include "sim/core/kv_store.h"
#include <assert.h>

static bool links_equal(const KvStoreLink *a, const KvStoreLink *b) {
  return a->bandwidth == b->bandwidth && a->latency == b->latency;
}

bool kv_store_options_equal(const KvStoreOptions *a, const KvStoreOptions *b) {
  return a->kind == b->kind && a->takes == b->takes && a->shared == b->shared &&
         a->policy == b->policy && a->capacity == b->capacity && a->block_size == b->block_size &&
         links_equal(&a->read, &b->read) && links_equal(&a->write, &b->write) && a->ttl == b->ttl;
}

void kv_store_init(KvStore *self, const KvStoreOptions *options, const KvStore *above,
                   int64_t block_size, int64_t block_bytes, Arena *arena) {
  const int64_t unit = options->block_size > 0 ? options->block_size / block_size
                       : above                 ? above->unit
                                               : 1;
  *self = (KvStore){.options = *options, .unit = unit, .block_bytes = unit * block_bytes};
  host_cache_init(&self->blocks, options->capacity / self->block_bytes, (HostPolicy)options->policy,
                  options->ttl, arena);
}

double kv_store_seconds(const KvStore *self, LinkDirection direction, int64_t bytes) {
  const KvStoreLink *link = direction == LINK_TO_GPU ? &self->options.read : &self->options.write;
  return link->bandwidth > 0 ? (double)bytes / (double)link->bandwidth : 0;
}

void kv_store_audit(const KvStore *self, int64_t n_loads, int64_t n_unwritten, int64_t n_waiting) {
  const HostCache *blocks = &self->blocks;
  if (self->of_tree) return; // hicache_audit
  host_cache_audit(blocks, n_loads, n_unwritten);
  assert(self->moved[LINK_TO_GPU] == blocks->n_loaded * self->block_bytes);
  assert(self->moved[LINK_TO_CPU] ==
         (blocks->n_put - n_waiting - self->n_dropped) * self->block_bytes);
}
