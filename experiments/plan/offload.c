/* KV under the prefix cache in a question: which tiers, and how large they are. */
#include "experiments/plan/plan.h"
#include <inttypes.h>
#include <string.h>

/* An NVMe drive for each GPU: datasheet of a Samsung PM9A3 of 3.84 TB, sequential. */
static const double SSD_READ = 6.9e9, SSD_WRITE = 4.1e9;
static const double SSD_BYTES = 3.84e12;
static const char SSD_LATENCY[] = "100 us";

static const char *const kinds[] = {"none", "cpu", "ssd", NULL};
enum { OFFLOADS_NONE, OFFLOADS_CPU, OFFLOADS_SSD };

static Place at_option(void) {
  return place_of_file("--offload");
}

/* "cpu=64 GiB"; the kind, or -1 with an entry. */
static int read_offload(const char *text, double *ret_bytes, Diag *diag) {
  const size_t length = strcspn(text, "=");
  for (int kind = 0; kinds[kind]; kind++) {
    if (strlen(kinds[kind]) != length || strncmp(text, kinds[kind], length) != 0) continue;
    if (!text[length]) return kind;
    if (kind != OFFLOADS_NONE && units_parse(text + length + 1, DIM_BYTES, ret_bytes) &&
        *ret_bytes >= 1 && *ret_bytes <= 1e15)
      return kind;
  }
  diag_error(diag, at_option(), "'%s' is not a tier for KV", text);
  return diag_hint(diag, "for example none, cpu, cpu=64GiB or ssd=2TB, of memory for each GPU");
}

/* SGLang's tier is under a radix tree. */
static bool has_hicache(const ServingEngine *engine) {
  return strncmp(engine->name, "sglang", 6) == 0;
}

static int check_question(const Plan *self, const ServingEngine *engine, Diag *diag) {
  const Question *asked = self->question;
  if (strncmp(engine->name, "vllm", 4) != 0 && !has_hicache(engine)) {
    diag_error(diag, at_option(), "KV offloading of engine '%s' is not modelled", engine->name);
    return diag_hint(diag, "it is modelled with --engine vllm and sglang");
  }
  if (!asked->trace) {
    diag_error(diag, at_option(), "prompts without a trace share nothing that could be kept");
    return diag_hint(diag, "give a --trace whose prompts name their tokens, such as Mooncake's");
  }
  if (self->model.kv_bytes_per_sequence > 0 || self->model.state_bytes_per_sequence > 0)
    return diag_error(diag, at_option(),
                      "offloading of '%s', whose layers have windows or states, is not modelled",
                      self->model.name);
  if (asked->split == SPLIT_YES)
    return diag_error(diag, at_option(), "offloading in split pools is not modelled");
  return 0;
}

int question_resolve_offload(Plan *self, const ServingEngine *engine, Diag *diag) {
  const Question *asked = self->question;
  const Hardware *hardware = &self->hardware;
  double given = 0;
  const int kind = asked->offload ? read_offload(asked->offload, &given, diag) : OFFLOADS_NONE;
  if (kind < 0) return -1;
  if (kind == OFFLOADS_NONE) return 0;
  if (check_question(self, engine, diag)) return -1;
  self->offload_hicache = has_hicache(engine);
  if (kind == OFFLOADS_SSD && self->offload_hicache)
    return diag_error(diag, at_option(),
                      "SSDs under the radix cache of engine '%s' are not modelled", engine->name);
  const double share = (double)hardware->cpu_memory_bytes / (double)hardware->num_gpus;
  const double cpu = kind == OFFLOADS_CPU && given > 0 ? given : share / 2;
  if (cpu < 1)
    return diag_error(diag, at_option(),
                      "the CPU memory of machine '%s' is not known: give "
                      "cpu=SIZE of each GPU",
                      hardware->name);
  if (share > 0 && cpu > share) {
    char limit[32];
    units_format(limit, sizeof limit, DIM_BYTES, share);
    return diag_error(diag, at_option(), "machine '%s' has %s of CPU memory for each GPU",
                      hardware->name, limit);
  }
  self->offload_cpu = (int64_t)cpu;
  if (kind == OFFLOADS_SSD) self->offload_ssd = (int64_t)(given > 0 ? given : SSD_BYTES);
  return 0;
}

/* A connector has one scheduler, and keeps all of a prompt in one place. */
bool plan_offloads(Parallelism shape) {
  return shape.attention <= 1 && shape.pipeline <= 1;
}

int question_keep_offloading(Plan *self, Diag *diag) {
  int n = 0;
  if (self->offload_cpu == 0) return 0;
  for (int i = 0; i < self->n_shapes; i++)
    if (plan_offloads(self->shapes[i])) self->shapes[n++] = self->shapes[i];
  self->offload_drops = n < self->n_shapes;
  self->n_shapes = n;
  return n > 0 ? 0
               : diag_error(diag, at_option(),
                            "offloading with attention ranks or pipelines is "
                            "not modelled, and there are no other designs");
}

const char *plan_offload_text(const Plan *self, Parallelism shape, Arena *arena) {
  const int64_t gpus = parallelism_gpus(shape);
  const int64_t cpu = self->offload_cpu * gpus;
  if (self->offload_ssd == 0)
    return arena_printf(arena, "{name: %s, cpu_bytes_to_use: %" PRId64 " B}",
                        self->offload_hicache ? "hicache" : "offloading", cpu);
  return arena_printf(arena,
                      "{name: offloading, tiers: [{name: cpu, capacity: %" PRId64
                      " B}, {name: ssd, capacity: %" PRId64 " B, read_bandwidth: %.12g B/s, "
                      "write_bandwidth: %.12g B/s, read_latency: %s, write_latency: %s}]}",
                      cpu, self->offload_ssd * gpus, SSD_READ * (double)gpus,
                      SSD_WRITE * (double)gpus, SSD_LATENCY, SSD_LATENCY);
}
