/* Read from /proc and /sys; on systems without them, little is known. */
#define _GNU_SOURCE // sched_getcpu
#include "calib/cpu_machine.h"
#include "base/cleanup.h"
#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The text after the first `mark` of one of the lines that begin with `key`: the first is number 0.
 * False: there are not so many, or the line has no such mark. */
static bool find_line(const char *path, const char *key, int number, char mark, char *ret_text,
                      size_t size) {
  CLEANUP_FILE FILE *file = fopen(path, "r");
  char line[512];
  while (file && fgets(line, sizeof line, file)) {
    if (strncmp(line, key, strlen(key)) != 0 || number-- > 0) continue;
    const char *text = strchr(line, mark);
    if (!text) return false;
    text++;
    text += strspn(text, " \t");
    snprintf(ret_text, size, "%.*s", (int)strcspn(text, "\n"), text);
    return true;
  }
  return false;
}

static void find_name(char *ret_name, size_t size) {
  if (find_line("/proc/cpuinfo", "model name", 0, ':', ret_name, size)) return;
  if (find_line("/proc/cpuinfo", "CPU part", 0, ':', ret_name, size)) return;
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

static int64_t memory_bytes(void) {
  return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

/* Files of a control group, by the version of its kind. */
typedef struct GroupFiles {
  const char *limit, *used, *reclaimed;
} GroupFiles;

/* What a control group leaves; INFINITY when it has no limit. What the system would give back when
 * it is asked for, files that were read, does not count as used. */
static double group_left(const char *folder, GroupFiles files) {
  char path[512], line[64], unit;
  double limit, used;
  snprintf(path, sizeof path, "%s/%s", folder, files.limit);
  if (!read_number(path, &limit, &unit)) return INFINITY;
  snprintf(path, sizeof path, "%s/%s", folder, files.used);
  if (!read_number(path, &used, &unit)) return INFINITY;
  snprintf(path, sizeof path, "%s/memory.stat", folder);
  if (find_line(path, files.reclaimed, 0, ' ', line, sizeof line)) used -= strtod(line, NULL);
  return limit - used;
}

/* The least that groups leave: of the first version that at the root, which in a container is its
 * own; of the second all from that of this process upwards. */
static double groups_left(void) {
  static const GroupFiles first = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                   "total_inactive_file"};
  static const GroupFiles second = {"memory.max", "memory.current", "inactive_file"};
  char name[256], folder[320];
  double left = group_left("/sys/fs/cgroup/memory", first);
  if (!find_line("/proc/self/cgroup", "0::", 0, '/', name, sizeof name)) return left;
  for (;;) {
    snprintf(folder, sizeof folder, "/sys/fs/cgroup/%s", name);
    left = fmin(left, group_left(folder, second));
    if (!*name) return left;
    char *slash = strrchr(name, '/');
    *(slash ? slash : name) = '\0';
  }
}

/* Of a limit on address space, which this process has used a part of. */
static double limit_left(void) {
  struct rlimit limit;
  double pages;
  char unit;
  if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY) return INFINITY;
  if (!read_number("/proc/self/statm", &pages, &unit)) pages = 0;
  return (double)limit.rlim_cur - pages * (double)sysconf(_SC_PAGESIZE);
}

int64_t cpu_machine_available_bytes(void) {
  char text[64];
  double left = (double)memory_bytes();
  if (find_line("/proc/meminfo", "MemAvailable", 0, ':', text, sizeof text))
    left = strtod(text, NULL) * 1024;
  left = fmin(left, fmin(groups_left(), limit_left()));
  return left > 0 ? (int64_t)left : 0;
}

CalibDevice cpu_machine_describe(int32_t threads) {
  CalibDevice device = {.gpu = "cpu",
                        .n_units = threads,
                        .n_devices = 1,
                        .memory_bytes = memory_bytes(),
                        .free_bytes = cpu_machine_available_bytes(),
                        .cache_bytes = cpu_machine_cache_bytes()};
  find_name(device.name, sizeof device.name);
  return device;
}

static double clock_mhz(void) {
  const int cpu = sched_getcpu();
  char path[96], text[64], unit;
  double khz;
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", cpu);
  if (read_number(path, &khz, &unit)) return khz / 1e3;
  if (find_line("/proc/cpuinfo", "cpu MHz", cpu, ':', text, sizeof text)) return strtod(text, NULL);
  return NAN;
}

void cpu_machine_telemetry(void *state, CalibTelemetry *ret_telemetry) {
  (void)state;
  *ret_telemetry = calib_telemetry_unknown;
  ret_telemetry->sm_clock_mhz = clock_mhz();
}
