/* Lines as they are read, from whoever wrote them. */
#include "base/text.h"
#include "calib/operators.h"
#include "calib/protocol.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 4096, LONG_TEXT_MAX = 1 << 16 }; // bytes of a string: of a path, for people

static int refuse(const char *key, const char *expected, Field value, char *error) {
  enum { SHOWN = 40 };
  char shown[SHOWN + 1];
  const size_t length = text_cut(value.text, value.length < SHOWN ? (size_t)value.length : SHOWN);
  memcpy(shown, value.text, length);
  shown[length] = '\0';
  return calib_failed(CALIB_REJECTED, error, "'%s' must be %s, not '%s'", key, expected, shown);
}

static int missing(const char *key, char *error) {
  return calib_failed(CALIB_REJECTED, error, "'%s' is missing", key);
}

/* ---- The object ---- */

/* What the scanner says, and in which column. */
static int report(const Diag *diag, char *error) {
  const DiagEntry *entry = &diag->entries[0];
  return calib_failed(CALIB_REJECTED, error, "column %d: %s", entry->at.column, entry->message);
}

static int read_members(ProtocolObject *self, JsonScanner *scanner, char *error) {
  Field key, value;
  int status;
  while ((status = json_member(scanner, &key, &value)) > 0) {
    for (int i = 0; i < self->n; i++) {
      if (self->keys[i].length != key.length ||
          memcmp(self->keys[i].text, key.text, (size_t)key.length) != 0)
        continue;
      return calib_failed(CALIB_REJECTED, error, "member %d repeats a key", self->n + 1);
    }
    if (self->n == PROTOCOL_MEMBERS_MAX)
      return calib_failed(CALIB_REJECTED, error, "the object has more than %d members",
                          PROTOCOL_MEMBERS_MAX);
    self->keys[self->n] = key;
    self->values[self->n++] = value;
  }
  if (status == 0) status = json_end(scanner);
  return status < 0 ? report(scanner->diag, error) : 0;
}

static int parse(ProtocolObject *self, const Line *line, Field field, char *error) {
  Diag diag;
  diag_init(&diag);
  JsonScanner scanner = json_scanner(line, field, &diag);
  self->line = *line;
  self->n = 0;
  const int status = read_members(self, &scanner, error);
  diag_done(&diag);
  return status;
}

int protocol_parse(ProtocolObject *self, const char *text, size_t length, char *error) {
  const Line line = {.text = text, .length = (int)length, .number = 1};
  if (length <= PROTOCOL_LINE_MAX) return parse(self, &line, (Field){0}, error);
  return calib_failed(CALIB_REJECTED, error, "the line is longer than %d MiB",
                      PROTOCOL_LINE_MAX >> 20);
}

const Field *protocol_find(const ProtocolObject *self, const char *key) {
  for (int i = 0; i < self->n; i++)
    if (field_is(self->keys[i], key))
      return field_is(self->values[i], "null") ? NULL : &self->values[i];
  return NULL;
}

/* ---- Values ---- */

/* Copies a number to `ret`, with a NUL; false when it is none. */
static bool take_digits(Field value, char ret[40], const char *characters) {
  if (value.length < 1 || value.length >= 40) return false;
  memcpy(ret, value.text, (size_t)value.length);
  ret[value.length] = '\0';
  return strspn(ret, characters) == (size_t)value.length;
}

static int read_int(const char *key, Field value, int64_t least, int64_t most, int64_t *ret_value,
                    char *error) {
  char text[40], *end = text, expected[96];
  errno = 0;
  if (take_digits(value, text, "-0123456789")) *ret_value = strtoll(text, &end, 10);
  if (end != text && *end == '\0' && errno == 0 && *ret_value >= least && *ret_value <= most)
    return 0;
  snprintf(expected, sizeof expected, "a whole number from %lld to %lld", (long long)least,
           (long long)most);
  return refuse(key, expected, value, error);
}

static int read_uint64(const char *key, Field value, uint64_t *ret_value, char *error) {
  char text[40], *end = text;
  errno = 0;
  if (take_digits(value, text, "0123456789")) *ret_value = strtoull(text, &end, 10);
  if (end != text && *end == '\0' && errno == 0) return 0;
  return refuse(key, "a whole number of at most 64 bits", value, error);
}

static int read_number(const char *key, Field value, double *ret_value, char *error) {
  if (field_number(value, 1e30, ret_value)) return 0;
  return refuse(key, "a number from 0 to 1e30", value, error);
}

static int read_bool(const char *key, Field value, bool *ret_value, char *error) {
  *ret_value = field_is(value, "true");
  return *ret_value || field_is(value, "false") ? 0 : refuse(key, "true or false", value, error);
}

/* What people read: as much as there is room for, on one line. */
static int read_line(const char *key, Field value, char *ret_text, size_t room, char *error) {
  char text[LONG_TEXT_MAX];
  if (!json_text(value, text, sizeof text)) return refuse(key, "text", value, error);
  for (char *at = text; *at; at++)
    if ((unsigned char)*at < ' ') *at = ' ';
  const size_t length = strlen(text), cut = text_cut(text, length < room ? length : room - 1);
  memcpy(ret_text, text, cut);
  ret_text[cut] = '\0';
  return 0;
}

static int read_word(const char *key, Field value, const char *const *words, int *ret_index,
                     char *error) {
  char text[64];
  const bool is_text = json_text(value, text, sizeof text);
  for (int i = 0; is_text && words[i]; i++) {
    if (strcmp(words[i], text) != 0) continue;
    *ret_index = i;
    return 0;
  }
  return refuse(key, "a known name", value, error);
}

static int read_string(const char *key, Field value, const char **ret_text, Arena *arena,
                       char *error) {
  char text[TEXT_MAX];
  if (!json_text(value, text, sizeof text) || !text_is_plain(text))
    return refuse(key, "plain text of less than 4096 bytes", value, error);
  *ret_text = arena_copy(arena, text, strlen(text));
  return 0;
}

static int read_field(const ProtocolField *field, Field value, void *ret, Arena *arena,
                      char *error) {
  int64_t number = 0;
  bool is_on = false;
  const char *key = field->name;
  switch (field->type) {
  case PROTOCOL_INT32:
    if (read_int(key, value, field->least, INT32_MAX, &number, error)) return -1;
    *(int32_t *)ret = (int32_t)number;
    return 0;
  case PROTOCOL_INT64:
    return read_int(key, value, field->least, INT64_MAX, ret, error);
  case PROTOCOL_UINT64:
    return read_uint64(key, value, ret, error);
  case PROTOCOL_NUMBER:
    return read_number(key, value, ret, error);
  case PROTOCOL_BOOL:
    return read_bool(key, value, ret, error);
  case PROTOCOL_TEXT:
    return read_line(key, value, ret, field->room, error);
  case PROTOCOL_STRING:
    return read_string(key, value, ret, arena, error);
  case PROTOCOL_WORD:
    return read_word(key, value, field->words, ret, error);
  case PROTOCOL_SWITCH:
    if (read_bool(key, value, &is_on, error)) return -1;
    *(CalibSwitch *)ret = is_on ? CALIB_ON : CALIB_OFF;
    return 0;
  }
  return -1;
}

int protocol_get_struct(const ProtocolObject *self, const ProtocolField *fields, void *ret,
                        Arena *arena, char *error) {
  for (const ProtocolField *field = fields; field->name; field++) {
    const Field *value = protocol_find(self, field->name);
    if (value && read_field(field, *value, (char *)ret + field->offset, arena, error)) return -1;
  }
  return 0;
}

int protocol_get_text(const ProtocolObject *self, const char *key, char *ret_text, size_t room,
                      char *error) {
  const Field *value = protocol_find(self, key);
  *ret_text = '\0';
  return value ? read_line(key, *value, ret_text, room, error) : 0;
}

int protocol_get_number(const ProtocolObject *self, const char *key, double *ret_value,
                        char *error) {
  const Field *value = protocol_find(self, key);
  return value ? read_number(key, *value, ret_value, error) : missing(key, error);
}

int protocol_get_count(const ProtocolObject *self, const char *key, int32_t *ret_value,
                       char *error) {
  int64_t number = 0;
  const Field *value = protocol_find(self, key);
  if (!value) return missing(key, error);
  if (read_int(key, *value, 1, INT32_MAX, &number, error)) return -1;
  *ret_value = (int32_t)number;
  return 0;
}

int protocol_get_word(const ProtocolObject *self, const char *key, const char *const *words,
                      int *ret_index, char *error) {
  const Field *value = protocol_find(self, key);
  return value ? read_word(key, *value, words, ret_index, error) : missing(key, error);
}

/* ---- Lists ---- */

int protocol_get_names(const ProtocolObject *self, const char *key, const char *const *names,
                       bool *ret_has, char *error) {
  char text[64];
  Field element;
  int status = 0;
  const Field *value = protocol_find(self, key);
  if (!value) return 0;
  JsonScanner scanner = json_scanner(&self->line, *value, NULL);
  while ((status = json_element(&scanner, &element)) > 0)
    for (int i = 0; json_text(element, text, sizeof text) && names[i]; i++)
      if (strcmp(text, names[i]) == 0) ret_has[i] = true;
  return status < 0 || json_end(&scanner) < 0 ? refuse(key, "a list of names", *value, error) : 0;
}

int protocol_get_columns(const ProtocolObject *self, int64_t ret_columns[CALIB_N_TENSORS],
                         char *error) {
  ProtocolObject columns;
  const Field *value = protocol_find(self, "columns");
  if (!value) return missing("columns", error);
  if (parse(&columns, &self->line, *value, error)) return -1;
  for (int i = 0; i < CALIB_N_TENSORS; i++) {
    const Field *number = protocol_find(&columns, calib_tensor_names[i]);
    ret_columns[i] = 0;
    if (number &&
        read_int(calib_tensor_names[i], *number, 0, PROTOCOL_COLUMNS_MAX, &ret_columns[i], error))
      return -1;
  }
  return 0;
}

/* "[new_tokens, past_tokens]". */
static bool read_sequence(const Line *line, Field pair, CalibSequence *ret_sequence) {
  char unused[CALIB_ERROR_SIZE];
  Field number;
  int64_t tokens[2] = {0, 0};
  JsonScanner scanner = json_scanner(line, pair, NULL);
  for (int i = 0; i < 2; i++)
    if (json_element(&scanner, &number) <= 0 ||
        read_int("", number, i == 0, INT32_MAX, &tokens[i], unused))
      return false;
  *ret_sequence = (CalibSequence){(int32_t)tokens[0], (int32_t)tokens[1]};
  return json_element(&scanner, &number) == 0 && json_end(&scanner) == 0;
}

static int read_sequences(const ProtocolObject *self, Field value, CalibBatch *batch, Arena *arena,
                          char *error) {
  CalibSequence *sequences = NULL;
  size_t capacity = 0, n = 0;
  Field pair;
  int status;
  JsonScanner scanner = json_scanner(&self->line, value, NULL);
  while ((status = json_element(&scanner, &pair)) > 0 && n < PROTOCOL_SEQUENCES_MAX) {
    ARENA_RESERVE(arena, sequences, capacity, n + 1);
    if (!read_sequence(&self->line, pair, &sequences[n++]))
      return refuse("sequences", "pairs of new (at least 1) and past tokens", pair, error);
  }
  batch->sequences = sequences;
  batch->n_decodes = (int32_t)n;
  if (status == 0 && json_end(&scanner) == 0) return 0;
  return refuse("sequences", "a list of pairs", value, error);
}

int protocol_get_batch(const ProtocolObject *self, CalibBatch *ret_batch, Arena *arena,
                       char *error) {
  const Field *sequences = protocol_find(self, "sequences");
  const Field *prefills = protocol_find(self, "n_prefills"),
              *logits = protocol_find(self, "n_logits");
  int64_t n_prefills = 0, n_logits = 0;
  *ret_batch = (CalibBatch){.sequences = NULL};
  if (sequences && read_sequences(self, *sequences, ret_batch, arena, error)) return -1;
  const int32_t n = ret_batch->n_decodes;
  if (prefills && read_int("n_prefills", *prefills, 0, n, &n_prefills, error)) return -1;
  if (logits && read_int("n_logits", *logits, 0, n, &n_logits, error)) return -1;
  ret_batch->n_prefills = (int32_t)n_prefills;
  ret_batch->n_decodes = n - (int32_t)n_prefills;
  ret_batch->n_logits = (int32_t)n_logits;
  return 0;
}
