/* See sure.h. */
#include "experiments/provision/sure.h"
#include "experiments/provision/measure.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- Ranges ---- */

/* What was searched is a whole number of its steps; what was measured has any digits. */
static const char *amount(const Provision *study, double value, char text[32]) {
  snprintf(text, 32, study->offline ? "%.4g" : "%.6g", value);
  return text;
}

void sure_print_mean(const Provision *study, const DesignOutcome *outcome, FILE *out) {
  fprintf(out, "mean %.4g", outcome->mean);
  if (!isnan(outcome->half_width)) fprintf(out, " +- %.2g", outcome->half_width);
  fprintf(out, " %s", objective_units[study->objective]);
  if (!isnan(outcome->half_width)) fputs(" (95%)", out);
  if (outcome->n_found > 1 && outcome->n_different == 1)
    fputs("; seeds change nothing: the outcomes are equal on all of them", out);
  else if (outcome->n_different < outcome->n_found)
    fprintf(out, "; %d of %d outcomes are different", outcome->n_different, outcome->n_found);
}

const char *sure_range_text(const Provision *study, const DesignOutcome *outcome, char text[80]) {
  const double low = outcome->ranged ? outcome->low_model : outcome->low;
  const double high = outcome->ranged ? outcome->high_model : outcome->high;
  char one[32], other[32];
  if (!outcome->answers[0].found || (!outcome->ranged && provision_seeds(study, outcome) == 1))
    return strcpy(text, "-");
  if (isinf(high))
    snprintf(text, 80, ">=%s", amount(study, low, one));
  else
    snprintf(text, 80, "%s..%s", amount(study, low, one), amount(study, high, other));
  return text;
}

/* Choices other than the answer that are as good as the low end of its range. */
static int64_t count_rivals(const DesignOutcome *outcome) {
  int64_t n = 0;
  for (int64_t i = 0; outcome->measurements && i < outcome->design->choices.n_points; i++) {
    const Measurement *one = outcome_measurement(outcome, 0, i);
    n += i != outcome->answers[0].choice && !one->why_not &&
         one->throughput_rps >= outcome->low_model;
  }
  return n;
}

void sure_print_range(const Provision *study, const DesignOutcome *outcome, FILE *out) {
  const Answer *answer = &outcome->answers[0];
  const bool one = study->objective == OBJECTIVE_MACHINES && outcome->high_model == 1;
  const char *unit = one ? "machine" : objective_units[study->objective];
  char low[32], high[32], likely[32];
  if (!outcome->ranged) return;
  amount(study, outcome->low_model, low);
  amount(study, outcome->high_model, high);
  fprintf(out, "%s: ", outcome->design->name);
  if (outcome->low_model == outcome->high_model)
    fprintf(out, "%s %s throughout", low, unit);
  else if (isinf(outcome->high_model))
    fprintf(out, "%s %s or more", low, unit);
  else
    fprintf(out, "%s to %s %s", low, high, unit);
  if (outcome->low_model != outcome->high_model)
    fprintf(out, "; %s most likely", amount(study, provision_value(study, answer), likely));
  fputs(" (", out);
  const int n_seeds = provision_seeds(study, outcome);
  if (n_seeds > 1) fprintf(out, "%d seeds, ", n_seeds);
  fprintf(out, "times up to %.1f%% shorter or longer)", 100 * answer->run.perfmodel_error);
  if (!outcome->moved[MOVES - 1].found)
    fputs("; no cluster meets the limits with the longer times", out);
  const int64_t rivals = count_rivals(outcome);
  if (rivals > 0)
    fprintf(out, "; %" PRId64 " other choice%s within that", rivals, rivals > 1 ? "s are" : " is");
  putc('\n', out);
}

/* ---- Limits ---- */

static bool is_undecided(const Answer *answer, int limit) {
  bool undecided = false;
  for (int i = 0; i < MOVES && answer->moved_slos[i]; i++)
    undecided |= answer->moved_slos[i][limit].met != answer->slos[limit].met;
  return undecided;
}

void sure_print_limits(const DesignOutcome *outcome, FILE *out) {
  const Answer *answer = &outcome->answers[0];
  int width = 18;
  for (int i = 0; i < answer->n_slos; i++) {
    const int length = (int)strlen(answer->slos[i].spec->name);
    if (length > width) width = length;
  }
  fprintf(out, "\n%-*s %9s %9s  margin", width, "limit", "value", "limit");
  if (outcome->ranged) fprintf(out, "  times %.1f%% off", 100 * answer->run.perfmodel_error);
  fprintf(out, "  of %s\n", outcome->design->name);
  for (int i = 0; i < answer->n_slos; i++) {
    const SloOutcome *slo = &answer->slos[i];
    char value[32], limit[32], margin[32], low[32], high[32];
    snprintf(value, sizeof value, "%.4g %s", slo->value, slo_unit(slo->spec));
    snprintf(limit, sizeof limit, "%.4g %s", slo->spec->limit, slo_unit(slo->spec));
    fprintf(out, "%-*s %9s %9s %7s", width, slo->spec->name, value, limit,
            format_margin(slo->margin, 1, margin));
    if (outcome->ranged)
      fprintf(out, "  %6s to %6s%s", format_margin(answer->moved_slos[MOVES - 1][i].margin, 1, low),
              format_margin(answer->moved_slos[0][i].margin, 1, high),
              is_undecided(answer, i) ? "  undecided" : "");
    putc('\n', out);
  }
}

/* ---- Times ---- */

/* What is known of the times of an answer. */
typedef enum Knowledge { KNOWN, ERROR_UNKNOWN, NOT_MEASURED, KNOWLEDGES } Knowledge;

static Knowledge knowledge_of(const Answer *answer) {
  return !answer->run.measured                ? NOT_MEASURED
         : isnan(answer->run.perfmodel_error) ? ERROR_UNKNOWN
                                              : KNOWN;
}

static void print_sources(const Provision *study, const DesignOutcome *outcomes, FILE *out) {
  static const char *const unknown[KNOWLEDGES] = {
      [ERROR_UNKNOWN] = "measured, with unknown error:",
      [NOT_MEASURED] = "from a roofline, not measured, with unknown error:"};
  double worst = -1;
  for (int d = 0; d < study->n_designs; d++) {
    const Answer *answer = &outcomes[d].answers[0];
    if (answer->found && knowledge_of(answer) == KNOWN)
      worst = fmax(worst, answer->run.perfmodel_error);
  }
  if (worst >= 0) fprintf(out, "times        measured, held-out error up to %.1f%%\n", 100 * worst);
  for (Knowledge which = ERROR_UNKNOWN; which < KNOWLEDGES; which++) {
    bool any = false;
    for (int d = 0; d < study->n_designs; d++) {
      const Answer *answer = &outcomes[d].answers[0];
      if (!answer->found || knowledge_of(answer) != which) continue;
      if (!any) fprintf(out, "times        %s", unknown[which]);
      fprintf(out, "%s %s", any ? "," : "", study->designs[d].name);
      any = true;
    }
    if (any) putc('\n', out);
  }
}

/* Where most of an answer's time was extrapolated. */
static void print_extrapolated(const Provision *study, const DesignOutcome *outcomes, FILE *out) {
  const Answer *most = NULL;
  const char *design = NULL;
  for (int d = 0; d < study->n_designs; d++)
    for (int s = 0; s < provision_seeds(study, &outcomes[d]); s++) {
      const Answer *answer = &outcomes[d].answers[s];
      if (!answer->found || !(answer->run.extrapolated > (most ? most->run.extrapolated : 0)))
        continue;
      most = answer;
      design = study->designs[d].name;
    }
  if (most)
    fprintf(out,
            "extrapolated up to %.1f%% of an answer's time (far: %.1f%%) is outside the measured "
            "range, where the error is unknown (%s)\n",
            100 * most->run.extrapolated, 100 * most->run.far, design);
}

void sure_print_times(const Provision *study, const DesignOutcome *outcomes, int best, FILE *out) {
  char ours[80], theirs[80];
  for (int d = 0; d < study->n_designs && best >= 0; d++)
    if (provision_rivals(study, outcomes, best, d))
      fprintf(out,
              "undecided    within the error of the times, '%s' (%s) may be as good as '%s' (%s)\n",
              study->designs[d].name, sure_range_text(study, &outcomes[d], theirs),
              study->designs[best].name, sure_range_text(study, &outcomes[best], ours));
  print_sources(study, outcomes, out);
  print_extrapolated(study, outcomes, out);
}
