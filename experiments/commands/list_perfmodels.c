/* See list_perfmodels.h. */
#include "experiments/commands/list_perfmodels.h"
#include "base/folder.h"
#include "experiments/config/config.h"
#include "perfmodel/compose/other_gpu.h"
#include "perfmodel/datafile.h"
#include "perfmodel/finder.h"
#include "perfmodel/gpu_facts.h"
#include <math.h>
#include <string.h>

const char *list_data_dir(Arena *arena) {
  return arena_printf(arena, "%s/perfmodel", config_data_root());
}

static bool has(const char *text, const char *part) {
  return !part || strstr(text, part);
}

static bool has_gpu(const ListOptions *wanted, const char *gpu) {
  return wanted->gpu && wanted->gpu_is_name ? gpu_is_called(gpu, wanted->gpu)
                                            : has(gpu, wanted->gpu);
}

static bool is_among(const char *const *names, size_t n, const char *name) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

/* GPUs that have tables, then those of machine types that have none; NULL-terminated. */
static const char *const *list_gpus(size_t *ret_with_tables, Arena *arena) {
  const char *root = list_data_dir(arena);
  const char *const *tables = compose_gpus(root, arena);
  size_t n = 0, capacity = 0;
  const char **gpus = NULL;
  Diag unknown;
  diag_init(&unknown);
  ARENA_RESERVE(arena, gpus, capacity, 1);
  for (; *tables; tables++) {
    ARENA_RESERVE(arena, gpus, capacity, n + 2);
    gpus[n++] = *tables;
  }
  *ret_with_tables = n;
  for (const char *const *name = datafile_names(root, "machines", arena); *name; name++) {
    Hardware machine;
    if (hardware_load(&machine, *name, root, place_of_file(NULL), arena, &unknown) ||
        is_among(gpus, n, machine.gpu))
      continue;
    ARENA_RESERVE(arena, gpus, capacity, n + 2);
    gpus[n++] = machine.gpu;
  }
  diag_done(&unknown);
  gpus[n] = NULL;
  return gpus;
}

const char *const *list_gpu_names(Arena *arena) {
  size_t n_own = 0;
  return list_gpus(&n_own, arena);
}

/* The filters, those on the GPU as they are meant. */
static ListOptions meant(const ListOptions *wanted, Arena *arena) {
  ListOptions filters = *wanted;
  size_t n = 0;
  const char *const *gpu = list_gpus(&n, arena);
  for (; wanted->gpu && *gpu; gpu++)
    filters.gpu_is_name |= gpu_is_called(*gpu, wanted->gpu);
  return filters;
}

bool list_is_filtered(const ListOptions *wanted) {
  return wanted->engine || wanted->model || wanted->gpu || wanted->weights >= 0 ||
         wanted->tensor_parallel_size > 0;
}

static bool matches(const PerfFile *file, const ListOptions *wanted) {
  const PerfSetup *setup = &file->setup;
  return has(file->folder, wanted->engine) && has(setup->model, wanted->model) &&
         has_gpu(wanted, setup->gpu) &&
         (wanted->weights < 0 || setup->weight_dtype == wanted->weights) &&
         (wanted->tensor_parallel_size == 0 ||
          setup->tensor_parallel_size == wanted->tensor_parallel_size);
}

/* What was measured of a model, as far as it is asked for. */
static int print_measured(const ListOptions *wanted, const PerfFile *files, size_t n,
                          const char *model, bool shown) {
  int n_found = 0;
  for (size_t i = 0; i < n; i++) {
    if (strcmp(files[i].setup.model, model) != 0 || !matches(&files[i], wanted)) continue;
    if (shown) printf("    %-18s %s\n", files[i].folder, files[i].name);
    n_found++;
  }
  return n_found;
}

/* ---- What can be composed ---- */

/* "; held-out error 8.5% (linear 2.1%, …, all terms 3.2%)", what is borrowed, and what it was on
 * measured rows. */
static void print_composed_errors(const PerfModel *model, Arena *arena) {
  const TermErrors *errors = &model->errors;
  printf("; held-out error %.1f%% (", 100 * model->held_out_error);
  for (int t = 0; t < PERF_HOST; t++)
    if (errors->of[t] > 0) printf("%s %.1f%%, ", perf_term_names[t], 100 * errors->of[t]);
  const double all = model->held_out_error, sum = errors->of[PERF_SUM];
  printf("all terms %.1f%%)", 100 * sqrt(fmax(0, all * all - sum * sum)));
  fputs(model->taken, stdout);
  if (model->residual.rows > 0)
    printf("; on two thirds of %s, %s", residual_rows_text(&model->residual, arena),
           residual_text(&model->residual, arena));
  putchar('\n');
}

/* Prints a setup with its error and what is borrowed for it, unless `quiet`; whether it can be
 * composed. */
static bool print_setup(const ComposeInput *input, const char *folder, const char *engine,
                        bool quiet, const char *indent) {
  Arena arena;
  Diag unknown;
  PerfModel model;
  diag_init(&unknown);
  arena_init(&arena);
  const bool good =
      folder &&
      (quiet ? compose_can(input) : compose_load(&model, input, folder, 1, &arena, &unknown) == 0);
  if (good && !quiet) {
    printf("%s%-18s %s", indent, engine, setup_name(&input->setup, &arena));
    print_composed_errors(&model, &arena);
  }
  arena_done(&arena);
  diag_done(&unknown);
  return good;
}

/* Setups of a model on a GPU with the tables of an engine, by powers of two of GPUs; with
 * `first_only` one at most. Returns how many there are. */
static int print_composed_of(const ListOptions *wanted, ComposeInput *input, bool first_only,
                             const char *indent, Arena *arena) {
  int n = 0;
  const int64_t asked = wanted->tensor_parallel_size;
  for (int64_t tp = 1; tp <= input->hardware->num_gpus && !(n > 0 && first_only); tp *= 2) {
    PerfSetup there;
    input->setup.tensor_parallel_size = asked > 0 ? asked : tp;
    const char *folder = compose_find(input, &there, arena);
    const char *engine = folder ? setup_engine_name(&there, arena) : "";
    if (has(engine, wanted->engine)) n += print_setup(input, folder, engine, first_only, indent);
    if (asked > 0) break;
  }
  return n;
}

/* The same on all GPUs that are asked for, with all engines. */
static int print_composed(const ListOptions *wanted, const char *model, bool first_only,
                          const char *indent, Arena *arena) {
  const char *root = list_data_dir(arena);
  const LlmFormats formats = {wanted->weights, LLM_UNSAID, LLM_UNSAID, LLM_UNSAID};
  int n = 0;
  Llm llm;
  Diag unknown;
  diag_init(&unknown);
  size_t n_own = 0;
  const char *const *gpus = list_gpus(&n_own, arena), *const *gpu = gpus;
  const bool known =
      llm_load_as(&llm, model, &formats, root, place_of_file(NULL), arena, &unknown) == 0;
  diag_done(&unknown);
  for (; known && *gpu && !(n > 0 && first_only); gpu++) {
    Hardware hardware, other;
    const bool own = (size_t)(gpu - gpus) < n_own;
    if (!own && !wanted->gpu) break; // there are many
    if (!has_gpu(wanted, *gpu) || !gpu_facts_find(&hardware, *gpu, root, arena) ||
        (!own && !other_gpu_find(&other, &hardware, compose_gpus(root, arena), root, arena)))
      continue;
    const char *of = own ? *gpu : other.gpu;
    for (const char *const *engine = compose_engines(of, root, arena); *engine; engine++) {
      ComposeInput input = {.setup = {.model = llm.name,
                                      .gpu = *gpu,
                                      .engine = *engine,
                                      .weight_dtype = (int)llm_quantization(&llm),
                                      .kv_cache_dtype = llm.kv_cache_dtype},
                            .llm = &llm,
                            .hardware = &hardware,
                            .data_dir = root,
                            .at = place_of_file(NULL)};
      n += print_composed_of(wanted, &input, first_only, indent, arena);
    }
  }
  return n;
}

/* GPUs without tables, and whose times they take. */
static int print_others(const ListOptions *wanted, Arena *arena) {
  const char *root = list_data_dir(arena);
  size_t n_own = 0;
  int n_found = 0;
  const char *const *gpu = list_gpus(&n_own, arena) + n_own;
  for (; wanted->gpu && !wanted->engine && *gpu; gpu++) {
    Hardware asked, other;
    if (!has_gpu(wanted, *gpu) || !gpu_facts_find(&asked, *gpu, root, arena) ||
        !other_gpu_find(&other, &asked, compose_gpus(root, arena), root, arena))
      continue;
    printf("%-18s has no tables: times of %s by the ratio of peaks, %.0f%% off on average\n", *gpu,
           other.gpu, 100 * other_gpu_error(&asked, &other));
    n_found++;
  }
  return n_found;
}

/* Tables of kernels by GPU and by version of an engine, with what they have; of these the models of
 * any model are composed. Returns how many match. */
static int print_tables(const ListOptions *wanted, Arena *arena) {
  const char *root = arena_printf(arena, "%s/tables", list_data_dir(arena));
  int n_found = 0;
  if (wanted->model || wanted->tensor_parallel_size > 0) return 0;
  for (const char *const *gpu = compose_gpus(list_data_dir(arena), arena); *gpu; gpu++) {
    const char *of_gpu = arena_printf(arena, "%s/%s", root, *gpu);
    for (const char *const *engine = folder_names(of_gpu, "*", arena); *engine; engine++) {
      const char *tables = arena_printf(arena, "%s/%s", of_gpu, *engine), *separator = "";
      if (!has(*engine, wanted->engine) || !has_gpu(wanted, *gpu)) continue;
      printf("%-18s tables of %s: ", *engine, *gpu);
      static const char *const endings[] = {".csv.gz", ".csv"};
      for (int i = 0; i < 2; i++)
        for (const char *const *name = folder_names(tables, endings[i], arena); *name; name++) {
          printf("%s%s", separator, *name);
          separator = ", ";
        }
      putchar('\n');
      n_found++;
    }
  }
  return n_found + print_others(wanted, arena);
}

void list_models(const ListOptions *given, Arena *arena, Diag *diag) {
  const ListOptions filters = meant(given, arena), *wanted = &filters;
  const char *root = list_data_dir(arena);
  const bool picky = list_is_filtered(wanted);
  size_t n = 0;
  const PerfFile *files = finder_files(NULL, root, &n, arena);
  for (const char *const *name = datafile_names(root, "models", arena); *name; name++) {
    Llm llm;
    if (llm_load(&llm, *name, root, place_of_file(NULL), arena, diag)) continue;
    if (picky && print_measured(wanted, files, n, llm.name, false) == 0 &&
        print_composed(wanted, *name, true, "", arena) == 0)
      continue;
    printf("%-26s %5.1f B parameters, %5.1f GB of weights, %.3f MB of KV per token\n", *name,
           (double)llm_parameters(&llm) / 1e9, (double)llm.weight_bytes / 1e9,
           (double)llm.kv_bytes_per_token / 1e6);
    if (!picky) continue;
    print_measured(wanted, files, n, llm.name, true);
    print_composed(wanted, *name, false, "    ", arena);
  }
}

/* The mean errors on what a fit had not seen, in percent, as the file records them. */
static void print_errors(const Node *scores) {
  const char *separator = "; held-out errors: ";
  for (const Node *part = scores ? scores->first : NULL; part; part = part->next) {
    const Node *held_out = node_find(part, "held_out");
    if (!held_out || held_out->kind != NODE_LIST || !held_out->first) continue;
    printf("%s%s %s%%", separator, part->key, held_out->first->text);
    separator = ", ";
  }
}

/* How far measurements reached. */
static void print_range(const Node *root) {
  const Node *tokens = node_find(node_find(root, "linear"), "measured");
  const Node *rows = node_find(node_find(root, "decode_attention"), "rows");
  const Node *row = rows ? rows->first : NULL;
  while (row && row->next)
    row = row->next;
  const Node *context = node_find(row, "measured"), *seqs = node_find(row, "sequences");
  if (tokens && tokens->n_children == 2) printf(", up to %s tokens", tokens->first->next->text);
  if (context && context->n_children == 2 && seqs)
    printf(", %s decodes of %s", seqs->text, context->first->next->text);
}

/* Nothing is there of what is asked for: what would be, with one thing less asked. */
static void note_relaxed(const ListOptions *wanted, const PerfFile *files, size_t n) {
  const ListOptions any = {.weights = -1};
  ListOptions fewer[] = {*wanted, *wanted, *wanted, *wanted, *wanted};
  static const char *const keys[] = {"--engine", "--model", "--gpu", "--weights", "--tp"};
  const bool given[] = {wanted->engine, wanted->model, wanted->gpu, wanted->weights >= 0,
                        wanted->tensor_parallel_size > 0};
  fewer[0].engine = any.engine;
  fewer[1].model = any.model;
  fewer[2].gpu = any.gpu;
  fewer[3].weights = any.weights;
  fewer[4].tensor_parallel_size = any.tensor_parallel_size;
  fputs("no performance model matches all filters", stderr);
  const char *separator = "; there are ";
  for (int k = 0; k < 5; k++) {
    int n_found = 0;
    for (size_t i = 0; i < n; i++)
      n_found += matches(&files[i], &fewer[k]);
    if (!given[k] || n_found == 0) continue;
    fprintf(stderr, "%s%d without %s", separator, n_found, keys[k]);
    separator = ", ";
  }
  fputc('\n', stderr);
}

/* What was fitted, each folder a set or a version of an engine, and the presets of rooflines. */
void list_perfmodels(const ListOptions *given, Arena *arena, Diag *diag) {
  const ListOptions filters = meant(given, arena), *wanted = &filters;
  size_t n = 0, n_found = 0;
  const PerfFile *files = finder_files(NULL, list_data_dir(arena), &n, arena);
  for (size_t i = 0; i < n; i++) {
    if (!matches(&files[i], wanted)) continue;
    n_found++;
    printf("%-18s %s", files[i].folder, files[i].name);
    const Node *root = yaml_load(files[i].path, arena, diag);
    if (root) print_range(root);
    if (root) print_errors(node_find(node_find(root, "fit"), "scores"));
    putchar('\n');
  }
  n_found += (size_t)print_tables(wanted, arena);
  const char *const *model = datafile_names(list_data_dir(arena), "models", arena);
  for (; wanted->model && wanted->gpu && *model; model++)
    if (has(*model, wanted->model))
      n_found += (size_t)print_composed(wanted, *model, false, "", arena);
  if (n_found == 0) note_relaxed(wanted, files, n);
  if (list_is_filtered(wanted)) return;
  for (const char *const *name = preset_names(arena); *name; name++)
    printf("%-18s preset %s\n", "roofline", *name);
}
