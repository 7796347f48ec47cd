/* One pass over the text by recursive descent, each time that it is evaluated. */
#include "experiments/claims/expression.h"
#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64, MAX_ARGUMENTS = 32, MAX_NAME = 256 };

typedef struct Reader {
  const Expression *of;
  const char *next;
  const ExpressionScope *scope; // NULL: every value is NAN
  int depth;
  bool failed; // nothing more is read
  Diag *diag;
} Reader;

static Place place_of(const Reader *self, const char *from, size_t width) {
  Place at = self->of->at;
  if (at.column > 0) at.column += (int)(from - self->of->text);
  at.width = (int)width;
  return at;
}

static double fail(Reader *self, const char *what) {
  const Place at = place_of(self, self->next, 1);
  if (!self->failed && *self->next)
    diag_error(self->diag, at, "%s at '%.16s' of '%s'", what, self->next, self->of->text);
  else if (!self->failed)
    diag_error(self->diag, at, "%s at the end of '%s'", what, self->of->text);
  self->failed = true;
  return NAN;
}

static void skip_space(Reader *self) {
  while (isspace((unsigned char)*self->next))
    self->next++;
}

/* Takes `token` if it is next. */
static bool take(Reader *self, const char *token) {
  skip_space(self);
  const size_t length = strlen(token);
  if (self->failed || strncmp(self->next, token, length) != 0) return false;
  if (isalpha((unsigned char)*token) && isalnum((unsigned char)self->next[length])) return false;
  self->next += length;
  return true;
}

static size_t name_length(const char *text) {
  size_t n = 0;
  while (isalnum((unsigned char)text[n]) || (n > 0 && text[n] && strchr("_.:", text[n])))
    n++;
  return isalpha((unsigned char)*text) ? n : 0;
}

/* ---- Built in: each of n > 0 values, none of them NAN ---- */

static double least(const double *values, int n) {
  double result = values[0];
  for (int i = 1; i < n; i++)
    result = fmin(result, values[i]);
  return result;
}

static double greatest(const double *values, int n) {
  double result = values[0];
  for (int i = 1; i < n; i++)
    result = fmax(result, values[i]);
  return result;
}

static double mean(const double *values, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++)
    sum += values[i];
  return sum / n;
}

static double geometric_mean(const double *values, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++)
    sum += log(values[i]);
  return exp(sum / n);
}

static double at_max(const double *values, int n) {
  int best = 0;
  for (int i = 2; i + 1 < n; i += 2)
    if (values[i + 1] > values[best + 1]) best = i;
  return n >= 2 && n % 2 == 0 ? values[best] : NAN;
}

static double reaches(const double *values, int n) {
  const double y = values[0];
  if (n < 3 || n % 2 == 0) return NAN;
  if (values[2] >= y) return values[1];
  for (int i = 3; i < n; i += 2) {
    const double *left = &values[i - 2], *right = &values[i];
    if (right[1] < y) continue;
    return left[0] + (right[0] - left[0]) * (y - left[1]) / (right[1] - left[1]);
  }
  return NAN;
}

static const struct {
  const char *name;
  double (*eval)(const double *values, int n);
} functions[] = {{"min", least},     {"max", greatest},    {"mean", mean},
                 {"at_max", at_max}, {"reaches", reaches}, {"geomean", geometric_mean}};

/* ---- Names ---- */

static double parse_level(Reader *self, int level);

/* The arguments of a function, behind its "(": how many. */
static int parse_arguments(Reader *self, double *ret_values) {
  int n = 0;
  while (!self->failed && !take(self, ")"))
    if (n > 0 && !take(self, ","))
      fail(self, "expected ',' or ')'");
    else if (n == MAX_ARGUMENTS)
      fail(self, "too many arguments");
    else
      ret_values[n++] = parse_level(self, 0);
  return n;
}

static double look_up(Reader *self, const char *name, const double *values, int n, Place at) {
  for (size_t f = 0; n > 0 && f < sizeof functions / sizeof *functions; f++) {
    if (strcmp(functions[f].name, name) != 0) continue;
    for (int i = 0; i < n; i++)
      if (isnan(values[i])) return NAN;
    return functions[f].eval(values, n);
  }
  double value = NAN;
  self->failed =
      self->scope->find(self->scope->context, name, values, n, at, &value, self->diag) != 0;
  return value;
}

static double parse_name(Reader *self) {
  double values[MAX_ARGUMENTS];
  char name[MAX_NAME] = "";
  const size_t length = name_length(self->next);
  const Place at = place_of(self, self->next, length);
  if (length >= sizeof name) return fail(self, "the name is too long");
  memcpy(name, self->next, length);
  self->next += length;
  const int n = take(self, "(") ? parse_arguments(self, values) : 0;
  return self->failed || !self->scope ? NAN : look_up(self, name, values, n, at);
}

/* ---- Arithmetic ---- */

static double parse_number(Reader *self) {
  char *end = NULL;
  const double number = strtod(self->next, &end);
  self->next = end;
  return take(self, "%") ? number / 100 : number;
}

static double parse_bare(Reader *self);

static double parse_factor(Reader *self) {
  if (self->depth >= MAX_DEPTH) return fail(self, "nested too deeply");
  self->depth++;
  const double value = parse_bare(self);
  self->depth--;
  return value;
}

static double parse_bare(Reader *self) {
  if (take(self, "-")) return -parse_factor(self);
  if (take(self, "(")) {
    const double inner = parse_level(self, 0);
    return self->failed || take(self, ")") ? inner : fail(self, "expected ')'");
  }
  if (isdigit((unsigned char)*self->next)) return parse_number(self);
  if (isalpha((unsigned char)*self->next)) return parse_name(self);
  return fail(self, "expected a number or a name");
}

/* Binary operators, loosest first; each level associates to the left. A longer token stands before
 * one that it begins with. */
enum { LEVELS = 4 };
static const struct {
  const char *token;
  int level;
} operators[] = {{"and", 0}, {"<=", 1}, {">=", 1}, {"<", 1}, {">", 1},
                 {"+", 2},   {"-", 2},  {"*", 3},  {"/", 3}, {0}};

static double apply(const char *token, double a, double b) {
  const bool or_equal = token[1] == '=';
  if (isnan(a) || isnan(b)) return NAN;
  switch (*token) {
  case '+':
    return a + b;
  case '-':
    return a - b;
  case '*':
    return a * b;
  case '/':
    return a / b;
  case '<':
    return or_equal ? a <= b : a < b;
  case '>':
    return or_equal ? a >= b : a > b;
  default:
    return a != 0 && b != 0;
  }
}

static const char *take_operator(Reader *self, int level) {
  for (int i = 0; operators[i].token; i++)
    if (operators[i].level == level && take(self, operators[i].token)) return operators[i].token;
  return NULL;
}

static double parse_level(Reader *self, int level) {
  if (level == LEVELS) return parse_factor(self);
  double left = parse_level(self, level + 1);
  for (const char *token; (token = take_operator(self, level));)
    left = apply(token, left, parse_level(self, level + 1));
  return left;
}

int expression_eval(const Expression *self, const ExpressionScope *scope, double *ret_value,
                    Diag *diag) {
  Reader reader = {.of = self, .next = self->text, .scope = scope, .diag = diag};
  *ret_value = parse_level(&reader, 0);
  skip_space(&reader);
  if (!reader.failed && *reader.next) fail(&reader, "expected an operator");
  return reader.failed ? -1 : 0;
}
