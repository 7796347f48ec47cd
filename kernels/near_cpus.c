/* Lists of CPUs as the kernel writes them: numbers and ranges between commas. */
#define _GNU_SOURCE // affinity
#include "kernels/near_cpus.h"
#include <ctype.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number at *text, which moves on; −1 when there is none, or none that a set can hold. */
static int read_cpu(const char **text) {
  char *end = NULL;
  if (!isdigit((unsigned char)**text)) return -1;
  const long cpu = strtol(*text, &end, 10);
  *text = end;
  return cpu < CPU_SETSIZE ? (int)cpu : -1;
}

/* False when it is no list. */
static bool parse(const char *text, cpu_set_t *ret_set) {
  CPU_ZERO(ret_set);
  for (;; text++) {
    const int first = read_cpu(&text);
    int last = first;
    if (*text == '-') {
      text++;
      last = read_cpu(&text);
    }
    if (first < 0 || last < first) return false;
    for (int cpu = first; cpu <= last; cpu++)
      CPU_SET(cpu, ret_set);
    if (*text == '\0') return true;
    if (*text != ',') return false;
  }
}

void near_cpus_read(const char *root, const char *pci_bus_id, char *ret_list, size_t size) {
  char path[512], address[32], line[256] = "";
  cpu_set_t set;
  size_t n = 0;
  *ret_list = '\0';
  for (; pci_bus_id[n] && n + 1 < sizeof address; n++) { // the runtime writes capitals
    address[n] = (char)tolower((unsigned char)pci_bus_id[n]);
    if (!isxdigit((unsigned char)address[n]) && !strchr(":.", address[n])) return;
  }
  address[n] = '\0';
  if (snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/local_cpulist", root, address) >=
      (int)sizeof path)
    return;
  FILE *file = fopen(path, "r");
  if (!file) return;
  if (!fgets(line, sizeof line, file)) line[0] = '\0';
  fclose(file);
  line[strcspn(line, "\n")] = '\0';
  if (strlen(line) < size && parse(line, &set)) memcpy(ret_list, line, strlen(line) + 1);
}

void near_cpus_keep(NearCpus *self, char *list) {
  cpu_set_t near, before;
  _Static_assert(sizeof before == sizeof self->before, "room for a cpu_set_t");
  *self = (NearCpus){.is_kept = false};
  if (*list && sched_getaffinity(0, sizeof before, &before) == 0 && parse(list, &near)) {
    CPU_AND(&near, &near, &before);
    self->is_kept = CPU_COUNT(&near) > 0 && sched_setaffinity(0, sizeof near, &near) == 0;
    memcpy(self->before, &before, sizeof before);
  }
  if (!self->is_kept) *list = '\0';
}

void near_cpus_let(NearCpus *self) {
  cpu_set_t before;
  memcpy(&before, self->before, sizeof before);
  if (self->is_kept) sched_setaffinity(0, sizeof before, &before);
  self->is_kept = false;
}
