/* The list of checks, and what the device says. */
#include "experiments/doctor/doctor.h"
#include "calib/environment.h"
#include <math.h>
#include <string.h>

void doctor_init(Doctor *self, Arena *arena) {
  *self = (Doctor){.arena = arena};
}

DoctorCheck *doctor_add(Doctor *self, const char *part, const char *name, DoctorVerdict verdict,
                        const char *found, const char *advice) {
  ARENA_RESERVE(self->arena, self->checks, self->capacity, self->n + 1);
  DoctorCheck *check = &self->checks[self->n++];
  *check = (DoctorCheck){.part = part,
                         .name = name,
                         .verdict = verdict,
                         .found = arena_copy(self->arena, found, strlen(found)),
                         .value = NAN,
                         .low = NAN,
                         .high = NAN,
                         .advice = verdict == DOCTOR_OK ? NULL : advice};
  return check;
}

bool doctor_is_late(const DoctorJob *job, double share) {
  return job->clock(job->clock_context) - job->began > share * job->seconds;
}

int doctor_failed(const DoctorJob *job, const char *name, const char *error, Diag *diag) {
  if (job->interrupted && *job->interrupted) return diag_interrupted(diag); // not waited for
  return diag_environment(diag, place_of_file(NULL), "backend '%s' failed at '%s': %s",
                          job->backend->name, name, error);
}

DoctorVerdict doctor_verdict(const Doctor *self) {
  DoctorVerdict worst = DOCTOR_OK;
  for (size_t i = 0; i < self->n; i++)
    if (self->checks[i].verdict > worst) worst = self->checks[i].verdict;
  return worst;
}

/* ---- The device ---- */

static const char DEVICE[] = "device";

static const char *or_unknown(const char *text) {
  return *text ? text : "unknown";
}

static void add_names(Doctor *self, const CalibDevice *device) {
  const int sm = (int)device->sm;
  Arena *arena = self->arena;
  const char *name =
      arena_printf(arena, "%s, %d %s, %.1f GiB", or_unknown(device->name), (int)device->n_units,
                   sm > 0 ? "multiprocessors" : "threads", (double)device->memory_bytes / 0x1p30);
  if (sm > 0) name = arena_printf(arena, "%s, compute capability %d.%d", name, sm / 10, sm % 10);
  doctor_add(self, DEVICE, "name", DOCTOR_OK, name, NULL);
  doctor_add(self, DEVICE, "software", DOCTOR_OK,
             arena_printf(arena, "driver %s, runtime %s, library %s", or_unknown(device->driver),
                          or_unknown(device->runtime), or_unknown(device->library)),
             NULL);
}

static void add_peaks(Doctor *self, const CalibDevice *device, const Hardware *hardware) {
  if (!hardware)
    doctor_add(self, DEVICE, "peaks", DOCTOR_MISSED,
               arena_printf(self->arena, "no machine type has the GPU '%s'", device->gpu),
               "name a machine file with '--machine'; its 'gpu' must be the name given here");
  else
    doctor_add(self, DEVICE, "peaks", DOCTOR_OK,
               arena_printf(self->arena, "%s: %.0f TFLOP/s, %.0f GB/s", hardware->name,
                            1e-12 * hardware->dense_bf16_flops,
                            1e-9 * (double)hardware->hbm_bandwidth),
               NULL);
}

/* What this program holds itself is not free either: a context, and less than a tenth. */
static void add_memory(Doctor *self, const CalibDevice *device) {
  const double share = (double)device->free_bytes / (double)device->memory_bytes;
  if (device->free_bytes <= 0 || device->memory_bytes <= 0) return;
  DoctorCheck *check = doctor_add(
      self, DEVICE, "free memory", share >= 0.9 ? DOCTOR_OK : DOCTOR_MISSED,
      arena_printf(self->arena, "%.1f GiB of %.1f GiB", (double)device->free_bytes / 0x1p30,
                   (double)device->memory_bytes / 0x1p30),
      "other processes hold the rest: end those that 'nvidia-smi' lists, or choose another GPU "
      "with '--device'");
  check->value = share;
  check->low = 0.9;
}

static void add_processes(Doctor *self, const CalibDevice *device) {
  const int others = (int)device->n_processes - 1;
  if (others < 0)
    doctor_add(self, DEVICE, "other processes", DOCTOR_NOTED, "unknown: the driver lists none",
               "check with 'nvidia-smi' on the host that this is the only process");
  else
    doctor_add(self, DEVICE, "other processes", others > 0 ? DOCTOR_MISSED : DOCTOR_OK,
               arena_printf(self->arena, "%d", others),
               "they take time and power from the measurement: end them, or choose another GPU "
               "with '--device'");
}

static const char *switch_name(CalibSwitch value) {
  static const char *const names[] = {"unknown", "off", "on"};
  return names[value];
}

static void add_switches(Doctor *self, const CalibDevice *device) {
  doctor_add(
      self, DEVICE, "ECC", device->ecc == CALIB_ON ? DOCTOR_OK : DOCTOR_NOTED,
      switch_name(device->ecc),
      "production servers enable ECC: enable it here, too ('nvidia-smi -e 1' and a restart)");
  if (device->ecc_errors > 0)
    doctor_add(self, DEVICE, "memory errors", DOCTOR_MISSED,
               arena_printf(self->arena, "%lld uncorrectable", (long long)device->ecc_errors),
               "restart the machine; if the errors return, the GPU is broken");
  doctor_add(self, DEVICE, "MIG",
             device->mig == CALIB_OFF  ? DOCTOR_OK
             : device->mig == CALIB_ON ? DOCTOR_MISSED
                                       : DOCTOR_NOTED,
             switch_name(device->mig),
             device->mig == CALIB_ON
                 ? "the device is a part of a GPU, but the peaks are those of a whole GPU: use "
                   "'nvidia-smi -mig 0', or a machine file for the part"
                 : NULL);
}

static void add_link(Doctor *self, const CalibDevice *device) {
  const int lanes = (int)device->pcie_width, most = (int)device->pcie_most;
  if (lanes <= 0 || most <= 0)
    doctor_add(self, DEVICE, "PCIe", DOCTOR_NOTED, "unknown", NULL);
  else
    doctor_add(self, DEVICE, "PCIe", lanes < most ? DOCTOR_MISSED : DOCTOR_OK,
               arena_printf(self->arena, "%d of %d lanes", lanes, most),
               "copies to the host are slower by that factor: reseat the card, or look for a riser "
               "or a slot that shares its lanes");
}

void doctor_device(Doctor *self, const CalibDevice *device, const Hardware *hardware) {
  add_names(self, device);
  if (device->sm == 0) return;
  add_peaks(self, device, hardware);
  doctor_company(self, device);
}

void doctor_company(Doctor *self, const CalibDevice *device) {
  if (device->sm == 0) return;
  add_memory(self, device);
  add_processes(self, device);
  add_switches(self, device);
  add_link(self, device);
}
