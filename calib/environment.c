/* Facts, one line each. */
#include "calib/environment.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "calib/model.h"
#include "calib/operators.h"
#include "perfmodel/profile_clock.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void set(Profile *profile, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Unknown facts, "", are left out; control characters, which a line cannot hold, become spaces. */
static void set(Profile *profile, const char *key, const char *format, ...) {
  va_list list;
  va_start(list, format);
  char *text = arena_vprintf(profile->arena, format, list);
  va_end(list);
  for (char *at = text; *at; at++)
    if ((unsigned char)*at < ' ') *at = ' ';
  if (*text) profile_set_fact(profile, key, text);
}

static void set_number(Profile *profile, const char *key, double value) {
  if (value > 0) set(profile, key, "%.6g", value); // NAN, too, is unknown
}

/* ---- The host ---- */

/* What stands behind the colon of the first line of a file that starts with `key`, or, with NULL,
 * the first line; "" when there is none. */
static const char *read_line(const char *path, const char *key, Arena *arena) {
  char line[512];
  CLEANUP_FILE FILE *in = fopen(path, "r");
  while (in && fgets(line, sizeof line, in)) {
    const char *text = line;
    if (key) {
      if (strncmp(line, key, strlen(key)) != 0 || !(text = strchr(line, ':'))) continue;
      text++;
    }
    text += strspn(text, " \t");
    return arena_copy(arena, text, strcspn(text, "\n"));
  }
  return "";
}

static void set_host(Profile *profile) {
  Arena *arena = profile->arena;
  set(profile, "host_cpu", "%s", read_line("/proc/cpuinfo", "model name", arena));
  set_number(profile, "host_threads", (double)sysconf(_SC_NPROCESSORS_ONLN));
  set(profile, "host_governor", "%s",
      read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", NULL, arena));
  set(profile, "host_memory", "%s", read_line("/proc/meminfo", "MemTotal", arena));
}

/* ---- The device ---- */

static const char *switch_name(CalibSwitch value) {
  static const char *const names[] = {"", "off", "on"};
  return names[value];
}

/* What else is on it, and how it is set up. */
static void set_company(Profile *profile, const CalibDevice *device) {
  if (device->n_processes > 0) set(profile, "other_processes", "%d", (int)device->n_processes - 1);
  set(profile, "ecc", "%s", switch_name(device->ecc));
  set_number(profile, "ecc_errors", (double)device->ecc_errors);
  set(profile, "mig", "%s", switch_name(device->mig));
  if (device->pcie_width > 0 && device->pcie_most > 0)
    set(profile, "pcie_lanes", "%d of %d", (int)device->pcie_width, (int)device->pcie_most);
  set(profile, "host_cpus", "%s", device->near_cpus);
  set_number(profile, "sm_clock_most_mhz", device->sm_clock_most_mhz);
}

static void set_device(Profile *profile, const CalibDevice *device, const CalibTelemetry *idle) {
  set(profile, "machine", "%s", device->name);
  set(profile, "gpu", "%s", device->gpu);
  if (*device->uuid)
    set(profile, "gpu_uuid_hash", "%016llx",
        (unsigned long long)hash_bytes(device->uuid, strlen(device->uuid)));
  set_number(profile, "compute_capability", device->sm);
  set_number(profile, "units", device->n_units);
  set(profile, "driver", "%s", device->driver);
  set(profile, "runtime", "%s", device->runtime);
  set(profile, "library", "%s", device->library);
  set_number(profile, "memory_mib", (double)(device->memory_bytes >> 20));
  set_number(profile, "cache_kib", (double)(device->cache_bytes >> 10));
  set_company(profile, device);
  set_number(profile, "power_limit_w", idle->power_limit_w);
  set_number(profile, "idle_power_w", idle->power_w);
  set_number(profile, "sm_clock_mhz_before", idle->sm_clock_mhz);
  set_number(profile, "mem_clock_mhz_before", idle->mem_clock_mhz);
  set_number(profile, "temperature_c_before", idle->temperature_c);
}

void environment_begin(Profile *profile, const EnvironmentRun *run, const CalibDevice *device,
                       const CalibTelemetry *idle) {
  char date[64] = "";
  const time_t at = time(NULL);
  struct tm utc;
  if (gmtime_r(&at, &utc)) strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
  set(profile, "date", "%s", date);
  set(profile, "version", "%s", run->version);
  set(profile, "commit", "%s", run->commit);
  set(profile, "backend", "%s", run->backend);
  set_device(profile, device, idle);
  set_host(profile);
  set(profile, "models", "%s", run->models);
  set(profile, "tensor_parallel_sizes", "%s", run->degrees);
  set(profile, "dtype", "%s", calib_dtype_names[run->dtype]);
  set(profile, "engine_preset", "ideal"); // kernels alone
  set(profile, "all_reduce", "none");     // in any term: those of one device
  set(profile, "rates", "burst");         // points last less than a second
  set(profile, "launch", "graphs, but where a row's mode is eager");
  set_number(profile, "threads", run->options.threads);
  set(profile, "seed", "%llu", (unsigned long long)run->options.seed);
  set(profile, "verify", "%s", run->options.verify ? "yes" : "no");
  set(profile, "plan", "%016llx", (unsigned long long)run->plan);
  set_number(profile, "budget_s", run->budget_seconds);
}

/* ---- The end ---- */

const char *environment_end_name(HarnessEnd end) {
  static const char *const names[] = {"all points", "out of budget", "interrupted", "failed"};
  return names[end];
}

const char *environment_throttle(uint64_t reasons, Arena *arena) {
  static const struct {
    uint64_t bit;
    const char *name;
  } all[] = {{0x1, "idle"},
             {0x2, "clock setting"},
             {0x4, PROFILE_POWER_CAP},
             {0x8, "hardware slowdown"},
             {0x10, "sync boost"},
             {0x20, "software thermal"},
             {0x40, "hardware thermal"},
             {0x80, "power brake"},
             {0x100, "display clock"}};
  const char *text = "";
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (reasons & all[i].bit)
      text = arena_printf(arena, "%s%s%s", text, *text ? ", " : "", all[i].name);
  return *text ? text : "none";
}

static void set_verified(Profile *profile, const HarnessReport *report) {
  const char *text = "";
  for (int op = 0; op < CALIB_N_OPS; op++)
    if (report->worst_error[op] > 0)
      text = arena_printf(profile->arena, "%s%s%s %.2g", text, *text ? ", " : "",
                          calib_op_name((CalibOp)op), report->worst_error[op]);
  set(profile, "worst_error", "%s", text);
  if (report->verified > 0)
    set(profile, "verified_sizes", "%lld in %.1f s, %lld not for want of time",
        (long long)report->verified, report->verify_seconds, (long long)report->unverified);
}

void environment_end(Profile *profile, const HarnessReport *report) {
  set(profile, "finished", "%s", environment_end_name(report->end));
  if (report->samples == 0) return; // what is said of an earlier run stays true
  set(profile, "drift", "%lld anchor readings, at most %.2f%%; %lld points again, %lld flagged",
      (long long)report->anchors, 100 * report->worst_drift, (long long)report->remeasured,
      (long long)report->flagged);
  if (report->most_power > 0)
    set(profile, "power_w", "%.0f to %.0f", report->least_power, report->most_power);
  set(profile, "throttle", "%s, at %lld points",
      environment_throttle(report->throttle, profile->arena), (long long)report->throttled);
  set_verified(profile, report);
}

/* ---- Going on ---- */

int environment_check(const Profile *found, const Profile *wanted, Diag *diag) {
  static const char *const keys[] = {"version", "backend", "machine",
                                     "gpu",     "driver",  "runtime",
                                     "library", "models",  "tensor_parallel_sizes",
                                     "dtype",   "threads", "units",
                                     "seed",    "plan",    "attention"};
  int error = 0;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const char *was = profile_fact(found, keys[i]), *is = profile_fact(wanted, keys[i]);
    if (!was) was = "unknown";
    if (!is) is = "unknown";
    if (strcmp(was, is) == 0) continue;
    error = diag_error(diag, place_of_file(found->path),
                       "the profile cannot be continued: its '%s' is '%s', now it is '%s'", keys[i],
                       was, is);
  }
  return error;
}
