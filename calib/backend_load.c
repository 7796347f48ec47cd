/* Built-in backends, and the module. */
#include "calib/backend_load.h"
#include "sim/base/folder.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BACKEND(name) extern const Backend backend_##name;
#include "calib/backends.def"
#undef BACKEND

static const Backend *const built_in[] = {
#define BACKEND(name) &backend_##name,
#include "calib/backends.def"
#undef BACKEND
};
enum { N_BUILT_IN = sizeof built_in / sizeof *built_in };

static const char MODULE[] = "cuda";
static const char MODULE_FILE[] = "backend_cuda.so";
static const char MODULE_PATH[] = "TANDEM_BACKEND_CUDA";

const char *const backend_names[] = {
#define BACKEND(name) #name,
#include "calib/backends.def"
#undef BACKEND
    MODULE, NULL};

/* Where the module is; NULL when it is in none of the places. */
static const char *find_module(const char *folder, Arena *arena) {
  const char *const places[] = {"", "kernels/"};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    const char *path = arena_printf(arena, "%s%s%s", folder, places[i], MODULE_FILE);
    if (access(path, F_OK) == 0) return path;
  }
  return NULL;
}

static const Backend *check_module(void *module, const char *path, Diag *diag) {
  const Place at = place_of_file(path);
  BackendEntry entry = NULL;
  /* ISO C has no conversion from an object's pointer to a function's; POSIX promises their size. */
  void *symbol = dlsym(module, CALIB_ENTRY);
  memcpy(&entry, &symbol, sizeof entry);
  const Backend *backend = entry ? entry() : NULL;
  if (backend && backend->api_version == CALIB_API_VERSION) return backend;
  if (!entry)
    diag_environment(diag, at, "not a backend: it has no symbol '%s'", CALIB_ENTRY);
  else if (!backend)
    diag_environment(diag, at, "the backend's '%s' gives nothing", CALIB_ENTRY);
  else
    diag_environment(diag, at,
                     "the backend was built for version %u of the interface, this program has %d; "
                     "build both again",
                     (unsigned)backend->api_version, CALIB_API_VERSION);
  dlclose(module);
  return NULL;
}

/* What dlerror says, without the path that the entry shows already. */
static const char *load_error(const char *path) {
  const char *text = dlerror();
  if (!text) return "unknown reason";
  size_t length = strlen(path);
  if (strncmp(text, path, length) == 0 && strncmp(text + length, ": ", 2) == 0) text += length + 2;
  return text;
}

static const Backend *load_module(Arena *arena, Diag *diag) {
  const char *folder = folder_of_program(arena);
  const char *path = getenv(MODULE_PATH);
  if (!path || *path == '\0') path = find_module(folder, arena);
  if (!path) {
    diag_environment(diag, place_of_file(NULL), "no backend '%s': there is no '%s' beside '%s'",
                     MODULE, MODULE_FILE, folder);
    diag_hint(diag, "build with nvcc, or say where it is with %s", MODULE_PATH);
    return NULL;
  }
  /* Without a slash dlopen would search the system's folders. */
  if (!strchr(path, '/')) path = arena_printf(arena, "./%s", path);
  void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (module) return check_module(module, path, diag);
  diag_environment(diag, place_of_file(path), "cannot open the backend: %s", load_error(path));
  return NULL;
}

const Backend *backend_find(const char *name, Place at, Arena *arena, Diag *diag) {
  for (int i = 0; i < N_BUILT_IN; i++)
    if (strcmp(built_in[i]->name, name) == 0) return built_in[i];
  if (strcmp(name, MODULE) == 0) return load_module(arena, diag);
  diag_error(diag, at, "unknown backend '%s'", name);
  diag_hint_near(diag, name, backend_names);
  return NULL;
}

int backend_check_device(const CalibDevice *device, Place at, Diag *diag) {
  enum { LEAST_SM = 80 }; // A100: what the kernels are built for
  const int sm = (int)device->sm;
  if (sm == 0 || sm >= LEAST_SM) return 0;
  return diag_environment(diag, at, "'%s' has compute capability %d.%d, the kernels need %d.%d",
                          device->name, sm / 10, sm % 10, LEAST_SM / 10, LEAST_SM % 10);
}

int backend_failed(CalibStatus status, const char *error, Place at, Diag *diag) {
  if (status == CALIB_REJECTED) return diag_error(diag, at, "%s", error);
  return diag_environment(diag, at, "%s", error);
}
