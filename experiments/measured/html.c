/* The report as one page: tables, and predictions against measurements as drawings, all inside. */
#include "experiments/measured/set.h"
#include "sim/base/text.h"
#include <math.h>
#include <string.h>

static const char style[] =
    "body{font:14px/1.4 sans-serif;margin:2em auto;max-width:80em;padding:0 1em;color:#222}\n"
    "table{border-collapse:collapse;font-size:13px}\n"
    "td,th{padding:2px 8px;border-bottom:1px solid #ddd;text-align:right;white-space:nowrap}\n"
    "td.t,th.t{text-align:left}\n"
    "svg{margin:0 1em 1em 0}\n"
    "@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}"
    "td,th{border-color:#444}svg text{fill:#ddd}}\n";

/* Text of a file, harmless. */
static void put_text(const char *text, FILE *out) {
  for (size_t length; *text; text += length) {
    length = strcspn(text, "<>&\"'");
    text_put(out, text, length, '?');
    if (!text[length]) break;
    fprintf(out, "&#%d;", text[length++]);
  }
}

static void put_cell(const char *text, FILE *out) {
  fputs("<td class=t>", out);
  put_text(text, out);
  fputs("</td>", out);
}

static void put_percent(double share, bool sign, FILE *out) {
  if (isnan(share))
    fputs("<td>-</td>", out);
  else
    fprintf(out, sign ? "<td>%+.1f%%</td>" : "<td>%.1f%%</td>", 100 * share);
}

/* ---- Groups ---- */

static void put_worst(const MeasuredErrors *errors, MeasuredFigure figure, FILE *out) {
  put_percent(errors->worst ? measured_error(errors->worst, figure) : NAN, true, out);
  put_cell(errors->worst ? errors->worst->id : "", out);
}

static void put_group(const MeasuredGroup *group, Arena *arena, FILE *out) {
  const MeasuredPoint *first = group->first;
  const char *const texts[] = {
      first->set,   first->engine,    first->version,       first->gpu,
      first->model, first->precision, measured_mode(first), measured_degrees(first, arena)};
  fputs("<tr>", out);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    put_cell(texts[i], out);
  fprintf(out, "<td>%d</td><td>%d</td><td>%d</td>", group->points - group->fitted - group->missing,
          group->fitted, group->missing);
  for (int f = 0; f < MEASURED_FIGURES; f++) {
    put_percent(group->errors[f].mape, false, out);
    put_percent(group->errors[f].bias, true, out);
  }
  const MeasuredFigure figure = measured_main_figure(group);
  put_worst(&group->errors[figure], figure, out);
  fputs("</tr>\n", out);
}

static void put_groups(const Measured *self, Arena *arena, FILE *out) {
  fputs("<table><tr><th class=t>set<th class=t>engine<th class=t>version<th class=t>GPU"
        "<th class=t>model<th class=t>format<th class=t>mode<th class=t>degrees<th>points"
        "<th>fitted<th>missing<th>TTFT<th>bias<th>TPOT<th>bias<th>tokens/s<th>bias<th>E2E<th>bias"
        "<th>worst<th class=t>point</tr>\n",
        out);
  for (const MeasuredGroup *group = measured_groups(self, true, arena); group->first; group++)
    if (group->missing < group->points) put_group(group, arena, out);
  fputs("</table>\n", out);
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
                                                       "output tokens/s and GPU", "E2E, s"};
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
    put_text(point->id, out);
    fprintf(out, " %+.1f%%</title></circle>\n", 100 * measured_error(point, figure));
  }
  fprintf(out, "<text x='%d' y='%d' font-size='12'>", MARGIN, SIDE + 34);
  put_text(engine, out);
  fprintf(out, ": %s, measured; upwards, predicted</text>\n</svg>\n", titles[figure]);
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

void measured_print_html(const Measured *self, Arena *arena, FILE *out) {
  fputs("<!doctype html>\n<html lang=en><meta charset=utf-8>\n<title>Predicted against measured"
        "</title>\n<style>\n",
        out);
  fputs(style, out);
  fputs("</style>\n<h1>Predicted against measured</h1>\n"
        "<p>Errors are (predicted − measured) / measured; mean of their sizes, and their bias. "
        "Of vllm_logs a point is a request: the median, and the error of the mean. "
        "Orange points were fitted to, and are in no error.</p>\n",
        out);
  put_drawings(self, out);
  put_groups(self, arena, out);
  for (int fitted = 1; fitted >= 0; fitted--) {
    fputs(fitted ? "<h2>Fitted to</h2>\n<ul>" : "<h2>Missing, because</h2>\n<ul>", out);
    for (const MeasuredCount *count = measured_counts(self, fitted, arena); count->text; count++) {
      fprintf(out, "<li>%d: ", count->n);
      put_text(count->text, out);
      fputs("</li>\n", out);
    }
    fputs("</ul>\n", out);
  }
  fputs("</html>\n", out);
}
