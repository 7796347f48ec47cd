/* What a GPU needs of the host, looked for where drivers put it. */
#include "base/cleanup.h"
#include "experiments/doctor/doctor.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char HOST[] = "host";

static bool is_there(const Doctor *self, const char *root, const char *path) {
  return access(arena_printf(self->arena, "%s%s", root, path), F_OK) == 0;
}

/* The first line of a file; NULL without one. */
static const char *first_line(const Doctor *self, const char *root, const char *path) {
  char line[256];
  CLEANUP_FILE FILE *in = fopen(arena_printf(self->arena, "%s%s", root, path), "r");
  if (!in || !fgets(line, sizeof line, in)) return NULL;
  return arena_copy(self->arena, line, strcspn(line, "\n"));
}

/* PCI: the vendor's number, and the class of displays and of accelerators for computing. */
static bool is_gpu(const Doctor *self, const char *folder, const char *entry) {
  const char *vendor = first_line(self, folder, arena_printf(self->arena, "/%s/vendor", entry));
  const char *class = first_line(self, folder, arena_printf(self->arena, "/%s/class", entry));
  return vendor && class && strcmp(vendor, "0x10de") == 0 &&
         (strncmp(class, "0x03", 4) == 0 || strncmp(class, "0x12", 4) == 0);
}

/* −1: there is no list of the bus. */
static int count_gpus(const Doctor *self, const char *root) {
  const char *folder = arena_printf(self->arena, "%s/sys/bus/pci/devices", root);
  DIR *list = opendir(folder);
  int n = 0;
  if (!list) return -1;
  for (const struct dirent *entry; (entry = readdir(list));)
    n += entry->d_name[0] != '.' && is_gpu(self, folder, entry->d_name);
  closedir(list);
  return n;
}

/* The module of the kernel says its version in the first line: "NVRM version: NVIDIA UNIX x86_64
 * Kernel Module  570.86.15  …". */
static void add_driver(Doctor *self, const char *root, bool is_wsl) {
  const char *version = first_line(self, root, "/proc/driver/nvidia/version");
  if (version)
    doctor_add(self, HOST, "driver", DOCTOR_OK, version, NULL);
  else if (is_wsl)
    doctor_add(self, HOST, "driver", DOCTOR_OK, "Windows driver (WSL)", NULL);
  else
    doctor_add(
        self, HOST, "driver", DOCTOR_MISSED, "no kernel module is loaded",
        "install NVIDIA's driver; if it is installed, run 'modprobe nvidia' and read 'dmesg'");
}

static void add_files(Doctor *self, const char *root, bool is_wsl) {
  const bool control = is_there(self, root, "/dev/nvidiactl"), any = is_wsl || control;
  doctor_add(self, HOST, "device files", any ? DOCTOR_OK : DOCTOR_MISSED,
             is_wsl    ? "/dev/dxg"
             : control ? "/dev/nvidiactl"
                       : "neither /dev/nvidiactl nor /dev/dxg exists",
             "start the container with GPUs ('--gpus all'); without a container, run "
             "'nvidia-modprobe -u'");
}

/* Where the loader looks, as far as folders go; $LD_LIBRARY_PATH before all. */
static const char *find_library(const Doctor *self, const char *root, const char *name) {
  static const char *const folders[] = {"/usr/lib/x86_64-linux-gnu",
                                        "/usr/lib/aarch64-linux-gnu",
                                        "/usr/lib64",
                                        "/usr/lib",
                                        "/usr/lib/wsl/lib",
                                        "/usr/local/nvidia/lib64",
                                        "/run/opengl-driver/lib"};
  const char *own = getenv("LD_LIBRARY_PATH");
  while (own && *own) {
    const int length = (int)strcspn(own, ":");
    const char *path = arena_printf(self->arena, "%.*s/%s", length, own, name);
    if (length > 0 && access(path, F_OK) == 0) return path;
    own += length + (own[length] == ':');
  }
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    const char *path = arena_printf(self->arena, "%s/%s", folders[i], name);
    if (is_there(self, root, path)) return path;
  }
  return NULL;
}

static void add_library(Doctor *self, const char *root, const char *name, const char *advice) {
  const char *path = find_library(self, root, name);
  doctor_add(self, HOST, name, path ? DOCTOR_OK : DOCTOR_MISSED, path ? path : "not found", advice);
}

bool doctor_host(Doctor *self, const char *root) {
  const int gpus = count_gpus(self, root);
  const bool is_wsl = is_there(self, root, "/dev/dxg");
  const bool any = gpus > 0 || is_wsl || is_there(self, root, "/dev/nvidiactl") ||
                   is_there(self, root, "/proc/driver/nvidia/version");
  const char *found = gpus > 0   ? arena_printf(self->arena, "NVIDIA GPUs on the PCI bus: %d", gpus)
                      : any      ? "not visible on the PCI bus"
                      : gpus < 0 ? "none found; the PCI bus is not visible"
                                 : "no NVIDIA GPU on the PCI bus";
  doctor_add(self, HOST, "GPU", any ? DOCTOR_OK : DOCTOR_MISSED, found,
             "'--backend cpu' checks the processor; 'perfmodel: roofline' needs no measurements");
  if (!any) return false;
  add_driver(self, root, is_wsl);
  add_files(self, root, is_wsl);
  add_library(self, root, "libcuda.so.1",
              "it is part of the driver: install its compute libraries, or start the container "
              "with NVIDIA_DRIVER_CAPABILITIES=compute,utility");
  add_library(self, root, "libnvidia-ml.so.1",
              "it is part of the driver; without it, clocks and power are unknown");
  return true;
}
