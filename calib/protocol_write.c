/* Lines as they are written: ASCII, whatever the texts hold. */
#include "base/text.h"
#include "calib/operators.h"
#include "calib/protocol.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

void protocol_append(ProtocolLine *self, const char *text, size_t length) {
  enum { LEAST = 1 << 12 };
  size_t capacity = self->capacity > 0 ? self->capacity : LEAST;
  while (capacity < self->length + length)
    capacity *= 2;
  if (capacity > self->capacity) self->text = arena_resize(self->arena, self->text, capacity);
  self->capacity = capacity;
  memcpy(self->text + self->length, text, length);
  self->length += length;
}

static void append(ProtocolLine *self, const char *text) {
  protocol_append(self, text, strlen(text));
}

void protocol_begin(ProtocolLine *self) {
  self->length = 0;
  append(self, "{");
}

void protocol_end(ProtocolLine *self) {
  append(self, "}\n");
}

static void append_string(ProtocolLine *self, const char *text) {
  char escape[16];
  append(self, "\"");
  for (size_t left = strlen(text); left > 0;) {
    uint32_t code = 0;
    int size = text_decode(text, left, &code);
    if (size == 0) code = '?', size = 1;
    if (code >= 0x10000)
      snprintf(escape, sizeof escape, "\\u%04" PRIx32 "\\u%04" PRIx32,
               0xd800 + ((code - 0x10000) >> 10), 0xdc00 + ((code - 0x10000) & 0x3ff));
    else if (code < ' ' || code > '~' || code == '"' || code == '\\')
      snprintf(escape, sizeof escape, "\\u%04" PRIx32, code);
    else
      snprintf(escape, sizeof escape, "%c", (char)code);
    append(self, escape);
    text += size;
    left -= (size_t)size;
  }
  append(self, "\"");
}

void protocol_put_key(ProtocolLine *self, const char *key) {
  if (self->length > 1 && self->text[self->length - 1] != '{') append(self, ",");
  append_string(self, key);
  append(self, ":");
}

static void append_int(ProtocolLine *self, int64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%" PRId64, value);
  append(self, text);
}

static void append_number(ProtocolLine *self, double value) {
  char text[40] = "null";
  if (isfinite(value)) snprintf(text, sizeof text, "%.17g", value);
  append(self, text);
}

void protocol_put_text(ProtocolLine *self, const char *key, const char *value) {
  protocol_put_key(self, key);
  append_string(self, value);
}

void protocol_put_int(ProtocolLine *self, const char *key, int64_t value) {
  protocol_put_key(self, key);
  append_int(self, value);
}

void protocol_put_number(ProtocolLine *self, const char *key, double value) {
  protocol_put_key(self, key);
  append_number(self, value);
}

static void append_field(ProtocolLine *self, const ProtocolField *field, const void *at) {
  char text[32];
  switch (field->type) {
  case PROTOCOL_INT32:
    append_int(self, *(const int32_t *)at);
    break;
  case PROTOCOL_INT64:
    append_int(self, *(const int64_t *)at);
    break;
  case PROTOCOL_UINT64:
    snprintf(text, sizeof text, "%" PRIu64, *(const uint64_t *)at);
    append(self, text);
    break;
  case PROTOCOL_NUMBER:
    append_number(self, *(const double *)at);
    break;
  case PROTOCOL_BOOL:
    append(self, *(const bool *)at ? "true" : "false");
    break;
  case PROTOCOL_TEXT:
    append_string(self, at);
    break;
  case PROTOCOL_STRING:
    append_string(self, *(const char *const *)at);
    break;
  case PROTOCOL_WORD:
    append_string(self, field->words[*(const int *)at]);
    break;
  case PROTOCOL_SWITCH:
    append(self, *(const CalibSwitch *)at == CALIB_ON    ? "true"
                 : *(const CalibSwitch *)at == CALIB_OFF ? "false"
                                                         : "null");
    break;
  }
}

void protocol_put_struct(ProtocolLine *self, const ProtocolField *fields, const void *from) {
  for (const ProtocolField *field = fields; field->name; field++) {
    const void *at = (const char *)from + field->offset;
    if (field->type == PROTOCOL_STRING && !*(const char *const *)at) continue;
    protocol_put_key(self, field->name);
    append_field(self, field, at);
  }
}

void protocol_put_batch(ProtocolLine *self, const CalibBatch *batch) {
  protocol_put_int(self, "n_prefills", batch->n_prefills);
  protocol_put_int(self, "n_logits", batch->n_logits);
  protocol_put_key(self, "sequences");
  append(self, "[");
  for (int32_t i = 0; i < batch->n_prefills + batch->n_decodes; i++) {
    append(self, i > 0 ? ",[" : "[");
    append_int(self, batch->sequences[i].new_tokens);
    append(self, ",");
    append_int(self, batch->sequences[i].past_tokens);
    append(self, "]");
  }
  append(self, "]");
}

void protocol_put_names(ProtocolLine *self, const char *key, const char *const *names,
                        const bool *has) {
  bool is_first = true;
  protocol_put_key(self, key);
  append(self, "[");
  for (int i = 0; names[i]; i++) {
    if (!has[i]) continue;
    if (!is_first) append(self, ",");
    append_string(self, names[i]);
    is_first = false;
  }
  append(self, "]");
}

void protocol_put_columns(ProtocolLine *self, const int64_t columns[CALIB_N_TENSORS]) {
  protocol_put_key(self, "columns");
  append(self, "{");
  for (int i = 0; i < CALIB_N_TENSORS; i++)
    if (columns[i] > 0) protocol_put_int(self, calib_tensor_names[i], columns[i]);
  append(self, "}");
}
