/* Many requests: the slowest, and bands of percentiles beside each other. */
#include "base/text.h"
#include "experiments/base/cells.h"
#include "experiments/why/asking.h"
#include <math.h>

/* What requests are compared by: of those with `where`, what is divided by `per`. */
static const struct {
  const char *name, *value, *where, *per;
  bool has[2]; // causes before the first token, and after it
} measures[WHY_MEASURES] = {
    [WHY_E2E] = {"e2e", "last_token_s - arrived_s", "", "1", {true, true}},
    [WHY_TTFT] = {"ttft", "first_token_s - arrived_s", "", "1", {true, false}},
    [WHY_TPOT] = {"tpot",
                  "(last_token_s - first_token_s) / (output_tokens - 1)",
                  "AND output_tokens > 1",
                  "(output_tokens - 1)",
                  {false, true}},
};

static bool counts(WhyMeasure by, Cause cause) {
  return measures[by].has[metrics_causes[cause].is_late];
}

static int check_served(Why *self, WhyMeasure by) {
  const char *sql = arena_printf(self->arena,
                                 "SELECT count(*) FROM request WHERE run_id = ? AND "
                                 "last_token_s > 0 %s",
                                 measures[by].where);
  int64_t n = 0;
  if (results_ask(&self->results, sql, VALUES(value_whole(self->run)), &n, self->diag) < 0)
    return -1;
  if (n > 0) return 0;
  return diag_error(self->diag, place_of_file(self->source), "no request of the run was served%s",
                    by == WHY_TPOT ? " with two tokens or more" : "");
}

/* ---- The slowest ---- */

typedef struct Slowest {
  Why *why;
  WhyMeasure by;
  Rows rows;
  int64_t n;
  double parts[CAUSES], total; // of all of them, by the measure
} Slowest;

/* The cause with the most time; of the measure. */
static Cause most_of(WhyMeasure by, const double *parts) {
  Cause most = CAUSES;
  for (Cause cause = 0; cause < CAUSES; cause++)
    if (counts(by, cause) && (most == CAUSES || parts[cause] > parts[most])) most = cause;
  return most;
}

static void put_slow(Slowest *self, const WhyRequest *request, double value) {
  Why *why = self->why;
  char first[32], total[32], measure[32], share[32], parts[32];
  const Cause most = most_of(self->by, request->parts);
  double spent = 0;
  for (Cause cause = 0; cause < CAUSES; cause++)
    if (counts(self->by, cause)) spent += request->parts[cause];
  Cell cells[12 + CAUSES] = {
      {CELL_OF_WHOLE("request", request->id), COLUMN("request", 9)},
      {CELL_OF_NUMBER("e2e_s", why_total(request)), COLUMN("e2e", 9),
       .shown = format_duration(why_total(request), total)},
      {CELL_OF_NUMBER("ttft_s", request->first_token_s - request->arrived_s), COLUMN("ttft", 9),
       .shown = format_duration(request->first_token_s - request->arrived_s, first)},
      {CELL_OF_NUMBER(NULL, value), COLUMN("tpot", 9), .shown = format_duration(value, measure),
       .only = self->by == WHY_TPOT ? CELL_IN_TABLE : CELL_NOWHERE},
      {CELL_OF_WHOLE("prompt_tokens", request->prompt_tokens), COLUMN("prompt", 8)},
      {CELL_OF_WHOLE("output_tokens", request->output_tokens), COLUMN("output", 7)},
      {CELL_OF_TEXT("prefill_machine", why_machine(why, request->prefill_machine)),
       COLUMN("prefilled by", -13)},
      {CELL_OF_TEXT("decode_machine", why_machine(why, request->decode_machine)),
       COLUMN("decoded by", -13)},
      {CELL_OF_TEXT(NULL, metrics_causes[most].name), COLUMN("main cause", -18)},
      {CELL_OF_NUMBER(NULL, request->parts[most]), COLUMN("", 8),
       .shown = format_duration(request->parts[most], parts)},
      {CELL_OF_TEXT(NULL, why_share(request->parts[most], spent, share)), COLUMN("", 5)}};
  int n = 11;
  for (Cause cause = 0; cause < CAUSES; cause++)
    cells[n++] = (Cell){CELL_OF_NUMBER(why_part_names[cause], request->parts[cause])};
  rows_put(&self->rows, cells);
}

static int put_all(Slowest *self, int64_t n) {
  Why *why = self->why;
  const char *sql =
      arena_printf(why->arena,
                   "SELECT %s, %s FROM request WHERE run_id = ? AND last_token_s > 0 %s "
                   "ORDER BY %s DESC, request LIMIT ?",
                   measures[self->by].value, why_request_columns, measures[self->by].where,
                   measures[self->by].value);
  CLEANUP_STATEMENT sqlite3_stmt *statement =
      results_query(&why->results, sql, VALUES(value_whole(why->run), value_whole(n)), why->diag);
  int status;
  WhyRequest request;
  while ((status = results_next(&why->results, statement, why->diag)) > 0) {
    why_read(statement, 1, &request);
    put_slow(self, &request, sqlite3_column_double(statement, 0));
    for (Cause cause = 0; cause < CAUSES; cause++) {
      if (!counts(self->by, cause)) continue;
      self->parts[cause] += request.parts[cause];
      self->total += request.parts[cause];
    }
    self->n++;
  }
  return status;
}

int why_slowest(Why *self, int64_t n, WhyMeasure by, OutputFormat format, FILE *out) {
  Slowest slowest = {
      .why = self, .by = by, .rows = {format, out, .indent = "", .gap = "\n  ", .end = "\n]\n"}};
  char share[32];
  if (check_served(self, by) || put_all(&slowest, n)) return -1;
  rows_end(&slowest.rows);
  if (format != OUTPUT_TABLE || slowest.n == 0) return 0;
  const Cause most = most_of(by, slowest.parts);
  fprintf(out, "\n%s of the time of these requests is %s: %s\n",
          why_share(slowest.parts[most], slowest.total, share), metrics_causes[most].name,
          why_part_meanings[most]);
  return 0;
}

/* ---- Bands ---- */

enum { BANDS = 4 };

typedef struct Band {
  double from, to; // percentiles
  int64_t requests;
  double value, prompt_tokens, cached_tokens, output_tokens, parts[CAUSES]; // means
} Band;

typedef struct Bands {
  Why *why;
  WhyMeasure by;
  Band of[BANDS];
  int n;
} Bands;

static void set_limits(Bands *self, double percentile) {
  static const double usual[] = {50, 90};
  double from = 0;
  for (int i = 0; i < 2 && usual[i] < percentile; i++) {
    self->of[self->n++] = (Band){.from = from, .to = usual[i]};
    from = usual[i];
  }
  self->of[self->n++] = (Band){.from = from, .to = percentile};
  self->of[self->n++] = (Band){.from = percentile, .to = 100};
}

/* The band of a rank in (0, 1]. */
static const char *band_sql(const Bands *self) {
  const char *sql = "CASE";
  for (int i = 0; i < self->n - 1; i++)
    sql = arena_printf(self->why->arena, "%s WHEN rank <= %.17g THEN %d", sql, self->of[i].to / 100,
                       i);
  return arena_printf(self->why->arena, "%s ELSE %d END", sql, self->n - 1);
}

static const char *bands_sql(const Bands *self) {
  Arena *arena = self->why->arena;
  const char *parts = "";
  for (Cause cause = 0; cause < CAUSES; cause++)
    parts = arena_printf(arena, "%s, avg(%s / %s)", parts, why_part_names[cause],
                         measures[self->by].per);
  return arena_printf(
      arena,
      "WITH measured AS (SELECT *, %s AS value FROM request WHERE run_id = ? AND last_token_s > 0 "
      "%s), ranked AS (SELECT *, row_number() OVER (ORDER BY value, request) * 1.0 / "
      "(SELECT count(*) FROM measured) AS rank FROM measured) "
      "SELECT %s AS band, count(*), avg(value), avg(prompt_tokens), avg(cached_tokens), "
      "avg(output_tokens)%s FROM ranked GROUP BY band",
      measures[self->by].value, measures[self->by].where, band_sql(self), parts);
}

static int read_bands(Bands *self) {
  Why *why = self->why;
  CLEANUP_STATEMENT sqlite3_stmt *statement =
      results_query(&why->results, bands_sql(self), VALUES(value_whole(why->run)), why->diag);
  int status;
  while ((status = results_next(&why->results, statement, why->diag)) > 0) {
    Band *band = &self->of[sqlite3_column_int(statement, 0)];
    band->requests = sqlite3_column_int64(statement, 1);
    band->value = sqlite3_column_double(statement, 2);
    band->prompt_tokens = sqlite3_column_double(statement, 3);
    band->cached_tokens = sqlite3_column_double(statement, 4);
    band->output_tokens = sqlite3_column_double(statement, 5);
    for (Cause cause = 0; cause < CAUSES; cause++)
      band->parts[cause] = sqlite3_column_double(statement, 6 + (int)cause);
  }
  return status;
}

static void print_rows(const Bands *self, OutputFormat format, FILE *out) {
  Rows rows = {format, out, .indent = "", .gap = "\n  ", .end = "\n]\n"};
  for (int i = 0; i < self->n; i++) {
    const Band *band = &self->of[i];
    Cell cells[8 + CAUSES] = {{CELL_OF_NUMBER("from_percentile", band->from)},
                              {CELL_OF_NUMBER("to_percentile", band->to)},
                              {CELL_OF_WHOLE("requests", band->requests)},
                              {CELL_OF_NUMBER(self->by == WHY_E2E    ? "e2e_s"
                                              : self->by == WHY_TTFT ? "ttft_s"
                                                                     : "tpot_s",
                                              band->value)},
                              {CELL_OF_NUMBER("prompt_tokens", band->prompt_tokens)},
                              {CELL_OF_NUMBER("cached_tokens", band->cached_tokens)},
                              {CELL_OF_NUMBER("output_tokens", band->output_tokens)}};
    int n = 7;
    for (Cause cause = 0; cause < CAUSES; cause++)
      if (counts(self->by, cause))
        cells[n++] = (Cell){CELL_OF_NUMBER(why_part_names[cause], band->parts[cause])};
    rows_put(&rows, cells);
  }
  rows_end(&rows);
}

/* ---- For people: a column for each band ---- */

static void print_line(const char *name, const char *const *texts, int n, const char *meaning,
                       FILE *out) {
  write_cell(name, -18, out);
  for (int i = 0; i < n; i++) {
    putc(' ', out);
    write_cell(texts[i], 9, out);
  }
  fprintf(out, "%s%s\n", *meaning ? "  " : "", meaning);
}

/* A line of numbers, one of each band; durations or counts. */
static void print_means(const Bands *self, const char *name, const double *values, bool duration,
                        const char *meaning, FILE *out) {
  char texts[BANDS][32];
  const char *pointers[BANDS];
  for (int i = 0; i < self->n; i++)
    pointers[i] = duration ? values[i] == 0 ? "-" : format_duration(values[i], texts[i])
                           : format_count(values[i], texts[i]);
  print_line(name, pointers, self->n, meaning, out);
}

static void print_table(const Bands *self, FILE *out) {
  const char *heads[BANDS];
  double requests[BANDS], values[BANDS], prompts[BANDS], outputs[BANDS], parts[BANDS];
  for (int i = 0; i < self->n; i++) {
    const Band *band = &self->of[i];
    heads[i] = arena_printf(self->why->arena, "p%g-%g", band->from, band->to);
    requests[i] = (double)band->requests;
    values[i] = band->value;
    prompts[i] = band->prompt_tokens;
    outputs[i] = band->output_tokens;
  }
  fprintf(out, "%s, requests by %s\n\n", text_shown(self->why->source, self->why->arena),
          measures[self->by].name);
  print_line("means", heads, self->n, "", out);
  print_means(self, "requests", requests, false, "in the band", out);
  print_means(self, measures[self->by].name, values, true, "", out);
  print_means(self, "prompt_tokens", prompts, false, "", out);
  print_means(self, "output_tokens", outputs, false, "", out);
  for (Cause cause = 0; cause < CAUSES; cause++) {
    double most = 0;
    for (int i = 0; i < self->n; i++) {
      parts[i] = self->of[i].parts[cause];
      if (parts[i] > most) most = parts[i];
    }
    if (most > 0 && counts(self->by, cause))
      print_means(self, metrics_causes[cause].name, parts, true, why_part_meanings[cause], out);
  }
}

static void print_sizes(const char *what, double fast, double slow, FILE *out) {
  char slow_tokens[32], fast_tokens[32];
  fprintf(out, " (%s of %s tokens instead of %s)", what, format_count(slow, slow_tokens),
          format_count(fast, fast_tokens));
}

/* What the last band has more of than the first: the causes with most of the difference. */
static void print_difference(const Bands *self, FILE *out) {
  enum { NAMED = 3 };
  const Band *fast = &self->of[0], *slow = &self->of[self->n - 1];
  double more[CAUSES];
  char slow_s[32], fast_s[32], part[32];
  for (Cause cause = 0; cause < CAUSES; cause++)
    more[cause] = counts(self->by, cause) ? slow->parts[cause] - fast->parts[cause] : 0;
  fprintf(out, "\nthe slowest %.3g%% take %s, the fastest %g%% take %s:", 100 - slow->from,
          format_duration(slow->value, slow_s), fast->to, format_duration(fast->value, fast_s));
  for (int i = 0; i < NAMED; i++) {
    const Cause most = most_of(self->by, more);
    if (more[most] <= 0.02 * (slow->value - fast->value)) break;
    fprintf(out, "%s %s more %s", i ? "," : "", format_duration(more[most], part),
            metrics_causes[most].name);
    if (most == CAUSE_decode) print_sizes("outputs", fast->output_tokens, slow->output_tokens, out);
    if (most == CAUSE_prefill)
      print_sizes("prompts", fast->prompt_tokens, slow->prompt_tokens, out);
    more[most] = 0;
  }
  putc('\n', out);
}

int why_bands(Why *self, double percentile, WhyMeasure by, OutputFormat format, FILE *out) {
  Bands bands = {.why = self, .by = by};
  set_limits(&bands, percentile);
  if (check_served(self, by) || read_bands(&bands)) return -1;
  if (format != OUTPUT_TABLE) {
    print_rows(&bands, format, out);
    return 0;
  }
  print_table(&bands, out);
  if (bands.of[0].requests > 0 && bands.of[bands.n - 1].requests > 0) print_difference(&bands, out);
  return 0;
}
