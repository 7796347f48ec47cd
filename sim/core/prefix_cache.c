/* See prefix_cache.h. */
#include "sim/core/prefix_cache.h"
#include <assert.h>

void prefix_cache_init(PrefixCache *self, int64_t n_blocks, Arena *arena) {
  assert(0 < n_blocks && n_blocks < BLOCK_BLANK);
  *self = (PrefixCache){.arena = arena,
                        .runs = {.arena = arena, .unused = BLOCK_NONE},
                        .n_blocks = n_blocks,
                        .n_free = n_blocks,
                        .n_blank = n_blocks,
                        .oldest = BLOCK_NONE,
                        .newest = BLOCK_NONE};
}

static int64_t lesser(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* --- what is told */

static uint64_t key_of(const PrefixCache *self, const CacheRun *run, int64_t i) {
  return content_key_of(run->id, (i + 1) * self->block_size + self->lookahead);
}

static void tell(PrefixCache *self, const CacheRun *run, int64_t from, int64_t until, bool cached) {
  if (!self->tells_changes) return;
  prefix_cache_stir(self);
  ARENA_RESERVE(self->arena, self->changes, self->changes_capacity, self->n_changes + 1);
  self->changes[self->n_changes++] =
      (CacheChange){run->id, (int32_t)from, (int32_t)(until - from), cached};
}

/* Blocks of a run are found from now on that were not. */
static void tell_found(PrefixCache *self, const CacheRun *run, int64_t from, int64_t until) {
  self->n_keys += until - from;
  tell(self, run, from, until, true);
}

/* Blocks of a run are found no more, from the last to the first. */
static void tell_lost(PrefixCache *self, const CacheRun *run, int64_t from, int64_t until) {
  self->n_keys -= until - from;
  tell(self, run, from, until, false);
  for (int64_t i = until - 1; self->keeps_evicted && i >= from; i--) {
    ARENA_RESERVE(self->arena, self->evicted, self->evicted_capacity, self->n_evicted + 1);
    self->evicted[self->n_evicted++] = key_of(self, run, i);
  }
}

/* --- what is registered */

/* The last `n` blocks of a run are registered no more. */
static void forget_blocks(PrefixCache *self, BlockIx ix, int64_t n) {
  const CacheRun *run = &self->runs.items[ix];
  const int64_t end = cache_run_end(run);
  self->n_evictions += n;
  const bool alone = run->previous_same == BLOCK_NONE && run->next_same == BLOCK_NONE;
  const BlockIx first = alone ? BLOCK_NONE : cache_runs_first(&self->runs, ix);
  if (!cache_runs_overlap(&self->runs, first, ix, ix, end - n, end, 0)) {
    tell_lost(self, run, end - n, end);
  } else {
    int64_t until;
    for (int64_t i = end - 1; i >= end - n; i--)
      if (cache_runs_find(&self->runs, first, ix, i, &until) == BLOCK_NONE)
        tell_lost(self, run, i, i + 1);
  }
  self->runs.items[ix].n -= (int32_t)n;
}

/* --- the free queue */

static void leave_queue(PrefixCache *self, const CacheRun *run) {
  if (run->previous == BLOCK_NONE)
    self->oldest = run->next;
  else
    self->runs.items[run->previous].next = run->next;
  if (run->next == BLOCK_NONE)
    self->newest = run->previous;
  else
    self->runs.items[run->next].previous = run->previous;
}

/* The newest free run, and the one before it where that is the blocks behind its own, are one. Of
 * those in other runs as well the one that was registered first would not be known. */
static void join_newest(PrefixCache *self) {
  const BlockIx ix = self->newest, rest = self->runs.items[ix].previous;
  if (rest == BLOCK_NONE) return;
  CacheRun *run = &self->runs.items[ix];
  const CacheRun *behind = &self->runs.items[rest];
  if (run->id != behind->id || behind->first != cache_run_end(run)) return;
  const bool two =
      run->previous_same == BLOCK_NONE && run->next_same == rest && behind->next_same == BLOCK_NONE;
  if (!two && cache_runs_overlap(&self->runs, cache_runs_first(&self->runs, ix), ix, rest,
                                 run->first, cache_run_end(behind), 0))
    return;
  run->n += behind->n;
  leave_queue(self, behind);
  cache_runs_leave(&self->runs, rest);
  cache_runs_end(&self->runs, rest);
}

static void enter_queue(PrefixCache *self, BlockIx ix) {
  CacheRun *run = &self->runs.items[ix];
  run->next = BLOCK_NONE;
  run->previous = self->newest;
  if (self->newest == BLOCK_NONE)
    self->oldest = ix;
  else
    self->runs.items[self->newest].next = ix;
  self->newest = ix;
  join_newest(self);
}

/* At most `most` blocks of the oldest free run are free and registered no more; how many. */
static int64_t evict(PrefixCache *self, int64_t most) {
  const BlockIx ix = self->oldest;
  const int64_t n = lesser(self->runs.items[ix].n, most);
  forget_blocks(self, ix, n);
  if (self->runs.items[ix].n > 0) return n;
  leave_queue(self, &self->runs.items[ix]);
  cache_runs_leave(&self->runs, ix);
  cache_runs_end(&self->runs, ix);
  return n;
}

/* `n` <= n_free blocks are free no more. */
static void take_free(PrefixCache *self, int64_t n) {
  const int64_t blank = lesser(n, self->n_blank);
  prefix_cache_stir(self);
  self->n_free -= n;
  self->n_blank -= blank;
  for (n -= blank; n > 0;)
    n -= evict(self, n);
}

void prefix_cache_forget(PrefixCache *self) {
  const size_t n_evicted = self->n_evicted; // these are not taken for others
  while (self->oldest != BLOCK_NONE)
    self->n_blank += evict(self, INT64_MAX);
  self->n_evicted = n_evicted;
}

/* --- runs as such */

bool prefix_cache_has(const PrefixCache *self, uint64_t id, int64_t i) {
  int64_t until;
  return cache_runs_find(&self->runs, cache_runs_list(&self->runs, id), BLOCK_NONE, i, &until) !=
         BLOCK_NONE;
}

static void hold(PrefixCache *self, BlockIx ix) {
  CacheRun *run = &self->runs.items[ix];
  if (run->references++ > 0) return;
  prefix_cache_stir(self);
  leave_queue(self, run);
  self->n_free -= run->n;
}

static void drop(PrefixCache *self, BlockIx ix) {
  CacheRun *run = &self->runs.items[ix];
  assert(run->references > 0);
  if (--run->references > 0) return;
  self->n_free += run->n;
  enter_queue(self, ix);
}

/* Those of blocks from `from` on up to `until`, which a run of this id is about to have, that are
 * not found. */
static void tell_new(PrefixCache *self, const CacheRun *run, int64_t from, int64_t until) {
  const BlockIx first = cache_runs_list(&self->runs, run->id);
  for (int64_t i = from, end; i < until; i = end) {
    const BlockIx found = cache_runs_find(&self->runs, first, BLOCK_NONE, i, &end);
    end = lesser(end, until);
    if (found == BLOCK_NONE) tell_found(self, run, i, end);
  }
}

/* A run loses its blocks from i on to another one, which is returned. */
static BlockIx cut(PrefixCache *self, BlockIx ix, int64_t i) {
  const BlockIx rest = cache_runs_begin(&self->runs, self->runs.items[ix]);
  CacheRun *run = &self->runs.items[ix], *behind = &self->runs.items[rest];
  behind->first = (int32_t)i;
  behind->n = (int32_t)(cache_run_end(run) - i);
  run->n -= behind->n;
  run->rest = rest;
  cache_runs_link(&self->runs, rest, ix);
  if (run->references > 0) return rest;
  behind->next = ix;
  run->previous = rest;
  if (behind->previous == BLOCK_NONE)
    self->oldest = rest;
  else
    self->runs.items[behind->previous].next = rest;
  return rest;
}

/* --- what requests do */

/* The blocks of a content from i on that end in one segment. */
typedef struct Part {
  uint64_t id;
  int64_t until;
} Part;

/* The name of a segment's blocks. */
static inline uint64_t id_of(uint64_t segment, uint64_t group) {
  const uint64_t id =
      group == 0 ? segment : hash_fold(hash_mix(segment ^ UINT64_C(0x67726f7570)), group);
  return id + (id == 0);
}

static inline Part part_of(const PrefixCache *self, BlockNames names, int64_t i) {
  const int64_t last = (i + 1) * names.block_size + self->lookahead - 1;
  const TraceSegment *segment = &names.content->segments[content_segment(names.content, last)];
  return (Part){id_of(segment->id, names.group),
                (segment->end - self->lookahead) / names.block_size};
}

static void add_run(PrefixCache *self, HeldBlocks *held, BlockIx ix, int64_t n) {
  ARENA_RESERVE(self->arena, held->runs, held->capacity, (size_t)held->n_runs + 1);
  held->runs[held->n_runs++] = (HeldRun){ix, (int32_t)n};
}

int64_t prefix_cache_found(const PrefixCache *self, BlockNames names, int64_t from, int64_t most,
                           int64_t *ret_unheld) {
  int64_t i = from, until;
  *ret_unheld = 0;
  while (i < most && self->runs.n_ids > 0) {
    const Part part = part_of(self, names, i);
    const int64_t end = lesser(part.until, most);
    BlockIx at = cache_runs_list(&self->runs, part.id);
    for (; i < end; i = lesser(until, end)) {
      while (at != BLOCK_NONE && cache_run_end(&self->runs.items[at]) <= i)
        at = self->runs.items[at].next_same;
      const BlockIx found = cache_runs_find(&self->runs, at, BLOCK_NONE, i, &until);
      if (found == BLOCK_NONE) return i;
      if (self->runs.items[found].references == 0) *ret_unheld += lesser(until, end) - i;
    }
  }
  return i;
}

int64_t prefix_cache_match(const PrefixCache *self, const Content *content, int64_t block_size,
                           int64_t most, int64_t *ret_unheld) {
  return prefix_cache_found(self, (BlockNames){content, block_size, 0}, 0, most, ret_unheld);
}

bool prefix_cache_finds(const PrefixCache *self, BlockNames names, int64_t i, int64_t *ret_from) {
  const int64_t last = (i + 1) * names.block_size + self->lookahead - 1;
  const int32_t s = content_segment(names.content, last);
  const TraceSegment *segments = names.content->segments;
  const BlockIx first = cache_runs_list(&self->runs, id_of(segments[s].id, names.group));
  int64_t until;
  *ret_from = i;
  if (first != BLOCK_NONE)
    return cache_runs_find(&self->runs, first, BLOCK_NONE, i, &until) != BLOCK_NONE;
  const int64_t before = s > 0 ? segments[s - 1].end - self->lookahead : 0;
  *ret_from = before > 0 ? before / names.block_size : 0;
  return false;
}

void prefix_cache_hold(PrefixCache *self, HeldBlocks *held, BlockNames names, int64_t from,
                       int64_t until) {
  int64_t end;
  for (int64_t i = from; i < until; i = end) {
    const Part part = part_of(self, names, i);
    BlockIx ix =
        cache_runs_find(&self->runs, cache_runs_list(&self->runs, part.id), BLOCK_NONE, i, &end);
    assert(ix != BLOCK_NONE);
    end = lesser(end, lesser(part.until, until));
    if (self->runs.items[ix].first < i) ix = cut(self, ix, i);
    if (end < cache_run_end(&self->runs.items[ix])) cut(self, ix, end);
    hold(self, ix);
    add_run(self, held, ix, end - i);
  }
}

void prefix_cache_hit(PrefixCache *self, HeldBlocks *held, const Content *content,
                      int64_t block_size, int64_t n) {
  assert(held->n == 0);
  prefix_cache_hold(self, held, (BlockNames){content, block_size, 0}, 0, n);
  held->n = held->n_registered = (int32_t)n;
}

void prefix_cache_take(PrefixCache *self, HeldBlocks *held, int64_t n) {
  assert(n <= self->n_free);
  take_free(self, n);
  held->n += (int32_t)n;
}

/* The run with the last of its registered blocks, if there is nothing behind it. */
static BlockIx last_run(const PrefixCache *self, const HeldBlocks *held) {
  if (held->n_runs == 0) return BLOCK_NONE;
  const HeldRun *last = &held->runs[held->n_runs - 1];
  BlockIx ix = last->run;
  if (ix >= BLOCK_BLANK) return BLOCK_NONE;
  for (int64_t n = self->runs.items[ix].n; n < last->n; n += self->runs.items[ix].n)
    ix = self->runs.items[ix].rest;
  return ix;
}

/* Whether the run can have the blocks behind its own, too: one request holds it, and whoever has
 * those registered them before it began. */
static bool can_extend(const PrefixCache *self, BlockIx ix, uint64_t id, int64_t from,
                       int64_t until) {
  if (ix == BLOCK_NONE) return false;
  const CacheRun *run = &self->runs.items[ix];
  if (run->id != id || run->references > 1) return false;
  assert(cache_run_end(run) == from);
  const bool alone = run->previous_same == BLOCK_NONE && run->next_same == BLOCK_NONE;
  return alone || !cache_runs_overlap(&self->runs, cache_runs_first(&self->runs, ix), ix, ix, from,
                                      until, run->registered);
}

/* The next blocks of a request, all of one segment, are registered. */
static void register_part(PrefixCache *self, HeldBlocks *held, uint64_t id, int64_t from,
                          int64_t until) {
  BlockIx ix = last_run(self, held);
  if (can_extend(self, ix, id, from, until)) {
    CacheRun *run = &self->runs.items[ix];
    if (run->previous_same == BLOCK_NONE && run->next_same == BLOCK_NONE)
      tell_found(self, run, from, until);
    else
      tell_new(self, run, from, until);
    run->n += (int32_t)(until - from);
    held->runs[held->n_runs - 1].n += (int32_t)(until - from);
  } else {
    const int32_t n = (int32_t)(until - from);
    ix = cache_runs_begin(&self->runs,
                          (CacheRun){.id = id, .first = (int32_t)from, .n = n, .references = 1});
    tell_new(self, &self->runs.items[ix], from, until);
    cache_runs_join(&self->runs, ix);
    add_run(self, held, ix, until - from);
  }
}

void prefix_cache_name(PrefixCache *self, HeldBlocks *held, BlockNames names, int64_t from,
                       int64_t until) {
  while (from < until) {
    const Part part = part_of(self, names, from);
    const int64_t end = lesser(part.until, until);
    register_part(self, held, part.id, from, end);
    from = end;
  }
}

void prefix_cache_register(PrefixCache *self, HeldBlocks *held, const Content *content,
                           int64_t block_size, int64_t tokens) {
  const int64_t full = tokens / block_size;
  assert(full <= held->n);
  self->block_size = block_size;
  while (held->n_registered < full) {
    const Part part = part_of(self, (BlockNames){content, block_size, 0}, held->n_registered);
    const int64_t until = lesser(part.until, full);
    register_part(self, held, part.id, held->n_registered, until);
    held->n_registered = (int32_t)until;
  }
}

/* What is held is a run and those cut off from it. */
void prefix_cache_drop(PrefixCache *self, HeldRun *held, int64_t n) {
  size_t n_pieces = 0;
  BlockIx ix = held->run;
  for (int64_t left = n; left > 0; ix = self->runs.items[ix].rest) {
    ARENA_RESERVE(self->arena, self->pieces, self->pieces_capacity, n_pieces + 1);
    self->pieces[n_pieces++] = ix;
    if (self->runs.items[ix].n > left) cut(self, ix, self->runs.items[ix].first + left);
    left -= self->runs.items[ix].n;
  }
  held->run = ix;
  held->n -= (int32_t)n;
  while (n_pieces > 0)
    drop(self, self->pieces[--n_pieces]);
}

void prefix_cache_drop_blank(PrefixCache *self, int64_t n) {
  self->n_blank += n;
  self->n_free += n;
}

void prefix_cache_release(PrefixCache *self, HeldBlocks *held) {
  prefix_cache_drop_blank(self, held->n - held->n_registered);
  while (held->n_runs > 0) {
    HeldRun *last = &held->runs[--held->n_runs];
    prefix_cache_drop(self, last, last->n);
  }
  held->n = held->n_registered = 0;
}

/* --- from run to run, and who listens */

/* Calls for each stretch of blocks of a run that are found in it, from its end. */
typedef void (*Visit)(void *context, const CacheRun *run, int64_t from, int64_t until);

static void visit_found(const PrefixCache *self, BlockIx ix, Visit visit, void *context) {
  const CacheRun *run = &self->runs.items[ix];
  const BlockIx first = cache_runs_first(&self->runs, ix);
  int64_t until = cache_run_end(run), i = until, end;
  while (i-- > run->first) {
    if (cache_runs_find(&self->runs, first, BLOCK_NONE, i, &end) == ix) continue;
    if (i + 1 < until) visit(context, run, i + 1, until);
    until = i;
  }
  if (run->first < until) visit(context, run, run->first, until);
}

/* The free ones, and then the others. */
static void visit_all(const PrefixCache *self, Visit visit, void *context) {
  for (BlockIx ix = self->oldest; ix != BLOCK_NONE; ix = self->runs.items[ix].next)
    visit_found(self, ix, visit, context);
  for (BlockIx ix = 0; ix < self->runs.n_used; ix++)
    if (self->runs.items[ix].references > 0 && self->runs.items[ix].id != 0)
      visit_found(self, ix, visit, context);
}

static void tell_cached(void *context, const CacheRun *run, int64_t from, int64_t until) {
  tell(context, run, from, until, true);
}

void prefix_cache_tell_changes(PrefixCache *self) {
  if (self->tells_changes) return;
  self->tells_changes = true;
  visit_all(self, tell_cached, self);
}

typedef struct Saving {
  SavedCache *saved;
  Arena *arena;
} Saving;

static void save_run(void *context, const CacheRun *run, int64_t from, int64_t until) {
  const Saving *self = context;
  SavedCache *saved = self->saved;
  ARENA_RESERVE(self->arena, saved->runs, saved->capacity, (size_t)saved->n + 1);
  saved->runs[saved->n++] = (SavedRun){run->id, (int32_t)from, (int32_t)(until - from)};
}

void prefix_cache_save(const PrefixCache *self, SavedCache *ret_saved, Arena *arena) {
  *ret_saved = (SavedCache){.given = true};
  visit_all(self, save_run, &(Saving){ret_saved, arena});
}

void prefix_cache_load(PrefixCache *self, const SavedCache *saved, int64_t block_size) {
  assert(self->runs.n_used == 0);
  self->block_size = block_size;
  int64_t passed_over = -self->n_blocks;
  for (int64_t i = 0; i < saved->n; i++)
    passed_over += saved->runs[i].n;
  for (int64_t i = 0; i < saved->n; i++) {
    const SavedRun *run = &saved->runs[i];
    const int64_t n = run->n - (passed_over > 0 ? lesser(passed_over, run->n) : 0);
    passed_over -= run->n - n;
    if (n == 0) continue;
    self->n_blank -= n;
    const BlockIx ix = cache_runs_begin(
        &self->runs, (CacheRun){.id = run->id, .first = run->first, .n = (int32_t)n});
    tell_new(self, &self->runs.items[ix], run->first, run->first + n);
    cache_runs_join(&self->runs, ix);
    enter_queue(self, ix);
  }
}

/* --- audit */

/* The queue; how many blocks are in it. */
static int64_t check_queue(const PrefixCache *self) {
  int64_t n = 0;
  BlockIx previous = BLOCK_NONE;
  for (BlockIx ix = self->oldest; ix != BLOCK_NONE; ix = self->runs.items[ix].next) {
    const CacheRun *run = &self->runs.items[ix];
    assert(run->id != 0 && run->previous == previous && run->references == 0);
    n += run->n;
    previous = ix;
  }
  assert(self->newest == previous);
  return n;
}

void prefix_cache_audit(const PrefixCache *self, int64_t n_references) {
  int64_t n_held = 0;
  assert(self->n_free == self->n_blank + check_queue(self));
  for (BlockIx ix = 0; ix < self->runs.n_used; ix++) {
    const CacheRun *run = &self->runs.items[ix];
    assert(run->references >= 0);
    n_held += run->references > 0 ? run->n : 0;
    n_references -= (int64_t)run->references * run->n;
  }
  assert(n_references >= 0); // of blocks that are a number
  assert(self->n_free + n_held + n_references == self->n_blocks);
  assert(cache_runs_audit(&self->runs) == self->n_keys);
}
