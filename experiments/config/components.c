/* What components of a mix ask for: a model, and LoRA adapters (sim/feature/adapters.c), which are
 * `adapters`; `pools.NAME.lora` is the room that instances have for them, with vLLM's keys. */
#include "experiments/config/config.h"
#include "sim/batcher/batcher.h"
#include "sim/policies.h"
#include <string.h>

enum { SETS_MAX = 64 };

#define SET(field, kind, ...) OPTION_OF(AdapterConfig, field, kind, __VA_ARGS__)

const OptionSpec config_adapter_options[] = {
    SET(count, OPTION_INT, .fallback = "1", .min = 1, .max = 1e5, .help = "Number of adapters."),
    SET(rank, OPTION_INT, .fallback = "16", .min = 1, .max = 512, .help = "Rank of each adapter."),
    SET(zipf, OPTION_REAL, .fallback = "0", .max = 10,
        .help = "Zipf exponent of their popularity: the k-th is used in proportion to k^-zipf. "
                "With 0 all are equally popular."),
    SET(bytes, OPTION_BYTES, .min = 1, .max = 1e12, .help = "Size of one adapter.",
        .absent = "2 bytes per parameter for all matrices of the model's layers"),
    {0}};

#define LORA(field, kind, ...) OPTION_OF(LoraConfig, field, kind, __VA_ARGS__)

const OptionSpec config_lora_options[] = {
    LORA(max_loras, OPTION_INT, .fallback = "1", .min = 1, .max = 1024,
         .help = "Maximum number of adapters on the GPUs, and in a batch (vLLM --max-loras)."),
    LORA(max_cpu_loras, OPTION_INT, .min = 1, .max = 1e4,
         .help = "Maximum number of adapters in CPU memory, those on the GPUs included (vLLM "
                 "--max-cpu-loras).",
         .absent = "max_loras"),
    LORA(
        max_lora_rank, OPTION_INT, .fallback = "16", .min = 1, .max = 512,
        .help =
            "Maximum rank of an adapter, for which GPU memory is reserved (vLLM --max-lora-rank)."),
    LORA(slot_bytes, OPTION_BYTES, .min = 1, .max = 1e12,
         .help = "GPU memory that is reserved per adapter on each GPU.",
         .absent = "computed from max_lora_rank"),
    LORA(load_bandwidth, OPTION_BANDWIDTH, .required = true, .min = 1, .max = 1e18,
         .help = "Bandwidth from the store of the adapters, such as a disk, to CPU memory."),
    {0}};

/* --- how large they are */

/* Parameters of a rank, of one of so many GPUs that share each layer: r·(in + out) of each matrix
 * (Hu et al. 2021, §4.1) of attention and the MLP. A GPU has the whole factor on the side that its
 * part of the matrix is not cut along, as vLLM has it. 0: the layers differ, or their matrices are
 * others. */
static double rank_parameters(const Llm *model, double gpus) {
  if (model->num_experts > 0 || llm_latent(model) || model->num_sliding_layers > 0 ||
      model->o_lora_rank > 0 || model->num_linear_layers > 0 || model->attention_gate)
    return 0;
  const LlmAttention attention = llm_full_attention(model);
  const double hidden = (double)model->hidden_size, mlp = (double)model->intermediate_size;
  const double query = (double)(attention.query_heads * attention.qk_dim);
  const double key = (double)(attention.kv_heads * attention.qk_dim);
  const double value = (double)(attention.kv_heads * attention.v_dim);
  const double mixed = (double)(attention.query_heads * attention.v_dim);
  const double up = model->gated_mlp ? 2 : 1;
  const double heads = 3 * hidden + (query + key + value) / gpus + mixed / gpus + hidden;
  return (double)attention.layers * heads +
         (double)model->num_hidden_layers * (up * (hidden + mlp / gpus) + mlp / gpus + hidden);
}

/* Error at `at`, with the key that says it, where it cannot be known. */
static int size_of(const Llm *model, int64_t rank, int64_t gpus, const char *key, Place at,
                   int64_t *ret_bytes, Diag *diag) {
  enum { ELEMENT_BYTES = 2 }; // bf16 and fp16
  const double parameters = rank_parameters(model, (double)gpus);
  *ret_bytes = (int64_t)(ELEMENT_BYTES * parameters) * rank;
  if (parameters > 0) return 0;
  diag_error(diag, at, "the size of an adapter does not follow from the shape of model '%s'",
             model->name);
  return diag_hint(diag, "set it with '%s'", key);
}

/* --- sets, and who names them */

int config_bind_adapters(Config *self, const Node *node, Arena *arena, Diag *diag) {
  if (node->kind != NODE_MAP || node->n_children == 0 || node->n_children > SETS_MAX) {
    diag_error(diag, node->at, "'adapters' must be a map of 1 to %d names to adapters", SETS_MAX);
    return diag_hint(diag, "for example {tuned: {count: 100, rank: 16, zipf: 1}}");
  }
  AdapterSet *sets = ARENA_ARRAY(arena, AdapterSet, (size_t)node->n_children);
  self->adapters = ARENA_ARRAY(arena, AdapterConfig, (size_t)node->n_children);
  self->sim.adapters = self->adapter_sets = sets;
  int status = 0;
  for (const Node *child = node->first; child; child = child->next) {
    AdapterConfig *config = &self->adapters[self->sim.n_adapters];
    status |= option_bind(config_adapter_options, child, NULL, child->at, config, diag);
    config->at = child->key_at;
    sets[self->sim.n_adapters++] = (AdapterSet){.name = child->key,
                                                .count = (uint32_t)config->count,
                                                .zipf = config->zipf,
                                                .bytes = config->bytes};
  }
  return status;
}

static int find_set(const Config *self, const Node *name, uint32_t *ret, Diag *diag) {
  if (name->kind != NODE_SCALAR)
    return diag_error(diag, name->at, "'adapters' of a component must be a name of 'adapters'");
  for (uint32_t i = 0; i < self->sim.n_adapters; i++)
    if (strcmp(self->adapter_sets[i].name, name->text) == 0) return *ret = i, 0;
  diag_error(diag, name->at, "there is no '%s' in 'adapters'", name->text);
  const char *known = self->sim.n_adapters > 0 ? self->adapter_sets[0].name : NULL;
  for (uint32_t i = 1; i < self->sim.n_adapters; i++)
    known = arena_printf(&diag->arena, "%s, %s", known, self->adapter_sets[i].name);
  if (known)
    diag_hint(diag, "'adapters' has %s", known);
  else
    diag_hint(diag, "add 'adapters: {%s: {count: 1, rank: 16}}' to the configuration", name->text);
  return -1;
}

static int bind_component_adapters(Config *self, const Node *name, ComponentSpec *component,
                                   Diag *diag) {
  uint32_t ix = 0;
  if (find_set(self, name, &ix, diag)) return -1;
  AdapterConfig *config = &self->adapters[ix];
  AdapterSet *set = &self->adapter_sets[ix];
  if (config->used && config->model != component->model)
    return diag_error(diag, name->at, "adapters '%s' belong to model '%s', not to '%s'", set->name,
                      self->specs[config->model].name, self->specs[component->model].name);
  config->used = true;
  config->model = component->model;
  component->adapters = ix + 1;
  if (set->bytes > 0) return 0;
  return size_of(&self->models[component->model], config->rank, 1, "bytes", config->at, &set->bytes,
                 diag);
}

/* --- components */

static int bind_component(Config *self, const WorkloadComponent *component, ComponentSpec *ret,
                          Diag *diag) {
  const Node *model = component->model;
  if (model && model->kind != NODE_SCALAR)
    return diag_error(diag, model->at, "'model' of a component must be a name of 'models'");
  uint32_t ix;
  if (config_find_model(self, model ? model->at : component->of.at, "a component",
                        model ? model->text : NULL, &ix, diag))
    return -1;
  *ret = (ComponentSpec){.name = component->name, .model = (uint8_t)ix};
  if (!component->adapters) return 0;
  return bind_component_adapters(self, component->adapters, ret, diag);
}

/* Machines that nobody asks anything of are no mistake; a workload that names no model is. */
static int check_asked(const Config *self, Diag *diag) {
  if (self->n_models == 1 || self->sim.n_components > 0) return 0;
  diag_error(diag, self->workload.at, "the workload does not name which of %u models it uses",
             self->n_models);
  return diag_hint(diag, "use 'mix' with components, each with its 'model'");
}

int config_bind_components(Config *self, Arena *arena, Diag *diag) {
  const WorkloadConfig *workload = &self->workload;
  const uint32_t n = (uint32_t)workload->n_components;
  ComponentSpec *components = ARENA_ARRAY(arena, ComponentSpec, n);
  int status = 0;
  for (uint32_t i = 0; i < n; i++)
    status |= bind_component(self, &workload->components[i], &components[i], diag);
  self->sim.components = components;
  self->sim.n_components = n;
  return status | check_asked(self, diag);
}

/* --- the room for adapters */

/* Which batchers pass over requests. */
static int refuse_batcher(const Policy *batcher, Place at, Diag *diag) {
  const char *able = NULL;
  for (const Policy *const *other = policy_list(POLICY_BATCHER); *other; other++)
    if (((const Batcher *)*other)->passes_adapters)
      able = able ? arena_printf(&diag->arena, "%s, %s", able, (*other)->name) : (*other)->name;
  diag_error(diag, at, "batcher '%s' does not support adapters", batcher->name);
  return diag_hint(diag, "these batchers do: %s", able);
}

int config_bind_lora(const Config *self, PoolConfig *pool, const Node *node, Diag *diag) {
  LoraConfig *lora = &pool->lora;
  if (option_bind(config_lora_options, node, NULL, node->at, lora, diag)) return -1;
  if (lora->max_cpu_loras == 0) lora->max_cpu_loras = lora->max_loras;
  if (lora->max_cpu_loras < lora->max_loras)
    return diag_error(diag, config_place(node, "max_cpu_loras"),
                      "max_cpu_loras %lld is less than 'max_loras', which it includes",
                      (long long)lora->max_cpu_loras);
  if (pool->pipeline_parallel_size > 1)
    return diag_error(diag, node->key_at, "'lora' cannot be used with pipeline_parallel_size %lld",
                      (long long)pool->pipeline_parallel_size);
  const PolicyChoice batcher = sim_pool_policy(&self->sim, &pool->spec, POLICY_BATCHER);
  if (!((const Batcher *)batcher.policy)->passes_adapters)
    return refuse_batcher(batcher.policy, node->key_at, diag);
  if (lora->slot_bytes == 0 &&
      size_of(&self->models[pool->spec.model], lora->max_lora_rank, pool->tensor_parallel_size,
              "slot_bytes", node->key_at, &lora->slot_bytes, diag))
    return -1;
  pool->kv.activation_bytes += lora->max_loras * lora->slot_bytes;
  pool->spec.adapters = (AdapterRoom){.max_loras = lora->max_loras,
                                      .max_cpu_loras = lora->max_cpu_loras,
                                      .load_bandwidth = lora->load_bandwidth};
  return 0;
}

static int check_pool(const Config *self, const PoolConfig *pool, const Node *node, uint32_t ix,
                      Diag *diag) {
  const AdapterConfig *config = &self->adapters[ix];
  const AdapterSet *set = &self->adapter_sets[ix];
  if (pool->spec.adapters.max_loras == 0) {
    diag_error(diag, node->key_at,
               "requests for adapters '%s' go to pool '%s', which has no room for adapters",
               set->name, node->key);
    return diag_hint(diag, "add 'lora: {max_loras: 4, load_bandwidth: 2 GB/s}' to the pool");
  }
  if (config->rank > pool->lora.max_lora_rank)
    return diag_error(
        diag, config->at, "adapters '%s' have rank %lld, but max_lora_rank of pool '%s' is %lld",
        set->name, (long long)config->rank, node->key, (long long)pool->lora.max_lora_rank);
  return host_link_check(&pool->spec.host_link, (double)set->bytes, set->name, node->key_at, diag);
}

int config_check_adapters(const Config *self, Diag *diag) {
  const Node *node = node_find(self->root, "pools")->first;
  int status = 0;
  for (uint32_t p = 0; p < self->sim.n_pools; p++, node = node->next)
    for (uint32_t i = 0; i < self->sim.n_adapters; i++)
      if (self->adapters[i].used && self->adapters[i].model == self->pools[p].spec.model)
        status |= check_pool(self, &self->pools[p], node, i, diag);
  return status;
}

/* --- acceptance of their drafts */

static int check_accepted_name(const Config *self, const Acceptance *one, Diag *diag) {
  const SimConfig *sim = &self->sim;
  const uint32_t n = sim->n_components + sim->n_classes;
  const char **names = ARENA_ARRAY(&diag->arena, const char *, n + 1);
  for (uint32_t i = 0; i < n; i++) {
    names[i] =
        i < sim->n_components ? sim->components[i].name : sim->classes[i - sim->n_components].name;
    if (strcmp(names[i], one->name) == 0) return 0;
  }
  diag_error(diag, one->at, "there is no component or class '%s'", one->name);
  return diag_hint_near(diag, one->name, names);
}

/* Those that its model serves. */
static int check_covered(const Config *self, const PoolSpec *pool, const Speculation *speculation,
                         Diag *diag) {
  const SimConfig *sim = &self->sim;
  int status = 0;
  for (uint32_t i = 0; i < sim->n_components; i++) {
    const ComponentSpec *component = &sim->components[i];
    const char *class = sim->n_classes > 0 ? sim->classes[component->class].name : NULL;
    if (component->model == pool->model && !speculation_rates(speculation, component->name, class))
      status =
          diag_error(diag, speculation->acceptance->at,
                     "component '%s' has no 'acceptance': add it, or its class", component->name);
  }
  return status;
}

static int check_acceptance(const Config *self, const PoolSpec *pool,
                            const Speculation *speculation, Diag *diag) {
  const Acceptance *first = speculation->acceptance;
  int status = 0;
  if (self->sim.n_components == 0) {
    diag_error(diag, first->at,
               "'acceptance' by name applies to the components of a mix, and the workload is not a "
               "mix");
    return diag_hint(diag, "give one acceptance for all requests, such as 'acceptance: 2.4'");
  }
  for (int i = 0; i < speculation->n_acceptance; i++)
    status |= check_accepted_name(self, &first[i], diag);
  return status ? status : check_covered(self, pool, speculation, diag);
}

int config_check_acceptance(const Config *self, Diag *diag) {
  int status = 0;
  for (uint32_t p = 0; p < self->sim.n_pools && status == 0; p++) {
    const PoolSpec *pool = &self->sim.pools[p];
    const PolicyChoice choice = sim_pool_policy(&self->sim, pool, POLICY_BATCHER);
    const Speculation *speculation = config_speculation(&choice);
    if (speculation && speculation->n_acceptance > 0 && speculation->acceptance->name)
      status = check_acceptance(self, pool, speculation, diag);
  }
  return status;
}
