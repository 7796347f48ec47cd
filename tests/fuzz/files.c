/* See files.h. */
#include "tests/fuzz/files.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct File {
  char path[160];
  bool is_there;
  uint64_t hash; // of what it holds, so that it is not written again
} File;

static char folder[64];
static File files[FUZZ_FILES];
static int n_files;

/* The folder between the root and a file; false: it has none. */
static bool parent_of(const File *file, char *ret_parent) {
  const char *slash = strrchr(file->path, '/');
  snprintf(ret_parent, sizeof file->path, "%.*s", (int)(slash - file->path), file->path);
  return strcmp(ret_parent, folder) != 0;
}

static void remove_all(void) {
  char parent[sizeof files->path];
  for (int i = 0; i < n_files; i++) {
    unlink(files[i].path);
    if (parent_of(&files[i], parent)) rmdir(parent); // the last of its files takes it along
  }
  rmdir(folder);
}

const char *fuzz_folder(void) {
  if (*folder) return folder;
  const char *root = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  snprintf(folder, sizeof folder, "%s/tandem-fuzz-XXXXXX", root);
  if (!mkdtemp(folder) || atexit(remove_all) != 0) abort();
  return folder;
}

static File *find_file(const char *name) {
  char path[sizeof files->path], parent[sizeof files->path];
  if (snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name) >= (int)sizeof path) abort();
  for (int i = 0; i < n_files; i++)
    if (strcmp(files[i].path, path) == 0) return &files[i];
  if (n_files == FUZZ_FILES) abort();
  File *file = &files[n_files++];
  memcpy(file->path, path, sizeof path);
  if (parent_of(file, parent)) mkdir(parent, 0700);
  return file;
}

const char *fuzz_file(const char *name, const void *bytes, size_t size) {
  File *file = find_file(name);
  const uint64_t hash = hash_fold(hash_bytes(bytes, size), size);
  if (file->is_there && file->hash == hash) return file->path;
  CLEANUP_FILE FILE *out = fopen(file->path, "wb");
  if (!out || fwrite(bytes, 1, size, out) != size) abort();
  file->is_there = true;
  file->hash = hash;
  return file->path;
}

const char *fuzz_no_file(const char *name) {
  File *file = find_file(name);
  unlink(file->path);
  file->is_there = false;
  return file->path;
}
