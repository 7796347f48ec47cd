/* A database in a file that has no name: SQLite opens files by name and follows no links, so this
 * is where it reads and writes one that is open already. Nobody else knows the file, which needs no
 * locks, and nothing is made beside it. */
#ifndef EXPERIMENTS_RESULTS_DESCRIPTOR_H
#define EXPERIMENTS_RESULTS_DESCRIPTOR_H
#include <sqlite3.h>

/* Opens the database in `file`, which stays the caller's and open until it is closed. Others that
 * are attached to it are files as ever. An SQLite status; the database is to be closed with any. */
int descriptor_open(sqlite3 **ret_db, int file, int flags);
#endif
