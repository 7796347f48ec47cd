/* Writes a profile while it is measured, so that whatever ends the program leaves a good file.
 *
 * A row is appended by one write() of a whole line. What cannot be known while measuring, facts of
 * the head and rows that a drift of the machine has spoilt, changes by writing the file anew beside
 * it and renaming. The first rows wait until a file with them can be fitted, so a file is there
 * either not at all or with enough in it. Where the path is no regular file (a pipe, a device),
 * rows are only ever appended.
 *
 * Between calls: the file, if there, ends with a whole line. */
#ifndef CALIB_RECORDER_H
#define CALIB_RECORDER_H
#include "perfmodel/profile.h"

enum { RECORDER_FIRST_ROWS = 2 }; // the least that a profile may have

typedef struct Recorder {
  Profile profile; // facts and rows, as the file has them after recorder_save
  const char *path;
  /* private: recorder.c */
  Arena *arena;
  char *line; // being made
  int file;   // −1: not there yet
  bool is_regular, failed;
  int64_t bytes; // of whole lines
} Recorder;

/* Starts from `profile`, whose facts and rows are those of a run that goes on; its arena must live
 * as long. An existing file is written over. DIAG_ENVIRONMENT when the path cannot be written. */
int recorder_open(Recorder *self, const char *path, const Profile *profile, Diag *diag);
/* Adds a row. On failure, a full disk, the file is cut back to its last whole line. */
int recorder_add(Recorder *self, const ProfileRow *row, Diag *diag);
/* Removes a row; appends to the column `stop` of rows first … end − 1. Seen after recorder_save. */
void recorder_drop(Recorder *self, size_t row);
void recorder_flag(Recorder *self, size_t first, size_t end, const char *flag);
/* Writes the file anew. When that fails, the old one stays. */
int recorder_save(Recorder *self, Diag *diag);
/* Writes what still waits, if any, and closes. */
int recorder_close(Recorder *self, Diag *diag);
#endif
