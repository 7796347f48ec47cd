/* Numbers of tensors: base64 (RFC 4648) of IEEE numbers, little-endian, of four bytes where that is
 * exact, which numbers of a model's type and indices are, else of eight. */
#include "calib/protocol.h"
#include <assert.h>
#include <math.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are copied as they lie");

static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
enum { BLOCK = 3 << 10 }; // bytes that are converted at a time: whole groups of three

static bool are_short(const double *values, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (!isnan(values[i]) && (double)(float)values[i] != values[i]) return false;
  return true;
}

/* Two digits at a time, because weights are many. */
typedef char Pairs[1 << 12][2];

static void make_pairs(Pairs ret) {
  for (int i = 0; i < 1 << 12; i++) {
    ret[i][0] = DIGITS[i >> 6];
    ret[i][1] = DIGITS[i & 63];
  }
}

static size_t encode(char *to, const unsigned char *bytes, size_t n, Pairs pairs) {
  const char *begin = to;
  for (; n >= 3; n -= 3, bytes += 3, to += 4) {
    const uint32_t group = (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 8 | bytes[2];
    memcpy(to, pairs[group >> 12], 2);
    memcpy(to + 2, pairs[group & 0xfff], 2);
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
  Pairs pairs;
  make_pairs(pairs);
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
    protocol_append(self, text, encode(text, block.bytes, (size_t)(some * width), pairs));
  }
  protocol_append(self, "\"", 1);
}

/* A digit's part of a group, by its place; a higher bit is set by what is no digit. */
typedef struct Places {
  uint32_t of[4][256];
} Places;

static const uint32_t NO_DIGIT = 1 << 24;

static void make_places(Places *ret) {
  for (int place = 0; place < 4; place++) {
    for (int i = 0; i < 256; i++)
      ret->of[place][i] = NO_DIGIT;
    for (int i = 0; i < 64; i++)
      ret->of[place][(unsigned char)DIGITS[i]] = (uint32_t)i << (18 - 6 * place);
  }
}

/* `groups` of four digits, all whole; false when there is another character. */
static bool decode(unsigned char *bytes, const char *text, int64_t groups, const Places *places) {
  uint32_t seen = 0;
  for (; groups > 0; groups--, text += 4, bytes += 3) {
    const unsigned char *digits = (const unsigned char *)text;
    const uint32_t group = places->of[0][digits[0]] | places->of[1][digits[1]] |
                           places->of[2][digits[2]] | places->of[3][digits[3]];
    seen |= group;
    bytes[0] = (unsigned char)(group >> 16);
    bytes[1] = (unsigned char)(group >> 8);
    bytes[2] = (unsigned char)group;
  }
  return seen < NO_DIGIT;
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
static bool decode_last(unsigned char *bytes, const char *text, int64_t n, const Places *places) {
  char group[4];
  memcpy(group, text, sizeof group);
  for (int64_t i = n + 1; i < 4; i++) {
    if (group[i] != '=') return false;
    group[i] = 'A';
  }
  return decode(bytes, group, 1, places);
}

static bool decode_all(Field text, double *ret_values, int64_t n, int64_t width) {
  Places places;
  unsigned char bytes[BLOCK];
  const char *at = text.text;
  const int64_t size = n * width;
  make_places(&places);
  if (text.length != (size + 2) / 3 * 4) return false;
  for (int64_t done = 0; done < size;) {
    const int64_t some = size - done < BLOCK ? size - done : BLOCK;
    if (!decode(bytes, at, some / 3, &places)) return false;
    at += some / 3 * 4;
    if (some % 3 != 0 && !decode_last(bytes + some / 3 * 3, at, some % 3, &places)) return false;
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
  return calib_failed(CALIB_REJECTED, error, "'values' must be base64 of %lld numbers of type %s",
                      (long long)n, types[type]);
}
