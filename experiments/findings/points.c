/* See subject.h: a sweep, or runs beside each other. Runs that differ in their seeds alone are one
 * case. */
#include "experiments/base/student.h"
#include "experiments/findings/cases.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- The question ---- */

/* "1, 2, 3", or "10 /s … 105 /s (20 values)" of many. */
static const char *values_words(const Axis *axis, Arena *arena) {
  const char *words = "";
  if (axis->n_values > 6)
    return arena_printf(arena, "%s … %s, %zu values", axis->values[0],
                        axis->values[axis->n_values - 1], axis->n_values);
  for (size_t i = 0; i < axis->n_values; i++)
    words = arena_printf(arena, "%s%s%s", words, i ? ", " : "", axis->values[i]);
  return words;
}

static void put_question(const Cases *self) {
  const Subject *of = self->of;
  Page *page = &of->of->page;
  const char *limits = subject_limits(of);
  subject_section(of, "question", "Question");
  if (self->n_cases == 1)
    page_element(page, "p", NULL, "Which latency do users see, and what does it cost?");
  else
    page_element(page, "p", NULL, "Which of %zu configurations is best?", self->n_cases);
  page_raw(page, "<ul>\n");
  page_element(page, "li", NULL, "Setup: %s", subject_setup(of));
  page_element(page, "li", NULL, "SLO limits: %s", limits ? limits : "none");
  for (size_t i = 0; self->n_cases > 1 && i < self->n_axes; i++)
    page_element(page, "li", NULL, "Varied: %s: %s", self->axes[i].name,
                 values_words(&self->axes[i], of->of->arena));
  page_raw(page, "</ul>\n");
  page_section_end(page);
}

/* ---- The answer ---- */

/* "24.1 requests/s, TTFT p99 312 ms, …" */
static const char *figure_words(const Cases *self, const Case *one) {
  Arena *arena = self->of->of->arena;
  const char *words = "";
  for (int f = 0; f < CASE_FIGURES; f++) {
    const CaseFigure *figure = &case_figures[f];
    if (figure->before && one->figures[f].n > 0)
      words = arena_printf(arena, "%s%s%s%s%s", words, *words ? ", " : "", figure->before,
                           shown(one->figures[f].mean, figure->unit, arena), figure->after);
  }
  return words;
}

static void put_best(const Cases *self) {
  static const PageColumn columns[] = {
      {.head = "best by", .is_text = true},
      {.head = "value"},
      {.head = "configuration", .is_text = true},
      {.head = "least margin", .title = "share of the limit that is left"}};
  Page *page = &self->of->of->page;
  Arena *arena = self->of->of->arena;
  page_table(page, columns, 4,
             self->n_met > 0 ? "Best of those that meet all limits"
                             : "Best of all, without limits");
  for (int f = 0; f < CASE_FIGURES; f++) {
    const Case *best = cases_best(self, f, self->n_met > 0);
    if (!best) continue;
    page_row(page, NULL);
    page_cell(page, true, "%s", case_figures[f].head);
    page_cell(page, false, "%s", shown(best->figures[f].mean, case_figures[f].unit, arena));
    page_cell(page, true, "%s", place_words(self, best, -1));
    page_cell(page, false, "%s", best->n_slos ? shown(best->margin, "%", arena) : "-");
    page_row_end(page);
  }
  page_table_end(page);
}

/* What is said of the case that comes first. */
static void put_verdict(const Cases *self) {
  Page *page = &self->of->of->page;
  const Case *best = &self->cases[0];
  const char *place = self->n_cases > 1 ? place_words(self, best, -1) : "It";
  const char *figures = figure_words(self, best);
  if (self->n_limited == 0)
    page_element(page, "p", "answer", "%s%s: %s.",
                 self->n_cases > 1
                     ? arena_printf(page->arena, "Best by %s: ", case_figures[self->ranked_by].head)
                     : "",
                 self->n_cases > 1 ? place : "It gives", figures);
  else if (self->n_met == 0)
    page_element(page, "p", "answer", "%s all limits. %s comes closest: %s is %s%s. %s.",
                 self->n_cases > 1 ? "None meets" : "It does not meet", place,
                 best->binds ? best->binds : "the run",
                 best->unmeasured ? "not measured" : "missed by ",
                 best->unmeasured ? "" : margin_words(-best->margin, page->arena), figures);
  else
    page_element(page, "p", "answer", "%s meets all limits, with a margin of %s on %s: %s.", place,
                 shown(best->margin, "%", page->arena), best->binds, figures);
}

static void put_answer(const Cases *self) {
  Page *page = &self->of->of->page;
  subject_section(self->of, "answer", "Answer");
  put_verdict(self);
  if (self->n_cases > 1 && self->n_limited > 0)
    page_element(page, "p", NULL, "%zu of %zu configurations meet all limits%s.", self->n_met,
                 self->n_cases, self->n_seeds > 1 ? " on every seed" : "");
  if (self->n_failed > 0)
    page_element(page, "p", "warn", "%zu could not be simulated or did not finish.",
                 self->n_failed);
  put_loads(self);
  if (self->n_cases > 1) put_best(self);
  page_section_end(page);
}

/* ---- How sure ---- */

static const char *seed_words(const Cases *self, const Case *best) {
  Arena *arena = self->of->of->arena;
  const char *words = "";
  if (best->n_runs < 2)
    return "one seed: the variation over seeds is unknown (add the axis seed: 1..5)";
  if (best->n_different == 1)
    return arena_printf(arena,
                        "%zu seeds gave equal outcomes and count as one observation: seeds change "
                        "nothing",
                        best->n_runs);
  for (int f = 0; f < CASE_FIGURES; f++) {
    const double half_width = moments_half_width(&best->figures[f]), mean = best->figures[f].mean;
    if (case_figures[f].before && half_width >= 0 && mean > 0)
      words = arena_printf(arena, "%s; %s ±%s", words, case_figures[f].head,
                           shown(half_width / mean, "%", arena));
  }
  const char *different =
      best->n_different < best->n_runs
          ? arena_printf(arena, ", %zu with different outcomes", best->n_different)
          : "";
  return arena_printf(arena, "mean of %zu seeds%s, 95%% interval%s", best->n_runs, different,
                      words);
}

/* Whether the first and second of those that keep the limits differ by more than seeds make. */
static const char *second_words(const Cases *self) {
  Arena *arena = self->of->of->arena;
  const Case *best = &self->cases[0], *second = &self->cases[1];
  const int f = self->ranked_by;
  const double gap = fabs(second->figures[f].mean - best->figures[f].mean);
  const double either =
      hypot(moments_half_width(&best->figures[f]), moments_half_width(&second->figures[f]));
  const char *words =
      arena_printf(arena, "%s: %s %s", place_words(self, second, -1), case_figures[f].head,
                   shown(second->figures[f].mean, case_figures[f].unit, arena));
  if (isnan(either)) return words;
  return arena_printf(arena, "%s, %s", words,
                      gap > either ? "a larger difference than that between seeds"
                                   : "no certain difference from the best with these seeds");
}

static int put_sureness(const Cases *self) {
  Arena *arena = self->of->of->arena;
  const Case *best = &self->cases[0];
  const char *lines[5] = {"Seeds", seed_words(self, best)};
  if (self->n_met > 1) {
    lines[2] = "Runner-up";
    lines[3] = second_words(self);
  }
  return put_certainty(self->of, &(Certainty){.runs = arena_printf(arena, "[%s]", best->runs),
                                              .margin = best->unmeasured ? NAN : best->margin,
                                              .binds = best->binds,
                                              .lines = lines});
}

/* ---- Tables ---- */

static void put_case(const Cases *self, const Case *one) {
  Page *page = &self->of->of->page;
  Arena *arena = page->arena;
  page_row(page, one == self->cases ? "best" : NULL);
  for (size_t i = 0; i < self->n_axes; i++)
    page_cell(page, !self->axes[i].is_number, "%s", one->values[i]);
  if (self->n_seeds > 1) page_cell(page, false, "%zu", one->n_runs);
  for (int f = 0; f < CASE_FIGURES; f++)
    if (self->has[f])
      page_cell(page, false, "%s",
                shown(one->figures[f].n ? one->figures[f].mean : NAN, case_figures[f].unit, arena));
  page_cell(page, true, "%s", one->binds ? one->binds : "-");
  page_cell(page, false, "%s", case_margin(one, arena));
  page_cell(page, true, "%s", case_verdict(one));
  page_row_end(page);
}

static void put_part(const Cases *self, size_t from, size_t to, const char *caption) {
  Page *page = &self->of->of->page;
  PageColumn *columns = ARENA_ARRAY(page->arena, PageColumn, self->n_axes + CASE_FIGURES + 4);
  int n = 0;
  for (size_t i = 0; i < self->n_axes; i++)
    columns[n++] = (PageColumn){.head = short_name(self->axes[i].name),
                                .title = self->axes[i].name,
                                .is_text = !self->axes[i].is_number};
  if (self->n_seeds > 1) columns[n++] = (PageColumn){.head = "seeds"};
  for (int f = 0; f < CASE_FIGURES; f++)
    if (self->has[f]) columns[n++] = (PageColumn){.head = case_figures[f].head};
  columns[n++] =
      (PageColumn){.head = "binds", .title = "the limit with the least margin", .is_text = true};
  columns[n++] = (PageColumn){.head = "margin", .title = "share of that limit that is left"};
  columns[n++] = (PageColumn){.head = "limits", .is_text = true};
  page_table(page, columns, n, caption);
  for (size_t i = from; i < to; i++)
    put_case(self, &self->cases[i]);
  page_table_end(page);
}

static int put_tables(const Cases *self) {
  enum { OPEN = 20 };
  Page *page = &self->of->of->page;
  subject_section(self->of, "tables", "Tables");
  const size_t most = self->n_cases < ROWS_MOST ? self->n_cases : ROWS_MOST;
  const size_t open = most < OPEN ? most : OPEN;
  if (self->n_cases > 1) {
    page_element(page, "h3", NULL, "All configurations, best first");
    put_part(self, 0, open, NULL);
    if (open < most) {
      page_details(page, "%zu more", most - open);
      put_part(self, open, most, NULL);
      if (most < self->n_cases)
        page_element(page, "p", "soft", "%zu are not shown; tandem query lists all.",
                     self->n_cases - most);
      page_details_end(page);
    }
    page_element(page, "h3", NULL, "Best configuration");
  }
  const int status = put_run(self->of, self->cases[0].run);
  page_section_end(page);
  return status;
}

int tell_points(const Subject *self) {
  Cases cases;
  if (cases_load(&cases, self)) return -1;
  put_question(&cases);
  put_answer(&cases);
  return put_sureness(&cases) || put_tables(&cases) ? -1 : 0;
}
