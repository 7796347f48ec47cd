/* A point as the YAML of a configuration. */
#include "experiments/config/config.h"
#include "experiments/measured/set.h"
#include "perfmodel/acceptance.h"
#include <string.h>

static const char *lengths_text(MeasuredRange tokens, Arena *arena) {
  const long long least = tokens.least, most = tokens.most;
  return least < most ? arena_printf(arena, "{uniform: [%lld, %lld]}", least, most)
                      : arena_printf(arena, "{constant: %lld}", most);
}

/* A text of a file as a scalar. */
static const char *quoted(const char *text, Arena *arena) {
  return node_text(&(Node){.kind = NODE_SCALAR, .quoted = true, .text = text}, arena);
}

static const char *workload_text(const MeasuredPoint *point, Arena *arena) {
  if (point->log)
    return arena_printf(arena, "  ignore_eos: true\n  trace: %s\n", quoted(point->log, arena));
  const char *load = point->clients > 0
                         ? arena_printf(arena, "closed_loop: {clients: %lld, requests: %lld}",
                                        (long long)point->clients, (long long)point->requests)
                         : arena_printf(arena, "arrivals: {process: at_once}\n  requests: %lld",
                                        (long long)point->requests);
  return arena_printf(arena, "  lengths: {prompt: %s, output: %s}\n  ignore_eos: true\n  %s\n",
                      lengths_text(point->prompt_tokens, arena),
                      lengths_text(point->output_tokens, arena), load);
}

static const char *degree_text(const char *key, int64_t degree, Arena *arena) {
  return degree > 1 ? arena_printf(arena, ", %s: %lld", key, (long long)degree) : "";
}

/* What the batcher of a prefill pool is told in place of the others'. */
static const char *prefill_text(const MeasuredScript *script, const char *role, const char *drafts,
                                Arena *arena) {
  if (script->prefill_tokens == 0 || strcmp(role, "prefill") != 0) return "";
  const bool trtllm = strncmp(script->engine, "trtllm", 6) == 0;
  return arena_printf(arena,
                      ", batcher: {max_num_batched_tokens: %lld, max_num_seqs: %lld, "
                      "enable_prefix_caching: false%s%s}",
                      (long long)script->prefill_tokens, (long long)script->max_num_seqs,
                      trtllm ? ", async_scheduling: false" : "", drafts);
}

static const char *pool_text(const MeasuredPoint *point, int index, const char *role,
                             const char *machine, const char *drafts, Arena *arena) {
  const MeasuredPool *pool = &point->pools[index];
  const double memory = point->script.memory;
  return arena_printf(
      arena, "  %s: {role: %s, machine: %s, count: %lld, tensor_parallel_size: %lld%s%s%s%s%s%s}\n",
      point->split ? role : "serve", role, machine, (long long)pool->workers,
      (long long)pool->tensor, degree_text("pipeline_parallel_size", pool->pipeline, arena),
      degree_text("attention_data_parallel_size", pool->attention, arena),
      degree_text("expert_parallel_size", pool->expert, arena),
      degree_text("num_gpu_blocks_override", pool->blocks, arena),
      memory > 0 ? arena_printf(arena, ", gpu_memory_utilization: %g", memory) : "",
      prefill_text(&point->script, role, drafts, arena));
}

static const char *pools_text(const MeasuredPoint *point, const char *machine, const char *drafts,
                              Arena *arena) {
  if (!point->split) return pool_text(point, MEASURED_SERVE, "mixed", machine, drafts, arena);
  return arena_printf(arena, "%s%s",
                      pool_text(point, MEASURED_PREFILL, "prefill", machine, drafts, arena),
                      pool_text(point, MEASURED_DECODE, "decode", machine, drafts, arena));
}

/* A build without a number, nightly-5b8c30d, is the newest there is. */
static const char *perfmodel_text(const MeasuredPoint *point, const MeasuredOptions *options,
                                  Arena *arena) {
  if (options->perfmodel) return options->perfmodel;
  const char *version = setup_is_version(point->version)
                            ? arena_printf(arena, ", version: %s", quoted(point->version, arena))
                            : "";
  return arena_printf(arena, "{engine: %s%s}", quoted(point->engine, arena), version);
}

/* A checkpoint, and the formats that it was converted to. */
static const char *model_text(const MeasuredPoint *point, const char *name, const char *format,
                              Arena *arena) {
  const char *kv = point->script.kv_cache_dtype;
  if (!*format && !kv) return name;
  return arena_printf(arena, "{name: %s%s%s%s%s}", name, *format ? ", quantization: " : "", format,
                      kv ? ", kv_cache_dtype: " : "", kv ? kv : "");
}

/* ", speculative: {...}" and what that assumes; nothing without drafts. */
static const char *drafts_text(MeasuredPoint *point, const char *model, Arena *arena) {
  const int64_t drafts = point->script.drafts;
  if (drafts == 0) return "";
  const PublishedAcceptance acceptance = acceptance_published(model, drafts);
  point->assumed = arena_printf(
      arena, "it ran with MTP, %lld draft%s a step by its %s; %.2f tokens a step are %s",
      (long long)drafts, drafts > 1 ? "s" : "", point->split ? "recipe" : "script",
      acceptance_middle(&acceptance),
      acceptance.own ? "what was measured on coding prompts" : "assumed, by other models");
  return arena_printf(
      arena, ", speculative: {method: mtp, num_speculative_tokens: %lld, acceptance: %.2f}",
      (long long)drafts, acceptance_middle(&acceptance));
}

void measured_write_config(MeasuredPoint *point, const MeasuredOptions *options, Arena *arena,
                           Diag *diag) {
  if (point->why) return;
  const char *root = arena_printf(arena, "%s/perfmodel", config_data_root());
  const char *model = llm_name_of(point->model, root, arena);
  const char *machine = measured_machine_name(point->gpu);
  const char *weights = point->script.weights ? point->script.weights : point->precision;
  const char *format = model ? measured_quantization(model, weights, root, arena, diag) : "";
  if (!model)
    measured_refuse(point, arena_printf(arena, "the model '%s' is not known", point->model));
  if (!machine)
    measured_refuse(point, arena_printf(arena, "no machine is known as '%s'", point->gpu));
  if (!point->script.engine)
    measured_refuse(point, arena_printf(arena, "the engine '%s' is not known", point->engine));
  if (!format)
    measured_refuse(point,
                    arena_printf(arena, "the precision '%s' is not known", point->precision));
  if (point->why) return;
  const MeasuredScript *script = &point->script;
  const char *shape = model_text(point, model, format, arena);
  const char *drafts = drafts_text(point, model, arena);
  const char *served = arena_printf(
      arena,
      "engine: {name: %s, request_time: %g s%s}\n"
      "pools:\n%s"
      "policies: {batcher: {max_num_batched_tokens: %lld, max_num_seqs: %lld, "
      "enable_prefix_caching: %s%s%s}}\n"
      "perfmodel: %s\n"
      "slo: none\n",
      script->engine, script->request_s, script->launches_free ? ", eager_layer_time: 0 us" : "",
      pools_text(point, machine, drafts, arena), (long long)script->max_num_batched_tokens,
      (long long)script->max_num_seqs, script->prefix_caching ? "true" : "false",
      script->batcher ? script->batcher : "", drafts, perfmodel_text(point, options, arena));
  point->served = arena_printf(arena, "%s %s", shape, served);
  point->config =
      arena_printf(arena, "model: %s\nworkload:\n%s%s", shape, workload_text(point, arena), served);
}
