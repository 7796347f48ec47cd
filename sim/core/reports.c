/* See reports.h. */
#include "sim/core/reports.h"
#include <assert.h>
#include <string.h>

enum { MOST_UNDER_WAY = 100 };

int reports_check(const ReportOptions *options, const Node *map, Place owner, Diag *diag) {
  const Node *delay = map ? node_find(map, "delay") : NULL;
  const Place at = delay ? delay->at : owner;
  if (options->delay > 0 && options->interval == 0) {
    diag_error(diag, at, "'delay' applies to reports, and without 'interval' there are none");
    diag_hint(diag, "a short interval, such as 1 ms, comes close to reporting each event at once");
    return -1;
  }
  if (options->delay / MOST_UNDER_WAY <= options->interval) return 0;
  return diag_error(diag, at, "'delay' must be at most %d intervals", MOST_UNDER_WAY);
}

/* --- made */

/* A prompt whose first chunk runs still has its place in the queue. */
static int64_t n_begun(const ClusterView *view, const Instance *instance) {
  int64_t n = instance->n_started;
  for (size_t i = 0; i < instance->n_chunks; i++) {
    const Request *request = &view->requests[instance->chunks[i]];
    n += request->state == REQUEST_PREFILLS && request->prefilled_tokens == 0;
  }
  return n;
}

static InstanceReport report_of(const ClusterView *view, InstanceIx m) {
  const Instance *instance = &view->instances[m];
  column_at(view->columns.kv_blocks, m); // what its run has taken and cached since is booked
  return (InstanceReport){.n_waiting = instance->prefill_queue.count - n_begun(view, instance) +
                                       instance->inbound.count,
                          .used_blocks = instance->kv_blocks - instance->free_blocks,
                          .kv_blocks = instance->kv_blocks};
}

Reports *reports_new(const ReportOptions *options, bool of_caches, const ClusterView *view,
                     Arena *arena) {
  Reports *self = ARENA_NEW(arena, Reports);
  *self = (Reports){.options = *options,
                    .of_caches = of_caches,
                    .arena = arena,
                    .view = view,
                    .known = ARENA_ARRAY(arena, InstanceReport, view->n_instances),
                    .cached = ARENA_ARRAY(arena, KeyMap, view->n_instances),
                    .made_at = -1};
  for (uint32_t k = 0; k < view->n_members; k++) {
    const InstanceIx m = view->members[k];
    self->known[m] = report_of(view, m);
    if (!of_caches || options->interval == 0) continue;
    PrefixCache *cache = view->instances[m].cache;
    if (!cache) continue;
    cache->tells_changes = true;
    for (size_t i = 0; i < cache->n_slots; i++) // it may be warm
      if (cache->slots[i].key != 0) key_map_put(&self->cached[m], cache->slots[i].key, arena);
  }
  return self;
}

/* The report behind those under way. */
static Report *next_report(Reports *self) {
  const uint32_t n = self->view->n_instances;
  if (self->n == self->n_reserved) {
    const size_t more = self->n_reserved ? 2 * self->n_reserved : 2;
    Report *ring = ARENA_ARRAY(self->arena, Report, more);
    for (size_t i = 0; i < self->n; i++)
      ring[i] = self->pending[(self->first + i) % self->n_reserved];
    for (size_t i = self->n; i < more; i++)
      ring[i] = (Report){.loads = ARENA_ARRAY(self->arena, InstanceReport, n),
                         .ends = ARENA_ARRAY(self->arena, size_t, n)};
    self->pending = ring;
    self->first = 0;
    self->n_reserved = more;
  }
  return &self->pending[(self->first + self->n++) % self->n_reserved];
}

static void take_changes(Reports *self, Report *report, PrefixCache *cache) {
  ARENA_RESERVE(self->arena, report->changes, report->changes_capacity,
                report->n_changes + cache->n_changes);
  if (cache->n_changes > 0)
    memcpy(report->changes + report->n_changes, cache->changes,
           cache->n_changes * sizeof *cache->changes);
  report->n_changes += cache->n_changes;
  cache->n_changes = 0;
}

void reports_make(Reports *self) {
  const ClusterView *view = self->view;
  Report *report = next_report(self);
  report->at = self->made_at = view->now;
  report->n_changes = 0;
  for (uint32_t k = 0; k < view->n_members; k++) {
    const InstanceIx m = view->members[k];
    report->loads[m] = report_of(view, m);
    PrefixCache *cache = view->instances[m].cache;
    if (self->of_caches && cache) take_changes(self, report, cache);
    report->ends[m] = report->n_changes;
  }
}

/* --- known */

static void know(Reports *self, const Report *report) {
  size_t i = 0;
  for (uint32_t k = 0; k < self->view->n_members; k++) {
    const InstanceIx m = self->view->members[k];
    self->known[m] = report->loads[m];
    for (; i < report->ends[m]; i++)
      if (report->changes[i].cached)
        key_map_put(&self->cached[m], report->changes[i].key, self->arena);
      else
        key_map_remove(&self->cached[m], report->changes[i].key);
  }
}

void reports_see(Reports *self) {
  const ClusterView *view = self->view;
  if (self->options.interval == 0)
    for (uint32_t k = 0; k < view->n_members; k++)
      self->known[view->members[k]] = report_of(view, view->members[k]);
  while (self->n > 0 && self->pending[self->first].at <= view->now - self->options.delay) {
    know(self, &self->pending[self->first]);
    self->first = (self->first + 1) % self->n_reserved;
    self->n--;
  }
}

int64_t reports_match(const Reports *self, InstanceIx m, PromptKeys *keys, int64_t n) {
  assert(self->of_caches);
  const PrefixCache *cache = self->view->instances[m].cache;
  const Radix *radix = self->view->instances[m].radix;
  const int64_t block_size = self->view->instances[m].pool->block_size;
  if (radix) {
    report_of(self->view, m); // which brings it up to now
    return radix_peek(radix, keys->content, n * block_size) / block_size;
  }
  if (!cache) return 0;
  const bool is_exact = self->options.interval == 0;
  int64_t i = 0;
  for (; i < n; i++) {
    const uint64_t key = prompt_key(keys, block_size, i);
    if (is_exact ? !prefix_cache_has(cache, key) : !key_map_find(&self->cached[m], key)) break;
  }
  return i;
}
