/* The `groups:` block: pools that are the same GPUs in two shapes (Seesaw). */
#include "experiments/config/config.h"
#include "sim/pool/pool.h"
#include <inttypes.h>
#include <string.h>

typedef struct GroupKeys {
  const char *prefill, *decode;
  int64_t cpu_memory;
  int layout;
  double layout_efficiency;
  int64_t pinned_memory, shared_memory_bandwidth;
  bool overlap;
} GroupKeys;

static const char *const layouts[] = {"hnd", "nhd", NULL};
enum { LAYOUT_HND, LAYOUT_NHD };
static const double MAX_TURN_S = 86400;

#define KEY(field, kind, ...) OPTION_OF(GroupKeys, field, kind, __VA_ARGS__)

const OptionSpec config_group_options[] = {
    KEY(prefill, OPTION_STRING, .required = true,
        .help = "Name of the pool that the GPUs are in prefill."),
    KEY(decode, OPTION_STRING, .required = true,
        .help = "Name of the pool that the GPUs are in decode."),
    KEY(cpu_memory, OPTION_BYTES, .min = 1, .max = 1e18,
        .help = "CPU memory of the KV store of one replica.",
        .absent = "by its share of the machine's GPUs, less pinned_memory"),
    KEY(layout, OPTION_CHOICE, .fallback = "hnd", .choices = layouts,
        .help = "Layout of the KV in the store. With nhd the copies consist of small pieces."),
    KEY(layout_efficiency, OPTION_REAL, .fallback = "0.7", .min = 0.01, .max = 1,
        .help = "Share of the link's bandwidth that copies with layout nhd reach."),
    KEY(shared_memory_bandwidth, OPTION_BANDWIDTH, .min = 1, .max = 1e18,
        .help =
            "Bandwidth from pinned memory, which copies out of the GPUs go to, to the store, which "
            "is in shared memory.",
        .absent = "copies go to the store in one stage"),
    KEY(pinned_memory, OPTION_BYTES, .min = 1, .max = 1e18,
        .help = "Pinned memory of one replica. It applies with shared_memory_bandwidth.",
        .absent = "no limit"),
    KEY(overlap, OPTION_BOOL, .fallback = "true",
        .help = "Copy while iterations run. With false no iteration runs during a copy."),
    {0}};

static int find_pool(const Config *self, const Node *node, const char *key, const char *name,
                     Role role, uint32_t *ret_pool, Diag *diag) {
  for (uint32_t i = 0; i < self->sim.n_pools; i++) {
    if (strcmp(self->sim.pools[i].name, name) != 0) continue;
    *ret_pool = i;
    if (self->sim.pools[i].role == role) return 0;
    return diag_error(diag, config_place(node, key), "pool '%s' has the role '%s', not '%s'", name,
                      role_name(self->sim.pools[i].role), role_name(role));
  }
  return diag_error(diag, config_place(node, key), "there is no pool '%s'", name);
}

static int64_t gpus_of(const PoolConfig *pool) {
  return pool->tensor_parallel_size * pool->pipeline_parallel_size *
         pool->attention_data_parallel_size;
}

/* Both pools must be made of the same GPUs. */
static int check_same(const Node *node, const PoolConfig *prefill, const PoolConfig *decode,
                      Diag *diag) {
  int status = 0;
  if (strcmp(prefill->machine, decode->machine) != 0)
    status = diag_error(diag, node->at,
                        "the pools of a group must be on one machine type, not on '%s' and '%s'",
                        prefill->machine, decode->machine);
  if (prefill->count != decode->count)
    status = diag_error(diag, node->at,
                        "the pools of a group must have one 'count', not %" PRId64 " and %" PRId64,
                        prefill->count, decode->count);
  if (prefill->data_parallel_size != decode->data_parallel_size)
    status = diag_error(diag, node->at,
                        "data_parallel_size is %" PRId64 " in prefill and %" PRId64
                        " in decode, but must be the same",
                        prefill->data_parallel_size, decode->data_parallel_size);
  else if (gpus_of(prefill) != gpus_of(decode))
    status = diag_error(diag, node->at,
                        "the shapes of a group must use the same GPUs, not %" PRId64
                        " in prefill and %" PRId64 " in decode",
                        gpus_of(prefill), gpus_of(decode));
  return status;
}

/* A store must take the smallest prompt of the workload. The prompts of a trace file are not known
 * yet. */
static int check_store(const Config *self, const Node *node, const GroupSpec *spec,
                       const PoolConfig *decode, double memory, Diag *diag) {
  const int64_t room = spec->store_blocks * decode->kv.block_size;
  const int64_t least = workload_least_prompt(&self->workload);
  if (room >= least) return 0;
  diag_error(diag, config_place(node, "cpu_memory"),
             "a store of %.4g MB holds %" PRId64
             " tokens of KV, but each request has at least %" PRId64,
             memory / 1e6, room, least);
  return diag_hint(diag, "a token takes %" PRId64 " bytes, a block has %" PRId64 " tokens",
                   decode->spec.kv_bytes_per_token, decode->kv.block_size);
}

/* CPU memory of a machine holds the stores of all its replicas. */
static int check_memory(const Node *node, const PoolConfig *decode, const Hardware *hardware,
                        double memory, Diag *diag) {
  const double stores = (double)decode->data_parallel_size * memory;
  const double there_is = (double)hardware->cpu_memory_bytes;
  if (stores <= there_is * (1 + 1e-9)) return 0;
  char one[32], limit[32];
  units_format(one, sizeof one, DIM_BYTES, memory);
  units_format(limit, sizeof limit, DIM_BYTES, there_is);
  return diag_error(diag, config_place(node, "cpu_memory"),
                    "the stores of the group, %" PRId64
                    " x %s, exceed the %s of CPU memory of machine '%s'",
                    decode->data_parallel_size, one, limit, hardware->name);
}

/* Both shapes must be up within a day. */
static int check_turns(const Config *self, const Node *node, const GroupSpec *spec, Diag *diag) {
  int status = 0;
  for (int shape = 0; shape < SHAPES && !status; shape++) {
    const PoolSpec *pool = &self->sim.pools[spec->pools[shape]];
    const double turn_s =
        (double)spec->turn_bytes[shape] / host_link_peak(&pool->host_link, LINK_TO_GPU);
    if (turn_s > MAX_TURN_S)
      status = diag_error(diag, node->at,
                          "the weights take %.0f s to load over the link of machine '%s'; at most "
                          "a day is supported",
                          turn_s, pool->machine);
  }
  return status;
}

static int fill_spec(Config *self, const Node *node, const GroupKeys *keys, GroupSpec *spec,
                     Arena *arena, Diag *diag) {
  const PoolConfig *decode = &self->pools[spec->pools[SHAPE_DECODE]];
  const PoolSpec *pool = &self->sim.pools[spec->pools[SHAPE_DECODE]];
  Hardware hardware;
  if (config_load_hardware(self, &hardware, decode->machine, node->at, arena, diag)) return -1;
  const double share = (double)gpus_of(decode) / (double)hardware.num_gpus;
  const double memory = keys->cpu_memory > 0 ? (double)keys->cpu_memory
                                             : share * (double)hardware.cpu_memory_bytes -
                                                   (double)keys->pinned_memory;
  if (memory <= 0)
    return diag_error(diag, config_place(node, "pinned_memory"),
                      "'pinned_memory' leaves no CPU memory for the store");
  const double block = (double)(decode->kv.block_size * pool->kv_bytes_per_token);
  const double eta = keys->layout == LAYOUT_NHD ? keys->layout_efficiency : 1;
  const double copies = (double)pool->kv_block_bytes / block; // of KV heads fewer than GPUs
  spec->store_blocks = (int64_t)(memory / block);
  spec->copy_share[COPY_OUT] = 1 / eta;
  spec->copy_share[COPY_IN] = copies / eta;
  spec->turn_bytes[SHAPE_PREFILL] = spec->turn_bytes[SHAPE_DECODE] = pool->weight_bytes;
  spec->overlaps = keys->overlap;
  spec->pinned_bytes = keys->pinned_memory;
  spec->shared_bandwidth = keys->shared_memory_bandwidth;
  if (spec->pinned_bytes > 0 && spec->shared_bandwidth == 0)
    return diag_error(diag, config_place(node, "pinned_memory"),
                      "'pinned_memory' needs 'shared_memory_bandwidth'");
  if (check_turns(self, node, spec, diag)) return -1;
  if (check_memory(node, decode, &hardware, memory + (double)spec->pinned_bytes, diag)) return -1;
  return check_store(self, node, spec, decode, memory, diag);
}

static int bind_group(Config *self, const Node *node, GroupSpec *spec, Arena *arena, Diag *diag) {
  GroupKeys keys = {0};
  if (option_bind(config_group_options, node, NULL, node->at, &keys, diag)) return -1;
  int status = find_pool(self, node, "prefill", keys.prefill, ROLE_PREFILL,
                         &spec->pools[SHAPE_PREFILL], diag);
  status |=
      find_pool(self, node, "decode", keys.decode, ROLE_DECODE, &spec->pools[SHAPE_DECODE], diag);
  if (status) return -1;
  const PoolConfig *prefill = &self->pools[spec->pools[SHAPE_PREFILL]];
  const PoolConfig *decode = &self->pools[spec->pools[SHAPE_DECODE]];
  if (check_same(node, prefill, decode, diag)) return -1;
  return fill_spec(self, node, &keys, spec, arena, diag);
}

/* Each pool is in one group: placing knows no other machines beside those that change shape. */
static int check_members(const Config *self, const Node *node, Diag *diag) {
  int status = 0;
  for (uint32_t p = 0; p < self->sim.n_pools; p++) {
    int n = 0;
    for (uint32_t g = 0; g < self->sim.n_groups; g++)
      n += self->sim.groups[g].pools[SHAPE_PREFILL] == p ||
           self->sim.groups[g].pools[SHAPE_DECODE] == p;
    if (n != 1)
      status =
          diag_error(diag, node->key_at, "pool '%s' is in %s", self->sim.pools[p].name,
                     n == 0 ? "no group; with 'groups' each pool must be in one" : "two groups");
  }
  return status;
}

/* The policies that groups need. */
static int check_policies(const Config *self, const Node *node, Diag *diag) {
  const PoolPolicy *pool = (const PoolPolicy *)sim_policy(&self->sim, POLICY_POOL).policy;
  if (pool->shape) return 0;
  diag_error(diag, node->key_at, "pool policy '%s' does not change the shape of groups",
             pool->policy.name);
  return diag_hint(diag, "choose 'seesaw': policies: {pool: seesaw}");
}

int config_bind_groups(Config *self, const Node *node, Arena *arena, Diag *diag) {
  const PoolPolicy *pool = (const PoolPolicy *)sim_policy(&self->sim, POLICY_POOL).policy;
  if (!node && pool->shape)
    return diag_error(diag, self->root->at, "pool policy '%s' needs 'groups'", pool->policy.name);
  if (!node) return 0;
  if (node->kind != NODE_MAP || node->n_children == 0)
    return diag_error(diag, node->at,
                      "'groups' must be a map of names to groups, with at least one");
  int status = check_policies(self, node, diag);
  GroupSpec *specs = ARENA_ARRAY(arena, GroupSpec, node->n_children);
  self->sim.groups = specs;
  for (const Node *child = node->first; child; child = child->next) {
    GroupSpec *spec = &specs[self->sim.n_groups++];
    spec->name = child->key;
    status |= bind_group(self, child, spec, arena, diag);
  }
  return status ? -1 : check_members(self, node, diag);
}
