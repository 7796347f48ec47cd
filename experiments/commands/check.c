/* `tandem check PROFILE`: what in a profile cannot be, and the profile without it. */
#include "base/output.h"
#include "base/text.h"
#include "experiments/base/cells.h"
#include "experiments/commands/cli.h"
#include "experiments/config/config.h"
#include "perfmodel/check_profile.h"

typedef struct Options {
  const char *drop;
  int format;
} Options;

static const OptionSpec options[] = {
    {CLI_MAIN, CLI_TEXT("--drop", drop, "CLEANED", "write the profile without the rows found")},
    {CLI_FORMAT},
    {0}};

/* ---- Lines ---- */

static int line_at(const CheckReport *report, const CheckFinding *finding, size_t i) {
  return report->profile->rows[report->rows[finding->first + i]].at.line;
}

/* Lines in runs of equal steps: "12-20 by 2, 31". */
static const char *lines_text(const CheckReport *report, const CheckFinding *finding) {
  enum { SHORTEST_RUN = 3 };
  Arena *arena = report->profile->arena;
  const char *text = "";
  for (size_t i = 0, end = 0; i < finding->n_rows; i = end) {
    const int first = line_at(report, finding, i);
    const int step = i + 1 < finding->n_rows ? line_at(report, finding, i + 1) - first : 0;
    end = i + 1;
    while (end < finding->n_rows &&
           line_at(report, finding, end) - line_at(report, finding, end - 1) == step)
      end++;
    if (end - i < SHORTEST_RUN) end = i + 1;
    text = arena_printf(arena, "%s%s%d", text, i > 0 ? ", " : "", first);
    if (end - i > 1) text = arena_printf(arena, "%s-%d", text, line_at(report, finding, end - 1));
    if (end - i > 1 && step > 1) text = arena_printf(arena, "%s by %d", text, step);
  }
  return text;
}

/* ---- Printing ---- */

/* A finding and the report that it is of. */
typedef struct Found {
  const CheckReport *report;
  const CheckFinding *finding;
} Found;

static void json_lines(const void *of, FILE *out) {
  const Found *found = of;
  for (size_t i = 0; i < found->finding->n_rows; i++)
    fprintf(out, "%s%d", i > 0 ? ", " : "[", line_at(found->report, found->finding, i));
  putc(']', out);
}

static void print_finding(Rows *rows, const Found *found) {
  const CheckFinding *finding = found->finding;
  const ProfileGroup *group = finding->group;
  const char *lines = lines_text(found->report, finding), *plural = finding->n_rows == 1 ? "" : "s";
  if (rows->format == OUTPUT_TABLE)
    printf("%s: %s of %s on %s, tensor_parallel_size %d: %s\n  %zu row%s, line%s %s\n",
           check_rule_name(finding->rule), profile_op_name(finding->op), group->model, group->gpu,
           (int)group->tensor_parallel_size, finding->reason, finding->n_rows, plural, plural,
           lines);
  else
    rows_put(rows, (Cell[]){{CELL_OF_TEXT("rule", check_rule_name(finding->rule))},
                            {CELL_OF_TEXT("model", group->model)},
                            {CELL_OF_TEXT("gpu", group->gpu)},
                            {CELL_OF_WHOLE("tensor_parallel_size", group->tensor_parallel_size)},
                            {CELL_OF_TEXT("op", profile_op_name(finding->op))},
                            {CELL_OF_WHOLE("rows", (int64_t)finding->n_rows)},
                            {CELL_OF_JSON("lines", json_lines, found), .text = lines},
                            {CELL_OF_TEXT("reason", finding->reason)},
                            {0}});
}

static void print_report(const CheckReport *report, OutputFormat format) {
  Rows rows = {format, stdout, "", .gap = "\n    ", .end = "\n  ]"};
  if (format == OUTPUT_JSON) {
    write_json_text("{\n  ", "file", report->profile->path, stdout);
    printf(",\n  \"findings\": ");
  }
  for (size_t i = 0; i < report->n_findings; i++)
    print_finding(&rows, &(Found){report, &report->findings[i]});
  if (format == OUTPUT_CSV && report->n_findings == 0) {
    rows.headings_only = true;
    print_finding(&rows, &(Found){report, &(CheckFinding){.group = &(ProfileGroup){0}}});
  }
  rows_end(&rows);
  if (format == OUTPUT_JSON) printf(",\n  \"notes\": [");
  for (size_t i = 0; i < report->n_notes; i++) {
    if (format == OUTPUT_JSON) {
      printf("%s\n    ", i > 0 ? "," : "");
      write_json_string(report->notes[i], stdout);
    } else {
      fprintf(stderr, "note: %s\n", text_shown(report->notes[i], report->profile->arena));
    }
  }
  if (format == OUTPUT_JSON) puts("\n  ]\n}");
  fprintf(stderr, "%zu row%s, %zu finding%s\n", report->profile->n_rows,
          report->profile->n_rows == 1 ? "" : "s", report->n_findings,
          report->n_findings == 1 ? "" : "s");
}

/* ---- Running ---- */

/* Medians move when rows go, so the rest is looked at again until nothing is found. */
static int drop(const CheckReport *report, const char *data_dir, const char *path, Arena *arena,
                Diag *diag) {
  const size_t n_rows = report->profile->n_rows;
  CheckReport last = *report;
  Profile *cleaned = NULL;
  do {
    cleaned = ARENA_NEW(arena, Profile);
    check_clean(&last, cleaned, arena);
    check_profile(&last, cleaned, data_dir, arena);
  } while (last.n_findings > 0);
  profile_set_fact(cleaned, "cleaned",
                   arena_printf(arena, "%zu of %zu rows of %s left out", n_rows - cleaned->n_rows,
                                n_rows, report->profile->path));
  return profile_save(cleaned, path, diag);
}

static int run_check(Cli *cli) {
  const Options *given = cli->given;
  const char *path = cli->operands[0];
  Arena *arena = cli->arena;
  Diag *diag = cli->diag;
  Profile profile;
  CheckReport report;
  const char *data_dir = arena_printf(arena, "%s/perfmodel", config_data_root());
  const char *const inputs[] = {path, NULL};
  const char *shown = text_shown(given->drop ? given->drop : path, arena);
  if (given->drop && output_check(given->drop, inputs, diag)) return EXIT_INPUT;
  if (profile_load(&profile, path, arena, diag)) return EXIT_INPUT;
  check_profile(&report, &profile, data_dir, arena);
  print_report(&report, (OutputFormat)given->format);
  if (given->drop) {
    // What fails is in `diag`.
    if (drop(&report, data_dir, given->drop, arena, diag) == 0)
      fprintf(stderr, "'%s' has the remaining rows: 'tandem fit %s'\n", shown, shown);
    return EXIT_DONE;
  }
  if (report.n_findings > 0)
    fprintf(stderr,
            "'tandem check %s --drop CLEANED' omits these rows, for 'tandem fit CLEANED'; if there "
            "are many, measure again while nothing else runs\n",
            shown);
  return report.n_findings > 0 ? EXIT_INPUT : EXIT_DONE;
}

const Command command_check = {
    .name = "check",
    .group = COMMANDS_MEASURE,
    .help = "find physically impossible rows in a profile",
    .description =
        "Finds rows whose times are impossible or doubtful: faster than the peak rates of the GPU, "
        "more work in less time, replicates that disagree, copies of other rows, zeros, and rows "
        "measured while the clock of the GPU was lowered.",
    .operands = "PROFILE",
    .arguments = (const CliTerm[]){{"PROFILE", "profile (CSV) of 'tandem calibrate' or 'tandem "
                                               "import'"},
                                   {0}},
    CLI_OPTIONS,
    .notes = "Rows whose power, clock or spread is 0 are kept by --drop; only that value is "
             "removed.",
    .examples = "tandem check profile.csv --drop cleaned.csv",
    .exits = {[EXIT_DONE] = "nothing was found, or --drop wrote the other rows",
              [EXIT_INPUT] = "rows were found, or the file is not a profile"},
    .run = run_check,
};
