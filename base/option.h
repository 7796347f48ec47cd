/* Options as data: one table serves binding, range checks, defaults, --help and near-miss hints.
 *
 * A table is an array of OptionSpec ended by a row whose key is NULL. Each row names a YAML key and
 * the offset of the field it fills; the field's C type follows from `type`. */
#ifndef BASE_OPTION_H
#define BASE_OPTION_H
#include "base/units.h"
#include "base/yaml.h"
#include <stddef.h>

typedef enum OptionType {
  OPTION_INT,       // int64_t; 1e6 and 2k accepted when whole
  OPTION_REAL,      // double
  OPTION_BOOL,      // bool: true or false
  OPTION_STRING,    // const char *, without control characters
  OPTION_CHOICE,    // int: index into `choices`
  OPTION_TICKS,     // Tick, from a time with unit
  OPTION_BYTES,     // int64_t, from a size with unit
  OPTION_BANDWIDTH, // int64_t bytes per second
  OPTION_RATE,      // double per second
  OPTION_POWER,     // double watts
  OPTION_MONEY,     // double dollars per hour
  OPTION_LIFETIME,  // double seconds, longer than ticks reach
  OPTION_NODE,      // const Node *: the subtree, bound by the caller
} OptionType;

typedef struct OptionSpec {
  const char *key;
  OptionType type;
  size_t offset;
  const char *fallback;       // default as YAML text; NULL: see `required`
  bool required;              // absent is an error; else a NULL fallback leaves the field untouched
  double min, max;            // allowed range in base units (seconds for ticks); both 0: unchecked
  const char *const *choices; // OPTION_CHOICE: NULL-terminated names
  const char *help;           // of a key: sentences, or a noun phrase first
  const char *value;          // what the help of a command calls the value; NULL: not on its line
  const char *also;           // what others call the key, between spaces: hints find it by that
  const char *absent;         // what holds without the key, in words, where `fallback` is NULL
  const char *listed;         // what of `tandem list` has the values; NULL: none has
  const char *word;           // of a number: what may stand in its place, and then is -1
  const char *tries;          // values worth a trial, between spaces ('tandem tune'); NULL: none
  const char *group;          // heading of this row and of those below it in the help of a command
} OptionSpec;

/* A row for a field, which may lie in another, and one whose key is the name of its field. */
#define OPTION_AT(Struct, name, field, kind, ...)                                                  \
  { .key = (name), .type = (kind), .offset = offsetof(Struct, field), __VA_ARGS__ }
#define OPTION_OF(Struct, field, kind, ...) OPTION_AT(Struct, #field, field, kind, __VA_ARGS__)

/* Fills the fields of `target` with the defaults. Defaults in tables are trusted (asserted). */
void option_defaults(const OptionSpec *specs, void *target);
/* Defaults first, then every key of `map` (NULL: none). Reports all of: unknown key (with a
 * near-miss hint), wrong type or unit, out of range, missing required key (placed at `map`, or
 * `owner` if NULL). Keys in the NULL-terminated `extra` are skipped: the caller reads those.
 * Strings live in the arena of the tree. Returns 0 or -1. */
int option_bind(const OptionSpec *specs, const Node *map, const char *const *extra, Place owner,
                void *target, Diag *diag);
/* One scalar by one row; for callers that read a key by hand. */
int option_bind_one(const OptionSpec *spec, const Node *value, void *target, Diag *diag);
/* What the value is, and its range: "time, 1 us to 60 s"; of choices their names. */
const char *option_values(const OptionSpec *spec, Arena *arena);
/* What holds without the key: its default, or `absent`, or "required"; NULL: not said. */
const char *option_default(const OptionSpec *spec);
/* The value of a row whose type is INT, REAL, BOOL or CHOICE in `target`, as it could be written;
 * NULL of other types. */
const char *option_text(const OptionSpec *spec, const void *target, Arena *arena);
/* The dimension of the values, DIM_NONE where they are no quantities. */
Dimension option_dimension(const OptionSpec *spec);
/* Each row as "key (values; default)", indented by `indent` spaces, and its help below. */
void option_print(const OptionSpec *specs, int indent, FILE *out);
#endif
