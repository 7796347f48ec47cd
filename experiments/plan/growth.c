/* A load that grows by a share each month: how the question is written, and when the answer ends.
 * Months count from the load that is asked; nothing reads a calendar. */
#include "experiments/plan/plan.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* "10%/month", "0.1" or "80%/year", as a share of a month. */
static int read_share(const char *text, double *ret_share, Diag *diag) {
  char *end = NULL;
  double share = strtod(text, &end);
  if (end != text && *end == '%') share /= 100, end++;
  const bool yearly = strcmp(end, "/year") == 0;
  if (yearly) share = pow(1 + share, 1.0 / 12) - 1;
  if (yearly || strcmp(end, "/month") == 0) end += strlen(end);
  *ret_share = share;
  if (end != text && !*end && 1e-6 <= share && share <= 100) return 0;
  diag_error(diag, place_of_file("--growth"), "'%s' is not a growth", text);
  return diag_hint(diag, "write a share of a month or a year, such as 10%%/month");
}

/* "2027-12" as months since year 0; false if it is none. */
static bool read_month(const char *text, int *ret_month) {
  static const char form[] = "0000-00";
  int parts[2] = {0}, part = 0;
  if (strlen(text) != strlen(form)) return false;
  for (size_t i = 0; form[i]; i++) {
    const bool dash = form[i] == '-';
    if (dash ? text[i] != '-' : text[i] < '0' || text[i] > '9') return false;
    part += dash;
    if (!dash) parts[part] = 10 * parts[part] + text[i] - '0';
  }
  *ret_month = 12 * parts[0] + parts[1] - 1;
  return 1 <= parts[1] && parts[1] <= 12;
}

static int not_a_month(const char *option, const char *text, Diag *diag) {
  diag_error(diag, place_of_file(option), "'%s' is not a month", text);
  return diag_hint(diag, "write the year and the month, such as 2027-12");
}

/* A month needs one to count from; a number does not. */
static int read_until(const char *text, Growth *growth, Diag *diag) {
  const Place at = place_of_file("--until");
  char *end = NULL;
  int month = 0;
  growth->until = strtod(text, &end);
  if (end != text && !*end) {
    if (0.01 <= growth->until && growth->until <= 1200) return 0;
    return diag_error(diag, at, "%s months are not between 0.01 and 1200", text);
  }
  if (!read_month(text, &month)) return not_a_month("--until", text, diag);
  if (!growth->dated) {
    diag_error(diag, at, "the month of the load that is asked is not known");
    return diag_hint(diag, "add it, such as '--from 2026-11', or write a number of months");
  }
  growth->until = month - growth->from;
  if (growth->until > 0) return 0;
  return diag_error(diag, at, "'%s' is not after '--from'", text);
}

int growth_read(const char *share, const char *from, const char *until, Growth *growth,
                Diag *diag) {
  if (read_share(share, &growth->share, diag)) return -1;
  growth->dated = from != NULL;
  if (from && !read_month(from, &growth->from)) return not_a_month("--from", from, diag);
  return until ? read_until(until, growth, diag) : 0;
}

const char *growth_month(const Growth *self, double months, Arena *arena) {
  if (!self->dated || !(months < 1e5)) return NULL;
  const int month = self->from + (int)floor(months);
  return arena_printf(arena, "%04d-%02d", month / 12, month % 12 + 1);
}

void growth_print(const Growth *self, FILE *out, Arena *arena) {
  const char *end = growth_month(self, self->months, arena);
  fprintf(out,
          "            holds up to %.4g requests/s, which %.6g%% more a month reach in %.1f "
          "months%s%s\n",
          self->held, 100 * self->share, self->months, end ? ", in " : "", end ? end : "");
  if (self->until <= 0) return;
  const char *then = growth_month(self, self->until, arena);
  if (then)
    fprintf(out, "            in %s %.4g requests/s take %s\n", then, self->rate, self->then);
  else
    fprintf(out, "            in %.6g months %.4g requests/s take %s\n", self->until, self->rate,
            self->then);
}

void growth_write_json(const Growth *self, FILE *out, Arena *arena) {
  fprintf(out, ", \"growth\": {\"held_rps\": %.9g, \"months\": %.9g, \"until_rps\": %.9g",
          self->held, self->months, self->rate);
  write_json_text(", ", "month", growth_month(self, self->months, arena), out);
  write_json_text(", ", "until_takes", self->then, out);
  fputs("}", out);
}
