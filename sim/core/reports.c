/* See reports.h. */
#include "sim/core/reports.h"
#include <assert.h>
#include <string.h>

enum { MOST_UNDER_WAY = 100 };

int reports_check(const ReportOptions *options, const char *key, const Node *map, Place owner,
                  Diag *diag) {
  const Node *delay = map ? node_find(map, key) : NULL;
  const Place at = delay ? delay->at : owner;
  if (options->delay > 0 && options->interval == 0) {
    diag_error(diag, at, "'%s' applies to reports, and without an interval there are none", key);
    diag_hint(diag, "a short interval, such as 1 ms, comes close to reporting each event at once");
    return -1;
  }
  if (options->delay / MOST_UNDER_WAY <= options->interval) return 0;
  return diag_error(diag, at, "'%s' must be at most %d intervals", key, MOST_UNDER_WAY);
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

/* That of an instance that keeps a cache. */
static CacheGroup *group_of(Reports *self, const Instance *instance) {
  const int64_t block_size = instance->pool->block_size;
  const bool of_layers = instance->kv_groups != NULL;
  for (CacheGroup *group = self->groups; group; group = group->next)
    if (group->block_size == block_size && !group->index == !instance->radix &&
        group->of_layers == of_layers)
      return group;
  CacheGroup *group = ARENA_NEW(self->arena, CacheGroup);
  *group = (CacheGroup){.block_size = block_size,
                        .of_layers = of_layers,
                        .members = ARENA_ARRAY(self->arena, InstanceIx, self->view->n_members),
                        .next = self->groups};
  if (instance->radix) {
    group->index = ARENA_NEW(self->arena, RadixIndex);
    radix_index_init(group->index, self->view->n_instances, block_size, self->arena);
  }
  return self->groups = group;
}

/* A block whose name tells more tokens than it has is another one for who asks by its own. */
static void know_changes(Reports *self, InstanceIx m, const CacheChange *changes, size_t n) {
  if (n == 0) return;
  const Instance *instance = &self->view->instances[m];
  const int64_t block_size = instance->pool->block_size, behind = instance->cache->lookahead;
  for (size_t i = 0; i < n && behind % block_size == 0; i++) {
    const CacheChange *change = &changes[i];
    const int64_t from = change->first + behind / block_size, to = from + change->n;
    (change->cached ? segment_holders_add : segment_holders_remove)(&self->cached, m, change->id,
                                                                    from, to);
  }
}

static void join_group(Reports *self, const Instance *instance) {
  CacheGroup *group = group_of(self, instance);
  group->members[group->n_members++] = instance->ix;
  if (group->index) {
    radix_join_index(instance->radix, group->index, instance->ix);
    return;
  }
  prefix_cache_tell_changes(instance->cache); // it may be warm
  know_changes(self, instance->ix, instance->cache->changes, instance->cache->n_changes);
  instance->cache->n_changes = 0;
}

/* In one order. */
static void columns_of(const ClusterColumns *of, Column *ret_columns[REPORTED]) {
  Column *const columns[REPORTED] = {of->pending_tokens, of->n_assigned, of->n_present,
                                     of->kv_blocks, of->n_heavy};
  memcpy(ret_columns, columns, sizeof columns);
}

void reports_figures(const Reports *self, InstanceIx m, int64_t *ret_figures) {
  Column *columns[REPORTED];
  columns_of(&self->view->columns, columns);
  for (int i = 0; i < REPORTED; i++)
    ret_figures[i] = column_at(columns[i], m);
}

static void know_figures(Reports *self, InstanceIx m, const int64_t *figures) {
  Column *columns[REPORTED];
  columns_of(&self->seen.columns, columns);
  for (int i = 0; i < REPORTED; i++)
    column_set(columns[i], m, figures[i]);
}

void reports_tell_columns(Reports *self, bool leaves_sent) {
  const ClusterView *view = self->view;
  Columns *all = view->columns.all;
  self->of_columns = true;
  self->leaves_sent = leaves_sent;
  self->seen.columns = (ClusterColumns){.all = all,
                                        .pending_tokens = column_new(all),
                                        .n_assigned = column_new(all),
                                        .n_present = column_new(all),
                                        .kv_blocks = column_new(all),
                                        .n_heavy = column_new(all)};
  for (uint32_t k = 0; k < view->n_members; k++) {
    int64_t figures[REPORTED];
    reports_figures(self, view->members[k], figures);
    know_figures(self, view->members[k], figures);
  }
}

const ClusterView *reports_view(Reports *self) {
  const ClusterColumns columns = self->seen.columns;
  self->seen = *self->view;
  self->seen.columns = columns;
  return &self->seen;
}

void reports_sent(Reports *self, InstanceIx m, const int64_t *before) {
  if (self->leaves_sent) return;
  int64_t now[REPORTED];
  Column *columns[REPORTED];
  reports_figures(self, m, now);
  columns_of(&self->seen.columns, columns);
  for (int i = 0; i < REPORTED; i++) {
    const int64_t more = now[i] - before[i];
    column_add(columns[i], m, more);
    for (size_t k = 0; k < self->n; k++)
      self->pending[(self->first + k) % self->n_reserved].figures[REPORTED * m + i] += more;
  }
}

Reports *reports_new(const ReportOptions *options, bool of_caches, const ClusterView *view,
                     Arena *arena) {
  Reports *self = ARENA_NEW(arena, Reports);
  *self = (Reports){.options = *options,
                    .of_caches = of_caches,
                    .arena = arena,
                    .view = view,
                    .known = ARENA_ARRAY(arena, InstanceReport, view->n_instances),
                    .made_at = -1,
                    .n_known = 1};
  self->runs = ARENA_ARRAY(arena, int32_t, view->n_instances);
  segment_holders_init(&self->cached, view->n_instances, arena);
  for (uint32_t k = 0; k < view->n_members; k++) {
    const InstanceIx m = view->members[k];
    self->known[m] = report_of(view, m);
    const Instance *instance = &view->instances[m];
    if (of_caches && (instance->cache || instance->radix)) join_group(self, instance);
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
      ring[i] = (Report){
          .loads = ARENA_ARRAY(self->arena, InstanceReport, n),
          .ends = ARENA_ARRAY(self->arena, size_t, n),
          .figures = self->of_columns ? ARENA_ARRAY(self->arena, int64_t, REPORTED * n) : NULL};
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
    if (self->of_columns) reports_figures(self, m, &report->figures[REPORTED * m]);
    PrefixCache *cache = view->instances[m].cache;
    if (self->of_caches && cache) take_changes(self, report, cache);
    report->ends[m] = report->n_changes;
  }
}

/* --- known */

static void know(Reports *self, const Report *report) {
  size_t begin = 0;
  self->n_known++;
  for (uint32_t k = 0; k < self->view->n_members; k++) {
    const InstanceIx m = self->view->members[k];
    self->known[m] = report->loads[m];
    if (self->of_columns) know_figures(self, m, &report->figures[REPORTED * m]);
    know_changes(self, m, report->changes + begin, report->ends[m] - begin);
    begin = report->ends[m];
  }
}

/* What its cache holds is seen as it is. */
static void see_cache(Reports *self, InstanceIx m) {
  PrefixCache *cache = self->view->instances[m].cache;
  column_at(self->view->columns.kv_blocks, m);
  if (cache->n_changes == 0) return;
  know_changes(self, m, cache->changes, cache->n_changes);
  cache->n_changes = 0;
}

static bool is_watched(const Reports *self, const CacheGroup *group) {
  return self->watch && !group->index && !group->of_layers;
}

void reports_see(Reports *self) {
  const ClusterView *view = self->view;
  for (const CacheGroup *group = self->groups; group; group = group->next)
    for (uint32_t i = 0; i < group->n_members && !group->index && self->options.interval == 0 &&
                         !is_watched(self, group);
         i++)
      see_cache(self, group->members[i]);
  while (self->n > 0 && self->pending[self->first].at <= view->now - self->options.delay) {
    know(self, &self->pending[self->first]);
    self->first = (self->first + 1) % self->n_reserved;
    self->n--;
  }
}

/* --- watched */

bool reports_can_watch(const Reports *self) {
  for (const CacheGroup *group = self->groups; group; group = group->next)
    if (self->options.interval == 0 && !group->index && !group->of_layers) return true;
  return false;
}

void reports_watch(Reports *self, CacheWatch *watch) {
  self->watch = watch;
  for (const CacheGroup *group = self->groups; group; group = group->next)
    for (uint32_t i = 0; i < group->n_members && is_watched(self, group); i++)
      cache_watch_join(watch, &self->view->instances[group->members[i]]);
}

/* Those whose runs may take blocks of a segment. */
static void see_threatened(Reports *self, uint64_t segment) {
  const Holders *threatened = &self->watch->threatened;
  const uint32_t *set = key_map_find(&threatened->keys, segment);
  for (uint32_t w = 0; set && w < threatened->sets.n_words; w++)
    for (uint64_t bits = instance_set_word(&threatened->sets, *set, w); bits; bits &= bits - 1)
      see_cache(self, w * INSTANCES_PER_WORD + (uint32_t)__builtin_ctzll(bits));
}

/* Brings those of a group up to now whose runs change what a prompt finds. */
static void see_needed(Reports *self, const CacheGroup *group, const Content *content, int64_t n) {
  CacheWatch *watch = self->watch;
  for (InstanceIx m; (m = cache_watch_next(watch)) != INSTANCE_NONE;) {
    const Instance *instance = &self->view->instances[m];
    know_changes(self, m, instance->cache->changes, instance->cache->n_changes);
    instance->cache->n_changes = 0;
    cache_watch_expect(watch, instance);
  }
  if (cache_watch_is_written(watch, content, group->block_size, n)) {
    for (uint32_t i = 0; i < group->n_members; i++)
      see_cache(self, group->members[i]);
    return;
  }
  SegmentPart part = {0};
  while (watch->threatened.keys.n_keys > 0 &&
         segment_part_next(content, group->block_size, n, &part))
    see_threatened(self, part.segment);
}

InstanceReport reports_load(const Reports *self, InstanceIx m) {
  return self->options.interval == 0 ? report_of(self->view, m) : self->known[m];
}

static int64_t match_radix(const Reports *self, InstanceIx m, const PromptKeys *keys, int64_t n) {
  const int64_t block_size = self->view->instances[m].pool->block_size;
  column_at(self->view->columns.kv_blocks, m); // which brings it up to now
  return radix_peek(self->view->instances[m].radix, keys->content, n * block_size) / block_size;
}

int64_t reports_match(const Reports *self, InstanceIx m, PromptKeys *keys, int64_t n) {
  assert(self->of_caches);
  const int64_t block_size = self->view->instances[m].pool->block_size;
  if (self->view->instances[m].radix) return match_radix(self, m, keys, n);
  if (!self->view->instances[m].cache) return 0;
  return segment_holders_match_one(&self->cached, m, keys->content, block_size, n);
}

/* Brings a tree up to now; whether the rest of its run may evict: each iteration finds a page free
 * for each sequence. */
static bool look_at_radix(void *reports, InstanceIx m) {
  const ClusterView *view = ((const Reports *)reports)->view;
  const Instance *instance = &view->instances[m];
  column_at(view->columns.kv_blocks, m);
  if (instance->activity != ACTIVITY_DECODE) return false;
  const int64_t left = instance->run.limit - (instance->run.booked - instance->lag);
  const int64_t growth = left > 0 ? batch_growth(&instance->batch, left) : 0;
  return instance->radix->n_free - growth < (int64_t)instance->batch.n_seqs;
}

static const int32_t *match_group(Reports *self, const CacheGroup *group, PromptKeys *keys,
                                  int64_t n) {
  if (group->index) return radix_index_match(group->index, keys->content, n, look_at_radix, self);
  if (is_watched(self, group)) see_needed(self, group, keys->content, n);
  return segment_holders_match(&self->cached, keys->content, group->block_size, n);
}

const int32_t *reports_match_all(Reports *self, PromptKeys *keys, int64_t prompt_tokens) {
  assert(self->of_caches);
  for (const CacheGroup *group = self->groups; group; group = group->next) {
    const int32_t *runs = match_group(self, group, keys, prompt_tokens / group->block_size);
    if (group == self->groups && !group->next) return runs;
    for (uint32_t i = 0; i < group->n_members; i++)
      self->runs[group->members[i]] = runs[group->members[i]];
  }
  return self->runs;
}
