/* A plan on paper: the question, the answer and the next best, what tokens cost at which speed. */
#include "base/text.h"
#include "experiments/base/cells.h"
#include "experiments/fleet/fleet.h"
#include "experiments/plan/plan.h"
#include "experiments/plan/quote.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- Words ---- */

static const char *amount(double value, Arena *arena) {
  return format_amount(value, arena_alloc(arena, 32));
}

static int64_t count_instances(const Answer *answer) {
  const int64_t *n = answer->fleet.n;
  return n[ROLE_PREFILL] + n[ROLE_DECODE] + n[ROLE_MIXED];
}

const char *plan_instances(const Answer *answer, Arena *arena) {
  if (answer->fleet.n[ROLE_DECODE] > 0)
    return arena_printf(arena, "%" PRId64 " + %" PRId64, answer->fleet.n[ROLE_PREFILL],
                        answer->fleet.n[ROLE_DECODE]);
  return arena_printf(arena, "%" PRId64, answer->fleet.n[ROLE_MIXED]);
}

static const char *named_instances(const DesignOutcome *outcome, Arena *arena) {
  const Answer *answer = &outcome->answers[0];
  return arena_printf(arena, "%s instance%s of %s", plan_instances(answer, arena),
                      count_instances(answer) == 1 ? "" : "s", outcome->design->name);
}

const char *plan_named_takes(const DesignOutcome *outcome, Arena *arena) {
  const Takes *takes = &outcome->answers[0].fleet.takes;
  const char *text = arena_printf(arena, "%s: %.0f GPU%s", named_instances(outcome, arena),
                                  takes->gpus, takes->gpus > 1 ? "s" : "");
  return isnan(takes->cost_per_hour)
             ? text
             : arena_printf(arena, "%s, %s $/h", text, amount(takes->cost_per_hour, arena));
}

static const char *cost_unit(bool priced) {
  return priced ? "$/M tokens" : "GPU s/M";
}

static bool is_priced(const PlanAnswer *self) {
  return self->front->n > 0 && !isnan(self->front->points[0].cost);
}

/* "2,000 + 300 tokens", "lengths of azure-conv-2023", "the trace x.csv". */
static const char *load_of(const Question *asked, Arena *arena) {
  char isl[32], osl[32];
  const char *what =
      asked->mix     ? arena_printf(arena, "the mix of %s", text_shown(asked->mix->path, arena))
      : asked->trace ? arena_printf(arena, "the trace %s", text_shown(asked->trace, arena))
      : asked->lengths
          ? arena_printf(arena, "lengths of %s", text_shown(asked->lengths, arena))
          : arena_printf(arena, "%s + %s tokens", format_count((double)asked->isl, isl),
                         format_count((double)asked->osl, osl));
  if (asked->users > 0)
    return arena_printf(arena, "%" PRId64 " users at a time, %s", asked->users, what);
  if (asked->rate > 0) return arena_printf(arena, "%.6g requests/s, %s", asked->rate, what);
  return what;
}

const char *plan_title(const Question *asked, const char *on, Arena *arena) {
  return arena_printf(arena, "%s%s%s: %s, within %s", text_shown(asked->model, arena),
                      on ? " on " : "", on ? on : "", load_of(asked, arena),
                      text_shown(asked->slo, arena));
}

static void print_question(const PlanAnswer *self, FILE *out, Arena *arena) {
  const Plan *plan = self->plan;
  const int64_t drafts = plan->question->drafts;
  const char *offload = plan->offload_cpu > 0 ? plan->question->offload : NULL;
  const char *prefill = plan->prefill ? plan->prefill->machine : NULL;
  fprintf(out, "question    %s (%s) on %s%s%s, %s%s%s%s: %s\n",
          text_shown(plan->question->model, arena), dtype_names[llm_quantization(&plan->model)],
          text_shown(plan->machine, arena), prefill ? ", prefill on " : "",
          prefill ? text_shown(prefill, arena) : "", plan->engine,
          drafts > 0 ? arena_printf(arena, ", %" PRId64 " draft%s", drafts, drafts > 1 ? "s" : "")
                     : "",
          offload ? ", offload to " : "", offload ? text_shown(offload, arena) : "",
          load_of(plan->question, arena));
  const int64_t gpus = plan->question->gpus;
  const char *wanted = gpus > 0 ? arena_printf(arena, "the highest rate of %" PRId64 " GPU%s", gpus,
                                               gpus > 1 ? "s" : "")
                                : arena_printf(arena, "with the least %s", plan->objective);
  fprintf(out, "            within %s, %s\n", text_shown(plan->question->slo, arena), wanted);
  if (plan->question->power_budget > 0)
    fprintf(out, "            within %s kW of provisioned power\n",
            amount(plan->question->power_budget / 1000, arena));
  if (plan->question->day)
    fprintf(out,
            "            that is the peak of %s, %.3g times its mean of %.6g requests/s:\n"
            "            its valleys leave %.0f%% of the capacity\n",
            text_shown(plan->question->day, arena), plan->question->peak,
            plan->question->rate / plan->question->peak, 100 * (1 - 1 / plan->question->peak));
  if (plan->question->max_gpus > 0)
    fprintf(out, "            with at most %" PRId64 " GPU%s\n", plan->question->max_gpus,
            plan->question->max_gpus > 1 ? "s" : "");
  if (plan->question->headroom > 0)
    fprintf(out, "            limits are those of %.6g times the load\n",
            1 + plan->question->headroom);
  if (plan->roofline)
    fprintf(
        out,
        "            this model was not measured on these GPUs: its times come from a roofline\n");
  if (plan->roofline && *plan->measured_in)
    fprintf(out, "            --weights with measured times: %s\n", plan->measured_in);
  if (plan->prefill && plan->prefill->roofline)
    fprintf(out, "            prefill on %s: its times come from a roofline\n",
            text_shown(prefill, arena));
  if (*plan->left_out) fprintf(out, "            the weights do not fit with %s\n", plan->left_out);
  if (*plan->untried)
    fprintf(out, "            not tried, because no iteration times are known: %s\n",
            plan->untried);
}

/* ---- The answer ---- */

/* ", but missed with times 1.8% longer", by what their model may be off; empty: they would not
 * decide it the other way. */
static const char *undecided(const Answer *answer, int limit, Arena *arena) {
  static const char *const moves[MOVES] = {"shorter", "longer"};
  for (int i = 0; i < MOVES && answer->moved_slos[i]; i++)
    if (!answer->moved_slos[i][limit].met)
      return arena_printf(arena, ", but missed if times are %.1f%% %s",
                          100 * answer->run.perfmodel_error, moves[i]);
  return "";
}

static void print_limits(const Answer *answer, FILE *out, Arena *arena) {
  for (int i = 0; i < answer->n_slos; i++) {
    const SloOutcome *slo = &answer->slos[i];
    const char *unit = slo_unit(slo->spec);
    char margin[32];
    fprintf(out, "            %s %.4g of %.4g%s%s, %s left%s\n", slo->spec->name, slo->value,
            slo->spec->limit, *unit ? " " : "", unit, format_margin(slo->margin, 1, margin),
            undecided(answer, i, arena));
  }
}

/* "12 GPUs, 57 $/h, 1.80 $ per million output tokens" */
static const char *price_of(const PlanAnswer *self, const DesignOutcome *outcome, Arena *arena) {
  const FrontPoint *point = front_asked(self->front, outcome);
  const Takes *takes = &outcome->answers[0].fleet.takes;
  const char *text = arena_printf(arena, "%.0f GPU%s, ", takes->gpus, takes->gpus > 1 ? "s" : "");
  if (!isnan(takes->cost_per_hour))
    text = arena_printf(arena, "%s%s $/h", text, amount(takes->cost_per_hour, arena));
  else
    text = arena_printf(arena, "%sno price is known", text);
  if (!point) return text;
  if (isnan(point->cost))
    return arena_printf(arena, "%s, %.0f GPU seconds per million output tokens", text,
                        point->gpu_seconds);
  return arena_printf(arena, "%s, %s $ per million output tokens", text,
                      amount(point->cost, arena));
}

static double lower(double a, double b) {
  return a < b ? a : b;
}

/* "ttft.p99 0.49 to 0.6 s, tpot.p99 0.021 to 0.025 s", and "mostly by the error of attention
 * (4.1%)". */
static void print_moved_limits(const DesignOutcome *outcome, FILE *out) {
  const Answer *answer = &outcome->answers[0];
  const SloOutcome *shorter = answer->moved_slos[0], *longer = answer->moved_slos[MOVES - 1];
  const MovedTerms *by = &outcome->moved_by;
  bool any = false;
  int most = 0;
  for (int i = 0; i < answer->n_slos; i++) {
    const double is = answer->slos[i].value, low = shorter[i].value, high = longer[i].value;
    const char *unit = slo_unit(answer->slos[i].spec);
    fprintf(out, "%s%s %.4g to %.4g%s%s", i ? ", " : "            ", answer->slos[i].spec->name,
            lower(is, lower(low, high)), -lower(-is, lower(-low, -high)), *unit ? " " : "", unit);
    any |= low != high;
  }
  for (int g = 1; g < TERM_MOVES; g++)
    if (by->part.by[g] > by->part.by[most]) most = g;
  if (any)
    fprintf(out, ",\n            mostly by the error of %s (%.1f%%)", term_move_names[most],
            100 * by->error[most]);
  putc('\n', out);
}

/* The range of the answer, under seeds and what times may be off by. */
static void print_sure(const PlanAnswer *self, const DesignOutcome *outcome, FILE *out,
                       Arena *arena) {
  const Answer *answer = &outcome->answers[0];
  const double low = outcome->ranged ? outcome->low_model : outcome->low;
  const double high = outcome->ranged ? outcome->high_model : outcome->high;
  const char *unit = objective_units[self->study->objective];
  fprintf(out, "sure        %s", amount(low, arena));
  if (isinf(high))
    fprintf(out, " %s or more", unit);
  else if (low == high)
    fprintf(out, " %s in all cases", unit);
  else
    fprintf(out, " to %s %s", amount(high, arena), unit);
  if (outcome->ranged)
    fprintf(out, ", with times up to %.1f%% shorter or longer", 100 * answer->run.perfmodel_error);
  else
    fputs(", without the error of the times, which is unknown", out);
  if (self->study->n_seeds > 1 && outcome->n_found > 1 && outcome->n_different == 1)
    fputs(", equal on all seeds", out);
  else if (self->study->n_seeds > 1)
    fprintf(out, ", %d seeds (limits met on %d)", self->study->n_seeds, outcome->n_holds);
  putc('\n', out);
  if (outcome->ranged && answer->n_slos > 0) print_moved_limits(outcome, out);
  fprintf(out, "            %.1f%% of its time is outside the measured range\n",
          100 * answer->run.extrapolated);
}

/* "holds 640 requests/s, to within 20; 1 more GPU: 650 requests/s (+1.6%)" */
static void print_rate(const PlanAnswer *self, const Answer *answer, FILE *out, Arena *arena) {
  const MoreGpus *more = self->more;
  fprintf(out, "            holds %.6g requests/s, to within %s; ", answer->rate,
          amount(self->study->tolerance, arena));
  if (more->rate > 0)
    fprintf(out, "%" PRId64 " more GPU%s: %.6g requests/s (%+.1f%%)\n", more->gpus,
            more->gpus > 1 ? "s" : "", more->rate, 100 * (more->rate / answer->rate - 1));
  else
    fprintf(out, "what more GPUs add is not known\n");
}

static void print_answer(const PlanAnswer *self, FILE *out, Arena *arena) {
  const DesignOutcome *outcome = &self->outcomes[self->best];
  const Answer *answer = &outcome->answers[0];
  fprintf(out, "answer      %s: %s\n", named_instances(outcome, arena),
          price_of(self, outcome, arena));
  int n = 0;
  const Lot *lots = lots_of_config(self->config, &n, arena);
  fputs("            ", out);
  lots_print_machines(lots, n, ",\n            ", out);
  fputs("\n", out);
  if (!isnan(answer->run.carbon))
    fprintf(out, "            %s g of CO2 per million output tokens\n",
            amount(answer->run.carbon, arena));
  if (self->more) print_rate(self, answer, out, arena);
  if (self->growth) growth_print(self->growth, out, arena);
  print_limits(answer, out, arena);
  print_sure(self, outcome, out, arena);
  const char *const *notes = plan_notes(self, arena);
  for (int i = 0; notes[i]; i++)
    fprintf(out, "%-11s %s\n", i == 0 ? "note" : "", notes[i]);
}

/* "ttft.p99 0.31 s of the trace (95%: 0.28 to 0.35, with times 0.27 to 0.36): met" */
static void print_sampled_limit(const SampledLimit *limit, FILE *out) {
  const char *unit = slo_unit(limit->spec);
  const char *verdict = sampled_verdict(limit);
  if (!limit->known) {
    fprintf(out, "            %s: %s\n", limit->spec->name, verdict);
    return;
  }
  fprintf(out,
          "            %s %.3g %s of the trace (95%%: %.3g to %.3g, with times %.3g to %.3g): %s\n",
          limit->spec->name, limit->of.value, unit, limit->of.low, limit->of.high, limit->low,
          limit->high, verdict);
}

static void print_sampled(const PlanAnswer *self, FILE *out, Arena *arena) {
  if (!self->sampled) return;
  const TraceSample *sample = self->sampled->sample;
  fprintf(out,
          "sampled     %d of %" PRId64 " windows of %s: %.2g%% of the trace's %" PRId64
          " requests\n",
          sample->n, sample->n_all,
          format_duration(tick_seconds(sample->length), arena_alloc(arena, 32)),
          100 * (double)sample->rows / (double)sample->rows_all, sample->rows_all);
  for (int i = 0; i < self->sampled->n_limits; i++)
    print_sampled_limit(&self->sampled->limits[i], out);
}

static void print_near(const PlanAnswer *self, FILE *out, Arena *arena) {
  if (!self->near || !self->near->there) return;
  const char *const *lines = near_rows_lines(self->near, plan_near_gpu(self), arena);
  for (int i = 0; lines[i]; i++)
    fprintf(out, "%-11s %s\n", i == 0 ? "measured" : "", lines[i]);
}

static void print_runner_up(const PlanAnswer *self, FILE *out, Arena *arena) {
  if (self->runner_up < 0) {
    fprintf(out, "runner-up   none: no other design meets the limits\n");
    return;
  }
  const DesignOutcome *outcome = &self->outcomes[self->runner_up];
  const Answer *answer = &outcome->answers[0];
  const Answer *first = &self->outcomes[self->best].answers[0];
  if (self->study->by_carbon && first->run.carbon > 0) {
    fprintf(out, "runner-up   %s: %s g of CO2 per million output tokens (%+.1f%%), %s binds\n",
            named_instances(outcome, arena), amount(answer->run.carbon, arena),
            100 * (answer->run.carbon / first->run.carbon - 1), answer->binds);
    return;
  }
  const double best = provision_value(self->study, first);
  const double more = provision_value(self->study, answer) - best;
  fprintf(out, "runner-up   %s: ", named_instances(outcome, arena));
  if (self->more && more < 0)
    fprintf(out, "%s requests/s less (%.0f%%)%s\n", amount(-more, arena), -100 * more / best,
            provision_rivals(self->study, self->outcomes, self->best, self->runner_up)
                ? "; within the error of the times it may be as good"
                : "");
  else if (more == 0)
    fprintf(out, "needs as much, with a margin of %.1f%% on %s\n", 100 * answer->margin,
            answer->binds);
  else
    fprintf(out, "%s %s more (%.0f%%), %s binds%s\n", amount(more, arena),
            objective_units[self->study->objective], 100 * more / best, answer->binds,
            provision_rivals(self->study, self->outcomes, self->best, self->runner_up)
                ? "; within the error of the times it may be as good"
                : "");
}

/* ---- Tables ---- */

static void print_designs(const PlanAnswer *self, FILE *out, Arena *arena) {
  const int width = provision_name_width(self->study), n = self->study->n_designs;
  const int *order = plan_order(self->study, self->outcomes, arena);
  const bool emits = self->plan->question->carbon;
  int binds = 10;
  for (int i = 0; i < n && i < PLAN_BEST; i++) {
    const Answer *answer = &self->outcomes[order[i]].answers[0];
    if (answer->found && (int)strlen(answer->binds) > binds) binds = (int)strlen(answer->binds);
  }
  fprintf(out, "\n%-*s  %9s %5s %9s %10s %7s %7s%s  %-*s %7s\n", width, "design", "instances",
          "GPUs", "$/h", cost_unit(is_priced(self)), self->more ? "req/s" : "kW", "J/token",
          emits ? "  gCO2/M" : "", binds, "binds", "margin");
  for (int i = 0; i < n && i < PLAN_BEST; i++) {
    const DesignOutcome *outcome = &self->outcomes[order[i]];
    const Answer *answer = &outcome->answers[0];
    const FrontPoint *point = front_asked(self->front, outcome);
    if (!answer->found) {
      fprintf(out, "%-*s  none: %s\n", width, outcome->design->name, outcome->why_not);
      continue;
    }
    const char *carbon =
        emits ? arena_printf(arena, " %7s", amount(answer->run.carbon, arena)) : "";
    fprintf(out, "%-*s  %9s %5s %9s %10s %7s %7s%s  %-*s %6.1f%%\n", width, outcome->design->name,
            plan_instances(answer, arena), amount(answer->fleet.takes.gpus, arena),
            amount(answer->fleet.takes.cost_per_hour, arena),
            amount(point ? front_cost(point) : NAN, arena),
            amount(self->more ? answer->rate : answer->fleet.takes.power_kw, arena),
            amount(point ? point->joules : NAN, arena), carbon, binds, answer->binds,
            100 * answer->margin);
  }
  if (n > PLAN_BEST)
    fprintf(out, "%-*s  %d more need as much or more, or miss the limits\n", width, "...",
            n - PLAN_BEST);
}

static void put_point(Rows *rows, const FrontPoint *point, int width, bool priced, Arena *arena) {
  const Answer *answer = &point->outcome->answers[0];
  rows_put(
      rows,
      (Cell[]){
          {CELL_OF_TEXT("design", point->outcome->design->name), COLUMN("design", -width)},
          {CELL_OF_TEXT("instances", plan_instances(answer, arena)), COLUMN(" instances", 10)},
          {CELL_OF_NUMBER("gpus", point->gpus), .only = CELL_IN_CSV | CELL_IN_JSON},
          {CELL_OF_NUMBER("load", point->load), COLUMN_PERCENT("load", 5, "%.0f")},
          {CELL_OF_NUMBER("requests_per_s", point->rate), COLUMN("requests/s", 10), .show = "%.4g"},
          {CELL_OF_NUMBER("output_tokens_per_s", point->tokens_per_s),
           .only = CELL_IN_CSV | CELL_IN_JSON},
          {CELL_OF_NUMBER("cost_per_million_tokens", point->cost),
           .only = CELL_IN_CSV | CELL_IN_JSON},
          {CELL_OF_NUMBER("gpu_s_per_million_tokens", point->gpu_seconds),
           .only = CELL_IN_CSV | CELL_IN_JSON},
          {CELL_OF_NUMBER("j_per_output_token", point->joules), .only = CELL_IN_CSV | CELL_IN_JSON},
          {CELL_OF_NUMBER(NULL, front_cost(point)), COLUMN(cost_unit(priced), 10), .show = "%.4g"},
          {CELL_OF_NUMBER("tokens_per_s_per_user", point->tokens_per_user),
           COLUMN("tokens/s and user", 17), .show = "%.4g"},
          {CELL_OF_FLAG("met", point->met), .only = CELL_IN_CSV | CELL_IN_JSON},
          {CELL_OF_FLAG("saturated", point->saturated), .only = CELL_IN_CSV | CELL_IN_JSON},
          {CELL_OF_FLAG("on_front", point->best), .only = CELL_IN_CSV | CELL_IN_JSON},
          {CELL_OF_TEXT(NULL, point->met ? "met" : "missed"), COLUMN("limits", 6)},
          {0}});
}

static void print_front(const PlanAnswer *self, FILE *out, Arena *arena) {
  Rows rows = {.format = OUTPUT_TABLE, .out = out, .indent = ""};
  const int width = provision_name_width(self->study);
  fputs("\ncheapest clusters for their speed, at parts of the load and within the limits\n", out);
  int shown = 0;
  for (int i = 0; i < self->front->n && shown < PLAN_FRONT_SHOWN; i++) {
    if (!self->front->points[i].best || !self->front->points[i].met) continue;
    put_point(&rows, &self->front->points[i], width, is_priced(self), arena);
    shown++;
  }
}

/* ---- How to go on ---- */

static void print_start(const PlanAnswer *self, FILE *out, Arena *arena) {
  fputs("\n", out);
  export_print(NULL, self->config, out, arena);
  fputs("elsewhere   --export PROGRAM:", out);
  for (const char *const *name = export_names(arena); *name; name++)
    fprintf(out, " %s", *name);
  fputs("\n", out);
  if (self->path)
    fprintf(out, "go on       tandem run %s\n", quote_shell(self->path, arena));
  else
    fputs("go on       --study FILE writes the question as a study for 'tandem run FILE'\n", out);
}

static void print_table(const PlanAnswer *self, FILE *out, Arena *arena) {
  print_question(self, out, arena);
  if (self->best >= 0) {
    print_answer(self, out, arena);
    print_sampled(self, out, arena);
    print_near(self, out, arena);
    print_runner_up(self, out, arena);
  } else {
    fputs("answer      none: no design meets the limits\n", out);
  }
  print_designs(self, out, arena);
  if (self->best < 0) return;
  if (self->curve)
    plan_print_curve(self, OUTPUT_TABLE, out, arena);
  else
    print_front(self, out, arena);
  print_start(self, out, arena);
}

/* ---- For programs ---- */

static void put_points(const PlanAnswer *self, Rows *rows, Arena *arena) {
  for (int i = 0; i < self->front->n; i++)
    put_point(rows, &self->front->points[i], 0, is_priced(self), arena);
}

static void put_sampled(const PlanAnswer *self, FILE *out) {
  if (!self->sampled) return;
  const TraceSample *sample = self->sampled->sample;
  fprintf(out,
          ",\n \"sample\": {\"windows\": %d, \"of\": %" PRId64 ", \"window_s\": %.9g, "
          "\"requests\": %" PRId64 ", \"of_requests\": %" PRId64 ", \"limits\": [",
          sample->n, sample->n_all, tick_seconds(sample->length), sample->rows, sample->rows_all);
  for (int i = 0; i < self->sampled->n_limits; i++) {
    const SampledLimit *limit = &self->sampled->limits[i];
    const double numbers[] = {limit->of.value, limit->of.low, limit->of.high, limit->low,
                              limit->high};
    static const char *const names[] = {"value", "low", "high", "low_with_times",
                                        "high_with_times"};
    write_json_text(i ? ",\n  {" : "{", "name", limit->spec->name, out);
    for (int n = 0; limit->known && n < 5; n++) {
      fprintf(out, ", \"%s\": ", names[n]);
      fprintf(out, isfinite(numbers[n]) ? "%.9g" : "null", numbers[n]);
    }
    write_json_text(", ", "verdict", sampled_verdict(limit), out);
    fputs("}", out);
  }
  fputs("]}", out);
}

static void put_near(const PlanAnswer *self, FILE *out) {
  fputs(",\n \"nearest_measured\": [", out);
  for (int i = 0; self->near && i < self->near->n; i++) {
    const NearRow *row = &self->near->rows[i];
    write_json_text(i ? ",\n  {" : "{", "id", row->id, out);
    write_json_text(", ", "engine", row->engine, out);
    write_json_text(", ", "version", row->version, out);
    write_json_text(", ", "gpu", row->gpu, out);
    write_json_text(", ", "model", row->model, out);
    write_json_text(", ", "weights", row->weights, out);
    write_json_text(", ", "degrees", row->degrees, out);
    fprintf(out, ", \"isl\": %.6g, \"osl\": %.6g", row->isl, row->osl);
    if (row->concurrency > 0) fprintf(out, ", \"concurrency\": %.6g", row->concurrency);
    fprintf(out, ", \"ttft_ms\": %.6g, \"tpot_ms\": %.6g", row->ttft_ms, row->tpot_ms);
    fprintf(out, ", \"ttft_error\": %.6g, \"tpot_error\": %.6g, \"distance\": %.4g}",
            row->ttft_error, row->tpot_error, row->distance);
  }
  fputs("]", out);
}

static void print_json(const PlanAnswer *self, FILE *out, Arena *arena) {
  const Plan *plan = self->plan;
  const Provision *study = self->study;
  write_json_text("{", "model", plan->question->model, out);
  write_json_text(", ", "machine", plan->machine, out);
  if (plan->prefill) write_json_text(", ", "prefill_machine", plan->prefill->machine, out);
  write_json_text(", ", "engine", plan->engine, out);
  fprintf(out, ", \"roofline\": %s", plan->roofline ? "true" : "false");
  write_json_text(", ", "do_not_fit", *plan->left_out ? plan->left_out : NULL, out);
  write_json_text(", ", "not_tried", *plan->untried ? plan->untried : NULL, out);
  write_json_text(",\n ", "best", self->best < 0 ? NULL : study->designs[self->best].name, out);
  write_json_text(", ", "runner_up",
                  self->runner_up < 0 ? NULL : study->designs[self->runner_up].name, out);
  fputs(",\n \"notes\": [", out);
  const char *const *notes = plan_notes(self, arena);
  for (int i = 0; notes[i]; i++) {
    fputs(i ? ", " : "", out);
    write_json_string(notes[i], out);
  }
  fputs("]", out);
  put_sampled(self, out);
  put_near(self, out);
  write_json_text(",\n ", "study", plan->text, out);
  if (self->growth) growth_write_json(self->growth, out, arena);
  if (self->more)
    fprintf(out, ", \"next\": {\"gpus\": %" PRId64 ", \"rate_rps\": %.9g}", self->more->gpus,
            self->more->rate);
  fputs(",\n \"answers\": ", out);
  provision_print(study, self->outcomes, OUTPUT_JSON, out);
  fputs(", \"runs\": ", out);
  Rows rows = {OUTPUT_JSON, out, "", .gap = "\n  ", .end = "]"};
  put_points(self, &rows, arena);
  rows_end(&rows);
  if (self->curve) {
    fputs(",\n \"curve\": ", out);
    plan_print_curve(self, OUTPUT_JSON, out, arena);
  }
  fputs("}\n", out);
}

void plan_print(const PlanAnswer *self, OutputFormat format, FILE *out, Arena *arena) {
  if (format == OUTPUT_TABLE) {
    print_table(self, out, arena);
  } else if (format == OUTPUT_JSON) {
    print_json(self, out, arena);
  } else if (self->curve) {
    plan_print_curve(self, OUTPUT_CSV, out, arena);
  } else {
    Rows rows = {.format = OUTPUT_CSV, .out = out};
    put_points(self, &rows, arena);
  }
}
