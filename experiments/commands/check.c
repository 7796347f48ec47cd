/* `tandem check PROFILE`: what in a profile cannot be, and the profile without it. */
#include "experiments/base/writer.h"
#include "experiments/commands/cli.h"
#include "experiments/config/config.h"
#include "perfmodel/check_profile.h"
#include "sim/base/output.h"
#include "sim/base/text.h"
#include <string.h>

typedef struct Options {
  const char *drop;
  int format;
} Options;

static const OptionSpec options[] = {
    CLI_TEXT("--drop", drop, "CLEANED", "write the profile without them"), CLI_FORMAT, {0}};

/* ---- Lines ---- */

static int line_at(const CheckReport *report, const CheckFinding *finding, size_t i) {
  return report->profile->rows[report->rows[finding->first + i]].at.line;
}

/* Lines in runs of equal steps: "12-20 by 2, 31". */
static void print_lines(const CheckReport *report, const CheckFinding *finding) {
  enum { SHORTEST_RUN = 3 };
  for (size_t i = 0, end = 0; i < finding->n_rows; i = end) {
    const int first = line_at(report, finding, i);
    const int step = i + 1 < finding->n_rows ? line_at(report, finding, i + 1) - first : 0;
    end = i + 1;
    while (end < finding->n_rows &&
           line_at(report, finding, end) - line_at(report, finding, end - 1) == step)
      end++;
    if (end - i < SHORTEST_RUN) end = i + 1;
    printf("%s%d", i > 0 ? ", " : "", first);
    if (end - i > 1) printf("-%d", line_at(report, finding, end - 1));
    if (end - i > 1 && step > 1) printf(" by %d", step);
  }
}

/* ---- Printing ---- */

static void print_table(const CheckReport *report) {
  for (size_t i = 0; i < report->n_findings; i++) {
    const CheckFinding *finding = &report->findings[i];
    printf("%s: %s of %s on %s, tensor_parallel_size %d: %s\n  %zu row%s, line%s ",
           check_rule_name(finding->rule), profile_op_name(finding->op), finding->group->model,
           finding->group->gpu, (int)finding->group->tensor_parallel_size, finding->reason,
           finding->n_rows, finding->n_rows == 1 ? "" : "s", finding->n_rows == 1 ? "" : "s");
    print_lines(report, finding);
    putchar('\n');
  }
}

static void print_csv(const CheckReport *report) {
  puts("rule,model,gpu,tensor_parallel_size,op,rows,lines,reason");
  for (size_t i = 0; i < report->n_findings; i++) {
    const CheckFinding *finding = &report->findings[i];
    printf("%s,", check_rule_name(finding->rule));
    write_csv_text(finding->group->model, stdout);
    putchar(',');
    write_csv_text(finding->group->gpu, stdout);
    printf(",%d,%s,%zu,", (int)finding->group->tensor_parallel_size, profile_op_name(finding->op),
           finding->n_rows);
    putchar('"');
    print_lines(report, finding);
    printf("\",");
    write_csv_text(finding->reason, stdout);
    putchar('\n');
  }
}

static void print_json(const CheckReport *report) {
  printf("{\n  \"file\": ");
  write_json_string(report->profile->path, stdout);
  printf(",\n  \"findings\": [");
  for (size_t i = 0; i < report->n_findings; i++) {
    const CheckFinding *finding = &report->findings[i];
    printf("%s\n    {\"rule\": \"%s\", \"model\": ", i > 0 ? "," : "",
           check_rule_name(finding->rule));
    write_json_string(finding->group->model, stdout);
    printf(", \"gpu\": ");
    write_json_string(finding->group->gpu, stdout);
    printf(", \"tensor_parallel_size\": %d, \"op\": \"%s\", \"rows\": %zu, \"lines\": [",
           (int)finding->group->tensor_parallel_size, profile_op_name(finding->op),
           finding->n_rows);
    for (size_t k = 0; k < finding->n_rows; k++)
      printf("%s%d", k > 0 ? ", " : "", line_at(report, finding, k));
    printf("], \"reason\": ");
    write_json_string(finding->reason, stdout);
    putchar('}');
  }
  printf("\n  ],\n  \"notes\": [");
  for (size_t i = 0; i < report->n_notes; i++) {
    printf("%s\n    ", i > 0 ? "," : "");
    write_json_string(report->notes[i], stdout);
  }
  puts("\n  ]\n}");
}

static void print_report(const CheckReport *report, OutputFormat output) {
  static void (*const printers[])(const CheckReport *) = {
      [OUTPUT_TABLE] = print_table, [OUTPUT_CSV] = print_csv, [OUTPUT_JSON] = print_json};
  printers[output](report);
  for (size_t i = 0; output != OUTPUT_JSON && i < report->n_notes; i++)
    fprintf(stderr, "note: %s\n", text_shown(report->notes[i], report->profile->arena));
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
  if (given->drop && output_check(given->drop, inputs, diag)) return EXIT_INPUT;
  if (profile_load(&profile, path, arena, diag)) return EXIT_INPUT;
  check_profile(&report, &profile, data_dir, arena);
  print_report(&report, (OutputFormat)given->format);
  if (given->drop) {
    drop(&report, data_dir, given->drop, arena, diag); // what fails is in `diag`
    return EXIT_DONE;
  }
  return report.n_findings > 0 ? EXIT_INPUT : EXIT_DONE;
}

const Command command_check = {
    .name = "check",
    .help = "what in a profile cannot be",
    .summary =
        "Looks for times in a profile that cannot be: faster than the GPU's peaks, more work\n"
        "in less time, replicates that disagree, copies of other rows, zeros for nothing.",
    .operands = "PROFILE",
    .min_operands = 1,
    .max_operands = 1,
    .options = options,
    .size = sizeof(Options),
    .notes =
        "--drop leaves out every row named, but keeps those whose power or clock is 0 or whose\n"
        "spread is 0: they only lose that value.",
    .example = "tandem check profile.csv --drop cleaned.csv",
    .exit_codes =
        "0 nothing found, or dropped, 2 wrong usage, 3 found or bad profile, 4 cannot read",
    .run = run_check,
};
