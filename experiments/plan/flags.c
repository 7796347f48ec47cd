/* Flags of serving engines beside their degrees and limits: one for each key that a configuration
 * gives, as its engine calls it. */
#include "experiments/plan/export.h"
#include "experiments/plan/quote.h"
#include "sim/batcher/batcher.h"
#include <ctype.h>
#include <string.h>

/* What a key is called: a flag and its value; of truth values a flag that is there with true, or
 * with false. Of TensorRT-LLM the key of its YAML. */
typedef struct EngineFlag {
  const char *key;
  const char *of[FAMILIES]; // flag with a value, or in vLLM --flag and --no-flag; NULL: it has none
  const char *with_true, *with_false; // of SGLang
} EngineFlag;

enum { V = FAMILY_VLLM, S = FAMILY_SGLANG, T = FAMILY_TRTLLM };

/* vLLM 0.33: vllm serve --help=all. SGLang 0.5: srt/server_args.py. TensorRT-LLM 1.3:
 * llmapi/llm_args.py. Limits stand here for whoever asks; export_arguments says them. */
static const EngineFlag flags[] = {
    {"max_num_batched_tokens", {[V] = "", [S] = "", [T] = ""}},
    {"max_num_seqs", {[V] = "", [S] = "", [T] = ""}},
    {"block_size",
     {[V] = "--block-size", [S] = "--page-size", [T] = "kv_cache_config.tokens_per_block"}},
    {"long_prefill_token_threshold", {[V] = "--long-prefill-token-threshold"}},
    {"prefill_schedule_interval", {[V] = "--prefill-schedule-interval"}},
    {"watermark", {[V] = "--watermark"}},
    {"scheduler_reserve_full_isl", {[V] = "--scheduler-reserve-full-isl"}},
    {"async_scheduling", {[V] = "--async-scheduling"}},
    {"enable_chunked_prefill", {[V] = "--enable-chunked-prefill", [T] = "enable_chunked_prefill"}},
    {"enable_prefix_caching",
     {[V] = "--enable-prefix-caching", [T] = "kv_cache_config.enable_block_reuse"},
     .with_false = "--disable-radix-cache"},
    {"capacity_scheduler_policy", {[T] = "scheduler_config.capacity_scheduler_policy"}},
    {"batch_wait_timeout_iters", {[T] = "batch_wait_timeout_iters"}},
    {"batch_wait_max_tokens_ratio", {[T] = "batch_wait_max_tokens_ratio"}},
    {"max_prefill_tokens", {[S] = "--max-prefill-tokens"}},
    {"prefill_max_requests", {[S] = "--prefill-max-requests"}},
    {"enable_mixed_chunk", .with_true = "--enable-mixed-chunk"},
    {"enable_overlap_schedule", .with_false = "--disable-overlap-schedule"},
    {"schedule_policy", {[S] = "--schedule-policy"}},
    {"schedule_conservativeness", {[S] = "--schedule-conservativeness"}},
    {"scheduler_recv_interval", {[S] = "--scheduler-recv-interval"}},
    {"prefill_decode_interval", {[S] = "--prefill-decode-interval"}},
};
enum { FLAGS = sizeof flags / sizeof *flags };

bool plan_engine_has(const char *engine, const char *key) {
  const ExportFamily family = export_family(engine);
  for (int i = 0; i < FLAGS; i++)
    if (strcmp(flags[i].key, key) == 0)
      return flags[i].of[family] ||
             (family == FAMILY_SGLANG && (flags[i].with_true || flags[i].with_false));
  return false;
}

static const OptionSpec *find_row(const OptionSpec *rows, const char *key) {
  for (; rows && rows->key; rows++)
    if (strcmp(rows->key, key) == 0) return rows;
  return NULL;
}

/* What the configuration gives a pool for a key, as it is bound; NULL: nothing. */
static const char *given(const Export *self, const ExportPool *pool, const char *key) {
  const Config *config = self->config;
  const Node *of_pool = node_find(node_find(config->root, "pools"), pool->name);
  const Node *own = node_find(of_pool, "batcher");
  const Node *of_run = node_find(node_find(config->root, "policies"), "batcher");
  const PolicyChoice batcher = sim_pool_policy(&config->sim, &pool->of->spec, POLICY_BATCHER);
  const OptionSpec *row = find_row(batcher.policy->options, key);
  if (row && node_find(own ? own : of_run, key))
    return option_text(row, batcher.state, self->arena);
  row = find_row(config_pool_options, key);
  return row && node_find(of_pool, key) ? option_text(row, pool->of, self->arena) : NULL;
}

void export_given_flags(const Export *self, const ExportPool *pool, ExportFamily family,
                        Words *words) {
  for (int i = 0; i < FLAGS; i++) {
    const EngineFlag *flag = &flags[i];
    const char *value = given(self, pool, flag->key), *name = flag->of[family];
    if (!value || (name && !*name)) continue;
    const bool yes = strcmp(value, "true") == 0, no = strcmp(value, "false") == 0;
    const char *set = yes ? flag->with_true : no ? flag->with_false : NULL;
    if (family == FAMILY_SGLANG && set) words_add(words, set, NULL);
    if (!name) continue;
    if (yes)
      words_add(words, name, NULL);
    else if (no)
      words_add(words, arena_printf(self->arena, "--no-%s", name + 2), NULL);
    else
      words_add(words, name, "%s", value);
  }
}

void export_given_keys(const Export *self, const ExportPool *pool, Node *map) {
  const Place at = place_of_file("--export");
  Diag diag;
  diag_init(&diag);
  for (int i = 0; i < FLAGS; i++) {
    const char *value = given(self, pool, flags[i].key), *key = flags[i].of[FAMILY_TRTLLM];
    if (!value || !key || !*key) continue;
    char *text = arena_copy(self->arena, value, strlen(value)); // values of its lists are capital
    const bool capital = strcmp(flags[i].key, "capacity_scheduler_policy") == 0;
    for (char *c = text; capital && *c; c++)
      *c = (char)toupper((unsigned char)*c);
    const Node scalar = {.kind = NODE_SCALAR, .text = text, .at = at};
    node_set(map, key, at, &scalar, self->arena, &diag);
  }
  diag_done(&diag);
}

void plan_print_block(const Node *map, int indent, FILE *out, Arena *arena) {
  for (const Node *child = map->first; child; child = child->next) {
    fprintf(out, "%*s%s:", indent, "", quote_yaml(child->key, arena));
    if (child->kind != NODE_MAP) {
      fprintf(out, " %s\n", node_text(child, arena));
      continue;
    }
    putc('\n', out);
    for (const Node *value = child->first; value; value = value->next)
      fprintf(out, "%*s%s: %s\n", indent + 2, "", quote_yaml(value->key, arena),
              node_text(value, arena));
  }
}
