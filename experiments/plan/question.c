/* What a question means: which machine has the GPUs, which engine, which degrees can be had. */
#include "base/text.h"
#include "experiments/plan/plan.h"
#include "perfmodel/datafile.h"
#include "perfmodel/finder.h"
#include "perfmodel/gpu_facts.h"
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *data_dir(Arena *arena) {
  return arena_printf(arena, "%s/perfmodel", config_data_root());
}

static const char *lower_case(const char *text, Arena *arena) {
  char *copy = arena_copy(arena, text, strlen(text));
  for (char *at = copy; *at; at++)
    *at = (char)tolower((unsigned char)*at);
  return copy;
}

/* ---- The machine ---- */

/* Whether "dgx-h100" is called after an h100. */
static bool is_called(const char *machine, const char *word) {
  const size_t length = strlen(word), all = strlen(machine);
  return all >= length && strcmp(machine + all - length, word) == 0 &&
         (all == length || machine[all - length - 1] == '-');
}

static bool is_among(const char *const *names, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

/* The machine types whose GPU is meant; those called after it alone, if there are any. */
static int find_machines(const char *word, const char *root, const char **names, const char **gpus,
                         int *ret_gpus, Arena *arena) {
  const char *const *all = datafile_names(root, "machines", arena);
  int n = 0, n_called = 0, n_gpus = 0;
  for (int i = 0; all[i]; i++) {
    Hardware hardware;
    Diag none;
    diag_init(&none);
    const int status = hardware_load(&hardware, all[i], root, place_of_file(NULL), arena, &none);
    diag_done(&none);
    if (status) continue;
    if (!is_among(gpus, n_gpus, hardware.gpu)) gpus[n_gpus++] = hardware.gpu;
    if (!gpu_is_called(hardware.gpu, word)) continue;
    const bool called = is_called(all[i], word);
    if (called && n_called == 0) n = 0;
    if (called || n_called == 0) names[n++] = all[i];
    n_called += called;
  }
  *ret_gpus = n_gpus;
  return n;
}

static const char *find_machine(const char *asked, const char *option, Arena *arena, Diag *diag) {
  const char *root = data_dir(arena), *word = lower_case(asked, arena);
  const Place at = place_of_file(option);
  if (datafile_is_path(asked)) return asked;
  if (datafile_find(root, "machines", word, arena)) return word;
  const char *const *all = datafile_names(root, "machines", arena);
  int n_all = 0;
  while (all[n_all])
    n_all++;
  const char **names = ARENA_ARRAY(arena, const char *, n_all + 1);
  const char **gpus = ARENA_ARRAY(arena, const char *, 2 * n_all + 1);
  int n_gpus = 0;
  const int n = find_machines(word, root, names, gpus, &n_gpus, arena);
  if (n == 1) return names[0];
  names[n] = NULL;
  if (n > 1) {
    diag_error(diag, at, "several machine types have the GPU '%s'", asked);
    diag_hint(diag, "choose one: %s", datafile_join(names, arena));
    return NULL;
  }
  for (int i = 0; i < n_all; i++)
    gpus[n_gpus++] = all[i];
  diag_error(diag, at, "unknown GPU or machine type '%s'", asked);
  diag_hint_choices(diag, word, gpus, "tandem list machines");
  return NULL;
}

/* ---- The engine ---- */

/* The first row of this name, or of this engine: rows begin with the newest. */
static const ServingEngine *find_engine(const char *asked, Arena *arena, Diag *diag) {
  const char *word = asked ? lower_case(asked, arena) : "vllm";
  if (strcmp(word, "tensorrt-llm") == 0) word = "trtllm";
  for (int i = 1; serving_choices[i]; i++)
    if (strcmp(serving_choices[i], word) == 0) return serving_at(i);
  for (int i = 1; serving_choices[i]; i++)
    if (gpu_is_called(serving_choices[i], word)) return serving_at(i);
  diag_error(diag, place_of_file("--engine"), "unknown engine '%s'", asked);
  diag_hint_choices(diag, word, serving_choices + 1, "tandem list engines");
  return NULL;
}

/* ---- The degrees ---- */

const char *shape_name(Parallelism shape, Arena *arena) {
  const char *name = arena_printf(arena, "tp%" PRId64, shape.tensor);
  if (shape.pipeline > 1) name = arena_printf(arena, "%s-pp%" PRId64, name, shape.pipeline);
  if (shape.attention > 1) name = arena_printf(arena, "%s-dp%" PRId64, name, shape.attention);
  return shape.expert > 1 ? arena_printf(arena, "%s-ep%" PRId64, name, shape.expert) : name;
}

static int64_t at_least_1(int64_t degree) {
  return degree > 1 ? degree : 1;
}

static bool goes_before(Parallelism a, Parallelism b) {
  const int64_t left[] = {parallelism_gpus(a), a.tensor, a.pipeline, a.attention, a.expert};
  const int64_t right[] = {parallelism_gpus(b), b.tensor, b.pipeline, b.attention, b.expert};
  for (int i = 0; i < 5; i++)
    if (left[i] != right[i]) return left[i] < right[i];
  return false;
}

/* In order of GPUs, each once. */
static void add_shape(Plan *self, Parallelism shape) {
  int at = 0;
  while (at < self->n_shapes && goes_before(self->shapes[at], shape))
    at++;
  const bool there = at < self->n_shapes && !goes_before(shape, self->shapes[at]);
  if (there || self->n_shapes == PLAN_SHAPES_MAX) return;
  memmove(&self->shapes[at + 1], &self->shapes[at],
          (size_t)(self->n_shapes - at) * sizeof *self->shapes);
  self->shapes[at] = shape;
  self->n_shapes++;
}

static KvOptions options_of(const Plan *self, const ServingEngine *engine, Parallelism shape) {
  const ServingLimits *limits = serving_limits(engine, &self->hardware);
  const ServingSite site = {&self->hardware, shape, ROLE_MIXED, limits->max_num_batched_tokens,
                            limits->max_num_seqs};
  return (KvOptions){.block_size = engine->block_size,
                     .gpu_memory_utilization = serving_memory(engine, &site),
                     .of_free = engine->of_free,
                     .activation_bytes = INT64_C(1) << 30};
}

/* Whether the weights fit with these degrees. */
static bool fits(const Plan *self, const ServingEngine *engine, const Llm *model,
                 const Hardware *hardware, Parallelism shape) {
  KvCapacity capacity;
  Diag none;
  diag_init(&none);
  const KvOptions options = options_of(self, engine, shape);
  const bool fits =
      kv_capacity(model, hardware, shape, &options, place_of_file(NULL), &capacity, &none) == 0;
  diag_done(&none);
  return fits;
}

/* Whether a model fits on all GPUs of a machine type. */
static bool fits_machine(const ServingEngine *engine, const Llm *model, const Hardware *hardware) {
  const Plan other = {.option = "--gpu", .hardware = *hardware};
  return fits(&other, engine, model, hardware, (Parallelism){hardware->num_gpus, 1, 1, 1, 1});
}

/* A shape that can be composed. */
static void add_composed(Plan *self, ComposeInput *input, Parallelism shape) {
  input->setup.tensor_parallel_size = shape.tensor;
  input->setup.attention_data_parallel_size = shape.attention;
  input->setup.expert_parallel_size = shape.expert;
  input->setup.nnodes = shape.pipeline > 1 ? 1 : degree_of(shape.nodes);
  if (compose_can(input)) add_shape(self, shape);
}

static ComposeInput composed_of(const Plan *self, const PerfSetup *asked, Arena *arena) {
  return (ComposeInput){.setup = *asked,
                        .llm = &self->model,
                        .hardware = &self->hardware,
                        .data_dir = data_dir(arena),
                        .at = place_of_file(self->option),
                        .cache = self->question ? self->question->cache : NULL};
}

/* Those that tables of kernels have all operators for, by powers of two of GPUs. Experts are shared
 * by all GPUs, or each GPU has whole ones; attention is shared as well, or each GPU has its own
 * requests. */
static void add_all_composed(Plan *self, const PerfSetup *asked, Arena *arena) {
  ComposeInput input = composed_of(self, asked, arena);
  const bool has_experts = llm_moe_layers(&self->model) > 0;
  for (int64_t gpus = 1; gpus <= self->hardware.num_gpus; gpus *= 2) {
    add_composed(self, &input, (Parallelism){gpus, 1, 1, 1, 1});
    if (!has_experts || gpus == 1) continue;
    add_composed(self, &input, (Parallelism){gpus, 1, 1, 1, gpus});
    add_composed(self, &input, (Parallelism){1, 1, 1, gpus, gpus});
  }
}

/* Over machines: each has a stage of a pipeline, or all share each layer, or every GPU has whole
 * experts and requests of its own; by the fewest machines that the weights fit into and twice as
 * many. */
static void add_over_machines(Plan *self, const ServingEngine *engine, const PerfSetup *asked,
                              Arena *arena) {
  enum { NODES_MAX = 8 };
  ComposeInput input = composed_of(self, asked, arena);
  const int64_t gpus = self->hardware.num_gpus;
  const bool has_experts = llm_moe_layers(&self->model) > 0;
  int64_t first = 0;
  for (int64_t n = 2; n <= NODES_MAX && (first == 0 || n <= 2 * first); n++) {
    const int64_t all = n * gpus;
    const Parallelism shapes[] = {
        {gpus, n, 1, 1, 1, n}, {all, 1, 1, 1, 1, n}, {1, 1, 1, all, all, n}};
    for (int i = 0; i < 2 + has_experts; i++) {
      if (!fits(self, engine, &self->model, &self->hardware, shapes[i])) continue;
      if (first == 0) first = n;
      if (n == first || n == 2 * first) add_composed(self, &input, shapes[i]);
    }
  }
}

/* Those that a performance model is found for, as the configuration will find it. */
static void add_measured(Plan *self, const ServingEngine *engine, Arena *arena) {
  PerfSetup asked = {.model = self->model.name,
                     .gpu = self->hardware.gpu,
                     .weight_dtype = (int)llm_quantization(&self->model),
                     .kv_cache_dtype = self->model.kv_cache_dtype};
  setup_parse_folder(&asked, engine->name, arena);
  size_t n = 0;
  const PerfFile *files = finder_files(&asked, data_dir(arena), &n, arena);
  for (size_t i = 0; i < n; i++) {
    const PerfSetup *there = &files[i].setup;
    asked.tensor_parallel_size = there->tensor_parallel_size;
    asked.attention_data_parallel_size = there->attention_data_parallel_size;
    asked.expert_parallel_size = there->expert_parallel_size;
    if (setup_serves(there, &asked))
      add_shape(self, (Parallelism){.tensor = there->tensor_parallel_size,
                                    .pipeline = 1,
                                    .data = 1,
                                    .attention = at_least_1(there->attention_data_parallel_size),
                                    .expert = at_least_1(there->expert_parallel_size)});
  }
  add_all_composed(self, &asked, arena);
  if (!fits_machine(engine, &self->model, &self->hardware))
    add_over_machines(self, engine, &asked, arena);
}

/* The format of weights that are asked for so, if it has times; else NULL. */
static const char *measured_as(const Plan *self, int weights, const ServingEngine *engine,
                               Arena *arena) {
  Plan other = {.option = self->option, .hardware = self->hardware};
  const LlmFormats formats = {weights, LLM_UNSAID, LLM_UNSAID, self->question->kv_cache};
  Diag unknown;
  diag_init(&unknown);
  const bool good = llm_load_as(&other.model, self->question->model, &formats, data_dir(arena),
                                place_of_file("--model"), arena, &unknown) == 0;
  diag_done(&unknown);
  if (good) add_measured(&other, engine, arena);
  return other.n_shapes > 0 ? dtype_names[llm_quantization(&other.model)] : NULL;
}

static void find_measured_formats(Plan *self, const ServingEngine *engine, Arena *arena) {
  if (self->question->weights == LLM_UNSAID) return;
  const char *own = measured_as(self, LLM_UNSAID, engine, arena);
  if (own) self->measured_in = arena_printf(arena, "%s, which the model has without it", own);
  for (int weights = 0; weights < DTYPE_COUNT; weights++) {
    const char *name = measured_as(self, weights, engine, arena);
    if (name && !strstr(self->measured_in, name))
      self->measured_in =
          arena_printf(arena, "%s%s%s", self->measured_in, *self->measured_in ? ", " : "", name);
  }
}

static void add_rooflines(Plan *self) {
  self->roofline = true;
  for (int64_t tp = 1; tp <= self->hardware.num_gpus; tp *= 2)
    add_shape(self, (Parallelism){tp, 1, 1, 1, 1});
}

/* Whether --tp asks for it; without it all are asked for. */
static bool is_asked(const int64_t *asked, int n, int64_t tp) {
  for (int i = 0; i < n; i++)
    if (asked[i] == tp) return true;
  return n == 0;
}

/* "--weights nvfp4": the widest format of weights in which the model fits on the machine; empty:
 * none. */
static const char *nearest_format(const Plan *self, const ServingEngine *engine, Arena *arena) {
  static const Dtype formats[] = {DTYPE_FP8, DTYPE_NVFP4, DTYPE_INT4};
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    const LlmFormats as = {(int)formats[i], LLM_UNSAID, LLM_UNSAID, self->question->kv_cache};
    Llm model;
    Diag none;
    diag_init(&none);
    const bool fits = llm_load_as(&model, self->question->model, &as, data_dir(arena),
                                  place_of_file("--model"), arena, &none) == 0 &&
                      fits_machine(engine, &model, &self->hardware);
    diag_done(&none);
    if (fits) return arena_printf(arena, "--weights %s", dtype_names[formats[i]]);
  }
  return "";
}

/* "--gpu dgx-b300": the machine type of least memory that the model fits on; empty: none. */
static const char *nearest_machine(const Plan *self, const ServingEngine *engine, Arena *arena) {
  const char *best = "";
  double least = INFINITY;
  for (const char *const *name = datafile_names(data_dir(arena), "machines", arena); *name;
       name++) {
    Hardware hardware;
    Diag none;
    diag_init(&none);
    const bool good =
        hardware_load(&hardware, *name, data_dir(arena), place_of_file(NULL), arena, &none) == 0;
    diag_done(&none);
    const double memory = good ? (double)hardware.gpu_memory_bytes * (double)hardware.num_gpus : 0;
    if (!good || memory >= least || !fits_machine(engine, &self->model, &hardware)) continue;
    least = memory;
    best = arena_printf(arena, "--gpu %s", *name);
  }
  return best;
}

/* No degree that is asked for has room for the weights: what is nearest to it. */
static int refuse_weights(const Plan *self, const ServingEngine *engine, const Diag *why,
                          Arena *arena, Diag *diag) {
  const char *format = nearest_format(self, engine, arena);
  const char *machine = nearest_machine(self, engine, arena);
  diag_error(diag, place_of_file(self->option), "%s", why->entries[why->n_entries - 1].message);
  if (fits_machine(engine, &self->model, &self->hardware))
    return diag_hint(diag, "it fits on %" PRId64 " GPUs of the machine", self->hardware.num_gpus);
  if (!*format && !*machine) return -1;
  return diag_hint(diag, "it fits with %s%s%s", format, *format && *machine ? " or " : "", machine);
}

/* Drops what is not asked for, and what the weights do not fit into, saying which. */
static int keep_fitting(Plan *self, const ServingEngine *engine, const int64_t *asked, int n_asked,
                        Arena *arena, Diag *diag) {
  int n = 0, n_wanted = 0;
  const char *shapes = "";
  const Llm held = self->mtp ? llm_with_mtp(&self->model) : self->model;
  Diag why;
  diag_init(&why);
  for (int i = 0; i < self->n_shapes; i++) {
    const Parallelism shape = self->shapes[i];
    KvCapacity capacity;
    shapes = arena_printf(arena, "%s%s%s", shapes, i ? ", " : "", shape_name(shape, arena));
    if (!is_asked(asked, n_asked, shape.tensor)) continue;
    n_wanted++;
    const KvOptions options = options_of(self, engine, shape);
    if (kv_capacity(&held, &self->hardware, shape, &options, place_of_file(self->option), &capacity,
                    &why) == 0)
      self->shapes[n++] = shape;
    else
      self->left_out = arena_printf(arena, "%s%s%s", self->left_out, *self->left_out ? ", " : "",
                                    shape_name(shape, arena));
  }
  if (n == 0 && n_wanted > 0) refuse_weights(self, engine, &why, arena, diag);
  diag_done(&why);
  self->n_shapes = n;
  if (n_wanted > 0) return n > 0 ? 0 : -1;
  diag_error(diag, place_of_file("--tp"),
             "there are no iteration times of '%s' on '%s' for these degrees", self->model.name,
             self->hardware.gpu);
  diag_hint(diag, "there are iteration times for %s", shapes);
  return -1;
}

static bool has_shape(const Plan *self, int64_t tp) {
  for (int i = 0; i < self->n_shapes; i++)
    if (self->shapes[i].tensor == tp) return true;
  return false;
}

/* Degrees of tensor parallelism that were asked for, or powers of two, that the weights fit into
 * and nobody has times of. */
static void find_untried(Plan *self, const ServingEngine *engine, const int64_t *asked, int n_asked,
                         Arena *arena) {
  for (int64_t tp = 1; tp <= self->hardware.num_gpus; tp = n_asked > 0 ? tp + 1 : 2 * tp) {
    KvCapacity capacity;
    Diag none;
    if (!is_asked(asked, n_asked, tp) || has_shape(self, tp)) continue;
    const Parallelism shape = {tp, 1, 1, 1, 1};
    const KvOptions options = options_of(self, engine, shape);
    diag_init(&none);
    if (kv_capacity(&self->model, &self->hardware, shape, &options, place_of_file(self->option),
                    &capacity, &none) == 0)
      self->untried =
          arena_printf(arena, "%s%stp%" PRId64, self->untried, *self->untried ? ", " : "", tp);
    diag_done(&none);
  }
}

/* "2,4" */
static int read_degrees(const char *text, int64_t *ret_degrees, int max, Diag *diag) {
  int n = 0;
  for (const char *at = text; at; n++) {
    char *end = NULL;
    const long long degree = strtoll(at, &end, 10);
    if (end == at || (*end && *end != ',') || degree < 1 || degree > 1024 || n == max) {
      diag_error(diag, place_of_file("--tp"), "'%s' is not a list of degrees", text);
      diag_hint(diag, "for example 2 or 2,4");
      return -1;
    }
    ret_degrees[n] = degree;
    at = *end ? end + 1 : NULL;
  }
  return n;
}

/* ---- All of it ---- */

static int check_load(const Question *asked, Diag *diag) {
  const bool lengths = asked->isl > 0 || asked->osl > 0;
  if (asked->mix) return 0;
  if (asked->trace && (lengths || asked->lengths))
    return diag_error(diag, place_of_file("--trace"),
                      "a trace has its own lengths: omit --isl, --osl and --lengths");
  if (asked->lengths && lengths)
    return diag_error(diag, place_of_file("--lengths"),
                      "'--lengths' replaces --isl and --osl: give one or the other");
  if (!asked->trace && !asked->lengths && (asked->isl == 0 || asked->osl == 0))
    return diag_error(
        diag, place_of_file(asked->isl ? "--osl" : "--isl"),
        "the lengths are missing: give --isl and --osl, --lengths TABLE or --trace FILE");
  if (asked->gpus > 0 && (asked->rate > 0 || asked->users > 0))
    return diag_error(diag, place_of_file("--gpus"),
                      "'--gpus' asks for the highest rate: omit --rate and --users");
  if (asked->gpus > 0 && asked->trace) {
    diag_error(diag, place_of_file("--gpus"),
               "'--gpus' cannot be used with a trace, which is too short at a high rate");
    return diag_hint(diag, "give --isl and --osl, or --lengths TABLE");
  }
  if (asked->gpus > 0 && asked->max_gpus > 0)
    return diag_error(diag, place_of_file("--gpus"), "'--gpus' is a limit itself: omit --max-gpus");
  if (asked->batch > 0 && (asked->trace || asked->rate > 0 || asked->users > 0 || asked->gpus > 0))
    return diag_error(diag, place_of_file("--batch"),
                      "'--batch' replaces --rate, --users, --gpus and --trace");
  if (asked->gpus > 0 || asked->batch > 0) return 0;
  const bool both = asked->rate > 0 && asked->users > 0;
  if (both || (!asked->trace && asked->rate == 0 && asked->users == 0))
    return diag_error(diag, place_of_file("--rate"), "give %s --rate, requests/s, or --users",
                      asked->users > 0 ? "either" : "the load:");
  return 0;
}

static int check_context(const Plan *self, Diag *diag) {
  const int64_t context = llm_context(&self->model);
  const Question *asked = self->question;
  if (context == 0 || asked->isl + asked->osl <= context) return 0;
  return diag_error(diag, place_of_file("--isl"),
                    "%" PRId64 " + %" PRId64 " tokens exceed the context of '%s', %" PRId64,
                    asked->isl, asked->osl, self->model.name, context);
}

static const char *choose_objective(const Plan *self) {
  if (self->question->gpus > 0 || self->question->batch > 0) return "throughput";
  const bool priced = self->hardware.cost_per_hour > 0 &&
                      (!self->prefill || self->prefill->hardware.cost_per_hour > 0);
  if (self->question->objective >= 0) return plan_objective_names[self->question->objective];
  return priced ? "cost" : "gpus";
}

static int load_machine(Plan *self, const char *gpu, Arena *arena, Diag *diag) {
  self->machine = find_machine(gpu, self->option, arena, diag);
  if (!self->machine) return -1;
  return hardware_load(&self->hardware, self->machine, data_dir(arena), place_of_file(self->option),
                       arena, diag) ||
                 prices_set(self->question->prices, &self->hardware, diag)
             ? -1
             : 0;
}

static void find_shapes(Plan *self, const ServingEngine *engine, Arena *arena) {
  add_measured(self, engine, arena);
  if (self->n_shapes > 0) return;
  find_measured_formats(self, engine, arena);
  add_rooflines(self);
}

/* The GPU of prefill pools, if it is another one. Degrees that are asked for are those of decode,
 * as other GPUs have other memory. */
static int resolve_prefill(Plan *self, const ServingEngine *engine, Arena *arena, Diag *diag) {
  const Question *asked = self->question;
  if (!asked->prefill_gpu || strcmp(asked->prefill_gpu, "same") == 0) return 0;
  const Place at = place_of_file("--prefill-gpu");
  if (asked->split == SPLIT_NO)
    return diag_error(diag, at, "'--prefill-gpu' applies to split designs: omit '--split no'");
  if (self->offload_cpu > 0)
    return diag_error(diag, at, "offloading in split pools is not modelled");
  Plan *prefill = ARENA_NEW(arena, Plan);
  *prefill = (Plan){.question = asked,
                    .option = "--prefill-gpu",
                    .model = self->model,
                    .mtp = self->mtp,
                    .engine = self->engine,
                    .left_out = "",
                    .untried = "",
                    .measured_in = ""};
  if (load_machine(prefill, asked->prefill_gpu, arena, diag)) return -1;
  find_shapes(prefill, engine, arena);
  if (keep_fitting(prefill, engine, NULL, 0, arena, diag)) return -1;
  self->prefill = prefill;
  return 0;
}

int question_resolve(Plan *self, const Question *asked, Arena *arena, Diag *diag) {
  *self = (Plan){
      .question = asked, .option = "--gpu", .left_out = "", .untried = "", .measured_in = ""};
  int64_t degrees[PLAN_SHAPES_MAX];
  const int n_degrees = read_degrees(asked->tensor_parallel, degrees, PLAN_SHAPES_MAX, diag);
  const ServingEngine *engine = find_engine(asked->engine, arena, diag);
  const LlmFormats formats = {asked->weights, LLM_UNSAID, LLM_UNSAID, asked->kv_cache};
  int status = check_load(asked, diag) | load_machine(self, asked->gpu, arena, diag) |
               llm_load_as(&self->model, asked->model, &formats, data_dir(arena),
                           place_of_file("--model"), arena, diag);
  if (status || n_degrees < 0 || !engine || check_context(self, diag)) return -1;
  if (question_resolve_drafts(self, engine, diag)) return -1;
  if (question_resolve_offload(self, engine, diag)) return -1;
  self->engine = engine->name;
  if (resolve_prefill(self, engine, arena, diag)) return -1;
  self->objective = choose_objective(self);
  const int64_t tokens = serving_limits(engine, &self->hardware)->max_num_batched_tokens;
  self->batched_tokens = tokens >= 4 * 512 ? tokens / 4 : 0;
  find_shapes(self, engine, arena);
  find_untried(self, engine, degrees, n_degrees, arena);
  if (keep_fitting(self, engine, degrees, n_degrees, arena, diag)) return -1;
  return question_keep_offloading(self, diag);
}
