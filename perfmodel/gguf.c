/* GGUF, as its specification has it: a magic, a version, two counts, pairs, tensors, data. */
#include "perfmodel/gguf.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/text.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum {
  SHORT_TEXT = 1024, // longer ones are no name of anything
  ALIGNMENT = 32,
  PAIRS_MAX = 1 << 16,
  TENSORS_MAX = 1 << 20,
};

/* Types of values, by number. */
enum { TYPE_BOOL = 7, TYPE_STRING = 8, TYPE_ARRAY = 9, TYPES = 13 };
static const uint8_t TYPE_BYTES[TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
static const bool TYPE_SIGNED[TYPES] = {[1] = true, [3] = true, [5] = true, [11] = true};
static const bool TYPE_FLOAT[TYPES] = {[6] = true, [12] = true};

typedef struct Reader {
  FILE *file;
  uint64_t size, at; // of the file; next byte
  uint64_t digest;   // of what was read
  Place place;
  Arena *arena;
  Diag *diag;
} Reader;

static int refuse(Reader *self, const char *what) {
  return diag_error(self->diag, self->place,
                    "the GGUF file is damaged or not supported: %s at byte %llu", what,
                    (unsigned long long)self->at);
}

static int read_bytes(Reader *self, void *ret_bytes, uint64_t n) {
  if (n > self->size - self->at || fread(ret_bytes, 1, (size_t)n, self->file) != n)
    return refuse(self, "it ends too early");
  self->digest = hash_fold(self->digest, hash_bytes(ret_bytes, (size_t)n));
  self->at += n;
  return 0;
}

static int skip(Reader *self, uint64_t n) {
  if (n > self->size - self->at) return refuse(self, "a value is longer than the file");
  self->at += n;
  if (fseeko(self->file, (off_t)self->at, SEEK_SET) == 0) return 0;
  return diag_environment(self->diag, self->place, "cannot seek: %s", strerror(errno));
}

/* Little-endian, whatever this machine is. */
static int read_integer(Reader *self, int bytes, bool is_signed, uint64_t *ret_value) {
  unsigned char raw[8] = {0};
  uint64_t value = 0;
  if (read_bytes(self, raw, (uint64_t)bytes)) return -1;
  if (is_signed && raw[bytes - 1] & 0x80) memset(raw + bytes, 0xff, (size_t)(8 - bytes));
  for (int i = 7; i >= 0; i--)
    value = value << 8 | raw[i];
  *ret_value = value;
  return 0;
}

/* NULL where it is longer than SHORT_TEXT, and skipped. */
static int read_text(Reader *self, const char **ret_text) {
  uint64_t length;
  char bytes[SHORT_TEXT];
  *ret_text = NULL;
  if (read_integer(self, 8, false, &length)) return -1;
  if (length > SHORT_TEXT) return skip(self, length);
  if (read_bytes(self, bytes, length)) return -1;
  *ret_text = text_shown(arena_copy(self->arena, bytes, (size_t)length), self->arena);
  return 0;
}

static int read_name(Reader *self, const char **ret_name) {
  if (read_text(self, ret_name)) return -1;
  return *ret_name && **ret_name ? 0 : refuse(self, "a name is empty or too long");
}

static int read_type(Reader *self, uint64_t *ret_type) {
  if (read_integer(self, 4, false, ret_type)) return -1;
  return *ret_type < TYPES ? 0 : refuse(self, "the type of a value is not known");
}

static int skip_texts(Reader *self, uint64_t n) {
  for (uint64_t i = 0, length; i < n; i++)
    if (read_integer(self, 8, false, &length) || skip(self, length)) return -1;
  return 0;
}

static int read_integers(Reader *self, uint64_t type, GgufPair *ret_pair) {
  for (uint64_t i = 0, value; i < ret_pair->length; i++) {
    if (read_integer(self, TYPE_BYTES[type], TYPE_SIGNED[type], &value)) return -1;
    if (i == 0) ret_pair->integer = (int64_t)value;
    ret_pair->differs |= ret_pair->integer != (int64_t)value;
  }
  return 0;
}

static int read_array(Reader *self, GgufPair *ret_pair) {
  uint64_t type, *n = &ret_pair->length;
  ret_pair->kind = GGUF_ARRAY;
  if (read_type(self, &type) || read_integer(self, 8, false, n)) return -1;
  if (type == TYPE_ARRAY) return refuse(self, "an array holds arrays");
  const uint64_t least = type == TYPE_STRING ? 8 : TYPE_BYTES[type];
  if (*n > (self->size - self->at) / least) return refuse(self, "an array is longer than the file");
  if (type == TYPE_STRING) return skip_texts(self, *n);
  return TYPE_FLOAT[type] ? skip(self, *n * least) : read_integers(self, type, ret_pair);
}

static int read_pair(Reader *self, GgufPair *ret_pair) {
  uint64_t type, value;
  if (read_name(self, &ret_pair->key) || read_type(self, &type)) return -1;
  if (type == TYPE_ARRAY) return read_array(self, ret_pair);
  if (type == TYPE_STRING) {
    if (read_text(self, &ret_pair->text)) return -1;
    ret_pair->kind = ret_pair->text ? GGUF_STRING : GGUF_OTHER;
    return 0;
  }
  if (read_integer(self, TYPE_BYTES[type], TYPE_SIGNED[type], &value)) return -1;
  ret_pair->kind = TYPE_FLOAT[type] ? GGUF_OTHER : GGUF_INTEGER;
  ret_pair->integer = (int64_t)value;
  return 0;
}

static int read_tensor(Reader *self, GgufTensor *ret_tensor) {
  uint64_t n, type, offset;
  if (read_name(self, &ret_tensor->name) || read_integer(self, 4, false, &n)) return -1;
  if (n > 4) return refuse(self, "a tensor has more than four dimensions");
  ret_tensor->n_dimensions = (int)n;
  for (uint64_t i = 0; i < n; i++)
    if (read_integer(self, 8, false, &ret_tensor->dimensions[i])) return -1;
  if (read_integer(self, 4, false, &type) || read_integer(self, 8, false, &offset)) return -1;
  ret_tensor->type = (uint32_t)type;
  return 0;
}

static int read_head(Reader *self, uint64_t *ret_tensors, uint64_t *ret_pairs) {
  char magic[4];
  uint64_t version;
  if (read_bytes(self, magic, sizeof magic)) return -1;
  if (memcmp(magic, "GGUF", sizeof magic) != 0)
    return refuse(self, "the file does not begin with 'GGUF'");
  if (read_integer(self, 4, false, &version)) return -1;
  if (version < 2 || version > 3) return refuse(self, "the version is neither 2 nor 3");
  if (read_integer(self, 8, false, ret_tensors) || read_integer(self, 8, false, ret_pairs))
    return -1;
  if (*ret_pairs > PAIRS_MAX || *ret_tensors > TENSORS_MAX)
    return refuse(self, "it has more metadata pairs or tensors than any model");
  return 0;
}

static int read_all(Gguf *self, Reader *reader) {
  uint64_t n_tensors = 0, n_pairs = 0;
  size_t pairs_capacity = 0, tensors_capacity = 0; // grown as they are read, not as is promised
  if (read_head(reader, &n_tensors, &n_pairs)) return -1;
  for (; self->n_pairs < n_pairs; self->n_pairs++) {
    ARENA_RESERVE(reader->arena, self->pairs, pairs_capacity, self->n_pairs + 1);
    if (read_pair(reader, &self->pairs[self->n_pairs])) return -1;
  }
  for (; self->n_tensors < n_tensors; self->n_tensors++) {
    ARENA_RESERVE(reader->arena, self->tensors, tensors_capacity, self->n_tensors + 1);
    if (read_tensor(reader, &self->tensors[self->n_tensors])) return -1;
  }
  const uint64_t begin = (reader->at + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  self->digest = hash_fold(reader->digest, reader->size);
  self->data_bytes = begin < reader->size ? (int64_t)(reader->size - begin) : 0;
  return 0;
}

int gguf_load(Gguf *self, const char *path, Arena *arena, Diag *diag) {
  const Place at = place_of_file(path);
  struct stat status;
  CLEANUP_FILE FILE *file = fopen(path, "rb");
  *self = (Gguf){0};
  if (!file || fstat(fileno(file), &status))
    return diag_environment(diag, at, "cannot open '%s': %s", path, strerror(errno));
  if (!S_ISREG(status.st_mode)) return diag_error(diag, at, "'%s' is not a file", path);
  Reader reader = {
      .file = file, .size = (uint64_t)status.st_size, .place = at, .arena = arena, .diag = diag};
  return read_all(self, &reader);
}

const GgufPair *gguf_find(const Gguf *self, const char *key) {
  for (size_t i = 0; i < self->n_pairs; i++)
    if (strcmp(self->pairs[i].key, key) == 0) return &self->pairs[i];
  return NULL;
}

const GgufTensor *gguf_find_tensor(const Gguf *self, const char *name) {
  for (size_t i = 0; i < self->n_tensors; i++)
    if (strcmp(self->tensors[i].name, name) == 0) return &self->tensors[i];
  return NULL;
}
