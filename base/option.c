/* Binding of YAML scalars to fields by type. What a type is called, which dimension its text has
 * and whether its field is an integer are rows of TYPES; the functions below have no case per unit.
 */
#include "base/option.h"
#include "base/text.h"
#include "base/units.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct TypeRow {
  const char *wants; // what a message calls it; NULL: what its dimension is called
  const char *name;  // what lists call it
  bool numeric, whole;
  Dimension dimension;
  double limit; // largest magnitude that the field can hold, in base units
} TypeRow;

static const TypeRow TYPES[] = {
    [OPTION_INT] = {"a whole number such as '8192'", "whole number", true, true, DIM_NONE, 9.2e18},
    [OPTION_REAL] = {"a number such as '0.9'", "number", true, false, DIM_NONE, INFINITY},
    [OPTION_BOOL] = {.wants = "true or false", .name = "true or false"},
    [OPTION_STRING] = {.wants = "text", .name = "text"},
    [OPTION_CHOICE] = {.wants = "a name", .name = "name"},
    [OPTION_TICKS] = {NULL, "time", true, true, DIM_TIME, 9.2e6},
    [OPTION_BYTES] = {NULL, "size", true, true, DIM_BYTES, 9.2e18},
    [OPTION_BANDWIDTH] = {NULL, "bandwidth", true, true, DIM_BANDWIDTH, 9.2e18},
    [OPTION_RATE] = {NULL, "rate", true, false, DIM_RATE, INFINITY},
    [OPTION_POWER] = {NULL, "power", true, false, DIM_POWER, INFINITY},
    [OPTION_MONEY] = {NULL, "price", true, false, DIM_MONEY, INFINITY},
    [OPTION_LIFETIME] = {NULL, "time", true, false, DIM_TIME, INFINITY},
    [OPTION_NODE] = {.wants = "anything", .name = "text, map or list"},
};

static const char *type_wants(const OptionSpec *spec) {
  const TypeRow *type = &TYPES[spec->type];
  return type->wants ? type->wants : units_describe(type->dimension);
}

static int wrong_type(const char *key, const char *wants, const Node *value, Diag *diag) {
  if (value->kind == NODE_LIST)
    return diag_error(diag, value->at, "'%s' must be %s, not a list", key, wants);
  if (value->kind == NODE_MAP)
    return diag_error(diag, value->at, "'%s' must be %s, not a map", key, wants);
  if (node_is_null(value))
    return diag_error(diag, value->at, "'%s' must be %s, but has no value", key, wants);
  diag_error(diag, value->at, "'%s' must be %s, not %s'%s'", key, wants,
             value->quoted ? "the quoted text " : "", node_shown(value, &diag->arena));
  if (value->quoted) diag_hint(diag, "remove the quotes");
  return -1;
}

/* Of a quantity, which has units. */
static int wrong_number(const OptionSpec *spec, const Node *value, Diag *diag) {
  const TypeRow *type = &TYPES[spec->type];
  char units[160];
  wrong_type(spec->key, type_wants(spec), value, diag);
  if (value->quoted || type->dimension == DIM_NONE) return -1;
  units_list(units, sizeof units, type->dimension);
  diag_hint(diag, "the units are %s", units);
  return -1;
}

typedef struct Range {
  double low, high;
} Range;

static Range range_of(const OptionSpec *spec) {
  const double limit = TYPES[spec->type].limit;
  if (spec->min == 0 && spec->max == 0) return (Range){-limit, limit};
  return (Range){fmax(spec->min, -limit), fmin(spec->max, limit)};
}

/* "at least 1", "at most 2", or both with `between` in front. Without `between`, NULL where any
 * value will do. */
static const char *range_text(const OptionSpec *spec, const char *between, Arena *arena) {
  const TypeRow *type = &TYPES[spec->type];
  const Range range = range_of(spec);
  char low[64], high[64];
  units_format(low, sizeof low, type->dimension, range.low);
  units_format(high, sizeof high, type->dimension, range.high);
  const bool from = range.low > -type->limit, to = range.high < type->limit;
  if (!from && !to && !*between) return NULL;
  return from == to ? arena_printf(arena, "%s%s to %s", between, low, high)
         : from     ? arena_printf(arena, "at least %s", low)
                    : arena_printf(arena, "at most %s", high);
}

/* `text`, whose value as a double is `real`; exact beyond 2^53 too when it is written in digits. */
static int64_t whole_number(const char *text, double real) {
  char *end = NULL;
  errno = 0;
  long long exact = strtoll(text, &end, 10);
  return *end || errno ? (int64_t)real : exact;
}

static int bind_number(const OptionSpec *spec, const Node *value, void *field, Diag *diag) {
  const TypeRow *type = &TYPES[spec->type];
  double real = 0;
  if (spec->word && !value->quoted && strcmp(value->text, spec->word) == 0) {
    const int64_t none = -1;
    const double other = -1;
    memcpy(field, type->whole ? (const void *)&none : &other, sizeof none);
    return 0;
  }
  if (value->quoted || !units_parse(value->text, type->dimension, &real) ||
      (spec->type == OPTION_INT && real != floor(real)))
    return wrong_number(spec, value, diag);
  const Range range = range_of(spec);
  if (real < range.low || real > range.high)
    return diag_error(diag, value->at, "'%s' must be %s, not '%s'", spec->key,
                      range_text(spec, "from ", &diag->arena), value->text);
  if (!type->whole) {
    memcpy(field, &real, sizeof real);
    return 0;
  }
  int64_t whole = llround(real);
  if (spec->type == OPTION_INT) whole = whole_number(value->text, real);
  if (spec->type == OPTION_TICKS) whole = tick_from_seconds(real);
  memcpy(field, &whole, sizeof whole);
  return 0;
}

static int bind_bool(const OptionSpec *spec, const Node *value, bool *field, Diag *diag) {
  bool yes = !strcmp(value->text, "true");
  if (value->quoted || (!yes && strcmp(value->text, "false") != 0))
    return wrong_type(spec->key, type_wants(spec), value, diag);
  *field = yes;
  return 0;
}

static int bind_choice(const OptionSpec *spec, const Node *value, int *field, Diag *diag) {
  for (int i = 0; spec->choices[i]; i++) {
    if (strcmp(value->text, spec->choices[i]) != 0) continue;
    *field = i;
    return 0;
  }
  diag_error(diag, value->at, "unknown %s '%s'", spec->key, node_shown(value, &diag->arena));
  diag_hint_near(diag, value->text, spec->choices);
  return -1;
}

/* Texts become names: of files, in tables, in pictures. */
static int bind_string(const OptionSpec *spec, const Node *value, const char **field, Diag *diag) {
  if (!text_is_plain(value->text))
    return diag_error(diag, value->at, "'%s' holds a control character", spec->key);
  *field = value->text;
  return 0;
}

int option_bind_one(const OptionSpec *spec, const Node *value, void *target, Diag *diag) {
  void *field = (char *)target + spec->offset;
  if (spec->type == OPTION_NODE) {
    *(const Node **)field = value;
    return 0;
  }
  if (value->kind != NODE_SCALAR || node_is_null(value))
    return wrong_type(spec->key, type_wants(spec), value, diag);
  switch (spec->type) {
  case OPTION_BOOL:
    return bind_bool(spec, value, field, diag);
  case OPTION_CHOICE:
    return bind_choice(spec, value, field, diag);
  case OPTION_STRING:
    return bind_string(spec, value, field, diag);
  default:
    return bind_number(spec, value, field, diag);
  }
}

void option_defaults(const OptionSpec *specs, void *target) {
  for (const OptionSpec *spec = specs; spec->key; spec++) {
    if (!spec->fallback) continue;
    assert(!spec->required && spec->type != OPTION_NODE);
    Diag diag = {0};
    Node value = {.kind = NODE_SCALAR, .text = spec->fallback};
    int status = option_bind_one(spec, &value, target, &diag);
    assert(status == 0);
  }
}

static bool is_listed(const char *const *names, const char *name) {
  for (; names && *names; names++)
    if (!strcmp(*names, name)) return true;
  return false;
}

/* The key that others call `word`, by the rows' `also`; else the word. */
static const char *also_called(const OptionSpec *specs, const char *word) {
  const size_t length = strlen(word);
  for (; specs->key; specs++)
    for (const char *at = specs->also; at && *at; at += strspn(at, " ")) {
      const size_t n = strcspn(at, " ");
      if (n == length && strncmp(at, word, n) == 0) return specs->key;
      at += n;
    }
  return word;
}

static int unknown_key(const OptionSpec *specs, const char *const *extra, const Node *node,
                       Diag *diag) {
  int n_specs = 0, n_extra = 0, n_names = 0;
  while (specs[n_specs].key)
    n_specs++;
  while (extra && extra[n_extra])
    n_extra++;
  const char **names = ARENA_ARRAY(&diag->arena, const char *, n_specs + n_extra + 1);
  for (int i = 0; i < n_specs; i++)
    names[n_names++] = specs[i].key;
  for (int i = 0; i < n_extra; i++)
    names[n_names++] = extra[i];
  diag_error(diag, node->key_at, "unknown key '%s'", node->key);
  diag_hint_near(diag, also_called(specs, node->key), names);
  return -1;
}

static int missing_key(const OptionSpec *spec, const Node *map, Place owner, Diag *diag) {
  Place at = !map ? owner : map->key ? map->key_at : map->at;
  if (spec->type == OPTION_NODE)
    diag_error(diag, at, "missing key '%s'", spec->key);
  else
    diag_error(diag, at, "missing key '%s' (%s)", spec->key, type_wants(spec));
  if (spec->help) diag_hint(diag, "%s: %s", spec->key, spec->help);
  return -1;
}

int option_bind(const OptionSpec *specs, const Node *map, const char *const *extra, Place owner,
                void *target, Diag *diag) {
  option_defaults(specs, target);
  if (map && map->kind != NODE_MAP)
    return wrong_type(map->key ? map->key : map->at.path, "a map", map, diag);
  int status = 0;
  for (const Node *node = map ? map->first : NULL; node; node = node->next) {
    const OptionSpec *spec = specs;
    while (spec->key && strcmp(spec->key, node->key) != 0)
      spec++;
    if (spec->key) {
      status |= option_bind_one(spec, node, target, diag);
    } else if (!is_listed(extra, node->key)) {
      status |= unknown_key(specs, extra, node, diag);
    }
  }
  for (const OptionSpec *spec = specs; spec->key; spec++)
    if (spec->required && !node_find(map, spec->key)) status |= missing_key(spec, map, owner, diag);
  return status;
}

const char *option_values(const OptionSpec *spec, Arena *arena) {
  const TypeRow *type = &TYPES[spec->type];
  const char *range = type->numeric ? range_text(spec, "", arena) : NULL;
  const char *text = type->name;
  for (int i = 0; spec->type == OPTION_CHOICE && spec->choices[i]; i++)
    text = i ? arena_printf(arena, "%s, %s", text, spec->choices[i]) : spec->choices[i];
  return range ? arena_printf(arena, "%s, %s", text, range) : text;
}

const char *option_text(const OptionSpec *spec, const void *target, Arena *arena) {
  const char *at = (const char *)target + spec->offset;
  switch (spec->type) {
  case OPTION_INT:
    return arena_printf(arena, "%" PRId64, *(const int64_t *)(const void *)at);
  case OPTION_REAL:
    return arena_printf(arena, "%.9g", *(const double *)(const void *)at);
  case OPTION_BOOL:
    return *(const bool *)at ? "true" : "false";
  case OPTION_CHOICE:
    return spec->choices[*(const int *)(const void *)at];
  default:
    return NULL;
  }
}

const char *option_default(const OptionSpec *spec) {
  return spec->required ? "required" : spec->fallback ? spec->fallback : spec->absent;
}

Dimension option_dimension(const OptionSpec *spec) {
  return TYPES[spec->type].dimension;
}

void option_print(const OptionSpec *specs, int indent, FILE *out) {
  Arena arena;
  arena_init(&arena);
  for (const OptionSpec *spec = specs; spec->key; spec++) {
    fprintf(out, "%*s%s (%s", indent, "", spec->key, option_values(spec, &arena));
    if (spec->listed) fprintf(out, ", see 'tandem list %s'", spec->listed);
    if (option_default(spec))
      fprintf(out, "; %s%s", spec->required ? "" : "default: ", option_default(spec));
    fputs(")\n", out);
    text_print_wrapped(spec->help, indent + 4, out);
  }
  arena_done(&arena);
}
