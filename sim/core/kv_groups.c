/* See kv_groups.h. */
#include "sim/core/kv_groups.h"
#include <assert.h>

static int64_t lesser(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t greater(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* Blocks that `tokens` fill or begin. */
static int64_t blocks_for(const KvGroup *group, int64_t tokens) {
  return tokens > 0 ? (tokens - 1) / group->block_size + 1 : 0;
}

static int64_t common_multiple(int64_t a, int64_t b) {
  int64_t x = a, y = b;
  while (y > 0) {
    const int64_t rest = x % y;
    x = y;
    y = rest;
  }
  return a / x * b;
}

/* --- groups */

/* Without a prefix cache a state has one block however many tokens it is of. */
static KvGroup group_of(const KvGroupSpec *spec, const KvGroupOptions *options) {
  KvGroup group = {.kind = spec->kind,
                   .block_size = spec->block_size,
                   .window = spec->window,
                   .most = INT64_MAX,
                   .admitted = INT64_MAX};
  if (spec->kind == KV_WINDOW) {
    const int64_t kept = lesser(spec->window - 1 + options->max_in_flight, options->max_model_len);
    group.most = group.admitted = blocks_for(&group, kept) + 1;
  } else if (spec->kind == KV_STATE) {
    group.spare = options->drafts;
    group.most = options->caches ? 2 + options->lag + group.spare : 1 + group.spare;
    if (!options->caches) group.block_size = INT32_MAX;
    if (!options->caches) group.kind = KV_FULL;
  }
  return group;
}

static bool is_like(const KvGroup *a, const KvGroup *b) {
  return a->kind == b->kind && a->block_size == b->block_size && a->window == b->window;
}

void kv_groups_init(KvGroups *self, const KvLayout *layout, const KvGroupOptions *options,
                    PrefixCache *pool, Arena *arena) {
  *self = (KvGroups){.pool = pool,
                     .options = *options,
                     .groups = ARENA_ARRAY(arena, KvGroup, layout->n_groups),
                     .n_groups = layout->n_groups,
                     .alignment = 1,
                     .found = ARENA_ARRAY(arena, FoundBlocks, layout->n_groups),
                     .arena = arena};
  for (int32_t g = 0; g < self->n_groups; g++) {
    KvGroup *group = &self->groups[g];
    *group = group_of(&layout->groups[g], options);
    while (!is_like(group, &self->groups[group->like]))
      group->like++;
    self->has_states |= group->kind == KV_STATE;
    self->n_narrow += group->kind != KV_FULL && group->like == g;
    if (options->caches) self->alignment = common_multiple(self->alignment, group->block_size);
  }
}

void kv_groups_decide(KvGroups *self) {
  self->n_fresh = 0;
}

/* --- what is found */

/* The key of block i of a group. That of the first with full attention is as if it were alone. */
static uint64_t key_of(const KvGroups *self, int32_t g, const Content *content, int64_t i) {
  const int64_t end = (i + 1) * self->groups[g].block_size + self->pool->lookahead;
  const uint64_t key = content_key(content, end);
  int32_t first = 0;
  while (first + 1 < self->n_groups && self->groups[first].kind != KV_FULL)
    first++;
  if (g == first) return key;
  const uint64_t own = hash_fold(hash_mix(key), (uint64_t)g);
  return own + (own == 0);
}

static BlockIx *found_at(KvGroups *self, int32_t g, int64_t i) {
  FoundBlocks *found = &self->found[g];
  ARENA_RESERVE(self->arena, found->blocks, found->capacity, (size_t)i + 1);
  return &found->blocks[i];
}

/* Blocks that are looked for or named together, so that what is known of them comes into the
 * processor's cache at once and not block by block. */
enum { FETCHED = 16 };

/* Blocks from i on up to `n`, of groups like `kind`, are about to be looked for. */
static void fetch_blocks(const KvGroups *self, int32_t kind, const Content *content, int64_t i,
                         int64_t n) {
  uint64_t keys[FETCHED];
  const int64_t end = lesser(i + FETCHED, n);
  for (int32_t g = kind; g < self->n_groups; g++) {
    if (self->groups[g].like != kind) continue;
    for (int64_t k = i; k < end; k++) {
      keys[k - i] = key_of(self, g, content, k);
      cache_runs_fetch(&self->pool->runs, keys[k - i]);
    }
    for (int64_t k = i; k < end; k++)
      cache_runs_fetch_first(&self->pool->runs, keys[k - i]);
  }
}

/* Whether block i is found in all groups like `kind`. */
static bool find_block(KvGroups *self, int32_t kind, const Content *content, int64_t i) {
  for (int32_t g = kind; g < self->n_groups; g++) {
    if (self->groups[g].like != kind) continue;
    const BlockIx ix = prefix_cache_find(self->pool, key_of(self, g, content, i));
    if (ix == BLOCK_NONE) return false;
    *found_at(self, g, i) = ix;
  }
  return true;
}

/* Of those groups `n` blocks are found, the first `n_null` of which are null. */
static void found_blocks(KvGroups *self, int32_t kind, int64_t n_null, int64_t n) {
  for (int32_t g = kind; g < self->n_groups; g++) {
    if (self->groups[g].like != kind) continue;
    for (int64_t i = 0; i < n_null; i++)
      *found_at(self, g, i) = BLOCK_NONE;
    self->found[g].n = (int32_t)n;
  }
}

/* The longest run of the first `n` blocks. */
static int64_t match_full(KvGroups *self, int32_t kind, const Content *content, int64_t n) {
  const int64_t block = self->groups[kind].block_size;
  int64_t i = 0;
  for (; i < n; i++) {
    if (i % FETCHED == 1) fetch_blocks(self, kind, content, i, n);
    if (!find_block(self, kind, content, i)) break;
  }
  const int64_t tokens = i * block / self->alignment * self->alignment;
  found_blocks(self, kind, 0, tokens / block);
  return tokens;
}

/* The last place among `n` blocks with as many in a row as a window needs, or a run from the
 * first. */
static int64_t match_window(KvGroups *self, int32_t kind, const Content *content, int64_t n) {
  const KvGroup *group = &self->groups[kind];
  const int64_t needed = greater(blocks_for(group, group->window - 1), 1);
  int64_t run = 0, i = n - 1;
  for (; i >= 0 && run < needed; i--) {
    if (run == 0 && (i + 1) * group->block_size % self->alignment != 0) continue;
    run = find_block(self, kind, content, i) ? run + 1 : 0;
  }
  const int64_t first = run < needed ? 0 : i + 1;
  while (run < needed && run * group->block_size % self->alignment != 0)
    run--;
  found_blocks(self, kind, first, first + run);
  return (first + run) * group->block_size;
}

/* The last state. */
static int64_t match_state(KvGroups *self, int32_t kind, const Content *content, int64_t n) {
  const int64_t block = self->groups[kind].block_size;
  while (n > 0 && (n * block % self->alignment != 0 || !find_block(self, kind, content, n - 1)))
    n--;
  found_blocks(self, kind, n > 0 ? n - 1 : 0, n);
  return n * block;
}

/* What groups of a kind have of the first `most` tokens. */
static int64_t match_kind(KvGroups *self, int32_t kind, const Content *content, int64_t tokens,
                          int64_t most) {
  const KvGroup *group = &self->groups[kind];
  const int64_t named = greater(tokens - self->pool->lookahead, 0);
  const int64_t n = lesser(most, named) / group->block_size;
  if (group->kind == KV_FULL) return match_full(self, kind, content, n);
  if (group->kind == KV_WINDOW) return match_window(self, kind, content, n);
  return match_state(self, kind, content, n);
}

int64_t kv_groups_match(KvGroups *self, const Content *content, int64_t tokens, int64_t most) {
  int64_t matched = self->options.caches ? most : 0, longest = 0;
  for (bool agreed = false, first = true; !agreed; first = false) {
    int64_t length = matched;
    for (int kind = KV_FULL; kind <= KV_STATE; kind++)
      for (int32_t g = 0; g < self->n_groups; g++) {
        if (self->groups[g].like != g || (int)self->groups[g].kind != kind) continue;
        if (kind == KV_FULL && !first) continue;
        length = match_kind(self, g, content, tokens, length);
        longest = greater(longest, length);
      }
    agreed = length >= matched || self->n_narrow < 2;
    matched = length;
  }
  for (int32_t g = 0; g < self->n_groups; g++)
    if (self->groups[g].kind == KV_FULL)
      self->found[g].n = (int32_t)(matched / self->groups[g].block_size);
  self->junction = longest > matched && self->n_groups > 1 ? longest : 0;
  self->matched = matched;
  return matched;
}

bool kv_groups_match_is_fresh(const KvGroups *self, const Content *content) {
  for (int32_t g = 0; g < self->n_groups; g++) {
    if (self->groups[g].kind != KV_STATE || self->found[g].n == 0) continue;
    const uint64_t key = key_of(self, g, content, self->found[g].n - 1);
    for (size_t i = 0; i < self->n_fresh; i++)
      if (self->fresh[i] == key) return true;
  }
  return false;
}

/* --- what is taken and given back */

static GroupHold *holds_of(KvGroups *self, GroupHolds *holds) {
  if (holds->capacity < self->n_groups) {
    holds->of = ARENA_ARRAY(self->arena, GroupHold, self->n_groups);
    holds->capacity = self->n_groups;
  }
  return holds->of;
}

/* Tokens at the beginning of `computed` that layers of a group do not need. */
static int64_t unneeded(const KvGroup *group, int64_t computed) {
  const int64_t kept = group->kind == KV_FULL     ? computed
                       : group->kind == KV_WINDOW ? group->window - 1
                                                  : 1;
  return greater(computed - kept, 0);
}

static int64_t unheld(const KvGroups *self, int32_t g, int64_t from) {
  int64_t n = 0;
  for (int64_t i = from; i < self->found[g].n; i++) {
    const BlockIx ix = self->found[g].blocks[i];
    n += ix != BLOCK_NONE && self->pool->runs.items[ix].references == 0;
  }
  return n;
}

static int64_t need_of_state(const KvGroups *self, int32_t g, const GroupHolds *holds,
                             const KvReach *reach) {
  const KvGroup *group = &self->groups[g];
  const int64_t n = blocks_for(group, reach->slots) + group->spare;
  const int64_t held = holds->known ? holds->of[g].n : self->found[g].n;
  const int64_t most = holds->known && holds->of[g].began ? 1 : 1 + group->spare;
  return lesser(n - held, most) + (holds->known ? 0 : unheld(self, g, 0));
}

static int64_t need_of(const KvGroups *self, int32_t g, const GroupHolds *holds,
                       const KvReach *reach, bool whole) {
  const KvGroup *group = &self->groups[g];
  if (group->kind == KV_STATE) return need_of_state(self, g, holds, reach);
  int64_t n = blocks_for(group, reach->slots) + group->spare;
  if (whole) n = lesser(n, group->admitted);
  if (holds->known) return greater(n - holds->of[g].n, 0);
  const int64_t skipped = unneeded(group, reach->computed) / group->block_size;
  return greater(n - greater(skipped, self->found[g].n), 0) + unheld(self, g, skipped);
}

int64_t kv_groups_need(const KvGroups *self, const GroupHolds *holds, const KvReach *reach,
                       bool whole) {
  int64_t n = 0;
  if (holds->known && reach->slots <= holds->room) return 0;
  for (int32_t g = 0; g < self->n_groups; g++)
    n += need_of(self, g, holds, reach, whole);
  return n;
}

static void push(KvGroups *self, GroupHolds *holds, int32_t g, BlockIx ix) {
  GroupHold *hold = &holds->of[g];
  ARENA_RESERVE(self->arena, hold->blocks, hold->capacity, (size_t)hold->n + 1);
  hold->blocks[hold->n++] = ix;
  if (ix == BLOCK_NONE) return;
  holds->n_blocks++;
  self->groups[g].n_held++;
}

/* A null block takes its place. */
static void drop(KvGroups *self, GroupHolds *holds, int32_t g, int32_t i) {
  BlockIx *block = &holds->of[g].blocks[i];
  if (*block == BLOCK_NONE) return;
  prefix_cache_drop(self->pool, *block);
  *block = BLOCK_NONE;
  holds->n_blocks--;
  self->groups[g].n_held--;
}

void kv_groups_hit(KvGroups *self, GroupHolds *holds, int64_t computed) {
  assert(!holds->known && holds->n_blocks == 0);
  GroupHold *of = holds_of(self, holds);
  for (int32_t g = 0; g < self->n_groups; g++) {
    const KvGroup *group = &self->groups[g];
    const int64_t skipped = unneeded(group, computed) / group->block_size;
    of[g].n = 0;
    for (int64_t i = 0; i < greater(skipped, self->found[g].n); i++) {
      const BlockIx ix = i < skipped ? BLOCK_NONE : self->found[g].blocks[i];
      if (ix != BLOCK_NONE) prefix_cache_hold(self->pool, ix);
      push(self, holds, g, ix);
    }
    of[g].n_registered = of[g].n;
    of[g].n_retired = of[g].before = 0;
    of[g].began = false;
  }
  holds->junction = self->junction;
  holds->room = 0;
  holds->known = true;
}

/* The states before the one that the next step reads. */
static void slide_state(KvGroups *self, GroupHolds *holds, int32_t g, int64_t computed) {
  GroupHold *hold = &holds->of[g];
  const int64_t block = self->groups[g].block_size;
  const int32_t needed = (int32_t)lesser(unneeded(&self->groups[g], computed) / block, hold->n);
  for (int32_t i = needed - 1; i >= hold->n_retired; i--)
    drop(self, holds, g, i);
  if (needed > hold->n_retired) hold->n_retired = needed;
  if (hold->before > 0 && hold->before < blocks_for(&self->groups[g], computed))
    drop(self, holds, g, hold->before - 1);
}

void kv_groups_slide(KvGroups *self, GroupHolds *holds, int64_t computed) {
  if (!holds->known) return;
  for (int32_t g = 0; g < self->n_groups; g++) {
    const KvGroup *group = &self->groups[g];
    GroupHold *hold = &holds->of[g];
    if (group->kind == KV_STATE) slide_state(self, holds, g, computed);
    if (group->kind != KV_WINDOW) continue;
    int64_t i = lesser(unneeded(group, computed) / group->block_size, hold->n) - 1;
    for (; i >= 0 && hold->blocks[i] != BLOCK_NONE; i--)
      drop(self, holds, g, (int32_t)i);
  }
}

/* The state after a step has the last block of its tokens; those after drafts move along. */
static void place_state(KvGroups *self, GroupHolds *holds, int32_t g, const KvReach *reach) {
  const int32_t spare = (int32_t)self->groups[g].spare;
  const int32_t skipped = (int32_t)blocks_for(&self->groups[g], reach->done) - 1;
  const bool began = holds->of[g].began;
  const int32_t held = holds->of[g].n;
  holds->of[g].began = true;
  if (skipped + 1 + spare <= held) return;
  if (held > 0) holds->of[g].before = held - (began ? spare : 0);
  while (holds->of[g].n < skipped)
    push(self, holds, g, BLOCK_NONE);
  for (int32_t i = held - spare; began && i < held && i < skipped; i++) {
    GroupHold *hold = &holds->of[g];
    ARENA_RESERVE(self->arena, hold->blocks, hold->capacity, (size_t)hold->n + 1);
    hold->blocks[hold->n++] = hold->blocks[i];
    hold->blocks[i] = BLOCK_NONE;
  }
}

/* With states it is not known: their blocks follow what is done. */
static int64_t room_of(const KvGroups *self, const GroupHolds *holds) {
  int64_t room = self->has_states ? 0 : INT64_MAX;
  for (int32_t g = 0; g < self->n_groups; g++)
    room = lesser(room, (holds->of[g].n - self->groups[g].spare) * self->groups[g].block_size);
  return room;
}

void kv_groups_take(KvGroups *self, GroupHolds *holds, const KvReach *reach) {
  assert(holds->known);
  if (reach->slots <= holds->room) return;
  for (int32_t g = 0; g < self->n_groups; g++) {
    const KvGroup *group = &self->groups[g];
    const bool state = group->kind == KV_STATE;
    const int64_t n = blocks_for(group, state ? reach->done : reach->slots) + group->spare;
    if (state) place_state(self, holds, g, reach);
    while (holds->of[g].n < n)
      push(self, holds, g, prefix_cache_pop(self->pool));
  }
  holds->room = room_of(self, holds);
}

void kv_groups_release(KvGroups *self, GroupHolds *holds) {
  for (int32_t g = 0; holds->known && g < self->n_groups; g++)
    for (GroupHold *hold = &holds->of[g]; hold->n > 0; hold->n--)
      drop(self, holds, g, hold->n - 1);
  assert(holds->n_blocks == 0);
  holds->junction = holds->room = 0;
  holds->known = false;
}

/* --- what is registered */

/* The end of the last block of all groups within `tokens`, in blocks of one. */
static int64_t last_end(const KvGroups *self, const KvGroup *group, int64_t tokens) {
  return tokens / self->alignment * self->alignment / group->block_size;
}

/* Whether a request may resume where block i of a group ends, or soon after. */
static bool is_kept(const KvGroups *self, const KvGroup *group, const GroupHolds *holds,
                    int64_t prompt_tokens, int64_t i) {
  const int64_t retention = self->options.retention;
  if (group->kind == KV_FULL || (group->kind == KV_STATE && retention == KV_KEEPS_ALL)) return true;
  const int64_t needed = group->kind == KV_STATE ? 1 : blocks_for(group, group->window - 1);
  const int64_t apart = (retention == KV_KEEPS_ALL ? self->alignment : retention);
  const int64_t segment = apart / group->block_size;
  if (apart > 0 && needed >= segment) return true;
  if (apart > 0 && i % segment >= segment - needed) return true;
  if (retention == KV_KEEPS_ALL) return false;
  const int64_t prompt_end = last_end(self, group, prompt_tokens - 1);
  const int64_t junction = last_end(self, group, holds->junction);
  return (prompt_end - needed <= i && i < prompt_end) ||
         (holds->junction > 0 && junction - needed <= i && i < junction);
}

/* The keys of blocks of a group from its first unregistered one on up to `end`, as far as they are
 * named; 0 of others. */
static void keys_of_next(const KvGroups *self, const GroupHolds *holds, int32_t g,
                         const Content *content, int64_t prompt_tokens, int64_t end,
                         uint64_t *ret_keys) {
  const GroupHold *hold = &holds->of[g];
  for (int64_t i = hold->n_registered; i < end; i++) {
    const bool named =
        hold->blocks[i] != BLOCK_NONE && is_kept(self, &self->groups[g], holds, prompt_tokens, i);
    *ret_keys = named ? key_of(self, g, content, i) : 0;
    if (named) cache_runs_fetch(&self->pool->runs, *ret_keys);
    ret_keys++;
  }
}

static void name_block(KvGroups *self, int32_t g, BlockIx ix, uint64_t key) {
  prefix_cache_name(self->pool, ix, key);
  if (self->groups[g].kind != KV_STATE) return;
  ARENA_RESERVE(self->arena, self->fresh, self->fresh_capacity, self->n_fresh + 1);
  self->fresh[self->n_fresh++] = key;
}

void kv_groups_register(KvGroups *self, GroupHolds *holds, const Content *content,
                        int64_t prompt_tokens, int64_t tokens, int64_t done) {
  if (!self->options.caches || !holds->known) return;
  const int64_t computed = self->n_groups > 1 ? done / self->alignment * self->alignment
                                              : done - greater(self->pool->lookahead - 1, 0);
  const int64_t full = lesser(computed, tokens - self->pool->lookahead);
  for (int32_t g = 0; g < self->n_groups; g++) {
    GroupHold *hold = &holds->of[g];
    const int64_t n = full / self->groups[g].block_size;
    while (hold->n_registered < n) {
      uint64_t keys[FETCHED];
      const int64_t first = hold->n_registered, end = lesser(first + FETCHED, n);
      keys_of_next(self, holds, g, content, prompt_tokens, end, keys);
      for (; hold->n_registered < end; hold->n_registered++)
        if (keys[hold->n_registered - first] != 0)
          name_block(self, g, hold->blocks[hold->n_registered], keys[hold->n_registered - first]);
    }
  }
}

/* --- when something changes */

/* The sure tokens with which a group gives a block back next. */
static int64_t next_slide(const KvGroup *group, const GroupHold *hold, int64_t sure) {
  const int64_t block = group->block_size;
  if (group->kind == KV_FULL) return INT64_MAX / 2;
  if (group->kind == KV_WINDOW)
    return (unneeded(group, sure) / block + 1) * block + group->window - 1;
  const bool held = hold->before > 0 && hold->blocks[hold->before - 1] != BLOCK_NONE;
  return (held ? lesser(hold->before, hold->n_retired + 1) : hold->n_retired + 1) * block + 1;
}

int64_t kv_groups_quiet(const KvGroups *self, const GroupHolds *holds, int64_t done, int64_t sure,
                        int64_t known, int64_t lag) {
  const int64_t named =
      self->options.caches ? (known / self->alignment + 1) * self->alignment : INT64_MAX / 2;
  int64_t quiet = named + lag - 1;
  for (int32_t g = 0; g < self->n_groups; g++) {
    const KvGroup *group = &self->groups[g];
    const GroupHold *hold = &holds->of[g];
    quiet = lesser(quiet, (hold->n - group->spare) * group->block_size);
    quiet = lesser(quiet, next_slide(group, hold, sure) + lag);
  }
  return greater(quiet - done, 0);
}

/* --- sizes */

int64_t kv_groups_chunk(const KvGroups *self, int64_t prompt_tokens, int64_t tokens, int64_t start,
                        int64_t n, int64_t junction) {
  const int64_t block = self->alignment;
  const int64_t prefill_end = greater(prompt_tokens, tokens - 1);
  if (!self->has_states || start >= prefill_end) return n;
  int64_t end = start + n;
  const int64_t whole = end / block * block;
  if (end < prefill_end && (whole > start || block <= self->options.max_chunk)) end = whole;
  const int64_t last = (tokens - greater(1, self->pool->lookahead)) / block * block;
  const int64_t stops[] = {
      start % block != 0 ? (start / block + 1) * block : 0, last,
      start < junction && junction < end ? start + (junction - start) / block * block : 0};
  int64_t least = end;
  for (size_t i = 0; i < sizeof stops / sizeof *stops; i++)
    if (start < stops[i] && stops[i] < least) least = stops[i];
  return greater(least - start, 0);
}

int64_t kv_groups_most(const KvGroups *self, int64_t tokens) {
  int64_t n = 0;
  for (int32_t g = 0; g < self->n_groups; g++) {
    const KvGroup *group = &self->groups[g];
    n += lesser(blocks_for(group, tokens) + group->spare, group->most);
  }
  return n;
}

int64_t kv_groups_room(const KvGroups *self, int64_t blocks) {
  int64_t low = 0, high = INT32_MAX; // it has room for `low`, and not for `high`
  while (low + 1 < high) {
    const int64_t middle = low + (high - low) / 2;
    *(kv_groups_most(self, middle) <= blocks ? &low : &high) = middle;
  }
  return low;
}

void kv_groups_audit_holds(const KvGroups *self, const GroupHolds *holds, int64_t *held) {
  int64_t n = 0;
  for (int32_t g = 0; holds->known && g < self->n_groups; g++)
    for (int32_t i = 0; i < holds->of[g].n; i++) {
      const BlockIx ix = holds->of[g].blocks[i];
      if (ix == BLOCK_NONE) continue;
      assert(self->pool->counts || self->pool->runs.items[ix].references > 0);
      held[g]++;
      n++;
    }
  assert(n == holds->n_blocks);
}
