/* What Tandem and a backend's program say to one another, as text: PROTOCOL.md has it for those who
 * write a program.
 *
 * One JSON object on a line each way, in ASCII. Structs of backend.h cross by tables here, a row
 * for each field, both ways: a new field is one row. Either side may be newer or written by
 * somebody else, so members that are not known are passed over, those that are absent leave a field
 * as it was, and everything else is checked for type, length and range. */
#ifndef CALIB_PROTOCOL_H
#define CALIB_PROTOCOL_H
#include "base/json.h"
#include "calib/backend.h"

enum {
  PROTOCOL_VERSION = 1,
  PROTOCOL_LINE_MAX = LINE_LENGTH_MAX,
  PROTOCOL_NUMBERS_MAX = 1 << 17, // of tensors in one line, or one row if that has more
  PROTOCOL_COLUMNS_MAX = 1 << 20, // of one row
  PROTOCOL_SEQUENCES_MAX = 1 << 19,
  PROTOCOL_MEMBERS_MAX = 64, // of one object
};

typedef enum ProtocolType {
  PROTOCOL_INT32, // and enums without names
  PROTOCOL_INT64,
  PROTOCOL_UINT64,
  PROTOCOL_NUMBER, // double, finite and not negative; NAN is null
  PROTOCOL_BOOL,
  PROTOCOL_TEXT,   // char[room]
  PROTOCOL_STRING, // const char *, NULL is null
  PROTOCOL_WORD,   // an enum, one of `words`
  PROTOCOL_SWITCH, // CalibSwitch: false, true, and null where it is unknown
} ProtocolType;

typedef struct ProtocolField {
  const char *name; // NULL ends a table
  ProtocolType type;
  size_t offset, room;
  const char *const *words; // NULL-terminated
  int64_t least;            // of an integer; the greatest is that of its type
} ProtocolField;

extern const ProtocolField protocol_hello[], protocol_options[], protocol_device[],
    protocol_model[], protocol_point[], protocol_slice[], protocol_telemetry[];

/* What a program says first. */
typedef struct ProtocolHello {
  int32_t protocol;
  char name[64], help[128];
  bool whole;
} ProtocolHello;

/* Names of what a program may leave out, in its hello's list `calls`. */
#define PROTOCOL_CALLS(X) X(supports) X(measure) X(verify) X(telemetry) X(read)
typedef enum ProtocolCall {
#define X(name) PROTOCOL_CAN_##name,
  PROTOCOL_CALLS(X)
#undef X
      PROTOCOL_N_CALLS,
} ProtocolCall;
extern const char *const protocol_calls[]; // [PROTOCOL_N_CALLS], then NULL

/* "ok", which no answer says, "rejected", "environment" …: −status of CalibStatus. */
extern const char *const protocol_statuses[];

/* ---- Writing ---- */

/* A line as it grows. */
typedef struct ProtocolLine {
  Arena *arena;
  char *text;
  size_t length, capacity;
} ProtocolLine;

/* Begins an object, in place of what was in the line. */
void protocol_begin(ProtocolLine *self);
void protocol_put_text(ProtocolLine *self, const char *key, const char *value);
void protocol_put_int(ProtocolLine *self, const char *key, int64_t value);
void protocol_put_number(ProtocolLine *self, const char *key, double value);
void protocol_put_struct(ProtocolLine *self, const ProtocolField *fields, const void *from);
void protocol_put_batch(ProtocolLine *self, const CalibBatch *batch);
/* The names for which `has` is true, as a list. */
void protocol_put_names(ProtocolLine *self, const char *key, const char *const *names,
                        const bool *has);
/* The columns of each tensor that has any, as an object. */
void protocol_put_columns(ProtocolLine *self, const int64_t columns[CALIB_N_TENSORS]);
/* `n` numbers, exactly: protocol_numbers.c. */
void protocol_put_values(ProtocolLine *self, const double *values, int64_t n);
/* Ends it, with a line end. */
void protocol_end(ProtocolLine *self);

/* Appends bytes as they are. */
void protocol_append(ProtocolLine *self, const char *text, size_t length);
/* Appends a key; what comes next is its value. */
void protocol_put_key(ProtocolLine *self, const char *key);

/* ---- Reading ---- */

/* The members of a line's object. Values last as long as the line. */
typedef struct ProtocolObject {
  Line line;
  Field keys[PROTOCOL_MEMBERS_MAX], values[PROTOCOL_MEMBERS_MAX];
  int n;
} ProtocolObject;

/* All that follows returns −1 with a line in `error` (CALIB_ERROR_SIZE) on what is no such thing,
 * and what it gives is then unspecified. Absent members are none: what is given stays as it was. */
int protocol_parse(ProtocolObject *self, const char *text, size_t length, char *error);
/* NULL when it is absent or null. */
const Field *protocol_find(const ProtocolObject *self, const char *key);
/* Strings are copied to the arena. */
int protocol_get_struct(const ProtocolObject *self, const ProtocolField *fields, void *ret,
                        Arena *arena, char *error);
/* What is meant for people: as much as there is room for, on one line; "" when it is absent. */
int protocol_get_text(const ProtocolObject *self, const char *key, char *ret_text, size_t room,
                      char *error);
int protocol_get_number(const ProtocolObject *self, const char *key, double *ret_value,
                        char *error);
/* From 1 to INT32_MAX; must be there. */
int protocol_get_count(const ProtocolObject *self, const char *key, int32_t *ret_value,
                       char *error);
/* The index of a name, such as an operator's; must be there. */
int protocol_get_word(const ProtocolObject *self, const char *key, const char *const *words,
                      int *ret_index, char *error);
/* Each name sets its place in `ret_has`; others are passed over. */
int protocol_get_names(const ProtocolObject *self, const char *key, const char *const *names,
                       bool *ret_has, char *error);
int protocol_get_columns(const ProtocolObject *self, int64_t ret_columns[CALIB_N_TENSORS],
                         char *error);
/* Sequences of 1 or more new tokens; without any, a batch of none. */
int protocol_get_batch(const ProtocolObject *self, CalibBatch *ret_batch, Arena *arena,
                       char *error);
/* Exactly `n` numbers, which must be there. */
int protocol_get_values(const ProtocolObject *self, double *ret_values, int64_t n, char *error);
#endif
