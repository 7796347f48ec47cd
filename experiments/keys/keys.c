/* The places and their rows. */
#include "experiments/keys/keys.h"
#include "experiments/config/config.h"
#include "experiments/provision/provision.h"
#include "perfmodel/llm_hugging_face.h"
#include "perfmodel/presets.h"
#include "sim/core/host_link.h"
#include "sim/policies.h"
#include "sim/proposal/proposal.h"
#include "sim/scaling/scaler.h"
#include "traces/think_time.h"

/* Policies come where POLICIES stands, proposals where PROPOSALS does, limits on latencies where
 * LIMITS does. */
static const OptionSpec POLICIES[] = {{0}}, PROPOSALS[] = {{0}}, LIMITS[] = {{0}};

static const KeyBlock BLOCKS[] = {
    {"Configuration: model and instances", "", NULL,
     "The keys at the top of the file, outside all blocks.", config_options},
    {NULL, "model", NULL, "The value is a name, or a map of these keys.", config_model_options},
    {NULL, "engine", NULL,
     "The value is a name, or a map of these keys. A pool may have its own: `pools.NAME.engine`.",
     config_engine_options},
    {NULL, "perfmodel", NULL,
     "The value is a name, or a map of these keys. A pool may have its own: "
     "`pools.NAME.perfmodel`.",
     config_perfmodel_options},
    {NULL, "pools.NAME", NULL, "A pool: instances with one role and one configuration.",
     config_pool_options},
    {NULL, "pools.NAME.attention_ffn", NULL, "Attention and FFNs on GPUs of their own.",
     config_attention_ffn_options},
    {NULL, "pools.NAME.host_link", NULL, "The link between the memory of GPUs and CPU.",
     config_host_link_options},
    {NULL, "pools.NAME.host_link.background", NULL, "Each item of the list has these keys.",
     host_link_traffic_options},
    {NULL, "adapters.NAME", NULL, "A set of LoRA adapters of one model.", config_adapter_options},
    {NULL, "pools.NAME.lora", NULL, "The memory that a pool has for adapters.",
     config_lora_options},
    {NULL, "groups.NAME", NULL,
     "A group: a prefill and a decode pool that are the same GPUs in two shapes.",
     config_group_options},
    {NULL, "network", NULL, "The network that KV is transferred over.", config_network_options},
    {NULL, "monitor", NULL, "Loads as dispatchers know them.", config_monitor_options},
    {NULL, "timeline", NULL, "The record of what groups do.", config_timeline_options},
    {NULL, "window", NULL, "The window of the figure `window_rps`.", config_window_options},
    {NULL, "flow", NULL, "Decodes that go from one pool to another as they run.",
     config_flow_options},
    {NULL, "warm", NULL, "The value is the path of a file, `auto`, or a map of these keys.",
     config_warm_options},
    {"Configuration: workload", "workload", "trace", "A trace that is replayed.",
     workload_replay_options},
    {NULL, "workload.columns", NULL,
     "Columns of a trace that is in no known format: their names, or their positions from 1.",
     workload_column_options},
    {NULL, "workload", "synthetic", "Requests that are drawn at random.",
     workload_synthetic_options},
    {NULL, "workload.lengths.SIDE", NULL,
     "A distribution, where SIDE is `prompt` or `output`: a map with one of these keys.",
     length_options},
    {NULL, "workload.lengths.SIDE.lognormal", NULL, "A lognormal distribution of lengths.",
     length_lognormal_options},
    {NULL, "workload.lengths.SIDE.exponential", NULL, "An exponential distribution of lengths.",
     length_exponential_options},
    {NULL, "workload.arrivals", NULL, "The process by which requests arrive.",
     workload_arrival_options},
    {NULL, "workload.arrivals.rates", NULL, "Each item of the list has these keys.",
     arrival_point_options},
    {NULL, "workload.arrivals.states", NULL, "Each item of the list has these keys.",
     arrival_state_options},
    {NULL, "workload.arrivals.modulation", NULL, "A random factor on the rate.",
     arrival_drift_options},
    {NULL, "workload.system_prompts", NULL,
     "Texts that prompts share. `workload.documents` has the same keys.", sharing_options},
    {NULL, "workload.images", NULL, "Images of prompts, in front of the tokens of their own.",
     images_options},
    {NULL, "workload.closed_loop", NULL, "A fixed number of clients.", closed_loop_options},
    {NULL, "workload.sessions", NULL, "Conversations of several turns.", sessions_options},
    {NULL, "workload.sessions.think_time", NULL, "A map with one of these keys.",
     think_time_options},
    {NULL, "workload.sessions.think_time.exponential", NULL,
     "An exponential distribution of times.", think_time_exponential_options},
    {NULL, "workload.sessions.think_time.lognormal", NULL, "A lognormal distribution of times.",
     think_time_lognormal_options},
    {NULL, "workload.priorities", NULL, "Priorities of single requests.", priorities_options},
    {NULL, "workload.priorities.values", NULL, "Each item of the list has these keys.",
     priority_share_options},
    {NULL, "workload.patience", NULL, "Clients that give up.", patience_options},
    {NULL, "workload", "mix", "Several workloads at once.", workload_mix_options},
    {NULL, "workload.mix", NULL,
     "Each item of the list has these keys and those of a synthetic workload or a trace.",
     workload_component_options},
    {NULL, "classes.NAME", NULL, "A class of requests, whose admission can be limited.",
     config_class_options},
    {NULL, "tenants.NAME", NULL, "A tenant, whose share of the cluster can be limited.",
     config_tenant_options},
    {NULL, "early_rejection", NULL,
     "Early rejection, as in Mooncake: of a request that would be late.",
     config_early_rejection_options},
    {"Configuration: limits (SLO)", "slo", NULL,
     "The value is a name, or a map of these keys and of limits on statistics. A limit whose "
     "figure has no value in a run counts as not met.",
     config_slo_options},
    {NULL, "slo", "statistics",
     "STATISTIC is `mean`, `max`, or a percentile such as `p50` or `p99.9`.", LIMITS},
    {NULL, "slo.goodput", NULL, "Limits that hold for each request.", config_goodput_options},
    {NULL, "slo.components.NAME", NULL,
     "Limits on the requests of one component or class: this key, and limits on statistics of "
     "`ttft`, `tpot` and `e2e`.",
     config_component_slo_options},
    {"Configuration: policies", "policies", NULL,
     "The value of each kind is a name, or a map of `name` and the keys of that policy.",
     config_policy_options},
    {NULL, NULL, NULL, NULL, POLICIES},
    {NULL, NULL, NULL, NULL, PROPOSALS},
    {NULL, "policies.scaler.steps", NULL,
     "Each item of the list has these keys. They belong to the scaler `schedule`.",
     schedule_step_options},
    {NULL, "policies.scaler.pools.NAME", NULL,
     "The targets of one pool. They belong to the scaler `target`.", target_pool_options},
    {"Configuration: start-up and scaling", "pools.NAME.start_up", NULL,
     "The time that an instance takes to start.", config_start_up_options},
    {NULL, "pools.NAME.start_up.weights", NULL, "The loading of the model's weights.",
     config_weights_options},
    {NULL, "pools.NAME.scaling", NULL, "Bounds on the number of instances of a pool.",
     config_pool_scaling_options},
    {NULL, "sleep", NULL,
     "Sleep mode, as in vLLM: models take turns on the same GPUs. All pools have it, one for each "
     "model.",
     config_sleep_options},
    {NULL, "scaling", NULL, "Scaling of all pools that have `scaling`.", config_scaling_options},
    {NULL, "energy", NULL, "Energy of the building, and emissions of its electricity.",
     config_energy_options},
    {"Configuration: failures", "pools.NAME.faults", NULL, "The failures of a pool.",
     config_pool_faults_options},
    {NULL, "pools.NAME.faults.gpu", NULL,
     "The same keys are in `pools.NAME.faults.machine`, `.link` and `.store`, and in "
     "`domains.NAME.faults`.",
     config_lifetime_options},
    {NULL, "pools.NAME.faults.schedule", NULL, "Each item of the list has these keys.",
     config_outage_options},
    {NULL, "domains.NAME", NULL,
     "Failure domains of one kind, such as `rack`, over the machines of all pools.",
     config_domain_options},
    {NULL, "domains.NAME.schedule", NULL, "Each item of the list has these keys.",
     config_domain_outage_options},
    {NULL, "domains.NAME.release", NULL, "A release that goes from domain to domain.",
     config_release_options},
    {NULL, "pools.NAME.pauses", NULL, "Each item of the list has these keys.",
     config_pause_options},
    {NULL, "faults", NULL, "The treatment of requests when something fails.",
     config_recovery_options},
    {NULL, "faults.retry", NULL, "Retries of lost requests.", config_retry_options},
    {NULL, "faults.hedge", NULL, "Copies of requests that wait.", config_hedge_options},
    {NULL, "faults.checkpoint", NULL, "A store for the KV of prompts.", config_checkpoint_options},
    {"Configuration: experts", "pools.NAME.expert_load", NULL,
     "The loads of the experts of each layer, as shares of its tokens.",
     config_expert_load_options},
    {NULL, "pools.NAME.eplb_config", NULL, "The expert-parallel load balancer (EPLB).",
     config_eplb_options},
    {"Configuration: prices", "prices.NAME", NULL,
     "NAME is a machine type or a GPU, such as h100. A price instead of a map is that of the "
     "machine, or of one GPU.",
     hardware_price_options},
    {"Studies", "sweep", NULL,
     "The axes of `tandem sweep`, each in one of three forms:\n\n"
     "    KEY: 1..40 step 3 | [70 /s, 100 /s]   values of any key, such as pools.prefill.count\n"
     "    NAME: {KEY: VALUES, KEY: VALUES}      keys that change together\n"
     "    NAME: {DESIGN: {KEY: VALUE, …}, …}    named sets of values\n\n"
     "The points of the sweep are all combinations of the axes.",
     NULL},
    {NULL, "provision", NULL, "The study of `tandem provision`.", provision_options},
    {NULL, "provision.constraint", NULL, "Budgets, or the rate to hold.",
     provision_constraint_options},
    {NULL, "provision.designs.NAME", NULL,
     "Each KEY: VALUE sets a key of the configuration. `pools.NAME.count: 1..40` is searched.\n"
     "If all requests arrive at once, KEY: VALUES as in a sweep and `parallelism` are allowed too.",
     NULL},
    {NULL, "provision.designs.NAME.parallelism", NULL,
     "Degrees of parallelism to try, if all requests arrive at once.",
     provision_parallelism_options},
    {NULL, "provision.rates", NULL, "The range of the search for the largest rate.",
     provision_rate_options},
    {NULL, "provision.prices.NAME", NULL, "NAME is a machine type or a pool.",
     provision_price_options},
    {"Machine files", "MACHINE.yaml", NULL,
     "A file perfmodel/machines/NAME.yaml, or one of your own whose path is the value of "
     "`machine`.",
     hardware_options},
    {"Model files", "MODEL.yaml", NULL,
     "A file perfmodel/models/NAME.yaml, or one of your own whose path is the value of `model`.\n"
     "A Hugging Face config.json is read as it is, with the keys that it has.",
     llm_options},
    {"Preset files", "PRESET.yaml", NULL,
     "A file of your own whose path is the value of `perfmodel.preset`.", preset_options},
};

const char *const keys_first[] = {"model",
                                  "engine",
                                  "pools.NAME.machine",
                                  "pools.NAME.count",
                                  "pools.NAME.tensor_parallel_size",
                                  "workload.trace",
                                  "workload.lengths",
                                  "workload.arrivals.rate",
                                  "slo",
                                  "policies.router",
                                  NULL};
enum { N_BLOCKS = sizeof BLOCKS / sizeof *BLOCKS };

/* One row per latency. */
static const OptionSpec *limits(Arena *arena) {
  OptionSpec *specs = ARENA_ARRAY(arena, OptionSpec, METRICS_HISTOGRAMS + 1);
  for (int i = 0; i < METRICS_HISTOGRAMS; i++) {
    const HistogramSpec *of = &metrics_histograms[i];
    specs[i] = *of->unit ? config_limit_of_time : config_limit_of_ratio;
    specs[i].key = arena_printf(arena, "%s.STATISTIC", of->name);
    specs[i].help = arena_printf(arena, "Upper limit on this statistic of the %s.", of->meaning);
  }
  return specs;
}

/* The block of a policy at a place; how many that is, none if it has no keys. Only counts if `to`
 * is NULL. */
static size_t add_policy(KeyBlock *to, const char *place, const Policy *policy) {
  if (!policy->options) return 0;
  if (to)
    *to = (KeyBlock){
        .place = place, .which = policy->name, .help = policy->help, .specs = policy->options};
  return 1;
}

static size_t add_policies(KeyBlock *to, Arena *arena) {
  size_t n = 0;
  for (PolicyKind kind = 0; kind < POLICY_KINDS; kind++)
    for (const Policy *const *policy = policy_list(kind); *policy; policy++)
      n += add_policy(to ? to + n : NULL,
                      arena_printf(arena, "policies.%s", policy_kind_name(kind)), *policy);
  return n;
}

static size_t add_proposals(KeyBlock *to) {
  size_t n = 0;
  for (const Proposal *const *proposal = proposal_list(); *proposal; proposal++)
    n += add_policy(to ? to + n : NULL, "policies.batcher.proposal", &(*proposal)->policy);
  return n;
}

const KeyBlock *keys_blocks(size_t *ret_n, Arena *arena) {
  KeyBlock *blocks =
      ARENA_ARRAY(arena, KeyBlock, N_BLOCKS + add_policies(NULL, arena) + add_proposals(NULL));
  size_t n = 0;
  for (size_t i = 0; i < N_BLOCKS; i++) {
    blocks[n] = BLOCKS[i];
    if (BLOCKS[i].specs == LIMITS) blocks[n].specs = limits(arena);
    if (BLOCKS[i].specs == POLICIES)
      n += add_policies(blocks + n, arena);
    else if (BLOCKS[i].specs == PROPOSALS)
      n += add_proposals(blocks + n);
    else
      n++;
  }
  *ret_n = n;
  return blocks;
}

const char *keys_name(const KeyBlock *block, const OptionSpec *spec, Arena *arena) {
  return *block->place ? arena_printf(arena, "%s.%s", block->place, spec->key) : spec->key;
}
