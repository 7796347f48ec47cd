/* What agrees with a paper's statement: by a rule that takes nothing but the statement, which
 * experiments/papers/README.md states, or by a tolerance or a range. */
#include "experiments/claims/claims.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int no_figure(void *context, const char *name, const double *arguments, int n_arguments,
                     Place at, double *ret_value, Diag *diag) {
  (void)context, (void)arguments, (void)n_arguments, (void)ret_value;
  return diag_error(diag, at, "'%s' is not a number", name);
}

/* A number such as 2.15 or 64%; NAN and -1 without an entry when it is none. */
static int constant(const char *text, double *ret_value) {
  Diag quiet;
  diag_init(&quiet);
  const ExpressionScope nothing = {no_figure, NULL};
  const int status = expression_eval(&(Expression){.text = text}, &nothing, ret_value, &quiet);
  diag_done(&quiet);
  if (status) *ret_value = NAN;
  return status;
}

static int bind_range(ClaimFigure *figure, const Node *range, Diag *diag) {
  const Node *low = range->kind == NODE_LIST ? range->first : NULL;
  const Node *high = low ? low->next : NULL;
  if (!high || high->next || low->kind != NODE_SCALAR || high->kind != NODE_SCALAR ||
      constant(low->text, &figure->low) || constant(high->text, &figure->high) ||
      figure->low > figure->high)
    return diag_error(diag, range->at, "'range' must be [low, high]");
  return 0;
}

static int bind_tolerance(ClaimFigure *figure, const char *text, Place at, Diag *diag) {
  double paper, tolerance;
  if (constant(figure->paper, &paper))
    return diag_error(diag, at, "a tolerance needs a number in 'paper', not '%s'", figure->paper);
  if (constant(text, &tolerance) || !(tolerance >= 0))
    return diag_error(diag, at, "'tolerance' must be a number such as 0.2 or 20%%, not '%s'", text);
  if (strchr(text, '%') && strcmp(figure->unit, "%") != 0) tolerance *= fabs(paper);
  figure->low = paper - tolerance;
  figure->high = paper + tolerance;
  return 0;
}

/* ---- What a statement says ---- */

/* "60-70%", "up to 1.67", "<7%", "-86.4%", "9 / 7", "yes". */
typedef struct Statement {
  double low, high; // the same but for a range
  double unit;      // of the last digit printed
  int bound;        // -1: no more than that; 1: no less
  bool open;        // and not that itself
} Statement;

/* A number at `text` and the unit of its last digit: the end of it, NULL when there is none. */
static const char *read_number(const char *text, double *ret_value, double *ret_unit) {
  const char *digit = text + (*text == '-');
  if (!isdigit((unsigned char)*digit)) return NULL;
  char *end;
  *ret_value = strtod(text, &end);
  const char *point = memchr(text, '.', (size_t)(end - text));
  *ret_unit = point ? pow(10, -(double)(end - point - 1)) : 1;
  return end;
}

static const char *find_number(const char *text, double *ret_value, double *ret_unit) {
  const char *end = NULL;
  for (; *text && !end; text++)
    end = read_number(text, ret_value, ret_unit);
  return end;
}

/* Which way the words before the number bound it, and whether they leave it out. */
static void read_bound(const char *text, Statement *self) {
  static const struct {
    const char *words;
    int bound;
    bool open;
  } bounds[] = {{"<", -1, true},        {"below", -1, true},   {"less than", -1, true},
                {"up to", -1, false},   {">", 1, true},        {"above", 1, true},
                {"more than", 1, true}, {"at least", 1, false}};
  for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
    if (strncmp(text, bounds[i].words, strlen(bounds[i].words)) == 0) {
      self->bound = bounds[i].bound;
      self->open = bounds[i].open;
    }
}

/* What follows the first number: the end of a range, or what it is divided by. */
static const char *read_second(const char *end, Statement *self) {
  double second, unit;
  const char *dash = *end == '-' ? end + 1 : strncmp(end, " to ", 4) == 0 ? end + 4 : NULL;
  const char *slash = strncmp(end, " / ", 3) == 0 ? end + 3 : NULL;
  const char *last = dash || slash ? read_number(dash ? dash : slash, &second, &unit) : NULL;
  if (!last) return end;
  if (slash)
    self->low = self->high = self->low / second;
  else
    self->high = second;
  return last;
}

/* -1 when there is no number in it. */
static int read_statement(const char *text, Statement *self) {
  *self = (Statement){.low = 1, .high = 1};
  read_bound(text, self);
  if (strncmp(text, "yes", 3) == 0) return 0;
  const char *end = find_number(text, &self->low, &self->unit);
  if (!end) return -1;
  self->high = self->low;
  if (*read_second(end, self) != '%') return 0;
  self->low /= 100;
  self->high /= 100;
  self->unit /= 100;
  return 0;
}

/* ---- Rules ---- */

typedef enum Rule { RULE_EXACT, RULE_DIGITS, RULE_BOUND, RULE_NEAR } Rule;

const char *const claim_rules[] = {"exact", "digits", "bound", "near", NULL};

/* Of what is drawn, or said in words such as "flat": a twentieth of an axis that ends at 1. */
static const double reading_error = 0.05;

static int bind_rule(ClaimFigure *figure, Rule rule, Place at, Diag *diag) {
  Statement stated;
  if (read_statement(figure->paper, &stated))
    return diag_error(diag, at, "a rule needs a number in 'paper', not '%s'", figure->paper);
  if ((rule == RULE_BOUND) != (stated.bound != 0))
    return diag_error(diag, at,
                      "words such as '<', 'above' or 'up to' need rule 'bound', and only they do");
  double below = rule == RULE_NEAR ? reading_error : 0, above = below;
  if (rule == RULE_DIGITS) { // rounded, or cut towards 0
    below = stated.low < 0 ? stated.unit : stated.unit / 2;
    above = stated.high > 0 ? stated.unit : stated.unit / 2;
  }
  figure->low = stated.bound < 0 ? -INFINITY : stated.low - below;
  figure->high = stated.bound > 0 ? INFINITY : stated.high + above;
  figure->open = stated.open;
  return 0;
}

double tolerance_miss(const ClaimFigure *figure, double value) {
  const double end = value < figure->low ? figure->low : figure->high;
  const double miss = fabs(value - end);
  return strcmp(figure->unit, "%") == 0 ? miss : miss / fabs(end);
}

int tolerance_bind(ClaimFigure *figure, const ToleranceKeys *keys, const Node *node, Diag *diag) {
  if ((keys->rule >= 0) + (keys->tolerance != NULL) + (keys->range != NULL) > 1)
    return diag_error(diag, node->at, "'rule', 'tolerance' and 'range' exclude each other");
  if (keys->range) return bind_range(figure, keys->range, diag);
  if (keys->tolerance)
    return bind_tolerance(figure, keys->tolerance, node_find(node, "tolerance")->at, diag);
  if (keys->rule < 0) return 0;
  return bind_rule(figure, (Rule)keys->rule, node_find(node, "rule")->at, diag);
}
