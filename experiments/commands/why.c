/* `tandem why DB [RUN] [REQUEST]`: where the time of requests went. */
#include "experiments/why/why.h"
#include "base/text.h"
#include "experiments/base/interrupt.h"
#include "experiments/commands/cli.h"
#include <stdlib.h>

typedef struct Options {
  const char *percentile; // NULL: not given
  int64_t slowest, memory;
  int by, format;
} Options;

static const OptionSpec options[] = {
    {CLI_MAIN, CLI_ROW("--slowest", INT, slowest, "N", "explain each of the N slowest requests"),
     .min = 1, .max = 1e6},
    {CLI_TEXT("--percentile", percentile, "P",
              "compare the requests above this percentile with the others"),
     .absent = "p99"},
    {CLI_ROW("--by", CHOICE, by, "LATENCY", "latency that ranks the requests"),
     .choices = why_measures, .fallback = "e2e"},
    {CLI_FORMAT},
    {CLI_MEMORY},
    {0}};

/* "p99.9" or "99.9". */
static bool parse_percentile(const char *text, double *ret_percentile) {
  char *end = NULL;
  if (*text == 'p') text++;
  *ret_percentile = strtod(text, &end);
  return text[0] >= '0' && text[0] <= '9' && *end == '\0' && *ret_percentile >= 1 &&
         *ret_percentile < 100;
}

static int answer(Why *why, const Cli *cli, const char *request, double percentile) {
  const Options *given = cli->given;
  const OutputFormat format = (OutputFormat)given->format;
  const WhyMeasure by = (WhyMeasure)given->by;
  if (request) return why_request(why, request, format, stdout);
  if (given->slowest > 0) return why_slowest(why, given->slowest, by, format, stdout);
  return why_bands(why, percentile, by, format, stdout);
}

static int run_why(Cli *cli) {
  const Options *given = cli->given;
  const bool many = given->slowest > 0 || given->percentile;
  const char *const *operands = cli->operands;
  double percentile = 99;
  if (given->slowest > 0 && given->percentile)
    return cli_usage(cli, "'--slowest' and '--percentile' exclude each other");
  if (many && operands[1] && operands[2])
    return cli_usage(cli, "'--slowest' and '--percentile' apply to all requests, not to '%s'",
                     text_shown(operands[2], cli->arena));
  if (given->percentile && !parse_percentile(given->percentile, &percentile))
    return cli_usage(cli, "'--percentile' must be one such as p99, from p1 to below p100");
  const bool is_one = !many && operands[1];
  if (is_one && given->by != WHY_E2E)
    return cli_usage(cli, "'--by' needs '--slowest' or '--percentile'");
  const char *request = !is_one ? NULL : operands[2] ? operands[2] : operands[1];
  const char *run = is_one && !operands[2] ? NULL : operands[1];
  Why why;
  interrupt_catch();
  int status =
      why_open(&why, operands[0], run, cli_memory(given->memory, 1), cli->arena, cli->diag);
  if (status == 0 && why.again)
    fprintf(stderr,
            "note: '%s' has no parts of requests, so the run was simulated again, with the same "
            "outcomes; 'tandem run --requests' keeps them\n",
            text_shown(why.source, cli->arena));
  if (status == 0) status = answer(&why, cli, request, percentile);
  why_close(&why);
  cli_interrupted(cli, "nothing was changed; the same command starts again");
  return status ? EXIT_INPUT : EXIT_DONE;
}

const Command command_why = {
    .name = "why",
    .group = COMMANDS_RESULTS,
    .help = "explain where the time of requests went",
    .description =
        "Splits the latency of a request into parts, such as queueing, prefill and decode, and "
        "names the requests that delayed it. Or it shows what the slow requests of a run have in "
        "common. The parts of a request add up to its E2E.",
    .operands = "DB [RUN] [REQUEST]",
    .arguments =
        (const CliTerm[]){{"DB", "database of results"},
                          {"RUN", "number of a run; the newest run by default"},
                          {"REQUEST", "number of a request to explain. A single number is a "
                                      "REQUEST, but a RUN with --slowest or --percentile."},
                          {0}},
    CLI_OPTIONS,
    .notes = "A run that was stored without --requests is simulated again. 'tandem list figures' "
             "describes the parts.",
    .examples = "tandem why runs.db\ntandem why runs.db --slowest 10",
    .exits = {[EXIT_INPUT] = "there is no such run or request"},
    .run = run_why,
};
