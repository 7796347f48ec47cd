/* See export.h. */
#include "experiments/plan/export.h"
#include "base/text.h"
#include "experiments/plan/quote.h"
#include "sim/batcher/batcher.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#define EXPORTER(name) extern const Exporter exporter_##name;
#include "experiments/plan/exporters.def"
#undef EXPORTER

static const Exporter *const exporters[] = {
#define EXPORTER(name) &exporter_##name,
#include "experiments/plan/exporters.def"
#undef EXPORTER
};

enum { EXPORTERS = sizeof exporters / sizeof *exporters };

const char *const *export_names(Arena *arena) {
  const char **names = ARENA_ARRAY(arena, const char *, EXPORTERS + 1);
  for (int i = 0; i < EXPORTERS; i++)
    names[i] = exporters[i]->name;
  return names;
}

static const Exporter *find_exporter(const char *name) {
  for (int i = 0; i < EXPORTERS; i++)
    if (strcmp(exporters[i]->name, name) == 0) return exporters[i];
  return NULL;
}

const char *export_about(const char *name, Arena *arena) {
  return arena_printf(arena, "flags of %s", find_exporter(name)->of);
}

/* ---- Pools ---- */

/* The format of the KV cache that its times were measured with; -1: not known. */
static int timed_kv_cache(const Config *config, const PoolConfig *pool) {
  const PerfModel *times = config->sim.pools[pool - config->pools].perfmodel;
  return times->measured && times->says_kv_cache ? times->setup.kv_cache_dtype : -1;
}

static ConnectorOptions connector_of(const PolicyChoice *batcher) {
  const Batcher *with = (const Batcher *)batcher->policy;
  if (!with->schedules || !batcher->state) return (ConnectorOptions){0};
  return with->schedules(batcher->state).connector;
}

static ExportPool pool_of(const Config *config, const PoolConfig *pool) {
  const SimConfig *sim = &config->sim;
  const PolicyChoice batcher = sim_pool_policy(sim, &pool->spec, POLICY_BATCHER);
  const BatchLimits limits = batcher_limits(&batcher);
  const Speculation *speculation = config_speculation(&batcher);
  const int64_t shared = pool->spec.attention_ranks; // limits are of so many together
  return (ExportPool){
      .name = pool->spec.name,
      .gpu = pool->hardware.gpu,
      .role = pool->spec.role,
      .instances = pool->count * pool->data_parallel_size,
      .gpus = parallelism_gpus(config_degrees(pool)) / pool->data_parallel_size,
      .tensor = pool->tensor_parallel_size,
      .pipeline = pool->pipeline_parallel_size,
      .attention = pool->attention_data_parallel_size,
      .expert = pool->expert_parallel_size,
      .nodes = pool->nnodes,
      .batched_tokens = limits.max_num_batched_tokens / shared,
      .seqs = limits.max_num_seqs / shared,
      .gpu_memory_utilization = pool->kv.gpu_memory_utilization,
      .fp8_kv_cache = timed_kv_cache(config, pool) == DTYPE_FP8 ||
                      config->models[pool->spec.model].kv_cache_dtype == DTYPE_FP8,
      .drafts = speculation ? speculation->num_speculative_tokens : 0,
      .mtp = speculation && speculation->mtp,
      .connector = connector_of(&batcher),
      .of = pool,
  };
}

ExportFamily export_family(const char *engine) {
  static const char *const names[FAMILIES] = {"vllm", "sglang", "trtllm"};
  for (int i = 0; i < FAMILIES; i++)
    if (strncmp(engine, names[i], strlen(names[i])) == 0) return (ExportFamily)i;
  return FAMILY_VLLM;
}

/* ---- Arguments ---- */

static void add_word(Words *self, const char *word) {
  ARENA_RESERVE(self->arena, self->items, self->capacity, self->n + 1);
  self->items[self->n++] = word;
}

void words_add(Words *self, const char *word, const char *format, ...) {
  add_word(self, word);
  if (!format) return;
  va_list list;
  va_start(list, format);
  add_word(self, arena_vprintf(self->arena, format, list));
  va_end(list);
}

void words_count(Words *self, const char *flag, int64_t count) {
  if (count > 0) words_add(self, flag, "%" PRId64, count);
}

static void add_formats(const Export *self, const ExportPool *pool, const char *kv_cache,
                        Words *words) {
  if (self->quantized && strcmp(self->quantized, "fp8") == 0)
    words_add(words, "--quantization", "fp8");
  if (pool->fp8_kv_cache) words_add(words, "--kv-cache-dtype", "%s", kv_cache);
}

/* Tiers under the prefix cache, from CPU memory on. */
static void vllm_offloading(const ConnectorOptions *connector, Words *words) {
  const KvStoreOptions *tiers = connector->tiers;
  if (connector->kind != CONNECTOR_OFFLOADING || tiers[0].kind != KV_STORE_CPU) return;
  const bool disk = connector->n_tiers > 1 && tiers[1].kind == KV_STORE_SSD;
  words_add(words, "--kv-transfer-config",
            "{\"kv_connector\":\"OffloadingConnector\",\"kv_role\":\"kv_both\","
            "\"kv_connector_extra_config\":{%s\"cpu_bytes_to_use\":%" PRId64 "%s}}",
            disk ? "\"spec_name\":\"TieringOffloadingSpec\"," : "", tiers[0].capacity,
            disk ? ",\"secondary_tiers\":[{\"type\":\"fs\",\"root_dir\":\"/mnt/kv\"}]" : "");
}

/* vLLM 0.33: vllm serve --help=all; docs/features/nixl_connector_usage.md,
 * kv_offloading_usage.md. */
static void vllm_arguments(const Export *self, const ExportPool *pool, Words *words) {
  words_count(words, "--tensor-parallel-size", pool->tensor);
  if (pool->pipeline > 1) words_count(words, "--pipeline-parallel-size", pool->pipeline);
  if (pool->attention > 1) words_count(words, "--data-parallel-size", pool->attention);
  if (pool->expert > 1) words_add(words, "--enable-expert-parallel", NULL);
  if (pool->nodes > 1) words_count(words, "--nnodes", pool->nodes);
  words_count(words, "--max-num-batched-tokens", pool->batched_tokens);
  words_count(words, "--max-num-seqs", pool->seqs);
  if (self->family == FAMILY_VLLM) {
    words_add(words, "--gpu-memory-utilization", "%g", pool->gpu_memory_utilization);
  }
  add_formats(self, pool, "fp8", words);
  export_given_flags(self, pool, FAMILY_VLLM, words);
  if (pool->mtp)
    words_add(words, "--speculative-config",
              "{\"method\":\"mtp\",\"num_speculative_tokens\":%" PRId64 "}", pool->drafts);
  vllm_offloading(&pool->connector, words);
  if (!self->split) return;
  words_add(words, "--kv-transfer-config",
            "{\"kv_connector\":\"NixlConnector\",\"kv_role\":\"%s\"}",
            pool->role == ROLE_PREFILL ? "kv_producer" : "kv_consumer");
}

/* CPU memory under the radix cache; its size is that of each GPU, in GB. */
static void sglang_hicache(const ConnectorOptions *connector, int64_t gpus, Words *words) {
  static const char *const policies[] = {[KV_STORE_WRITTEN] = "write_through",
                                         [KV_STORE_EVICTED] = "write_back",
                                         [KV_STORE_HIT] = "write_through_selective"};
  if (connector->kind != CONNECTOR_HICACHE) return;
  words_add(words, "--enable-hierarchical-cache", NULL);
  if (connector->tiers[0].capacity > 0)
    words_count(words, "--hicache-size",
                connector->tiers[0].capacity / (1000000000 * (gpus > 0 ? gpus : 1)));
  else
    words_add(words, "--hicache-ratio", "%g", connector->ratio);
  words_add(words, "--hicache-write-policy", "%s", policies[connector->tiers[0].takes]);
}

/* SGLang 0.5: docs/advanced_features/server_arguments.md, pd_disaggregation.md. Its degree of
 * tensor parallelism counts all groups of attention. */
static void sglang_arguments(const Export *self, const ExportPool *pool, Words *words) {
  words_count(words, "--tp-size", pool->tensor * pool->attention);
  if (pool->pipeline > 1) words_count(words, "--pp-size", pool->pipeline);
  if (pool->attention > 1) {
    words_count(words, "--dp-size", pool->attention);
    words_add(words, "--enable-dp-attention", NULL);
  }
  if (pool->expert > 1) words_count(words, "--ep-size", pool->expert);
  if (pool->nodes > 1) words_count(words, "--nnodes", pool->nodes);
  words_count(words, "--chunked-prefill-size", pool->batched_tokens * pool->attention);
  words_count(words, "--max-running-requests", pool->seqs * pool->attention);
  if (self->family == FAMILY_SGLANG) {
    words_add(words, "--mem-fraction-static", "%g", pool->gpu_memory_utilization);
  }
  add_formats(self, pool, "fp8_e4m3", words);
  sglang_hicache(&pool->connector, pool->tensor, words);
  export_given_flags(self, pool, FAMILY_SGLANG, words);
  if (pool->mtp) {
    words_add(words, "--speculative-algorithm", "EAGLE");
    words_count(words, "--speculative-num-steps", pool->drafts);
    words_count(words, "--speculative-eagle-topk", 1);
    words_count(words, "--speculative-num-draft-tokens", pool->drafts + 1);
  }
  if (!self->split) return;
  words_add(words, "--disaggregation-mode", "%s",
            pool->role == ROLE_PREFILL ? "prefill" : "decode");
  words_add(words, "--disaggregation-transfer-backend", "nixl");
}

/* TensorRT-LLM 1.x: trtllm-serve. Data parallelism of attention is of all GPUs of an instance. */
static void trtllm_arguments(const Export *self, const ExportPool *pool, Words *words) {
  words_count(words, "--tp_size", pool->tensor * pool->attention);
  if (pool->pipeline > 1) words_count(words, "--pp_size", pool->pipeline);
  if (pool->expert > 1) words_count(words, "--ep_size", pool->expert);
  words_count(words, "--max_num_tokens", pool->batched_tokens);
  words_count(words, "--max_batch_size", pool->seqs);
  if (self->family != FAMILY_TRTLLM) return;
  words_add(words, "--kv_cache_free_gpu_memory_fraction", "%g", pool->gpu_memory_utilization);
}

void export_arguments(const Export *self, const ExportPool *pool, ExportFamily family,
                      Words *words) {
  static void (*const families[FAMILIES])(const Export *, const ExportPool *,
                                          Words *) = {[FAMILY_VLLM] = vllm_arguments,
                                                      [FAMILY_SGLANG] = sglang_arguments,
                                                      [FAMILY_TRTLLM] = trtllm_arguments};
  families[family](self, pool, words);
}

/* ---- On paper ---- */

void export_head(const Export *self, const ExportPool *pool) {
  fprintf(self->out, "# %s: %" PRId64 " instance%s on %" PRId64 " GPU%s (%s) each\n",
          text_shown(pool->name, self->arena), pool->instances, pool->instances > 1 ? "s" : "",
          pool->gpus, pool->gpus > 1 ? "s" : "", text_shown(pool->gpu, self->arena));
}

void export_shell(const Export *self, const char *command, const Words *words) {
  enum { WIDEST = 96 };
  int column = fprintf(self->out, "%s", command);
  for (size_t i = 0; i < words->n; i++) {
    const char *word = quote_shell(words->items[i], self->arena);
    const bool has_value = i + 1 < words->n && words->items[i + 1][0] != '-';
    const char *value =
        words->items[i][0] == '-' && has_value ? quote_shell(words->items[i + 1], self->arena) : "";
    if (column + (int)(strlen(word) + strlen(value)) + 2 > WIDEST)
      column = fprintf(self->out, " \\\n ") - 3;
    column += fprintf(self->out, " %s", word);
  }
  fputc('\n', self->out);
}

void export_list(const Export *self, int indent, const Words *words) {
  for (size_t i = 0; i < words->n; i++)
    fprintf(self->out, "%*s- %s\n", indent, "", quote_yaml_text(words->items[i], self->arena));
}

const char *export_label(const Export *self) {
  char *label = arena_copy(self->arena, self->config->model.name, strlen(self->config->model.name));
  size_t n = 0;
  for (const char *at = label; *at && n < 40; at++) {
    const char letter = (char)tolower((unsigned char)*at);
    const bool plain = (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9');
    if (plain || (n > 0 && label[n - 1] != '-')) label[n++] = plain ? letter : '-';
  }
  while (n > 0 && label[n - 1] == '-')
    n--;
  label[n] = '\0';
  return n > 0 && label[0] >= 'a' ? label
                                  : arena_printf(self->arena, "model%s%s", n ? "-" : "", label);
}

/* ---- All of it ---- */

static const char *format_asked(const Config *config) {
  const Node *model = node_find(config->root, "model");
  const Node *format = model && model->kind == NODE_MAP ? node_find(model, "quantization") : NULL;
  return format ? dtype_names[llm_quantization(&config->model)] : NULL;
}

static void print_notes(const Export *self, const Exporter *exporter) {
  const SimConfig *sim = &self->config->sim;
  fprintf(self->out, "# Flags of %s; iteration times of", exporter->of);
  for (uint32_t i = 0; i < sim->n_pools; i++) {
    const char *name = sim->pools[i].perfmodel->name;
    if (i > 0 && strcmp(name, sim->pools[i - 1].perfmodel->name) == 0) continue;
    fprintf(self->out, "%s\n#   %s", i ? "," : "", text_shown(name, self->arena));
  }
  fputs(".\n", self->out);
  for (uint32_t i = 0; i < sim->n_pools; i++) {
    const int timed = timed_kv_cache(self->config, &self->config->pools[i]);
    const int counted = self->config->models[sim->pools[i].model].kv_cache_dtype;
    if (timed < 0 || timed == counted) continue;
    fprintf(self->out, "# Times of %s assume a KV cache in %s; memory was counted in %s.\n",
            text_shown(sim->pools[i].name, self->arena), dtype_names[timed], dtype_names[counted]);
  }
  if (!self->config->model.checkpoint)
    fprintf(self->out, "# The checkpoint to load is unknown: replace the name by it.\n");
  if (self->quantized && strcmp(self->quantized, "fp8") != 0)
    fprintf(self->out, "# Load a checkpoint in %s.\n", self->quantized);
  const ConnectorOptions *connector = &self->pools[0].connector;
  for (int32_t t = 0; t < connector->n_tiers; t++) {
    const char *const homes[] = {NULL, "Put /mnt/kv on a disk of that size", "Add the remote tier"};
    const KvStoreOptions *tier = &connector->tiers[t];
    if (homes[tier->kind])
      fprintf(self->out, "# %s: %.4g GB of KV for each instance.\n", homes[tier->kind],
              (double)tier->capacity / 1e9);
  }
  if (self->pools[0].drafts > 0 && !self->pools[0].mtp)
    fprintf(self->out, "# Add the drafter, which makes %" PRId64 " drafts.\n",
            self->pools[0].drafts);
}

void export_print(const char *name, const Config *config, FILE *out, Arena *arena) {
  const ServingEngine *engine = serving_at(config->pools[0].engine.row);
  Export self = {.config = config,
                 .model = config->model.checkpoint ? config->model.checkpoint : config->model.name,
                 .quantized = format_asked(config),
                 .pools = ARENA_ARRAY(arena, ExportPool, config->sim.n_pools),
                 .n_pools = config->sim.n_pools,
                 .out = out,
                 .arena = arena};
  if (*self.model == '-') self.model = arena_printf(arena, "./%s", self.model); // no option
  bool fp8_kv_cache = false;
  self.family = export_family(engine ? engine->name : "");
  for (uint32_t i = 0; i < self.n_pools; i++) {
    self.pools[i] = pool_of(config, &config->pools[i]);
    self.split |= self.pools[i].role != ROLE_MIXED;
    fp8_kv_cache |= self.pools[i].fp8_kv_cache;
  }
  for (uint32_t i = 0; i < self.n_pools && self.split; i++)
    self.pools[i].fp8_kv_cache = fp8_kv_cache;       // KV goes from one to the other
  const Exporter *exporter = exporters[self.family]; // the first of them are those of engines
  if (name) exporter = find_exporter(name);
  print_notes(&self, exporter);
  exporter->print(&self);
}
