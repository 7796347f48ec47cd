/* See ranking.h. */
#include "experiments/provision/ranking.h"
#include "experiments/provision/measure.h"
#include "experiments/provision/sure.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- Columns of axes ---- */

/* The last step of a key where no other axis ends in it, so that columns stay narrow. */
static const char *heading(const Sweep *choices, int axis) {
  const char *name = choices->axes[axis].name, *dot = strrchr(name, '.');
  if (!dot) return name;
  for (int i = 0; i < choices->n_axes; i++) {
    const char *other = choices->axes[i].name, *end = strrchr(other, '.');
    if (i != axis && strcmp(end ? end + 1 : other, dot + 1) == 0) return name;
  }
  return dot + 1;
}

static int axis_width(const Sweep *choices, int axis) {
  size_t width = strlen(heading(choices, axis));
  for (int i = 0; i < choices->axes[axis].n_choices; i++) {
    const size_t length = strlen(choices->axes[axis].choices[i].label);
    if (length > width) width = length;
  }
  return (int)width;
}

static void print_headings(const Sweep *choices, FILE *out) {
  for (int i = 0; i < choices->n_axes; i++)
    fprintf(out, "  %-*s", i + 1 < choices->n_axes ? axis_width(choices, i) : 0,
            heading(choices, i));
}

/* Where a choice is on each axis, and what is wrong with it, as far as the first colon. */
static void print_labels(const Sweep *choices, int64_t choice, const char *why_not, FILE *out) {
  for (int i = 0; i < choices->n_axes; i++)
    fprintf(out, "  %-*s", i + 1 < choices->n_axes || why_not ? axis_width(choices, i) : 0,
            sweep_choice(choices, choice, i)->label);
  if (!why_not) return;
  const char *colon = strstr(why_not, ": ");
  fprintf(out, "  %.*s", (int)(colon ? colon - why_not : (ptrdiff_t)strlen(why_not)), why_not);
}

/* ---- A table for people ---- */

static const char *number(double value, char text[32]) {
  if (isnan(value)) return "-";
  snprintf(text, 32, "%.4g", value);
  return text;
}

int provision_name_width(const Provision *study) {
  size_t width = strlen("design");
  for (int d = 0; d < study->n_designs; d++)
    if (strlen(study->designs[d].name) > width) width = strlen(study->designs[d].name);
  return (int)width;
}

static void print_best(const DesignOutcome *outcome, int width, FILE *out) {
  const Answer *answer = &outcome->answers[0];
  const Takes *takes = &answer->fleet.takes;
  char rate[32], tokens[32], cost[32], million[32], power[32];
  fprintf(out, "%-*s ", width, outcome->design->name);
  if (!answer->found) {
    fprintf(out, "none: %s\n", outcome->why_not);
    return;
  }
  const char *label = outcome->design->fits[answer->choice].label;
  fprintf(out, "%10s %9s %5.0f %8.0f %7s %6s %7s  %s\n", number(answer->rate, rate),
          number(answer->run.output_tokens_per_s, tokens), takes->gpus, takes->machines,
          number(takes->cost_per_hour, cost),
          number(takes_cost_per_million(takes, answer->run.unpaid, answer->run.output_tokens_per_s),
                 million),
          number(takes->power_kw, power), *label ? label : "-");
}

static void print_spread(const Provision *study, const DesignOutcome *outcome, FILE *out) {
  if (study->n_seeds == 1 || !outcome->answers[0].found) return;
  fprintf(out, "%s: %.4g..%.4g requests/s over the seeds, ", outcome->design->name, outcome->low,
          outcome->high);
  sure_print_mean(study, outcome, out);
  if (outcome->n_distinct > 1)
    fprintf(out, "; the answer depends on the seed: %d different choices", outcome->n_distinct);
  putc('\n', out);
}

static void print_ranking(const DesignOutcome *outcome, FILE *out) {
  const Design *design = outcome->design;
  Arena arena;
  arena_init(&arena);
  int64_t n_ranked = 0;
  const int64_t *order = outcome_rank(outcome, 0, &n_ranked, &arena);
  const double best = outcome->answers[0].rate;
  fprintf(out, "\n%s: %" PRId64 " of %" PRId64 " choices\nrank requests/s  tokens/s  of best",
          design->name, n_ranked, design->choices.n_points);
  print_headings(&design->choices, out);
  putc('\n', out);
  for (int64_t i = 0; i < design->choices.n_points; i++) {
    const Measurement *one = outcome_measurement(outcome, 0, order[i]);
    char rank[32] = "-", rate[32], tokens[32], share[32] = "-";
    if (!one->why_not) {
      snprintf(rank, sizeof rank, "%" PRId64, i + 1);
      snprintf(share, sizeof share, "%.1f%%", best > 0 ? 100 * one->throughput_rps / best : 100);
    }
    fprintf(out, "%4s %10s %9s %8s", rank, number(one->throughput_rps, rate),
            number(one->run.output_tokens_per_s, tokens), share);
    print_labels(&design->choices, order[i], one->why_not, out);
    putc('\n', out);
  }
  arena_done(&arena);
}

void ranking_print_table(const Provision *study, const DesignOutcome *outcomes, FILE *out) {
  const int width = provision_name_width(study);
  fprintf(out, "%-*s requests/s  tokens/s  GPUs machines     $/h    $/M      kW  choice\n", width,
          "design");
  for (int d = 0; d < study->n_designs; d++)
    print_best(&outcomes[d], width, out);
  bool ranged = false;
  for (int d = 0; d < study->n_designs; d++)
    ranged |= outcomes[d].ranged;
  if (study->n_seeds > 1 || ranged) putc('\n', out);
  for (int d = 0; d < study->n_designs; d++) {
    print_spread(study, &outcomes[d], out);
    sure_print_range(study, &outcomes[d], out);
  }
  for (int d = 0; d < study->n_designs; d++)
    print_ranking(&outcomes[d], out);
}

/* ---- CSV and JSON ---- */

/* Where each choice is in the ranking of a seed, from 1; 0: nowhere. */
static const int64_t *find_ranks(const DesignOutcome *outcome, int seed, Arena *arena) {
  int64_t n_ranked = 0;
  const int64_t *order = outcome_rank(outcome, seed, &n_ranked, arena);
  int64_t *ranks = ARENA_ARRAY(arena, int64_t, outcome->design->choices.n_points);
  for (int64_t i = 0; i < n_ranked; i++)
    ranks[order[i]] = i + 1;
  return ranks;
}

/* A choice of a design. */
typedef struct Chosen {
  const Sweep *choices;
  int64_t choice;
} Chosen;

static void json_values(const void *of, FILE *out) {
  const Chosen *chosen = of;
  putc('{', out);
  for (int i = 0; i < chosen->choices->n_axes; i++) {
    fputs(i ? ", " : "", out);
    write_json_string(chosen->choices->axes[i].name, out);
    fputs(": ", out);
    write_json_string(sweep_choice(chosen->choices, chosen->choice, i)->label, out);
  }
  putc('}', out);
}

static void put_choice(Rows *rows, const DesignOutcome *outcome, int64_t seed, int64_t choice,
                       const Measurement *one, int64_t rank) {
  const Design *design = outcome->design;
  const Chosen chosen = {&design->choices, choice};
  const Takes *takes = &design->fits[choice].fleet.takes;
  const double none = takes->instances > 0 ? 0 : NAN; // of what takes nothing, nothing is known
  rows_put(
      rows,
      (Cell[]){
          {CELL_OF_TEXT("design", design->name), .only = CELL_IN_CSV},
          {CELL_OF_WHOLE("seed", seed)},
          {CELL_OF_NUMBER("rank", rank > 0 ? (double)rank : NAN)},
          {CELL_OF_TEXT("choice", design->fits[choice].label)},
          {CELL_OF_JSON("values", json_values, &chosen), .only = CELL_IN_JSON},
          {CELL_OF_NUMBER("throughput_rps", one->throughput_rps)},
          {CELL_OF_NUMBER("output_tokens_per_s", one->run.output_tokens_per_s)},
          {CELL_OF_NUMBER("instances", takes->instances + none), .only = CELL_IN_CSV},
          {CELL_OF_NUMBER("gpus", takes->gpus + none), .only = CELL_IN_CSV},
          {CELL_OF_NUMBER("machines", takes->machines + none), .only = CELL_IN_CSV},
          {CELL_OF_NUMBER("cost_per_hour", takes->cost_per_hour + none), .only = CELL_IN_CSV},
          {CELL_OF_NUMBER(
              "cost_per_million_output_tokens",
              takes_cost_per_million(takes, one->run.unpaid, one->run.output_tokens_per_s) + none)},
          {CELL_OF_NUMBER("power_kw", takes->power_kw + none), .only = CELL_IN_CSV},
          {CELL_OF_TEXT("why_not", one->why_not)},
          {CELL_OF_NUMBER("extrapolated", one->run.extrapolated)},
          {0}});
}

void ranking_put(Rows *rows, const Provision *study, const DesignOutcome *outcome) {
  Arena arena;
  arena_init(&arena);
  for (int s = 0; s < study->n_seeds; s++) {
    const int64_t *ranks = find_ranks(outcome, s, &arena);
    for (int64_t i = 0; i < outcome->design->choices.n_points; i++)
      put_choice(rows, outcome, study->seed + s, i, outcome_measurement(outcome, s, i), ranks[i]);
  }
  arena_done(&arena);
}

/* ---- Before anything is simulated ---- */

void ranking_print_plan(const Design *design, FILE *out) {
  int64_t n_fit = 0;
  for (int64_t i = 0; i < design->choices.n_points; i++)
    n_fit += !design->fits[i].why_not;
  fprintf(out, "%s: %" PRId64 " of %" PRId64 " choices\n", design->name, n_fit,
          design->choices.n_points);
  for (int64_t i = 0; i < design->choices.n_points; i++) {
    const ChoiceFit *fit = &design->fits[i];
    fprintf(out, "  %s%s%s\n", *fit->label ? fit->label : "-", fit->why_not ? ": " : "",
            fit->why_not ? fit->why_not : "");
  }
}
