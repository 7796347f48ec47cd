/* Names of the files in a folder, and the texts of small ones. */
#ifndef BASE_FOLDER_H
#define BASE_FOLDER_H
#include "base/diag.h"

/* Names without `extension` (".sql"; "": those that have no dot; "*": all that do not begin with
 * one) in order, NULL-terminated; none when the folder cannot be read. Names that are no plain text
 * are left out. */
const char *const *folder_names(const char *folder, const char *extension, Arena *arena);
/* The text of a file that the program comes with, at most 64 KiB; NULL with an entry. */
const char *folder_text(const char *path, Arena *arena, Diag *diag);
/* The first line of its comment, an SQL one: what it is for; "" when it cannot be read. */
const char *folder_about(const char *path, Arena *arena);
/* The first folder on the way to `path` that is not there, NULL when none is missing. */
const char *folder_missing(const char *path, Arena *arena);
/* The folder of the program itself with a '/', "" when it is not known. */
const char *folder_of_program(Arena *arena);
#endif
