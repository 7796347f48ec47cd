/* A recursive-descent parser into a tree, and its evaluation. Depth is bounded, so recursion is. */
#include "experiments/claims/expression.h"
#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64 };

typedef enum ExpressionKind {
  EXPR_NUMBER,
  EXPR_NEGATE,
  EXPR_BINARY,
  EXPR_NAME,   // with arguments, perhaps none
  EXPR_ARGMAX, // name is the variable; the last argument its function
} ExpressionKind;

typedef enum Operator {
  OP_ADD,
  OP_SUB,
  OP_MUL,
  OP_DIV,
  OP_LE,
  OP_GE,
  OP_LT,
  OP_GT,
  OP_AND
} Operator;

struct Expression {
  ExpressionKind kind;
  Operator op;
  double number;
  const char *name;
  const Expression *arguments[EXPRESSION_MAX_ARGUMENTS]; // operands of a binary: the first two
  int n_arguments;
  Place at;
};

typedef struct Parser {
  const char *text, *next;
  Place at; // of the whole
  int depth;
  Arena *arena;
  Diag *diag;
} Parser;

/* ---- Parsing ---- */

static Place place_of(const Parser *parser, const char *from) {
  Place at = parser->at;
  if (at.column > 0) at.column += (int)(from - parser->text);
  at.width = 1;
  return at;
}

static const Expression *fail(Parser *parser, const char *what) {
  const Place at = place_of(parser, parser->next);
  if (*parser->next)
    diag_error(parser->diag, at, "%s at '%.16s' of '%s'", what, parser->next, parser->text);
  else
    diag_error(parser->diag, at, "%s at the end of '%s'", what, parser->text);
  return NULL;
}

static void skip_space(Parser *parser) {
  while (isspace((unsigned char)*parser->next))
    parser->next++;
}

/* Takes `token` if it is next. */
static bool take(Parser *parser, const char *token) {
  skip_space(parser);
  const size_t length = strlen(token);
  if (strncmp(parser->next, token, length) != 0) return false;
  if (isalpha((unsigned char)*token) && isalnum((unsigned char)parser->next[length])) return false;
  parser->next += length;
  return true;
}

static Expression *make(Parser *parser, ExpressionKind kind, const char *from) {
  Expression *made = ARENA_NEW(parser->arena, Expression);
  made->kind = kind;
  made->at = place_of(parser, from);
  return made;
}

static const Expression *parse_level(Parser *parser, int level);

static bool in_name(char c) {
  return isalnum((unsigned char)c) || c == '_' || c == '.';
}

/* The arguments between parentheses, the first of which has been taken. */
static int parse_arguments(Parser *parser, Expression *call) {
  while (!take(parser, ")")) {
    if (call->n_arguments > 0 && !take(parser, ",")) return fail(parser, "expected ',' or ')'"), -1;
    if (call->n_arguments == EXPRESSION_MAX_ARGUMENTS)
      return fail(parser, "too many arguments"), -1;
    const Expression *argument = parse_level(parser, 0);
    if (!argument) return -1;
    call->arguments[call->n_arguments++] = argument;
  }
  return 0;
}

/* argmax(x, 1, 2, f(x)): the variable becomes the name. */
static const Expression *finish_argmax(Parser *parser, Expression *call) {
  const Expression *variable = call->n_arguments > 2 ? call->arguments[0] : NULL;
  if (!variable || variable->kind != EXPR_NAME || variable->n_arguments > 0)
    return fail(parser, "argmax needs a name, values and a function of it");
  call->kind = EXPR_ARGMAX;
  call->name = variable->name;
  memmove(call->arguments, call->arguments + 1,
          (size_t)--call->n_arguments * sizeof *call->arguments);
  return call;
}

static const Expression *parse_name(Parser *parser) {
  const char *from = parser->next;
  while (in_name(*parser->next))
    parser->next++;
  Expression *name = make(parser, EXPR_NAME, from);
  name->name = arena_copy(parser->arena, from, (size_t)(parser->next - from));
  name->at.width = (int)(parser->next - from);
  if (take(parser, "(") && parse_arguments(parser, name)) return NULL;
  return strcmp(name->name, "argmax") == 0 ? finish_argmax(parser, name) : name;
}

static const Expression *parse_number(Parser *parser) {
  Expression *number = make(parser, EXPR_NUMBER, parser->next);
  char *end = NULL;
  number->number = strtod(parser->next, &end);
  parser->next = end;
  if (take(parser, "%")) number->number /= 100;
  return number;
}

static const Expression *parse_factor(Parser *parser);

static const Expression *parse_bare(Parser *parser) {
  skip_space(parser);
  const char *from = parser->next;
  if (take(parser, "-")) {
    Expression *negated = make(parser, EXPR_NEGATE, from);
    negated->arguments[0] = parse_factor(parser);
    return negated->arguments[0] ? negated : NULL;
  }
  if (take(parser, "(")) {
    const Expression *inner = parse_level(parser, 0);
    if (inner && !take(parser, ")")) return fail(parser, "expected ')'");
    return inner;
  }
  if (isdigit((unsigned char)*from)) return parse_number(parser);
  if (isalpha((unsigned char)*from)) return parse_name(parser);
  return fail(parser, "expected a number or a name");
}

static const Expression *parse_factor(Parser *parser) {
  if (parser->depth == MAX_DEPTH) return fail(parser, "too deeply nested");
  parser->depth++;
  const Expression *factor = parse_bare(parser);
  parser->depth--;
  return factor;
}

/* Binary operators, loosest first; each level associates to the left. A longer token stands before
 * one that it begins with. */
enum { LEVELS = 4 };
static const struct {
  const char *token;
  Operator op;
  int level;
} operators[] = {{"and", OP_AND, 0}, {"<=", OP_LE, 1}, {">=", OP_GE, 1},
                 {"<", OP_LT, 1},    {">", OP_GT, 1},  {"+", OP_ADD, 2},
                 {"-", OP_SUB, 2},   {"*", OP_MUL, 3}, {"/", OP_DIV, 3}};
enum { N_OPERATORS = sizeof operators / sizeof *operators };

static bool take_operator(Parser *parser, int level, Operator *ret_op) {
  for (int i = 0; i < N_OPERATORS; i++)
    if (operators[i].level == level && take(parser, operators[i].token)) {
      *ret_op = operators[i].op;
      return true;
    }
  return false;
}

static const Expression *parse_level(Parser *parser, int level) {
  if (level == LEVELS) return parse_factor(parser);
  const Expression *left = parse_level(parser, level + 1);
  Operator op;
  while (left && take_operator(parser, level, &op)) {
    Expression *binary = make(parser, EXPR_BINARY, parser->next);
    binary->op = op;
    binary->arguments[0] = left;
    binary->arguments[1] = parse_level(parser, level + 1);
    left = binary->arguments[1] ? binary : NULL;
  }
  return left;
}

const Expression *expression_parse(const char *text, Place at, Arena *arena, Diag *diag) {
  Parser parser = {.text = text, .next = text, .at = at, .arena = arena, .diag = diag};
  const Expression *parsed = parse_level(&parser, 0);
  skip_space(&parser);
  if (parsed && *parser.next) return fail(&parser, "expected an operator");
  return parsed;
}

/* ---- Evaluation ---- */

/* The variable of an argmax, seen before the names outside. */
typedef struct Binding {
  const ExpressionScope *outer;
  const char *name;
  double value;
} Binding;

static int find_bound(void *context, const char *name, const double *arguments, int n_arguments,
                      Place at, double *ret_value, Diag *diag) {
  const Binding *binding = context;
  if (n_arguments == 0 && strcmp(name, binding->name) == 0) {
    *ret_value = binding->value;
    return 0;
  }
  return binding->outer->find(binding->outer->context, name, arguments, n_arguments, at, ret_value,
                              diag);
}

static double apply(Operator op, double a, double b) {
  if (isnan(a) || isnan(b)) return NAN;
  switch (op) {
  case OP_ADD:
    return a + b;
  case OP_SUB:
    return a - b;
  case OP_MUL:
    return a * b;
  case OP_DIV:
    return a / b;
  case OP_LE:
    return a <= b;
  case OP_GE:
    return a >= b;
  case OP_LT:
    return a < b;
  case OP_GT:
    return a > b;
  case OP_AND:
    return a != 0 && b != 0;
  }
  assert(!"an operator");
  return NAN;
}

/* ---- Built in: each of n > 0 values, none of them NAN ---- */

static double least(const double *values, int n) {
  double result = values[0];
  for (int i = 1; i < n; i++)
    result = values[i] < result ? values[i] : result;
  return result;
}

static double greatest(const double *values, int n) {
  double result = values[0];
  for (int i = 1; i < n; i++)
    result = values[i] > result ? values[i] : result;
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

/* at_max(x1, y1, x2, y2, …). */
static double at_max(const double *values, int n) {
  int best = 0;
  for (int i = 2; i + 1 < n; i += 2)
    if (values[i + 1] > values[best + 1]) best = i;
  return n >= 2 && n % 2 == 0 ? values[best] : NAN;
}

/* reaches(y, x1, y1, x2, y2, …). */
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

/* True and the value when `name` is built in. A NAN among the values is the result. */
static bool built_in(const char *name, const double *values, int n, double *ret_value) {
  static const struct {
    const char *name;
    double (*eval)(const double *values, int n);
  } functions[] = {{"min", least},     {"max", greatest},    {"mean", mean},
                   {"at_max", at_max}, {"reaches", reaches}, {"geomean", geometric_mean}};
  for (size_t f = 0; n > 0 && f < sizeof functions / sizeof *functions; f++) {
    if (strcmp(functions[f].name, name) != 0) continue;
    bool known = true;
    for (int i = 0; i < n; i++)
      known &= !isnan(values[i]);
    *ret_value = known ? functions[f].eval(values, n) : NAN;
    return true;
  }
  return false;
}

static int eval_name(const Expression *self, const ExpressionScope *scope, double *ret_value,
                     Diag *diag) {
  double values[EXPRESSION_MAX_ARGUMENTS];
  for (int i = 0; i < self->n_arguments; i++)
    if (expression_eval(self->arguments[i], scope, &values[i], diag)) return -1;
  if (built_in(self->name, values, self->n_arguments, ret_value)) return 0;
  return scope->find(scope->context, self->name, values, self->n_arguments, self->at, ret_value,
                     diag);
}

static int eval_argmax(const Expression *self, const ExpressionScope *scope, double *ret_value,
                       Diag *diag) {
  const Expression *function = self->arguments[self->n_arguments - 1];
  double best = -INFINITY;
  *ret_value = NAN;
  for (int i = 0; i < self->n_arguments - 1; i++) {
    Binding binding = {.outer = scope, .name = self->name};
    const ExpressionScope inner = {find_bound, &binding};
    double value;
    if (expression_eval(self->arguments[i], scope, &binding.value, diag) ||
        expression_eval(function, &inner, &value, diag))
      return -1;
    if (isnan(value)) {
      *ret_value = NAN;
      return 0;
    }
    if (value > best) {
      best = value;
      *ret_value = binding.value;
    }
  }
  return 0;
}

int expression_eval(const Expression *self, const ExpressionScope *scope, double *ret_value,
                    Diag *diag) {
  double a, b;
  switch (self->kind) {
  case EXPR_NUMBER:
    *ret_value = self->number;
    return 0;
  case EXPR_NEGATE:
    if (expression_eval(self->arguments[0], scope, &a, diag)) return -1;
    *ret_value = -a;
    return 0;
  case EXPR_BINARY:
    if (expression_eval(self->arguments[0], scope, &a, diag) ||
        expression_eval(self->arguments[1], scope, &b, diag))
      return -1;
    *ret_value = apply(self->op, a, b);
    return 0;
  case EXPR_NAME:
    return eval_name(self, scope, ret_value, diag);
  case EXPR_ARGMAX:
    return eval_argmax(self, scope, ret_value, diag);
  }
  assert(!"a kind of expression");
  return -1;
}
