/* Machines by GPU: there are few, so each is loaded until one has it. */
#include "perfmodel/gpu_facts.h"
#include "perfmodel/datafile.h"
#include <string.h>

bool gpu_facts_find(Hardware *ret_hardware, const char *gpu, const char *data_dir, Arena *arena) {
  bool found = false;
  Diag diag;
  diag_init(&diag);
  const char *const *names = datafile_names(data_dir, "machines", arena);
  for (; *names && !found; names++)
    found = hardware_load(ret_hardware, *names, data_dir, place_of_file(NULL), arena, &diag) == 0 &&
            strcmp(ret_hardware->gpu, gpu) == 0;
  diag_done(&diag);
  return found;
}
