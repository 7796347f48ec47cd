/* The report as one page: tables, and predictions against measurements as drawings, all inside. */
#include "experiments/measured/set.h"
#include "experiments/page/page.h"
#include <math.h>
#include <string.h>

static const char css[] = "svg{margin:0 1rem 1rem 0;max-width:100%;height:auto}\n"
                          "svg text{fill:var(--ink)}\n";

static void put_percent(double share, bool sign, Page *page) {
  if (isnan(share))
    page_cell(page, false, "-");
  else
    page_cell(page, false, sign ? "%+.1f%%" : "%.1f%%", 100 * share);
}

/* ---- Groups ---- */

static void put_worst(const MeasuredErrors *errors, MeasuredFigure figure, Page *page) {
  put_percent(errors->worst ? measured_error(errors->worst, figure) : NAN, true, page);
  page_cell(page, true, "%s", errors->worst ? errors->worst->id : "");
}

static void put_group(const MeasuredGroup *group, Page *page) {
  const MeasuredPoint *first = group->first;
  const char *const texts[] = {
      first->set,   first->engine,    first->version,       first->gpu,
      first->model, first->precision, measured_mode(first), measured_degrees(first, page->arena)};
  page_row(page, NULL);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    page_cell(page, true, "%s", texts[i]);
  page_cell(page, false, "%d", group->points - group->fitted - group->missing);
  page_cell(page, false, "%d", group->fitted);
  page_cell(page, false, "%d", group->missing);
  for (int f = 0; f < MEASURED_FIGURES; f++) {
    put_percent(group->errors[f].mape, false, page);
    put_percent(group->errors[f].bias, true, page);
  }
  const MeasuredFigure figure = measured_main_figure(group);
  put_worst(&group->errors[figure], figure, page);
  page_row_end(page);
}

static void put_groups(const Measured *self, Page *page) {
  static const PageColumn columns[] = {{.head = "set", .is_text = true},
                                       {.head = "engine", .is_text = true},
                                       {.head = "version", .is_text = true},
                                       {.head = "GPU", .is_text = true},
                                       {.head = "model", .is_text = true},
                                       {.head = "format", .is_text = true},
                                       {.head = "mode", .is_text = true},
                                       {.head = "degrees", .is_text = true},
                                       {.head = "points"},
                                       {.head = "fitted"},
                                       {.head = "missing"},
                                       {.head = "TTFT"},
                                       {.head = "bias"},
                                       {.head = "TPOT"},
                                       {.head = "bias"},
                                       {.head = "tokens/s"},
                                       {.head = "bias"},
                                       {.head = "E2E"},
                                       {.head = "bias"},
                                       {.head = "worst"},
                                       {.head = "point", .is_text = true}};
  page_table(page, columns, sizeof columns / sizeof *columns, NULL);
  for (const MeasuredGroup *group = measured_groups(self, true, page->arena); group->first; group++)
    if (group->missing < group->points) put_group(group, page);
  page_table_end(page);
}

/* ---- Drawings ---- */

enum { SIDE = 320, MARGIN = 48 };

/* Both axes of a drawing, in powers of ten. */
typedef struct Scale {
  double low, high;
} Scale;

static bool is_drawn(const MeasuredPoint *point, const char *engine, MeasuredFigure figure) {
  return strcmp(point->engine, engine) == 0 && !isnan(measured_error(point, figure)) &&
         point->predicted[figure] > 0;
}

static Scale scale_of(const Measured *self, const char *engine, MeasuredFigure figure) {
  Scale scale = {INFINITY, -INFINITY};
  for (size_t i = 0; i < self->n_points; i++) {
    const MeasuredPoint *point = &self->points[i];
    if (!is_drawn(point, engine, figure)) continue;
    const double measured = log10(point->measured[figure]);
    const double predicted = log10(point->predicted[figure]);
    scale.low = fmin(scale.low, floor(fmin(measured, predicted)));
    scale.high = fmax(scale.high, ceil(fmax(measured, predicted)));
  }
  if (scale.low == scale.high) scale.high++;
  return scale;
}

static double along(const Scale *scale, double power) {
  return SIDE * (power - scale->low) / (scale->high - scale->low);
}

static void put_axes(const Scale *scale, FILE *out) {
  fprintf(out, "<rect x='%d' y='0' width='%d' height='%d' fill='none' stroke='#888'/>\n", MARGIN,
          SIDE, SIDE);
  fprintf(out, "<line x1='%d' y1='%d' x2='%d' y2='0' stroke='#888'/>\n", MARGIN, SIDE,
          MARGIN + SIDE);
  for (double power = scale->low; power <= scale->high; power++) {
    const double at = along(scale, power);
    fprintf(out, "<text x='%.0f' y='%d' font-size='10' text-anchor='middle'>%g</text>\n",
            MARGIN + at, SIDE + 14, pow(10, power));
    fprintf(out, "<text x='%d' y='%.0f' font-size='10' text-anchor='end'>%g</text>\n", MARGIN - 4,
            SIDE - at + 4, pow(10, power));
  }
}

static void put_drawing(const Measured *self, const char *engine, MeasuredFigure figure,
                        FILE *out) {
  static const char *const titles[MEASURED_FIGURES] = {"TTFT, s", "TPOT, s",
                                                       "output tokens/s per GPU", "E2E, s"};
  const Scale scale = scale_of(self, engine, figure);
  if (isinf(scale.low)) return;
  fprintf(out, "<svg width='%d' height='%d'>\n", SIDE + MARGIN + 24, SIDE + 48);
  put_axes(&scale, out);
  for (size_t i = 0; i < self->n_points; i++) {
    const MeasuredPoint *point = &self->points[i];
    if (!is_drawn(point, engine, figure)) continue;
    fprintf(out, "<circle cx='%.1f' cy='%.1f' r='2' fill='%s' fill-opacity='.5'><title>",
            MARGIN + along(&scale, log10(point->measured[figure])),
            SIDE - along(&scale, log10(point->predicted[figure])),
            measured_is_held_out(point, figure) ? "#06c" : "#c60");
    page_text(point->id, out);
    fprintf(out, " %+.1f%%</title></circle>\n", 100 * measured_error(point, figure));
  }
  fprintf(out, "<text x='%d' y='%d' font-size='12'>", MARGIN, SIDE + 34);
  page_text(engine, out);
  fprintf(out, ": %s (x: measured, y: predicted)</text>\n</svg>\n", titles[figure]);
}

/* Of each engine that some point is of, in the order in which they come. */
static void put_drawings(const Measured *self, FILE *out) {
  for (size_t i = 0; i < self->n_points; i++) {
    const char *engine = self->points[i].engine;
    bool first = true;
    for (size_t k = 0; k < i && first; k++)
      first = strcmp(self->points[k].engine, engine) != 0;
    for (int f = 0; first && f < MEASURED_FIGURES; f++)
      put_drawing(self, engine, (MeasuredFigure)f, out);
  }
}

static void put_said(const Measured *self, MeasuredSaid said, const char *title, Page *page) {
  page_element(page, "h2", NULL, "%s", title);
  page_raw(page, "<ul>\n");
  for (const MeasuredCount *count = measured_counts(self, said, page->arena); count->text; count++)
    page_element(page, "li", NULL, "%d: %s", count->n, count->text);
  page_raw(page, "</ul>\n");
}

void measured_print_html(const Measured *self, Arena *arena, FILE *out) {
  Page page = {out, arena};
  page_begin(&page, "Predicted and measured", css);
  page_element(&page, "h1", NULL, "Predicted and measured");
  page_element(
      &page, "p", NULL,
      "The error of a point is (predicted − measured) / measured. The tables have the mean "
      "of its magnitude and its bias. A point of vllm_logs is a request: the median, and "
      "the error of the mean. Orange points were fitted and are not in the errors.");
  put_drawings(self, out);
  put_groups(self, &page);
  put_said(self, MEASURED_FITTED, "Fitted to", &page);
  put_said(self, MEASURED_SOLVED, "Numbers of instances that rows leave out", &page);
  put_said(self, MEASURED_ASSUMED, "What nobody says of them", &page);
  put_said(self, MEASURED_ODD, "Odd, but part of the errors", &page);
  put_said(self, MEASURED_WHY, "Missing", &page);
  page_end(&page);
}
