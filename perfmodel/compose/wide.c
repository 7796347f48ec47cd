/* See wide.h. */
#include "perfmodel/compose/wide.h"
#include "perfmodel/compose/kernel_write.h"
#include "perfmodel/compose/nearest.h"
#include <math.h>
#include <string.h>

/* ---- Collectives ---- */

/* What one more machine adds to the shortest message: DeepEP dispatches a token or two on two
 * machines in 22.6 us, on one in 15.4. */
static const double STEP_US = 7;
/* No table has collectives over machines. */
static const double LINKS_ERROR = 0.40;

static void cross(Layers *self, KernelFound *found, const char *what, int64_t nodes,
                  double passes) {
  static const double NUMBER_BYTES = 2;
  if (nodes == 1 || !found->path) return;
  const double others = (double)nodes - 1, all = (double)nodes;
  const int64_t on_each = layers_expert_gpus(self) / layers_expert_nodes(self);
  const double rate = (double)on_each * hardware_nic_rate(&self->hardware);
  for (size_t i = 0; i < found->table.n_points; i++) {
    KernelPoint *point = &found->table.points[i];
    const double bytes = NUMBER_BYTES * (double)point->key[0];
    point->us += passes * (others * STEP_US + 1e6 * others / all * bytes / rate);
  }
  nearest_note(self, found,
               arena_printf(self->arena, "%s over %lld machines", what, (long long)nodes),
               "the links' peaks", LINKS_ERROR);
}

void wide_cross_nodes(Layers *self) {
  const int64_t tensor = layers_tensor_nodes(self), experts = layers_expert_nodes(self);
  cross(self, &self->all_reduce, "all-reduces", tensor, 2);
  cross(self, &self->nccl, "all-reduces", tensor, 2);
  cross(self, &self->gather, "gathers", experts, 1);
  cross(self, &self->scatter, "scatters", experts, 1);
}

/* ---- Experts ---- */

static const char ENGINE[] = "sglang"; // whose tables have DeepEP and the experts beside it

enum { TABLE_HIDDEN = 7168, TABLE_TOPK = 8, TABLE_EXPERTS = 256, NODES_MOST = 8 };
static const char *const SHARED_TABLES = "h100-80gb"; // of GPUs that have none
static const double SHARED_NIC = 50e9;                // bytes per second, of each GPU

static const struct {
  const char *sent, *experts, *what;
} MODES[WIDE_MODES] = {
    [WIDE_DECODES] = {"wideep_deepep_ll", "wideep_generation_moe", "decodes"},
    [WIDE_PROMPTS] = {"wideep_deepep_normal", "wideep_context_moe", "prompts"},
};

static bool is_tables_shape(const Llm *llm) {
  return llm->hidden_size == TABLE_HIDDEN && llm->num_experts_per_tok == TABLE_TOPK;
}

/* The tables of the GPU, or of another. */
static Layers tables_of(const Layers *self, const char *gpu) {
  Layers there = *self;
  const char *slash = strrchr(self->folder, '/');
  const char *folder = arena_copy(self->arena, self->folder, (size_t)(slash - self->folder));
  const char *root = strrchr(folder, '/');
  there.folder = arena_printf(self->arena, "%.*s/%s%s", (int)(root - folder), folder, gpu, slash);
  return there;
}

/* An operation on a number of machines that was measured. */
static bool read_sent_on(Layers *tables, KernelFound *found, WideMode mode, const char *op,
                         int64_t nodes) {
  const KernelQuery query = {.name = MODES[mode].sent,
                             .filters = {{"op_name", {op}},
                                         {"hidden_size", .number = TABLE_HIDDEN},
                                         {"num_topk", .number = TABLE_TOPK},
                                         {"num_experts", .number = TABLE_EXPERTS},
                                         {"node_num", .number = nodes}},
                             .keys = {"num_token"}};
  return nearest_read_version(tables, found, &query, ENGINE, NULL);
}

/* On the machines of the setup: a line over 1 / n between or beyond two numbers of them. */
static bool read_sent(Layers *tables, KernelFound *found, WideMode mode, const char *op) {
  const int64_t nodes = layers_expert_nodes(tables);
  int64_t more = 2;
  while (more < nodes && more < NODES_MOST)
    more *= 2;
  KernelFound fewer;
  if (!read_sent_on(tables, found, mode, op, more)) return false;
  if (more == nodes) return true;
  if (!read_sent_on(tables, &fewer, mode, op, more / 2)) return false;
  const double low = 2 / (double)more, high = 1 / (double)more;
  layers_mix(found, &fewer, (low - 1 / (double)nodes) / (low - high));
  return true;
}

static void note_sent(Layers *self, KernelFound *found, WideMode mode, const char *op,
                      bool is_other) {
  static const double OTHER_SHAPE = 0.15, BEYOND = 0.15, OTHER_NIC = 0.30;
  const int64_t nodes = layers_expert_nodes(self);
  double error = OTHER_VERSION;
  if (!is_tables_shape(&self->llm)) error += OTHER_SHAPE;
  if (nodes > NODES_MOST) error += BEYOND;
  if (is_other) error += OTHER_NIC;
  if (strcmp(self->setup.engine, ENGINE) != 0) error += OTHER_ENGINE;
  const char *from = nearest_folder_name(self, found);
  if (is_other) from = arena_printf(self->arena, "%s on %s", from, SHARED_TABLES);
  const int64_t measured = nodes > NODES_MOST ? NODES_MOST : nodes;
  nearest_note(self, found,
               arena_printf(self->arena, "%s of %s over %lld machines", op, MODES[mode].what,
                            (long long)measured),
               from, error);
}

/* All but what the shortest message takes. */
static void scale_sent(KernelTable *table, double factor) {
  const double least = table->points[0].us;
  for (size_t i = 0; i < table->n_points; i++)
    table->points[i].us = least + (table->points[i].us - least) * factor;
}

static void scale_nic(const Layers *self, KernelFound *found) {
  const double rate = (double)self->hardware.nic_bandwidth / (double)self->hardware.num_gpus;
  scale_sent(&found->table, SHARED_NIC / rate);
}

/* Its own, or those of another GPU. */
static int read_operation(Layers *self, KernelFound *found, WideMode mode, const char *op,
                          Diag *diag) {
  Layers own = *self, shared = tables_of(self, SHARED_TABLES);
  const bool is_other = !read_sent(&own, found, mode, op);
  if (is_other && !read_sent(&shared, found, mode, op))
    return diag_error(diag, place_of_file(self->folder), "no table has experts over machines");
  if (is_other) scale_nic(self, found);
  if (self->hardware.nic_slowdown > 0) scale_sent(&found->table, self->hardware.nic_slowdown);
  note_sent(self, found, mode, op, is_other);
  return 0;
}

/* Experts as they run beside these, where they were measured; else those of one machine's table. */
static void read_beside_sent(Layers *self, WideExperts *wide, WideMode mode) {
  const Llm *llm = &self->llm;
  const int64_t parallel = self->setup.expert_parallel_size;
  const char *load = self->setup.balanced ? "uniform" : "power_law_1.01";
  int64_t parts = 1;
  while (2 * parts <= parallel)
    parts *= 2;
  KernelQuery query = {.name = MODES[mode].experts,
                       .filters = {{"moe_dtype", {kernel_dtype_name(llm->expert_dtype)}},
                                   {"hidden_size", .number = llm->hidden_size},
                                   {"inter_size", .number = llm->moe_intermediate_size},
                                   {"topk", .number = llm->num_experts_per_tok},
                                   {"num_experts", .number = llm->num_experts},
                                   {"moe_ep_size", .number = parts},
                                   {"distribution", {load}}},
                       .keys = {"num_tokens"}};
  if (!nearest_read_version(self, &wide->experts, &query, ENGINE, NULL)) return;
  KernelFound *const last = &wide->experts;
  KernelFound more;
  query.filters[5].number = 2 * parts;
  if (parts < parallel && nearest_read_version(self, &more, &query, ENGINE, NULL)) {
    const double held = (double)hardware_experts_held(llm, parallel);
    layers_mix(last, &more, held * (double)(2 * parts) / (double)llm->num_experts - 1);
  }
  if (strcmp(self->setup.engine, ENGINE) != 0)
    nearest_note(self, last, arena_printf(self->arena, "experts of %s", MODES[mode].what), NULL,
                 OTHER_ENGINE);
}

bool wide_is_used(const Layers *self) {
  return layers_expert_nodes(self) > 1 && self->setup.attention_data_parallel_size > 1 &&
         layers_expert_shares(self) == 1;
}

bool wide_has_experts(const Layers *self) {
  return self->wide[WIDE_DECODES].experts.path && self->wide[WIDE_PROMPTS].experts.path;
}

int wide_read(Layers *self, Diag *diag) {
  int error = 0;
  for (int mode = 0; mode < WIDE_MODES; mode++) {
    WideExperts *wide = &self->wide[mode];
    wide->scale = (double)(self->llm.hidden_size * self->llm.num_experts_per_tok) /
                  (TABLE_HIDDEN * TABLE_TOPK);
    error |= read_operation(self, &wide->dispatch, (WideMode)mode, "dispatch", diag);
    error |= read_operation(self, &wide->combine, (WideMode)mode, "combine", diag);
    read_beside_sent(self, wide, (WideMode)mode);
  }
  return error;
}

void wide_choose(Layers *self) {
  enum { TOKENS_MAX = 1 << 17 };
  if (!self->wide[WIDE_DECODES].dispatch.path) return;
  int64_t slower = 2; // for decodes
  while (slower < TOKENS_MAX && layers_wide_us(self, WIDE_DECODES, (double)slower) <=
                                    layers_wide_us(self, WIDE_PROMPTS, (double)slower))
    slower *= 2;
  self->wide_decodes = slower / 2;
}
