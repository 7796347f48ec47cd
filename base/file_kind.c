/* See file_kind.h. */
#include "base/file_kind.h"
#include <string.h>

#define KIND(begins_, name_)                                                                       \
  { .begins = (begins_), .length = sizeof(begins_) - 1, .name = (name_) }

const char *file_kind(const char *bytes, size_t length) {
  static const struct {
    const char *begins;
    size_t length;
    const char *name;
  } kinds[] = {KIND("SQLite format 3\0", "an SQLite database"),
               KIND("\x1f\x8b", "gzip data"),
               KIND("PK\x03\x04", "a zip archive"),
               KIND("PAR1", "a Parquet file"),
               KIND("(\xb5/\xfd", "Zstandard data"),
               KIND("\x89PNG", "a PNG picture"),
               KIND("%PDF", "a PDF document"),
               KIND("\x7f"
                    "ELF",
                    "a program"),
               KIND("\xff\xfe", "text in UTF-16"),
               KIND("\xfe\xff", "text in UTF-16")};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (length >= kinds[i].length && memcmp(bytes, kinds[i].begins, kinds[i].length) == 0)
      return kinds[i].name;
  return NULL;
}
