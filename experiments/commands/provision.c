/* `tandem provision STUDY`: the best machine counts, or choices, of each design. */
#include "experiments/commands/study.h"
#include <string.h>

typedef struct Options {
  const Node *set;
  MoneyOptions money;
  const char *output, *export;
  int format;
  int64_t seed, jobs, memory, spares;
  const char *survive;
  bool dry_run, require_slo, full_runs, no_range, run;
} Options;

static const OptionSpec options[] = {
    {CLI_MAIN, CLI_SET("provision.seeds=5")},
    {CLI_OUTPUT},
    {CLI_FORMAT},
    {CLI_FLAG("--run", run, "simulate the best answer and print its report too")},
    {CLI_FLAG("--dry-run", dry_run, "check the study, print what would be searched, and stop")},
    {.group = "Search",
     CLI_COUNT("--seed", seed, "first random seed, in place of those of the study", 1e19)},
    {CLI_COUNT("--spares", spares, "spare instances of each design, off until one fails", 1e6)},
    {CLI_TEXT("--survive", survive, "DOMAIN",
              "failure domain, such as rack, any one of which may be down for the whole run")},
    {CLI_MONEY_PRICE},
    {CLI_MONEY_PRICES},
    {CLI_MONEY_SOLD},
    {CLI_FLAG("--full-runs", full_runs, "end no run early, so that all its figures are complete")},
    {CLI_FLAG("--no-range", no_range,
              "do not search again with iteration times moved by the error of their model")},
    {.group = "Output", CLI_EXPORT},
    {CLI_FLAG("--require-slo", require_slo,
              "exit with code 1, not 3, if no design meets the limits")},
    {.group = "Resources", CLI_JOBS},
    {CLI_MEMORY},
    {0}};

/* ---- What failures cost ---- */

static bool is_of_failures(const char *key) {
  static const char *const keys[] = {"faults", "spares", "n_plus", "survive"};
  const char *dot = strstr(key, ".faults");
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (strcmp(key, keys[i]) == 0) return true;
  return dot && strchr(".", dot[strlen(".faults")]); // pools.NAME.faults, or a key of it
}

/* The outages of domains, which stay where they are. */
static bool take_outages(Node *domains) {
  static const char *const keys[] = {"schedule", "release", "down"};
  bool any = false;
  for (Node *level = domains->first; level; level = level->next)
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
      any |= level->kind == NODE_MAP && node_take(level, keys[i]) != NULL;
  return any;
}

/* Takes out what fails, and what is held against that; whether there was anything. */
static bool take_failures(Node *map) {
  bool any = false;
  Node *domains = map->kind == NODE_MAP ? (Node *)node_find(map, "domains") : NULL;
  if (domains && domains->kind == NODE_MAP) any |= take_outages(domains);
  for (Node *child = map->first, *next; child; child = next) {
    next = child->next;
    if (child->key && is_of_failures(child->key))
      any |= node_take(map, child->key) != NULL;
    else
      any |= take_failures(child);
  }
  return any;
}

/* The answer where nothing fails, beside the one that was printed; `root` is all of the study. */
static int compare_with_no_failures(const Study *study, const Options *given, Node *root) {
  if (!take_failures(root)) return 0;
  Study sound;
  int status = study_open(&sound, study->base.path, root,
                          &(const ConfigChanges){.seed = -1, .tie_seed = -1}, given->jobs,
                          given->memory, study->base.cache.lasting, study->arena, study->diag) ||
               study_search(&sound, NULL, given->full_runs, false);
  if (!status && sound.best >= 0) {
    const DesignOutcome *best = &sound.outcomes[sound.best];
    const Takes *takes = &best->answers[0].fleet.takes;
    printf("no failures  '%s' would do with %.6g instances, %.4g $/h and %.4g kW\n",
           best->design->name, takes->instances, takes->cost_per_hour, takes->power_kw);
  }
  study_close(&sound);
  return status;
}

/* The exit code when `diag` stays empty. */
static int answer(Study *self, const Options *given, Node *whole) {
  const int status = study_search(self, given->output, given->full_runs, !given->no_range);
  study_note_times(self);
  if (status) return EXIT_INPUT;
  if (given->export && self->best >= 0) return study_export(self, given->export);
  provision_print(&self->provision, self->outcomes, given->format, stdout);
  if (self->best >= 0) {
    if (given->format == OUTPUT_TABLE && compare_with_no_failures(self, given, whole))
      return EXIT_INPUT;
    if (given->run) putchar('\n');
    return given->run && study_run_answer(self, stdout) ? EXIT_INPUT : EXIT_DONE;
  }
  if (given->require_slo) return EXIT_SLO_MISSED;
  study_explain(self);
  return EXIT_INPUT;
}

/* Those of prices, then those of --set, which may be of all of `provision`, then --spares. NULL
 * with entries. */
static const char *const *assignments_of(const Options *given, Arena *arena, Diag *diag) {
  const Node *prices = NULL;
  if (study_prices(&given->money, &prices, arena, diag)) return NULL;
  const int n_set = given->set ? given->set->n_children : 0;
  const char **texts =
      ARENA_ARRAY(arena, const char *, n_set + (prices ? prices->n_children : 0) + 4);
  int n = 0;
  for (const Node *price = prices ? prices->first : NULL; price; price = price->next)
    texts[n++] = arena_printf(arena, "prices.%s=%s", price->key, node_text(price, arena));
  if (given->money.sold >= 0)
    texts[n++] = arena_printf(arena, "sold=%s", hardware_sold_names[given->money.sold]);
  for (const Node *set = given->set ? given->set->first : NULL; set; set = set->next)
    texts[n++] = set->text;
  if (given->spares >= 0)
    texts[n++] = arena_printf(arena, "provision.spares=%lld", (long long)given->spares);
  if (given->survive) texts[n++] = arena_printf(arena, "provision.survive=%s", given->survive);
  return texts;
}

static int open_and_answer(Cli *cli, Study *self, Node *root) {
  const Options *given = cli->given;
  const ConfigChanges changes = {.assignments = assignments_of(given, cli->arena, cli->diag),
                                 .seed = given->seed,
                                 .tie_seed = -1};
  if (!changes.assignments) return EXIT_INPUT;
  Node *whole = node_copy(root, cli->arena);
  if (config_change(whole, &changes, cli->arena, cli->diag) ||
      study_open(self, cli->operands[0], root, &changes, given->jobs, given->memory,
                 cache_new(cli->arena), cli->arena, cli->diag))
    return EXIT_INPUT;
  if (!given->dry_run) return answer(self, given, whole);
  provision_print_plan(&self->provision, stdout);
  return EXIT_DONE;
}

static int run_provision(Cli *cli) {
  const Options *given = cli->given;
  if (given->run && given->format != OUTPUT_TABLE)
    return cli_usage(cli, "'--run' prints two tables and needs '--format table'");
  const int usage = study_check_export(given->export, cli->arena);
  if (usage != EXIT_DONE) return usage;
  Node *root = config_tree(cli->operands[0], cli->arena, cli->diag);
  if (!root) return EXIT_INPUT;
  Study self = {0};
  const int code = open_and_answer(cli, &self, root);
  study_close(&self);
  study_interrupted(cli, given->output);
  return code;
}

const Command command_provision = {
    .name = "provision",
    .group = COMMANDS_SIMULATE,
    .help = "find the cheapest cluster of a study",
    .description =
        "Searches the designs of a study for the cluster that serves a workload within its limits "
        "at the least cost, power or number of instances, or for the highest rate within a budget. "
        "For requests that are all present at the start, it searches the parallel degrees and "
        "options with the highest throughput.",
    .operands = "STUDY",
    .arguments = (const CliTerm[]){{"STUDY", "configuration file with a block 'provision'; "
                                             "'tandem list options provision' prints its keys"},
                                   {0}},
    CLI_OPTIONS,
    .notes = "With --output, runs that DB already has are not repeated.",
    .listing = "Programs of --export",
    .listed = study_programs,
    .listed_as = "PROGRAM",
    .examples = "tandem provision experiments/examples/provision.yaml\n"
                "tandem provision experiments/examples/provision.yaml --run",
    .exits = {[EXIT_SLO_MISSED] = "no design meets the limits (--require-slo)",
              [EXIT_INPUT] = "the study is wrong, or no design meets the limits"},
    .initial = &(const Options){.seed = -1, .spares = -1, .money = {.sold = -1}},
    .run = run_provision,
};
