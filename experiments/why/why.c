/* See why.h. */
#include "experiments/why/why.h"
#include "base/text.h"
#include "experiments/base/exit_code.h"
#include "experiments/base/progress.h"
#include "experiments/why/asking.h"
#include <math.h>
#include <stdlib.h>

const char *const why_measures[] = {"e2e", "ttft", "tpot", NULL};

const char *const why_part_names[CAUSES] = {
#define REQUEST_PART(phase, name, meaning) #name "_s",
#include "sim/books/metrics.def"
};

const char *const why_part_meanings[CAUSES] = {
#define REQUEST_PART(phase, name, meaning) meaning,
#include "sim/books/metrics.def"
};

/* ---- Opening ---- */

static const char count_columns[] =
    "SELECT count(*) FROM pragma_table_info('request') WHERE name IN (''"
#define REQUEST_FIGURE(name, unit, value, meaning) ",'" #name "'"
#include "sim/books/metrics.def"
    ")";

enum {
  N_COLUMNS = 0
#define REQUEST_FIGURE(name, unit, value, meaning) +1
#include "sim/books/metrics.def"
};

/* Whether rows of the run have parts: 1, 0, or -1. */
static int has_parts(Why *self) {
  static const char sql[] =
      "SELECT count(*) FROM (SELECT 1 FROM request WHERE run_id = ? AND front_s >= 0 LIMIT 1)";
  int64_t columns = 0, rows = 0;
  if (results_ask(&self->results, count_columns, NULL, 0, &columns, self->diag) < 0) return -1;
  if (columns < N_COLUMNS) return 0; // of a program that knew fewer
  if (results_ask(&self->results, sql, VALUES(value_whole(self->run)), &rows, self->diag) < 0)
    return -1;
  return rows > 0;
}

static int add_request(void *context, const RequestRecord *record, const Metrics *so_far,
                       Diag *diag) {
  (void)so_far;
  return results_add_request(context, record, diag);
}

/* The same run, with its requests, in a database of its own. */
static int simulate_again(Why *self, const char *path, size_t memory) {
  Replay *replay = &self->replay;
  SimConfig *sim = &replay->config.sim;
  const char *run = arena_printf(self->arena, "%lld", (long long)self->run);
  results_close(&self->results);
  self->again = true;
  if (replay_load(replay, path, run, self->arena, self->diag) ||
      results_open_temporary(&self->results, replay->config.data_root, self->arena, self->diag))
    return -1;
  sim->memory_limit = memory;
  sim->keeps_parts = true;
  sim->on_request = add_request;
  sim->on_request_context = &self->results;
  Progress progress;
  progress_init(&progress, &replay->config.workload);
  sim->on_progress = progress_update;
  sim->on_progress_context = &progress;
  const int status = replay_run(replay, self->arena, self->diag);
  progress_done(&progress);
  if (status || results_add_run(&self->results, &replay->report, 0, self->arena, self->diag))
    return -1;
  return results_find_run(&self->results, NULL, &self->run, self->diag);
}

int why_open(Why *self, const char *path, const char *run, size_t memory, Arena *arena,
             Diag *diag) {
  *self = (Why){.arena = arena, .diag = diag};
  if (results_open_reader(&self->results, path, arena, diag) ||
      results_find_run(&self->results, run, &self->run, diag))
    return -1;
  self->source = arena_printf(arena, "%s: run %lld", path, (long long)self->run);
  const int kept = has_parts(self);
  if (kept != 0) return kept < 0 ? -1 : 0;
  if (simulate_again(self, path, memory) == 0) return 0;
  if (diag_exit_code(diag) != EXIT_INPUT) return -1;
  diag_error(diag, place_of_file(self->source),
             "the run was stored without the parts of its requests, and cannot be simulated again");
  diag_hint(diag, "'tandem run CONFIG --output DB --requests' stores them");
  return -1;
}

void why_close(Why *self) {
  if (self->replay.config.sim.trace) trace_close(self->replay.config.sim.trace);
  results_close(&self->results);
}

/* ---- Rows ---- */

const char why_request_columns[] =
    "request, prompt_tokens, output_tokens, cached_tokens, generated_tokens, chunks, recomputes, "
    "prefill_machine, decode_machine, lost_with, rejected, arrived_s, prefill_began_s, "
    "first_token_s, "
    "decode_began_s, last_token_s, cancelled_s, failed_s"
#define REQUEST_PART(phase, name, meaning) ", " #name "_s"
#include "sim/books/metrics.def"
    ;

static int64_t instance_of(sqlite3_stmt *statement, int column) {
  const bool is_null = sqlite3_column_type(statement, column) == SQLITE_NULL;
  return is_null ? -1 : sqlite3_column_int64(statement, column);
}

void why_read(sqlite3_stmt *statement, int column, WhyRequest *ret_request) {
  int64_t *const counts[] = {&ret_request->id,
                             &ret_request->prompt_tokens,
                             &ret_request->output_tokens,
                             &ret_request->cached_tokens,
                             &ret_request->generated_tokens,
                             &ret_request->chunks,
                             &ret_request->recomputes};
  double *const times[] = {&ret_request->arrived_s,     &ret_request->prefill_began_s,
                           &ret_request->first_token_s, &ret_request->decode_began_s,
                           &ret_request->last_token_s,  &ret_request->cancelled_s,
                           &ret_request->failed_s};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    *counts[i] = sqlite3_column_int64(statement, column++);
  ret_request->prefill_machine = instance_of(statement, column++);
  ret_request->decode_machine = instance_of(statement, column++);
  ret_request->lost_with = instance_of(statement, column++);
  ret_request->rejected = sqlite3_column_int(statement, column++);
  for (size_t i = 0; i < sizeof times / sizeof *times; i++)
    *times[i] = results_real(statement, column++);
  for (Cause cause = 0; cause < CAUSES; cause++)
    ret_request->parts[cause] = sqlite3_column_double(statement, column++);
}

double why_total(const WhyRequest *request) {
  const double end = isnan(request->last_token_s) ? request->cancelled_s : request->last_token_s;
  return end - request->arrived_s;
}

const char *why_machine(Why *self, int64_t machine) {
  static const char sql[] =
      "SELECT CASE count WHEN 1 THEN name ELSE name || ' ' || (machine.machine - "
      "(SELECT min(machine) FROM machine AS first WHERE first.run_id = machine.run_id AND "
      "first.pool = machine.pool)) END "
      "FROM machine JOIN pool USING (run_id, pool) WHERE run_id = ? AND machine.machine = ?";
  const char *name = NULL;
  if (machine < 0 ||
      results_ask_text(&self->results, sql, VALUES(value_whole(self->run), value_whole(machine)),
                       &name, self->arena, self->diag) <= 0)
    return "no instance";
  return text_shown(name, self->arena);
}

const char *why_share(double part, double whole, char text[32]) {
  const double percent = whole > 0 ? part / whole * 100 : 0;
  if (percent > 0 && percent < 0.5)
    snprintf(text, 32, "<1%%");
  else
    snprintf(text, 32, "%.0f%%", percent);
  return text;
}
