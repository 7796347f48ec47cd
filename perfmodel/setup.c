/* Names of setups, and how far one is from another. */
#include "perfmodel/setup.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char EPLB[] = "_eplb";

/* "_dp8", or nothing for one. */
static const char *degree_part(const char *key, int64_t written, Arena *arena) {
  return degree_of(written) > 1 ? arena_printf(arena, "_%s%lld", key, (long long)written) : "";
}

const char *setup_name(const PerfSetup *self, Arena *arena) {
  const char *name = arena_printf(
      arena, "%s_%s_tp%lld%s%s%s%s", self->model, self->gpu, (long long)self->tensor_parallel_size,
      degree_part("dp", self->attention_data_parallel_size, arena),
      degree_part("ep", self->expert_parallel_size, arena),
      degree_part("nnodes", self->nnodes, arena), self->balanced ? EPLB : "");
  const bool other_kv = self->kv_cache_dtype != DTYPE_BF16;
  if (!self->engine && self->weight_dtype == DTYPE_BF16 && !other_kv) return name;
  name = arena_printf(arena, "%s_%s", name, dtype_names[self->weight_dtype]);
  return other_kv ? arena_printf(arena, "%s_kv%s", name, dtype_names[self->kv_cache_dtype]) : name;
}

const char *setup_engine_name(const PerfSetup *self, Arena *arena) {
  if (!self->engine || !self->engine_version) return NULL;
  return arena_printf(arena, "%s-%s", self->engine, self->engine_version);
}

bool setup_is_version(const char *text) {
  return isdigit((unsigned char)*text);
}

/* A version has a number and a point, which "2023" of a set has not. */
bool setup_parse_folder(PerfSetup *self, const char *folder, Arena *arena) {
  const char *dash = strchr(folder, '-');
  while (dash && !isdigit((unsigned char)dash[1]))
    dash = strchr(dash + 1, '-');
  if (!dash || dash == folder || !strchr(dash, '.')) return false;
  self->engine = arena_copy(arena, folder, (size_t)(dash - folder));
  self->engine_version = dash + 1;
  return true;
}

/* The number behind `key`, which *text begins with; 1, and nothing taken, where it does not. 0: it
 * is no degree. */
static int64_t take_degree(const char **text, const char *key) {
  const size_t length = strlen(key);
  if (strncmp(*text, key, length) != 0) return 1;
  char *end = NULL;
  const int64_t number = strtoll(*text + length, &end, 10);
  if (!isdigit((unsigned char)(*text)[length]) || number > 1 << 20) return 0;
  *text = end;
  return number;
}

static int dtype_of(const char *name, size_t length) {
  for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
    if (strlen(dtype_names[dtype]) == length && strncmp(dtype_names[dtype], name, length) == 0)
      return dtype;
  return -1;
}

/* "_fp8_kvfp8", or nothing. */
static bool take_dtypes(PerfSetup *self, const char *text) {
  self->weight_dtype = self->kv_cache_dtype = DTYPE_BF16;
  if (!*text) return true;
  if (*text++ != '_') return false;
  const char *kv = strstr(text, "_kv");
  self->weight_dtype = dtype_of(text, kv ? (size_t)(kv - text) : strlen(text));
  if (kv) self->kv_cache_dtype = dtype_of(kv + 3, strlen(kv + 3));
  return self->weight_dtype >= 0 && self->kv_cache_dtype >= 0;
}

/* Models and GPUs may have any name: what counts is the last "_tp" with a number. */
static const char *find_degrees(const char *name) {
  const char *found = NULL;
  for (const char *at = strstr(name, "_tp"); at; at = strstr(at + 1, "_tp"))
    if (isdigit((unsigned char)at[3])) found = at;
  return found;
}

bool setup_parse_name(PerfSetup *self, const char *name, Arena *arena) {
  const char *text = find_degrees(name);
  if (!text) return false;
  const char *before = arena_copy(arena, name, (size_t)(text - name));
  const char *gpu = strrchr(before, '_');
  if (!gpu || gpu == before || !gpu[1]) return false;
  self->model = arena_copy(arena, before, (size_t)(gpu - before));
  self->gpu = gpu + 1;
  self->tensor_parallel_size = take_degree(&text, "_tp");
  self->attention_data_parallel_size = take_degree(&text, "_dp");
  self->expert_parallel_size = take_degree(&text, "_ep");
  self->nnodes = take_degree(&text, "_nnodes");
  self->balanced = strncmp(text, EPLB, sizeof EPLB - 1) == 0;
  if (self->balanced) text += sizeof EPLB - 1;
  return self->tensor_parallel_size > 0 && self->attention_data_parallel_size > 0 &&
         self->expert_parallel_size > 0 && self->nnodes > 0 && take_dtypes(self, text);
}

static bool same(const char *a, const char *b) {
  return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_degrees(const PerfSetup *a, const PerfSetup *b) {
  return a->tensor_parallel_size == b->tensor_parallel_size &&
         degree_of(a->attention_data_parallel_size) == degree_of(b->attention_data_parallel_size) &&
         degree_of(a->expert_parallel_size) == degree_of(b->expert_parallel_size) &&
         degree_of(a->nnodes) == degree_of(b->nnodes) && a->balanced == b->balanced;
}

bool setup_serves(const PerfSetup *there, const PerfSetup *asked) {
  return same(there->model, asked->model) && same(there->gpu, asked->gpu) &&
         (!asked->engine || same(there->engine, asked->engine)) &&
         there->weight_dtype == asked->weight_dtype && same_degrees(there, asked);
}

enum { VERSION_PART = 1000, VERSION_PARTS = 4 };

/* Its first numbers, 999 at most each, as the digits of one: 1.3.0rc20 is 1 003 000 020. */
static int64_t version_number(const char *version) {
  int64_t number = 0;
  for (int part = 0; part < VERSION_PARTS; part++) {
    version += strcspn(version, "0123456789");
    int64_t digits = 0;
    for (; isdigit((unsigned char)*version); version++)
      if (digits < VERSION_PART) digits = 10 * digits + (*version - '0');
    number = VERSION_PART * number + (digits < VERSION_PART ? digits : VERSION_PART - 1);
  }
  return number;
}

static int64_t version_distance(const char *there, const char *asked) {
  static const int64_t newest = INT64_C(1000000000000) - 1;
  const int64_t number = there ? version_number(there) : 0;
  return llabs(number - (asked ? version_number(asked) : newest));
}

static int64_t degree_distance(int64_t there, int64_t asked) {
  const int64_t apart = llabs(degree_of(there) - degree_of(asked));
  return apart < 1 << 11 ? apart : (1 << 11) - 1;
}

/* The version takes 40 bits, below one for the KV cache and 13 for the degrees. */
int64_t setup_distance(const PerfSetup *there, const PerfSetup *asked) {
  int64_t distance =
      degree_distance(there->tensor_parallel_size, asked->tensor_parallel_size) +
      degree_distance(there->attention_data_parallel_size, asked->attention_data_parallel_size) +
      degree_distance(there->expert_parallel_size, asked->expert_parallel_size) +
      degree_distance(there->nnodes, asked->nnodes);
  if (asked->engine && !same(there->engine, asked->engine)) distance += INT64_C(1) << 13;
  if (there->weight_dtype != asked->weight_dtype) distance += INT64_C(1) << 14;
  if (!same(there->gpu, asked->gpu)) distance += INT64_C(1) << 15;
  if (!same(there->model, asked->model)) distance += INT64_C(1) << 16;
  distance = 2 * distance + (there->kv_cache_dtype != asked->kv_cache_dtype);
  return distance * (INT64_C(1) << 40) +
         version_distance(there->engine_version, asked->engine_version);
}
