/* Numbers of tensors: base64 (RFC 4648) of IEEE numbers, little-endian, of four bytes where that is
 * exact, which numbers of a model's type and indices are, else of eight. */
#include "calib/protocol.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are copied as they lie");

static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
enum { BLOCK = 3 << 10 }; // bytes that are converted at a time: whole groups of three

static bool are_short(const double *values, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (!isnan(values[i]) && (double)(float)values[i] != values[i]) return false;
  return true;
}

static size_t encode(char *to, const unsigned char *bytes, size_t n) {
  const char *begin = to;
  for (; n >= 3; n -= 3, bytes += 3) {
    const uint32_t group = (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 8 | bytes[2];
    *to++ = DIGITS[group >> 18];
    *to++ = DIGITS[group >> 12 & 63];
    *to++ = DIGITS[group >> 6 & 63];
    *to++ = DIGITS[group & 63];
  }
  if (n == 0) return (size_t)(to - begin);
  const uint32_t group = (uint32_t)bytes[0] << 16 | (n > 1 ? (uint32_t)bytes[1] << 8 : 0);
  *to++ = DIGITS[group >> 18];
  *to++ = DIGITS[group >> 12 & 63];
  *to++ = n > 1 ? DIGITS[group >> 6 & 63] : '=';
  *to++ = '=';
  return (size_t)(to - begin);
}

void protocol_put_values(ProtocolLine *self, const double *values, int64_t n) {
  union {
    float shorts[BLOCK / sizeof(float)];
    double longs[BLOCK / sizeof(double)];
    unsigned char bytes[BLOCK];
  } block;
  char text[BLOCK / 3 * 4];
  const bool is_short = are_short(values, n);
  const int64_t width = is_short ? sizeof(float) : sizeof(double);
  protocol_put_text(self, "type", is_short ? "f32" : "f64");
  protocol_put_key(self, "values");
  protocol_append(self, "\"", 1);
  for (int64_t i = 0; i < n;) {
    const int64_t some = n - i < BLOCK / width ? n - i : BLOCK / width;
    for (int64_t k = 0; k < some; k++, i++) {
      if (is_short)
        block.shorts[k] = (float)values[i];
      else
        block.longs[k] = values[i];
    }
    protocol_append(self, text, encode(text, block.bytes, (size_t)(some * width)));
  }
  protocol_append(self, "\"", 1);
}

/* The value of each digit, 64 of what is none. */
static void make_values(unsigned char ret[256]) {
  memset(ret, 64, 256);
  for (int i = 0; i < 64; i++)
    ret[(unsigned char)DIGITS[i]] = (unsigned char)i;
}

/* `groups` of four digits, all whole; false when there is another character. */
static bool decode(unsigned char *bytes, const char *text, int64_t groups,
                   const unsigned char values[256]) {
  unsigned char seen = 0;
  for (; groups > 0; groups--, text += 4, bytes += 3) {
    const unsigned char a = values[(unsigned char)text[0]], b = values[(unsigned char)text[1]],
                        c = values[(unsigned char)text[2]], d = values[(unsigned char)text[3]];
    const uint32_t group = (uint32_t)a << 18 | (uint32_t)b << 12 | (uint32_t)c << 6 | d;
    seen |= a | b | c | d;
    bytes[0] = (unsigned char)(group >> 16);
    bytes[1] = (unsigned char)(group >> 8);
    bytes[2] = (unsigned char)group;
  }
  return seen < 64;
}

static void widen(double *to, const unsigned char *bytes, int64_t n, int64_t width) {
  for (int64_t i = 0; i < n; i++, bytes += width) {
    float value = 0;
    if (width == sizeof *to) {
      memcpy(&to[i], bytes, sizeof *to);
      continue;
    }
    memcpy(&value, bytes, sizeof value);
    to[i] = value;
  }
}

/* The last group, which may end with '='. */
static bool decode_last(unsigned char *bytes, const char *text, int64_t n,
                        const unsigned char values[256]) {
  char group[4];
  memcpy(group, text, sizeof group);
  for (int64_t i = n + 1; i < 4; i++) {
    if (group[i] != '=') return false;
    group[i] = 'A';
  }
  return decode(bytes, group, 1, values);
}

static bool decode_all(Field text, double *ret_values, int64_t n, int64_t width) {
  unsigned char values[256], bytes[BLOCK];
  const char *at = text.text;
  const int64_t size = n * width;
  make_values(values);
  if (text.length != (size + 2) / 3 * 4) return false;
  for (int64_t done = 0; done < size;) {
    const int64_t some = size - done < BLOCK ? size - done : BLOCK;
    if (!decode(bytes, at, some / 3, values)) return false;
    at += some / 3 * 4;
    if (some % 3 != 0 && !decode_last(bytes + some / 3 * 3, at, some % 3, values)) return false;
    widen(ret_values + done / width, bytes, some / width, width);
    done += some;
  }
  return true;
}

int protocol_get_values(const ProtocolObject *self, double *ret_values, int64_t n, char *error) {
  static const char *const types[] = {"f32", "f64", NULL};
  int type = 0;
  const Field *values = protocol_find(self, "values");
  assert(n <= PROTOCOL_COLUMNS_MAX);
  if (protocol_get_word(self, "type", types, &type, error)) return -1;
  const bool is_text = values && values->length >= 2 && values->text[0] == '"';
  const Field inside = is_text ? (Field){values->text + 1, values->length - 2} : (Field){0};
  if (is_text && decode_all(inside, ret_values, n, type == 0 ? 4 : 8)) return 0;
  snprintf(error, CALIB_ERROR_SIZE, "'values' must be base64 of %lld numbers of type %s",
           (long long)n, types[type]);
  return -1;
}
