/* See print.h. */
#include "experiments/base/version.h"
#include "experiments/provision/ranking.h"
#include "experiments/provision/sure.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- A table for people ---- */

static const char *rate_to_hold(const Provision *study, char text[32]) {
  const double rate = study->rate > 0 ? study->rate : study->base_rate;
  return rate > 0 ? format_amount(rate, text) : "the trace's";
}

static void table_head(const Provision *study, FILE *out) {
  static const char *const wanted[OBJECTIVES] = {[OBJECTIVE_COST] = "the least cost at",
                                                 [OBJECTIVE_POWER] = "the least power at",
                                                 [OBJECTIVE_MACHINES] = "the fewest machines at",
                                                 [OBJECTIVE_INSTANCES] = "the fewest instances at",
                                                 [OBJECTIVE_GPUS] = "the fewest GPUs at"};
  char text[32];
  write_cell(study->base->path, 0, out);
  fputs(": ", out);
  if (study->offline)
    fputs("the highest throughput of requests that are all present at the start", out);
  else if (study->objective == OBJECTIVE_THROUGHPUT)
    fprintf(out, "the highest rate, to within %s requests/s",
            format_amount(study->tolerance, text));
  else
    fprintf(out, "%s %s requests/s", wanted[study->objective], rate_to_hold(study, text));
  if (study->budget_of != OBJECTIVE_THROUGHPUT)
    fprintf(out, ", within %s %s", format_amount(study->budget, text),
            objective_units[study->budget_of]);
  if (study->max_gpus > 0) fprintf(out, " and %.0f GPUs", study->max_gpus);
  if (study->headroom > 0) fprintf(out, ", with %.6g%% more load", 100 * study->headroom);
  if (study->n_plus > 0)
    fprintf(out, ", with %lld instance%s fewer in each searched pool", (long long)study->n_plus,
            study->n_plus > 1 ? "s" : "");
  if (study->spares > 0)
    fprintf(out, ", with %lld spare%s in each", (long long)study->spares,
            study->spares > 1 ? "s" : "");
  if (study->survive) fprintf(out, ", with any one %s down", study->survive);
  fprintf(out, "; %d seed%s\n\n", study->n_seeds, study->n_seeds > 1 ? "s" : "");
}

/* What a reader of a row has to know beyond it. */
static void table_notes(const Provision *study, const DesignOutcome *outcome, FILE *out) {
  const char *name = outcome->design->name;
  if (outcome->answers[0].found && provision_seeds(study, outcome) > 1) {
    fprintf(out, "%s: ", name);
    sure_print_mean(study, outcome, out);
    fprintf(out, "; its answer meets the limits on %d of %d seeds", outcome->n_holds,
            provision_seeds(study, outcome));
    if (outcome->n_distinct > 1)
      fprintf(out, "; the answer depends on the seed: %d different clusters", outcome->n_distinct);
    fputs("\n", out);
  }
  if (outcome->answers[0].found && outcome->answers[0].next_fails)
    fprintf(out, "%s: one step further, %s is missed\n", name, outcome->answers[0].next_fails);
  if (!outcome->monotone)
    fprintf(out,
            "%s: not monotone: a smaller cluster or a higher rate met the limits where a larger "
            "cluster or a lower rate missed them\n",
            name);
}

/* What all designs' machines cost. */
static void table_prices(const Provision *study, FILE *out) {
  Arena arena;
  arena_init(&arena);
  int n = 0, n_all = 0;
  bool any = false;
  for (int d = 0; d < study->n_designs; d++)
    n_all += study->designs[d].n_lots;
  Lot *lots = ARENA_ARRAY(&arena, Lot, n_all);
  for (int d = 0; d < study->n_designs; d++)
    for (int i = 0; i < study->designs[d].n_lots; i++) {
      lots[n++] = study->designs[d].lots[i];
      any |= lots[n - 1].type->gpu_cost_per_hour > 0;
    }
  if (any) {
    fputs("prices       ", out);
    lots_print_prices(lots, n, out);
    fputs("; $/M: per million output tokens\n", out);
  }
  arena_done(&arena);
}

static void table_foot(const Provision *study, const DesignOutcome *outcomes, FILE *out) {
  int64_t simulations = 0, stopped = 0, reused = 0, moved = 0;
  double events = 0, saved = 0, grid = 0;
  for (int d = 0; d < study->n_designs; d++) {
    simulations += outcomes[d].n_simulations;
    stopped += outcomes[d].n_stopped;
    reused += outcomes[d].n_reused;
    moved += outcomes[d].n_moved_simulations;
    events += outcomes[d].events;
    saved += outcomes[d].saved_events;
    grid += outcomes[d].n_grid;
  }
  if (study->replays && study->n_seeds > 1 && !study->offline)
    fputs("a trace is equal on every seed: only other random choices can differ\n", out);
  bool flips = false;
  const int best = provision_best(study, outcomes, &flips);
  if (best >= 0 && !study->offline) sure_print_limits(&outcomes[best], out);
  fprintf(out, "\nbest         %s%s\n", best < 0 ? "none" : study->designs[best].name,
          flips ? ", but not on every seed" : "");
  table_prices(study, out);
  sure_print_times(study, outcomes, best, out);
  fprintf(out, "simulations  %" PRId64 " of ", simulations);
  if (study->offline)
    fprintf(out, "%.0f choices", grid);
  else
    fprintf(out, "%.0f in the full grid, %" PRId64 " ended early (about %.0f%% of events saved)",
            grid, stopped, events + saved > 0 ? 100 * saved / (events + saved) : 0);
  if (reused > 0) fprintf(out, ", %" PRId64 " from the database", reused);
  if (moved > 0) fprintf(out, "; %" PRId64 " more for the ranges", moved);
  putc('\n', out);
}

/* ---- A row for each answer, in all formats ---- */

static void json_slos(const void *of, FILE *out) {
  const Answer *answer = of;
  const SloOutcome *shorter = answer->moved_slos[0], *longer = answer->moved_slos[1];
  Rows rows = {OUTPUT_JSON, out, "", .gap = "", .end = "]"};
  for (int i = 0; i < answer->n_slos; i++) {
    const SloOutcome *slo = &answer->slos[i];
    rows_put(&rows, (Cell[]){{CELL_OF_TEXT("name", slo->spec->name)},
                             {CELL_OF_TEXT("unit", slo_unit(slo->spec))},
                             {CELL_OF_NUMBER("value", slo->value)},
                             {CELL_OF_NUMBER("limit", slo->spec->limit)},
                             {CELL_OF_NUMBER("margin", slo->margin)},
                             {CELL_OF_NUMBER("low_margin", longer ? longer[i].margin : NAN)},
                             {CELL_OF_NUMBER("high_margin", shorter ? shorter[i].margin : NAN)},
                             {0}});
  }
  rows_end(&rows);
}

/* "2 prefill, 1 decode". */
static void roles_text(const Answer *answer, char text[80]) {
  size_t length = 0;
  text[0] = '\0';
  for (int role = 0; role < ROLES; role++)
    if (answer->fleet.n[role] > 0)
      length += (size_t)snprintf(&text[length], 80 - length, "%s%" PRId64 " %s", length ? ", " : "",
                                 answer->fleet.n[role], role_name((Role)role));
}

static void put_answer(Rows *rows, const Provision *study, const DesignOutcome *outcome, int seed) {
  const Answer *answer = &outcome->answers[seed];
  const Design *design = outcome->design;
  const Takes *takes = &answer->fleet.takes;
  const int of_choice = study->offline ? CELL_IN_JSON : CELL_NOWHERE;
  const int for_programs = CELL_IN_CSV | CELL_IN_JSON;
  const double none = answer->found ? 0 : NAN; // numbers of no answer are not known
  char roles[80], cost[32], power[32], rate[32], at_least[40], range[80];
  roles_text(answer, roles);
  snprintf(at_least, sizeof at_least, "%s%9s", answer->open_ended ? ">=" : "",
           format_amount(answer->rate, rate));
  Cell cells[] = {
      {CELL_OF_WHOLE("seed", study->seed + seed), .only = CELL_IN_JSON},
      {CELL_OF_FLAG("found", answer->found), .only = CELL_IN_JSON},
      {CELL_OF_TEXT("design", design->name), .only = CELL_IN_TABLE | CELL_IN_CSV,
       COLUMN("design", -provision_name_width(study))},
      {CELL_OF_WHOLE("seed", study->seed + seed), .only = CELL_IN_CSV},
      {CELL_OF_TEXT(NULL, roles), COLUMN("instances", -22)},
      {CELL_OF_NUMBER("prefill", (double)answer->fleet.n[ROLE_PREFILL] + none),
       .only = for_programs},
      {CELL_OF_NUMBER("decode", (double)answer->fleet.n[ROLE_DECODE] + none), .only = for_programs},
      {CELL_OF_NUMBER("mixed", (double)answer->fleet.n[ROLE_MIXED] + none), .only = for_programs},
      {CELL_OF_NUMBER("instances", takes->instances + none), .only = for_programs},
      {CELL_OF_NUMBER("gpus", takes->gpus + none), COLUMN("GPUs", 5), .show = "%.0f"},
      {CELL_OF_NUMBER("machines", takes->machines + none), COLUMN("machines", 8), .show = "%.0f"},
      {CELL_OF_NUMBER("cost_per_hour", takes->cost_per_hour + none), COLUMN("$/h", 8),
       .shown = format_amount(takes->cost_per_hour, cost)},
      {CELL_OF_NUMBER(
           "cost_per_million_output_tokens",
           takes_cost_per_million(takes, answer->run.unpaid, answer->run.output_tokens_per_s) +
               none),
       COLUMN("$/M", 6), .show = "%.3g"},
      {CELL_OF_NUMBER("cost_per_million_tokens",
                      takes_cost_per_million(takes, answer->run.unpaid, answer->run.tokens_per_s) +
                          none),
       .only = for_programs},
      {CELL_OF_NUMBER("power_kw", takes->power_kw + none), COLUMN("kW", 7),
       .shown = format_amount(takes->power_kw, power)},
      !study->emits
          ? (Cell){.kind = CELL_WHOLE}
          : (Cell){CELL_OF_NUMBER("carbon_g_per_million_output_tokens", answer->run.carbon + none),
                   COLUMN("gCO2/M", 7), .show = "%.4g"},
      {CELL_OF_NUMBER("rate_rps", answer->rate + none), COLUMN("requests/s", 11),
       .shown = at_least},
      {CELL_OF_TEXT(NULL, sure_range_text(study, outcome, range)), COLUMN("range", -12)},
      {CELL_OF_NUMBER("output_tokens_per_s", answer->run.output_tokens_per_s + none),
       .only = for_programs},
      {CELL_OF_TEXT("choice", study->offline ? design->fits[answer->choice].label : NULL),
       .only = of_choice},
      {CELL_OF_FLAG("open_ended", answer->open_ended), .only = CELL_IN_JSON},
      {CELL_OF_TEXT("binds", answer->binds), COLUMN("binds", -18)},
      {CELL_OF_NUMBER("margin", answer->margin + none), COLUMN_PERCENT("margin", 6, "%.1f")},
      {CELL_OF_TEXT("next_fails", answer->next_fails), .only = CELL_IN_JSON},
      {CELL_OF_NUMBER("extrapolated", answer->run.extrapolated + none),
       .only = CELL_IN_JSON | CELL_IN_CSV},
      {CELL_OF_NUMBER("extrapolated_far", answer->run.far + none),
       .only = CELL_IN_JSON | CELL_IN_CSV},
      {CELL_OF_FLAG("measured", answer->run.measured), .only = CELL_IN_JSON},
      {CELL_OF_NUMBER("measured", answer->run.measured + none), .only = CELL_IN_CSV},
      {CELL_OF_NUMBER("perfmodel_error", answer->run.perfmodel_error + none),
       .only = CELL_IN_JSON | CELL_IN_CSV},
      {CELL_OF_NUMBER("low_model", outcome->low_model), .only = CELL_IN_CSV},
      {CELL_OF_NUMBER("high_model", outcome->high_model), .only = CELL_IN_CSV},
      {CELL_OF_JSON("slo", json_slos, answer), .only = CELL_IN_JSON},
      {0}};
  if (rows->format == OUTPUT_JSON && !answer->found) cells[2].kind = CELL_END;
  rows_put(rows, cells);
}

static void print_table(const Provision *study, const DesignOutcome *outcomes, FILE *out) {
  Rows rows = {OUTPUT_TABLE, out, "", .headings_only = true};
  table_head(study, out);
  if (study->offline) {
    ranking_print_table(study, outcomes, out);
    table_foot(study, outcomes, out);
    return;
  }
  put_answer(&rows, study, &outcomes[0], 0);
  rows.headings_only = false;
  for (int d = 0; d < study->n_designs; d++)
    if (outcomes[d].answers[0].found)
      put_answer(&rows, study, &outcomes[d], 0);
    else
      fprintf(out, "%-*s  none: %s\n", provision_name_width(study), study->designs[d].name,
              outcomes[d].why_not);
  putc('\n', out);
  for (int d = 0; d < study->n_designs; d++) {
    sure_print_range(study, &outcomes[d], out);
    table_notes(study, &outcomes[d], out);
  }
  table_foot(study, outcomes, out);
}

/* ---- JSON ---- */

static void json_outcome(const Provision *study, const DesignOutcome *outcome, FILE *out) {
  write_json_text("{", "design", outcome->design->name, out);
  write_json_value(", ", "low", outcome->low, out);
  write_json_value(", ", "high", outcome->high, out);
  write_json_value(", ", "mean", outcome->mean, out);
  write_json_value(", ", "half_width", outcome->half_width, out);
  write_json_value(", ", "low_model", outcome->low_model, out);
  write_json_value(", ", "high_model", outcome->high_model, out);
  fprintf(out, ", \"different\": %d, \"distinct\": %d, \"holds\": %d, \"monotone\": %s",
          outcome->n_different, outcome->n_distinct, outcome->n_holds,
          outcome->monotone ? "true" : "false");
  write_json_text(", ", "why_not", outcome->why_not, out);
  fprintf(out, ", \"simulations\": %" PRId64 ", \"stopped\": %" PRId64 ", \"reused\": %" PRId64,
          outcome->n_simulations, outcome->n_stopped, outcome->n_reused);
  write_json_value(", ", "grid", outcome->n_grid, out);
  write_json_value(", ", "events", outcome->events, out);
  write_json_value(", ", "saved_events", outcome->saved_events, out);
  fprintf(out, ", \"range_simulations\": %" PRId64, outcome->n_moved_simulations);
  write_json_value(", ", "range_events", outcome->moved_events, out);
  fputs(",\n     \"answers\": ", out);
  Rows rows = {OUTPUT_JSON, out, "", .gap = "\n       ", .end = "]"};
  for (int s = 0; s < provision_seeds(study, outcome); s++)
    put_answer(&rows, study, outcome, s);
  rows_end(&rows);
  if (study->offline) {
    rows.any = false;
    fputs(",\n     \"choices\": ", out);
    ranking_put(&rows, study, outcome);
    rows_end(&rows);
  }
  putc('}', out);
}

static void print_json(const Provision *study, const DesignOutcome *outcomes, FILE *out) {
  bool flips = false;
  const int best = provision_best(study, outcomes, &flips);
  write_json_text("{\n  ", "version", tandem_version, out);
  write_json_text(",\n  ", "study", study->base->path, out);
  write_json_text(",\n  ", "objective", provision_objective(study), out);
  write_json_text(",\n  ", "unit", objective_units[study->objective], out);
  if (study->budget_of != OBJECTIVE_THROUGHPUT)
    fprintf(out, ",\n  \"budget\": {\"of\": \"%s\", \"value\": %.17g}",
            objective_names[study->budget_of], study->budget);
  if (study->max_gpus > 0) fprintf(out, ",\n  \"max_gpus\": %.0f", study->max_gpus);
  write_json_text(",\n  ", "best", best < 0 ? NULL : study->designs[best].name, out);
  fprintf(out, ",\n  \"flips\": %s,\n  \"designs\": [\n    ", flips ? "true" : "false");
  for (int d = 0; d < study->n_designs; d++) {
    fputs(d ? ",\n    " : "", out);
    json_outcome(study, &outcomes[d], out);
  }
  fputs("\n  ]\n}\n", out);
}

/* A line for each design and seed. */
static void print_csv(const Provision *study, const DesignOutcome *outcomes, FILE *out) {
  Rows rows = {.format = OUTPUT_CSV, .out = out};
  for (int d = 0; d < study->n_designs; d++)
    if (study->offline)
      ranking_put(&rows, study, &outcomes[d]);
    else
      for (int s = 0; s < provision_seeds(study, &outcomes[d]); s++)
        put_answer(&rows, study, &outcomes[d], s);
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
