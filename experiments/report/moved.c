/* What a report says of the same run with iteration times moved down and up: Report.moved. */
#include "experiments/report/report.h"
#include <math.h>

const char *const report_moves[MOVES] = {"shorter", "longer"};

void report_print_moved(const Report *self, FILE *out) {
  if (!self->ranged) return;
  fputs("range        ", out);
  if (!self->moved[0]) {
    fputs("none: the error of the iteration times is unknown\n", out);
    return;
  }
  const Report *shorter = self->moved[0], *longer = self->moved[1];
  fprintf(out, "with times up to %.1f%% shorter and longer: %.2f and %.2f requests/s",
          100 * self->extrapolated.perfmodel_error, shorter->run.throughput_rps,
          longer->run.throughput_rps);
  if (!isnan(self->run.cost_usd))
    fprintf(out, ", $%.2f and $%.2f", shorter->run.cost_usd, longer->run.cost_usd);
  for (int i = 0; i < MOVES; i++)
    if (self->moved[i]->saturated != self->saturated)
      fprintf(out, "; with %s times %s", report_moves[i],
              self->saturated ? "not saturated" : "SATURATED");
  putc('\n', out);
}

void report_print_moved_latency(const Report *self, int latency, int width, FILE *out) {
  for (int i = 0; i < MOVES && self->moved[i]; i++) {
    char name[32], text[32];
    snprintf(name, sizeof name, "  %s", report_moves[i]);
    fprintf(out, "%-*s", width, name);
    for (int k = 0; k < REPORT_STATISTICS; k++)
      fprintf(out, " %9s", format_duration(self->moved[i]->latencies[latency].values[k], text));
    putc('\n', out);
  }
}

void report_print_moved_slo(const Report *self, int limit, FILE *out) {
  if (!self->moved[0]) return;
  const SloOutcome *shorter = &self->moved[0]->outcomes[limit];
  const SloOutcome *longer = &self->moved[1]->outcomes[limit];
  const bool met = self->outcomes[limit].met;
  char low[32], high[32];
  fprintf(out, "; %s to %s%s", format_margin(longer->margin, 0, low),
          format_margin(shorter->margin, 0, high),
          shorter->met != met || longer->met != met ? ": undecided" : "");
}
