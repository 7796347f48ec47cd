/* Tables of what GPUs send to one another: see collectives.h. */
#include "perfmodel/compose/collectives.h"
#include "perfmodel/compose/kernel_write.h"
#include "perfmodel/compose/nearest.h"
#include <math.h>
#include <string.h>

static KernelQuery query_nccl(const char *op, int64_t gpus) {
  return (KernelQuery){.name = "nccl",
                       .filters = {{"op_name", {op}},
                                   {"dtype", {"half", "bfloat16"}, .may_miss = true},
                                   {"nccl_dtype", {"half", "bfloat16"}, .may_miss = true},
                                   {"num_gpus", .number = gpus}},
                       .keys = {"message_size"}};
}

/* From the times of `have` GPUs and of half as many to those of more. On a ring each further GPU is
 * a step more, which the least message takes nothing but, and of the bytes each sends
 * (n − 1) / n. */
static void scale_ring(KernelTable *table, const KernelTable *half, double have, double gpus) {
  const double least = table->points[0].us;
  const double step = fmax(0, (least - half->points[0].us) / (have / 2));
  const double sent = (1 - 1 / gpus) / (1 - 1 / have);
  for (size_t i = 0; i < table->n_points; i++) {
    KernelPoint *point = &table->points[i];
    point->us = least + step * (gpus - have) + fmax(0, point->us - least) * sent;
  }
}

/* Of the most GPUs that NCCL was measured on, where that is fewer. */
static bool read_ring(Layers *self, KernelFound *found, const char *op, int64_t gpus) {
  enum { GPUS_MAX = 1024 };
  int64_t have = 0;
  for (int64_t n = 2; n <= GPUS_MAX; n *= 2) {
    KernelFound more;
    const KernelQuery query = query_nccl(op, n);
    if (!nearest_read_version(self, &more, &query, "nccl", NULL)) continue;
    *found = more;
    have = n;
  }
  const KernelQuery query = query_nccl(op, have / 2);
  KernelFound half;
  if (have < 4 || have > gpus || !nearest_read_version(self, &half, &query, "nccl", NULL) ||
      strcmp(half.path, found->path) != 0)
    return false;
  scale_ring(&found->table, &half.table, (double)have, (double)gpus);
  nearest_note(self, found, arena_printf(self->arena, "%s on %lld GPUs", op, (long long)have), NULL,
               OTHER_GPUS * log2((double)gpus / (double)have));
  return true;
}

/* Nothing, of one GPU of each machine: what these send is added later. */
static int read_nothing(Layers *self, KernelFound *found, const char *op, Diag *diag) {
  if (layers_read_nccl(self, found, op, 2, diag)) return -1;
  for (size_t i = 0; i < found->table.n_points; i++)
    found->table.points[i].us = 0;
  return 0;
}

int layers_read_nccl(Layers *self, KernelFound *found, const char *op, int64_t gpus, Diag *diag) {
  if (gpus == 1) return read_nothing(self, found, op, diag);
  const KernelQuery query = query_nccl(op, gpus);
  if (nearest_read_version(self, found, &query, "nccl", NULL)) return 0; // the newest that has it
  return read_ring(self, found, op, gpus)
             ? 0
             : kernel_read(found, &query, self->folder, self->cache, self->arena, diag);
}

static const char ALL_REDUCES[] = "all-reduces";

/* The same table of the engine where it was measured with the same GPU and NVLink in a server of
 * eight: TensorRT-LLM reduces over trays of NVL72 by kernels of its own, too (AllReduceStrategy
 * MNNVL), of which there is no table. */
static bool borrow_from_server(Layers *self, KernelFound *found, const KernelQuery *query) {
  static const char *const servers[][2] = {{"gb200-186gb", "b200-180gb"},
                                           {"gb300-288gb", "b300-288gb"}};
  for (size_t i = 0; i < sizeof servers / sizeof *servers; i++) {
    const char *at = strstr(self->folder, servers[i][0]);
    if (!at) continue;
    const char *folder = arena_printf(self->arena, "%.*s%s%s", (int)(at - self->folder),
                                      self->folder, servers[i][1], at + strlen(servers[i][0]));
    if (!nearest_read_beside(self, found, query, folder)) continue;
    nearest_note(self, found, arena_printf(self->arena, "%s on %s", ALL_REDUCES, servers[i][1]),
                 NULL, OTHER_ENGINE);
    return true;
  }
  return false;
}

/* The engine's own kernel: of the table of its version or of the next one after it; where that has
 * not so many GPUs, that of a server with the same GPU, another engine's, or NCCL's. */
int layers_read_all_reduce(Layers *self, Diag *diag) {
  const EngineRules *engine = self->engine;
  const int64_t gpus = self->setup.tensor_parallel_size / layers_tensor_nodes(self);
  KernelQuery query = {
      .name = "custom_allreduce",
      .filters = {{"variant", {engine->all_reduce, "nccl"}, .may_miss = true},
                  {"backend", {engine->all_reduce, "nccl"}, .may_miss = true}, // in the wheel
                  {"dtype", {"bfloat16", "half"}, .may_miss = true},
                  {"allreduce_dtype", {"bfloat16", "half"}, .may_miss = true},
                  {"num_gpus", .number = gpus}},
      .keys = {"message_size"}};
  if (self->setup.tensor_parallel_size == 1 || self->alone) return 0;
  if (gpus == 1) return layers_read_nccl(self, &self->all_reduce, "all_reduce", gpus, diag);
  const char *of = engine->all_reduce_of ? engine->all_reduce_of : engine->name;
  const char *version = engine->all_reduce_of ? NULL : self->setup.engine_version;
  Diag lacking;
  diag_init(&lacking);
  int error = 0;
  const bool is_own = !engine->all_reduce_of && version &&
                      strcmp(nearest_version(self->folder, self->arena), version) == 0 &&
                      kernel_folder_has(self->folder, query.name, self->arena);
  if (is_own || !nearest_read_version(self, &self->all_reduce, &query, of, version))
    error =
        kernel_read(&self->all_reduce, &query, self->folder, self->cache, self->arena, &lacking);
  if (error && borrow_from_server(self, &self->all_reduce, &query)) error = 0;
  static const char *const graphs[] = {"vllm_graph", "sglang_graph", "trtllm"};
  memcpy(query.filters[0].texts, graphs, sizeof graphs);
  memcpy(query.filters[1].texts, graphs, sizeof graphs);
  if (error && nearest_borrow(self, &self->all_reduce, &query, ALL_REDUCES)) error = 0;
  if (error && layers_read_nccl(self, &self->all_reduce, "all_reduce", gpus, &lacking) == 0) {
    nearest_note(self, &self->all_reduce, ALL_REDUCES, NULL, OTHER_ENGINE);
    error = 0;
  }
  if (error) diag_append(diag, &lacking);
  diag_done(&lacking);
  if (engine->custom_bytes[0] > 0)
    error |= layers_read_nccl(self, &self->nccl, "all_reduce", gpus, diag);
  return error;
}

bool all_reduce_times(AllReduceTimes *ret, const char *gpu, int64_t gpus, const char *data_dir,
                      Arena *arena) {
  enum { NUMBER_BYTES = 2 };
  static const char ENGINE[] = "tandem";
  Layers layers = {
      .folder = arena_printf(arena, "%s/tables/%s/%s", data_dir, gpu, ENGINE),
      .setup = {.engine = ENGINE, .tensor_parallel_size = gpus},
      .engine = engine_rules_find(ENGINE, NULL, 0, false),
      .arena = arena,
  };
  Diag lacking;
  diag_init(&lacking);
  const KernelTable *table = &layers.all_reduce.table;
  const bool is_there = layers_read_all_reduce(&layers, &lacking) == 0 && table->n_points > 0;
  diag_done(&lacking);
  if (!is_there) return false;
  *ret = (AllReduceTimes){.table = nearest_folder_name(&layers, &layers.all_reduce),
                          .n = (int)table->n_points,
                          .bytes = ARENA_ARRAY(arena, int64_t, table->n_points),
                          .seconds = ARENA_ARRAY(arena, double, table->n_points)};
  for (int i = 0; i < ret->n; i++) {
    ret->bytes[i] = NUMBER_BYTES * table->points[i].key[0];
    ret->seconds[i] = 1e-6 * table->points[i].us;
  }
  return true;
}

/* To the GPUs of its experts and back, over tokens of one GPU: as TensorRT-LLM does within NVLink,
 * or by NCCL, over numbers sent. Tables have powers of two GPUs; the times of the next are taken
 * between two, which differ by less than 10%. */
int layers_read_exchange(Layers *self, Diag *diag) {
  const Llm *llm = &self->llm;
  const int64_t gpus = layers_expert_gpus(self);
  int64_t parts = 1;
  while (parts < gpus)
    parts *= 2;
  const char *dtype = kernel_dtype_name((int)dtype_compute((Dtype)llm->expert_dtype));
  KernelQuery query = {.name = "trtllm_alltoall",
                       .filters = {{"op_name", {"alltoall_prepare"}},
                                   {"kernel_source", {"NVLinkTwoSided"}},
                                   {"moe_dtype", {dtype, "bfloat16"}},
                                   {"hidden_size", .number = llm->hidden_size},
                                   {"topk", .number = llm->num_experts_per_tok},
                                   {"num_experts", .number = llm->num_experts},
                                   {"moe_ep_size", .number = parts}},
                       .keys = {"num_tokens"}};
  KernelFound *const found[] = {&self->prepare, &self->dispatch, &self->combine};
  static const char *const ops[] = {"alltoall_prepare", "alltoall_dispatch", "alltoall_combine"};
  bool all = true;
  for (int i = 0; i < 3; i++) {
    query.filters[0].texts[0] = ops[i];
    all = all && nearest_read_version(self, found[i], &query, "trtllm", NULL);
  }
  for (int i = 0; all && i < 3; i++) {
    kernel_table_level(&found[i]->table);
    if (strcmp(self->setup.engine, "trtllm") != 0)
      nearest_note(self, found[i], ops[i], NULL, OTHER_ENGINE);
  }
  if (all) return 0;
  self->prepare = (KernelFound){.path = NULL};
  int error = layers_read_nccl(self, &self->dispatch, "alltoall", gpus, diag);
  error |= layers_read_nccl(self, &self->combine, "alltoall", gpus, diag);
  if (!error) nearest_note(self, &self->dispatch, "dispatch of tokens", NULL, OTHER_ENGINE);
  if (!error) nearest_note(self, &self->combine, "combination of experts", NULL, OTHER_ENGINE);
  return error;
}
