/* The places and their rows. */
#include "experiments/keys/keys.h"
#include "experiments/config/config.h"
#include "experiments/provision/provision.h"
#include "perfmodel/llm_hugging_face.h"
#include "perfmodel/presets.h"
#include "sim/host_link.h"
#include "sim/scaling/scaler.h"
#include "traces/think_time.h"
#include <string.h>

/* Policies come where POLICIES stands, limits on latencies where LIMITS does. */
static const OptionSpec POLICIES[] = {{0}}, LIMITS[] = {{0}};

static const KeyBlock BLOCKS[] = {
    {"A configuration", "", NULL, "The top level of the file.", config_options},
    {NULL, "model", NULL, "A name, or this map.", config_model_options},
    {NULL, "pools.NAME", NULL, "Machines of one kind.", config_pool_options},
    {NULL, "pools.NAME.host_link", NULL, NULL, config_host_link_options},
    {NULL, "pools.NAME.host_link.background", NULL, "A list of these.", host_link_traffic_options},
    {NULL, "pools.NAME.faults", NULL, "What of a pool fails.", config_pool_faults_options},
    {NULL, "pools.NAME.faults.gpu", NULL, "Also `pools.NAME.faults.machine` and `.link`.",
     config_lifetime_options},
    {NULL, "pools.NAME.faults.schedule", NULL, "A list of these.", config_outage_options},
    {NULL, "faults", NULL, "What becomes of requests when something fails.",
     config_recovery_options},
    {NULL, "faults.retry", NULL, NULL, config_retry_options},
    {NULL, "faults.hedge", NULL, NULL, config_hedge_options},
    {NULL, "faults.checkpoint", NULL, NULL, config_checkpoint_options},
    {NULL, "pools.NAME.start_up", NULL, NULL, config_start_up_options},
    {NULL, "pools.NAME.start_up.weights", NULL, NULL, config_weights_options},
    {NULL, "pools.NAME.scaling", NULL, "How many machines a pool may have.",
     config_pool_scaling_options},
    {NULL, "scaling", NULL, NULL, config_scaling_options},
    {NULL, "adapters.NAME", NULL, "LoRA adapters of a model.", config_adapter_options},
    {NULL, "pools.NAME.lora", NULL, "Room for adapters.", config_lora_options},
    {NULL, "policies.scaler.steps", NULL, "A list of these, of scaler `schedule`.",
     schedule_step_options},
    {NULL, "policies.scaler.pools.NAME", NULL, "Of scaler `target`.", target_pool_options},
    {NULL, "engine", NULL, "A name, or this map; also `pools.NAME.engine`.", config_engine_options},
    {NULL, "perfmodel", NULL, "A name, or this map; also `pools.NAME.perfmodel`.",
     config_perfmodel_options},
    {NULL, "groups.NAME", NULL, "Two pools that are the same GPUs in two shapes.",
     config_group_options},
    {NULL, "network", NULL, NULL, config_network_options},
    {NULL, "monitor", NULL, NULL, config_monitor_options},
    {NULL, "timeline", NULL, NULL, config_timeline_options},
    {NULL, "window", NULL, NULL, config_window_options},
    {NULL, "warm", NULL, "The path of a file, or this map.", config_warm_options},
    {"The workload", "workload", "of a trace", NULL, workload_replay_options},
    {NULL, "workload.columns", NULL,
     "Of a trace with columns of its own: names, or positions from 1.", workload_column_options},
    {NULL, "workload", "synthetic", NULL, workload_synthetic_options},
    {NULL, "workload.arrivals", NULL, NULL, workload_arrival_options},
    {NULL, "workload.arrivals.rates", NULL, "A list of these.", arrival_point_options},
    {NULL, "workload.arrivals.states", NULL, "A list of these.", arrival_state_options},
    {NULL, "workload.arrivals.modulation", NULL, NULL, arrival_drift_options},
    {NULL, "workload", "a mix", NULL, workload_mix_options},
    {NULL, "workload.mix", NULL, "A list of these, with the keys of a workload beside them.",
     workload_component_options},
    {NULL, "classes.NAME", NULL, NULL, config_class_options},
    {NULL, "tenants.NAME", NULL, NULL, config_tenant_options},
    {NULL, "workload.lengths.SIDE", NULL,
     "A distribution, of SIDE prompt or output: a map with one of these.", length_options},
    {NULL, "workload.lengths.SIDE.lognormal", NULL, NULL, length_lognormal_options},
    {NULL, "workload.lengths.SIDE.exponential", NULL, NULL, length_exponential_options},
    {NULL, "workload.system_prompts", NULL, "Also `workload.documents`.", sharing_options},
    {NULL, "workload.closed_loop", NULL, NULL, closed_loop_options},
    {NULL, "workload.sessions", NULL, NULL, sessions_options},
    {NULL, "workload.sessions.think_time", NULL, "A map with one of these.", think_time_options},
    {NULL, "workload.sessions.think_time.exponential", NULL, NULL, think_time_exponential_options},
    {NULL, "workload.sessions.think_time.lognormal", NULL, NULL, think_time_lognormal_options},
    {NULL, "workload.priorities", NULL, NULL, priorities_options},
    {NULL, "workload.priorities.values", NULL, "A list of these.", priority_share_options},
    {NULL, "workload.patience", NULL, NULL, patience_options},
    {"Limits", "slo", NULL,
     "A name, or this map, with limits on statistics beside its keys. A limit of whose figure a "
     "run "
     "has no value is not measured, and so not met.",
     config_slo_options},
    {NULL, "slo", "statistics",
     "STATISTIC: mean, max, or a percentile such as p50 or p99.9. What must lie below the limit:",
     LIMITS},
    {NULL, "slo.goodput", NULL, NULL, config_goodput_options},
    {"Policies", "policies", NULL, "Of each kind a name, or {name: …, its keys}.",
     config_policy_options},
    {NULL, NULL, NULL, NULL, POLICIES},
    {"Studies", "sweep", NULL,
     "Axes, for `tandem sweep`, each of them one of\n\n"
     "    KEY: 1..40 step 3 | [70 /s, 100 /s]   values of any key, such as pools.prefill.count\n"
     "    NAME: {KEY: VALUES, KEY: VALUES}      keys that move together\n"
     "    NAME: {DESIGN: {KEY: VALUE, …}, …}    named sets of values",
     NULL},
    {NULL, "provision", NULL, "For `tandem provision`.", provision_options},
    {NULL, "provision.constraint", NULL, NULL, provision_constraint_options},
    {NULL, "provision.designs.NAME", NULL,
     "Any KEY: VALUE; of arrivals at once also KEY: VALUES, as in a sweep, and `parallelism`.\n"
     "`pools.NAME.count: 1..40` is searched.",
     NULL},
    {NULL, "provision.designs.NAME.parallelism", NULL, "Of arrivals at once.",
     provision_parallelism_options},
    {NULL, "provision.rates", NULL, NULL, provision_rate_options},
    {NULL, "prices.NAME", NULL, "NAME is a machine type. A price alone is that of the machine.",
     hardware_price_options},
    {NULL, "provision.prices.NAME", NULL, "NAME is a machine type or a pool.",
     provision_price_options},
    {"Machine files", "MACHINE.yaml", NULL,
     "perfmodel/machines/NAME.yaml, or a file of yours that `machine` has the path of.",
     hardware_options},
    {"Model files", "MODEL.yaml", NULL,
     "perfmodel/models/NAME.yaml, or a file of yours that `model` has the path of. A Hugging Face\n"
     "config.json is read as it is, with the keys that it has.",
     llm_options},
    {"Presets of rooflines", "PRESET.yaml", NULL,
     "A file of yours that `perfmodel.preset` has the path of.", preset_options},
};
enum { N_BLOCKS = sizeof BLOCKS / sizeof *BLOCKS };

/* One row per latency: what a limit on it may be. */
static const OptionSpec *limits(Arena *arena) {
  OptionSpec *specs = ARENA_ARRAY(arena, OptionSpec, METRICS_HISTOGRAMS + 1);
  for (int i = 0; i < METRICS_HISTOGRAMS; i++) {
    const HistogramSpec *of = &metrics_histograms[i];
    specs[i] = *of->unit ? config_limit_of_time : config_limit_of_ratio;
    specs[i].key = arena_printf(arena, "%s.STATISTIC", of->name);
    specs[i].help = of->meaning;
  }
  return specs;
}

/* One block per policy that has keys; counts those of `to` NULL. */
static size_t add_policies(KeyBlock *to, Arena *arena) {
  size_t n = 0;
  for (PolicyKind kind = 0; kind < POLICY_KINDS; kind++)
    for (const Policy *const *policy = policy_list(kind); *policy; policy++) {
      if (!(*policy)->options) continue;
      if (to)
        to[n] = (KeyBlock){.place = arena_printf(arena, "policies.%s", policy_kind_name(kind)),
                           .which = (*policy)->name,
                           .help = (*policy)->help,
                           .specs = (*policy)->options};
      n++;
    }
  return n;
}

const KeyBlock *keys_blocks(size_t *ret_n, Arena *arena) {
  KeyBlock *blocks = ARENA_ARRAY(arena, KeyBlock, N_BLOCKS + add_policies(NULL, arena));
  size_t n = 0;
  for (size_t i = 0; i < N_BLOCKS; i++) {
    blocks[n] = BLOCKS[i];
    if (BLOCKS[i].specs == LIMITS) blocks[n].specs = limits(arena);
    n += BLOCKS[i].specs == POLICIES ? add_policies(blocks + n, arena) : 1;
  }
  *ret_n = n;
  return blocks;
}

const char *keys_name(const KeyBlock *block, const OptionSpec *spec, Arena *arena) {
  return *block->place ? arena_printf(arena, "%s.%s", block->place, spec->key) : spec->key;
}
