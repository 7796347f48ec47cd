/* Files that are written beside the place that they are to take.
 *
 * Each has a name of its own, .tandem-PROCESS-N.new, in the folder of its place, however long the
 * name of that is, and its writer holds a lock on it (flock), which the system takes away with the
 * process. So whoever makes the next one in the folder knows those that a killed process left, and
 * takes them away. */
#ifndef BASE_BESIDE_H
#define BASE_BESIDE_H
#include "base/arena.h"

/* Makes an empty file, open for reading and writing, beside `place`. Returns its descriptor, whose
 * duplicates share the lock, or −1 and errno. */
int beside_open(const char *place, const char **ret_path, Arena *arena);
#endif
