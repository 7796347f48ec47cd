/* Files that a fuzzer's entry reads, in a folder of the process: in memory where that is a folder,
 * made when it is first asked for and removed, with these files, as the process ends normally. */
#ifndef TESTS_FUZZ_FILES_H
#define TESTS_FUZZ_FILES_H
#include <stddef.h>

enum { FUZZ_FILES = 16 };

/* The folder's path. */
const char *fuzz_folder(void);
/* The path of file `name` ("a.csv", or "folder/a.csv" one folder deep) once it holds these bytes;
 * at most FUZZ_FILES names a process. The path stays until the process ends. */
const char *fuzz_file(const char *name, const void *bytes, size_t size);
/* The path of file `name`, which is not there. */
const char *fuzz_no_file(const char *name);
#endif
