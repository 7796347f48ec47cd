/* What recorded runs say of the engine: see vllm_record.h. */
#include "sim/policies.h"
#include "tests/differential/vllm_record.h"
#include "traces/fields.h"
#include <string.h>

int record_skip(Json *json) {
  Field ignored;
  return json_value(json, &ignored);
}

int record_micros(Json *json, Tick *ret_ticks) {
  Field text;
  if (json_value(json, &text) < 0) return -1;
  if (field_decimal(text, MICRO_PLACES, ret_ticks)) return 0;
  return diag_error(json->diag, line_place(json->line, text), "expected a time in microseconds");
}

int record_refuse(const Json *json, const char *what, Field key) {
  return diag_error(json->diag, line_place(json->line, key), "'%.*s' of the %s is not known",
                    key.length, key.text, what);
}

static bool is_option(Field key) {
  const Policy *batcher = policy_find(POLICY_BATCHER, "vllm");
  for (const OptionSpec *spec = batcher ? batcher->options : NULL; spec && spec->key; spec++)
    if (field_is(key, spec->key)) return true;
  return false;
}

/* A key of the config that Tandem has elsewhere than in its batcher, and one of both. */
static int64_t *figure_of(RecordedRun *self, Field key) {
  const struct {
    const char *key;
    int64_t *figure;
  } figures[] = {
      {"block_size", &self->block_size},
      {"num_gpu_blocks", &self->num_gpu_blocks},
      {"max_model_len", &self->max_model_len},
      {"max_num_seqs", &self->max_num_seqs},
      {"max_num_batched_tokens", &self->max_num_batched_tokens},
      {"pipeline_parallel_size", &self->stages},
      {"data_parallel_size", &self->ranks},
  };
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
    if (field_is(key, figures[i].key)) return figures[i].figure;
  return NULL;
}

static int read_iteration(RecordedRun *self, Json *json) {
  Field key;
  int rc;
  while ((rc = json_key(json, &key)) > 0)
    if ((field_is(key, "base")        ? record_micros(json, &self->base)
         : field_is(key, "per_token") ? record_micros(json, &self->per_token)
         : field_is(key, "per_seq")   ? record_micros(json, &self->per_seq)
         : field_is(key, "last")      ? record_micros(json, &self->last)
                                      : record_refuse(json, "iteration times", key)) < 0)
      return -1;
  return rc;
}

/* "vllm 0.33.0" is engine vllm-0.33. */
static int read_engine(RecordedRun *self, const Json *json, Field value) {
  int length = 0, dots = 0;
  while (length < value.length && (dots += value.text[length] == '.') < 2)
    length++;
  char *name = arena_copy(self->arena, value.text, (size_t)length);
  char *space = strchr(name, ' ');
  if (space) *space = '-';
  for (int i = 1; serving_at(i); i++)
    if (strcmp(serving_at(i)->name, name) == 0) self->engine = serving_at(i);
  if (self->engine) return 0;
  return diag_error(json->diag, line_place(json->line, value), "there is no engine '%s'", name);
}

/* The engine's own figures of it follow from the rest. */
static int read_speculative(RecordedRun *self, Json *json) {
  static const char *const derived[] = {"acceptance", "num_lookahead_tokens", "eagle_block_drop",
                                        "num_prefill_lookahead_tokens", "draft_slots"};
  const char *method = "";
  int64_t drafts = 0, modules = 1;
  Field key, value;
  int rc;
  while ((rc = json_key(json, &key)) > 0) {
    Json again = *json;
    bool known = field_is(key, "method") || field_is(key, "num_speculative_tokens") ||
                 field_is(key, "num_hash_lookahead_tokens");
    for (size_t i = 0; i < sizeof derived / sizeof *derived; i++)
      known |= field_is(key, derived[i]);
    if (!known) return record_refuse(json, "speculative", key);
    if (json_value(json, &value) < 0) return -1;
    int64_t *figure = field_is(key, "num_speculative_tokens")      ? &drafts
                      : field_is(key, "num_hash_lookahead_tokens") ? &self->hash_lookahead
                                                                   : NULL;
    if (figure && json_int(&again, figure) < 0) return -1;
    if (!field_is(key, "method")) continue;
    modules = field_is(value, "mtp3") ? 3 : 1;
    method = modules > 1                ? "mtp"
             : field_is(value, "draft") ? "draft_model"
                                        : arena_copy(self->arena, value.text, (size_t)value.length);
  }
  self->options = arena_printf(self->arena,
                               "%s, speculative: {method: %s, num_speculative_tokens: %lld, "
                               "mtp_modules: %lld, acceptance: 1, drafter_time: 0us}",
                               self->options, method, (long long)drafts, (long long)modules);
  return rc;
}

/* Four of a record's `cpu_blocks` have room for a block. Both sides of NIXL are a role here. */
static int read_connector(RecordedRun *self, Json *json) {
  enum { CPU_BLOCKS_EACH = 4 };
  const char *role = "kv_both";
  Field key, value;
  int rc, rc_inner;
  while ((rc = json_key(json, &key)) > 0) {
    if (field_is(key, "name")) {
      if (json_value(json, &value) < 0) return -1;
      const bool sends = field_is(value, "nixl-p");
      if (!sends && !field_is(value, "nixl") && !field_is(value, "offload"))
        return record_refuse(json, "KV connector", value);
      self->connector = field_is(value, "offload") ? CONNECTOR_OFFLOADING : CONNECTOR_NIXL;
      if (self->connector == CONNECTOR_NIXL) role = sends ? "kv_producer" : "kv_consumer";
    } else if (field_is(key, "cpu_blocks")) {
      if (json_int(json, &self->cpu_blocks) < 0) return -1;
      self->cpu_blocks /= CPU_BLOCKS_EACH;
    } else if (field_is(key, "transfer_us")) {
      while ((rc_inner = json_key(json, &key)) > 0)
        if ((field_is(key, "base")        ? record_micros(json, &self->transfer_base)
             : field_is(key, "per_block") ? record_micros(json, &self->transfer_per_block)
                                          : record_refuse(json, "transfer times", key)) < 0)
          return -1;
      if (rc_inner < 0) return -1;
    } else {
      return record_refuse(json, "KV connector", key);
    }
  }
  self->options =
      arena_printf(self->arena, "%s, kv_connector: {name: %s, kv_role: %s, %s: %lld%s}",
                   self->options, self->connector == CONNECTOR_NIXL ? "nixl" : "offloading", role,
                   self->connector == CONNECTOR_NIXL ? "overhead" : "cpu_bytes_to_use",
                   self->connector == CONNECTOR_NIXL
                       ? (long long)(self->transfer_base * 1000000 / TICKS_PER_SECOND)
                       : (long long)(self->cpu_blocks * self->transfer_per_block),
                   self->connector == CONNECTOR_NIXL ? " us" : " B");
  return rc;
}

static int read_kind(const Json *json, Field value, KvGroupKind *ret_kind) {
  static const char *const kinds[] = {
      [KV_FULL] = "FullAttentionSpec", [KV_WINDOW] = "SlidingWindowSpec", [KV_STATE] = "MambaSpec"};
  for (KvGroupKind kind = KV_FULL; kind <= KV_STATE; kind++) {
    if (!field_is(value, kinds[kind])) continue;
    *ret_kind = kind;
    return 0;
  }
  if (!field_is(value, "MLAAttentionSpec")) return record_refuse(json, "group", value);
  *ret_kind = KV_FULL;
  return 0;
}

/* One group of layers. What a state is kept for follows from the rest. */
static int read_group(Json *json, KvGroupSpec *group) {
  static const char *const derived[] = {"layers", "mamba_cache_mode", "num_speculative_blocks"};
  Field key, value;
  int rc;
  *group = (KvGroupSpec){.kind = KV_FULL};
  while ((rc = json_key(json, &key)) > 0) {
    Json again = *json;
    bool known = false;
    for (size_t i = 0; i < sizeof derived / sizeof *derived; i++)
      known |= field_is(key, derived[i]);
    if (json_value(json, &value) < 0) return -1;
    if (field_is(key, "block_size")) {
      if (json_int(&again, &group->block_size) < 0) return -1;
    } else if (field_is(key, "sliding_window")) {
      if (!field_is(value, "null") && json_int(&again, &group->window) < 0) return -1;
    } else if (field_is(key, "kind")) {
      if (read_kind(json, value, &group->kind) < 0) return -1;
    } else if (!known) {
      return record_refuse(json, "group", key);
    }
  }
  return rc;
}

static int read_groups(RecordedRun *self, Json *json) {
  KvGroupSpec *groups = NULL;
  size_t capacity = 0, n = 0;
  int rc;
  while ((rc = json_item(json)) > 0) {
    ARENA_RESERVE(self->arena, groups, capacity, n + 1);
    if (read_group(json, &groups[n++]) < 0) return -1;
  }
  self->layout = (KvLayout){.groups = groups, .n_groups = (int32_t)n};
  return rc;
}

/* What follows from the groups and the other settings. */
static bool is_derived(Field key) {
  return field_is(key, "scheduler_block_size") || field_is(key, "hash_block_size") ||
         field_is(key, "max_in_flight_tokens") || field_is(key, "model");
}

static bool is_times(Field key) {
  return field_is(key, "iteration_us") || field_is(key, "stage_us") || field_is(key, "step_us");
}

/* A key of the config but for times. */
static int read_setting(RecordedRun *self, Json *json, Field key) {
  Json again = *json;
  Field value;
  int64_t *figure = figure_of(self, key);
  if (json_value(json, &value) < 0 || (figure && json_int(&again, figure) < 0)) return -1;
  if (field_is(key, "engine")) return read_engine(self, json, value);
  if (is_derived(key)) return 0;
  if (is_option(key) && field_is(value, "null")) value = (Field){.text = "-1", .length = 2};
  if (is_option(key))
    self->options = arena_printf(self->arena, "%s, %.*s: %.*s", self->options, key.length, key.text,
                                 value.length, value.text);
  return figure || is_option(key) ? 0 : record_refuse(json, "config", key);
}

static int read_encoder(RecordedRun *self, Json *json) {
  int64_t budget = 0, cache = 0;
  Field key;
  int rc;
  while ((rc = json_key(json, &key)) > 0)
    if ((field_is(key, "budget")  ? json_int(json, &budget)
         : field_is(key, "cache") ? json_int(json, &cache)
                                  : record_refuse(json, "encoder", key)) < 0)
      return -1;
  self->options =
      arena_printf(self->arena, "%s, max_num_encoder_input_tokens: %lld, encoder_cache_size: %lld",
                   self->options, (long long)budget, (long long)cache);
  return rc;
}

static int read_sleep(RecordedRun *self, Json *json) {
  Tick sleep;
  if (record_micros(json, &sleep) < 0) return -1;
  self->options = arena_printf(self->arena, "%s, idle_sleep: %lld us", self->options,
                               (long long)(sleep * 1000000 / TICKS_PER_SECOND));
  return 0;
}

int record_config(RecordedRun *self, Json *json) {
  Field key;
  int rc;
  while ((rc = json_key(json, &key)) > 0)
    if ((is_times(key)                             ? read_iteration(self, json)
         : field_is(key, "speculative")            ? read_speculative(self, json)
         : field_is(key, "kv_groups")              ? read_groups(self, json)
         : field_is(key, "kv_connector")           ? read_connector(self, json)
         : field_is(key, "encoder")                ? read_encoder(self, json)
         : field_is(key, "idle_sleep_us")          ? read_sleep(self, json)
         : field_is(key, "max_concurrent_batches") ? record_skip(json) // it follows from the rest
                                                   : read_setting(self, json, key)) < 0)
      return -1;
  return rc;
}
