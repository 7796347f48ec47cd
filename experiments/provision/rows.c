/* Studies and the database: runs that are there already, and the answers. */
#include "experiments/base/version.h"
#include "experiments/provision/measure.h"
#include "experiments/provision/probe.h"
#include "experiments/results/results.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The outcome of a limit in the run: 1 and it, 0 when there is none. */
static int read_outcome(SloOutcome *ret_outcome, const SloSpec *spec, Results *results, int64_t run,
                        Arena *arena, Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *row = results_query(
      results, "SELECT value, margin, met, unmeasured FROM slo WHERE run_id = ? AND name = ?",
      VALUES(value_whole(run), value_text(spec->name)), diag);
  const int found = results_next(results, row, diag);
  if (found <= 0) return found;
  const bool unmeasured = sqlite3_column_type(row, 3) != SQLITE_NULL;
  const double value = results_real(row, 0), margin = results_real(row, 1);
  const double none = unmeasured ? NAN : INFINITY;
  *ret_outcome = (SloOutcome){.spec = spec,
                              .value = isnan(value) ? none : value,
                              .margin = isnan(margin) ? -none : margin,
                              .met = sqlite3_column_int(row, 2) != 0,
                              .unmeasured = unmeasured ? results_text(row, 3, arena) : NULL,
                              .half_width = NAN};
  return 1;
}

/* The outcomes of a run that was found: of all limits, or of the one that was lost. In the order of
 * the limits, as a run that is simulated has them: of equal margins the first one binds. */
static int read_outcomes(ProbeRun *self, Results *results, int64_t run, Arena *arena, Diag *diag) {
  const SloSet *slo = self->trial.config.slo;
  self->slos = ARENA_ARRAY(arena, SloOutcome, slo->n_specs);
  self->n_slos = 0;
  for (int i = 0; i < slo->n_specs; i++) {
    const int found =
        read_outcome(&self->slos[self->n_slos], &slo->specs[i], results, run, arena, diag);
    if (found < 0) return -1;
    self->n_slos += found;
  }
  return self->n_slos == (self->stopped ? 1 : slo->n_specs);
}

/* The figures of a run that was found; 0 when it lacks one. */
static int read_figures(ProbeRun *self, Results *results, int64_t run, Diag *diag) {
  int found = 1;
  for (int i = 0; i < PROBE_FIGURES && found > 0; i++) {
    CLEANUP_STATEMENT sqlite3_stmt *row =
        results_query(results,
                      "SELECT value FROM metric WHERE run_id = ? AND scope = ? AND name = ? AND "
                      "statistic = 'value'",
                      VALUES(value_whole(run), value_text(probe_figures[i].scope),
                             value_text(probe_figures[i].name)),
                      diag);
    found = results_next(results, row, diag);
    if (found > 0) self->figures[i] = results_real(row, 0);
  }
  return found;
}

int probe_run_find(ProbeRun *self, Results *results, int64_t last, Arena *arena, Diag *diag) {
  static const char sql[] =
      "SELECT id, status = 'stopped', digest FROM run WHERE config_digest = ? AND id <= ? AND "
      "status IN ('done', 'stalled', iif(?, 'stopped', NULL)) ORDER BY 2, 1 LIMIT 1";
  CLEANUP_STATEMENT sqlite3_stmt *statement =
      results_query(results, sql,
                    VALUES(value_text(results_hex(self->trial.config_digest, arena)),
                           value_whole(last), value_whole(self->early_stop)),
                    diag);
  const int status = results_next(results, statement, diag);
  if (status <= 0) return status;
  const int64_t id = sqlite3_column_int64(statement, 0);
  const char *digest = (const char *)sqlite3_column_text(statement, 2);
  self->stopped = sqlite3_column_int(statement, 1) != 0;
  self->outcomes = digest ? strtoull(digest, NULL, 16) : 0;
  int found = read_outcomes(self, results, id, arena, diag);
  if (found == 1) found = read_figures(self, results, id, diag);
  self->reused = found == 1;
  return found;
}

int probe_run_store(ProbeRun *self, Results *results, Diag *diag) {
  Trial *trial = &self->trial;
  return results_keep_run(results, &trial->report, trial->config_digest, self->stopped,
                          &trial->arena, diag);
}

/* ---- Answers ---- */

static int add_choices(Results *results, const Provision *self, const DesignOutcome *outcome,
                       int seed, int64_t study, Diag *diag) {
  const Design *design = outcome->design;
  for (int64_t i = 0; outcome->measurements && i < design->choices.n_points; i++) {
    const Measurement *one = outcome_measurement(outcome, seed, i);
    char digest[17];
    snprintf(digest, sizeof digest, "%016" PRIx64, one->run.config_digest);
    if (results_insert(results, "choice",
                       VALUES(value_whole(study), value_text(design->name),
                              value_whole(self->seed + seed), value_whole(i),
                              value_text(design->fits[i].label), value_real(one->throughput_rps),
                              value_real(one->run.output_tokens_per_s), value_text(one->why_not),
                              value_text(one->run.config_digest ? digest : NULL)),
                       diag))
      return -1;
  }
  return 0;
}

static int add_answer(Results *results, const Provision *self, const DesignOutcome *outcome,
                      int seed, int64_t study, Diag *diag) {
  const Answer *answer = &outcome->answers[seed];
  const double unknown = answer->found ? 0 : NAN;
  const Takes *takes = &answer->fleet.takes;
  char digest[17];
  snprintf(digest, sizeof digest, "%016" PRIx64, answer->run.config_digest);
  return results_insert(
      results, "answer",
      VALUES(
          value_whole(study), value_text(outcome->design->name), value_whole(self->seed + seed),
          value_real(answer->rate + unknown),
          value_real((double)answer->fleet.n[ROLE_PREFILL] + unknown),
          value_real((double)answer->fleet.n[ROLE_DECODE] + unknown),
          value_real((double)answer->fleet.n[ROLE_MIXED] + unknown),
          value_real(takes->instances + unknown), value_real(takes->gpus + unknown),
          value_real(takes->machines + unknown), value_real(takes->cost_per_hour + unknown),
          value_real(takes->power_kw + unknown), value_text(answer->binds),
          value_real(answer->margin + unknown),
          value_text(answer->found && outcome->measurements
                         ? outcome->design->fits[answer->choice].label
                         : NULL),
          value_real(answer->run.output_tokens_per_s + unknown),
          value_real(
              takes_cost_per_million(takes, answer->run.unpaid, answer->run.output_tokens_per_s) +
              unknown),
          value_real(takes_cost_per_million(takes, answer->run.unpaid, answer->run.tokens_per_s) +
                     unknown),
          value_text(answer->found ? digest : NULL)),
      diag);
}

static int add_design(Results *results, const DesignOutcome *outcome, int64_t study, Diag *diag) {
  return results_insert(results, "design",
                        VALUES(value_whole(study), value_text(outcome->design->name),
                               value_real(outcome->low), value_real(outcome->high),
                               value_real(outcome->mean), value_real(outcome->half_width),
                               value_real(outcome->low_model), value_real(outcome->high_model),
                               value_whole(outcome->n_holds), value_whole(outcome->monotone),
                               value_whole(outcome->n_simulations), value_real(outcome->n_grid),
                               value_text(outcome->why_not)),
                        diag);
}

static int add_study(const Provision *self, const DesignOutcome *outcomes, Results *results,
                     int64_t *ret_study, Diag *diag) {
  if (results_change(results, "DELETE FROM study WHERE name = ? AND config = ?",
                     VALUES(value_text(self->base->path), value_text(self->text)), diag) ||
      results_ask(results, "SELECT coalesce(max(id), 0) + 1 FROM study", NULL, 0, ret_study, diag) <
          0 ||
      results_change(results,
                     "INSERT INTO study VALUES (?,?,?,?,?,?,?,"
                     "strftime('%Y-%m-%dT%H:%M:%SZ','now'))",
                     VALUES(value_whole(*ret_study), value_text(self->base->path),
                            value_text(self->text), value_text(tandem_version),
                            value_text(self->epoch), value_text(provision_objective(self)),
                            value_whole(self->n_seeds)),
                     diag))
    return -1;
  for (int d = 0; d < self->n_designs; d++) {
    if (add_design(results, &outcomes[d], *ret_study, diag)) return -1;
    for (int s = 0; s < provision_seeds(self, &outcomes[d]); s++)
      if (add_answer(results, self, &outcomes[d], s, *ret_study, diag) ||
          add_choices(results, self, &outcomes[d], s, *ret_study, diag))
        return -1;
  }
  return 0;
}

int provision_store(const Provision *self, const DesignOutcome *outcomes, Results *results,
                    Diag *diag) {
  int64_t study = 0;
  if (results_begin(results, diag)) return -1;
  return results_end(results, add_study(self, outcomes, results, &study, diag), diag);
}
