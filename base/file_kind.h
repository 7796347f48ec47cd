/* What a file is that is not the text which was expected, told by how it begins. */
#ifndef BASE_FILE_KIND_H
#define BASE_FILE_KIND_H
#include <stddef.h>

/* "an SQLite database" and the like, of a file that begins with bytes[0..length); NULL when it is
 * none of those that are known. */
const char *file_kind(const char *bytes, size_t length);
#endif
