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
  int32_t first = 0;
  while (first + 1 < self->n_groups && layout->groups[first].kind != KV_FULL)
    first++;
  for (int32_t g = 0; g < self->n_groups; g++) {
    KvGroup *group = &self->groups[g];
    *group = group_of(&layout->groups[g], options);
    group->name = g == first ? 0 : (uint64_t)g + 1;
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

static BlockNames names_of(const KvGroups *self, int32_t g, const Content *content) {
  return (BlockNames){content, self->groups[g].block_size, self->groups[g].name};
}

/* Of state i of a group; it is not 0. */
static uint64_t key_of(const KvGroups *self, int32_t g, const Content *content, int64_t i) {
  const int64_t end = (i + 1) * self->groups[g].block_size + self->pool->lookahead;
  return hash_fold(content_key(content, end), (uint64_t)g);
}

/* Whether block i is found in all groups like `kind`; if not, as prefix_cache_finds. */
static bool find_block(const KvGroups *self, int32_t kind, const Content *content, int64_t i,
                       int64_t *ret_from) {
  for (int32_t g = kind; g < self->n_groups; g++)
    if (self->groups[g].like == kind &&
        !prefix_cache_finds(self->pool, names_of(self, g, content), i, ret_from))
      return false;
  return true;
}

/* Of those groups `n` blocks are found, the first `n_null` of which are null. */
static void found_blocks(KvGroups *self, int32_t kind, int64_t n_null, int64_t n) {
  for (int32_t g = kind; g < self->n_groups; g++)
    if (self->groups[g].like == kind) self->found[g] = (FoundBlocks){(int32_t)n_null, (int32_t)n};
}

/* The longest run of the first `n` blocks. */
static int64_t match_full(KvGroups *self, int32_t kind, const Content *content, int64_t n) {
  const int64_t block = self->groups[kind].block_size;
  int64_t unheld;
  for (int32_t g = kind; g < self->n_groups; g++)
    if (self->groups[g].like == kind)
      n = prefix_cache_found(self->pool, names_of(self, g, content), 0, n, &unheld);
  const int64_t tokens = n * block / self->alignment * self->alignment;
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
    int64_t from;
    run = find_block(self, kind, content, i, &from) ? run + 1 : 0;
    if (run == 0) i = from;
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
  while (n > 0) {
    int64_t from = n - 1;
    if (n * block % self->alignment == 0 && find_block(self, kind, content, n - 1, &from)) break;
    n = from;
  }
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
  self->content = content;
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

/* Of the blocks that were found from one on, those that nobody holds. */
static int64_t unheld(const KvGroups *self, int32_t g, int64_t from) {
  const FoundBlocks *found = &self->found[g];
  int64_t n = 0;
  if (from < found->n_null) from = found->n_null;
  if (from < found->n)
    prefix_cache_found(self->pool, names_of(self, g, self->content), from, found->n, &n);
  return n;
}

static int64_t need_of_state(const KvGroups *self, int32_t g, const GroupHolds *holds,
                             const KvReach *reach) {
  const KvGroup *group = &self->groups[g];
  const int64_t n = blocks_for(group, reach->slots) + group->spare;
  const int64_t held = holds->known ? holds->of[g].held.n : self->found[g].n;
  const int64_t most = holds->known && holds->of[g].began ? 1 : 1 + group->spare;
  return lesser(n - held, most) + (holds->known ? 0 : unheld(self, g, 0));
}

static int64_t need_of(const KvGroups *self, int32_t g, const GroupHolds *holds,
                       const KvReach *reach, bool whole) {
  const KvGroup *group = &self->groups[g];
  if (group->kind == KV_STATE) return need_of_state(self, g, holds, reach);
  int64_t n = blocks_for(group, reach->slots) + group->spare;
  if (whole) n = lesser(n, group->admitted);
  if (holds->known) return greater(n - holds->of[g].held.n, 0);
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

/* The number of blocks that it has, of a group. */
static void count(KvGroups *self, GroupHolds *holds, int32_t g, int64_t more) {
  holds->n_blocks += (int32_t)more;
  self->groups[g].n_held += more;
}

static void push_state(KvGroups *self, GroupHolds *holds, int32_t g, BlockIx ix) {
  GroupHold *hold = &holds->of[g];
  ARENA_RESERVE(self->arena, hold->states, hold->capacity, (size_t)hold->held.n + 1);
  hold->states[hold->held.n++] = ix;
  count(self, holds, g, ix != BLOCK_NONE);
}

/* A null block takes its place. */
static void drop_state(KvGroups *self, GroupHolds *holds, int32_t g, int32_t i) {
  BlockIx *state = &holds->of[g].states[i];
  if (*state == BLOCK_NONE) return;
  if (*state == BLOCK_BLANK)
    prefix_cache_drop_blank(self->pool, 1);
  else
    prefix_cache_drop(self->pool, &(HeldRun){*state, 1}, 1);
  *state = BLOCK_NONE;
  count(self, holds, g, -1);
}

/* A state that was found, which comes behind null blocks. */
static void hit_state(KvGroups *self, GroupHolds *holds, int32_t g, int64_t from) {
  const FoundBlocks *found = &self->found[g];
  for (int64_t i = 0; i < greater(from, found->n); i++) {
    self->hit.n_runs = 0;
    if (i >= from && i >= found->n_null)
      prefix_cache_hold(self->pool, &self->hit, names_of(self, g, self->content), i, i + 1);
    push_state(self, holds, g, self->hit.n_runs > 0 ? self->hit.runs[0].run : BLOCK_NONE);
  }
}

static void hit_blocks(KvGroups *self, GroupHolds *holds, int32_t g, int64_t from) {
  const FoundBlocks *found = &self->found[g];
  HeldBlocks *held = &holds->of[g].held;
  const int64_t n_null = greater(from, found->n_null), n = greater(n_null, found->n);
  group_blocks_skip(self->pool, held, n_null);
  group_blocks_hit(self->pool, held, names_of(self, g, self->content), n);
  count(self, holds, g, n - n_null);
}

void kv_groups_hit(KvGroups *self, GroupHolds *holds, int64_t computed) {
  assert(!holds->known && holds->n_blocks == 0);
  GroupHold *of = holds_of(self, holds);
  for (int32_t g = 0; g < self->n_groups; g++) {
    const KvGroup *group = &self->groups[g];
    const int64_t skipped = unneeded(group, computed) / group->block_size;
    of[g].held.n = 0;
    (group->kind == KV_STATE ? hit_state : hit_blocks)(self, holds, g, skipped);
    of[g].held.n_registered = of[g].held.n;
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
  const int32_t needed =
      (int32_t)lesser(unneeded(&self->groups[g], computed) / block, hold->held.n);
  for (int32_t i = needed - 1; i >= hold->n_retired; i--)
    drop_state(self, holds, g, i);
  if (needed > hold->n_retired) hold->n_retired = needed;
  if (hold->before > 0 && hold->before < blocks_for(&self->groups[g], computed))
    drop_state(self, holds, g, hold->before - 1);
}

void kv_groups_slide(KvGroups *self, GroupHolds *holds, int64_t computed) {
  if (!holds->known) return;
  for (int32_t g = 0; g < self->n_groups; g++) {
    const KvGroup *group = &self->groups[g];
    HeldBlocks *held = &holds->of[g].held;
    if (group->kind == KV_STATE) slide_state(self, holds, g, computed);
    if (group->kind != KV_WINDOW) continue;
    const int64_t until = lesser(unneeded(group, computed) / group->block_size, held->n);
    count(self, holds, g, -group_blocks_slide(self->pool, held, until));
  }
}

/* The state after a step has the last block of its tokens; those after drafts move along. */
static void place_state(KvGroups *self, GroupHolds *holds, int32_t g, const KvReach *reach) {
  const int32_t spare = (int32_t)self->groups[g].spare;
  const int32_t skipped = (int32_t)blocks_for(&self->groups[g], reach->done) - 1;
  const bool began = holds->of[g].began;
  const int32_t held = holds->of[g].held.n;
  holds->of[g].began = true;
  if (skipped + 1 + spare <= held) return;
  if (held > 0) holds->of[g].before = held - (began ? spare : 0);
  while (holds->of[g].held.n < skipped)
    push_state(self, holds, g, BLOCK_NONE);
  for (int32_t i = held - spare; began && i < held && i < skipped; i++) {
    GroupHold *hold = &holds->of[g];
    ARENA_RESERVE(self->arena, hold->states, hold->capacity, (size_t)hold->held.n + 1);
    hold->states[hold->held.n++] = hold->states[i];
    hold->states[i] = BLOCK_NONE;
  }
}

static void take_states(KvGroups *self, GroupHolds *holds, int32_t g, const KvReach *reach) {
  const KvGroup *group = &self->groups[g];
  const int64_t n = blocks_for(group, reach->done) + group->spare;
  HeldBlocks none = {0};
  place_state(self, holds, g, reach);
  prefix_cache_take(self->pool, &none, greater(n - holds->of[g].held.n, 0));
  while (holds->of[g].held.n < n)
    push_state(self, holds, g, BLOCK_BLANK);
}

/* With states it is not known: their blocks follow what is done. */
static int64_t room_of(const KvGroups *self, const GroupHolds *holds) {
  int64_t room = self->has_states ? 0 : INT64_MAX;
  for (int32_t g = 0; g < self->n_groups; g++)
    room = lesser(room, (holds->of[g].held.n - self->groups[g].spare) * self->groups[g].block_size);
  return room;
}

void kv_groups_take(KvGroups *self, GroupHolds *holds, const KvReach *reach) {
  assert(holds->known);
  if (reach->slots <= holds->room) return;
  for (int32_t g = 0; g < self->n_groups; g++) {
    const KvGroup *group = &self->groups[g];
    const int64_t n = blocks_for(group, reach->slots) + group->spare;
    const int64_t more = n - holds->of[g].held.n;
    if (group->kind == KV_STATE) {
      take_states(self, holds, g, reach);
    } else if (more > 0) {
      group_blocks_take(self->pool, &holds->of[g].held, more);
      count(self, holds, g, more);
    }
  }
  holds->room = room_of(self, holds);
}

void kv_groups_release(KvGroups *self, GroupHolds *holds) {
  for (int32_t g = 0; holds->known && g < self->n_groups; g++) {
    HeldBlocks *held = &holds->of[g].held;
    if (self->groups[g].kind != KV_STATE)
      count(self, holds, g, -group_blocks_release(self->pool, held));
    else
      for (; held->n > 0; held->n--)
        drop_state(self, holds, g, held->n - 1);
  }
  assert(holds->n_blocks == 0);
  holds->junction = holds->room = 0;
  holds->known = false;
}

/* --- what is registered */

/* The end of the last block of all groups within `tokens`, in blocks of one. */
static int64_t last_end(const KvGroups *self, const KvGroup *group, int64_t tokens) {
  return tokens / self->alignment * self->alignment / group->block_size;
}

/* Whether block i is among the `needed` ones before `end`; up to *ret_until that stays so. */
static bool ends_at(int64_t needed, int64_t end, int64_t i, int64_t *ret_until) {
  const int64_t change = i < end - needed ? end - needed : i < end ? end : *ret_until;
  if (change < *ret_until) *ret_until = change;
  return end - needed <= i && i < end;
}

/* Whether a request may resume where block i of a group ends, or soon after; up to *ret_until that
 * stays so. */
static bool is_kept(const KvGroups *self, const KvGroup *group, const GroupHolds *holds,
                    int64_t prompt_tokens, int64_t i, int64_t *ret_until) {
  const int64_t retention = self->options.retention;
  *ret_until = INT64_MAX;
  if (group->kind == KV_FULL || (group->kind == KV_STATE && retention == KV_KEEPS_ALL)) return true;
  const int64_t needed = group->kind == KV_STATE ? 1 : blocks_for(group, group->window - 1);
  const int64_t apart = (retention == KV_KEEPS_ALL ? self->alignment : retention);
  const int64_t segment = apart / group->block_size;
  if (apart > 0 && needed >= segment) return true;
  const bool kept = apart > 0 && ends_at(needed, (i / segment + 1) * segment, i, ret_until);
  if (kept || retention == KV_KEEPS_ALL) return kept;
  const int64_t prompt_end = last_end(self, group, prompt_tokens - 1);
  const int64_t junction = last_end(self, group, holds->junction);
  return ends_at(needed, prompt_end, i, ret_until) ||
         (holds->junction > 0 && ends_at(needed, junction, i, ret_until));
}

static void name_state(KvGroups *self, GroupHolds *holds, int32_t g, const Content *content,
                       int64_t i) {
  BlockIx *state = &holds->of[g].states[i];
  if (*state == BLOCK_NONE) return;
  assert(*state == BLOCK_BLANK);
  self->hit.n_runs = 0;
  prefix_cache_name(self->pool, &self->hit, names_of(self, g, content), i, i + 1);
  *state = self->hit.runs[0].run;
  ARENA_RESERVE(self->arena, self->fresh, self->fresh_capacity, self->n_fresh + 1);
  self->fresh[self->n_fresh++] = key_of(self, g, content, i);
}

void kv_groups_register(KvGroups *self, GroupHolds *holds, const Content *content,
                        int64_t prompt_tokens, int64_t tokens, int64_t done) {
  if (!self->options.caches || !holds->known) return;
  const int64_t computed = self->n_groups > 1 ? done / self->alignment * self->alignment
                                              : done - greater(self->pool->lookahead - 1, 0);
  const int64_t full = lesser(computed, tokens - self->pool->lookahead);
  for (int32_t g = 0; g < self->n_groups; g++) {
    HeldBlocks *held = &holds->of[g].held;
    const KvGroup *group = &self->groups[g];
    const int64_t n = full / group->block_size;
    for (int64_t i = held->n_registered, until; i < n; i = until) {
      const bool kept = is_kept(self, group, holds, prompt_tokens, i, &until);
      until = group->kind == KV_STATE ? i + 1 : lesser(until, n);
      if (kept && group->kind == KV_STATE)
        name_state(self, holds, g, content, i);
      else if (kept)
        group_blocks_name(self->pool, held, names_of(self, g, content), i, until);
      held->n_registered = (int32_t)until;
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
  const bool held = hold->before > 0 && hold->states[hold->before - 1] != BLOCK_NONE;
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
    quiet = lesser(quiet, (hold->held.n - group->spare) * group->block_size);
    quiet = lesser(quiet, next_slide(group, hold, sure) + lag);
  }
  return greater(quiet - done, 0);
}

int64_t kv_groups_fitting(const KvGroups *self, int64_t n_requests, int64_t free_blocks,
                          int64_t limit) {
  int64_t least = INT64_MAX; // tokens of a block
  for (int32_t g = 0; g < self->n_groups; g++)
    least = lesser(least, self->groups[g].block_size);
  if (n_requests == 0) return limit;
  const int64_t each = free_blocks / n_requests - self->n_groups; // beyond the next of each group
  if (each < 0) return 0;
  const int64_t whole = each / self->n_groups;
  return whole > limit / least ? limit : lesser(whole * least, limit);
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
  for (int32_t g = 0; holds->known && g < self->n_groups; g++) {
    const GroupHold *hold = &holds->of[g];
    int64_t here = 0;
    if (self->groups[g].kind != KV_STATE) here = group_blocks_audit(self->pool, &hold->held);
    for (int32_t i = 0; self->groups[g].kind == KV_STATE && i < hold->held.n; i++)
      here += hold->states[i] != BLOCK_NONE;
    held[g] += here;
    n += here;
  }
  assert(n == holds->n_blocks);
}
