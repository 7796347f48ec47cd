/* Groups and points on paper. */
#include "base/text.h"
#include "experiments/measured/set.h"
#include <ctype.h>
#include <math.h>
#include <string.h>

static const char *degree_text(const char *what, int64_t degree, Arena *arena) {
  return degree > 1 ? arena_printf(arena, " %s%lld", what, (long long)degree) : "";
}

static const char *pool_text(const MeasuredPool *pool, Arena *arena) {
  return arena_printf(
      arena, "tp%lld%s%s%s", (long long)pool->tensor, degree_text("pp", pool->pipeline, arena),
      degree_text("dp", pool->attention, arena), degree_text("ep", pool->expert, arena));
}

const char *measured_degrees(const MeasuredPoint *point, Arena *arena) {
  const char *first = pool_text(&point->pools[0], arena);
  if (!point->split) return first;
  return arena_printf(arena, "%s | %s", first, pool_text(&point->pools[MEASURED_DECODE], arena));
}

/* ---- Groups ---- */

static const char *percent(double share, Arena *arena) {
  return isnan(share) ? "-" : arena_printf(arena, "%.1f%%", 100 * share);
}

static const char *signed_percent(double share, Arena *arena) {
  return isnan(share) ? "-" : arena_printf(arena, "%+.1f%%", 100 * share);
}

static const char *worst_text(const MeasuredGroup *group, Arena *arena) {
  const MeasuredFigure figure = measured_main_figure(group);
  const MeasuredPoint *worst = group->errors[figure].worst;
  if (!worst) return "";
  return arena_printf(arena, "%s %s", signed_percent(measured_error(worst, figure), arena),
                      worst->id);
}

static const char *counts_text(const MeasuredGroup *group, Arena *arena) {
  const int held_out = group->points - group->missing - group->fitted;
  return arena_printf(arena, "%d", held_out);
}

static void put_group(Rows *rows, const MeasuredGroup *group, bool detail, Arena *arena) {
  const MeasuredPoint *first = group->first;
  const MeasuredErrors *ttft = &group->errors[MEASURED_TTFT], *tpot = &group->errors[MEASURED_TPOT],
                       *e2e = &group->errors[MEASURED_E2E],
                       *throughput = &group->errors[MEASURED_THROUGHPUT];
  const int detailed = detail ? 0 : CELL_NOWHERE;
  rows_put(
      rows,
      (Cell[]){{CELL_OF_TEXT("set", first->set), COLUMN("set", -13)},
               {CELL_OF_TEXT("engine", first->engine), COLUMN("engine", -7)},
               {CELL_OF_TEXT("version", first->version), COLUMN("version", -14), .only = detailed},
               {CELL_OF_TEXT("gpu", first->gpu), COLUMN("GPU", -10)},
               {CELL_OF_TEXT("model", first->model), COLUMN("model", -32)},
               {CELL_OF_TEXT("precision", first->precision), COLUMN("format", -6)},
               {CELL_OF_TEXT("mode", measured_mode(first)), COLUMN("mode", -6)},
               {CELL_OF_TEXT("degrees", detail ? measured_degrees(first, arena) : ""),
                COLUMN("degrees", -20), .only = detailed},
               {CELL_OF_TEXT("points", counts_text(group, arena)), COLUMN("points", 6)},
               {CELL_OF_WHOLE("fitted", group->fitted), COLUMN("fitted", 6)},
               {CELL_OF_WHOLE("missing", group->missing), COLUMN("missing", 7)},
               {CELL_OF_TEXT("tpot", percent(tpot->mape, arena)), COLUMN("TPOT", 7)},
               {CELL_OF_TEXT("tpot_bias", signed_percent(tpot->bias, arena)), COLUMN("bias", 7)},
               {CELL_OF_TEXT("ttft", percent(ttft->mape, arena)), COLUMN("TTFT", 7)},
               {CELL_OF_TEXT("ttft_bias", signed_percent(ttft->bias, arena)), COLUMN("bias", 7)},
               {CELL_OF_TEXT("e2e", percent(e2e->mape, arena)), COLUMN("E2E", 7)},
               {CELL_OF_TEXT("e2e_bias", signed_percent(e2e->bias, arena)), COLUMN("bias", 7)},
               {CELL_OF_TEXT("throughput", percent(throughput->mape, arena)), COLUMN("tokens", 7)},
               {CELL_OF_TEXT("worst", worst_text(group, arena)), COLUMN("worst", 0)},
               {0}});
}

static void print_counts(const Measured *self, MeasuredSaid said, const char *title, Arena *arena,
                         FILE *out) {
  const MeasuredCount *counts = measured_counts(self, said, arena);
  if (counts->text) fprintf(out, "\n%s\n", title);
  for (; counts->text; counts++) {
    fprintf(out, "  %5d  ", counts->n);
    write_cell(counts->text, 0, out);
    putc('\n', out);
  }
}

/* The points of a set, or those that are not odd; how many are. */
static int sum_set(const Measured *self, const char *set, bool with_odd, MeasuredGroup *ret_total,
                   Arena *arena) {
  int n_odd = 0;
  *ret_total = (MeasuredGroup){0};
  for (size_t i = 0; i < self->n_points; i++) {
    const MeasuredPoint *point = &self->points[i];
    if (strcmp(point->set, set) != 0) continue;
    n_odd += point->odd && !point->why;
    if (with_odd || !point->odd) measured_group_add(ret_total, point, arena);
  }
  if (ret_total->first) measured_group_end(ret_total);
  return n_odd;
}

static void print_errors(const MeasuredGroup *total, Arena *arena, FILE *out) {
  static const char *const names[MEASURED_FIGURES] = {"TTFT", "TPOT", "tokens/s and GPU", "E2E"};
  for (int f = 0; f < MEASURED_FIGURES; f++)
    if (total->errors[f].n > 0)
      fprintf(out, "; %s error %s (bias %s)", names[f], percent(total->errors[f].mape, arena),
              signed_percent(total->errors[f].bias, arena));
  putc('\n', out);
}

static void print_totals(const Measured *self, Arena *arena, FILE *out) {
  for (const char *const *set = measured_set_names; *set; set++) {
    MeasuredGroup total;
    const int n_odd = sum_set(self, *set, true, &total, arena);
    if (!total.first) continue;
    fprintf(out, "%s: %d points, %d held out, %d fitted, %d missing", *set, total.points,
            total.points - total.fitted - total.missing, total.fitted, total.missing);
    print_errors(&total, arena, out);
    if (n_odd == 0) continue;
    sum_set(self, *set, false, &total, arena);
    fprintf(out, "%s without %d odd points", *set, n_odd);
    print_errors(&total, arena, out);
  }
}

void measured_print_table(const Measured *self, bool detail, Arena *arena, FILE *out) {
  Rows rows = {.format = OUTPUT_TABLE, .out = out, .indent = ""};
  for (const MeasuredGroup *group = measured_groups(self, detail, arena); group->first; group++)
    if (group->missing < group->points) put_group(&rows, group, detail, arena);
  putc('\n', out);
  print_totals(self, arena, out);
  print_counts(self, MEASURED_FITTED, "fitted, so not part of the errors:", arena, out);
  print_counts(self, MEASURED_SOLVED, "with numbers of instances that their rows leave out:", arena,
               out);
  print_counts(self, MEASURED_ASSUMED, "with what nobody says of them:", arena, out);
  print_counts(self, MEASURED_ODD, "odd, but part of the errors:", arena, out);
  print_counts(self, MEASURED_WHY, "missing, because:", arena, out);
}

/* ---- Markdown ---- */

/* "H100" of "h100_sxm". */
static void put_gpu(const char *gpu, FILE *out) {
  for (; *gpu && *gpu != '_'; gpu++)
    putc(toupper((unsigned char)*gpu), out);
}

static void put_markdown(const MeasuredGroup *group, Arena *arena, FILE *out) {
  const MeasuredPoint *first = group->first;
  const MeasuredFigure figure = measured_main_figure(group);
  const MeasuredPoint *worst = group->errors[figure].worst;
  fprintf(out, "| %s | %s | ", first->set, text_shown(first->engine, arena));
  put_gpu(text_shown(first->gpu, arena), out);
  fprintf(out, " | %s, %s%s | %s", text_shown(first->model, arena),
          text_shown(first->precision, arena), first->split ? ", split" : "",
          counts_text(group, arena));
  if (group->fitted > 0) fprintf(out, " (+%d)", group->fitted);
  for (int f = MEASURED_FIGURES - 1; f >= 0; f--) {
    static const int order[MEASURED_FIGURES] = {MEASURED_THROUGHPUT, MEASURED_E2E, MEASURED_TTFT,
                                                MEASURED_TPOT};
    const MeasuredErrors *errors = &group->errors[order[f]];
    fprintf(out, " | %s", percent(errors->mape, arena));
    if (errors->n > 0) fprintf(out, " (%s)", signed_percent(errors->bias, arena));
  }
  fprintf(out, " | %s |\n", worst ? signed_percent(measured_error(worst, figure), arena) : "-");
}

void measured_print_markdown(const Measured *self, Arena *arena, FILE *out) {
  fputs("| set | engine | GPU | model | points | TPOT | TTFT | E2E | tokens/s and GPU | worst |\n"
        "|---|---|---|---|---|---|---|---|---|---|\n",
        out);
  for (const MeasuredGroup *group = measured_groups(self, false, arena); group->first; group++)
    if (group->missing < group->points) put_markdown(group, arena, out);
}

/* ---- Points ---- */

static double milliseconds(double seconds) {
  return 1e3 * seconds;
}

static void put_point(Rows *rows, const MeasuredPoint *point, Arena *arena) {
  const double *measured = point->measured, *predicted = point->predicted;
  rows_put(rows,
           (Cell[]){{CELL_OF_TEXT("id", point->id)},
                    {CELL_OF_TEXT("set", point->set)},
                    {CELL_OF_TEXT("engine", point->engine)},
                    {CELL_OF_TEXT("version", point->version)},
                    {CELL_OF_TEXT("model", point->model)},
                    {CELL_OF_TEXT("gpu", point->gpu)},
                    {CELL_OF_TEXT("precision", point->precision)},
                    {CELL_OF_TEXT("mode", measured_mode(point))},
                    {CELL_OF_TEXT("degrees", measured_degrees(point, arena))},
                    {CELL_OF_WHOLE("gpus", measured_gpus(point))},
                    {CELL_OF_WHOLE("isl", point->prompt_tokens.written)},
                    {CELL_OF_WHOLE("osl", point->output_tokens.written)},
                    {CELL_OF_WHOLE("concurrency", point->clients)},
                    {CELL_OF_TEXT("solved", point->solved ? point->solved : "")},
                    {CELL_OF_TEXT("fitted", point->fitted ? point->fitted : "")},
                    {CELL_OF_NUMBER("ttft_ms", milliseconds(measured[MEASURED_TTFT]))},
                    {CELL_OF_NUMBER("tpot_ms", milliseconds(measured[MEASURED_TPOT]))},
                    {CELL_OF_NUMBER("e2e_ms", milliseconds(measured[MEASURED_E2E]))},
                    {CELL_OF_NUMBER("tokens_per_s_gpu", measured[MEASURED_THROUGHPUT])},
                    {CELL_OF_NUMBER("predicted_ttft_ms", milliseconds(predicted[MEASURED_TTFT]))},
                    {CELL_OF_NUMBER("predicted_tpot_ms", milliseconds(predicted[MEASURED_TPOT]))},
                    {CELL_OF_NUMBER("predicted_e2e_ms", milliseconds(predicted[MEASURED_E2E]))},
                    {CELL_OF_NUMBER("predicted_tokens_per_s_gpu", predicted[MEASURED_THROUGHPUT])},
                    {CELL_OF_NUMBER("ttft_error", measured_error(point, MEASURED_TTFT))},
                    {CELL_OF_NUMBER("tpot_error", measured_error(point, MEASURED_TPOT))},
                    {CELL_OF_NUMBER("e2e_error", measured_error(point, MEASURED_E2E))},
                    {CELL_OF_NUMBER("tokens_error", measured_error(point, MEASURED_THROUGHPUT))},
                    {CELL_OF_NUMBER("extrapolated", point->extrapolated)},
                    {CELL_OF_WHOLE("drafts", point->script.drafts)},
                    {CELL_OF_TEXT("assumed", point->assumed ? point->assumed : "")},
                    {CELL_OF_TEXT("odd", point->odd ? point->odd : "")},
                    {CELL_OF_TEXT("why", point->why ? point->why : "")},
                    {0}});
}

void measured_print_points(const Measured *self, OutputFormat format, FILE *out) {
  Arena arena;
  Rows rows = {.format = format, .out = out, .gap = "\n  ", .end = "\n]\n"};
  arena_init(&arena);
  for (size_t i = 0; i < self->n_points; i++)
    put_point(&rows, &self->points[i], &arena);
  if (self->n_points == 0 && format == OUTPUT_CSV) { // the headings alone
    rows.headings_only = true;
    put_point(&rows, &(MeasuredPoint){.id = ""}, &arena);
  }
  rows_end(&rows);
  arena_done(&arena);
}
