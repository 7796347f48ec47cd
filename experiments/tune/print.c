/* The answer on paper, and for programs. */
#include "base/text.h"
#include "experiments/base/cells.h"
#include "experiments/tune/tune.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- Texts ---- */

/* Of a share: "+12.1% +- 1.2%", "-3%" without an interval, "-" of none. */
static const char *change_text(const Difference *of, Arena *arena) {
  if (of->n == 0 || of->a == 0) return "-";
  const double share = 100 / fabs(of->a);
  const char *text = arena_printf(arena, "%+.1f%%", of->value * share);
  if (isnan(of->half_width)) return text;
  return arena_printf(arena, "%s +- %.1f%%", text, of->half_width * share);
}

typedef enum Verdict { VERDICT_BETTER, VERDICT_NONE, VERDICT_STAYS, VERDICT_PUT_BACK } Verdict;

static const char *const verdict_names[] = {"better", "no difference", "stays", "put back"};

static Verdict verdict_of(const Tuning *self, int k) {
  const KnobAnswer *answer = &self->answers[k];
  if (answer->best != self->knobs.items[k].current) return VERDICT_BETTER;
  if (tune_changed(self, &self->found, k)) return VERDICT_PUT_BACK;
  return self->tried[k].any_effect ? VERDICT_STAYS : VERDICT_NONE;
}

static const char *text_of(const Tuning *self, int k, int value) {
  return self->knobs.items[k].values[value].text;
}

/* Per cent by which a value must be worse to be named. */
enum { WORTH_SAYING = 5 };

/* What else there is to say of a knob. */
static const char *remark(const Tuning *self, int k, Verdict verdict) {
  const KnobTried *tried = &self->tried[k];
  Arena *arena = self->arena;
  const char *text = "";
  if (verdict == VERDICT_NONE) text = "makes no difference here";
  if (verdict == VERDICT_PUT_BACK)
    text = arena_printf(arena, "%s is worth nothing beside the others",
                        text_of(self, k, self->found.at[k]));
  if (verdict == VERDICT_STAYS && tried->best.n > 0 && tune_gains(self, &tried->best))
    text = arena_printf(arena, "%s alone: %s, but nothing beside the others",
                        text_of(self, k, tried->best_value), change_text(&tried->best, arena));
  else if (verdict == VERDICT_STAYS && tried->best.n > 0)
    text = arena_printf(arena, "stays; next %s: %s", text_of(self, k, tried->best_value),
                        change_text(&tried->best, arena));
  if (verdict == VERDICT_STAYS && tried->best.n == 0) text = "stays";
  if (tried->worst.n == 0 && !tried->worst_lost) return text;
  if (*text && tried->best.n > 0 && tried->worst_value == tried->best_value) return text;
  const double share = tried->worst.a != 0 ? 100 * tried->worst.value / fabs(tried->worst.a) : 0;
  if (!tried->worst_lost && objective_gain(&self->objective, share) > -WORTH_SAYING) return text;
  const char *worst = text_of(self, k, tried->worst_value);
  const char *loss = tried->worst_lost      ? "no value"
                     : tried->worst_bounded ? arena_printf(arena, "%+.0f%% or worse", share)
                                            : arena_printf(arena, "%+.0f%%", share);
  return arena_printf(arena, "%s%s%s: %s", text, *text ? "; " : "", worst, loss);
}

/* ---- The table ---- */

static int width_of(const Tuning *self, const char *heading,
                    const char *(*text)(const Tuning *, int)) {
  size_t width = strlen(heading);
  for (int k = 0; k < self->knobs.n; k++)
    if (strlen(text(self, k)) > width) width = strlen(text(self, k));
  return (int)width;
}

static const char *name_text(const Tuning *self, int k) {
  return self->knobs.items[k].name;
}

static const char *current_text(const Tuning *self, int k) {
  return text_of(self, k, self->knobs.items[k].current);
}

static const char *best_text(const Tuning *self, int k) {
  return text_of(self, k, self->answers[k].best);
}

static double share_of(const Difference *of, double value) {
  return of->n > 0 && of->a != 0 ? value / fabs(of->a) : NAN;
}

/* What setting it alone gives: as measured at the end where the search took it, else the best of
 * its other values in the first round of the search. */
static const Difference *alone_of(const Tuning *self, int k) {
  return tune_changed(self, &self->found, k) ? &self->answers[k].alone : &self->tried[k].best;
}

static const char *alone_value(const Tuning *self, int k) {
  if (tune_changed(self, &self->found, k)) return text_of(self, k, self->found.at[k]);
  return self->tried[k].best.n > 0 ? text_of(self, k, self->tried[k].best_value) : NULL;
}

static void put_knob(Rows *rows, const Tuning *self, int k) {
  const Difference *alone = alone_of(self, k), *without = &self->answers[k].without;
  const Verdict verdict = verdict_of(self, k);
  const bool shown = tune_changed(self, &self->found, k);
  const char *note = remark(self, k, verdict);
  if (!*note) note = NULL;
  Arena *arena = self->arena;
  rows_put(
      rows,
      (Cell[]){
          {CELL_OF_TEXT("knob", name_text(self, k)),
           COLUMN("knob", -width_of(self, "knob", name_text))},
          {CELL_OF_TEXT("current", current_text(self, k)),
           COLUMN("current", width_of(self, "current", current_text))},
          {CELL_OF_TEXT("best", best_text(self, k)),
           COLUMN("best", width_of(self, "best", best_text))},
          {CELL_OF_TEXT(NULL, shown ? change_text(alone, arena) : "-"), COLUMN("alone", 16)},
          {CELL_OF_TEXT(NULL, change_text(without, arena)), COLUMN("without it", 16)},
          {CELL_OF_TEXT("alone_value", alone_value(self, k)), .only = CELL_IN_CSV | CELL_IN_JSON},
          {CELL_OF_NUMBER("alone", share_of(alone, alone->value))},
          {CELL_OF_NUMBER("alone_half_width", share_of(alone, alone->half_width))},
          {CELL_OF_WHOLE("alone_seeds", (int64_t)alone->n)},
          {CELL_OF_NUMBER("without", share_of(without, without->value))},
          {CELL_OF_NUMBER("without_half_width", share_of(without, without->half_width))},
          {CELL_OF_TEXT("verdict", verdict_names[verdict]), .only = CELL_IN_CSV | CELL_IN_JSON},
          {CELL_OF_TEXT(NULL, note), COLUMN("notes", 0)},
          {0}});
}

/* ---- What it comes to ---- */

/* The keys and values that change, as a map; empty: none. */
static Node *changes_of(const Tuning *self) {
  Node *root = ARENA_NEW(self->arena, Node);
  *root = (Node){.kind = NODE_MAP};
  for (int k = 0; k < self->knobs.n; k++) {
    const KnobValue *value = &self->knobs.items[k].values[self->answers[k].best];
    for (int i = 0; i < value->n_settings; i++)
      node_set(root, value->settings[i].key, value->settings[i].at, value->settings[i].value,
               self->arena, self->diag);
  }
  return root;
}

static TunePoint best_of(const Tuning *self) {
  TunePoint point = self->current;
  for (int k = 0; k < self->knobs.n; k++)
    point.at[k] = (int8_t)self->answers[k].best;
  return point;
}

/* The configuration of the best values. -1 with entries. */
static int bind_best(Tuning *self, Config *ret_config) {
  const TunePoint best = best_of(self);
  const ConfigChanges changes = tune_changes(self, &best, self->arena);
  return config_bind(ret_config, self->base.path, node_copy(self->base.root, self->arena), &changes,
                     &self->base.cache, self->arena, self->diag);
}

static bool has_engine(const Tuning *self) {
  return serving_at(self->config.engine.row) != NULL;
}

static const char *seeds_text(const Tuning *self) {
  if (self->replays) return "one run: the trace is the same on every seed, so no interval is known";
  if (self->same_seeds) return "one seed, so no interval is known";
  if (isnan(self->together.half_width))
    return "seeds change nothing: the outcomes are equal on all of them";
  return arena_printf(self->arena, "95%%, %d seeds that the search did not see", self->n_seeds);
}

static bool is_changed(const Tuning *self) {
  const TunePoint best = best_of(self);
  return memcmp(&self->current, &best, sizeof best) != 0;
}

static void print_together(const Tuning *self, FILE *out) {
  const Difference *of = &self->together;
  const TuneObjective *objective = &self->objective;
  fprintf(out, "objective    %s, %s is better", objective->name,
          objective->lower ? "lower" : "higher");
  if (objective->kind == TUNE_RATE)
    fprintf(out, "; the largest within the limits, in steps of %g", self->step);
  fprintf(out, "\ncurrent      %s\n", objective_text(objective, of->a, self->arena));
  if (is_changed(self))
    fprintf(out, "best         %s: %s (%s)\n", objective_text(objective, of->b, self->arena),
            change_text(of, self->arena), seeds_text(self));
  else
    fputs("best         the current values: nothing that was tried is better beyond chance\n", out);
}

static void print_knobs(const Tuning *self, OutputFormat format, FILE *out) {
  Rows rows = {.format = format, .out = out, .indent = "", .gap = "\n  ", .end = "]"};
  for (int k = 0; k < self->knobs.n; k++)
    put_knob(&rows, self, k);
  rows_end(&rows);
}

/* ---- How sure ---- */

/* Whether one of the moved differences has another sign. */
static bool is_undecided(const Tuning *self) {
  bool undecided = false;
  for (int m = 0; m < MOVES; m++)
    undecided |=
        self->moved[m].n > 0 && objective_gain(&self->objective, self->moved[m].value) <= 0;
  return undecided;
}

static TimesKnown all_times(const Tuning *self) {
  TimesKnown times = self->times[0];
  times_merge(&times, &self->times[1]);
  return times;
}

static void print_times(const Tuning *self, FILE *out) {
  static const char *const runs[] = {"a run with the current values", "a run with the best values"};
  const TimesKnown times = all_times(self);
  const char *known = times_text(&times, self->arena);
  if (*known) fprintf(out, "times        %s\n", known);
  if (self->moved[0].n > 0)
    fprintf(out,
            "             if times are shorter by that, the best values are worth %s, if longer "
            "%s (one seed)%s\n",
            change_text(&self->moved[0], self->arena),
            change_text(&self->moved[MOVES - 1], self->arena),
            is_undecided(self) ? ": undecided within the error of the times" : "");
  for (int i = 0; i < (is_changed(self) ? 2 : 1); i++) {
    const char *extrapolated = times_extrapolated_text(&self->times[i], runs[i], self->arena);
    if (extrapolated) fprintf(out, "%s %s\n", i ? "            " : "extrapolated", extrapolated);
  }
}

static void print_saturated(const Tuning *self, FILE *out) {
  if (self->n_saturated == 0) return;
  fprintf(out,
          "saturated    more requests come than are served in %d of %d runs: longer ones, with "
          "workload.duration,\n             would be worse\n",
          self->n_saturated, self->n_seeds);
}

static void print_not_tried(const Tuning *self, FILE *out) {
  const Knobs *knobs = &self->knobs;
  fputs("not tried\n", out);
  for (int i = 0; i < knobs->n_left_out; i++)
    text_print_wrapped(text_shown(knobs->left_out[i], self->arena), 2, out);
  text_print_wrapped("changes of several knobs of which none is better alone", 2, out);
  if (self->out_of_budget)
    text_print_wrapped("what the search would have gone on to beyond --budget", 2, out);
}

static int print_table(Tuning *self, FILE *out) {
  print_together(self, out);
  putc('\n', out);
  print_knobs(self, OUTPUT_TABLE, out);
  putc('\n', out);
  print_times(self, out);
  print_saturated(self, out);
  fprintf(out, "simulations  %" PRId64 " in the search, %" PRId64 " to measure what it found\n",
          self->n_search_runs, self->n_runs - self->n_search_runs);
  print_not_tried(self, out);
  if (!is_changed(self)) return 0;
  fputs("\nset\n", out);
  plan_print_block(changes_of(self), 2, out, self->arena);
  if (!has_engine(self)) return 0;
  Config *config = ARENA_NEW(self->arena, Config);
  if (bind_best(self, config)) return -1;
  putc('\n', out);
  export_print(NULL, config, out, self->arena);
  return 0;
}

/* ---- For programs ---- */

static void write_difference(const char *before, const char *key, const Difference *of, FILE *out) {
  fprintf(out, "%s\"%s\": %s", before, key, of->n > 0 ? "{" : "null");
  if (of->n == 0) return;
  write_json_value("", "from", of->a, out);
  write_json_value(", ", "to", of->b, out);
  write_json_value(", ", "change", of->value, out);
  write_json_value(", ", "half_width", of->half_width, out);
  fprintf(out, ", \"seeds\": %zu}", of->n);
}

/* What export_print prints, as a text. */
static int write_flags(Tuning *self, FILE *out) {
  enum { MOST = 1 << 16 };
  char *text = arena_alloc(self->arena, MOST);
  FILE *memory = has_engine(self) ? fmemopen(text, MOST, "w") : NULL;
  if (!memory) {
    write_json_text(",\n ", "start", NULL, out);
    return 0;
  }
  Config *config = ARENA_NEW(self->arena, Config);
  const int status = bind_best(self, config);
  if (status == 0) export_print(NULL, config, memory, self->arena);
  fclose(memory);
  write_json_text(",\n ", "start", text, out);
  return status;
}

static int print_json(Tuning *self, FILE *out) {
  write_json_text("{", "config", self->base.path, out);
  write_json_text(", ", "objective", self->objective.name, out);
  write_json_text(", ", "unit", self->objective.unit, out);
  fprintf(out, ", \"lower_is_better\": %s", self->objective.lower ? "true" : "false");
  write_json_value(", ", "step", self->step > 0 ? self->step : NAN, out);
  fprintf(out, ", \"seeds\": %d, \"fresh_seeds\": %s", self->n_seeds,
          self->same_seeds ? "false" : "true");
  write_difference(",\n ", "together", &self->together, out);
  write_difference(",\n ", "times_shorter", &self->moved[0], out);
  write_difference(", ", "times_longer", &self->moved[MOVES - 1], out);
  const TimesKnown times = all_times(self);
  const bool sure = times.known && !times.unknown && !times.computed;
  write_json_value(",\n ", "perfmodel_error", sure ? times.error : NAN, out);
  write_json_value(", ", "extrapolated", times.extrapolated, out);
  fprintf(out, ", \"saturated\": %d", self->n_saturated);
  fprintf(out,
          ",\n \"simulations\": %" PRId64 ", \"out_of_budget\": %s,\n \"knobs\": ", self->n_runs,
          self->out_of_budget ? "true" : "false");
  print_knobs(self, OUTPUT_JSON, out);
  fputs(",\n \"set\": {", out);
  const char *before = "";
  for (int k = 0; k < self->knobs.n; k++) {
    const KnobValue *value = &self->knobs.items[k].values[self->answers[k].best];
    for (int i = 0; i < value->n_settings; i++, before = ", ")
      write_json_text(before, value->settings[i].key, value->settings[i].value->text, out);
  }
  fputs("},\n \"not_tried\": [", out);
  for (int i = 0; i < self->knobs.n_left_out; i++) {
    fputs(i > 0 ? ", " : "", out);
    write_json_string(self->knobs.left_out[i], out);
  }
  putc(']', out);
  const int status = write_flags(self, out);
  fputs("}\n", out);
  return status;
}

int tune_print(Tuning *self, OutputFormat format, FILE *out) {
  if (format == OUTPUT_JSON) return print_json(self, out);
  if (format == OUTPUT_TABLE) return print_table(self, out);
  print_knobs(self, OUTPUT_CSV, out);
  return 0;
}

void tune_print_plan(const Tuning *self, FILE *out) {
  fprintf(out, "objective    %s, %s is better; %d seed%s\n\n", self->objective.name,
          self->objective.lower ? "lower" : "higher", self->n_seeds, self->n_seeds > 1 ? "s" : "");
  for (int k = 0; k < self->knobs.n; k++) {
    const Knob *knob = &self->knobs.items[k];
    fprintf(out, "%-*s ", width_of(self, "", name_text), knob->name);
    for (int v = 0; v < knob->n_values; v++)
      if (!knob->values[v].why_not)
        fprintf(out, v == knob->current ? " [%s]" : " %s", knob->values[v].text);
    putc('\n', out);
  }
  putc('\n', out);
  print_not_tried(self, out);
}
