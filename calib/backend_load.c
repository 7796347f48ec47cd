/* From a name to a program. */
#include "calib/backend_load.h"
#include "base/folder.h"
#include "calib/backend_process.h"
#include <string.h>
#include <unistd.h>

static const char PROGRAM[] = "tandem-calib-";

const char *const backend_names[] = {
#define BACKEND(name) #name,
#include "calib/backends.def"
#undef BACKEND
    NULL};

static bool is_listed(const char *name) {
  for (int i = 0; backend_names[i]; i++)
    if (strcmp(backend_names[i], name) == 0) return true;
  return false;
}

const char *backend_find(const char *name, Arena *arena) {
  static const char *const places[] = {"", "calib/", "kernels/"};
  const char *folder = folder_of_program(arena);
  if (strchr(name, '/')) return name;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    const char *path = arena_printf(arena, "%s%s%s%s", folder, places[i], PROGRAM, name);
    if (access(path, F_OK) == 0) return path;
  }
  return NULL;
}

/* NULL with an entry when it is in none of the places. */
static const char *find_program(const char *name, Place at, Arena *arena, Diag *diag) {
  const char *path = backend_find(name, arena);
  if (path) return path;
  if (!is_listed(name)) {
    diag_error(diag, at, "unknown backend '%s'", name);
    diag_hint_near(diag, name, backend_names);
    return NULL;
  }
  diag_environment(diag, place_of_file(NULL),
                   "backend '%s' is not installed: there is no '%s%s' beside '%s'%s", name, PROGRAM,
                   name, folder_of_program(arena),
                   strcmp(name, "cuda") == 0 ? "; a build on a machine with nvcc includes it" : "");
  return NULL;
}

/* An engine knows by itself what it runs on. */
static int check_device(const OpenBackend *self, Diag *diag) {
  enum { LEAST_SM = 80 }; // A100: what the kernels are built for
  const CalibDevice *device = &self->device;
  const int sm = (int)device->sm;
  if (sm == 0 || sm >= LEAST_SM || self->table->whole) return 0;
  return diag_environment(diag, place_of_file("--device"),
                          "device '%s' has compute capability %d.%d, the kernels need %d.%d",
                          device->name, sm / 10, sm % 10, LEAST_SM / 10, LEAST_SM % 10);
}

int backend_open(OpenBackend *self, const char *name, const CalibOptions *options, Place at,
                 Diag *diag) {
  Arena arena;
  *self = (OpenBackend){.table = NULL};
  arena_init(&arena);
  const char *path = find_program(name, at, &arena, diag);
  int status = path ? backend_process_open(self, path, options, diag) : -1;
  arena_done(&arena);
  if (status == 0 && check_device(self, diag)) {
    backend_close(self);
    status = -1;
  }
  return status;
}

void backend_close(OpenBackend *self) {
  if (self->table) self->table->close(self->state);
  self->table = NULL;
}

int backend_failed(CalibStatus status, const char *error, Place at, Diag *diag) {
  if (status == CALIB_REJECTED) return diag_error(diag, at, "%s", error);
  return diag_environment(diag, at, "%s", error);
}
