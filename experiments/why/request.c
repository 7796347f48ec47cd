/* One request: its parts and why it was late. */
#include "base/text.h"
#include "experiments/base/cells.h"
#include "experiments/why/asking.h"
#include <math.h>
#include <stdlib.h>

static int refuse(Why *self, const char *text) {
  int64_t last = -1;
  diag_error(self->diag, place_of_file(self->source), "the run has no request '%s'", text);
  if (results_ask(&self->results, "SELECT max(request) FROM request WHERE run_id = ?",
                  VALUES(value_whole(self->run)), &last, self->diag) > 0)
    diag_hint(self->diag, "requests are numbered by their place in the trace, up to %lld",
              (long long)last);
  return -1;
}

static int find(Why *self, const char *text, WhyRequest *ret_request) {
  char *end = NULL;
  const long long id = strtoll(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end != '\0') return refuse(self, text);
  const char *sql = arena_printf(self->arena,
                                 "SELECT %s FROM request WHERE run_id = ? AND "
                                 "request = ?",
                                 why_request_columns);
  CLEANUP_STATEMENT sqlite3_stmt *statement = results_query(
      &self->results, sql, VALUES(value_whole(self->run), value_whole(id)), self->diag);
  const int found = results_next(&self->results, statement, self->diag);
  if (found <= 0) return found < 0 ? -1 : refuse(self, text);
  why_read(statement, 0, ret_request);
  return 0;
}

static const char *end_of(const WhyRequest *request) {
  return isnan(request->last_token_s) ? "until its client gave up" : "to its last token";
}

/* "runs.db: run 1, request 7: 17.2 s to its last token, 94.5 ms to its first …" */
static void print_head(Why *self, const WhyRequest *request, FILE *out) {
  char total[32], first[32], prompt[32], cached[32], output[32];
  fprintf(out, "%s, request %lld: %s %s", text_shown(self->source, self->arena),
          (long long)request->id, format_duration(why_total(request), total), end_of(request));
  if (!isnan(request->first_token_s))
    fprintf(out, ", %s to its first",
            format_duration(request->first_token_s - request->arrived_s, first));
  fprintf(out, "\nprompt of %s tokens, %s of them cached, in %lld iteration%s on %s",
          format_count((double)request->prompt_tokens, prompt),
          format_count((double)request->cached_tokens, cached), (long long)request->chunks,
          request->chunks == 1 ? "" : "s", why_machine(self, request->prefill_machine));
  fprintf(out, "; output of %s tokens", format_count((double)request->output_tokens, output));
  if (request->decode_machine >= 0)
    fprintf(out, " on %s", why_machine(self, request->decode_machine));
  fputs("\n\n", out);
}

static void put_part(Rows *rows, const char *name, const char *phase, double seconds, double total,
                     const char *meaning) {
  char duration[32], share[32];
  rows_put(rows, (const Cell[]){
                     {CELL_OF_TEXT("part", name), COLUMN("", -18)},
                     {CELL_OF_TEXT("phase", phase)},
                     {CELL_OF_NUMBER("seconds", seconds), COLUMN("time", 9),
                      .shown = format_duration(seconds, duration)},
                     {CELL_OF_NUMBER("share", total > 0 ? seconds / total : NAN),
                      COLUMN("share", 6), .shown = why_share(seconds, total, share)},
                     {CELL_OF_TEXT(NULL, meaning), COLUMN("meaning", -1)},
                     {0},
                 });
}

/* People see no parts without time, but sums. */
static void put_parts(const WhyRequest *request, bool late, Rows *rows) {
  const double total = why_total(request);
  const char *phase = late ? "tpot" : "ttft";
  double sum = 0;
  for (Cause cause = 0; cause < CAUSES; cause++) {
    if (metrics_causes[cause].is_late != late) continue;
    sum += request->parts[cause];
    if (rows->format == OUTPUT_TABLE && request->parts[cause] == 0) continue;
    put_part(rows, metrics_causes[cause].name, phase, request->parts[cause], total,
             why_part_meanings[cause]);
  }
  if (rows->format == OUTPUT_TABLE && sum > 0)
    put_part(rows, late ? "after that" : "to the first token", phase, sum, total,
             late ? "E2E minus TTFT" : "TTFT");
}

static void print_json(Why *self, const WhyRequest *request, const char *sentence, FILE *out) {
  Rows rows = {OUTPUT_JSON, out, .gap = "\n    ", .end = "\n  ]\n}\n"};
  fprintf(out, "{\n  \"request\": %lld", (long long)request->id);
  write_json_value(",\n  ", "e2e_s", why_total(request), out);
  write_json_value(",\n  ", "ttft_s", request->first_token_s - request->arrived_s, out);
  write_json_text(",\n  ", "prefill_machine", why_machine(self, request->prefill_machine), out);
  write_json_text(",\n  ", "decode_machine", why_machine(self, request->decode_machine), out);
  write_json_text(",\n  ", "because", sentence, out);
  fputs(",\n  \"parts\": ", out);
  put_parts(request, false, &rows);
  put_parts(request, true, &rows);
  rows_end(&rows);
}

int why_request(Why *self, const char *text, OutputFormat format, FILE *out) {
  WhyRequest request;
  if (find(self, text, &request)) return -1;
  if (request.rejected)
    return diag_error(self->diag, place_of_file(self->source),
                      "request %s was rejected on arrival: it has no time to explain", text);
  const char *sentence = why_sentence(self, &request);
  if (format == OUTPUT_JSON) {
    print_json(self, &request, sentence, out);
    return 0;
  }
  Rows rows = {format, out, .indent = ""};
  if (format == OUTPUT_TABLE) print_head(self, &request, out);
  put_parts(&request, false, &rows);
  put_parts(&request, true, &rows);
  if (format == OUTPUT_TABLE) fprintf(out, "\n%s\n", sentence);
  return 0;
}
