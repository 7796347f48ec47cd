/* The configuration of a run: a YAML file plus assignments, bound and ready for sim_run.
 *
 * Keys are rows of the option tables below, which also print `tandem list options`. A pool's
 * machine is one instance of `tensor_parallel_size` x `attention_data_parallel_size` GPUs; when
 * that is less than the machine type has, its power, cost and NIC are that share of the machine
 * type's (pools.NAME.nic_bandwidth says otherwise of the NIC); NVLink and PCIe count per GPU.
 * Groups of GPUs that do attention for requests of their own are one machine with one scheduler:
 * the batch is taken to be balanced over them, and limits of a group count as often as there are
 * groups. Machines are numbered in the order of the pools in the file. Data with names (models,
 * machine types, performance models, lengths) is found below the data root: $TANDEM_DATA, or the
 * source tree. Everything lives in one arena.
 */
#ifndef EXPERIMENTS_CONFIG_CONFIG_H
#define EXPERIMENTS_CONFIG_CONFIG_H
#include "base/cache.h"
#include "experiments/config/serving.h"
#include "experiments/config/slo.h"
#include "perfmodel/hardware.h"
#include "sim/core/expert_balance.h"
#include "sim/core/speculation.h"
#include "sim/sim.h"
#include "traces/workload.h"

/* Where iteration times come from: keys of `perfmodel`, then what the pool adds. */
typedef struct PerfModelInputs {
#define INPUT(kind, type, name) type name;
#include "experiments/config/perfmodel_inputs.def"
#undef INPUT
  Place engine_at; // of an engine that is named; the one field that makes no difference to a model
} PerfModelInputs;

/* Adapters that components name, as `adapters` has them. */
typedef struct AdapterConfig {
  int64_t count, rank, bytes; // bytes 0: by the rank and the model
  double zipf;
  Place at;
  bool used;
  uint32_t model; // then, of those that ask for them
} AdapterConfig;

/* Room for them, as vLLM's options have it. */
typedef struct LoraConfig {
  int64_t max_loras, max_cpu_loras, max_lora_rank;
  int64_t slot_bytes; // of one of max_loras, on each GPU
  int64_t load_bandwidth;
} LoraConfig;

/* Where the power of iterations is from, as `power` has it. */
typedef enum PowerSource {
  POWER_AUTO,      // phase where the machine type has its constants and there is no limit
  POWER_OPERATORS, // watts of kernels, where they were measured
  POWER_BATCH,     // between two powers of a GPU
  POWER_PHASE,     // the machine type's prefill_power and decode_power
} PowerSource;

/* One entry of `pools:` as written. A key that the simulator has under the same name is bound where
 * it finds that, in `spec`; the rest of `spec` is filled from the others. */
/* Of attention and FFNs on GPUs of their own; 0: they are not. */
typedef struct AttentionFfnKeys {
  int64_t ffn_gpus, micro_batches;
} AttentionFfnKeys;
extern const OptionSpec config_attention_ffn_options[];

typedef struct PoolConfig {
  PoolSpec spec;
  const char *model; // of several; NULL: the only one
  const char *machine;
  int64_t count, tensor_parallel_size, pipeline_parallel_size, data_parallel_size;
  int64_t attention_data_parallel_size, expert_parallel_size, nnodes;
  bool enable_eplb;
  const Node *attention_ffn; // NULL: all GPUs have both
  AttentionFfnKeys sides;
  const Node *expert_load, *eplb_config; // NULL: as the performance model has them
  Hardware hardware;                     // of the machine type, once it is loaded
  int power;                             // PowerSource
  const Node *gpu_power_cap;             // a power, or a share of that of the GPU; NULL: none
  KvOptions kv;
  int64_t cpu_memory;                       // bytes of it for KV
  const Node *perfmodel, *batcher, *kvtier; // NULL: that of the run
  const Node *host_link;                    // NULL: as the machine type has it
  const Node *faults, *pauses;              // NULL: none
  int64_t spares;                           // machines that are off until one fails
  const Node *start_up, *scaling;           // NULL: at once; not scaled
  const Node *lora_node;                    // NULL: no adapters
  LoraConfig lora;
  const Node *engine_node;    // NULL: that of the run
  EngineChoice engine;        // unless it says otherwise that of the run
  const ServingEngine *giver; // the engine that filled in what is not written; NULL: none did
  const char *given;          // "key value, …", all that it filled in; empty: nothing
  PerfModelInputs times;      // what spec.perfmodel was loaded of; but for `hardware`
  Place times_at;
} PoolConfig;

#define CONFIG_PRECISION_MIN 0.001
#define CONFIG_PRECISION_MAX 0.5

/* How long a run is, where that hangs on what it shows (campaign/steady.h). */
typedef struct LengthConfig {
  bool automatic;   // until what is asked for is known with `precision`, or `most` requests
  bool finds_start; // and what MSER-5 takes for the start is left out
  double precision; // half of a 95% range, as a share of the figure
  bool decides;     // of a limit it is enough to know whether it is met
  int64_t most;
} LengthConfig;

/* Instances that a failure domain has. */
typedef struct Domain {
  FaultPart *parts; // [n_parts], in order
  uint32_t n_parts; // 0: no machine lies in it
  size_t capacity;
} Domain;

/* Failure domains of one kind: racks, power feeds, switches (domains.c). */
typedef struct DomainLevel {
  const char *name;
  Domain *domains; // [n]
  uint32_t n;
  uint32_t *of_machine; // the domain of each machine, all pools together
  bool has_uplinks;     // the following are of each
  uint32_t rails;
  int64_t uplink;          // bytes/s in each direction; 0: by the next
  double oversubscription; // of the NICs beneath
} DomainLevel;

/* The block `sleep`; instances 0: nobody sleeps. */
typedef struct SleepConfig {
  int64_t instances, level;
  Tick min_residence;
  double queue, efficiency;
  Tick sleep_time, wake_time;
} SleepConfig;

/* The block `energy`. */
typedef struct EnergyConfig {
  bool is_given;
  double pue;
  const Node *carbon;
  const char *region; // NULL: the only one
  int64_t start_hour;
  const char *path;  // of the table; NULL: there is none
  double *g_per_kwh; // [n_hours], which come again; NULL: not known
  size_t n_hours;
} EnergyConfig;

typedef struct Config {
  const char *path;      // as the user wrote it
  const char *directory; // of the file; relative paths are tried from here too
  const char *data_root;
  const char *perfmodel_root; // data_root/perfmodel
  const Node *root;           // the file after --set
  const char *text;           // the same on one line
  Cache *cache;
  Llm model;        // the first of `models`
  Llm *models;      // [n_models]
  ModelSpec *specs; // [n_models] as the run has them
  uint32_t n_models;
  AdapterConfig *adapters;   // [sim.n_adapters]
  AdapterSet *adapter_sets;  // the same as the run has them
  PerfModelInputs perfmodel; // without a name: the key was not in order
  double error_shift;        // as in ConfigChanges
  TermShifts apart;          // likewise
  EngineChoice engine;
  const Node *prices; // of machine types and GPUs, in order; NULL: as their files have them
  double cost_per_hour, gpu_cost_per_hour; // of those that `prices` does not name; 0: likewise
  int sold;                                // Sold, of all of them; -1: as their files have it
  PoolConfig *pools;                       // [sim.n_pools]
  DomainLevel *levels;                     // [n_levels] of `domains`
  uint32_t n_levels, n_machines;           // machines that lie in them
  SleepConfig sleep;
  EnergyConfig energy;
  WorkloadConfig workload;
  LengthConfig length;
  const SloSet *slo;
  const TraceSource *source; // the last that was opened as sim.trace; it may be closed
  SimConfig sim;             // complete but for the trace, see config_open_trace, and the callbacks
} Config;

/* A value for a key, "pools.prefill.count", as a study has it. */
typedef struct Setting {
  const char *key;
  Place at;          // where the key stands
  const Node *value; // copied into the tree that it is set in
} Setting;

/* What is changed in a file before it is bound, in this order; seeds replace all those of the
 * file. */
typedef struct ConfigChanges {
  const char *const *assignments; // key=value, NULL-terminated; NULL: none
  int64_t seed, tie_seed;         // -1: as in the file
  const Setting *settings;        // [n_settings]
  int n_settings;
  /* Half of the 95% range that figures asked for may have, as a share: the workload then goes on
   * until they do, or a trace ends. 0: as in the file. */
  double precision;
  /* Iteration times of the pools, moved by so many errors that their models have on what their fits
   * did not see; those whose error is unknown stay. */
  double error_shift;
  TermShifts apart; // and each term by its own error
} ConfigChanges;

/* Times moved down and up by one error: values of error_shift. */
enum { MOVES = 2 };
extern const double config_moves[MOVES];

extern const OptionSpec config_options[];
extern const OptionSpec config_model_options[];
extern const OptionSpec config_pool_options[];
extern const OptionSpec config_host_link_options[];
extern const OptionSpec config_perfmodel_options[];
extern const OptionSpec config_group_options[];
extern const OptionSpec config_timeline_options[];
extern const OptionSpec config_network_options[];
extern const OptionSpec config_monitor_options[];
extern const OptionSpec config_window_options[];
extern const OptionSpec config_warm_options[];
extern const OptionSpec config_flow_options[];
extern const OptionSpec config_recovery_options[]; // of `faults`
extern const OptionSpec config_retry_options[];
extern const OptionSpec config_checkpoint_options[];
extern const OptionSpec config_hedge_options[];
extern const OptionSpec config_pool_faults_options[];
extern const OptionSpec config_lifetime_options[];
extern const OptionSpec config_outage_options[];
extern const OptionSpec config_domain_options[], config_domain_outage_options[];
extern const OptionSpec config_release_options[];
extern const OptionSpec config_pause_options[];
extern const OptionSpec config_expert_load_options[], config_eplb_options[];
extern const OptionSpec config_start_up_options[];
extern const OptionSpec config_weights_options[]; // of `start_up`
extern const OptionSpec config_pool_scaling_options[];
extern const OptionSpec config_early_rejection_options[];
extern const OptionSpec config_sleep_options[];
extern const OptionSpec config_energy_options[];
extern const OptionSpec config_scaling_options[];
extern const OptionSpec config_adapter_options[]; // of an item of `adapters`
extern const OptionSpec config_lora_options[];
extern const OptionSpec config_class_options[], config_tenant_options[];
extern const OptionSpec config_slo_options[];
extern const OptionSpec config_goodput_options[], config_component_slo_options[];
extern const OptionSpec config_limit_of_time, config_limit_of_ratio; // of a statistic; without key
extern const OptionSpec config_policy_options[];                     // a row a kind

/* Where the program was installed with its data, in ../share/tandem from its own folder, and
 * $TANDEM_DATA is not set, it is set to that. Before any thread begins. */
void config_find_data(Arena *arena);
/* Says so, −1, when $TANDEM_DATA is set and is not where data lies. */
int config_check_data(Diag *diag);
/* The tree of a configuration, "-" for standard input, or NULL with entries. */
Node *config_tree(const char *path, Arena *arena, Diag *diag);
/* $TANDEM_DATA, or the source tree. */
const char *config_data_root(void);
/* Reads `path`, applies `changes` (NULL: none) and binds all of it. -1 with all problems in `diag`.
 */
int config_load(Config *self, const char *path, const ConfigChanges *changes, Arena *arena,
                Diag *diag);
/* The same from a tree, as yaml_load or node_copy made it, which is changed. What is taken from
 * `cache` lives as long as that; NULL: it has one of its own, in `arena`. */
int config_bind(Config *self, const char *path, Node *root, const ConfigChanges *changes,
                Cache *cache, Arena *arena, Diag *diag);
/* Makes the changes alone. */
int config_change(Node *root, const ConfigChanges *changes, Arena *arena, Diag *diag);
/* An error when what `option` writes would be written over a file that a value of the configuration
 * names; others of the data folder are not looked for. */
int config_check_output(const Config *self, const char *option, const char *path, Arena *arena,
                        Diag *diag);
/* Opens the workload as sim.trace; the caller closes it. */
int config_open_trace(Config *self, Arena *arena, Diag *diag);
/* The rules that it uses, as an epoch (experiments/base/epoch.h). */
const char *config_epoch(const Config *self, Arena *arena);
/* A digest of all that decides the outcome: version, epoch, text (with the seeds), the numbers read
 * from data files, and the trace file, which is read for it. */
int config_digest(const Config *self, uint64_t *ret_digest, Diag *diag);
/* The same of version, everybody's rules and text alone, for one that could not be bound. */
uint64_t config_text_digest(const Config *self);
/* Lines that say which times were taken for engines that were asked for. */
void config_note_perfmodels(Cache *cache, FILE *out);
/* Lines that say which models were read as another type's; part of the above. */
void config_note_models(Cache *cache, FILE *out);
/* Whether the machines of some pool keep a prefix cache. */
bool config_keeps_caches(const Config *self);
/* What is saved of prefix caches, or loaded, is of blocks: an entry where a pool keeps none. */
int config_check_blocks(const Config *self, Place at, const char *option, Diag *diag);
/* Adds to the newest entry which batchers' machines can keep one. */
void config_hint_caching(Diag *diag);

/* private: the parts of config_load, one file each */

/* A data file to load, and the place that asks for it: the context of a CacheLoad. */
typedef struct ConfigFact {
  const Config *config;
  const char *name; // or a path, as config_data_name gives it
  Place at;
} ConfigFact;

int config_bind_policies(Config *self, const Node *node, Arena *arena, Diag *diag);
/* What requests of the components of the workload have in common. */
int config_bind_components(Config *self, Arena *arena, Diag *diag);
/* `adapters`, before the components that name them. */
int config_bind_adapters(Config *self, const Node *node, Arena *arena, Diag *diag);
/* The room of a pool, whose policies and degrees are known, out of its GPUs' memory. */
int config_bind_lora(const Config *self, PoolConfig *pool, const Node *node, Diag *diag);
/* Whether pools have room for what comes to them. */
int config_check_adapters(const Config *self, Diag *diag);
/* The values of `classes` and `tenants`, NULL when absent, after the components. */
int config_bind_classes(Config *self, const Node *classes, const Node *tenants, Arena *arena,
                        Diag *diag);
/* Whether the router can work with these pools, all of which are bound. */
int config_check_router(const Config *self, Diag *diag);
/* Whether reports of block `monitor`, which may be NULL, fit each other and the router. */
int config_check_reports(const Config *self, const Node *monitor, Diag *diag);
/* Whether some pool minds the priorities of the workload, if it has any. */
int config_check_priorities(const Config *self, Diag *diag);
int config_check_images(const Config *self, Diag *diag);
/* Of a batcher whose options may be wrong; NULL: it has none. */
const Speculation *config_speculation(const PolicyChoice *batcher);
/* Whether there are the components or classes that acceptance names, and each component has it. */
int config_check_acceptance(const Config *self, Diag *diag);
/* `node` is the policy's value, NULL when absent. */
int config_bind_policy(PolicyChoice *ret_choice, PolicyKind kind, const Node *node, Arena *arena,
                       Diag *diag);
/* The pool's batcher, unless it has that of the run, and its KV memory, with what its engine gives.
 * Its hardware is known. */
int config_bind_pool_engine(const Config *self, const Node *node, PoolConfig *pool, Arena *arena,
                            Diag *diag);
/* What its engine gives of host time, once the performance model is loaded. */
void config_give_host_times(PoolConfig *pool, Arena *arena);
/* Error when the pool at `node`, whose policies are bound, has what its engine cannot have. */
int config_check_pool_engine(const Config *self, const Node *node, const PoolConfig *pool,
                             Diag *diag);
/* Sequences that a decode batch can have: what the batcher says in its option max_num_seqs. */
int64_t config_max_decode_seqs(const PolicyChoice *batcher);
/* How the GPUs of one machine of the pool share the model. */
Parallelism config_degrees(const PoolConfig *pool);
/* `host_link` and `attention_ffn` of a pool, the former with its hardware and degrees known. */
int config_bind_host(PoolConfig *pool, const Node *node, Arena *arena, Diag *diag);
int config_bind_sides(PoolConfig *pool, Diag *diag);
int config_bind_pools(Config *self, const Node *node, Arena *arena, Diag *diag);
/* `node` is the value of a key `perfmodel`, NULL when absent: then it is what was measured
 * of an engine. */
int config_bind_perfmodel(const Config *self, const Node *node, PerfModelInputs *ret, Arena *arena,
                          Diag *diag);
extern const PerfModelInputs config_fitted; // without the key
/* The times of a model on its hardware; the caller has filled in all fields up to max_decode_seqs.
 * The host of `engine`, which serves it, is added to times of an engine's kernels alone, or as the
 * configuration says. NULL with the reason at `at`. */
const PerfModel *config_load_perfmodel(const Config *self, PerfModelInputs of,
                                       const EngineChoice *engine, Place at, Arena *arena,
                                       Diag *diag);
/* The host time that is added to a loaded model for the engine `serving` (NULL: none), beside what
 * the configuration has said; NULL: none. */
const HostRow *config_host_row(const char *serving, const HostTimes *said, const PerfModel *model,
                               const char *gpu);
/* The key of its cache: equal when all inputs say the same, wherever they lie. */
uint64_t perfmodel_inputs_digest(const PerfModelInputs *self);
/* The values of `model` and `models`, of which there must be one; NULL when absent. */
int config_bind_models(Config *self, const Node *one, const Node *several, Arena *arena,
                       Diag *diag);
/* That of the only model, "a+b" of several. */
const char *config_model_name(const Config *self, Arena *arena);
/* Says so, -1, where there are several and `what` is for one. */
int config_need_one_model(const Config *self, const char *what, Diag *diag);
/* Which of them `name` is, the 'model' of `what`, at `at`; NULL: the only one. */
int config_find_model(const Config *self, Place at, const char *what, const char *name,
                      uint32_t *ret, Diag *diag);
/* A map of prices: of a YAML file, or of a table (.csv) gpu,usd_per_gpu_hour[,date,source], where
 * `gpu` is a GPU or a machine type. NULL with entries. */
Node *prices_load(const char *path, Arena *arena, Diag *diag);
/* The price that such a map has for a machine type, if any. -1 with entries. */
int prices_set(const Node *prices, Hardware *hardware, Diag *diag);
/* `node` is the value of `prices`. */
int config_bind_prices(Config *self, const Node *node, Arena *arena, Diag *diag);
/* A machine type by its name as written. */
int config_load_hardware(Config *self, Hardware *ret_hardware, const char *written, Place at,
                         Arena *arena, Diag *diag);
/* After the pools and policies, all in order. `node` is NULL when absent. */
int config_bind_groups(Config *self, const Node *node, Arena *arena, Diag *diag);
/* What fails, of pools that are bound; the values of `faults` and `domains`, NULL when absent. */
int config_bind_faults(Config *self, const Node *node, const Node *domains, Arena *arena,
                       Diag *diag);
/* The value of `flow`, after faults and groups. */
int config_bind_flow(Config *self, const Node *node, Diag *diag);
/* Whether a router that cuts requests, if there is one, goes with the rest. */
int config_check_cuts(const Config *self, Diag *diag);
/* Whom loads keep out, once it is known whether requests are hedged. */
int config_bind_early_rejection(Config *self, const Node *node, Diag *diag);
/* When schedulers pause, of pools that are bound. */
int config_bind_pauses(Config *self, Arena *arena, Diag *diag);
/* The loads of experts of a pool of so many ranks with schedulers of their own, before its KV
 * memory is known; and once its performance model is, whether that has times for them,
 * and for batches that are cut in two. */
int config_bind_experts(const Config *self, PoolConfig *pool, const Llm *model, int64_t ranks,
                        const Node *node, Arena *arena, Diag *diag);
int config_check_experts(const PoolConfig *pool, const Node *node, Diag *diag);
/* How the pool's machines start, and how many it may have, by the scaler, which is bound. */
int config_bind_pool_scaling(const Config *self, PoolConfig *pool, const Node *map, Diag *diag);
/* Where the power of its iterations is from, and in `ret_cap` the limit of a GPU in W; 0: none. */
int config_bind_power(PoolConfig *pool, const Hardware *hardware, const Node *node, double *ret_cap,
                      Diag *diag);
/* What of the machine's power its instances draw, once the performance model is loaded. */
void config_fill_power(PoolConfig *pool, double share, const Hardware *hardware);
/* After the pools, policies and groups, all in order. `node` is the value of `scaling`, NULL when
 * absent. */
int config_bind_scaling(Config *self, const Node *node, Arena *arena, Diag *diag);
/* The value of `energy`. */
int config_bind_energy(Config *self, const Node *node, Arena *arena, Diag *diag);
/* Of an hour of the run, where they are known. */
double config_grams_per_kwh(const EnergyConfig *self, size_t hour);
/* The value of `sleep`, before pools. */
int config_bind_sleep(Config *self, const Node *node, Diag *diag);
/* How long instances of a pool fall asleep and wake, if they do; with an entry where that hangs on
 * what is not known. */
int config_fill_sleep(const Config *self, const Node *node, PoolConfig *pool, Diag *diag);
/* Whether what is bound suits it. */
int config_check_sleep(const Config *self, Diag *diag);
/* The value of `warm`. Its file is read only where all else is in order (`whole`). */
int config_bind_warm(Config *self, const Node *node, bool whole, Arena *arena, Diag *diag);
/* After the workload and `warm`; `precision` is the value of that key, NULL when absent. */
int config_bind_length(Config *self, const Node *precision, Diag *diag);
int config_bind_slo(Config *self, const Node *node, Arena *arena, Diag *diag);
/* The domains of a kind, or NULL. */
const DomainLevel *config_find_level(const Config *self, const char *name);
/* Those of a kind whose loss takes the most: without those that lose no more of any pool than
 * another one does, in order. */
uint32_t *config_worst_domains(const Config *self, const DomainLevel *level, uint32_t *ret_n,
                               Arena *arena);
/* A name as it is, or a path as it is reached from here: never the configuration itself. */
const char *config_data_name(const Config *self, const char *name, Arena *arena);
/* Where a key's value stands, or the map when it has no such key. */
Place config_place(const Node *map, const char *key);
#endif
