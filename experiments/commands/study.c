/* See study.h. */
#include "experiments/commands/study.h"
#include "base/text.h"
#include "experiments/base/interrupt.h"
#include "experiments/base/progress.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* When it began, and was last told of. */
typedef struct Telling {
  const Provision *study;
  double began_s, shown_s;
} Telling;

static void show_progress(void *context, const ProvisionProgress *progress) {
  Telling *self = context;
  if (!progress_begins(self->began_s, &self->shown_s)) return;
  fprintf(stderr, "%lld simulations, %lld under way, %d of %d designs searched",
          (long long)progress->done, (long long)progress->in_flight, progress->n_settled,
          progress->n_designs);
  if (progress->best)
    fprintf(stderr, ", best '%s' with %.6g %s", progress->best->name,
            provision_value(self->study, &progress->answer),
            objective_units[self->study->objective]);
  progress_said();
}

static int add_price(Node *map, const char *text, Arena *arena, Diag *diag) {
  const Place at = place_of_file("--price");
  const char *sign = strchr(text, '=');
  char *end = NULL;
  const double usd = sign ? strtod(sign + 1, &end) : 0;
  if (!sign || sign == text || end == sign + 1 || *end || !(usd > 0 && usd <= 1e6)) {
    diag_error(diag, at, "'%s' is not a price of a GPU", text);
    return diag_hint(diag, "write GPU=USD, such as h100=2.10");
  }
  const char *value =
      arena_printf(arena, "{gpu_cost_per_hour: %.12g $/h, price_source: --price}", usd);
  const Node *price = yaml_parse("--price", value, strlen(value), arena, diag);
  return price
             ? node_set(map, arena_copy(arena, text, (size_t)(sign - text)), at, price, arena, diag)
             : -1;
}

int study_prices(const MoneyOptions *given, const Node **ret_prices, Arena *arena, Diag *diag) {
  *ret_prices = NULL;
  if (!given->prices && !given->price) return 0;
  Node *map = given->prices ? prices_load(given->prices, arena, diag)
                            : yaml_parse("--price", "{}", 2, arena, diag);
  if (map && map->kind != NODE_MAP)
    return diag_error(diag, map->at, "'%s' is not a map of prices", given->prices);
  int status = map ? 0 : -1;
  for (const Node *price = given->price ? given->price->first : NULL; map && price;
       price = price->next)
    status |= add_price(map, price->text, arena, diag);
  *ret_prices = map;
  return status;
}

int study_open(Study *self, const char *path, Node *root, const ConfigChanges *changes,
               int64_t jobs, int64_t memory, Cache *lasting, Arena *arena, Diag *diag) {
  *self = (Study){.jobs = cli_jobs(jobs), .best = -1, .arena = arena, .diag = diag};
  if (provision_load(&self->provision, &self->base, path, root, changes, lasting, arena, diag))
    return -1;
  self->base.memory = cli_memory(memory, self->jobs);
  return 0;
}

int study_search(Study *self, const char *output, bool full_runs, bool range) {
  if (database_open(&self->database, output, self->arena, self->diag)) return -1;
  Results *results = database_results(&self->database);
  const double now = clock_monotonic();
  Telling telling = {&self->provision, now, now};
  const ProvisionOptions how = {.jobs = self->jobs,
                                .results = results,
                                .no_early_stop = full_runs,
                                .range = range,
                                .on_progress = show_progress,
                                .context = &telling};
  interrupt_catch();
  const int status =
      provision_run(&self->provision, &how, &self->outcomes, self->arena, self->diag);
  if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
  if (status) return -1;
  if (results && provision_store(&self->provision, self->outcomes, results, self->diag)) return -1;
  bool flips = false;
  self->best = provision_best(&self->provision, self->outcomes, &flips);
  return 0;
}

void study_note_times(Study *self) {
  config_note_perfmodels(&self->base.cache, stderr);
}

void study_explain(Study *self) {
  const Provision *study = &self->provision;
  for (int d = 0; d < study->n_designs; d++)
    diag_error(self->diag, study->designs[d].at, "design '%s' meets the limits with no cluster: %s",
               study->designs[d].name, self->outcomes[d].why_not);
}

int study_bind_answer(Study *self, double precision, Cache *cache, Config *ret_config) {
  ConfigChanges changes =
      provision_answer_changes(&self->provision, &self->outcomes[self->best], self->arena);
  changes.precision = precision;
  if (cache) cache->lasting = self->base.cache.lasting;
  return config_bind(ret_config, self->base.path, node_copy(self->base.root, self->arena), &changes,
                     cache ? cache : &self->base.cache, self->arena, self->diag);
}

int study_run_answer(Study *self, FILE *out) {
  Config *config = ARENA_NEW(self->arena, Config);
  SimResult *result = ARENA_NEW(self->arena, SimResult);
  Report *report = ARENA_NEW(self->arena, Report);
  uint64_t digest = 0;
  if (study_bind_answer(self, 0, NULL, config) || config_digest(config, &digest, self->diag))
    return -1;
  config->sim.memory_limit = self->base.memory;
  config->sim.keeps_batches = true;
  if (config_simulate(config, &config->sim, result, report, self->arena, self->diag)) return -1;
  Results *results = database_results(&self->database);
  if (results && results_add_run(results, report, digest, self->arena, self->diag)) return -1;
  report_print(report, OUTPUT_TABLE, out);
  return 0;
}

int study_export(Study *self, const char *program) {
  Config *config = ARENA_NEW(self->arena, Config);
  if (study_bind_answer(self, 0, NULL, config) ||
      config_need_one_model(config, "'--export'", self->diag))
    return EXIT_INPUT;
  export_print(program, config, stdout, self->arena);
  return EXIT_DONE;
}

const CliTerm *study_programs(Arena *arena) {
  return cli_terms(export_names(arena), export_about, arena);
}

int study_check_export(const char *program, Arena *arena) {
  const char *const *names = export_names(arena);
  return !program || text_is_one(program, names)
             ? EXIT_DONE
             : cli_unknown("program", program, names, "tandem plan --help");
}

void study_interrupted(Cli *cli, const char *output) {
  if (output)
    cli_interrupted(cli, "its runs so far are in '%s'; the same command continues", output);
  else
    cli_interrupted(
        cli, "nothing is kept; '--output DB' keeps the runs, and the same command then continues");
}

void study_close(Study *self) {
  database_close(&self->database);
  if (self->base.root) trial_base_done(&self->base);
}
