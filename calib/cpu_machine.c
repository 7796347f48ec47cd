/* Read from /proc and /sys; on systems without them, little is known. */
#define _GNU_SOURCE // sched_getcpu
#include "calib/cpu_machine.h"
#include "sim/base/cleanup.h"
#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The text after ':' of the `number`-th line that begins with `key`; false: none. */
static bool find_line(const char *path, const char *key, int number, char *ret_text, size_t size) {
  CLEANUP_FILE FILE *file = fopen(path, "r");
  char line[512];
  while (file && fgets(line, sizeof line, file)) {
    if (strncmp(line, key, strlen(key)) != 0 || number-- > 0) continue;
    const char *text = strchr(line, ':');
    if (!text) return false;
    text += strspn(text, ": \t");
    snprintf(ret_text, size, "%.*s", (int)strcspn(text, "\n"), text);
    return true;
  }
  return false;
}

void cpu_machine_name(char *ret_name, size_t size) {
  if (find_line("/proc/cpuinfo", "model name", 0, ret_name, size)) return;
  if (find_line("/proc/cpuinfo", "CPU part", 0, ret_name, size)) return;
  snprintf(ret_name, size, "unknown processor");
}

static bool read_number(const char *path, double *ret_number, char *ret_unit) {
  CLEANUP_FILE FILE *file = fopen(path, "r");
  char text[64];
  if (!file || !fgets(text, sizeof text, file)) return false;
  char *end;
  *ret_number = strtod(text, &end);
  *ret_unit = *end;
  return end != text;
}

int64_t cpu_machine_cache_bytes(void) {
  int64_t bytes = 0;
  for (int i = 0; i < 8; i++) {
    char path[96], unit;
    double size;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
    if (!read_number(path, &size, &unit)) break;
    const int64_t found = (int64_t)size * (unit == 'M' ? 1 << 20 : unit == 'K' ? 1 << 10 : 1);
    if (found > bytes) bytes = found;
  }
  return bytes;
}

int64_t cpu_machine_memory_bytes(void) {
  return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

int64_t cpu_machine_available_bytes(void) {
  char text[64];
  if (!find_line("/proc/meminfo", "MemAvailable", 0, text, sizeof text))
    return cpu_machine_memory_bytes();
  return (int64_t)(strtod(text, NULL) * 1024);
}

double cpu_machine_clock_mhz(void) {
  const int cpu = sched_getcpu();
  char path[96], text[64], unit;
  double khz;
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", cpu);
  if (read_number(path, &khz, &unit)) return khz / 1e3;
  if (find_line("/proc/cpuinfo", "cpu MHz", cpu, text, sizeof text)) return strtod(text, NULL);
  return NAN;
}
