/* See subject.h: how far an answer may be off, and why. */
#include "experiments/findings/subject.h"
#include <math.h>
#include <string.h>

#define OF_ANSWER "run_id IN (SELECT value FROM json_each(:runs))"

static void put_line(Page *page, const char *head, const char *text) {
  page_row(page, NULL);
  page_cell(page, true, "%s", head);
  page_cell(page, true, "%s", text);
  page_row_end(page);
}

/* "TTFT p99 ±2.9%, TPOT p99 ±2.7%": the range from within a run, of several the widest. */
static const char *chance(const Subject *answer) {
  static const char figures[] =
      "SELECT value.name, max(width.value / value.value) FROM metric AS value "
      "JOIN metric AS width ON width.run_id = value.run_id AND width.scope = 'run' "
      "  AND width.name = value.name AND width.statistic = 'p99_half_width' "
      "WHERE value." OF_ANSWER " AND value.scope = 'run' AND value.statistic = 'p99' "
      "  AND value.name IN ('ttft_s', 'tpot_s', 'e2e_s') AND value.value > 0 "
      "GROUP BY value.name ORDER BY value.name DESC";
  static const char *const names[][2] = {{"ttft_s", "TTFT"}, {"tpot_s", "TPOT"}, {"e2e_s", "E2E"}};
  Arena *arena = answer->of->arena;
  const char *words = "";
  CLEANUP_STATEMENT sqlite3_stmt *rows = subject_ask(answer, figures);
  while (rows && sqlite3_step(rows) == SQLITE_ROW)
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
      if (strcmp(names[i][0], results_text(rows, 0, arena)) == 0)
        words = arena_printf(arena, "%s%s%s p99 ±%s", words, *words ? ", " : "", names[i][1],
                             shown(results_real(rows, 1), "%", arena));
  return *words ? words : "unknown: the run is too short, or the interval was not stored";
}

/* Where iteration times come from, and the error that they have. */
static const char *times(double measured, double error, Arena *arena) {
  const char *from = isnan(measured) ? "from models that the database does not describe"
                     : measured > 0
                         ? "fitted to measurements"
                         : "from a roofline: specifications of the machine, not measured";
  return isnan(error)
             ? arena_printf(arena, "%s; their error is unknown", from)
             : arena_printf(arena, "%s; mean held-out error %s", from, shown(error, "%", arena));
}

static const char *extrapolated(const Subject *answer) {
  Arena *arena = answer->of->arena;
  const double share =
      subject_number(answer, "SELECT max(value) FROM metric WHERE " OF_ANSWER
                             " AND scope = 'extrapolated' AND name = 'time_share'");
  const double far =
      subject_number(answer, "SELECT max(value) FROM metric WHERE " OF_ANSWER
                             " AND scope = 'extrapolated' AND name = 'far_time_share'");
  if (isnan(share)) return "unknown";
  if (share == 0) return "none: all iterations are within the measured range";
  return arena_printf(arena, "%s of busy time; %s is beyond twice the measured range",
                      shown(share, "%", arena), shown(far, "%", arena));
}

/* Whether the margin of an answer outlasts the error of its times. */
static const char *decided(const Certainty *self, double error, Arena *arena) {
  const char *margin = shown(self->margin, "%", arena);
  if (self->margin < 0)
    return arena_printf(arena, "%s is missed by %s of the limit", self->binds,
                        shown(-self->margin, "%", arena));
  if (isnan(error))
    return arena_printf(arena,
                        "%s on %s; the error of iteration times, which may exceed it, is unknown",
                        margin, self->binds);
  return arena_printf(arena,
                      self->margin > error
                          ? "%s on %s, more than the error of iteration times"
                          : "undecided: %s on %s, not more than the error of iteration times",
                      margin, self->binds);
}

int put_certainty(const Subject *self, const Certainty *certainty) {
  static const PageColumn columns[] = {{.head = "source of error", .is_text = true},
                                       {.head = "size", .is_text = true}};
  Page *page = &self->of->page;
  Subject answer = *self;
  answer.runs = certainty->runs;
  const double measured = subject_number(&answer, "SELECT min(value) FROM metric WHERE " OF_ANSWER
                                                  " AND name = 'perfmodel_measured'");
  const double error =
      subject_number(&answer, "SELECT max(value) FROM metric WHERE " OF_ANSWER
                              " AND scope = 'extrapolated' AND name = 'perfmodel_error'");
  subject_section(self, "certainty", "Certainty");
  if (self->stale)
    page_element(page, "p", "warn",
                 "Stale: another version of Tandem made these results; this version gives others.");
  page_table(page, columns, 2, NULL);
  if (certainty->binds && !isnan(certainty->margin))
    put_line(page, "Margin", decided(certainty, error, self->of->arena));
  for (const char *const *line = certainty->lines; line[0]; line += 2)
    put_line(page, line[0], line[1]);
  put_line(page, "Randomness within a run, 95%", chance(&answer));
  put_line(page, "Iteration times", times(measured, error, self->of->arena));
  put_line(page, "Outside the measured range", extrapolated(&answer));
  page_table_end(page);
  put_near(&answer);
  page_section_end(page);
  return self->of->diag->n_entries > 0 ? -1 : 0;
}
