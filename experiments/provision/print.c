/* See print.h. */
#include "experiments/base/version.h"
#include "experiments/base/writer.h"
#include "experiments/provision/ranking.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- A table for people ---- */

/* Money, power and rates with as many decimals as they need, up to two. */
static const char *amount(double value, char text[32]) {
  if (isnan(value)) return strcpy(text, "-");
  snprintf(text, 32, "%.2f", value);
  for (size_t last = strlen(text) - 1; strchr(text, '.') && strchr("0.", text[last]); last--) {
    const bool point = text[last] == '.';
    text[last] = '\0';
    if (point) break;
  }
  return text;
}

static const char *rate_to_hold(const Provision *study, char text[32]) {
  const double rate = study->rate > 0 ? study->rate : study->base_rate;
  return rate > 0 ? amount(rate, text) : "the trace's";
}

static void table_head(const Provision *study, FILE *out) {
  static const char *const wanted[OBJECTIVES] = {[OBJECTIVE_COST] = "the least cost that holds",
                                                 [OBJECTIVE_POWER] = "the least power that holds",
                                                 [OBJECTIVE_MACHINES] =
                                                     "the fewest machines that hold"};
  char text[32];
  write_cell(study->base->path, 0, out);
  fputs(": ", out);
  if (study->offline)
    fputs("the largest throughput of requests that are all there at once", out);
  else if (study->objective == OBJECTIVE_THROUGHPUT)
    fprintf(out, "the largest rate, to %s requests/s", amount(study->tolerance, text));
  else
    fprintf(out, "%s %s requests/s", wanted[study->objective], rate_to_hold(study, text));
  if (study->budget_of != OBJECTIVE_THROUGHPUT)
    fprintf(out, ", within %s %s", amount(study->budget, text), objective_units[study->budget_of]);
  fprintf(out, "; %d seed%s\n\n", study->n_seeds, study->n_seeds > 1 ? "s" : "");
}

static void table_row(const Provision *study, const DesignOutcome *outcome, int width, FILE *out) {
  const Answer *answer = &outcome->answers[0];
  char cost[32], power[32], rate[32], low[32], high[32], range[70] = "-";
  fprintf(out, "%-*s ", width, outcome->design->name);
  if (!answer->found) {
    fprintf(out, "none: %s\n", outcome->why_not);
    return;
  }
  if (study->n_seeds > 1)
    snprintf(range, sizeof range, "%s..%s", amount(outcome->low, low), amount(outcome->high, high));
  fprintf(out, "%7" PRId64 " %6" PRId64 " %5" PRId64 " %8.0f %9s %8s %s%9s  %-13s %-18s %5.1f%%\n",
          answer->n_prefill, answer->n_decode, answer->n_mixed, answer->takes.machines,
          amount(answer->takes.cost_per_hour, cost), amount(answer->takes.power_kw, power),
          answer->open_ended ? ">=" : "  ", amount(answer->rate, rate), range,
          answer->binds ? answer->binds : "-", 100 * answer->margin);
}

/* What a reader of a row has to know beyond it. */
static void table_notes(const Provision *study, const DesignOutcome *outcome, FILE *out) {
  const char *name = outcome->design->name;
  if (outcome->answers[0].found && study->n_seeds > 1) {
    fprintf(out, "%s: mean %.4g +- %.2g %s (95%%); its answer holds on %d of %d seeds", name,
            outcome->mean, outcome->half_width, objective_units[study->objective], outcome->n_holds,
            study->n_seeds);
    if (outcome->n_distinct > 1)
      fprintf(out, "; it flips with the seed: %d different clusters", outcome->n_distinct);
    fputs("\n", out);
  }
  if (outcome->answers[0].found && outcome->answers[0].next_fails)
    fprintf(out, "%s: one step further %s is missed\n", name, outcome->answers[0].next_fails);
  if (!outcome->monotone)
    fprintf(out,
            "%s: not monotone: a smaller cluster or a higher rate held where more machines or a "
            "lower one failed\n",
            name);
}

/* How close each limit is at an answer. */
static void table_limits(const DesignOutcome *outcome, FILE *out) {
  const Answer *answer = &outcome->answers[0];
  fprintf(out, "\n%-18s %9s %9s  margin  of %s\n", "limit", "value", "limit",
          outcome->design->name);
  for (int i = 0; i < answer->n_slos; i++) {
    const SloOutcome *slo = &answer->slos[i];
    char value[32], limit[32];
    snprintf(value, sizeof value, "%.4g %s", slo->value, slo_unit(slo->spec));
    snprintf(limit, sizeof limit, "%.4g %s", slo->spec->limit, slo_unit(slo->spec));
    fprintf(out, "%-18s %9s %9s %6.1f%%\n", slo->spec->name, value, limit, 100 * slo->margin);
  }
}

static void table_foot(const Provision *study, const DesignOutcome *outcomes, FILE *out) {
  int64_t simulations = 0, stopped = 0, reused = 0;
  double events = 0, saved = 0, grid = 0;
  for (int d = 0; d < study->n_designs; d++) {
    simulations += outcomes[d].n_simulations;
    stopped += outcomes[d].n_stopped;
    reused += outcomes[d].n_reused;
    events += outcomes[d].events;
    saved += outcomes[d].saved_events;
    grid += outcomes[d].n_grid;
  }
  if (study->replays && study->n_seeds > 1)
    fputs("a trace is the same on every seed: only what draws at random else can differ\n", out);
  bool flips = false;
  const int best = provision_best(study, outcomes, &flips);
  if (best >= 0) table_limits(&outcomes[best], out);
  fprintf(out, "\nbest         %s%s\n", best < 0 ? "none" : study->designs[best].name,
          flips ? ", but not on every seed" : "");
  fprintf(out,
          "simulations  %" PRId64 " of the %.0f of the whole grid, %" PRId64
          " ended early (about %.0f%% of events saved)",
          simulations, grid, stopped, events + saved > 0 ? 100 * saved / (events + saved) : 0);
  if (reused > 0) fprintf(out, ", %" PRId64 " from the database", reused);
  putc('\n', out);
}

static void print_table(const Provision *study, const DesignOutcome *outcomes, FILE *out) {
  const int width = provision_name_width(study);
  table_head(study, out);
  if (study->offline) {
    ranking_print_table(study, outcomes, out);
    return;
  }
  fprintf(out,
          "%-*s prefill decode mixed machines       $/h       kW  requests/s  %-13s %-18s margin\n",
          width, "design", "range", "binds");
  for (int d = 0; d < study->n_designs; d++)
    table_row(study, &outcomes[d], width, out);
  putc('\n', out);
  for (int d = 0; d < study->n_designs; d++)
    table_notes(study, &outcomes[d], out);
  table_foot(study, outcomes, out);
}

/* ---- JSON ---- */

static void json_slo(const SloOutcome *slo, FILE *out) {
  fprintf(out, "{\"name\": \"%s\", \"unit\": \"%s\"", slo->spec->name, slo_unit(slo->spec));
  write_json_value(", ", "value", slo->value, out);
  write_json_value(", ", "limit", slo->spec->limit, out);
  write_json_value(", ", "margin", slo->margin, out);
  putc('}', out);
}

static void json_choice(const Answer *answer, const Design *design, FILE *out) {
  write_json_value(", ", "output_tokens_per_s", answer->tokens_per_s, out);
  write_json_text(", ", "choice", design->fits[answer->choice].label, out);
}

static void json_answer(const Provision *study, const Design *design, const Answer *answer,
                        int seed, FILE *out) {
  fprintf(out, "{\"seed\": %" PRId64 ", \"found\": %s", study->seed + seed,
          answer->found ? "true" : "false");
  if (answer->found) {
    fprintf(out, ", \"prefill\": %" PRId64 ", \"decode\": %" PRId64 ", \"mixed\": %" PRId64,
            answer->n_prefill, answer->n_decode, answer->n_mixed);
    write_json_value(", ", "machines", answer->takes.machines, out);
    write_json_value(", ", "cost_per_hour", answer->takes.cost_per_hour, out);
    write_json_value(", ", "power_kw", answer->takes.power_kw, out);
    write_json_value(", ", "rate_rps", answer->rate, out);
    if (study->offline) json_choice(answer, design, out);
    fprintf(out, ", \"open_ended\": %s", answer->open_ended ? "true" : "false");
    write_json_text(", ", "binds", answer->binds, out);
    write_json_value(", ", "margin", answer->margin, out);
    write_json_text(", ", "next_fails", answer->next_fails, out);
    fputs(", \"slo\": [", out);
    for (int i = 0; i < answer->n_slos; i++) {
      fputs(i ? ", " : "", out);
      json_slo(&answer->slos[i], out);
    }
    putc(']', out);
  }
  putc('}', out);
}

static void json_outcome(const Provision *study, const DesignOutcome *outcome, FILE *out) {
  write_json_text("{", "design", outcome->design->name, out);
  write_json_value(", ", "low", outcome->low, out);
  write_json_value(", ", "high", outcome->high, out);
  write_json_value(", ", "mean", outcome->mean, out);
  write_json_value(", ", "half_width", outcome->half_width, out);
  fprintf(out, ", \"distinct\": %d, \"holds\": %d, \"monotone\": %s", outcome->n_distinct,
          outcome->n_holds, outcome->monotone ? "true" : "false");
  write_json_text(", ", "why_not", outcome->why_not, out);
  fprintf(out, ", \"simulations\": %" PRId64 ", \"stopped\": %" PRId64 ", \"reused\": %" PRId64,
          outcome->n_simulations, outcome->n_stopped, outcome->n_reused);
  write_json_value(", ", "grid", outcome->n_grid, out);
  write_json_value(", ", "events", outcome->events, out);
  write_json_value(", ", "saved_events", outcome->saved_events, out);
  fputs(",\n     \"answers\": [", out);
  for (int s = 0; s < study->n_seeds; s++) {
    fputs(s ? ",\n       " : "\n       ", out);
    json_answer(study, outcome->design, &outcome->answers[s], s, out);
  }
  putc(']', out);
  if (study->offline) {
    fputs(",\n     \"choices\": ", out);
    ranking_print_json(study, outcome, out);
  }
  putc('}', out);
}

static void print_json(const Provision *study, const DesignOutcome *outcomes, FILE *out) {
  bool flips = false;
  const int best = provision_best(study, outcomes, &flips);
  write_json_text("{\n  ", "version", tandem_version, out);
  write_json_text(",\n  ", "study", study->base->path, out);
  write_json_text(",\n  ", "objective", objective_names[study->objective], out);
  write_json_text(",\n  ", "unit", objective_units[study->objective], out);
  if (study->budget_of != OBJECTIVE_THROUGHPUT)
    fprintf(out, ",\n  \"budget\": {\"of\": \"%s\", \"value\": %.17g}",
            objective_names[study->budget_of], study->budget);
  write_json_text(",\n  ", "best", best < 0 ? NULL : study->designs[best].name, out);
  fprintf(out, ",\n  \"flips\": %s,\n  \"designs\": [\n    ", flips ? "true" : "false");
  for (int d = 0; d < study->n_designs; d++) {
    fputs(d ? ",\n    " : "", out);
    json_outcome(study, &outcomes[d], out);
  }
  fputs("\n  ]\n}\n", out);
}

/* ---- CSV: a line for each design and seed ---- */

static void csv_answer(const Provision *study, const DesignOutcome *outcome, int seed, FILE *out) {
  const Answer *answer = &outcome->answers[seed];
  write_csv_text(outcome->design->name, out);
  fprintf(out, ",%" PRId64, study->seed + seed);
  if (!answer->found) {
    fputs(",,,,,,,,,\n", out);
    return;
  }
  fprintf(out, ",%" PRId64 ",%" PRId64 ",%" PRId64, answer->n_prefill, answer->n_decode,
          answer->n_mixed);
  const double numbers[] = {answer->takes.machines, answer->takes.cost_per_hour,
                            answer->takes.power_kw, answer->rate};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    putc(',', out);
    write_csv_number(numbers[i], out);
  }
  fprintf(out, ",%s,", answer->binds ? answer->binds : "");
  write_csv_number(answer->margin, out);
  putc('\n', out);
}

static void print_csv(const Provision *study, const DesignOutcome *outcomes, FILE *out) {
  if (study->offline) {
    ranking_print_csv(study, outcomes, out);
    return;
  }
  fputs("design,seed,prefill,decode,mixed,machines,cost_per_hour,power_kw,rate_rps,binds,margin\n",
        out);
  for (int d = 0; d < study->n_designs; d++)
    for (int s = 0; s < study->n_seeds; s++)
      csv_answer(study, &outcomes[d], s, out);
}

void provision_print(const Provision *study, const DesignOutcome *outcomes, OutputFormat format,
                     FILE *out) {
  static void (*const printers[])(const Provision *, const DesignOutcome *, FILE *) = {
      [OUTPUT_TABLE] = print_table, [OUTPUT_CSV] = print_csv, [OUTPUT_JSON] = print_json};
  printers[format](study, outcomes, out);
}

/* ---- Before anything is simulated ---- */

void provision_print_plan(const Provision *study, FILE *out) {
  table_head(study, out);
  for (int d = 0; d < study->n_designs; d++) {
    const Design *design = &study->designs[d];
    if (study->offline) {
      ranking_print_plan(design, out);
      continue;
    }
    fprintf(out, "%s:", design->name);
    for (int i = 0; i < design->n_counts; i++)
      fprintf(out, " %s=%" PRId64 "..%" PRId64, design->counts[i].key, design->counts[i].low,
              design->counts[i].high);
    fprintf(out, "%s\n", design->n_counts ? "" : " counts are fixed");
  }
}
